#!/usr/bin/env python3
"""Chapter 24's runs on a CPU. Runs them, keeps what their reports say, prints the lesson's tables.

    serving.py measure CHECKPOINT   writes cpu/ch24_serving.csv: the built-in prompts, nine runs each
    serving.py batch                tokens a second by the number of requests that run at a time
    serving.py sharing              prompt tokens computed, with and without shared pages
    serving.py drafts               steps and tokens a second by the length of the draft
    serving.py rounding CHECKPOINT  how far rounding to bf16 in attention moves a log-probability, by NumPy

The program is on the PATH. Attention is on the CPU, with one thread. Times are the shortest of the runs, in which
the variants take turns, because the machine had other work. Exit status: 0, 2 for bad input.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import kept
import paths  # noqa: F401, before the modules of reference/

FILE = Path(__file__).resolve().parent / "cpu" / "ch24_serving.csv"
CHAPTERS = Path(__file__).resolve().parents[2] / "chapters"
ROUNDS, WINDOWS = 9, 400
# name: options. 100 pages are enough for all seven requests, so that none has to wait for pages.
VARIANTS = {f"batch {n}": ["--batch", n, "--pages", 100, "--every", 0] for n in (1, 2, 4, 7)}
VARIANTS |= {f"draft {n}": ["--pages", 100, "--every", 0, "--draft", n] for n in (0, 1, 2, 4, 8)}
VARIANTS |= {f"{name}, {pages} pages": ["--pages", pages, *more] for pages in (100, 24)
             for name, more in (("no sharing", ["--no-sharing"]), ("sharing", []))}
KEYS = ("steps", "tokens", "prompt_tokens_computed", "prompt_tokens_found", "drafted", "accepted", "put_back",
        "most_pages")


def serve(checkpoint, options):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        subprocess.run(["ch24_serve_a_gpt", "--checkpoint", checkpoint, "--device", "cpu", "--new", "80",
                        *map(str, options), "--json", path], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "FA_THREADS": "1"})
        with open(path, encoding="utf-8") as file:
            return json.load(file)


def measure(checkpoint, about):
    reports = {name: [] for name in VARIANTS}
    for _ in range(ROUNDS):
        for name, options in VARIANTS.items():
            reports[name].append(serve(checkpoint, options))
    answers = {json.dumps(sorted(map(str, report["answers"]))) for all_of in reports.values() for report in all_of}
    about = {"about": "ch24_serve_a_gpt --device cpu --new 80, the built-in prompts", "rounds": ROUNDS,
             "different answers": len(answers), **dict(line.split("=", 1) for line in about)}
    rows = [[name, *(all_of[0][key] for key in KEYS), min(one["time_ms"] for one in all_of)]
            for name, all_of in reports.items()]
    FILE.write_text(kept.write(about, ["name", *KEYS, "time_ms"], rows), encoding="utf-8")


def rows():
    about, found = kept.read(FILE.read_text(encoding="utf-8"))
    return {row["name"]: row for row in found}


def per_second(row):
    return 1000 * int(row["tokens"]) / float(row["time_ms"])


def batch():
    print("requests at a time   steps   tokens a step   tokens a second")
    for name, row in rows().items():
        if name.startswith("batch"):
            print(f"{name[6:]:>18} {row['steps']:>7} {int(row['tokens']) / int(row['steps']):15.1f} "
                  f"{per_second(row):17.0f}")


def sharing():
    print("                       prompt tokens:")
    print("                       computed   found   most pages   put back   steps")
    for name, row in rows().items():
        if "sharing" in name:
            print(f"{name:<23}{row['prompt_tokens_computed']:>8} {row['prompt_tokens_found']:>7} "
                  f"{row['most_pages']:>12} {row['put_back']:>10} {row['steps']:>7}")


def drafts():
    print("draft, up to   steps   guessed   accepted   tokens a step   tokens a second")
    for name, row in rows().items():
        if name.startswith("draft"):
            print(f"{name[6:]:>12} {row['steps']:>7} {row['drafted']:>9} {row['accepted']:>10} "
                  f"{int(row['tokens']) / int(row['steps']):15.1f} {per_second(row):17.0f}")


def log_probabilities(start, tokens, rounded):
    """Returns log P [tokens, vocabulary] of the model, with `rounded` applied to Q, K, V, P and O."""
    import gpt
    import numpy as np
    header, w = dict(start.header, batch=1, context=len(tokens)), start.weights
    x = w["tokens"][tokens] + w["positions"][:len(tokens)]
    seen = np.tril(np.ones((len(tokens), len(tokens)), bool))
    for n in range(header["layers"]):
        y, _ = gpt.norm(x, w[f"{n} norm 1 gain"], w[f"{n} norm 1 bias"])
        q, k, v = (rounded(one) for one in gpt.to_heads(y @ w[f"{n} in W"] + w[f"{n} in b"], header))
        s = np.where(seen, q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]), -np.inf)
        p = np.exp(s - s.max(-1, keepdims=True))
        o = rounded(rounded(p) @ v / p.sum(-1, keepdims=True))
        x = x + gpt.from_heads(o) @ w[f"{n} out W"] + w[f"{n} out b"]
        y, _ = gpt.norm(x, w[f"{n} norm 2 gain"], w[f"{n} norm 2 bias"])
        x = x + gpt.gelu(y @ w[f"{n} up W"] + w[f"{n} up b"])[0] @ w[f"{n} down W"] + w[f"{n} down b"]
    y, _ = gpt.norm(x, w["last norm gain"], w["last norm bias"])
    logits = y @ w["head W"] + w["head b"]
    logits -= logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def rounding(checkpoint):
    import gpt
    import numpy as np
    from attention import round_bf16
    start = gpt.load(checkpoint)
    places = {character: i for i, character in enumerate(start.header["vocabulary"])}
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(CHAPTERS.glob("*/*.md")))
    tokens = np.array([places[character] for character in text if character in places])
    errors = []
    for first in np.linspace(0, len(tokens) - start.header["context"], WINDOWS).astype(int):
        window = tokens[first:first + start.header["context"]]
        exact, rough = (log_probabilities(start, window, one) for one in (lambda x: x, round_bf16))
        errors.append(np.abs(exact - rough).max(-1))  # the largest change of a character that may follow
    errors = np.concatenate(errors)
    parts = ", ".join(f"{np.quantile(errors, part):.3f} ({100 * part:g} %)" for part in (0.5, 0.99, 0.999, 1))
    print(f"{errors.size} characters: the log P that moves most moves by at most {parts}")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["measure", "batch", "sharing", "drafts", "rounding"])
    parser.add_argument("checkpoint", nargs="?")
    parser.add_argument("--about", action="append", default=[], metavar="KEY=VALUE", help="a fact about the machine")
    options = parser.parse_args(arguments)
    if (options.what in ("measure", "rounding")) != bool(options.checkpoint):
        parser.error("a CHECKPOINT: with measure and rounding, and only there")
    if options.what == "measure":
        measure(options.checkpoint, options.about)
    elif options.what == "rounding":
        rounding(options.checkpoint)
    else:
        {"batch": batch, "sharing": sharing, "drafts": drafts}[options.what]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
