#!/usr/bin/env python3
"""Proves that an exercise teaches what it says, for CTest.

    prove.py TOPIC/EXERCISE --program P            P holds the stub, the solution and all mistakes
    prove.py TOPIC/EXERCISE --trace --program P    P checks any trace, or any CUDA file
    prove.py --track                               every exercise is registered; the code is formatted

The solution passes, and its run proves that the mistakes that the test knows differ. The stub throws
its own TODO line, but a stub of debugging is a wrong program that is named as no mistake. Every mistake of
mistakes.txt is rejected with a message that names it and no other. The texts are there. Each answer runs
in a separate process, so that one that hangs or aborts ends no other.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import mistakes  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
LONGEST_STUB = 60  # lines


def registry(root=ROOT):
    """(topic, exercise) in the order of exercises/CMakeLists.txt."""
    text = (root / "exercises" / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.findall(r"^exercise\((\S+) (\S+?)[\s)]", text, re.MULTILINE)


def identifier(topic, exercise):
    """02_tiled_cpu, ex1_safe_softmax -> 02.1, safe_softmax; debugging is no chapter, so it has D.1, …"""
    number, name = re.fullmatch(r"ex(\d+)_(.+)", exercise).groups()
    return f"{topic[:2] if topic[0].isdigit() else topic[0].upper()}.{number}", name


RECORD = re.compile(r'\x1e(\{"(?:case|verdict)": .*\})\n')  # as verdict.cpp prints them


def run(program, environment=None):
    """Exit code and output, where a crash has a negative code."""
    result = subprocess.run([program, "--reporters=verdict"], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, timeout=60,
                            env={**os.environ, **(environment or {})})
    return result.returncode, result.stdout.decode("utf-8", "replace")


def read(output):
    """Splits a test's output into what the answer printed, and the verdict, or None if there is none."""
    printed, *rest = RECORD.split(output)
    records = [json.loads(record) for record in rest[::2]]
    verdict = next((record for record in reversed(records) if "verdict" in record), None)
    return printed + "".join(rest[1::2]), verdict


def judge_mistakes(verdict, wrong, wrong_in_topic=()):
    """Returns the mistakes of the test that are not proved. A mistake is proved if the test rejects it
    and tells it from the others, by its computed result or by an answer that makes it. That answer may
    belong to another exercise of the topic that asks the same question."""
    by_answer = set(verdict["told_by_an_answer"])
    problems = list(verdict["unproved"])
    problems += [f"the test knows {name}, but mistakes.txt does not"
                 for name in sorted(by_answer - set(wrong) - set(wrong_in_topic))]
    problems += [f"mistakes.txt has {name}, but the test knows no such mistake"
                 for name in sorted(set(wrong) - by_answer - set(verdict["told_by_what_it_shows"]))]
    return "; ".join(problems) or None


def judge_solution(code, verdict):
    """A run without an assertion is not right."""
    if code != 0 or verdict["verdict"] != "right":
        return f"the solution does not pass (exit {code})"
    return None


def judge_stub(code, verdict, todo):
    """`todo`: the line that it throws; None: it is a program to mend, and fails as a wrong answer does."""
    if code != 1:
        return f"the stub exits with {code}, expected 1"
    if (verdict["todo"] or None) != todo:
        return f"the stub throws {verdict['todo']}, expected {todo}"
    if todo is None and len(verdict["text"].splitlines()) < 2:
        return "the test does not say what is wrong with the stub"
    if verdict["mistakes"]:
        return "the stub is taken for a mistake"
    return None


def judge_wrong(code, verdict, mistake):
    if code != 1:
        return f"{mistake} exits with {code}, expected 1"
    if verdict["todo"]:
        return f"{mistake} is taken for the stub"
    if verdict["mistakes"] != [mistake]:
        return (f"{mistake} is told it looks like "
                + (", ".join(verdict["mistakes"]) or "nothing that is known"))
    return None


def todo_of(text, identity):
    """The stub's own TODO line, without what the language puts around it."""
    match = re.search(rf"TODO\({re.escape(identity)}\): [^\"\n]+", text)
    return match.group(0).strip() if match else None


def to_mend(text, identity):
    """True if the stub is a program to mend. Then its TODO line is a comment that is never thrown."""
    return f"// TODO({identity}): " in text


