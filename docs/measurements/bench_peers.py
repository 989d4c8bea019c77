#!/usr/bin/env python3
"""Races the chapters' kernels against PyTorch's attention on this GPU, in one process, taking turns.

    cmake --build build --target flash_attention
    docs/measurements/bench_peers.py --json out.json --markdown out.md

Every chapter is first compared with float64, on new random inputs, with an output full of NaN. A
wrong kernel is not timed. Peers that this PyTorch does not have are left out. TFLOP/s are 4 B H Lq
Lkv D / time, and half of it for causal. Exit status: 0, 1 if a chapter was wrong, 2 if nothing
could be measured.
"""
import argparse
import ctypes
import dataclasses
import datetime
import json
import os
import random
import statistics
import subprocess
import sys
import time


@dataclasses.dataclass(frozen=True)
class Case:
    batch: int
    heads: int
    q: int
    kv: int
    dim: int
    kv_heads: int = 0  # 0 for as many as of Q
    causal: bool = False

    def __str__(self):
        heads = f"{self.heads}/{self.kv_heads}" if self.kv_heads else self.heads
        return (f"{self.batch},{heads},{self.q},{self.kv},{self.dim}"
                + (" causal" if self.causal else ""))

    @property
    def plain(self):
        return not (self.kv_heads or self.causal)

    def flops(self):
        return (2 if self.causal else 4) * self.batch * self.heads * self.q * self.kv * self.dim


@dataclasses.dataclass(frozen=True)
class Entry:
    chapter: int
    option: int = 0  # the chapter's option, or 0 for its default

    def __str__(self):
        return f"ch{self.chapter:02d}" + (f":{self.option}" if self.option else "")


def parse_case(text):
    """Parses B,H,Lq,Lkv,D or B,H/Hkv,Lq,Lkv,D, optionally followed by ":causal"."""
    sizes, _, causal = text.partition(":")
    batch, heads, *rest = sizes.split(",")
    heads, _, kv_heads = heads.partition("/")
    if causal not in ("", "causal") or len(rest) != 3:
        raise ValueError
    return Case(int(batch), int(heads), *map(int, rest), int(kv_heads or 0), causal == "causal")


SHAPES = [Case(*sizes) for sizes in (  # B, H, Lq, Lkv, D
    (1, 8, 4096, 8192, 128),
    (4, 8, 4096, 8192, 128),
    (2, 16, 8192, 8192, 128),
    (1, 16, 16384, 16384, 128),
    (2, 32, 8192, 8192, 64),
    (2, 16, 4001, 4099, 128),
    (2, 32, 4001, 4099, 64),
    (16, 16, 512, 512, 128),
    (16, 32, 512, 512, 64),
)]
# Shapes of chapter 09, with heads of K and V, and causal.
MASKED = [Case(*sizes, causal=True) for sizes in (
    (2, 16, 8192, 8192, 128), (1, 16, 16384, 16384, 128), (2, 32, 8192, 8192, 64),
    (8, 16, 1024, 1024, 128), (16, 16, 512, 512, 128))] + [
        Case(2, 32, 8192, 8192, 128, kv_heads=8, causal=True)]
CHECKED = [(1, 1, 1, 1), (2, 3, 65, 127), (1, 2, 257, 513), (1, 1, 100, 1), (1, 1, 1, 1000),
           (1, 8, 1024, 1024)]  # B, H, Lq, Lkv, each with D 64 and 128 and three input scales
ROWS = 64  # rows of each head that are checked


def fail(sentence):
    print(f"error: {sentence}", file=sys.stderr)
    sys.exit(2)


try:
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError:
    fail("this Python has no PyTorch to race against; ./learn bench times the chapters alone")

import paths  # noqa: F401, before the modules of reference/
import flash_attention
import check  # says so if there is no NumPy
from problem import Problem


class Library:
    def __init__(self, path):
        try:
            self.all = flash_attention.load(os.path.abspath(path))
            self.c = ctypes.CDLL(os.path.abspath(path))
        except OSError as error:
            fail(f"{error}; build the target flash_attention and name the file with --library")
        self.c.flash_attention_error.restype = ctypes.c_char_p
        self.c.flash_attention_mma_limit.restype = ctypes.c_double

    def attend(self, entry, case, q, k, v, o):
        """Fills o. The plain call is timed, so it is as short as possible."""
        if case.plain and not entry.option:
            self.forward(entry.chapter, q, k, v, o)
        else:
            self.all.attention(q, k, v, causal=case.causal, chapter=entry.chapter, out=o,
                               option=entry.option)

    def forward(self, chapter, q, k, v, o):
        pointers = [ctypes.c_void_p(x.data_ptr()) for x in (q, k, v, o)]
        sizes = [ctypes.c_int64(n) for n in (*q.shape[:3], k.shape[2], q.shape[3])]
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        if self.c.flash_attention_forward(chapter, *pointers, *sizes,
                                          ctypes.c_double(q.shape[3] ** -0.5), stream):
            raise RuntimeError(self.c.flash_attention_error().decode())


