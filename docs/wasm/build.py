"""python3 docs/wasm/build.py [MODULE …]: the programs of the chapters as docs/public/*.wasm, one for
each of MODULES. Needs clang 19 with its libc++ for wasm32, wasi-libc and binaryen; standard library."""

import concurrent.futures
import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "common" / "cmake"))
import breaks  # noqa: E402
PUBLIC = HERE.parent / "public"
OBJECTS = ROOT / "build" / "wasm"
GENERATED = OBJECTS / "generated"

# A page loads one module. host.mjs has the module of each chapter. FIBERS has the kernels, on the
# emulator.
FIBERS = {
    "ampere": ["03_basic_kernel", "04_swizzling", "05_pipelining", "06_ldmatrix_x4", "07_better_pipelining",
               "08_fewer_instructions", "09_masks_and_shapes"],
    "hopper": ["12_tma", "13_wgmma", "14_warp_specialization"],
    "overlap": ["15_overlap", "16_maximum_on_demand"],
    "backward": ["10_backward"],
    "decoding": ["11_decoding"],
    "low_precision": ["17_low_precision"],
    "persistent": ["21_persistent_blocks"],
    "hopper_backward": ["22_backward_on_hopper"],
    "fp8": ["23_fp8"],
}
MODULES = {"toy": ["01_toy_machine"], "tiled": ["02_tiled_cpu"], "systolic": ["18_systolic_array"],
           "gpt": ["20_train_a_gpt"], **FIBERS}
NEEDS = {"23_fp8": ["17_low_precision"]}  # sources of another chapter
PASSES = {"10_backward": "backward", "11_decoding": "decode", "22_backward_on_hopper": "backward"}  # all others: forward
EXERCISES = "01_toy_machine"  # checked in the page, in the module "toy"

# The files that a program may need. The linker includes only the ones that it uses.
COMMON = ["accuracy", "backward", "break_demos", "breaks", "check", "error", "gradients", "half", "json_report",
          "masks", "memory", "npy", "parse", "problem", "program", "reference", "tensor", "tensor_core",
          "tensor_map", "gpu/no_runtime", "kernels/kernel"]
SIMT = ["accesses", "block", "buffer", "cluster", "device", "device_hopper", "divergence", "global_log",
        "global_shadow", "hazard_log", "instructions", "lanes", "launch", "matrix", "mbarrier", "schedule", "shadow",
        "tensor_copy", "traffic", "warpgroup", "warpgroup_meeting"]
KERNELS = ["program", "runner"]
OWN = ["cli", "file", "main", "memory_bytes", "parallel"]
OWN_OF_FIBERS = ["fiber", "overflow", "throw"]
OWN_OF_CPU = ["catch"]
OWN_OF_ONE = {"toy": ["judge"], "tiled": ["peak"], "gpt": ["gpt"], "backward": ["commands", "chapter_09"],
              "decoding": ["chapter_09"], "low_precision": ["chapter_09"], "persistent": ["chapter_16"],
              "hopper_backward": ["chapter_09"], "fp8": ["chapter_16"]}
LEFT_OUT = {"02_tiled_cpu/bench", "02_tiled_cpu/fast_shared", "02_tiled_cpu/peak",
            "03_basic_kernel/bench_simt", "03_basic_kernel/layout", "04_swizzling/banks", "13_wgmma/first_wgmma",
            *(f"10_backward/{name}_command" for name in ("chain", "elements", "projections")),
            "10_backward/schedule_commands",
            *(f"20_train_a_gpt/{name}" for name in ("cublas", "device_emulator", "no_gpu", "story"))}

# Code that runs for each instruction of each thread is compiled for speed, other code for size.
SMALL = {"block", "buffer", "cluster", "device_hopper", "divergence", "global_log", "global_shadow", "hazard_log",
         "instructions", "lanes", "launch", "mbarrier", "schedule", "tensor_copy", "warpgroup", "warpgroup_meeting"}
FAST = {ROOT / "common" / "simt" / f"{name}.cpp" for name in set(SIMT) - SMALL}
# Compiled with SIMD are each step of training, and sums of tensor cores, whose code is then half as long.
FASTER = {ROOT / "common" / "tensor_core.cpp"}
FASTER |= {ROOT / "chapters" / "20_train_a_gpt" / f"{name}.cpp"
           for name in ("layers", "matrix", "model", "self_attention", "training")}
STACK_BYTES = 256 * 1024  # nothing guards its end, and Eigen places at most two there, each of a 16th
FLAGS = ["--target=wasm32-wasi", "-std=c++20", "-Wall", "-Wextra", "-ffp-contract=off",
         "-fvisibility=hidden", "-DNDEBUG", "-DFA_SIMT_SOURCE_ROOT=\"\"",
         f"-ffile-prefix-map={ROOT}/=", "-isystem", str(HERE / "compat"), "-I", str(ROOT),
         "-I", str(GENERATED),
         "-isystem", str(OBJECTS / "include")]
