#!/usr/bin/env python3
"""Keeps the lessons true, that is, quoted code, printed output and links, checked against the repository.

    docs/lessons.py [--write] [--root DIR] [--bin DIR] [PAGE.md …]

In a source file, `// [anchor: load_tile]` … `// [/anchor: load_tile]` (or `#`, or `;`) mark lines
that a page quotes; C++ is quoted without its break-it switches (without_breaks.py). In a page,

    <!-- code: attention.cuh#load_tile -->         the lines between the markers
    <!-- run: ch01_toy_machine run a.txt -->       the command and what it prints (stdout, stderr)
    <!-- run(2): ch01_toy_machine run bad.txt -->  the same, for a command that must exit with 2

are directly above a fenced block. Without --write, the blocks are compared with the source and with
the command's output; with --write, they are filled in. Paths in `code:` are relative to the page's
directory, in which `run:` runs its command too. What it prints fits 80 columns, except for errors.
DIR of --bin (default ROOT/build/bin) comes first on the PATH.

These are checked, too: relative links lead to files and headings that exist; every measured number of
a lesson has a source (lesson_numbers.py); the answer to a question is folded. If no page is named:
some page quotes every anchor under chapters/ and common/, and the pages of each chapter are in order
and not too long (lesson_pages.py).
Exit status: 0 everything is true, 1 something is not, 2 bad usage.
"""

import argparse
import difflib
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Set, Tuple
from urllib.parse import unquote

import lesson_numbers
import lesson_pages
from lesson_numbers import Unsourced
from without_breaks import without_breaks

PAGE_FOLDERS = ("chapters", "common", "docs", "exercises", "solutions", "reference")
ANCHOR_FOLDERS = ("chapters", "common")  # an unused anchor below these is an error
LESSONS = ("README.md", "chapters/*/*.md", "common/*/README.md", "docs/*.md",
           "docs/measurements/README.md", "docs/measurements/h200/README.md")
RUN_TIMEOUT_S = 120
COLUMNS = 80
MAY_BE_WIDER = ("emucuda ", "grep -E '^#|<128")  # a compiler's messages, each in one line

MARKER = re.compile(r"^\s*(?://|#|;)\s*\[(/?)anchor: ([\w-]+)\]\s*$")
LOOKS_LIKE_MARKER = re.compile(r"(?://|#|;)\s*\[/?\s*anchor\b", re.IGNORECASE)
DIRECTIVE = re.compile(r"^<!--\s*(?:(code):\s*(\S+)|run(?:\((\d+)\))?:\s*(.+?))\s*-->\s*$")
LOOKS_LIKE_DIRECTIVE = re.compile(r"^\s*<!--\s*(?:code|run)\b")
FENCE = re.compile(r"^\s*(`{3,}|~{3,})(.*)$")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
LINK_DEFINITION = re.compile(r"^\s{0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)")
CPP = (".cpp", ".hpp", ".cuh", ".cu")
LANGUAGE = {**dict.fromkeys(CPP, "cpp"), ".py": "python", ".cmake": "cmake", ".json": "json",
            ".sh": "sh"}


class Problem(Exception):
    """An error in a page or a source, described in one sentence."""


# ---- Anchors in source files ----

