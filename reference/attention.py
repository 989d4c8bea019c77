"""Attention in float64 NumPy, the independent reference that every program here is checked against.

    S = scale * Q @ K.T      P = softmax(S)      O = P @ V      LSE = log(sum(exp(S)))

Arrays are [..., L, D]: [L, D] for one head, [batch, heads, L, D] for several. Any length is
allowed, and Lq may differ from Lkv. A fully masked row has O = 0 and LSE = -inf. Its maximum m =
-inf decides that, and not l = 0, because testing l would hide a real 0/0.

Besides the scale, every forward pass takes these modifiers of Q @ K.T, applied in this order:

    softcap c    S = c * tanh(S / c); 0: none
    slope        S = S - slope * |i + (Lkv - Lq) - j|, ALiBi: a number, or one per head, [heads, 1, 1]
    window L, R  query i sees key j if i + (Lkv - Lq) - L <= j <= i + (Lkv - Lq) + R; -1: no limit
    causal       R = 0: the last query sees every key
    tree         [..., Lq, Lq], of the last Lq tokens: query i sees token j only if tree[..., i, j],
                 and all keys before them

A sink is a score without a key. The softmax's sum counts it, and O does not. It is a number, or one per
head, [heads, 1]; -inf: none. The LSE contains it, so a fully masked row has O = 0 and LSE = sink.

`general` adds heads of K and V that several heads of Q share, and packed sequences.

Sources: online softmax, Milakov and Gimelshein 2018 (arXiv:1805.02867); tiles, FlashAttention, Dao
et al. 2022 (arXiv:2205.14135) and FlashAttention-2, Dao 2023 (arXiv:2307.08691); ALiBi, Press,
Smith and Lewis 2021 (arXiv:2108.12409); grouped heads, Ainslie et al. 2023 (arXiv:2305.13245);
sinks, OpenAI 2025 (gpt-oss, arXiv:2508.10925); trees, SpecInfer, Miao et al. 2023
(arXiv:2305.09781).
"""

from typing import Callable, Iterator, NamedTuple, Optional, Sequence, Tuple

import numpy as np

NEG_INF = -np.inf
NO_LIMITS = (-1, -1)  # no window


class Attention(NamedTuple):
    o: np.ndarray    # [..., Lq, D]
    lse: np.ndarray  # [..., Lq], natural logarithm


# ---- The softmax ladder on one row x[N] (all return a[N]) ----

def softmax_native(x: np.ndarray) -> np.ndarray:
    """e^x / sum e^x, two passes. Overflows to NaN once x passes 709 (float64)."""
    with np.errstate(over="ignore", invalid="ignore"):  # the lesson shows this overflow
        e = np.exp(np.asarray(x, np.float64))
        return e / e.sum()


def softmax_safe(x: np.ndarray) -> np.ndarray:
    """e^(x - max) / sum e^(x - max), in three passes, so that no exponent is above 0."""
    x = np.asarray(x, np.float64)
    e = np.exp(x - x.max())
    return e / e.sum()


def softmax_online(x: np.ndarray) -> np.ndarray:
    """Computes maximum and sum in one pass, where the sum is rescaled when the maximum grows."""
    m, l = NEG_INF, 0.0
    for x_i in np.asarray(x, np.float64):
        m_new = max(m, x_i)
        l = l * np.exp(m - m_new) + np.exp(x_i - m_new)
        m = m_new
    return np.exp(x - m) / l


# ---- Parts that the forward passes share ----

def default_scale(dim: int) -> float:
    return 1.0 / np.sqrt(dim)


def limits(causal: bool, window: Tuple[int, int] = NO_LIMITS) -> Tuple[int, int]:
    return (window[0], 0) if causal else tuple(window)


