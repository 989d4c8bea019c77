"""python3 docs/editor/build.py: packs a compiler, headers, tests and kernels for the pages of exercises and chapters, as
docs/public/editor.

Needs the packages of docs/wasm/build.py and docs/node_modules. Standard library only.
"""

import concurrent.futures
import functools
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "docs" / "wasm"))
import build as wasm  # noqa: E402

PUBLIC = HERE.parent / "public" / "editor"
CLANG = HERE.parent / "node_modules" / "@yowasp" / "clang" / "gen"
WORK = wasm.OBJECTS / "editor"

C_HEADERS = Path("/usr/include/wasm32-wasi")
CXX_HEADERS = C_HEADERS / "c++" / "v1"
CLANG_HEADERS = Path("/usr/lib/llvm-19/lib/clang/19/include")
LIBRARIES = [Path("/usr/lib/llvm-19/lib/wasm32-wasi/libc++.a"), Path("/usr/lib/llvm-19/lib/wasm32-wasi/libc++abi.a"),
             Path("/usr/lib/wasm32-wasi/libc.a"), Path("/usr/lib/wasm32-wasi/libwasi-emulated-process-clocks.a"),
             Path("/usr/lib/llvm-19/lib/clang/19/lib/wasi/libclang_rt.builtins-wasm32.a")]
OWN_HEADERS = r"(__?std|std|float|limits|inttypes|iso646|tgmath|varargs)\w*\.h"  # they belong to the page's clang
CXX_LEFT_OUT = ("experimental", "__cxx03", "__pstl", "ext", "module.modulemap", "libcxx.imp",
                # and those that need threads or a system with files
                "barrier", "condition_variable", "filesystem", "__filesystem", "future", "latch", "semaphore",
                "shared_mutex", "stop_token", "syncstream",
                # and a large one that no answer needs
                "regex")
NOT_READ = r"include/|project/common/|project/chapters/.*\.hpp$|project/exercises/(support/|.*/test\.cpp$)"
COMMENT = re.compile(rb'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', re.S)  # or a literal

# The sources that programs link. The linker takes only those that a program needs.
SUPPORT = ["table", "tiles", "verdict", "instances", "warp", "ring"]
OWN = ["catch", "cli", "fiber", "file", "memory_bytes", "overflow", "parallel"]
HEADERS = ("headers.hpp", "emulator_headers.hpp", "kernel_headers.hpp", "cuda_headers.hpp")
CUDA = ["device_calls", "device_calls_hopper", "math", "runtime", "tensor_maps"]  # of common/cuda
EXAMPLES = [f"{name}.cu" for name in ("vector_add", "transpose", "reduction", "matmul", "attention")]
EMULATOR = "exercise_warp"  # the library of the tests that need stacks for CUDA threads

# The chapters whose kernel can be edited, { folder: the call of the kernel }. Chapters 09 to 11 and 22 have many
# kernels, of which it is the one that a command needs.
KERNELS = {chapter: "forward(args)" for chapter in sum(wasm.FIBERS.values(), [])}
ONE_SIZE = "page::dispatch(args, [&](auto head_dim, auto breaks) {{ {}(args, breaks); }})"
KERNELS["09_masks_and_shapes"] = ONE_SIZE.format("launch_attention<head_dim>")
KERNELS["10_backward"] = ONE_SIZE.format("launch_backward<bf16, head_dim>")
KERNELS["11_decoding"] = ONE_SIZE.format("launch_decode<bf16, head_dim, head_dim <= 64 ? 32 : 16, FA_PAGED, true, true>")
KERNELS["22_backward_on_hopper"] = ONE_SIZE.format("launch_backward<bf16, head_dim>")
# The files that a page opens, the first if the command does not name the other's design.
FILES = {**{chapter: ["attention.hpp"] for chapter in KERNELS}, "10_backward": ["one_kernel.hpp", "two_roles.hpp"],
         "22_backward_on_hopper": ["kernel.hpp"]}
