#!/usr/bin/env python3
"""Runs a chapter's program intact and with one line switched off, and compares the results.

    break_it.py [NN]                   lists the breaks, of all chapters or of one
    break_it.py NAME [--chapter NN] [--scale X] [--length N] [--dtype T] [--yes]

`./learn break` builds the program first. The texts and inputs come from the chapters' breaks.json,
and all numbers from the programs (--json, --trace, --out), run intact and broken with the same
arguments. Exit status: 0 if the break was shown, 1 if the intact program failed, 2 for wrong usage.
"""

import argparse
import array
import difflib
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

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "common" / "cmake"))
import breaks as chapters_breaks  # noqa: E402

CONTENT = chapters_breaks.programs(ROOT)
DIRECTORIES = {directory[:2]: directory for directory in CONTENT}
PROGRAMS = {chapter: CONTENT[directory]["program"] for chapter, directory in DIRECTORIES.items()}
TEXTS = chapters_breaks.texts(CONTENT)
NO_OUTPUT = ("01", "10", "11", "18", "19", "20", "22", "24")  # their outputs are not O alone
ON_A_DEVICE = [chapter for chapter in PROGRAMS if "03" <= chapter < "18" or chapter == "23"]
PLOT_WIDTH = 40


class BadUsage(Exception):
    """An error message of one sentence for exit status 2."""


# ---- choice of demo and input ----

def demos(chapter):
    """Returns (name, demo) of all breaks of a chapter, each with its first input."""
    return list(CONTENT[DIRECTORIES[chapter]]["breaks"].items())


def chapters_of(name):
    return [chapter for chapter in PROGRAMS if name in dict(demos(chapter))]


def choose(name, chapter=None):
    """Returns the demo of a break in a chapter, or in the first chapter that has tiles."""
    if name not in TEXTS:
        close = difflib.get_close_matches(name.lower(), TEXTS, 1)
        raise BadUsage(f"break {name}: there is no such break; " +
                       (f"did you mean {close[0]}?" if close else "./learn break lists them"))
    accepted = chapters_of(name)
    if chapter is None:
        chapter = next((c for c in accepted if c != "01"), "01")
    chapter = chapter.zfill(2)
    if chapter not in accepted:
        raise BadUsage(f"--chapter {chapter}: {name} is in " + " ".join(accepted))
    return dict(demos(chapter))[name], chapter


def option_of(words, option):
    """Returns the value of an option, or None."""
    return words[words.index(option) + 1] if option in words else None


def with_option(words, option, value):
    """Returns `words` with this value of the option, in its old place if it was there."""
    if option in words:
        place = words.index(option) + 1
        return words[:place] + [value] + words[place + 1:]
    return words + [option, value]


def changed(demo, chapter, scale=None, length=None, dtype=None):
    """Returns the demo with the user's changes."""
    words = demo["input"].split()
    if dtype is not None:
        if chapter != "02":
            raise BadUsage(f"--dtype: only chapter 02 has f32, f16 and bf16, not chapter {chapter}")
        words = with_option(words, "--dtype", dtype)
    if "--x" in words:
        x = [float(number) for number in option_of(words, "--x").split(",")]
        x = list(range(1, length + 1)) if length is not None else x
        x = [number * scale for number in x] if scale is not None else x
        words = with_option(words, "--n", str(len(x)))
        words = with_option(words, "--x", ",".join(f"{number:g}" for number in x))
        return {**demo, "input": " ".join(words)}
    if "--shape" not in words and (scale is not None or length is not None):
        raise BadUsage(f"--scale and --length: chapter {chapter} has no scores and no keys to vary")
    if scale is not None:
        words = with_option(words, "--ramp" if "--ramp" in words else "--input-scale", f"{scale:g}")
    if length is not None:
        shape = option_of(words, "--shape").split(",")
        masked = {"--causal", "--window", "window"}.intersection(words)
        if masked and shape[2] == shape[3]:  # as many queries as keys, so it stays
            shape[2] = str(length)
        shape[3] = str(length)
        words = with_option(words, "--shape", ",".join(shape))
    return {**demo, "input": " ".join(words)}


def read_npy(path):
    """Returns the numbers of a float32 file as a flat list."""
    with open(path, "rb") as file:
        data = file.read()
    start = 10 + struct.unpack("<H", data[8:10])[0]
    values = array.array("f")
    values.frombytes(data[start:])
    return values


