#!/usr/bin/env python3
"""Draws memory.svg from the numbers that `ch02_tiled_cpu memory --json FILE` measured.

    ch02_tiled_cpu memory --longest 32768 --json ../../docs/measurements/cpu/ch02_memory.json
    ./plot_memory.py ../../docs/measurements/cpu/ch02_memory.json memory.svg
"""

import json
import sys

try:
    import matplotlib
except ImportError:
    sys.exit(f"error: {sys.executable} has no matplotlib; use an interpreter that has it")
matplotlib.use("svg")
import matplotlib.pyplot as plt

MIB = 1 << 20


def main() -> int:
    if len(sys.argv) != 3:
        print("error: expected two arguments: the JSON file and the SVG file", file=sys.stderr)
        return 2
    with open(sys.argv[1], encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    lengths = [row["length"] for row in rows]
    matplotlib.rcParams.update({"svg.hashsalt": "ch02", "font.size": 11})  # same bytes every time
    figure, axes = plt.subplots(figsize=(7.2, 4.2))
    for key, label, style in (("safe_peak_bytes", "naive: the score matrix", "o-"),
                              ("output_bytes", "O, for comparison", "s--"),
                              ("tiled_peak_bytes", "tiled", "o-")):
        values = [row[key] / MIB for row in rows]
        axes.plot(lengths, values, style, label=label)
        axes.annotate(f"{values[-1]:,.3g} MiB" if values[-1] < 1000 else f"{values[-1]:,.0f} MiB",
                      (lengths[-1], values[-1]), textcoords="offset points", xytext=(-8, 7),
                      ha="right")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(lengths, [str(length) for length in lengths])
    axes.set_ylim(0.03, 12000)
    axes.set_xlabel("L = Lq = Lkv (one head, fp32, D = 64)")
    axes.set_ylabel("MiB beside inputs and outputs")
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(loc="upper left")
    figure.tight_layout()
    figure.savefig(sys.argv[2], metadata={"Date": None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
