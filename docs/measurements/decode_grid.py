#!/usr/bin/env python3
"""Other projects' tests of decoding over a cache for chapter 11's kernels, by check.py's rule.

    docs/measurements/decode_grid.py --small                     some of each kind, on the emulator
    docs/measurements/decode_grid.py                             all of them; needs a GPU and PyTorch

Lengths, heads and page sizes are those of tests/test_flash_attn.py and hopper/test_flash_attn.py in
Dao-AILab/flash-attention, and of tests/test_shared_prefix_kernels.py in flashinfer-ai/flashinfer,
as far as chapter 11 supports their options:

    kvcache      test_flash_attn_kvcache: sequences of different lengths in a cache, with pages of 1 to
                 256 keys or none, with and without new keys to append
    splitkv      test_flash_attn_splitkv: the whole cache, with up to 128 splits
    prefix       FlashInfer's: 12 or 17 sequences with common first keys, which are read once

Unlike there, memory without a key is NaN, in the cache and in unused pages. Table entries after a
sequence's pages are invalid, and one sequence of the batch may have no key. Each sequence is
checked separately. After an append the cache must contain exactly the keys. Prints a line for each
wrong case, and a count. Exit status: 0 if all are correct, 1 if not, 2 for wrong usage.
"""

import argparse
import itertools
import re
import sys
from typing import Iterator, List, NamedTuple, Optional, Tuple

import paths  # noqa: F401, before the modules of reference/
import check  # says so if there is no NumPy
import numpy as np

import attention
from forward_grid import HEADS, LibraryOf, ROOT, on_host, part
from problem import BadInput, Problem

KVCACHE = [(1, 128), (1, 339), (3, 1024), (64, 800), (64, 256), (3, 799), (64, 2048), (16, 20000),
           (1, 131072), (16, 131072), (128, 128)]  # queries, room in the cache
SPLITKV = [(3, 1024), (1, 339), (64, 800), (3, 799), (64, 2048), (16, 20000), (16, 100000)]
UNIQUE, SHARED = (37, 17), (128, 512, 2048)  # keys of a sequence and of all
SPLITS = (1, 2, 3, 5, 17, 32, 55, 97, 128)
PAGES = (0, 1, 4, 16, 128, 256)
DIMS = (32, 64, 80, 128)
SMALL_SCORES = 400_000           # queries x keys of all heads at most, with --small
SMALL_TENSOR = 8_000_000         # elements of K for as many heads
NOWHERE = -1_234_567_890


class Case(NamedTuple):
    test: str
    lengths: Tuple[int, int]      # queries, room
    dim: int
    heads: Tuple[int, int]
    causal: bool
    appended: int
    page_size: int                # 0: no pages
    splits: int                   # 0: chosen
    dtype: str
    layout: str
    seed: int
    batch: int = 2
    prefix: int = 0               # keys that all sequences share

    def __str__(self) -> str:
        words = [self.test, "x".join(map(str, self.lengths)), f"d{self.dim}",
                 "heads {}/{}".format(*self.heads), self.dtype, self.layout]
        words += ["causal"] * self.causal + [f"append {self.appended}"] * (self.appended > 0)
        words += [f"pages of {self.page_size}"] * (self.page_size > 0)
        words += [f"splits {self.splits}"] * (self.splits > 0)
        words += [f"batch {self.batch} prefix {self.prefix}"] * (self.prefix > 0)
        return " ".join(words + [f"seed {self.seed}"])


def whole_grid(first_seed: int) -> Iterator[Case]:
    seeds = itertools.count(first_seed)
    random = np.random.default_rng(first_seed)

    def layout() -> str:
        return ("bhld", "blhd")[int(random.integers(2))]

    for lengths, dim, heads, causal, new, page_size, dtype in itertools.product(
            KVCACHE, DIMS, HEADS.values(), (False, True), (False, True), PAGES, ("bf16", "f16")):
        appended = int(random.integers(1, lengths[0] + 1)) if new else 0
        yield Case("kvcache", lengths, dim, heads, causal, appended, page_size, 0, dtype, layout(),
                   next(seeds))
    for lengths, dim, causal, splits, dtype in itertools.product(
            SPLITKV, DIMS, (False, True), SPLITS, ("bf16", "f16")):
        yield Case("splitkv", lengths, dim, HEADS["mha"], causal, 0, 0, splits, dtype, layout(),
                   next(seeds))
    for appending, batch, unique, shared, heads, causal, dim, page_size, dtype in itertools.product(
            (False, True), (12, 17), UNIQUE, SHARED, (8, 16), (False, True), (64, 128), (1, 16),
            ("bf16", "f16")):
        len_q = unique if appending else 1
        yield Case("prefix", (len_q, shared + unique), dim, (heads, heads), causal, 0, page_size, 0,
                   dtype, layout(), next(seeds), batch, shared)


