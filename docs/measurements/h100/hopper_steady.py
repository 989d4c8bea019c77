#!/usr/bin/env python3
"""Races chapters 08 and 12 to 16, and 16 without its idea, against PyTorch's attention on a warm GPU.

Writes hopper_steady.csv in about two minutes on an H100.

    docs/measurements/h100/hopper_steady.py --library LIBRARY --exact LIBRARY > hopper_steady.csv

LIBRARY is build/lib/libflash_attention.so. That of --exact is the same build after
`sed -i 's/const bool exact = .*/const bool exact = true;/' chapters/16_maximum_on_demand/attention.hpp`,
so that every tile takes its maximum first, as in chapter 15, at the same tile sizes.

The card never rests. A sample of a kernel is 100 ms of it that are not timed, then 60 ms that are.
Rounds take the kernels in a new order each time. TFLOP/s are 4 B H Lq Lkv D / time. Every chapter is
first compared with float64 on 8 rows of each head, into an output full of NaN.

race    peers: chapters and peers at nine shapes. data: the idea on and off, by length and data.
        before: 3 ms of a kernel right after 100 ms of another; `data` names the other.
ghz     the clock while it ran, from the driver; nan where the sample is too short to be seen.
"""
import argparse
import contextlib
import ctypes
import datetime
import os
import random
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

WARM_MS, TIMED_MS = 100, 60
ROUNDS = {"peers": 3, "data": 3, "before": 5}
SHAPES = [(1, 8, 4096, 8192, 128), (4, 8, 4096, 8192, 128), (2, 16, 8192, 8192, 128),
          (1, 16, 16384, 16384, 128), (2, 32, 8192, 8192, 64), (2, 16, 4001, 4099, 128),
          (2, 32, 4001, 4099, 64), (16, 16, 512, 512, 128), (16, 32, 512, 512, 64)]
LENGTHS = [(16, 1024), (8, 2048), (4, 4096), (2, 8192), (1, 16384)]  # batch, L; 16 heads, D 128
DATA = {
    "normal": lambda q, k: (q, k),
    "q x 20": lambda q, k: (q * 20, k),
    "every 16th key x 16": lambda q, k: (q, k * outliers(k)),
    "keys x 0 to 60": lambda q, k: (q, k * torch.linspace(0, 60, k.shape[2], device="cuda")
                                    .bfloat16()[:, None]),
}


def outliers(k):
    factor = torch.ones(k.shape[2], 1, device="cuda", dtype=torch.bfloat16)
    factor[::16] = 16
    return factor


def inputs(shape, data="normal"):
    """Returns bf16 Q, K, V, which are normal + 0.5, with Q and K changed for the kind of data."""
    batch, heads, len_q, len_kv, dim = shape

    def draw(length):
        return (torch.randn(batch, heads, length, dim, device="cuda") + 0.5).bfloat16()
    q, k = DATA[data](draw(len_q), draw(len_kv))
    return q.contiguous(), k.contiguous(), draw(len_kv)


def check(name, run, q, k, v, o):
    """Exits unless run() fills o with the float64 result on 8 rows of each head. All elements must
    be finite."""
    o.fill_(float("nan"))
    run()
    rows = torch.randperm(q.shape[2], device="cuda")[:8]
    error = square = 0.0
    for b in range(q.shape[0]):  # one at a time, because float64 takes room
        scores = q[b][:, rows].double() @ k[b].double().mT * q.shape[3] ** -0.5
        exact = scores.softmax(-1) @ v[b].double()
        error += float((o[b][:, rows].double() - exact).square().sum())
        square += float(exact.square().sum())
    if not (error <= 1e-4 * square) or not bool(torch.isfinite(o).all()):  # 1 % of the norm, and NaN fails
        sys.exit(f"error: {name} at {tuple(q.shape)}: relative error {(error / square) ** 0.5}")


class Clock:
    """Reads the GPU's clock in GHz from the driver's library."""

    def __init__(self):
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.device = ctypes.c_void_p()
        uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
        if self.nvml.nvmlInit_v2() or self.nvml.nvmlDeviceGetHandleByUUID(
                uuid.encode(), ctypes.byref(self.device)):
            sys.exit("error: the driver's library does not know this GPU")

    def read(self):
        mhz = ctypes.c_uint()
        failed = self.nvml.nvmlDeviceGetClockInfo(self.device, 1, ctypes.byref(mhz))
        return float("nan") if failed else mhz.value / 1000


START, STOP = (torch.cuda.Event(enable_timing=True) for _ in range(2))


