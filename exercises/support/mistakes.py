#!/usr/bin/env python3
"""The mistakes of an exercise: solutions/NN_topic/exK_name/mistakes.txt, as edits of the solution.

    mistakes.py TOPIC/EXERCISE             prints the names of its mistakes
    mistakes.py TOPIC/EXERCISE NAME        prints the answer that makes this mistake
    mistakes.py TOPIC/EXERCISE --json      prints all such answers, as { name: text }
    mistakes.py TOPIC/EXERCISE --proof F   writes F: the stub, the solution and all mistakes in one header

In mistakes.txt a line without indentation is the name of a mistake. The lines after it are its edit, as
in a diff: lines with '-' go, lines with '+' come, lines with a space stay; '@@' separates two places. The
lines of a place that go or stay are found exactly once in the solution. '#' begins a comment.

The header for the proof is the solution with other function bodies and constants next to its own. The
environment variable EXERCISE_PROOF says which run: "stub", "solution" or the name of a mistake. So the
test and all that the answers share are compiled once, and no two symbols have the same name.
"""

import argparse
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class BadEdit(Exception):
    """Says which edit is wrong, and why."""


# ------------------------------------------------------------ mistakes.txt


@dataclass
class Place:
    """Consecutive lines of the solution, and the lines that replace them."""
    before: list
    after: list


def parse(text):
    """{name: [Place, …]} from the text of a mistakes.txt, in its order."""
    mistakes, places = {}, None
    for number, line in enumerate(text.splitlines(), 1):
        kind, rest = line[:1], line[1:]
        if not line or kind == "#":
            continue
        if re.fullmatch(r"[a-z][a-z0-9-]*", line):
            if line in mistakes:
                raise BadEdit(f"line {number}: there are two mistakes {line}")
            places = mistakes[line] = [Place([], [])]
        elif places is None:
            raise BadEdit(f"line {number}: expected the name of a mistake, got '{line}'")
        elif line == "@@":
            places.append(Place([], []))
        elif kind in "-+ ":
            if kind in "- ":
                places[-1].before.append(rest)
            if kind in "+ ":
                places[-1].after.append(rest)
        else:
            raise BadEdit(f"line {number}: expected a line that begins with '-', '+' or a space, "
                          f"'@@', or the name of a mistake, got '{line}'")
    return mistakes


def apply(solution, places, name):
    """The solution's text after the edit."""
    lines, result, done = solution.splitlines(), [], 0
    for place in places:
        if not place.before or place.before == place.after:
            raise BadEdit(f"{name}: each place needs a line of the solution, and a change")
        size = len(place.before)
        found = [i for i in range(len(lines) - size + 1) if lines[i:i + size] == place.before]
        if len(found) != 1:
            raise BadEdit(f"{name}: expected once in the solution, found {len(found)} times:\n"
                          + "\n".join(place.before))
        if found[0] < done:
            raise BadEdit(f"{name}: the places are not in the solution's order")
        result += lines[done:found[0]] + place.after
        done = found[0] + size
    return "\n".join(result + lines[done:]) + "\n"


def read(topic, exercise, root=ROOT):
    """The solution's file and {name: text} of the answers that make each mistake."""
    there = root / "solutions" / topic / exercise
    name = exercise.partition("_")[2]
    files = [there / f"{name}{ending}" for ending in (".hpp", ".txt", ".cu")]
    solution = next(path for path in files if path.exists())
    text = solution.read_text(encoding="utf-8")
    try:
        edits = parse((there / "mistakes.txt").read_text(encoding="utf-8"))
        return solution, {name: apply(text, places, name) for name, places in edits.items()}
    except BadEdit as error:
        raise BadEdit(f"{topic}/{exercise}/mistakes.txt: {error}") from error


# ------------------------------------------------------------ the header for the proof


@dataclass
class Part:
    """A declaration at namespace or class scope. `own` is the part that an answer may replace."""
    kind: str  # "function", "constant" or "text"
    head: str  # its code without comments, in single spaces; without `own` for a constant or a function
    own: str = ""  # a function's body, a constant's value
    begin: int = 0  # where `own` is in the text
    end: int = 0


def blanked(text):
    """The text with spaces in place of comments, strings and characters."""
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])\'(?:\\.|[^\'\\\n])+\''
    return re.sub(pattern, lambda found: re.sub(r"\S", " ", found.group()), text, flags=re.DOTALL)


def code(text):
    """The text without comments, in single spaces."""
    pattern = r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/'
    return " ".join(re.sub(pattern, lambda found: found.group(1) or " ", text, flags=re.DOTALL).split())


def closing(blank, opening):
    """The index of the brace that closes the one at `opening`."""
    depth = 0
    for i in range(opening, len(blank)):
        depth += {"{": 1, "}": -1}.get(blank[i], 0)
        if depth == 0:
            return i
    raise BadEdit("a brace is not closed")


def includes_of(text):
    return re.findall(r"^#include .+$", text, re.MULTILINE)


