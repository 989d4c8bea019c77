#!/usr/bin/env python3
"""Makes golden cases, which are inputs and their float64 answer, to check programs in any language.

    reference/make_cases.py --out DIR

writes DIR/NAME/{q,k,v,o,lse}.npy and DIR/NAME/case.json for every case, and last DIR/cases.json,
the list of names. A reader that uses the list cannot pass because a folder is empty. q is
[B,H,Lq,D], k and v are [B,H,Lkv,D], in the type that case.json names (bf16: float32 files with bf16
values; f64: files with fp32 values). o [B,H,Lq,D] and lse [B,H,Lq] are float64, computed from the
files' values. DIR/masks_and_shapes.json lists the cases whose case.json has more keys: kv_heads (k
and v are [B,kv_heads,Lkv,D]), window, softcap, alibi, cu_seqlens_q and cu_seqlens_k. Inputs are
normal with mean 0.5, so that outputs are not near 0 and a relative error is meaningful. Everything
depends only on the case's place in the list, so every run writes the same bytes.

DIR/verdicts/NAME/ has cases of the same form with right and wrong outputs (CHANGE_o.npy,
CHANGE_lse.npy, float32), and DIR/verdicts.json has check.py's verdict on each. Another checker with
the same rule must give the same verdicts. DIR/masks_and_shapes_verdicts.json is the same for the
other list. DIR/sinks.json lists the cases with sinks.npy, [H], a logit per head, and DIR/trees.json
those whose case.json has `tree`, the parents of the last Lq tokens.

DIR/backward/NAME/ has cases of the same form with do, dq, dk and dv (float64, the gradients of
sum(do * o)) and right and wrong gradients (CHANGE_dq.npy and so on, float32; a missing file is the
same as exact_dq.npy). DIR/backward.json has the verdict of gradients.py on each.
"""

import argparse
import itertools
import json
import os
import sys
from typing import Iterator, NamedTuple, Optional, Tuple

try:
    import numpy as np
except ImportError:
    print(f"error: {sys.executable} has no NumPy; use an interpreter that has it", file=sys.stderr)
    sys.exit(2)

import attention
import check
import gradients
from problem import Problem

FILE_TYPE = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": np.float32}


class Case(NamedTuple):
    name: str
    shape: Tuple[int, int, int, int, int]  # B, H, Lq, Lkv, D
    dtype: str = "f64"
    causal: bool = False
    scale: Optional[float] = None          # None: 1/sqrt(D)
    input_scale: float = 1.0               # multiplies q
    special: str = ""                      # "one-to-six", "very-negative" or "values-0"
    kv_heads: Optional[int] = None         # None: H
    window: Tuple[int, int] = attention.NO_LIMITS
    softcap: float = 0.0
    alibi: bool = False
    cu_seqlens_q: Optional[Tuple[int, ...]] = None
    cu_seqlens_k: Optional[Tuple[int, ...]] = None
    sinks: Optional[Tuple[float, ...]] = None  # per head
    tree: Optional[Tuple[int, ...]] = None     # parents of the last Lq tokens

    def options(self) -> dict:
        """Returns the options that not every program takes, if the case uses them."""
        return {name: getattr(self, name) for name in
                ("window", "softcap", "alibi", "cu_seqlens_q", "cu_seqlens_k", "tree")
                if getattr(self, name) != self._field_defaults[name]}


