#!/usr/bin/env python3
"""Registers, spills and stack frames of the kernels, as ptxas reports them.

    ptxas_report.py keep nvcc …      runs the compiler; writes what ptxas said to OBJECT.ptxas and
                                     prints a line for each kernel
    ptxas_report.py check CODES OBJECT… [--for CODE]
                                     reads OBJECT.ptxas; fails if a kernel spills or has a stack
                                     frame, if ptxas serializes wgmma or sets fences of its own
                                     (C75xx) in one without breaks, or if one of CODES
                                     (sm_80,sm_90; sm_ for any) has no kernel. With --for
                                     only CODE's kernels must not spill:
                                     the one that tile sizes were chosen for
"""

import re
import shutil
import subprocess
import sys

ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")
WGMMA = re.compile(r".*\(C75\d\d\).*")


def kernels(report):
    """(name, architecture, registers, stack frame, spilled bytes) of each kernel."""
    found, entry, frame = [], None, None
    for line in report.splitlines():
        if match := ENTRY.search(line):
            entry = match
        elif match := FRAME.search(line):
            frame = match
        elif (match := REGISTERS.search(line)) and entry and frame:
            stack, stores, loads = map(int, frame.groups())
            found.append((demangle(entry[1]), entry[2], int(match[1]), stack, stores + loads))
            entry = frame = None
    return found


def demangle(symbol):
    if not shutil.which("c++filt"):
        return symbol
    name = subprocess.run(["c++filt", symbol], capture_output=True, text=True).stdout.strip()
    return name.split("(")[0].replace("void ", "")


def describe(kernel):
    name, architecture, registers, stack, spilled = kernel
    return (f"{name} {architecture}: {registers} registers, {stack} bytes of stack, "
            f"{spilled} spilled")


def keep(command):
    result = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    outputs = [command[i + 1] for i, word in enumerate(command[:-1]) if word == "-o"]
    noise = ("ptxas info", "bytes stack frame")
    sys.stderr.write("".join(line for line in result.stderr.splitlines(keepends=True)
                             if not any(word in line for word in noise)))
    if result.returncode == 0 and "-c" in command and outputs:
        with open(outputs[0] + ".ptxas", "w", encoding="utf-8") as file:
            file.write(result.stderr)
        for kernel in kernels(result.stderr):
            print(describe(kernel))
    return result.returncode


def check(codes, objects, chosen=""):
    found, remarks = [], []
    for path in objects:
        with open(path.removesuffix(".ptxas") + ".ptxas", encoding="utf-8") as file:
            report = file.read()
        found += kernels(report)
        # A break may read an accumulator too early, and ptxas then serializes that build. That is
        # allowed.
        remarks += [line for line in WGMMA.findall(report) if "RuntimeBreaks" not in line]
    for kernel in found:
        print(describe(kernel))
    missing = [code for code in codes.split(",")
               if not any(kernel[1].startswith(code) for kernel in found)]
    if missing:
        print("no kernel found for", *missing, "in", *objects)
        return 1
    if remarks:
        print(*remarks, sep="\n")
        return 1
    return 1 if any((stack or spilled) and architecture.startswith(chosen)
                      for _, architecture, _, stack, spilled in found) else 0


def main(arguments):
    if len(arguments) < 2 or arguments[0] not in ("keep", "check"):
        sys.exit(__doc__)
    if arguments[0] == "keep":
        return keep(arguments[1:])
    chosen = ""
    if arguments[-2] == "--for":
        *arguments, _, chosen = arguments
    return check(arguments[1], arguments[2:], chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
