#!/usr/bin/env python3
"""Keeps the results of chapter 20's runs, and prints the lesson's tables from them.

    training.py collect REPORT.json …   writes cpu/ch20_curves.csv and cpu/ch20_contexts.csv
    training.py seeds                   plain and tiled attention, seed by seed
    training.py breaks                  the loss with each break
    training.py context                 memory and time of a step against the context
    training.py collect-gpu RACE.json … NCU.csv   writes h200/ch20_gpu.csv and h200/ch20_kernels.csv
    training.py gpu                     tokens a second of the GPT on a GPU, and of PyTorch's
    training.py kernels                 where the time of such a step goes
    training.py collect-backward RACE.json …      writes h200/ch20_backward.csv
    training.py backward                tokens a second with chapter 10's and with chapter 22's backward pass

`ch20_train_a_gpt train --json` writes a report. Its losses are kept as means of 50 steps, and the first 20
unchanged. `docs/measurements/bench_gpt.py --json` writes a race. The CSV comes from
`ncu --metrics gpu__time_duration.sum --csv ch20_train_a_gpt train --device gpu --steps 2 …`, of which the
second step is kept. --folder DIR writes to and reads from that folder instead. Exit status: 0, 2 for bad input.
"""
import argparse
import csv
import json
import os
import statistics
import sys
from pathlib import Path

import kept

HERE = Path(__file__).resolve().parent
# Kernels by a part of their name, where the first match counts, and all others are cuBLAS's products.
KERNELS = (("attention, forward", ("ch16::", "ch09::")), ("attention, backward", ("ch10::",)),
           ("norms and residual path", ("add_norm", "norm_backward", "sum_partials")),
           ("AdamW", ("adamw",)), ("embedding and loss", ("ch20::",)),
           ("bias gradients", ("Bgrad",)))
EVERY, FIRST, LAST = 50, 20, 200
CURVES = ["name", "passed", "relative_error", "early", "last", "first", "means"]
CONTEXTS = ["context", "attention", "attention_bytes", "ms"]
GPU = ["context", "batch", "date", "steps", "parameters", "runner", "tokens_per_second", "ms",
       "first_losses"]


def write(target, about, columns, rows):
    text = kept.write(about, columns, rows)
    new = target.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, target)


def mean(numbers):
    return sum(numbers) / len(numbers)


def name_of(report):
    return "+".join(report["breaks"]) or f"{report['attention']} {report['seed']}"


def collect(paths, folder):
    curves, contexts = {}, []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        loss, model = report["loss"], report["model"]
        if len(loss) < LAST:  # a run for its time and memory
            contexts.append([model["context"], report["attention"], report["attention_bytes"],
                             round(report["ms_per_step"], 1)])
            continue
        curves[name_of(report)] = [
            int(report["check"]["passed"]), report["check"]["relative_error"], mean(loss[80:100]),
            mean(loss[-LAST:]), loss[:FIRST],
            [round(mean(loss[i:i + EVERY]), 5) for i in range(0, len(loss), EVERY)]]
    write(folder / "ch20_curves.csv", {"every": EVERY}, CURVES,
          [[name, *curve] for name, curve in sorted(curves.items())])
    write(folder / "ch20_contexts.csv", {}, CONTEXTS, sorted(contexts))


def write_races(paths, target):
    rows = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            race = json.load(file)
        rows += [[row["context"], row["batch"], race["date"], race["steps"], row["parameters"], name,
                  row["tokens_per_second"].get(name), row["ms"].get(name, []), row["first_losses"].get(name, [])]
                 for row in race["rows"] for name in [*row["ms"], *row["out_of_memory"]]]
    about = {key: race[key] for key in ("card", "torch", "tokens", "layers", "heads", "channels")}
    write(target, about, GPU, sorted(rows, key=lambda row: row[0]))


