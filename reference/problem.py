"""Reads an attention problem from .npy files, with a separate error sentence for each kind of bad
input."""

import math
import os
from typing import Iterator, Optional, Sequence, Tuple

import numpy as np

import attention

DTYPE_OF_FILE = {2: "f16", 4: "f32", 8: "f64"}


class BadInput(Exception):
    """An error in a file or an option, as one sentence."""


def read_npy(path: str) -> np.ndarray:
    """Returns the array in a .npy file. It is memory-mapped, so large files need no memory until
    used."""
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
            except Exception:  # NumPy's parsers of literals and types raise many kinds
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
    """Returns "3 values are NaN or Inf, the first at [0, 5]", or None. Reads one matrix at a
    time."""
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


def checked_lengths(name: str, cu_seqlens: Sequence[int], total: int) -> Tuple[int, ...]:
    """Returns cu_seqlens after checking that it goes from 0 to the tensors' length."""
    text = f"{name} {','.join(map(str, cu_seqlens))}"
    if len(cu_seqlens) < 2 or any(int(x) != x for x in cu_seqlens):
        raise BadInput(f"{text}: expected two or more whole numbers")
    if cu_seqlens[0] != 0 or any(a > b for a, b in zip(cu_seqlens, cu_seqlens[1:])):
        raise BadInput(f"{text}: expected numbers that begin with 0 and do not descend")
    if cu_seqlens[-1] != total:
        raise BadInput(f"{text}: ends with {cu_seqlens[-1]}, the tensors are {total} long")
    return tuple(map(int, cu_seqlens))


