"""Tests that the grid's cases are complete, correct kernels pass, and each mistake is detected.

    cd docs/measurements && python3 -W error -m unittest -q test_forward_grid
"""

import contextlib
import io
import re
import sys
import tempfile
import unittest
from pathlib import Path

import paths  # before the modules of reference/
import numpy as np

import attention
import check
import forward_grid
from forward_grid import Count, DIMS, PADDED_DIMS, Plain, WIDE_DIMS, run_grid, small_grid
from problem import Problem

try:
    import torch
except ImportError:
    torch = None

PROGRAM = '''#!{python}
"""A chapter's program, as far as the grid needs it."""
import sys
sys.path.insert(0, {here!r})
import numpy as np
import attention, check
from problem import BadInput, Problem, read_npy
argv = sys.argv[1:]
device = argv.pop(argv.index("--device") + 1)
argv.remove("--device")
options = check.parse(argv)
if options.softcap:
    print("error: no softcap here", file=sys.stderr)
    sys.exit(2)
q, k, v = (read_npy(path) for path in (options.q, options.k, options.v))
problem = Problem(q, k, v, options.causal, options.scale, options.dtype, options.window, 0.0,
                  options.alibi, options.cu_seqlens_q, options.cu_seqlens_k)
o, lse = attention.general(q, k, v, **problem.options())
if options.alibi:
    lse = lse + 1
np.save(options.out, o.astype(np.float32))
np.save(options.lse, lse.astype(np.float32))
sys.exit(1 if options.window != (-1, -1) else 0)
'''


class Mistaken(Plain):
    """Plain attention of a case whose options `change` modified."""

    def __init__(self, change):
        self.change = change

    def __call__(self, case, q, k, v):
        options = case.options()
        self.change(options, case)
        return attention.general(
            q, k, v, lambda *qkv, **more: attention.plain(*qkv, case.dtype, **more), **options)


class Modulo(Plain):
    def __call__(self, case, q, k, v):
        heads = np.arange(q.shape[1]) % k.shape[1]
        return super().__call__(case, q, k[:, heads], v[:, heads])


class Changed(Plain):
    """The correct result, with O and LSE modified by `change`."""

    def __init__(self, change):
        self.change = change

    def __call__(self, *arguments):
        o, lse = (x.copy() for x in super().__call__(*arguments))
        self.change(o, lse)
        return o, lse


class Neighbourly(Plain):
    """Correct on every input without NaN, but each row reads all keys."""

    def __call__(self, case, q, k, v):
        o, lse = super().__call__(case, q, k, v)
        return o + 0 * v.sum(), lse


def windows_off_by(left, right):
    def change(options, case):
        if "window" in options:
            options["window"] = options["window"][0] + left, options["window"][1] + right
    return change


def without(name):
    return lambda options, case: options.pop(name, None)


def keys_late(options, case):
    if case.packed:
        end = case.packed[1][-1]
        options["cu_seqlens_k"] = [min(n + 1, end) for n in case.packed[1]]


def top_left(options, case):
    options["offset"] = 0


def small(**wanted):
    return [case for case in small_grid(DIMS, 1)
            if all(getattr(case, name) == value for name, value in wanted.items())]