def tree_mask(parents: Sequence[int]) -> np.ndarray:
    """Returns what each token of a tree sees, [L, L]: itself, its parent (earlier; -1: none), the
    parent's parent, and so on."""
    seen = np.eye(len(parents), dtype=bool)
    for token, parent in enumerate(parents):
        if parent >= 0:
            seen[token] |= seen[parent]
    return seen


def modified(s: np.ndarray, causal=False, window=NO_LIMITS, softcap=0.0, slope=0.0,
             tree: Optional[np.ndarray] = None, offset: Optional[int] = None,
             first_query: int = 0) -> np.ndarray:
    """Returns the scores after all modifiers, from scaled products s[..., queries, keys], in the
    type of s.

    Key j = i + offset is on the diagonal of query i. The offset is Lkv - Lq, unless s is a tile. Row
    i of s is row first_query + i of the tree.
    """
    len_q, len_kv = s.shape[-2:]
    offset = len_kv - len_q if offset is None else offset
    # distance of a key to the diagonal
    distance = np.arange(len_kv) - (np.arange(len_q)[:, None] + offset)
    if softcap:  # before the mask, because tanh(-inf) = -1 would unmask keys
        s = s.dtype.type(softcap) * np.tanh(s / s.dtype.type(softcap))
    if np.any(slope):
        s = s - np.asarray(slope, s.dtype) * np.abs(distance).astype(s.dtype)
    left, right = limits(causal, window)
    hidden = np.zeros(distance.shape, bool)
    if left >= 0:
        hidden |= distance < -left
    if right >= 0:
        hidden |= distance > right
    if tree is not None:
        row = first_query + np.arange(len_q)[:, None]
        token = row + distance  # the key's; negative: before all of them
        hidden = hidden | (token >= 0) & ~tree[..., row, np.clip(token, 0, tree.shape[-1] - 1)]
    return np.where(hidden, s.dtype.type(NEG_INF), s) if hidden.any() else s


def scores(q: np.ndarray, k: np.ndarray, scale: Optional[float] = None, causal: bool = False,
           **modifiers) -> np.ndarray:
    """Returns S in float64, with masked keys at -inf: [..., Lq, Lkv]."""
    q, k = np.asarray(q, np.float64), np.asarray(k, np.float64)
    scale = default_scale(q.shape[-1]) if scale is None else scale
    return modified(scale * (q @ np.swapaxes(k, -1, -2)), causal, **modifiers)


def _zero_if_empty(m: np.ndarray) -> np.ndarray:
    """Returns the maximum to subtract, which is 0 for a fully masked row, because -inf - (-inf) is
    NaN."""
    return np.where(m == NEG_INF, 0.0, m)


def _finish(m: np.ndarray, l: np.ndarray, o: np.ndarray) -> Attention:
    """Returns O = o / l and LSE = m + log l from the state (m[..., Lq], l[..., Lq], o[..., Lq,
    D])."""
    l = np.where(m == NEG_INF, 1.0, l)
    return Attention(o / l[..., None], m + np.log(l))


