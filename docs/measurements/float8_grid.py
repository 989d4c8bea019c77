#!/usr/bin/env python3
"""FlashAttention-3's float8 tests as a grid for chapter 23's kernel, with their rule.

    docs/measurements/float8_grid.py --small             the short ones, on the emulator
    docs/measurements/float8_grid.py --device gpu        all of them; needs a GPU and PyTorch

Lengths, options and the rule are those of hopper/test_flash_attn.py in Dao-AILab/flash-attention
with float8_e4m3fn: normal numbers in e4m3, times random descales in [0, 2), one for each tensor,
sequence and head of K. O may differ from exact attention of the multiplied numbers by

    2 x (largest error of plain attention: S and P rounded to bf16, then P to e4m3)
      + 2 x (the change of O in bf16 when 0.3 is added and subtracted).

In these tests the caller provides the 8-bit numbers. This kernel rounds to 8 bits itself, with its
own scales and means, so the numbers that it multiplies are recomputed here (`multiplied`). The
difference between O and attention of the caller's numbers is printed in the same unit, but not
checked. Exit status: 0 if all are correct, 1 if not, 2 for wrong usage.
"""

import itertools
import sys

import paths  # noqa: F401, before the modules of reference/
import check  # says so if there is no NumPy
import numpy as np

import attention
import low_precision
from forward_grid import HEADS, LibraryOf, ROOT, Refused, SMALL_HEADS, SMALL_SCORES, make_case
from problem import BadInput

PAIRS = [(1, 1), (64, 128), (128, 192), (256, 256), (239, 1), (799, 3), (113, 203), (113, 128),
         (128, 217), (113, 211), (108, 256), (256, 512), (384, 256), (640, 128), (512, 256),
         (1024, 1024), (1023, 1024), (1024, 1023), (4096, 4096), (4224, 4224)]  # Lq, Lkv
DIMS = (64, 128)
RTOL = 2
QUERY_TILE, KEY_TILE = 64, 128  # that share a scale: WARPGROUP_Q, BLOCK_KV of chapter 23's params.hpp
LARGEST = 448


class OnHost:
    """Computes with NumPy in float64."""

    @staticmethod
    def array(x):
        return np.asarray(x, np.float64)

    @staticmethod
    def largest(x, axis):
        return x.max(axis, keepdims=True)

    @staticmethod
    def exp(x):
        return np.exp(x)

    @staticmethod
    def f32(x):
        return x.astype(np.float32).astype(np.float64)

    @staticmethod
    def bf16(x):
        return attention.round_to(x, "bf16").astype(np.float64)

    @staticmethod
    def e4m3(x):
        return low_precision.to_numbers(x, low_precision.E4M3).astype(np.float64)


class OnGpu:
    """Computes with PyTorch in float64."""

    def __init__(self) -> None:
        import torch
        self.torch = torch

    def array(self, x):
        return self.torch.as_tensor(x, device="cuda").double()

    def largest(self, x, axis):
        return x.amax(axis, keepdim=True)

    def exp(self, x):
        return self.torch.exp(x)

    def f32(self, x):
        return x.float().double()

    def bf16(self, x):
        return x.float().bfloat16().double()

    def e4m3(self, x):
        return x.float().to(self.torch.float8_e4m3fn).double()


def multiplied(on, q, k, v) -> tuple:
    """Returns the numbers that the kernel multiplies, and V's mean, which it adds at the end. Q is
    scaled by tiles, K without its mean by tiles, and V without its mean by columns. Each is rounded
    to e4m3 relative to its largest number."""
    def rounded(x, largest):  # in fp32, as the kernel does it, because many numbers lie between two of e4m3
        inverse = on.f32(LARGEST / on.f32(largest + (largest == 0)))
        return on.e4m3(on.f32(x * inverse)) * on.f32(1 / inverse)

    def in_tiles(x, tile):
        out = on.array(x) * 1
        for first in range(0, x.shape[-2], tile):
            part = x[..., first:first + tile, :]
            out[..., first:first + tile, :] = rounded(part, on.largest(on.largest(abs(part), -1), -2))
        return out

    k = on.f32(k - on.f32(k.mean(-2, keepdims=True)))
    mean = on.f32(v.mean(-2, keepdims=True))
    v = on.f32(v - mean)
    return in_tiles(q, QUERY_TILE), in_tiles(k, KEY_TILE), rounded(v, on.largest(abs(v), -2)), mean


