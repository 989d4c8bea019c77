#!/usr/bin/env python3
"""ch10_backward from the outside, with gradients against NumPy, bad input, files in and out, subcommands."""

import json
import os
import sys
import unittest

import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(ROOT, "reference"), os.path.join(ROOT, "common", "test")]
import attention  # noqa: E402
import cli_test  # noqa: E402

ALGORITHMS = ("naive", "rows", "columns", "tiled")
run = cli_test.runner("ch10_backward")


class Cli(cli_test.Cli):
    start = staticmethod(run)

    def files(self, q=(2, 4, 7, 6), k=(2, 2, 5, 6), do=None, spoil=None):
        return self.arrays({"q": q, "k": k, "v": k, "do": do or q}, spoil=spoil)

    def test_gradients_are_numpys(self):
        for q, k in (((2, 4, 7, 6), (2, 2, 5, 6)), ((1, 1, 40, 16), (1, 1, 70, 16)),
                     ((1, 3, 1, 8), (1, 1, 9, 8)), ((1, 2, 33, 8), (1, 2, 1, 8))):
            arrays, options = self.files(q, k)
            for causal in (False, True):
                whole = [array.reshape((1,) * (4 - array.ndim) + array.shape)
                         for array in arrays.values()]
                expected = attention.backward(*whole, causal=causal)
                for algorithm in ALGORITHMS:
                    outputs = [self.path(name) for name in ("dq.npy", "dk.npy", "dv.npy")]
                    result = run(*options, "--dtype", "f32", "--algorithm", algorithm,
                                 *(["--causal"] if causal else []),
                                 "--dq", outputs[0], "--dk", outputs[1], "--dv", outputs[2])
                    self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                    for path, exact in zip(outputs, expected):
                        got = np.load(path)
                        self.assertEqual(got.dtype, np.float32)
                        self.assertEqual(got.shape, exact.shape)
                        error = np.abs(got - exact).max()
                        self.assertTrue(error <= 1e-5, (algorithm, path, error))

    def test_two_dimensions(self):
        _, options = self.files((7, 6), (5, 6))
        self.assertEqual(
            run(*options, "--algorithm", "tiled", "--dk", self.path("dk.npy")).returncode, 0)
        self.assertEqual(np.load(self.path("dk.npy")).shape, (5, 6))

    def test_bad_gradient_of_the_output(self):
        _, options = self.files()
        self.refused(*options[:6], says=["--q --k --v --do", "give all of them"])
        self.refused(*options[6:], says="give all of them")
        self.refused(*options, "--shape", "2,4,7,5,6", says="not both")
        self.refused(*options[:6], "--do", self.path("none.npy"), says="none.npy")
        _, options = self.files(do=(2, 4, 7, 5))
        self.refused(*options, says=["do.npy", "[2, 4, 7, 5]", "[2, 4, 7, 6]"])
        _, options = self.files(do=(2, 4, 5, 6))
        self.refused(*options, "--dq", self.path("dq.npy"), says="do.npy")

        def nan(array):
            array[1, 2, 3, 4] = np.nan
        _, options = self.files(spoil=nan)
        self.refused(*options, "--dq", self.path("dq.npy"), says=["do.npy", "1 of 336", "[1, 2, 3, 4]"])

        def infinite(array):
            array[0, 0, 6, 5] = np.inf
        _, options = self.files(spoil=infinite)
        self.refused(*options, says=["do.npy", "[0, 0, 6, 5]"])

    def test_bad_options(self):
        self.refused("--algorithm", "fast", says=["fast", "columns"])
        self.refused("--dtype", "f64", says=["f64", "bf16"])
        self.refused("--d-from", "q", says="--d-from")
        self.refused("--algorithm", "naive", "--d-from", "o", says=["--d-from", "naive"])
        self.refused("--algorithm", "naive", "--trace", says=["naive", "--trace"])
        self.refused("--algorithm", "naive", "--break", "no-d", says=["naive", "no breaks"])
        self.refused("--algorithm", "rows", "--break", "bf16-dq", says=["rows", "bf16-dq"])
        self.refused("--algorithm", "rows", "--trace", says=["--trace", "at most 16384"])
        self.refused("--break", "everything", says=["everything", "no-d", "lse-of-empty-row"])
        self.refused("--kv-heads", 3, says=["--kv-heads 3", "divisor of 4"])
        self.refused("--out", self.path("o.npy"), says="--out")
        self.refused("--dq", self.path("no/such/file"), says="no/such")
        self.refused("--block-q", 0, says="--block-q")
        self.refused("--block-q", 1024, "--block-kv", 1024, says=["--block-q 1024", "1.00 MiB"])
        self.refused("--algorithm", "tiled", "--shape", "1,1,8,8,257", says="1 to 256")
        self.refused("--shape", "1,1,8,8,136", says="multiples of 8 up to 128")
        self.refused("--shape", "1,1,8,8,12", says="multiples of 8 up to 128")
        self.refused("--dtype", "f32", says="--algorithm tiled")
        self.refused("--algorithm", "tiled", "--device", "emulator", says="give one")
        self.refused("--algorithm", "tiled", "--break", "late-zero", says="late-zero")
        self.refused("--shape", "1,1,8,8,8", "--break", "bf16-dq", says="--algorithm tiled")
        self.refused("--scale", -1, says="positive scale")
        self.refused("--algorithm", "tiled", "--memory-limit", 1000, says=["tiled needs", "1000 B"])
        self.refused("schedules", "--length", 4096, "--block-q", 1, "--block-kv", 1, "--json",
                     self.path("s.json"), says="at most 16384")
        self.refused("chain", "--length", 3, says="--length")
        self.refused("projections", "--dim", 0, says="--dim")

    def test_memory_limit_tells_the_algorithms_apart(self):
        limit = ("--shape", "1,1,600,600,64", "--memory-limit", 1 << 20)
        self.refused("--algorithm", "naive", *limit, says="naive needs 5.")
        for algorithm in ALGORITHMS[1:]:
            self.assertEqual(run("--algorithm", algorithm, *limit).returncode, 0)

    def test_report(self):
        path = self.path("report.json")
        shape = ("--shape", "1,4,32,48,8", "--kv-heads", 2, "--causal", "--json", path)
        for algorithm, d_from, products in (("naive", [], 5), ("rows", [], 5),
                                            ("tiled", ["--d-from", "p"], 7)):
            result = run("--algorithm", algorithm, *d_from, *shape, "--profile")
            self.assertEqual(result.returncode, 0, result.stdout)
            self.assertIn(f"{products} products each", result.stdout)
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
            profile = report["profile"]
            self.assertEqual(profile["products"], products)
            self.assertEqual(profile["bytes_read"], sum(profile["read"].values()))
            self.assertEqual(profile["bytes_written"], sum(profile["written"].values()))
            self.assertTrue(report["check"]["passed"])
            self.assertEqual((report["dtype"], report["kv_heads"]), ("bf16", 2))

    def test_trace_is_in_the_report(self):
        path = self.path("report.json")
        result = run("--shape", "1,1,3,4,8", "--algorithm", "columns", "--dtype", "f32", "--trace",
                     "--json", path)
        self.assertEqual(result.returncode, 0)
        with open(path, encoding="utf-8") as file:
            profile = json.load(file)["profile"]
        steps = profile["steps"]
        self.assertEqual(sum(step["phase"] == "gradient" for step in steps), 12)
        for direction, total in (("loads", "bytes_read"), ("stores", "bytes_written")):
            moved = sum(sum(step[direction].values()) for step in steps)
            self.assertEqual(moved, profile[total])

    def test_breaks_disagree(self):
        for arguments in (["no-d"], ["no-scale-in-dk"], ["unmasked-backward", "--causal"],
                          ["lse-of-empty-row", "--causal", "--shape", "1,1,100,70,8"],
                          ["bf16-dq"]):
            result = run("--algorithm", "columns", "--block-q", 64, "--break", *arguments)
            self.assertEqual(result.returncode, 1, arguments)
            self.assertIn("FAILED", result.stdout)

    def test_commands(self):
        path = self.path("schedules.json")
        for command, says in ((["chain"], "Every pair above agrees to 1e-7."),
                              (["projections"], "All three agree."),
                              (["memory", "--longest", 512], "512"),
                              (["schedules", "--length", 8, "--dim", 4, "--block-q", 2,
                                "--block-kv", 4, "--causal", "--json", path], "float64")):
            result = run(*command)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertIn(says, result.stdout)
        with open(path, encoding="utf-8") as file:
            schedules = json.load(file)["schedules"]
        self.assertEqual(schedules["rows"]["tiles"], 6)
        self.assertEqual(schedules["columns, D from P"]["products"], 7)

    def test_elements(self):
        path = self.path("elements.json")
        wrong = {"none": set(), "no-d": {"dQ", "dK"}, "no-scale-in-dk": {"dK"},
                 "unmasked-backward": {"dQ", "dK", "dV"}, "bf16-dq": {"dQ"},
                 "lse-of-empty-row": {"dQ", "dK", "dV"}}
        for name, tensors in wrong.items():
            result = run("elements", "--dtype", "f32", "--break", name, "--json", path)
            self.assertEqual(result.returncode, 1 if tensors else 0, name + result.stderr)
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
            for tensor, rows in report["errors"].items():
                self.assertEqual(len(rows), 68 if tensor == "dQ" else 64)
                all_right = all(error is not None and error <= 1e-5 for row in rows for error in row)
                self.assertEqual(all_right, tensor not in tensors, (name, tensor))
            if name == "lse-of-empty-row":  # of the first 4 queries, which see nothing, and their tile of keys
                for tensor, rows in (("dQ", 4), ("dK", 8), ("dV", 8)):
                    spoilt = [i for i, row in enumerate(report["errors"][tensor]) if None in row]
                    self.assertEqual(spoilt, list(range(rows)), tensor)
        self.refused("elements", "--break", "everything", says=["everything", "no-d"])
        self.refused("elements", "--keys", 0, says="--keys")


if __name__ == "__main__":
    unittest.main()
