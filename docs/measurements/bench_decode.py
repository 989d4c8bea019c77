#!/usr/bin/env python3
"""Races chapter 11's decoding against PyTorch's attention on this GPU, in one process, taking turns.

    cmake --build build --target flash_attention
    docs/measurements/bench_decode.py --json out.json --markdown out.md

    docs/measurements/bench_decode.py --prefix 8192 --shape 64,32/8,1,8704,128

One query per sequence. It times a CUDA graph of calls, so that launch overhead does not count. K
and V alternate between copies that exceed the L2 cache several times. Each of our kernels is first
compared with float64, on new random inputs, with an output full of NaN. A wrong kernel is not
timed. GB/s are the bytes of K and V / time. With --prefix all sequences begin with the same keys,
and the table has microseconds per call. Exit status: 0, 1 if one of our kernels was wrong, 2 if
nothing could be measured.
"""
import argparse
import datetime
import json
import os
import statistics
import sys

from backward_grid import rounding
from bench_peers import Case, card, fail, flash_attention, inputs, parse_case, peers, race, torch, write

RACE = [Case(batch, heads, 1, keys, 128, kv_heads) for batch, heads, kv_heads, keys in (
    (1, 32, 8, 4096), (1, 32, 8, 65536), (16, 32, 8, 8192), (64, 32, 8, 8192), (1, 64, 8, 131072),
    (32, 32, 32, 4096))]
SHARED = [Case(batch, 32, 1, keys, 128, 8) for batch, keys in ((16, 8704), (64, 8704), (64, 2560))]
PAGES = (256, 16, 1)
ROTATED = 400e6  # minimum bytes of K and V, many times the L2


def cache_bytes(case):
    return 2 * case.batch * (case.kv_heads or case.heads) * case.kv * case.dim * 2


