"""Tests tables.py, the files that it reads, and the files that it refuses."""

import contextlib
import csv
import io
import json
import re
import tempfile
import unittest
from pathlib import Path

import kept
import tables

METRICS = tables.COLUMNS["counters"]
OPCODES = "500 (LDSM: 300; SHFL: 1,024; LDGSTS: 40; BAR: 7)"


def line(cells):
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow(cells)
    return text.getvalue()


def export(value="1,088", metrics=METRICS, run="== ch03_x 1,1,64,64,64\n", opcodes=OPCODES,
           **changed):
    """Returns output of ncu with other columns, commas and units."""
    cells = [opcodes if metric == tables.OPCODES else changed.get(metric, value)
             for metric in metrics]
    return (run + "==PROF== Connected to process 7\nch03_x: bf16, \"shape\", on a GPU\n"
            + line(["ID", "Kernel Name", "device__odd", *metrics])
            + line(["", "", "%", *["inst"] * len(metrics)])
            + line(["0", "void a<128, 64>(const bf16 *, int)", "n/a", *cells])
            + "==PROF== Disconnected\n")


def emulator(**changed):
    counters = {key: 1088 for key, _, _ in tables.COUNTERS}
    counters.update(shuffle_instructions=1024, barriers=7, **changed)
    return counters


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")
        return self.folder / name

    def kept(self, kind, result):
        """Returns the CSV of a report, as `tables.py trim KIND` writes it."""
        return self.write("kept.csv", tables.keep(kind, self.write("raw.json", json.dumps(result))))

    def trimmed(self, text, kind="counters"):
        rows = tables.trim(text, tables.COLUMNS[kind], "raw")
        out = io.StringIO()
        writer = csv.writer(out)
        writer.writerow(["Program", "Shape", "Kernel Name", *tables.COLUMNS[kind]])
        writer.writerows(rows)
        return self.write("trimmed.csv", out.getvalue())

    def assert_problem(self, text, function, *arguments):
        with self.assertRaisesRegex(tables.Problem, text):
            function(*arguments)


class TestNumbers(unittest.TestCase):
    def test_numbers(self):
        self.assertEqual(tables.number("1,088", "x"), 1088)
        self.assertEqual(tables.number("45.2", "x"), 45.2)

    def test_what_is_not_finite_or_no_number_is_refused(self):
        for text in ("", "n/a", "nan", "NaN", "-nan", "inf", "-inf", "(1; 2)", None):
            with self.assertRaises(tables.Problem):
                tables.number(text, "x")

    def test_opcodes(self):
        self.assertEqual(tables.opcode(OPCODES, "SHFL", "x"), 1024)
        self.assertEqual(tables.opcode(OPCODES, "BAR", "x"), 7)
        self.assertEqual(tables.opcode(OPCODES, "LDG", "x"), 0)  # not a part of LDGSTS
        with self.assertRaises(tables.Problem):
            tables.opcode("500", "SHFL", "x")


class TestTrim(Folder):
    def test_an_export_among_messages(self):
        rows = tables.trim(export() + export(run="== ch04_x 2,2,8,8,64\n"), METRICS, "raw")
        self.assertEqual([row[:2] for row in rows],
                         [["ch03_x", "1,1,64,64,64"], ["ch04_x", "2,2,8,8,64"]])
        self.assertEqual(rows[0][2], "void a<128, 64>(const bf16 *, int)")
        self.assertEqual(rows[0][3:], ["1,088"] * (len(METRICS) - 1) + [OPCODES])

    def test_a_missing_metric_is_named(self):
        self.assert_problem(f"no column {METRICS[2]}", tables.trim,
                            export(metrics=METRICS[:2] + METRICS[3:]), METRICS, "raw")

    def test_runs_without_a_kernel_and_rows_that_do_not_fit(self):
        refuse = lambda why, text: self.assert_problem(why, tables.trim, text, METRICS, "raw")
        refuse("nothing was profiled", "")
        refuse("nothing was profiled for ch04_x", "== ch04_x 1,1,1,1,64\nerror\n" + export())
        refuse("nothing was profiled for ch04_x", export() + "== ch04_x 1,1,1,1,64\nerror\n")
        refuse("no line", export(run=""))
        refuse("cells under", export().replace('"n/a",', ""))
        refuse("one kernel", export() + '"1","again"\n')


