#!/usr/bin/env python3
"""Writes a chapter's kernel as one plain CUDA file, which needs nothing of this repository.

    export.py 04 > attention.cu      nvcc -std=c++20 -arch=sm_80 attention.cu && ./a.out

The file has what the chapter's launcher reaches, in the order of the headers: wrappers of one CUDA
function become that function, the switches of --break are left out, and a `main` makes random
inputs, calls the kernel and compares the result with plain attention in float64. Given a folder,
that program also writes its inputs and results there as .npy files.
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
from without_breaks import closing, end_of_statement, masked, without_breaks  # noqa: E402

HERE = Path(__file__).parent
CHAPTERS = {int(folder.name[:2]): folder.name for folder in (ROOT / "chapters").iterdir()
            if re.match(r"\d\d_", folder.name)}
FORWARD = [3, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15, 16, 21, 23]
BACKWARD = [10, 22]
CAUSAL = [9, 10, 11, 16, 21]  # whose kernels have a mask
HOPPER = [13, 14, 15, 16, 21, 22, 23]  # wgmma is in sm_90a only
# Bytes of the workspace.
WORKSPACE = {21: "sizeof(int)",  # the counter from which blocks claim tiles
             23: "workspace_of(nullptr, {Q.shape[0], Q.shape[1], Q.shape[2], K.shape[2], Q.shape[3]}, Q.shape[1]).bytes"}
EXPORTED = sorted([*FORWARD, *BACKWARD, 11])
ACCEPTED = "03 to 16, 21 to 23"

MACROS = (  # pattern, replacement; in this order
    (r",\s*FA_SITE\b", ""),
    (r"\(FA_SITE\)", "()"),
    (r",\s*line,\s*file\b", ""),
    (r"\(line,\s*file\)", "()"),
    (r"\bFA_BACKEND::", ""),
    (r"\bch10::tile_index\(", "kernel::tile_index("),  # in a member of that name
    (r"(\bFA_KERNEL FA_LAUNCH_BOUNDS\(.*\)\n)inline ", r"\1"),  # nvcc warns of it
    (r"\bFA_KERNEL FA_LAUNCH_BOUNDS\(", "__global__ __launch_bounds__("),
    (r"\bFA_KERNEL\b", "__global__"),
    (r"\bFA_DEVICE\b", "__device__ __forceinline__"),
    (r"\bFA_(?:HOST_DEVICE|EVERYWHERE|ON_BOTH)\b", "__host__ __device__"),
    (r"\bFA_GRID_CONSTANT\b", "__grid_constant__"),
    (r"(?m)^([ \t]*)(.*\S)[ \t]+FA_UNROLL\n", r"\1\2\n\1#pragma unroll" "\n"),
    (r"(?m)^[ \t]*FA_UNROLL[ \t]*$", "#pragma unroll"),
    (r"(?m)^[ \t]*FA_NO_UNROLL[ \t]*$", "#pragma unroll 1"),
    (r"(?m)^([ \t]*)(.*\S)[ \t]+FA_NO_UNROLL\n", r"\1\2\n#pragma unroll 1" "\n"),
    (r"\bFA_CUDA_CHECK\(", "check("),
)
CALLS = (  # functions of this repository that only rename one of CUDA's
    (r"\bblock_sync\((?:\"[^\"]*\")?\)", "__syncthreads()"),
    (r"\bwarp_sync\((?:\"[^\"]*\")?\)", "__syncwarp()"),
    (r"\bthread_fence\(\)", "__threadfence()"),
    (r"\bthread_index\(\)", "int(threadIdx.x)"),
    (r"\bblock_index\(\)", "int(blockIdx.x)"),
    (r"\bshfl_xor\(", "__shfl_xor_sync(0xffffffffu, "),
    (r"\bshfl\(", "__shfl_sync(0xffffffffu, "),
    (r"\bwarp_any\(", "__any_sync(0xffffffffu, "),
    (r"\batomic_add\(", "atomicAdd("),
    (r"\bround_to_int\(", "__float2int_rn("),
    (r"\bfloat_from_bits\(", "__int_as_float("),
    (r"\b(cp_async_wait<\w+>)\(\"[^\"]*\"\)", r"\1()"),
    (r"\b(mbarrier_wait\([^;]*),\s*\"[^\"]*\"\)", r"\1)"),
    (r"(?m)^[ \t]*uint32_t breaks = 0;.*\n", ""),
    (r"(?m)^[ \t]*tile_(?:row|visit)\([^;]*\);\n", ""),
)
QUALIFIERS = re.compile(r"(?<!\w)(?:::)?(?:fa|gpu)::|(?<!\w)(?:::)?ch\d\d::(?!\{)")


def include_path(name, folder):
    """The file that `#include "name"` in this folder means, or None."""
    for path in (folder / name, ROOT / name):
        if path.exists():
            return path.resolve()
    return None


def preprocess(path, seen, system):
    """The source of a header and of what it includes, as nvcc sees it: [(path, text)], each file once."""
    if path in seen:
        return []
    seen.add(path)
    result, lines, taken, macros = [], [], [True], {}
    text = re.sub(r"\\\n", "", path.read_text(encoding="utf-8"))
    for line in text.split("\n"):
        directive = re.match(r"\s*#\s*(\w+)\s*(.*)", line)
        if not directive:
            if taken[-1]:
                lines.append(expanded(line, macros))
            continue
        word, rest = directive.groups()
        if word in ("if", "ifdef", "ifndef"):
            taken.append(taken[-1] and ("__CUDACC__" in rest) == (word != "ifndef"))
        elif word == "else":
            taken[-1] = taken[-2] and not taken[-1]
        elif word == "endif":
            taken.pop()
        elif not taken[-1]:
            continue
        elif word == "include" and rest.startswith("<"):
            system.add(rest.split(">")[0] + ">")
        elif word == "include":
            found = include_path(rest.split('"')[1], path.parent)
            if found and found.suffix == ".hpp":
                result += preprocess(found, seen, system)
        elif (macro := re.match(r"(FA_TMA_\w+)\(([^)]*)\)\s*(.*)", rest)):
            macros[macro.group(1)] = macro.group(2).split(", "), re.sub(r" {2,}", " ", macro.group(3))
        elif path.name == "wgmma.hpp" and word != "pragma" and "FA_SITE" not in rest:
            lines.append(line)
    return [*result, (path, "\n".join(lines))]


def expanded(line, macros):
    """The line, in which a macro with arguments that are strings is replaced."""
    for name, (parameters, body) in macros.items():
        call = re.match(rf"(\s*){name}\(((?:\"[^\"]*\",? ?)*)\)(.*)$", line)
        if call:
            arguments = re.findall(r'"[^"]*"', call.group(2))
            for parameter, argument in zip(parameters, arguments):
                body = re.sub(rf"\b{parameter}\b(?=[^\"]*(?:\"[^\"]*\"[^\"]*)*$)", argument, body)
            return call.group(1) + re.sub(r'"\s*"', "", body) + call.group(3)
    return line


class Item:
    """A declaration at namespace level, which is its text with the comment before it, and the names it gives."""

    def __init__(self, text, names=None):
        self.names = names or names_of(masked(text))
        self.text = called(text).strip("\n")
        code = masked(self.text)
        self.function = is_function(code)
        self.uses = uses_of(code)


def uses_of(code):
    """The names in a piece of code, those of functions with the bracket that follows. A reduction gets a function."""
    return {name + bool(bracket) * "(" for name, bracket in
            re.findall(r"([A-Za-z_]\w*)(?:\s*([(<]))?", code)} | {
        name + "(" for name in re.findall(r"\breduce\([^()]*, (\w+)\)", code)}


def is_function(code):
    head = re.split(r"[={;]", without_templates(code), maxsplit=1)[0]
    return "(" in head and not re.match(r"\s*(?:struct|class|enum|union|using|#)\b", head)


def without_templates(code):
    """The code without template parameter lists and attributes with arguments."""
    code = re.sub(r"__launch_bounds__\([^()]*(?:\([^()]*\)[^()]*)*\)", "", code)
    while (found := re.search(r"\btemplate\s*<", code)):
        depth, end = 1, found.end()
        while depth:
            depth += (code[end] == "<") - (code[end] == ">" and code[end - 1] != "-")
            end += 1
        code = code[:found.start()] + code[end:]
    return code


def names_of(code):
    code = without_templates(code).strip()
    macro = re.match(r"#define (\w+)", code)
    if macro:
        return {macro.group(1)}
    kind = re.match(r"(?:enum (?:class )?|struct |class |union )(?:alignas\(\w+\) )?(\w+)", code)
    if kind:
        names = {kind.group(1)}
        if code.startswith("enum ") and not code.startswith("enum class"):
            names |= set(re.findall(r"(\w+)\s*(?:=[^,}]*)?[,}]", code[code.index("{"):]))
        return names
    alias = re.match(r"using (\w+)\s*=", code) or re.match(r"using (?:\w+::)+(\w+);", code)
    if alias:
        return {alias.group(1)}
    head = re.split(r"[={;]", code, maxsplit=1)[0]
    function = re.search(r"(\w+)\s*(?:<[^()]*>)?\s*\(", head)
    if function:
        return {function.group(1)}
    head = re.sub(r"\[[^\]]*\]", "", head)
    last = re.search(r"(\w+)\s*$", head)
    return {last.group(1)} if last else set()


def without_brackets(code):
    """The code without operators and what is in round and angle brackets."""
    while (shorter := re.sub(r"operator\S+|[=!<>]=|\([^()]*\)|<[^<>]*>", "", code)) != code:
        code = shorter
    return code


def items_of(text):
    """The declarations of a header, in order, where namespaces are opened."""
    code, items, at, start = masked(text), [], 0, 0
    while at < len(code):
        namespace = re.compile(r"\s*(?:inline )?namespace\b([^{;]*)\{").match(code, at)
        if namespace and not code[start:at].strip():
            at = start = namespace.end()
        elif code[at] == "#":
            at = start_of_next = code.find("\n", at) + 1 or len(code)
            items.append(text[start:start_of_next])
            start = at
        elif code[at] in "([{":
            end = closing(code, at) + 1
            opened, at = code[at], end
            ends = opened == "{" and re.match(r"[ \t]*(?:\n|$)", code[end:]) and not re.match(
                r"\s*[;,)\]]", code[end:]) and "=" not in without_brackets(code[start:end].split("{")[0])
            if ends:
                comment = re.compile(r"[ \t]*//[^\n]*").match(text, at)
                at = comment.end() if comment else at
                items.append(text[start:at])
                start = at
        elif code[at] == ";":
            at += 1
            comment = re.compile(r"[ \t]*//[^\n]*").match(text, at)
            at = comment.end() if comment else at
            items.append(text[start:at])
            start = at
        elif code[at] == "}":  # of a namespace
            at = start = code.find("\n", at) + 1 or len(code)
        else:
            at += 1
    return items


def plain(text):
    """A piece of a header as plain CUDA, without macros, namespaces, anchors or breaks of this repository."""
    text = re.sub(r"(?m)^[ \t]*// \[/?anchor: \w+\]\n", "", text)
    for pattern, replacement in MACROS:
        text = re.sub(pattern, replacement, text)
    text = re.sub(r", auto which\)", ", auto breaks)", text).replace("(args, which)", "(args, breaks)")
    text = text.replace("std::is_empty_v<decltype(which)> ? 128 : 112", "128")
    text = re.sub(r"\(args\.breaks & ([\w:]+)\)|\bargs\.breaks & ([\w:]+)", r"breaks.has(\1\2)", text)
    text = re.sub(r"\bclass Breaks,\s*", "", text)
    while (found := re.search(r"(?m)^[ \t]*if \((?=args\.breaks != 0\b)", text)):
        code = masked(text)
        end = end_of_statement(code, closing(code, found.end() - 1) + 1)
        text = text[:found.start()] + text[end:].lstrip("\n")
    text = re.sub(r",\s*(?:fa::)?NoBreaks(?:\{\})?(?=\s*[,)>])", "", text)
    before, text = text, without_breaks(text)
    if text != before:  # a constant that only a break used
        for name in re.findall(r"(?m)^[ \t]*const \w+ (\w+) = [^;{]*;\n", text):
            if len(re.findall(rf"\b{name}\b", text)) == 1:
                text = re.sub(rf"(?m)^[ \t]*const \w+ {name} = [^;{{]*;\n", "", text)
    return QUALIFIERS.sub("", text)


def called(text):
    """The same, where CUDA's own functions take the place of those that only rename them."""
    for pattern, replacement in CALLS:
        text = re.sub(pattern, replacement, text)
    return text