def _start(s: np.ndarray, v: np.ndarray, sink=NEG_INF) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the state before the first key: m = -inf, l = 0, o = 0, or with a sink m = sink and
    l = 1."""
    rows = s.shape[:-1]
    m = np.broadcast_to(np.asarray(sink, np.float64), rows).copy()
    return m, np.where(m == NEG_INF, 0.0, 1.0), np.zeros(rows + v.shape[-1:])


# ---- The forward passes: six ways to one answer ----

def naive(q, k, v, scale=None, causal=False, sink=NEG_INF, **modifiers) -> Attention:
    """Computes exp(S) without a maximum, which is NaN once a score exceeds 709, or once all are below
    -745."""
    s, v = scores(q, k, scale, causal, **modifiers), np.asarray(v, np.float64)
    empty = np.maximum(s.max(axis=-1, initial=NEG_INF), sink) == NEG_INF
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        p = np.exp(s)
        l = np.where(empty, 1.0, p.sum(axis=-1) + np.exp(sink))
        return Attention(p @ v / l[..., None], np.where(empty, NEG_INF, np.log(l)))


def attend(s: np.ndarray, v: np.ndarray, sink=NEG_INF) -> Attention:
    """Returns softmax(S) @ V from stored scores, in the type of S: maximum, sum, weights."""
    sink = np.asarray(sink, s.dtype)
    m = np.maximum(s.max(axis=-1, initial=NEG_INF), sink)
    p = np.exp(s - _zero_if_empty(m)[..., None])
    return _finish(m, p.sum(axis=-1) + np.exp(sink - _zero_if_empty(m)), p @ v)


def safe(q, k, v, scale=None, causal=False, sink=NEG_INF, **modifiers) -> Attention:
    """Makes three passes over a stored S: maximum, sum, weights. The checker uses this form."""
    return attend(scores(q, k, scale, causal, **modifiers), np.asarray(v, np.float64), sink)


def _online_max_and_sum(s: np.ndarray, sink=NEG_INF) -> Tuple[np.ndarray, np.ndarray]:
    """Returns the row maximum and the sum of exp(S - m), computed key by key in one pass."""
    m, l, _ = _start(s, s, sink)
    for j in range(s.shape[-1]):
        m_new = np.maximum(m, s[..., j])
        shift = _zero_if_empty(m_new)
        l = l * np.exp(m - shift) + np.exp(s[..., j] - shift)
        m = m_new
    return m, l


def online(q, k, v, scale=None, causal=False, sink=NEG_INF, **modifiers) -> Attention:
    """Computes maximum and sum in one pass over S, stores the weights, then multiplies them with
    V."""
    s, v = scores(q, k, scale, causal, **modifiers), np.asarray(v, np.float64)
    m, l = _online_max_and_sum(s, sink)
    return _finish(m, l, np.exp(s - _zero_if_empty(m)[..., None]) @ v)


def two_pass(q, k, v, scale=None, causal=False, sink=NEG_INF, **modifiers) -> Attention:
    """Computes maximum and sum online, then accumulates O key by key, so that no weights are
    stored."""
    s, v = scores(q, k, scale, causal, **modifiers), np.asarray(v, np.float64)
    o = _start(s, v)[2]
    m, l = _online_max_and_sum(s, sink)
    for j in range(s.shape[-1]):
        o += np.exp(s[..., j] - _zero_if_empty(m))[..., None] * v[..., None, j, :]
    return _finish(m, l, o)


def tiled(q, k, v, scale=None, causal=False, block_q: int = 64, block_kv: int = 64, sink=NEG_INF,
          **modifiers) -> Attention:
    """Uses the order of FlashAttention-2: for each block of queries, one pass over the blocks of
    keys."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    len_q, len_kv = q.shape[-2], k.shape[-2]
    o_out = np.empty(q.shape[:-1] + v.shape[-1:])
    lse_out = np.empty(q.shape[:-1])
    for i in range(0, len_q, block_q):
        q_i = q[..., i:i + block_q, :]
        m, l, o = _start(q_i, v, sink)
        for j in range(0, len_kv, block_kv):
            s = scores(q_i, k[..., j:j + block_kv, :], scale, causal,  # [..., rows, keys of this tile]
                       offset=i + (len_kv - len_q) - j, first_query=i, **modifiers)
            m_new = np.maximum(m, s.max(axis=-1))
            shift = _zero_if_empty(m_new)
            rescale = np.exp(m - shift)                            # 0 before the first visible key
            p = np.exp(s - shift[..., None])
            l = l * rescale + p.sum(axis=-1)
            o = o * rescale[..., None] + p @ v[..., j:j + block_kv, :]
            m = m_new
        o_out[..., i:i + block_q, :], lse_out[..., i:i + block_q] = _finish(m, l, o)
    return Attention(o_out, lse_out)


