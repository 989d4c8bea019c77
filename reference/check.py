#!/usr/bin/env python3
"""Checks an attention output of any program or framework against float64.

    reference/check.py --q q.npy --k k.npy --v v.npy --out o.npy [--lse lse.npy]
                       [--causal] [--window L,R] [--scale X] [--softcap X] [--alibi] [--kv-heads N]
                       [--cu-seqlens-q 0,…  --cu-seqlens-k 0,…] [--sinks sinks.npy]
                       [--layout bhld|blhd] [--dtype bf16|f16|f32|f64]
    reference/check.py --q q.npy --k k.npy --v v.npy --do do.npy --dq dq.npy --dk dk.npy --dv dv.npy
                       [the same options]

Files are float16, float32 or float64: [B,H,L,D] ([B,L,H,D] with --layout blhd) or [L,D], LSE
[B,H,Lq] or [Lq], sinks [H]. K and V may have fewer heads, a divisor of Q's. Packed sequences are [1,H,sum of
L,D]. --dtype is the type in which the program computed (default: the type of the q file); inputs
are rounded to it first. Every element of O must differ from the float64 answer by at most

    2 x (largest error of plain attention: S in fp32, P and O rounded to that type)
      + one unit in the last place of the type at the largest |O|
      + (n max|score| max|V| + 2 sqrt(Lkv) max|O|) 2^-24    fp32 sums in another order

with n = max(2, D/64), because a score is a sum of D products. A sink that has weight is a score,
too. The last line matters only for f32 and for large scores. For f64 the bound is 1e-12 max(1,
max|O|). LSE is fp32 in every type and must differ by at most

    2 x (largest LSE error of plain attention + effect of rounding P on its sum, see sum_rounding)
      + four units in the last place of fp32 + (n max|score| + 2 sqrt(Lkv)) 2^-24

The rule for O must also hold for the Euclidean norm of the errors (printed per element, as rms). An
error that has the same sign everywhere may be smaller than the largest rounding error, but not
smaller than this norm. The bound for the norm adds half an ulp(1) |O| / sqrt(rows), because a row with one
large weight is off as a whole by the rounding of that weight, and few rows do not average it out. A
bound above a quarter of the root mean square of O (over the rows that see a key) proves nothing, so
the verdict is INCONCLUSIVE. common/check.hpp has the same rule for the programs. A wrong answer is
compared with the results of common mistakes. If all its values are numbers of a narrower type than
--dtype, the verdict suggests that type.

With --do, the gradients of sum(dO * O) are checked, where dQ has the shape of Q, dK and dV those of K and
V. gradients.py has their rule. One call can check both O and the gradients. Exit status: 0 correct,
1 wrong or inconclusive, 2 bad input, with one line `error: …`.
"""

import argparse
import os
import sys
from typing import Iterator, NamedTuple, Optional, Tuple

try:
    import numpy as np
except ImportError:
    print(f"error: {sys.executable} has no NumPy; use an interpreter that has it", file=sys.stderr)
    sys.exit(2)

import attention
import gradients
import mistakes
from comparison import WIDEST_BOUND, compare, describe, finite, largest, wrong_shape
from problem import BadInput, Problem, read_npy

GRADIENTS = ("do", "dq", "dk", "dv")  # options


class Reference(NamedTuple):
    o: np.ndarray            # [B, H, Lq, D] float64
    lse: np.ndarray          # [B, H, Lq] float64
    plain_error: float  # largest error of plain attention over O
    plain_norm: float  # Euclidean norm of the same errors
    plain_lse_error: float  # largest error over LSE
    sum_rounding: float  # maximum over the rows
    largest_score: float  # among the visible ones


def sum_rounding(s: np.ndarray, dtype: str) -> np.ndarray:
    """Returns how much the LSE of each row may change in a kernel that sums P = exp(S - m) after
    rounding it to `dtype`:

            (|sum round(P) - sum P| + half an ulp(1) sqrt(sum P^2)) / sum P

    The root is over the weights that rounding changes. The first term is the actual change here,
    where the rounding of all keys may have the same sign. The second is the sum of as many
    independent errors, because a tiled kernel rounds P relative to another maximum.
    """
    m = s.max(axis=-1, initial=-np.inf)
    p = np.exp(s - np.where(m == -np.inf, 0.0, m)[..., None])
    rounded = attention.round_to(p, dtype)
    half_ulp = attention.ulp(1.0, dtype) / 2
    squares = np.sum(np.where(rounded == p, 0.0, p)**2, axis=-1)
    l = np.where(m == -np.inf, 1.0, p.sum(axis=-1))
    return (np.abs((rounded - p).sum(axis=-1)) + half_ulp * np.sqrt(squares)) / l


