#!/usr/bin/env python3
"""Trains chapter 20's GPT in PyTorch, in its usual style, with a choice of attention.

    ch20_train_a_gpt train --text T --steps 0 --checkpoint start
    docs/measurements/gpt_torch.py start --text T --steps 200 --attention ours --json ours.json
    docs/measurements/gpt_torch.py start --text T --steps 200 --compare run.json

Starts with the checkpoint's weights and draws the same batches as the program. --attention sdpa is
PyTorch's attention in fp32. --attention ours uses this course's kernels through their autograd
function, in bf16, and needs a GPU and the library (build the target flash_attention). --compare
compares the losses with those of a report of `ch20_train_a_gpt train --json` or of this script.
Exit status: 0, 1 if the losses differ by more than the bound, 2 for wrong input.
"""
import argparse
import json
import os
import sys

import paths  # noqa: F401, before the modules of reference/
import check  # noqa: F401, says so if there is no NumPy
import numpy as np

import gpt
from problem import BadInput

FIRST = 20  # steps that --compare checks, because rounding differences grow in later steps


def build(torch, attend, header):
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            c = header["channels"]
            self.norm_1, self.norm_2 = nn.LayerNorm(c), nn.LayerNorm(c)
            self.qkv, self.out = nn.Linear(c, 3 * c), nn.Linear(c, c)
            self.up, self.down = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
            self.gelu = nn.GELU(approximate="tanh")

        def forward(self, x):
            batch, length, channels = x.shape
            q, k, v = (part.view(batch, length, header["heads"], -1).transpose(1, 2)
                       for part in self.qkv(self.norm_1(x)).split(channels, dim=2))
            x = x + self.out(attend(q, k, v).transpose(1, 2).reshape(batch, length, channels))
            return x + self.down(self.gelu(self.up(self.norm_2(x))))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            c, vocabulary = header["channels"], len(header["vocabulary"])
            self.tokens = nn.Embedding(vocabulary, c)
            self.positions = nn.Embedding(header["context"], c)
            self.blocks = nn.ModuleList(Block() for _ in range(header["layers"]))
            self.norm, self.head = nn.LayerNorm(c), nn.Linear(c, vocabulary)

        def forward(self, tokens):
            x = self.tokens(tokens) + self.positions.weight
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

        def in_order(self):
            """Returns the parameters in the order of the checkpoint."""
            yield from (self.tokens.weight, self.positions.weight)
            for block in self.blocks:
                for part in (block.norm_1, block.qkv, block.out, block.norm_2, block.up, block.down):
                    yield from (part.weight, part.bias)
            for part in (self.norm, self.head):
                yield from (part.weight, part.bias)
    return Gpt()


def import_torch():
    try:
        import torch
    except ImportError:
        raise BadInput("this Python has no PyTorch") from None
    return torch


def attention(torch, name, library):
    """Returns the function that `build` takes as `attend`, for Q, K and V [batch, heads, length,
    dim]."""
    if name == "sdpa":
        return lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=True)
    if not torch.cuda.is_available():
        raise BadInput("--attention ours: PyTorch sees no GPU on this machine")
    import flash_attention
    loaded = flash_attention.load(os.path.abspath(library))

    def attend(q, k, v):
        q, k, v = (x.bfloat16().contiguous() for x in (q, k, v))
        return loaded.differentiable_attention(q, k, v, causal=True).float()
    return attend


class Training:
    """Continues a checkpoint's training in PyTorch. With `autocast`, products and attention are in
    bf16. With a `compile_mode`, forward and backward are compiled by torch.compile."""

    def __init__(self, torch, attend, start, autocast=False, compile_mode=None):
        self.torch, self.header, self.autocast, self.steps = torch, start.header, autocast, 0
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        torch.backends.cuda.matmul.allow_tf32 = False
        model = build(torch, attend, start.header).to(self.device)
        with torch.no_grad():
            for (name, values), parameter in zip(start.weights.items(), model.in_order()):
                matrix = values.T if name.endswith(" W") else values  # its Linear is [out, in]
                parameter.copy_(torch.from_numpy(np.ascontiguousarray(matrix)).float())
        decayed = [p for p in model.parameters() if p.dim() == 2]
        others = [p for p in model.parameters() if p.dim() != 2]
        self.optimizer = torch.optim.AdamW(
            [{"params": decayed, "weight_decay": gpt.DECAY}, {"params": others, "weight_decay": 0.0}],
            lr=start.header["learning_rate"], betas=(gpt.BETA_1, gpt.BETA_2), eps=gpt.EPSILON,
            fused=self.device == "cuda")
        self.model = torch.compile(model, mode=compile_mode) if compile_mode else model

    def step(self, tokens, targets):
        """Returns the loss before the update, as a tensor."""
        torch, header = self.torch, self.header
        self.steps += 1
        for group in self.optimizer.param_groups:
            group["lr"] = header["learning_rate"] * min(1.0, self.steps / header["warm_up"])
        tokens, targets = (torch.from_numpy(np.ascontiguousarray(x)).to(self.device)
                           for x in (tokens, targets))
        with torch.autocast(self.device, torch.bfloat16, enabled=self.autocast):
            logits = self.model(tokens)
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def losses_of(options, start, text):
    torch = import_torch()
    training = Training(torch, attention(torch, options.attention, options.library), start)
    return [float(training.step(*batch))
            for batch, _ in zip(gpt.batches(start.header, text), range(options.steps))]


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", help="checkpoint of a run of 0 steps")
    parser.add_argument("--text", required=True)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--attention", choices=("sdpa", "ours"), default="sdpa")
    parser.add_argument("--library", default="build/lib/libflash_attention.so")
    parser.add_argument("--json", help="write the losses to this file")
    parser.add_argument("--compare", help="a report with the expected losses")
    parser.add_argument("--bound", type=float, default=1e-4, help=f"bound of the first {FIRST} losses [1e-4]")
    options = parser.parse_args(arguments)
    try:
        start = gpt.load(options.checkpoint)
        if len(start.losses) or options.steps < 1:
            raise BadInput("expected a checkpoint of 0 steps, and --steps of 1 or more")
        others = None
        if options.compare:
            with open(options.compare, encoding="utf-8") as file:
                others = json.load(file)["loss"]
        with open(options.text, encoding="utf-8", newline="") as file:
            losses = losses_of(options, start, file.read())
    except (BadInput, OSError, UnicodeDecodeError, ValueError, KeyError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{options.attention}: loss {losses[0]:.4f}, after {len(losses)} steps "
          f"{np.mean(losses[-20:]):.4f}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"attention": options.attention, "loss": losses}, file)
            file.write("\n")
    if others is None:
        return 0
    pairs = list(zip(losses, others))
    early = [abs(a - b) for a, b in pairs[:FIRST]]
    later = [np.mean(x[-20:]) for x in zip(*pairs)]
    good = all(difference <= options.bound for difference in early)
    print(f"{'equal' if good else 'DIFFERENT'}: the first {len(early)} by at most "
          f"{sorted(early)[-1]:.1e}, the last 20 of {len(pairs)} on average {later[0]:.4f} and "
          f"{later[1]:.4f}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