def one_pass(q, k, v, scale=None, causal=False, **options) -> Attention:
    """Computes maximum, sum and output in one pass, key by key, so that a tile has one key."""
    return tiled(q, k, v, scale, causal, max(1, np.shape(q)[-2]), 1, **options)


FORWARD = {"naive": naive, "safe": safe, "online": online, "two-pass": two_pass,
           "one-pass": one_pass, "tiled": tiled}


# ---- Grouped heads and packed sequences ----

def alibi_slopes(heads: int) -> np.ndarray:
    """Returns what get_slopes of ALiBi's authors does: 2^(-8 (h + 1) / p) for the first p heads,
    where p is the largest power of two that is at most `heads`. The others have every second slope
    of 2 p heads."""
    power = 1 << heads.bit_length() - 1
    steps = np.arange(1, heads + 1, dtype=float)
    steps[power:] -= power + 0.5
    return np.exp2(-8.0 * steps / power)


def sequences(cu_seqlens_q: Sequence[int], cu_seqlens_k: Sequence[int]
              ) -> Iterator[Tuple[slice, slice]]:
    """Yields the queries and keys of each packed sequence, from one entry of cu_seqlens to the
    next."""
    for n in range(len(cu_seqlens_q) - 1):
        yield slice(*cu_seqlens_q[n:n + 2]), slice(*cu_seqlens_k[n:n + 2])


def general(q, k, v, forward: Callable[..., Attention] = safe, alibi: bool = False,
            cu_seqlens_q: Optional[Sequence[int]] = None,
            cu_seqlens_k: Optional[Sequence[int]] = None, sinks=None, **options) -> Attention:
    """A forward pass on [B,H,L,D] in which head h of Q uses head h // (H / Hkv) of K and V. sinks:
    [H].

    With cu_seqlens, the tensors are [1,H,sum of L,D], and the queries of a sequence see only the
    keys of that sequence. A mask is aligned to the ends of each sequence.
    """
    heads = q.shape[1]
    k, v = (np.repeat(x, heads // x.shape[1], axis=1) for x in (k, v))
    if alibi:
        options["slope"] = alibi_slopes(heads)[:, None, None]
    if sinks is not None:
        options["sink"] = np.asarray(sinks)[:, None]
    if cu_seqlens_q is None:
        return forward(q, k, v, **options)
    parts = [forward(q[:, :, queries], k[:, :, keys], v[:, :, keys], **options)
             for queries, keys in sequences(cu_seqlens_q, cu_seqlens_k)]
    return Attention(np.concatenate([part.o for part in parts], axis=2),
                     np.concatenate([part.lse for part in parts], axis=2))


# ---- 16-bit types, and the yardstick for kernels that compute in them ----

def round_bf16(x: np.ndarray) -> np.ndarray:
    """Returns x rounded to bfloat16 (by way of float32, to nearest, ties to even) as float32.

    bfloat16 is the upper half of a float32. Adding 0x7fff, and 1 more if the kept part is odd,
    carries into it exactly when the dropped half is more than one half, or equal to it and the kept
    part is odd. Infinities stay. A NaN is truncated instead, because it must not carry into
    infinity.
    """
    with np.errstate(over="ignore"):
        x = np.asarray(x).astype(np.float32)
    bits = x.view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = (bits + np.uint32(0x7FFF) + odd) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), np.float32(np.nan), rounded.view(np.float32))


def round_to(x: np.ndarray, dtype: str) -> np.ndarray:
    """Returns x rounded to bf16, f16, f32 or f64. 16-bit values are stored as float32."""
    if dtype == "bf16":
        return round_bf16(x)
    with np.errstate(over="ignore"):  # a value above the type's largest becomes infinite
        if dtype == "f16":
            return np.asarray(x).astype(np.float32).astype(np.float16).astype(np.float32)
        return np.asarray(x).astype({"f32": np.float32, "f64": np.float64}[dtype])


