"""python3 docs/wasm/build.py: the kernels of the chapters and their emulator as docs/public/*.wasm,
one for each of MODULES. Needs clang 19 with its libc++ for wasm32, wasi-libc and binaryen; standard library."""

import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Iterable

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PUBLIC = HERE.parent / "public"
OBJECTS = ROOT / "build" / "wasm"

# A page loads one of them; host.mjs says which has its chapter.
MODULES = {
    "ampere": ["03_basic_kernel", "04_swizzling", "05_pipelining", "06_ldmatrix_x4", "07_better_pipelining",
               "08_fewer_instructions", "09_masks_and_shapes", "17_low_precision"],
    "hopper": ["12_tma", "13_wgmma", "14_warp_specialization"],
    "overlap": ["15_overlap", "16_maximum_on_demand"],
}
CHAPTERS = sum(MODULES.values(), [])
OF_CHAPTERS = ["17_low_precision/computed"]
COMMON = ["accuracy", "breaks", "check", "half", "json_report", "memory", "npy", "operation", "parse", "problem",
          "program", "reference", "tensor", "tensor_map", "error", "gpu/no_runtime"]
SIMT = ["accesses", "block", "buffer", "cluster", "device", "device_hopper", "divergence", "global_log",
        "hazard_log", "instructions", "launch", "matrix", "mbarrier", "schedule", "shadow",
        "tensor_copy", "traffic", "warpgroup", "warpgroup_meeting"]
KERNELS = ["chapter", "kernel_program", "runner"]
OWN = ["cli", "fiber", "file", "main", "memory_bytes", "overflow", "parallel", "throw"]

# The emulator's own code runs for each instruction of each thread; the rest is small before it is fast.
FAST = ROOT / "common" / "simt"
FLAGS = ["--target=wasm32-wasi", "-std=c++20", "-Wall", "-Wextra", "-ffp-contract=off",
         "-fignore-exceptions", "-fvisibility=hidden", "-DNDEBUG", "-DFA_SIMT_SOURCE_ROOT=\"\"",
         f"-ffile-prefix-map={ROOT}/=", "-isystem", str(HERE / "compat"), "-I", str(ROOT),
         "-isystem", str(OBJECTS / "include")]


REPLACED = ["increment_exception_refcount", "decrement_exception_refcount",
            "rethrow_primary_exception"]  # by throw.cpp


class Failed(Exception):
    """One sentence."""


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Failed(f"{name} is not installed")
    return found


def generated() -> list:
    """As fa_kernel_chapter of common/cmake/kernels.cmake makes them."""
    files = []
    for directory in CHAPTERS:
        for template, name in (("build.cpp.in", "emulator"), ("no_gpu.cpp.in", "no_gpu")):
            text = (ROOT / "common" / "kernels" / template).read_text()
            for key, value in {"CHAPTER": directory[:2], "DIRECTORY": directory, "PASS": "forward",
                               "MACHINE_CODE": "", "LEFT_OUT": "a page has no GPU kernels"}.items():
                text = text.replace(f"@FA_{key}@", value)
            path = OBJECTS / f"ch{directory[:2]}_{name}.cpp"
            files.append(written(path, text))
    return files


def written(path: Path, text: str) -> Path:
    """A file whose time changes only with its content."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return path


def list_of(module: str) -> Path:
    """A source with the chapters of a module, for main.cpp."""
    chapters = MODULES[module]
    includes = "".join(f'#include "chapters/{name}/chapter.hpp"\n' for name in chapters)
    names = ", ".join(f"&ch{name[:2]}::CHAPTER" for name in chapters)
    return written(OBJECTS / f"{module}.cpp", f"""{includes}#include "docs/wasm/chapters.hpp"