def collect_gpu(paths, folder):
    write_races([path for path in paths if not path.endswith(".csv")], folder / "ch20_gpu.csv")
    kernels = {}
    for path in (path for path in paths if path.endswith(".csv")):
        with open(path, encoding="utf-8") as file:
            launches = [row for row in csv.reader(file) if len(row) > 14 and row[0].isdigit()]
        for row in launches[len(launches) // 2:]:  # the second of two steps
            group = next((group for group, words in KERNELS if any(word in row[4] for word in words)),
                         "products")
            ms, count = kernels.get(group, (0, 0))
            kernels[group] = ms + float(row[-1].replace(",", "")) / 1e6, count + 1
    write(folder / "ch20_kernels.csv", {}, ["kernels", "ms", "launches"],
          [[group, round(ms, 3), count]
           for group, (ms, count) in sorted(kernels.items(), key=lambda x: -x[1][0])])


def read(path):
    return kept.read(path.read_text(encoding="utf-8"))


def curves_of(folder):
    """Returns {name: curve} from ch20_curves.csv, with cells as numbers."""
    return {row["name"]: {"passed": row["passed"] == "1",
                          **{key: float(row[key]) for key in ("relative_error", "early", "last")},
                          **{key: list(map(float, row[key].split())) for key in ("first", "means")}}
            for row in read(folder / "ch20_curves.csv")[1]}


def seeds(folder):
    curves = curves_of(folder)
    print("seed   plain, last 200   tiled, last 200   first 20, largest difference")
    for seed in range(5):
        plain, tiled = curves[f"plain {seed}"], curves[f"tiled {seed}"]
        differences = [abs(a - b) for a, b in zip(plain["first"], tiled["first"])]
        print(f"{seed:4} {plain['last']:17.4f} {tiled['last']:17.4f} {sorted(differences)[-1]:26.0e}")
    for name in sorted(name for name in curves if name.startswith("ch10")):
        tiled = curves[name.replace("ch10", "tiled")]
        differences = [abs(a - b) for a, b in zip(curves[name]["first"], tiled["first"])]
        print(f"{name.split()[1]:>4} {'in bf16, ch10:':>17} {curves[name]['last']:17.4f} "
              f"{sorted(differences)[-1]:26.0e}")


def breaks(folder):
    curves = curves_of(folder)
    print("what                 steps 81-100   last 200   gradients of step 1")
    for name, run in [("intact", curves["tiled 0"]), *(
            (name, run) for name, run in curves.items() if " " not in name)]:
        verdict = "agree" if run["passed"] else f"off by {run['relative_error']:.0e}"
        print(f"{name:20} {run['early']:12.3f} {run['last']:10.3f}   {verdict}")


def context(folder):
    runs = {}
    for row in read(folder / "ch20_contexts.csv")[1]:
        runs.setdefault(row["context"], {})[row["attention"]] = (int(row["attention_bytes"]), float(row["ms"]))
    print("context    plain, MiB   tiled, KiB   plain, ms   tiled, ms")
    for length, of in runs.items():
        (plain, plain_ms), (tiled, tiled_ms) = of["plain"], of["tiled"]
        print(f"{length:>7} {plain / 2 ** 20:13.0f} {tiled / 2 ** 10:12.0f} {plain_ms:11.0f} {tiled_ms:11.0f}")


def collect_backward(paths, folder):
    write_races(paths, folder / "ch20_backward.csv")


def speeds_of(path):
    """Prints what was measured, and returns {context: {runner: tokens a second, 0 if out of memory}}."""
    about, rows = read(path)
    print(f"{about['card']}, PyTorch {about['torch']}, {about['tokens']} tokens a step; tokens a second")
    speeds = {}
    for row in rows:
        speeds.setdefault(row["context"], {})[row["runner"]] = float(row["tokens_per_second"] or 0)
    return speeds


def backward(folder):
    speeds = speeds_of(folder / "ch20_backward.csv")
    print("context    16 and 22    16 and 10    PyTorch, cuDNN    22 / 10    22 / cuDNN")
    for length, speed in speeds.items():
        new, old, cudnn = (speed[name] for name in ("ours, ch22", "ours, ch16", "PyTorch, cudnn_attention"))
        print(f"{length:>7} {new:12.0f} {old:12.0f} {cudnn:17.0f} {new / old:10.2f} {new / cudnn:13.2f}")


def gpu(folder):
    speeds = speeds_of(folder / "ch20_gpu.csv")
    print("context    ours, ch16    PyTorch, cuDNN    PyTorch, plain    ours / cuDNN")
    for length, speed in speeds.items():
        ours, cudnn = speed["ours, ch16"], speed["PyTorch, cudnn_attention"]
        plain = speed["PyTorch, math"]
        print(f"{length:>7} {ours:13.0f} {cudnn:17.0f} "
              f"{f'{plain:.0f}' if plain else 'out of memory':>17} {ours / cudnn:15.2f}")


def kernels(folder):
    groups = [(row["kernels"], float(row["ms"]), int(row["launches"]))
              for row in read(folder / "ch20_kernels.csv")[1]]
    total = sum(ms for _, ms, _ in groups)
    for name, ms, count in groups:
        print(f"{name:26} {ms:6.2f} ms {100 * ms / total:5.1f} % {count:4} launches")
    launches = sum(count for *_, count in groups)
    print(f"{'in all':26} {total:6.2f} ms {'':7} {launches:4} launches")
    measured = next(row["ms"] for row in read(folder / "ch20_gpu.csv")[1]
                    if (row["context"], row["runner"]) == ("1024", "ours, ch16"))
    print(f"{'a step of a run':26} {statistics.median(map(float, measured.split())):6.2f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = {"collect": (collect, "cpu"), "collect-gpu": (collect_gpu, "h200"), "seeds": (seeds, "cpu"),
                "breaks": (breaks, "cpu"), "context": (context, "cpu"), "gpu": (gpu, "h200"),
                "kernels": (kernels, "h200"), "collect-backward": (collect_backward, "h200"),
                "backward": (backward, "h200")}
    parser.add_argument("what", choices=commands)
    parser.add_argument("reports", nargs="*")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    run, folder = commands[options.what]
    try:
        run(*[options.reports] * options.what.startswith("collect"), options.folder or HERE / folder)
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:  # null for a loss that is not finite
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
