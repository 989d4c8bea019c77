#!/usr/bin/env python3
"""Inputs at the edge of what bf16, fp16 and fp32 hold, through every program that takes them, against
NumPy in float64: PROGRAM… names the programs of this build.

Q and K are small multiples of 1/4, so that every score is exact in fp32 and only softmax is left to go
wrong. Each head has another pattern, each row of the table another scale or cap. What a program
refuses or fails must say which range it takes."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
sys.path.insert(0, os.path.join(ROOT, "reference"))
import attention  # noqa: E402

LEN_Q, LEN_KV, DIM = 20, 300, 64  # several tiles of keys, the last one partial, in every kernel
ULP = {"f32": 2.0**-23, "bf16": 2.0**-8, "f16": 2.0**-11}
# 133120 is from a bug report of PyTorch
LARGEST = {"f32": 133120.0, "bf16": 133120.0, "f16": 60000.0}
DTYPES = {"ch02_tiled_cpu": ("f32",), "ch19_ring_attention": ("f32",),
          "ch09_masks_and_shapes": ("bf16", "f16"), "ch11_decoding": ("bf16", "f16")}
OPTIONS = {"ch19_ring_attention": ("--ranks", 3), "ch11_decoding": ("--splits", 3)}
ONE_KEY = ("normal", "one dominant key", "others far below", "dominant in the first tile", "dominant at the end")
COPIES = ("ch12", "ch13", "ch14", "ch15")  # chapters with chapter 08's softmax
EIGHT_BITS = ("ch17_low_precision", "ch23_fp8")  # they round Q and K, so scores differ
SCALES = (1e-30, 1e-3, 0.125, 30, 1e6, 1e30)
CAPS = (1e-3, 0.1, 3, 50, 1e6, 1e8, 1e30)


def quarters(random, *shape, most=8):
    return random.integers(-most, most + 1, shape) / 4.0


def small_patterns():
    """Q, K, one head for each pattern; scores up to 4096 times the scale."""
    random = np.random.default_rng(1)

    def drawn():
        return quarters(random, LEN_Q, DIM), quarters(random, LEN_KV, DIM)

    def one_key(at, others):
        q, k = drawn()
        q[:], k[:] = 8, k * others if others >= 0 else others
        k[list(at)] = 8
        return q, k

    def rising(sign):
        q, k = drawn()
        q[:], k[:] = 0, 0
        q[:, 0], k[:, 0] = sign * 4, np.arange(LEN_KV) // 8 / 4
        return q, k
    return {"normal": drawn(), "one dominant key": one_key([170], 1), "others far below": one_key([170], -8),
            "dominant in the first tile": one_key([3], 0), "dominant at the end": one_key([299], 0),
            "two dominant keys, tied": one_key([5, 290], 1), "equal": (np.full((LEN_Q, DIM), 2.0),
                                                                      np.full((LEN_KV, DIM), 2.0)),
            "all very negative": (np.full((LEN_Q, DIM), -8.0), np.full((LEN_KV, DIM), 8.0)),
            "zero": (np.zeros((LEN_Q, DIM)), np.zeros((LEN_KV, DIM))), "rising": rising(1),
            "falling": rising(-1),
            "denormal": tuple(np.full((n, DIM), 1e-39) for n in (LEN_Q, LEN_KV))}


def large_patterns(large):
    """Likewise, with scores of 64 large^2 times the scale."""
    random = np.random.default_rng(2)
    heads = {}
    for name, at, others in (("one dominant key", [170], 0), ("tied", [5, 290], 0), ("equal", range(LEN_KV), 0),
                             ("others far below", [299], -large), ("first tile", [0, 1, 2], 0)):
        q, k = np.full((LEN_Q, DIM), large), quarters(random, LEN_KV, DIM) if others == 0 else \
            np.full((LEN_KV, DIM), others)
        k[list(at)] = large
        heads[name] = q, k
    heads["all very negative"] = np.full((LEN_Q, DIM), -large), np.full((LEN_KV, DIM), large)
    return heads


def values(random, heads):
    return quarters(random, heads, LEN_KV, DIM) + 0.5


class Run:
    """One run of a program on [1, H, L, D] tensors."""

    def __init__(self, folder, program, dtype, q, k, v, *options, outputs=("out", "lse"), **more):
        def path(name):
            return os.path.join(folder, name + ".npy")
        files = {"q": q, "k": k, "v": v, **more}
        arguments = [program]
        for name, array in files.items():
            np.save(path(name), array[None].astype(np.float32))
            arguments += ["--" + name, path(name)]
        has_lse = program in DTYPES or program in ("ch16_maximum_on_demand", "ch21_persistent_blocks", *EIGHT_BITS)
        self.outputs = [name for name in outputs if name != "lse" or has_lse]
        for name in self.outputs:
            if os.path.exists(path(name)):
                os.remove(path(name))
            arguments += ["--" + name, path(name)]
        if len(DTYPES.get(program, ())) > 1:
            arguments += ["--dtype", dtype]
        arguments += [*OPTIONS.get(program, ()), *options]
        result = subprocess.run(list(map(str, arguments)), capture_output=True, text=True, timeout=120,
                                check=False)
        self.status, self.error = result.returncode, result.stderr
        self.text = re.sub(r"\n {13}", " ", result.stdout)  # a long verdict has several lines
        self.tensors = {name: np.load(path(name))[0].astype(float) for name in self.outputs
                        if os.path.exists(path(name))}


class ExtremeValues(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def for_each_program(self, copies=False):
        for program in PROGRAMS:
            if program.startswith(COPIES) and not copies:
                continue
            for dtype in DTYPES.get(program, ("bf16",)):
                yield program, dtype

    def check(self, program, run, names, expected, v, dtype):
        """Every element finite and within the rounding of P and O; LSE within that of fp32."""
        self.assertIn(run.status, (0, 1), run.error)
        self.assertEqual(run.error, "")
        self.assertNotIn("nan", run.text.lower())
        for head, name in enumerate(names):
            with self.subTest(head=name):
                largest = np.abs(v[head]).max()
                lse, got = expected.lse[0, head], run.tensors["out"][head]
                # An LSE in fp32 this large does not determine how many keys contributed, so merged
                # parts are arbitrary.
                parts = program in OPTIONS and np.abs(lse).max() > 2.0**14
                if parts and name not in ONE_KEY:
                    self.assertTrue((np.abs(got) <= (1 + ULP[dtype]) * largest).all(), run.text)
                else:
                    bound = (4 * ULP[dtype] + 2e-4 * (dtype == "f32")) * largest
                    error = np.abs(got - expected.o[0, head])
                    self.assertTrue((error <= bound).all(), f"O: error {error.max()}, bound {bound}\n{run.text}")
                if "lse" in run.tensors:
                    error = np.abs(run.tensors["lse"][head] - lse)
                    self.assertTrue((error <= 1e-6 * np.abs(lse) + 1e-4).all(),
                                    f"LSE: error {error.max()} of {np.abs(lse).max()}\n{run.text}")

    def compare(self, program, dtype, heads, *options, **modifiers):
        q, k = (np.stack([pair[i] for pair in heads.values()]) for i in (0, 1))
        if dtype == "f16":
            q, k = (np.where(np.abs(x) < 1e-30, 0, x) for x in (q, k))
        v = values(np.random.default_rng(3), len(heads))
        run = Run(self.folder, program, dtype, q, k, v, *options)
        # Rounding to 8 bits changes the scores. Only the range of O is checked: that of the values.
        if program in EIGHT_BITS:
            self.assertIn(run.status, (0, 1), run.error)
            if not (np.abs(run.tensors["out"]) <= 1.05 * np.abs(v).max()).all():
                self.assertEqual(run.status, 1)
                self.assertRegex(run.text, "rounding moves a score by .*: by more than 1 nothing is left of softmax")
            return
        self.check(program, run, heads, attention.general(q[None], k[None], v[None], **modifiers), v, dtype)

    def test_scales(self):
        for scale in SCALES:
            for program, dtype in self.for_each_program():
                with self.subTest(program=program, dtype=dtype, scale=scale):
                    self.compare(program, dtype, small_patterns(), "--scale", scale, scale=scale)

    def test_large_scores(self):
        for program, dtype in self.for_each_program(copies=True):
            for scale in (0.125, 1e20):
                with self.subTest(program=program, dtype=dtype, scale=scale):
                    self.compare(program, dtype, large_patterns(LARGEST[dtype]), "--scale", scale,
                                 scale=scale)

    def test_caps(self):
        for cap in CAPS:
            for dtype in DTYPES["ch09_masks_and_shapes"]:
                with self.subTest(dtype=dtype, cap=cap):
                    self.compare("ch09_masks_and_shapes", dtype, small_patterns(), "--softcap", cap,
                                 "--scale", 1, scale=1.0, softcap=cap)

    def test_values_that_the_sum_before_the_division_may_not_hold(self):
        q, k = (np.stack([pair[i] for pair in small_patterns().values()]) for i in (0, 1))
        largest = {"f32": 3.4e38, "bf16": 3.38e38, "f16": 65504.0}
        for program, dtype in self.for_each_program():
            fits = 65504.0 if dtype == "f16" else 4e33  # 3.4e38 / 256 / 300
            for size, must in ((fits, True), (largest[dtype], False)):
                with self.subTest(program=program, dtype=dtype, size=size):
                    v = np.full((len(q), LEN_KV, DIM), size)
                    run = Run(self.folder, program, dtype, q, k, v)
                    error = np.abs(run.tensors["out"] / size - 1)
                    right = (error <= 1e-5 + 4 * ULP[dtype] + 0.08 * (program in EIGHT_BITS)).all()
                    if not right:
                        self.assertFalse(must, run.text)
                        self.assertEqual(run.status, 1)
                        self.assertRegex(run.text, r"V of up to 3.4e\+38: .*with V up to 4.4e\+33 it")

    def test_tiny_values(self):
        heads = {name: small_patterns()[name] for name in ("normal", "one dominant key", "equal")}
        q, k = (np.stack([pair[i] for pair in heads.values()]) for i in (0, 1))
        for program, dtype in self.for_each_program():
            with self.subTest(program=program, dtype=dtype):
                tiny = 2.0**-22 if dtype == "f16" else 1e-39
                v = np.full((len(q), LEN_KV, DIM), tiny)
                run = Run(self.folder, program, dtype, q, k, v)
                self.assertIn(run.status, (0, 1), run.error)
                self.assertTrue((np.abs(run.tensors["out"]) <= 1.2 * tiny).all(), run.text)
                if run.status == 1:
                    self.assertIn("with larger values of V it would", run.text)

    def test_zeros_pass(self):
        zeros = np.zeros((1, LEN_KV, DIM))
        for program, dtype in self.for_each_program():
            with self.subTest(program=program, dtype=dtype):
                run = Run(self.folder, program, dtype, zeros[:, :LEN_Q], zeros, zeros)
                self.assertEqual(run.status, 0, run.text + run.error)
                self.assertIn("check      passed", run.text)
                self.assertNotIn("nan", run.text.lower())
                self.assertFalse(run.tensors["out"].any())

    def test_standard_normal_values_are_judged(self):
        random = np.random.default_rng(5)
        q, k, v = (random.normal(size=(2, length, DIM)) for length in (64, LEN_KV, LEN_KV))
        for program, dtype in self.for_each_program():
            with self.subTest(program=program, dtype=dtype):
                run = Run(self.folder, program, dtype, q, k, v)
                self.assertEqual(run.status, 0, run.text + run.error)
                self.assertIn("check      passed", run.text)

    def test_scores_that_fp32_does_not_hold_are_refused(self):
        huge = np.full((1, LEN_KV, DIM), 3e38)
        for program in PROGRAMS:
            if DTYPES.get(program, ("bf16",))[0] == "f16":
                continue
            run = Run(self.folder, program, DTYPES.get(program, ("bf16",))[0], huge[:, :LEN_Q], huge, huge)
            self.assertEqual((run.status, run.tensors), (2, {}))
            self.assertRegex(run.error, r"^error: .*3\.4e38.*\n$")

    def test_a_scale_that_is_refused_is_shown_as_it_was_given(self):
        some = np.ones((1, LEN_KV, DIM))
        for program, dtype in self.for_each_program(copies=True):
            for scale in ("1e-320", "-0.5", "1e39"):
                with self.subTest(program=program, scale=scale):
                    run = Run(self.folder, program, dtype, some[:, :LEN_Q], some, some, "--scale", scale)
                    if scale == "-0.5" and run.status == 0:
                        self.assertIn("check      passed", run.text)  # it scales before it compares
                        continue
                    self.assertEqual((run.status, run.tensors), (2, {}), run.text)
                    self.assertRegex(run.error, f"^error: --scale {scale}: .*\\n$" if scale != "1e39" else
                                     "^error: .*3.4e38.*--scale.*\\n$")

    def test_gradients(self):
        for program in GRADIENTS:
            with self.subTest(program=program):
                self.check_gradients(program)

    def check_gradients(self, program):
        # P is e^(score - LSE), so an LSE in fp32 limits the scores.
        for scale in SCALES[:4]:
            heads = small_patterns()
            q, k = (np.stack([pair[i] for pair in heads.values()]) for i in (0, 1))
            v, do = (values(np.random.default_rng(n), len(heads))[:, :rows] for n, rows in
                     ((3, LEN_KV), (4, LEN_Q)))
            with self.subTest(scale=scale):
                run = Run(self.folder, program, "bf16", q, k, v, "--scale", scale,
                          outputs=("dq", "dk", "dv"), do=do)
                want = attention.backward(q[None], k[None], v[None], do[None], scale=scale)
                for name in ("dq", "dk", "dv"):
                    expected = getattr(want, name)[0]
                    for head, pattern in enumerate(heads):
                        error = np.abs(run.tensors[name][head] - expected[head])
                        # dS = P (dP - D) is rounded to bf16, multiplied by K or Q and summed over a
                        # row or a column
                        size = {"dq": scale * np.abs(k[head]).max() * 150, "dv": 20 * 3,
                                "dk": scale * np.abs(q[head]).max() * 150 * 20}[name]
                        self.assertTrue((error <= 2.0**-6 * size + 1e-30).all(),
                                        f"{pattern}, {name}: {error.max()} of {size}")
        large = large_patterns(LARGEST["bf16"])["one dominant key"]
        run = Run(self.folder, program, "bf16", large[0][None], large[1][None], v[:1],
                  outputs=("dq", "dk", "dv"), do=do[:1])
        self.assertEqual(run.status, 1)
        self.assertIn("with scores up to 1e5 a weight is off by 1 % at most", run.text)


if __name__ == "__main__":
    given = sys.argv[1:]
    missing = [program for program in given if shutil.which(program) is None]
    if missing or not given:
        sys.exit(f"error: expected the names of programs on the PATH; missing: {missing}")
    GRADIENTS = [program for program in given if "backward" in program]
    PROGRAMS = [program for program in given if "backward" not in program]
    unittest.main(argv=sys.argv[:1])
