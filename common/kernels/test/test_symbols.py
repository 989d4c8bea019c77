#!/usr/bin/env python3
"""Compares the symbols of the kernels' objects.

    test_symbols.py CXX BUILD_DIRECTORY

The emulator's sources are compiled with -O0 here, so that no call is inlined. nvcc would need minutes,
so its objects are those of the build.

If two objects define a function of the same name, the linker chooses one. This is harmless for the
standard library and for functions of a shared header. It is an error for a kernel, because chapter
04 could run chapter 03's code, or the GPU build the emulator's. A function of a chapter's file may
therefore be in one object only, and a function of a backend only in objects of that backend. Chapter
21 includes headers of chapter 16, so both may define a function of these headers: namespace ch16 is in
chapter 16's files only.
"""

import itertools
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

# The functions of a chapter that host code calls, and the functions that these call.
ENTRIES = [("forward", "attention"), ("backward", "backward"), ("decode", "decode")]


def defined_symbols(target):
    """Returns {symbol: the file and line that define it} for all symbols that the linker sees."""
    listing = subprocess.run(["nm", "-C", "-l", "--defined-only", "--extern-only", target],
                             check=True, capture_output=True, text=True).stdout
    symbols = {}
    for line in listing.splitlines():
        name, _, place = line.partition("\t")
        if name.count(" ") >= 2:
            symbols[name.split(" ", 2)[2]] = place
    return symbols


def objects_of(build, cxx, scratch):
    """Yields the chapter, the backend and the object of each kernel."""
    for source in sorted(Path(build, "kernels").glob("ch*_kernel_*.c*")):
        chapter, backend = re.match(r"ch(\d\d)_kernel_(\w+)", source.stem).groups()
        if backend == "gpu":
            found = Path(build, "chapters").rglob(f"{source.name}.o")  # of earlier builds, too
            target = max(found, key=lambda path: path.stat().st_mtime)
        else:
            target = Path(scratch, f"{source.stem}.o")
            subprocess.run([cxx, "-std=c++20", "-O0", "-g", "-I", ROOT, "-c", source, "-o", target],
                           check=True)
        yield chapter, backend, target


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
    for path in sorted(ROOT.glob("chapters/*/*.[hc]pp")):
        opened = set(re.findall(r"^namespace .*\bFA_BACKEND::ch(\d\d)\b", path.read_text(), re.M))
        found += [f"{path.relative_to(ROOT)} opens namespace ch{number}"
                  for number in sorted(opened - {path.parent.name[:2]})]
    return found


def main(cxx, build):
    foreign = foreign_namespaces()
    print("".join(f"{line}\n" for line in foreign), end="")
    symbols_of, failures = {}, len(foreign)
    with tempfile.TemporaryDirectory() as scratch:
        for chapter, backend, target in objects_of(build, cxx, scratch):
            symbols = symbols_of[chapter, backend] = defined_symbols(target)
            own = f"{backend}::ch{chapter}::"
            defines = lambda what: any(re.search(own + what, symbol) for symbol in symbols)
            inlined = backend == "gpu"  # by nvcc's optimizer: only what is called by name is left
            if not any(defines(f"{entry}<") and (inlined or defines(f"launch_{what}"))
                       for entry, what in ENTRIES):
                print(f"{target.name}: does not define what host code calls: this test would "
                      "compare nothing")
                failures += 1
            if backend == "emulator" and not any("/chapters/" in at for at in symbols.values()):
                print(f"{target.name}: no definition has a place in chapters/")
                failures += 1
    if len(symbols_of) < 5:
        print("expected the kernels of five chapters in", build)
        return 1
    for first, second in itertools.combinations(symbols_of, 2):
        for symbol in sorted(symbols_of[first].keys() & symbols_of[second].keys()):
            places = [symbols_of[one][symbol] for one in (first, second)]
            if why := clash(symbol, places, first, second):
                print(f"{' '.join(first)} and {' '.join(second)} both define {why} {symbol}")
                failures += 1
    print(f"{len(symbols_of)} objects, {failures} clashes")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