class Grid(unittest.TestCase):
    def setUp(self):
        self.lines = []

    def run_grid(self, cases, run, **options):
        return run_grid(cases, run, say=self.lines.append, **options)

    def test_the_whole_grid_has_every_combination(self):
        whole = list(forward_grid.whole_grid(DIMS, 1))
        # 2 types; 3 kinds of heads, 2 softcaps and 3 flags, or one flag
        self.assertEqual(len(whole), 5 * 2 * (3 * 2 * 2**3 * (20 + 11) + 2 * (20 + 20)))
        self.assertEqual(len({str(case) for case in whole}), len(whole))
        seen = {(c.test, c.lengths, c.dim, c.heads, c.causal, c.window != (-1, -1), c.alibi,
                 c.softcap, c.dtype) for c in whole}
        self.assertEqual(len(seen), len(whole))
        self.assertEqual({case.layout for case in whole}, {"bhld", "blhd"})
        self.assertEqual({test for test, *_ in seen},
                         {"output", "causal", "varlen_output", "varlen_causal"})
        self.assertIn((4224, 4224), {lengths for _, lengths, *_ in seen})

    def test_the_small_grid_has_every_value(self):
        cases = small()
        for name, values in (("dim", set(DIMS)), ("heads", {(2, 2), (3, 1), (4, 2)}),
                             ("causal", {False, True}), ("alibi", {False, True}),
                             ("softcap", {0.0, 50.0}), ("dtype", {"bf16", "f16"}),
                             ("layout", {"bhld", "blhd"})):
            self.assertEqual({getattr(case, name) for case in cases}, values)
        work = sum(np.prod(case.lengths, dtype=float) * case.dim * case.heads[0] * case.batch
                   for case in cases)
        self.assertLess(work, 4e8)  # products: seconds on the emulator

    def test_packed_cases(self):
        for case in small_grid(DIMS, 1):
            self.assertEqual(bool(case.packed), "varlen" in case.test)
            for cu, longest in zip(case.packed, case.lengths):
                lengths = np.diff(cu)
                self.assertEqual((len(lengths), list(lengths).count(0)), (case.batch, 1))
                self.assertTrue(max(1, longest - 20) <= lengths[lengths > 0].min() <= max(lengths)
                                <= longest)

    def test_the_same_case_every_time(self):
        self.assertEqual(small(), small())
        first, again = (forward_grid.random_tensors(small()[3], None) for _ in range(2))
        for a, b in zip(first, again):
            self.assertTrue((a == b).all())

    def test_right_kernels_pass(self):
        cases = small()
        self.assertEqual(self.run_grid(cases, Plain()), Count(len(cases), 0, 0))
        self.assertEqual(self.run_grid(cases[::4], Plain(), jobs=2), Count(len(cases[::4]), 0, 0))
        self.assertEqual(self.lines, [])

    def test_each_mistake_is_seen(self):
        def nan_in_o(o, lse):
            o[-1, -1, -1, -1] = np.nan

        def nan_in_lse(o, lse):
            lse[0, 0, 0] = np.nan

        def not_written(o, lse):
            o[0, 0, -1] = 0

        def causal_with_a_mask(case):
            return case.causal and case.lengths[0] != case.lengths[1] and min(case.lengths) > 1

        def narrow(case):
            return 0 < case.window[0] < 60 < case.lengths[1]

        for name, run, concerns in (
                ("window, left", Mistaken(windows_off_by(1, 0)), narrow),
                ("window, right", Mistaken(windows_off_by(0, 1)),
                 lambda c: narrow(c) and 0 < c.window[1] < 90 and not c.causal),
                ("no window", Mistaken(without("window")), narrow),
                ("no causal mask", Mistaken(without("causal")), causal_with_a_mask),
                ("no softcap", Mistaken(without("softcap")), lambda c: c.softcap),
                ("no ALiBi", Mistaken(without("alibi")),
                 lambda c: c.alibi and min(c.lengths) > 1),
                ("top-left", Mistaken(top_left), causal_with_a_mask),
                ("cu_seqlens", Mistaken(keys_late), lambda c: c.packed),
                ("heads", Modulo(), lambda c: 1 < c.heads[1] < c.heads[0]),
                ("NaN in O", Changed(nan_in_o), lambda c: True),
                ("NaN in LSE", Changed(nan_in_lse), lambda c: True),
                ("not written", Changed(not_written), lambda c: c.lengths[0] <= c.lengths[1]),
                ("not apart", Neighbourly(), lambda c: c.packed)):
            with self.subTest(name):
                cases = [case for case in small() if concerns(case)][:3]
                self.assertGreater(len(cases), 0)
                self.lines.clear()
                count = self.run_grid(cases, run)
                self.assertEqual(count.wrong, len(cases), cases)
                self.assertEqual(len(self.lines), len(cases))
                self.assertTrue(all(line.startswith("WRONG: ") and "\n" not in line
                                    for line in self.lines))

    def test_a_neighbour_is_named(self):
        case = small(test="varlen_causal")[2]
        self.run_grid([case], Neighbourly())
        self.assertRegex(self.lines[0], r"row \d+ changes when sequence \d+, rows from \d+ on, "
                                        "becomes NaN")

    def test_refusals_are_not_right(self):
        class Refusing(Plain):
            def __call__(self, case, q, k, v):
                if case.alibi:
                    raise forward_grid.Refused("no ALiBi here")
                return super().__call__(case, q, k, v)
        cases = small(test="output")
        alibi = len([case for case in cases if case.alibi])
        for jobs in (1, 3):
            self.lines.clear()
            self.assertEqual(self.run_grid(cases, Refusing(), jobs=jobs),
                             Count(len(cases) - alibi, 0, alibi))
            self.assertTrue(all(line.startswith("refused: ") for line in self.lines))

    def test_a_library_is_asked_for_what_the_case_says(self):
        asked = {}

        class Library:
            def attention(self, q, k, v, **options):
                asked.update(options, types={str(x.dtype) for x in (q, k, v)})
                q, k, v = (x.swapaxes(1, 2) if options["layout"] == "blhd" else x
                           for x in (q, k, v))
                o, lse = Plain()(case, *(np.asarray(x, np.float32) for x in (q, k, v)))
                if case.dim in PADDED_DIMS:
                    raise ValueError("no such head size")
                return (o.swapaxes(1, 2) if options["layout"] == "blhd" else o), lse

        run = forward_grid.LibraryOf.__new__(forward_grid.LibraryOf)
        run.library, run.chapter, run.with_lse = Library(), 9, True
        for case in small()[::3] + [small()[0]._replace(dim=59)]:
            asked.clear()
            count = self.run_grid([case], run)
            self.assertEqual(count, Count(0, 0, 1) if case.dim == 59 else Count(1, 0, 0))
            types = {"float16" if case.dtype == "f16" else "float32"}
            expected = {"chapter": 9, "layout": case.layout, "return_lse": True, "types": types,
                        **case.options()}
            expected.update({name: list(x) for name, x in expected.items() if "cu_" in name})
            self.assertEqual(asked, expected)

    @unittest.skipUnless(torch, "needs PyTorch")
    def test_the_reference_by_pytorch_is_numpys(self):
        import attention_torch
        for case in small():
            tensors = forward_grid.random_tensors(case, None)
            problem = Problem(*tensors, dtype=case.dtype, **case.options())
            want = check.compute_reference(problem)
            got = attention_torch.compute_reference(problem, *tensors)
            np.testing.assert_allclose(got.o, want.o, rtol=0, atol=1e-12)
            np.testing.assert_allclose(got.lse, want.lse, rtol=0, atol=1e-12)
            bounds = zip(check.bounds(problem, got), check.bounds(problem, want),
                         (0.02, 0.02, 0.3, 0))  # plain LSE errs in fp32's last digits only
            for a, b, tolerance in bounds:
                self.assertAlmostEqual(a, b, delta=tolerance * b)
        device = self.run_grid(small(), Torch(), torch_device="cpu", with_torch_reference=True)
        self.assertEqual(device, Count(len(small()), 0, 0))