CASES = [
    Case("one_to_six", (1, 1, 1, 6, 1), scale=1.0, special="one-to-six"),
    Case("length_1", (1, 1, 1, 1, 1)),
    Case("length_1_causal", (2, 1, 1, 1, 5), causal=True),
    Case("one_query_many_keys", (1, 2, 1, 130, 64), dtype="f32"),
    Case("many_queries_one_key", (1, 2, 37, 1, 8)),
    Case("batch_and_heads", (2, 3, 17, 23, 5)),
    Case("batch_and_heads_causal", (2, 3, 17, 23, 5), causal=True),
    Case("square_causal", (1, 2, 64, 64, 32), causal=True),
    Case("tiles_exact", (1, 1, 128, 128, 64), dtype="f32"),
    Case("ragged_257", (1, 1, 257, 257, 64), dtype="f32", causal=True),
    Case("ragged_odd_dim", (1, 2, 77, 101, 80), dtype="f16"),
    Case("ragged_odd_dim_causal", (1, 2, 77, 101, 80), dtype="f16", causal=True),
    Case("more_queries_than_keys", (1, 1, 90, 33, 16)),
    Case("rows_without_keys", (1, 2, 90, 33, 16), causal=True),  # 57 rows see no key
    Case("only_last_row_sees", (1, 1, 70, 1, 4), causal=True),
    Case("dim_256", (1, 1, 33, 65, 256), dtype="f32"),
    Case("dim_1", (1, 1, 9, 50, 1), causal=True),
    Case("own_scale", (1, 1, 40, 40, 24), scale=0.3),
    Case("negative_scale", (1, 1, 40, 40, 24), scale=-0.3, causal=True),
    Case("scale_0", (1, 1, 12, 31, 8), scale=0.0),
    Case("sharp", (1, 2, 50, 70, 64), input_scale=30.0),           # scores in the hundreds
    Case("sharp_f16", (1, 2, 50, 70, 64), dtype="f16", input_scale=30.0),
    Case("very_negative", (1, 1, 45, 66, 16), special="very-negative"),
    Case("very_negative_causal", (1, 1, 45, 66, 16), dtype="f32", causal=True,
         special="very-negative"),
    Case("kernel_64", (1, 2, 128, 192, 64), dtype="bf16"),
    Case("kernel_128", (1, 1, 128, 256, 128), dtype="bf16"),
    Case("kernel_128_ragged", (1, 1, 100, 150, 128), dtype="bf16"),
    Case("kernel_128_sharp", (1, 1, 64, 128, 128), dtype="bf16", input_scale=30.0),
]


# Lengths of queries 3, 0, 1, 20, 9 and of keys 5, 4, 0, 30, 6, so that a sequence may lack queries
# or keys, or have more of either.
PACKED = {"cu_seqlens_q": (0, 3, 3, 4, 24, 33), "cu_seqlens_k": (0, 5, 9, 9, 39, 45)}

MASK_CASES = [
    Case("grouped_heads", (2, 6, 17, 23, 8), dtype="f32", kv_heads=2),
    Case("one_kv_head_causal", (1, 4, 33, 65, 64), dtype="bf16", causal=True, kv_heads=1),
    Case("window", (1, 2, 60, 80, 16), window=(10, 5)),
    Case("window_more_queries", (1, 2, 80, 50, 16), window=(4, 7)),  # the first 23 see no key
    Case("window_before_all_keys", (1, 1, 40, 8, 8), dtype="f32", window=(-1, 2)),
    Case("window_left_only", (1, 2, 45, 70, 16), dtype="f16", window=(9, -1)),
    Case("window_right_only", (1, 2, 70, 45, 16), window=(-1, 9)),
    Case("window_diagonal", (1, 1, 40, 40, 8), window=(0, 0)),
    Case("window_causal", (1, 2, 50, 70, 64), dtype="bf16", causal=True, window=(20, 11)),
    Case("window_wider_than_all", (1, 1, 30, 40, 8), window=(1000, 1000)),
    Case("window_one_query", (1, 2, 1, 300, 64), dtype="bf16", window=(128, 0)),
    Case("softcap", (1, 2, 40, 60, 16), softcap=1.5),
    Case("softcap_50", (1, 2, 40, 60, 64), dtype="bf16", softcap=50.0, input_scale=50.0),
    Case("softcap_causal", (1, 2, 50, 30, 16), causal=True, softcap=0.5),  # 20 rows see no key
    Case("softcap_window", (1, 2, 50, 60, 32), dtype="f16", window=(7, 7), softcap=2.0),
    Case("alibi", (1, 4, 40, 60, 16), alibi=True),
    Case("alibi_six_heads_causal", (1, 6, 60, 40, 16), dtype="f32", causal=True, alibi=True),
    Case("packed", (1, 2, 33, 45, 16), **PACKED),
    Case("packed_causal", (1, 2, 33, 45, 64), dtype="bf16", causal=True, **PACKED),
    Case("packed_one", (1, 2, 33, 45, 8), dtype="f32", causal=True, cu_seqlens_q=(0, 33),
         cu_seqlens_k=(0, 45)),
    Case("packed_all", (1, 4, 33, 45, 80), dtype="f16", kv_heads=2, window=(6, 3), softcap=3.0,
         alibi=True, **PACKED),
    Case("kernel_96_all", (1, 4, 130, 200, 96), dtype="bf16", causal=True, kv_heads=2,
         window=(70, -1), softcap=20.0),
    Case("kernel_128_f16", (1, 4, 100, 150, 128), dtype="f16", causal=True, kv_heads=1),
]


