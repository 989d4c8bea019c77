#!/usr/bin/env python3
"""Chapter 24's prompts answered by PyTorch, with the same checkpoint, PyTorch's attention, greedy.

    serving_torch.py CHECKPOINT REPORT.json [--device cuda]

REPORT is the file that `ch24_serve_a_gpt --checkpoint CHECKPOINT --batch 7 --every 0 --json` wrote. The prompts are
answered one request at a time, and then all in one batch, each with a cache of keys and values. Prints tokens a
second of both and of the report, and where the answers differ from the report's. Exit status: 0 if they agree up
to the report's undecided tokens, 1 if not, 2 for bad input.
"""
import argparse
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "reference"))
import gpt  # noqa: E402
import gpt_torch  # noqa: E402


class Cached:
    """The model of gpt_torch, with a cache. Sequences of a batch are aligned at their last token."""

    def __init__(self, torch, header, weights, device):
        self.torch, self.header, self.device = torch, header, device
        self.model = gpt_torch.build(torch, None, header).to(device)
        with torch.no_grad():
            for (name, values), parameter in zip(weights.items(), self.model.in_order()):
                matrix = values.T if name.endswith(" W") else values  # its Linear is [out, in]
                parameter.copy_(torch.from_numpy(matrix.copy()).float())

    def answer(self, prompts, count):
        torch, model, heads = self.torch, self.model, self.header["heads"]
        longest = max(map(len, prompts))
        pad = torch.tensor([longest - len(one) for one in prompts], device=self.device)
        tokens = torch.tensor([[0] * (longest - len(one)) + one for one in prompts], device=self.device)
        caches, answers = [None] * len(model.blocks), []
        for step in range(count):
            new = tokens if step == 0 else answers[-1][:, None]
            end = longest + step
            at = torch.arange(end - new.shape[1], end, device=self.device)
            positions = (at[None] - pad[:, None]).clamp(min=0)
            keys = torch.arange(end, device=self.device)
            visible = (keys[None, None] <= at[None, :, None]) & (keys[None, None] >= pad[:, None, None])
            visible |= keys[None, None] == at[None, :, None]  # a padded row sees itself, so that it is finite
            x = model.tokens(new) + model.positions(positions)
            for layer, block in enumerate(model.blocks):
                q, k, v = (part.view(len(prompts), new.shape[1], heads, -1).transpose(1, 2)
                           for part in block.qkv(block.norm_1(x)).split(x.shape[2], dim=2))
                if caches[layer] is not None:
                    k, v = (torch.cat(pair, dim=2) for pair in zip(caches[layer], (k, v)))
                caches[layer] = k, v
                o = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=visible[:, None])
                x = x + block.out(o.transpose(1, 2).reshape(x.shape))
                x = x + block.down(block.gelu(block.up(block.norm_2(x))))
            answers.append(model.head(model.norm(x[:, -1])).argmax(-1))
        return torch.stack(answers, dim=1).tolist()


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint")
    parser.add_argument("report")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args(arguments)
    torch = gpt_torch.import_torch()
    start = gpt.load(options.checkpoint)
    with open(options.report, encoding="utf-8") as file:
        report = json.load(file)
    vocabulary = start.header["vocabulary"]
    requests = sorted(report["answers"], key=lambda one: one["request"])
    prompts = [[vocabulary.index(c) for c in one["prompt"]] for one in requests]
    model = Cached(torch, start.header, start.weights, options.device)
    expected = [one["answer"].replace("\\n", "\n") for one in requests]
    undecided = {one["request"]: one["token"] for one in report["undecided"]}
    print(f"report: {report['tokens_per_second']:.0f} tokens a second on {report['device']}")
    right = True
    for name, groups in (("one at a time", [[i] for i in range(len(prompts))]), ("batched", [range(len(prompts))])):
        for timed in (False, True):
            got, begin = {}, time.perf_counter()
            with torch.no_grad():
                for group in groups:
                    got |= dict(zip(group, model.answer([prompts[i] for i in group], len(expected[0]))))
            seconds = time.perf_counter() - begin
        print(f"PyTorch, {name}: {sum(map(len, got.values())) / seconds:.0f} tokens a second")
        for i, one in enumerate(requests):
            text = "".join(vocabulary[token] for token in got[i])
            end = undecided.get(one["request"], len(expected[i]))
            if text[:end] != expected[i][:end]:
                right = False
                print(f"request {one['request']}: differs before its undecided token: {text!r}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
