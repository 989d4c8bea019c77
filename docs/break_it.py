#!/usr/bin/env python3
"""Break it: runs a chapter's program intact and with one line switched off, side by side.

    break_it.py [NN]                   the list; of a chapter
    break_it.py NAME [--chapter NN] [--scale X] [--length N] [--dtype T] [--yes]

`./learn break` builds the program first. Texts and inputs are in break_data.py; all numbers come
from the programs (--json, --trace, --out). Exit status: 0 shown, 1 the intact program failed, 2 bad
usage.
"""

import argparse
import array
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from break_data import BREAKS  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = {path.name[:2]: "ch" + path.name
            for path in sorted((ROOT / "chapters").glob("[0-9]*_*"))
            if (path / "CMakeLists.txt").exists()}
SECOND = {"17f": "17_low_precision/fp8"}  # a chapter's second kernel: a program of its own
PROGRAMS["17f"] = "ch17_fp8"
PLOT_WIDTH = 40


class BadUsage(Exception):
    """One sentence, exit 2."""


# ---------------------------------------------------------------- which demo, on which input

def chapters_of(name):
    return sorted(chapter for demo in BREAKS[name]["demos"] for chapter in demo["chapters"])


def choose(name, chapter=None):
    """The demo of a break in a chapter; without one, in the first chapter that has tiles."""
    if name not in BREAKS:
        raise BadUsage(f"break {name}: accepted: " + ", ".join(BREAKS))
    accepted = chapters_of(name)
    if chapter is None:
        chapter = next((c for c in accepted if c != "01"), "01")
    chapter = chapter.zfill(2)
    for demo in BREAKS[name]["demos"]:
        if chapter in demo["chapters"]:
            return demo, chapter
    raise BadUsage(f"--chapter {chapter}: {name} is in " + " ".join(accepted))


def changed(demo, chapter, scale=None, length=None, dtype=None):
    """The demo with what the user wants to vary."""
    demo = dict(demo)
    if "run" in demo and (scale is not None or length is not None):
        raise BadUsage(f"--scale and --length: chapter {chapter} has no scores and no keys to vary")
    if dtype is not None:
        if chapter != "02":
            raise BadUsage(f"--dtype: only chapter 02 has f32, f16 and bf16, not chapter {chapter}")
        demo["dtype"] = dtype
    if "x" in demo:
        if length is not None:
            demo["x"] = list(range(1, length + 1))
        if scale is not None:
            demo["x"] = [x * scale for x in demo["x"]]
        return demo
    if scale is not None:
        demo["scale"] = scale
    if length is not None:
        shape = list(demo["shape"])
        if demo.get("causal") or "window" in demo.get("options", []):
            shape[2] = length
        shape[3] = length
        demo["shape"] = shape
    return demo


def write_npy(path, rows):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}"
    header = header.ljust(117) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        array.array("f", [x for row in rows for x in row]).tofile(file)


def read_npy(path):
    """float32, flat."""
    with open(path, "rb") as file:
        data = file.read()
    start = 10 + struct.unpack("<H", data[8:10])[0]
    values = array.array("f")
    values.frombytes(data[start:])
    return values


def write_ramp(folder, shape, scale, values):
    """q . k_j = scale * j in the last query, and evenly less in those before it."""
    _, _, queries, keys, dim = shape
    zeros = [0.0] * (dim - 1)
    write_npy(folder / "q.npy", [[(i + 1) / queries] + zeros for i in range(queries)])
    write_npy(folder / "k.npy", [[scale * j] + zeros for j in range(keys)])
    write_npy(folder / "v.npy",
              [[(j * 7 + d * 3) % 11 / 10 * values for d in range(dim)] for j in range(keys)])