class TestCounters(Folder):
    def compare(self, text, counters, estimates=()):
        return tables.compare(self.trimmed(text), None, lambda *_: (counters, list(estimates)))

    def test_equal(self):
        lines, unexplained = self.compare(export(), emulator())
        self.assertEqual(unexplained, [])
        self.assertIn("10 counters, all equal on both", lines)

    def test_a_difference_that_nothing_explains(self):
        lines, unexplained = self.compare(export(), emulator(mma_instructions=1089))
        self.assertEqual(len(unexplained), 1)
        self.assertIn("mma_instructions: emulator 1089, hardware 1088", unexplained[0])
        self.assertIn("1089/1088!", "\n".join(lines))

    def copies(self, hardware, executed, estimates):
        """Returns 272 copies of 4 wavefronts each on the emulator, which is unexplained."""
        text = export(opcodes=f"9 (SHFL: 1,024; BAR: 7; LDGSTS: {executed})",
                      **{tables.COPIES: "272", tables.COUNTERS[7][2]: hardware})
        return self.compare(text, emulator(cp_async_instructions=272), estimates)[1]

    def test_more_wavefronts_of_copies_only_where_the_emulator_says_estimate(self):
        self.assertEqual(self.copies("1,096", "272", ["shared_store_wavefronts"]), [])
        self.assertEqual(len(self.copies("1,096", "272", ["global_load_sectors"])), 1)

    def test_fewer_wavefronts_of_copies_only_where_they_are_predicated(self):
        self.assertEqual(self.copies("64", "300", []), [])
        self.assertEqual(len(self.copies("64", "272", ["shared_store_wavefronts"])), 1)

    def test_not_a_number_on_the_hardware_side(self):
        for value in ("nan", "n/a", "inf", ""):
            self.assert_problem("expected a number", self.compare, export(value), emulator())

    def test_a_file_without_a_metric(self):
        path = self.trimmed(export())
        path.write_text(path.read_text().replace(METRICS[1], "other"), encoding="utf-8")
        self.assert_problem(f"no column {METRICS[1]}", tables.compare, path, None)
        self.assert_problem("no row for chapter 09", tables.compare, self.trimmed(export()), "09")


class TestProfile(Folder):
    def test_a_cell_that_is_no_number_is_never_printed(self):
        metrics = tables.COLUMNS["profile"]
        for value in ("nan", "n/a"):
            path = self.trimmed(export(value, metrics, opcodes=value), "profile")
            self.assert_problem("expected a number", tables.profile, path, "03")
        self.assert_problem("no row for chapter 05", tables.profile,
                            self.trimmed(export("1", metrics), "profile"), "05")

    def test_json_has_the_numbers_of_the_tables(self):
        found = tables.profile_json(tables.H200 / "profile.csv")
        self.assertEqual(list(found["chapters"]), ["ch03", "ch04", "ch05", "ch06", "ch07", "ch08"])
        for chapter, run in found["chapters"].items():
            lines = tables.profile(tables.H200 / "profile.csv", chapter[2:])
            last = lambda title: next(line.split()[-1] for line in lines if title in line)
            self.assertEqual(last("time under the profiler"), f"{run['time_ms']:.3f}")
            self.assertEqual(last("warp-cycles"), f"{run['cycles']:.2f}")
            for stall in found["reasons"]:
                self.assertEqual(last(f"({stall})"), f"{run['waits'][stall]['cycles']:.2f}")
            self.assertEqual(lines[-1].split()[0], "other")
            self.assertEqual(lines[-1].split()[-1], f"{run['waits']['other']['cycles']:.2f}")
            whole = sum(wait["ms"] for wait in run["waits"].values())
            self.assertAlmostEqual(whole, run["time_ms"], delta=4e-3)

    def test_waits_longer_than_a_life_are_refused(self):
        path = self.trimmed(export("1", tables.COLUMNS["profile"]), "profile")
        self.assert_problem("waits longer", tables.profile_json, path)
        self.assert_problem("waits longer", tables.profile, path, "03")


