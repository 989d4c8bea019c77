#!/usr/bin/env python3
"""FlashAttention's forward tests as a grid for this project's kernels, with check.py's rule.

    docs/measurements/forward_grid.py --small                        some of each kind, on the emulator
    docs/measurements/forward_grid.py --device gpu --torch           all of them; needs a GPU and PyTorch
    docs/measurements/forward_grid.py --small --program build/bin/ch09_masks_and_shapes
    docs/measurements/forward_grid.py --small --numpy                plain attention, to test the grid

Kernels are called through the shared library (--library, --chapter), and O and LSE are checked.
Lengths, head sizes and options are those of tests/test_flash_attn.py and hopper/test_flash_attn.py
in Dao-AILab/flash-attention: test_flash_attn_output, _causal, _varlen_output, _varlen_causal.
Unlike there, packed sequences include some of length 0. One sequence is also filled with NaN, which
must not change a bit of the others. Prints a line for each wrong case, and a count. A case that the
kernel refuses is wrong too. Exit status: 0 if all are correct, 1 if not, 2 for wrong usage.
"""

import argparse
import concurrent.futures
import itertools
import os
import re
import subprocess
import sys
import tempfile
from typing import Iterator, List, NamedTuple, Optional, Tuple

from paths import ROOT
import check  # says so if there is no NumPy
import numpy as np

import attention
from problem import BadInput, Problem, read_npy

PAIRS = [(113, 203), (128, 217), (113, 211), (108, 256), (256, 512), (512, 256), (1024, 1024),
         (1023, 1024), (1024, 1023), (2048, 2048)]  # Lq, Lkv
HOPPER_PAIRS = [(1, 1), (64, 128), (128, 192), (239, 1), (799, 3), (113, 128), (384, 256),
                (640, 128), (4096, 4096), (4224, 4224)]
CAUSAL_PAIRS = [(1, 239), (3, 799), (127, 512), (127, 513), (113, 203), (128, 217), (113, 211),
                (108, 256), (256, 512), (1023, 1024)]
DIMS = (32, 40, 64, 96, 128)
PADDED_DIMS = (59, 111)          # no multiples of 8, so flash_attention.py pads them
WIDE_DIMS = (160, 192, 224, 256)
HEADS = {"mha": (6, 6), "mqa": (6, 1), "gqa": (6, 2)}
SMALL_HEADS = {"mha": (2, 2), "mqa": (3, 1), "gqa": (4, 2)}
FLAGS = (False, True)
SMALL_SCORES = 33000             # Lq Lkv at most, with --small


class Case(NamedTuple):
    test: str
    lengths: Tuple[int, int]          # the longest, if sequences are packed
    dim: int
    batch: int                        # or how many sequences
    heads: Tuple[int, int]            # heads of Q, heads of K and V
    causal: bool
    window: Tuple[int, int]
    alibi: bool
    softcap: float
    dtype: str
    layout: str
    seed: int
    packed: Tuple[Tuple[int, ...], ...] = ()  # cu_seqlens of queries and of keys

    def __str__(self) -> str:
        words = [self.test, "x".join(map(str, self.lengths)), f"d{self.dim}", f"batch {self.batch}",
                 "heads {}/{}".format(*self.heads), self.dtype, self.layout]
        words += ["causal"] * self.causal + ["alibi"] * self.alibi
        words += ["window {},{}".format(*self.window)] * (self.window != attention.NO_LIMITS)
        words += [f"softcap {self.softcap:g}"] * (self.softcap > 0)
        return " ".join(words + [f"seed {self.seed}"])

    def options(self) -> dict:
        """Returns the options that differ from the default, under the names of Problem and
        flash_attention.py."""
        options = {"causal": self.causal, "window": self.window, "alibi": self.alibi,
                   "softcap": self.softcap}
        defaults = {"causal": False, "window": attention.NO_LIMITS, "alibi": False, "softcap": 0.0}
        options = {name: value for name, value in options.items() if value != defaults[name]}
        return {**options, **dict(zip(("cu_seqlens_q", "cu_seqlens_k"), self.packed))}

    def shapes(self) -> List[Tuple[int, ...]]:
        """Returns the shapes of q, k and v: [B,H,L,D]."""
        batch = 1 if self.packed else self.batch
        len_q, len_kv = (cu[-1] for cu in self.packed) if self.packed else self.lengths
        return [(batch, heads, length, self.dim) for heads, length in
                ((self.heads[0], len_q), (self.heads[1], len_kv), (self.heads[1], len_kv))]

    def q_factor(self) -> float:
        """Returns the factor of Q. FlashAttention's tests multiply Q by softcap, so that the cap
        has an effect."""
        return self.softcap or 1.0


