"""Calls every chapter through the shared library. FA_LIBRARY is the .so file, and FA_CHAPTERS lists
the chapters that it must have."""

import os
import subprocess
import sys
import unittest
import warnings
from unittest import mock

import numpy as np

try:
    import torch
except ImportError:
    torch = None

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "..", "..", "reference"))

import attention
import check
import flash_attention
import gradients
from problem import Problem

PATH = os.environ["FA_LIBRARY"]
LIBRARY = flash_attention.load(PATH)
CHAPTERS = [int(number) for number in os.environ["FA_CHAPTERS"].split(",")]
SINKS = [chapter for chapter in CHAPTERS if chapter in (9, 16, 21)]
EXACT = [chapter for chapter in CHAPTERS if chapter not in (17, 23)]  # these two round to 8 bits


def inputs(batch=1, heads=2, len_q=70, len_kv=90, dim=64):
    random = np.random.default_rng(1)
    shapes = [(batch, heads, length, dim) for length in (len_q, len_kv, len_kv)]
    return [flash_attention.from_bf16(flash_attention.to_bf16(random.normal(0.5, 1, shape)))
            for shape in shapes]


class Device:
    type, index = "cpu", None


class HostTensor:
    """A bf16 tensor without PyTorch: its bits in a NumPy array, with the interface that the module
    uses."""
    dtype, device = "torch.bfloat16", Device

    def __init__(self, bits):
        self.bits, self.shape = bits, bits.shape

    def data_ptr(self):
        return self.bits.ctypes.data

    def stride(self):
        return [stride // 2 for stride in self.bits.strides]

    def swapaxes(self, a, b):
        return HostTensor(self.bits.swapaxes(a, b))

    def __getitem__(self, index):
        return HostTensor(self.bits[index])

    def new_full(self, shape, value):
        return HostTensor(np.full(shape, flash_attention.to_bf16(np.float32(value)), np.uint16))


class TestLibrary(unittest.TestCase):
    def assert_agrees(self, q, k, v, o, message=""):
        agreed, verdict = check.judge(Problem(q, k, v, dtype="bf16"), o, None)
        self.assertTrue(agreed, message + verdict)

    def test_every_chapter_agrees_with_numpy(self):
        for dim in (64, 128):
            q, k, v = inputs(dim=dim)
            for chapter in EXACT:
                o = LIBRARY.attention(q, k, v, chapter=chapter)
                self.assert_agrees(q, k, v, o, f"chapter {chapter}: ")

    def test_8_bits_are_close_and_must_be_asked_for(self):
        q, k, v = inputs(len_kv=300)
        exact = check.compute_reference(Problem(q, k, v, dtype="bf16")).o
        errors = []
        for option in (0, 4, 1):  # default (one scale per thread), the same, one scale per head
            o = LIBRARY.attention(q, k, v, chapter=17, option=option)
            errors.append(np.sqrt(np.mean((o - exact) ** 2) / np.mean(exact ** 2)))
        self.assertEqual(errors[0], errors[1])
        self.assertTrue(1e-4 < errors[0] < errors[2] < 0.02, errors)
        o = LIBRARY.attention(q, k, v, chapter=23)  # FP8: three bits after the leading one
        error = np.sqrt(np.mean((o - exact) ** 2) / np.mean(exact ** 2))
        self.assertTrue(errors[2] < error < 0.04, error)

    def test_the_newest_chapter_is_the_default(self):
        """The newest without a workspace. Chapter 21 has one, and adds in another order."""
        q, k, v = inputs(len_kv=300)
        by_default = LIBRARY.attention(q, k, v)
        newest = [chapter for chapter in EXACT if chapter != 21][-1]
        self.assertTrue(np.array_equal(by_default, LIBRARY.attention(q, k, v, chapter=newest)))
        self.assertFalse(np.array_equal(by_default, LIBRARY.attention(q, k, v, chapter=21)))

    def test_chapters_are_not_one_and_the_same(self):
        # 32 keys per tile instead of 64 give other maxima and other roundings.
        q, k, v = inputs(len_kv=300)
        self.assertFalse(np.array_equal(LIBRARY.forward(q, k, v, 4), LIBRARY.forward(q, k, v, 5)))

    def test_both_layouts(self):
        q, k, v = inputs()
        o = LIBRARY.attention(*(x.swapaxes(1, 2) for x in (q, k, v)), layout="blhd")
        self.assert_agrees(q, k, v, o.swapaxes(1, 2))

    def test_a_tensor_is_passed_by_its_pointer_and_strides(self):
        q, k, v = inputs()
        tensors = [HostTensor(flash_attention.to_bf16(x)) for x in (q, k, v)]
        o = LIBRARY.attention(*tensors)
        self.assert_agrees(q, k, v, flash_attention.from_bf16(o.bits))
        # [B,L,H,D] in memory, described by strides. Chapter 09 and later support them.
        swapped = [HostTensor(np.ascontiguousarray(x.bits.swapaxes(1, 2))) for x in tensors]
        by_length = LIBRARY.attention(*swapped, layout="blhd")
        np.testing.assert_array_equal(by_length.bits.swapaxes(1, 2), o.bits)
        by_stride = LIBRARY.attention(*(x.swapaxes(1, 2) for x in swapped))
        np.testing.assert_array_equal(by_stride.bits, o.bits)
        self.assert_error("ch08 takes no strided tensors", *swapped, layout="blhd", chapter=8)

    def test_a_tensor_may_repeat_itself(self):
        q, k, v = inputs(heads=3)
        k, v = k[:, :1], v[:, :1]
        repeated = [HostTensor(np.broadcast_to(flash_attention.to_bf16(x), q.shape[:2] + x.shape[2:]))
                    for x in (k, v)]
        query = HostTensor(flash_attention.to_bf16(q))
        o = LIBRARY.attention(query, *repeated)  # by the newest chapter that supports it
        shared = LIBRARY.attention(query, *(HostTensor(flash_attention.to_bf16(x)) for x in (k, v)),
                                   chapter=9)
        np.testing.assert_array_equal(o.bits, shared.bits)
        self.assert_error("ch16 takes no tensors that repeat themselves", query,
                          *repeated, chapter=16)

    def test_a_slice_of_a_fused_tensor_is_not_copied(self):
        q, k, v = inputs(len_q=70, len_kv=70)
        fused = np.full((1, 70, 6, 64), 0x7FC0, np.uint16)  # NaN between the values
        for i, x in enumerate((q, k, v)):
            fused[:, :, 2 * i:2 * i + 2] = flash_attention.to_bf16(x).swapaxes(1, 2)
        slices = [HostTensor(fused[:, :, 2 * i:2 * i + 2]) for i in range(3)]
        o = LIBRARY.attention(*slices, layout="blhd", causal=True)
        np.testing.assert_array_equal(
            flash_attention.from_bf16(o.bits.swapaxes(1, 2)), LIBRARY.attention(q, k, v, causal=True))

    def test_masks_and_shapes(self):
        q, k, v = inputs(heads=4)
        for name, options in {"causal": {"causal": True}, "window": {"window": (9, 3)},
                              "softcap": {"softcap": 2.0}, "alibi": {"alibi": True}}.items():
            problem = Problem(q, k[:, :2], v[:, :2], dtype="bf16", **options)
            o, lse = LIBRARY.attention(q, k[:, :2], v[:, :2], return_lse=True, **options)
            agreed, verdict = check.judge(problem, o, lse)
            self.assertTrue(agreed, f"{name}: {verdict}")

    def test_a_chapters_own_option(self):
        q, k, v = inputs()
        for chapter, option in ((5, 3), (13, 1), (14, 2), (15, 2)):
            o = LIBRARY.attention(q, k, v, chapter=chapter, option=option)
            agreed, verdict = check.judge(Problem(q, k, v, dtype="bf16"), o, None)
            self.assertTrue(agreed, verdict)
        self.assert_error("option 9: --consumers of ch14_warp_specialization is 2 to 3", q, k, v,
                          chapter=14, option=9)
        self.assert_error("option 2: ch08_fewer_instructions has none", q, k, v, chapter=8, option=2)

    def test_sinks(self):
        q, k, v = inputs(heads=3, len_q=200)  # more queries than keys
        sinks = np.array([5.0, -np.inf, 8.0], np.float32)
        for chapter in SINKS:
            for causal in (False, True):
                o, lse = LIBRARY.attention(q, k, v, causal=causal, sinks=sinks, chapter=chapter,
                                           return_lse=True)
                problem = Problem(q, k, v, causal=causal, sinks=sinks, dtype="bf16")
                agreed, verdict = check.judge(problem, o, lse)
                self.assertTrue(agreed, f"chapter {chapter}: {verdict}")
        self.assert_error("ch08 takes no sinks", q, k, v, sinks=sinks, chapter=8)
        self.assert_error(r"sinks has shape \[2\]: expected \[3\]", q, k, v, sinks=sinks[:2])

    def test_packed_sequences_and_fp16(self):
        q, k, v = (x.astype(np.float16) for x in inputs())
        starts = {"cu_seqlens_q": [0, 30, 30, 70], "cu_seqlens_k": [0, 20, 60, 90]}
        problem = Problem(*(x.astype(np.float32) for x in (q, k, v)), dtype="f16", **starts)
        o, lse = LIBRARY.attention(q, k, v, return_lse=True, **starts)
        agreed, verdict = check.judge(problem, o, lse)
        self.assertTrue(agreed, verdict)
        self.assert_error("ascend from 0 to 70", q, k, v, cu_seqlens_q=[0, 80], cu_seqlens_k=[0, 90])
        self.assert_error("as many numbers of each", q, k, v, cu_seqlens_q=[0, 9, 70],
                          cu_seqlens_k=[0, 90])

    def assert_gradients_agree(self, problem, do, got):
        agreed, verdict = gradients.judge(problem, do, attention.Gradients(*got))
        self.assertTrue(agreed, verdict)

    def test_gradients(self):
        for dim, heads, kv_heads, options in ((64, 2, 2, {}), (128, 4, 2, {"causal": True}),
                                              (40, 2, 1, {"causal": True, "scale": 0.3}),
                                              (59, 2, 2, {})):
            q, k, v = inputs(heads=heads, dim=dim)
            k, v = k[:, :kv_heads], v[:, :kv_heads]
            do = inputs(heads=heads, dim=dim)[0][::-1]
            o, lse = LIBRARY.attention(q, k, v, return_lse=True, **options)
            first = LIBRARY.backward(do, q, k, v, o, lse, **options)
            self.assert_gradients_agree(Problem(q, k, v, dtype="bf16", **options), do, first)
            for design in (1, 2, 3):
                got = LIBRARY.backward(do, q, k, v, o, lse, option=design, deterministic=True,
                                       **options)
                self.assert_gradients_agree(Problem(q, k, v, dtype="bf16", **options), do, got)
            by_length = LIBRARY.backward(*(x.swapaxes(1, 2) for x in (do, q, k, v, o)), lse,
                                         layout="blhd", deterministic=True, **options)
            again = LIBRARY.backward(do, q, k, v, o, lse, deterministic=True, **options)
            for x, y in zip(by_length, again):
                np.testing.assert_array_equal(x.swapaxes(1, 2), y)

    def test_gradients_with_sinks_in_a_window_or_packed(self):
        q, k, v = inputs(heads=2, len_q=80)
        do = inputs(heads=2, len_q=80)[0][..., ::-1].copy()
        sinks = np.array([6.0, 7.5], np.float32)
        for options in ({"sinks": sinks}, {"window": (20, 5)},
                        {"sinks": sinks, "window": (30, -1), "causal": True},
                        {"cu_seqlens_q": (0, 30, 30, 80), "cu_seqlens_k": (0, 10, 41, 90),
                         "causal": True, "sinks": sinks}):
            o, lse = LIBRARY.attention(q, k, v, return_lse=True, **options)
            got = LIBRARY.backward(do, q, k, v, o, lse, **options)
            problem = Problem(q, k, v, dtype="bf16", **options)
            agreed, verdict = gradients.judge(problem, do, attention.Gradients(*got[:3]))
            self.assertTrue(agreed, verdict)
            if "sinks" in options:
                exact = attention.general(q, k, v, **options)
                want = attention.sink_gradient(sinks, exact.lse, exact.o, do)
                np.testing.assert_allclose(got[3], want, rtol=0.01)

    def test_gradients_in_fp16(self):
        q, k, v = (x.astype(np.float16) for x in inputs())
        o, lse = LIBRARY.attention(q, k, v, return_lse=True)
        got = LIBRARY.backward(q, q, k, v, o, lse)
        self.assert_gradients_agree(
            Problem(*(x.astype(np.float32) for x in (q, k, v)), dtype="f16"), q.astype(np.float32), got)

    def test_a_backward_pass_says_what_is_wrong(self):
        q, k, v = inputs()
        o, lse = LIBRARY.attention(q, k, v, return_lse=True)

        def refused(text, *arguments, **options):
            with self.assertRaisesRegex(ValueError, text):
                LIBRARY.backward(*arguments, **options)
        refused("Q is .* and dO is .*: their shapes must be equal", o[:, :, 1:], q, k, v, o, lse)
        refused("LSE is .* LSE must be", o, q, k, v, o, lse[:, :, 1:])
        refused("option 4: --design of ch10_backward is 0 to 3", o, q, k, v, o, lse, option=4)
        refused("positive scale", o, q, k, v, o, lse, scale=-1.0)
        refused("multiples of 8 up to 128", *inputs(dim=136)[:1] * 2, *inputs(dim=136)[1:],
                inputs(dim=136)[0], lse)
        refused("layout 'bld'", o, q, k, v, o, lse, layout="bld")
        refused("do has 3 dimensions", o[0], q, k, v, o, lse)
        refused("o and q must both be", o, q, k, v, HostTensor(flash_attention.to_bf16(o)), lse)
        refused("every size must be at least 1", *inputs(len_q=0)[:1] * 2, *inputs(len_q=0)[1:],
                inputs(len_q=0)[0], lse)

    def cache(self, dtype=np.float32):
        """Returns three sequences of 50, 0 and 90 keys, with one query each of four heads, two of K
        and V."""
        q = inputs(batch=3, heads=4, len_q=1)[0]
        k, v = (x.astype(dtype) for x in inputs(batch=3, heads=2)[1:])
        return q.astype(dtype), k, v, np.array([50, 0, 90], np.int32)

    def assert_decoded(self, q, k, v, lengths, got, sinks=None, trees=None, **options):
        for n, length in enumerate(lengths):
            tree = None if trees is None else attention.tree_mask(trees[n])
            expected = attention.general(*(x[n:n + 1].astype(np.float64) for x in (
                q, k[:, :, :length], v[:, :, :length])), causal=True, sinks=sinks, tree=tree)
            for one, other, bound in zip(expected, got, (1e-2, 1e-3)):
                if length == 0 and sinks is None:  # 0, and -inf
                    np.testing.assert_array_equal(other[n], one[0])
                else:
                    self.assertTrue((np.abs(other[n] - one[0]) <= bound).all(), (n, options))

    def test_decoding_over_a_cache(self):
        for dtype in (np.float32, np.float16):
            q, k, v, lengths = self.cache(dtype)
            for layout in ("bhld", "blhd"):
                turned = [x.swapaxes(1, 2) if layout == "blhd" else x for x in (q, k, v)]
                for splits in (0, 1, 3):
                    o, lse = LIBRARY.decode(*turned, lengths, splits=splits, layout=layout,
                                            return_lse=True)
                    o = o.swapaxes(1, 2) if layout == "blhd" else o
                    self.assert_decoded(q, k, v, lengths, (o, lse), splits=splits, layout=layout)
        o, lse = LIBRARY.decode(q, k, v, return_lse=True)  # the whole cache
        self.assert_decoded(q, k, v, (90, 90, 90), (o, lse))

    def test_decoding_with_sinks(self):
        q, k, v, lengths = self.cache()
        sinks = np.array([5.0, 1.0, 8.0, -4.0], np.float32)
        for splits in (0, 1, 3):
            got = LIBRARY.decode(q, k, v, lengths, splits=splits, sinks=sinks, return_lse=True)
            self.assert_decoded(q, k, v, lengths, got, sinks=sinks, splits=splits)

    def test_programs_of_earlier_versions_decode(self):
        q, k, v, lengths = self.cache()
        now = LIBRARY.decode(q, k, v, lengths)
        fields = flash_attention.DecodeArguments
        for size in (fields.sinks.offset, fields.tree.offset):
            with mock.patch.object(flash_attention.ctypes, "sizeof", return_value=size):
                np.testing.assert_array_equal(LIBRARY.decode(q, k, v, lengths), now)
        with mock.patch.object(flash_attention.ctypes, "sizeof",
                               return_value=fields.tree.offset + 4):
            with self.assertRaisesRegex(ValueError, "arguments of .* bytes"):
                LIBRARY.decode(q, k, v, lengths)

    def test_decoding_a_tree(self):
        q = inputs(batch=2, heads=4, len_q=5)[0]
        k, v = inputs(batch=2, heads=2, len_kv=90)[1:]
        lengths, trees = np.array([50, 90]), np.array([[-1, 0, 0, 1, 1], [-1, -1, 1, 0, 2]])
        masks = np.stack([attention.tree_mask(tree) for tree in trees])
        for tree, each in ((trees, trees), (masks, trees), (trees[0], trees[[0, 0]]),
                           (masks[1], trees[[1, 1]])):
            for options in ({}, {"splits": 3}):
                got = LIBRARY.decode(q, k, v, lengths, return_lse=True, tree=tree, **options)
                self.assert_decoded(q, k, v, lengths, got, trees=each, **options)
        self.assertFalse(np.array_equal(LIBRARY.decode(q, k, v, lengths), got[0]))

        def refused(text, tree, q=q, **options):
            with self.assertRaisesRegex(ValueError, text):
                LIBRARY.decode(q, k, v, lengths, tree=tree, **options)
        refused("expected the parents of 5 new tokens", trees[:, :4])
        refused("expected the parents of 5 new tokens", trees.astype(float))
        refused("expected the parents of 5 new tokens", masks[:1])
        refused("the parent of token 2 must be an earlier token, or -1", [-1, 0, 2, 0, 0])
        refused("the parent of token 0 must be an earlier token, or -1", [-2, 0, 0, 0, 0])
        refused("token 0 must see itself and no later token", masks[0].T)
        refused("token 0 must see itself", masks[0] & ~np.eye(5, dtype=bool))
        refused("expected at most 64, and a causal mask", trees, causal=False)
        with mock.patch.object(flash_attention, "tree_on", lambda *_: np.full((2, 5), 2, np.uint64)):
            refused("tree: new token 0 of sequence 0 does not see itself, or sees a later one", trees)
        refused("a tree of 65 tokens: expected at most 64", [-1] * 65,
                q=inputs(batch=2, heads=4, len_q=65)[0])

    def test_decoding_through_a_table_appends(self):
        q, k, v, lengths = self.cache()
        table = np.full((3, 8), -1, np.int32)  # 16 keys per page, two of the keys are new
        table[0, :4], table[2, :6] = (9, 3, 5, 0), (1, 8, 2, 7, 4, 6)
        pages = [np.full((10, 2, 16, 64), np.nan, np.float32) for _ in "kv"]
        for cache, whole in zip(pages, (k, v)):
            for n in (0, 2):
                for key in range(lengths[n]):
                    row = whole[n, :, key] if key < lengths[n] - 2 else np.nan
                    cache[table[n, key // 16], :, key % 16] = row
        some = [0, 2]
        new = [np.stack([x[n, :, lengths[n] - 2:lengths[n]] for n in some]) for x in (k, v)]
        o, lse = LIBRARY.decode(q[some], *pages, lengths[some] - 2, table[some], *new,
                                return_lse=True)
        self.assert_decoded(q[some], k[some], v[some], lengths[some], (o, lse))
        for cache, whole in zip(pages, (k, v)):
            for n in (0, 2):
                for key in range(lengths[n]):
                    np.testing.assert_array_equal(cache[table[n, key // 16], :, key % 16],
                                                  whole[n, :, key])
        again, _ = LIBRARY.decode(q[some], *pages, lengths[some], table[some], return_lse=True)
        np.testing.assert_array_equal(again, o)

    def test_decoding_reads_a_shared_prefix_once(self):
        q, k, v, lengths = self.cache()
        lengths = np.maximum(lengths, 33)
        for x in (k, v):
            x[:, :, :32] = x[:1, :, :32]
        table = np.array([[9, 3, 5, 0, 10, 11], [9, 3, 12, 13, 14, 15], [9, 3, 2, 7, 4, 6]], np.int32)
        pages = [np.full((16, 2, 16, 64), np.nan, np.float32) for _ in "kv"]
        for cache, whole in zip(pages, (k, v)):
            for n, length in enumerate(lengths):
                for key in range(length):
                    cache[table[n, key // 16], :, key % 16] = whole[n, :, key]
        for splits in (0, 1, 3):
            got = LIBRARY.decode(q, *pages, lengths, table, prefix=32, splits=splits, return_lse=True)
            self.assert_decoded(q, k, v, lengths, got, splits=splits)

        def refused(text, lengths=lengths, table=table, **options):
            with self.assertRaises(ValueError) as caught:
                LIBRARY.decode(q, *pages, lengths, table, **options)
            self.assertIn(text, str(caught.exception))

        refused("a prefix of 24 keys: expected whole pages", prefix=24)
        refused("a prefix of -16 keys", prefix=-16)
        refused("a prefix of 112 keys", prefix=112)
        refused("130 splits: expected at most 128", prefix=16, splits=65)
        refused("129 splits: expected at most 128", splits=129)
        refused("sequence 1: 32 keys, of which the prefix is 32", lengths=[33, 32, 90], prefix=32)
        other = table.copy()
        other[2, 1] = 8
        refused("sequence 2: page 8 of 16, in the prefix", table=other, prefix=32)

    def test_decoding_says_what_is_wrong(self):
        q, k, v, lengths = self.cache()

        def refused(text, *arguments, **options):
            with self.assertRaises(ValueError) as caught:
                LIBRARY.decode(*arguments, **options)
            self.assertIn(text, str(caught.exception))

        refused("expected 3 numbers", q, k, v, lengths[:2])
        refused("expected [3, columns]", q, k, v, lengths, table=[[1]])
        refused("91 keys", q, k, v, [1, 2, 91])
        refused("sequence 0: -1 keys", q, k, v, [-1, 2, 90])
        refused("sequence 1: page 3 of 3", q, k, v, lengths + 1, table=[[0], [3], [1]],
                longest=90)
        refused("give the length of each sequence", q, k, v, k_new=k, v_new=v)
        refused("give both", q, k, v, lengths, k_new=k)
        refused("the new K is", q, k, v, lengths, k_new=k[:1], v_new=v[:1])
        refused("90 keys and 1 new ones", q, k, v, lengths, k_new=k[:, :, :1], v_new=v[:, :, :1])
        refused("batch and dim must be equal", q[:2], k, v, lengths[:2])
        refused("2 does not divide 3", q[:, :3], k, v, lengths)
        refused("multiples of 8", *(x[..., :60] for x in (q, k, v)), lengths)
        refused("layout", q, k, v, lengths, layout="lbhd")
        refused("splits", q, k, v, lengths, splits=-1)

    def test_head_sizes_are_padded(self):
        for dim in (59, 80, 111):
            q, k, v = inputs(dim=dim)
            o = LIBRARY.attention(q, k, v)
            self.assertEqual(o.shape, q.shape)
            self.assert_agrees(q, k, v, o, f"dim {dim}: ")

    def assert_error(self, text, *arguments, **keywords):
        with self.assertRaisesRegex(ValueError, text):
            LIBRARY.attention(*arguments, **keywords)

    def test_out_is_filled_and_returned(self):
        for dim, layout in ((64, "bhld"), (59, "bhld"), (64, "blhd")):
            q, k, v = (x.swapaxes(1, 2) if layout == "blhd" else x for x in inputs(dim=dim))
            expected = LIBRARY.attention(q, k, v, layout=layout)
            for dtype in (np.float32, np.float16, np.float64):
                whole = np.full((2, *q.shape), np.nan, dtype)
                o, lse = LIBRARY.attention(q, k, v, layout=layout, out=whole[1], return_lse=True)
                self.assertIs(o.base, whole)
                np.testing.assert_array_equal(whole[1], expected.astype(dtype))
                self.assertTrue(np.isnan(whole[0]).all() and np.isfinite(lse).all())
        q, k, v = (HostTensor(flash_attention.to_bf16(x)) for x in inputs())
        out = HostTensor(np.full(q.shape, 0x7FC0, np.uint16))
        self.assertIs(LIBRARY.attention(q, k, v, out=out), out)
        np.testing.assert_array_equal(out.bits, LIBRARY.attention(q, k, v).bits)
        q, k, v, lengths = self.cache()
        out = np.full(q.shape, np.nan, np.float32)
        self.assertIs(LIBRARY.decode(q, k, v, lengths, out=out), out)
        np.testing.assert_array_equal(out, LIBRARY.decode(q, k, v, lengths))

    def test_an_out_that_does_not_fit(self):
        q, k, v = inputs()
        for text, out in (("out is .* and q is .*: their shapes must be equal", q[:, :, 1:].copy()),
                          ("out: expected a writable array of", np.zeros(q.shape, np.int32)),
                          ("out: expected a writable array of", np.broadcast_to(q[:, :1], q.shape)),
                          ("out and q must both be", HostTensor(flash_attention.to_bf16(q)))):
            self.assert_error(text, q, k, v, out=out)
            with self.assertRaisesRegex(ValueError, text):
                LIBRARY.decode(q, k, v, out=out)
        bits = np.zeros((1, 2, 70, 32), np.uint16)
        overlapping = HostTensor(np.lib.stride_tricks.as_strided(
            bits, (1, 2, 70, 64), (bits.strides[0], bits.strides[1], 64, 2)))
        repeated = HostTensor(np.broadcast_to(np.zeros((1, 2, 1, 64), np.uint16), q.shape))
        tensors = [HostTensor(flash_attention.to_bf16(x)) for x in (q, k, v)]
        for out in (overlapping, repeated):
            self.assert_error("O is written, and its strides .* put several elements at one place",
                              *tensors, out=out)
            with self.assertRaisesRegex(ValueError, "O is written, and its strides"):
                LIBRARY.decode(*tensors, out=out)

    def test_scales_and_softcaps(self):
        """None selects the newest chapter that supports them, because 07 scales before it takes the
        maximum."""
        q, k, v = inputs()
        for scale in (-0.3, 0.0, -0.0, -1e-30):
            o = LIBRARY.attention(q, k, v, scale=scale)
            np.testing.assert_array_equal(o, LIBRARY.attention(q, k, v, scale=scale, chapter=7))
            agreed, verdict = check.judge(Problem(q, k, v, dtype="bf16", scale=scale), o, None)
            self.assertTrue(agreed, verdict)
        for chapter in CHAPTERS:
            if chapter > 7:
                self.assert_error("needs a positive scale", q, k, v,
                                  scale=-0.3, chapter=chapter)
        self.assert_error("needs a positive scale", q, k, v, scale=-0.3, causal=True)
        wide = np.zeros((1, 1, 8, 257), np.float32)
        self.assert_error("head size 257: ", wide, wide, wide, chapter=9)
        o, lse = LIBRARY.attention(q, k, v, return_lse=True)
        for scale in (1e39, -1e39, 3e38, float("inf"), float("nan")):
            text = f"scale {scale:g}: expected a finite number".replace("+", ".")
            self.assert_error(text, q, k, v, scale=scale)
            with self.assertRaisesRegex(ValueError, text):
                LIBRARY.decode(q, k, v, scale=scale)
            with self.assertRaisesRegex(ValueError, text):
                LIBRARY.backward(o, q, k, v, o, lse, scale=scale)
        for softcap in (1e39, float("inf"), float("nan"), -1.0, 1e-46, 1e-39):
            self.assert_error(f"softcap {softcap:g}: expected 0, for none, or".replace("+", "."), q, k,
                              v, softcap=softcap)

    def test_lengths_that_are_too_large(self):
        """Each raises ValueError before memory of that size is allocated."""
        q, k, v = inputs()
        packed = {"cu_seqlens_q": [0, 30, 70], "cu_seqlens_k": [0, 20, 90]}
        self.assert_error("longest_q 39: sequence 1 has 40 queries", q, k, v, longest_q=39, **packed)
        for longest_q in (71, 10**6, 10**12, 2**62):
            self.assert_error(f"longest_q {longest_q}: expected 0 to 70", q, k, v, longest_q=longest_q,
                              **packed)
        for longest_q in (2**63, 2**64 + 40, -1, 40.5):
            self.assert_error(f"longest_q {longest_q}: expected a whole number from 0", q, k, v,
                              longest_q=longest_q, **packed)
        for end in (71, 10**6, 2**31 - 1):
            self.assert_error("cu_seqlens_q: expected numbers that ascend from 0 to 70", q, k, v,
                              cu_seqlens_q=[0, 30, end], cu_seqlens_k=[0, 20, 90])
            self.assert_error("cu_seqlens_k: expected numbers that ascend from 0 to 90", q, k, v,
                              cu_seqlens_q=[0, 30, 70], cu_seqlens_k=[0, 20, max(end, 91)])
        for end in (2**31, 2**32 + 70, 2**70, 70.5):
            self.assert_error("cu_seqlens: expected whole numbers of 32 bits", q, k, v,
                              cu_seqlens_q=[0, 30, end], cu_seqlens_k=[0, 20, 90])
        for name in ("chapter", "option"):
            self.assert_error(f"{name} {2**32 + 3}: expected a whole number", q, k, v,
                              **{name: 2**32 + 3})
        q, k, v, lengths = self.cache()
        table = np.arange(3, dtype=np.int32)[:, None]
        for more in ({}, {"table": table}):
            for too_large in (91, 10**6, 10**9, 2**31 - 1):
                with self.assertRaisesRegex(ValueError, f"{too_large} keys: .*room for 90"):
                    LIBRARY.decode(q, k, v, [50, 0, too_large], **more)
                with self.assertRaisesRegex(ValueError, f"{too_large} keys: .*room for 90"):
                    LIBRARY.decode(q, k, v, lengths, longest=too_large, **more)
            for too_large in (2**31, 2**32 + 5, 2**70):
                with self.assertRaisesRegex(ValueError, "lengths: expected whole numbers of 32 bits"):
                    LIBRARY.decode(q, k, v, [50, 0, too_large], **more)
                for name in ("longest", "splits", "prefix"):
                    with self.assertRaisesRegex(ValueError, f"{name} {too_large}: expected a whole"):
                        LIBRARY.decode(q, k, v, lengths, **{name: too_large}, **more)
            with self.assertRaisesRegex(ValueError, "sequence 2: 90 keys, but longest is 60"):
                LIBRARY.decode(q, k, v, lengths, longest=60, **more)
        with self.assertRaisesRegex(ValueError, "2147483647 splits: expected at most 128"):
            LIBRARY.decode(q, k, v, lengths, splits=2**31 - 1)
        with self.assertRaisesRegex(ValueError, "table: expected whole numbers of 32 bits"):
            LIBRARY.decode(q, k, v, lengths, table.astype(np.int64) + 2**32)

    def test_errors_are_sentences(self):
        q, k, v = inputs()
        self.assert_error("chapter 117: the FP8 kernel is chapter 23 now$", q, k, v, chapter=117)
        self.assert_error(f"chapter 2: this library has {', '.join(map(str, CHAPTERS))}$", q, k, v,
                          chapter=2)
        self.assert_error("head size 80: .* takes 64 and 128", *inputs(dim=80), chapter=8)
        self.assert_error("head size 264: .* multiples of 8 up to 256", *inputs(dim=264))
        self.assert_error("every size must be at least 1", *inputs(len_kv=0))
        self.assert_error("every size must be at least 1", *inputs(dim=0))
        self.assert_error("ch08 takes no causal mask", q, k, v, causal=True, chapter=8)
        self.assert_error("ch08 takes no sliding window", q, k, v, window=(8, 0), chapter=8)
        self.assert_error("ch08 takes no log-sum-exp", q, k, v, return_lse=True, chapter=8)
        self.assert_error("ch08 takes no grouped heads", q, k[:, :1], v[:, :1], chapter=8)
        self.assert_error("3 heads of K and V, because 3 does not divide 2", q,
                          *(x.repeat(3, 1)[:, :3] for x in (k, v)))
        self.assert_error("K is .* and V is .*: their shapes must be equal", q, k, v[:, :, 1:])
        self.assert_error("k has 3 dimensions, expected 4", q, k[0], v[0])
        self.assert_error("window -2,0", q, k, v, window=(-2, 0))
        self.assert_error("layout 'bld'", q, k, v, layout="bld")
        self.assert_error("window 0,9223372036854775808", q, k, v, window=(0, 2**63))
        self.assert_error("v and q must both be", q, k, HostTensor(flash_attention.to_bf16(v)))

    def test_a_child_of_fork_runs_and_ends(self):
        # The parent's threads do not exist in the child, so waiting for them would never end.
        script = """if True:
            import os, sys, threading
            sys.path.insert(0, sys.argv[1])
            import flash_attention, numpy as np
            library = flash_attention.load(sys.argv[2])
            q = np.ones((1, 4, 300, 64), np.float32)  # 20 blocks: more than one thread
            expected = library.attention(q, q, q)
            child = os.fork()
            same = np.array_equal(library.attention(q, q, q), expected)
            if child == 0:
                sys.exit(0 if same else 3)  # exit instead of _exit, so that destructors run
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or (0 if same else 4))
            """
        child = subprocess.run([sys.executable, "-c", script, HERE, PATH], timeout=60,
                               env={**os.environ, "FA_THREADS": "4"})
        self.assertEqual(child.returncode, 0)

    def test_exports_its_own_functions_only(self):
        listing = subprocess.run(["nm", "-D", "--defined-only", PATH], check=True,
                                 capture_output=True, text=True).stdout
        self.assertEqual(sorted(line.split()[-1] for line in listing.splitlines()),
                         ["flash_attention", "flash_attention_backward",
                          "flash_attention_backward_workspace", "flash_attention_decode",
                          "flash_attention_decode_workspace", "flash_attention_error",
                          "flash_attention_forward", "flash_attention_mma_limit",
                          "flash_attention_workspace"])


@unittest.skipUnless(torch, "no PyTorch")
class TestTorch(unittest.TestCase):
    """Tests torch.autograd on a GPU if there is one, else on the emulator."""

    def setUp(self):
        warnings.simplefilter("ignore")  # warnings of PyTorch
        torch.manual_seed(3)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"

    def plain(self, q, k, v, causal):
        """Returns the formula for [B,H,L,D] in the type of the tensors, with the softmax at least
        in fp32."""
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
        s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        if causal:
            s = s.masked_fill(torch.ones_like(s[0, 0], dtype=torch.bool).triu(
                k.shape[2] - q.shape[2] + 1), float("-inf"))
        return torch.softmax(s.to(torch.promote_types(s.dtype, torch.float32)), -1).to(s.dtype) @ v

    def test_gradients_against_float64(self):
        for layout, dim, causal in (("bhld", 64, False), ("blhd", 128, True), ("blhd", 40, True)):
            draw = lambda heads, length: torch.randn(2, heads, length, dim).bfloat16().to(self.device)
            values = draw(4, 70), draw(2, 90), draw(2, 90)
            do = draw(4, 70)
            swap = (lambda x: x.transpose(1, 2)) if layout == "blhd" else (lambda x: x)

            def gradients_of(attend, dtype=torch.bfloat16, swap=lambda x: x):
                leaves = [swap(x.to(dtype)).clone().requires_grad_() for x in values]
                o = attend(*leaves)
                return [swap(x).double() for x in torch.autograd.grad(o, leaves, swap(do.to(dtype)))]
            ours = gradients_of(lambda *x: LIBRARY.differentiable_attention(
                *x, causal=causal, layout=layout, deterministic=True), swap=swap)
            plain = gradients_of(lambda *x: self.plain(*x, causal))
            exact = gradients_of(lambda *x: self.plain(*x, causal), torch.float64)
            for got, rough, right in zip(ours, plain, exact):
                error = float((got - right).abs().max())
                allowed = 2 * float((rough - right).abs().max())
                self.assertTrue(error <= allowed, f"{layout} {dim}: {error} > {allowed}")

    def test_a_layer_learns_the_same(self):
        length, width, heads = 48, 64, 2
        x = torch.randn(2, length, width).to(self.device, torch.bfloat16)
        target = torch.roll(x, 1, dims=1)  # each token must find the token before it
        start = [torch.randn(width, n, generator=torch.Generator().manual_seed(n)) * width ** -0.5
                 for n in (6 * width, 2 * width)]

        def train(attend):
            weights = [w.to(self.device).requires_grad_() for w in (start[0], start[1].T.contiguous())]
            losses, first = [], None
            for _ in range(12):
                q, k, v = ((x @ weights[0].bfloat16()).view(2, length, 3, heads, width)
                           .permute(2, 0, 3, 1, 4).unbind())
                o = attend(q, k, v).transpose(1, 2).reshape(2, length, heads * width)
                loss = ((o @ weights[1].bfloat16()).float() - target.float()).square().mean()
                found = torch.autograd.grad(loss, weights)
                first = first or [g.clone() for g in found]
                with torch.no_grad():
                    for w, g in zip(weights, found):
                        w -= 2.0 * g
                losses.append(float(loss))
            return losses, first
        ours, our_first = train(lambda *x: LIBRARY.differentiable_attention(*x, causal=True))
        theirs, their_first = train(lambda *x: torch.nn.functional.scaled_dot_product_attention(
            *x, is_causal=True))
        for a, b in zip(our_first, their_first):
            self.assertTrue(float((a - b).norm()) <= 0.02 * float(b.norm()))
        self.assertTrue(ours[-1] < 0.98 * ours[0], ours)
        for a, b in zip(ours, theirs):
            self.assertTrue(abs(a - b) <= 0.01 * b, (ours, theirs))


if __name__ == "__main__":
    unittest.main()