# Sources of their programs that no kernel needs. (left_out.cpp and docs/wasm/commands.cpp replace them.)
LEFT_OUT = {"10_backward/cpu_backward", "11_decoding/serve_command", "11_decoding/waves_command",
            "17_low_precision/accuracy", "17_low_precision/number_types", "17_low_precision/simulated"}
# Kernels of other chapters that these programs run (docs/wasm/README.md).
RUNS = {"10_backward": "chapter_09", "11_decoding": "chapter_09", "17_low_precision": "chapter_09",
        "21_persistent_blocks": "chapter_16", "22_backward_on_hopper": "chapter_09", "23_fp8": "chapter_16"}
ARGS = {"forward": "ForwardArgs", "backward": "BackwardArgs", "decode": "DecodeArgs"}


def exercises() -> dict:
    """Returns { exercise: library } of the exercises that the page can check, those in C++. An exercise is its path,
    such as 02_tiled_cpu/ex1_safe_softmax."""
    registry = (ROOT / "exercises" / "CMakeLists.txt").read_text()
    found = re.findall(r"^exercise\((\w+) (\w+)(?: LIBRARIES (\w+))?\)$", registry, re.M)
    return {f"{topic}/{directory}": library for topic, directory, library in found
            if any((ROOT / "exercises" / topic / directory).glob("*.hpp"))}


def stripped(archive: Path) -> Path:
    """Returns a copy of a library without the code's debug information, which is most of its size."""
    target = WORK / archive.name.replace("libclang_rt.builtins-wasm32", "libbuiltins")
    if target.exists() and target.stat().st_mtime > archive.stat().st_mtime:
        return target
    folder = WORK / archive.stem
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "stripped").mkdir(parents=True)
    members = []
    for content in members_of(archive):
        members.append(folder / f"{len(members)}.o")  # two can have the same name
        members[-1].write_bytes(content)

    def strip(member):
        to = folder / "stripped" / member.name
        subprocess.run([wasm.tool("wasm-ld-19"), "-r", "--strip-debug", member, "-o", to], check=True)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(strip, members))
    made(target, [folder / "stripped" / member.name for member in members])
    return target


def members_of(archive: Path):
    """Yields the content of each object in a library."""
    content = archive.read_bytes()
    at = len("!<arch>\n")
    while at < len(content):
        name, size = content[at:at + 16].strip(), int(content[at + 48:at + 58])
        at += 60
        if name not in (b"/", b"//"):  # its index and its long names
            yield content[at:at + size]
        at += size + size % 2


def made(archive: Path, objects: list) -> Path:
    archive.unlink(missing_ok=True)
    subprocess.run([wasm.tool("llvm-ar-19"), "rcsD", archive, *objects], check=True)
    return archive


def below(folder: Path, to: str, wanted: str = r".*", without: tuple = ()) -> list:
    return [(f"{to}/{path.relative_to(folder)}", path) for path in sorted(folder.rglob("*")) if path.is_file()
            and path.relative_to(folder).parts[0] not in without and re.fullmatch(wanted, path.name)]