SINK_CASES = [
    Case("sinks", (2, 3, 17, 23, 16), sinks=(2.0, 4.5, -3.0)),
    Case("sinks_none_and_large", (1, 3, 40, 50, 64), dtype="bf16", sinks=(-np.inf, 60.0, 5.0)),
    Case("sinks_rows_without_keys", (1, 2, 90, 33, 16), causal=True, sinks=(1.5, -np.inf)),
    Case("sinks_sharp", (1, 2, 50, 70, 64), dtype="f16", input_scale=30.0, sinks=(90.0, 150.0)),
    Case("sinks_packed_all", (1, 4, 33, 45, 80), dtype="f16", kv_heads=2, window=(6, 3), softcap=3.0,
         alibi=True, sinks=(1.0, 3.0, 0.0, -2.0), **PACKED),
    Case("sinks_kernel_128", (1, 4, 100, 150, 128), dtype="bf16", causal=True, kv_heads=2,
         sinks=(8.0, 5.0, 7.0, 2.0)),
]


TREE_CASES = [
    Case("tree", (2, 4, 5, 23, 16), dtype="bf16", causal=True, kv_heads=2, tree=(-1, 0, 0, 1, 1)),
    Case("tree_of_all_keys", (1, 2, 6, 6, 8), causal=True, tree=(-1, -1, 0, 1, 2, 2)),
    Case("tree_64", (1, 2, 64, 90, 64), dtype="f16", causal=True,
         tree=(-1, *((i - 1) // 3 for i in range(1, 64)))),
    Case("tree_chain", (1, 1, 7, 40, 8), causal=True, tree=tuple(range(-1, 6))),
]


VERDICT_CASES = [
    Case("bf16", (1, 2, 24, 70, 64), dtype="bf16"),
    Case("bf16_causal", (1, 2, 40, 30, 64), dtype="bf16", causal=True),  # 10 rows see no key
    Case("bf16_flat", (1, 1, 24, 70, 64), dtype="bf16", input_scale=1e-3),
    Case("bf16_sharp", (1, 2, 24, 70, 64), dtype="bf16", input_scale=30.0),
    Case("bf16_too_sharp", (1, 1, 24, 70, 64), dtype="bf16", input_scale=1e7),
    Case("f16", (1, 1, 24, 70, 80), dtype="f16"),
    Case("f16_sharp", (1, 1, 24, 70, 64), dtype="f16", causal=True, input_scale=30.0),
    Case("f32", (2, 1, 24, 70, 64), dtype="f32", causal=True),
    Case("f32_sharp", (1, 1, 24, 70, 64), dtype="f32", input_scale=30.0),
    Case("f32_too_sharp", (1, 1, 24, 70, 64), dtype="f32", input_scale=1e7),
    Case("f32_values_0", (1, 1, 24, 70, 64), dtype="f32", special="values-0"),
]

MASK_VERDICT_CASES = [
    Case("grouped_heads_causal", (1, 4, 40, 30, 64), dtype="bf16", causal=True, kv_heads=2),
    Case("window_all", (1, 4, 24, 70, 64), dtype="f16", window=(20, 5), softcap=1.5, alibi=True),
    Case("packed_causal", (1, 2, 64, 75, 64), dtype="bf16", causal=True,
         cu_seqlens_q=(0, 20, 20, 50, 64), cu_seqlens_k=(0, 25, 35, 60, 75)),
]


BACKWARD_CASES = [
    Case("f64", (1, 2, 17, 23, 5), causal=True),
    Case("bf16", (1, 1, 24, 70, 64), dtype="bf16"),
    Case("bf16_causal", (1, 2, 40, 30, 64), dtype="bf16", causal=True),  # 10 rows see no key
    Case("bf16_grouped_causal", (2, 6, 23, 30, 32), dtype="bf16", causal=True, kv_heads=2),
    Case("bf16_one_key", (1, 2, 20, 1, 64), dtype="bf16"),               # dQ = dK = 0
    Case("bf16_one_query", (1, 1, 1, 90, 64), dtype="bf16"),
    Case("bf16_sharp", (1, 1, 40, 50, 64), dtype="bf16", input_scale=15.0),
    Case("bf16_too_sharp", (1, 1, 24, 70, 64), dtype="bf16", input_scale=1e7),
    Case("f16_all", (1, 4, 33, 45, 80), dtype="f16", kv_heads=2, window=(6, 3), softcap=3.0,
         alibi=True, **PACKED),
    Case("f32_softcap_causal", (1, 1, 35, 50, 48), dtype="f32", causal=True, softcap=1.5),
    Case("f32_sharp", (1, 1, 24, 70, 64), dtype="f32", input_scale=30.0),
]


def inputs(case: Case, seed: int) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns q, k and v of a case, in the type of its files."""
    batch, heads, len_q, len_kv, dim = case.shape
    if case.special == "one-to-six":  # one query, scores and values 1…6: output 5.4329
        x = np.arange(1.0, 7.0).reshape(1, 1, 6, 1)
        return np.ones((1, 1, 1, 1)), x, x
    random = np.random.default_rng(seed)
    kv_shape = (batch, case.kv_heads or heads, len_kv, dim)
    q = case.input_scale * random.normal(0.5, 1.0, (batch, heads, len_q, dim))
    k = random.normal(0.5, 1.0, kv_shape)
    v = random.normal(0.5, 1.0, kv_shape)
    if case.special == "very-negative":  # every score is below -800, so exp(score) is 0 in any type
        q, k = np.abs(q) + 15.0, -np.abs(k) - 15.0
    if case.special == "values-0":
        v = np.zeros_like(v)
    # f64 files hold fp32 values, because programs keep their inputs in fp32 and must not lose
    # anything.
    values = "f32" if case.dtype == "f64" else case.dtype
    return tuple(attention.round_to(x, values).astype(FILE_TYPE[case.dtype]) for x in (q, k, v))


def tiles_not_rescaled(s: np.ndarray, v: np.ndarray, tile: int = 16) -> np.ndarray:
    """Returns O of a kernel in which each tile of keys keeps its own maximum."""
    with np.errstate(invalid="ignore"):  # a tile without a visible key
        p = np.concatenate([np.nan_to_num(np.exp(part - part.max(-1, keepdims=True))) for part in
                            np.split(s, range(tile, s.shape[-1], tile), axis=-1)], axis=-1)
    l = p.sum(-1, keepdims=True)
    return p @ v / np.where(l == 0, 1, l)


def outputs(problem: Problem, reference: check.Reference, limit: check.Bounds
            ) -> Iterator[Tuple[str, np.ndarray, np.ndarray]]:
    """Yields (name, O, LSE), first two right outputs, then wrong ones. Some wrong ones are not visible at every
    scale, because if softmax is flat, tiles that are not rescaled are wrong only in the last digits.
    """
    o, lse = reference.o, reference.lse
    yield "exact", attention.round_to(o, problem.dtype), lse
    plain = attention.general(problem.q, problem.k, problem.v,
                              lambda *qkv, **options: attention.plain(*qkv, problem.dtype, **options),
                              **problem.options())
    yield "plain", plain.o, plain.lse

    def changed(values: np.ndarray, where, value) -> np.ndarray:
        values = values.copy()
        values[where] = value
        return values

    largest = np.unravel_index(np.argmax(np.abs(o)), o.shape)
    yield "times_1.08", 1.08 * o, lse
    yield "three_rows_plus_1", changed(o, np.s_[0, 0, 20:23], o[0, 0, 20:23] + 1), lse
    yield "one_zero", changed(o, largest, 0), lse
    yield "one_nan", changed(o, largest, np.nan), lse
    yield "one_infinite", changed(o, (0, 0, 23, 63), -np.inf), lse
    yield "all_lean", o + 0.9 * limit.o, lse
    yield "next_query", np.roll(o, 1, axis=2), lse
    yield "lse_nan", o, changed(lse, (0, 0, 23), np.nan)
    yield "lse_0", o, changed(lse, (0, 0, 0), 0)
    yield "lse_base_2", o, lse / np.log(2)
    yield from (with_other_options(problem) if uses_masks(problem) else
                with_other_scores(problem, o, lse))


def uses_masks(problem: Problem) -> bool:
    """True if the problem needs more options than --causal."""
    return (problem.packed or problem.kv_heads != problem.shape[1] or problem.softcap > 0
            or problem.window not in (attention.NO_LIMITS, (-1, 0)))


def with_other_scores(problem: Problem, o: np.ndarray, lse: np.ndarray
                      ) -> Iterator[Tuple[str, np.ndarray, np.ndarray]]:
    exact = [x.astype(np.float64) for x in (problem.q, problem.k, problem.v)]
    s = attention.scores(*exact[:2], problem.scale, problem.causal)
    yield "not_rescaled", tiles_not_rescaled(s, exact[2]), lse
    padded = np.concatenate([s, np.zeros(s.shape[:-1] + (26,))], axis=-1)  # 26 keys of 0
    p = np.exp(padded - padded.max(-1, keepdims=True))
    yield "tail", (p / p.sum(-1, keepdims=True))[..., :s.shape[-1]] @ exact[2], lse
    lost = s[..., :-1]
    yield "lse_lost_a_key", o, attention.attend(lost, exact[2][..., :-1, :]).lse


def with_other_options(problem: Problem) -> Iterator[Tuple[str, np.ndarray, np.ndarray]]:
    """Yields the exact answers to other problems."""
    tensors = problem.q, problem.k, problem.v
    options = problem.options()

    def other(k_and_v=tensors[1:], **changes):
        return attention.general(problem.q, *k_and_v, **dict(options, **changes))

    left, right = problem.window
    yield ("window_right_1", *other(window=(left, right + 1)))
    yield ("window_none", *other(window=attention.NO_LIMITS))
    if left >= 0:
        yield ("window_left_1", *other(window=(left + 1, right)))
    if problem.kv_heads < problem.shape[1]:
        modulo = np.arange(problem.shape[1]) % problem.kv_heads
        yield ("kv_heads_modulo", *other([x[:, modulo] for x in tensors[1:]]))
    if problem.softcap:
        yield ("softcap_none", *other(softcap=0.0))
        yield ("alibi_none", *other(alibi=False))
    if problem.packed:
        late = [min(n + 1, problem.shape[3]) for n in problem.cu_seqlens_k]
        yield ("cu_seqlens_late", *other(cu_seqlens_k=late))
        yield ("cu_seqlens_none", *other(cu_seqlens_q=None, cu_seqlens_k=None))


def write_verdicts(case: Case, seed: int, directory: str) -> list:
    """Writes check.py's verdict on each output of a case."""
    write_case(case, seed, directory)
    arrays = [np.load(os.path.join(directory, name + ".npy")) for name in "qkv"]
    problem = Problem(*arrays, case.causal, case.scale, case.dtype, **case.options())
    reference = check.compute_reference(problem)
    limit = check.bounds(problem, reference)
    verdicts = []
    for name, *tensors in outputs(problem, reference, limit):
        o, lse = (x.astype(np.float32) for x in tensors)
        for kind, array in (("o", o), ("lse", lse)):
            np.save(os.path.join(directory, f"{name}_{kind}.npy"), array)
        verdict = check.judge(problem, o, lse, reference=reference)[1].split(":")[0].lower()
        verdicts.append({
            "case": case.name, "output": name, "verdict": verdict, "bound": limit.o,
            "rms_bound": limit.o_rms, "lse_bound": limit.lse,
            "wrong": check.compare(o, reference.o, limit.o).wrong,
            "lse_wrong": check.compare(lse, reference.lse, limit.lse).wrong})
    return verdicts


def wrong_gradients(problem: Problem, do: np.ndarray, exact: attention.Gradients
                    ) -> Iterator[Tuple[str, attention.Gradients]]:
    """Yields (name, gradients) that are wrong, unless they are 0."""
    factor = 1 / problem.scale
    yield "no_scale", attention.Gradients(exact.dq * factor, exact.dk * factor, exact.dv)
    without_o = attention.backward(problem.q, problem.k, np.zeros_like(problem.v), do,
                                   **problem.options())
    yield "dp_of_0", attention.Gradients(without_o.dq, without_o.dk, exact.dv)
    yield "zeros", attention.Gradients(*(np.zeros_like(x) for x in exact))
    for which, name in enumerate(("dq", "dk", "dv")):
        for change, value in (("nan", np.nan), ("infinite", -np.inf), ("plus_1", None)):
            if change == "infinite" and name != "dk":
                continue
            tensor = exact[which].copy()
            tensor[0, -1, -1, 3] = tensor[0, -1, -1, 3] + 1 if value is None else value
            yield f"{name}_{change}", exact._replace(**{name: tensor})


def write_backward(case: Case, seed: int, directory: str) -> list:
    """Writes the verdict of gradients.py on each set of gradients of a case."""
    write_case(case, seed, directory)
    q, k, v = (np.load(os.path.join(directory, name + ".npy")) for name in "qkv")
    do = np.random.default_rng([seed, 1]).normal(0.5, 1.0, q.shape)
    do = attention.round_to(do, "f32" if case.dtype == "f64" else case.dtype).astype(q.dtype)
    problem = Problem(q, k, v, case.causal, case.scale, case.dtype, **case.options())
    reference = gradients.compute_reference(problem, do)
    for name, array in zip(("do", "dq", "dk", "dv"), (do, *reference.exact)):
        np.save(os.path.join(directory, name + ".npy"), array)
    if case.dtype == "f64":
        return [{"case": case.name, "output": None}]
    limits = gradients.bounds(problem, do, reference)
    rounded = attention.Gradients(*(attention.round_to(x, case.dtype) for x in reference.exact))
    plain = attention.backward(q, k, v, do, case.dtype, **problem.options())
    verdicts = []
    for name, got in (("exact", rounded), ("plain", plain),
                      *wrong_gradients(problem, do, rounded)):
        got = attention.Gradients(*(x.astype(np.float32) for x in got))
        for tensor, array, right in zip(("dq", "dk", "dv"), got, rounded):
            if name == "exact" or not np.array_equal(array, right):
                np.save(os.path.join(directory, f"{name}_{tensor}.npy"), array)
        verdict = gradients.judge(problem, do, got, reference)[1].split(":")[0].lower()
        verdicts.append({
            "case": case.name, "output": name, "verdict": verdict,
            "bounds": [limit.element for limit in limits],
            "rms_bounds": [limit.rms for limit in limits],
            "wrong": [check.compare(x, want, limit.element).wrong
                      for x, want, limit in zip(got, reference.exact, limits)]})
    return verdicts


def write_case(case: Case, seed: int, directory: str) -> None:
    os.makedirs(directory, exist_ok=True)
    q, k, v = inputs(case, seed)
    scale = attention.default_scale(case.shape[-1]) if case.scale is None else case.scale
    options = case.options()
    if case.tree:
        options["tree"] = attention.tree_mask(case.tree)
    o, lse = attention.general(q, k, v, scale=scale, causal=case.causal, sinks=case.sinks, **options)
    for name, array in (("q", q), ("k", k), ("v", v), ("o", o), ("lse", lse)):
        np.save(os.path.join(directory, name + ".npy"), array)
    description = {"name": case.name, "shape": dict(zip(("batch", "heads", "q", "kv", "dim"),
                                                        case.shape)),
                   "causal": case.causal, "scale": float(scale), "dtype": case.dtype,
                   **case.options()}
    if case.kv_heads:
        description["kv_heads"] = case.kv_heads
    if case.sinks:
        np.save(os.path.join(directory, "sinks.npy"), np.array(case.sinks, np.float32))
    with open(os.path.join(directory, "case.json"), "w", encoding="utf-8") as file:
        json.dump(description, file, indent=2)
        file.write("\n")


def main() -> int:
    parser = argparse.ArgumentParser(description="Writes the golden cases.")
    parser.add_argument("--out", required=True, help="directory to write into, created if missing")
    out = parser.parse_args().out
    seeds = itertools.count()

    def write_list(name: str, entries: list) -> None:
        with open(os.path.join(out, name), "w", encoding="utf-8") as file:
            json.dump(entries, file, indent=2)
            file.write("\n")

    try:
        for name, cases, prefix in (("cases", CASES, ""), ("verdicts", VERDICT_CASES, "verdicts"),
                                    ("masks_and_shapes", MASK_CASES, ""),
                                    ("masks_and_shapes_verdicts", MASK_VERDICT_CASES, "verdicts")):
            entries = []
            for case in cases:
                seed, directory = next(seeds), os.path.join(out, prefix, case.name)
                if prefix:
                    entries += write_verdicts(case, seed, directory)
                else:
                    write_case(case, seed, directory)
                    entries.append(case.name)
            write_list(name + ".json", entries)
        write_list("backward.json", [entry for case in BACKWARD_CASES for entry in write_backward(
            case, next(seeds), os.path.join(out, "backward", case.name))])
        for name, cases in (("sinks", SINK_CASES), ("trees", TREE_CASES)):
            for case in cases:
                write_case(case, next(seeds), os.path.join(out, case.name))
            write_list(name + ".json", [case.name for case in cases])
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
