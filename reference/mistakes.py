"""Names the mistake behind a wrong output, by computing what common mistakes would have written.

A mistake is recognised when it explains the output: on sampled rows, the distance from the output
to what the mistake gives is a small part of its distance to the right answer, and of how much the
mistaken answer varies. Nothing is guessed from a pattern that a mistake merely might leave.
"""

from functools import lru_cache
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional

import numpy as np

from attention import NEG_INF
from problem import Problem

EXPLAINED = 0.2      # of the distance to the right answer may remain
SAMPLED_ROWS = 48
SAMPLE_BUDGET = 1e8  # elements of K to read for the sampled rows of one mistake together


class Head(NamedTuple):
    """One head as a program, mistaken or not, sees it; float64."""
    q: np.ndarray   # [Lq, D]
    k: np.ndarray   # [Lkv, D]
    v: np.ndarray   # [Lkv, D]
    scale: float
    causal: bool


class Place(NamedTuple):
    """A row of O."""
    b: int
    h: int
    i: int


Heads = Callable[[int, int], Head]           # (b, h) -> that head
RowOf = Callable[[Head, int], np.ndarray]    # (head, i) -> row i of O, [D]


class Mistake(NamedTuple):
    sentence: str
    row_at: Callable[[Heads, Place], np.ndarray]  # what a program with this mistake writes there


def scores_of(head: Head, i: int, visible: Optional[int] = None) -> np.ndarray:
    """Scores of query i with the keys it sees (the first `visible`, if given)."""
    len_q, len_kv = len(head.q), len(head.k)
    if visible is None:
        visible = i + (len_kv - len_q) + 1 if head.causal else len_kv
    return head.scale * (head.k[:min(max(0, visible), len_kv)] @ head.q[i])


def weighted(s: np.ndarray, v: np.ndarray) -> np.ndarray:
    """softmax(s) @ v over the first len(s) keys; 0 without any."""
    if len(s) == 0:
        return np.zeros(v.shape[-1])
    p = np.exp(s - s.max())
    return p @ v[:len(s)] / p.sum()


def right_row(head: Head, i: int) -> np.ndarray:
    return weighted(scores_of(head, i), head.v)


# ---- Mistakes in one row ----

def visible_row(keys: Callable[[Head, int], int]) -> RowOf:
    return lambda head, i: weighted(scores_of(head, i, keys(head, i)), head.v)


def scaled_row(change: Callable[[Head], float]) -> RowOf:
    return lambda head, i: right_row(head._replace(scale=change(head)), i)


def unnormalised_row(head: Head, i: int) -> np.ndarray:
    s = scores_of(head, i)
    return np.exp(s - s.max(initial=NEG_INF)) @ head.v[:len(s)] if len(s) else 0 * head.v[0]


def no_max_unnormalised_row(head: Head, i: int) -> np.ndarray:
    s = scores_of(head, i)
    return np.exp(np.minimum(s, 700.0)) @ head.v[:len(s)]


def no_softmax_row(head: Head, i: int) -> np.ndarray:
    s = scores_of(head, i)
    return s @ head.v[:len(s)]


def base_2_row(head: Head, i: int) -> np.ndarray:
    return weighted(scores_of(head, i) * np.log(2.0), head.v)


def leaking_tail_row(tile: int) -> RowOf:
    def row(head: Head, i: int) -> np.ndarray:
        padding = np.zeros((-len(head.k) % tile, head.k.shape[1]))
        s = scores_of(head, i)
        s = np.concatenate([s, np.zeros(len(padding))])  # zero-filled keys score 0
        v = np.concatenate([head.v[:len(s) - len(padding)], padding])
        return weighted(s, v)
    return row


def no_rescale_row(tile: int, running: bool) -> RowOf:
    """Each tile's weights relative to its own (or the running) maximum, added up as they are."""
    def row(head: Head, i: int) -> np.ndarray:
        s = scores_of(head, i)
        if len(s) == 0:
            return np.zeros(head.v.shape[-1])
        maxima = np.array([s[j:j + tile].max() for j in range(0, len(s), tile)])
        if running:
            maxima = np.maximum.accumulate(maxima)
        p = np.exp(s - np.repeat(maxima, tile)[:len(s)])
        return p @ head.v[:len(s)] / p.sum()
    return row


def reread(matrix: np.ndarray) -> np.ndarray:
    """The bytes of the transposed matrix, taken for the matrix."""
    return np.ascontiguousarray(matrix.T).reshape(matrix.shape)


