"""Tests of attention in few bits, of the types, and chapter 17's program against NumPy for every
scheme.

    cd reference && PATH=../build/bin:$PATH python3 -W error -m unittest -q test_low_precision
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

import low_precision
from low_precision import E2M1, E4M3, SCHEMES, to_bf16, to_numbers

PROGRAM = ["ch17_low_precision", "accuracy"]


class Types(unittest.TestCase):
    def test_numbers(self):
        self.assertEqual(list(E2M1), [0, 0.5, 1, 1.5, 2, 3, 4, 6])
        self.assertEqual((E4M3[1], E4M3[8], E4M3[-1]), (2.0 ** -9, 2.0 ** -6, 448))
        self.assertEqual(list(to_numbers([17, 19, -18, 1000, 2.0 ** -10, -0.0], E4M3)), [16, 20, -18, 448, 0, 0])
        self.assertTrue(np.isnan(to_numbers([np.nan], E4M3)[0]))
        self.assertEqual(list(to_bf16([1 + 2.0 ** -8, 1 + 3 * 2.0 ** -8, 0])), [1, 1 + 2.0 ** -6, 0])

    def test_rotation_is_orthogonal(self):
        matrix = low_precision.rotation(64, 3)
        self.assertLess(np.abs(matrix @ matrix.T - np.eye(64)).max(), 1e-12)


class Agreement(unittest.TestCase):
    def program(self, q, k, v):
        with tempfile.TemporaryDirectory() as folder:
            words = []
            for name, x in zip("qkv", (q, k, v)):
                np.save(Path(folder) / f"{name}.npy", x)
                words += [f"--{name}", f"{folder}/{name}.npy"]
            report = Path(folder) / "report.json"
            subprocess.run([*PROGRAM, *words, "--seed", "5", "--json", str(report)], check=True,
                           stdout=subprocess.DEVNULL)
            return {one["name"]: one["errors"]["files"] for one in json.loads(report.read_text())["schemes"]}

    def check_input(self, q, k, v):
        ours = self.program(q, k, v)
        self.assertEqual(set(ours), set(SCHEMES))
        expected = low_precision.exact(q, k, v)
        for name, scheme in SCHEMES.items():
            with self.subTest(scheme=name):
                theirs = low_precision.errors(low_precision.attention(q, k, v, scheme, 5), expected)
                for measure, want in theirs.items():
                    self.assertLessEqual(abs(ours[name][measure] - want), 1e-6 * abs(want), measure)

    def test_normal_and_a_mean(self):
        rng = np.random.default_rng(1)
        q, k, v = (to_bf16(rng.normal(size=size)) for size in ((64, 64), (200, 64), (200, 64)))
        self.check_input(q, k, v)
        self.check_input(q, to_bf16(k + 4 * rng.normal(size=64)), to_bf16(v + 0.5))

    def test_outliers_and_another_dim(self):
        rng = np.random.default_rng(2)
        q, k, v = (to_bf16(rng.normal(size=(rows, 32)) + 10 * rng.normal(size=(rows, 32)) * (
            rng.random((rows, 32)) < 0.01)) for rows in (50, 130, 130))
        self.check_input(q, k, v)

    def test_scales_without_an_inverse(self):
        rng = np.random.default_rng(3)
        q, k = (to_bf16(rng.normal(size=(rows, 32)) * 1e-38) for rows in (40, 70))
        self.check_input(q, k, to_bf16(rng.normal(size=(70, 32))))

    def test_errors_are_one_line(self):
        for words, expected in [(["--q", "x.npy"], "--q, --k and --v: give all three, or none"),
                                (["--scheme", "int7"], "--scheme int7: accepted: all, fp16"),
                                (["--input", "normal", "--keys", "64", "--dim", "48"], "expected a power of two"),
                                (["--seeds", "0"], "expected a whole number from 1 to 1000"),
                                (["--json", "/no/folder/x"], "cannot write")]:
            with self.subTest(words=words):
                result = subprocess.run([*PROGRAM, *words], capture_output=True, text=True)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertRegex(result.stderr, r"^error: [^\n]*\n$")
                self.assertIn(expected, result.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=0))
