#!/usr/bin/env python3
"""Chapter 20's GPT in float64 NumPy, with the same training steps, to check the program.

    ch20_train_a_gpt train --text T --steps 0 --checkpoint start
    cp start end; ch20_train_a_gpt train --resume --text T --steps 5 --checkpoint end
    reference/gpt.py start end --text T

Reads `start`, trains until it has as many steps as `end`, and compares each loss, the mean
gradients (AdamW's first moment) parameter by parameter, and the weights. Exit status: 0 if they
agree, 1 if they do not, 2 for bad input.
"""
import argparse
import json
import struct
import sys
from typing import Dict, Iterator, List, NamedTuple, Tuple

import check  # noqa: F401, reports if there is no NumPy
import numpy as np

import attention
from problem import BadInput

MAGIC = b"flash attention, chapter 20, checkpoint 1\n"
BETA_1, BETA_2, EPSILON, DECAY = 0.9, 0.99, 1e-8, 0.1
MASK = (1 << 64) - 1
# Bounds for fp32 against float64 after a few steps with sums of thousands of terms. We measured
# 3e-8, 3e-7 and 4e-5.
LOSS_BOUND, GRADIENT_BOUND, WEIGHT_BOUND = 1e-5, 1e-4, 1e-3

Parameters = Dict[str, np.ndarray]


class Random:
    """SplitMix64 (Steele, Lea and Flood 2014)."""

    def __init__(self, state: int) -> None:
        self.state = state

    def below(self, count: int) -> int:
        self.state = (self.state + 0x9e3779b97f4a7c15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xbf58476d1ce4e5b9) & MASK
        z = ((z ^ (z >> 27)) * 0x94d049bb133111eb) & MASK
        return (z ^ (z >> 31)) % count


class Checkpoint(NamedTuple):
    header: dict
    losses: np.ndarray
    weights: Parameters
    moment: Parameters
    square: Parameters


def shapes(header: dict) -> Iterator[Tuple[str, Tuple[int, ...]]]:
    """Returns the shapes of all parameters, in their order."""
    c = header["channels"]

    def norm(name):
        return [(name + " gain", (c,)), (name + " bias", (c,))]

    def linear(name, rows, cols):
        return [(name + " W", (rows, cols)), (name + " b", (cols,))]
    yield from [("tokens", (len(header["vocabulary"]), c)), ("positions", (header["context"], c))]
    for layer in range(header["layers"]):
        yield from norm(f"{layer} norm 1") + linear(f"{layer} in", c, 3 * c) + linear(
            f"{layer} out", c, c) + norm(f"{layer} norm 2") + linear(
                f"{layer} up", c, 4 * c) + linear(f"{layer} down", 4 * c, c)
    yield from norm("last norm") + linear("head", c, len(header["vocabulary"]))


def load(path: str) -> Checkpoint:
    with open(path, "rb") as file:
        data = file.read()
    try:
        if not data.startswith(MAGIC):
            raise ValueError
        size, = struct.unpack_from("<Q", data, len(MAGIC))
        at = len(MAGIC) + 8 + size
        header = json.loads(data[at - size:at])
        losses = np.frombuffer(data, np.float64, header["steps"], at)
        at += losses.nbytes
        groups: List[Parameters] = []
        for _ in range(3):
            groups.append({})
            for name, shape in shapes(header):
                flat = np.frombuffer(data, np.float32, int(np.prod(shape)), at)
                groups[-1][name] = flat.reshape(shape).astype(np.float64)
                at += flat.nbytes
        return Checkpoint(header, losses, *groups)
    except (ValueError, KeyError, struct.error):
        raise BadInput(f"{path}: is no checkpoint of chapter 20") from None


def batches(header: dict, text: str) -> Iterator[Tuple[np.ndarray, np.ndarray]]:
    """Yields the tokens and targets, [batch, context], of each following step."""
    places = {character: i for i, character in enumerate(header["vocabulary"])}
    try:
        tokens = np.array([places[character] for character in text])
    except KeyError as error:
        raise BadInput(f"the text has {error}, which the checkpoint's vocabulary has not") from None
    random, context = Random(header["random"]), header["context"]
    while True:
        first = [random.below(len(tokens) - context) for _ in range(header["batch"])]
        rows = np.stack([tokens[i:i + context + 1] for i in first])
        yield rows[:, :-1], rows[:, 1:]


# ---- The model: [tokens of the batch, channels] ----

def norm(x, gain, bias):
    centered = x - x.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5)
    return centered * inverse * gain + bias, (centered * inverse, inverse)


def norm_backward(dy, gain, kept):
    x, inverse = kept
    d = dy * gain
    dx = (d - d.mean(-1, keepdims=True) - x * (d * x).mean(-1, keepdims=True)) * inverse
    return dx, (dy * x).sum(0), dy.sum(0)


def gelu(x):
    """Returns y and dy/dx of GELU (Hendrycks and Gimpel 2016), by tanh."""
    slope, cubic = np.sqrt(2 / np.pi), 0.044715
    t = np.tanh(slope * (x + cubic * x**3))
    return x * (1 + t) / 2, (1 + t) / 2 + x / 2 * (1 - t * t) * slope * (1 + 3 * cubic * x**2)


def to_heads(x, header):
    """[batch * context, 3 C] -> Q, K and V, each [batch, heads, context, dim]"""
    batch, heads = header["batch"], header["heads"]
    parts = x.reshape(batch, header["context"], 3, heads, -1)
    return [parts[:, :, i].swapaxes(1, 2) for i in range(3)]


def from_heads(x):
    return x.swapaxes(1, 2).reshape(-1, x.shape[1] * x.shape[3])