def attend(on, q, k, v, mean, hidden, yardstick: bool):
    """Returns exact attention, with 0 for a row without a key, or the attention that
    FlashAttention's tests call plain. `mean` is added to V. q [B, Hkv, group, Lq, D], k and v [B,
    Hkv, 1, Lkv, D], hidden [Lq, Lkv]: 1 or 0."""
    kept = on.bf16 if yardstick else (lambda x: x)
    s = kept(kept(q) @ kept(kept(k) / q.shape[-1]**0.5).swapaxes(-1, -2)) - hidden * 1e300
    p = on.exp(s - on.largest(s, -1)) * (1 - hidden)
    l = p.sum(-1, keepdims=True)
    p = kept(p / (l + (l == 0)))
    return kept((on.e4m3(p) if yardstick else p) @ kept(v) + mean * (l > 0))


def error_of(on, o, exact, plain) -> tuple:
    """Returns the largest error, and the largest error that the rule allows."""
    lost = abs(on.bf16(on.bf16(exact + 0.3) - 0.3) - exact).max()
    return float(abs(o - exact).max()), float(RTOL * abs(plain - exact).max() + 2 * lost)


def tensors_of(case) -> list:
    """Returns q, k, v in float32, which are numbers of e4m3 times descales, rounded to bf16."""
    random = np.random.default_rng(case.seed)
    tensors = []
    for shape in case.shapes():
        descale = 2 * random.random((shape[0], case.heads[1], 1, 1, 1))
        x = OnHost.e4m3(OnHost.bf16(random.normal(size=shape)))
        x = OnHost.bf16(x.reshape(shape[0], case.heads[1], -1, *shape[2:]) * descale)
        tensors.append(x.reshape(shape).astype(np.float32))
    return tensors


def judge(on, case, run) -> tuple:
    """Returns (error, bound) against the numbers that the kernel multiplied, and against its
    inputs."""
    tensors = tensors_of(case)
    if isinstance(on, OnGpu):
        tensors = [on.torch.as_tensor(x, device="cuda").bfloat16() for x in tensors]
    o, _ = run(case, *tensors)
    q, k, v, o = (on.array(x).reshape(x.shape[0], case.heads[1], -1, *x.shape[2:]) for x in (*tensors, o))
    hidden = on.array(attention.modified(np.zeros(case.lengths), case.causal, window=case.window) == -np.inf)
    return tuple(error_of(on, o, attend(on, *numbers, hidden, False), attend(on, *numbers, hidden, True))
                 for numbers in (multiplied(on, q, k, v), (q, k, v, 0)))


def cases(small: bool, first_seed: int):
    seeds = itertools.count(first_seed)
    for lengths, dim, heads, causal, local in itertools.product(PAIRS, DIMS, HEADS, (False, True), (False, True)):
        if not small or lengths[0] * lengths[1] <= SMALL_SCORES:
            yield make_case("float8", lengths, dim, (SMALL_HEADS if small else HEADS)[heads], causal, local, False,
                            0.0, "bf16", next(seeds), 1 if small or max(lengths) >= 1000 else 2
                            )._replace(layout="bhld")  # the kernel takes no strided tensors


def main(arguments=None) -> int:
    parser = check.Parser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", metavar="FILE", default=str(ROOT / "build" / "lib" / "libflash_attention.so"))
    parser.add_argument("--chapter", type=int, default=23, help="chapter in the library [23]")
    parser.add_argument("--device", choices=("emulator", "gpu"), default="emulator")
    parser.add_argument("--small", action="store_true", help="short rows, few heads")
    parser.add_argument("--every", type=int, default=1, help="run one case in N [1]")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first case [1]")
    try:
        options = parser.parse_args(arguments)
        if options.every < 1:
            raise BadInput(f"--every {options.every}: accepted: 1 and more")
        if options.device == "emulator" and not options.small:
            raise BadInput("--device emulator: accepted with --small")
        try:
            on = OnGpu() if options.device == "gpu" else OnHost()
        except ImportError:
            raise BadInput(f"{sys.executable} has no PyTorch, which --device gpu needs") from None
        try:
            run = LibraryOf(options.library, options.chapter)
        except OSError as error:
            raise BadInput(f"{error}; build the target flash_attention") from None
    except BadInput as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    right = wrong = refused = 0
    largest = {"what it multiplied": 0.0, "what it was given": 0.0}
    for case in itertools.islice(cases(options.small, options.seed), 0, None, options.every):
        try:
            found = judge(on, case, run)
        except Refused as error:
            print(f"refused: {case}: {error}")
            refused += 1
            continue
        for name, (error, bound) in zip(largest, found):
            ratio = error / bound
            largest[name] = max(largest[name], ratio) if ratio == ratio else float("nan")
        (error, bound), _ = found
        if error <= bound:
            right += 1
        else:
            wrong += 1
            print(f"WRONG: {case}: largest error {error:.2e}, bound {bound:.2e}")
    print(f"{right + wrong + refused} cases: {right} right, {wrong} wrong, {refused} refused; largest error / "
          "bound, compared with " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in largest.items()))
    return 0 if wrong == refused == 0 and right > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