class Torch(Plain):
    """Returns tensors for tensors."""

    def __call__(self, case, *tensors):
        o, lse = super().__call__(case, *(x.float().numpy() for x in tensors))
        return torch.from_numpy(o).to(tensors[0].dtype), torch.from_numpy(lse)


class CommandLine(unittest.TestCase):
    def main(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = forward_grid.main(arguments)
        return status, out.getvalue(), err.getvalue()

    def test_numpy(self):
        self.assertEqual(self.main("--small", "--numpy", "--only", "^causal"),
                         (0, "12 of 12 right, 0 wrong, 0 refused\n", ""))

    def test_parts_and_head_sizes(self):
        whole = [str(case) for case in small()]
        self.assertEqual(self.main("--small", "--list")[1].splitlines(), whole)
        parts = [self.main("--small", "--list", "--part", f"{i}/3")[1].splitlines()
                 for i in (1, 2, 3)]
        self.assertEqual(sorted(sum(parts, [])), sorted(whole))
        for flag, dims in (("--padded", PADDED_DIMS), ("--wide", WIDE_DIMS)):
            listed = self.main("--list", flag)[1]
            for dim in (40, 59, 111, 128, 160, 256):
                self.assertEqual(f" d{dim} " in listed, dim in DIMS + dims)

    def test_a_program(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "ch"
            program.write_text(PROGRAM.format(python=sys.executable,
                                              here=str(paths.ROOT / "reference")))
            program.chmod(0o755)
            # Four cases for each: right; LSE wrong; its own check fails; refused.
            cases = [case for alibi, local, softcap in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 50))
                     for case in [c for c in small_grid(DIMS, 1)
                                  if (c.alibi, c.window != (-1, -1), c.softcap)
                                  == (alibi, local, softcap)][:3]]
            lines = []
            count = run_grid(cases, forward_grid.Program(str(program), "emulator"),
                             say=lines.append)
            self.assertEqual(count, Count(3, 6, 3), lines)
            self.assertEqual(sum("LSE: largest error" in line for line in lines), 3)
            self.assertEqual(sum("exit status 1" in line for line in lines), 3)
            self.assertEqual(sum("error: no softcap here" in line for line in lines), 3)
            for case, status, said in ((cases[0], 0, "1 of 1 right, 0 wrong, 0 refused"),
                                       (cases[3], 1, "0 of 1 right, 1 wrong, 0 refused"),
                                       (cases[-1], 1, "0 of 1 right, 0 wrong, 1 refused")):
                got = self.main("--small", "--program", str(program), "--only",
                                f"^{re.escape(str(case))}$")
                self.assertEqual((got[0], got[1].splitlines()[-1]), (status, said))

    def test_errors(self):
        for message, *arguments in (
                ("no case is left", "--small", "--only", "nothing"),
                ("--only (:", "--small", "--only", "("),
                ("invalid part value: '4/3'", "--part", "4/3"),
                ("--jobs 0", "--jobs", "0"), ("not allowed with", "--numpy", "--program", "x"),
                ("build the target flash_attention", "--small", "--library", "/gone.so")):
            status, out, err = self.main(*arguments)
            self.assertEqual((status, out), (2, ""), arguments)
            self.assertRegex(err, r"\Aerror: [^\n]*\n\Z")
            self.assertIn(message, err)


if __name__ == "__main__":
    unittest.main()
