"""Tests of the gradients in NumPy, of the reference and a checker that wrong results must not pass.

    cd reference && python3 -W error -m unittest -q test_gradients
"""

import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

import attention
import gradients
import make_cases
from attention import Gradients
from problem import BadInput, Problem

HERE = Path(__file__).resolve().parent
CU = {"cu_seqlens_q": (0, 3, 3, 4, 13, 20), "cu_seqlens_k": (0, 5, 9, 9, 17, 20)}

# shape, heads of K and V, options of attention.general
PROBLEMS = [
    ((2, 3, 7, 9, 5), 3, {}),
    ((1, 4, 9, 7, 6), 2, {"causal": True}),             # the first two queries see no key
    ((1, 2, 7, 12, 6), 1, {"causal": True, "softcap": 1.5}),
    ((1, 2, 12, 9, 4), 2, {"window": (3, 2)}),
    ((1, 4, 6, 11, 4), 2, {"alibi": True, "softcap": 2.0, "scale": -0.7}),
    ((1, 4, 20, 20, 4), 2, {"causal": True, "window": (4, -1), **CU}),
    ((1, 2, 5, 1, 8), 2, {}),                           # one key, so dQ = dK = 0
]


def random_inputs(shape, kv_heads, seed=0, q_scale=1.0):
    """q, k, v, do."""
    batch, heads, len_q, len_kv, dim = shape
    random = np.random.default_rng(seed)
    q, do = (random.normal(0.5, 1.0, (batch, heads, len_q, dim)) for _ in range(2))
    k, v = (random.normal(0.5, 1.0, (batch, kv_heads, len_kv, dim)) for _ in range(2))
    return q_scale * q, k, v, do


def backward_in(dtype, q, k, v, do, scale=None, causal=False, window=(-1, -1), softcap=0.0,
                slope=0.0, keep_d=True):
    """One head, one query after another, with sequential fp32 sums, rounded as in a kernel. The
    results are not rounded, because heads of Q may have to be added first."""
    q, k, v, do = (attention.round_to(x, dtype).astype(np.float32) for x in (q, k, v, do))
    len_q, len_kv = len(q), len(k)
    scale = np.float32(1 / math.sqrt(q.shape[1]) if scale is None else scale)
    left, right = (window[0], 0) if causal else window
    dq, dk, dv = (np.zeros(x.shape, np.float32) for x in (q, k, v))
    for i in range(len_q):
        seen = [j for j in range(len_kv) if (right < 0 or j - (i + len_kv - len_q) <= right)
                and (left < 0 or (i + len_kv - len_q) - j <= left)]
        if not seen:
            continue
        s = scale * (k[seen] @ q[i])
        factor = np.float32(1)
        if softcap:
            t = np.tanh(s / np.float32(softcap))
            s, factor = np.float32(softcap) * t, 1 - t * t
        s = s - np.float32(slope) * np.abs(np.array(seen) - (i + len_kv - len_q)).astype(np.float32)
        e = np.exp(s - s.max())
        l = e.sum()
        o = attention.round_to(attention.round_to(e, dtype) @ v[seen] / l, dtype)
        p = np.exp(s - (s.max() + np.log(l)))
        ds = attention.round_to(p * (v[seen] @ do[i] - keep_d * (do[i] * o).sum()) * factor, dtype)
        dq[i] = scale * (ds @ k[seen])
        dk[seen] += scale * ds[:, None] * q[i]
        dv[seen] += attention.round_to(p, dtype)[:, None] * do[i]
    return dq, dk, dv


def kernel_in(dtype, q, k, v, do, alibi=False, cu_seqlens_q=None, cu_seqlens_k=None, **options):
    """Calls backward_in for all heads and sequences."""
    heads, kv_heads = q.shape[1], k.shape[1]
    slopes = attention.alibi_slopes(heads) if alibi else np.zeros(heads)
    lengths = cu_seqlens_q or (0, q.shape[2]), cu_seqlens_k or (0, k.shape[2])
    dq, dk, dv = (np.zeros(x.shape, np.float32) for x in (q, k, v))
    for b, h in np.ndindex(q.shape[:2]):
        kv = h // (heads // kv_heads)
        for rows, keys in attention.sequences(*lengths):
            part = backward_in(dtype, q[b, h, rows], k[b, kv, keys], v[b, kv, keys],
                               do[b, h, rows], slope=slopes[h], **options)
            dq[b, h, rows] = part[0]
            dk[b, kv, keys] += part[1]
            dv[b, kv, keys] += part[2]
    return Gradients(*(attention.round_to(x, dtype) for x in (dq, dk, dv)))