def files() -> list:
    """Returns (path in the page, path here) of all files that the compiler in the page reads."""
    resources = WORK / "resources"
    if not resources.exists():
        with tarfile.open(CLANG / "llvm-resources.tar") as archive:
            archive.extractall(resources, [member for member in archive.getmembers() if re.fullmatch(
                r"include/" + OWN_HEADERS, member.name)])
    found = below(CXX_HEADERS, "include/c++", without=CXX_LEFT_OUT)
    found += below(C_HEADERS, "include/c", without=("c++", "arpa", "net", "netinet", "netpacket", "scsi"))
    found += below(resources / "include", "include/clang")
    # clang 19's, which our headers complete, and no builtin of theirs is missing in the page's clang
    found += below(CLANG_HEADERS, "include/cuda_clang", r"__clang_cuda_(?!runtime|texture|complex).*\.h")
    found += below(CLANG_HEADERS / "cuda_wrappers", "include/cuda_clang/cuda_wrappers")
    found += below(ROOT / "common" / "cuda" / "include", "include/cuda")
    found += below(Path("/usr/include/doctest"), "include/doctest/doctest", r"doctest\.h")
    found += below(wasm.HERE / "compat" / "doctest", "include/compat/doctest")
    found += below(ROOT / "common", "project/common", r".*\.hpp", without=("gpu",))
    found += below(ROOT / "exercises" / "support", "project/exercises/support", r".*\.hpp")
    for chapter in (*KERNELS, "18_systolic_array", "19_ring_attention"):
        found += below(ROOT / "chapters" / chapter, f"project/chapters/{chapter}", r"(?!test_).*\.hpp|edits\.txt")
    found += [(f"project/kernels/{chapter}.cpp", source(chapter)) for chapter in KERNELS]
    for header in ("json_fwd.hpp", "detail/abi_macros.hpp"):
        found.append((f"include/nlohmann/nlohmann/{header}", Path("/usr/include/nlohmann") / header))
    found += [(f"project/{name}", HERE / name) for name in HEADERS]
    for topic in sorted({Path(exercise).parent for exercise in exercises()}):
        found += [(f"project/exercises/{topic}/{path.name}", path)
                  for path in sorted((ROOT / "exercises" / topic).glob("*.hpp"))]
    for exercise in exercises():
        found.append((f"project/exercises/{exercise}/test.cpp", ROOT / "exercises" / exercise / "test.cpp"))
        found += [(f"solutions/{exercise}/{path.name}", path)
                  for path in (ROOT / "solutions" / exercise).glob("*.hpp")]
    kinds = re.findall(r'\{"(\w+)",\s*\{"\w+",\s*((?:"[^"]*"\s*)+)\}\}', (ROOT / "common/cuda/emucuda.cpp").read_text())
    remedies = {kind: "".join(re.findall(r'"([^"]*)"', words)) for kind, words in kinds}
    found.append(("remedies", wasm.written(WORK / "remedies", json.dumps(remedies))))
    emulated = [exercise for exercise, library in exercises().items() if library == EMULATOR]
    # Browsers keep precompiled headers by this file's name, and other flags need other ones.
    flags = "".join(hashlib.sha256((HERE / name).read_bytes()).hexdigest() for name in ("toolchain.mjs", "cuda.mjs"))
    found.append(("flags", wasm.written(WORK / "flags", flags)))
    found.append(("runs", wasm.written(WORK / "runs", json.dumps(RUNS))))
    found.append(("emulated", wasm.written(WORK / "emulated", "\n".join(emulated))))
    return found


def source(chapter: str) -> Path:
    """Generates the program of a kernel that the page compiles."""
    text, which = (HERE / "kernel.cpp.in").read_text(), wasm.PASSES.get(chapter, "forward")
    for key, value in {"CHAPTER": chapter[:2], "DIRECTORY": chapter, "CALL": KERNELS[chapter], "PASS": which,
                       "ARGS": ARGS[which]}.items():
        text = text.replace(f"@{key}@", value)
    return wasm.written(WORK / f"{chapter}.cpp", text)


def of_kernels(generated: list) -> list:
    """Returns the sources of the kernels' programs without the kernels. A program also names the kernel of the chapter
    before, to count what it does. In the page, this kernel does nothing, because the page runs the original. (In RUNS
    are those that it runs.)"""
    sources = [HERE / "left_out.cpp", wasm.HERE / "commands.cpp"]
    for chapter in KERNELS:
        sources += [path for path in wasm.of_chapter(chapter) if f"{chapter}/{path.stem}" not in LEFT_OUT]
        sources += [path for path in generated if path.name == f"ch{chapter[:2]}_no_gpu.cpp"]
        if chapter not in wasm.PASSES:
            text = (f'#include "chapters/{chapter}/chapter.hpp"\n'
                    f"const fa::KernelBuild emulator::ch{chapter[:2]}::build{{.forward = [](auto&) {{}}}};\n")
            sources.append(wasm.written(WORK / f"ch{chapter[:2]}_uncounted.cpp", text))
    return sources