def timed(run, calls, clock=None):
    """Returns the milliseconds of a call, and the clock in the middle."""
    START.record()
    for i in range(calls):
        run()
    STOP.record()
    seen = []
    while clock and not STOP.query():
        seen.append(clock.read())
        time.sleep(0.005)
    STOP.synchronize()
    return START.elapsed_time(STOP) / calls, seen[len(seen) // 2] if seen else float("nan")


def print_row(race, shape, data, name, samples):
    batch, heads, len_q, len_kv, dim = shape
    tflops = [4 * batch * heads * len_q * len_kv * dim / ms * 1e-9 for ms, _ in samples]
    print(f"{race},{' '.join(map(str, shape))},{data},{name},{statistics.median(tflops):.1f},"
          f"{min(tflops):.1f},{max(tflops):.1f},{statistics.median(g for _, g in samples):.2f}",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--exact", required=True, help="the library with chapter 16's idea off")
    options = parser.parse_args()
    clock = Clock()

    def ours(path, chapter):
        """Returns a plain call of the library whose arguments are converted once, because short
        calls are timed too."""
        library = ctypes.CDLL(os.path.abspath(path))
        library.flash_attention_error.restype = ctypes.c_char_p

        def prepare(q, k, v, o):
            arguments = (chapter, *(ctypes.c_void_p(x.data_ptr()) for x in (q, k, v, o)),
                         *(ctypes.c_int64(n) for n in (*q.shape[:3], k.shape[2], q.shape[3])),
                         ctypes.c_double(q.shape[3] ** -0.5),
                         ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))

            def run():
                if library.flash_attention_forward(*arguments):
                    sys.exit("error: " + library.flash_attention_error().decode())
            return contextlib.nullcontext, run
        return prepare

    def peer(backend):
        return lambda q, k, v, o: (lambda: sdpa_kernel(backend),
                                   lambda: F.scaled_dot_product_attention(q, k, v))
    chapters = {f"ch{n:02d}": ours(options.library, n) for n in (8, 12, 13, 14, 15, 16)}
    off = {"ch16 idea off": ours(options.exact, 16)}
    peers = {"FA2": peer(SDPBackend.FLASH_ATTENTION), "cuDNN": peer(SDPBackend.CUDNN_ATTENTION)}
    on_off = {"ch15": chapters["ch15"], **off, "ch16": chapters["ch16"], "cuDNN": peers["cuDNN"]}
    print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA "
          f"{torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}, "
          f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC. TFLOP/s: median, lowest "
          f"and highest of {ROUNDS['peers']} rounds (before: {ROUNDS['before']}).")
    print("race,shape,data,kernel,tflops,lowest,highest,ghz")

    def race(name, shape, data, kernels):
        q, k, v = inputs(shape, data)
        o = torch.empty_like(q)
        runners, once = {}, {}
        for kernel, prepare in kernels.items():
            runners[kernel] = context, run = prepare(q, k, v, o)
            if kernel not in peers:
                check(kernel, run, q, k, v, o)
            with context():
                run()  # cuDNN makes its plan
                once[kernel] = timed(run, 3)[0]
        samples = {kernel: [] for kernel in runners}
        for _ in range(ROUNDS[name]):
            for kernel in random.sample(list(runners), len(runners)):
                context, run = runners[kernel]
                with context():
                    timed(run, max(1, round(WARM_MS / once[kernel])))
                    samples[kernel].append(timed(run, max(1, round(TIMED_MS / once[kernel])), clock))
        for kernel, own in samples.items():
            print_row(name, shape, data, kernel, own)

    for batch, length in reversed(LENGTHS):
        for data in DATA:
            race("data", (batch, 16, length, length, 128), data, on_off)

    shape = (2, 16, 8192, 8192, 128)
    q, k, v = inputs(shape)
    o = torch.empty_like(q)
    pair = {"ch16": chapters["ch16"](q, k, v, o), "FA2": peers["FA2"](q, k, v, o)}

    def after(kernel, ms):
        context, run = pair[kernel]
        with context():
            return timed(run, max(1, round(ms / once[kernel])))
    once = dict.fromkeys(pair, 1.0)
    once = {kernel: after(kernel, 3)[0] for kernel in pair}  # three calls, for the time of one
    found = {(kernel, before): [] for kernel in pair for before in pair}
    for _ in range(ROUNDS["before"]):
        for kernel, before in random.sample(list(found), len(found)):
            after(before, WARM_MS)
            found[kernel, before].append(after(kernel, 3))
    for (kernel, before), samples in found.items():
        print_row("before", shape, before, kernel, samples)

    for shape in SHAPES:
        race("peers", shape, "normal", {**chapters, **peers})


if __name__ == "__main__":
    main()
