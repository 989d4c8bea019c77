#!/usr/bin/env python3
"""Golden cases: inputs and the float64 answer, for programs in any language to be checked against.

    reference/make_cases.py --out DIR

writes DIR/NAME/{q,k,v,o,lse}.npy and DIR/NAME/case.json for every case, and last DIR/cases.json,
the list of names: a reader that goes by the list cannot pass because a folder was empty.
q is [B,H,Lq,D], k and v [B,H,Lkv,D], in the type that case.json names (bf16: float32 files that
hold bf16 values; f64: that hold fp32 values); o [B,H,Lq,D] and lse [B,H,Lq] are float64, computed from the files' values.
Inputs are normal with mean 0.5, so that outputs stay away from 0 and a relative error means
something. Everything follows from the case's place in the list: the same bytes on every run.
"""

import argparse
import json
import os
import sys
from typing import NamedTuple, Optional, Tuple

try:
    import numpy as np
except ImportError:
    print(f"error: {sys.executable} has no NumPy; use an interpreter that has it", file=sys.stderr)
    sys.exit(2)

import attention

FILE_TYPE = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": np.float32}


class Case(NamedTuple):
    name: str
    shape: Tuple[int, int, int, int, int]  # B, H, Lq, Lkv, D
    dtype: str = "f64"
    causal: bool = False
    scale: Optional[float] = None          # None: 1/sqrt(D)
    input_scale: float = 1.0               # multiplies q
    special: str = ""                      # "one-to-six" or "very-negative"


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


def inputs(case: Case, seed: int) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q, k, v of a case, in the type of its files."""
    batch, heads, len_q, len_kv, dim = case.shape
    if case.special == "one-to-six":  # one query, scores and values 1…6: output 5.4329
        x = np.arange(1.0, 7.0).reshape(1, 1, 6, 1)
        return np.ones((1, 1, 1, 1)), x, x
    random = np.random.default_rng(seed)
    q = case.input_scale * random.normal(0.5, 1.0, (batch, heads, len_q, dim))
    k = random.normal(0.5, 1.0, (batch, heads, len_kv, dim))
    v = random.normal(0.5, 1.0, (batch, heads, len_kv, dim))
    if case.special == "very-negative":  # every score below -800: exp(score) is 0 in any type
        q, k = np.abs(q) + 15.0, -np.abs(k) - 15.0
    # f64 files hold fp32 values: programs keep their inputs in fp32 at most, and must lose nothing.
    values = "f32" if case.dtype == "f64" else case.dtype
    return tuple(attention.round_to(x, values).astype(FILE_TYPE[case.dtype]) for x in (q, k, v))


def write_case(case: Case, seed: int, directory: str) -> None:
    os.makedirs(directory, exist_ok=True)
    q, k, v = inputs(case, seed)
    scale = attention.default_scale(case.shape[-1]) if case.scale is None else case.scale
    o, lse = attention.safe(q, k, v, scale, case.causal)
    for name, array in (("q", q), ("k", k), ("v", v), ("o", o), ("lse", lse)):
        np.save(os.path.join(directory, name + ".npy"), array)
    description = {"name": case.name, "shape": dict(zip(("batch", "heads", "q", "kv", "dim"),
                                                        case.shape)),
                   "causal": case.causal, "scale": float(scale), "dtype": case.dtype}
    with open(os.path.join(directory, "case.json"), "w", encoding="utf-8") as file:
        json.dump(description, file, indent=2)
        file.write("\n")


def main() -> int:
    parser = argparse.ArgumentParser(description="Writes the golden cases.")
    parser.add_argument("--out", required=True, help="directory to write into, created if missing")
    out = parser.parse_args().out
    try:
        for seed, case in enumerate(CASES):
            write_case(case, seed, os.path.join(out, case.name))
        with open(os.path.join(out, "cases.json"), "w", encoding="utf-8") as file:
            json.dump([case.name for case in CASES], file, indent=2)
            file.write("\n")
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
