#!/usr/bin/env python3
"""Counts the patterns of h200/access_patterns.csv again with Nsight Compute, on this GPU.

    cmake --build build --target access_patterns
    docs/measurements/access_patterns.py build/bin/access_patterns > new.csv

Prints the table with the new counts. Exit status 1 if they differ from the table's own numbers.
"""
import csv
import subprocess
import sys
from pathlib import Path

TABLE = Path(__file__).parent / "h200" / "access_patterns.csv"
METRICS = {
    "load_shared": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "store_shared": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "load_global": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "store_global": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
}


def main():
    rows = list(csv.reader(TABLE.open()))
    cells = [(y, x) for y, row in enumerate(rows) for x, cell in enumerate(row) if y and x and cell]
    output = subprocess.run(
        ["ncu", "--clock-control", "none", "--csv", "--page", "raw",
         "--metrics", ",".join(METRICS.values()), sys.argv[1], str(TABLE)],
        stdout=subprocess.PIPE, text=True, check=True).stdout
    counted = list(csv.reader(line for line in output.splitlines() if line.startswith('"')))
    names, kernels = counted[0], [row for row in counted[1:] if row[0].isdigit()]
    if len(kernels) != len(cells):
        sys.exit(f"error: {len(kernels)} kernels were counted, the table has {len(cells)} counts")
    differ = 0
    for (y, x), kernel in zip(cells, kernels):
        count = kernel[names.index(METRICS[rows[0][x].split()[0]])].replace(",", "")
        differ += count != rows[y][x]
        rows[y][x] = count
    for row in rows:
        print(",".join(row))
    print(f"{differ} of {len(kernels)} differ from the table", file=sys.stderr)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
