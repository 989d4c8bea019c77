"""Checks the gradients of attention against float64, and check.py is the command.

dQ, dK and dV must differ from the reference by at most

    2 x (largest error of plain attention's backward pass: scores in fp32; P and dS, as operands of
         products, O, from which D comes, and the results rounded to the type)
      + one unit in the last place of the type at the largest |gradient|
      + 2^-20 scale max(|dP| + |D|) max|K|               dQ   the remainder of dP - D where the two
      + 2^-20 scale max(|dP| + |D|) max|Q| sqrt(Lq)      dK   cancel, as with one key
      + e(Lkv) scale max(row sum |dS|) max|K|            dQ   fp32's rounding in P and in sums
      + e(Lq) scale max(column sum |dS|) max|Q|          dK
      + e(Lq) max(column sum P) max|dO|                  dV
      + 2 lean / sqrt(D)                                 dQ, dK   see `lean`

with e(L) = (scale max|q row| max|k row| + 2 max|score| + max|LSE| + 2 sqrt(Lkv) + 2 sqrt(L)) 2^-24,
where Lq counts the queries of all heads that share a head of K and V. The same rule holds for the
root mean square, with lean / sqrt(elements). For f64 the bound is 1e-12 max(1, max|gradient|). If
the bound for the root mean square is more than a quarter of the gradient's own, the verdict is
INCONCLUSIVE, except where the latter is at most the lines with 2^-20 or, for dV, 0.
common/backward.hpp has the same rule and the reasons.
"""

from typing import List, NamedTuple, Optional, Tuple

import numpy as np

import attention
import gradient_mistakes
from comparison import WIDEST_BOUND, compare, describe, finite, largest, wrong_shape
from mistakes import type_text
from problem import BadInput, Problem, nonfinite_text

NAMES = gradient_mistakes.NAMES


class Facts:
    """Maxima of the quantities that the gradients are sums of, over all queries and keys."""

    def __init__(self) -> None:
        self.score = self.lse = self.dp = self.row_ds = self.column_ds = self.column_p = 0.0
        self.q_row = self.k_row = 0.0                       # largest norms of a row
        self.moves: List[Tuple[np.ndarray, np.ndarray]] = []  # of dQ and dK, per query

    def include(self, problem: Problem, terms: attention.Terms, q: np.ndarray, k: np.ndarray,
                do: np.ndarray) -> None:
        """Adds the `terms` of some queries of one head, in float64."""
        seen = np.isfinite(terms.s)
        self.score = max(self.score, largest(terms.s[seen]))
        self.lse = max(self.lse, largest(finite(terms.lse)))
        self.dp = max(self.dp, largest((np.abs(terms.dp) + np.abs(terms.d)[:, None])[seen]))
        self.row_ds = max(self.row_ds, largest(np.abs(terms.ds).sum(axis=-1)))
        q_norms, k_norms = (np.linalg.norm(x.astype(np.float64), axis=-1) for x in (q, k))
        rows = np.isfinite(terms.lse)
        largest_p = terms.p.max(axis=-1, initial=0.0)
        # O and P are rounded by half an ulp(1), but O by at most what the other keys add to the
        # largest weight.
        d_error = (np.minimum(attention.ulp(1.0, problem.dtype) / 2, np.maximum(0, 1 - largest_p))
                   * (np.linalg.norm(do * terms.o, axis=-1)
                      + np.linalg.norm(terms.p * terms.dp, axis=-1)))
        factor = abs(problem.scale) * d_error * rows
        self.moves.append((factor * (terms.p @ k_norms),
                           factor * q_norms * np.linalg.norm(terms.p, axis=-1)))

    def lean(self, which: int) -> float:
        """Returns by how much two moves of a gradient may differ that come from rounding the O in
        D.

        The dS of a query move together with its D. Over many queries that averages out. For one
        query, plain attention may have an accidentally small error, and a correct kernel would fail
        without this term.
        """
        if not self.moves:
            return 0.0
        norms = np.concatenate([move[which] for move in self.moves])
        squares = np.sum(norms**2)
        return float(np.sqrt(2 * np.sum(norms**4) / squares)) if squares > 0 else 0.0


class Reference(NamedTuple):
    exact: attention.Gradients                 # float64
    plain: Optional[attention.Gradients]       # float32; None for f64
    seeing: Tuple[np.ndarray, np.ndarray]  # rows of Q that see a key, rows of K that a query sees
    facts: Facts


