#!/usr/bin/env python3
"""FlashAttention's tests of the backward pass for chapter 10's kernels. Needs a GPU and PyTorch.

    cmake --build build --target flash_attention
    docs/measurements/backward_grid.py

Lengths, head sizes, heads and types are those of tests/test_flash_attn.py and
hopper/test_flash_attn.py in Dao-AILab/flash-attention, as far as chapter 10 supports their options:

    output, causal   test_flash_attn_output and _causal, each design; "ours" and "deterministic" are
                     chapter 22's kernels where the card and the head size allow it
    onehot           _bwd_overflow: Q x 5, K and V x 3, so that a row has almost only one weight
    strided          _bwd_transpose: dO is every second batch of a larger tensor
    again            _race_condition and _deterministic: 250 runs into outputs full of NaN after the first
                     run. dK and dV must have the same bits, and dQ too if deterministic. Otherwise its
                     difference may be twice the change when 0.3 is added and subtracted

The rule comes from FlashAttention-3. The largest error of a gradient against float64 may be at most
twice that of plain attention in the same type, plus twice the change when 0.3 is added and
subtracted. Prints a line for each wrong case and a count for each design. "FA2" is PyTorch's
FlashAttention-2, where its mask has the same meaning. Exit status: 0 if all are correct, 1 if not,
2 for wrong usage.
"""

import argparse
import itertools
import re
import sys
from typing import Dict, Iterator, List, Optional, Tuple

import paths  # noqa: F401, before the modules of reference/
import check
from attention import NO_LIMITS
from forward_grid import (CAUSAL_PAIRS, Case, DIMS, LibraryOf, PADDED_DIMS, PAIRS, ROOT, random_tensors,
                          whole_grid)
from problem import BadInput

DESIGNS = {"two kernels": (1, False), "one kernel": (2, False), "two roles": (3, False),
           "ours": (0, False), "deterministic": (0, True)}  # option of the library
FA2 = "FA2"
SHORT = (1, 2, 5, 17, 128)
AGAIN = list(dict.fromkeys([(1, 239), (3, 799)] + CAUSAL_PAIRS + PAIRS))


def grid(dims: Tuple[int, ...], first_seed: int) -> Iterator[Case]:
    for case in whole_grid(dims, first_seed):
        if not (case.packed or case.alibi or case.softcap or case.window != NO_LIMITS):
            yield case

    seeds = itertools.count(first_seed)

    def of(test, lengths, dim, batch, heads, causal, dtype, layout="bhld"):
        return Case(test, lengths, dim, batch, (heads, heads), causal, NO_LIMITS, False, 0.0, dtype,
                    layout, next(seeds))

    for dtype in ("bf16", "f16"):
        for causal in (False, True):
            for dim in dims:
                for length in SHORT:
                    yield of("onehot", (length, length), dim, 2, 5, causal, dtype)
                    yield of("strided", (length, length), dim, 5, 2, causal, dtype, "blhd")
            for dim in (64, 128):
                for lengths in AGAIN:
                    yield of("again", lengths, dim, 60, 4, causal, dtype)


def differentiate(q, k, v, do, causal: bool, real) -> tuple:
    """Returns dQ, dK and dV from plain attention in `real`, which is float64 or a 16-bit type."""
    import torch
    leaves = q, k, v = [x.to(real, copy=True).requires_grad_() for x in (q, k, v)]
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    s = q @ k.transpose(-1, -2) * q.shape[3] ** -0.5
    if causal:
        hidden = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).tril(
            s.shape[3] - s.shape[2]).logical_not()
        s = s.masked_fill(hidden, float("-inf"))
    p = torch.softmax(s.to(real if real == torch.float64 else torch.float32), -1)
    p = p.nan_to_num(0.0).to(real)  # rows that see no key
    return torch.autograd.grad(p @ v, leaves, do.to(real))


def rounding(exact, dtype) -> float:
    """Returns FlashAttention-3's bound, which is the largest change when 0.3 is added and subtracted in the
    type."""
    rounded = exact.to(dtype)
    return float((rounded + 0.3 - 0.3 - rounded).abs().max())


def why_wrong(got: tuple, exact: tuple, plain: tuple) -> Optional[str]:
    """Returns None, or a sentence about the violation of the rule."""
    for name, gradient, right, rough in zip(("dQ", "dK", "dV"), got, exact, plain):
        error = float((gradient.double() - right).abs().max())
        allowed = 2 * float((rough.double() - right).abs().max()) + 2 * rounding(right, gradient.dtype)
        if not error <= allowed:
            return f"{name}: error {error:.2e}, {allowed:.2e} are allowed"
    return None