# A `throw` ends a program with fibers (throw.cpp). In the other programs, which also print more, it
# unwinds.
FLAGS_OF_FIBERS = ["-fignore-exceptions", "-isystem", str(HERE / "compat_print")]
FLAGS_OF_CPU = ["-fwasm-exceptions", "-I", str(ROOT / "chapters" / EXERCISES),
                "-DCH01_PROGRAMS=\"programs\"", "-DEXERCISE_STUB=\"stub\"", "-DEXERCISE_COPY=\"answer\"",
                "-DFA_ROOT=\"\"", "-DFA_RING=0", f"-DEIGEN_STACK_ALLOCATION_LIMIT={STACK_BYTES // 16}",
                "-D_WASI_EMULATED_PROCESS_CLOCKS"]
PRECOMPILED = ["algorithm", "cmath", "functional", "memory", "span", "string", "vector", "nlohmann/json.hpp"]
# platform-independent headers of this machine
HEADERS = ["nlohmann", "doctest", "hwy", "eigen3/Eigen"]


REPLACED = ["increment_exception_refcount", "decrement_exception_refcount",
            "rethrow_primary_exception"]  # defined by throw.cpp


class Failed(Exception):
    """One sentence."""


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Failed(f"{name} is not installed")
    return found


def generated() -> list:
    """Generates the sources that fa_kernel_chapter of common/cmake/kernels.cmake generates."""
    files = []
    for directory in sum(FIBERS.values(), []):
        for template, name in (("build.cpp.in", "emulator"), ("no_gpu.cpp.in", "no_gpu")):
            text = (ROOT / "common" / "kernels" / template).read_text()
            for key, value in {"CHAPTER": directory[:2], "DIRECTORY": directory,
                               "PASS": PASSES.get(directory, "forward"), "MACHINE_CODE": "",
                               "LEFT_OUT": "a page has no GPU kernels"}.items():
                text = text.replace(f"@FA_{key}@", value)
            path = OBJECTS / f"ch{directory[:2]}_{name}.cpp"
            files.append(written(path, text))
    (GENERATED / "breaks").mkdir(parents=True, exist_ok=True)
    content = breaks.programs(ROOT)
    for directory in sum(MODULES.values(), []):  # main.cpp includes it and is compiled later
        written(GENERATED / "breaks" / f"ch{directory}.hpp", breaks.header(directory, content))
    return files