RENAMED = {"block_sync", "warp_sync", "thread_fence", "thread_index", "block_index", "shfl_xor", "shfl",
           "warp_any", "atomic_add", "round_to_int", "float_from_bits", "tile_row", "tile_visit"}
# Names that host.hpp, the exported file's frame, has in another form, and names that it does not need.
FRAME = {"check", "launch", "allow_shared_memory", "dispatch", "InputError", "OutOfMemory", "shown", "Dim3", "CudaError",
         "KernelBreak", "RuntimeBreaks", "NoBreaks", "current_stream", "LaunchConfig", "name", "round_to",
         "unit_in_last_place", "multiprocessors", "BREAKS", "std"}


def reached(items, roots):
    """The items that the roots use, directly or not, in their order."""
    taken, wanted = set(), set(roots)
    while True:
        more = [i for i, item in enumerate(items) if i not in taken and any(
            name + "(" in wanted or name in wanted and (not item.function or "__global__" in item.text)
            for name in item.names)]
        if not more:
            return [items[i] for i in sorted(taken)]
        for i in more:
            taken.add(i)
            wanted |= items[i].uses


def architecture(chapter):
    """The oldest GPU that runs the chapter's kernel, as nvcc names it."""
    return "sm_90a" if chapter in HOPPER else "sm_90" if chapter == 12 else "sm_80"


