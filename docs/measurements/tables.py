#!/usr/bin/env python3
"""Tables of the lessons, from the raw files next to this script. Standard library only.

    tables.py speed [NN]       TFLOP/s of every chapter and peer; with NN: of it and the previous one
    tables.py speed --json F, profile --json F   the same numbers, all chapters, as a JSON file
    tables.py steady --json F  speed, clock and power in the steady state, and the tensor pipe
    tables.py counters [NN]    Nsight Compute's counters against the emulator's, every shape; runs
                               the chapters' programs, which must be on the PATH
    tables.py profile NN       stall reasons of chapter NN and of the previous chapter
    tables.py sweep            each chapter's own tile size and the fastest that was tried
    tables.py crossover        chapter 02 by length: naive, tiled and fast, one thread
    tables.py memory           chapter 02 by length: memory of naive and tiled
    tables.py cpu              chapter 02's fast version and PyTorch on the CPU
    tables.py learn            how long the commands of ./learn take
    tables.py trim KIND FILE   the part of a raw report that is kept, as CSV. KIND is `runs` for
                               programs under lines `== COMMAND`, each with its exit status;
                               `counters` or `profile` for Nsight Compute's export as
                               h200/measure.sh writes it; `peers`, `cpu`, `crossover`, `memory` or
                               `accuracy` for the JSON that bench_peers.py, bench_cpu_peers.py,
                               ch02_bench, ch02_tiled_cpu memory and ch17_low_precision accuracy
                               write

A number that is missing or not finite is an error, one line and exit status 2, never a cell.
Exit status 1: emulator and hardware differ in a way that nothing explains.
"""

import concurrent.futures
import csv
import io
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import kept

H200 = Path(__file__).resolve().parent / "h200"
CPU = Path(__file__).resolve().parent / "cpu"

