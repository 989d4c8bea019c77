#!/usr/bin/env python3
"""Compiles the kernels' sources with -O0, so that no call is inlined, and compares symbols.

    test_symbols.py CXX NVCC|FA_NVCC-NOTFOUND DIRECTORY   (of the generated sources)

If two objects define a function of the same name, the linker chooses one. This is harmless for the
standard library and for functions of a shared header. It is an error for a kernel, because chapter
04 could run chapter 03's code, or the GPU build the emulator's. A function of a chapter's file may
therefore be in one object only, and a function of a backend only in objects of that backend. Chapter
21 includes headers of chapter 16, so both may define a function of these headers: namespace ch16 is in
chapter 16's files only.
"""

import glob
import itertools
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))

# The functions of a chapter that host code calls, and the functions that these call.
ENTRIES = [("forward", "attention"), ("backward", "backward"), ("decode", "decode")]


def compiler(source, cxx, nvcc):
    # device code is not checked, so nvcc compiles as little of it as possible
    if source.endswith(".cu"):
        with open(source) as text:
            machine_code = re.search(r"sm_(\w+)", text.read()).group(1)
        return [nvcc, "-std=c++20", "-O0", "-g", "-Xcicc", "-O0",
                "-gencode", f"arch=compute_{machine_code},code=compute_{machine_code}"]
    return [cxx, "-std=c++20", "-O0", "-g"]


def defined_symbols(source, directory, cxx, nvcc):
    """Returns {symbol: the file that defines it} for all symbols that the linker sees."""
    target = os.path.join(directory, os.path.basename(source) + ".o")
    subprocess.run([*compiler(source, cxx, nvcc), "-I", ROOT, "-c", source, "-o", target],
                   check=True)
    listing = subprocess.run(["nm", "-C", "-l", "--defined-only", "--extern-only", target],
                             check=True, capture_output=True, text=True).stdout
    symbols = {}
    for line in listing.splitlines():
        name, _, place = line.partition("\t")
        if name.count(" ") >= 2:
            symbols[name.split(" ", 2)[2]] = place
    return symbols


def clash(symbol, places, first, second):
    """Returns why this symbol must not be in both objects, or None if it may be. `places` are where they
    define it, as FILE:LINE, or "" if nm does not know."""
    if first[1] != second[1] and re.search(r"\b(emulator|gpu)::", symbol):
        return "a backend's"
    of_chapter = re.search(r"\bch\d\d::", symbol) or any("/chapters/" in place for place in places)
    if of_chapter and (first[1] != second[1] or places[0] != places[1]):
        return "a chapter's"
    return None


def foreign_namespaces():
    """Returns a line for each file of a chapter that opens another chapter's namespace."""
    found = []
    for path in sorted(glob.glob(os.path.join(ROOT, "chapters", "*", "*.[hc]pp"))):
        with open(path) as text:
            opened = set(re.findall(r"^namespace .*\bFA_BACKEND::ch(\d\d)\b", text.read(), re.M))
        name = os.path.relpath(path, ROOT)
        found += [f"{name} opens namespace ch{number}"
                  for number in sorted(opened - {name.split("/")[1][:2]})]
    return found


def main(cxx, nvcc, directory):
    sources = sorted(glob.glob(os.path.join(directory, "ch*_emulator.cpp")))
    if os.path.exists(nvcc):
        sources += sorted(glob.glob(os.path.join(directory, "ch*_gpu.cu")))
    if len(sources) < 5:
        print("expected the generated sources of five chapters in", directory)
        return 1
    objects, foreign = {}, foreign_namespaces()
    print("".join(f"{line}\n" for line in foreign), end="")
    failures = len(foreign)
    with tempfile.TemporaryDirectory() as scratch:
        for source in sources:
            name = os.path.basename(source)
            chapter, backend = re.match(r"ch(\d\d(?:_\w+)?)_kernel_(\w+)\.", name).groups()
            symbols = defined_symbols(source, scratch, cxx, nvcc)
            own = f"{backend}::ch{chapter}::"
            defines = lambda what: any(re.search(own + what, symbol) for symbol in symbols)
            if not any(defines(f"{entry}<") and defines(f"launch_{what}") for entry, what in ENTRIES):
                print(f"{name}: does not define what host code calls: this test would compare "
                      "nothing")
                failures += 1
            if not any("/chapters/" in place for place in symbols.values()):
                print(f"{name}: no definition has a place in chapters/")
                failures += 1
            objects[chapter, backend] = symbols
    for first, second in itertools.combinations(objects, 2):
        for symbol in sorted(objects[first].keys() & objects[second].keys()):
            if why := clash(symbol, [objects[one][symbol] for one in (first, second)], first,
                                second):
                print(f"{' '.join(first)} and {' '.join(second)} both define {why} {symbol}")
                failures += 1
    print(f"{len(objects)} objects, {failures} clashes")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
