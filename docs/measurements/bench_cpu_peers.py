#!/usr/bin/env python3
"""Races chapter 02's fast version against PyTorch's CPU attention, in one run, taking turns.

    cmake --build build --target ch02_fast_shared
    docs/measurements/bench_cpu_peers.py --library build/lib/libch02_fast.so --threads 1,16 --json out.json

Our output is compared with float64 before the measurement. GFLOP/s are 4 B H Lq Lkv D / time, and
half of that for causal. Without PyTorch only our own numbers are printed.
"""
import argparse
import ctypes
import json
import os
import platform
import statistics
import sys
import time

try:
    import numpy as np
except ImportError:
    print("error: this Python has no NumPy; try /usr/bin/python3 " + __file__, file=sys.stderr)
    sys.exit(2)

import paths  # noqa: F401, before the modules of reference/
import attention
import check
from problem import Problem

try:
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError:
    torch = None

CASES = [  # B, H, Lq, Lkv, D, causal
    (1, 8, 4096, 4096, 64, False),
    (1, 8, 4096, 4096, 64, True),
    (1, 8, 4096, 4096, 128, False),
    (1, 8, 1024, 1024, 64, False),
    (1, 8, 256, 256, 64, False),
]
PAUSE = 0.25  # seconds, because OpenMP's workers spin on our cores after their work


def fail(sentence):
    print(f"error: {sentence}", file=sys.stderr)
    sys.exit(2)


class Fast:
    def __init__(self, path):
        try:
            self.c = ctypes.CDLL(os.path.abspath(path))
        except OSError as error:
            fail(f"{error}; build the target ch02_fast_shared and name it with --library")
        self.c.ch02_peak_gflops.restype = ctypes.c_double
        self.c.ch02_copy_gbs.restype = ctypes.c_double
        self.c.ch02_fast_target.restype = ctypes.c_char_p

    def __call__(self, q, k, v, o, causal, threads):
        pointer = lambda x: x.ctypes.data_as(ctypes.c_void_p)
        sizes = (*q.shape[:3], k.shape[2], q.shape[3])
        status = self.c.ch02_fast_attention(
            pointer(q), pointer(k), pointer(v), pointer(o), *map(ctypes.c_int64, sizes),
            ctypes.c_double(q.shape[3] ** -0.5), int(causal), threads)
        if status:
            sys.exit("error: ch02_fast_attention failed")