def arguments(demo, chapter):
    """Returns the program's arguments. Kernels run on the emulator, because it reports hazards."""
    words = demo["input"].split()
    on_the_cpu = "--algorithm" in words or "--device" in words
    return words + ([] if chapter not in ON_A_DEVICE or on_the_cpu else ["--device", "emulator"])


# ---- runs ----

class Run:
    """A run of a program, with its JSON report, its trace and its output."""

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
        self.text = result.stdout  # to show
        self.report = json.loads(report.read_text(encoding="utf-8"))
        self.check = self.report["check"]
        self.hazards = self.report.get("hazards", [])
        self.o = read_npy(out) if has_output else None
        self.trace = [(tile, *map(float, state)) for tile, *state in  # max of S, max of P, rescale, m, l
                      self.report.get("profile", {}).get("trace", [])]


def run_pair(name, demo, chapter, program, folder, trace=True):
    """Runs the program intact and broken on the same input, in chapter 02 with the trace of a wrong
    query."""
    folder = Path(folder)
    options = arguments(demo, chapter)
    has_output = chapter not in NO_OUTPUT
    broken = Run(program, options + ["--break", name], folder, "broken", has_output)
    if chapter == "02" and trace:
        bad = broken.check["first_bad"]
        shape = broken.report["shape"]
        row = shape["q"] - 1 if "--ramp" in options else 0
        if bad and "--ramp" not in options:
            batch, head, query = bad["index"][:3]
            row = (batch * shape["heads"] + head) * shape["q"] + query
            nans = [i for i, x in enumerate(broken.o) if not math.isfinite(x)]
            row = nans[0] // shape["dim"] if nans else row
        options = options + ["--trace", "--trace-row", str(row)]
        broken = Run(program, options + ["--break", name], folder, "broken", True)
        broken.row = row
    return Run(program, options, folder, "intact", has_output), broken


# ---- output ----

def number(value):
    """Returns a number like 1.2e-05, or "NaN" or "Inf"."""
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
             if r.report.get("device") == "emulator" else None)):
        if show(intact) is not None:
            rows.append((title, show(intact), show(broken)))
    lines = [f"  {a:22}{b:>18}{c:>18}" for a, b, c in rows]
    bad = broken.check.get("first_bad")
    if isinstance(bad, dict):
        place = f"{bad['tensor']}[{', '.join(map(str, bad['index']))}]"
        got = "NaN or Inf" if bad["got"] is None else f"{bad['got']:.6g}"
        expected = number(bad["expected"])
        lines.append(f"  first wrong element   {place}: expected {expected}, got {got}")
    return lines + symptom(broken)


def symptom(broken):
    """Returns the difference that the program found between itself and the intact one, in a counter or in bits."""
    found = broken.report.get("symptom")
    return [line for run in ("intact", "broken") if found
            for line in textwrap.wrap(f"{run}: {found[run]['text']}", 76, initial_indent="  ",
                                      subsequent_indent="    ")]


def log_sum(step):
    """Returns the row's log-sum-exp so far, which m and l determine together and which does not
    depend on m."""
    m, l = step[4], step[5]
    return m + math.log(l) if l > 0 and math.isfinite(l) and math.isfinite(m) else math.nan


def first_tile(intact, broken):
    """Returns (tile, description) of the first tile after which the two states differ in
    meaning."""
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
    """Returns chapter 01's first instruction that leaves a register nonfinite."""
    for step in broken.report["steps"]:
        for value, symbol in zip(step["registers"], step["symbols"]):
            if symbol is not None and value is None:
                return [f"  It begins in step {step['step']}: {step['instruction']} leaves NaN "
                        "or Inf."]
    return []


def row_errors(intact, broken):
    """Returns the largest |broken - intact| of each query, or NaN if any difference is NaN."""
    dim = intact.report["shape"]["dim"]
    errors = []
    for begin in range(0, len(intact.o), dim):
        differences = [abs(a - b) for a, b in zip(intact.o[begin:begin + dim],
                                                  broken.o[begin:begin + dim])]
        errors.append(math.nan if any(d != d for d in differences) else max(differences))
    return errors


def plot(errors, most=16):
    """Plots bars on a logarithmic scale from 1e-6 to 10. Combines rows so that there are at most
    `most`, and combines adjacent rows that are not finite."""
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
    """Returns the text of a line like attention.hpp:160 in a chapter."""
    file, _, line = where.partition(":")
    path = ROOT / "chapters" / DIRECTORIES[chapter] / file
    if not path.exists() or not line.isdigit():
        return ""
    return path.read_text(encoding="utf-8").splitlines()[int(line) - 1].strip()


