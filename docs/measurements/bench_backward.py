#!/usr/bin/env python3
"""Races chapter 10's backward pass against PyTorch's on this GPU, in one process, taking turns.

    cmake --build build --target flash_attention
    docs/measurements/bench_backward.py --json out.json --markdown out.md

Our time is that of the whole pass, including preprocessing, zeroing and rounding of dQ. PyTorch's
runs through torch.autograd.grad. If a head has at most 8192 x 8192 scores, every design is first
compared with float64, on new random inputs, with outputs and a workspace full of NaN, by the rule
of backward_grid.py. TFLOP/s are 10 B H Lq Lkv D / time, and half of it for causal. Exit status: 0,
1 if a design was wrong, 2 if nothing could be measured.
"""
import argparse
import ctypes
import datetime
import json
import os
import statistics
import sys

from backward_grid import DESIGNS, differentiate, why_wrong
from bench_peers import (Case, F, SDPBackend, card, fail, flash_attention, inputs, parse_case, race,
                         sdpa_kernel, torch, write)

RACE = [Case(*sizes, causal=causal) for sizes in (
    (2, 16, 8192, 8192, 128), (1, 16, 16384, 16384, 128), (8, 16, 1024, 1024, 128),
    (16, 16, 512, 512, 128), (2, 32, 8192, 8192, 64), (8, 32, 1024, 1024, 64))
    for causal in (False, True)]
LARGEST_CHECK = 2 ** 26  # scores of a head that are checked in float64