def judge(q, k, v, o, causal):
    """Checks three blocks of 8 rows of every head. Returns the largest difference to float64 (NaN
    if any is NaN), and check.py's verdict on the first wrong block, or None."""
    blocks = list(attention.row_blocks(q.shape[2], k.shape[2], causal, 8 * k.shape[2]))
    errors, reason = [], None
    for rows, keys in (blocks[0], blocks[len(blocks) // 2], blocks[-1]):
        problem = Problem(q[:, :, rows], k[:, :, keys], v[:, :, keys], causal, dtype="f32")
        reference = check.compute_reference(problem)
        agreed, verdict = check.judge(problem, o[:, :, rows], None, reference=reference)
        reason = reason or (None if agreed else " ".join(verdict.split()))
        errors.append(np.abs(o[:, :, rows] - reference.o).max())
    return float(np.max(errors)), reason  # np.max keeps a NaN


def take_turns(contestants, rounds, repeats, give_up_after):
    """Returns {name: seconds of every timed call}. Each turn begins with an untimed call."""
    seconds = {name: [] for name in contestants}
    for round_number in range(rounds):
        for name, call in contestants.items():
            if sum(seconds[name]) > give_up_after:
                continue
            time.sleep(PAUSE)
            call()
            for _ in range(repeats):
                start = time.perf_counter()
                call()
                seconds[name].append(time.perf_counter() - start)
    return seconds


def torch_call(backend, q, k, v, causal):
    tensors = [torch.from_numpy(x) for x in (q, k, v)]

    def call():
        with sdpa_kernel(backend), torch.no_grad():
            return F.scaled_dot_product_attention(*tensors, is_causal=causal)
    return call


def race(fast, case, threads, rounds):
    b, h, lq, lkv, d, causal = case
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((b, h, n, d), dtype=np.float32) for n in (lq, lkv, lkv))
    o = np.full_like(q, np.nan)
    fast(q, k, v, o, causal, threads)
    error, reason = judge(q, k, v, o, causal)
    if reason:
        sys.exit(f"error: the fast version is wrong at {case}: {reason}")
    flops = 4 * b * h * lq * lkv * d * (0.5 if causal else 1)
    repeats = max(1, min(50, int(3e10 * threads / flops)))
    contestants = {"fast": lambda: fast(q, k, v, o, causal, threads)}
    if torch:
        torch.set_num_threads(threads)
        flash = torch_call(SDPBackend.FLASH_ATTENTION, q, k, v, causal)
        theirs = judge(q, k, v, flash().numpy(), causal)[0]
        contestants["torch flash"] = flash
        contestants["torch math"] = torch_call(SDPBackend.MATH, q, k, v, causal)
    seconds = take_turns(contestants, rounds, repeats, give_up_after=6)
    result = {"shape": [b, h, lq, lkv, d], "causal": causal, "threads": threads,
              "max_error": {"fast": error, **({"torch flash": theirs} if torch else {})},
              "gflops": {name: sorted(flops / t * 1e-9 for t in times)
                         for name, times in seconds.items()}}
    return result


def sgemm_gflops(n=2048):
    a, b = torch.rand(n, n), torch.rand(n, n)
    seconds = take_turns({"sgemm": lambda: a @ b}, 3, 3, 10)["sgemm"]
    return 2 * n ** 3 / statistics.median(seconds) * 1e-9


def cpu_model():
    try:
        with open("/proc/cpuinfo") as f:
            return next(line.split(":")[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default="build/lib/libch02_fast.so")
    parser.add_argument("--threads", default=f"1,{os.cpu_count()}")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json")
    arguments = parser.parse_args()

    try:
        thread_counts = [int(n) for n in arguments.threads.split(",")]
    except ValueError:
        thread_counts = [0]
    if min(thread_counts) < 1 or arguments.rounds < 1:
        fail("--threads takes numbers such as 1,16, and --rounds one; all at least 1")
    fast = Fast(arguments.library)
    report = {"cpu": cpu_model(), "cores": os.cpu_count(), "date": time.strftime("%Y-%m-%d"),
              "target": fast.c.ch02_fast_target().decode(), "numpy": np.__version__,
              "torch": torch.__version__ if torch else None, "machine": [], "cases": []}
    print(f"{report['cpu']}, {report['cores']} cores; fast uses {report['target']}; "
          + (f"PyTorch {report['torch']}" if torch else "no PyTorch here: only our own numbers"))
    for threads in thread_counts:
        row = {"threads": threads, "peak_gflops": fast.c.ch02_peak_gflops(threads),
               "copy_gbs": fast.c.ch02_copy_gbs(threads)}
        if torch:
            torch.set_num_threads(threads)
            row["sgemm_gflops"] = sgemm_gflops()
        report["machine"].append(row)
        print(", ".join(f"{key} {value:.4g}" for key, value in row.items()), flush=True)
    print("\n| threads | B, H, Lq, Lkv, D | fast | of peak | torch flash | torch math "
          "| fast / flash | max error |\n|---|---|---|---|---|---|---|---|")
    for threads, machine in zip(thread_counts, report["machine"]):
        for case in CASES:
            result = race(fast, case, threads, arguments.rounds)
            peak = max(machine["peak_gflops"], fast.c.ch02_peak_gflops(threads))
            result["peak_gflops"] = peak
            report["cases"].append(result)
            median = {name: statistics.median(x) for name, x in result["gflops"].items()}
            spread = {name: f"{median[name]:.1f} ({x[0]:.1f} to {x[-1]:.1f})"
                      for name, x in result["gflops"].items()}
            ratio = f"{median['fast'] / median['torch flash']:.2f}" if torch else "-"
            print(f"| {threads} | {', '.join(map(str, case[:5]))}{' causal' if case[5] else ''} "
                  f"| {spread['fast']} | {100 * median['fast'] / peak:.1f} % "
                  f"| {spread.get('torch flash', '-')} | {spread.get('torch math', '-')} "
                  f"| {ratio} | {result['max_error']['fast']:.1e} |", flush=True)
    if arguments.json:
        temporary = arguments.json + ".tmp"
        with open(temporary, "w") as f:
            json.dump(report, f, indent=1)
        os.replace(temporary, arguments.json)


if __name__ == "__main__":
    main()