def read_lines(path: Path) -> List[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(f"{path}: cannot be read: {error}") from None
    return text[:-1].split("\n") if text.endswith("\n") else text.split("\n")


def find_anchors(path: Path) -> Dict[str, List[str]]:
    """Returns {anchor name: the lines between its markers}, without markers and break-it switches,
    and without common indentation. Anchors may nest and overlap. Raises Problem if an anchor is
    defined twice, not opened or not closed."""
    lines = read_lines(path)
    found = anchored(path, lines)
    if path.suffix not in CPP:
        return found
    try:
        return anchored(path, without_breaks("\n".join(lines)).split("\n"))
    except ValueError as error:
        raise Problem(f"{path}: cannot be quoted without its breaks: {error}") from None


def anchored(path: Path, lines: List[str]) -> Dict[str, List[str]]:
    opened: Dict[str, int] = {}
    found: Dict[str, List[str]] = {}
    for number, line in enumerate(lines, 1):
        marker = MARKER.match(line)
        if not marker:
            if LOOKS_LIKE_MARKER.search(line):
                raise Problem(f"{path}:{number}: malformed anchor marker: {line.strip()}")
            for name in opened:
                found[name].append(line)
            continue
        closing, name = marker.groups()
        if closing:
            if name not in opened:
                raise Problem(f"{path}:{number}: anchor {name} is closed but not open")
            del opened[name]
        else:
            if name in found:
                raise Problem(f"{path}:{number}: duplicate anchor {name}")
            opened[name] = number
            found[name] = []
    for name, number in opened.items():
        raise Problem(f"{path}:{number}: anchor {name} is never closed")
    return {name: tidy(lines) for name, lines in found.items()}


def tidy(lines: List[str]) -> List[str]:
    """Removes common indentation, trailing spaces, and blank lines at both ends."""
    return textwrap.dedent("\n".join(line.rstrip() for line in lines)).strip("\n").split("\n")


# ---- Pages ----

class NotBuilt(Exception):
    """A command whose program is optional and was not built."""


class Block(NamedTuple):
    """A directive of a page and the fenced block below it."""
    line: int               # the number of the directive's line, from 1
    code: Optional[str]     # "FILE#ANCHOR", or None for a command
    command: Optional[str]
    exit_code: int
    first: int              # the block's content is lines[first:last]
    last: int


def closes(fence: str, line: str) -> bool:
    """True if `line` ends a block that `fence` (a run of ` or ~) opened."""
    bare = line.strip()
    return len(bare) >= len(fence) and set(bare) == {fence[0]}


def split_page(path: Path, lines: List[str]) -> Tuple[List[Block], List[Tuple[int, str]]]:
    """Returns the blocks to check, and the numbered lines of prose outside of fences."""
    blocks, prose = [], []
    i = 0
    while i < len(lines):
        where = f"{path}:{i + 1}"
        directive = DIRECTIVE.match(lines[i])
        fence = FENCE.match(lines[i])
        if directive:
            fence = FENCE.match(lines[i + 1]) if i + 1 < len(lines) else None
            if not fence:
                raise Problem(f"{where}: no fenced block directly below this directive")
            start = i + 2
        elif fence:
            start = i + 1
        else:
            if LOOKS_LIKE_DIRECTIVE.match(lines[i]):
                raise Problem(f"{where}: malformed directive: {lines[i].strip()}")
            prose.append((i + 1, lines[i]))
            i += 1
            continue
        end = start
        while end < len(lines) and not closes(fence.group(1), lines[end]):
            end += 1
        if end == len(lines):
            raise Problem(f"{path}:{start}: fenced block is never closed")
        if directive:
            kind, code, exit_code, command = directive.groups()
            blocks.append(Block(i + 1, code if kind else None, command, int(exit_code or 0),
                                start, end))
        i = end + 1
    return blocks, prose


def heading_ids(path: Path) -> Set[str]:
    """Returns the anchors that GitHub gives the headings of a page, and explicit <a id="…">."""
    ids: Set[str] = set()
    for _, line in split_page(path, read_lines(path))[1]:
        ids.update(re.findall(r"<a\s+(?:id|name)=\"([^\"]+)\"", line))
        heading = HEADING.match(line)
        if not heading:
            continue
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1))  # of a link, its text
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        unique, again = slug, 0
        while unique in ids:
            again += 1
            unique = f"{slug}-{again}"
        ids.add(unique)
    return ids