class Ours:
    """The tensors of one problem, and timed calls on them, which are as short as possible."""

    def __init__(self, library, case):
        self.case = case
        self.q, self.k, self.v = inputs(case)
        self.do = torch.randn_like(self.q) + 0.5
        self.o, self.lse = library.attention(self.q, self.k, self.v, causal=case.causal,
                                             return_lse=True)
        self.gradients = [torch.empty_like(x) for x in (self.q, self.k, self.v)]
        self.c = library._library
        bytes_ = self.c.flash_attention_backward_workspace(case.batch, case.heads, case.q, case.dim)
        self.workspace = torch.empty(bytes_ // 4, device="cuda")

    def call(self, design):
        option, deterministic = DESIGNS[design]
        view = flash_attention.of_torch
        tensors = (self.q, self.k, self.v, self.o, self.lse[..., None], self.do, *self.gradients)
        arguments = flash_attention.BackwardArguments(
            ctypes.sizeof(flash_attention.BackwardArguments), self.q.device.index, self.case.causal,
            deterministic, option, *map(view, tensors), self.case.dim ** -0.5,
            self.workspace.data_ptr(), self.workspace.numel() * 4,
            torch.cuda.current_stream().cuda_stream)

        def run():
            if self.c.flash_attention_backward(ctypes.byref(arguments)):
                raise RuntimeError(self.c.flash_attention_error().decode())
        return run

    def wrong(self, designs):
        """Returns {design: None, or a sentence}, from the last head of K and V and the heads of Q
        that share it."""
        group = self.case.heads // (self.case.kv_heads or self.case.heads)
        last = [x[-1:, -heads:] for x, heads in ((self.q, group), (self.k, 1), (self.v, 1),
                                                 (self.do, group))]
        exact, plain = (differentiate(*last, self.case.causal, real)
                        for real in (torch.float64, self.q.dtype))
        reasons = {}
        for design in designs:
            for tensor in (*self.gradients, self.workspace):
                tensor.fill_(float("nan"))
            self.call(design)()
            torch.cuda.synchronize()
            finite = all(bool(torch.isfinite(x).all()) for x in self.gradients)
            got = [x[-1:, -x_.shape[1]:] for x, x_ in zip(self.gradients, exact)]
            reasons[design] = why_wrong(got, exact, plain) if finite else "not finite everywhere"
        return reasons


def peers(ours):
    def of(backend):
        q, k, v = (x.detach().requires_grad_() for x in (ours.q, ours.k, ours.v))
        with sdpa_kernel(backend):
            o = F.scaled_dot_product_attention(q, k, v, is_causal=ours.case.causal,
                                               enable_gqa=bool(ours.case.kv_heads))
        return lambda: torch.autograd.grad(o, (q, k, v), ours.do, retain_graph=True)
    found = {}
    for name, backend in (("FA2", SDPBackend.FLASH_ATTENTION), ("cuDNN", SDPBackend.CUDNN_ATTENTION)):
        try:
            found[name] = of(backend)
        except RuntimeError as error:
            print(f"  {name}: left out ({str(error).splitlines()[0]})", flush=True)
    return found


def as_markdown(result, names):
    gpu = result["card"]
    lines = [f"{gpu['name']}, driver {gpu.get('driver_version', '?')}, PyTorch {result['torch']}, CUDA "
             f"{result['cuda']}, cuDNN {result['cudnn']}, {result['date']}. TFLOP/s of a backward pass: 10 "
             f"B H Lq Lkv D / time, half for causal. Median of {result['rounds']} rounds, and FA2's best.",
             f"`{result['command']}`", "",
             "| B,H,Lq,Lkv,D | " + " | ".join(names) + " | FA2, best | ours / FA2 | ours / FA2, best |",
             "|---" * (len(names) + 4) + "|"]
    for row in result["rows"]:
        t = row["tflops"]
        cells = [f"{t[name]:.1f}" if name in t else "" for name in names]
        best = row["flops"] / min(row["ms"]["FA2"]) * 1e-9 if "FA2" in t else float("nan")
        ratios = [f"{t['ours'] / x:.2f}" if "ours" in t else "" for x in (t.get("FA2", best), best)]
        lines.append("| " + " | ".join([row["case"], *cells, f"{best:.1f}", *ratios]) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default="build/lib/libflash_attention.so")
    parser.add_argument("--designs", default="ours,deterministic",
                        help=f"some of {', '.join(DESIGNS)} [ours,deterministic]")
    parser.add_argument("--shape", action="append", help="as bench_peers.py has it; may repeat")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json")
    parser.add_argument("--markdown")
    options = parser.parse_args()
    designs = options.designs.split(",")
    try:
        cases = [parse_case(text) for text in options.shape or []] or RACE
        if options.rounds < 1 or not set(designs) <= set(DESIGNS):
            raise ValueError
    except (ValueError, TypeError):
        fail(f"--designs takes {', '.join(DESIGNS)}, --shape five numbers, --rounds at least 1")
    if not torch.cuda.is_available():
        fail("PyTorch sees no GPU on this machine")
    try:
        library = flash_attention.load(os.path.abspath(options.library))
    except OSError as error:
        fail(f"{error}; build the target flash_attention and name the file with --library")
    torch.manual_seed(int.from_bytes(os.urandom(4), "little"))

    bad = 0
    result = {"card": card(), "torch": torch.__version__, "cuda": torch.version.cuda,
              "cudnn": torch.backends.cudnn.version(), "rounds": options.rounds,
              "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
              "command": "bench_backward.py " + " ".join(sys.argv[1:]), "rows": []}
    for case in cases:
        print(f"shape {case}", flush=True)
        ours = Ours(library, case)
        runners = {design: ours.call(design) for design in designs}
        if case.q * case.kv <= LARGEST_CHECK:
            for design, reason in ours.wrong(designs).items():
                if reason:
                    bad += 1
                    print(f"  {design}: {reason}: not timed", flush=True)
                    del runners[design]
        torch.cuda.empty_cache()
        times = race({**runners, **peers(ours)}, options.rounds)
        flops = case.flops() * 5 // 2
        result["rows"].append({"case": str(case), "flops": flops, "ms": times,
                               "tflops": {name: flops / statistics.median(ms) * 1e-9
                                          for name, ms in times.items()}})
    markdown = as_markdown(result, [*designs, "FA2", "cuDNN"])
    write(options.json, json.dumps(result, indent=1) + "\n")
    write(options.markdown, markdown)
    print(markdown)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
