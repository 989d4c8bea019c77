#!/usr/bin/env python3
"""Races chapter 17 against 16-bit chapters, FlashAttention-2 and cuDNN, for speed and error.

    cmake --build build --target flash_attention
    docs/measurements/bench_low_precision.py > out.txt                               INT8 and chapter 08
    docs/measurements/bench_low_precision.py --chapters 16,23 --steady > out.txt    FP8 and chapter 16

For each shape it prints TFLOP/s of the whole call, including quantization, taking turns in one
process; the profiler's microseconds of each of our kernels; the speedup of the attention kernel
alone against the first chapter and cuDNN; and the root mean square error against float64, for a
sample of rows. With --steady, each kernel runs 300 ms to warm up and is then timed for 300 ms. Exit
status: 0, 1 if an output is not finite, 2 if nothing could be measured.
"""
import argparse
import os
import re
import statistics
import sys
import warnings

import bench_peers as peers
from bench_peers import torch

SHAPES = ("2,16,8192,8192,128", "1,16,16384,16384,128", "4,8,4096,8192,128", "2,32,8192,8192,64",
          "2,16,4001,4099,128", "16,16,512,512,128")
ROWS = 16  # rows of each head that are checked


def kernel_times(run, warm=1, repeat=5):
    """Returns the microseconds of each kernel of a call, by the name of its function."""
    from torch.profiler import ProfilerActivity, profile
    for _ in range(warm):
        run()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(repeat):
            run()
        torch.cuda.synchronize()
    times = {}
    for event in seen.key_averages():
        found = re.search(r"gpu::ch\d\d(?:_\w+)?::(\w+)", event.key)
        if found and event.device_time_total > 0:
            name = found[1] + (" of Q" if "Operand)0" in event.key else
                               " of K" if "Operand)1" in event.key else "")
            times[name] = times.get(name, 0) + event.device_time_total / repeat
    return times


def rms_error(o, case, q, k, v):
    """Returns the error against float64, for ROWS rows of each head."""
    rows = torch.randperm(case.q, device=q.device)[:ROWS].sort().values
    squared = 0.0
    for batch in range(case.batch):
        scores = q[batch, :, rows].double() @ k[batch].double().mT * case.dim ** -0.5
        if case.causal:
            seen = rows[:, None] + case.kv - case.q
            scores.masked_fill_(torch.arange(case.kv, device=q.device) > seen, float("-inf"))
        exact = scores.softmax(-1) @ v[batch].double()
        squared += float(((o[batch, :, rows].double() - exact) ** 2).mean()) / case.batch
    return squared ** 0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default="build/lib/libflash_attention.so")
    parser.add_argument("--chapters", default="8,17",
                        help="17:1 is chapter 17 with --scales 1; 23 is FP8, 23:4 with --stay 4")
    parser.add_argument("--shape", action="append", help="B,H,Lq,Lkv,D; may repeat")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steady", action="store_true")
    options = parser.parse_args()
    try:
        entries = [peers.Entry(*map(int, x.split(":"))) for x in options.chapters.split(",")]
        cases = [peers.parse_case(text) for text in options.shape or SHAPES]
        if options.rounds < 1:
            raise ValueError
    except (ValueError, TypeError):
        peers.fail("--chapters takes 8,17,…, --shape five numbers B,H,Lq,Lkv,D, --rounds at least 1")
    library = peers.Library(options.library)
    if not torch.cuda.is_available():
        peers.fail("PyTorch sees no GPU on this machine")
    torch.manual_seed(int.from_bytes(os.urandom(4), "little"))
    gpu = peers.card()
    print(f"{gpu['name']}, driver {gpu.get('driver_version', '?')}, PyTorch {torch.__version__}, "
          f"cuDNN {torch.backends.cudnn.version()}; inputs normal + 0.5; median of {options.rounds} "
          "rounds, in a new order each"
          + (f", {peers.STEADY_MS} ms warm and {peers.STEADY_MS} ms timed" if options.steady else ""))
    finite = True
    for case in cases:
        q, k, v = peers.inputs(case)
        o = torch.empty_like(q)
        runners = {str(entry): lambda entry=entry: library.all.attention(
            q, k, v, causal=case.causal, chapter=entry.chapter, option=entry.option, out=o)
            for entry in entries}
        runners.update({name: lambda run=run: run(q, k, v)
                        for name, run in peers.peers(False, case).items()})
        print(f"\n{case}\n{'':8}{'TFLOP/s':>9}{'of ' + str(entries[0]):>9}{'alone':>8}{'of FA2':>8}"
              f"{'of cuDNN':>10}{'alone':>8}{'rms error':>11}  µs of each kernel")
        times = peers.race(runners, options.rounds) if not options.steady else {
            name: own["ms"] for name, own in peers.steady_race(runners, options.rounds).items()}
        ms = {name: statistics.median(own) for name, own in times.items()}
        parts = {name: kernel_times(runners[name], *(
            [round(peers.STEADY_MS / ms[name]), 50] if options.steady else []))
            for name in map(str, entries)}
        for name in sorted(ms, key=lambda name: (not name.startswith("ch"), name)):
            o.fill_(float("nan"))
            result = runners[name]()
            got = o if name.startswith("ch") else result
            finite = finite and bool(torch.isfinite(got).all())
            own = parts.get(name, {})
            alone = parts[str(entries[0])]["attention"] / own["attention"] if own else float("nan")
            first = statistics.median(
                a / b for a, b in zip(times[str(entries[0])], times[name]))  # pairs of the same round
            print(f"{name:8}{case.flops() / ms[name] * 1e-9:9.1f}{first:9.3f}"
                  f"{f'{alone:.3f}' if own else '':>8}"
                  f"{ms['FA2'] / ms[name] if 'FA2' in ms else float('nan'):8.2f}"
                  f"{ms.get('cuDNN', float('nan')) / ms[name]:10.2f}"
                  f"{ms.get('cuDNN', float('nan')) * 1e3 / own.get('attention', float('nan')):8.2f}"
                  f"{rms_error(got, case, q, k, v):11.2e}  "
                  + ", ".join(f"{part} {micro:.0f}" for part, micro in sorted(
                      own.items(), key=lambda item: -item[1])), flush=True)
    sys.exit(0 if finite else 1)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", category=UserWarning)
    main()
