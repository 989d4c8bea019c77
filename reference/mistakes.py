"""Names the mistake that explains a wrong output. It computes the results of common mistakes.

A mistake is named if it explains the output. On sampled rows, the distance from the output to the
mistake's result must be a small part of its distance to the right answer, and of the variation of
the mistake's result. A pattern that a mistake merely might leave is never enough.
"""

import itertools
from functools import lru_cache
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from attention import NEG_INF, NO_LIMITS, round_to
from problem import Problem

EXPLAINED = 0.2  # part of the distance to the right answer that may remain
SAMPLED_ROWS = 48
SAMPLE_BUDGET = 1e8  # elements of K to read for the sampled rows of one mistake


class Head(NamedTuple):
    """One head of one sequence in float64, as a program reads it, correctly or not."""
    q: np.ndarray   # [Lq, D]
    k: np.ndarray   # [Lkv, D]
    v: np.ndarray   # [Lkv, D]
    scale: float
    softcap: float
    slope: float
    first: float    # query i sees keys i + first to i + last
    last: float
    sink: float = NEG_INF
    tree: Optional[np.ndarray] = None  # [Lq, Lq], what the last tokens see of each other


class Place(NamedTuple):
    """A row of O."""
    b: int
    h: int
    i: int


Heads = Callable[[Place], Tuple[Head, int]]  # maps a row of O to its head and its index there
RowOf = Callable[[Head, int], np.ndarray]    # (head, i) -> row i of O, [D]


class Mistake(NamedTuple):
    sentence: str
    # returns the row that a program with this mistake writes there
    row_at: Callable[[Heads, Place], np.ndarray]


def scores_of(head: Head, i: int) -> np.ndarray:
    """Returns the scores of query i with all keys, where -inf is masked."""
    s = head.scale * (head.k @ head.q[i])
    if head.softcap:
        s = head.softcap * np.tanh(s / head.softcap)
    from_i = np.arange(len(head.k)) - i
    if head.slope:
        s = s - head.slope * np.abs(from_i - (len(head.k) - len(head.q)))
    seen = (head.first <= from_i) & (from_i <= head.last)
    if head.tree is not None:
        seen[len(head.k) - len(head.q):] &= head.tree[i]
    return np.where(seen, s, NEG_INF)


def weighted(s: np.ndarray, v: np.ndarray, sink: float = NEG_INF) -> np.ndarray:
    """Returns softmax(s) @ v, or 0 if all keys are masked."""
    m = s.max(initial=sink)
    if m == NEG_INF:
        return np.zeros(v.shape[-1])
    p = np.exp(s - m)
    return p @ v / (p.sum() + np.exp(sink - m))


def right_row(head: Head, i: int) -> np.ndarray:
    return weighted(scores_of(head, i), head.v, head.sink)


# ---- Mistakes in one row ----

def changed_row(change: Callable[[Head], dict]) -> RowOf:
    """Returns a correct row for a head that differs from the true one by `change`."""
    return lambda head, i: right_row(head._replace(**change(head)), i)


def unnormalised_row(head: Head, i: int) -> np.ndarray:
    s = scores_of(head, i)
    m = s.max(initial=NEG_INF)
    return np.exp(s - (0 if m == NEG_INF else m)) @ head.v


def no_max_unnormalised_row(head: Head, i: int) -> np.ndarray:
    return np.exp(np.minimum(scores_of(head, i), 700.0)) @ head.v


def no_softmax_row(head: Head, i: int) -> np.ndarray:
    s = scores_of(head, i)
    return np.where(s == NEG_INF, 0.0, s) @ head.v


def base_2_row(head: Head, i: int) -> np.ndarray:
    return weighted(scores_of(head, i) * np.log(2.0), head.v)


def leaking_tail_row(tile: int) -> RowOf:
    def row(head: Head, i: int) -> np.ndarray:
        padding = -len(head.k) % tile
        s = np.concatenate([scores_of(head, i), np.zeros(padding)])  # zero-filled keys score 0
        return weighted(s, np.concatenate([head.v, np.zeros((padding, head.v.shape[1]))]))
    return row