def packed_lengths(random: np.random.Generator, longest: int, count: int, empty: int
                   ) -> Tuple[int, ...]:
    """Returns cu_seqlens of `count` sequences, up to 20 shorter than the longest. Number `empty`
    has length 0."""
    lengths = random.integers(max(1, longest - 20), longest + 1, count)
    lengths[empty] = 0
    return (0, *(int(x) for x in np.cumsum(lengths)))


def make_case(test: str, lengths: Tuple[int, int], dim: int, heads: Tuple[int, int], causal: bool,
              local: bool, alibi: bool, softcap: float, dtype: str, seed: int, batch: int) -> Case:
    random = np.random.default_rng(seed)
    window = tuple(map(int, random.integers(0, lengths[1], 2))) if local else attention.NO_LIMITS
    packed = ()
    if "varlen" in test:
        batch += 2  # one without queries, one without keys
        packed = tuple(packed_lengths(random, longest, batch, empty) for longest, empty in
                       zip(lengths, random.permutation(batch)[:2]))
    layout = ("bhld", "blhd")[int(random.integers(2))]
    return Case(test, lengths, dim, batch, heads, causal, window, alibi, softcap, dtype, layout,
                seed, packed)


def tests() -> Iterator[Tuple[str, List[Tuple[int, int]], dict]]:
    """Yields name, lengths and options of each test."""
    anything = {"heads": ("mha", "mqa", "gqa"), "causal": FLAGS, "local": FLAGS, "alibi": FLAGS,
                "softcap": (0.0, 50.0), "dtype": ("bf16", "f16")}
    causal = {"heads": ("mha",), "causal": (True,), "local": FLAGS, "alibi": (False,),
              "softcap": (0.0,), "dtype": ("bf16", "f16")}
    both_ways = CAUSAL_PAIRS + [(b, a) for a, b in CAUSAL_PAIRS]
    yield "output", PAIRS + HOPPER_PAIRS, anything
    yield "causal", both_ways, causal
    yield "varlen_output", [(1, 147)] + PAIRS, anything
    yield "varlen_causal", both_ways, causal


def whole_grid(dims: Tuple[int, ...], first_seed: int) -> Iterator[Case]:
    seeds = itertools.count(first_seed)
    for test, pairs, options in tests():
        for lengths, dim, *values in itertools.product(pairs, dims, *options.values()):
            chosen = dict(zip(options, values))
            chosen["heads"] = HEADS[chosen["heads"]]
            yield make_case(test, lengths, dim, seed=next(seeds),
                            batch=1 if max(lengths) >= 1000 else 2, **chosen)


def small_grid(dims: Tuple[int, ...], first_seed: int) -> Iterator[Case]:
    """Returns a few cases of each test and each short pair of lengths, with random options."""
    seeds = itertools.count(first_seed)
    random = np.random.default_rng(first_seed)
    for test, pairs, options in tests():
        for lengths in pairs:
            if lengths[0] * lengths[1] > SMALL_SCORES:
                continue
            for _ in range(2 if test == "output" else 1):
                chosen = {name: values[random.integers(len(values))]
                          for name, values in options.items()}
                chosen["heads"] = SMALL_HEADS[chosen["heads"]]
                yield make_case(test, lengths, dims[random.integers(len(dims))],
                                batch=2 if "varlen" in test else 1, seed=next(seeds), **chosen)


# ---- Programs and libraries that compute ----

class Refused(Exception):
    """The message of a program or the library for a case that it does not support."""


class Plain:
    """Plain attention in NumPy in place of a kernel."""
    takes_nan = True

    def __call__(self, case: Case, q, k, v) -> Tuple[np.ndarray, np.ndarray]:
        return attention.general(
            q, k, v, lambda *qkv, **options: attention.plain(*qkv, case.dtype, **options),
            **case.options())


class LibraryOf:
    """A chapter in the shared library. NumPy arrays run on the emulator, and tensors on their
    GPU."""
    takes_nan = True

    def __init__(self, path: str, chapter: int, with_lse: bool = True) -> None:
        import flash_attention
        self.library = flash_attention.load(os.path.abspath(path))
        self.chapter, self.with_lse = chapter, with_lse

    def __call__(self, case: Case, q, k, v):
        # with blhd, the same values in other memory.
        swap = (lambda x: x.swapaxes(1, 2)) if case.layout == "blhd" else (lambda x: x)
        packed = {name: list(value) for name, value in case.options().items() if "cu_" in name}
        if isinstance(q, np.ndarray):
            dtype = np.float16 if case.dtype == "f16" else np.float32
            tensors = [np.ascontiguousarray(swap(x), dtype) for x in (q, k, v)]
        else:
            tensors = [swap(x).contiguous() for x in (q, k, v)]
        try:
            result = self.library.attention(*tensors, chapter=self.chapter, layout=case.layout,
                                            return_lse=self.with_lse, **{**case.options(), **packed})
        except (ValueError, TypeError) as error:  # a TypeError for an option that it does not know
            raise Refused(str(error)) from None
        o, lse = result if self.with_lse else (result, None)
        return swap(o), lse


