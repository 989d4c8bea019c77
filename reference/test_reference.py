"""Tests of the NumPy reference, that is, of the answers, the golden cases, and a checker that wrong results
must not pass.

    cd reference && python3 -W error -m unittest -q test_reference
"""

import contextlib
import functools
import io
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from fractions import Fraction
from pathlib import Path

import numpy as np

import attention
import check
from check import largest
import make_cases
import mistakes
from problem import BadInput, Problem

HERE = Path(__file__).resolve().parent


def get_slopes(heads):
    """The algorithm of ALiBi's authors, where heads above a power of two use half of the next power's
    slopes."""
    if heads & (heads - 1) == 0:
        return [2 ** (-8 * (h + 1) / heads) for h in range(heads)]
    power = 1 << heads.bit_length() - 1
    return get_slopes(power) + get_slopes(2 * power)[::2][:heads - power]


def scalar_attention(q, k, v, scale, causal, window=(-1, -1), softcap=0.0, slope=0.0):
    """One head, one number at a time, with exactly rounded sums. It shares no code with the
    module."""
    o, lse = [], []
    left, right = window
    for i, q_row in enumerate(q.tolist()):
        s, seen = [], []
        for j, (k_row, v_row) in enumerate(zip(k.tolist(), v.tolist())):
            beyond = j - (i + len(k) - len(q))  # the diagonal
            if ((causal and beyond > 0) or (right >= 0 and beyond > right)
                    or (left >= 0 and -beyond > left)):
                continue
            score = scale * math.fsum(a * b for a, b in zip(q_row, k_row))
            if softcap:
                score = softcap * math.tanh(score / softcap)
            s.append(score - slope * abs(beyond))
            seen.append(v_row)
        if not s:
            o.append([0.0] * v.shape[1])
            lse.append(-math.inf)
            continue
        m = max(s)
        p = [math.exp(x - m) for x in s]
        l = math.fsum(p)
        o.append([math.fsum(w * row[d] for w, row in zip(p, seen)) / l for d in range(v.shape[1])])
        lse.append(m + math.log(l))
    return np.array(o), np.array(lse)


def tree_attention(q, k, v, scale, parents):
    """One head whose last len(q) keys are a tree: each query has the sequence of its own branch."""
    rows = []
    for token in range(len(q)):
        path, at = [], token
        while at >= 0:
            path.insert(0, len(k) - len(q) + at)
            at = parents[at]
        keys = [*range(len(k) - len(q)), *path]
        rows.append(scalar_attention(q[token:token + 1], k[keys], v[keys], scale, True))
    return tuple(np.concatenate(x) for x in zip(*rows))


def random_inputs(shape, seed=0, q_scale=1.0):
    batch, heads, len_q, len_kv, dim = shape
    random = np.random.default_rng(seed)
    return tuple(random.normal(0.5, 1.0, (batch, heads, length, dim)) * factor
                 for length, factor in ((len_q, q_scale), (len_kv, 1.0), (len_kv, 1.0)))


def flash_in(dtype, q, k, v, scale=None, causal=False, tile=16, window=(-1, -1), softcap=0.0,
             slope=0.0):
    """Computes what a correct kernel in `dtype` computes: fp32 state, P rounded for the second
    product, O divided once at the end. Every sum is sequential, which is the worst order."""
    q, k, v = (attention.round_to(x, dtype).astype(np.float32) for x in (q, k, v))
    len_q, len_kv, dim = q.shape[-2], k.shape[-2], q.shape[-1]
    scale = np.float32(1 / np.sqrt(dim) if scale is None else scale)
    s = np.zeros(q.shape[:-1] + (len_kv,), np.float32)
    for d in range(dim):
        s += q[..., :, None, d] * k[..., None, :, d]
    s *= scale
    beyond = np.arange(len_kv) - np.arange(len_q)[:, None] - (len_kv - len_q)  # the diagonal
    if softcap:
        s = np.float32(softcap) * np.tanh(s / np.float32(softcap))
    s -= np.asarray(slope, np.float32) * np.abs(beyond).astype(np.float32)
    left, right = window
    s[..., (beyond > (0 if causal else right if right >= 0 else np.inf))
      | (-beyond > (left if left >= 0 else np.inf))] = -np.inf
    m = np.full(q.shape[:-1], -np.inf, np.float32)
    l, o = np.zeros_like(m), np.zeros_like(q)
    for j in range(0, len_kv, tile):
        m_new = np.maximum(m, s[..., j:j + tile].max(-1))
        shift = np.where(m_new == -np.inf, np.float32(0), m_new)
        l *= np.exp(m - shift)
        o *= np.exp(m - shift)[..., None]
        for n in range(j, min(j + tile, len_kv)):
            p = np.exp(s[..., n] - shift)
            l += p
            o += attention.round_to(p, dtype)[..., None] * v[..., None, n, :]
        m = m_new
    l = np.where(m == -np.inf, np.float32(1), l)
    return attention.round_to(o / l[..., None], dtype), m + np.log(l)


def with_sink(o, lse, sink):
    """Adds a sink to rows that were computed without one."""
    both = np.logaddexp(lse, sink)
    return o * np.exp(lse - np.where(both == -np.inf, 0, both))[:, None], both


class ForwardPasses(unittest.TestCase):
    SHAPES = [(1, 1, 1, 1, 1), (1, 2, 1, 9, 5), (2, 1, 9, 1, 3), (1, 2, 17, 23, 5),
              (1, 1, 23, 17, 8)]

    def test_all_agree_with_one_number_at_a_time(self):
        for shape in self.SHAPES:
            for causal in (False, True):
                for scale in (None, 0.7, -0.3, 0.0):
                    q, k, v = random_inputs(shape)
                    used = 1 / math.sqrt(shape[-1]) if scale is None else scale
                    for name, forward in attention.FORWARD.items():
                        o, lse = forward(q, k, v, scale, causal)
                        self.assertEqual((o.dtype, lse.dtype), (np.float64, np.float64))
                        for b, h in np.ndindex(shape[:2]):
                            want_o, want_lse = scalar_attention(q[b, h], k[b, h], v[b, h], used,
                                                                causal)
                            with self.subTest(shape=shape, causal=causal, scale=scale, name=name):
                                np.testing.assert_allclose(o[b, h], want_o, rtol=0, atol=1e-13)
                                np.testing.assert_allclose(lse[b, h], want_lse, rtol=0, atol=1e-13)

    def test_ladder_of_one_to_six(self):
        x = v = np.arange(1.0, 7.0)
        for softmax in (attention.softmax_native, attention.softmax_safe, attention.softmax_online):
            a = softmax(x)
            self.assertEqual([f"{p:.4f}" for p in a],
                             ["0.0043", "0.0116", "0.0315", "0.0858", "0.2331", "0.6337"])
            self.assertEqual(f"{a @ v:.4f}", "5.4329")
        for forward in attention.FORWARD.values():
            o, _ = forward(np.ones((1, 1)), x[:, None], v[:, None], scale=1.0)
            self.assertEqual(f"{o[0, 0]:.4f}", "5.4329")

    def test_rows_without_a_visible_key(self):
        q, k, v = random_inputs((1, 2, 12, 5, 4))
        for name, forward in attention.FORWARD.items():
            with self.subTest(name):
                o, lse = forward(q, k, v, causal=True)
                self.assertTrue((o[:, :, :7] == 0).all() and (lse[:, :, :7] == -np.inf).all())
                self.assertTrue((o[:, :, 7:] != 0).all() and np.isfinite(lse[:, :, 7:]).all())

    def test_a_row_sum_of_zero_shows(self):
        """l = 0 with a finite maximum is an error of the caller, so 0/0 must stay NaN."""
        with np.errstate(divide="ignore", invalid="ignore"):
            o, lse = attention._finish(np.array([0.0, -np.inf]), np.zeros(2), np.zeros((2, 3)))
        self.assertTrue(np.isnan(o[0]).all() and (o[1] == 0).all() and lse[1] == -np.inf)

    def test_nan_is_not_taken_for_a_row_without_keys(self):
        q, k, v = random_inputs((1, 1, 3, 4, 2))
        q[0, 0, 1, 0] = np.nan
        for name, forward in attention.FORWARD.items():
            with self.subTest(name), np.errstate(invalid="ignore"):
                o, lse = forward(q, k, v)
                self.assertTrue(np.isnan(o[0, 0, 1]).all() and np.isnan(lse[0, 0, 1]))
                self.assertTrue(np.isfinite(o[0, 0, [0, 2]]).all())

    def test_one_head_as_matrix(self):
        q, k, v = random_inputs((1, 1, 7, 9, 3))
        for forward in attention.FORWARD.values():
            o, lse = forward(q[0, 0], k[0, 0], v[0, 0], causal=True)
            np.testing.assert_allclose(o, attention.safe(q, k, v, causal=True).o[0, 0], atol=1e-13)
            self.assertEqual(lse.shape, (7,))

    def test_large_and_very_negative_scores(self):
        for sign in (1, -1):
            q, k, v = (np.full((3, 2), 20.0), sign * np.full((4, 2), 40.0) +
                       np.arange(8.0).reshape(4, 2), np.arange(8.0).reshape(4, 2))
            want = scalar_attention(q, k, v, 1.0, False)[0]
            for name, forward in attention.FORWARD.items():
                with self.subTest(name=name, sign=sign):
                    o = forward(q, k, v, 1.0).o
                    # exp(score) is infinite or 0 here, so the 0/0 must be visible
                    if name == "naive":
                        self.assertTrue(np.isnan(o).all())
                    else:
                        np.testing.assert_allclose(o, want, atol=1e-12)

    def test_tile_sizes(self):
        q, k, v = random_inputs((1, 2, 33, 70, 6))
        for causal in (False, True):
            want = attention.safe(q, k, v, causal=causal)
            for block_q, block_kv in ((1, 1), (7, 5), (16, 64), (64, 16), (128, 128)):
                o, lse = attention.tiled(q, k, v, None, causal, block_q, block_kv)
                np.testing.assert_allclose(o, want.o, atol=1e-13)
                np.testing.assert_allclose(lse, want.lse, atol=1e-13)

    def test_row_blocks_cover_every_row_once_within_the_limit(self):
        for len_q, len_kv in ((1, 1), (37, 50), (50, 37), (50, 1)):
            q, k, v = random_inputs((1, 1, len_q, len_kv, 4))
            for window in ((-1, -1), (-1, 0), (3, -1), (7, 2), (0, 0), (-1, 9), (99, 99)):
                want = attention.safe(q, k, v, window=window)
                o = np.full_like(want.o, np.nan)
                for rows, keys, offset in attention.row_blocks(len_q, len_kv, window,
                                                               max_scores=200):
                    self.assertTrue(np.isnan(o[:, :, rows]).all())
                    self.assertLessEqual((rows.stop - rows.start) * (keys.stop - keys.start), 200)
                    if min(window) >= 0:
                        self.assertLessEqual(keys.stop - keys.start,
                                             rows.stop - rows.start + sum(window))
                    o[:, :, rows] = attention.safe(q[:, :, rows], k[:, :, keys], v[:, :, keys],
                                                   window=window, offset=offset).o
                np.testing.assert_allclose(o, want.o, atol=1e-13)