def libraries(generated: list) -> list:
    compiled = functools.partial(wasm.compile_one, fibers=False)
    sources = [ROOT / "exercises" / "support" / f"{name}.cpp" for name in SUPPORT]
    sources += [ROOT / "common" / f"{name}.cpp" for name in wasm.COMMON]
    sources += [ROOT / "common" / "simt" / f"{name}.cpp" for name in wasm.SIMT]
    sources += [ROOT / "common" / "kernels" / f"{name}.cpp" for name in wasm.KERNELS]
    sources += [wasm.HERE / f"{name}.cpp" for name in OWN]
    sources += [HERE / "doctest_main.cpp", *of_kernels(generated)]
    of_cuda = [ROOT / "common" / "cuda" / f"{name}.cpp" for name in CUDA]
    of_cuda += [HERE / "cuda_page.cpp"]
    wasm.precompiled(fibers=False)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        objects = list(pool.map(compiled, sources))
        objects_of_cuda = list(pool.map(compiled, of_cuda))
        start = compiled(HERE / "start.cpp")
        runs = {name: compiled(wasm.HERE / f"{name}.cpp") for name in set(RUNS.values())}
        archives = [stripped(library) for library in LIBRARIES]
    archives.append(made(WORK / "libexercise.a", objects))
    archives.append(made(WORK / "libemucuda.a", objects_of_cuda))
    names = subprocess.run([wasm.tool("llvm-nm-19"), "--defined-only", "--extern-only", "--format=just-symbols",
                            *objects_of_cuda], check=True, stdout=subprocess.PIPE, text=True).stdout
    names = wasm.written(WORK / "emucuda_names", "\n".join(re.findall(r"^(?:emucuda_|__nv_)\w+$", names, re.M)))
    return [("lib/start.o", start), *((f"lib/{name}.o", path) for name, path in sorted(runs.items())),
            ("emucuda_names", names), *((f"lib/{path.name}", path) for path in archives)]


def without_comments(header: bytes) -> bytes:
    """Returns a header with empty lines where it has comments, so that its lines keep their numbers."""
    code = COMMENT.sub(lambda found: found[0] if found[0][:1] in b"\"'" else b"\n" * found[0].count(b"\n") or b" ",
                       header)
    return re.sub(rb"[ \t]+$", b"", code, flags=re.M)


def packed(content: list) -> bytes:
    """Returns one file with all others: its list of [path, bytes] in JSON, a zero, and their contents. The comments of
    headers and tests are left out, but not those of files that the reader may open."""
    bytes_of = [(name, path.read_bytes()) for name, path in content]
    opened = {f"project/chapters/{chapter}/{file}" for chapter, files in FILES.items() for file in files}
    bytes_of = [(name, without_comments(data) if re.match(NOT_READ, name) and name not in opened else data)
                for name, data in bytes_of]
    listed = json.dumps([[name, len(data)] for name, data in bytes_of], separators=(",", ":")).encode()
    return listed + b"\0" + b"".join(data for _, data in bytes_of)


def write(name: str, content: bytes) -> dict:
    """Writes a compressed file whose name changes with its content, because browsers keep it."""
    digest = hashlib.sha256(content).hexdigest()[:12]
    path = PUBLIC / f"{name}-{digest}.bin"
    if not path.exists():
        for older in PUBLIC.glob(f"{name}-*.bin"):
            older.unlink()
        unpacked = WORK / name
        unpacked.write_bytes(content)
        path.write_bytes(subprocess.run([wasm.tool("libdeflate-gzip"), "-12", "-n", "-c", unpacked], check=True,
                                        stdout=subprocess.PIPE).stdout)
    return {"name": path.name, "bytes": path.stat().st_size, "unpacked": len(content)}


def build() -> None:
    PUBLIC.mkdir(parents=True, exist_ok=True)
    WORK.mkdir(parents=True, exist_ok=True)
    generated = wasm.prepare()
    listed = {"clang": write("clang", (CLANG / "llvm.core.wasm").read_bytes()),
              "files": write("files", packed(files() + libraries(generated))),
              "exercises": exercises(), "kernels": FILES, "examples": EXAMPLES}
    (PUBLIC / "editor.json").write_text(json.dumps(listed))


if __name__ == "__main__":
    try:
        build()
    except (wasm.Failed, subprocess.CalledProcessError) as error:
        sys.exit(f"error: {error}")