def export(chapter):
    """The text of the chapter's CUDA file."""
    system, seen = set(), set()
    sources = preprocess(ROOT / "chapters" / CHAPTERS[chapter] / "attention.hpp", seen, system)
    for extra in ("common/tensor.cpp", "common/tensor_map.cpp"):
        sources += preprocess(ROOT / extra, seen, set())
    items = []
    # What an earlier chapter defines under the same name as this chapter gets its chapter's number.
    own = ROOT / "chapters" / CHAPTERS[chapter]
    pieces = [masked(plain(piece)) for path, text in sources if path.parent == own for piece in items_of(text)]
    owns = set().union(*(names_of(code) for code in pieces if "{" in code and not re.match(r"\s*enum\b", code)))
    for path, text in sources:
        for name in owns:
            if path.parent == own:
                text = re.sub(rf"\bch(\d\d)::{name}\b", rf"{name}\1", text)
            elif path.parent.parent.name == "chapters":
                text = re.sub(rf"(?<![\w.>])(?<!::){name}\b", name + path.parent.name[:2], text)
        if path.name in ("error.hpp", "parse.hpp", "runtime.hpp"):
            continue
        if path.name == "wgmma.hpp":  # one item, with its macros
            inside = text[text.index("namespace gpu {") + 15:text.rindex("}  // namespace gpu")]
            tail = text[text.rindex("}  // namespace gpu") + 20:]
            items.append(Item(plain(inside + tail), set(re.findall(r"\bwgmma\w*|written_by_wgmma", text))))
            items[-1].function = True
            continue
        for piece in items_of(text):
            item = Item(plain(piece))
            skip = (item.names & (FRAME | RENAMED) or not item.names or not masked(item.text).strip()
                    or "OWN_BREAK" in item.text)
            declared = item.function and "{" not in masked(item.text) and "=" not in masked(item.text)
            alias = re.match(r"using (?:\w+::)*(\w+);", item.text)
            label = re.search(r"\(const char\*\)|, const char\*\)", item.text)
            if not (skip or alias or label or declared):
                items.append(item)
    root = "backward" if chapter in BACKWARD else "decode" if chapter == 11 else "forward"
    main = "\n".join((HERE / f"{name}.cu").read_text(encoding="utf-8")
                     for name in ([root] if root == "backward" else [root, "output_main"]))
    if chapter in WORKSPACE:
        main = main.replace("  forward(args);\n",
                            f"  check(cudaMalloc(&args.workspace, {WORKSPACE[chapter]}));\n"
                            "  forward(args);\n  check(cudaFree(args.workspace));\n")
    frame, tensors = (HERE / "host.hpp").read_text(encoding="utf-8").split("// [kernel]\n")
    if chapter == 23:  # the distance of two numbers of type e4m3 is up to an eighth
        tensors = tensors.replace("1/128", "1/8").replace("largest / 128", "largest / 8")
    title, frame = frame.split("\n\n", 1)
    frame = [Item(piece) for piece in items_of(frame)]
    body = reached([*frame, *items], {root + "("} | uses_of(masked(tensors + main)))
    body, frame = ("\n\n".join(item.text for item in body if (item in frame) == of_frame)
                   for of_frame in (False, True))
    frame = title + "\n\n" + frame + "\n"
    causal = "true" if chapter in CAUSAL else "false"
    flag = "-gencode arch=compute_90a,code=sm_90a" if chapter in HOPPER else f"-arch={architecture(chapter)}"
    name = f"attention_{chapter:02}"
    title = (ROOT / "chapters" / CHAPTERS[chapter] / "README.md").read_text(encoding="utf-8")
    title = title.split("\n")[0].strip("# ")
    if "CUtensorMap" not in body:
        system.discard("<cuda.h>")
    includes = sorted(system | {
        f"<{name}>" for name in ("algorithm", "array", "cmath", "cstdio", "cstdlib", "fstream", "random",
                                 "stdexcept", "string", "type_traits", "vector", "cuda_runtime.h")})
    return f"""// {title}
// From "Flash Attention, step by step". One file; this program checks itself.
//
//   nvcc -std=c++20 {flag} {name}.cu -o {name}
//   ./{name} 1,2,200,300,128

{chr(10).join(f"#include {name}" for name in includes)}

constexpr bool CAUSAL = {causal};  // key j is masked from query i when j > i + (Lkv - Lq)
{frame}
// ---- The kernel

namespace kernel {{

{body}

}}  // namespace kernel

using namespace kernel;
{tensors}
{main}"""


def main():
    parser = argparse.ArgumentParser(description="Prints a chapter's kernel as one plain CUDA file.")
    parser.add_argument("chapter", type=int)
    chapter = parser.parse_args().chapter
    if chapter not in EXPORTED:
        parser.error(f"{chapter}: chapters {ACCEPTED} have a kernel of one file")
    sys.stdout.write(export(chapter))


if __name__ == "__main__":
    main()