def missing_texts(topic, exercise, root=ROOT):
    """Returns the texts that an exercise should have but does not."""
    here, there = root / "exercises" / topic / exercise, root / "solutions" / topic / exercise
    identity, name = identifier(topic, exercise)
    problems = []
    stubs = [here / f"{name}{ending}" for ending in (".hpp", ".txt", ".cu")]
    stub = next((path for path in stubs if path.exists()), stubs[0])
    main = [here / "main.cu"] if stub.suffix == ".cu" else []
    for path in (here / "README.md", here / "hints.md", here / "test.cpp", stub, *main,
                 there / stub.name, there / "mistakes.txt"):
        if not path.exists():
            problems.append(f"there is no {path.relative_to(root)}")
    if problems:
        return problems
    readme = (here / "README.md").read_text(encoding="utf-8")
    if not readme.startswith(f"# {identity} "):
        problems.append(f"README.md does not begin with '# {identity} …'")
    for part in ("You know", "You write", "Run", "Expected"):
        if f"**{part}:**" not in readme:
            problems.append(f"README.md has no part **{part}:**")
    hints = re.findall(r"^## Hint (\d+)\n\n\S", (here / "hints.md").read_text(encoding="utf-8"),
                       re.MULTILINE)
    if hints not in (["1", "2"], ["1", "2", "3"]):
        problems.append("hints.md needs two or three parts '## Hint N', from 1")
    stub_text = stub.read_text(encoding="utf-8")
    if todo_of(stub_text, identity) is None:
        problems.append(f"the stub has no line TODO({identity}): …")
    solution_text = (there / stub.name).read_text(encoding="utf-8")
    if "TODO(" in solution_text:
        problems.append("the solution still has a TODO")
    for include in mistakes.includes_of(solution_text):
        if include not in stub_text:
            problems.append(f"the stub lacks the solution's line {include}")
    if stub_text.count("\n") > LONGEST_STUB:
        problems.append(f"the stub is longer than {LONGEST_STUB} lines")
    try:
        if len(mistakes.read(topic, exercise, root)[1]) < 2:
            problems.append("mistakes.txt has fewer than two mistakes")
    except mistakes.BadEdit as error:
        problems.append(str(error))
    return problems


def names_in_topic(topic):
    """The mistakes of all exercises of a topic."""
    texts = [path.read_text(encoding="utf-8")
             for path in (ROOT / "solutions" / topic).glob("*/mistakes.txt")]
    return {name for text in texts for name in mistakes.parse(text)}


def prove(topic, exercise, program, trace):
    """Prints a line for each proof, and returns the problems."""
    identity, _ = identifier(topic, exercise)
    problems = missing_texts(topic, exercise)
    if problems:
        return problems
    solution, answers = mistakes.read(topic, exercise)
    stub = ROOT / "exercises" / topic / exercise / solution.name
    directory = tempfile.TemporaryDirectory()
    runs = {what: {"EXERCISE_PROOF": what} for what in ("stub", "solution", *answers)}
    if trace:
        files = {"stub": stub, "solution": solution}
        for what, text in answers.items():
            files[what] = Path(directory.name, what, solution.name)
            files[what].parent.mkdir()
            files[what].write_text(text, encoding="utf-8")
        runs = {what: {"EXERCISE_ANSWER": str(path)} for what, path in files.items()}
    stub_text = stub.read_text(encoding="utf-8")
    todo = None if to_mend(stub_text, identity) else todo_of(stub_text, identity)
    for what, environment in runs.items():
        try:
            code, output = run(program, environment)
        except subprocess.TimeoutExpired:
            problems.append(f"{what} runs for more than a minute")
            continue
        printed, verdict = read(output)
        problem = (f"{what} exits with {code} before the test is over" if verdict is None else
                   judge_solution(code, verdict) or judge_mistakes(verdict, answers, names_in_topic(topic))
                   if what == "solution" else
                   judge_stub(code, verdict, todo) if what == "stub" else
                   judge_wrong(code, verdict, what))
        print(f"{'NO' if problem else 'ok':3} {what}")
        if problem:
            problems.append(f"{problem}; it printed:\n{printed}{verdict['text'] if verdict else ''}")
    return problems


def prove_track(root=ROOT):
    """Every directory is registered, every registered one is there."""
    problems = []
    listed = registry(root)
    found = {tree: {(path.parent.name, path.name) for path in (root / tree).glob("*/ex*_*/")}
             for tree in ("exercises", "solutions")}
    if len(set(listed)) != len(listed) or not listed:
        problems.append("an exercise is registered twice, or none is")
    for tree, directories in found.items():
        for topic, exercise in sorted(directories ^ set(listed)):
            where = "registered, but not there" if (topic, exercise) in listed else "not registered"
            problems.append(f"{tree}/{topic}/{exercise} is {where}")
    return problems


def misformatted(root=ROOT):
    """Returns the complaints of clang-format, or None if it is missing."""
    formatter = shutil.which("clang-format")
    if formatter is None:
        return None
    files = [str(path) for tree in ("exercises", "solutions") for ending in ("hpp", "cpp", "cu")
             for path in (root / tree).rglob(f"*.{ending}")]
    return subprocess.run([formatter, "--style=file:" + str(ROOT / ".clang-format"), "--dry-run",
                           "--Werror"] + files, capture_output=True, text=True).stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("exercise", nargs="?")
    parser.add_argument("--program")
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--track", action="store_true")
    arguments = parser.parse_args()
    if arguments.track:
        problems = prove_track()
        changes = misformatted()
        problems += ["clang-format would change:\n" + changes[:3000]] if changes else []
        print(f"{len(registry())} exercises; formatting "
              + ("not checked: there is no clang-format" if changes is None else "checked"))
    else:
        problems = prove(*arguments.exercise.split("/"), arguments.program, arguments.trace)
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    raise SystemExit(1 if problems else 0)


if __name__ == "__main__":
    main()