def loss_and_gradients(header: dict, w: Parameters, tokens, targets) -> Tuple[float, Parameters]:
    kept, g = {}, {}
    flat, rows = tokens.reshape(-1), tokens.size
    x = (w["tokens"][tokens] + w["positions"]).reshape(rows, -1)
    for n in range(header["layers"]):
        normed, norm_1 = norm(x, w[f"{n} norm 1 gain"], w[f"{n} norm 1 bias"])
        qkv = to_heads(normed @ w[f"{n} in W"] + w[f"{n} in b"], header)
        o = from_heads(attention.safe(*qkv, causal=True).o)
        x = x + o @ w[f"{n} out W"] + w[f"{n} out b"]
        normed_2, norm_2 = norm(x, w[f"{n} norm 2 gain"], w[f"{n} norm 2 bias"])
        hidden, slope = gelu(normed_2 @ w[f"{n} up W"] + w[f"{n} up b"])
        x = x + hidden @ w[f"{n} down W"] + w[f"{n} down b"]
        kept[n] = normed, norm_1, qkv, o, normed_2, norm_2, hidden, slope
    last, last_norm = norm(x, w["last norm gain"], w["last norm bias"])
    logits = last @ w["head W"] + w["head b"]
    logits = logits - logits.max(-1, keepdims=True)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    one = (np.arange(rows), targets.reshape(-1))
    loss = -log_p[one].mean()

    def linear_backward(name, x, dy):
        g[name + " W"], g[name + " b"] = x.T @ dy, dy.sum(0)
        return dy @ w[name + " W"].T

    def through_norm(name, dy, kept_norm):
        dx, g[name + " gain"], g[name + " bias"] = norm_backward(dy, w[name + " gain"], kept_norm)
        return dx
    d = np.exp(log_p)
    d[one] -= 1
    dx = through_norm("last norm", linear_backward("head", last, d / rows), last_norm)
    for n in reversed(range(header["layers"])):
        normed, norm_1, qkv, o, normed_2, norm_2, hidden, slope = kept[n]
        up = linear_backward(f"{n} down", hidden, dx) * slope
        dx = dx + through_norm(f"{n} norm 2", linear_backward(f"{n} up", normed_2, up), norm_2)
        do = linear_backward(f"{n} out", o, dx)
        do = do.reshape(header["batch"], header["context"], header["heads"], -1).swapaxes(1, 2)
        dqkv = np.concatenate([from_heads(part) for part in attention.backward(
            *qkv, do, causal=True)], axis=1)
        dx = dx + through_norm(f"{n} norm 1", linear_backward(f"{n} in", normed, dqkv), norm_1)
    g["tokens"] = np.zeros_like(w["tokens"])
    np.add.at(g["tokens"], flat, dx)
    g["positions"] = dx.reshape(*tokens.shape, -1).sum(0)
    return float(loss), g


def train(start: Checkpoint, text: str, steps: int) -> Tuple[List[float], Checkpoint]:
    """AdamW (Loshchilov and Hutter 2019), with weight decay only for matrices."""
    header, losses = start.header, []
    w, moment, square = (dict(group) for group in start[2:])
    for step, (tokens, targets) in zip(range(1, steps + 1), batches(header, text)):
        loss, gradient = loss_and_gradients(header, w, tokens, targets)
        losses.append(loss)
        t = header["steps"] + step
        rate = header["learning_rate"] * min(1.0, t / header["warm_up"])
        for name, g in gradient.items():
            moment[name] = BETA_1 * moment[name] + (1 - BETA_1) * g
            square[name] = BETA_2 * square[name] + (1 - BETA_2) * g * g
            update = moment[name] / (1 - BETA_1**t) / (
                np.sqrt(square[name] / (1 - BETA_2**t)) + EPSILON)
            decay = rate * DECAY if g.ndim == 2 else 0.0
            w[name] = w[name] * (1 - decay) - rate * update
    return losses, Checkpoint(header, np.array(losses), w, moment, square)


def differences(losses: List[float], expected: Checkpoint, got: Checkpoint
                ) -> Iterator[Tuple[str, float, float]]:
    """Yields the name, the difference and the bound of each comparison."""
    found = got.losses[len(got.losses) - len(losses):]
    yield "loss", float(np.abs(found - losses).max()), LOSS_BOUND
    for what, bound in (("moment", GRADIENT_BOUND), ("weights", WEIGHT_BOUND)):
        groups = getattr(expected, what), getattr(got, what)
        whole = np.sqrt(sum(np.sum(x**2) for x in groups[0].values()))
        for name, x in groups[0].items():  # the gradient of the keys' bias is only rounding noise
            error = np.linalg.norm(groups[1][name] - x)
            yield f"{what} of {name}", float(error / (np.linalg.norm(x) + 1e-3 * whole)), bound


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("start")
    parser.add_argument("end")
    parser.add_argument("--text", required=True)
    options = parser.parse_args(arguments)
    try:
        start, end = load(options.start), load(options.end)
        steps = len(end.losses) - len(start.losses)
        if steps < 1:
            raise BadInput(f"{options.end} has no step that {options.start} has not")
        with open(options.text, encoding="utf-8", newline="") as file:
            losses, expected = train(start, file.read(), steps)
    except (BadInput, OSError, UnicodeDecodeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    wrong, worst = 0, {}
    for what, error, bound in differences(losses, expected, end):
        if not error <= bound:
            wrong += 1
            print(f"{what}: off by {error:.1e}, {bound:.0e} are allowed")
        kind = what.split()[0]
        if not error <= worst.get(kind, -1.0):  # true for a NaN as well
            worst[kind] = error
    print(f"{steps} {'step' if steps == 1 else 'steps'}: " + "; ".join(
        f"{kind} off by at most {error:.0e}" for kind, error in worst.items()))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
