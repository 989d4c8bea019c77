#!/usr/bin/env python3
"""Races chapter 11 with several new tokens, as a chain and as a tree, against FlashAttention-3 and FlashInfer.

    docs/measurements/h100/tree_race.py FOLDER > tree_race.csv

FOLDER has new11.so (kernel.cu of this folder says how), and if they were built outside this repository:
before11.so, the same of the commit before trees; libfa3decode.so and libflashinfer.so, a C function
around FlashAttention-3's kernels with packed heads and splits, and around FlashInfer's
BatchPrefillWithPagedKVCacheDispatched with PrefillPlan. 32 heads on 8 of K and V, D 128, bf16,
microseconds. The rules are those of one_run.py: 50 ms of a kernel that are not timed, then 30 that
are, in 3 rounds of new order. Each kernel is first compared with float64.

tree            the parent of token i is (i - 1) / 2. FlashInfer gets it as a mask of a bit for each token
                and key
pages           of 16 keys, in random order; FlashInfer takes only pages
"""
import ctypes
import datetime
import os

import numpy as np
import torch

import one_run
from one_run import FOLDER, I64, P, call_of, draw, library, pointers, race, splits_of

HEADS, KV_HEADS, DIM, PAGE = 32, 8, 128, 16


def ancestors(tokens):
    """Returns which new tokens each of them sees, [tokens, tokens]."""
    seen = torch.eye(tokens, dtype=torch.bool)
    for i in range(1, tokens):
        seen[i] |= seen[(i - 1) // 2]
    return seen


def ours(name, q, k, v, o, tree=None, table=None):
    batch, _, tokens, _ = q.shape
    keys = k.shape[2] * (table.shape[1] if table is not None else 1)
    splits = splits_of(batch, HEADS, KV_HEADS, tokens, keys, DIM)
    work = torch.empty(splits * q.numel() // DIM * (DIM + 1), device="cuda")
    words = None if tree is None else torch.as_tensor(np.repeat((tree.numpy().astype(np.uint64) << np.arange(
        tokens, dtype=np.uint64)).sum(1)[None], batch, 0).view(np.int64), device="cuda")
    lengths = torch.full((batch,), keys, dtype=torch.int32, device="cuda")
    kept = (q, k, v, o, work, words, table, lengths)
    return call_of(library(name).run_cache, kept, *pointers(q, k, v, o), None,
                   *(None if x is None else P(x.data_ptr()) for x in (words, table)),
                   *map(I64, (0 if table is None else k.shape[0], k.shape[2],
                              0 if table is None else table.shape[1], batch, HEADS, KV_HEADS, tokens, DIM)),
                   ctypes.c_float(DIM ** -0.5), splits, *pointers(work, lengths))


def fa3(q, k, v, o):
    batch, tokens, keys = q.shape[0], q.shape[2], k.shape[2]
    lib = library("libfa3decode")
    splits = lib.fa3_splits(batch, HEADS, KV_HEADS, tokens, keys)
    sums = torch.empty(splits * q.numel(), device="cuda"), torch.empty(splits * q.numel() // DIM, device="cuda")
    lse, counter = torch.empty(q.shape[:3], device="cuda"), torch.zeros(4, dtype=torch.int32, device="cuda")
    return call_of(lib.fa3_decode, (q, k, v, o, sums, lse, counter), *pointers(q, k, v, o, lse, *sums, counter),
                   batch, HEADS, KV_HEADS, tokens, keys, splits, None)


def flashinfer(q, k, v, o, tree, table):
    """Q and O are [batch, tokens, heads, dim] in their memory."""
    batch, columns, tokens = q.shape[0], table.shape[1], q.shape[2]
    lib = library("libflashinfer")
    lib.fi_plan.restype = P
    buffers = [torch.empty(256 << 20, dtype=torch.uint8, device="cuda"),
               torch.empty(16 << 20, dtype=torch.uint8, device="cuda"),
               torch.empty(16 << 20, dtype=torch.uint8, pin_memory=True)]
    q_starts, starts = (torch.arange(batch + 1, dtype=torch.int32) * n for n in (tokens, columns))
    plan = lib.fi_plan(P(buffers[0].data_ptr()), I64(256 << 20), *pointers(*buffers[1:]), I64(16 << 20),
                       *pointers(q_starts, starts), batch, HEADS, KV_HEADS, PAGE, None)
    assert plan
    mask = mask_starts = None
    if tree is not None:
        row = torch.ones(tokens, columns * PAGE, dtype=torch.bool)
        row[:, -tokens:] = tree
        bits = np.packbits(row.numpy().reshape(-1), bitorder="little")
        mask = torch.as_tensor(np.tile(bits, batch), device="cuda")
        mask_starts = (torch.arange(batch + 1) * len(bits)).int().cuda()
    tensors = [q_starts.cuda(), starts.cuda(), table.reshape(-1), torch.full((batch,), PAGE).int().cuda()]
    torch.cuda.synchronize()
    kept = (q, k, v, o, buffers, mask, mask_starts, tensors)
    return call_of(lib.fi_run, kept, P(plan), *pointers(*buffers[:2], q, k, v, o, *tensors),
                   *(None if x is None else P(x.data_ptr()) for x in (mask, mask_starts)),
                   batch, HEADS, KV_HEADS, PAGE, None)


def error(run, q, k, v, o, tree):
    """Returns the relative error against float64 in two sequences; NaN if a number of O is not finite."""
    o.fill_(float("nan"))
    run()
    torch.cuda.synchronize()
    tokens, keys, wrong, square = q.shape[2], k.shape[2], 0.0, 0.0
    hidden = torch.zeros(tokens, keys, dtype=torch.bool)
    hidden[:, -tokens:] = ~(torch.ones(tokens, tokens, dtype=torch.bool).tril() if tree is None else tree)
    for b in {0, q.shape[0] - 1}:
        group_k, group_v = (x[b].double().repeat_interleave(HEADS // KV_HEADS, 0) for x in (k, v))
        scores = (q[b].double() @ group_k.mT * DIM ** -0.5).masked_fill_(hidden.cuda(), float("-inf"))
        exact = scores.softmax(-1) @ group_v
        wrong += float((o[b].double() - exact).square().sum())
        square += float(exact.square().sum())
    return (wrong / square) ** 0.5 if bool(torch.isfinite(o).all()) else float("nan")


def main():
    one_run.SMS = torch.cuda.get_device_properties(0).multi_processor_count
    print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}, "
          f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC. Microseconds: median, lowest and "
          f"highest of 3 rounds. FlashAttention-3: commit 0251105a, FlashInfer: commit fb28d724")
    print("race,shape,causal,kernel,value,lowest,highest,ghz,error", flush=True)
    there = {name for name in ("before11", "libfa3decode", "libflashinfer")
             if os.path.exists(f"{FOLDER}/{name}.so")}
    for batch, keys in ((64, 8192), (1, 32768)):
        k, v = (draw(batch, KV_HEADS, keys, DIM) for _ in range(2))
        columns = keys // PAGE
        table = torch.randperm(batch * columns, device="cuda").int().view(batch, columns)
        pages = []
        for x in (k, v):
            pages.append(torch.empty(batch * columns, KV_HEADS, PAGE, DIM, dtype=x.dtype, device="cuda"))
            pages[-1][table.view(-1).long()] = x.view(batch, KV_HEADS, columns, PAGE, DIM).transpose(1, 2).reshape(
                -1, KV_HEADS, PAGE, DIM)
        for tokens in (1, 2, 4, 8, 16, 32, 64):
            q, tree = draw(batch, HEADS, tokens, DIM), ancestors(tokens)
            o = torch.empty_like(q)
            by_length = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, o)]
            runs = {"ch11": (ours("new11", q, k, v, o), o, None),
                    "ch11 tree": (ours("new11", q, k, v, o, tree), o, tree),
                    "ch11 pages": (ours("new11", q, *pages, o, None, table), o, None),
                    "ch11 pages tree": (ours("new11", q, *pages, o, tree, table), o, tree)}
            if "before11" in there:
                runs["ch11 before"] = ours("before11", q, k, v, o), o, None
                runs["ch11 before pages"] = ours("before11", q, *pages, o, None, table), o, None
            if "libfa3decode" in there:
                runs["FA3"] = fa3(q, k, v, o), o, None
            if "libflashinfer" in there:
                for name, mask in (("FlashInfer pages", None), ("FlashInfer pages tree", tree)):
                    runs[name] = flashinfer(by_length[0], *pages, by_length[1], mask, table), by_length[1], mask
            errors = {name: error(run, q, k, v, out, mask) for name, (run, out, mask) in runs.items()}
            race("tokens", (batch, HEADS, KV_HEADS, tokens, keys, DIM), True,
                 {name: run for name, (run, _, _) in runs.items()}, lambda ms: ms * 1000, errors, 50, 30)


if __name__ == "__main__":
    main()
