"""Calls every chapter through the shared library. FA_LIBRARY names the .so file."""

import os
import sys
import unittest

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "..", "..", "reference"))

import check
import flash_attention
from problem import Problem

LIBRARY = flash_attention.load(os.environ["FA_LIBRARY"])


def inputs(batch=1, heads=2, len_q=70, len_kv=90, dim=64):
    random = np.random.default_rng(1)
    shapes = [(batch, heads, length, dim) for length in (len_q, len_kv, len_kv)]
    return [flash_attention.from_bf16(flash_attention.to_bf16(random.normal(0.5, 1, shape)))
            for shape in shapes]


class TestLibrary(unittest.TestCase):
    def test_every_chapter_agrees_with_numpy(self):
        for dim in (64, 128):
            q, k, v = inputs(dim=dim)
            problem = Problem(q, k, v, dtype="bf16")
            for chapter in (3, 4, 5, 6, 7, 8):
                agreed, verdict = check.judge(problem, LIBRARY.forward(q, k, v, chapter), None)
                self.assertTrue(agreed, f"chapter {chapter}: {verdict}")

    def test_chapters_are_not_one_and_the_same(self):
        # 32 keys a tile instead of 64: other maxima, other roundings.
        q, k, v = inputs(len_kv=300)
        self.assertFalse(np.array_equal(LIBRARY.forward(q, k, v, 4), LIBRARY.forward(q, k, v, 5)))

    def assert_error(self, text, *arguments, **keywords):
        with self.assertRaisesRegex(ValueError, text):
            LIBRARY.forward(*arguments, **keywords)

    def test_errors_are_sentences(self):
        q, k, v = inputs()
        self.assert_error("chapter 2: this library has 3 to 8", q, k, v, chapter=2)
        self.assert_error("head size 80: .* takes 64 and 128", *inputs(dim=80))
        self.assert_error("every size must be at least 1", *inputs(len_kv=0))

    def test_misaligned_and_null_pointers(self):
        q = np.zeros(64 * 65, np.uint16)
        call = lambda pointer: LIBRARY._forward(7, pointer, *[q.ctypes.data] * 3, 1, 1, 64, 64, 64,
                                                1.0, None)
        self.assertEqual(call(q.ctypes.data + 2), 1)
        self.assertIn(b"16 bytes", LIBRARY._library.flash_attention_error())
        self.assertEqual(call(None), 1)
        self.assertIn(b"null", LIBRARY._library.flash_attention_error())


if __name__ == "__main__":
    unittest.main()
