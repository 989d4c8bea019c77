#!/usr/bin/env python3
"""Checks that breaks cost nothing when they are off: the compiler makes the same code of the intact
kernel as of a source without breaks.

    same_code.py CHAPTER COMPILER [FLAG …]     CHAPTER: the directory below chapters/

Compiles twice: the kernel as it is, and a copy in which the breaks are removed from the text. Both
must have the same functions. A third build of chapters 02 and 03, with run-time breaks, must have
others, which shows that the test can fail. From a compiler named nvcc the test compares PTX, and in
its copy also the parameter and the template argument of the breaks are removed. For the host it
compares machine code. There every `breaks.has(…)` becomes `false` but the empty parameter stays,
because without it names and closures change and the compiler assigns other registers.
"""

import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

STRIKE_OUT = [  # in this order
    (r"breaks\.has\([\w:]+\)", "false"),
    (r"std::is_empty_v<Breaks> && ", ""),
    (r"template <class Breaks>\s*", ""),
    (r",\s*class Breaks(?=\W)", ""),
    (r"class Breaks,\s*", ""),
    (r"(?:,\s*)?\bBreaks breaks\b", ""),
    (r",\s*breaks(?=\s*[,)\]])", ""),
    (r"\(breaks\)", "()"),
    (r",\s*Breaks>", ">"),
]

# A chapter's kernel files, the source to compile, and the functions to compare.
KERNEL = """#include "chapters/{directory}/attention.hpp"
namespace FA_BACKEND::ch{number} {{
void use(const fa::ForwardArgs& args) {{ launch_attention<64>(args{breaks}); }}
}}
"""
BACKWARD = KERNEL.replace("ForwardArgs", "BackwardArgs").replace(
    "launch_attention<", "launch_backward<bf16, ")
DECODE = KERNEL.replace("ForwardArgs", "DecodeArgs").replace(
    "launch_attention<64>", "launch_decode<bf16, 64, 32, true, true, true>")
TILED = """#include "chapters/02_tiled_cpu/tiled.hpp"
const auto use = ch02::attend_tile<float, ch02::Causal{breaks}>;
const void* volatile used = reinterpret_cast<const void*>(use);
"""


def without_breaks(text, parameters):
    """Returns C++ text without its breaks, with or without the parameter that selects them.
    Comments and line breaks stay."""
    for pattern, replacement in STRIKE_OUT[:1 if parameters else None]:
        text = re.sub(pattern, lambda match: replacement + "\n" * match.group(0).count("\n"), text)
    return text


def text_sections(path):
    """Returns name and bytes of every section of machine code in a 64-bit ELF file."""
    data = path.read_bytes()
    if data[:5] != b"\x7fELF\x02":
        raise SystemExit(f"{path}: not a 64-bit ELF file")
    offset, = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", data, offset + i * size) for i in range(count)]
    strings = headers[names][4]
    sections = []
    for name, kind, flags, _, begin, length in headers:
        end = data.index(b"\0", strings + name)
        title = data[strings + name:end].decode()
        if kind == 1 and flags & 4:  # SHT_PROGBITS, SHF_EXECINSTR
            sections.append((title, data[begin:begin + length]))
    return sections


def machine_code(path):
    """Returns the code of the kernel and of the functions that were not inlined into it, without
    the code that launches it. Their names differ between builds."""
    return sorted(bytes_ for name, bytes_ in text_sections(path)
                  if re.match(r"\.text\._ZN?(8emulator|3gpu|4ch02)", name)
                  and not re.search(r"launch|3use", name))


def ptx(path):
    """Returns launch bounds and body of each function. Names that differ between builds are
    replaced: a function's own, its number in labels, and those of what it uses, which are counted."""
    functions = []
    for function in re.split(r"^(?=\.[^\n]*\.(?:entry|func)\b)", path.read_text(encoding="utf-8"),
                             flags=re.MULTILINE)[1:]:
        name, body = re.fullmatch(r"[^\n]*?(\w+)\(\n.*?^\)\n(.*)", function, re.MULTILINE | re.DOTALL).groups()
        body = re.sub(r"L__BB\d+_", "L_", body.replace(name, "self"))
        used = {}
        functions.append(re.sub(r"\b_Z\w+", lambda symbol: f"used{used.setdefault(symbol.group(0), len(used))}",
                                body))
    return sorted(functions)


