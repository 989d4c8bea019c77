#!/usr/bin/env python3
"""Chapter 20's runs: keeps what their reports say, and prints the lesson's tables from it.

    training.py collect REPORT.json … --json docs/measurements/cpu/ch20_curves.json
    training.py seeds                   plain and tiled attention, seed by seed
    training.py breaks                  what each break does to the loss
    training.py context                 memory and time of a step against the context

A report is what `ch20_train_a_gpt train --json` writes. Its losses are kept as means of 50 steps, and the
first 20 as they are. Exit status: 0, 2 for bad input.
"""
import argparse
import json
import os
import sys

KEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cpu", "ch20_curves.json")
EVERY, FIRST, LAST = 50, 20, 200


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
    with open(target + ".new", "w", encoding="utf-8") as file:
        json.dump(kept, file, indent=1)
        file.write("\n")
    os.replace(target + ".new", target)


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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("collect", "seeds", "breaks", "context"))
    parser.add_argument("reports", nargs="*")
    parser.add_argument("--json", default=KEPT)
    options = parser.parse_args()
    try:
        if options.what == "collect":
            collect(options.reports, options.json)
        else:
            with open(options.json, encoding="utf-8") as file:
                {"seeds": seeds, "breaks": breaks, "context": context}[options.what](json.load(file))
    except (OSError, ValueError, KeyError, TypeError) as error:  # a loss that is not finite: null
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