class Checker:
    def __init__(self, root: Path, bin_dir: Path, write: bool) -> None:
        self.root, self.bin_dir, self.write = root, bin_dir, write
        self.problems: List[str] = []
        self.quoted: Set[Tuple[Path, str]] = set()
        self.blocks = 0
        self.links = 0
        self.numbers = 0
        self._anchors: Dict[Path, Dict[str, List[str]]] = {}
        self._outputs: Dict[Tuple[Path, str, int], List[str]] = {}

    def shown(self, path: Path) -> str:
        return os.path.relpath(path, self.root)

    def report(self, problem: str) -> None:
        problem = problem.replace(str(self.root) + os.sep, "")
        # a broken source is found once for each page that quotes it
        if problem not in self.problems:
            self.problems.append(problem)

    def anchors(self, path: Path) -> Dict[str, List[str]]:
        if path not in self._anchors:
            self._anchors[path] = find_anchors(path)
        return self._anchors[path]

    # -- what a block should hold --

    def quoted_code(self, page: Path, reference: str) -> List[str]:
        file, _, name = reference.partition("#")
        if not name:
            raise Problem(f"code: {reference}: expected FILE#ANCHOR")
        path = (page.parent / file).resolve()
        if not path.is_file():
            raise Problem(f"code: {reference}: no such file")
        self.quoted.add((path, name))
        anchors = self.anchors(path)
        if name not in anchors:
            raise Problem(f"code: {reference}: no anchor of that name in the file")
        return anchors[name]

    def printed_output(self, page: Path, command: str, exit_code: int) -> List[str]:
        at = (page.parent, command, exit_code)
        if at not in self._outputs:
            self._outputs[at] = self.run(*at)
        return self._outputs[at]

    def run(self, folder: Path, command: str, exit_code: int) -> List[str]:
        if command.startswith("emucuda ") and not (self.bin_dir / "emucuda").exists():
            raise NotBuilt(command)
        environment = dict(os.environ, LC_ALL="C.UTF-8", TERM="dumb", NO_COLOR="1", COLUMNS="100",
                           FA_HIDE_TIMES="1",  # our programs then print nothing that varies
                           PATH=str(self.bin_dir) + os.pathsep + os.environ.get("PATH", ""))
        try:
            result = subprocess.run(command, shell=True, cwd=folder, env=environment,
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, timeout=RUN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise Problem(f"run: {command}: took more than {RUN_TIMEOUT_S} s") from None
        output = result.stdout.decode("utf-8", errors="replace")
        if result.returncode != exit_code:
            raise Problem(f"run: {command}: exit status {result.returncode}, expected {exit_code}"
                          + textwrap.indent("\n" + output.rstrip(), "    "))
        lines = [line.rstrip() for line in output.strip("\n").split("\n")]
        return [f"$ {command}"] + lines  # comments are not shown on a rendered page

    # -- pages --

    def check_page(self, page: Path) -> None:
        try:
            lines = read_lines(page)
            blocks, prose = split_page(page, lines)
        except Problem as problem:
            self.report(str(problem))
            return
        filled, printed = list(lines), ""
        for block in reversed(blocks):  # from the end, so that earlier line numbers stay correct
            try:
                wanted = (self.quoted_code(page, block.code) if block.code is not None else
                          self.printed_output(page, block.command, block.exit_code))
                fence = FENCE.match(lines[block.first - 1])
                if any(closes(fence.group(1), line) for line in wanted):
                    raise Problem("the content contains a fence; use a longer one around it")
            except NotBuilt as left_out:
                print(f"skipped, because emucuda is not built: {left_out}")
                continue
            except Problem as problem:
                where = f"{page}:{block.line}: "
                self.report(str(problem) if str(problem).startswith(str(self.root))
                            else where + str(problem))
                continue
            self.blocks += 1
            if block.command is not None:
                self.check_width(page, block, wanted[1:])
                printed += "\n".join(wanted) + "\n"
            filled[block.first:block.last] = wanted
            if self.write and block.code is not None and not fence.group(2):
                filled[block.first - 1] += LANGUAGE.get(Path(block.code.partition("#")[0]).suffix,
                                                        "text")
        if filled != lines:
            if self.write:
                temporary = page.with_name(page.name + ".tmp")
                temporary.write_text("\n".join(filled) + "\n", encoding="utf-8")
                os.replace(temporary, page)
                print(f"{self.shown(page)}: written")
            else:
                diff = difflib.unified_diff(lines, filled, self.shown(page) + " (page)",
                                            self.shown(page) + " (source)", lineterm="", n=2)
                self.report(f"{page}: differs from the source; docs/lessons.py --write updates it\n"
                            + "\n".join(diff))
        for number, line in prose:
            self.check_links(page, number, line)
        if any(self.shown(page) == self.shown(path)
               for pattern in LESSONS for path in self.root.glob(pattern)):
            self.check_numbers(page, prose, printed)
            self.check_predictions(page, prose, blocks)

    def check_width(self, page: Path, block: Block, output: List[str]) -> None:
        for line in output:
            if len(line) > COLUMNS and not line.startswith("error: ") and not block.command.startswith(MAY_BE_WIDER):
                self.report(f"{page}:{block.line}: run: {block.command}: prints {len(line)} columns, more than "
                            f"{COLUMNS}: {line}")

    def check_predictions(self, page: Path, prose: List[Tuple[int, str]],
                          blocks: List[Block]) -> None:
        """Checks that code or output after "Write down …" is folded, so that the answer is
        hidden."""
        asked, depth = 0, 0
        for number, line in sorted([*prose, *((block.line, "") for block in blocks)]):
            depth += line.count("<details") - line.count("</details>")
            if re.search(r"\bWrite down\b", line):
                asked = number
            elif asked and depth > 0:
                asked = 0
            elif asked and not line and any(block.line == number for block in blocks):
                self.report(f"{page}:{number}: is in sight after \"Write down …\" in line "
                            f"{asked}: fold it (docs/CONTRIBUTING.md says how)")
                asked = 0

    def check_numbers(self, page: Path, prose: List[Tuple[int, str]], printed: str) -> None:
        for paragraph in lesson_numbers.paragraphs(prose):
            self.numbers += len(lesson_numbers.measured(paragraph.text))
            for problem in lesson_numbers.problems(paragraph, printed,
                                                   lambda where: self.source(page, where)):
                self.report(f"{page}:{paragraph.line}: {problem}")

    def source(self, page: Path, where: str) -> str:
        """Returns the text of a source that a comment names, which is a file, or the output of a command."""
        if not where.startswith("$ "):
            path = (page.parent / where).resolve()
            if not path.is_file() or self.root not in path.parents:
                raise Unsourced(f"source: {where}: no such file")
            return path.read_text(encoding="utf-8")
        try:
            return "\n".join(self.printed_output(page, where[2:], 0)[1:])
        except Problem as problem:
            raise Unsourced(str(problem)) from None

    def check_links(self, page: Path, number: int, line: str) -> None:
        line = re.sub(r"(`+).+?\1", "", line)  # code is not a link
        for target in LINK.findall(line) + LINK_DEFINITION.findall(line):
            if re.match(r"[a-z][a-z0-9+.-]*:", target, re.IGNORECASE):
                continue  # https:, mailto:
            self.links += 1
            try:
                self.check_target(page, unquote(target))
            except Problem as problem:
                self.report(f"{page}:{number}: link to {target}: {problem}")

    def check_target(self, page: Path, target: str) -> None:
        file, _, heading = target.partition("#")
        if file.startswith("/"):
            raise Problem("starts with /; links are relative to the page")
        path = (page.parent / file).resolve() if file else page
        if path != self.root and self.root not in path.parents:
            raise Problem("leads out of the repository")
        if not path.exists():
            raise Problem("no such file")
        if heading:
            if path.suffix != ".md":
                raise Problem("only pages (.md) have headings to link to")
            if heading not in heading_ids(path):
                raise Problem("no such heading")

    def check_unused_anchors(self) -> None:
        for path in files_under(self.root, ANCHOR_FOLDERS):
            if path.suffix == ".md" or b"anchor" not in path.read_bytes():
                continue
            try:
                for name in self.anchors(path):
                    if (path, name) not in self.quoted:
                        self.report(f"{path}: anchor {name} is quoted by no page")
            except Problem as problem:
                self.report(str(problem))


def files_under(root: Path, folders: Tuple[str, ...]) -> List[Path]:
    """Returns the regular files below these folders of root, sorted, without hidden and cache
    folders."""
    found = []
    for folder in folders:
        for directory, subdirectories, names in os.walk(root / folder):
            subdirectories[:] = sorted(d for d in subdirectories
                                       if not d.startswith(".")
                                       and d not in ("__pycache__", "node_modules"))
            found += [Path(directory) / name for name in sorted(names)]
    return found


def find_pages(root: Path) -> List[Path]:
    return (sorted(root.glob("*.md"))
            + [path for path in files_under(root, PAGE_FOLDERS) if path.suffix == ".md"])


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks, or with --write fills in, quoted code "
                                     "and printed output in the lessons; checks links.")
    parser.add_argument("--write", action="store_true", help="fill the blocks instead of comparing")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent,
                        help="repository root (default: the one this script is in)")
    parser.add_argument("--bin", type=Path, help="where the programs are (default: ROOT/build/bin)")
    parser.add_argument("pages", nargs="*", type=Path, help="only these pages")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    bin_dir = (arguments.bin or root / "build" / "bin").resolve()
    for wanted, exists in [(root, root.is_dir())] + [(p, p.is_file()) for p in arguments.pages]:
        if not exists:
            print(f"error: {wanted}: no such file or directory", file=sys.stderr)
            return 2
    checker = Checker(root, bin_dir, arguments.write)
    pages = [page.resolve() for page in arguments.pages] or find_pages(root)
    if not pages:
        print(f"error: {root}: no pages (*.md) found", file=sys.stderr)
        return 2
    for page in pages:
        checker.check_page(page)
    if not arguments.pages:
        checker.check_unused_anchors()
        for problem in lesson_pages.problems(root):
            checker.report(problem)
    for problem in checker.problems:
        print(problem)
    count = len(checker.problems)
    print(f"{len(pages)} pages, {checker.blocks} quoted blocks, {checker.links} links, "
          f"{checker.numbers} measured numbers: "
          + ("all true" if count == 0 else f"{count} problem{'s' if count > 1 else ''}"))
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