class Problem:
    """The tensors of a case, and calls of the library on them."""

    def __init__(self, library, case: Case, device: str) -> None:
        import torch
        self.library, self.case = library, case
        q, k, v = random_tensors(case, device)
        if case.test == "onehot":
            q, k, v = ((x - 0.5) * factor for x, factor in zip((q, k, v), (5, 3, 3)))
        generator = torch.Generator(device).manual_seed(case.seed)
        many = 2 if case.test == "strided" else 1
        shape = (q.shape[0] * many, *q.shape[1:])
        do = torch.randn(shape, generator=generator, device=device).to(q.dtype)[::many]
        self.tensors = q, k, v, do
        if case.layout == "blhd":
            q, k, v = (x.swapaxes(1, 2).contiguous() for x in (q, k, v))
            do = do.swapaxes(1, 2)
        self.inputs = q, k, v, do
        self.o, self.lse = library.attention(q, k, v, causal=case.causal, layout=case.layout,
                                             return_lse=True)

    def gradients(self, design: str) -> tuple:
        """Returns gradients in the layout of Q, K and V, [B,H,L,D]."""
        if design == FA2:
            return self.gradients_by_pytorch()
        option, deterministic = DESIGNS[design]
        q, k, v, do = self.inputs
        found = self.library.backward(do, q, k, v, self.o, self.lse, causal=self.case.causal,
                                      layout=self.case.layout, deterministic=deterministic,
                                      option=option)
        return tuple(x.swapaxes(1, 2) if self.case.layout == "blhd" else x for x in found)

    def gradients_by_pytorch(self) -> tuple:
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel
        *inputs, do = self.tensors
        leaves = [x.detach().requires_grad_() for x in inputs]
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            o = torch.nn.functional.scaled_dot_product_attention(
                *leaves, is_causal=self.case.causal, enable_gqa=len(set(self.case.heads)) > 1)
        return torch.autograd.grad(o, leaves, do)

    def reference(self) -> Tuple[tuple, tuple]:
        import torch
        return tuple(differentiate(*self.tensors, self.case.causal, real)
                     for real in (torch.float64, self.tensors[0].dtype))

    def why_not_again(self, design: str, runs: int) -> Optional[str]:
        """Returns None, or the gradient that changes when it is recomputed."""
        first = self.gradients(design)
        farthest, changed = first[0].new_zeros(()), [0, 0, 0]
        for _ in range(runs):
            again = self.gradients(design)
            farthest = (again[0] - first[0]).abs().amax().maximum(farthest)
            for i, (x, y) in enumerate(zip(again, first)):
                changed[i] = changed[i] + ~(x == y).all()
        allowed = 2 * rounding(first[0], first[0].dtype)
        if design in ("two kernels", "deterministic"):
            allowed = 0.0
        if not float(farthest) <= allowed:
            return f"dQ: {float(farthest):.2e} from the first, {allowed:.2e} are allowed"
        return next((f"{name} differs in {int(count)} of {runs} runs"
                     for name, count in zip(("dK", "dV"), changed[1:]) if int(count)), None)


def takes(design: str, case: Case) -> bool:
    """True if the mask has the same meaning. PyTorch aligns it to the first query and the first
    key."""
    return design != FA2 or not case.causal or case.lengths[0] == case.lengths[1]


def run_grid(cases: List[Case], library, designs: List[str], runs: int, say=print,
             device: str = "cuda") -> Dict[str, Tuple[int, int]]:
    """Returns for each design the number of correct cases and of all cases."""
    counts = {design: [0, 0] for design in designs}
    for case in cases:
        problem = Problem(library, case, device)
        if case.test != "again":
            exact, plain = problem.reference()
        for design in (design for design in designs if takes(design, case)):
            try:
                why = (problem.why_not_again(design, runs) if case.test == "again"
                       else why_wrong(problem.gradients(design), exact, plain))
            except (ValueError, RuntimeError) as error:  # RuntimeError: PyTorch's
                why = f"refused: {str(error).splitlines()[0]}"
            counts[design][0] += not why
            counts[design][1] += 1
            if why:
                say(f"WRONG: {design}: {case}: {why}")
    return {design: (right, count) for design, (right, count) in counts.items()}


def chosen_cases(options: argparse.Namespace) -> List[Case]:
    try:
        cases = [case for case in grid(DIMS + PADDED_DIMS, options.seed)
                 if re.search(options.only or "", str(case))]
    except re.error as error:
        raise BadInput(f"--only {options.only}: {error}") from None
    if not cases:
        raise BadInput("no case is left: --only says which")
    return cases


def chosen_designs(text: str) -> List[str]:
    """Parses names separated by commas, as a type for argparse."""
    names = text.split(",")
    if not set(names) <= {*DESIGNS, FA2}:
        raise argparse.ArgumentTypeError(f"{text}: accepted: {', '.join([*DESIGNS, FA2])}")
    return names


def main(arguments=None) -> int:
    parser = check.Parser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", metavar="FILE",
                        default=str(ROOT / "build" / "lib" / "libflash_attention.so"),
                        help="the shared library [build/lib/libflash_attention.so]")
    parser.add_argument("--designs", type=chosen_designs, default=[*DESIGNS, FA2],
                        help=f"some of {', '.join([*DESIGNS, FA2])} [all]")
    parser.add_argument("--only", metavar="REGEX", help="cases whose name has this in it")
    parser.add_argument("--runs", type=int, default=250, help="in addition to the first [250]")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first case [1]")
    parser.add_argument("--list", action="store_true", help="print the cases and exit")
    try:
        options = parser.parse_args(arguments)
        if options.runs < 1:
            raise BadInput(f"--runs {options.runs}: accepted: 1 and more")
        cases = chosen_cases(options)
        if options.list:
            print(*cases, sep="\n")
            return 0
        try:
            import torch
        except ImportError:
            raise BadInput(f"{sys.executable} has no PyTorch; this needs it") from None
        if not torch.cuda.is_available():
            raise BadInput("PyTorch sees no GPU on this machine")
        try:
            library = LibraryOf(options.library, 10).library
        except OSError as error:
            raise BadInput(f"{error}; build the target flash_attention") from None
    except BadInput as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    counts = run_grid(cases, library, options.designs, options.runs,
                      lambda line: print(line, flush=True))
    for design, (right, count) in counts.items():
        print(f"{design}: {right} of {count} right")
    return 0 if all(right == count for right, count in counts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
