"""Compares one tensor with its float64 reference and describes the result. All checks use it."""

from typing import NamedTuple, Optional, Tuple

import numpy as np

WIDEST_BOUND = 0.25  # as a fraction of the expected root mean square, where a wider bound is inconclusive


class Comparison(NamedTuple):
    """Result of comparing one tensor with its reference."""
    bound: float
    max_error: float  # NaN if any difference is NaN
    rms_error: float  # NaN if any difference is NaN
    wrong: int  # elements not within the bound, including the nonfinite ones
    nonfinite: int  # NaN where the reference is not NaN, or Inf where it is finite
    total: int
    first: Optional[Tuple[int, ...]]  # index of the first wrong element
    expected: float = 0.0  # value at `first`
    got: float = 0.0


def compare(got: np.ndarray, expected: np.ndarray, bound: float) -> Comparison:
    """Compares element by element with the bound. An infinite expected value must be met
    exactly."""
    got = np.asarray(got, np.float64)
    with np.errstate(invalid="ignore"):  # Inf - Inf
        error = np.abs(got - expected)
    error[np.isinf(expected) & (got == expected)] = 0.0
    wrong = ~(error <= bound)  # not `error > bound`, because a NaN would pass
    nonfinite = (np.isnan(got) & ~np.isnan(expected)) | (np.isinf(got) & np.isfinite(expected))
    max_error, rms_error = float(error.max()), float(np.sqrt(np.mean(error**2)))
    if not wrong.any():
        return Comparison(bound, max_error, rms_error, 0, 0, error.size, None)
    first = tuple(int(i) for i in np.unravel_index(np.argmax(wrong), wrong.shape))
    return Comparison(bound, max_error, rms_error, int(wrong.sum()), int(nonfinite.sum()),
                      error.size, first, float(expected[first]), float(got[first]))


def finite(values: np.ndarray) -> np.ndarray:
    """Returns the finite elements. Plain attention may overflow in f16, a masked key scores -inf,
    and a fully masked row has LSE = -inf, but none of them may widen a bound."""
    return values[np.isfinite(values)]


def largest(values: np.ndarray) -> float:
    return float(np.abs(values).max(initial=0.0))


def describe(name: str, result: Comparison, dimensions: int) -> str:
    """Describes the result. An index is printed with the file's number of `dimensions`."""
    text = f"  {name}: largest error {result.max_error:.3g}, bound {result.bound:.3g}"
    if result.first is None:
        return text + f"; all {result.total} elements agree"
    where = ", ".join(str(i) for i in result.first[-dimensions:])
    nonfinite = f", {result.nonfinite} of them NaN or Inf" if result.nonfinite else ""
    return (text + f"\n  {name}: {result.wrong} of {result.total} elements are wrong{nonfinite}"
            f"\n  {name}: first at [{where}]: expected {result.expected:.9g}, got {result.got:.9g}")


def wrong_shape(name: str, got: Tuple[int, ...], expected: Tuple[int, ...]) -> str:
    text = f"  {name}: shape {list(got)}, expected {list(expected)}"
    if len(got) == len(expected) == 4 and got == tuple(expected[i] for i in (0, 2, 1, 3)):
        text += "\n  looks like: heads and length are exchanged: [B,L,H,D] instead of [B,H,L,D]"
    return text
