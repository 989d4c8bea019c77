"""Tests that the backward grid's cases are complete, plain gradients pass, mistakes are detected.

    cd docs/measurements && python3 -W error -m unittest -q test_backward_grid
"""

import contextlib
import io
import unittest

import paths  # noqa: F401, before the modules of reference/
import backward_grid
from attention import NO_LIMITS
from forward_grid import DIMS

try:
    import torch
except ImportError:
    torch = None

CASES = list(backward_grid.grid(DIMS, 1))


class Plain:
    """Plain attention in place of the library. `change` modifies the gradients."""

    def __init__(self, change=lambda gradients: None):
        self.change = change

    def swapped(self, tensors, layout):
        return [x.swapaxes(1, 2) if layout == "blhd" else x for x in tensors]

    def attention(self, q, k, v, causal, layout, return_lse):
        return q, None

    def backward(self, do, q, k, v, o, lse, causal, layout, deterministic, option):
        tensors = self.swapped((q, k, v, do), layout)
        gradients = [x.clone() for x in backward_grid.differentiate(*tensors, causal, q.dtype)]
        self.change(gradients)
        return self.swapped(gradients, layout)


class Grid(unittest.TestCase):
    def test_every_combination(self):
        count = {}
        for case in CASES:
            count[case.test] = count.get(case.test, 0) + 1
        # types, head sizes, heads or none, masks or none, lengths
        self.assertEqual(count, {"output": 2 * 5 * 3 * 2 * 20, "causal": 2 * 5 * 20,
                                 "onehot": 2 * 5 * 2 * 5, "strided": 2 * 5 * 2 * 5,
                                 "again": 2 * 2 * 2 * 14})
        self.assertEqual(len({str(case) for case in CASES}), len(CASES))
        self.assertFalse([case for case in CASES if case.packed or case.alibi or case.softcap
                          or case.window != NO_LIMITS])

    def main(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = backward_grid.main(arguments)
        return status, out.getvalue(), err.getvalue()

    def test_command_line(self):
        status, out, _ = self.main("--list", "--only", "^onehot 17x17")
        self.assertEqual((status, len(out.splitlines())), (0, 2 * 2 * 7))
        for message, *arguments in (("no case is left", "--only", "nothing"), ("--only (:", "--only", "("),
                                    ("--runs 0", "--runs", "0"), ("three roles", "--designs", "three roles")):
            status, out, err = self.main(*arguments)
            self.assertEqual((status, out), (2, ""))
            self.assertRegex(err, r"\Aerror: [^\n]*\n\Z")
            self.assertIn(message, err)


@unittest.skipUnless(torch, "needs PyTorch")
class Rule(unittest.TestCase):
    def run_grid(self, cases, library, design="ours"):
        self.lines = []
        return backward_grid.run_grid(cases, library, [design], 3, self.lines.append, "cpu")[design]

    def small(self, test):
        cases = [case for case in CASES if case.test == test and max(case.lengths) <= 256]
        return [case._replace(batch=2) for case in cases[::7]]

    def test_plain_gradients_pass(self):
        for test in ("output", "causal", "onehot", "strided", "again"):
            cases = self.small(test)
            self.assertGreater(len(cases), 2)
            self.assertEqual(self.run_grid(cases, Plain()), (len(cases), len(cases)), self.lines)

    def test_each_mistake_is_seen(self):
        def nan(gradients):
            gradients[1][-1, -1, -1, -1] = float("nan")

        def no_scale(gradients):
            gradients[1] *= gradients[1].shape[-1] ** 0.5

        def swapped(gradients):
            gradients[1], gradients[2] = gradients[2], gradients[1]

        def not_written(gradients):
            gradients[0][:, :, -1] = 0

        cases = [case for case in self.small("output") if min(case.lengths) > 1]
        for change in (nan, no_scale, swapped, not_written):
            self.assertEqual(self.run_grid(cases, Plain(change)), (0, len(cases)), change)

    def test_another_result_is_seen(self):
        calls = []

        def last_bit(which):
            def change(gradients):
                calls.append(0)
                x = gradients[which]
                x[0, 0, 0, 0] = torch.nextafter(x[0, 0, 0, 0].float(), torch.tensor(9.)).to(x.dtype) + (
                    abs(x[0, 0, 0, 0]) * (len(calls) % 2) / 64)
            return change

        def nan(gradients):
            calls.append(0)
            if len(calls) % 3 == 0:
                gradients[0][0, 0, 0, 0] = float("nan")

        case = self.small("again")[:1]
        for change, design, right in ((last_bit(1), "ours", 0), (last_bit(2), "ours", 0),
                                      (last_bit(0), "ours", 1), (last_bit(0), "deterministic", 0),
                                      (nan, "ours", 0)):
            self.assertEqual(self.run_grid(case, Plain(change), design)[0], right,
                             (design, self.lines))


if __name__ == "__main__":
    unittest.main()