def with_included(chapter):
    """Returns the folder of a chapter and those of the chapters whose headers its kernel includes."""
    included = set()
    for path in (ROOT / chapter).glob("*.hpp"):
        if path.name != "chapter.hpp":  # host code, which names the chapter before
            included.update(re.findall(r'#include "(chapters/\w+)/', path.read_text("utf-8")))
    return sorted({chapter, *included})


def build(directory, chapter, breaks, struck, compiler, flags):
    """Returns the functions of one of the three builds, compiled in its own directory."""
    is_cuda = Path(compiler).name == "nvcc"
    removed = 0
    for source in ("common", *with_included(f"chapters/{chapter}")):
        for path in (ROOT / source).rglob("*.hpp"):
            copy = directory / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            kernel_file = source != "common" or path.parent.name == "kernels"
            text = path.read_text(encoding="utf-8")
            if struck and kernel_file:
                text = without_breaks(text, not is_cuda)
                traces = r"breaks\.has"
                if is_cuda:
                    traces += r"|class Breaks|Breaks breaks|, breaks\W"
                left = re.search(rf"^(?!//).*({traces}).*", text, re.MULTILINE)
                if left:
                    raise SystemExit(f"{path}: a break is left in: {left.group(0).strip()}")
            removed += text != path.read_text(encoding="utf-8")
            copy.write_text(text, encoding="utf-8")
    if struck and not removed:
        raise SystemExit(f"error: {chapter} has no break to remove")
    template = {"02": TILED, "10": BACKWARD, "11": DECODE}.get(chapter[:2], KERNEL)
    source, result = ("use.cu", "use.ptx") if is_cuda else ("use.cpp", "use.o")
    number = chapter[:2]
    (directory / source).write_text(
        template.format(directory=chapter, number=number, breaks=breaks), encoding="utf-8")
    how = ["-ptx"] if is_cuda else ["-c", "-O3", "-DNDEBUG", "-ffp-contract=off"]
    if is_cuda and not any(flag.startswith("-arch") for flag in flags):
        how.append("-arch=sm_90")
    subprocess.run([compiler, "-std=c++20", *how, "-I.", *flags, source, "-o", result],
                   cwd=directory, check=True)
    return (ptx if is_cuda else machine_code)(directory / result)


def main():
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    chapter, compiler, flags = sys.argv[1], shutil.which(sys.argv[2]) or sys.argv[2], sys.argv[3:]
    tiled = chapter.startswith("02")
    folder = Path(tempfile.mkdtemp())
    try:
        none = ", ch02::Intact" if tiled else ", NoBreaks{}"
        some = ", ch02::Broken" if tiled else ", RuntimeBreaks{1}"
        nothing = "" if Path(compiler).name == "nvcc" else none
        intact = build(folder / "intact", chapter, none, False, compiler, flags)
        struck = build(folder / "struck", chapter, nothing, True, compiler, flags)
        shows = chapter[:2] in ("02", "03")
        broken = build(folder / "broken", chapter, some, False, compiler, flags) if shows else []
    finally:
        shutil.rmtree(folder)
    total = sum(map(len, intact))
    print(f"{chapter}, {os.path.basename(compiler)}: {len(intact)} functions, {total} bytes; "
          f"without the breaks in the source {sum(map(len, struck))}"
          + f", with run-time breaks {sum(map(len, broken))}" * shows)
    if total < 1000:
        print("error: no kernel was found in the compiler's output", file=sys.stderr)
        return 1
    if intact != struck:
        print("error: the intact kernel is not what it would be without breaks", file=sys.stderr)
        return 1
    if intact == broken:
        print("error: this test cannot fail: run-time breaks give the same code", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
