#!/usr/bin/env python3
"""Measures chapter 19's ring on the GPUs of this machine, compared with one GPU's time / P.

    docs/measurements/bench_ring.py --program build/bin/ch19_ring_attention --ranks 1 2 4 --json out.json

Each run is `ch19_ring_attention --device gpu --bench`, which checks its result against float64
first. Exit status: 0, 1 if a result was wrong, 2 if nothing could be measured.
"""
import argparse
import json
import re
import subprocess
import sys

LINE = re.compile(r"^ +(gather|ring|overlap|zigzag) +([\d.]+), computes +([\d.]+), waits +([\d.]+)$", re.M)


def measure(options, ranks, length, causal):
    command = [options.program, "--device", options.device, "--bench", "--ranks", str(ranks), "--shape",
               f"1,{options.heads},{length},{length},128"] + ["--causal"] * causal
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 2:
        raise OSError(done.stderr.strip())
    found = {name: {"ms": float(ms), "computes": float(computes), "waits": float(waits)}
             for name, ms, computes, waits in LINE.findall(done.stdout)}
    return {"ranks": ranks, "length": length, "causal": causal, "passed": done.returncode == 0,
            "schedules": found, "link": "nccl" if "keys by nccl" in done.stdout else "host"}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/bin/ch19_ring_attention")
    parser.add_argument("--device", default="gpu", choices=("gpu", "emulator"))
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4], help="the first is the ideal's")
    parser.add_argument("--lengths", type=int, nargs="+", default=[65536, 131072, 262144])
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--json", help="write the result to this file")
    options = parser.parse_args(arguments)
    rows = []
    try:
        for length in options.lengths:
            for causal in (False, True):
                of_length = [measure(options, ranks, length, causal) for ranks in options.ranks]
                one = of_length[0]["schedules"]["zigzag"]["ms"] * options.ranks[0]
                for row in of_length:
                    for times in row["schedules"].values():
                        times["of_ideal"] = one / row["ranks"] / times["ms"]
                    print(f"L {length}{', causal' if causal else ''}, {row['ranks']} ranks by {row['link']}"
                          f"{'' if row['passed'] else ', WRONG'}: " + ", ".join(
                              f"{name} {times['ms']:.2f} ms ({100 * times['of_ideal']:.0f} %)"
                              for name, times in row["schedules"].items()), flush=True)
                rows += of_length
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump({"heads": options.heads, "rows": rows}, file, indent=1)
                file.write("\n")
    except (OSError, KeyError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0 if all(row["passed"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
