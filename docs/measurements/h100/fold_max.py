#!/usr/bin/env python3
"""Races kernels that fold any maximum into the FMA against those that subtract a large one first.

(See is_foldable in common/kernels/softmax.hpp.) Writes fold_max.csv in about two minutes on an
H100.

    docs/measurements/h100/fold_max.py FOLDER > fold_max.csv

FOLDER has newNN.so with chapter NN's kernel, built from kernel.cu of this folder, and oldNN.so, the same
with an is_foldable that always returns true, as the kernels were before. The card is always busy. A
sample is 100 ms of a kernel that are not timed, then 60 ms that are. The order of the pair is random in
each round. Each kernel is first compared with float64 on 8 rows of each head, with an output full of
NaN. The new kernels are also compared with Q and one key at 133120.
"""
import ctypes
import datetime
import os
import random
import statistics
import sys

import torch

FOLDER, ROUNDS, WARM_MS, TIMED_MS = sys.argv[1], 9, 100, 60
LONG, SHORT = (2, 16, 16, 8192, 8192, 128), (16, 16, 16, 1024, 1024, 128)
RACES = [(n, shape, data, False) for n in ("08", "12", "13", "14", "15", "16")
         for shape, data in ((LONG, "normal"), (SHORT, "normal"), (LONG, "q x 20"))]
RACES += [("09", LONG, "normal", False), ("09", LONG, "normal", True),
          ("09", (2, 32, 32, 8192, 8192, 64), "normal", False),
          ("08", (2, 32, 32, 8192, 8192, 64), "normal", False),
          ("11", (16, 32, 8, 1, 8192, 128), "normal", True), ("11", (64, 32, 8, 1, 1024, 128), "normal", True)]
START, STOP = (torch.cuda.Event(enable_timing=True) for _ in range(2))


def prepare(side, chapter, q, k, v, o, causal):
    call = ctypes.CDLL(os.path.join(os.path.abspath(FOLDER), f"{side}{chapter}.so")).run
    splits = 4 if chapter == "11" else 1
    work = torch.empty(splits * q.shape[0] * q.shape[1] * q.shape[2] * (q.shape[3] + 1), device="cuda")
    arguments = (*(ctypes.c_void_p(x.data_ptr()) for x in (q, k, v, o)),
                 *(ctypes.c_int64(n) for n in (*q.shape[:2], k.shape[1], q.shape[2], *k.shape[2:])),
                 ctypes.c_float(q.shape[3] ** -0.5), int(causal), splits,
                 ctypes.c_void_p(work.data_ptr()))

    def run(kept=work):
        if call(*arguments):
            sys.exit(f"error: {side} {chapter}")
    return run


def check(name, run, q, k, v, o, causal):
    o.fill_(float("nan"))
    run()
    rows = torch.randperm(q.shape[2], device="cuda")[:8]
    group = q.shape[1] // k.shape[1]
    error = square = 0.0
    for b in range(min(q.shape[0], 4)):
        keys, values = (x[b].double().repeat_interleave(group, 0) for x in (k, v))
        scores = q[b][:, rows].double() @ keys.mT * q.shape[3] ** -0.5
        if causal:
            last = rows[:, None] + k.shape[2] - q.shape[2]
            scores.masked_fill_(torch.arange(k.shape[2], device="cuda") > last, float("-inf"))
        exact = scores.softmax(-1) @ values
        error += float((o[b][:, rows].double() - exact).square().sum())
        square += float(exact.square().sum())
    if not (error <= 1e-4 * square) or not bool(torch.isfinite(o).all()):
        sys.exit(f"error: {name} at {tuple(q.shape)}: relative error {(error / square) ** 0.5}")


def timed(run, calls):
    START.record()
    for _ in range(calls):
        run()
    STOP.record()
    STOP.synchronize()
    return START.elapsed_time(STOP) / calls


def draw(*shape):
    return (torch.randn(*shape, device="cuda") + 0.5).bfloat16()


def main():
    print(f"# {torch.cuda.get_device_name()}, "
          f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC. "
          f"Milliseconds of a call: median of {ROUNDS} rounds, lowest, highest; new_over_old: median of the "
          "rounds' own ratios.")
    print("chapter,shape,data,causal,old,old_lowest,old_highest,new,new_lowest,new_highest,new_over_old")
    for chapter in ("08", "09", "11", "12", "13", "14", "15", "16"):
        lq = 1 if chapter == "11" else 200
        q, k, v = draw(1, 2, lq, 128), draw(1, 2, 700, 128), draw(1, 2, 700, 128)
        q[:], k[:, :, 321] = 133120, 133120
        o = torch.empty_like(q)
        check(f"new {chapter}, 133120", prepare("new", chapter, q, k, v, o, False), q, k, v, o, False)
    for chapter, shape, data, causal in RACES:
        batch, heads, kv_heads, len_q, len_kv, dim = shape
        q = draw(batch, heads, len_q, dim) * (20 if data == "q x 20" else 1)
        k, v = draw(batch, kv_heads, len_kv, dim), draw(batch, kv_heads, len_kv, dim)
        o = torch.empty_like(q)
        runs = {side: prepare(side, chapter, q, k, v, o, causal) for side in ("old", "new")}
        once = {}
        for side, run in runs.items():
            check(f"{side} {chapter}", run, q, k, v, o, causal)
            once[side] = timed(run, 3)
        samples = {"old": [], "new": []}
        for _ in range(ROUNDS):
            for side in random.sample(["old", "new"], 2):
                timed(runs[side], max(1, round(WARM_MS / once[side])))
                samples[side].append(timed(runs[side], max(1, round(TIMED_MS / once[side]))))
        ratio = statistics.median(new / old for old, new in zip(samples["old"], samples["new"]))
        cells = [f"{f(samples[side]):.4f}" for side in ("old", "new") for f in (statistics.median, min, max)]
        print(f"{chapter},{' '.join(map(str, shape))},{data},{int(causal)},{','.join(cells)},"
              f"{ratio:.4f}", flush=True)


if __name__ == "__main__":
    main()
