#!/usr/bin/env python3
"""ch02_tiled_cpu from the outside, with bad input of every kind, files in and out, subcommands."""

import json
import os
import sys
import unittest

import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(ROOT, "reference"), os.path.join(ROOT, "common", "test")]
import attention  # noqa: E402
import cli_test  # noqa: E402

run = cli_test.runner("ch02_tiled_cpu")


class Cli(cli_test.Cli):
    start = staticmethod(run)

    def save(self, name, array):
        np.save(self.path(name), array)
        return self.path(name + ".npy")

    def files(self, q=(5, 4), k=(6, 4), v=(6, 4), dtype=np.float32, spoil=None):
        return self.arrays({"q": q, "k": k, "v": v}, dtype, spoil)[1]

    def test_bad_shapes(self):
        for shape in ("1,8,100", "1,1,0,8,8", "1,1,-3,8,8", "1,1,8,8,8,8", "1,1,8,8,x", "", ",,,,",
                      "1,1,8,8,8.5", "1,1,99999999999999999999,8,8"):
            self.refused("--shape", shape, says="--shape")
        self.refused("--shape", "1000000,1000000,1000000,1000000,256", says="2^40")
        self.refused("--shape", "1,1,1000000000,1000000000,256", says="need")
        self.refused("--shape", "1,1,8,8,257", says=["257", "1 to 256"])

    def test_bad_options(self):
        self.refused("--nonsense", says="--nonsense")
        self.refused("stray", says="stray")
        self.refused("--algorithm", "quick", says=["quick", "tiled", "one-pass-normalised"])
        self.refused("--dtype", "f64", says=["f64", "bf16"])
        self.refused("--modifier", "rope", says=["rope", "alibi"])
        self.refused("--break", "everything", says=["everything", "no-max", "unmasked-tail"])
        for option in ("--block-q", "--block-kv"):
            for value in ("0", "-1", "1025", "x", "64.0", "", "1e2"):
                self.refused(option, value, says=option)
        self.refused("--block-q", 512, "--block-kv", 512, says=["1.50 MiB", "1.00 MiB"])
        self.refused("--window", "0", says="--window")
        self.refused("--scale", "nan", says="--scale")
        self.refused("--scale", "inf", says="--scale")
        self.refused("--seed", "-1", says="--seed")
        self.refused("--memory-limit", "-5", says="--memory-limit")
        self.refused("--memory-limit", "1e6", says="--memory-limit")
        self.refused("memory", "--longest", "100", says="--longest")
        self.refused("memory", "--shape", "1,1,1,1,1", says="--shape")

    def test_options_that_do_not_go_together(self):
        self.refused("--algorithm", "safe", "--break", "no-max", says=["safe", "no breaks"])
        self.refused("--algorithm", "safe", "--trace", says=["safe", "--trace"])
        self.refused("--algorithm", "fast", "--dtype", "f16", says=["fast", "f32"])
        self.refused("--algorithm", "fast", "--modifier", "alibi", says=["fast", "--modifier"])
        self.refused("--trace", "--trace-row", 64, "--shape", "1,1,64,64,8", says="--trace-row")
        self.refused("--trace-row", 3, says=["--trace-row", "--trace,"])
        self.refused("--trace-row", 0, *self.files(), says="--trace-row")  # the default, but given
        self.refused("--window", 128, says=["--window", "--modifier window"])
        self.refused("--window", 9, "--modifier", "alibi", says="--modifier window")
        for algorithm in ("two-pass", "one-pass-normalised", "one-pass", "fast"):
            self.refused("--algorithm", algorithm, "--block-kv", 32, says=["--block-kv", algorithm])
        self.refused("--shape", "1,1,8,8,8", "memory", says=["--shape before memory"])
        for accepted in (["--algorithm", "safe", "--block-q", 32, "--block-kv", 16],
                         ["--modifier", "window", "--window", 9], ["--trace", "--trace-row", 3]):
            self.assertEqual(run("--shape", "1,1,20,20,8", *accepted).returncode, 0, accepted)
        self.refused(*self.files()[:4], says="all three")
        self.refused(*self.files(), "--shape", "1,1,5,6,4", says="not both")

    def test_memory_limit(self):
        shape = ("--shape", "1,1,600,600,64")
        self.refused("--algorithm", "safe", "--memory-limit", 1 << 20, *shape,
                     says=["safe needs", "longest Lq = Lkv that fits is"])
        self.refused("--memory-limit", 1000, *shape, says="tiled needs")
        self.assertEqual(run("--memory-limit", 1 << 22, *shape).returncode, 0)

    def test_bad_files(self):
        self.refused("--q", self.path("none.npy"), "--k", self.path("none.npy"),
                     "--v", self.path("none.npy"), says="none.npy")
        self.refused(*self.files(k=(6, 5)), says="equal")
        self.refused(*self.files(v=(7, 4)), says="equal")
        self.refused(*self.files(q=(2, 5, 4)), says="3 dimensions")
        self.refused(*self.files(q=(0, 4)), says="size 0")
        self.refused(*self.files(dtype=np.float64), says="float64")
        self.refused(*self.files(dtype=np.int32), says="q.npy")
        with open(self.path("text.npy"), "w", encoding="ascii") as file:
            file.write("not an array\n")
        text = self.path("text.npy")
        self.refused("--q", text, "--k", text, "--v", text, says="text.npy")

    def test_not_finite_input(self):
        def nan(array):
            array[2, 1] = array[4, 3] = np.nan
        self.refused(*self.files(spoil=nan), says=["2 of 24", "[2, 1]", "v.npy"])

        def infinite(array):
            array[5, 0] = -np.inf
        self.refused(*self.files(spoil=infinite), says=["1 of 24", "[5, 0]"])

    def test_unwritable(self):
        for option in ("--out", "--lse", "--json"):
            self.refused(option, self.path("no/such/folder/file"), says="no/such/folder")
            self.refused(option, self.folder, says=self.folder)
        self.refused("memory", "--longest", 512, "--json", self.path("no/file"), says="no/file")
        self.refused("overflow", "--json", self.path("no/file"), says="no/file")

    def test_files_in_and_out(self):
        for dtype in (np.float32, np.float16):
            files = self.files(q=(2, 3, 50, 8), k=(2, 3, 40, 8), v=(2, 3, 40, 8), dtype=dtype)
            q, k, v = (np.load(path).astype(np.float64) for path in files[1::2])
            for causal in (False, True):
                for algorithm in ("safe", "one-pass", "tiled", "fast"):
                    result = run(*files, "--algorithm", algorithm, "--out", self.path("o.npy"),
                                 "--lse", self.path("lse.npy"), *["--causal"] * causal)
                    self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                    o, lse = attention.safe(q, k, v, attention.default_scale(8), causal)
                    out = np.load(self.path("o.npy"))
                    self.assertEqual(out.dtype, np.float32)
                    self.assertEqual(out.shape, o.shape)
                    self.assertTrue(np.all(np.abs(out - o) < 1e-5))
                    np.testing.assert_allclose(np.load(self.path("lse.npy")), lse, atol=1e-5)
        run(*self.files(), "--out", self.path("o.npy"))
        self.assertEqual(np.load(self.path("o.npy")).shape, (5, 4))  # [L, D] in, [L, D] out
        self.assertEqual(run("--shape", "1,1,3,3,3", "--out", "/dev/null").returncode, 0)
        self.assertFalse(os.path.isfile("/dev/null"))

    def test_break_exits_with_1_and_json_says_so(self):
        report = self.path("report.json")
        result = run("--shape", "1,2,128,128,32", "--break", "no-rescale", "--json", report)
        self.assertEqual(result.returncode, 1)
        with open(report, encoding="utf-8") as file:
            data = json.load(file)
        self.assertEqual(data["chapter"], "ch02_tiled_cpu")
        self.assertEqual(data["breaks"], ["no-rescale"])
        self.assertFalse(data["check"]["passed"])
        self.assertGreater(data["check"]["max_abs_error"], 0.1)
        self.assertEqual(data["check"]["nonfinite"], 0)
        result = run("--shape", "1,1,64,64,32", "--input-scale", "200", "--break", "no-max",
                     "--json", report)
        self.assertEqual(result.returncode, 1)
        with open(report, encoding="utf-8") as file:
            data = json.load(file)
        self.assertIsNone(data["check"]["max_abs_error"])
        self.assertGreater(data["check"]["nonfinite"], 0)
        run("--shape", "1,1,256,256,32", "--causal", "--json", report)
        with open(report, encoding="utf-8") as file:
            data = json.load(file)
        self.assertTrue(data["check"]["passed"])
        self.assertEqual(data["profile"]["tiles_skipped"], 6)
        self.assertEqual(data["shape"], {"batch": 1, "heads": 1, "q": 256, "kv": 256, "dim": 32})

    def test_every_break_is_listed(self):
        listed = run("--list-breaks").stdout
        for name in ("no-max", "no-rescale", "max-starts-at-zero", "tile-relative-mask",
                     "unmasked-tail"):
            self.assertIn(name, listed)

    def test_trace_shows_every_tile(self):
        result = run("--shape", "1,1,64,500,16", "--trace", "--trace-row", 63)
        self.assertEqual(result.returncode, 0)
        lines = [line.split() for line in result.stdout.splitlines()]
        tiles = [line for line in lines if len(line) == 6 and line[0].isdigit()]
        self.assertEqual([int(line[0]) for line in tiles], list(range(8)))
        maxima = [float(line[4]) for line in tiles]
        self.assertEqual(maxima, sorted(maxima))  # m only grows

    def test_subcommands(self):
        hidden = {"FA_HIDE_TIMES": "1"}
        ladder = run("ladder", **hidden)
        self.assertEqual(ladder.returncode, 0)
        self.assertEqual(ladder.stdout.count("5.4329"), 6)
        self.assertIn("0.0043 0.0116 0.0315 0.0858 0.2331 0.6337", ladder.stdout)
        self.assertNotIn("icroseconds", ladder.stdout)
        for command in ("overflow", "walkthrough", "loop-order", "fusion"):
            result = run(command, **hidden)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertNotIn("NOT", result.stdout)
            self.assertNotIn(" ms", result.stdout)
        report = self.path("traffic.json")
        self.assertEqual(run("traffic", "--causal", "--length", 16, "--json", report).returncode, 0)
        with open(report, encoding="utf-8") as file:
            orders = json.load(file)["orders"]
        for order in orders.values():
            for way, total in (("loads", "read"), ("stores", "written")):
                moved = sum(sum(step[way].values()) for step in order["steps"])
                self.assertEqual(moved, order[total])
        self.refused("traffic", "--length", 1024, "--block-q", 1, says=["1 ", "at most 16384"])
        self.refused("traffic", "--length", 0, says="--length")
        report = self.path("memory.json")
        self.assertEqual(run("memory", "--longest", 1024, "--json", report).returncode, 0)
        with open(report, encoding="utf-8") as file:
            rows = json.load(file)["rows"]
        self.assertEqual([row["score_matrix_bytes"] for row in rows], [1 << 20, 1 << 22])
        self.assertEqual(rows[0]["tiled_peak_bytes"], rows[1]["tiled_peak_bytes"])

    def test_overflow_json(self):
        report = self.path("overflow.json")
        self.assertEqual(run("overflow", "--json", report).stdout, run("overflow").stdout)
        with open(report, encoding="utf-8") as file:
            data = json.load(file)
        scores, rows = np.array(data["scores"]), data["rows"]
        self.assertEqual(len(rows), 4 * 3 * 3)
        for row in rows:
            without, with_maximum = row["without_maximum"], row["with_maximum"]
            end = without["finite_up_to"]
            for name in ("p", "l", "o"):
                numbers = np.array(without[name], dtype=float)  # takes "inf" and "nan"
                self.assertTrue(np.all(np.isfinite(numbers) == (scores <= end[name])), row)
                safe = {"p": 1, "l": row["keys"], "o": row["keys"] * row["value"]}[name]
                self.assertEqual(with_maximum[name], [safe] * len(scores))
            self.assertEqual(with_maximum["output"], [row["value"]] * len(scores))
            self.assertEqual(without["right_up_to"], min(end.values()))
            # In theory, ln of the type's largest, less ln of how many add up, less ln of a value.
            for name, factor in (("p", 1), ("l", row["keys"]), ("o", row["keys"] * row["value"])):
                largest = row["p_largest" if name == "p" else "sums_largest"]
                theory = np.log(largest) - np.log(factor)
                if name != "p":
                    theory = min(theory, end["p"])
                self.assertAlmostEqual(end[name], theory, delta=2e-2, msg=(name, row["keys"]))

    def test_overflow_json_against_the_kernel(self):
        """`overflow` reports the output of the tiled kernel, with and without m."""
        report = self.path("overflow.json")
        self.assertEqual(run("overflow", "--json", report).returncode, 0)
        with open(report, encoding="utf-8") as file:
            data = json.load(file)
        seen = set()
        for row in data["rows"]:
            if row["sums_type"] != "f32" or row["keys"] != 256:  # the kernel sums in fp32
                continue
            for score in (5, 11, 11.5, 79.5, 84, 88.5, 89.5):
                where = data["scores"].index(score)
                q = self.save("q", np.array([[1]], dtype=np.float32))
                k = self.save("k", np.full((row["keys"], 1), score, dtype=np.float32))
                v = self.save("v", np.full((row["keys"], 1), row["value"], dtype=np.float32))
                for breaks in ((), ("--break", "no-max")):
                    run("--q", q, "--k", k, "--v", v, "--scale", 1, "--dtype", row["p_type"],
                        "--out", self.path("o.npy"), *breaks)
                    want = row["without_maximum" if breaks else "with_maximum"]["output"][where]
                    np.testing.assert_equal(np.load(self.path("o.npy")).item(), float(want))
                    seen.add(str(want))
        self.assertTrue({"inf", "nan", "0.0"} <= seen, seen)

    def test_story(self):
        result = run(FA_HIDE_TIMES="1")
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stdout.count("passed"), 8)
        self.assertNotIn(" ms", result.stdout)


if __name__ == "__main__":
    unittest.main()