def head_blocks(problem: Problem, b: int, h: int) -> Iterator[Tuple[slice, tuple, dict]]:
    """Yields (rows of O, their (q, k, v), modifiers) of one head, sequence by sequence, in blocks
    of rows."""
    q, k, v = problem.head(b, h)
    for queries, keys in problem.sequences():
        q_n, k_n, v_n = q[queries], k[keys], v[keys]
        for rows, seen, offset in attention.row_blocks(len(q_n), len(k_n), problem.window):
            yield (slice(queries.start + rows.start, queries.start + rows.stop),
                   (q_n[rows], k_n[seen], v_n[seen]),
                   dict(problem.modifiers(h), offset=offset, first_query=rows.start))


def compute_reference(problem: Problem, show_progress: bool = False) -> Reference:
    """Works head by head and in blocks of rows, so that memory stays near the size of the
    inputs."""
    batch, heads, len_q, _, dim = problem.shape
    o, lse = np.empty((batch, heads, len_q, dim)), np.empty((batch, heads, len_q))
    plain_error = plain_squares = plain_lse_error = largest_score = rounding = 0.0
    for b in range(batch):
        for h in range(heads):
            if show_progress:
                print(f"\rreference: head {b * heads + h + 1} of {batch * heads} ", end="",
                      file=sys.stderr)
            sink = problem.sink(h)
            for rows, block, modifiers in head_blocks(problem, b, h):
                s = attention.scores(*block[:2], problem.scale, **modifiers)
                exact = attention.attend(s, np.asarray(block[2], np.float64), sink)
                o[b, h, rows], lse[b, h, rows] = exact
                if problem.dtype == "f64":
                    continue
                largest_score = max(largest_score, largest(finite(s)))
                if np.exp(sink - finite(exact.lse)).any():  # the sink has weight
                    largest_score = max(largest_score, abs(sink))
                plain = attention.plain(*block, problem.dtype, problem.scale, sink=sink, **modifiers)
                rounding = max(rounding, largest(sum_rounding(s, problem.dtype)))
                error = finite(plain.o - exact.o)
                plain_error = max(plain_error, largest(error))
                plain_squares += float(np.sum(error**2))
                seen = exact.lse != -np.inf
                plain_lse_error = max(plain_lse_error,
                                      largest(finite(plain.lse[seen] - exact.lse[seen])))
    if show_progress:
        print("\r\x1b[K", end="", file=sys.stderr)
    return Reference(o, lse, plain_error, float(np.sqrt(plain_squares)), plain_lse_error,
                     rounding, largest_score)


class Bounds(NamedTuple):
    o: float  # bound per element
    o_rms: float  # bound for the root mean square over all
    lse: float
    conclusive: bool


def rms_expected(reference: Reference) -> float:
    """Returns the root mean square of O in the rows that see a key."""
    seeing = reference.o[np.isfinite(reference.lse)]
    return float(np.sqrt(np.mean(seeing**2))) if seeing.size else 0.0


def is_conclusive(bound: float, problem: Problem, reference: Reference) -> bool:
    """True if the bound can prove something. The smallest number of the type always can, because O must
    then be 0."""
    return (bound <= attention.ulp(0.0, problem.dtype)
            or bound <= WIDEST_BOUND * rms_expected(reference))