def inputs(case, input_scale=1.0, mean=0.5):
    def draw(heads, length):
        shape = (case.batch, heads, length, case.dim)
        return (torch.randn(shape, device="cuda") + mean).bfloat16()
    kv_heads = case.kv_heads or case.heads
    return draw(case.heads, case.q) * input_scale, draw(kv_heads, case.kv), draw(kv_heads, case.kv)


def on_host(tensor):
    return tensor.float().cpu().numpy()


class Judge:
    """Runs check.py on up to ROWS rows of each head. Every element must be finite."""

    def __init__(self, case, q, k, v):
        self.case, self.inputs = case, (q, k, v)
        # The last rows of a causal problem are a causal problem with Lkv keys and the last ROWS
        # queries.
        self.rows = (torch.arange(q.shape[2] - min(ROWS, q.shape[2]), q.shape[2], device=q.device)
                     if case.causal else
                     torch.randperm(q.shape[2], device=q.device)[:ROWS].sort().values)
        k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
        self.problem = Problem(*map(on_host, (q[:, :, self.rows], k, v)), dtype="bf16",
                               causal=case.causal)
        self.reference = check.compute_reference(self.problem)

    def wrong(self, library, entry):
        """Returns None, or a sentence about the error."""
        o = torch.full_like(self.inputs[0], float("nan"))
        library.attend(entry, self.case, *self.inputs, o)
        torch.cuda.synchronize()
        bad = int((~torch.isfinite(o)).sum())
        if bad:
            return f"{bad} elements of {o.numel()} are not finite"
        agreed, verdict = check.judge(self.problem, on_host(o[:, :, self.rows]), None,
                                      reference=self.reference)
        return None if agreed else " ".join(verdict.split())


MASKS = (9, 16)  # chapters with causal masks and shared heads


def takers(entries, case):
    return entries if case.plain else [entry for entry in entries if entry.chapter in MASKS]


def correct_entries(library, entries):
    reasons = dict.fromkeys(entries)
    for case in (Case(*sizes, d, causal=causal) for sizes in CHECKED for d in (64, 128)
                 for causal in (False, True)):
        for input_scale in (1.0, 30.0, 1e-3):
            judge = Judge(case, *inputs(case, input_scale))
            for entry in takers(entries, case):
                found = judge.wrong(library, entry)
                reasons[entry] = reasons[entry] or found and f"{case} x {input_scale}: {found}"
    for entry, reason in reasons.items():
        print(f"{entry}: {reason or 'agrees with float64'}", flush=True)
    return [entry for entry in entries if not reasons[entry]]


def peers(with_flex, case):
    options = {"is_causal": case.causal}
    if case.kv_heads:
        options["enable_gqa"] = True

    def sdpa(backend):
        def run(q, k, v):
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, **options)
        return run
    found = {"FA2": sdpa(SDPBackend.FLASH_ATTENTION), "cuDNN": sdpa(SDPBackend.CUDNN_ATTENTION)}
    if with_flex and case.plain:
        try:
            from torch.nn.attention.flex_attention import flex_attention
            torch.compiler.reset()  # after eight shapes it would stop compiling
            found["flex"] = torch.compile(flex_attention, dynamic=False)
        except ImportError:
            pass
    return found


def race(runners, rounds):
    """Returns the milliseconds of a call of each runner. The order is random in each round. A
    sample is a sequence of calls that takes 3 ms, so that launch overhead does not count. Half a
    second of calls warms up the clocks."""
    times, calls = {}, {}
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def sample(run, repeat):
        start.record()
        for _ in range(repeat):
            run()
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop) / repeat

    for name, run in runners.items():
        try:
            run()
            calls[name] = max(1, round(3 / sample(run, 3)))
            times[name] = []
        except Exception as error:  # a peer that does not support this shape
            print(f"  {name}: left out ({str(error).splitlines()[0]})", flush=True)
    warm_until = time.monotonic() + 0.5
    while time.monotonic() < warm_until:
        for name in times:
            sample(runners[name], calls[name])
    for _ in range(rounds):
        for name in random.sample(list(times), len(times)):
            times[name].append(sample(runners[name], calls[name]))
    return times


class NvmlField(ctypes.Structure):  # nvmlFieldValue_t
    _fields_ = [("field", ctypes.c_uint), ("scope", ctypes.c_uint), ("time", ctypes.c_longlong),
                ("latency", ctypes.c_longlong), ("type", ctypes.c_int), ("code", ctypes.c_int),
                ("value", ctypes.c_ulonglong)]


