"""Attention in 8 and 4 bits, simulated, the independent reference for chapter 17's `accuracy`.

    S = scale * Q @ K.T      P = exp(S - m)      O = P @ V / rowsum P

Q and K, and then P and V, are rounded to a type with few bits. m is the running maximum over tiles
of 64 keys. Each scheme of SCHEMES has the fields of chapter 17's `Scheme`. Arrays are those of one
head, [L, D].

Formats: OCP 8-bit Floating Point 1.0, OCP Microscaling Formats 1.0, NVFP4 as NVIDIA describes it.
Groups: SageAttention2 (arXiv:2411.10958); scaling of P, rotation: FlashAttention-3
(arXiv:2407.08608); sums of the tensor core: DeepSeek-V3's report (arXiv:2412.19437).
"""

from typing import NamedTuple, Optional

import numpy as np

TILE = 64
f32 = np.float32


def numbers_of(exponent_bits: int, mantissa_bits: int, count: int) -> np.ndarray:
    """Returns the first `count` non-negative numbers of a floating-point type, in the order of
    their codes."""
    codes = np.arange(count)
    exponent, mantissa = codes >> mantissa_bits, codes % (1 << mantissa_bits)
    bias = (1 << (exponent_bits - 1)) - 1
    return np.where(exponent == 0, mantissa, mantissa + (1 << mantissa_bits)) * 2.0 ** (
        np.maximum(exponent, 1) - bias - mantissa_bits)


E4M3 = numbers_of(4, 3, 0x7f)
E2M1 = numbers_of(2, 1, 8)


