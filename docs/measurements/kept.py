"""Stored measurements: CSV files that begin with lines `# key: value` about the run."""

import csv
import io
import math


def read(text):
    """Returns (about, rows) of such a file: {key: value}, and a dictionary per row with all cells
    as text. Raises ValueError if a row has more or fewer cells than the heading."""
    lines = text.splitlines()
    about = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))
    header, *rows = csv.reader(line for line in lines if not line.startswith("# "))
    for row in rows:
        if len(row) != len(header):
            raise ValueError(f"{len(row)} cells under {len(header)} headings: {','.join(row)}")
    return about, [dict(zip(header, row)) for row in rows]


def write(about, columns, rows):
    """Returns the text of such a file. `rows` are sequences with the length of `columns`. A list of
    numbers becomes one cell, separated by spaces. Raises ValueError if a number is not finite."""
    def cell(value):
        if isinstance(value, (list, tuple)):
            return " ".join(map(cell, value))
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"expected a number, found {value}")
        return f"{value:.12g}" if isinstance(value, float) else "" if value is None else str(value)
    out = io.StringIO()
    out.writelines(f"# {key}: {value}\n" for key, value in about.items())
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([cell(value) for value in row] for row in rows)
    return out.getvalue()