def bounds(problem: Problem, reference: Reference) -> Bounds:
    """Returns the bounds that this file's docstring defines."""
    largest_o, largest_lse = largest(reference.o), largest(finite(reference.lse))
    if problem.dtype == "f64":
        o = 1e-12 * max(1.0, largest_o)
        return Bounds(o, o, 1e-12 * max(1.0, largest_lse), is_conclusive(o, problem, reference))
    score_error = max(2, problem.q.shape[3] / 64) * reference.largest_score * 2.0**-24
    sum_error = 2 * np.sqrt(problem.longest_keys()) * 2.0**-24
    fp32_error = score_error * problem.largest_v() + sum_error * largest_o
    one_ulp = attention.ulp(largest_o, problem.dtype)
    o = 2 * reference.plain_error + one_ulp + fp32_error
    rows = reference.o.size / reference.o.shape[-1]
    row_lean = attention.ulp(1.0, problem.dtype) / 2 * np.linalg.norm(reference.o) / np.sqrt(rows)
    return Bounds(
        o, (2 * reference.plain_norm + one_ulp + row_lean) / np.sqrt(reference.o.size) + fp32_error,
        2 * (reference.plain_lse_error + reference.sum_rounding)
        + 4 * attention.ulp(largest_lse, "f32") + score_error + sum_error,
        is_conclusive(o, problem, reference))


def judge(problem: Problem, out: np.ndarray, lse: Optional[np.ndarray],
          show_progress: bool = False, reference: Optional[Reference] = None
          ) -> Tuple[bool, str]:
    """Returns whether O (and LSE, if given) agree with the reference, and the verdict as text:
    "agreed", "WRONG" or "INCONCLUSIVE", a colon, the details. `reference` avoids computing it
    again."""
    title = problem.title()
    shape = problem.output_shape
    wrong = [wrong_shape(name, tensor.shape, wanted)
             for name, tensor, wanted in (("O", out, shape), ("LSE", lse, shape[:-1]))
             if tensor is not None and tensor.shape != wanted]
    if wrong:
        return False, "\n".join([f"WRONG: {title}"] + wrong)

    reference = reference or compute_reference(problem, show_progress)
    limit = bounds(problem, reference)
    got = np.asarray(out).reshape(reference.o.shape)
    result = compare(got, reference.o, limit.o)
    agreed = result.wrong == 0 and result.rms_error <= limit.o_rms
    lines = [describe("O", result, len(shape)),
             f"  O: rms error {result.rms_error:.3g}, bound {limit.o_rms:.3g}"]
    if result.wrong == 0 and not agreed:
        lines.append("  O: no element stands out, but together they are too far off")
    if not agreed:
        diagnosis = mistakes.diagnose(problem, got, reference.o, reference.lse, result.wrong == result.nonfinite)
        lines += [f"  looks like: {diagnosis}"] if diagnosis else []
        narrower = mistakes.type_text(problem.dtype, got, reference.o)
        lines += [f"  O: {narrower}"] if narrower else []
    if lse is not None:
        got_lse = np.asarray(lse, np.float64).reshape(reference.lse.shape)
        result = compare(got_lse, reference.lse, limit.lse)
        lines.append(describe("LSE", result, len(shape) - 1))
        if result.wrong:
            agreed = False
            diagnosis = mistakes.diagnose_lse(got_lse, reference.lse)
            lines += [f"  looks like: {diagnosis}"] if diagnosis else []
    if agreed and not limit.conclusive:
        lines.append(f"  O: no element is out of bounds, but the bound is more than a quarter of "
                     f"O's rms, {rms_expected(reference):.3g}:\n  it proves nothing; with smaller "
                     f"scores it would")
        return False, "\n".join(["INCONCLUSIVE: " + title] + lines)
    return agreed, "\n".join([("agreed: " if agreed else "WRONG: ") + title] + lines)


def whole_numbers(text: str) -> Tuple[int, ...]:
    """An argparse type: "0,3,7"."""
    return tuple(int(number) for number in text.split(","))


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:
        raise BadInput(message)