class Sensors:
    """Reads the card's clock and power from the driver's library."""

    def __init__(self):
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.device = ctypes.c_void_p()
        name = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
        if self.nvml.nvmlInit_v2() or self.nvml.nvmlDeviceGetHandleByUUID(
                name.encode(), ctypes.byref(self.device)):
            fail("--steady: the driver's library does not know this GPU")

    def read(self):
        """Returns GHz of the multiprocessors and watts, both current and not averaged over the last
        second."""
        clock, power = ctypes.c_uint(), NvmlField(186)  # NVML_FI_DEV_POWER_INSTANT
        if self.nvml.nvmlDeviceGetClockInfo(self.device, 1, ctypes.byref(clock)) or (
                self.nvml.nvmlDeviceGetFieldValues(self.device, 1, ctypes.byref(power))):
            return float("nan"), float("nan")
        return clock.value / 1000, power.value / 1000 if power.code == 0 else float("nan")


STEADY_MS = 300  # ms of warm-up, and ms that are timed


def steady_race(runners, rounds):
    """Returns for each runner and round, in a random order in each round, the milliseconds of one
    call after half a second of rest, and then of a call in the steady state, with the clock and the
    power at that time."""
    sensors = Sensors()
    found = {name: {"ms": [], "once": [], "GHz": [], "W": []} for name in runners}
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def timed(run, repeat, watch=None):
        start.record()
        for _ in range(repeat):
            run()
        stop.record()
        while watch is not None and not stop.query():
            watch.append(sensors.read())
            time.sleep(0.02)
        stop.synchronize()
        return start.elapsed_time(stop) / repeat

    for name in list(runners):
        try:
            timed(runners[name], 3)
        except Exception as error:  # a peer that does not support this shape
            print(f"  {name}: left out ({str(error).splitlines()[0]})", flush=True)
            del found[name]
    for _ in range(rounds):
        for name in random.sample(list(found), len(found)):
            torch.cuda.synchronize()
            time.sleep(0.5)
            own, run, seen = found[name], runners[name], []
            own["once"].append(timed(run, 1))
            repeat = max(1, round(STEADY_MS / own["once"][-1]))
            timed(run, repeat)
            own["ms"].append(timed(run, repeat, seen))
            # too short for the sensors
            later = seen[len(seen) // 2:] or [(float("nan"), float("nan"))]
            for i, key in enumerate(("GHz", "W")):
                own[key].append(statistics.median(each[i] for each in later))
    return found


def card():
    query = ("name,driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.draw,power.limit,"
             "temperature.gpu")
    try:
        line = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"],
                              capture_output=True, text=True, check=True).stdout.splitlines()[0]
        return dict(zip(query.split(","), line.split(", ")))
    except (OSError, subprocess.CalledProcessError):
        return {"name": torch.cuda.get_device_name()}


def as_markdown(result):
    names = sorted({name for row in result["rows"] for name in row["tflops"]},
                   key=lambda name: (not name.startswith("ch"), name))
    gpu, clocks = result["card"], sorted({row["card"].get("clocks.sm") for row in result["rows"]})
    lines = [f"{gpu['name']}, driver {gpu.get('driver_version', '?')}, "
             f"SM clock {clocks[0]} to {clocks[-1]} of {gpu.get('clocks.max.sm', '?')}, "
             f"PyTorch {result['torch']}, CUDA {result['cuda']}, cuDNN {result['cudnn']}, "
             f"{result['date']}; registers-only mma.sync {result['mma_limit_tflops']:.0f} TFLOP/s.",
             f"TFLOP/s, median of {result['rounds']} rounds. "
             f"`{result['command']}`", "",
             "| B,H,Lq,Lkv,D | " + " | ".join(names) + " | best / FA2 | ch09 / ch08, paired |",
             "|---" * (len(names) + 3) + "|"]
    for row in result["rows"]:
        t = row["tflops"]
        cells = [f"{t[name]:.1f}" if name in t else "" for name in names]
        best = next((name for name in ("ch09", "ch08") if name in t), None)
        ratio = f"{t[best] / t['FA2']:.2f}" if best and "FA2" in t else ""
        lines.append("| " + " | ".join([row["case"], *cells, ratio, paired(row["ms"])]) + " |")
    return "\n".join(lines) + "\n"


