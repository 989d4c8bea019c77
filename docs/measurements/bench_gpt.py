#!/usr/bin/env python3
"""Races chapter 20's GPT, all of it on the GPU, against the same model in PyTorch, compiled.

    docs/measurements/bench_gpt.py --program build/bin/ch20_train_a_gpt --json out.json

Both start with the same weights and draw the same batches. Products and attention are in bf16, and
weights, optimizer and residual path in fp32. PyTorch runs torch.compile of the model under
autocast, with scaled_dot_product_attention and the fused AdamW. Each of its attention backends
takes part, unless the GPU's memory is too small. --context can have several lengths, with the same
number of tokens per step. The order is random in each round. The first losses are compared. Exit
status: 0, 1 if they differ by more than --bound, 2 if nothing could be measured.
"""
import argparse
import datetime
import gc
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

import paths  # noqa: F401, before the modules of reference/
import check  # noqa: F401, says so if there is no NumPy

import gpt
import gpt_torch
from problem import BadInput

FIRST = 10  # number of steps whose losses are compared
LEARNING_RATE = 0.0003


class Ours:
    """Runs a program, started again in each round. The time of a step is the median of the
    program's own times."""

    def __init__(self, options, folder, context, attention):
        self.report = os.path.join(folder, "report.json")
        self.command = [options.program, "train", "--device", "gpu", "--attention", attention,
                        "--steps", str(options.steps), "--json", self.report,
                        *model_options(options, context)]

    def race(self):
        run(self.command)
        with open(self.report, encoding="utf-8") as file:
            report = json.load(file)
        return report["ms_per_step"], report["loss"]


class Theirs:
    """Runs PyTorch. The first round compiles and is not timed. The loop does not synchronize."""

    def __init__(self, torch, options, start, text, backend, mode):
        self.torch, self.options, self.losses = torch, options, []
        kernels = getattr(torch.nn.attention.SDPBackend, backend)

        def attend(q, k, v):
            with torch.nn.attention.sdpa_kernel(kernels):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        self.training = gpt_torch.Training(torch, attend, start, autocast=True, compile_mode=mode)
        self.batches = gpt.batches(start.header, text)
        self.steps(FIRST)

    def steps(self, count):
        losses = [self.training.step(*batch) for batch, _ in zip(self.batches, range(count))]
        self.losses += [float(loss) for loss in losses]

    def race(self):
        self.torch.cuda.synchronize()
        begin = time.perf_counter()
        self.steps(self.options.steps)  # returns the losses, so it has synchronized
        return 1000 * (time.perf_counter() - begin) / self.options.steps, self.losses


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise BadInput(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()}")


def model_options(options, context):
    numbers = {"context": context, "batch": options.tokens // context, "layers": options.layers,
               "heads": options.heads, "channels": options.channels, "text": options.text,
               "learning-rate": LEARNING_RATE}
    return [word for name, value in numbers.items() for word in (f"--{name}", str(value))]


def of_context(torch, options, context, folder, text):
    """Runs the race for one context length."""
    start_file = os.path.join(folder, "start")
    run([options.program, "train", "--steps", "0", "--checkpoint", start_file,
         *model_options(options, context)])
    start = gpt.load(start_file)
    os.remove(start_file)
    racers = {f"ours, {name}": Ours(options, folder, context, name) for name in options.attention}
    failed = []
    for backend, mode in itertools.product(options.backends, options.modes):
        name = f"PyTorch, {backend.lower()}" + (f", {mode}" if mode != "default" else "")
        begin = time.perf_counter()
        try:
            racers[name] = Theirs(torch, options, start, text, backend, mode)
        except torch.cuda.OutOfMemoryError:
            failed.append(name)
        print(f"{context} {name}: {'no memory' if name in failed else 'compiled'}, "
              f"{time.perf_counter() - begin:.0f} s", flush=True)
        gc.collect()
        torch.cuda.empty_cache()
    times, losses = {name: [] for name in racers}, {}
    for _ in range(options.rounds):
        for name in random.sample(list(racers), len(racers)):
            ms, losses[name] = racers[name].race()
            times[name].append(ms)
    for name, ms in times.items():
        print(f"{context} {name}: {statistics.median(ms):.2f} ms", flush=True)
    return {"context": context, "batch": options.tokens // context, "ms": times,
            "out_of_memory": failed,
            "parameters": sum(values.size for values in start.weights.values()),
            "tokens_per_second": {name: 1000 * options.tokens / statistics.median(ms)
                                  for name, ms in times.items()},
            "first_losses": {name: loss[:FIRST] for name, loss in losses.items()}}


def measure(options):
    torch = gpt_torch.import_torch()
    if not torch.cuda.is_available():
        raise BadInput("PyTorch sees no GPU on this machine")
    with open(options.text, encoding="utf-8", newline="") as file:
        text = file.read()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for context in options.context:
            rows.append(of_context(torch, options, context, folder, text))
            torch._dynamo.reset()
            gc.collect()
            torch.cuda.empty_cache()
    return {"card": torch.cuda.get_device_name(), "torch": torch.__version__,
            "date": datetime.date.today().isoformat(), "rounds": options.rounds,
            "steps": options.steps, "tokens": options.tokens, "layers": options.layers,
            "heads": options.heads, "channels": options.channels, "rows": rows}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/bin/ch20_train_a_gpt")
    parser.add_argument("--text", required=True, help="to learn from")
    parser.add_argument("--context", type=int, nargs="+", default=[1024])
    for name, number in (("tokens", 32768), ("layers", 14), ("heads", 12), ("channels", 768),
                         ("steps", 20), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--attention", nargs="+", default=["ch22", "ch16", "ch10"], help="ours")
    parser.add_argument("--backends", nargs="+", default=["FLASH_ATTENTION", "CUDNN_ATTENTION"],
                        help="PyTorch's, names in torch.nn.attention.SDPBackend; MATH is plain")
    parser.add_argument("--modes", nargs="+", default=["default"], help="modes of torch.compile")
    parser.add_argument("--bound", type=float, default=2e-2, help="bound of the first losses [2e-2]")
    parser.add_argument("--json", help="write the result to this file")
    options = parser.parse_args(arguments)
    try:
        result = measure(options)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(result, file, indent=1)
                file.write("\n")
    except (BadInput, OSError, UnicodeDecodeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    good = True
    for row in result["rows"]:
        print(f"{row['parameters']} parameters, {row['batch']} x {row['context']} tokens a step:")
        for name, speed in row["tokens_per_second"].items():
            print(f"  {name:44} {speed:10.0f} tokens/s {statistics.median(row['ms'][name]):8.2f} ms")
        for name in row["out_of_memory"]:
            print(f"  {name:44} out of memory")
        first = list(row["first_losses"].values())
        differences = [abs(a - b) for other in first[1:] for a, b in zip(first[0], other)]
        equal = all(difference <= options.bound for difference in differences)
        good = good and equal
        if differences:
            print(f"  the first {FIRST} losses differ by up to {sorted(differences)[-1]:.1e}: "
                  f"{'equal' if equal else 'DIFFERENT'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