def arguments(demo, chapter, folder, shown=False):
    """The program's arguments; `shown`: as a person would type them."""
    options = list(demo.get("options", []))
    if "run" in demo:
        return demo["run"].split()
    if chapter == "01":
        return [demo["command"]] + options + ["--n", str(len(demo["x"])),
                                              "--x", ",".join(f"{x:g}" for x in demo["x"])]
    if demo.get("ramp"):
        where = "" if shown else f"{folder}{os.sep}"
        options += [part for name in "qkv" for part in (f"--{name}", f"{where}{name}.npy")]
        options += ["--scale", "1"]
    else:
        options += ["--shape", ",".join(map(str, demo["shape"]))]
        if demo.get("scale", 1) != 1:
            options += ["--input-scale", f"{demo['scale']:g}"]
    if demo.get("causal"):
        options.append("--causal")
    if demo.get("dtype"):
        options += ["--dtype", demo["dtype"]]
    if chapter != "02":
        options += ["--device", "emulator"]
    return options


# ---------------------------------------------------------------- running

class Run:
    """One run of a program: its JSON report, its trace and its output."""

    def __init__(self, program, options, folder, name, has_output):
        report, out = folder / f"{name}.json", folder / f"{name}.npy"
        command = [program] + options + ["--json", str(report)]
        if has_output:
            command += ["--out", str(out)]
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=300,
                                    env={**os.environ, "FA_HIDE_TIMES": "1"})
        except subprocess.TimeoutExpired:
            raise BadUsage(f"{os.path.basename(program)} takes more than 5 minutes: choose a "
                           "smaller --length") from None
        if result.returncode not in (0, 1):
            said = result.stderr.strip() or f"{program}: exit {result.returncode}"
            raise BadUsage(said.replace("error: ", ""))
        self.code = result.returncode
        self.text = result.stdout
        self.report = json.loads(report.read_text(encoding="utf-8"))
        self.check = self.report["check"]
        self.hazards = self.report.get("hazards", [])
        self.o = read_npy(out) if has_output else None
        self.trace = []  # tile, max of S, max of P, rescale, m, l
        for line in result.stdout.splitlines():
            fields = line.split()
            if has_output and len(fields) == 6 and fields[0].isdigit():
                self.trace.append((int(fields[0]), *map(float, fields[1:])))


def run_pair(name, demo, chapter, program, folder, trace=True):
    """Intact and broken on the same input; in chapter 02 with the trace of a wrong query."""
    folder = Path(folder)
    if demo.get("ramp"):
        write_ramp(folder, demo["shape"], demo.get("scale", 1), demo.get("values", 1))
    options = arguments(demo, chapter, folder)
    has_output = "shape" in demo
    broken = Run(program, options + ["--break", name], folder, "broken", has_output)
    if chapter == "02" and trace:
        bad = broken.check["first_bad"]
        shape = broken.report["shape"]
        row = shape["q"] - 1 if demo.get("ramp") else 0
        if bad and not demo.get("ramp"):
            batch, head, query = bad["index"][:3]
            row = (batch * shape["heads"] + head) * shape["q"] + query
            nans = [i for i, x in enumerate(broken.o) if not math.isfinite(x)]
            row = nans[0] // shape["dim"] if nans else row
        options = options + ["--trace", "--trace-row", str(row)]
        broken = Run(program, options + ["--break", name], folder, "broken", True)
        broken.row = row
    return Run(program, options, folder, "intact", has_output), broken


# ---------------------------------------------------------------- showing

def number(value):
    """1.2e-05, or what it is instead of a number."""
    if value is None:
        return "not finite"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Inf" if value > 0 else "-Inf"
    return f"{value:.5g}"