def small_grid(first_seed: int) -> Iterator[Case]:
    """Returns some of the short cases of each test, so that each value of each option occurs."""
    short = {}
    for case in whole_grid(first_seed):
        (queries, room), heads = case.lengths, case.batch * case.heads[0]
        if queries * room * heads <= SMALL_SCORES and room * heads * case.dim <= SMALL_TENSOR:
            short.setdefault(case.test, []).append(case)
    for test, count in ("kvcache", 44), ("splitkv", 8), ("prefix", 8):
        yield from short[test][::len(short[test]) // count | 1]  # an odd step, so that every option changes


class Sequences:
    """The tensors of a case, as arrays, or tensors on a PyTorch device, with NaN where there is no
    key."""

    def __init__(self, case: Case, device: Optional[str]) -> None:
        random = np.random.default_rng(case.seed)
        len_q, room = case.lengths
        self.batch, self.case = case.batch, case
        self.lengths = [int(random.integers(max(1, case.appended), room + 1)) for _ in range(self.batch)]
        if case.test in ("splitkv", "prefix"):
            self.lengths = [room] * self.batch
        elif random.integers(4) == 0 and not case.appended:
            self.lengths[0] = 0
        shapes = [(self.batch, case.heads[0], len_q, case.dim)] + [
            (self.batch, case.heads[1], room, case.dim)] * 2
        if device is None:
            self.q, self.k, self.v = (attention.round_to(random.normal(0.5, 1.0, shape), case.dtype)
                                      for shape in shapes)
            self.like = lambda shape: np.full(shape, np.nan, np.float32)
        else:
            import attention_torch
            import torch
            generator = torch.Generator(device).manual_seed(case.seed)
            self.q, self.k, self.v = ((0.5 + torch.randn(shape, generator=generator, device=device)
                                       ).to(attention_torch.TYPES[case.dtype]) for shape in shapes)
            self.like = lambda shape: self.q.new_full(shape, float("nan"))
        if case.dtype == "f16" and device is None:
            self.q, self.k, self.v = (x.astype(np.float16) for x in (self.q, self.k, self.v))
            self.like = lambda shape: np.full(shape, np.nan, np.float16)
        if case.prefix:
            for x in (self.k, self.v):
                x[1:, :, :case.prefix] = x[:1, :, :case.prefix]
        self.table = None
        if case.page_size:
            shared = case.prefix // case.page_size
            used = [-(-length // case.page_size) for length in self.lengths]
            self.pages = sum(used) - (self.batch - 1) * shared + 3
            order = random.permutation(self.pages)
            self.table = np.full((self.batch, max(used) + 1), NOWHERE, np.int32)
            for n, pages in enumerate(used):
                first = shared if n else 0
                self.table[n, :first] = self.table[0, :first]
                self.table[n, first:pages], order = order[:pages - first], order[pages - first:]

    def cache(self, x, appended: int):
        """Returns K or V before the call, without the newest `appended` keys of each sequence."""
        size, dim = self.case.page_size, self.case.dim
        into = self.like((self.pages, x.shape[1], size, dim) if size else tuple(x.shape))
        for n, length in enumerate(self.lengths):
            keys = np.arange(length - appended)
            if not size:
                into[n, :, :len(keys)] = x[n, :, :len(keys)]
            elif len(keys):
                into[self.table[n, keys // size], :, keys % size] = x[n, :, :len(keys)].swapaxes(0, 1)
        return into

    def newest(self, x):
        rows = [x[n:n + 1, :, length - self.case.appended:length]
                for n, length in enumerate(self.lengths)]
        if isinstance(x, np.ndarray):
            return np.concatenate(rows)
        import torch
        return torch.cat(rows)


def same(a, b) -> bool:
    """True if the bits are equal, so that NaN equals NaN."""
    a, b = on_host(a), on_host(b)
    return bool(((a == b) | (np.isnan(a) & np.isnan(b))).all())


def why_wrong(case: Case, library, device: Optional[str]) -> Optional[str]:
    """Returns None, or a line about the error."""
    of = Sequences(case, device)
    turned = (lambda x: x.swapaxes(1, 2)) if case.layout == "blhd" else (lambda x: x)
    in_memory = (lambda x: np.ascontiguousarray(turned(x))) if device is None else (
        lambda x: turned(x).contiguous())
    caches = [in_memory(of.cache(x, case.appended)) for x in (of.k, of.v)]
    more = {"prefix": case.prefix} if case.prefix else {}
    if case.appended:
        more.update(zip(("k_new", "v_new"), (in_memory(of.newest(x)) for x in (of.k, of.v))))
    before = np.array(of.lengths, np.int32) - case.appended
    try:
        o, lse = library.decode(in_memory(of.q), *caches, before, of.table, causal=case.causal,
                                layout=case.layout, splits=case.splits, return_lse=True, **more)
    except ValueError as error:
        return f"refused: {error}"
    o = turned(o)
    for name, cache, x in zip("KV", caches, (of.k, of.v)):
        if case.appended and not same(turned(cache), of.cache(x, 0)):
            return f"the cache of {name} does not hold the keys"
    for n, length in enumerate(of.lengths):
        got, got_lse = on_host(o[n:n + 1]), on_host(lse[n:n + 1])
        if length == 0:
            if not ((got == 0).all() and (got_lse == -np.inf).all()):
                return f"sequence {n} has no key: expected 0 and -inf"
            continue
        tensors = of.q[n:n + 1], of.k[n:n + 1, :, :length], of.v[n:n + 1, :, :length]
        problem = Problem(*(on_host(x).astype(np.float32) for x in tensors), dtype=case.dtype,
                          causal=case.causal)
        reference = None
        if device is not None:
            import attention_torch
            reference = attention_torch.compute_reference(problem, *tensors)
        agreed, verdict = check.judge(problem, got, got_lse, reference=reference)
        if not agreed:
            return f"sequence {n} of {length} keys: " + " ".join(verdict.split())
    return None


def run_grid(cases: List[Case], library, device: Optional[str], say=print) -> int:
    """Returns the number of correct cases."""
    right = 0
    for case in cases:
        why = why_wrong(case, library, device)
        right += why is None
        if why is not None:
            say(f"WRONG: {case}: {why}")
    return right


def chosen_cases(options: argparse.Namespace) -> List[Case]:
    grid = (small_grid if options.small else whole_grid)(options.seed)
    try:
        cases = [case for case in grid if re.search(options.only or "", str(case))]
    except re.error as error:
        raise BadInput(f"--only {options.only}: {error}") from None
    number, of = options.part
    if not cases[number - 1::of]:
        raise BadInput("no case is left: --only and --part say which")
    return cases[number - 1::of]


def main(arguments=None) -> int:
    parser = check.Parser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", metavar="FILE",
                        default=str(ROOT / "build" / "lib" / "libflash_attention.so"),
                        help="the shared library [build/lib/libflash_attention.so]")
    parser.add_argument("--small", action="store_true", help="some short cases, on the emulator")
    parser.add_argument("--only", metavar="REGEX", help="cases whose name has this in it")
    parser.add_argument("--part", type=part, default=(1, 1), metavar="I/N", help="every Nth case")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first case [1]")
    parser.add_argument("--list", action="store_true", help="print the cases and exit")
    try:
        options = parser.parse_args(arguments)
        cases = chosen_cases(options)
        if options.list:
            print(*cases, sep="\n")
            return 0
        device = None
        if not options.small:
            try:
                import torch
            except ImportError:
                raise BadInput(f"{sys.executable} has no PyTorch; without --small this needs it"
                               ) from None
            if not torch.cuda.is_available():
                raise BadInput("PyTorch sees no GPU on this machine; --small runs on the emulator")
            device = "cuda"
        try:
            library = LibraryOf(options.library, 11).library
        except OSError as error:
            raise BadInput(f"{error}; build the target flash_attention") from None
    except BadInput as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    right = run_grid(cases, library, device, lambda line: print(line, flush=True))
    print(f"{right} of {len(cases)} right")
    return 0 if right == len(cases) else 1


if __name__ == "__main__":
    sys.exit(main())