def without_directives(text):
    """The text with spaces in place of #include and #pragma lines."""
    return re.sub(r"^#.*$", lambda line: " " * len(line.group()), text, flags=re.MULTILINE)


def parts_of(text):
    """The declarations of a header, in order, without its preprocessor lines."""
    text = without_directives(text)
    blank, parts = blanked(text), []
    start = i = round_brackets = 0
    while i < len(text):
        head = code(text[start:i]) if blank[i] in "{;" else ""
        if blank[i] in "()":
            round_brackets += 1 if blank[i] == "(" else -1
        elif blank[i] == "{" and re.match(r"(template <[^{]*> )?(namespace|struct|class)\b", head):
            parts.append(Part("text", head + " {"))
            start = i + 1
        elif blank[i] == "{":
            end = closing(blank, i)
            if not round_brackets and re.search(r"\)( const| noexcept)*( -> [\w:<>]+)?$", head):
                parts.append(Part("function", head, text[i + 1:end], i + 1, end))
                start = end + 1
            i = end  # else an initializer, or an enumeration
        elif blank[i] == "}":
            parts.append(Part("text", "}"))
            start = i + 1
        elif blank[i] == ";" and not round_brackets:
            constant = re.match(r"(?:inline )?constexpr [^=;]+ = ", head)
            if constant:
                begin = blank.index("=", start) + 1
                parts.append(Part("constant", constant.group(), text[begin:i], begin, i))
            elif head:
                parts.append(Part("text", head + ";"))
            start = i + 1
        i += 1
    return parts


def fitted(parts, others, name):
    """For each part what the answer has there, or None where it has none. Only the stub may lack parts."""
    fits, left = [], list(others)
    for part in parts:
        if left and (left[0].kind, left[0].head) == (part.kind, part.head):
            fits.append(left.pop(0))
        elif name == "stub" and part.kind == "function":
            fits.append(None)
        else:
            raise BadEdit(f"{name} changes more than bodies of functions and values of constants: "
                          f"expected {part.head}\ngot {left[0].head if left else 'the end'}")
    if left:
        raise BadEdit(f"{name} has what the solution has not: {left[0].head}")
    return fits


def proof_header(solution, answers, path):
    """One header of all answers, {name: text}, with the solution's text."""
    parts = parts_of(solution)
    names = ["solution", *answers]
    columns = {name: fitted(parts, parts_of(text), name) for name, text in answers.items()}
    includes = sorted({line for text in (solution, *answers.values()) for line in includes_of(text)})

    def place(text, begin):
        return f'\n#line {text.count(chr(10), 0, begin) + 1} "{path}"\n'

    def is_answer(name):
        return f"exercise_answer == {names.index(name)}"

    result = "#pragma once\n" + "".join(line + "\n" for line in includes)
    result += '#include "exercises/support/proof.hpp"\n'
    result += ("static const int exercise_answer = exercise::answer_to_prove({"
               + ", ".join(f'"{name}"' for name in names) + "});\n")
    result += place(solution, 0)
    done, solution = 0, without_directives(solution)
    for index, part in enumerate(parts):
        if part.kind == "text":
            continue
        others = {name: column[index] for name, column in columns.items() if column[index]
                  and code(column[index].own) != code(part.own)}
        if not others:
            continue
        head = solution[done:part.begin]
        if part.kind == "constant":
            head = re.sub(r"constexpr(?=[^;{}]*=$)", "const", head)
            result += head + "".join(f" {is_answer(name)} ? ({other.own.strip()}) :"
                                     for name, other in others.items()) + f" ({part.own.strip()})"
        else:
            result += head
            for name, other in others.items():
                result += (f"\nif ({is_answer(name)}) {{  // {name}" + place(answers[name], other.begin)
                           + other.own + "\n} else")
            result += " {" + place(solution, part.begin) + part.own + "\n}"
            result += place(solution, part.end)
        done = part.end
    return result + solution[done:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("exercise")
    parser.add_argument("mistake", nargs="?")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--proof", type=Path)
    arguments = parser.parse_args()
    topic, exercise = arguments.exercise.split("/")
    try:
        solution, mistakes = read(topic, exercise)
        if arguments.proof:
            stub = ROOT / "exercises" / topic / exercise / solution.name
            answers = {"stub": stub.read_text(encoding="utf-8"), **mistakes}
            text = proof_header(solution.read_text(encoding="utf-8"), answers, solution)
            arguments.proof.parent.mkdir(parents=True, exist_ok=True)
            if not arguments.proof.exists() or arguments.proof.read_text(encoding="utf-8") != text:
                arguments.proof.write_text(text, encoding="utf-8")  # else nothing is compiled again
        elif arguments.json:
            print(json.dumps(mistakes))
        elif arguments.mistake is None:
            print("\n".join(mistakes))
        elif arguments.mistake in mistakes:
            print(mistakes[arguments.mistake], end="")
        else:
            raise BadEdit(f"{arguments.mistake}: accepted: {' '.join(mistakes)}")
    except BadEdit as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