def no_rescale_row(tile: int, running: bool) -> RowOf:
    """Adds up each tile's weights relative to its own (or the running) maximum, without
    rescaling."""
    def row(head: Head, i: int) -> np.ndarray:
        s = scores_of(head, i)
        maxima = np.array([s[j:j + tile].max() for j in range(0, len(s), tile)])
        if not len(s) or maxima.max() == NEG_INF:
            return np.zeros(head.v.shape[-1])
        if running:
            maxima = np.maximum.accumulate(maxima)
        maxima[maxima == NEG_INF] = 0  # maxima of masked keys
        p = np.exp(s - np.repeat(maxima, tile)[:len(s)])
        return p @ head.v / p.sum()
    return row


def late_softcap_row(head: Head, i: int) -> np.ndarray:
    """With a softcap after the mask, masked keys score c tanh(-inf) = -c."""
    s = scores_of(head, i)
    return weighted(np.where(s == NEG_INF, -head.softcap, s), head.v)


def sink_of_weight_1_row(head: Head, i: int) -> np.ndarray:
    """The sink is added to l as 1, relative to the final maximum of the keys."""
    s = scores_of(head, i)
    return weighted(s, head.v, s.max(initial=NEG_INF))


def reread(matrix: np.ndarray) -> np.ndarray:
    """Reads the bytes of the transposed matrix as the matrix."""
    return np.ascontiguousarray(matrix.T).reshape(matrix.shape)


def average_without_keys_row(head: Head, i: int) -> np.ndarray:
    unseeing = len(head.k) and (scores_of(head, i) == NEG_INF).all()
    return head.v.mean(axis=0) if unseeing else right_row(head, i)


# ---- Mistakes in the choice of row or head ----

def in_row(sentence: str, row: RowOf) -> Mistake:
    return Mistake(sentence, lambda heads, at: row(*heads(at)))


def in_head(sentence: str, change: Callable[[Head], dict]) -> Mistake:
    return in_row(sentence, changed_row(change))


def head_0_row(heads: Heads, at: Place) -> np.ndarray:
    (head, i), (first, _) = heads(at), heads(at._replace(h=0))
    return right_row(head._replace(k=first.k, v=first.v), i)


def seen(window: Tuple[int, int], offset: int) -> Tuple[float, float]:
    """Returns `first` and `last` of a head whose query i is aligned with key i + offset."""
    left, right = window
    return (offset - left if left >= 0 else -np.inf), (offset + right if right >= 0 else np.inf)


def head_at(problem: Problem, at: Place, q: np.ndarray, k: np.ndarray, v: np.ndarray,
            keys_late: int = 0, sequences_late: int = 0) -> Tuple[Head, int]:
    """Returns the head that a row is in, from [L, D] tensors or from packed sequences."""
    parts = list(problem.sequences())
    n = next(n for n, (queries, _) in enumerate(parts) if queries.start <= at.i < queries.stop)
    queries, _ = parts[n]
    _, keys = parts[min(n + sequences_late, len(parts) - 1)]
    q, k, v = q[queries], *(x[keys.start + keys_late:keys.stop + keys_late] for x in (k, v))
    return Head(q, k, v, problem.scale, problem.softcap, problem.slopes[at.h],
                *seen(problem.window, len(k) - len(q)), problem.sink(at.h),
                problem.tree), at.i - queries.start