def average_without_keys_row(head: Head, i: int) -> np.ndarray:
    return right_row(head, i) if len(scores_of(head, i)) else head.v.mean(axis=0)


# ---- Mistakes about which row, which head ----

def in_row(sentence: str, row: RowOf) -> Mistake:
    return Mistake(sentence, lambda heads, at: row(heads(at.b, at.h), at.i))


def in_inputs(sentence: str, change: Callable[[Head], Head]) -> Mistake:
    return Mistake(sentence, lambda heads, at: right_row(change(heads(at.b, at.h)), at.i))


def head_0_row(heads: Heads, at: Place) -> np.ndarray:
    first = heads(at.b, 0)
    return right_row(heads(at.b, at.h)._replace(k=first.k, v=first.v), at.i)


def exchanged(problem: Problem, at: Place) -> Place:
    """The row that lands at `at` of [B,H,L,D] when O is written as [B,L,H,D]."""
    flat = at.h * problem.shape[2] + at.i
    return Place(at.b, flat % problem.shape[1], flat // problem.shape[1])


def exchanged_head(problem: Problem, b: int, h: int) -> Head:
    """Head h of inputs that are [B,H,L,D] and are read as [B,L,H,D]."""
    heads, dim = problem.shape[1], problem.shape[4]
    return Head(*(np.ascontiguousarray(x[b]).reshape(-1, heads, dim)[:, h].astype(np.float64)
                  for x in (problem.q, problem.k, problem.v)), problem.scale, problem.causal)


# ---- All mistakes ----

def mistakes_for(problem: Problem) -> Iterator[Mistake]:
    """Those that would change the answer to this problem, the likelier before the rarer."""
    _, heads, len_q, len_kv, _ = problem.shape
    if problem.scale != 1:
        yield in_row(f"the scores are not multiplied by the scale {problem.scale:.6g}",
                     scaled_row(lambda head: 1.0))
        yield in_row("the scale is applied twice", scaled_row(lambda head: head.scale**2))
    if problem.causal:
        yield in_row("the causal mask is missing", visible_row(lambda head, i: len_kv))
        if len_q != len_kv:
            yield in_row("the causal mask is aligned top-left (hides j > i); here key j is hidden "
                         "from query i when j > i + (Lkv - Lq)", visible_row(lambda _, i: i + 1))
        if len_q > len_kv:
            yield in_row("rows that see no key average V: their answer is 0",
                         average_without_keys_row)
        for step, which in ((-1, "few: its diagonal one"), (1, "many: the one after its diagonal")):
            yield in_row(f"the causal mask is off by one: each query sees one key too {which}",
                         visible_row(lambda _, i, step=step: i + len_kv - len_q + 1 + step))
    else:
        yield in_row("a causal mask is applied (and --causal was not given here)",
                     visible_row(lambda _, i: i + len_kv - len_q + 1))
        if len_q != len_kv:
            yield in_row("a causal mask is applied, aligned top-left (and --causal was not given "
                         "here)", visible_row(lambda _, i: i + 1))
    yield in_row("O is not divided by the row sum l", unnormalised_row)
    yield in_row("O is not divided by the row sum, and no maximum is subtracted",
                 no_max_unnormalised_row)
    yield in_row("softmax is missing: O is S @ V", no_softmax_row)
    yield in_row("exp2 is used where e^x is meant: multiply the scores by log2(e) first",
                 base_2_row)
    yield in_inputs("K and V are exchanged", lambda head: head._replace(k=head.v, v=head.k))
    if len_q == len_kv:
        yield in_inputs("Q and K are exchanged", lambda head: head._replace(q=head.k, k=head.q))
    yield in_inputs("K is read transposed", lambda head: head._replace(k=reread(head.k)))
    yield in_inputs("V is read transposed", lambda head: head._replace(v=reread(head.v)))
    if heads > 1:
        def written_exchanged(all_heads: Heads, at: Place) -> np.ndarray:
            b, h, i = exchanged(problem, at)
            return right_row(all_heads(b, h), i)

        def all_exchanged(_: Heads, at: Place) -> np.ndarray:
            b, h, i = exchanged(problem, at)
            return right_row(exchanged_head(problem, b, h), i)

        yield Mistake("heads and length are exchanged in the output: it is written as [B,L,H,D]",
                      written_exchanged)
        yield Mistake("heads and length are exchanged: inputs and output are taken for [B,L,H,D]",
                      all_exchanged)
        yield Mistake("every head uses K and V of head 0", head_0_row)
    if not problem.causal:  # a causal mask hides the tail as well
        tails: Dict[int, List[str]] = {}
        for tile in (8, 16, 32, 64, 128):
            tails.setdefault(-len_kv % tile, []).append(str(tile))  # that pad alike leak alike
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
    """Says where, if the blank elements (True, [B,H,L,D]) are whole rows, columns or heads."""
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


def diagnose_nonfinite(problem: Problem, got: np.ndarray, lse: np.ndarray) -> Optional[str]:
    """What the places of NaN and Inf say."""
    bad_rows = ~np.isfinite(got).all(axis=-1)
    if np.array_equal(bad_rows, lse == -np.inf):
        return "rows that see no key are 0/0: their answer is 0"
    if np.isnan(got).any():
        text = blank_text(np.isnan(got), "NaN")
        if text and not text.startswith("every"):
            return text + ": never written?"
    # If e^score overflows, then at the latest for the largest score of a row; l and O may before.
    for limit, type_name in ((88.72, "fp32"), (11.09, "fp16")):
        may = lse + np.log(max(1.0, problem.largest_v())) > limit
        must = lse - np.log(problem.shape[3]) > limit
        if bad_rows[must].all() and not bad_rows[~may].any() and must.any():
            return (f"NaN or Inf just where e^score passes {type_name}'s largest number "
                    f"(score > {limit}): the row maximum is not subtracted")
    return "every element is NaN: never written?" if np.isnan(got).all() else None


def sample_places(rows: np.ndarray, count: int) -> List[Place]:
    """`count` evenly spread True entries of rows[B, H, Lq]."""
    places = np.argwhere(rows)
    chosen = np.unique(np.linspace(0, len(places) - 1, min(count, len(places))).astype(int))
    return [Place(*map(int, places[c])) for c in chosen]


def diagnose(problem: Problem, got: np.ndarray, expected: np.ndarray, lse: np.ndarray
             ) -> Optional[str]:
    """A sentence on what went wrong with O [B,H,Lq,D], or None if nothing known explains it."""
    finite_rows = np.isfinite(got).all(axis=-1)
    if not finite_rows.all():
        text = diagnose_nonfinite(problem, got, lse)
        if text:
            return text
    mistake = explain(problem, got, expected, finite_rows)
    if mistake:
        return mistake
    zeros = blank_text((got == 0) & (expected != 0), "0")
    return zeros and zeros + ": never written?"


def explain(problem: Problem, got: np.ndarray, expected: np.ndarray, finite_rows: np.ndarray
            ) -> Optional[str]:
    """The mistake that explains best what the finite rows hold, if one does.

    Half of the sampled rows are the most wrong ones: a mistake must explain them. The other half
    are any: a mistake must not contradict the right ones.
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
    def heads(b: int, h: int) -> Head:
        return Head(*(x.astype(np.float64) for x in problem.head(b, h)), problem.scale,
                    problem.causal)

    got_rows = np.array([got[at] for at in places], np.float64)
    distance = np.linalg.norm(got_rows - np.array([expected[at] for at in places]))
    best, best_share = None, EXPLAINED
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # a mistake may overflow
        for mistake in mistakes_for(problem):
            mistaken = np.array([mistake.row_at(heads, at) for at in places])
            # A constant would do as well where the mistaken answer hardly varies: that proves nothing.
            spread = np.linalg.norm(mistaken - mistaken.mean())
            share = np.linalg.norm(got_rows - mistaken) / min(distance, spread)
            if share < best_share:
                best, best_share = mistake.sentence, share
    return best


def diagnose_lse(got: np.ndarray, expected: np.ndarray) -> Optional[str]:
    """A sentence on what went wrong with LSE [B,H,Lq], or None."""
    seen = np.isfinite(expected)
    if np.isfinite(got[~seen]).any():
        return "rows that see no key must have LSE = -inf"
    if not np.isfinite(got[seen]).all() or not seen.any():
        return None
    distance = np.linalg.norm(got[seen] - expected[seen])
    if np.linalg.norm(got[seen] * np.log(2.0) - expected[seen]) < EXPLAINED * distance:
        return "the logarithm has base 2: multiply LSE by ln 2"
    if np.linalg.norm(got[seen] + expected[seen]) < EXPLAINED * distance:
        return "the sign is turned around"
    return None