def to_numbers(x: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Returns the nearest of `numbers` or their negatives. A tie goes to the number with the even
    code, and larger values become the last number."""
    x = np.asarray(x, np.float64)
    magnitude = np.where(np.isnan(x), 0, np.minimum(np.abs(x), numbers[-1]))
    above = np.searchsorted(numbers, magnitude)  # the first that is not smaller
    below = np.maximum(above - 1, 0)
    down, up = magnitude - numbers[below], numbers[above] - magnitude
    chosen = np.where((up < down) | ((up == down) & (above % 2 == 0)), above, below)
    return np.where(np.isnan(x), np.nan, np.copysign(numbers[chosen], x)).astype(f32)


def to_bf16(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x, f32)
    step = np.ldexp(1.0, np.frexp(x.astype(np.float64))[1] - 8)
    return (np.rint(x / step) * step).astype(f32)


def round_to(kind: str, x: np.ndarray) -> np.ndarray:
    if kind == "fp16":
        return np.asarray(x, np.float16).astype(f32)
    return to_bf16(x) if kind == "bf16" else to_numbers(x, E4M3)


def blocks_of(x: np.ndarray, size: int) -> np.ndarray:
    """Reshapes [rows, columns] to [rows, blocks, size] and pads with zeros."""
    rows, columns = x.shape
    padded = np.zeros((rows, -(-columns // size) * size), f32)
    padded[:, :columns] = x
    return padded.reshape(rows, -1, size)


def mxfp8(x: np.ndarray) -> np.ndarray:
    blocks = blocks_of(x, 32)
    largest = np.abs(blocks).max(-1, keepdims=True).astype(np.float64)
    scale = np.where(largest == 0, 1, 2.0 ** (np.frexp(largest)[1] - 1 - 8))
    return (to_numbers(blocks / scale, E4M3) * scale).reshape(len(x), -1)[:, :x.shape[1]].astype(f32)


def nvfp4(x: np.ndarray, largest: float) -> np.ndarray:
    """Rounds to NVFP4. `largest` is that of the tensor, which its scale must represent."""
    tensor_scale = f32(largest) / f32(6 * 448)
    blocks = blocks_of(x, 16)
    wanted = np.abs(blocks).max(-1, keepdims=True) / f32(6) / tensor_scale
    scale = to_numbers(wanted, E4M3) * tensor_scale
    with np.errstate(divide="ignore", invalid="ignore"):
        rounded = np.where(scale == 0, 0, to_numbers(np.where(scale == 0, 0, blocks / scale), E2M1) * scale)
    return rounded.reshape(len(x), -1)[:, :x.shape[1]].astype(f32)


def group_numbers(rows: int, grain: str, is_query: bool) -> np.ndarray:
    """Returns the group of each row: [rows]."""
    row = np.arange(rows)
    if grain == "tensor":
        return row * 0
    tile = row // ((128 if grain == "block" else 32) if is_query else 64)
    if grain != "thread":
        return tile
    return tile * 8 + (row % 8 if is_query else row % 8 // 2)


def quantize(x: np.ndarray, kind: str, grain: str, is_query: bool):
    """Returns the multiples of the scales, and the scale of each row."""
    groups = group_numbers(len(x), grain, is_query)
    largest = np.array([np.abs(x[groups == group]).max() for group in groups], f32)
    most = f32(127 if kind == "int8" else 448)
    with np.errstate(over="ignore"):  # `largest` may be subnormal
        inverse = np.minimum(most / np.where(largest == 0, 1, largest), np.finfo(f32).max)
    codes = x * np.where(largest == 0, 0, inverse)[:, None]
    return np.rint(codes) if kind == "int8" else to_numbers(codes, E4M3), largest / most


def rotation(dim: int, seed: int) -> np.ndarray:
    """Returns [D, D], which is random signs, then the normalised Walsh-Hadamard matrix."""
    signs, state, mask = [], 2 * seed + 1, (1 << 64) - 1
    for _ in range(dim):  # xorshift64*
        state ^= state >> 12
        state ^= state << 25 & mask
        state ^= state >> 27
        signs.append(-1.0 if state * 0x2545f4914f6cdd1d & 1 << 63 else 1.0)
    hadamard = np.ones((1, 1))
    while len(hadamard) < dim:
        hadamard = np.block([[hadamard, hadamard], [hadamard, -hadamard]])
    return np.array(signs)[:, None] * hadamard / np.sqrt(dim)


def tensor_core_add(total: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns total [n] + a [k] @ b [k, n] for e4m3, 32 products at a time, as an H200 adds them.
    All terms are truncated 13 bits below the largest exponent (a product's is the sum of its
    factors', a subnormal's is -6), then the sum 13 bits below its own exponent."""
    def exponent(x, least):
        return np.where(x == 0, -1000, np.maximum(np.frexp(x)[1] - 1, least))

    for first in range(0, len(a), 32):
        a32, b32 = a[first:first + 32, None].astype(np.float64), b[first:first + 32]
        largest = np.maximum(exponent(total, -100), (exponent(a32, -6) + exponent(b32, -6)).max(0))
        quantum = 2.0 ** (np.maximum(largest, -100) - 13)
        total = np.trunc(total / quantum) * quantum + (np.trunc(a32 * b32 / quantum) * quantum).sum(0)
        quantum = 2.0 ** (exponent(total, -100) - 13)
        total = np.where(total == 0, 0, np.trunc(total / np.where(total == 0, 1, quantum)) * quantum)
    return total


class Scheme(NamedTuple):
    qk: str = "bf16"
    grain: str = "tensor"
    smooth: bool = False
    hadamard: bool = False
    pv: str = "bf16"
    p_largest: float = 1
    stay: int = 1  # tiles that O stays in the tensor core, or 0 for all
    smooth_v: bool = False


def _schemes() -> dict:
    schemes = {"fp16": Scheme("fp16", pv="fp16"), "bf16": Scheme()}
    for grain in ("tensor", "block", "warp", "thread"):
        schemes[f"int8-{grain}"] = Scheme("int8", grain)
        schemes[f"int8-{grain}-smooth"] = Scheme("int8", grain, smooth=True)
    block = Scheme("e4m3", "block", pv="e4m3", p_largest=256)
    tensor = block._replace(grain="tensor")
    return schemes | {
        "fp8-tensor": tensor, "fp8-block": block,
        "fp8-block-smooth": block._replace(smooth=True),
        "fp8-tensor-hadamard": tensor._replace(hadamard=True),
        "fp8-block-hadamard": block._replace(hadamard=True),
        "fp8-block-smooth-hadamard": block._replace(smooth=True, hadamard=True),
        "fp8-block-unscaled": block._replace(p_largest=1),
        "fp8-block-one-level": block._replace(stay=0),
        "fp8-block-1024-keys": block._replace(stay=16),
        "fp8-kernel": block._replace(smooth=True, p_largest=32, stay=2, smooth_v=True),
        "fp8-qk-only": Scheme("e4m3", "block"),
        "mxfp8": Scheme("mxfp8", pv="mxfp8"),
        "nvfp4-qk-only": Scheme("nvfp4"), "nvfp4": Scheme("nvfp4", pv="nvfp4"),
        "nvfp4-smooth": Scheme("nvfp4", smooth=True, pv="nvfp4")}


SCHEMES = _schemes()


def operand(x: np.ndarray, scheme: Scheme, is_query: bool):
    ones = np.ones(len(x), f32)
    if scheme.qk in ("int8", "e4m3"):
        return quantize(x, scheme.qk, scheme.grain, is_query)
    if scheme.qk == "mxfp8":
        return mxfp8(x), ones
    if scheme.qk == "nvfp4":
        return nvfp4(x, np.abs(x).max()), ones
    return round_to(scheme.qk, x), ones


def weights(p: np.ndarray, scheme: Scheme) -> np.ndarray:
    if scheme.pv == "mxfp8":
        return mxfp8(p)
    if scheme.pv == "nvfp4":
        return nvfp4(p, 1)
    return round_to(scheme.pv, p * f32(scheme.p_largest))


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, scheme: Scheme, seed: Optional[int] = 1) -> np.ndarray:
    """Returns O [Lq, D], rounded to bf16 (fp16 in the fp16 scheme). q, k and v are float32."""
    if scheme.smooth:
        k = k - k.mean(0, dtype=np.float64).astype(f32)
    if scheme.hadamard:
        matrix = rotation(q.shape[1], seed)
        q, k = ((x.astype(np.float64) @ matrix).astype(f32) for x in (q, k))
    (q, q_scales), (k, k_scales) = operand(q, scheme, True), operand(k, scheme, False)
    v_scale, v_mean = f32(1), f32(0)
    if scheme.smooth_v:
        v_mean = v.mean(0, dtype=np.float64).astype(f32)
        v = v - v_mean
    if scheme.pv == "e4m3":
        v_scale = np.maximum(np.abs(v).max() / f32(448), np.finfo(f32).smallest_subnormal)
        v = to_numbers(v / v_scale, E4M3)
    elif scheme.pv == "mxfp8":
        v = mxfp8(v.T).T
    elif scheme.pv == "nvfp4":
        v = nvfp4(v.T, np.abs(v).max()).T
    else:
        v = round_to(scheme.pv, v)

    scale = f32(1) / np.sqrt(f32(q.shape[1]))
    m, total = np.full(len(q), -np.inf, f32), np.zeros(len(q), f32)
    o = np.zeros((len(q), v.shape[1]), f32)
    core = np.zeros_like(o)  # accumulated in the tensor core
    for first in range(0, len(k), TILE):
        k_tile, v_tile = k[first:first + TILE], v[first:first + TILE]
        if scheme.qk == "e4m3":
            s = np.array([tensor_core_add(np.zeros(len(k_tile)), row, k_tile.T) for row in q])
        else:
            s = q.astype(np.float64) @ k_tile.T.astype(np.float64)
        s = s.astype(f32) * (q_scales[:, None] * k_scales[None, first:first + TILE] * scale)
        m_new = np.maximum(m, s.max(1))
        rescale = np.exp(m.astype(np.float64) - m_new).astype(f32)
        m = m_new
        p = np.exp(s.astype(np.float64) - m[:, None]).astype(f32)
        total = (total * rescale.astype(np.float64) + p.sum(1, dtype=np.float64)).astype(f32)
        p, o = weights(p, scheme), o * rescale[:, None]
        if scheme.pv != "e4m3":
            o = (o + p.astype(np.float64) @ v_tile.astype(np.float64)).astype(f32)
            continue
        core = core * rescale[:, None]
        for i, row in enumerate(p):
            core[i] = tensor_core_add(core[i].astype(np.float64), row, v_tile).astype(f32)
        if scheme.stay and (first // TILE + 1) % scheme.stay == 0:
            o, core = o + core, np.zeros_like(o)
    factor = (np.float64(v_scale) / (total.astype(np.float64) * scheme.p_largest))[:, None]
    o = ((o + core) * factor + v_mean).astype(f32)
    return round_to("fp16" if scheme.pv == "fp16" else "bf16", o)


def exact(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    s = q @ k.T / np.sqrt(q.shape[1])
    p = np.exp(s - s.max(1, keepdims=True))
    return p @ v / p.sum(1, keepdims=True)


def errors(got: np.ndarray, expected: np.ndarray) -> dict:
    """SageAttention's three measures."""
    got = got.astype(np.float64)
    difference = got - expected
    return {"rmse": np.sqrt((difference ** 2).mean()),
            "cosine": (got * expected).sum() / np.sqrt((got ** 2).sum() * (expected ** 2).sum()),
            "relative_l1": np.abs(difference).sum() / np.abs(expected).sum()}