class Problem:
    """q [B, H, Lq, D] and k, v [B, Hkv, Lkv, D], or [L, D] each, and the options of the problem.
    With cu_seqlens, sequences are packed along L."""

    def __init__(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool = False,
                 scale: Optional[float] = None, dtype: Optional[str] = None,
                 window: Tuple[int, int] = attention.NO_LIMITS, softcap: float = 0.0,
                 alibi: bool = False, cu_seqlens_q: Optional[Sequence[int]] = None,
                 cu_seqlens_k: Optional[Sequence[int]] = None,
                 sinks: Optional[np.ndarray] = None,
                 tree: Optional[Sequence[int]] = None) -> None:
        """Raises BadInput if the shapes do not fit together, or a value is NaN or Inf before or
        after rounding to `dtype` (default: the type of q)."""
        for name, array in (("q", q), ("k", k), ("v", v)):
            if array.ndim not in (2, 4):
                raise BadInput(f"{name} has shape {list(array.shape)}; "
                               "accepted: [B,H,L,D] or [L,D]")
        if k.shape != v.shape:
            raise BadInput(f"k has shape {list(k.shape)} and v {list(v.shape)}; "
                           "they must be the same")
        self.output_shape: Tuple[int, ...] = q.shape
        both = f"q has shape {list(q.shape)} and k {list(k.shape)}; "
        if q.ndim != k.ndim:
            raise BadInput(both + "both must be [B,H,L,D] or both [L,D]")
        self.q, self.k, self.v = (x.reshape((1, 1) + x.shape) if x.ndim == 2 else x
                                  for x in (q, k, v))
        batch, heads, len_q, dim = self.q.shape
        self.kv_heads, len_kv = self.k.shape[1:3]
        if self.k.shape[0] != batch or self.k.shape[3] != dim or heads % self.kv_heads:
            raise BadInput(both + "they may differ in the length, and k's heads may divide q's")
        for name, array in (("q", q), ("k", k), ("v", v)):
            text = nonfinite_text(array)
            if text:
                raise BadInput(f"{name}: {text}")
        if scale is not None and not math.isfinite(scale):
            raise BadInput(f"scale {scale}: accepted: a finite number")
        if len(window) != 2 or any(int(x) != x or x < -1 for x in window):
            raise BadInput(f"window {','.join(map(str, window))}: accepted: two whole numbers, left "
                           "and right; -1 has no limit")
        if not (0 <= softcap and math.isfinite(softcap)):
            raise BadInput(f"softcap {softcap}: accepted: a positive number, or 0 for none")
        if sinks is not None and (sinks.shape != (heads,) or not (sinks < np.inf).all()):
            raise BadInput(f"sinks have shape {list(sinks.shape)}: expected [{heads}], a finite "
                           "number for each head, or -inf for none")
        if tree is not None and (cu_seqlens_q is not None or len(tree) != len_q or len_q > len_kv
                                 or any(not -1 <= x < i for i, x in enumerate(tree))):
            raise BadInput(f"tree {','.join(map(str, tree))}: expected a parent for each of the {len_q} "
                           "last tokens, an earlier token or -1 for none, and no packed sequences")
        if (cu_seqlens_q is None) != (cu_seqlens_k is None):
            raise BadInput("cu_seqlens_q and cu_seqlens_k go together: give both")
        self.cu_seqlens_q, self.cu_seqlens_k = (0, len_q), (0, len_kv)
        self.packed = cu_seqlens_q is not None
        if self.packed:
            if batch != 1:
                raise BadInput(f"{both}packed sequences have batch 1")
            self.cu_seqlens_q = checked_lengths("cu_seqlens_q", cu_seqlens_q, len_q)
            self.cu_seqlens_k = checked_lengths("cu_seqlens_k", cu_seqlens_k, len_kv)
            if len(self.cu_seqlens_q) != len(self.cu_seqlens_k):
                raise BadInput(f"cu_seqlens_q has {len(self.cu_seqlens_q)} numbers and "
                               f"cu_seqlens_k {len(self.cu_seqlens_k)}: expected as many")
        self.shape = (batch, heads, len_q, len_kv, dim)
        self.tree = None if tree is None else attention.tree_mask(tree)
        self.causal = causal
        self.window = attention.limits(causal, window)  # includes `causal`
        self.softcap = float(softcap)
        self.slopes = attention.alibi_slopes(heads) if alibi else np.zeros(heads)
        self.sinks = sinks if sinks is None else np.asarray(sinks, np.float64)
        self.scale = float(attention.default_scale(dim) if scale is None else scale)
        self.dtype = dtype or DTYPE_OF_FILE[q.dtype.itemsize]
        sizes = {}
        for name, array in (("q", self.q), ("k", self.k), ("v", self.v)):
            largest = max(float(np.abs(array[index]).max())
                          for index in np.ndindex(array.shape[:2]))
            if not np.isfinite(attention.round_to(np.float64(largest), self.dtype)):
                raise BadInput(f"{name}: its largest value {largest:g} overflows {self.dtype}")
            sizes[name] = largest
        # Like common/program.cpp, because kernels compute Q K.T in fp32 before they scale it.
        product = max(1.0, dim * sizes["q"] * sizes["k"])
        if (self.dtype != "f64" and not
                product * max(1.0, abs(self.scale) * math.log2(math.e)) < np.finfo(np.float32).max):
            raise BadInput("Q K.T or scale * Q K.T could pass 3.4e38, the largest fp32 number")

    def title(self) -> str:
        """Returns a description for reports."""
        left, right = self.window
        words = ["B,H,Lq,Lkv,D = " + ",".join(map(str, self.shape)), self.dtype]
        if self.kv_heads != self.shape[1]:
            words.append(f"{self.kv_heads} heads of K and V")
        words += ["causal"] if self.causal else []
        if left >= 0 or (right >= 0 and not self.causal):
            words.append(f"window {left},{right}")
        words += [f"softcap {self.softcap:g}"] if self.softcap else []
        words += ["ALiBi"] if self.slopes.any() else []
        words += ["sinks"] if self.sinks is not None else []
        words += ["tree"] if self.tree is not None else []
        if self.packed:
            words.append(f"{len(self.cu_seqlens_q) - 1} sequences")
        return ", ".join(words)

    def head(self, b: int, h: int, kv_head: Optional[int] = None
             ) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns q, k and v of one head, [L, D] each, rounded to the type in which the program
        computes."""
        if kv_head is None:
            kv_head = h // (self.shape[1] // self.kv_heads)
        return tuple(attention.round_to(x, self.dtype)
                     for x in (self.q[b, h], self.k[b, kv_head], self.v[b, kv_head]))

    def sequences(self) -> Iterator[Tuple[slice, slice]]:
        """Yields the queries and keys that belong together, which are all, unless sequences are packed."""
        return attention.sequences(self.cu_seqlens_q, self.cu_seqlens_k)

    def sink(self, h: int) -> float:
        """Returns the sink of a head, or -inf."""
        return attention.NEG_INF if self.sinks is None else float(self.sinks[h])

    def modifiers(self, h: int) -> dict:
        """Returns the arguments of `attention.scores` besides the scale."""
        return {"window": self.window, "softcap": self.softcap, "slope": self.slopes[h],
                "tree": self.tree}

    def options(self) -> dict:
        """Returns the arguments of `attention.general` besides the tensors."""
        options = {"scale": self.scale, "window": self.window, "softcap": self.softcap,
                   "alibi": bool(self.slopes.any()), "sinks": self.sinks, "tree": self.tree}
        if self.packed:
            options.update(cu_seqlens_q=self.cu_seqlens_q, cu_seqlens_k=self.cu_seqlens_k)
        return options

    def longest_keys(self) -> int:
        """Returns the number of keys in the longest sequence."""
        return max(np.diff(self.cu_seqlens_k))

    def largest_v(self) -> float:
        return max(float(np.abs(self.v[b, h]).max()) for b, h in np.ndindex(self.v.shape[:2]))