class TestSteady(Folder):
    STEADY = (tables.H200 / "ch13_steady.txt").read_text(encoding="utf-8")
    PROFILE = (tables.H200 / "ch13_profile.txt").read_text(encoding="utf-8")

    def steady(self, steady=STEADY, profile=PROFILE):
        return tables.steady_json(self.write("steady.txt", steady), self.write("p.txt", profile))

    def test_json_has_the_numbers_of_the_first_table(self):
        found = self.steady()
        first, second = self.STEADY.split("--mean 0:")
        rows = 0
        for shape, cells in found["shapes"].items():
            for name, cell in cells.items():
                line, = re.findall(rf"\| {shape} \| {name} \|.*", first)
                values = [value.strip() for value in line.split("|")]
                self.assertEqual(values[3], f"{cell['tflops']:.1f}")
                self.assertEqual(values[7:9], [f"{cell['ghz']:.2f}", f"{cell['watts']:.0f}"])
                rows += 1
        self.assertEqual(rows, len(re.findall(r"\n\| \d", first)))
        self.assertIn("| ch14 |", second)  # the other table
        for name, percent in found["tensor"]["percent"].items():
            program = re.sub(r":", r".* ", name)
            self.assertRegex(self.PROFILE, rf"\| {program}[^|]*\| [\d.]+ \| [\d.]+ \| {percent} \|")
        self.assertEqual(len(found["tensor"]["percent"]), self.PROFILE.count("\n| c"))
        self.assertEqual(found["tensor"]["shape"], "2,16,8192,8192,128")
        self.assertTrue(found["how"].endswith("half a second of rest."))

    def test_what_is_missing_or_no_number_is_refused(self):
        for wrong in ("nan", "-", "", "0"):
            with self.assertRaises(tables.Problem):
                self.steady(self.STEADY.replace("| 1.68 | 713 |", f"| 1.68 | {wrong} |", 1))
        self.assert_problem("no column GHz", self.steady, self.STEADY.replace("| GHz", "| Hz"))
        self.assert_problem("no column", self.steady, "nothing")
        self.assert_problem("a row of 7 cells", self.steady,
                            self.STEADY.replace("| 1.68 | 713 |", "| 713 |", 1))
        self.assert_problem("twice, with other numbers", self.steady,
                            self.STEADY.replace("| ch12 |", "| ch08 |", 1))
        self.assert_problem("ch15 is not in", self.steady, self.STEADY,
                            self.PROFILE.replace("ch12_", "ch15_"))
        self.assert_problem("no shape of", self.steady, self.STEADY,
                            self.PROFILE.replace("8192,128)", "8192,64)"))
        self.assert_problem("expected a number", self.steady, self.STEADY,
                            self.PROFILE.replace("| 66.2 |", "| n/a |"))


class TestSpeed(Folder):
    def result(self, **samples):
        return {"card": {"name": "GPU", "driver_version": "1"}, "torch": "2", "cudnn": 91900,
                "date": "today", "rounds": 3, "mma_limit_tflops": 600.0, "command": "race",
                "rows": [{"shape": [1, 1, 1000, 1000, 100], "card": {"power.draw": "9 W"}, "ms": samples}]}

    def speed(self, result, chapter=None):
        return "\n".join(tables.speed(self.kept("peers", result), chapter))

    def test_medians_and_ratio(self):
        text = self.speed(self.result(ch03=[0.004, 0.004, 9.0], ch04=[0.002] * 3, FA2=[0.001] * 3),
                          "04")
        self.assertRegex(text, r"1,1,1000,1000,100 +100\.0 +200\.0 +400\.0 +2\.00 +33\.3 %")

    def test_a_peer_that_was_left_out_is_a_dash(self):
        result = self.result(ch03=[0.004] * 3)
        result["rows"].append({"shape": [1, 1, 8, 8, 64], "card": {}, "ms": {"ch03": [1.0], "flex": [2.0]}})
        self.assertRegex(self.speed(result), r"1,1,1000,1000,100 +100\.0 +-\n")

    def test_json_has_the_numbers_of_the_tables(self):
        found = tables.speed_json(tables.H200 / "peers.csv")
        text = lambda value, decimals: "-" if value is None else f"{value:.{decimals}f}"
        rows = [line.split() for line in tables.speed(tables.H200 / "peers.csv", None)]
        self.assertIn(["B,H,Lq,Lkv,D", *found["names"]], rows)
        for shape, cells in found["shapes"].items():
            values = [text(cells[name]["tflops"], 1) for name in found["names"]]
            self.assertIn([shape, *values], rows)
        for chapter in ("04", "05", "06", "07", "08"):
            rows = [line.split() for line in tables.speed(tables.H200 / "peers.csv", chapter)]
            for shape, cells in found["shapes"].items():
                own = cells[f"ch{chapter}"]
                row, = (row for row in rows if row and row[0] == shape)
                self.assertEqual(row[-3:-1],
                                 [text(own["times_before"], 2), text(own["of_limit"], 1)])

    def test_json_quartiles_and_what_is_missing(self):
        result = self.result(ch03=[0.005, 0.004, 0.002], ch04=[0.002])
        found = tables.speed_json(self.kept("peers", result))
        cells = found["shapes"]["1,1,1000,1000,100"]
        self.assertEqual(cells["ch03"],
                         {"tflops": 100.0, "slow": 80.0, "fast": 200.0, "of_limit": 16.7,
                          "times_fa2": None, "times_before": None})
        self.assertEqual(cells["ch04"]["slow"], 200.0)
        self.assertEqual(cells["ch04"]["times_before"], 2.0)

    def test_what_is_refused(self):
        refuse = lambda why, result, chapter=None: self.assert_problem(
            why, self.speed, result, chapter)
        refuse("expected a number", self.result(ch03=[0.004, float("nan")]))
        refuse("expected a number", self.result(ch03=[0.004, None]))
        refuse("not positive", self.result(ch03=[0.0]))
        refuse("chapter 04 was not timed", self.result(ch03=[1.0]), "04")
        refuse("not both timed", self.result(ch03=[], ch04=[1.0]), "04")
        refuse("not the report that `trim peers` takes", {"rows": []})
        self.assert_problem("not what `tables.py trim peers` writes", tables.speed,
                            self.write("peers.csv", "shape,kernel,ms\n"), None)
        self.assert_problem("2 cells under 3 headings", tables.speed,
                            self.write("peers.csv", "shape,kernel,ms\na,b\n"), None)
        good = self.kept("peers", self.result(ch03=[0.004])).read_text()
        for bad in ("nan", "inf", "-"):
            self.assert_problem("expected a number", tables.speed,
                                self.write("peers.csv", good.replace("0.004", bad)), None)
        self.assert_problem("cannot be read", tables.speed, self.folder / "none.json", None)


