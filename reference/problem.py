"""One attention problem read from .npy files, with an error sentence for each way to be unfit."""

import math
import os
from typing import Optional, Tuple

import numpy as np

import attention

DTYPE_OF_FILE = {2: "f16", 4: "f32", 8: "f64"}


class BadInput(Exception):
    """What was wrong with a file or an option, in one sentence."""


def read_npy(path: str) -> np.ndarray:
    """The array in a .npy file, mapped and not read: large files cost no memory until used."""
    try:
        with open(path, "rb") as file:
            try:
                version = np.lib.format.read_magic(file)
            except ValueError:
                raise BadInput(f"{path}: is not a .npy file") from None
            if version not in ((1, 0), (2, 0)):
                raise BadInput(f"{path}: is .npy version {version[0]}.{version[1]}; "
                               "accepted: 1.0, 2.0")
            read_header = (np.lib.format.read_array_header_1_0 if version == (1, 0) else
                           np.lib.format.read_array_header_2_0)
            try:
                shape, fortran_order, dtype = read_header(file)
            except Exception:  # NumPy raises whatever its parsers of literals and of types raise
                raise BadInput(f"{path}: has a header that NumPy cannot read") from None
            offset, size = file.tell(), os.fstat(file.fileno()).st_size
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    if dtype.hasobject:
        raise BadInput(f"{path}: holds pickled Python objects; accepted: float16, float32, float64")
    if dtype.kind != "f" or dtype.itemsize not in DTYPE_OF_FILE:
        hint = "; save bfloat16 as float32" if dtype.str in ("|V2", "<V2", "<u2", "|u2") else ""
        raise BadInput(f"{path}: holds {dtype}; accepted: float16, float32, float64{hint}")
    expected = offset + math.prod(shape) * dtype.itemsize
    if size != expected:
        raise BadInput(f"{path}: has {size} bytes, its shape {list(shape)} needs {expected}")
    if 0 in shape:
        raise BadInput(f"{path}: shape {list(shape)} has no elements")
    return np.memmap(path, dtype, "r", offset, shape, "F" if fortran_order else "C")


def nonfinite_text(array: np.ndarray) -> Optional[str]:
    """"3 values are NaN or Inf, the first at [0, 5]", or None. Looks at one matrix at a time."""
    count, first = 0, None
    for index in np.ndindex(array.shape[:-2]):
        bad = ~np.isfinite(array[index])
        if bad.any() and first is None:
            first = index + tuple(int(i) for i in np.unravel_index(np.argmax(bad), bad.shape))
        count += int(bad.sum())
    if not count:
        return None
    return (f"{count} value{' is' if count == 1 else 's are'} NaN or Inf, "
            f"the first at {list(first)}")


class Problem:
    """q, k, v [B, H, L, D] or [L, D], and what was asked of them."""

    def __init__(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool = False,
                 scale: Optional[float] = None, dtype: Optional[str] = None) -> None:
        """Raises BadInput if the shapes do not fit together or a value is NaN or Inf, also after
        rounding to `dtype` (default: the type of q)."""
        for name, array in (("q", q), ("k", k), ("v", v)):
            if array.ndim not in (2, 4):
                raise BadInput(f"{name} has shape {list(array.shape)}; "
                               "accepted: [B,H,L,D] or [L,D]")
        if k.shape != v.shape:
            raise BadInput(f"k has shape {list(k.shape)} and v {list(v.shape)}; "
                           "they must be the same")
        if q.ndim != k.ndim or q.shape[:-2] != k.shape[:-2] or q.shape[-1] != k.shape[-1]:
            raise BadInput(f"q has shape {list(q.shape)} and k {list(k.shape)}; "
                           "they may differ in the length only")
        for name, array in (("q", q), ("k", k), ("v", v)):
            text = nonfinite_text(array)
            if text:
                raise BadInput(f"{name}: {text}")
        if scale is not None and not math.isfinite(scale):
            raise BadInput(f"scale {scale}: accepted: a finite number")
        self.output_shape: Tuple[int, ...] = q.shape
        self.q, self.k, self.v = (x.reshape((1, 1) + x.shape) if x.ndim == 2 else x
                                  for x in (q, k, v))
        batch, heads, len_q, dim = self.q.shape
        self.shape = (batch, heads, len_q, self.k.shape[2], dim)
        self.causal = causal
        self.scale = float(attention.default_scale(dim) if scale is None else scale)
        self.dtype = dtype or DTYPE_OF_FILE[q.dtype.itemsize]
        sizes = {}
        for name, array in (("q", self.q), ("k", self.k), ("v", self.v)):
            largest = max(float(np.abs(array[index]).max()) for index in np.ndindex(batch, heads))
            if not np.isfinite(attention.round_to(np.float64(largest), self.dtype)):
                raise BadInput(f"{name}: its largest value {largest:g} overflows {self.dtype}")
            sizes[name] = largest
        # As common/program.cpp: kernels form Q K.T in fp32 first, and scale it then.
        product = max(1.0, dim * sizes["q"] * sizes["k"])
        if (self.dtype != "f64" and not
                product * max(1.0, abs(self.scale) * math.log2(math.e)) < np.finfo(np.float32).max):
            raise BadInput("Q K.T or scale * Q K.T could pass 3.4e38, the largest fp32 number")

    def head(self, b: int, h: int) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
        """q, k, v of one head, [L, D] each, rounded to the type the program computes in."""
        return tuple(attention.round_to(x[b, h], self.dtype) for x in (self.q, self.k, self.v))

    def largest_v(self) -> float:
        return max(float(np.abs(self.v[b, h]).max()) for b, h in np.ndindex(self.v.shape[:2]))
