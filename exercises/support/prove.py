#!/usr/bin/env python3
"""Proves that an exercise teaches what it says: for CTest.

    prove.py TOPIC/EXERCISE --program stub P --program solution P --program MISTAKE P …
    prove.py TOPIC/EXERCISE --judge P          a trace: one program judges every file
    prove.py --track                           every exercise is registered; the code is formatted

The solution passes, and its run proves that the mistakes that the test knows differ. The stub throws
its own TODO line; of debugging it is a program that is wrong, and taken for no mistake. Every wrong
answer is rejected with a message that names its mistake and no other. The texts are there.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LONGEST_STUB = 60  # lines


def registry(root=ROOT):
    """(topic, exercise) in the order of exercises/CMakeLists.txt."""
    text = (root / "exercises" / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.findall(r"^exercise\((\S+) (\S+?)[\s)]", text, re.MULTILINE)


def identifier(topic, exercise):
    """02_tiled_cpu, ex1_safe_softmax -> 02.1, safe_softmax; of debugging D.1, …: no chapter's number"""
    number, name = re.fullmatch(r"ex(\d+)_(.+)", exercise).groups()
    return f"{topic[:2] if topic[0].isdigit() else topic[0].upper()}.{number}", name


def run(program, environment=None):
    """Exit code and output; a crash has a negative code."""
    result = subprocess.run([program, "--no-version"], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, timeout=60,
                            env={**os.environ, "EXERCISE_PROVE": "1", **(environment or {})})
    return result.returncode, result.stdout.decode("utf-8", "replace")


def asserted(output):
    """How many assertions ran; a doctest filter that matches nothing exits with 0, too."""
    match = re.search(r"assertions:\s+(\d+)", output)
    return int(match.group(1)) if match else 0


def recognised(output):
    return set(re.findall(r"^(?:looks like: |could be )([\w-]+): \S", output, re.MULTILINE))


def unwritten(output):
    """The TODO line that the program has thrown, if it has."""
    match = re.search(r"^not written yet: (TODO\(.*)$", output, re.MULTILINE)
    return match.group(1) if match else None


def told(output, by):
    """The mistakes that a solution's run says are told so."""
    return set(re.findall(rf"^told by {by}: (.+)$", output, re.MULTILINE))


def judge_mistakes(output, wrong, wrong_in_topic=()):
    """Of the mistakes that the test knows each is rejected, and told from the others: by what the
    test computes that it leads to, or by an answer in wrong/, perhaps of another exercise of the topic
    that asks the same question."""
    unproved = told(output, "an answer") - set(wrong) - set(wrong_in_topic)
    problems = re.findall(r"^(?:never shows|the same): .+$", output, re.MULTILINE)
    problems += [f"{name} is known, but there is no wrong/{name}" for name in sorted(unproved)]
    unknown = set(wrong) - told(output, "an answer") - told(output, "what it shows")
    problems += [f"wrong/{name} is there, but the test knows no such mistake"
                 for name in sorted(unknown)]
    return "; ".join(problems) or None


def judge_solution(code, output):
    if code != 0 or recognised(output) or unwritten(output) or "Status: SUCCESS!" not in output:
        return f"the solution does not pass (exit {code})"
    if asserted(output) == 0:
        return "the solution passes, but nothing was asserted"
    return None


def judge_stub(code, output, todo):
    """`todo`: the line that it throws; None: it is a program to mend, and fails as a wrong answer does."""
    if code != 1:
        return f"the stub exits with {code}, expected 1"
    if unwritten(output) != todo:
        return f"the stub throws {unwritten(output)}, expected {todo}"
    if todo is None and "ERROR: " not in output:
        return "the test does not say what is wrong with the stub"
    if recognised(output):
        return "the stub is taken for a mistake"
    return None


def judge_wrong(code, output, mistake):
    if code != 1:
        return f"wrong/{mistake} exits with {code}, expected 1"
    if unwritten(output):
        return f"wrong/{mistake} is taken for the stub"
    if recognised(output) != {mistake}:
        return (f"wrong/{mistake} is told it looks like "
                + (", ".join(sorted(recognised(output))) or "nothing that is known"))
    return None


def todo_of(text, identity):
    """The stub's own TODO line, without what the language puts around it."""
    match = re.search(rf"TODO\({re.escape(identity)}\): [^\"\n]+", text)
    return match.group(0).strip() if match else None


