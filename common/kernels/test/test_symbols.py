#!/usr/bin/env python3
"""Compares the symbols of the kernels' objects.

    test_symbols.py CXX BUILD_DIRECTORY

The emulator's kernels are compiled as one file with -O0 here, but for those in ALONE, so that no call is
inlined and a second definition of a function is the compiler's error. nvcc would need minutes, so its
objects are those of the build.

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

# Chapters with an object of their own: 22 includes files of chapter 10 in another namespace.
ALONE = {"22"}


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


def chapters_of(build, backend):
    """Returns {chapter: generated source} of the kernels."""
    return {path.name[2:4]: path for path in sorted(Path(build, "kernels").glob(f"ch*_kernel_{backend}.c*"))}


def objects_of(build, cxx, scratch):
    """Yields a backend, the chapters in an object, and the object."""
    sources = chapters_of(build, "emulator")
    alone = ALONE & sources.keys()
    for name, chapters in (("emulator", sources.keys() - alone), *((f"emulator_{one}", {one}) for one in alone)):
        whole, target = Path(scratch, f"{name}.cpp"), Path(scratch, f"{name}.o")
        whole.write_text("".join(f'#include "{sources[one]}"\n' for one in sorted(chapters)), encoding="utf-8")
        subprocess.run([cxx, "-std=c++20", "-O0", "-g", "-I", ROOT, "-c", whole, "-o", target], check=True)
        yield "emulator", sorted(chapters), target
    for chapter, source in chapters_of(build, "gpu").items():
        found = Path(build, "chapters").rglob(f"{source.name}.o")  # of earlier builds, too
        yield "gpu", [chapter], max(found, key=lambda path: path.stat().st_mtime)


def clash(symbol, places, other_backend):
    """Returns why this symbol must not be in both objects, or None if it may be. `places` are where they
    define it, as FILE:LINE, or "" if nm does not know."""
    if other_backend and re.search(r"\b(emulator|gpu)::", symbol):
        return "a backend's"
    of_chapter = re.search(r"\bch\d\d::", symbol) or any("/chapters/" in place for place in places)
    if of_chapter and (other_backend or places[0] != places[1]):
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
    symbols_of, kernels, failures = {}, 0, len(foreign)
    with tempfile.TemporaryDirectory() as scratch:
        for backend, chapters, target in objects_of(build, cxx, scratch):
            symbols = symbols_of[backend, target.name] = defined_symbols(target)
            inlined = backend == "gpu"  # by nvcc's optimizer: only what is called by name is left
            kernels += len(chapters)
            for chapter in chapters:
                own = f"{backend}::ch{chapter}::"
                defines = lambda what: any(re.search(own + what, symbol) for symbol in symbols)
                if not any(defines(f"{entry}<") and (inlined or defines(f"launch_{what}"))
                           for entry, what in ENTRIES):
                    print(f"{target.name}: does not define what host code calls of chapter {chapter}: this "
                          "test would compare nothing")
                    failures += 1
                if not inlined and not any(re.search(rf"/chapters/{chapter}_", at) for at in symbols.values()):
                    print(f"{target.name}: no definition has a place in chapter {chapter}")
                    failures += 1
    if kernels < 5:
        print("expected the kernels of five chapters in", build)
        return 1
    for first, second in itertools.combinations(symbols_of, 2):
        for symbol in sorted(symbols_of[first].keys() & symbols_of[second].keys()):
            places = [symbols_of[one][symbol] for one in (first, second)]
            if why := clash(symbol, places, first[0] != second[0]):
                print(f"{first[1]} and {second[1]} both define {why} {symbol}")
                failures += 1
    print(f"{kernels} kernels, {failures} clashes")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