class TestCpu(Folder):
    def table(self, tool, result):
        return tool(self.kept(tool.__name__, result))

    def test_crossover(self):
        row = lambda kernel, ns, which="median": {
            "aggregate_name": which, "run_name": f"attention/{kernel}/64", "real_time": ns,
            "repetitions": 3, "time_unit": "ns", "GFLOP/s": 20.0}
        result = lambda naive: {
            "context": {"num_cpus": 16, "vector target": "AVX3", "peak GFLOP/s": "200",
                        "date": "2026-11-20T11", "caches": [{"level": 2, "type": "Unified", "size": 9}]},
            "benchmarks": [row("naive", 1.0, "mean"), row("naive", naive), row("tiled", 2e3),
                           row("fast", 5e2)]}
        lines = self.table(tables.crossover, result(3e3))
        self.assertEqual(lines[-1].split(), ["64", "3.0", "2.0", "0.5", "1.50", "10.0", "%"])
        for bad in (float("nan"), float("inf"), 0.0):
            with self.assertRaises(tables.Problem):
                self.table(tables.crossover, result(bad))
        self.assert_problem("not the report that `trim crossover` takes", self.table, tables.crossover, {})
        self.assert_problem("expected nanoseconds above 0", tables.crossover, self.write(
            "kept.csv", self.kept("crossover", result(3e3)).read_text().replace("3000", "-3000")))

    def test_memory(self):
        result = lambda tiled: {"dtype": "f32", "dim": 64, "threads": 1, "block_q": 64, "block_kv": 64, "rows": [
            {"length": 512, "score_matrix_bytes": 2**20, "output_bytes": 2**17,
             "safe_peak_bytes": 2**21, "tiled_peak_bytes": tiled}]}
        self.assertEqual(self.table(tables.memory, result(2**18))[-1].split(),
                         ["512", "1.0", "0.1", "2.00", "0.250", "8"])
        self.assert_problem("expected a number", self.table, tables.memory, result(None))
        self.assert_problem("not what", self.table, tables.memory, result(0))

    def test_cpu(self):
        result = lambda fast: {"cpu": "one", "target": "AVX2", "machine": [], "cores": 2, "torch": "2", "date": "today",
                               "cases": [
            {"shape": [1, 2], "causal": True, "threads": 16, "peak_gflops": 200.0,
             "gflops": {"fast": fast, "torch flash": [50.0], "torch math": [10.0]}}]}
        self.assertEqual(self.table(tables.cpu, result([99.0, 100.0, 120.0]))[-1].split(),
                         ["16", "1,2", "causal", "100.0", "50.0", "%", "50.0", "10.0", "2.00"])
        self.assert_problem("expected a number", self.table, tables.cpu, result([float("nan")]))
        self.assert_problem("not positive", self.table, tables.cpu, result([0.0]))
        self.assert_problem("not the report", self.table, tables.cpu, {"cases": []})
        self.assert_problem("not what", tables.cpu, self.write("kept.csv", "threads,shape\n1,2\n"))

    def test_accuracy(self):
        errors = lambda rmse: {"long": {"rmse": rmse, "rmse_range": [1e-5, 1.0], "relative_l1": 0.1, "cosine": 0.9}}
        result = lambda rmse: {"seeds": 5, "inputs": [{"name": "long", "keys": 9, "dim": 64}], "schemes": [
            {"name": "fp8", "cited_rmse": 0.024, "errors": errors(rmse)},
            {"name": "bf16", "errors": errors(1e-4)}]}
        lines = self.table(tables.accuracy, result(0.0123))
        self.assertEqual(lines[:2], ["medians of 5 seeds, D = 64", "9 keys: long"])
        self.assertEqual([line.split() for line in lines[4:6] + lines[-1:]],
                         [["fp8", "1.23e-02"], ["bf16", "1.00e-04"], ["fp8", "2.40e-02"]])
        for bad in (None, float("nan")):
            self.assert_problem("fp8, long: expected a number", self.table, tables.accuracy, result(bad))
        self.assert_problem("not the report", self.table, tables.accuracy, {"inputs": []})
        self.assert_problem("not what", tables.accuracy, self.write("kept.csv", "scheme\n"))


