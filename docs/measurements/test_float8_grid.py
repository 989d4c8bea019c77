"""Tests that the FP8 grid's cases are complete, the kernel's arithmetic passes, mistakes are detected.

    cd docs/measurements && python3 -W error -m unittest -q test_float8_grid
"""

import unittest

import paths  # noqa: F401, before the modules of reference/
import numpy as np

import attention
import float8_grid
from float8_grid import OnHost

CASES = list(float8_grid.cases(True, 1))


class Kernel:
    """The kernel's arithmetic in NumPy. `change` modifies its operands and O."""

    def __init__(self, change=lambda name, x: x):
        self.change = change

    def __call__(self, case, *tensors):
        q, k, v = (np.float64(x).reshape(x.shape[0], case.heads[1], -1, *x.shape[2:]) for x in tensors)
        names = ("q", "k", "v", "mean")
        q, k, v, mean = (self.change(name, x)
                         for name, x in zip(names, float8_grid.multiplied(OnHost, q, k, v)))
        s = attention.modified(q @ k.swapaxes(-1, -2) / case.dim**0.5, case.causal, window=case.window)
        p = np.exp(s - np.maximum(s.max(-1, keepdims=True), -1e300))
        l = p.sum(-1, keepdims=True)
        p = self.change("p", OnHost.e4m3(p * 256) / 256)
        o = OnHost.bf16(p @ v / (l + (l == 0)) + mean * (l > 0))
        return self.change("o", o).reshape(tensors[0].shape), None


def right(change, cases) -> int:
    def is_right(case):
        (error, bound), _ = float8_grid.judge(OnHost, case, Kernel(change))
        return error <= bound
    return sum(map(is_right, cases))


def only(name, change):
    return lambda which, x: change(x) if which == name else x


class Grid(unittest.TestCase):
    def test_every_combination(self):
        # lengths, head sizes, heads, causal or not, a window or not
        self.assertEqual(len(list(float8_grid.cases(False, 1))), 20 * 2 * 3 * 2 * 2)
        self.assertEqual(len(CASES), 10 * 2 * 3 * 2 * 2)

    def test_the_kernels_arithmetic_is_right(self):
        self.assertEqual(right(lambda name, x: x, CASES[::8]), len(CASES[::8]))

    def test_mistakes_are_seen(self):
        cases = [case for case in CASES if case.lengths == (113, 203) and case.window == (-1, -1)
                 and not case.causal]
        self.assertEqual(len(cases), 6)
        for name, change in {
                "V in another order": only("v", lambda x: np.roll(x, 1, -2)),
                "V without its mean": only("mean", lambda x: x * 0),
                "Q in one scale too large": only("q", lambda x: x * 1.5),
                "P unscaled": only("p", lambda x: OnHost.e4m3(x / 64) * 64),
                "O not a number": only("o", lambda x: x * np.nan)}.items():
            self.assertLess(right(change, cases), 3, name)


if __name__ == "__main__":
    unittest.main()