def parse(arguments) -> argparse.Namespace:
    parser = Parser(description="Judges an attention output against float64.")
    for name in ("q", "k", "v"):
        parser.add_argument("--" + name, required=True, metavar="FILE", help=".npy")
    parser.add_argument("--out", metavar="FILE", help=".npy, O")
    for name in GRADIENTS:
        parser.add_argument("--" + name, metavar="FILE",
                            help=".npy, the gradient of the loss by " + name[1:].upper())
    parser.add_argument("--lse", metavar="FILE", help=".npy, log-sum-exp of the scaled scores")
    parser.add_argument("--causal", action="store_true",
                        help="key j is hidden from query i when j > i + (Lkv - Lq)")
    parser.add_argument("--window", type=whole_numbers, default=attention.NO_LIMITS, metavar="L,R",
                        help="query i sees keys i + (Lkv - Lq) - L to i + (Lkv - Lq) + R; -1: no "
                        "limit; with --causal, R is 0")
    parser.add_argument("--scale", type=float, help="default 1/sqrt(D)")
    parser.add_argument("--softcap", type=float, default=0.0, metavar="X",
                        help="scores are X tanh(score / X); 0: none")
    parser.add_argument("--alibi", action="store_true",
                        help="subtract 2^(-8 (h + 1) / H) |i + (Lkv - Lq) - j| from the scores; if H is no power "
                        "of two, with the slopes of ALiBi's get_slopes")
    parser.add_argument("--kv-heads", type=int, metavar="N", help="of K and V; the files must agree")
    for name, tensor in (("q", "Q"), ("k", "K and V")):
        parser.add_argument(f"--cu-seqlens-{name}", type=whole_numbers, metavar="0,…",
                            help=f"where packed sequences begin in {tensor}, and where the last ends")
    parser.add_argument("--sinks", metavar="FILE",
                        help=".npy, [H]: a logit per head that only the softmax's sum counts")
    parser.add_argument("--tree", type=whole_numbers, metavar="-1,…",
                        help="the parent of each query's token, an earlier one or -1: a query sees all keys before "
                        "the queries' tokens, its ancestors and itself")
    parser.add_argument("--layout", choices=("bhld", "blhd"), default="bhld",
                        help="of the files of Q, K, V, O and gradients")
    parser.add_argument("--dtype", choices=("bf16", "f16", "f32", "f64"),
                        help="type the program computed in; default: that of the q file")
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    for option in ("--window", "--tree"):
        if option in arguments[:-1]:  # argparse would take -1,0 for an option
            at = arguments.index(option)
            arguments[at:at + 2] = [option + "=" + arguments[at + 1]]
    options = parser.parse_args(arguments)
    given = [name for name in GRADIENTS if getattr(options, name)]
    if given and len(given) != len(GRADIENTS):
        raise BadInput("--do --dq --dk --dv go together: give all of them")
    if not given and not options.out:
        raise BadInput("the following arguments are required: --out, or --do --dq --dk --dv")
    if given and options.tree:
        raise BadInput("--tree: only O and its log-sum-exp can be checked, no gradients")
    if options.lse and not options.out:
        raise BadInput("--lse goes with --out")
    return options


def in_bhld(array: np.ndarray, layout: str) -> np.ndarray:
    return array.swapaxes(1, 2) if layout == "blhd" and array.ndim == 4 else array


def main(arguments=None) -> int:
    try:
        options = parse(arguments)

        def read(name: str) -> np.ndarray:
            return in_bhld(read_npy(getattr(options, name)), options.layout)

        q, k, v = (read(name) for name in "qkv")
        problem = Problem(q, k, v, options.causal, options.scale, options.dtype, options.window,
                          options.softcap, options.alibi, options.cu_seqlens_q,
                          options.cu_seqlens_k, read_npy(options.sinks) if options.sinks else None,
                          options.tree)
        if options.kv_heads not in (None, problem.kv_heads):
            raise BadInput(f"--kv-heads {options.kv_heads}: k has {problem.kv_heads}")
        verdicts = []
        if options.out:
            lse = read_npy(options.lse) if options.lse else None
            verdicts.append(judge(problem, read("out"), lse, sys.stderr.isatty()))
        if options.do:
            do, *got = (read(name) for name in GRADIENTS)
            verdicts.append(gradients.judge(problem, do, attention.Gradients(*got)))
    except BadInput as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("\n".join(verdict for _, verdict in verdicts))
    return 0 if all(agreed for agreed, _ in verdicts) else 1


def complete(program) -> int:
    """Returns the exit status of a program, or 2 after an error message if its output could not be
    written."""
    try:
        try:
            status = program()
        except SystemExit as end:  # --help
            status = end.code
        sys.stdout.flush()
        return status
    except OSError as error:
        print(f"error: standard output cannot be written: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # because Python writes again at exit
        return 2


if __name__ == "__main__":
    sys.exit(complete(main))