def ulp(magnitude: float, dtype: str) -> float:
    """Returns one unit in the last place of `dtype` at this magnitude."""
    mantissa_bits, smallest_exponent = {
        "bf16": (7, -126), "f16": (10, -14), "f32": (23, -126), "f64": (52, -1022)}[dtype]
    exponent = int(np.frexp(magnitude)[1]) - 1 if magnitude > 0 else smallest_exponent
    return float(np.ldexp(1.0, max(exponent, smallest_exponent) - mantissa_bits))


def plain(q, k, v, dtype: str, scale=None, causal=False, sink=NEG_INF, **modifiers) -> Attention:
    """Plain attention in float32 with P and O rounded to `dtype`: the yardstick for kernels.
    Returns float32.

    FlashAttention's own tests compare their kernels with plain attention that also rounds S, as a
    framework does; a kernel's error must be at most twice as large. But bf16 scores in the hundreds
    are off by 1 and their weights by a factor of e, so that almost any error passes. Kernels keep S
    in float32, and therefore this function does so too. With "f32" nothing is rounded further.
    """
    q, k, v = (round_to(x, dtype) for x in (q, k, v))
    scale = np.float32(default_scale(q.shape[-1]) if scale is None else scale)
    with np.errstate(over="ignore", invalid="ignore"):
        s = modified(scale * (q @ np.swapaxes(k, -1, -2)), causal, **modifiers)
    sink = np.asarray(sink, np.float32)
    m = np.maximum(s.max(axis=-1, initial=NEG_INF), sink)
    shift = np.where(m == NEG_INF, np.float32(0), m)
    with np.errstate(invalid="ignore"):  # a score that overflowed becomes NaN
        p = np.exp(s - shift[..., None])
        l = np.where(m == NEG_INF, np.float32(1), p.sum(axis=-1) + np.exp(sink - shift))
        o = round_to(round_to(p / l[..., None], dtype) @ v, dtype)
        return Attention(o, m + np.log(l))


# ---- The backward pass ----

class Gradients(NamedTuple):
    dq: np.ndarray  # [..., Lq, D]
    dk: np.ndarray  # [..., Lkv, D]
    dv: np.ndarray  # [..., Lkv, D]


class Terms(NamedTuple):
    """The terms of the gradients, [..., Lq, Lkv] or [..., Lq]. Masked keys have P = dS = 0."""
    s: np.ndarray  # -inf where masked
    lse: np.ndarray
    o: np.ndarray    # [..., Lq, D]
    p: np.ndarray    # exp(S - LSE)
    dp: np.ndarray   # dO @ V.T
    d: np.ndarray    # rowsum(dO * O)
    ds: np.ndarray  # P * (dP - D); with a softcap, times 1 - tanh^2 of the scaled products


def backward_terms(q, k, v, do, dtype: str = "f64", scale=None, causal=False, sink=NEG_INF,
                   **modifiers) -> Terms:
    """Computes the terms in float64, or in float32 with the O of `plain` as the yardstick for
    kernels in another `dtype`. Dao et al. 2022, appendix B."""
    real = np.float64 if dtype == "f64" else np.float32
    q, k, v, do = (round_to(x, dtype).astype(real) for x in (q, k, v, do))
    scale = real(default_scale(q.shape[-1]) if scale is None else scale)
    products = scale * (q @ np.swapaxes(k, -1, -2))
    s = modified(products, causal, **modifiers)
    o, lse = (attend(s, v, sink) if dtype == "f64" else
              plain(q, k, v, dtype, scale, causal, sink, **modifiers))
    p = np.exp(s - _zero_if_empty(lse).astype(real)[..., None])
    dp, d = do @ np.swapaxes(v, -1, -2), (do * o).sum(axis=-1)
    ds = p * (dp - d[..., None])
    softcap = modifiers.get("softcap", 0.0)
    if softcap:
        ds = ds * (1 - np.tanh(products / real(softcap))**2)
    return Terms(s, lse, o, p, dp, d, ds)