class Answers(unittest.TestCase):
    def test_central_differences_of_the_loss(self):
        for shape, kv_heads, options in PROBLEMS:
            inputs = random_inputs(shape, kv_heads)
            got = attention.backward(*inputs, **options)
            do, step = inputs[3], 2.0**-13
            for name, tensor, gradient in zip(gradients.NAMES, inputs, got):
                self.assertEqual((gradient.shape, gradient.dtype), (tensor.shape, np.float64))
                want = np.empty_like(tensor)
                for at in np.ndindex(tensor.shape):
                    kept, loss = tensor[at], []
                    for sign in (1, -1):
                        tensor[at] = kept + sign * step
                        loss.append((do * attention.general(*inputs[:3], **options).o).sum())
                    tensor[at] = kept
                    want[at] = (loss[0] - loss[1]) / (2 * step)
                with self.subTest(shape=shape, tensor=name, **options):
                    np.testing.assert_allclose(gradient, want, rtol=0,
                                               atol=1e-6 * max(1, np.abs(want).max()))

    def test_central_differences_with_sinks(self):
        for options in ({}, {"causal": True}, {"window": (2, 3), "softcap": 2.0}):
            q, k, v, do = inputs = random_inputs((2, 4, 9, 6, 5), 2)
            sinks = np.array([1.0, 3.0, -np.inf, 0.5])
            o, lse = attention.general(q, k, v, sinks=sinks, **options)
            got = (*attention.backward(*inputs, sinks=sinks, **options),
                   attention.sink_gradient(sinks, lse, o, do))
            for name, tensor, gradient in zip((*gradients.NAMES, "sinks"), (q, k, v, sinks), got):
                want, step = np.zeros_like(tensor), 2.0**-13
                for at in np.ndindex(tensor.shape):
                    kept, loss = tensor[at], []
                    for sign in (1, -1):
                        tensor[at] = kept + sign * step
                        loss.append((do * attention.general(q, k, v, sinks=sinks, **options).o).sum())
                    tensor[at] = kept
                    want[at] = (loss[0] - loss[1]) / (2 * step)
                with self.subTest(tensor=name, **options):
                    np.testing.assert_allclose(gradient, want, rtol=0,
                                               atol=1e-6 * max(1, np.abs(want).max()))
            problem = Problem(q, k, v, dtype="f64", sinks=sinks, **options)
            exact = gradients.compute_reference(problem, do).exact
            for x, y in zip(exact, got):
                np.testing.assert_allclose(x, y, rtol=0, atol=1e-12)

    def test_one_number_at_a_time(self):
        for shape, kv_heads, options in PROBLEMS:
            inputs = [x.astype(np.float32).astype(np.float64)
                      for x in random_inputs(shape, kv_heads)]
            want = attention.backward(*inputs, **options)
            for got in (kernel_in("f32", *inputs, **options),
                        attention.backward(*inputs, "f32", **options)):
                for name, x, y in zip(gradients.NAMES, got, want):
                    with self.subTest(shape=shape, tensor=name, **options):
                        np.testing.assert_allclose(x, y, rtol=0, atol=2e-5)

    def test_hidden_keys_and_queries_add_nothing(self):
        inputs = random_inputs((1, 2, 12, 5, 4), 2)
        got = attention.backward(*inputs, causal=True)  # the first 7 queries see no key
        self.assertTrue((got.dq[:, :, :7] == 0).all() and (got.dq[:, :, 8:] != 0).all())
        for x in inputs[0], inputs[3]:
            x[:, :, :7] = 1e3
        changed = attention.backward(*inputs, causal=True)
        for x, y in zip(got, changed):
            self.assertTrue((x == y).all())

    def test_the_reference_is_the_general_one(self):
        """Compares head by head and block by block with all at once."""
        blocks, attention.row_blocks = attention.row_blocks, lambda *a: blocks(*a, max_scores=30)
        try:
            for (shape, kv_heads, options), dtype in itertools.product(PROBLEMS, ("bf16", "f64")):
                *inputs, do = random_inputs(shape, kv_heads)
                problem = Problem(*inputs, dtype=dtype, **options)
                reference = gradients.compute_reference(problem, do)
                rounded = [attention.round_to(x, dtype) for x in (*inputs, do)]
                for x, y in zip(reference.exact, attention.backward(*rounded, **options)):
                    np.testing.assert_allclose(x, y, atol=1e-12)
                if dtype == "f64":
                    continue
                for x, y in zip(reference.plain, attention.backward(*rounded, dtype, **options)):
                    np.testing.assert_allclose(x, y, rtol=2**-7, atol=1e-5)
        finally:
            attention.row_blocks = blocks