def steady_markdown(result):
    """Returns a line for each case and runner."""
    gpu = result["card"]
    lines = [f"{gpu['name']}, driver {gpu.get('driver_version', '?')}, PyTorch {result['torch']}, "
             f"CUDA {result['cuda']}, cuDNN {result['cudnn']}, {result['date']}. Inputs normal + "
             f"{result['mean']:g}. Median of {result['rounds']} rounds: {STEADY_MS} ms warm, then "
             f"{STEADY_MS} ms timed; once: one call after half a second of rest.",
             f"`{result['command']}`", "",
             "| B,H,Lq,Lkv,D | | TFLOP/s, steady | of cuDNN | of FA2 | once | GHz | W |",
             "|---" * 8 + "|"]
    for row in result["rows"]:
        tflops = row["tflops"]

        def ratio(name, peer):
            return f"{tflops[name] / tflops[peer]:.2f}" if peer in tflops else ""
        for name in sorted(tflops, key=lambda name: (not name.startswith("ch"), name)):
            own = {key: statistics.median(values) for key, values in row["steady"][name].items()}
            lines.append(f"| {row['case']} | {name} | {tflops[name]:.1f} | {ratio(name, 'cuDNN')} | "
                         f"{ratio(name, 'FA2')} | {row['flops'] / own['once'] * 1e-9:.1f} | "
                         f"{own['GHz']:.2f} | {own['W']:.0f} |")
    return "\n".join(lines) + "\n"


def paired(times):
    """Returns the median over the rounds of chapter 09's speedup against chapter 08 in the same
    round."""
    if not {"ch08", "ch09"} <= times.keys():
        return ""
    return f"{statistics.median(a / b for a, b in zip(times['ch08'], times['ch09'])):.3f}"


def write(path, text):
    if path:
        with open(path + ".part", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + ".part", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default="build/lib/libflash_attention.so")
    parser.add_argument("--chapters", default="3,4,5,6,7,8,9",
                        help="13:1 is chapter 13 with 1 for its own option")
    parser.add_argument("--shape", action="append",
                        help="B,H,Lq,Lkv,D or B,H/Hkv,…, optionally followed by :causal; may repeat")
    parser.add_argument("--masked", action="store_true", help="chapter 09's shapes too")
    parser.add_argument("--rounds", type=int, help="[15; with --steady 3]")
    parser.add_argument("--steady", action="store_true",
                        help=f"{STEADY_MS} ms warm and {STEADY_MS} ms timed, with clock and power")
    parser.add_argument("--mean", type=float, default=0.5, help="mean of the normal inputs [0.5]")
    parser.add_argument("--no-flex", action="store_true", help="flex compiles for every shape")
    parser.add_argument("--json")
    parser.add_argument("--markdown")
    options = parser.parse_args()
    try:
        entries = [Entry(*map(int, x.split(":"))) for x in options.chapters.split(",")]
        cases = [parse_case(text) for text in options.shape or []] or SHAPES
        cases = cases + (MASKED if options.masked else [])
        options.rounds = options.rounds if options.rounds is not None else 3 if options.steady else 15
        if options.rounds < 1 or not abs(options.mean) < 100:
            raise ValueError
    except (ValueError, TypeError):
        fail("--chapters takes 3,4,…, --shape five numbers B,H,Lq,Lkv,D, --rounds at least 1")
    library = Library(options.library)
    if not torch.cuda.is_available():
        fail("PyTorch sees no GPU on this machine")
    torch.manual_seed(int.from_bytes(os.urandom(4), "little"))

    good = correct_entries(library, entries)
    result = {"card": card(), "torch": torch.__version__, "cuda": torch.version.cuda,
              "cudnn": torch.backends.cudnn.version(), "rounds": options.rounds, "mean": options.mean,
              "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
              "command": "bench_peers.py " + " ".join(sys.argv[1:]),
              "correct_chapters": [str(entry) for entry in good],
              "mma_limit_tflops": library.c.flash_attention_mma_limit(), "rows": []}
    all_good = good == entries
    for case in cases:
        print(f"shape {case}", flush=True)
        q, k, v = inputs(case, mean=options.mean)
        o = torch.empty_like(q)
        judge = Judge(case, q, k, v)
        runners = {}
        for entry in takers(good, case):
            reason = judge.wrong(library, entry)
            if reason:
                print(f"  {entry}: {reason}: not timed", flush=True)
                all_good = False
                continue
            runners[str(entry)] = lambda e=entry: library.attend(e, case, q, k, v, o)
        for name, run in peers(not options.no_flex, case).items():
            runners[name] = lambda run=run: run(q, k, v)
        steady = steady_race(runners, options.rounds) if options.steady else {}
        times = ({name: own["ms"] for name, own in steady.items()} if steady else
                 race(runners, options.rounds))
        flops = case.flops()
        result["rows"].append({
            "case": str(case), "shape": dataclasses.astuple(case)[:5], "flops": flops,
            "card": card(), "ms": times, **({"steady": steady} if steady else {}),  # still warm
            "tflops": {name: flops / statistics.median(ms) * 1e-9 for name, ms in times.items()}})
    markdown = steady_markdown(result) if options.steady else as_markdown(result)
    write(options.json, json.dumps(result, indent=1) + "\n")
    write(options.markdown, markdown)
    print(markdown)
    return 0 if all_good else 1


if __name__ == "__main__":
    sys.exit(main())
