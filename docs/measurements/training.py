#!/usr/bin/env python3
"""Chapter 20's runs: keeps what their reports say, and prints the lesson's tables from it.

    training.py collect REPORT.json … --json docs/measurements/cpu/ch20_curves.json
    training.py seeds                   plain and tiled attention, seed by seed
    training.py breaks                  what each break does to the loss
    training.py context                 memory and time of a step against the context
    training.py collect-gpu RACE.json … NCU.csv --json docs/measurements/h200/ch20_gpu.json
    training.py gpu                     tokens a second of the GPT on a GPU, and of PyTorch's
    training.py kernels                 where the time of such a step goes

A report is what `ch20_train_a_gpt train --json` writes. Its losses are kept as means of 50 steps, and the
first 20 as they are. A race is what `docs/measurements/bench_gpt.py --json` writes; the CSV is that of
`ncu --metrics gpu__time_duration.sum --csv ch20_train_a_gpt train --device gpu --steps 2 …`, of which the
second step is kept. Exit status: 0, 2 for bad input.
"""
import argparse
import csv
import json
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
KEPT = os.path.join(HERE, "cpu", "ch20_curves.json")
KEPT_GPU = os.path.join(HERE, "h200", "ch20_gpu.json")
# Kernels by what their names have, the first that fits; the rest are cuBLAS's products.
KERNELS = (("attention, forward", ("ch16::", "ch09::")), ("attention, backward", ("ch10::",)),
           ("norms and residual path", ("add_norm", "norm_backward", "sum_partials")),
           ("AdamW", ("adamw",)), ("embedding and loss", ("ch20::",)),
           ("bias gradients", ("Bgrad",)))
EVERY, FIRST, LAST = 50, 20, 200


def write(kept, target):
    with open(target + ".new", "w", encoding="utf-8") as file:
        json.dump(kept, file, indent=1)
        file.write("\n")
    os.replace(target + ".new", target)


def mean(numbers):
    return sum(numbers) / len(numbers)


def name_of(report):
    return "+".join(report["breaks"]) or f"{report['attention']} {report['seed']}"


def collect(paths, target):
    curves, contexts = {}, {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        loss, model = report["loss"], report["model"]
        if len(loss) < LAST:  # a run for its time and memory
            contexts.setdefault(str(model["context"]), {})[report["attention"]] = {
                "attention_bytes": report["attention_bytes"], "ms": round(report["ms_per_step"], 1)}
            continue
        curves[name_of(report)] = {
            "first": loss[:FIRST], "last": mean(loss[-LAST:]),
            "means": [round(mean(loss[i:i + EVERY]), 5) for i in range(0, len(loss), EVERY)],
            "early": mean(loss[80:100]), "passed": report["check"]["passed"],
            "relative_error": report["check"]["relative_error"]}
    kept = {"every": EVERY, "curves": dict(sorted(curves.items())),
            "contexts": dict(sorted(contexts.items(), key=lambda item: int(item[0])))}
    write(kept, target)


def collect_gpu(paths, target):
    rows, kernels = [], {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            if not path.endswith(".csv"):
                race = json.load(file)
                rows += [{"date": race["date"], "steps": race["steps"], **row} for row in race["rows"]]
                continue
            launches = [row for row in csv.reader(file) if len(row) > 14 and row[0].isdigit()]
        for row in launches[len(launches) // 2:]:  # of two steps, the second
            group = next((group for group, words in KERNELS if any(word in row[4] for word in words)),
                         "products")
            ms, count = kernels.get(group, (0, 0))
            kernels[group] = ms + float(row[-1].replace(",", "")) / 1e6, count + 1
    write({"card": race["card"], "torch": race["torch"], "tokens": race["tokens"],
           "layers": race["layers"], "heads": race["heads"], "channels": race["channels"],
           "rows": sorted(rows, key=lambda row: row["context"]),
           "kernels": {group: {"ms": round(ms, 3), "launches": count}
                       for group, (ms, count) in sorted(kernels.items(), key=lambda x: -x[1][0])}},
          target)


def seeds(kept):
    curves = kept["curves"]
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


def breaks(kept):
    print("what                 steps 81-100   last 200   gradients of step 1")
    for name, run in [("intact", kept["curves"]["tiled 0"]), *(
            (name, run) for name, run in kept["curves"].items() if " " not in name)]:
        verdict = "agree" if run["passed"] else f"off by {run['relative_error']:.0e}"
        print(f"{name:20} {run['early']:12.3f} {run['last']:10.3f}   {verdict}")


def context(kept):
    print("context    plain, MiB   tiled, KiB   plain, ms   tiled, ms")
    for length, runs in kept["contexts"].items():
        plain, tiled = runs["plain"], runs["tiled"]
        print(f"{length:>7} {plain['attention_bytes'] / 2 ** 20:13.0f} "
              f"{tiled['attention_bytes'] / 2 ** 10:12.0f} {plain['ms']:11.0f} {tiled['ms']:11.0f}")


def gpu(kept):
    print(f"{kept['card']}, PyTorch {kept['torch']}, {kept['tokens']} tokens a step; tokens a second")
    print("context    ours, ch16    PyTorch, cuDNN    PyTorch, plain    ours / cuDNN")
    for row in kept["rows"]:
        speed = row["tokens_per_second"]
        ours, cudnn = speed["ours, ch16"], speed["PyTorch, cudnn_attention"]
        plain = speed.get("PyTorch, math")
        print(f"{row['context']:>7} {ours:13.0f} {cudnn:17.0f} "
              f"{f'{plain:.0f}' if plain else 'out of memory':>17} {ours / cudnn:15.2f}")


def kernels(kept):
    total = sum(group["ms"] for group in kept["kernels"].values())
    for name, group in kept["kernels"].items():
        print(f"{name:26} {group['ms']:6.2f} ms {100 * group['ms'] / total:5.1f} % "
              f"{group['launches']:4} launches")
    launches = sum(group["launches"] for group in kept["kernels"].values())
    print(f"{'in all':26} {total:6.2f} ms {'':7} {launches:4} launches")
    measured = next(row for row in kept["rows"] if row["context"] == 1024)["ms"]["ours, ch16"]
    print(f"{'a step of a run':26} {statistics.median(measured):6.2f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    prints = {"seeds": (seeds, KEPT), "breaks": (breaks, KEPT), "context": (context, KEPT),
              "gpu": (gpu, KEPT_GPU), "kernels": (kernels, KEPT_GPU)}
    parser.add_argument("what", choices=("collect", "collect-gpu", *prints))
    parser.add_argument("reports", nargs="*")
    parser.add_argument("--json")
    options = parser.parse_args()
    try:
        if options.what == "collect":
            collect(options.reports, options.json or KEPT)
        elif options.what == "collect-gpu":
            collect_gpu(options.reports, options.json or KEPT_GPU)
        else:
            show, kept = prints[options.what]
            with open(options.json or kept, encoding="utf-8") as file:
                show(json.load(file))
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:  # a loss that is not finite: null
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