OPCODES = "sass__inst_executed_per_opcode"
COPIES = "smsp__sass_inst_executed_op_ldgsts.sum"
COUNTERS = [  # the emulator's name, its column here, Nsight Compute's metric or SASS opcode
    ("ldmatrix_instructions", "ldmatrix", "smsp__sass_inst_executed_op_ldsm.sum"),
    ("mma_instructions", "mma", "smsp__inst_executed_pipe_tensor_op_hmma.sum"),
    ("cp_async_instructions", "cp.async", COPIES),
    ("shuffle_instructions", "shuffles", "SHFL"),
    ("barriers", "barriers", "BAR"),
    ("shared_load_wavefronts", "load\nwavef.",
     "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldsm.sum"),
    ("conflicts", "conflicts", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"),
    ("shared_store_wavefronts", "copy\nwavef.",
     "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum"),
    ("global_load_sectors", "load\nsect.", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"),
    ("global_store_sectors", "store\nsect.", "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"),
]
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
PROFILE = [  # what it says, metric, divided by, decimals
    ("time under the profiler, ms", "gpu__time_duration.sum", 1e6, 3),
    ("tensor pipe busy, % of the time",
     "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active", 1, 1),
    ("shared-memory pipe busy, %",
     "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed", 1, 1),
    ("exponential unit busy, %",
     "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active", 1, 1),
    ("issue slots used, %", "smsp__issue_active.avg.pct_of_peak_sustained_active", 1, 1),
    ("instructions, millions", "smsp__inst_executed.sum", 1e6, 1),
    ("load wavefronts, millions", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", 1e6, 1),
    ("registers a thread", "launch__registers_per_thread", 1, 0),
    ("shared memory a block, KB", "launch__shared_mem_per_block_dynamic", 1024, 0),
    ("blocks that registers allow", "launch__occupancy_limit_registers", 1, 0),
    ("warps a scheduler, of 16", "smsp__warps_active.avg.per_cycle_active", 1, 2),
    ("warp-cycles for each instruction", "smsp__average_warp_latency_per_inst_issued.ratio", 1, 2),
]
STALLS = [  # what it waits for, Nsight Compute's name
    ("the queue of shared-memory loads", "mio_throttle"),
    ("shared memory, exponentials, shuffles", "short_scoreboard"),
    ("global memory: copies", "long_scoreboard"),
    ("other warps, at a barrier", "barrier"),
    ("the tensor core, which is busy", "math_pipe_throttle"),
    ("the fixed time of an instruction", "wait"),
]
COLUMNS = {
    "counters": [metric for _, _, metric in COUNTERS if "__" in metric] + [OPCODES],
    "profile": [metric for _, metric, _, _ in PROFILE] + [STALL.format(s) for _, s in STALLS],
}


class Problem(Exception):
    """An error in a file, described in one sentence."""


def number(text, where):
    """Returns the finite number in a cell such as "1,088" or "45.2". Raises Problem for anything
    else."""
    try:
        value = float(str(text).replace(",", ""))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise Problem(f"{where}: expected a number, found {str(text)!r}")
    return value


def read(path):
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(f"{path}: cannot be read: {error}") from None


# ---- Nsight Compute ----

def trim(text, columns, name):
    """Returns rows [program, shape, kernel, columns…] of an export: lines `== PROGRAM SHAPE`, each
    followed by the output of `ncu --csv --page raw`: messages, a header, a row of units, one
    kernel."""
    rows, run, header = [], None, None
    for at, line in enumerate(text.splitlines(), 1):
        where = f"{name}:{at}"
        if line.startswith("== "):
            if run and header != "done":
                raise Problem(f"{where}: nothing was profiled for {' '.join(run)}")
            run, header = line.split()[1:3], None
        elif line.startswith('"ID",'):
            header = next(csv.reader([line]))
            missing = [c for c in columns if c not in header]
            if missing or run is None:
                raise Problem(f"{where}: no column {missing[0]}" if missing else
                              f"{where}: no line `== PROGRAM SHAPE` before the table")
        elif re.match(r'"\d+",', line):
            if not isinstance(header, list):
                raise Problem(f"{where}: expected one kernel after each header")
            cells = next(csv.reader([line]))
            if len(cells) != len(header):
                raise Problem(f"{where}: {len(cells)} cells under {len(header)} headings")
            row = dict(zip(header, cells))
            rows.append([*run, row["Kernel Name"], *(row[c] for c in columns)])
            header = "done"
    if not run or header != "done":
        raise Problem(f"{name}: nothing was profiled" + (f" for {' '.join(run)}" if run else ""))
    return rows


def read_trimmed(path, kind):
    """Returns {(program, shape): {metric: cell}} from a file that `trim` wrote."""
    rows = list(csv.reader(io.StringIO(read(path))))
    wanted = ["Program", "Shape", "Kernel Name", *COLUMNS[kind]]
    if not rows or not set(wanted) <= set(rows[0]):
        missing = [c for c in wanted if not rows or c not in rows[0]]
        raise Problem(f"{path}: no column {missing[0]}")
    found = {}
    for row in rows[1:]:
        if len(row) != len(rows[0]):
            raise Problem(f"{path}: a row of {len(row)} cells under {len(rows[0])} headings")
        cells = dict(zip(rows[0], row))
        found[cells["Program"], cells["Shape"]] = cells
    return found


def opcode(cell, name, where):
    """Returns how many times `name` ran, from "44,504 (FMUL: 8,832; LDSM: 8,256; …)"."""
    if "(" not in cell:
        raise Problem(f"{where}: expected counts of opcodes, found {cell!r}")
    found = re.search(rf"\b{name}: ([\d,]+)", cell)
    return number(found.group(1), where) if found else 0.0


def hardware_counters(cells, where):
    return {key: int(number(cells[metric], where) if "__" in metric
                     else opcode(cells[OPCODES], metric, where))
            for key, _, metric in COUNTERS}


def machine():
    lines = dict(line.split(": ", 1) for line in read(H200 / "machine.txt").splitlines())
    try:
        return (f"{lines['gpu']}, driver {lines['driver']}, CUDA {lines['cuda']}, "
                f"Nsight Compute {lines['ncu']}, {lines['date']}")
    except KeyError as key:
        raise Problem(f"{H200 / 'machine.txt'}: no line {key}") from None


# ---- The emulator ----

def emulator_counters(program, shape):
    """Returns the program's own counters, and the names of those that are estimates."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "out.json")
        command = [program, "--shape", shape, "--device", "emulator", "--profile", "--json", path]
        try:
            result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    text=True, check=False)
        except OSError:
            raise Problem(f"{program}: not found on the PATH; ./learn build makes it") from None
        if result.returncode != 0:
            raise Problem(f"{' '.join(command[:3])}: exit status {result.returncode}")
        profile = json.loads(read(path))["profile"]
    profile["conflicts"] = (profile["shared_load_wavefronts"]
                            - profile["shared_load_wavefronts_ideal"])
    return profile, profile["estimates"]


ZERO_FILL = ("* the emulator says estimate: where a warp copies rows that exist and rows that\n"
             "  do not in one instruction, hardware takes a few more passes, not the same\n"
             "  number each run")
PREDICATED = ("+ ptxas has put these copies under a predicate (it executes more LDGSTS than\n"
              "  copy), and this metric of Nsight Compute then leaves some of them out: fewer\n"
              "  than 4 for each instruction cannot be")


def explain(key, cells, measured, estimates, where):
    """Returns the mark of a difference that is understood, or None."""
    if key != "shared_store_wavefronts":
        return None
    if measured < 4 * number(cells[COPIES], where):
        executed = opcode(cells[OPCODES], "LDGSTS", where)
        return "+" if executed > number(cells[COPIES], where) else None
    return "*" if key in estimates else None


def compare(path, chapter, run_emulator=emulator_counters):
    """Returns the lines of the table, and whether every difference is explained."""
    runs = {at: cells for at, cells in read_trimmed(path, "counters").items()
            if chapter in (None, at[0][2:4])}
    if not runs:
        raise Problem(f"{path}: no row for chapter {chapter}")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        emulated = dict(zip(runs, pool.map(lambda at: run_emulator(*at), runs)))
    titles, table = ["B,H,Lq,Lkv,D", "", *(column for _, column, _ in COUNTERS)], []
    marks, equal, unexplained = set(), 0, []
    for at, cells in sorted(runs.items(), key=lambda item: (shape_key(item[0][1]), item[0][0])):
        where = f"{path.name}: {' '.join(at)}"
        hardware, (emulator, estimates) = hardware_counters(cells, where), emulated[at]
        line = [at[1] if at[1] != last_shape(table) else "", at[0][:4]]
        for key, _, _ in COUNTERS:
            if emulator[key] == hardware[key]:
                equal += 1
                line.append(str(hardware[key]))
                continue
            mark = explain(key, cells, hardware[key], estimates, where)
            if mark is None:
                unexplained.append(f"{where}: {key}: emulator {emulator[key]}, "
                                   f"hardware {hardware[key]}")
            marks.add(mark or "!")
            line.append(f"{emulator[key]}/{hardware[key]}{mark or '!'}")
        table.append(line)
    total = len(runs) * len(COUNTERS)
    lines = []
    for part in (slice(2, 7), slice(7, None)):  # two tables, of 80 columns at most
        rows = [row[:2] + row[part] for row in table]
        lines += [*aligned(headings(*titles[:2], *titles[part]) + rows), ""]
    lines += [f"{total} counters, {equal} equal on both; a/b: emulator a, "
              "hardware b" if equal < total else
              f"{total} counters, all equal on both"]
    lines += [text for text in (ZERO_FILL, PREDICATED) if text[0] in marks]
    return lines, unexplained


def last_shape(table):
    return next((row[0] for row in reversed(table) if row[0]), "")


def shape_key(shape):
    return [int(n) for n in shape.split(",")]


# ---- Tables ----

def headings(*titles):
    """Returns the first rows of a table, one for each line of the longest title."""
    lines = [title.split("\n") for title in titles]
    height = max(map(len, lines))
    return [list(row) for row in zip(*([""] * (height - len(one)) + one for one in lines))]


def split_at(line, word):
    """Returns the line in two, of which the second begins with this word, or as it is."""
    before, found, after = line.partition(f" {word}")
    return [before, word + after] if found else [line]


def aligned(rows, gap=2):
    """Aligns the first column to the left and the others to the right, with `gap` spaces between
    them."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [(" " * gap).join(cell.ljust(width) if i == 0 else cell.rjust(width)
                             for i, (cell, width) in enumerate(zip(row, widths))).rstrip()
            for row in rows]


def chapter_before(chapter):
    return f"{int(chapter) - 1:02d}"


class Timing(NamedTuple):
    """The speed of one kernel on one shape, in TFLOP/s, at its median time, its slow and its fast
    quartile."""
    tflops: float
    slow: float
    fast: float
    spread: float  # half of the samples lie within this part of the median, or closer


def timing(samples, shape, where):
    samples = [number(ms, where) for ms in samples]
    if min(samples) <= 0:
        raise Problem(f"{where}: a time that is not positive")
    middle = statistics.median(samples)
    low, _, high = statistics.quantiles(samples, n=4) if len(samples) > 1 else samples * 3
    return Timing(*(4 * math.prod(shape) / ms * 1e-9 for ms in (middle, high, low)),
                  (high - low) / 2 / middle)


def shape_of(text):
    return [int(n) for n in text.split(",")]


def keep_peers(result, path):
    """Returns every sample of bench_peers.py's report, with the card's clock and power after the
    race of its shape."""
    card = result["card"]
    if result["rows"] == []:
        raise KeyError("rows")
    about = {"command": result["command"], "date": result["date"], "card": card["name"],
             "driver": card["driver_version"], "PyTorch": result["torch"], "cuDNN": result["cudnn"],
             "rounds": result["rounds"], "mma.sync limit, TFLOP/s": number(result["mma_limit_tflops"], path)}
    return kept.write(about, ["shape", "kernel", "clocks.sm", "power.draw", "ms"], [
        [",".join(map(str, row["shape"])), name, row["card"].get("clocks.sm"),
         row["card"].get("power.draw"), [number(ms, f"{path}: {name}") for ms in samples]]
        for row in result["rows"] for name, samples in row["ms"].items()])


def read_kept(path):
    try:
        return kept.read(read(path))
    except ValueError as error:
        raise Problem(f"{path}: {error}") from None


def read_speed(path):
    """Reads peers.csv. Returns two lines about what was measured and how, the limit of mma.sync,
    the names in order, and for each shape {name: Timing} of the names that support it."""
    about, rows = read_kept(path)
    try:
        limit = number(about["mma.sync limit, TFLOP/s"], path)
        names = sorted({row["kernel"] for row in rows},
                       key=lambda name: (not name.startswith("ch"), name))
        cudnn = int(about["cuDNN"])
        lines = [f"{about['card']}, driver {about['driver']}, PyTorch {about['PyTorch']}, "
                 f"cuDNN {cudnn // 10000}.{cudnn // 100 % 100}, {about['date']}",
                 f"bench_peers.py --rounds {about['rounds']}: TFLOP/s of 4 B H Lq Lkv D, median"]
        measured = {}
        for row in rows:
            if row["ms"]:
                measured.setdefault(row["shape"], {})[row["kernel"]] = timing(
                    row["ms"].split(), shape_of(row["shape"]), f"{path}: {row['kernel']}")
    except (ValueError, KeyError) as error:
        raise Problem(f"{path}: not what `tables.py trim peers` writes: {error!r}") from None
    return lines, limit, names, measured


def speed(path, chapter):
    lines, limit, names, measured = read_speed(path)
    before, after = (f"ch{chapter_before(chapter)}", f"ch{chapter}") if chapter else ("", "")
    if chapter and after not in names:
        raise Problem(f"{path}: chapter {chapter} was not timed")
    shown = [name for name in names if not chapter or name in (before, after, "FA2")]
    table = [["B,H,Lq,Lkv,D", *shown] + (["ratio"] * (before in names)
                                                + ["of mma.sync"] * bool(chapter))]
    for shape, timings in measured.items():
        line = [shape]
        line += [f"{timings[name].tflops:.1f}" if name in timings else "-" for name in shown]
        if chapter and not {name for name in (before, after) if name in names} <= set(timings):
            raise Problem(f"{path}: {shape}: {before} and {after} were not both timed")
        if before in timings:
            line.append(f"{timings[after].tflops / timings[before].tflops:.2f}")
        if chapter:
            line.append(f"{100 * timings[after].tflops / limit:.1f} %")
        table.append(line)
    spread = max((timings[name].spread for timings in measured.values() for name in shown
                  if name in timings), default=0)
    return [*split_at(lines[0], "cuDNN"), *lines[1:], "", *aligned(table, 2 if chapter else 1), "",
            f"mma.sync with registers only: {limit:.0f}.",
            f"Half of the samples lie within {100 * spread:.1f} % of the median or closer."]


def speed_json(path):
    """Returns the same numbers, rounded as in the tables (docs/figures/README.md)."""
    (machine_line, how), limit, names, measured = read_speed(path)

    def cells(name, timings):
        own = timings[name].tflops
        before = name[:2] == "ch" and timings.get(f"ch{chapter_before(name[2:])}")
        fa2 = timings.get("FA2")
        return {"tflops": round(own, 1), "slow": round(timings[name].slow, 1),
                "fast": round(timings[name].fast, 1), "of_limit": round(100 * own / limit, 1),
                "times_fa2": round(own / fa2.tflops, 2) if fa2 else None,
                "times_before": round(own / before.tflops, 2) if before else None}
    return {"machine": machine_line, "how": how, "limit": round(limit), "names": names,
            "shapes": {shape: {name: cells(name, timings) for name in timings}
                       for shape, timings in measured.items()}}


def profile(path, chapter):
    runs = read_trimmed(path, "profile")
    shown = [at for n in (chapter_before(chapter), chapter) for at in runs if at[0][2:4] == n]
    if not shown or shown[-1][0][2:4] != chapter:
        raise Problem(f"{path}: no row for chapter {chapter}")
    table = [[f"shape {shown[-1][1]}", *(program[:4] for program, _ in shown)]]

    def add(title, metric, unit, decimals):
        cells = [number(runs[at][metric], f"{path.name}: {at[0]}: {metric}") / unit for at in shown]
        table.append([title, *(f"{cell:.{decimals}f}" for cell in cells)])
    for row in PROFILE:
        add(*row)
    for title, stall in STALLS:
        add(f"  {title} ({stall})", STALL.format(stall), 1, 2)
    waits = [profile_cells(runs[at], at[0])[2] for at in shown]
    table.append(["  other", *(f"{cells['other']:.2f}" for cells in waits)])
    return [*split_at(machine(), "Nsight"), "", *aligned(table)]


def profile_cells(cells, where):
    """Returns milliseconds, warp-cycles per instruction, and these by stall reason."""
    value = lambda metric: number(cells[metric], f"{where}: {metric}")
    cycles = value("smsp__average_warp_latency_per_inst_issued.ratio")
    waits = {stall: value(STALL.format(stall)) for _, stall in STALLS}
    waits["other"] = cycles - sum(waits.values())
    if min(waits.values()) < 0:
        raise Problem(f"{where}: a warp waits longer than it lives")
    return value("gpu__time_duration.sum") / 1e6, cycles, waits


def profile_json(path):
    """Returns the time of each chapter by stall reason (docs/figures/README.md): the numbers of the
    tables, and their part of the kernel's time."""
    runs = read_trimmed(path, "profile")
    shapes = {shape for _, shape in runs}
    if len(shapes) != 1:
        raise Problem(f"{path}: expected one shape, found {len(shapes)}")
    chapters = {}
    for (program, _), cells in sorted(runs.items()):
        time_ms, cycles, waits = profile_cells(cells, f"{path.name}: {program}")
        chapters[program[:4]] = {
            "time_ms": round(time_ms, 3), "cycles": round(cycles, 2),
            "waits": {stall: {"cycles": round(wait, 2), "ms": round(time_ms * wait / cycles, 3),
                              "percent": round(100 * wait / cycles)}
                      for stall, wait in waits.items()}}
    return {"machine": machine(), "shape": shapes.pop(),
            "reasons": {stall: title for title, stall in STALLS}, "chapters": chapters}


def markdown(text, name, columns):
    """Returns the lines before the first table, and its rows as dictionaries of the cells of
    `columns`."""
    lines = text.splitlines()
    at = next((n for n, line in enumerate(lines) if line.startswith("|")), len(lines))
    cells = lambda line: [cell.strip() for cell in line.strip().strip("|").split("|")]
    header = cells(lines[at]) if at < len(lines) else []
    missing = [column for column in columns if column not in header]
    if missing:
        raise Problem(f"{name}: no column {missing[0]}")
    rows = []
    for line in lines[at + 2:]:
        if not line.startswith("|"):
            break
        if len(cells(line)) != len(header):
            raise Problem(f"{name}: a row of {len(cells(line))} cells: {line}")
        rows.append({column: cells(line)[header.index(column)] for column in columns})
    return " ".join(lines[:at]).strip(), rows


def steady_json(path, profiled):
    """Returns speed, clock and power of chapters and peers in long runs, by shape, and for one
    shape the utilization of the tensor pipe in one launch (docs/figures/README.md)."""
    how, rows = markdown(read(path), path.name,
                         ["B,H,Lq,Lkv,D", "", "TFLOP/s, steady", "GHz", "W"])
    shapes = {}
    for row in rows:
        where = f"{path.name}: {row['']} at {row['B,H,Lq,Lkv,D']}"
        measured = {key: number(row[column], where) for key, column in
                    (("tflops", "TFLOP/s, steady"), ("ghz", "GHz"), ("watts", "W"))}
        if min(measured.values()) <= 0:
            raise Problem(f"{where}: a measurement that is not positive")
        if shapes.setdefault(row["B,H,Lq,Lkv,D"], {}).setdefault(row[""], measured) != measured:
            raise Problem(f"{where}: twice, with other numbers")
    about, rows = markdown(read(profiled), profiled.name, ["", "tensor pipe, %"])
    at = re.search(r"at \(([\d,]+)\)", about)
    if not at or at[1] not in shapes:
        raise Problem(f"{profiled}: no shape of {path.name}")
    tensor = {}
    for row in rows:
        program = re.fullmatch(r"(ch\d\d)_\w+(?: --\w+ (\d))?", row[""])
        name = ":".join(filter(None, program.groups())) if program else row[""]
        if name not in shapes[at[1]]:
            raise Problem(f"{profiled.name}: {name} is not in {path.name}")
        tensor[name] = number(row["tensor pipe, %"], f"{profiled.name}: {name}")
    return {"how": how.split(" `")[0], "profiled": about, "shapes": shapes,
            "tensor": {"shape": at[1], "percent": tensor}}


class Tile(NamedTuple):
    """One tile size of a chapter's kernel."""
    size: str  # BLOCK_Q x BLOCK_KV, warps
    registers: int
    local: int  # bytes per thread that did not fit into registers
    tflops: list  # one element per run


TILE = re.compile(r" +(\d+) x (\d+) +(\d+) warps +(\d+) registers, +(\d+) bytes local +(.+)")


def read_sweep(path):
    """Returns the first line, about what was measured, and the tiles of each chapter and head size
    in the order in which chNN_sweep printed them under `== chNN_sweep --dim D`, which begins with
    the chapter's own."""
    lines, runs, tiles = read(path).splitlines(), {}, None
    for at, line in enumerate(lines, 1):
        where = f"{path.name}:{at}"
        run, row = re.fullmatch(r"== ch(\d\d)_sweep --dim (\d+)", line), TILE.fullmatch(line)
        if run:
            tiles = runs.setdefault(run.groups(), {})
        elif row:
            if tiles is None:
                raise Problem(f"{where}: no line `== chNN_sweep --dim D` before the sizes")
            size, speed_cell = "{} x {}, {}".format(*row.groups()[:3]), row[6]
            timed = re.fullmatch(r"(\S+) ms +(\S+) TFLOP/s", speed_cell)
            if not timed and tiles and speed_cell.startswith("this configuration needs"):
                continue  # more shared memory than the card has
            tflops = number(timed[2] if timed else speed_cell, where)
            if tflops <= 0:
                raise Problem(f"{where}: a speed that is not positive")
            tile = Tile(size, int(row[4]), int(row[5]), [])
            tiles.setdefault(size, tile).tflops.append(tflops)
        elif line.startswith(("error", "exit", "==")):
            raise Problem(f"{where}: {line}")
    if not runs or not all(runs.values()):
        raise Problem(f"{path}: a sweep without a size that was timed")
    return lines[0], {run: list(tiles.values()) for run, tiles in runs.items()}


def sweep(path):
    about, runs = read_sweep(path)
    table = [["", "", "BLOCK_Q x KV, warps", "TFLOP/s", "registers", "local", "ratio"]]
    spread = 0
    for (chapter, dim), tiles in sorted(runs.items(), key=lambda run: (-int(run[0][1]), run[0])):
        tflops = {tile.size: statistics.median(tile.tflops) for tile in tiles}
        own, best = tiles[0], max(tiles, key=lambda tile: tflops[tile.size])
        cells = lambda tile: [tile.size, f"{tflops[tile.size]:.1f}", str(tile.registers),
                              str(tile.local)]
        name = f"ch{chapter}, D {dim}"
        table.append([name, "own", *cells(own), ""])
        table.append([name, "best", *cells(best), f"{tflops[best.size] / tflops[own.size]:.2f}"])
        spread = max([spread, *(abs(one / tflops[tile.size] - 1) for tile in tiles
                                for one in tile.tflops)])
    return [*split_at(about, "commit"), "", *aligned(table), "", "TFLOP/s: the median of all runs, "
            f"which lie within {100 * spread:.1f} % of it.", "Local: bytes a thread."]


def keep_crossover(result, path):
    """Returns Google Benchmark's medians by length."""
    context, rows = result["context"], []
    for row in result["benchmarks"]:
        if row["aggregate_name"] == "median" and row["run_name"].startswith("attention/"):
            _, kernel, length = row["run_name"].split("/")
            if row["time_unit"] != "ns":
                raise Problem(f"{path}: {row['run_name']}: expected nanoseconds")
            rows.append([kernel, length, *(number(row[key], f"{path}: {row['run_name']}")
                                           for key in ("real_time", "GFLOP/s"))])
    caches = {one["level"]: one["size"] for one in context["caches"] if one["type"] != "Instruction"}
    about = {"date": context["date"][:10], "cores": context["num_cpus"],
             "target": context["vector target"],
             "peak GFLOP/s": number(context["peak GFLOP/s"], path),
             "repetitions": result["benchmarks"][0]["repetitions"],
             **{f"L{level}": size for level, size in sorted(caches.items())}}
    return kept.write(about, ["kernel", "length", "ns", "GFLOP/s"], rows)


def crossover(path):
    about, rows = read_kept(path)
    try:
        peak, times, speeds = number(about["peak GFLOP/s"], path.name), {}, {}
        for row in rows:
            where = f"{path.name}: {row['kernel']}, {row['length']}"
            ns = number(row["ns"], where)
            if ns <= 0:
                raise Problem(f"{where}: expected nanoseconds above 0")
            times.setdefault(int(row["length"]), {})[row["kernel"]] = ns / 1000
            if row["kernel"] == "tiled":
                speeds[int(row["length"])] = number(row["GFLOP/s"], where)
        table = [["L", "naive, µs", "tiled, µs", "fast, µs", "naive / tiled", "tiled, of peak"]]
        for length, at in sorted(times.items()):
            table.append([str(length), *(f"{at[k]:.1f}" for k in ("naive", "tiled", "fast")),
                          f"{at['naive'] / at['tiled']:.2f}",
                          f"{100 * speeds[length] / peak:.1f} %"])
        line = f"Xeon with AVX-512, {about['cores']} cores, Highway's target {about['target']}, {about['date']}"
    except (ValueError, KeyError) as error:
        raise Problem(f"{path}: not what `tables.py trim crossover` writes: {error!r}") from None
    return [line, "one thread, one head, d = 64, fp32, medians", "", *aligned(table)]


BYTES = ["score_matrix_bytes", "output_bytes", "safe_peak_bytes", "tiled_peak_bytes"]


def keep_memory(result, path):
    """Returns the counts of `ch02_tiled_cpu memory --json`."""
    return kept.write({key: result[key] for key in ("dtype", "dim", "threads", "block_q", "block_kv")},
                      ["length", *BYTES], [[row["length"], *(row[key] for key in BYTES)]
                                           for row in result["rows"]])


def memory(path):
    """Returns the memory of naive and tiled attention besides inputs and outputs, in MiB."""
    about, rows = read_kept(path)
    try:
        table = [["L", "score matrix", "O", "naive (safe)", "tiled", "naive / tiled"]]
        for row in rows:
            cells = [number(row[key], f"{path.name}: {row['length']}: {key}") for key in BYTES]
            table.append([row["length"], f"{cells[0] / 2**20:.1f}", f"{cells[1] / 2**20:.1f}",
                          f"{cells[2] / 2**20:.2f}", f"{cells[3] / 2**20:.3f}",
                          f"{cells[2] / cells[3]:.0f}"])
        line = f"MiB; one head, {about['dtype']}, d = {about['dim']}, one thread, " \
               f"tiles of {about['block_q']} x {about['block_kv']}"
    except (KeyError, ZeroDivisionError) as error:
        raise Problem(f"{path}: not what `tables.py trim memory` writes: {error!r}") from None
    return [line, "", *aligned(table)]


def keep_cpu(result, path):
    """Returns every sample of bench_cpu_peers.py's report."""
    rows = [[case["threads"], ",".join(map(str, case["shape"])), "causal" if case["causal"] else "",
             number(case["peak_gflops"], path), name, [number(g, f"{path}: {name}") for g in samples]]
            for case in result["cases"] for name, samples in case["gflops"].items()]
    about = {key: result[key] for key in ("cpu", "cores", "date", "target", "torch")}
    about.update({f"{one['threads']} threads": ", ".join(f"{key} {one[key]:.4g}" for key in (
        "peak_gflops", "copy_gbs", "sgemm_gflops")) for one in result["machine"]})
    return kept.write(about, ["threads", "shape", "mask", "peak_gflops", "kernel", "gflops"], rows)


def cpu(path):
    """Returns the speed of chapter 02's fast version and of PyTorch in GFLOP/s, as medians."""
    about, rows = read_kept(path)
    try:
        table = headings("threads", "B,H,Lq,Lkv,D", "fast", "of peak", "PyTorch\nflash",
                         "PyTorch\nplain", "fast /\nflash")
        cases = {}
        for row in rows:
            case = row["threads"], row["shape"] + f" {row['mask']}" * bool(row["mask"])
            where = f"{path.name}: {' '.join(case)}: {row['kernel']}"
            samples = [number(g, where) for g in row["gflops"].split()]
            peak = number(row["peak_gflops"], where)
            if min(peak, *samples) <= 0:
                raise Problem(f"{where}: a speed that is not positive")
            cases.setdefault((*case, peak), {})[row["kernel"]] = statistics.median(samples)
        for (threads, shape, peak), speeds in cases.items():
            medians = [speeds[name] for name in ("fast", "torch flash", "torch math")]
            table.append([threads, shape, f"{medians[0]:.1f}", f"{100 * medians[0] / peak:.1f} %",
                          *(f"{m:.1f}" for m in medians[1:]), f"{medians[0] / medians[1]:.2f}"])
        line = f"Xeon with AVX-512 and AMX, {about['cores']} cores, PyTorch {about['torch']}, {about['date']}"
    except (KeyError, TypeError) as error:
        raise Problem(f"{path}: not what `tables.py trim cpu` writes: {error!r}") from None
    return [line, "GFLOP/s of 4 B H Lq Lkv D (half of it causal), fp32, medians", "",
            *aligned(table)]


def keep_accuracy(result, path):
    """Returns the errors of each scheme on each input, from `ch17_low_precision accuracy
    --json`."""
    inputs = {one["name"]: one for one in result["inputs"]}
    rows = [[scheme["name"], scheme.get("cited_rmse"), name, inputs[name]["keys"], inputs[name]["dim"],
             *(number(value, f"{path}: {scheme['name']}, {name}") for value in (
                 errors["rmse"], *errors["rmse_range"], errors["relative_l1"], errors["cosine"]))]
            for scheme in result["schemes"] for name in inputs for errors in [scheme["errors"][name]]]
    return kept.write({"seeds": result["seeds"]}, ["scheme", "cited_rmse", "input", "keys", "dim", "rmse",
                                                   "lowest_rmse", "highest_rmse", "relative_l1",
                                                   "cosine"], rows)


def accuracy(path):
    """Returns each scheme's RMSE on each input, next to the paper's."""
    about, rows = read_kept(path)
    try:
        inputs = list(dict.fromkeys(row["input"] for row in rows))
        table, cited, schemes, lengths = [["RMSE", *inputs]], [], {}, {}
        for row in rows:
            where = f"{path.name}: {row['scheme']}, {row['input']}"
            scheme = schemes.setdefault(row["scheme"], {"cited": row["cited_rmse"]})
            scheme[row["input"]] = number(row["rmse"], where)
            lengths.setdefault(row["keys"], {})[row["input"]] = row["dim"]
        for name, scheme in schemes.items():
            table.append([name, *(f"{scheme[one]:.2e}" for one in inputs)])
            if scheme["cited"]:
                cited.append([name, f"{number(scheme['cited'], f'{path.name}: {name}'):.2e}"])
        lines = [f"medians of {about['seeds']} seeds, D = {rows[0]['dim']}", *(
            f"{keys} keys: {', '.join(names)}" for keys, names in lengths.items())]
    except (KeyError, IndexError) as error:
        raise Problem(f"{path}: not what `tables.py trim accuracy` writes: {error!r}") from None
    return [*lines, "", *aligned(table, gap=1), "",
            "outliers, cited from FlashAttention-3 (arXiv:2407.08608), Table 3:", *aligned(cited)]


CHECKED = re.compile(r"check +(passed|FAILED|INCONCLUSIVE): max error (\S+), bound (\S+), (\d+ of \d+) rows")
SUMMARY = re.compile(r"SUMMARY: (\d+) (?:errors|hazards)")


def trim_runs(text, path):
    """Returns for runs under lines `== COMMAND`, each ended by `exit N`: the sanitizer and its
    errors if there was one, the program, its arguments, its exit status and its check. Runs under
    several sanitizers with the same result are one row."""
    runs = {}
    for run in re.split(r"(?m)^== ", text)[1:]:
        command, _, rest = run.partition("\n")
        status = re.search(r"(?m)^exit (\d+)$", rest)
        if not status:
            raise Problem(f"{path}: `{command}` has no line `exit N`")
        tool = re.match(r"compute-sanitizer --tool (\w+) (?:--error-exitcode \d+ )?", command)
        program, _, arguments = command[tool.end() if tool else 0:].partition(" ")
        check, errors = CHECKED.search(rest), SUMMARY.search(rest)
        if tool and not errors:
            raise Problem(f"{path}: `{command}` has no summary of errors")
        result = (program, arguments, errors and errors[1], status[1],
                  *(check.groups() if check else [None] * 4))
        runs.setdefault(result, []).append(tool[1] if tool else "")
    if not runs:
        raise Problem(f"{path}: no line `== COMMAND`")
    return kept.write({}, ["tools", "program", "arguments", "errors", "exit", "check", "max_error", "bound",
                           "rows"], [[" ".join(tools), *result] for result, tools in runs.items()])


KEEP = {"peers": keep_peers, "cpu": keep_cpu, "crossover": keep_crossover, "memory": keep_memory,
        "accuracy": keep_accuracy}


def keep(kind, path):
    """Returns the CSV of a JSON report. Raises Problem if something is missing or a number is not
    finite."""
    try:
        return KEEP[kind](json.loads(read(path)), path)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise Problem(f"{path}: not the report that `trim {kind}` takes: {error!r}") from None


def duration(text, where):
    """Returns a number of seconds in words, rounded for readers: 0.4 s, 12 s, 3 min."""
    seconds = number(text, where)
    return (f"{seconds:.1f} s" if seconds < 2 else f"{seconds:.0f} s" if seconds < 90
            else f"{seconds / 60:.0f} min")


def learn(path):
    """Returns how long the commands of ./learn take, in a fresh clone, and again."""
    try:
        about, rows = kept.read(read(path))
        lines = [about["machine"], f"{about['how']}.", "", f"{'':60} {'first time':>10}  {'again':>7}"]
        for row in (row for row in rows if row["what"]):  # the others are for ./learn itself
            again = duration(row["again"], path.name) if row["again"] else ""
            lines.append(f"./learn {row['command']:12} {row['what']:39} {duration(row['first'], path.name):>10}  "
                         f"{again:>7}".rstrip())
    except (KeyError, ValueError) as problem:
        raise Problem(f"{path.name}: not what this reads: {problem}") from None
    return lines


def main(arguments):
    usage = ("usage: tables.py speed [NN] | counters [NN] | profile NN | sweep | "
             "crossover | memory | cpu | accuracy | learn | "
             "speed|profile|steady --json FILE | "
             "trim runs|counters|profile|peers|cpu|crossover|memory|accuracy FILE")
    command, rest = (arguments or [""])[0], arguments[1:]
    chapter = rest[0] if rest else None
    try:
        if command == "trim" and len(rest) == 2 and rest[0] in COLUMNS:
            writer = csv.writer(sys.stdout, lineterminator="\n")
            rows = trim(read(rest[1]), COLUMNS[rest[0]], rest[1])
            writer.writerow(["Program", "Shape", "Kernel Name", *COLUMNS[rest[0]]])
            writer.writerows(rows)
            return 0
        if command == "trim" and len(rest) == 2 and rest[0] == "runs":
            sys.stdout.write(trim_runs(read(rest[1]), rest[1]))
            return 0
        if command == "trim" and len(rest) == 2 and rest[0] in KEEP:
            sys.stdout.write(keep(*rest))
            return 0
        as_json = {"speed": lambda: speed_json(H200 / "peers.csv"),
                   "profile": lambda: profile_json(H200 / "profile.csv"),
                   "steady": lambda: steady_json(H200 / "ch13_steady.txt",
                                                 H200 / "ch13_profile.txt")}
        if command in as_json and len(rest) == 2 and rest[0] == "--json":
            text = json.dumps(as_json[command](), indent=1) + "\n"
            try:
                Path(rest[1]).write_text(text, encoding="utf-8")
            except OSError as error:
                raise Problem(f"{rest[1]}: cannot be written: {error}") from None
            return 0
        if len(rest) > 1 or (chapter and not re.fullmatch(r"0[3-9]|[1-9]\d", chapter)):
            raise Problem(usage)
        unexplained = []
        if command == "speed":
            lines = speed(H200 / "peers.csv", chapter)
        elif command == "counters":
            lines, unexplained = compare(H200 / "counters.csv", chapter)
            lines[:0] = [*split_at(machine(), "Nsight"), ""]
        elif command == "profile" and chapter:
            lines = profile(H200 / "profile.csv", chapter)
        elif command == "sweep" and not chapter:
            lines = sweep(H200 / "sweep.txt")
        elif command == "crossover" and not chapter:
            lines = crossover(CPU / "crossover.csv")
        elif command == "memory" and not chapter:
            lines = memory(CPU / "ch02_memory.csv")
        elif command == "cpu" and not chapter:
            lines = cpu(CPU / "peers_run2.csv")
        elif command == "learn" and not chapter:
            lines = learn(CPU / "learn.csv")
        elif command == "accuracy" and not chapter:
            lines = accuracy(CPU / "ch17_accuracy.csv")
        else:
            raise Problem(usage)
    except Problem as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    print("\n".join(lines))
    for sentence in unexplained:
        print(f"error: {sentence}", file=sys.stderr)
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