def checked_do(problem: Problem, do: np.ndarray) -> np.ndarray:
    """Returns dO as [B, H, Lq, D]. Raises BadInput if its shape differs from q's or a value is not
    finite, before or after rounding to the problem's type."""
    if do.shape != problem.output_shape:
        raise BadInput(f"do has shape {list(do.shape)} and q {list(problem.output_shape)}; "
                       "they must be the same")
    text = nonfinite_text(do)
    if text:
        raise BadInput(f"do: {text}")
    if not np.isfinite(attention.round_to(np.float64(largest(do)), problem.dtype)):
        raise BadInput(f"do: its largest value {largest(do):g} overflows {problem.dtype}")
    return np.asarray(do).reshape(problem.q.shape)


def compute_reference(problem: Problem, do: np.ndarray) -> Reference:
    """Works head by head and in blocks of rows, so that memory stays near the size of the
    inputs."""
    group = problem.shape[1] // problem.kv_heads
    shapes = problem.q.shape, problem.k.shape, problem.v.shape
    exact = attention.Gradients(*(np.zeros(shape) for shape in shapes))
    plain = attention.Gradients(*(np.zeros(shape, np.float32) for shape in shapes))
    sees, is_seen = np.zeros(shapes[0][:3], bool), np.zeros(shapes[1][:3], bool)
    facts = Facts()
    for b, kv_head in np.ndindex(shapes[1][:2]):
        column_ds, column_p = np.zeros(shapes[1][2]), np.zeros(shapes[1][2])
        for h in range(kv_head * group, (kv_head + 1) * group):
            q, k, v = problem.head(b, h)
            do_head = attention.round_to(do[b, h], problem.dtype)
            facts.q_row = max(facts.q_row, largest(np.linalg.norm(q.astype(np.float64), axis=-1)))
            facts.k_row = max(facts.k_row, largest(np.linalg.norm(k.astype(np.float64), axis=-1)))
            for queries, keys in problem.sequences():
                lengths = queries.stop - queries.start, keys.stop - keys.start
                for rows, seen, offset in attention.row_blocks(*lengths, problem.window):
                    rows = slice(queries.start + rows.start, queries.start + rows.stop)
                    seen = slice(keys.start + seen.start, keys.start + seen.stop)
                    block = q[rows], k[seen], v[seen], do_head[rows]
                    options = dict(problem.modifiers(h), offset=offset, scale=problem.scale,
                                   sink=problem.sink(h))
                    terms = attention.backward_terms(*block, **options)
                    of_all = [(exact, attention.gradients_of(terms, *block[:2], block[3],
                                                             scale=problem.scale))]
                    if problem.dtype != "f64":
                        rounded = attention.backward_terms(*block, problem.dtype, **options)
                        of_all.append((plain, attention.gradients_of(
                            rounded, *block[:2], block[3], problem.dtype, problem.scale)))
                    for whole, part in of_all:
                        whole.dq[b, h, rows] = part.dq
                        whole.dk[b, kv_head, seen] += part.dk
                        whole.dv[b, kv_head, seen] += part.dv
                    sees[b, h, rows] = np.isfinite(terms.lse)
                    is_seen[b, kv_head, seen] |= np.isfinite(terms.s).any(axis=0)
                    column_ds[seen] += np.abs(terms.ds).sum(axis=0)
                    column_p[seen] += terms.p.sum(axis=0)
                    facts.include(problem, terms, *block[:2], block[3])
        facts.column_ds = max(facts.column_ds, largest(column_ds))
        facts.column_p = max(facts.column_p, largest(column_p))
    if problem.dtype == "f64":
        return Reference(exact, None, (sees, is_seen), facts)
    plain = attention.Gradients(*(attention.round_to(x, problem.dtype) for x in plain))
    return Reference(exact, plain, (sees, is_seen), facts)


class Bounds(NamedTuple):
    element: float  # bound per element
    rms: float  # bound for the root mean square over all
    expected: float  # root mean square of the gradient, over rows that see or are seen
    conclusive: bool


