#!/usr/bin/env python3
"""Records how ./learn check names a mistake, and writes docs/figures/check.svg.

    docs/figures/recording.py [--home DIR]

The exercise is checked in DIR, which keeps its build (default: a temporary directory, about a
minute). The picture is an SVG whose animation is CSS. It plays three times and then shows all
lines. With prefers-reduced-motion it shows them at once. exercises/test_track.py runs the same
commands and compares the picture.
"""

import argparse
import html
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "exercises" / "support"))
import mistakes  # noqa: E402

PICTURE = ROOT / "docs" / "figures" / "check.svg"
TOPIC, EXERCISE, FILE, MISTAKE = "05_pipelining", "ex1_prefetch", "prefetch.hpp", "second-barrier-missing"
COPY = f"my_exercises/{TOPIC}/{EXERCISE}/{FILE}"
CHECK = ["./learn", "check", "05.1"]

COLUMNS, LINE, LETTER, LEFT, TOP = 80, 17, 7.5, 14, 40  # pixels; 12.5 pixels of a monospaced font
TYPING, PAUSE, END = 0.04, 1.2, 9.0  # seconds: per letter, after an output, after the last one


def printed(command, home, environment, code):
    """Returns the output of a command in `home`. The command runs twice if the first run built the
    program."""
    words = [str(ROOT / word) if word == "./learn" else word for word in command]
    for _ in range(2 if words != command else 1):
        result = subprocess.run(words, cwd=home, env=environment, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if result.returncode != code:
            raise RuntimeError(f"{' '.join(command)}: exit status {result.returncode}\n{result.stdout}")
    return result.stdout.rstrip("\n").split("\n")


def scenes(home, environment):
    """Returns [(command, its lines)] of the code without a barrier, its check, and the check of the
    correct code."""
    environment = {**environment, "LEARN_HOME": str(home), "TERM": "dumb", "LC_ALL": "C.UTF-8"}
    copy = home / COPY
    copy.parent.mkdir(parents=True, exist_ok=True)
    answer, wrong = mistakes.read(TOPIC, EXERCISE)
    look = ["grep", "-A6", "for (", COPY]
    copy.write_text(wrong[MISTAKE], encoding="utf-8")
    shown = [("grep -A6 'for (' " + COPY, printed(look, home, environment, 0)),
             (" ".join(CHECK), printed(CHECK, home, environment, 1))]
    copy.write_bytes(answer.read_bytes())
    return [*shown, ("# Add block_sync() after steps.add, save, and check again:", []),
            (" ".join(CHECK), printed(CHECK, home, environment, 0))]


def style_of(line, bold):
    """Returns the class of a printed line, which is a verdict, the name of the mistake, or nothing. A name
    continues on lines with more indentation."""
    if re.match(r"\S.*: (wrong|right) \(", line):
        return " class=\"%s\"" % ("bad" if ": wrong (" in line else "good"), False
    if line.startswith("  looks like: ") or bold and line.startswith("    "):
        return ' class="name"', True
    return "", False


def svg(recorded):
    """Returns the picture of [(command, its lines)]."""
    rows, at = [], 0.5  # (text, class, second it appears at, second its typing ends at)
    for command, lines in recorded:
        if rows and not rows[-1][0].startswith("#"):
            rows.append(("", "", at, None))
        start, at = at, at + TYPING * len(command) + 0.3
        rows.append((f"$ {command}" if not command.startswith("#") else command, ' class="typed"', start, at - 0.3))
        bold = False
        for line in lines:
            kind, bold = style_of(line, bold)
            rows.append((line, kind, at, None))
        at += PAUSE + 0.12 * len(lines)
    whole = at + END
    width, height = round(2 * LEFT + COLUMNS * LETTER), TOP + LINE * len(rows) + 10
    frames, body, known = [], [], {}
    for row, (line, kind, appears, typed) in enumerate(rows):
        if not line:
            continue
        if len(line) > COLUMNS:
            raise RuntimeError(f"longer than {COLUMNS} columns: {line}")
        begin = 100 * appears / whole
        if appears not in known:
            name = known[appears] = f"a{len(known)}"
            frames.append(f"@keyframes {name}{{0%,{begin:.2f}%{{opacity:0}}{begin + 0.01:.2f}%,to{{opacity:1}}}}"
                          f".{name}{{animation-name:{name}}}")
        base = TOP + LINE * row + 12
        words = line.lstrip()  # exactly as wide as its letters, in every font
        body.append(f'<g class="row {known[appears]}"><text x="{LEFT + LETTER * (len(line) - len(words)):g}" y="{base}" '
                    f'textLength="{LETTER * len(words):g}" lengthAdjust="spacingAndGlyphs"{kind}>'
                    f'{html.escape(words)}</text></g>')
        if typed:  # a cover that moves to the right, a letter at a time
            end, letters = 100 * typed / whole, len(line)
            frames.append(f"@keyframes c{row}{{0%,{begin:.2f}%{{transform:none;"
                          f"animation-timing-function:steps({letters})}}"
                          f"{end:.2f}%{{transform:translateX({LETTER * letters:.0f}px)}}"
                          f"{end + 0.01:.2f}%,to{{transform:translateX({width}px)}}}}"
                          f".c{row}{{animation-name:c{row}}}")
            body.append(f'<rect class="cover c{row}" x="{LEFT}" y="{base - 12}" width="{width}" '
                        f'height="{LINE}"/>')
    words = "\n".join(line for line, *_ in rows)
    dots = "".join(f'<circle class="dot" cx="{x}" cy="17" r="5"/>' for x in (18, 34, 50))
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" xml:space="preserve">
<title>./learn check names a mistake</title>
<desc>{html.escape(words)}</desc>
<style>svg{{--bg:#f6f8fa;--fg:#1f2328;--muted:#59636e;--bad:#b3202e;--good:#0f6b3f}}
@media(prefers-color-scheme:dark){{svg{{--bg:#1b1b1f;--fg:#e6e8eb;--muted:#a3abb5;--bad:#ff8a94;--good:#52c9a5}}}}
text{{font:12.5px ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;fill:var(--fg);white-space:pre}}
.typed{{font-weight:700}}.bad,.name{{fill:var(--bad);font-weight:700}}.good{{fill:var(--good);font-weight:700}}
.frame,.cover{{fill:var(--bg)}}.frame{{stroke:var(--muted);stroke-opacity:.4}}.dot{{fill:var(--muted);fill-opacity:.5}}
.cover{{transform:translateX({width}px)}}
@media(prefers-reduced-motion:no-preference){{.row,.cover{{animation:{whole:.1f}s 3 both}}{''.join(frames)}}}</style>
<clipPath id="in"><rect x="1" y="1" width="{width - 2}" height="{height - 2}" rx="8"/></clipPath>
<rect class="frame" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8"/>
{dots}
<g clip-path="url(#in)">
{chr(10).join(body)}
</g>
</svg>
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--home", type=Path, help="where the exercise is checked and built")
    home = parser.parse_args().home
    with tempfile.TemporaryDirectory(prefix="recording_") as folder:
        recorded = scenes((home or Path(folder)).resolve(), os.environ)
    PICTURE.write_text(svg(recorded), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