class Program:
    """A chapter's program, which is run with files. It refuses NaN, and --layout is tested through
    the library."""
    takes_nan = False

    def __init__(self, path: str, device: str) -> None:
        self.path, self.device = path, device

    def __call__(self, case: Case, q, k, v) -> Tuple[np.ndarray, np.ndarray]:
        with tempfile.TemporaryDirectory() as folder:
            files = {name: os.path.join(folder, name + ".npy") for name in ("q", "k", "v", "out",
                                                                            "lse")}
            command = [self.path, "--dtype", case.dtype, "--device", self.device]
            for name, x in zip("qkv", (q, k, v)):
                np.save(files[name], np.asarray(x, np.float32))
            for name, path in files.items():
                command += ["--" + name, path]
            for name, value in case.options().items():
                command.append("--" + name.replace("_", "-"))
                if isinstance(value, tuple):
                    command.append(",".join(map(str, value)))
                elif value is not True:
                    command.append(f"{value:g}")
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode == 2:
                raise Refused(done.stderr.strip())
            if done.returncode != 0:
                raise Wrong(f"exit status {done.returncode}: {done.stdout} {done.stderr}")
            return tuple(np.array(read_npy(files[name])) for name in ("out", "lse"))


# ---- Checks ----

class Wrong(Exception):
    """A line about the error."""


def on_host(x) -> np.ndarray:
    return x if isinstance(x, np.ndarray) else x.detach().float().cpu().numpy()


def random_tensors(case: Case, device: Optional[str]) -> list:
    """Returns q, k, v, normal with mean 0.5, in the case's type, as arrays or tensors on a PyTorch
    device."""
    factors = (case.q_factor(), 1.0, 1.0)
    if device is None:
        random = np.random.default_rng(case.seed)
        return [attention.round_to(factor * random.normal(0.5, 1.0, shape), case.dtype)
                for factor, shape in zip(factors, case.shapes())]
    import attention_torch
    import torch
    generator = torch.Generator(device).manual_seed(case.seed)
    return [(factor * (0.5 + torch.randn(shape, generator=generator, device=device))
             ).to(attention_torch.TYPES[case.dtype])
            for factor, shape in zip(factors, case.shapes())]


def require_apart(case: Case, run, tensors: list, o) -> None:
    """Fills one sequence with NaN and checks that the bits of the others do not change."""
    cu_q, cu_k = case.packed
    present = [n for n in range(case.batch) if cu_k[n] < cu_k[n + 1]]
    n = present[case.seed % len(present)]
    poisoned = [x.copy() if isinstance(x, np.ndarray) else x.clone() for x in tensors]
    for x, cu in zip(poisoned, (cu_q, cu_k, cu_k)):
        x[:, :, cu[n]:cu[n + 1]] = float("nan")
    with np.errstate(invalid="ignore"):
        again = on_host(run(case, *poisoned)[0])
    others = np.r_[0:cu_q[n], cu_q[n + 1]:cu_q[-1]]
    changed = ~(again[:, :, others] == on_host(o)[:, :, others]).all(axis=(0, 1, 3))
    if changed.any():
        raise Wrong(f"row {others[np.argmax(changed)]} changes when sequence {n}, rows from {cu_q[n]} "
                    "on, becomes NaN")


def judge(problem: Problem, o: np.ndarray, lse: Optional[np.ndarray],
          reference: Optional[check.Reference]) -> None:
    """Raises Wrong unless check.py agrees."""
    agreed, verdict = check.judge(problem, o, lse, reference=reference)
    if not agreed:
        raise Wrong(" ".join(verdict.split()))


def start(case: Case, run, torch_device: Optional[str], with_torch_reference: bool):
    """Starts a case. Returns a function for the work on the host, which raises Wrong."""
    tensors = random_tensors(case, torch_device)
    o, lse = run(case, *tensors)
    if case.packed and run.takes_nan:
        require_apart(case, run, tensors, o)
    problem = Problem(*map(on_host, tensors), dtype=case.dtype, **case.options())
    reference = None
    if with_torch_reference:
        import attention_torch
        reference = attention_torch.compute_reference(problem, *tensors)
    o, lse = on_host(o), None if lse is None else on_host(lse)
    return lambda: judge(problem, o, lse, reference)


class Count(NamedTuple):
    right: int
    wrong: int
    refused: int


