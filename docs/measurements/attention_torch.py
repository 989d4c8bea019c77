"""Implements compute_reference of check.py with PyTorch, on the device of the tensors.

It is for problems that take NumPy too long. The result and the error measure are the same. It
processes all heads at once and needs memory for S.
"""

from typing import Tuple

import torch

import paths  # noqa: F401, before the modules of reference/
import check
from problem import Problem

TYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
torch.set_float32_matmul_precision("highest")  # the error measure uses fp32 products, not TF32


def modified(s: torch.Tensor, problem: Problem) -> torch.Tensor:
    """See attention.modified. s is [B, H, Lq, Lkv] of one sequence."""
    len_q, len_kv = s.shape[-2:]
    i = torch.arange(len_q, device=s.device)[:, None]
    distance = torch.arange(len_kv, device=s.device) - (i + len_kv - len_q)
    if problem.softcap:
        s = problem.softcap * torch.tanh(s / problem.softcap)
    if problem.slopes.any():
        slopes = torch.as_tensor(problem.slopes, device=s.device).to(s.dtype)
        s = s - slopes[:, None, None] * distance.abs().to(s.dtype)
    left, right = problem.window
    hidden = torch.zeros_like(distance, dtype=torch.bool)
    if left >= 0:
        hidden |= distance < -left
    if right >= 0:
        hidden |= distance > right
    return s.masked_fill(hidden, -torch.inf)


def softmax_parts(s: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns m [..., Lq], P relative to it, and its sum l, with l = 1 for a row that sees no
    key."""
    if s.shape[-1] == 0:
        m = torch.full_like(s.sum(-1), -torch.inf)
    else:
        m = s.amax(-1)
    empty = m == -torch.inf
    p = torch.exp(s - m.masked_fill(empty, 0)[..., None])
    return m, p, p.sum(-1).masked_fill(empty, 1)


def largest(values: torch.Tensor) -> float:
    """Returns the largest finite value, see check.finite."""
    values = values[torch.isfinite(values)].abs()
    return float(values.max()) if values.numel() else 0.0


def compute_reference(problem: Problem, *tensors) -> check.Reference:
    """`tensors`: the problem's q, k, v [B, H, L, D], on any device, or NumPy arrays."""
    dtype, half_ulp = TYPES[problem.dtype], torch.finfo(TYPES[problem.dtype]).eps / 2
    q, k, v = (torch.as_tensor(x).to(dtype) for x in tensors)
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    o = torch.zeros(q.shape, dtype=torch.float64, device=q.device)
    lse = torch.zeros(q.shape[:3], dtype=torch.float64, device=q.device)
    plain_error = plain_squares = plain_lse_error = largest_score = rounding = 0.0
    for rows, keys in problem.sequences():
        if rows.start == rows.stop:
            continue
        q_n, k_n, v_n = q[:, :, rows], k[:, :, keys], v[:, :, keys]
        s = modified(problem.scale * (q_n.double() @ k_n.double().mT), problem)
        m, p, l = softmax_parts(s)
        o[:, :, rows], lse[:, :, rows] = p @ v_n.double() / l[..., None], m + l.log()
        largest_score = max(largest_score, largest(s))

        rounded = p.to(dtype).double()
        squares = (p.masked_fill(rounded == p, 0)**2).sum(-1)
        rounding = max(rounding, float((((rounded - p).sum(-1).abs() + half_ulp * squares.sqrt())
                                        / l).max()))
        del s, p, rounded

        s = modified(problem.scale * (q_n.float() @ k_n.float().mT), problem)
        m, p, l = softmax_parts(s)
        plain = ((p / l[..., None]).to(dtype).float() @ v_n.float()).to(dtype).double()
        error = plain - o[:, :, rows]
        error = error[torch.isfinite(error)]
        plain_error = max(plain_error, largest(error))
        plain_squares += float((error**2).sum())
        plain_lse_error = max(plain_lse_error, largest((m + l.log()).double() - lse[:, :, rows]))
    return check.Reference(o.cpu().numpy(), lse.cpu().numpy(), plain_error, plain_squares**0.5,
                           plain_lse_error, rounding, largest_score)
