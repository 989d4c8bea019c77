#!/usr/bin/env python3
"""Races our kernels against FlashAttention-2, cuDNN and FlashAttention-3 in one run on one GPU.

    docs/measurements/h100/one_run.py FOLDER ladder forward backward fp16 fp8 decode > one_run.csv

FOLDER has newNN.so, chapter NN's kernel (kernel.cu of this folder says how), and libfa3.so, if it
was built: FlashAttention-3's kernels with a C function around each, outside this repository.
The card never rests. A sample of a kernel is some time of it that is not timed, then some that is:
ladder 400 and 600 ms, backward and fp16 400 and 800 ms, decode 50 and 30 ms, the others 100 and 60
ms. Rounds take the kernels in a new order each time. Every kernel of ours, and FlashAttention-3's, is
first compared with float64 on 8 rows of each head, into an output full of NaN. TFLOP/s are
4 B H Lq Lkv D / time, backward 10, half of it if causal.

ladder    every forward chapter, then the last ones with a causal mask
forward   the last chapters and the peers, full and causal
backward  chapter 22 and the peers, with everything before and after the main kernel
fp16      chapter 22 and cuDNN in fp16 (next to bf16 of the same run)
fp8       chapter 23 and FlashAttention-3's FP8 kernel on the same bf16 inputs: the attention alone,
          and the call with quantizing (FlashAttention-3's: PyTorch's operations, one scale per head)
decode    microseconds: chapter 11, causal, and peers; FA2 and cuDNN take no mask there
error     root mean square of the error, divided by the root mean square of the result
"""
import contextlib
import ctypes
import datetime
import functools
import os
import random
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from hopper_steady import Clock, timed

FOLDER, PARTS = sys.argv[1], sys.argv[2:]
ROUNDS = 3
CHAPTERS = [n for n in ("03", "04", "05", "06", "07", "08", "12", "13", "14", "15", "16", "21")
            if os.path.exists(f"{FOLDER}/new{n}.so")]
P, I64 = ctypes.c_void_p, ctypes.c_int64
CLOCK = Clock()


def pointers(*tensors):
    return [P(x.data_ptr()) for x in tensors]


@functools.cache
def library(name):
    return ctypes.CDLL(os.path.abspath(f"{FOLDER}/{name}.so"))


class Fa3(ctypes.Structure):
    _fields_ = ([(n, P) for n in "q k v o lse q_descale k_descale v_descale".split()]
                + [(n, I64 * 3) for n in ("qs", "ks", "vs", "os")] + [("v_dim_stride", I64)]
                + [(n, ctypes.c_int) for n in "b h h_k lq lk d causal e4m3 pack splits".split()]
                + [("scale", ctypes.c_float), ("o_accum", P), ("lse_accum", P)])


class Fa3Backward(ctypes.Structure):
    _fields_ = [("f", Fa3)] + [(n, P) for n in "dout dq dk dv dq_accum d_sum lse_log2 dq_semaphore".split()]


def call_of(function, kept, *arguments):
    """Returns a call that raises if the C function fails, and `kept` stays alive with it."""
    def run(kept=kept):
        if function(*arguments):
            raise RuntimeError("a kernel failed")
    return run


def fa3_arguments(q, k, v, o, causal, **more):
    lse = torch.empty(q.shape[:3], device="cuda")
    a = Fa3(*pointers(q, k, v, o, lse), v_dim_stride=1, b=q.shape[0], h=q.shape[1], h_k=k.shape[1],
            lq=q.shape[2], lk=k.shape[2], d=q.shape[3], causal=causal, e4m3=q.dtype == torch.float8_e4m3fn,
            scale=q.shape[3] ** -0.5)
    for field, x in (("qs", q), ("ks", k), ("vs", v), ("os", o)):
        setattr(a, field, (I64 * 3)(x.stride(0), x.stride(2), x.stride(1)))
    for name, value in more.items():
        setattr(a, name, value)
    return a, lse


def fa3(q, k, v, o, causal, **more):
    a, lse = fa3_arguments(q, k, v, o, causal, **more)
    return call_of(LIBFA3.fa3_forward, (a, lse, q, k, v, o, more), ctypes.byref(a), None)


