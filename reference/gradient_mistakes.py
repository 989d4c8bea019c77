"""Names the mistakes that explain wrong gradients. It computes the results of common mistakes.

dQ, dK and dV are explained separately, from one head of K and V (the one with the largest error)
and the heads of Q that share it. A mistake is named if its result leaves a small part of the
distance to the right gradient. If several mistakes fit about equally well, all of them are named.
"""

from typing import Dict, Iterator, List, NamedTuple, Tuple

import numpy as np

import attention
from mistakes import exchanged_text
from problem import Problem

NAMES = ("dQ", "dK", "dV")
# Part of the distance to the right gradient that may remain. It is less than for O, because similar
# mistakes, such as a mask that is off by one and no mask at all, differ by little.
EXPLAINED = 0.05
MANY_SCORES = 1 << 22  # scores of one head that are stored at a time
COLUMNS = 16  # columns of D, which are enough to tell mistakes apart
TILES = (16, 32, 64, 128)


class Block(NamedTuple):
    """Some queries of one head and all keys of their sequence, in float64."""
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    do: np.ndarray
    options: dict  # options of the scores, with scale and offset
    terms: attention.Terms
    first: int  # index of the first query in the sequence
    lengths: Tuple[int, int]  # queries and keys of the sequence

    def changed(self, **changes) -> "Block":
        """Returns the block with other options."""
        options = {**self.options, **changes}
        return self._replace(options=options, terms=attention.backward_terms(
            self.q, self.k, self.v, self.do, **options))

    def ds(self, p: np.ndarray, dp: np.ndarray, d: np.ndarray) -> np.ndarray:
        ds = p * (dp - d[:, None])
        softcap = self.options["softcap"]
        if softcap:
            ds = ds * (1 - np.tanh(self.options["scale"] * (self.q @ self.k.T) / softcap)**2)
        return ds


def blocks_of(problem: Problem, do: np.ndarray, b: int, h: int
              ) -> Iterator[Tuple[slice, slice, Block]]:
    """Yields each block of a head with its rows of Q and of K."""
    tensors = [x.astype(np.float64) for x in (
        *problem.head(b, h), attention.round_to(do[b, h], problem.dtype))]
    for queries, keys in problem.sequences():
        lengths = queries.stop - queries.start, keys.stop - keys.start
        for part, _, offset in attention.row_blocks(*lengths, max_scores=MANY_SCORES):
            rows = slice(queries.start + part.start, queries.start + part.stop)
            q, k, v, do_rows = (x[at] for x, at in zip(tensors, (rows, keys, keys, rows)))
            options = dict(problem.modifiers(h), scale=problem.scale, offset=offset,
                           sink=problem.sink(h))
            terms = attention.backward_terms(q, k, v, do_rows, **options)
            yield rows, keys, Block(q, k, v, do_rows, options, terms, part.start, lengths)


# ---- Mistakes in P and dS ----