def scattered(x, page_size, order):
    """Returns [pages, heads, page_size, dim] from [batch, heads, length, dim], where page n goes to
    order[n]."""
    batch, heads, length, dim = x.shape
    blocks = x.view(batch, heads, length // page_size, page_size, dim).transpose(1, 2)
    pages = torch.empty((len(order), heads, page_size, dim), dtype=x.dtype, device="cuda")
    pages[order] = blocks.reshape(pages.shape)
    return pages


def attend(q, k, v, real):
    """Computes plain attention in `real`, without a copy of K and V for each head of Q."""
    q, k, v = (x.to(real) for x in (q, k, v))
    q = q.view(k.shape[0], k.shape[1], -1, q.shape[3])
    s = (q @ k.transpose(-1, -2) * q.shape[3] ** -0.5).to(
        real if real == torch.float64 else torch.float32)
    return (torch.softmax(s, -1).to(real) @ v).view(k.shape[0], -1, 1, k.shape[3])


class Caches:
    """The tensors of a case, in several copies with different numbers."""

    def __init__(self, library, case, prefix=0):
        self.library, self.case, self.prefix = library, case, prefix
        self.copies = [inputs(case) for _ in range(max(2, -int(-ROTATED // cache_bytes(case))))]
        for _, *k_and_v in self.copies if prefix else []:
            for x in k_and_v:
                x[1:, :, :prefix] = x[:1, :, :prefix].clone()
        self.lengths = torch.full((case.batch,), case.kv, dtype=torch.int32, device="cuda")
        self.o = torch.empty_like(self.copies[0][0])

    def of_ours(self):
        """Returns {name: [a call for each copy]}. Each call fills self.o."""
        def decode(q, k, v, **options):
            return lambda: self.library.decode(q, k, v, out=self.o, longest=self.case.kv, **options)

        def in_pages(page_size, shared=0, **options):
            pages = self.case.batch * self.case.kv // page_size
            for q, k, v in self.copies:
                order = torch.randperm(pages, device="cuda")
                table = order.view(self.case.batch, -1).to(torch.int32)
                table[1:, :shared // page_size] = table[0, :shared // page_size]
                yield decode(q, *(scattered(x, page_size, order) for x in (k, v)),
                             lengths=self.lengths, table=table, **options)
        if self.prefix:
            return {"pages of their own": list(in_pages(16)),
                    "shared pages": list(in_pages(16, self.prefix)),
                    "prefix once": list(in_pages(16, self.prefix, prefix=self.prefix))}
        found = {"ours": [decode(*copy) for copy in self.copies],
                 "lengths": [decode(*copy, lengths=self.lengths) for copy in self.copies]}
        for page_size in PAGES:
            found[f"pages of {page_size}"] = list(in_pages(page_size))
        found["one split"] = [decode(*copy, splits=1) for copy in self.copies]
        found["ch09"] = [lambda copy=copy: self.library.attention(*copy, chapter=9, out=self.o)
                         for copy in self.copies]
        return found

    def of_peers(self):
        return {name: [lambda run=run, copy=copy: run(*copy) for copy in self.copies]
                for name, run in peers(False, self.case).items()}

    def why_wrong(self, call):
        """Returns None, or a sentence about the error of this call on the first copy."""
        self.o.fill_(float("nan"))
        call()
        if not bool(torch.isfinite(self.o).all()):
            return "not finite everywhere"
        for n in range(self.case.batch):  # one sequence at a time, because float64 is large
            tensors = [x[n:n + 1] for x in self.copies[0]]
            exact, plain = (attend(*tensors, real) for real in (torch.float64, self.o.dtype))
            error = float((self.o[n:n + 1].double() - exact).abs().max())
            allowed = (2 * float((plain.double() - exact).abs().max())
                       + 2 * rounding(exact, self.o.dtype))
            if not error <= allowed:
                return f"sequence {n}: error {error:.2e}, {allowed:.2e} are allowed"
        return None


def graph_of(calls):
    """Returns a CUDA graph of the calls, each copy in turn, and the number of calls."""
    for call in calls[:2]:  # the first calls allocate and load
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph


def prefix_markdown(result):
    names, gpu = result["names"], result["card"]
    lines = [f"{gpu['name']}, driver {gpu.get('driver_version', '?')}, PyTorch {result['torch']}, CUDA "
             f"{result['cuda']}, cuDNN {result['cudnn']}, {result['date']}. Microseconds a call, one query, "
             f"bf16, the first {result['prefix']} keys of all sequences are the same; median of "
             f"{result['rounds']} rounds. MiB of K and V: of all sequences, and with the prefix once.",
             f"`{result['command']}`", "",
             "| B,H/Hkv,Lq,Lkv,D | " + " | ".join(names) + " | MiB | once |",
             "|---" * (len(names) + 3) + "|"]
    for row in result["rows"]:
        us = {name: 1000 * statistics.median(ms) for name, ms in row["ms"].items()}
        lines.append("| " + " | ".join(
            [row["case"], *(f"{us[name]:.1f}" if name in us else "" for name in names),
             *(f"{bytes_ / 2 ** 20:.0f}" for bytes_ in row["bytes"])]) + " |")
    return "\n".join(lines) + "\n"


def as_markdown(result):
    if result["prefix"]:
        return prefix_markdown(result)
    gpu = result["card"]
    names = sorted({name for row in result["rows"] for name in row["rate"]}, key=result["names"].index)
    lines = [f"{gpu['name']}, driver {gpu.get('driver_version', '?')}, PyTorch {result['torch']}, CUDA "
             f"{result['cuda']}, cuDNN {result['cudnn']}, {result['date']}. GB/s of K and V, one query, "
             f"bf16; median of {result['rounds']} rounds. Splits: those that are chosen.",
             f"`{result['command']}`", "",
             "| B,H/Hkv,Lq,Lkv,D | " + " | ".join(names) + " | ours / better peer | pages of 16 / lengths |",
             "|---" * (len(names) + 3) + "|"]
    for row in result["rows"]:
        rate = row["rate"]
        cells = [f"{rate[name]:.0f}" if name in rate else "" for name in names]
        peer = max((rate[name] for name in ("FA2", "cuDNN") if name in rate), default=float("nan"))
        ratios = [f"{rate[a] / b:.3f}" if a in rate and b else "" for a, b in (
            ("ours", peer), ("pages of 16", rate.get("lengths")))]
        lines.append("| " + " | ".join([row["case"], *cells, *ratios]) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default="build/lib/libflash_attention.so")
    parser.add_argument("--shape", action="append", help="B,H/Hkv,1,Lkv,D; may repeat")
    parser.add_argument("--prefix", type=int, default=0, help="keys that all sequences share")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json")
    parser.add_argument("--markdown")
    options = parser.parse_args()
    try:
        cases = [parse_case(text) for text in options.shape or []]
        cases = cases or [case for case in SHARED if case.kv > options.prefix > 0] or RACE
        if options.rounds < 1 or options.prefix < 0 or options.prefix % 16 or any(
                case.q != 1 or case.causal or case.kv % max(PAGES) or case.kv <= options.prefix
                for case in cases):
            raise ValueError
    except (ValueError, TypeError):
        fail("--shape takes B,H/Hkv,1,Lkv,D with Lkv a multiple of 256, --prefix whole pages of 16, fewer "
             "than Lkv, --rounds at least 1")
    if not torch.cuda.is_available():
        fail("PyTorch sees no GPU on this machine")
    try:
        library = flash_attention.load(os.path.abspath(options.library))
    except OSError as error:
        fail(f"{error}; build the target flash_attention and name the file with --library")
    torch.manual_seed(int.from_bytes(os.urandom(4), "little"))

    bad, names = 0, []
    result = {"card": card(), "prefix": options.prefix, "torch": torch.__version__, "cuda": torch.version.cuda,
              "cudnn": torch.backends.cudnn.version(), "rounds": options.rounds, "names": names,
              "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
              "command": "bench_decode.py " + " ".join(sys.argv[1:]), "rows": []}
    for case in cases:
        print(f"shape {case}", flush=True)
        caches = Caches(library, case, options.prefix)
        ours = caches.of_ours()
        for name, calls in list(ours.items()):
            reason = caches.why_wrong(calls[0])
            if reason:
                bad += 1
                print(f"  {name}: {reason}: not timed", flush=True)
                del ours[name]
        graphs = {}
        for name, calls in {**ours, **caches.of_peers()}.items():
            try:
                graphs[name] = graph_of(calls)
            except Exception as error:  # a peer that does not support this shape
                print(f"  {name}: left out ({str(error).splitlines()[0]})", flush=True)
        names += [name for name in graphs if name not in names]
        times = race({name: graph.replay for name, graph in graphs.items()}, options.rounds)
        calls = len(caches.copies)
        rate = {name: calls * cache_bytes(case) / statistics.median(ms) * 1e-6
                for name, ms in times.items()}
        once = cache_bytes(case) - (case.batch - 1) * options.prefix * cache_bytes(case) // (
            case.batch * case.kv)
        result["rows"].append({"case": str(case), "copies": calls, "rate": rate,
                               "bytes": [cache_bytes(case), once],
                               "ms": {name: [x / calls for x in ms] for name, ms in times.items()}})
        write(options.json, json.dumps(result, indent=1) + "\n")
        write(options.markdown, as_markdown(result))
        print(as_markdown({**result, "rows": result["rows"][-1:]}).splitlines()[-1], flush=True)
        del caches, ours, graphs
        torch.cuda.empty_cache()
    print(as_markdown(result))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
