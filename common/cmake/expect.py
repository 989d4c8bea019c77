#!/usr/bin/env python3
"""Runs a command and holds both its exit status and its output to what was expected.

    expect.py STATUS REGEX COMMAND…

REGEX is searched in stdout and stderr together. CTest's PASS_REGULAR_EXPRESSION alone would let
a program pass that prints the right words and then crashes.
"""

import re
import subprocess
import sys


def main(status, expression, *command):
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(run.stdout, end="")
    failures = []
    if run.returncode != int(status):
        failures.append(f"exit status {run.returncode}, expected {status}")
    if not re.search(expression, run.stdout):
        failures.append(f"the output does not match {expression!r}")
    for failure in failures:
        print(f"{command[0]}: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