def to_mend(text, identity):
    """Is the stub a program to mend? Then its TODO line is a comment, and thrown by nobody."""
    return f"// TODO({identity}): " in text


def missing_texts(topic, exercise, root=ROOT):
    """What an exercise should have and has not."""
    here, there = root / "exercises" / topic / exercise, root / "solutions" / topic / exercise
    identity, name = identifier(topic, exercise)
    problems = []
    stubs = [here / f"{name}{ending}" for ending in (".hpp", ".txt")]
    stub = next((path for path in stubs if path.exists()), stubs[0])
    for path in (here / "README.md", here / "hints.md", here / "test.cpp", stub,
                 there / stub.name):
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
    if "TODO(" in (there / stub.name).read_text(encoding="utf-8"):
        problems.append("the solution still has a TODO")
    if stub_text.count("\n") > LONGEST_STUB:
        problems.append(f"the stub is longer than {LONGEST_STUB} lines")
    wrong = sorted((there / "wrong").glob("*/"))
    if len(wrong) < 2:
        problems.append("fewer than two wrong answers")
    for directory in wrong:
        if [path.name for path in directory.iterdir()] != [stub.name]:
            problems.append(f"wrong/{directory.name} must hold {stub.name} and nothing else")
    return problems


def prove(topic, exercise, programs, judge):
    """Prints a line for each proof; the problems."""
    identity, name = identifier(topic, exercise)
    problems = missing_texts(topic, exercise)
    if problems:
        return problems
    there = ROOT / "solutions" / topic / exercise
    mistakes = sorted(path.name for path in (there / "wrong").iterdir())
    in_topic = {path.name for path in there.parent.glob("*/wrong/*")}
    if judge:
        stub = ROOT / "exercises" / topic / exercise / f"{name}.txt"
        files = {"stub": stub, "solution": there / stub.name}
        files.update({mistake: there / "wrong" / mistake / stub.name for mistake in mistakes})
        runs = {what: (judge, {"EXERCISE_ANSWER": str(path)}) for what, path in files.items()}
    else:
        stub = ROOT / "exercises" / topic / exercise / f"{name}.hpp"
        runs = {what: (program, None) for what, program in programs}
        if sorted(runs) != sorted(mistakes + ["stub", "solution"]):
            return [f"built are {sorted(runs)}, the directories say {mistakes}: configure again"]
    stub_text = stub.read_text(encoding="utf-8")
    todo = None if to_mend(stub_text, identity) else todo_of(stub_text, identity)
    for what, (program, environment) in runs.items():
        try:
            code, output = run(program, environment)
        except subprocess.TimeoutExpired:
            problems.append(f"{what} runs for more than a minute")
            continue
        problem = (judge_solution(code, output) or judge_mistakes(output, mistakes, in_topic)
                   if what == "solution" else
                   judge_stub(code, output, todo) if what == "stub" else
                   judge_wrong(code, output, what))
        print(f"{'NO' if problem else 'ok':3} {what}")
        if problem:
            problems.append(f"{problem}; it printed:\n{output}")
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
    """What clang-format would change; None where there is no clang-format."""
    formatter = shutil.which("clang-format")
    if formatter is None:
        return None
    files = [str(path) for tree in ("exercises", "solutions") for ending in ("hpp", "cpp")
             for path in (root / tree).rglob(f"*.{ending}")]
    return subprocess.run([formatter, "--style=file:" + str(ROOT / ".clang-format"), "--dry-run",
                           "--Werror"] + files, capture_output=True, text=True).stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("exercise", nargs="?")
    parser.add_argument("--program", nargs=2, action="append", default=[])
    parser.add_argument("--judge")
    parser.add_argument("--track", action="store_true")
    arguments = parser.parse_args()
    if arguments.track:
        problems = prove_track()
        changes = misformatted()
        problems += ["clang-format would change:\n" + changes[:3000]] if changes else []
        print(f"{len(registry())} exercises; formatting "
              + ("not checked: there is no clang-format" if changes is None else "checked"))
    else:
        problems = prove(*arguments.exercise.split("/"), arguments.program, arguments.judge)
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    raise SystemExit(1 if problems else 0)


if __name__ == "__main__":
    main()