class Checker(unittest.TestCase):
    SHAPE = (1, 2, 40, 56, 16)

    def setUp(self):
        *self.inputs, self.do = random_inputs(self.SHAPE, 2)
        self.problem = Problem(*self.inputs, dtype="bf16")
        self.reference = gradients.compute_reference(self.problem, self.do)
        self.right = Gradients(*(attention.round_to(x, "bf16") for x in self.reference.exact))

    def judge(self, got):
        return gradients.judge(self.problem, self.do, got, self.reference)

    def assert_wrong(self, message, got):
        agreed, verdict = self.judge(got)
        self.assertFalse(agreed, verdict)
        self.assertTrue(verdict.startswith("WRONG: gradients, "), verdict)
        self.assertIn(message, verdict)
        return verdict

    def changed(self, which, at, value):
        tensor = self.right[which].copy()
        tensor[at] = value
        return Gradients(*(tensor if i == which else x for i, x in enumerate(self.right)))

    def test_correct_kernels_agree(self):
        shapes = PROBLEMS + [((1, 2, 40, 70, 64), 1, {"causal": True}), ((1, 1, 1, 90, 64), 1, {}),
                             ((1, 1, 70, 50, 128), 1, {"causal": True})]
        for (shape, kv_heads, options), dtype in itertools.product(shapes, ("bf16", "f16", "f32")):
            for seed in range(3):
                *inputs, do = random_inputs(shape, kv_heads, seed)
                problem = Problem(*inputs, dtype=dtype, **options)
                agreed, verdict = gradients.judge(problem, do, kernel_in(dtype, *inputs, do, **options))
                with self.subTest(shape=shape, dtype=dtype, seed=seed, **options):
                    self.assertTrue(agreed, verdict)
                    self.assertTrue(verdict.startswith("agreed: gradients, "))

    def test_mistakes_fail(self):
        for shape, kv_heads, options in (((1, 2, 30, 50, 64), 1, {"causal": True}),
                                         ((1, 2, 30, 50, 32), 2, {"softcap": 1.5})):
            *inputs, do = random_inputs(shape, kv_heads)
            for dtype in ("bf16", "f16", "f32"):
                problem = Problem(*inputs, dtype=dtype, **options)
                right = kernel_in(dtype, *inputs, do, **options)
                factor = math.sqrt(shape[4])
                for got in (kernel_in(dtype, *inputs, do, keep_d=False, **options),
                            right._replace(dq=right.dq * factor),
                            right._replace(dk=right.dk * factor),
                            right._replace(dv=right.dv * np.float32(1.05)),
                            kernel_in(dtype, *inputs, do, causal=not problem.causal)):
                    agreed, verdict = gradients.judge(problem, do, got)
                    self.assertFalse(agreed)
                    self.assertTrue(verdict.startswith("WRONG: "), verdict)

    def test_float64_agrees(self):
        problem = Problem(*self.inputs, dtype="f64")
        got = attention.backward(*self.inputs, self.do)
        self.assertTrue(gradients.judge(problem, self.do, got)[0])
        got.dk[0, 1, 3, 2] += 1e-10
        self.assertFalse(gradients.judge(problem, self.do, got)[0])

    def test_nan_inf_wrong_and_unwritten_elements_fail(self):
        self.assertTrue(self.judge(self.right)[0])
        for which, name in enumerate(gradients.NAMES):
            length = self.right[which].shape[2]
            for value in (np.nan, np.inf, -np.inf, 3.0):
                verdict = self.assert_wrong(f"{name}: first at [0, 1, {length - 1}, 15]: expected",
                                            self.changed(which, (0, 1, length - 1, 15), value))
                self.assertIn(f"{name}: 1 of {self.right[which].size} elements are wrong"
                              + ("" if value == 3.0 else ", 1 of them NaN or Inf"), verdict)
            self.assert_wrong(f"{name}: rms error nan", self.changed(which, np.s_[:], np.nan))
            self.assert_wrong(f"{name}: ", self.changed(which, np.s_[:], 0.0))

    def test_wrong_shape_fails(self):
        for which, name in enumerate(gradients.NAMES):
            for wrong in (self.right[which][:, :, 1:], self.right[which][0],
                          self.right[which].swapaxes(1, 2)):
                got = [wrong if i == which else x for i, x in enumerate(self.right)]
                self.assert_wrong(f"{name}: shape [", Gradients(*got))

    def test_dk_of_repeated_heads_has_the_wrong_shape(self):
        *inputs, do = random_inputs((1, 4, 9, 7, 6), 2)
        problem = Problem(*inputs, dtype="f32")
        right = attention.backward(*inputs, do)
        repeated = Gradients(right.dq, *(np.repeat(x, 2, axis=1) for x in right[1:]))
        verdict = gradients.judge(problem, do, repeated)[1]
        self.assertIn("dK: shape [1, 4, 7, 6], expected [1, 2, 7, 6]", verdict)
        self.assertIn("looks like: one dK for each head of Q: add up those that share", verdict)

    def test_a_small_mistake_everywhere_fails(self):
        limits = gradients.bounds(self.problem, self.do, self.reference)
        for which, limit in enumerate(limits):
            room = limit.element - np.abs(self.right[which] - self.reference.exact[which]).max()
            self.assertGreater(room, limit.rms)
            self.assert_wrong("no element stands out",
                              self.changed(which, np.s_[:], self.right[which] + 0.99 * room))

    def test_the_bound_is_sharp(self):
        limits = gradients.bounds(self.problem, self.do, self.reference)
        for which, limit in enumerate(limits):
            for factor, passes in ((0.999, True), (1.001, False)):
                got = [x.copy() for x in self.reference.exact]
                got[which][0, 0, 11, 2] += factor * limit.element
                self.assertEqual(self.judge(Gradients(*got))[0], passes)

    def test_inconclusive(self):
        for dtype in ("bf16", "f32"):
            problem = Problem(*self.inputs, dtype=dtype, scale=1e6)
            right = attention.backward(*(attention.round_to(x, dtype)
                                         for x in (*self.inputs, self.do)), scale=1e6)
            agreed, verdict = gradients.judge(problem, self.do, right)
            self.assertFalse(agreed)
            self.assertTrue(verdict.startswith("INCONCLUSIVE: "), verdict)
            self.assertIn("it proves nothing", verdict)
            right.dv[0, 0, 3, 4] = np.nan
            self.assertTrue(gradients.judge(problem, self.do, right)[1].startswith("WRONG: "))

    def test_one_key(self):
        """With one key dQ = dK = 0, so fp32's rounding noise must pass, and nothing larger."""
        *inputs, do = random_inputs((1, 2, 40, 1, 64), 2)
        for dtype in ("bf16", "f16", "f32"):
            problem = Problem(*inputs, dtype=dtype)
            right = kernel_in(dtype, *inputs, do)
            self.assertTrue(gradients.judge(problem, do, right)[0])
            for which in (0, 1):
                wrong = [x.copy() for x in right]
                wrong[which][0, 0, 0, 0] = 1e-2
                self.assertFalse(gradients.judge(problem, do, Gradients(*wrong))[0])

    def test_do_must_fit(self):
        nan = self.do.copy()
        nan[0, 1, 2, 3] = np.nan
        for message, do in (("do has shape [2, 40, 16]", self.do[0]),
                            ("do: 1 value is NaN or Inf, the first at [0, 1, 2, 3]", nan)):
            with self.assertRaises(BadInput) as caught:
                gradients.judge(self.problem, do, self.right)
            self.assertIn(message, str(caught.exception))
        with self.assertRaises(BadInput):
            gradients.judge(Problem(*self.inputs, dtype="f16"), 1e6 * self.do, self.right)


