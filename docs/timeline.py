#!/usr/bin/env python3
"""Draws one warp's copies in flight and its mma instructions, from the emulator's event log.

    docs/timeline.py EVENTS.json [--warp N] [--columns N]
    docs/timeline.py ch05_pipelining --shape 1,1,64,128,64      runs that program first

EVENTS.json is the file that a program of chapter 03 or later writes for --events. The axis counts
instructions of the warp, because the emulator has no clock. The picture shows how many mma a warp
could issue between the start of a copy and the wait that needs it. Exit status: 0 if drawn, 1 if
the program failed, 2 for wrong usage or an invalid event log.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from typing import Dict, List, NamedTuple, Optional

NUMBER = 6  # columns between the name and the bar


class BadInput(Exception):
    """One sentence for the reader, with exit status 2."""


class Copy(NamedTuple):
    """A commit group that copied something, or a phase of an mbarrier, in steps of its warp."""
    name: str   # "K tile 1"; "Q tile 0, K tile 0" if the group holds both
    start: int  # the first cp.async or tma_load
    end: int    # the wait that it ended with; after the last step if there was none
    landed: bool


def load_events(path: str) -> List[dict]:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)["events"]
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise BadInput(f"{path}: not an event log (what a program writes for --events)") from None


def run_program(command: List[str]) -> List[dict]:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "events.json")
        try:
            result = subprocess.run(command + ["--device", "emulator", "--events", path],
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        except OSError as error:
            raise BadInput(f"{command[0]}: {error.strerror}; expected an event log or a program "
                           "on the PATH") from None
        if result.returncode != 0:
            print(result.stdout, end="")
            sys.exit(result.returncode)
        return load_events(path)


def copies_of(events: List[dict], steps: int) -> List[Copy]:
    """Returns the groups of one warp's events that copied something, in the order of their first
    copy.

    A group is named by every matrix that it contains, in the order of their first cp.async. The
    number of a matrix's tile is the number of earlier groups with that matrix.
    figures/timeline_log.js has the same rule. Tensor copies have no groups, so the copies that a
    phase of an mbarrier counts belong together.
    """
    start: Dict[object, int] = {}
    tiles: Dict[object, Dict[str, int]] = {}  # the tiles of each group, by matrix
    end: Dict[object, int] = {}
    for event in events:
        group = event.get("group", (event.get("mbarrier"), event.get("phase")))
        if event["kind"] in ("copy_issue", "tma_load"):
            matrix = re.split(r"\W", event.get("source", "?"))[0]
            start.setdefault(group, event["step"])
            if matrix not in tiles.setdefault(group, {}):
                tiles[group][matrix] = sum(matrix in held for held in tiles.values())
        elif event["kind"] in ("land", "mbarrier_wait"):
            end.setdefault(group, event["step"])
    names = {group: ", ".join(f"{matrix} tile {tile}" for matrix, tile in held.items())
             for group, held in tiles.items()}
    return [Copy(names[g], start[g], end.get(g, steps), g in end) for g in start]


def draw(events: List[dict], warp: int, columns: Optional[int]) -> str:
    mine = [event for event in events if event["block"] == 0 and event["warp"] == warp]
    if not mine:
        raise BadInput(f"no events of warp {warp} of block 0")
    steps = mine[-1]["step"] + 1
    copies = copies_of(mine, steps)
    names = max([len("barriers")] + [len(copy.name) for copy in copies])
    columns = columns or max(1, 80 - names - NUMBER)
    per_column = -(-steps // columns)
    width = -(-steps // per_column)
    mma = [event["step"] for event in mine if event["kind"] == "mma"]
    barriers = [event["step"] for event in mine if event["kind"] == "barrier"]

    def marks(positions: List[int], mark: str) -> str:
        hit = {position // per_column for position in positions}
        return "".join(mark if column in hit else " " for column in range(width)).rstrip()

    def bar(copy: Copy) -> str:
        first, last = copy.start // per_column, copy.end // per_column
        return " " * first + "=" * (last - first) + ("|" if copy.landed else "")

    lines = [f"warp {warp} of block 0: {steps} instructions, a column is {per_column} of them",
             "= copy in flight   | waited for   # mma   ^ barrier", "",
             f"{'copy':{names}} {'mma':>4} meanwhile"]
    for copy in copies:
        meanwhile = sum(copy.start < step < copy.end for step in mma)
        lines.append(f"{copy.name:{names}} {meanwhile:4} {bar(copy)}")
    lines.append(f"{'mma':{names}} {len(mma):4} {marks(mma, '#')}")
    lines.append(f"{'barriers':{names}} {len(barriers):4} {marks(barriers, '^')}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Draws a warp's copies in flight against its mma.")
    parser.add_argument("--warp", type=int, default=0, help="which warp of block 0 [0]")
    parser.add_argument("--columns", type=int, help="width of the picture [what fits 80]")
    parser.add_argument("log", metavar="EVENTS.json | PROGRAM …", nargs=argparse.REMAINDER,
                        help="an event log, or a program that is run to write one")
    arguments = parser.parse_args()
    try:
        if not arguments.log:
            raise BadInput("expected an event log, or a program to run")
        if arguments.columns is not None and arguments.columns < 1:
            raise BadInput(f"--columns {arguments.columns}: expected at least 1")
        is_log = len(arguments.log) == 1 and arguments.log[0].endswith(".json")
        events = load_events(arguments.log[0]) if is_log else run_program(arguments.log)
        print(draw(events, arguments.warp, arguments.columns))
    except BadInput as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