namespace {{
const fa::KernelChapter* const all[] = {{{names}}};
}}
const std::span<const fa::KernelChapter* const> fa::wasm::chapters = all;
""")


def is_current(target: Path, depfile: Path) -> bool:
    if not target.exists() or not depfile.exists():
        return False
    names = depfile.read_text().replace("\\\n", " ").split(":", 1)[1].split()
    made = target.stat().st_mtime
    return all(os.path.exists(n) and os.path.getmtime(n) <= made for n in [*names, OBJECTS / "flags"])


def compile_one(source: Path) -> Path:
    target = OBJECTS / (re.sub(r"\W", "_", os.path.relpath(source, ROOT)) + ".o")
    depfile = target.with_suffix(".d")
    if not is_current(target, depfile):
        optimized = "-O2" if source.parent == FAST else "-Oz"
        subprocess.run([tool("clang++-19"), *FLAGS, optimized, "-MMD", "-MF", depfile, "-c", source, "-o",
                        target], check=True)
    return target


# What can be on a fiber's stack when it stops. Asyncify finds it from leave_fiber upwards, but not
# through the call of a kernel by its std::function (ADD); and it would go on upwards through what
# starts and ends a block (REMOVE), which only ever runs below host.mjs's loop.
ADD = ["fa_fiber", "fa::simt::Block::thread_main*"]
REMOVE = ["fa::simt::Cluster::*", "fa::simt::Block::finish*"]


def build() -> None:
    (OBJECTS / "include").mkdir(parents=True, exist_ok=True)
    link = OBJECTS / "include" / "nlohmann"  # alone: beside it lie the headers of this machine
    if not link.exists():
        link.symlink_to("/usr/include/nlohmann")
    PUBLIC.mkdir(exist_ok=True)
    stands_in = sorted(path for path in (HERE / "compat").rglob("*") if path.is_file())
    written(OBJECTS / "flags", str([FLAGS, [(str(path), path.read_text()) for path in stands_in]]))
    sources = generated()
    sources += [ROOT / "common" / f"{name}.cpp" for name in COMMON]
    sources += [ROOT / "common" / "simt" / f"{name}.cpp" for name in SIMT]
    sources += [ROOT / "common" / "kernels" / f"{name}.cpp" for name in KERNELS]
    sources += [ROOT / "chapters" / f"{name}.cpp" for name in OF_CHAPTERS]
    sources += [HERE / f"{name}.cpp" for name in OWN]
    sources += [list_of(module) for module in MODULES]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = dict(zip(sources, pool.map(compile_one, sources)))
    for module in MODULES:
        own = [objects.pop(OBJECTS / f"{module}.cpp")]
        own += [objects[HERE / f"{name}.cpp"] for name in OWN]
        make(module, own, objects.values())


def make(module: str, own: list, objects: Iterable[Path]) -> None:
    """Of `objects` only what `own` need."""
    linked = OBJECTS / f"{module}.wasm"
    output = PUBLIC / f"{module}.wasm"
    subprocess.run([tool("clang++-19"), "--target=wasm32-wasi", "-mexec-model=reactor", *own,
                    "-Wl,--start-lib", *objects, "-Wl,--end-lib",
                    "-Wl,--export=__stack_pointer,--gc-sections,-z,stack-size=262144",
                    "-Wl,--max-memory=1073741824", *[f"-Wl,--wrap=__cxa_{name}" for name in REPLACED],
                    "-o", linked], check=True)
    temporary = output.with_suffix(".partial")
    subprocess.run([tool("wasm-opt"), "-O2", "--asyncify",
                    "--pass-arg=asyncify-imports@host.leave_fiber",
                    "--pass-arg=asyncify-ignore-indirect",
                    "--pass-arg=asyncify-addlist@" + ",".join(ADD),
                    "--pass-arg=asyncify-removelist@" + ",".join(REMOVE),
                    "-Os", "--strip-debug", "--strip-producers", linked, "-o", temporary], check=True)
    temporary.replace(output)


if __name__ == "__main__":
    try:
        build()
    except (Failed, subprocess.CalledProcessError) as error:
        sys.exit(f"error: {error}")