def dense_steps(q, k, v, do, causal=False, scale=None, softcap=0.0):
    """Returns all intermediate results of a backward pass by name, for all heads at once."""
    group, len_q, len_kv = q.shape[1] // k.shape[1], q.shape[2], k.shape[2]
    k, v = (np.repeat(x, group, axis=1) for x in (k, v))
    scale = q.shape[3] ** -0.5 if scale is None else scale
    raw = np.einsum("bhid,bhjd->bhij", q, k) * scale
    s = softcap * np.tanh(raw / softcap) if softcap else raw
    hidden = causal & (np.arange(len_kv) > np.arange(len_q)[:, None] + (len_kv - len_q))
    m = np.where(hidden, -np.inf, s).max(axis=3, keepdims=True)
    e = np.where(hidden, 0.0, np.exp(s - m))
    l = e.sum(axis=3, keepdims=True)
    o = (e / l) @ v
    return {"q": q, "k": k, "v": v, "do": do, "scale": scale, "raw": raw, "s": s, "hidden": hidden,
            "m": m, "l": l, "p": e / l, "o": o, "dp": np.einsum("bhid,bhjd->bhij", do, v),
            "d": (do * o).sum(axis=3, keepdims=True), "group": group,
            "slope": 1 - np.tanh(raw / softcap)**2 if softcap else 1.0}