def filled(text, indent, width=80):
    return textwrap.wrap(text, width, initial_indent=" " * indent, subsequent_indent=" " * (indent + 4),
                         break_long_words=False, break_on_hyphens=False)


def hazard_lines(chapter, broken):
    lines = []
    for hazard in broken.hazards:
        if not hazard["where"]:  # chapter 19: a hazard between ranks, described by the note above
            continue
        times = "once" if hazard["count"] == 1 else f"{hazard['count']} times"
        lines.append(f"  {hazard['kind']}, {times}, in {hazard['where']}")
        lines += filled(source_line(chapter, hazard["where"]), 6)
        if hazard["other"]:
            lines.append(f"    against {hazard['other']}")
            lines += filled(source_line(chapter, hazard["other"]), 6)
    return lines


def by_length(name, demo, chapter, program, folder):
    """Runs the same input with 1, 2, … tiles of keys, because kernels keep m and l in registers."""
    length = int(option_of(demo["input"].split(), "--shape").split(",")[3])
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
    return textwrap.fill(f"{title:10}{text}", 80, initial_indent="  ",
                         subsequent_indent=" " * 12).splitlines()


def say(lines=("",)):
    print("\n".join(lines), flush=True)


def command_line(name, demo, chapter, program):
    words = ["$", os.path.basename(program), *arguments(demo, chapter), "--break", name]
    return " \\\n".join(filled(" ".join(words), 2, 78))


def brief(name, demo, chapter, program):
    """Prints the numbers, where the error begins, and the hazards. Returns the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        intact, broken = run_pair(name, demo, chapter, program, folder)
    say([command_line(name, demo, chapter, program)] + verdicts(intact, broken))
    if broken.trace:
        say(tiles(intact, broken)[-1:])
    if broken.hazards:
        say(hazard_lines(chapter, broken))
    return intact.code


def exhibit(name, demo, chapter, program, wait):
    """Prints the whole comparison. Returns the exit status."""
    texts = TEXTS[name]
    say([f"{name}, chapter {chapter}: {texts['line']}", ""] + paragraph("Predict", texts["predict"]))
    if wait and sys.stdin.isatty() and sys.stdout.isatty():
        try:
            input("\n  Write it down, then press Enter. ")
        except EOFError:
            print()
    with tempfile.TemporaryDirectory() as folder:
        say(["", command_line(name, demo, chapter, program), ""])
        intact, broken = run_pair(name, demo, chapter, program, folder)
        say(verdicts(intact, broken) + [""])
        if chapter == "01":
            say(first_bad_instruction(broken) + [""])
        elif chapter in NO_OUTPUT:
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
            say(paragraph(title, texts[key]))
    return 0 if intact.code == 0 else 1


def spans(chapters):
    """Returns "01-03 12" for ["01", "02", "03", "12"]."""
    found = []
    for chapter in chapters:
        if found and chapter.isdigit() and int(chapter) == int(found[-1][-1][:2]) + 1:
            found[-1].append(chapter)
        else:
            found.append([chapter])
    return " ".join("-".join(dict.fromkeys((span[0], span[-1]))) for span in found)


def list_breaks(chapter=None):
    """Lists all breaks by kind, or the breaks of a chapter with the line that each switches off."""
    usage = "\n  ./learn break NAME [--chapter NN] [--scale X] [--length N] [--dtype T]"
    if chapter is not None:
        chosen = [one for one in PROGRAMS if chapter.zfill(2) in (one, one[:2])]
        if not chosen:
            raise BadUsage(f"break {chapter}: no chapter {chapter} has breaks")
        for one in chosen:
            print(f"{PROGRAMS[one]}:")
            width = max(len(name) for name, _ in demos(one)) + 2
            for name, _ in demos(one):
                print(f"  {name:{width}}{TEXTS[name]['line']}")
        print(usage)
        return
    for kind in chapters_breaks.KINDS:
        names = [name for name in TEXTS if TEXTS[name]["kind"] == kind]
        listed = [f"{name} ({spans(chapters_of(name))})" for name in names]
        print(f"{kind}:")
        line = " "
        for item in listed:  # an item is not broken at its spaces
            if len(line) + 2 + len(item) > 80:
                print(line)
                line = " "
            line += f" {item}" if line == " " else f"  {item}"
        print(line)
    print("\n  (in chapters NN; ./learn break NN says what each line does)" + usage)


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
    """Shows a break for ./learn. program_of(name) returns the path of a built program."""
    if options.name is None or options.name.isdigit() or options.name in PROGRAMS:
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
