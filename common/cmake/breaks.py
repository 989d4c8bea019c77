#!/usr/bin/env python3
"""Reads the chapters' breaks.json, and makes the table that a program includes.

    breaks.py DIRECTORY OUTPUT     of chapters/DIRECTORY, as a C++ header

A breaks.json holds the name of the program, its own options that change neither tensors nor masks
(settings), and its breaks in the order of --list-breaks. A break has

    input      arguments of the program that show it
    symptom    what they show: nan, wrong, lse, hazard, tile, counter or schedules; see
               docs/test_break_it.py, which holds each break to it
    harmless   inputs that do not show it
    more       further inputs, each with its symptom

and, in the first chapter that has it, its texts: kind, line, predict, happens, why, caught.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("numbers", "masks", "waits and barriers", "layout", "gradients", "machines")


def programs(root=ROOT):
    """{directory: breaks.json}, in the order of the chapters."""
    return {path.parent.name: json.loads(path.read_text(encoding="utf-8"))
            for path in sorted((root / "chapters").glob("[0-9]*/breaks.json"))}


def texts(every):
    """{name: texts} of all breaks, from the first chapter that has them."""
    found = {}
    for content in every.values():
        for name, entry in content["breaks"].items():
            if "line" in entry:
                found.setdefault(name, entry)
    return found


def header(directory, every):
    """The C++ header of one program."""
    content, lines = every[directory], texts(every)
    table = content["program"].split("_")[0].upper() + "_BREAKS"
    rows = ""
    for name, entry in content["breaks"].items():
        counter = entry["symptom"].get("counter", "")
        schedules = "true" if "schedules" in entry["symptom"] else "false"
        strings = ", ".join(json.dumps(text) for text in (name, lines[name]["line"], entry["input"], counter))
        rows += f"    {{{strings}, {schedules}}},\n"
    program = json.dumps(content["program"])
    settings = json.dumps(" ".join(content.get("settings", [])))
    return (f"#pragma once\n// Made from chapters/{directory}/breaks.json by common/cmake/breaks.py.\n\n"
            f"#include \"common/break_demos.hpp\"\n\n"
            f"inline constexpr fa::BreakDemo {table}_TABLE[] = {{\n{rows}}};\n"
            f"inline constexpr fa::BreakDemos {table}{{{program}, {table}_TABLE, \"\", {settings}}};\n")


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(header(sys.argv[1], programs()), encoding="utf-8")