def dense_backward(steps, **changes):
    """Returns dQ, dK and dV from these steps, some of which are changed, where `add` sums over a
    group."""
    x = {**steps, **changes}
    ds = x.get("ds", x["p"] * (x["dp"] - x["d"]) * x["slope"])

    def over_group(gradient):
        b, heads, length, dim = gradient.shape
        parts = gradient.reshape(b, heads // x["group"], x["group"], length, dim)
        return x.get("add", lambda y: y.sum(axis=2))(parts)

    return Gradients(x["scale"] * ds @ x["k"],
                     over_group(x["scale"] * ds.swapaxes(2, 3) @ x["q"]),
                     over_group(x["p"].swapaxes(2, 3) @ x["do"]))


def usual_mistakes(steps):
    """Yields (the named mistake, for which gradients, the result of a program with this
    mistake)."""
    x, right = steps, dense_backward(steps)
    lse, wrong = x["m"] + np.log(x["l"]), lambda **changes: dense_backward(steps, **changes)
    shown = 1.0 - x["hidden"]
    yield "D is missing", "dQ, dK", wrong(d=0.0)
    yield "D is the row sum of dO", "dQ, dK", wrong(d=x["do"].sum(axis=3, keepdims=True))
    yield "D is the row sum of dO * dO", "dQ, dK", wrong(d=(x["do"]**2).sum(axis=3, keepdims=True))
    for factor in (shown, 1.0):
        yield "P is missing: dS is dP - D", "dQ, dK", wrong(ds=(x["dp"] - x["d"]) * x["slope"] * factor)
    yield "dP is taken for dS", "dQ, dK", wrong(ds=x["dp"] * x["slope"] * shown)
    yield "dP is dO @ K.T", "dQ, dK", wrong(dp=x["do"] @ x["k"].swapaxes(2, 3))
    yield "P is exp(S - m), not divided", "dQ, dK, dV", wrong(p=x["p"] * x["l"])
    yield "P is exp(S), without LSE", "dQ, dK, dV", wrong(p=np.exp(x["s"]) * shown)
    yield "base 2 and base e are mixed", "dQ, dK, dV", wrong(p=2 ** (x["s"] - lse) * shown)
    yield "base 2 and base e are mixed", "dQ, dK, dV", wrong(
        p=np.exp(x["s"] - lse / np.log(2)) * shown)
    yield "O is used in place of dO", "dV", right._replace(dv=wrong(do=x["o"]).dv)
    yield "the sign is wrong", "dQ, dK", wrong(d=x["dp"], dp=x["d"])
    yield "the sign is wrong", "dV", right._replace(dv=-right.dv)
    yield "is missing", "dQ", right._replace(dq=right.dq / x["scale"])
    yield "is missing", "dK", right._replace(dk=right.dk / x["scale"])
    yield "the scale is applied twice", "dQ, dK", wrong(scale=x["scale"]**2)
    yield "the scale is applied: dV has none", "dV", right._replace(dv=right.dv * x["scale"])
    yield "it is the right one times 3", "dV", right._replace(dv=3 * right.dv)
    yield "they are exchanged", "dK, dV", right._replace(dk=right.dv, dv=right.dk)
    yield "it holds dV", "dK", right._replace(dk=right.dv)
    yield "it is 0 everywhere", "dK", right._replace(dk=0 * right.dk)
    yield "it is NaN everywhere", "dQ", right._replace(dq=np.nan * right.dq)
    if x["hidden"].any():
        p = np.exp(x["s"] - lse)
        yield "the causal mask is missing", "dQ, dK, dV", wrong(p=p)
        p = np.exp(x["s"] - x["s"].max(axis=3, keepdims=True))
        p = p / p.sum(axis=3, keepdims=True)
        yield "the causal mask is missing", "dQ, dK, dV", wrong(
            p=p, d=(x["do"] * (p @ x["v"])).sum(axis=3, keepdims=True))
        moved = np.roll(x["hidden"], 1, axis=1)
        moved[:, 0] = False
        yield "one key too many on the right", "dQ, dK, dV", wrong(p=np.exp(x["s"] - lse) * ~moved)
        len_q, len_kv = x["s"].shape[2:]
        if len_q != len_kv:
            top_left = np.arange(len_kv) <= np.arange(len_q)[:, None]
            yield "the causal mask is aligned top-left", "dQ, dK, dV", wrong(
                p=np.exp(x["s"] - lse) * top_left)
    else:
        seen = np.tri(*x["s"].shape[2:], k=x["s"].shape[3] - x["s"].shape[2])
        yield "a causal mask is applied", "dQ, dK, dV", wrong(p=np.exp(x["s"] - lse) * seen)
    if np.ndim(x["slope"]):
        yield "the derivative of softcap", "dQ, dK", wrong(slope=1.0)
        yield "softcap is missing", "dQ, dK, dV", wrong(slope=1.0, p=np.exp(x["raw"] - lse) * shown)
    if x["group"] > 1:
        first, last = wrong(add=lambda y: y[:, :, 0]), wrong(add=lambda y: y[:, :, -1])
        yield "only the first head of a group is there", "dK, dV", first
        yield "only the last head of a group is there", "dK, dV", last
        yield "it is the mean over the heads", "dK, dV", wrong(add=lambda y: y.mean(axis=2))
        heads = np.array([1, 0, *range(2, x["q"].shape[1])])
        yield "heads 0 and 1 are exchanged", "dQ", right._replace(dq=right.dq[:, heads])
    heads, len_q = x["q"].shape[1:3]
    written = np.ascontiguousarray(right.dq.swapaxes(1, 2)).reshape(right.dq.shape)
    yield "heads and length are exchanged", "dQ", right._replace(dq=written)
    keys = np.arange(x["s"].shape[3]) >= 32
    ds = x["p"] * (x["dp"] - x["d"]) * x["slope"]
    if not x["hidden"].any():
        yield "only the last tile of keys is there", "dQ", right._replace(dq=wrong(ds=ds * keys).dq)
    rows = (np.arange(len_q) >= (len_q - 1) // 32 * 32)[:, None]
    yield "only the last tile of queries is there", "dK, dV", right._replace(
        dk=wrong(ds=ds * rows).dk, dv=wrong(p=x["p"] * rows).dv)
    if len_q == x["s"].shape[3]:
        yield "a matrix is transposed or should be", "dQ, dK", wrong(ds=ds.swapaxes(2, 3))
        yield "a matrix is transposed or should be", "dV", right._replace(
            dv=wrong(p=x["p"].swapaxes(2, 3)).dv)
        yield "Q is used in place of K", "dQ", right._replace(dq=wrong(k=x["q"]).dq)


class Diagnosis(unittest.TestCase):
    CASES = [((1, 4, 40, 56, 16), 2, {}), ((2, 2, 50, 50, 32), 2, {"causal": True}),
             ((1, 4, 40, 60, 24), 1, {"causal": True, "softcap": 1.5})]

    def lines(self, inputs, do, got, dtype, **options):
        problem = Problem(*inputs, dtype=dtype, **options)
        agreed, verdict = gradients.judge(
            problem, do, Gradients(*(attention.round_to(x, dtype) for x in got)))
        self.assertFalse(agreed)
        return [line[14:] for line in verdict.split("\n") if line.startswith("  looks like: ")]

    def cases(self):
        for (shape, kv_heads, options), dtype in zip(self.CASES, ("bf16", "f32", "f16")):
            *inputs, do = (attention.round_to(x, dtype).astype(np.float64)
                           for x in random_inputs(shape, kv_heads))
            yield inputs, do, dtype, options

    def test_each_mistake_is_named_and_no_other(self):
        for inputs, do, dtype, options in self.cases():
            for message, names, got in usual_mistakes(dense_steps(*inputs, do, **options)):
                lines = self.lines(inputs, do, got, dtype, **options)
                with self.subTest(message=message, names=names, dtype=dtype, lines=lines, **options):
                    self.assertEqual(len(lines), 1)
                    self.assertIn(message, lines[0])
                    self.assertTrue(lines[0].endswith(f" ({names})"))
                    self.assertNotIn("; or ", lines[0])

    def test_two_that_fit_are_both_named(self):
        """With D = 16 and four heads that share a head of K and V, a factor of 1/4 has two possible
        causes."""
        *inputs, do = random_inputs((1, 4, 40, 56, 16), 1)
        right = attention.backward(*inputs, do)
        lines = self.lines(inputs, do, right._replace(dk=right.dk / 4), "f32")
        self.assertEqual(lines, ["the scale is applied twice; or it is the mean over the heads that "
                                 "share one of K and V, not their sum (dK)"])

    def test_two_mistakes_at_once(self):
        inputs, do, dtype, options = next(self.cases())
        steps = dense_steps(*inputs, do, **options)
        got = dense_backward(steps, d=0.0)._replace(dv=dense_backward(steps, add=lambda y: y[:, :, 0]).dv)
        self.assertEqual([line[:9] for line in self.lines(inputs, do, got, dtype)],
                         ["D is miss", "only the "])

    def test_no_name_where_none_fits(self):
        random = np.random.default_rng(1)
        for inputs, do, dtype, options in self.cases():
            steps = dense_steps(*inputs, do, **options)
            right = dense_backward(steps)
            for which in range(3):
                one, noisy = (list(right) for _ in range(2))
                one[which] = right[which].copy()
                one[which][0, 0, 3, 3] += 5
                noisy[which] = right[which] + random.normal(size=right[which].shape)
                constant = list(right)
                constant[which] = np.full(right[which].shape, right[which].mean() + 1)
                for got in (one, noisy, constant):
                    self.assertEqual(self.lines(inputs, do, got, dtype, **options), [])
            for name, got in self.other_mistakes(steps, random):
                with self.subTest(name, dtype=dtype, **options):
                    self.assertEqual(self.lines(inputs, do, got, dtype, **options), [])

    def other_mistakes(self, steps, random):
        """Yields mistakes that have no name, some of them similar to named ones."""
        right, p, d, shown = dense_backward(steps), steps["p"], steps["d"], ~steps["hidden"]
        lse, (len_q, len_kv) = steps["m"] + np.log(steps["l"]), p.shape[2:]
        keys, rows = np.arange(len_kv), np.arange(len_q)[:, None]
        for name, changes in {
                "another temperature": {"p": np.exp(0.9 * (steps["s"] - lse)) * shown},
                "P squared": {"p": p**2}, "P uniform": {"p": 0 * p + shown / len_kv},
                "the first key is lost": {"p": p * (keys > 0)},
                "the last key is lost": {"p": p * (keys < len_kv - 1)},
                "the last query is lost": {"p": p * (rows < len_q - 1)},
                "two keys of the mask are lost": {"p": p * (keys <= rows + len_kv - len_q - 2)},
                "dropout": {"p": p * (random.random(p.shape) > 0.1) / 0.9},
                "D of the next query": {"d": np.roll(d, 1, axis=2)}, "D / 2": {"d": d / 2},
                "D negated": {"d": -d}, "2 D": {"d": 2 * d}, "dP / 2": {"dp": steps["dp"] / 2},
                "one row": {"d": d + 3 * (rows == 5)},
                "the next key": {"k": np.roll(steps["k"], 1, axis=2)},
                "the next query": {"q": np.roll(steps["q"], 1, axis=2)}}.items():
            yield name, dense_backward(steps, **changes)
        for name, change in {"absolute": np.abs, "columns turned around": lambda x: x[..., ::-1],
                             "half of the heads": lambda x: x * (np.arange(x.shape[1]) % 2 == 0)[
                                 :, None, None]}.items():
            yield name, Gradients(*map(change, right))

    def test_packed_sequences(self):
        *inputs, do = random_inputs((1, 4, 20, 20, 4), 2)
        got = attention.backward(*inputs, do, causal=False, **CU)
        lines = self.lines(inputs, do, got, "f32", causal=True, **CU)
        self.assertEqual(lines, ["the causal mask is missing (dQ, dK, dV)"])

    def test_a_narrower_type(self):
        *inputs, do = random_inputs((1, 2, 40, 56, 16), 2)
        problem = Problem(*inputs, dtype="f32")
        for dtype in ("bf16", "f16"):
            verdict = gradients.judge(problem, do, attention.backward(*inputs, do, dtype))[1]
            for name in gradients.NAMES:
                self.assertIn(f"  {name}: all values are {dtype} numbers: did you mean --dtype "
                              f"{dtype}?", verdict)
        self.assertNotIn("--dtype", gradients.judge(problem, do, Gradients(*(
            1.1 * x for x in attention.backward(*inputs, do))))[1])


class GoldenCases(unittest.TestCase):
    def test_verdicts_are_what_they_must_be(self):
        with tempfile.TemporaryDirectory() as out:
            verdicts = list(itertools.chain.from_iterable(
                make_cases.write_backward(case, seed, os.path.join(out, case.name))
                for seed, case in enumerate(make_cases.BACKWARD_CASES)))
            self.assertTrue(json.dumps(verdicts))
        for verdict in verdicts:
            output = verdict["output"]
            if output is None:
                continue
            right = output in ("exact", "plain")
            if verdict["case"] == "bf16_one_key":  # 0, whatever the change
                right = right or output in ("no_scale", "dp_of_0")
            with self.subTest(verdict["case"], output=output):
                if verdict["case"] == "bf16_too_sharp":
                    self.assertEqual(verdict["verdict"] == "wrong", "nan" in output
                                     or "infinite" in output or output == "dq_plus_1")
                elif (verdict["case"], output) != ("bf16_sharp", "dk_plus_1"):  # its bound is wide
                    self.assertEqual(verdict["verdict"], "agreed" if right else "wrong")


class CommandLine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        *inputs, do = (attention.round_to(x, "f16")
                       for x in random_inputs((1, 4, 9, 11, 8), 2))
        self.tensors = dict(zip("qkv", inputs), do=do)
        self.tensors.update(zip(("dq", "dk", "dv"),
                                kernel_in("f16", *inputs, do, causal=True)))
        self.tensors["out"] = attention.general(*inputs, causal=True).o
        self.save(self.tensors)

    def save(self, tensors):
        for name, array in tensors.items():
            np.save(self.folder / f"{name}.npy", array.astype(np.float32))

    def check(self, *extra, names=("do", "dq", "dk", "dv")):
        command = [sys.executable, "-W", "error", "-B", str(HERE / "check.py"), "--dtype", "f16"]
        for name in ("q", "k", "v", *names):
            command += ["--" + name, str(self.folder / f"{name}.npy")]
        result = subprocess.run(command + list(extra), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
        return result.returncode, result.stdout, result.stderr

    def test_exit_codes(self):
        code, out, err = self.check("--causal")
        self.assertEqual((code, err), (0, ""), out)
        self.assertIn("agreed: gradients, B,H,Lq,Lkv,D = 1,4,9,11,8, f16, 2 heads of K and V, causal",
                      out)
        for name in gradients.NAMES:
            self.assertIn(f"  {name}: largest error", out)
        code, out, err = self.check()
        self.assertEqual((code, err), (1, ""), out)
        self.assertTrue(out.startswith("WRONG: gradients, "), out)

    def test_with_the_output(self):
        everything = ("out", "do", "dq", "dk", "dv")
        code, out, _ = self.check("--causal", names=everything)
        self.assertEqual(code, 0, out)
        self.assertEqual(out.count("agreed: "), 2)
        self.save({"out": 1.1 * self.tensors["out"]})
        code, out, _ = self.check("--causal", names=everything)
        self.assertEqual(code, 1, out)
        self.assertEqual(out.count("agreed: "), 1)

    def test_layout(self):
        self.save({name: x.swapaxes(1, 2) for name, x in self.tensors.items()})
        self.assertEqual(self.check("--causal", "--layout", "blhd")[0], 0)

    def test_errors(self):
        for message, names in (
                ("--do --dq --dk --dv go together: give all of them", ("do", "dq", "dk")),
                ("--do --dq --dk --dv go together", ("out", "dq")),
                ("are required: --out, or --do --dq --dk --dv", ())):
            code, out, err = self.check(names=names)
            self.assertEqual((code, out), (2, ""), err)
            self.assertRegex(err, r"\Aerror: [^\n]*\n\Z")
            self.assertIn(message, err)
        self.save({"do": self.tensors["do"][:, :, 1:]})
        code, out, err = self.check()
        self.assertEqual((code, out), (2, ""), err)
        self.assertIn("do has shape [1, 4, 8, 8] and q [1, 4, 9, 8]", err)
        self.assertIn("--lse goes with --out", self.check("--lse", "x.npy")[2])


if __name__ == "__main__":
    unittest.main()