def run_grid(cases, run, torch_device: Optional[str] = None, with_torch_reference: bool = False,
             jobs: int = 1, say=print) -> Count:
    """Runs the cases in turn. `jobs` of them are checked at a time, while the next ones run."""
    count = {"right": 0, "WRONG": 0, "refused": 0}

    def finish(case: Case, judgement) -> None:
        verdict, why = "right", ""
        try:
            judgement()
        except Wrong as error:
            verdict, why = "WRONG", str(error)
        except Refused as error:
            verdict, why = "refused", str(error)
        count[verdict] += 1
        if verdict != "right":
            say(f"{verdict}: {case}: {why}")

    def raising(error: Exception):
        def judgement():
            raise error
        return judgement

    waiting = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for case in cases:
            try:
                rest = start(case, run, torch_device, with_torch_reference)
                rest = rest if jobs == 1 else pool.submit(rest).result
            except (Wrong, Refused) as error:
                rest = raising(error)
            waiting.append((case, rest))
            while waiting and len(waiting) >= (1 if jobs == 1 else 2 * jobs):
                finish(*waiting.pop(0))
        for one in waiting:
            finish(*one)
    return Count(count["right"], count["WRONG"], count["refused"])


# ---- Command line ----

def part(text: str) -> Tuple[int, int]:
    """Parses "1/4" to "4/4", as a type for argparse."""
    number, of = map(int, text.split("/"))
    if not 1 <= number <= of:
        raise ValueError
    return number, of


def parse(arguments) -> argparse.Namespace:
    parser = check.Parser(description=__doc__.splitlines()[0])
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--library", metavar="FILE",
                     default=str(ROOT / "build" / "lib" / "libflash_attention.so"),
                     help="the shared library [build/lib/libflash_attention.so]")
    who.add_argument("--program", metavar="FILE", help="a chapter's program instead")
    who.add_argument("--numpy", action="store_true", help="plain attention instead")
    parser.add_argument("--chapter", type=int, default=9, help="chapter in the library [9]")
    parser.add_argument("--no-lse", action="store_true", help="a chapter that has only O")
    parser.add_argument("--device", choices=("emulator", "gpu"), default="emulator")
    parser.add_argument("--torch", action="store_true",
                        help="the reference by PyTorch, in float64 too; on the GPU with --device gpu")
    parser.add_argument("--small", action="store_true", help="some short cases of each test")
    parser.add_argument("--padded", action="store_true",
                        help=f"also head sizes {', '.join(map(str, PADDED_DIMS))}")
    parser.add_argument("--wide", action="store_true",
                        help=f"also head sizes {', '.join(map(str, WIDE_DIMS))}")
    parser.add_argument("--only", metavar="REGEX", help="cases whose name has this in it")
    parser.add_argument("--part", type=part, default=(1, 1), metavar="I/N", help="every Nth case")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first case [1]")
    parser.add_argument("--jobs", type=int, default=1, help="cases checked at a time [1]")
    parser.add_argument("--list", action="store_true", help="print the cases and exit")
    return parser.parse_args(arguments)


def chosen_cases(options: argparse.Namespace) -> List[Case]:
    dims = DIMS + PADDED_DIMS * options.padded + WIDE_DIMS * options.wide
    grid = (small_grid if options.small else whole_grid)(dims, options.seed)
    try:
        cases = [case for case in grid if re.search(options.only or "", str(case))]
    except re.error as error:
        raise BadInput(f"--only {options.only}: {error}") from None
    number, of = options.part
    cases = cases[number - 1::of]
    if not cases:
        raise BadInput("no case is left: --only and --part say which")
    return cases


def chosen_runner(options: argparse.Namespace):
    if options.numpy:
        return Plain()
    if options.program:
        return Program(options.program, options.device)
    try:
        return LibraryOf(options.library, options.chapter, not options.no_lse)
    except OSError as error:
        raise BadInput(f"{error}; build the target flash_attention") from None


def main(arguments=None) -> int:
    try:
        options = parse(arguments)
        if options.jobs < 1:
            raise BadInput(f"--jobs {options.jobs}: accepted: 1 and more")
        cases = chosen_cases(options)
        if options.list:
            print(*cases, sep="\n")
            return 0
        on_gpu = options.device == "gpu" and not (options.numpy or options.program)
        if on_gpu or options.torch:
            try:
                import torch
            except ImportError:
                raise BadInput(f"{sys.executable} has no PyTorch; --torch and the library on a GPU "
                               "need it") from None
            if on_gpu and not torch.cuda.is_available():
                raise BadInput("--device gpu: PyTorch sees none")
        run = chosen_runner(options)
    except BadInput as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    count = run_grid(cases, run, "cuda" if on_gpu else None, options.torch, options.jobs,
                     lambda line: print(line, flush=True))
    print(f"{count.right} of {len(cases)} right, {count.wrong} wrong, {count.refused} refused")
    return 0 if count.right == len(cases) else 1


if __name__ == "__main__":
    sys.exit(main())