def ours(chapter):
    def prepare(q, k, v, o, causal, splits=1):
        work = torch.empty(max(splits * q.numel() // q.shape[3] * (q.shape[3] + 1), 1), device="cuda")
        if chapter == "23":
            work = torch.empty(library("new23").workspace_bytes(
                *map(I64, (*q.shape[:2], k.shape[1], q.shape[2], k.shape[2]))), dtype=torch.uint8, device="cuda")
        return call_of(library(f"new{chapter}").run, (work, q, k, v, o), *pointers(q, k, v, o),
                       *map(I64, (*q.shape[:2], k.shape[1], q.shape[2], *k.shape[2:])),
                       ctypes.c_float(q.shape[3] ** -0.5), int(causal), splits, *pointers(work))
    return prepare


def torchs(backend):
    def prepare(q, k, v, o, causal):
        def run():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal,
                                                      enable_gqa=q.shape[1] != k.shape[1])
        return run
    return prepare


def draw(*shape, dtype=torch.bfloat16):
    return (torch.randn(*shape, device="cuda") + 0.5).to(dtype)


def error(run, q, k, v, o, causal, rows=8):
    """Returns the relative error against float64 on some rows of each head, or NaN if a number of O is
    not finite."""
    o.fill_(float("nan"))
    run()
    torch.cuda.synchronize()
    rows = torch.randperm(q.shape[2], device="cuda")[:rows]
    group, wrong, square = q.shape[1] // k.shape[1], 0.0, 0.0
    for b in range(min(q.shape[0], 4)):
        keys, values = (x[b].double().repeat_interleave(group, 0) for x in (k, v))
        scores = q[b][:, rows].double() @ keys.mT * q.shape[3] ** -0.5
        if causal:
            last = rows[:, None] + k.shape[2] - q.shape[2]
            scores.masked_fill_(torch.arange(k.shape[2], device="cuda") > last, float("-inf"))
        exact = scores.softmax(-1) @ values
        wrong += float((o[b][:, rows].double() - exact).square().sum())
        square += float(exact.square().sum())
    return (wrong / square) ** 0.5 if bool(torch.isfinite(o).all()) else float("nan")


def race(part, shape, causal, runs, value, errors=(), warm=100, measure=60, rounds=ROUNDS):
    """Prints a line per kernel. `value` makes what is printed out of milliseconds."""
    once, samples = {}, {name: [] for name in runs}
    for name, run in runs.items():
        run()
        once[name] = timed(run, 3)[0]
    for _ in range(rounds):
        for name in random.sample(list(runs), len(runs)):
            timed(runs[name], max(1, round(warm / once[name])))
            samples[name].append(timed(runs[name], max(1, round(measure / once[name])), CLOCK))
    for name, own in samples.items():
        numbers = [value(ms) for ms, _ in own]
        print(f"{part},{' '.join(map(str, shape))},{int(causal)},{name},{statistics.median(numbers):.1f},"
              f"{min(numbers):.1f},{max(numbers):.1f},{statistics.median(g for _, g in own):.2f},"
              f"{f'{errors[name]:.2e}' if name in errors else ''}", flush=True)


def forward_race(part, shape, causal, names, rounds=ROUNDS):
    batch, heads, length, dim = shape
    q, k, v = (draw(*shape) for _ in range(3))
    o = torch.empty_like(q)
    makers = {**{f"ch{n}": ours(n) for n in CHAPTERS}, "FA2": torchs(SDPBackend.FLASH_ATTENTION),
              "cuDNN": torchs(SDPBackend.CUDNN_ATTENTION)}
    if LIBFA3:
        makers["FA3"] = fa3
    runs, errors = {}, {}
    for name in names:
        if name not in makers:
            continue
        runs[name] = makers[name](q, k, v, o, causal)
        if name not in ("FA2", "cuDNN"):
            errors[name] = error(runs[name], q, k, v, o, causal)
            if not errors[name] <= 1e-2:
                print(f"# {part} {shape} {causal} {name}: relative error {errors[name]}: left out", flush=True)
                del runs[name]
    flops = 4 * batch * heads * length * length * dim / (2 if causal else 1)
    warm, measure = (400, 600) if part == "ladder" else (100, 60)
    race(part, shape, causal, runs, lambda ms: flops / ms * 1e-9, errors, warm, measure, rounds)


def backward_runs(shape, causal, dtype):
    """Returns {name: call} of backward passes of one problem, and the gradients of ours and FA3's."""
    q, k, v, do = (draw(*shape, dtype=dtype).requires_grad_() for _ in range(4))
    do = do.detach()
    o, lse = torch.ops.aten._scaled_dot_product_flash_attention(q.detach(), k.detach(), v.detach(), 0.0, causal)[:2]
    o = o.contiguous()
    lse = lse.contiguous()
    runs, gradients = {}, {}
    lib = library("new22")
    lib.workspace_floats.restype = I64
    work = torch.empty(lib.workspace_floats(*map(I64, shape)), device="cuda")
    grads = [torch.full_like(x, float("nan")) for x in (q, k, v)]
    batch, heads, length, dim = shape
    tensors = [x.detach() for x in (q, k, v)]
    for deterministic, name in enumerate(("ch22", "ch22 deterministic")):
        runs[name] = call_of(lib.run, (work, grads, o, lse, do, tensors), *pointers(*tensors, o, do, lse, *grads, work),
                             *map(I64, (batch, heads, heads, length, length, dim)), ctypes.c_float(dim ** -0.5),
                             int(causal), int(dtype == torch.float16), deterministic)
        gradients[name] = grads
    for name, backend in (("cuDNN", SDPBackend.CUDNN_ATTENTION), ("FA2", SDPBackend.FLASH_ATTENTION)):
        with sdpa_kernel(backend):
            out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        runs[name] = lambda out=out: torch.autograd.grad(out, (q, k, v), do, retain_graph=True)
    if LIBFA3 and dtype == torch.bfloat16 and hasattr(LIBFA3, "fa3_backward"):
        tile = 128 if dim == 64 else 64 if causal else 80
        rows = (length + tile - 1) // tile * tile
        a, _ = fa3_arguments(*tensors, o, causal)
        a.lse = lse.data_ptr()
        own = [torch.full_like(x, float("nan")) for x in tensors]
        sums = [torch.empty(batch * heads * rows * n, device="cuda") for n in (dim, 1, 1)]
        counters = torch.zeros(batch * heads * (rows // tile + 1), dtype=torch.int32, device="cuda")
        b = Fa3Backward(a, *pointers(do, *own, *sums, counters))
        runs["FA3"] = call_of(LIBFA3.fa3_backward, (b, own, sums, counters, lse, o, do), ctypes.byref(b), None)
        gradients["FA3"] = own
    return runs, gradients, (q, k, v, do)


def gradient_errors(runs, gradients, tensors, causal):
    """Returns, per kernel, the largest relative error of dQ, dK and dV of the last head against
    float64 where that fits, otherwise against FA2's."""
    q, k, v, do = tensors
    if q.shape[2] <= 2048:
        exact = [x[-1:, -1:].detach().double().requires_grad_() for x in (q, k, v)]
        with sdpa_kernel(SDPBackend.MATH):
            out = F.scaled_dot_product_attention(*exact, is_causal=causal)
        truth = torch.autograd.grad(out, exact, do[-1:, -1:].double())
    else:
        truth = [x[-1:, -1:].double() for x in runs["FA2"]()]
    errors = {}
    for name, grads in gradients.items():
        for grad in grads:
            grad.fill_(float("nan"))
        runs[name]()
        torch.cuda.synchronize()
        errors[name] = max(float((g[-1:, -1:].double() - t).norm() / t.norm()) for g, t in zip(grads, truth))
        if not all(bool(torch.isfinite(g).all()) for g in grads):
            errors[name] = float("nan")
    return errors


def backward_race(part, shape, causal, dtype, names, suffix=""):
    runs, gradients, tensors = backward_runs(shape, causal, dtype)
    errors = gradient_errors(runs, gradients, tensors, causal)
    for name, e in errors.items():
        if not e <= 2e-2:
            print(f"# {part} {shape} {causal} {name}: relative error {e}: left out", flush=True)
            runs.pop(name)
    batch, heads, length, dim = shape
    flops = 10 * batch * heads * length * length * dim / (2 if causal else 1)
    race(part, shape, causal, {n + suffix: runs[n] for n in names if n in runs}, lambda ms: flops / ms * 1e-9,
         {n + suffix: e for n, e in errors.items()}, 400, 800, 1)


def fp8_race(shape, causal, mean=0.5):
    batch, heads, length, dim = shape
    q, k, v = (draw(*shape) + (mean - 0.5) for _ in range(3))
    o = torch.empty_like(q)
    whole = ours("23")(q, k, v, o, causal)
    lib = library("new23")
    work = torch.empty(lib.workspace_bytes(*map(I64, (batch, heads, heads, length, length))), dtype=torch.uint8,
                       device="cuda")
    call_of(lib.prepare, (), *pointers(q, k, v, o), *map(I64, (batch, heads, heads, length, length)),
            ctypes.c_float(dim ** -0.5), int(causal), *pointers(work))()
    runs = {"ch23 attention": call_of(lib.attend, (work, q, k, v, o)), "ch23 with quantizing": whole}

    def quantize(x, to):
        largest = x.abs().amax((2, 3), keepdim=True).float()
        to.copy_((x * (448 / largest)).to(to.dtype))
        return largest.flatten(1) / 448
    if LIBFA3:
        eight = [torch.empty(shape, dtype=torch.float8_e4m3fn, device="cuda") for _ in range(3)]
        descales = [quantize(x, to).contiguous() for x, to in zip((q, k, v), eight)]
        a, lse = fa3_arguments(*eight, o, causal)
        a.q_descale, a.k_descale, a.v_descale = (x.data_ptr() for x in descales)
        alone = call_of(LIBFA3.fa3_forward, (a, lse, eight, descales), ctypes.byref(a), None)

        def quantized():
            for x, to, scale in zip((q, k, v), eight, descales):
                scale.copy_(quantize(x, to))
            alone()
        runs.update({"FA3 attention": alone, "FA3 with quantizing": quantized})
    runs["ch16 in bf16"] = ours("16")(q, k, v, o, causal)
    errors = {name: error(run, q, k, v, o, causal, 16) for name, run in runs.items()}
    if mean != 0.5:
        for name in ("ch23 attention", "FA3 attention"):
            if name in errors:
                print(f"fp8 mean {mean:g},{' '.join(map(str, shape))},{int(causal)},{name},,,,,{errors[name]:.2e}")
        return
    flops = 4 * batch * heads * length * length * dim / (2 if causal else 1)
    race("fp8", shape, causal, runs, lambda ms: flops / ms * 1e-9, errors, rounds=ROUNDS)


def splits_of(batch, heads, kv_heads, len_q, keys, dim):
    """Returns the splits that chapter 11 chooses (choose_splits in its chapter.hpp)."""
    items = batch * kv_heads * -(-(heads // kv_heads * len_q) // 16)
    if 5 * items >= 4 * SMS:
        return 1
    tiles = -(-keys // (128 if dim <= 64 else 64))

    most = max(1, min(128, SMS, tiles))
    efficiency = {n: items * n / SMS / -(-items * n // SMS) for n in range(1, most + 1)
                  if n == 1 or -(-tiles // n) != -(-tiles // (n - 1))}
    return next(n for n, e in efficiency.items() if e >= 0.95 * max(efficiency.values()) - 1e-9)


def decode_race(batch, heads, kv_heads, len_q, keys, dim=128):
    q, k, v = draw(batch, heads, len_q, dim), draw(batch, kv_heads, keys, dim), draw(batch, kv_heads, keys, dim)
    o = torch.empty_like(q)
    runs = {"ch11": ours("11")(q, k, v, o, True, splits_of(batch, heads, kv_heads, len_q, keys, dim))}
    if LIBFA3:
        a, _ = fa3_arguments(q, k, v, o, True)
        n = LIBFA3.fa3_num_splits(ctypes.byref(a))
        sums = torch.empty(n * q.numel(), device="cuda"), torch.empty(n * q.numel() // dim, device="cuda")
        runs[f"FA3 {n} splits"] = fa3(q, k, v, o, True, pack=1, splits=n, o_accum=sums[0].data_ptr(),
                                      lse_accum=sums[1].data_ptr())
        runs[f"FA3 {n} splits"].__defaults__[0][-1]["kept"] = sums
    errors = {name: error(run, q, k, v, o, True, len_q) for name, run in runs.items()}
    runs["cuDNN"] = torchs(SDPBackend.CUDNN_ATTENTION)(q, k, v, o, False)
    runs["FA2"] = torchs(SDPBackend.FLASH_ATTENTION)(q, k, v, o, False)
    race("decode", (batch, heads, kv_heads, len_q, keys, dim), True, runs, lambda ms: ms * 1000, errors,
         50, 30)


def part(name):
    long = [(2, 16, 8192, 128), (1, 16, 16384, 128)]
    if name == "ladder":
        for shape in (*reversed(long), (2, 32, 8192, 64)):
            forward_race(name, shape, False, [f"ch{n}" for n in CHAPTERS] + ["FA2", "cuDNN", "FA3"])
        for shape in (*long, (2, 32, 8192, 64)):
            forward_race(name, shape, True, ["ch16", "ch21", "cuDNN", "FA3"])
    elif name == "forward":
        for causal in (False, True):
            for shape in (*long, (2, 32, 8192, 64)):
                forward_race(name, shape, causal, ["ch16", "ch21", "FA2", "cuDNN", "FA3"])
            for shape in [(32768 // n, 16, n, 128) for n in (512, 1024, 2048)] + [(8, 16, 4001, 128), (64, 32, 512, 64)]:
                forward_race(name, shape, causal, ["ch16", "ch21", "cuDNN", "FA3"])
    elif name == "backward":
        for shape in (*long, (8, 16, 2048, 128), (16, 16, 1024, 128), (2, 32, 8192, 64)):
            for causal in (False, True):
                backward_race(name, shape, causal, torch.bfloat16, ["ch22", "ch22 deterministic", "cuDNN", "FA2", "FA3"])
    elif name == "fp16":
        for shape in long:
            for causal in (False, True):
                backward_race(name, shape, causal, torch.float16, ["ch22", "cuDNN"], " fp16")
        for shape in ((2, 4, 2048, 128), (2, 4, 1000, 128), (3, 2, 333, 128), (2, 4, 777, 64)):
            for causal in (False, True):
                for dtype in (torch.float16, torch.bfloat16):
                    runs, gradients, tensors = backward_runs(shape, causal, dtype)
                    for kernel, e in gradient_errors(runs, gradients, tensors, causal).items():
                        print(f"gradients,{' '.join(map(str, shape))},{int(causal)},{kernel} "
                              f"{'fp16' if dtype == torch.float16 else 'bf16'},,,,,{e:.2e}", flush=True)
    elif name == "fp8":
        for length in (1024, 2048, 4096, 8192, 16384):
            for causal in (False, True):
                fp8_race((16384 // length, 16, length, 128), causal)
                fp8_race((16384 // length, 16, length, 128), causal, 0)
    elif name == "decode":
        for batch, keys in ((64, 8192), (1, 32768)):
            for len_q in (1, 2, 4, 8):
                decode_race(batch, 32, 8, len_q, keys)


if __name__ == "__main__":
    SMS = torch.cuda.get_device_properties(0).multi_processor_count
    LIBFA3 = library("libfa3") if os.path.exists(f"{FOLDER}/libfa3.so") else None
    if os.path.exists(f"{FOLDER}/new23.so"):
        library("new23").workspace_bytes.restype = I64
    print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN "
          f"{torch.backends.cudnn.version()}, {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC. "
          f"TFLOP/s (decode: microseconds): median, lowest and highest of 3 rounds (backward, fp16: 1).")
    print("race,shape,causal,kernel,value,lowest,highest,ghz,error", flush=True)
    for each in PARTS:
        start = time.time()
        with contextlib.suppress(KeyboardInterrupt):
            try:
                part(each)
            except Exception as problem:  # the other parts continue
                print(f"# {each} ended: {type(problem).__name__}: {str(problem).splitlines()[0]}", flush=True)
        print(f"{each} {time.time() - start:.0f} s", file=sys.stderr, flush=True)