def verdicts(intact, broken):
    rows = [("", "intact", "broken")]
    for title, show in (
            ("agrees with float64", lambda r: "yes" if r.check["passed"] else "NO"),
            ("wrong elements", lambda r: f"{r.check['mismatches']} of "
                                         f"{r.check.get('elements', r.check.get('compared'))}"),
            ("not finite", lambda r: str(r.check["nonfinite"])),
            ("largest error", lambda r: number(r.check["max_abs_error"])),
            ("relative error", lambda r: number(r.check["relative_error"])
             if "relative_error" in r.check else None),
            ("hazards", lambda r: str(sum(h["count"] for h in r.hazards))
             if r.report.get("device") == "emulator" else None),
            ("tiles masked", lambda r: str(r.report["profile"]["tiles_masked"])
             if "tiles_masked" in r.report.get("profile", {}) else None)):
        if show(intact) is not None:
            rows.append((title, show(intact), show(broken)))
    lines = [f"  {a:22}{b:>18}{c:>18}" for a, b, c in rows]
    bad = broken.check.get("first_bad")
    if isinstance(bad, dict):
        place = f"{bad['tensor']}[{', '.join(map(str, bad['index']))}]"
        got = "NaN or Inf" if bad["got"] is None else f"{bad['got']:.6g}"
        expected = number(bad["expected"])
        lines.append(f"  first wrong element   {place}: expected {expected}, got {got}")
    return lines


def log_sum(step):
    """The row's log-sum-exp so far: what m and l mean together, whatever m is."""
    m, l = step[4], step[5]
    return m + math.log(l) if l > 0 and math.isfinite(l) and math.isfinite(m) else math.nan


def first_tile(intact, broken):
    """The first tile after which the two states mean something else: (tile, what)."""
    rounding = 1e-3 if broken.report["dtype"] == "f32" else 2e-2
    for a, b in zip(intact.trace, broken.trace):
        if not math.isfinite(b[2]):
            return b[0], "a p that is not finite"
        if not math.isfinite(b[5]):
            return b[0], "a sum l that is not finite"
        if (a[5] == 0) != (b[5] == 0):
            return b[0], f"l = {number(b[5])} instead of {number(a[5])}"
        if not abs(log_sum(a) - log_sum(b)) <= rounding and a[5] > 0:
            return b[0], f"m + ln l = {number(log_sum(b))} instead of {number(log_sum(a))}"
    return None


def tiles(intact, broken, most=18):
    if not broken.trace:
        return []
    lines = [f"  Tile by tile, row {broken.row}:",
             "               intact                        broken",
             "  tile    max s    max p        l       max s    max p        l"]
    pairs = list(zip(intact.trace, broken.trace))
    for i, (a, b) in enumerate(pairs):
        if len(pairs) > most and most - 2 <= i < len(pairs) - 1:
            if i == most - 2:
                lines.append("   ...")
            continue
        cells = [f"{value:8.4g}" for value in (a[1], a[2], a[5])]
        other = [f"{value:8.4g}" for value in (b[1], b[2], b[5])]
        lines.append(f"  {a[0]:4} {' '.join(cells)}    {' '.join(other)}")
    found = first_tile(intact, broken)
    lines.append(f"  It begins in tile {found[0]}: {found[1]}." if found
                 else "  No tile of this row goes wrong.")
    return lines


def first_bad_instruction(broken):
    """Chapter 01: the first instruction that leaves a register not finite."""
    for step in broken.report["steps"]:
        for value, symbol in zip(step["registers"], step["symbols"]):
            if symbol is not None and value is None:
                return [f"  It begins in step {step['step']}: {step['instruction']} leaves NaN "
                        "or Inf."]
    return []


def row_errors(intact, broken):
    """The largest |broken - intact| of each query; NaN as soon as one is."""
    dim = intact.report["shape"]["dim"]
    errors = []
    for begin in range(0, len(intact.o), dim):
        differences = [abs(a - b) for a, b in zip(intact.o[begin:begin + dim],
                                                  broken.o[begin:begin + dim])]
        errors.append(math.nan if any(d != d for d in differences) else max(differences))
    return errors