def weights(s: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Returns exp(S - shift), or 0 in a row whose shift is not finite."""
    return np.exp(np.minimum(s - np.where(np.isfinite(shift), shift, np.inf)[:, None], 700.0))


def other_scores(block: Block) -> Iterator[Tuple[str, Block]]:
    """Returns the block with scores that differ from those of the forward pass."""
    (left, right), offset = block.options["window"], block.options["offset"]
    name = "causal mask" if (left, right) == (-1, 0) else "window"
    if (left, right) != attention.NO_LIMITS:
        yield f"the {name} is missing", block.changed(window=attention.NO_LIMITS)
        if block.lengths[0] != block.lengths[1]:
            yield (f"the {name} is aligned top-left",
                   block.changed(offset=offset - block.lengths[1] + block.lengths[0]))
    if right < 0:
        yield ("a causal mask is applied (and --causal was not given here)",
               block.changed(window=(left, 0)))
    else:
        yield f"the {name} shows one key too many on the right", block.changed(
            window=(left, right + 1))
        if right > 0:
            yield f"the {name} shows one key too few on the right", block.changed(
                window=(left, right - 1))
        elif left < 0 and not block.options["slope"]:  # the offset would move a slope as well
            yield f"the {name} shows one key too few on the right", block.changed(offset=offset - 1)
    if block.options["softcap"]:
        yield "softcap is missing", block.changed(softcap=0.0)
    if block.options["slope"]:
        yield "ALiBi is missing", block.changed(slope=0.0)
    if block.options["sink"] != attention.NEG_INF:
        yield "the sink is missing", block.changed(sink=attention.NEG_INF)
    if block.options["scale"] != 1:
        yield "P is recomputed from scores without the scale", block.changed(scale=1.0)


def variants(block: Block) -> Iterator[Tuple[str, np.ndarray, np.ndarray]]:
    """Yields (sentence, P, dS) for each mistake, once for each way in which it can be made."""
    s, lse, o, p, dp, d, _ = block.terms
    seen = np.isfinite(s)
    yield "D is missing: dS is P * dP", p, block.ds(p, dp, 0 * d)
    yield "D is the row sum of dO, not of dO * O", p, block.ds(p, dp, block.do.sum(axis=-1))
    yield "D is the row sum of dO * dO, not of dO * O", p, block.ds(p, dp, (block.do**2).sum(axis=-1))
    yield "P is missing: dS is dP - D", p, block.ds(1.0 * seen, dp, d)
    if not seen.all():  # hidden keys, too, have P as their factor, 0
        yield "P is missing: dS is dP - D", p, block.ds(np.ones_like(p), dp, d)
    yield "dP is taken for dS", p, block.ds(1.0 * seen, dp, 0 * d)
    yield "dP is dO @ K.T, not dO @ V.T", p, block.ds(p, block.do @ block.k.T, d)
    if block.options["softcap"]:
        yield "the derivative of softcap, 1 - tanh^2, is missing", p, p * (dp - d[:, None])
    m = s.max(axis=-1, initial=-np.inf)
    l = np.where(np.isfinite(m), np.exp(lse - m), 1.0)
    mixed = "base 2 and base e are mixed in P = exp(S - LSE)"
    for sentence, mistaken in (
            ("P is exp(S - m), not divided by the row sum", p * l[:, None]),
            ("P is divided by the row sum twice", p / l[:, None]),
            ("P is exp(S), without LSE", np.exp(np.minimum(s, 700.0))),
            (mixed, weights(s * np.log(2.0), lse * np.log(2.0))),
            (mixed, weights(s, lse / np.log(2.0))), (mixed, weights(s, lse * np.log(2.0)))):
        yield sentence, mistaken, block.ds(mistaken, dp, d)
    for sentence, other in other_scores(block):
        terms = other.terms
        yield sentence, terms.p, terms.ds  # LSE and D contain the mistake,
        yield sentence, terms.p, other.ds(terms.p, dp, d)  # or D comes from the right O,
        mistaken = weights(terms.s, lse)  # or both come from the forward pass
        yield sentence, mistaken, other.ds(mistaken, dp, d)


# ---- Mistakes in the products ----

def products(block: Block, columns: np.ndarray, group: int, j: int
             ) -> Iterator[Tuple[str, list]]:
    """Yields (sentence, [dQ, dK, dV]) for each mistake, for head j of a group, or None without a prediction."""
    scale, (s, _, o, p, _, _, ds) = block.options["scale"], block.terms
    q, k, do, o = (x[:, columns] for x in (block.q, block.k, block.do, o))
    for sentence, other_p, other_ds in variants(block):
        yield sentence, [scale * (other_ds @ k), scale * (other_ds.T @ q), other_p.T @ do]
    dk, dv = scale * (ds.T @ q), p.T @ do
    if group > 1:
        sentence = "only the {} head of a group is there: the heads that share one of K and V add up"
        yield sentence.format("first"), [None, (j == 0) * dk, (j == 0) * dv]
        yield sentence.format("last"), [None, (j == group - 1) * dk, (j == group - 1) * dv]
    for tile in TILES:
        if block.lengths[1] > tile:
            tiles = np.arange(s.shape[1]) // tile
            # last tile with a visible key
            last = np.where(np.isfinite(s), tiles, -1).max(axis=1, initial=-1)
            yield (f"only the last tile of keys is there, not the sum over all (tiles of {tile})",
                   [scale * (ds * (tiles == last[:, None])) @ k, None, None])
    starts: Dict[int, List[str]] = {}  # of the last tile of queries
    for tile in TILES:
        starts.setdefault((block.lengths[0] - 1) // tile * tile, []).append(str(tile))
    for start, tiles_of in starts.items():
        if start:
            rows = np.arange(len(q))[:, None] + block.first >= start
            yield ("only the last tile of queries is there, not the sum over all (tiles of "
                   f"{' or '.join(tiles_of)})", [None, scale * ((ds * rows).T @ q), (p * rows).T @ do])
    yield "O is used in place of dO", [None, None, p.T @ o]
    if len(q) == len(k):
        yield "a matrix is transposed or should be", [scale * (ds.T @ k), scale * (ds @ q), p @ do]
        yield "Q is used in place of K, or K in place of Q", [scale * (ds @ q), scale * (ds.T @ k),
                                                           None]


def mistaken_heads(problem: Problem, do: np.ndarray, b: int, kv_head: int, columns: np.ndarray
                   ) -> Iterator[Tuple[str, List[np.ndarray]]]:
    """Returns (sentence, [dQ [group, Lq, columns], dK and dV [Lkv, columns]]), with NaN without a prediction."""
    group = problem.shape[1] // problem.kv_heads
    len_q, len_kv = problem.shape[2:4]
    found: Dict[Tuple[str, int], List[np.ndarray]] = {}
    with np.errstate(all="ignore"):  # a mistake may overflow
        for j in range(group):
            for rows, keys, block in blocks_of(problem, do, b, kv_head * group + j):
                ways: Dict[str, int] = {}
                for sentence, parts in products(block, columns, group, j):
                    ways[sentence] = ways.get(sentence, 0) + 1
                    sums = found.setdefault((sentence, ways[sentence]), [
                        np.zeros((*shape, len(columns)))
                        for shape in ((group, len_q), (len_kv,), (len_kv,))])
                    for total, at, part in zip(sums, ((j, rows), keys, keys), parts):
                        total[at] += np.nan if part is None else part
    for (sentence, _), sums in found.items():
        yield sentence, sums


# ---- Mistakes that are found without Q, K and V ----

def share(got: np.ndarray, mistaken: np.ndarray, right: np.ndarray) -> float:
    """Returns the distance to the result of a mistake as a part of the distance to the right
    answer. A constant explains an answer that hardly varies, so the spread of the answer counts as
    well."""
    spread = np.linalg.norm(mistaken - mistaken.mean())
    distance, rest = min(np.linalg.norm(got - right), spread), np.linalg.norm(got - mistaken)
    return float(rest / distance) if distance > 0 and np.isfinite(rest) else np.inf


def factor_of(tensor: np.ndarray, right: np.ndarray) -> float:
    """Returns the factor that brings the right gradient closest to the tensor, by least squares."""
    square = float(np.sum(right**2))
    return float(np.sum(tensor * right)) / square if square > 0 else 0.0


def factor_text(problem: Problem, which: int, factor: float) -> str:
    """Returns the mistake that gives this factor, or ""."""
    scale, group = problem.scale, problem.shape[1] // problem.kv_heads
    texts = [text for value, text in (
        (-1.0, "the sign is wrong"),
        (1 / scale if which < 2 else 1.0, f"the scale {scale:.6g} is missing"),
        (scale, "the scale is applied twice" if which < 2 else "the scale is applied: dV has none"),
        (1 / group if which else 1.0, "it is the mean over the heads that share one of K and V, not "
                                      "their sum"),
        (1 / np.log(2.0), "log2(e) is applied: it belongs to the scores alone"),
        (np.log(2.0), "ln 2 is applied")) if value != 1 and abs(factor / value - 1) < 0.005]
    return "; or ".join(texts)


def whole_text(problem: Problem, which: int, got: attention.Gradients,
               exact: attention.Gradients) -> str:
    """Returns the mistake that explains the whole of a gradient, or ""."""
    tensor, right = got[which], exact[which]
    if not np.isfinite(tensor).all():
        return "it is NaN everywhere: never written?" if np.isnan(tensor).all() else ""
    if not tensor.any():
        return "it is 0 everywhere: never written?"

    def holds(one: int, other: int) -> bool:
        return (exact[one].shape == exact[other].shape
                and share(got[one], exact[other], exact[one]) < EXPLAINED)

    for other in range(3):
        if other != which and holds(which, other):
            return "they are exchanged" if holds(other, which) else f"it holds {NAMES[other]}"
    for axis, name in ((1, "heads"), (0, "batches")):
        text = exchanged_text(tensor, right, axis, name)
        if text:
            return text
    swapped = np.ascontiguousarray(right.swapaxes(1, 2)).reshape(right.shape)
    if share(tensor, swapped, right) < EXPLAINED:
        return "heads and length are exchanged: it is written as [B,L,H,D]"
    factor = factor_of(tensor, right)
    fits = share(tensor, factor * right, right) < EXPLAINED
    return factor_text(problem, which, factor) if fits else ""


def diagnose(problem: Problem, do: np.ndarray, got: attention.Gradients,
             exact: attention.Gradients, wrong: List[bool]) -> List[str]:
    """Returns sentences on the mistakes in the gradients that are `wrong`. All tensors are
    [B,H,L,D]."""
    texts = {which: whole_text(problem, which, got, exact) for which in range(3) if wrong[which]}
    rest = [which for which, text in texts.items() if not text and np.isfinite(got[which]).all()]
    if rest:
        group = problem.shape[1] // problem.kv_heads
        errors = np.zeros((problem.shape[0], problem.kv_heads))
        for which in rest:
            error = np.abs(got[which] - exact[which]) / max(1e-300, np.abs(exact[which]).max())
            errors += error.reshape(*errors.shape, -1).max(axis=-1)
        b, kv_head = np.unravel_index(np.argmax(errors), errors.shape)
        dim = problem.shape[4]
        columns = np.unique(np.linspace(0, dim - 1, min(dim, COLUMNS)).astype(int))
        at = {which: (b, slice(kv_head * group, (kv_head + 1) * group) if which == 0 else kv_head)
              for which in rest}
        heads = {which: [x[which][at[which]][..., columns] for x in (got, exact)] for which in rest}
        shares: Dict[int, List[Tuple[float, str]]] = {}
        for which, (one, right) in heads.items():
            factor = factor_of(one, right)
            shares[which] = [(share(one, factor * right, right),
                              f"it is the right one times {factor:.3g}")]
        for sentence, mistaken in mistaken_heads(problem, do, b, kv_head, columns):
            for which, (one, right) in heads.items():
                shares[which].append((share(one, mistaken[which], right), sentence))
        for which in rest:
            best = min(shares[which])[0]
            fitting = [sentence for value, sentence in sorted(shares[which])
                       if value < EXPLAINED and value <= 2 * best]
            texts[which] = "; or ".join(dict.fromkeys(fitting))
    found: Dict[str, List[str]] = {}
    for which, text in texts.items():
        if text:
            found.setdefault(text, []).append(NAMES[which])
    return [f"{text} ({', '.join(names)})" for text, names in found.items()]