class TestLearn(unittest.TestCase):
    def table(self, rows):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "learn.csv"
            path.write_text("# machine: two cores\n# how: by hand\ncommand,first,again,what\n" + rows)
            return tables.learn(path)

    def test_times(self):
        lines = self.table("run,90,0.25,all of them\ncheck 1,89.4,12,one\nrun,180,,all\n")[-3:]
        self.assertEqual([line.split()[1:] for line in lines],
                         [["run", "all", "of", "them", "2", "min", "0.2", "s"],
                          ["check", "1", "one", "89", "s", "12", "s"], ["run", "all", "3", "min"]])

    def test_what_is_refused(self):
        for rows in ("run,nan,,all\n", "run,,1,all\n", "run,1\n"):
            self.assertRaises(tables.Problem, self.table, rows)


class TestRuns(unittest.TestCase):
    RAW = ("== compute-sanitizer --tool racecheck --error-exitcode 9 ch03 --device gpu\n"
           "  check      passed: max error 4.0e-03, bound 2.9e-02, 140 of 140 rows\n"
           "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\nexit 0\n"
           "== ch04 --shape 1,1,1,1,64\nerror: none\nexit 2\n")

    def test_a_row_per_result(self):
        again = self.RAW.partition("== ch04")[0].replace("racecheck", "memcheck")
        failed = again.replace("SUMMARY: 0", "SUMMARY: 1")
        _, rows = kept.read(tables.trim_runs(self.RAW + again + failed, "raw"))
        self.assertEqual([list(row.values()) for row in rows], [
            ["racecheck memcheck", "ch03", "--device gpu", "0", "0", "passed", "4.0e-03", "2.9e-02", "140 of 140"],
            ["", "ch04", "--shape 1,1,1,1,64", "", "2", "", "", "", ""],
            ["memcheck", "ch03", "--device gpu", "1", "0", "passed", "4.0e-03", "2.9e-02", "140 of 140"]])

    def test_what_is_refused(self):
        for raw, why in ((self.RAW.replace("exit 0", ""), "no line `exit N`"),
                         (self.RAW.replace("RACECHECK SUMMARY", "nothing"), "no summary of errors"),
                         ("nothing", "no line `== COMMAND`")):
            with self.assertRaisesRegex(tables.Problem, why):
                tables.trim_runs(raw, "raw")

    def test_what_is_kept_has_no_error(self):
        for name, count in (("tests", 126), ("sanitizer", 232)):
            _, rows = kept.read((tables.H200 / f"{name}.csv").read_text(encoding="utf-8"))
            self.assertEqual(sum(len(row["tools"].split()) or 1 for row in rows), count)
            for row in rows:
                self.assertIn(row["errors"], ("", "0"))
                self.assertIn(row["exit"], ("", "0"))
            self.assertEqual({row["tools"] == "" for row in rows}, {name == "tests"})