def plot(errors, most=16):
    """Bars on a log scale, 1e-6 to 10; rows are put together so that there are at most `most`, and
    neighbours that are not finite are one."""
    size = -(-len(errors) // most)
    low, high = -6.0, 1.0
    bars = []  # [first, last, worst]
    for begin in range(0, len(errors), size):
        group = errors[begin:begin + size]
        worst = math.nan if any(e != e for e in group) else max(group)
        if bars and not math.isfinite(worst) and not math.isfinite(bars[-1][2]):
            bars[-1][1] = begin + len(group) - 1
        else:
            bars.append([begin, begin + len(group) - 1, worst])
    lines = ["  Error by query (log scale, | is 1e-6 on the left and 10 on the right):"]
    for begin, last, worst in bars:
        share = 1.0 if not math.isfinite(worst) else (
            0.0 if worst <= 10 ** low else min(1.0, (math.log10(worst) - low) / (high - low)))
        bar = ("#" if math.isfinite(worst) else "?") * round(PLOT_WIDTH * share)
        label = f"{begin}" if last == begin else f"{begin}-{last}"
        lines.append(f"  {label:>9} |{bar:{PLOT_WIDTH}}| "
                     + (f"{worst:.1e}" if math.isfinite(worst) else "not finite"))
    return lines


def source_line(chapter, where):
    """The text of attention.hpp:160 in a chapter."""
    file, _, line = where.partition(":")
    directory = SECOND.get(chapter, PROGRAMS[chapter][2:])
    path = ROOT / "chapters" / directory / file
    if not path.exists() or not line.isdigit():
        return ""
    return path.read_text(encoding="utf-8").splitlines()[int(line) - 1].strip()


def hazard_lines(chapter, broken):
    lines = []
    for hazard in broken.hazards:
        if not hazard["where"]:  # chapter 19: between ranks, the note above says all
            continue
        times = "once" if hazard["count"] == 1 else f"{hazard['count']} times"
        lines.append(f"  {hazard['kind']}, {times}, in {hazard['where']}")
        lines.append(f"      {source_line(chapter, hazard['where'])}")
        if hazard["other"]:
            lines.append(f"    against {hazard['other']}")
            lines.append(f"      {source_line(chapter, hazard['other'])}")
    return lines


def by_length(name, demo, chapter, program, folder):
    """Kernels keep m and l in registers: the same input with 1, 2, … tiles of keys instead."""
    length = demo["shape"][3]
    steps = sorted({min(length, 32 * i * max(1, length // 256)) for i in range(1, 9)})
    lines = ["  With fewer keys:"]
    for keys in steps:
        pair = run_pair(name, changed(demo, chapter, length=keys), chapter, program, folder)
        check = pair[1].check
        lines.append(f"  {keys:9} keys  " + ("right" if check["passed"] else
                     f"largest error {number(check['max_abs_error'])}, "
                     f"{check['mismatches']} of {check['elements']} wrong"))
    return lines


def paragraph(title, text):
    return textwrap.fill(f"{title:10}{text}", 96, initial_indent="  ",
                         subsequent_indent=" " * 12).splitlines()


def say(lines=("",)):
    print("\n".join(lines), flush=True)


def brief(name, demo, chapter, program):
    """The numbers, where it begins, and the hazards; the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        shown = " ".join([os.path.basename(program)] + arguments(demo, chapter, folder, shown=True))
        intact, broken = run_pair(name, demo, chapter, program, folder)
    say([f"  $ {shown} --break {name}"] + verdicts(intact, broken))
    if broken.trace:
        say(tiles(intact, broken)[-1:])
    if broken.hazards:
        say(hazard_lines(chapter, broken))
    return intact.code


def exhibit(name, demo, chapter, program, wait):
    """Prints the whole story; the exit status."""
    say([f"{name}, chapter {chapter}: {BREAKS[name]['line']}", ""]
        + paragraph("Predict", BREAKS[name]["predict"]))
    if wait and sys.stdin.isatty() and sys.stdout.isatty():
        try:
            input("\n  Write it down, then press Enter. ")
        except EOFError:
            print()
    with tempfile.TemporaryDirectory() as folder:
        shown = " ".join([os.path.basename(program)] + arguments(demo, chapter, folder, shown=True))
        say(["", f"  $ {shown} --break {name}"])
        if demo.get("ramp"):
            values = f"; V up to {demo['values']:g}" if "values" in demo else ""
            say([f"    (the score of key j is {demo['scale']:g} j in the last query, less before{values})"])
        say()
        intact, broken = run_pair(name, demo, chapter, program, folder)
        say(verdicts(intact, broken) + [""])
        if chapter == "01":
            say(first_bad_instruction(broken) + [""])
        elif "run" in demo:
            say([f"  {line}".rstrip() for line in broken.text.splitlines()] + [""])
        elif not broken.check["passed"]:
            if broken.trace:
                say(tiles(intact, broken) + [""])
            elif not broken.hazards:
                say(by_length(name, demo, chapter, program, Path(folder)) + [""])
            say(plot(row_errors(intact, broken)) + [""])
        if broken.hazards:
            say(hazard_lines(chapter, broken) + [""])
        if broken.code == 0:
            say(["  Nothing shows: on this input the break is harmless.", ""])
        for title, key in (("Happens", "happens"), ("Why", "why"), ("Caught by", "caught")):
            say(paragraph(title, BREAKS[name][key]))
    return 0 if intact.code == 0 else 1


def list_breaks(chapter=None):
    """All, or those of a chapter."""
    names = [name for name in BREAKS if chapter is None or any(
        chapter.zfill(2) in (c, c[:2]) for c in chapters_of(name))]
    if not names:
        raise BadUsage(f"break {chapter}: no chapter {chapter} has breaks")
    width = max(map(len, names)) + 2
    for name in names:
        entry = BREAKS[name]
        spans = []  # of neighbours: 01, 02, 03-09, 12
        for chapter in sorted(set(chapters_of(name))):
            if chapter > "03" and spans and chapter.isdigit() and int(chapter) == int(spans[-1][-1][:2]) + 1:
                spans[-1].append(chapter)
            else:
                spans.append([chapter])
        listed = ", ".join("-".join(dict.fromkeys((span[0], span[-1]))) for span in spans)
        print(f"  {name:{width}} {listed:25} {entry['line']}")
    print("\n  ./learn break NAME [--chapter NN] [--scale X] [--length N] [--dtype T]")


def find_program(name):
    found = shutil.which(name) or shutil.which(str(ROOT / "build" / "bin" / name))
    if not found:
        raise BadUsage(f"{name} is not built: ./learn build")
    return found


def positive(text):
    if not re.fullmatch(r"[1-9]\d{0,5}", text):
        raise argparse.ArgumentTypeError(f"{text}: expected a number from 1 to 999999")
    return int(text)


def finite(text):
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text}: expected a finite number")
    return value


def add_arguments(parser):
    parser.add_argument("name", nargs="?", metavar="NAME")
    parser.add_argument("--chapter", metavar="NN", help="where, if more than one has it")
    parser.add_argument("--scale", type=finite, metavar="X", help="of the scores")
    parser.add_argument("--length", type=positive, metavar="N", help="number of keys")
    parser.add_argument("--dtype", choices=["f32", "f16", "bf16"], help="chapter 02's element type")
    parser.add_argument("--yes", action="store_true", help="do not wait for Enter")
    parser.add_argument("--brief", action="store_true", help="only the numbers")


def show(options, program_of=find_program):
    """What main does, for ./learn: program_of(name) gives the path of a built program."""
    if options.name is None or options.name.isdigit() or options.name in SECOND:
        list_breaks(options.name)
        return 0
    demo, chapter = choose(options.name, options.chapter)
    demo = changed(demo, chapter, options.scale, options.length, options.dtype)
    program = program_of(PROGRAMS[chapter])
    if options.brief:
        return brief(options.name, demo, chapter, program)
    return exhibit(options.name, demo, chapter, program, not options.yes)


def main():
    parser = argparse.ArgumentParser(prog="break_it.py", description=__doc__.splitlines()[0])
    add_arguments(parser)
    try:
        return show(parser.parse_args())
    except BadUsage as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # break_it.py no-max | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