def exchanged(problem: Problem, at: Place) -> Place:
    """Returns the row that is at `at` of [B,H,L,D] if O is written as [B,L,H,D]."""
    flat = at.h * problem.shape[2] + at.i
    return Place(at.b, flat % problem.shape[1], flat // problem.shape[1])


def exchanged_head(problem: Problem, at: Place) -> Tuple[Head, int]:
    """Returns a head of inputs [B,H,L,D] that are read as [B,L,H,D]."""
    dim, kv_head = problem.shape[4], at.h // (problem.shape[1] // problem.kv_heads)
    return head_at(problem, at, *(
        np.ascontiguousarray(x[at.b]).reshape(-1, x.shape[1], dim)[:, h].astype(np.float64)
        for x, h in ((problem.q, at.h), (problem.k, kv_head), (problem.v, kv_head))))


# ---- All mistakes ----

def mask_mistakes(problem: Problem, aligned: bool) -> Iterator[Mistake]:
    """Returns mistakes in the mask. `aligned` says that each sequence has as many queries as
    keys."""
    left, right = problem.window
    causal_only = problem.window == (-1, 0)
    name = "causal mask" if causal_only else "window"
    if problem.window != NO_LIMITS:
        yield in_head(f"the {name} is missing", lambda head: {"first": -np.inf, "last": np.inf})
        if not aligned:
            yield in_head(f"the {name} is aligned top-left: query i is across from key i; here it is "
                          "across from key i + (Lkv - Lq)", lambda head: top_left(problem.window))
        if any(len_q > len_kv for len_q, len_kv in
               zip(np.diff(problem.cu_seqlens_q), np.diff(problem.cu_seqlens_k))):
            yield in_row("rows that see no key average V: their answer is 0",
                         average_without_keys_row)
        if right >= 0:
            where = ": its diagonal one" if causal_only else " on the right"
            yield in_head(f"the {name} is off by one: each query sees one key too few{where}",
                          lambda head: {"last": head.last - 1})
            where = ": the one after its diagonal" if causal_only else " on the right"
            yield in_head(f"the {name} is off by one: each query sees one key too many{where}",
                          lambda head: {"last": head.last + 1})
        if left >= 0:
            yield in_head("the window is off by one: each query sees one key too few on the left",
                          lambda head: {"first": head.first + 1})
            yield in_head("the window is off by one: each query sees one key too many on the left",
                          lambda head: {"first": head.first - 1})
        if left >= 0 and right >= 0:
            yield in_head("the window has no left side", lambda head: {"first": -np.inf})
            yield in_head("the window has no right side", lambda head: {"last": np.inf})
    if right != 0:
        yield in_head("a causal mask is applied (and --causal was not given here)",
                      lambda head: {"last": len(head.k) - len(head.q)})
        if not aligned and problem.window == NO_LIMITS:
            yield in_head("a causal mask is applied, aligned top-left (and --causal was not given "
                          "here)", lambda head: {"last": 0})


def top_left(window: Tuple[int, int]) -> dict:
    first, last = seen(window, 0)
    return {"first": first, "last": last}


def only_parents(head: Head) -> dict:
    depth = head.tree.sum(1)
    return {"tree": head.tree & (depth >= depth[:, None] - 1)}


def packed_mistakes(problem: Problem) -> Iterator[Mistake]:
    def whole(at: Place) -> List[np.ndarray]:
        return [x.astype(np.float64) for x in problem.head(at.b, at.h)]

    def one_sequence_row(_: Heads, at: Place) -> np.ndarray:
        q, k, v = whole(at)
        return right_row(Head(q, k, v, problem.scale, problem.softcap, problem.slopes[at.h],
                              *seen(problem.window, len(k) - len(q)), problem.sink(at.h)), at.i)

    yield Mistake("cu_seqlens are ignored: the tensors are taken for one sequence",
                  one_sequence_row)
    yield Mistake("each sequence reads K and V one row late: its first key is missing, the next "
                  "sequence's is there",
                  lambda _, at: right_row(*head_at(problem, at, *whole(at), keys_late=1)))
    yield Mistake("each sequence reads the next one's K and V: cu_seqlens_k one entry late",
                  lambda _, at: right_row(*head_at(problem, at, *whole(at), sequences_late=1)))


def mistakes_for(problem: Problem) -> Iterator[Mistake]:
    """Returns the mistakes that would change the answer to this problem, the more likely ones
    first."""
    _, heads, len_q, len_kv, _ = problem.shape
    aligned = all(queries == keys for queries, keys in problem.sequences())  # Lq = Lkv
    if problem.scale != 1:
        yield in_head(f"the scores are not multiplied by the scale {problem.scale:.6g}",
                      lambda head: {"scale": 1.0})
        yield in_head("the scale is applied twice", lambda head: {"scale": head.scale**2})
    yield from mask_mistakes(problem, aligned)
    if problem.softcap:
        yield in_head("softcap is missing", lambda head: {"softcap": 0.0})
        yield in_head("softcap is applied before the scale", lambda head: {
            "softcap": head.softcap * head.scale})
        if problem.window != NO_LIMITS:
            yield in_row("softcap is applied after the mask: hidden keys score "
                         f"{-problem.softcap:g}, not -inf", late_softcap_row)
    if problem.slopes.any():
        yield in_head("ALiBi is missing", lambda head: {"slope": 0.0})
        yield in_head("ALiBi's slopes begin with 1, not with 2^(-8/H)", lambda head: {
            "slope": head.slope * 2 ** (8 / (1 << heads.bit_length() - 1))})
    if problem.sinks is not None:
        yield in_head("the sink is missing", lambda head: {"sink": NEG_INF})
        yield in_head("the sink is multiplied by the scale", lambda head: {
            "sink": head.sink * head.scale})
        yield in_row("the sink's weight is 1, whatever its logit is", sink_of_weight_1_row)
    if problem.tree is not None:
        yield in_head("the tree is taken for a chain: a token sees all earlier ones",
                      lambda head: {"tree": np.tril(np.ones_like(head.tree))})
        yield in_head("the tree is reversed: a token sees its descendants",
                      lambda head: {"tree": head.tree.T})
        yield in_head("a token of the tree sees its parent, but no earlier ancestor", only_parents)
    if problem.packed:
        yield from packed_mistakes(problem)
    yield in_row("O is not divided by the row sum l", unnormalised_row)
    yield in_row("O is not divided by the row sum, and no maximum is subtracted",
                 no_max_unnormalised_row)
    yield in_row("softmax is missing: O is S @ V", no_softmax_row)
    yield in_row("exp2 is used where e^x is meant: multiply the scores by log2(e) first",
                 base_2_row)
    yield in_head("K and V are exchanged", lambda head: {"k": head.v, "v": head.k})
    if aligned:
        yield in_head("Q and K are exchanged", lambda head: {"q": head.k, "k": head.q})
    yield in_head("K is read transposed", lambda head: {"k": reread(head.k)})
    yield in_head("V is read transposed", lambda head: {"v": reread(head.v)})
    if heads > 1:
        def written_exchanged(all_heads: Heads, at: Place) -> np.ndarray:
            return right_row(*all_heads(exchanged(problem, at)))

        def all_exchanged(_: Heads, at: Place) -> np.ndarray:
            return right_row(*exchanged_head(problem, exchanged(problem, at)))

        yield Mistake("heads and length are exchanged in the output: it is written as [B,L,H,D]",
                      written_exchanged)
        yield Mistake("heads and length are exchanged: inputs and output are taken for [B,L,H,D]",
                      all_exchanged)
        if problem.kv_heads > 1:
            yield Mistake("every head uses K and V of head 0", head_0_row)
    if 1 < problem.kv_heads < heads:
        def modulo_row(_: Heads, at: Place) -> np.ndarray:
            q, k, v = problem.head(at.b, at.h, at.h % problem.kv_heads)
            return right_row(*head_at(problem, at, *(x.astype(np.float64) for x in (q, k, v))))

        yield Mistake("head h of Q uses head h % Hkv of K and V: it is h // (H / Hkv)", modulo_row)
    if problem.window[1] < 0 and not problem.packed:  # a mask to the right masks the tail as well
        tails: Dict[int, List[str]] = {}
        for tile in (8, 16, 32, 64, 128):
            # tile sizes with the same padding give the same result
            tails.setdefault(-len_kv % tile, []).append(str(tile))
        for padding, tiles in tails.items():
            if padding:
                yield in_row(f"the tail is not masked: {padding} zero-filled keys count with score "
                             f"0 (tiles of {' or '.join(tiles)})", leaking_tail_row(int(tiles[0])))
    for tile in (16, 32, 64, 128):
        if len_kv > tile:
            for running in (True, False):
                yield in_row("l and O are not rescaled when the maximum changes (tiles of "
                             f"{tile} keys)", no_rescale_row(tile, running))


# ---- Diagnosis ----

def blank_text(blank: np.ndarray, what: str) -> Optional[str]:
    """Says where the blank elements (True, [B,H,L,D]) are, if they are whole rows, columns or
    heads."""
    if blank.all():
        return f"every element is {what}"
    for axis, name in ((2, "query rows"), (3, "columns"), (1, "heads"), (0, "batches")):
        others = tuple(i for i in range(4) if i != axis)
        full = blank.all(axis=others)
        if full.any() and blank.sum() == full.sum() * (blank.size // len(full)):
            at = np.flatnonzero(full)
            if len(at) == at[-1] - at[0] + 1:
                return f"{name} {at[0]} to {at[-1]} of {len(full)} are {what}, nothing else is"
    return None


def unguarded_rows(problem: Problem) -> Iterator[np.ndarray]:
    """Returns the rows [Lq] that see no key of the first tile that their block visits, although
    another row of the block does; for common tile sizes, visited from left to right and in reverse.
    """
    for block_q, block_kv, backwards in itertools.product((64, 128), (32, 64, 128), (False, True)):
        bad = np.zeros(problem.shape[2], bool)
        for queries, keys in problem.sequences():
            len_q, len_kv = queries.stop - queries.start, keys.stop - keys.start
            first, last = seen(problem.window, len_kv - len_q)
            for block in range(0, len_q, block_q):
                i = np.arange(block, min(block + block_q, len_q))
                begin, end = np.maximum(0, i + first), np.minimum(len_kv - 1, i + last)
                if begin[0] > end[-1]:
                    continue  # no tile is visited
                tile = (end[-1] if backwards else begin[0]) // block_kv * block_kv
                unseen = (np.maximum(begin, tile) > np.minimum(end, tile + block_kv - 1))
                bad[queries.start + i] = unseen
        if bad.any():
            yield bad


def diagnose_nonfinite(problem: Problem, got: np.ndarray, lse: np.ndarray) -> Optional[str]:
    """Returns a sentence about the positions of NaN and Inf."""
    bad_rows = ~np.isfinite(got).all(axis=-1)
    if np.array_equal(bad_rows, lse == -np.inf):
        return "rows that see no key are 0/0, or exp(-inf - (-inf)): their answer is 0"
    if any((bad_rows == rows).all() for rows in unguarded_rows(problem)):
        return ("rows that see no key in the first tile they visit are exp(-inf - (-inf)): subtract "
                "0 where the maximum is -inf")
    if np.isnan(got).any():
        text = blank_text(np.isnan(got), "NaN")
        if text and not text.startswith("every"):
            return text + ": never written?"
    # If e^score overflows, it does so for the largest score of a row, but l and O may overflow
    # earlier.
    for limit, type_name in ((88.72, "fp32"), (11.09, "fp16")):
        may = lse + np.log(max(1.0, problem.largest_v())) > limit
        must = lse - np.log(problem.shape[3]) > limit
        if bad_rows[must].all() and not bad_rows[~may].any() and must.any():
            return (f"NaN or Inf just where e^score passes {type_name}'s largest number "
                    f"(score > {limit}): the row maximum is not subtracted")
    return "every element is NaN: never written?" if np.isnan(got).all() else None


def sample_places(rows: np.ndarray, count: int) -> List[Place]:
    """Returns `count` evenly spread True entries of rows[B, H, Lq]."""
    places = np.argwhere(rows)
    chosen = np.unique(np.linspace(0, len(places) - 1, min(count, len(places))).astype(int))
    return [Place(*map(int, places[c])) for c in chosen]


def diagnose(problem: Problem, got: np.ndarray, expected: np.ndarray, lse: np.ndarray, finite_is_right: bool
             ) -> Optional[str]:
    """Returns a sentence on the mistake in O [B,H,Lq,D], or None if no known mistake explains
    it. `finite_is_right`: only NaN and Inf are wrong."""
    finite_rows = np.isfinite(got).all(axis=-1)
    if not finite_rows.all():
        text = diagnose_nonfinite(problem, got, lse)
        if text or finite_is_right:
            return text
    mistake = (explain(problem, got, expected, finite_rows)
               or exchanged_text(got, expected, 1, "heads")
               or exchanged_text(got, expected, 0, "batches"))
    if mistake:
        return mistake
    zeros = blank_text((got == 0) & (expected != 0), "0")
    return zeros and zeros + ": never written?"


def explain(problem: Problem, got: np.ndarray, expected: np.ndarray, finite_rows: np.ndarray
            ) -> Optional[str]:
    """Returns the mistake that explains the finite rows best, if one does.

    Half of the sampled rows are the most wrong ones, which a mistake must explain. The other half
    are any rows, because a mistake must not contradict the right ones.
    """
    if not finite_rows.any():
        return None
    error = np.abs(np.where(finite_rows[..., None], got - expected, 0.0)).max(axis=-1)
    wrong_rows = error > 0.5 * error.max()
    elements = problem.shape[3] * problem.shape[4]
    count = int(min(SAMPLED_ROWS, max(8, SAMPLE_BUDGET / elements)))
    places = sorted(set(sample_places(wrong_rows, count // 2)
                        + sample_places(finite_rows, count - count // 2)))

    @lru_cache(maxsize=4)
    def whole_head(b: int, h: int) -> Tuple[np.ndarray, ...]:
        return tuple(x.astype(np.float64) for x in problem.head(b, h))

    @lru_cache(maxsize=None)  # most mistakes are made in the head of the row, for few rows
    def heads(at: Place) -> Tuple[Head, int]:
        return head_at(problem, at, *whole_head(at.b, at.h))

    got_rows = np.array([got[at] for at in places], np.float64)
    distance = np.linalg.norm(got_rows - np.array([expected[at] for at in places]))
    best, best_share = None, EXPLAINED
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # a mistake may overflow
        for mistake in mistakes_for(problem):
            mistaken = np.array([mistake.row_at(heads, at) for at in places])
            # If the mistaken answer hardly varies, a constant fits as well, which proves nothing.
            spread = np.linalg.norm(mistaken - mistaken.mean())
            share = np.linalg.norm(got_rows - mistaken) / min(distance, spread)
            if share < best_share:
                best, best_share = mistake.sentence, share
    return best


def exchanged_text(got: np.ndarray, expected: np.ndarray, axis: int, name: str) -> Optional[str]:
    """Says which slices along an axis of [B,H,...] are exchanged, if that explains every wrong
    element that is finite in both."""
    got, expected = (np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1) for x in (got, expected))
    finite = np.flatnonzero((np.isfinite(got) & np.isfinite(expected)).all(axis=0))
    count = len(got)
    if count == 1 or not len(finite):
        return None
    budget = int(min(len(finite), max(64, SAMPLE_BUDGET / count**2)))
    sample = finite[np.linspace(0, len(finite) - 1, budget).astype(int)]
    got, expected = got[:, sample].astype(np.float64), expected[:, sample]
    distance = np.array([np.linalg.norm(expected - one, axis=1) for one in got])  # [place, slice]
    here, source = np.arange(count), distance.argmin(axis=1)
    moved = np.flatnonzero(source != here)
    if (sorted(source) != list(here) or not
            np.linalg.norm(distance[here, source]) < EXPLAINED * np.linalg.norm(distance.diagonal())):
        return None
    if len(moved) == 2:
        return f"{name} {moved[0]} and {moved[1]} are exchanged"
    first = ", ".join(f"{source[i]} is in the place of {i}" for i in moved[:3])
    return f"the {name} are in another order: {first}" + (", ..." if len(moved) > 3 else "")


def type_text(dtype: str, got: np.ndarray, expected: np.ndarray) -> Optional[str]:
    """Suggests another --dtype if all finite values [B,H,...] are numbers of a narrower type than
    `dtype` and the right values are not."""
    types = ("bf16", "f16", "f32", "f64")

    def all_fit(values: np.ndarray, narrower: str) -> bool:
        heads = (values[index] for index in np.ndindex(values.shape[:2]))
        return all(np.array_equal(round_to(x, narrower), x)
                   for x in (head[np.isfinite(head)] for head in heads))

    if len(np.unique(got[0, 0])) < 8:  # a constant, for example
        return None
    for narrower in types[:types.index(dtype)]:
        if all_fit(got, narrower) and not all_fit(expected, narrower):
            return f"all values are {narrower} numbers: did you mean --dtype {narrower}?"
    return None


def diagnose_lse(got: np.ndarray, expected: np.ndarray) -> Optional[str]:
    """Returns a sentence on the mistake in LSE [B,H,Lq], or None."""
    seen = np.isfinite(expected)
    texts = []
    if not seen.all():
        if (got[~seen] == np.inf).all():
            texts.append("rows that see no key have LSE = +inf, the convention of "
                         "FlashAttention-2: here it is -inf")
        elif (got[~seen] != NEG_INF).any():
            texts.append("rows that see no key must have LSE = -inf")
    if seen.any() and np.isfinite(got[seen]).all():
        distance = EXPLAINED * np.linalg.norm(got[seen] - expected[seen])
        if np.linalg.norm(got[seen] * np.log(2.0) - expected[seen]) < distance:
            texts.append("the logarithm has base 2: multiply LSE by ln 2")
        elif np.linalg.norm(got[seen] + expected[seen]) < distance:
            texts.append("the sign is turned around")
        else:
            texts += filter(None, (exchanged_text(got, expected, 1, "heads")
                                   or exchanged_text(got, expected, 0, "batches"),))
    return "; and ".join(texts) or None