def written(path: Path, text: str) -> Path:
    """Writes a file only if its content changes, so that its time does not change otherwise."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return path


def list_of(module: str) -> Path:
    """Writes a source with the programs of a module, for main.cpp."""
    programs = {f"ch{name}": f"ch{name}" for name in MODULES[module]}
    if module == "toy":
        programs["judge"] = "judge"
    declared = "".join(f"int {main}(int, char**);\n" for main in programs.values())
    listed = ", ".join(f'{{"{name}", {main}}}' for name, main in programs.items())
    return written(OBJECTS / f"{module}.cpp", f"""#include "docs/wasm/programs.hpp"
{declared}namespace {{
const fa::wasm::Program all[] = {{{listed}}};
}}
const std::span<const fa::wasm::Program> fa::wasm::programs = all;
""")


def of_chapter(directory: str) -> list:
    """Returns a chapter's own sources. Its main() is renamed to the program's name."""
    return [path for path in sorted((ROOT / "chapters" / directory).glob("*.cpp"))
            if not path.name.startswith("test_") and f"{directory}/{path.stem}" not in LEFT_OUT]


def is_current(target: Path, depfile: Path) -> bool:
    if not target.exists() or not depfile.exists():
        return False
    names = depfile.read_text().replace("\\\n", " ").split(":", 1)[1].split()
    made = target.stat().st_mtime
    return all(os.path.exists(n) and os.path.getmtime(n) <= made for n in [*names, OBJECTS / "flags"])


@functools.cache
def precompiled(fibers: bool) -> Path:
    """Precompiles the headers that most sources include, which saves a quarter of their compile
    time."""
    target = OBJECTS / f"headers{'' if fibers else '_cpu'}.pch"
    depfile = target.with_suffix(".d")
    if not is_current(target, depfile):
        source = written(OBJECTS / "headers.hpp", "".join(f"#include <{name}>\n" for name in PRECOMPILED))
        subprocess.run([tool("clang++-19"), *FLAGS, *(FLAGS_OF_FIBERS if fibers else FLAGS_OF_CPU), "-Oz", "-x",
                        "c++-header", "-MD", "-MF", depfile, source, "-o", target], check=True)
    return target


def compile_one(source: Path, fibers: bool) -> Path:
    name = os.path.relpath(source, ROOT) + ("" if fibers else "_cpu")
    target = OBJECTS / (re.sub(r"\W", "_", name) + ".o")
    depfile = target.with_suffix(".d")
    if not is_current(target, depfile):
        more = FLAGS_OF_FIBERS if fibers else FLAGS_OF_CPU
        if source.name == "main.cpp" and source.parent != HERE:
            more = [*more, f"-Dmain=ch{source.parent.name}"]
        optimized = (["-O2", "-msimd128"] if source in FASTER else ["-O2"] if source in FAST
                     else ["-Oz", "-include-pch", precompiled(fibers)])
        subprocess.run([tool("clang++-19"), *FLAGS, *more, *optimized, "-MMD", "-MF", depfile, "-c", source,
                        "-o", target], check=True)
    return target


# The functions that can be on a fiber's stack when it stops. Asyncify finds them from leave_fiber
# upwards, but not through the call of a kernel by its std::function (ADD). It would also continue
# upwards through the functions that start and end a block (REMOVE), which only run below host.mjs's
# loop.
ADD = ["fa_fiber", "fa::simt::Block::thread_main*"]
REMOVE = ["fa::simt::Cluster::*", "fa::simt::Block::finish*"]


def prepare() -> list:
    """Prepares what compile_one needs. Returns the generated sources."""
    (OBJECTS / "include").mkdir(parents=True, exist_ok=True)
    for header in HEADERS:
        # in its own directory, because this machine's other headers are next to it
        link = OBJECTS / "include" / Path(header).name
        if not link.exists():
            link.symlink_to(f"/usr/include/{header}")
    stands_in = sorted(path for path in HERE.glob("compat*/**/*") if path.is_file())
    written(OBJECTS / "flags", str([FLAGS, FLAGS_OF_FIBERS, FLAGS_OF_CPU,
                                    [(str(path), path.read_text()) for path in stands_in]]))
    return generated()


def build(modules: list) -> None:
    emulator = prepare()
    PUBLIC.mkdir(exist_ok=True)
    common = [ROOT / "common" / f"{name}.cpp" for name in COMMON]
    emulator += [ROOT / "common" / "simt" / f"{name}.cpp" for name in SIMT]
    emulator += [ROOT / "common" / "kernels" / f"{name}.cpp" for name in KERNELS]
    judged = [ROOT / "exercises" / "support" / f"{name}.cpp" for name in ("table", "trace", "verdict")]
    judged += sorted((ROOT / "exercises" / EXERCISES).glob("*/test.cpp"))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for fibers in {module in FIBERS for module in modules}:
            precompiled(fibers)
        for module in modules:
            fibers = module in FIBERS
            own = [list_of(module)]
            names = OWN + (OWN_OF_FIBERS if fibers else OWN_OF_CPU) + OWN_OF_ONE.get(module, [])
            own += [HERE / f"{name}.cpp" for name in names] + (judged if module == "toy" else [])
            there = [*common, *(emulator if fibers else [])]
            for directory in MODULES[module]:
                there += sum((of_chapter(part) for part in [directory, *NEEDS.get(directory, [])]), [])
            objects = dict(zip(own + there, pool.map(functools.partial(compile_one, fibers=fibers), own + there)))
            make(module, [objects[source] for source in own], [objects[source] for source in there])


def make(module: str, own: list, objects: list) -> None:
    """Returns the objects that `own` needs."""
    linked = OBJECTS / f"{module}.wasm"
    output = PUBLIC / f"{module}.wasm"
    newest = max(path.stat().st_mtime for path in [*own, *objects, HERE / "build.py"])
    if output.exists() and output.stat().st_mtime > newest:
        return
    fibers = module in FIBERS
    subprocess.run([tool("clang++-19"), "--target=wasm32-wasi", "-mexec-model=reactor", *own,
                    "-Wl,--start-lib", *objects, "-Wl,--end-lib",
                    f"-Wl,--export=__stack_pointer,--gc-sections,-z,stack-size={STACK_BYTES}",
                    "-Wl,--max-memory=1073741824",
                    *(f"-Wl,--wrap=__cxa_{name}" for name in REPLACED if fibers),
                    *([] if fibers else ["-lwasi-emulated-process-clocks"]), "-o", linked], check=True)
    temporary = output.with_suffix(".partial")
    asyncify = ["--asyncify", "--pass-arg=asyncify-imports@host.leave_fiber",
                "--pass-arg=asyncify-ignore-indirect", "--pass-arg=asyncify-addlist@" + ",".join(ADD),
                "--pass-arg=asyncify-removelist@" + ",".join(REMOVE)]
    subprocess.run([tool("wasm-opt"), "-O2", *(asyncify if fibers else ["--enable-exception-handling"]),
                    "-Os", "--strip-debug", "--strip-producers", linked, "-o", temporary], check=True)
    temporary.replace(output)


if __name__ == "__main__":
    try:
        unknown = set(sys.argv[1:]) - set(MODULES)
        if unknown:
            raise Failed(f"{', '.join(sorted(unknown))}: accepted: {', '.join(MODULES)}")
        build(sys.argv[1:] or list(MODULES))
    except (Failed, subprocess.CalledProcessError) as error:
        sys.exit(f"error: {error}")
