#!/usr/bin/env python3
"""Races chapter 10's backward pass against PyTorch's on this GPU: one process, taking turns.

    cmake --build build --target flash_attention
    reference/bench_backward.py --json out.json --markdown out.md

Ours is the whole pass: preprocessing, zeroing and rounding of dQ included. Theirs runs through
torch.autograd.grad. Every design is first held against float64, on fresh random inputs, into outputs
and a workspace full of NaN, by FlashAttention-3's rule: no gradient's largest error may pass twice
that of plain attention in the same type, and twice what a 0.3 added and subtracted costs. TFLOP/s are
10 B H Lq Lkv D / time, half of it for causal. Exit status: 0, 1 if a design was wrong, 2 if nothing
could be measured.
"""
import argparse
import ctypes
import datetime
import json
import os
import statistics
import sys

from bench_peers import (Case, F, SDPBackend, card, fail, flash_attention, inputs, parse_case, race,
                         sdpa_kernel, torch, write)

DESIGNS = {"two kernels": (1, 0), "one kernel": (2, 0), "two roles": (3, 0), "ours": (0, 0),
           "deterministic": (0, 1)}
RACE = [Case(*sizes, causal=causal) for sizes in (
    (2, 16, 8192, 8192, 128), (1, 16, 16384, 16384, 128), (8, 16, 1024, 1024, 128),
    (16, 16, 512, 512, 128), (2, 32, 8192, 8192, 64), (8, 32, 1024, 1024, 64))
    for causal in (False, True)]
CHECKED = [(1, 1, 1, 1), (2, 3, 65, 127), (1, 2, 257, 513), (1, 1, 100, 1), (1, 1, 1, 1000),
           (1, 4, 513, 257), (1, 8, 1024, 1024)]
LARGEST_CHECK = 2 ** 26  # scores of a head in float64


class Ours:
    """One problem's tensors, and calls on them that are as short as they can be: they are timed."""

    def __init__(self, library, case, dtype=torch.bfloat16, input_scale=1.0):
        self.library, self.case = library, case
        self.q, self.k, self.v = (x.to(dtype) for x in inputs(case, input_scale))
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

    def exact(self, real):
        """dQ, dK and dV of the last head of K and V, and of the heads of Q that share it, in `real`;
        in a 16-bit type as plain attention computes them."""
        group = self.case.heads // (self.case.kv_heads or self.case.heads)
        q, do = (x[-1, -group:].to(real) for x in (self.q, self.do))
        k, v = (x[-1, -1:].to(real) for x in (self.k, self.v))
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        s = leaves[0] @ leaves[1].transpose(-1, -2) * self.case.dim ** -0.5
        if self.case.causal:
            hidden = torch.ones(s.shape[-2:], dtype=torch.bool, device="cuda").tril(
                self.case.kv - self.case.q).logical_not()
            s = s.masked_fill(hidden, float("-inf"))
        p = torch.softmax(s.to(torch.float64 if real == torch.float64 else torch.float32), -1)
        p = p.nan_to_num(0.0).to(real)  # rows that see no key
        return torch.autograd.grad(p @ leaves[2], leaves, do)

    def wrong(self, designs):
        """{design: None, or a sentence}."""
        expected = self.exact(torch.float64)
        plain = self.exact(self.q.dtype)
        reasons = {}
        for design in designs:
            for tensor in (*self.gradients, self.workspace):
                tensor.fill_(float("nan"))
            self.call(design)()
            torch.cuda.synchronize()
            reasons[design] = None
            for name, got, exact, rough in zip(("dQ", "dK", "dV"), self.gradients, expected, plain):
                if not bool(torch.isfinite(got).all()):
                    reasons[design] = f"{name} is not finite everywhere"
                    break
                error = float((got[-1, -exact.shape[0]:].double() - exact).abs().max())
                rounded = exact.to(got.dtype)
                allowed = 2 * float((rough.double() - exact).abs().max()) + 2 * float(
                    (rounded + 0.3 - 0.3 - rounded).abs().max())
                if not error <= allowed:
                    reasons[design] = f"{name}: error {error:.2e}, {allowed:.2e} are allowed"
                    break
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
                        help=f"of {', '.join(DESIGNS)} [ours,deterministic]")
    parser.add_argument("--shape", action="append", help="as bench_peers.py has it; may repeat")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--only-check", action="store_true")
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

    bad, checks = 0, 0
    for sizes in CHECKED:
        for dim in (64, 128, 40, 96):
            for causal in (False, True):
                for heads in (0, 1) if sizes[1] > 1 else (0,):
                    for dtype in (torch.bfloat16, torch.float16):
                        case = Case(*sizes, dim, heads, causal)
                        for design, reason in Ours(library, case, dtype).wrong(designs).items():
                            checks += 1
                            if reason:
                                bad += 1
                                print(f"{design}, {case}, {dtype}: {reason}", flush=True)
    print(f"{checks - bad} of {checks} within twice plain attention's error of float64", flush=True)
    result = {"card": card(), "torch": torch.__version__, "cuda": torch.version.cuda,
              "cudnn": torch.backends.cudnn.version(), "rounds": options.rounds,
              "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
              "command": "bench_backward.py " + " ".join(sys.argv[1:]), "checks": [checks - bad, checks],
              "rows": []}
    for case in [] if options.only_check else cases:
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
    if result["rows"]:
        markdown = as_markdown(result, [*designs, "FA2", "cuDNN"])
        write(options.json, json.dumps(result, indent=1) + "\n")
        write(options.markdown, markdown)
        print(markdown)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