def bounds(problem: Problem, do: np.ndarray, reference: Reference) -> Tuple[Bounds, ...]:
    """Returns the bounds of dQ, dK and dV that this file's docstring defines."""
    facts, scale, dim = reference.facts, abs(problem.scale), problem.shape[4]
    _, heads, len_q, len_kv, _ = problem.shape
    root_q, root_kv = np.sqrt(len_q * (heads // problem.kv_heads)), np.sqrt(len_kv)
    weight_error = (scale * facts.q_row * facts.k_row + 2 * facts.score + facts.lse + 2 * root_kv)
    over_keys, over_queries = ((weight_error + 2 * root) * 2.0**-24 for root in (root_kv, root_q))
    cancelled = 2.0**-20 * scale * facts.dp
    largest_q, largest_k, largest_do = (largest(attention.round_to(x, problem.dtype))
                                        for x in (problem.q, problem.k, do))
    of_each = (
        (cancelled * largest_k, over_keys * scale * facts.row_ds * largest_k, facts.lean(0)),
        (cancelled * largest_q * root_q, over_queries * scale * facts.column_ds * largest_q,
         facts.lean(1)),
        (0.0, over_queries * facts.column_p * largest_do, 0.0))
    result = []
    for which, (gone, fp32, lean) in enumerate(of_each):
        exact, seeing = reference.exact[which], reference.seeing[min(which, 1)]
        seen = exact[seeing]
        expected = float(np.sqrt(np.mean(seen**2))) if seen.size else 0.0
        if reference.plain is None:
            element = rms = 1e-12 * max(1.0, largest(exact))
        else:
            # an overflow of plain attention does not excuse one
            error = finite(reference.plain[which] - exact)
            one_ulp = attention.ulp(largest(exact), problem.dtype)
            element = 2 * largest(error) + one_ulp + gone + fp32 + 2 * lean / np.sqrt(dim)
            rms = ((2 * np.linalg.norm(error) + one_ulp + lean) / np.sqrt(exact.size) + gone + fp32)
        conclusive = expected <= gone or rms <= WIDEST_BOUND * expected
        result.append(Bounds(float(element), float(rms), expected, bool(conclusive)))
    return tuple(result)


def judge(problem: Problem, do: np.ndarray, got: attention.Gradients,
          reference: Optional[Reference] = None) -> Tuple[bool, str]:
    """Returns whether dQ, dK and dV agree with the reference, and the verdict as text, like
    check.judge."""
    title = "gradients, " + problem.title()
    like_k = problem.k.shape[4 - len(problem.output_shape):]
    shapes = problem.output_shape, like_k, like_k
    wrong = [wrong_shape(name, tensor.shape, shape)
             for name, tensor, shape in zip(NAMES, got, shapes) if tensor.shape != shape]
    per_head = problem.output_shape[:-2] + like_k[-2:]
    if per_head != like_k and per_head in (got.dk.shape, got.dv.shape):
        wrong.append("  looks like: one dK for each head of Q: add up those that share one of K and V")
    if wrong:
        return False, "\n".join([f"WRONG: {title}"] + wrong)
    do = checked_do(problem, do)
    reference = reference or compute_reference(problem, do)
    conclusive, lines, wrong = True, [], []
    got = attention.Gradients(*(np.asarray(x).reshape(exact.shape)
                                for x, exact in zip(got, reference.exact)))
    for name, tensor, exact, limit in zip(NAMES, got, reference.exact,
                                          bounds(problem, do, reference)):
        result = compare(tensor, exact, limit.element)
        lines += [describe(name, result, len(problem.output_shape)),
                  f"  {name}: rms error {result.rms_error:.3g}, bound {limit.rms:.3g}"]
        right = result.wrong == 0 and result.rms_error <= limit.rms
        if result.wrong == 0 and not right:
            lines.append(f"  {name}: no element stands out, but together they are too far off")
        if right and not limit.conclusive:
            lines.append(f"  {name}: nothing is out of bounds, but the rms error may be more than a "
                         f"quarter of {name}'s rms, {limit.expected:.3g}:\n  it proves nothing; with "
                         "smaller scores it would")
        narrower = None if right else type_text(problem.dtype, tensor, exact)
        lines += [f"  {name}: {narrower}"] if narrower else []
        wrong.append(not right)
        conclusive = conclusive and limit.conclusive
    agreed = not any(wrong)
    lines += [f"  looks like: {text}" for text in gradient_mistakes.diagnose(
        problem, do, got, reference.exact, wrong)]
    verdict = "WRONG" if not agreed else "agreed" if conclusive else "INCONCLUSIVE"
    return agreed and conclusive, "\n".join([f"{verdict}: {title}"] + lines)