def gradients_of(terms: Terms, q, k, do, dtype: str = "f64", scale=None) -> Gradients:
    """Returns dQ = scale dS K, dK = scale dS^T Q, dV = P^T dO. P and dS are rounded to `dtype` as
    operands. The results are not rounded yet, because heads of Q that share a head of K and V are
    added first."""
    real = terms.p.dtype.type
    scale = real(default_scale(q.shape[-1]) if scale is None else scale)
    q, k, do = (round_to(x, dtype).astype(real) for x in (q, k, do))
    p, ds = round_to(terms.p, dtype), round_to(terms.ds, dtype)
    return Gradients(scale * (ds @ k), scale * (np.swapaxes(ds, -1, -2) @ q),
                     np.swapaxes(p, -1, -2) @ do)


def backward(q, k, v, do, dtype: str = "f64", alibi: bool = False,
             cu_seqlens_q: Optional[Sequence[int]] = None,
             cu_seqlens_k: Optional[Sequence[int]] = None, sinks=None, **options) -> Gradients:
    """Returns the gradients of sum(dO * O) on [B,H,L,D], with the options of `general`. dK and dV
    have the shapes of K and V and are summed over the heads of Q that share them. They are computed
    in float64, or as in plain attention (see `backward_terms`) and rounded to `dtype`."""
    heads, kv_heads = q.shape[1], k.shape[1]
    group = heads // kv_heads
    if alibi:
        options["slope"] = alibi_slopes(heads)[:, None, None]
    if sinks is not None:
        options["sink"] = np.asarray(sinks)[:, None]
    if cu_seqlens_q is None:
        cu_seqlens_q, cu_seqlens_k = (0, q.shape[2]), (0, k.shape[2])
    parts = []
    for queries, keys in sequences(cu_seqlens_q, cu_seqlens_k):
        q_n, do_n = q[:, :, queries], do[:, :, queries]
        k_n, v_n = (np.repeat(x[:, :, keys], group, axis=1) for x in (k, v))
        terms = backward_terms(q_n, k_n, v_n, do_n, dtype, **options)
        parts.append(gradients_of(terms, q_n, k_n, do_n, dtype, options.get("scale")))
    dq, dk, dv = (np.concatenate(tensors, axis=2) for tensors in zip(*parts))

    def over_group(x):
        return x.reshape(x.shape[0], kv_heads, group, *x.shape[2:]).sum(axis=2)
    return Gradients(*(round_to(x, dtype) for x in (dq, over_group(dk), over_group(dv))))


def sink_gradient(sinks, lse: np.ndarray, o: np.ndarray, do: np.ndarray) -> np.ndarray:
    """Returns the gradient of sum(dO * O) by the sinks, [H], from LSE [B,H,L] and O [B,H,L,D].

    A sink has the weight P = exp(sink - LSE) and no value, so its dP is 0 and its dS = P * (0 - D).
    """
    sinks, d = np.asarray(sinks, np.float64)[:, None], (do * o).sum(axis=-1)
    return -(np.exp(sinks - _zero_if_empty(lse)) * d).sum(axis=(0, 2))


# ---- Long inputs: blocks of rows, so that S is never stored whole ----

def row_blocks(len_q: int, len_kv: int, window: Tuple[int, int] = NO_LIMITS,
               max_scores: int = 1 << 22) -> Iterator[Tuple[slice, slice, int]]:
    """Yields query rows, the keys that they need (at most `max_scores` scores per block), and the
    offset of the block's diagonal, for `modified`."""
    left, right = window
    rows = max(1, max_scores // max(1, len_kv))
    for first in range(0, len_q, rows):
        last = min(first + rows, len_q)
        offset = len_kv - len_q
        begin = 0 if left < 0 else min(max(0, first + offset - left), len_kv)
        end = len_kv if right < 0 else min(max(begin, last + offset + right), len_kv)
        yield slice(first, last), slice(begin, end), first + offset - begin