class MasksAndShapes(unittest.TestCase):
    MODIFIERS = [{}, {"causal": True}, {"window": (3, 4)}, {"window": (0, 0)}, {"window": (5, -1)},
                 {"window": (-1, 2)}, {"window": (4, 9), "causal": True}, {"softcap": 0.8},
                 {"slope": 0.3}, {"softcap": 0.8, "slope": 0.3, "window": (2, 0)}]
    CU_Q, CU_K = (0, 3, 3, 4, 13, 20), (0, 5, 9, 9, 17, 20)  # no query, no key, or more of either

    def packed_inputs(self):
        q, _, _ = random_inputs((1, 4, 20, 1, 6))
        _, k, v = random_inputs((1, 2, 1, 20, 6), seed=1)
        return q, k, v

    def assert_same(self, got, want):
        np.testing.assert_allclose(got.o, want.o, rtol=0, atol=1e-13)
        np.testing.assert_allclose(got.lse, want.lse, rtol=0, atol=1e-13)

    def test_all_agree_with_one_number_at_a_time(self):
        for shape in ((1, 2, 9, 14, 5), (1, 1, 14, 9, 5), (1, 1, 1, 12, 3), (1, 1, 9, 1, 3)):
            q, k, v = random_inputs(shape)
            for modifiers in self.MODIFIERS:
                want = [scalar_attention(q[0, h], k[0, h], v[0, h], 0.7,
                                         **{"causal": False, **modifiers})
                        for h in range(shape[1])]
                for name, forward in attention.FORWARD.items():
                    with self.subTest(shape=shape, name=name, **modifiers):
                        got = forward(q, k, v, 0.7, **modifiers)
                        self.assert_same(got, attention.Attention(
                            *(np.stack(x)[None] for x in zip(*want))))

    def test_modifiers_of_each_head_differ(self):
        q, k, v = random_inputs((1, 4, 9, 14, 5))
        got = attention.general(q, k, v, alibi=True, scale=1.0)
        for h, slope in enumerate((1 / 4, 1 / 16, 1 / 64, 1 / 256)):
            want = scalar_attention(q[0, h], k[0, h], v[0, h], 1.0, False, slope=slope)
            np.testing.assert_allclose(got.o[0, h], want[0], atol=1e-13)
        self.assertEqual(attention.alibi_slopes(8)[0], 0.5)
        self.assertEqual(list(attention.alibi_slopes(6)), [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8])
        for heads in range(1, 41):
            np.testing.assert_allclose(attention.alibi_slopes(heads), get_slopes(heads), rtol=1e-15)

    def test_windows_without_limits_and_causal_ones(self):
        q, k, v = random_inputs((1, 2, 15, 11, 4))
        none, causal = attention.safe(q, k, v), attention.safe(q, k, v, causal=True)
        self.assert_same(attention.safe(q, k, v, window=(-1, -1)), none)
        self.assert_same(attention.safe(q, k, v, window=(15, 15)), none)
        self.assert_same(attention.safe(q, k, v, window=(-1, 0)), causal)
        for right in (-1, 0, 7):
            self.assert_same(attention.safe(q, k, v, causal=True, window=(-1, right)), causal)
        self.assertFalse(np.allclose(causal.o, none.o))

    def test_softcap_that_is_large_is_none(self):
        q, k, v = random_inputs((1, 2, 15, 11, 4))
        none = attention.safe(q, k, v).o
        np.testing.assert_allclose(attention.safe(q, k, v, softcap=1e6).o, none, atol=1e-9)
        self.assertFalse(np.allclose(attention.safe(q, k, v, softcap=1.0).o, none, atol=1e-2))

    def test_a_sink_is_a_key_without_a_value(self):
        q, k, v = random_inputs((2, 3, 17, 12, 5))
        sinks = np.array([2.0, -np.inf, 60.0])
        for options in ({}, {"causal": True}, {"window": (3, 1), "softcap": 2.0}):
            s = attention.scores(q, k, **options)
            column = np.broadcast_to(sinks[:, None, None], (*s.shape[:-1], 1))
            zero = np.zeros((*v.shape[:-2], 1, v.shape[-1]))
            want = attention.attend(np.concatenate([column, s], -1), np.concatenate([zero, v], -2))
            for name, forward in attention.FORWARD.items():
                with self.subTest(name, **options):
                    got = attention.general(q, k, v, forward, sinks=sinks, **options)
                    self.assert_same(got, want)
            none = attention.general(q, k, v, sinks=np.full(3, -np.inf), **options)
            self.assert_same(none, attention.general(q, k, v, **options))
        self.assertTrue((want.o[:, 2] < 1e-20).all() and (want.lse[:, 2] == 60).all())

    def test_a_tree_is_a_sequence_per_branch(self):
        for parents in ((-1, 0, 0, 1, 1), (-1, -1, -1), (-1, 0, 1, 1, 0, 4, 5), (-1,)):
            q, k, v = random_inputs((1, 2, len(parents), 11, 5))
            for name, forward in attention.FORWARD.items():
                options = {"block_q": 2, "block_kv": 3} if name == "tiled" else {}
                with self.subTest(name, parents=parents):
                    got = forward(q, k, v, causal=True, tree=attention.tree_mask(parents), **options)
                    for h in range(2):
                        want = tree_attention(q[0, h], k[0, h], v[0, h], 5 ** -0.5, parents)
                        self.assert_same(attention.Attention(got.o[0, h], got.lse[0, h]),
                                         attention.Attention(*want))
        q, k, v = random_inputs((2, 3, 6, 17, 4))
        masks = np.stack([attention.tree_mask(tree) for tree in ((-1, 0, 0, 0, 3, 3), range(-1, 5))])
        got = attention.safe(q, k, v, causal=True, tree=masks[:, None])
        for one, options in enumerate(({"tree": masks[0]}, {})):  # a chain is the causal mask
            want = attention.safe(q[one], k[one], v[one], causal=True, **options)
            self.assert_same(attention.Attention(got.o[one], got.lse[one]), want)
        self.assertFalse(np.allclose(got.o[0], attention.safe(q[0], k[0], v[0], causal=True).o))

    def test_grouped_heads_are_repeated_heads(self):
        q, _, _ = random_inputs((2, 6, 9, 1, 4))
        for kv_heads in (1, 2, 3, 6):
            _, k, v = random_inputs((2, kv_heads, 1, 11, 4))
            got = attention.general(q, k, v, causal=True)
            for h in range(6):
                self.assert_same(
                    attention.Attention(got.o[:, h], got.lse[:, h]),
                    attention.safe(q[:, h], k[:, h * kv_heads // 6], v[:, h * kv_heads // 6],
                                   causal=True))

    def test_packed_sequences_are_problems_of_their_own(self):
        q, k, v = self.packed_inputs()
        for modifiers in self.MODIFIERS:
            for forward in (attention.safe, attention.tiled):
                got = attention.general(q, k, v, forward, cu_seqlens_q=self.CU_Q,
                                        cu_seqlens_k=self.CU_K, **modifiers)
                self.assertEqual((got.o.shape, got.lse.shape), ((1, 4, 20, 6), (1, 4, 20)))
                for n in range(5):
                    rows, keys = slice(*self.CU_Q[n:n + 2]), slice(*self.CU_K[n:n + 2])
                    for h in range(4):
                        want = attention.Attention(np.zeros((0, 6)), np.zeros(0))
                        if rows.stop > rows.start:
                            want = attention.Attention(*scalar_attention(
                                q[0, h, rows], k[0, h // 2, keys], v[0, h // 2, keys],
                                6**-0.5, **{"causal": False, **modifiers}))
                        self.assert_same(attention.Attention(got.o[0, h, rows],
                                                             got.lse[0, h, rows]), want)
        self.assertTrue((got.o[:, :, 3] == 0).all() and (got.lse[:, :, 3] == -np.inf).all())

    def test_a_poisoned_neighbour_is_not_read(self):
        q, k, v = self.packed_inputs()
        lengths = {"cu_seqlens_q": self.CU_Q, "cu_seqlens_k": self.CU_K}
        right = attention.general(q, k, v, attention.tiled, **lengths)
        for x in (q[:, :, 4:13], k[:, :, 9:17], v[:, :, 9:17]):
            x[:] = np.nan
        with np.errstate(invalid="ignore"):
            poisoned = attention.general(q, k, v, attention.tiled, **lengths)
        clean = np.r_[0:4, 13:20]
        self.assertTrue((poisoned.o[:, :, clean] == right.o[:, :, clean]).all())
        self.assertTrue(np.isnan(poisoned.o[:, :, 4:13]).all())

    def test_states_merge_by_their_lse(self):
        q, k, v = random_inputs((1, 2, 15, 30, 4))
        for modifiers in ({}, {"window": (9, 4)}, {"causal": True, "softcap": 1.0}):
            whole = attention.safe(q, k, v, **modifiers)
            parts = [attention.safe(q, k[:, :, keys], v[:, :, keys], offset=15 - keys.start,
                                    **modifiers)
                     for keys in (slice(0, 7), slice(7, 8), slice(8, 30))]
            weights = [np.exp(part.lse - whole.lse) for part in parts]
            np.testing.assert_allclose(sum(weights), 1, atol=1e-13)
            np.testing.assert_allclose(sum(w[..., None] * part.o for w, part in zip(weights, parts)),
                                       whole.o, atol=1e-13)

    def test_hidden_keys_are_hidden_before_and_after_softcap(self):
        """A softcap after the mask would turn masked keys into scores of -softcap."""
        q, k, v = random_inputs((1, 1, 20, 8, 4))
        o, lse = attention.safe(q, k, v, causal=True, softcap=0.1)
        self.assertTrue((o[:, :, :12] == 0).all() and (lse[:, :, :12] == -np.inf).all())

    def test_plain_attention_takes_them_too(self):
        q, k, v = random_inputs((1, 4, 20, 30, 8))
        for modifiers in self.MODIFIERS:
            got = attention.plain(q, k, v, "f32", **modifiers)
            want = attention.safe(q, k, v, **modifiers)
            self.assertEqual((got.o.dtype, got.lse.dtype), (np.float32, np.float32))
            np.testing.assert_allclose(got.o, want.o, atol=1e-5)
            np.testing.assert_allclose(got.lse, want.lse, atol=1e-5)


class Rounding(unittest.TestCase):
    def test_bf16_values_stay(self):
        bits = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
        values = bits.view(np.float32)
        rounded = attention.round_bf16(values)
        self.assertTrue(np.isnan(rounded[np.isnan(values)]).all())
        kept = ~np.isnan(values)
        self.assertTrue((rounded[kept].view(np.uint32) == bits[kept]).all())

    def test_bf16_to_nearest_ties_to_even(self):
        """Compares with exact fractions around each midpoint of adjacent values."""
        random = np.random.default_rng(0)
        for upper in [0x0000, 0x0001, 0x007F, 0x0080, 0x3F80, 0x3F81, 0x7F7E] + list(
                random.integers(0, 0x7F7F, 200)):
            low, high = (struct.unpack("<f", struct.pack("<I", (int(upper) + step) << 16))[0]
                         for step in (0, 1))
            for lower in (0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF):
                x = struct.unpack("<f", struct.pack("<I", (int(upper) << 16) + lower))[0]
                below, above = Fraction(x) - Fraction(low), Fraction(high) - Fraction(x)
                want = low if below < above or (below == above and upper % 2 == 0) else high
                for sign in (1, -1):
                    got = attention.round_bf16(np.float32(sign * x))
                    self.assertEqual(float(got), sign * want, hex((int(upper) << 16) + lower))

    def test_bf16_specials(self):
        nan_that_would_carry = np.array([0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001], np.uint32)
        self.assertTrue(np.isnan(attention.round_bf16(nan_that_would_carry.view(np.float32))).all())
        largest = np.finfo(np.float32).max
        got = attention.round_bf16(np.array([np.inf, -np.inf, largest, -largest]))
        self.assertEqual(list(got), [np.inf, -np.inf, np.inf, -np.inf])
        self.assertEqual(attention.round_bf16(np.float64(1e300)), np.inf)

    def test_f16(self):
        got = attention.round_to(np.array([1e5, 65504, 65519.9, 65520, 2048.5, 2049.0, 2051.0]),
                                 "f16")
        self.assertEqual(list(got), [np.inf, 65504, 65504, np.inf, 2048, 2048, 2052])

    def test_ulp(self):
        for dtype, one, smallest in (("bf16", 2.0**-7, 2.0**-133), ("f16", 2.0**-10, 2.0**-24),
                                     ("f32", 2.0**-23, 2.0**-149), ("f64", 2.0**-52, 2.0**-1074)):
            self.assertEqual(attention.ulp(1.0, dtype), one)
            self.assertEqual(attention.ulp(1.999, dtype), one)
            self.assertEqual(attention.ulp(2.0, dtype), 2 * one)
            self.assertEqual(attention.ulp(0.0, dtype), smallest)
        for x in (1.0, 1.5, 3.0, 1e-3, 500.0):
            self.assertEqual(attention.ulp(x, "f32"), np.spacing(np.float32(x)))
            self.assertEqual(attention.ulp(x, "f16"), np.spacing(np.float16(x)))

    def test_plain_attention_rounds_where_it_says(self):
        """One query and two keys by hand, where P and O are rounded, and S is not."""
        q, k, v = np.array([[1.0]]), np.array([[1.01], [0.0]]), np.array([[3.0], [1.0]])
        bf16 = attention.round_bf16
        s = bf16(np.float32(1.01)) * np.float32(0.9)
        p = np.exp(np.array([0, -s], np.float32))
        p = bf16(p / p.sum())
        want = bf16(p[0] * np.float32(3) + p[1])
        got = attention.plain(q, k, v, "bf16", 0.9)
        self.assertEqual(got.o[0, 0], want)
        self.assertNotEqual(float(want), float(attention.safe(q, k, v, 0.9).o[0, 0]))
        q, k, v = (bf16(x) for x in random_inputs((1, 1, 40, 60, 64), q_scale=30.0))
        exact = attention.safe(q, k, v)
        self.assertGreater(largest(np.abs(exact.lse)), 200)
        self.assertLess(largest(attention.plain(q, k, v, "bf16").lse - exact.lse), 1e-4)


class GoldenCases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.out = Path(folder.name) / "golden"
        cls.make(cls.out)

    @staticmethod
    def make(out):
        subprocess.run([sys.executable, "-W", "error", "-B", str(HERE / "make_cases.py"), "--out",
                        str(out)], check=True)

    def test_list_and_folders_agree(self):
        names = [name for list_name in ("cases", "masks_and_shapes", "sinks", "trees")
                 for name in json.loads((self.out / f"{list_name}.json").read_text())]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(sorted(names + ["backward", "verdicts"]),
                         sorted(p.name for p in self.out.iterdir() if p.is_dir()))
        self.assertGreater(len(names), 20)
        self.assertLess(sum(p.stat().st_size for p in self.out.rglob("*")), 1.8e7)

    def test_what_the_cases_cover(self):
        cases = [json.loads(p.read_text()) for p in self.out.glob("*/case.json")]
        shapes = [case["shape"] for case in cases]
        self.assertEqual({case["dtype"] for case in cases}, {"f64", "f32", "f16", "bf16"})
        self.assertTrue({1, 5, 64, 80, 128, 256} <= {shape["dim"] for shape in shapes})
        self.assertTrue(any(c["causal"] and c["shape"]["q"] > c["shape"]["kv"] for c in cases))
        self.assertTrue(any(c["causal"] and c["shape"]["q"] < c["shape"]["kv"] for c in cases))
        self.assertTrue(any(s["batch"] > 1 and s["heads"] > 1 for s in shapes))

    def test_options_stand_where_they_are_used_and_nowhere_else(self):
        known = {"name", "shape", "causal", "scale", "dtype"}
        options = {"kv_heads", "window", "softcap", "alibi", "cu_seqlens_q", "cu_seqlens_k"}
        seen = {}
        for name in json.loads((self.out / "cases.json").read_text()):
            case = json.loads((self.out / name / "case.json").read_text())
            self.assertEqual(set(case), known)
        for name in json.loads((self.out / "masks_and_shapes.json").read_text()):
            case = json.loads((self.out / name / "case.json").read_text())
            self.assertTrue(known <= set(case) <= known | options)
            self.assertEqual("cu_seqlens_q" in case, "cu_seqlens_k" in case)
            for option in set(case) - known:
                seen.setdefault(option, set()).add(case["dtype"])
            rows = np.load(self.out / name / "lse.npy")
            seen.setdefault("rows without keys", set()).add(bool(np.isinf(rows).any()))
        self.assertEqual(set(seen), options | {"rows without keys"})
        self.assertEqual(seen["rows without keys"], {False, True})
        for option in options - {"alibi"}:
            self.assertTrue({"bf16", "f16"} & seen[option], option)

    def test_verdicts_are_what_they_must_be(self):
        """Lists for each case and output whether it is right, wrong, or wrong but not visible."""
        wrong = dict.fromkeys(
            ("times_1.08", "three_rows_plus_1", "one_zero", "one_nan", "one_infinite", "all_lean",
             "next_query", "not_rescaled", "tail", "lse_nan", "lse_0", "lse_base_2",
             "lse_lost_a_key"), "wrong")
        expected = dict(wrong, exact="agreed", plain="agreed")
        invisible = dict.fromkeys(expected, "inconclusive")
        invisible.update(dict.fromkeys(("one_nan", "one_infinite", "lse_nan", "lse_0",
                                        "lse_base_2"), "wrong"))
        changes = {
            "bf16_flat": {"next_query": "agreed", "not_rescaled": "agreed"},  # all rows are alike
            "bf16_sharp": {"tail": "agreed"},  # a score of 0 has no weight there
            "f16_sharp": {"tail": "agreed", "lse_lost_a_key": "agreed"},  # nor has the last key
            "f32_sharp": {"tail": "agreed", "lse_lost_a_key": "agreed"},
            "bf16_too_sharp": invisible,
            # the last key was the largest
            "f32_too_sharp": dict(invisible, lse_lost_a_key="wrong"),
            "f32_values_0": dict.fromkeys(("times_1.08", "one_zero", "next_query", "not_rescaled",
                                           "tail"), "agreed"),
        }
        verdicts = json.loads((self.out / "verdicts.json").read_text())
        masks = json.loads((self.out / "masks_and_shapes_verdicts.json").read_text())
        self.assertGreater(len(masks), 45)
        for verdict in masks:
            right = verdict["output"] in ("exact", "plain")
            self.assertEqual(verdict["verdict"], "agreed" if right else "wrong", verdict)
        self.assertEqual({(v["case"], v["output"]) for v in verdicts},
                         {(case.name, output) for case in make_cases.VERDICT_CASES
                          for output in expected})
        for verdict in verdicts:
            with self.subTest(case=verdict["case"], output=verdict["output"]):
                self.assertEqual(verdict["verdict"], changes.get(verdict["case"], {}).get(
                    verdict["output"], expected[verdict["output"]]))

    def test_answers_one_number_at_a_time(self):
        for path in self.out.glob("*/case.json"):
            case = json.loads(path.read_text())
            q, k, v, o, lse = (np.load(path.parent / f"{name}.npy")
                               for name in ("q", "k", "v", "o", "lse"))
            sinks = path.parent / "sinks.npy"
            sinks = np.load(sinks) if sinks.exists() else np.full(q.shape[1], -np.inf)
            sizes = case["shape"]
            self.assertEqual(o.shape, (sizes["batch"], sizes["heads"], sizes["q"], sizes["dim"]))
            self.assertEqual(q.dtype, make_cases.FILE_TYPE[case["dtype"]])
            held = {"bf16": "bf16", "f16": "f16"}.get(case["dtype"], "f32")
            self.assertTrue((attention.round_to(k, held) == k).all())
            some = slice(-3, None)  # the last rows of a mask consist of ones anyway
            first_key = case.get("cu_seqlens_k", [0, 0])[-2]  # of the last sequence
            group = sizes["heads"] // k.shape[1]
            self.assertEqual(k.shape[1], case.get("kv_heads", sizes["heads"]))
            for b, h in ((0, 0), (-1, -1), (0, sizes["heads"] // 2)):
                head = h % sizes["heads"]
                slope = get_slopes(sizes["heads"])[head] if "alibi" in case else 0.0
                keys, values = (x[b, head // group, first_key:].astype(float) for x in (k, v))
                if "tree" in case:
                    want_o, want_lse = tree_attention(q[b, h].astype(float), keys, values,
                                                      case["scale"], case["tree"])
                    want_o, want_lse = want_o[some], want_lse[some]
                else:
                    want_o, want_lse = scalar_attention(
                        q[b, h, some].astype(float), keys, values, case["scale"], case["causal"],
                        case.get("window", (-1, -1)), case.get("softcap", 0.0), slope)
                want_o, want_lse = with_sink(want_o, want_lse, sinks[head])
                with self.subTest(case["name"], b=b, h=h):
                    np.testing.assert_allclose(o[b, h, some], want_o, rtol=0, atol=1e-12)
                    np.testing.assert_allclose(lse[b, h, some], want_lse, rtol=1e-13, atol=1e-12)

    def test_same_bytes_every_time(self):
        with tempfile.TemporaryDirectory() as again:
            self.make(again)
            for path in self.out.rglob("*.*"):
                other = Path(again) / path.relative_to(self.out)
                self.assertEqual(path.read_bytes(), other.read_bytes(), path)

    def test_scores_are_what_the_names_say(self):
        q, k = (np.load(self.out / "very_negative" / f"{n}.npy") for n in "qk")
        self.assertLess(attention.scores(q, k).max(), -800)
        lse = np.load(self.out / "rows_without_keys" / "lse.npy")
        self.assertEqual(int((lse == -np.inf).sum()), 2 * 57)


class Checker(unittest.TestCase):
    SHAPE = (1, 2, 40, 56, 16)

    def judge(self, out, dtype="bf16", lse=None, inputs=None, **options):
        problem = Problem(*(inputs or random_inputs(self.SHAPE)), dtype=dtype, **options)
        return check.judge(problem, out, lse)

    def right(self, dtype="bf16", **options):
        return flash_in(dtype, *random_inputs(self.SHAPE), **options)

    def assert_wrong(self, message, out, *args, **options):
        agreed, verdict = self.judge(out, *args, **options)
        self.assertFalse(agreed, verdict)
        self.assertTrue(verdict.startswith("WRONG: "), verdict)
        self.assertIn(message, verdict)
        return verdict

    def test_correct_kernels_agree(self):
        for shape in (self.SHAPE, (1, 1, 1, 1, 1), (2, 1, 3, 1, 5), (1, 1, 70, 300, 64),
                      (1, 1, 50, 9, 128), (1, 1, 4, 2000, 8), (1, 1, 40, 100, 256)):
            for dtype in ("bf16", "f16", "f32"):
                for causal in (False, True):
                    for q_scale in (1.0, 30.0):
                        for seed in range(3):
                            inputs = random_inputs(shape, seed, q_scale)
                            o, lse = flash_in(dtype, *inputs, causal=causal)
                            agreed, verdict = self.judge(o, dtype, lse, inputs, causal=causal)
                            with self.subTest(shape=shape, dtype=dtype, causal=causal, q=q_scale):
                                self.assertTrue(agreed, verdict)
                                self.assertTrue(verdict.startswith("agreed: "))

    MASKED = [  # shape, heads of K and V, options
        ((1, 4, 40, 56, 16), 2, {"causal": True}),
        ((2, 3, 70, 40, 64), 1, {"window": (9, 4)}),
        ((1, 2, 40, 56, 16), 2, {"window": (20, -1), "softcap": 2.0}),
        ((1, 4, 40, 90, 32), 4, {"alibi": True, "causal": True}),
        ((1, 4, 60, 64, 16), 2, {"cu_seqlens_q": (0, 7, 7, 8, 60), "cu_seqlens_k": (0, 9, 20, 20, 64)}),
        ((1, 4, 60, 64, 16), 2, {"cu_seqlens_q": (0, 0, 60), "cu_seqlens_k": (0, 40, 64),
                                 "window": (12, 2), "softcap": 3.0, "alibi": True}),
    ]

    @classmethod
    @functools.cache
    def masked(cls):
        """Returns problems, their references, and O and LSE of correct kernels."""
        cases = []
        for dtype in ("bf16", "f16", "f32"):
            for shape, kv_heads, options in cls.MASKED:
                for q_scale in (1.0, 20.0):
                    q, k, v = random_inputs(shape, 0, q_scale)
                    k, v = k[:, :kv_heads], v[:, :kv_heads]
                    problem = Problem(q, k, v, dtype=dtype, **options)
                    o, lse = attention.general(
                        q, k, v, lambda *qkv, **kw: attention.Attention(*flash_in(dtype, *qkv, **kw)),
                        **options)
                    cases.append((problem, check.compute_reference(problem), o, lse))
        return cases

    def test_correct_masked_kernels_agree(self):
        for problem, reference, o, lse in self.masked():
            agreed, verdict = check.judge(problem, o, lse, reference=reference)
            self.assertTrue(agreed, verdict)

    def test_a_wrong_sink_fails(self):
        q, k, v = random_inputs(self.SHAPE)
        sinks = np.array([4.0, 6.0])
        for dtype in ("bf16", "f16", "f32"):
            problem = Problem(*(attention.round_to(x, dtype) for x in (q, k, v)), dtype=dtype,
                              sinks=sinks)
            tensors = (problem.q, problem.k, problem.v)
            right = attention.general(*tensors, sinks=sinks)
            self.assertTrue(check.judge(problem, attention.round_to(right.o, dtype), right.lse)[0])
            for wrong, message in ((None, "the sink is missing"), (sinks * 0.25, "by the scale"),
                                   (sinks[::-1], "heads"), (sinks + 0.1, "WRONG")):
                o, lse = attention.general(*tensors, sinks=wrong)
                agreed, verdict = check.judge(problem, attention.round_to(o, dtype), lse)
                self.assertFalse(agreed, message)
                if message != "heads":
                    self.assertIn(message, verdict)
        for sinks in (np.zeros(3), np.array([0.0, np.nan]), np.array([0.0, np.inf])):
            with self.assertRaisesRegex(BadInput, "sinks have shape"):
                Problem(q, k, v, sinks=sinks)

    def test_a_bad_tree_is_refused(self):
        q, k, v = random_inputs((1, 1, 3, 5, 4))
        for tree in ((-1, 0), (-1, 1, 0), (-2, 0, 0), (-1, 0, 0, 0)):
            with self.assertRaisesRegex(BadInput, "expected a parent for each of the 3 last tokens"):
                Problem(q, k, v, causal=True, tree=tree)
        with self.assertRaisesRegex(BadInput, "expected a parent"):
            Problem(q, k[:, :, :2], v[:, :, :2], causal=True, tree=(-1, 0, 0))

    def test_a_nan_anywhere_in_a_masked_problem_fails(self):
        random = np.random.default_rng(0)
        for problem, reference, o, lse in self.masked():
            for tensor in (o, lse):
                at = np.unravel_index(random.integers(tensor.size), tensor.shape)
                kept, tensor[at] = tensor[at], np.nan
                agreed, verdict = check.judge(problem, o, lse, reference=reference)
                self.assertFalse(agreed, at)
                # including places where -inf is expected
                self.assertIn("1 of them NaN or Inf", verdict, at)
                tensor[at] = kept
            self.assertTrue(check.judge(problem, o, lse, reference=reference)[0])

    def test_the_reference_is_the_general_one(self):
        """Compares head by head and block by block with all at once."""
        blocks, attention.row_blocks = attention.row_blocks, lambda *a: blocks(*a, max_scores=300)
        try:
            for problem, *_ in self.masked():
                if problem.dtype == "f32":
                    reference = check.compute_reference(problem)
                    inputs = (attention.round_to(x, "f32") for x in (problem.q, problem.k, problem.v))
                    want = attention.general(*inputs, **problem.options())
                    np.testing.assert_allclose(reference.o, want.o, atol=1e-12)
                    np.testing.assert_allclose(reference.lse, want.lse, atol=1e-12)
        finally:
            attention.row_blocks = blocks

    def test_tiny_lengths_agree(self):
        """Without the unit in the last place, a correct kernel would fail here about once in
        3000."""
        for seed in range(300):
            inputs = random_inputs((1, 1, 1, 1 + seed % 3, 2), seed)
            o, lse = flash_in("bf16", *inputs)
            self.assertTrue(self.judge(o, "bf16", lse, inputs)[0], seed)

    def test_lse_may_sum_p_as_rounded_but_not_lose_a_key(self):
        for shape in ((1, 1, 1, 300, 64), (1, 2, 20, 300, 64), (1, 1, 4, 2000, 64)):
            for dtype in ("bf16", "f16"):
                for seed in range(5):
                    inputs = random_inputs(shape, seed, 0.1)  # flat rows
                    q, k, v = (attention.round_to(x, dtype) for x in inputs)
                    o, lse = attention.safe(q, k, v)
                    s = attention.scores(q, k)
                    m = s.max(-1)
                    p = np.exp(s - m[..., None])
                    with self.subTest(shape=shape, dtype=dtype, seed=seed):
                        rounded = m + np.log(attention.round_to(p, dtype).sum(-1))
                        agreed, verdict = self.judge(o, dtype, rounded, inputs)
                        self.assertTrue(agreed, verdict)
                        lost = m + np.log(p.sum(-1) - p[..., 7])
                        self.assert_wrong("LSE: first at", o, dtype, lost, inputs)
                        lse[0, 0, -1] = np.nan
                        self.assert_wrong("expected", o, dtype, lse, inputs)

    def test_one_of_300_equal_keys_is_missed(self):
        q, k = np.full((1, 1, 4, 64), 0.5), np.full((1, 1, 300, 64), 0.5)
        v = np.ones_like(k)
        o = np.ones_like(q)
        lse = np.full((1, 1, 4), 2 + np.log(300))  # a score of 2, exact in every type
        for dtype in ("bf16", "f16", "f32", "f64"):
            self.assertTrue(self.judge(o, dtype, lse, (q, k, v))[0])
            lost = lse.copy()
            lost[0, 0, 3] = 2 + np.log(299)
            self.assert_wrong("LSE: first at [0, 0, 3]", o, dtype, lost, (q, k, v))

    def test_float64_agrees(self):
        inputs = random_inputs(self.SHAPE)
        o, lse = attention.tiled(*inputs, causal=True)
        self.assertTrue(self.judge(o, "f64", lse, inputs, causal=True)[0])
        o[0, 1, 3, 2] += 1e-10
        self.assert_wrong("first at [0, 1, 3, 2]", o, "f64", lse, inputs, causal=True)

    def test_output_may_have_any_float_type(self):
        o, _ = self.right("f16")
        for dtype in (np.float16, np.float32, np.float64):
            self.assertTrue(self.judge(o.astype(dtype), "f16")[0])

    def test_nan_fails(self):
        o, _ = self.right()
        o[0, 1, 39, 15] = np.nan  # the last element
        verdict = self.assert_wrong("first at [0, 1, 39, 15]: expected", o)
        self.assertIn("got nan", verdict)
        self.assertIn("1 of 1280 elements are wrong, 1 of them NaN or Inf", verdict)
        self.assertIn("largest error nan", verdict)
        self.assert_wrong("1280 of 1280", np.full_like(o, np.nan))

    def test_inf_fails(self):
        for value in (np.inf, -np.inf):
            o, _ = self.right()
            o[0, 0, 0, 0] = value
            self.assert_wrong("1 of 1280 elements are wrong, 1 of them NaN or Inf", o)

    def test_one_wrong_element_fails(self):
        o, _ = self.right()
        o[0, 1, 7, 3] += 0.25
        self.assert_wrong("1 of 1280 elements are wrong\n  O: first at [0, 1, 7, 3]: expected", o)

    def test_one_unwritten_element_fails(self):
        """Outputs are filled with NaN before a run. A buffer of zeros is detected as well."""
        for unwritten in (np.nan, 0.0):
            o, _ = self.right()
            o[0, 0, 20, 5] = unwritten
            self.assert_wrong("first at [0, 0, 20, 5]", o)

    def test_the_bound_is_sharp(self):
        """An otherwise exact output passes just inside the bound and fails just outside."""
        inputs = random_inputs(self.SHAPE)
        for dtype in ("bf16", "f16", "f32", "f64"):
            problem = Problem(*inputs, dtype=dtype)
            reference = check.compute_reference(problem)
            bound, _, lse_bound, _ = check.bounds(problem, reference)
            for name, factor, passes in (("in", 0.999, True), ("out", 1.001, False)):
                for sign in (1, -1):
                    with self.subTest(dtype=dtype, name=name, sign=sign):
                        out = reference.o.copy()
                        out[0, 0, 11, 2] += sign * factor * bound
                        self.assertEqual(check.judge(problem, out, None)[0], passes)
                        lse = reference.lse.copy()
                        lse[0, 1, 5] += sign * factor * lse_bound
                        self.assertEqual(check.judge(problem, reference.o, lse)[0], passes)

    def test_a_small_mistake_everywhere_fails(self):
        """Every element is within the bound, but all errors have the same sign."""
        inputs = random_inputs(self.SHAPE)
        for dtype in ("bf16", "f16", "f32"):
            problem = Problem(*inputs, dtype=dtype)
            reference = check.compute_reference(problem)
            limit = check.bounds(problem, reference)
            out, _ = flash_in(dtype, *inputs)
            room = limit.o - np.abs(out - reference.o).max()
            self.assertGreater(room, limit.o_rms)
            self.assert_wrong("no element stands out", out + 0.99 * room, dtype)

    def test_the_bound_is_the_rule(self):
        inputs = random_inputs(self.SHAPE)
        for dtype in ("bf16", "f16"):
            problem = Problem(*inputs, dtype=dtype)
            rounded = [attention.round_to(x, dtype) for x in inputs]
            exact = attention.safe(*rounded).o
            plain = attention.plain(*rounded, dtype).o
            rule = 2 * np.abs(plain - exact).max() + attention.ulp(np.abs(exact).max(), dtype)
            bound = check.bounds(problem, check.compute_reference(problem))[0]
            self.assertTrue(rule <= bound < 1.01 * rule, (rule, bound))

    def test_inputs_are_rounded_first(self):
        """The exact answer to the rounded inputs is right for bf16 and far off for f32."""
        inputs = random_inputs(self.SHAPE)
        exact, rounded = (attention.safe(*x).o for x in
                          (inputs, [attention.round_bf16(x) for x in inputs]))
        self.assertIn("largest error 0,", self.judge(rounded, "bf16")[1])
        self.assertTrue(self.judge(exact, "f32")[0])
        self.assert_wrong("f32", rounded, "f32")

    def test_rows_without_keys(self):
        inputs = random_inputs((1, 1, 12, 5, 4))
        o, lse = flash_in("bf16", *inputs, causal=True)
        self.assertTrue(self.judge(o, "bf16", lse, inputs, causal=True)[0])
        for value in (0.0, np.nan, np.inf, -1e30):
            wrong = lse.copy()
            wrong[0, 0, 2] = value
            self.assert_wrong("LSE: first at [0, 0, 2]: expected -inf", o, "bf16", wrong, inputs,
                              causal=True)
        wrong = lse.copy()
        wrong[0, 0, 9] = -np.inf
        self.assert_wrong("LSE: first at [0, 0, 9]", o, "bf16", wrong, inputs, causal=True)

    def test_wrong_shape_fails(self):
        o, lse = self.right()
        for wrong in (o[:, :, :-1], o[0], o.reshape(1, 1, 80, 16), o[..., None]):
            self.assert_wrong("O: shape [", wrong)
        self.assert_wrong("LSE: shape [1, 2, 40, 1]", o, "bf16", lse[..., None])
        self.assert_wrong("[B,L,H,D] instead of [B,H,L,D]", o.transpose(0, 2, 1, 3))

    def test_matrices(self):
        inputs = [x[0, 0] for x in random_inputs(self.SHAPE)]
        o, lse = flash_in("f32", *inputs)
        self.assertTrue(self.judge(o, "f32", lse, inputs)[0])
        o[3, 4] = np.nan
        lse[7] = np.nan
        verdict = self.assert_wrong("O: first at [3, 4]", o, "f32", lse, inputs)
        self.assertIn("LSE: first at [7]", verdict)
        self.assert_wrong("O: shape [1, 1, 40, 16], expected [40, 16]", o[None, None], "f32",
                          inputs=inputs)

    def test_plain_attention_that_overflows_excuses_nothing(self):
        """1/2047 rounds up in f16, so such weights turn f16's largest number into Inf. The bound
        stays."""
        q, k, v = np.zeros((1, 1, 2, 4)), np.zeros((1, 1, 2047, 4)), np.full((1, 1, 2047, 4), 65504)
        plain = attention.plain(q, k, v, "f16", 1.0).o
        self.assertTrue(np.isinf(plain).any())
        problem = Problem(q, k, v, dtype="f16", scale=1.0)
        right = np.full_like(q, 65504.0)
        self.assertTrue(check.judge(problem, right, None)[0])
        self.assertFalse(check.judge(problem, plain, None)[0])
        self.assertFalse(check.judge(problem, 0.9 * right, None)[0])

    def test_a_bound_that_is_too_wide_is_inconclusive(self):
        for dtype in ("bf16", "f16", "f32"):
            q, k, v = random_inputs(self.SHAPE)
            scale = 1e6
            out, lse = flash_in(dtype, q, k, v, scale)
            verdict = check.judge(Problem(q, k, v, scale=scale, dtype=dtype), out, lse)
            self.assertFalse(verdict[0])
            self.assertTrue(verdict[1].startswith("INCONCLUSIVE: "), verdict[1])
            self.assertIn("it proves nothing", verdict[1])
            out[0, 0, 3, 4] = np.nan  # wrong, whatever the bound is
            verdict = check.judge(Problem(q, k, v, scale=scale, dtype=dtype), out, lse)
            self.assertTrue(verdict[1].startswith("WRONG: "), verdict[1])

    def test_a_quarter_of_the_outputs_rms_is_the_limit(self):
        """Tests each side of the limit with the largest score that decides the bound there."""
        inputs = random_inputs(self.SHAPE)
        problem = Problem(*inputs, dtype="bf16")
        reference = check.compute_reference(problem)
        o = reference.o[np.isfinite(reference.lse)]
        room = np.sqrt(np.mean(o**2)) / 4 - check.bounds(problem, reference).o
        at_limit = reference.largest_score + room / (2 * 2.0**-24 * problem.largest_v())
        for factor, conclusive in ((0.999, True), (1.001, False)):
            changed = reference._replace(largest_score=factor * at_limit)
            self.assertEqual(check.bounds(problem, changed).conclusive, conclusive)

    def test_rows_that_see_no_key_do_not_make_a_verdict_inconclusive(self):
        """999 of 1000 rows are 0, so the remaining row determines the size of O."""
        inputs = random_inputs((1, 1, 1000, 1, 8))
        out, lse = flash_in("bf16", *inputs, causal=True)
        self.assertTrue(self.judge(out, "bf16", lse, inputs, causal=True)[0])
        q, k, v = random_inputs(self.SHAPE)
        zeros = np.zeros_like(v)
        self.assertTrue(self.judge(np.zeros_like(q), "bf16", None, (q, k, zeros))[0])
        self.assert_wrong("first at", np.full_like(q, 1e-30), "bf16", None, (q, k, zeros))

    def test_no_mistake_hides_at_any_scale(self):
        """A bound derived from bf16 scores accepted these mistakes at scores in the hundreds."""
        for dtype in ("bf16", "f16", "f32"):
            for q_scale in (1e-3, 1.0, 30.0, 300.0):
                inputs = random_inputs((1, 2, 64, 100, 64), q_scale=q_scale)
                right, lse = flash_in(dtype, *inputs)
                agreed, verdict = self.judge(right, dtype, lse, inputs)
                self.assertTrue(agreed, verdict)
                three = right.copy()
                three[0, 1, 7:10] += 1.0
                one = right.copy()
                one[0, 1, 63, 63] *= -1
                self.assertGreater(abs(one[0, 1, 63, 63]), 0.05)
                for wrong in (1.08 * right, 0.92 * right, three, one):
                    self.assert_wrong("O: ", wrong, dtype, lse, inputs)

    def test_blocks_of_rows_give_the_same_verdict(self):
        o, lse = self.right(causal=True)
        problem = Problem(*random_inputs(self.SHAPE), dtype="bf16", causal=True)
        whole = check.compute_reference(problem)
        blocks, attention.row_blocks = attention.row_blocks, lambda *a: blocks(*a, max_scores=300)
        try:
            parts = check.compute_reference(problem)
        finally:
            attention.row_blocks = blocks
        np.testing.assert_allclose(parts.o, whole.o, atol=1e-14)
        self.assertAlmostEqual(parts.plain_error, whole.plain_error, delta=0.2 * whole.plain_error)


def softmax_rows(s):
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def lower(len_q, len_kv, shift):
    """Returns True where key j <= query i + shift."""
    return np.arange(len_kv) <= np.arange(len_q)[:, None] + shift


def exchange(x):
    """Reads the bytes of [B,H,L,D] as [B,L,H,D] and returns [B,H,L,D]."""
    b, h, l, d = x.shape
    return x.reshape(b, l, h, d).transpose(0, 2, 1, 3)


def exchange_back(x):
    """Writes [B,H,L,D] as [B,L,H,D] into a buffer of [B,H,L,D]."""
    return np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(x.shape)


def wrong_sink_outputs():
    """Yields (options, words of the diagnosis, (q, k, v), wrong O)."""
    for shape in ((2, 4, 60, 150, 16), (1, 4, 150, 100, 16)):
        q, k, v = inputs = random_inputs(shape, q_scale=3.0)
        s = 0.25 * q @ k.swapaxes(-1, -2)
        options = {"sinks": np.array([3.0, 5.0, 4.0, 8.0])}
        yield options, "the sink is missing", inputs, softmax_rows(s) @ v
        for words, sinks in (("the sink is multiplied by the scale",
                              options["sinks"][:, None, None] / 4),
                             ("the sink's weight is 1", s.max(-1, keepdims=True))):
            m = np.maximum(s.max(-1, keepdims=True), sinks)
            p = np.exp(s - m)
            yield options, words, inputs, p @ v / (p.sum(-1, keepdims=True) + np.exp(sinks - m))


def wrong_tree_outputs():
    """Yields (options, words of the diagnosis, (q, k, v), wrong O)."""
    tree = (-1, 0, 0, 1, 1, 2, 3, 3, 6)
    children = [[j for j in range(9) if tree[j] == i] for i in range(9)]

    def below(i):
        return [i, *(x for child in children[i] for x in below(child))]

    for words, sees in (("the tree is taken for a chain", lambda i: range(i + 1)),
                        ("the tree is reversed", lambda i: [x for x in below(i) if x <= i]),
                        ("but no earlier ancestor", lambda i: [i, tree[i]] if i else [0])):
        for shape in ((2, 4, 9, 30, 16), (1, 4, 9, 9, 16)):
            q, k, v = inputs = random_inputs(shape, q_scale=3.0)
            s = 0.25 * q @ k.swapaxes(-1, -2)
            for i in range(9):
                hidden = [j for j in range(9) if j not in sees(i)]
                s[..., i, [shape[3] - 9 + j for j in hidden]] = -np.inf
            yield {"tree": tree, "causal": True}, words, inputs, softmax_rows(s) @ v


def wrong_outputs(q, k, v):
    """Yields (causal, words of the diagnosis, wrong O). It uses whole matrices and masks and not
    the functions of mistakes.py."""
    len_q, len_kv, dim = q.shape[2], k.shape[2], q.shape[3]
    shift, scale = len_kv - len_q, dim**-0.5
    raw = q @ k.swapaxes(-1, -2)
    s = raw * scale
    mask = lower(len_q, len_kv, shift)
    m = s.max(-1, keepdims=True)

    def masked(visible):
        return softmax_rows(np.where(visible, s, -1e30)) @ v * visible.any(-1)[:, None]

    yield False, "not multiplied by the scale 0.25", softmax_rows(raw) @ v
    yield False, "the scale is applied twice", softmax_rows(s * scale) @ v
    yield True, "the causal mask is missing", softmax_rows(s) @ v
    yield False, "a causal mask is applied (and --causal was not given here)", masked(mask)
    if shift:
        top_left = lower(len_q, len_kv, 0)
        yield True, "the causal mask is aligned top-left", masked(top_left)
        yield False, "a causal mask is applied, aligned top-left", masked(top_left)
    yield True, "one key too few", masked(lower(len_q, len_kv, shift - 1))
    yield True, "one key too many", masked(lower(len_q, len_kv, shift + 1))
    if shift < 0:
        yield True, "rows that see no key average V", softmax_rows(np.where(mask, s, -1e30)) @ v
    yield False, "O is not divided by the row sum l", np.exp(s - m) @ v
    yield False, "divided by the row sum, and no maximum is subtracted", np.exp(s) @ v
    yield False, "softmax is missing", s @ v
    yield False, "exp2 is used where e^x is meant", softmax_rows(s * np.log(2)) @ v
    yield False, "K and V are exchanged", softmax_rows(q @ v.swapaxes(-1, -2) * scale) @ k
    if not shift:
        yield False, "Q and K are exchanged", softmax_rows(s.swapaxes(-1, -2)) @ v
    k_t, v_t = (x.swapaxes(-1, -2).copy().reshape(x.shape) for x in (k, v))
    yield False, "K is read transposed", softmax_rows(q @ k_t.swapaxes(-1, -2) * scale) @ v
    yield False, "V is read transposed", softmax_rows(s) @ v_t
    right = softmax_rows(s) @ v
    yield False, "in the output: it is written as [B,L,H,D]", exchange_back(right)
    q_e, k_e, v_e = exchange(q), exchange(k), exchange(v)
    yield (False, "inputs and output are taken for [B,L,H,D]",
           exchange_back(softmax_rows(q_e @ k_e.swapaxes(-1, -2) * scale) @ v_e))
    k_0, v_0 = k[:, :1], v[:, :1]
    yield False, "every head uses K and V of head 0", softmax_rows(
        q @ k_0.swapaxes(-1, -2) * scale) @ v_0
    for tile in (16, 64):
        if len_kv % tile:
            pad = -len_kv % tile
            padded = softmax_rows(np.pad(s, ((0, 0),) * 3 + ((0, pad),)))
            yield (False, f"{pad} zero-filled keys", padded[..., :len_kv] @ v)
    for tile in (16, 32, 64, 128):
        for running in (False, True):
            if len_kv <= tile:
                continue
            parts = [s[..., j:j + tile] for j in range(0, len_kv, tile)]
            maxima = np.stack([part.max(-1) for part in parts])
            maxima = np.maximum.accumulate(maxima) if running else maxima
            p = np.concatenate([np.exp(part - maximum[..., None])
                                for part, maximum in zip(parts, maxima)], -1)
            yield (False, f"not rescaled when the maximum changes (tiles of {tile} keys)",
                   p @ v / p.sum(-1, keepdims=True))


def wrong_masked_outputs():
    """Yields (options, words of the diagnosis, (q, k, v), wrong O), also with whole matrices."""
    def attend(inputs, mask, softcap=0.0, slopes=0.0, hidden=-np.inf, scale=0.25):
        q, k, v = inputs
        k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
        s = scale * q @ k.swapaxes(-1, -2)
        s = softcap * np.tanh(s / softcap) if softcap else s
        distance = np.abs(np.arange(s.shape[-1]) - np.arange(s.shape[-2])[:, None]
                          - s.shape[-1] + s.shape[-2])
        s = np.where(mask, s - np.reshape(slopes, (-1, 1, 1)) * distance, hidden)
        return softmax_rows(np.maximum(s, -1e30)) @ v * (mask.any(-1)[:, None] | (hidden > -1e9))

    def band(shape, left, right, shift=None):
        shift = shape[3] - shape[2] if shift is None else shift
        return (lower(shape[2], shape[3], shift + right)
                & ~lower(shape[2], shape[3], shift - left - 1))

    for shape in ((2, 4, 60, 150, 16), (1, 4, 150, 100, 16)):
        q, k, v = inputs = random_inputs(shape, q_scale=3.0)
        everything = np.ones(shape[2:4], bool)
        for window in ((30, 10), (-1, 10), (30, -1), (30, 0)):
            options = {"window": window, "causal": window[1] == 0}
            left, right = (x if x >= 0 else 999 for x in window)
            yield options, "the window is missing", inputs, attend(inputs, everything)
            yield (options, "the window is aligned top-left", inputs,
                   attend(inputs, band(shape, left, right, 0)))
            for step, word in ((-1, "few"), (1, "many")):
                if window[0] >= 0:
                    yield (options, f"one key too {word} on the left", inputs,
                           attend(inputs, band(shape, left + step, right)))
                if window[1] >= 0:
                    yield (options, f"one key too {word} on the right", inputs,
                           attend(inputs, band(shape, left, right + step)))
            if min(window) >= 0:
                yield (options, "the window has no left side", inputs,
                       attend(inputs, band(shape, 999, right)))
                yield (options, "the window has no right side", inputs,
                       attend(inputs, band(shape, left, 999)))
            if window[1] != 0:
                yield (options, "a causal mask is applied", inputs,
                       attend(inputs, band(shape, left, 0)))
            right_answer = attend(inputs, band(shape, left, right))
            if not band(shape, left, right).any(-1).all():
                yield (options, "rows that see no key average V", inputs, right_answer
                       + v.mean(2, keepdims=True) * ~band(shape, left, right).any(-1)[:, None])
        causal = band(shape, 999, 0)
        options = {"softcap": 2.0, "causal": True}
        yield options, "softcap is missing", inputs, attend(inputs, causal)
        yield (options, "softcap is applied before the scale", inputs,
               attend(inputs, causal, softcap=0.5))
        yield (options, "softcap is applied after the mask: hidden keys score -2", inputs,
               attend(inputs, causal, softcap=2.0, hidden=-2.0))
        options = {"alibi": True, "causal": True}
        slopes = 2.0 ** np.array([-2, -4, -6, -8])
        yield options, "ALiBi is missing", inputs, attend(inputs, causal)
        yield options, "ALiBi's slopes begin with 1", inputs, attend(inputs, causal, slopes=4 * slopes)
        grouped = q, k[:, :2], v[:, :2]
        yield ({"causal": True}, "head h % Hkv", grouped,
               attend((q, *(x[:, [0, 1, 0, 1]] for x in grouped[1:])), causal))
        yield ({}, "every head uses K and V of head 0", grouped,
               attend((q, *(x[:, :1] for x in grouped[1:])), everything))
        if shape[0] == 1:
            cu_q, cu_k = (0, 40, 40, 41, 120, 150), (0, 30, 35, 35, 70, 100)
            options = {"cu_seqlens_q": cu_q, "cu_seqlens_k": cu_k, "causal": True}

            def packed(key_ranges, inputs=inputs):
                parts = []
                for rows, keys in zip(zip(cu_q, cu_q[1:]), key_ranges):
                    q_n, k_n, v_n = (x[:, :, slice(*r)] for x, r in
                                     zip(inputs, (rows, keys, keys)))
                    mask = lower(q_n.shape[2], k_n.shape[2], k_n.shape[2] - q_n.shape[2])
                    parts.append(attend((q_n, k_n, v_n), mask) if mask.any() else 0 * q_n)
                return np.concatenate(parts, 2)

            yield options, "cu_seqlens are ignored", inputs, attend(inputs, causal)
            yield (options, "reads K and V one row late", inputs,
                   packed([(a + 1, b + 1) for a, b in zip(cu_k, cu_k[1:])]))
            yield (options, "cu_seqlens_k one entry late", inputs,
                   packed([*zip(cu_k[1:], cu_k[2:]), cu_k[-2:]]))


class Diagnosis(unittest.TestCase):
    SHAPES = [(2, 3, 60, 150, 16), (1, 2, 150, 100, 16), (1, 4, 150, 150, 16)]

    def diagnose(self, inputs, out, dtype="f32", lse=None, **options):
        agreed, verdict = check.judge(Problem(*inputs, dtype=dtype, **options), out, lse)
        self.assertFalse(agreed, verdict)
        lines = [line.split(": ", 1)[1] for line in verdict.split("\n") if "looks like" in line]
        return lines[0] if lines else None

    def test_each_mistake_is_recognised(self):
        for shape in self.SHAPES:
            for dtype in ("f32", "bf16"):
                inputs = [attention.round_to(x, dtype) for x in random_inputs(shape)]
                exact = [x.astype(np.float64) for x in inputs]
                for causal, message, out in wrong_outputs(*exact):
                    with self.subTest(shape=shape, dtype=dtype, message=message):
                        diagnosis = self.diagnose(inputs, attention.round_to(out, dtype), dtype,
                                                  causal=causal)
                        self.assertIn(message, diagnosis or "nothing")

    def test_each_mistake_about_masks_and_shapes_is_recognised(self):
        for options, message, inputs, out in (*wrong_masked_outputs(), *wrong_sink_outputs(),
                                              *wrong_tree_outputs()):
            dtype = "bf16" if inputs[0].shape[0] == 1 else "f32"
            with self.subTest(message=message, dtype=dtype, shape=inputs[0].shape, **options):
                diagnosis = self.diagnose(inputs, attention.round_to(out, dtype), dtype, **options)
                self.assertIn(message, diagnosis or "nothing")

    def test_no_mistake_is_left_untested(self):
        everything = []
        for shape in self.SHAPES:
            inputs = random_inputs(shape)
            tested = [message for _, message, _ in wrong_outputs(*inputs)]
            everything += tested
            for causal in (False, True):
                self.assert_tested(tested, Problem(*inputs, causal=causal))
        wrong = [*wrong_masked_outputs(), *wrong_sink_outputs(), *wrong_tree_outputs()]
        tested = everything + [message for _, message, _, _ in wrong]
        for options, _, inputs, _ in wrong:
            self.assert_tested(tested, Problem(*inputs, **options))

    def assert_tested(self, tested, problem):
        for mistake in mistakes.mistakes_for(problem):
            if "zero-filled" not in mistake.sentence:  # two of the tile sizes are tested
                self.assertTrue(any(message in mistake.sentence for message in tested),
                                mistake.sentence)

    def test_an_unguarded_row_maximum(self):
        """NaN where a row sees no key in the first tile, with tiles of 64 queries and 32 keys."""
        shape = (1, 2, 200, 300, 16)
        inputs = random_inputs(shape)
        for backwards in (False, True):
            out = attention.safe(*inputs, window=(40, 20)).o
            for i in range(200):
                first, last = i // 64 * 64 + 100 - 40, min(i // 64 * 64 + 63, 199) + 100 + 20
                tile = min(last, 299) // 32 if backwards else first // 32
                sees = range(i + 100 - 40, min(300, i + 100 + 20 + 1))
                if not set(sees) & set(range(32 * tile, 32 * tile + 32)):
                    out[:, :, i] = np.nan
            self.assertTrue(np.isnan(out).any())
            diagnosis = self.diagnose(inputs, out, window=(40, 20))
            self.assertIn("exp(-inf - (-inf)): subtract 0", diagnosis)
            out[0, 0, 0] = np.nan if np.isfinite(out[0, 0, 0, 0]) else 0.0
            self.assertNotIn("exp(-inf", self.diagnose(inputs, out, window=(40, 20)) or "")

    def test_no_diagnosis_where_none_fits(self):
        inputs = random_inputs(self.SHAPES[0])
        random = np.random.default_rng(1)
        right = attention.safe(*inputs).o
        one_wrong, noisy = right.copy(), right + 0.1 * random.normal(size=right.shape)
        one_wrong[0, 0, 3, 3] += 1
        for out in (one_wrong, noisy, random.normal(0.5, 1, right.shape), 1.1 * right):
            self.assertIsNone(self.diagnose(inputs, out))
        # for most rows, about the mean of V
        inputs = random_inputs((1, 1, 1500, 1500, 8), q_scale=0.1)
        constant = np.full(inputs[0].shape, inputs[2].mean())
        self.assertIsNone(self.diagnose(inputs, constant, causal=True))

    def test_not_written(self):
        inputs = random_inputs(self.SHAPES[0])
        for blank, word in ((np.nan, "NaN"), (0.0, "0")):
            def out():
                return attention.safe(*inputs).o
            rows, columns, heads, batches, everything = (out() for _ in range(5))
            rows[:, :, 32:] = blank
            columns[..., 8:] = blank
            heads[:, 2] = blank
            batches[1] = blank
            everything[:] = blank
            for wrong, where in ((rows, "query rows 32 to 59 of 60"),
                                 (columns, "columns 8 to 15 of 16"),
                                 (heads, "heads 2 to 2 of 3"), (batches, "batches 1 to 1 of 2"),
                                 (everything, "every element")):
                with self.subTest(word=word, where=where):
                    diagnosis = self.diagnose(inputs, wrong)
                    self.assertIn(where, diagnosis)
                    self.assertIn(f" {word}", diagnosis)
                    self.assertIn("never written?", diagnosis)

    def test_overflow(self):
        for q_scale, exp_type, name in ((20.0, np.float32, "fp32"), (4.0, np.float16, "fp16")):
            q, k, v = random_inputs((1, 2, 80, 60, 16), q_scale=q_scale)
            s = attention.scores(q, k)
            with np.errstate(over="ignore", invalid="ignore"):
                p = np.exp(s.astype(exp_type))
                l = p.sum(-1, keepdims=True)
                out = (p.astype(np.float32) @ v.astype(np.float32)) / l.astype(np.float32)
                out[~np.isfinite(l[..., 0])] = np.nan
            bad = ~np.isfinite(out).all(-1)
            self.assertTrue(bad.any() and not bad.all(), name)
            self.assertIn(f"e^score passes {name}'s largest number",
                          self.diagnose((q, k, v), out, "f32") or "nothing")

    def test_rows_without_keys_that_are_nan(self):
        inputs = random_inputs((1, 2, 30, 20, 8))
        out, lse = attention.safe(*inputs, causal=True)
        out[lse == -np.inf] = np.nan
        self.assertIn("rows that see no key are 0/0", self.diagnose(inputs, out, causal=True))

    def test_log_sum_exp(self):
        inputs = random_inputs((1, 2, 30, 20, 8))
        out, lse = attention.safe(*inputs, causal=True)
        for wrong, message in ((lse / np.log(2), "base 2"), (-lse, "must have LSE = -inf"),
                               (np.where(lse == -np.inf, 0, lse), "must have LSE = -inf")):
            if message != "base 2":
                wrong = np.where(np.isinf(wrong), 0.0, wrong)
            self.assertIn(message, self.diagnose(inputs, out, lse=wrong, causal=True))
        lse = attention.safe(*inputs).lse
        self.assertIn("sign", self.diagnose(inputs, attention.safe(*inputs).o, lse=-lse))
        self.assertIsNone(self.diagnose(inputs, attention.safe(*inputs).o, lse=lse + 1))
        self.assertIn("heads 0 and 1 are exchanged",
                      self.diagnose(inputs, attention.safe(*inputs).o, lse=lse[:, ::-1]))

    def test_log_sum_exp_of_flash_attention(self):
        """+inf in fully masked rows, alone and together with another mistake in LSE."""
        inputs = random_inputs((1, 2, 30, 20, 8))
        out, lse = attention.safe(*inputs, causal=True)
        unseen, convention = lse == -np.inf, "LSE = +inf, the convention of FlashAttention-2"
        theirs = np.where(unseen, np.inf, lse)
        diagnosis = self.diagnose(inputs, out, lse=theirs, causal=True)
        self.assertTrue(convention in diagnosis and "; and " not in diagnosis, diagnosis)
        diagnosis = self.diagnose(inputs, out, lse=theirs / np.log(2), causal=True)
        self.assertTrue(convention in diagnosis and "; and the logarithm has base 2" in diagnosis)
        theirs[0, 0, 0] = 0.0
        self.assertNotIn("convention", self.diagnose(inputs, out, lse=theirs, causal=True))

    def test_heads_and_batches_in_another_order(self):
        for shape, kv_heads in (((2, 4, 40, 50, 16), 4), ((2, 4, 40, 50, 16), 2)):
            q, k, v = random_inputs(shape)
            inputs = (q, k[:, :kv_heads], v[:, :kv_heads])
            right = attention.general(*inputs).o
            for order, message in (([1, 0, 2, 3], "heads 0 and 1 are exchanged"),
                                   ([0, 3, 2, 1], "heads 1 and 3 are exchanged"),
                                   ([1, 2, 0, 3], "the heads are in another order: 1 is in the place "
                                                  "of 0, 2 is in the place of 1, 0 is in the place of 2"),
                                   ([1, 2, 3, 0], "the heads are in another order")):
                self.assertIn(message, self.diagnose(inputs, right[:, order]) or "nothing")
            self.assertEqual("batches 0 and 1 are exchanged", self.diagnose(inputs, right[::-1]))
            for no_order in ([0, 0, 2, 3], [1, 1, 1, 1]):
                self.assertNotIn("exchanged", self.diagnose(inputs, right[:, no_order]) or "nothing")
            spoiled = right[:, [1, 0, 2, 3]].copy()
            spoiled[:, 3] += 5
            self.assertIsNone(self.diagnose(inputs, spoiled))

    def test_a_narrower_type(self):
        inputs = random_inputs((1, 2, 40, 50, 16))
        for dtype, narrower in (("f32", "bf16"), ("f32", "f16"), ("f16", "bf16"), ("f64", "f32"),
                                ("f64", "bf16")):
            out = attention.plain(*inputs, narrower).o
            verdict = check.judge(Problem(*inputs, dtype=dtype), out, None)[1]
            self.assertIn(f"O: all values are {narrower} numbers: did you mean --dtype {narrower}?",
                          verdict)
            wrong = attention.plain(*inputs, narrower, scale=1.0).o
            verdict = check.judge(Problem(*inputs, dtype=dtype), wrong, None)[1]
            self.assertIn("did you mean --dtype", verdict)
            self.assertIn("the scores are not multiplied by the scale", verdict)
        for out in (1.1 * attention.safe(*inputs).o, np.ones((1, 2, 40, 16))):
            verdict = check.judge(Problem(*inputs, dtype="f32"), out.astype(np.float32), None)[1]
            self.assertNotIn("did you mean", verdict)
        rounded = attention.plain(*inputs, "bf16").o
        self.assertNotIn("did you mean", check.judge(Problem(*inputs, dtype="bf16"), -rounded, None)[1])


class CommandLine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.inputs = [attention.round_to(x, "f16") for x in random_inputs((1, 2, 9, 11, 8))]
        for name, array in zip("qkv", self.inputs):
            self.save(name, array.astype(np.float16))
        o, lse = flash_in("f16", *self.inputs, causal=True)
        self.save("out", o)
        self.save("lse", lse)

    def save(self, name, array):
        np.save(self.folder / f"{name}.npy", array)

    def check(self, *extra, **files):
        """Returns what check.py's main returns and prints."""
        arguments = []
        for name in ("q", "k", "v", "out"):
            arguments += ["--" + name, str(self.folder / files.get(name, f"{name}.npy"))]
        arguments += extra
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
            code = check.main(arguments)
        return code, out.getvalue(), err.getvalue()

    def test_the_program(self):
        files = [word for name in ("q", "k", "v", "out") for word in ("--" + name, self.folder / f"{name}.npy")]
        for options, code in ((["--causal"], 0), ([], 1), (["--dtype", "f15"], 2)):
            result = subprocess.run([sys.executable, "-W", "error", "-B", HERE / "check.py", *files, *options],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertEqual((result.returncode, result.stdout, result.stderr), self.check(*options))
            self.assertEqual(result.returncode, code)

    def assert_error(self, message, *extra, **files):
        code, out, err = self.check(*extra, **files)
        self.assertEqual((code, out), (2, ""), err)
        self.assertRegex(err, r"\Aerror: [^\n]*\n\Z")
        self.assertIn(message, err)

    def test_full_disk(self):
        command = [sys.executable, "-W", "error", "-B", str(HERE / "check.py")]
        files = [word for name in ("q", "k", "v", "out")
                 for word in ("--" + name, str(self.folder / f"{name}.npy"))]
        for arguments in (files, ["--help"]):
            with open("/dev/full", "w") as full:
                result = subprocess.run(command + arguments, stdout=full, stderr=subprocess.PIPE,
                                        text=True)
            self.assertEqual((result.returncode, result.stderr), (
                2, "error: standard output cannot be written: No space left on device\n"))

    def test_exit_codes(self):
        code, out, err = self.check("--causal", "--lse", str(self.folder / "lse.npy"))
        self.assertEqual((code, err), (0, ""), out)
        self.assertIn("agreed: B,H,Lq,Lkv,D = 1,2,9,11,8, f16, causal", out)
        self.assertIn("LSE: largest error", out)
        code, out, err = self.check()
        self.assertEqual((code, err), (1, ""), out)
        self.assertIn("looks like: a causal mask is applied", out)
        code, out, _ = self.check("--causal", "--scale", "0.1", "--dtype", "f32")
        self.assertEqual(code, 1)
        self.assertIn("f32", out)

    def test_files(self):
        self.assert_error("gone.npy: No such file or directory", q="gone.npy")
        self.assert_error("Is a directory", k=".")
        (self.folder / "text.npy").write_text("hello, this is no array")
        self.assert_error("text.npy: is not a .npy file", v="text.npy")
        (self.folder / "empty.npy").write_bytes(b"")
        self.assert_error("empty.npy: is not a .npy file", out="empty.npy")
        content = (self.folder / "q.npy").read_bytes()
        (self.folder / "short.npy").write_bytes(content[:-2])
        self.assert_error("short.npy: has 414 bytes, its shape [1, 2, 9, 8] needs 416",
                          q="short.npy")
        (self.folder / "long.npy").write_bytes(content + b"xy")
        self.assert_error("long.npy: has 418 bytes", q="long.npy")
        (self.folder / "broken.npy").write_bytes(content.replace(b"descr", b"desc\n"))
        self.assert_error("broken.npy: has a header that NumPy cannot read", q="broken.npy")
        (self.folder / "new.npy").write_bytes(content[:6] + b"\x09" + content[7:])
        self.assert_error("new.npy: is .npy version 9.0", q="new.npy")

    def test_types(self):
        np.save(self.folder / "pickled.npy", np.array([{}], object), allow_pickle=True)
        self.assert_error("pickled.npy: holds pickled Python objects", q="pickled.npy")
        self.save("int", np.zeros((1, 2, 9, 8), np.int32))
        self.assert_error("int.npy: holds int32; accepted: float16, float32, float64",
                          out="int.npy")
        self.save("bits", np.zeros((1, 2, 9, 8), "V2"))
        self.assert_error("save bfloat16 as float32", out="bits.npy")

    def test_values(self):
        for name in "qkv":
            array = np.load(self.folder / f"{name}.npy")
            array[0, 1, 3, 4] = np.nan
            array[0, 1, 5, 0] = np.inf
            self.save("bad", array)
            self.assert_error(f"{name}: 2 values are NaN or Inf, the first at [0, 1, 3, 4]",
                              **{name: "bad.npy"})
        self.save("large", np.full((1, 2, 9, 8), 1e6, np.float32))
        self.assert_error("q: its largest value 1e+06 overflows f16", "--dtype", "f16",
                          q="large.npy")

    def test_shapes(self):
        for name, shape, message in (
                ("q", (2, 9, 8), "accepted: [B,H,L,D] or [L,D]"),
                ("q", (9, 8), "both must be [B,H,L,D] or both [L,D]"),
                ("q", (1, 3, 9, 8), "and k's heads may divide q's"),
                ("q", (2, 2, 9, 8), "and k's heads may divide q's"),
                ("q", (1, 2, 9, 4), "they may differ in the length"),
                ("v", (1, 2, 12, 8), "they must be the same"),
                ("k", (1, 2, 0, 8), "has no elements")):
            self.save("other", np.ones(shape, np.float32))
            self.assert_error(message, **{name: "other.npy"})

    def test_options(self):
        self.assert_error("invalid choice: 'fp8'", "--dtype", "fp8")
        self.assert_error("invalid float value: 'big'", "--scale", "big")
        self.assert_error("accepted: a finite number", "--scale", "nan")
        self.assert_error("unrecognized arguments: --casual", "--casual")
        result = subprocess.run([sys.executable, str(HERE / "check.py")], stderr=subprocess.PIPE,
                                text=True)
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, r"\Aerror: the following arguments are req[^\n]*\n\Z")

    def test_masks_and_shapes(self):
        options = {"kv_heads": 2, "window": (4, 1), "softcap": 2.0, "alibi": True,
                   "cu_seqlens_q": (0, 3, 3, 9), "cu_seqlens_k": (0, 5, 6, 11)}
        q = np.concatenate([self.inputs[0], self.inputs[0][:, ::-1]], 1)
        tensors = q, *self.inputs[1:]
        right = attention.general(*tensors, **{name: value for name, value in options.items()
                                               if name != "kv_heads"})
        arguments = ["--kv-heads", "2", "--window", "4,1", "--softcap", "2", "--alibi",
                     "--cu-seqlens-q", "0,3,3,9", "--cu-seqlens-k", "0,5,6,11", "--lse",
                     str(self.folder / "lse.npy"), "--dtype", "f16"]
        self.save("lse", right.lse)
        for layout in ("bhld", "blhd"):
            for name, x in zip(("q", "k", "v", "out"), (*tensors, right.o)):
                self.save(name, x if layout == "bhld" else x.swapaxes(1, 2))
            code, out, err = self.check(*arguments, "--layout", layout)
            self.assertEqual((code, err), (0, ""), out)
            self.assertIn("agreed: B,H,Lq,Lkv,D = 1,4,9,11,8, f16, 2 heads of K and V, window 4,1, "
                          "softcap 2, ALiBi, 3 sequences", out)
        self.assertEqual(self.check(*arguments)[0], 2)  # 9 heads and 11
        for change in (("4,1", "4,2"), ("2", "2.1"), ("0,5,6,11", "0,5,5,11")):
            changed = [change[1] if x == change[0] and "--kv-heads" != before else x
                       for before, x in zip([""] + arguments, arguments)]
            self.assertEqual(self.check(*changed, "--layout", "blhd")[0], 1, change)

    def test_sinks(self):
        q, k, v = self.inputs
        sinks = np.arange(q.shape[1], dtype=np.float32)
        right = attention.general(q, k, v, sinks=sinks)
        self.save("out", right.o)
        self.save("sinks", sinks)
        code, out, err = self.check("--sinks", str(self.folder / "sinks.npy"))
        self.assertEqual((code, err), (0, ""), out)
        self.assertIn(", sinks", out)
        code, out, _ = self.check()
        self.assertEqual(code, 1, out)
        self.save("sinks", sinks[1:])
        self.assert_error("sinks have shape", "--sinks", str(self.folder / "sinks.npy"))

    def test_a_tree(self):
        q, k, v = self.inputs
        parents = [-1, 0, 0, *range(1, q.shape[2] - 2)]
        right = attention.general(q, k, v, causal=True, tree=attention.tree_mask(parents))
        self.save("out", right.o)
        text = ",".join(map(str, parents))
        code, out, err = self.check("--causal", "--tree", text)
        self.assertEqual((code, err), (0, ""), out)
        self.assertIn(", causal, tree", out)
        code, out, _ = self.check("--causal")
        self.assertEqual(code, 1, out)
        self.assert_error("expected a parent", "--causal", "--tree", "-1,1")

    def test_a_window_may_begin_with_minus_1(self):
        code, out, _ = self.check("--window", "-1,0", "--lse", str(self.folder / "lse.npy"))
        self.assertEqual(code, 0, out)
        self.assertIn("window -1,0", out)

    def test_errors_in_masks_and_shapes(self):
        for message, *arguments in (
                ("window -2,0: accepted: two whole numbers", "--window", "-2,0"),
                ("window 3: accepted: two whole numbers", "--window", "3"),
                ("--window: invalid", "--window", "3,x"),
                ("expected one argument", "--window"),
                ("softcap -1.0: accepted: a positive number", "--softcap", "-1"),
                ("softcap nan: accepted", "--softcap", "nan"),
                ("--kv-heads 1: k has 2", "--kv-heads", "1"),
                ("go together: give both", "--cu-seqlens-q", "0,9"),
                ("cu_seqlens_q 0,8: ends with 8, the tensors are 9 long", "--cu-seqlens-q", "0,8",
                 "--cu-seqlens-k", "0,11"),
                ("cu_seqlens_k 1,11: expected numbers that begin with 0 and do not descend",
                 "--cu-seqlens-q", "0,9", "--cu-seqlens-k", "1,11"),
                ("cu_seqlens_k 0,6,5,11: expected numbers that begin with 0",
                 "--cu-seqlens-q", "0,1,2,9", "--cu-seqlens-k", "0,6,5,11"),
                ("cu_seqlens_q has 2 numbers and cu_seqlens_k 3", "--cu-seqlens-q", "0,9",
                 "--cu-seqlens-k", "0,6,11"),
                ("cu_seqlens_k 0: expected two or more", "--cu-seqlens-q", "0,9",
                 "--cu-seqlens-k", "0"),
                ("invalid choice: 'bld'", "--layout", "bld")):
            with self.subTest(message):
                self.assert_error(message, *arguments)
        for name in "qkv":
            self.save(name, np.zeros((2, 2, 9, 8), np.float32))
        self.assert_error("packed sequences have batch 1", "--cu-seqlens-q", "0,9",
                          "--cu-seqlens-k", "0,9")

    def test_fortran_order_and_other_versions_are_read(self):
        for array, version in ((np.asfortranarray(self.inputs[0]), (1, 0)),
                               (self.inputs[0].astype(">f4"), (2, 0))):
            with open(self.folder / "other.npy", "wb") as file:
                np.lib.format.write_array(file, array, version)
            code, out, err = self.check("--causal", "--dtype", "f16", q="other.npy")
            self.assertEqual(code, 0, out + err)

    def test_without_numpy(self):
        (self.folder / "numpy.py").write_text("raise ImportError('none here')\n")
        result = subprocess.run([sys.executable, "-B", str(HERE / "check.py")],
                                env=dict(os.environ, PYTHONPATH=str(self.folder)),
                                stderr=subprocess.PIPE, text=True)
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, r"\Aerror: .* has no NumPy; [^\n]*\n\Z")


if __name__ == "__main__":
    unittest.main()