class TestSweep(Folder):
    def sweep(self, *rows, run="== ch04_sweep --dim 128"):
        return tables.sweep(self.write("sweep.txt", "\n".join(["A card, today", run, *rows])))

    def row(self, size, tflops, local=0):
        return (f"  {size}  255 registers, {local:4d} bytes local  "
                f"{1.5:8.3f} ms  {tflops:6.1f} TFLOP/s")

    def test_own_size_and_the_fastest_over_two_runs(self):
        own, fast = " 64 x 64   4 warps", "128 x 128  8 warps"
        lines = self.sweep(self.row(own, 200.0), self.row(fast, 245.0, 16),
                           "== ch04_sweep --dim 128",
                           self.row(own, 200.0), self.row(fast, 255.0, 16))
        self.assertEqual(lines[0], "A card, today")
        self.assertRegex(lines[3], r"ch04, D 128 +own +64 x 64, 4 +200\.0 +255 +0$")
        self.assertRegex(lines[4], r"ch04, D 128 +best +128 x 128, 8 +250\.0 +255 +16 +1\.25$")
        self.assertIn("within 2.0 %", lines[-2])

    def test_a_size_that_the_card_has_no_room_for(self):
        own = " 64 x 64   4 warps"
        too_large = "  256 x 64   8 warps  9 registers, 0 bytes local  this configuration needs 1"
        self.assertRegex(self.sweep(self.row(own, 9.0), too_large)[4], "best +64 x 64, 4 ")
        self.assert_problem("expected a number", self.sweep, too_large)  # its own size, so no table

    def test_what_is_refused(self):
        refuse = lambda why, *rows: self.assert_problem(why, self.sweep, *rows)
        own = self.row(" 64 x 64   4 warps", 200.0)
        for tflops in (float("nan"), float("inf")):
            refuse("expected a number", own, self.row("128 x 64   8 warps", tflops))
        refuse("not positive", self.row(" 64 x 64   4 warps", 0.0))
        refuse("expected a number", own,
               "  128 x 64   8 warps  9 registers, 0 bytes local  WRONG: not timed")
        refuse("error: this machine has no GPU", own, "error: this machine has no GPU")
        refuse("exit 124", own, "exit 124")
        refuse("without a size")
        refuse("without a size", own, "== ch05_sweep --dim 64")
        self.assert_problem("no line", tables.sweep, self.write("sweep.txt", own))

    def test_the_first_size_is_the_one_in_the_kernel_file(self):
        root = Path(tables.__file__).resolve().parents[2]
        _, runs = tables.read_sweep(tables.H200 / "sweep.txt")
        self.assertEqual(len(runs), 12)
        for (chapter, dim), tiles in runs.items():
            header, = root.glob(f"chapters/{chapter}_*/attention.hpp")
            block_q, block_kv, at_64, at_128, num_warps = re.search(
                r"int BLOCK_Q = (\d+), int BLOCK_KV = (?:(\d+)|HEAD_DIM == 64 \? (\d+) : (\d+)),"
                r"\s+int NUM_WARPS = (\d+)", header.read_text()).groups()
            block_kv = block_kv or (at_64 if dim == "64" else at_128)
            self.assertEqual(tiles[0].size, f"{block_q} x {block_kv}, {num_warps}", header)


class TestKernelHeaders(unittest.TestCase):
    def test_the_number_in_each_kernel_file_is_the_one_in_the_table(self):
        root = Path(tables.__file__).resolve().parents[2]
        for chapter in ("03", "04", "05", "06", "07"):
            header, = root.glob(f"chapters/{chapter}_*/attention.hpp")
            shape, tflops = re.search(r"shape ([\d,]+): ([\d.]+) TFLOP/s",
                                      header.read_text()).groups()
            rows = [row.split() for row in tables.speed(tables.H200 / "peers.csv", None)]
            names, = (row[1:] for row in rows if row and row[0] == "B,H,Lq,Lkv,D")
            values, = (row[1:] for row in rows if row and row[0] == shape)
            self.assertEqual(dict(zip(names, values))[f"ch{chapter}"], tflops, header)


class TestCommand(unittest.TestCase):
    def test_bad_usage(self):
        for arguments in ([], ["profile"], ["speed", "4"], ["speed", "04", "05"],
                          ["speed", "--json"], ["counters", "--json", "f"], ["trim", "x", "y"], ["trim", "peers"],
                          ["sweep", "04"]):
            errors = io.StringIO()
            with contextlib.redirect_stderr(errors):
                self.assertEqual(tables.main(arguments), 2)
            self.assertRegex(errors.getvalue(), r"\Aerror: usage: [^\n]+\n\Z")


if __name__ == "__main__":
    unittest.main()
