"""The learner's side of ./learn, which lays exercises out, checks them and keeps track. Standard library only.

A learner edits copies below my_exercises/. What is kept in .learn/ is derived from running the
tests on them. LEARN_HOME puts both, and the build, elsewhere.
"""

import contextlib
import difflib
import fcntl
import hashlib
import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "exercises" / "support"), str(ROOT / "docs")]
import lesson_pages  # noqa: E402
import prove  # noqa: E402  the registry

ENDLESS = 30  # seconds after which a program is taken for endless
MOST_OUTPUT = 64 << 20  # bytes after which its printing is taken for endless
KEPT_OUTPUT = 1 << 18  # bytes of the end of its output that are kept
LINES_SHOWN = 10  # of what an answer printed
CRASHES = {"SIGSEGV": "it used memory that is not its own, or called itself without end",
           "SIGBUS": "it used memory that is not its own, or called itself without end",
           "SIGFPE": "it divided an integer by zero", "SIGILL": "it executed no valid instruction",
           "SIGABRT": "it aborted: abort(), an assert, or the C++ library found an error",
           "SIGKILL": "something else ended it, for example because memory ran out"}
MOVED = {"17_low_precision/ex4_order_of_v": "23_fp8/ex1_order_of_v"}  # copies and progress move along
CASE = re.compile(rb'\x1e(\{"case": .*\})\n')  # as verdict.cpp prints it
DIAGNOSTIC = re.compile(r"^(?P<path>[^\s:][^:]*):(?P<line>\d+):(\d+:)? "
                        r"(?P<kind>fatal error|error|warning|note): (?P<text>.*)")


class Exercise:
    def __init__(self, topic, directory, home):
        self.topic, self.directory = topic, directory
        self.id, self.name = prove.identifier(topic, directory)
        self.chapter = self.id.partition(".")[0]  # "02", or "D" of debugging
        self.key = f"{topic}/{directory}"
        self.here = ROOT / "exercises" / topic / directory
        files = [self.here / f"{self.name}{ending}" for ending in (".txt", ".cu", ".hpp")]
        self.stub = next((path for path in files if path.exists()), files[-1])
        self.copy = home / "my_exercises" / topic / directory / self.stub.name
        self.solution = ROOT / "solutions" / topic / directory / self.stub.name
        self.program = f"ex{self.id}_{self.name}"

    @property
    def title(self):
        first = (self.here / "README.md").read_text(encoding="utf-8").splitlines()[0]
        return first.removeprefix("# ")  # "02.1 Safe softmax"

    @property
    def lesson(self):
        """The page of the chapter's lesson that lists this exercise, or None."""
        return lesson_pages.page_of_exercise(ROOT / "chapters" / self.topic, self.directory)

    @property
    def hints(self):
        text = (self.here / "hints.md").read_text(encoding="utf-8")
        return [part.strip() for part in re.split(r"^## Hint \d+$", text, flags=re.MULTILINE)[1:]]

    def answers_to(self, name):
        short = {self.id, self.id.lower(), self.id.removeprefix("0"), self.name, self.directory, self.key,
                 self.program, str(self.copy), str(self.stub)}
        return name.rstrip("/") in short or name.endswith(f"{self.key}/{self.stub.name}")


class Result:
    """The result of checking a copy, which is passed, wrong, todo, broken (does not compile)."""

    def __init__(self, status, lines, exercise):
        self.status, self.lines, self.exercise = status, lines, exercise


class Track:
    def __init__(self, learn):
        self.learn = learn
        self.home = learn.home()
        self.exercises = [Exercise(topic, name, self.home) for topic, name in prove.registry()]
        self.progress_file = self.home / ".learn" / "progress.json"
        self.progress = self.read_progress()
        self.move_copies()

    # ------------------------------------------------------------ progress

    def read_progress(self):
        try:
            progress = json.loads(self.progress_file.read_text(encoding="utf-8"))
            if all(isinstance(entry, dict) for entry in progress.values()):
                return {MOVED.get(key, key): entry for key, entry in progress.items()}
        except FileNotFoundError:
            return {}
        except (ValueError, AttributeError, OSError):
            pass
        self.learn.say(f"{self.shown(self.progress_file)} cannot be read; starting a new one. "
                       "Check your exercises again and it is as it was.")
        return {}

    def move_copies(self):
        """An exercise that is in another chapter now takes the learner's copy along."""
        for before, now in MOVED.items():
            there, here = (self.home / "my_exercises" / key for key in (before, now))
            if there.exists() and not here.exists():
                here.parent.mkdir(parents=True, exist_ok=True)
                there.rename(here)

    def entry(self, exercise):
        return self.progress.setdefault(exercise.key, {})

    def save(self):
        self.progress_file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.progress_file.with_suffix(".new")
        temporary.write_text(json.dumps(self.progress, indent=1) + "\n", encoding="utf-8")
        os.replace(temporary, self.progress_file)

    @contextlib.contextmanager
    def alone(self, lock="lock"):
        """A check in this terminal and a watch in another take turns, and see each other's progress.
        A check holds "build" while it builds and runs, and "lock" only to note what came of it, so that a hint
        does not wait for a program that does not end."""
        self.progress_file.parent.mkdir(parents=True, exist_ok=True)
        with open(self.progress_file.with_name(lock), "w", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.progress = self.read_progress()
            yield

    def passed(self, exercise):
        return self.progress.get(exercise.key, {}).get("status") == "passed"

    @staticmethod
    def digest(path):
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]

    # ------------------------------------------------------------ which exercise

    def find(self, name):
        """The exercise of that name, or without a name the one to work on."""
        if name is None:
            return self.current()
        for exercise in self.exercises:
            if exercise.answers_to(name):
                return exercise
        ids = [exercise.id for exercise in self.exercises]
        number = re.sub(r"^(\d)\.", r"0\1.", name.upper())
        close = difflib.get_close_matches(number, ids, 1) or difflib.get_close_matches(
            name, [exercise.name for exercise in self.exercises], 1)
        raise self.learn.Stop(f"exercise {name}: there is none"
                              + (f"; did you mean {close[0]}?" if close else "")
                              + " (all: ./learn map)")

    def current(self):
        """The first that is laid out and not passed, else the first not passed."""
        todo = [exercise for exercise in self.exercises if not self.passed(exercise)]
        begun = [exercise for exercise in todo if exercise.copy.exists()]
        if not todo:
            raise self.learn.Stop("every exercise is done; name the one you mean", 1)
        return (begun or todo)[0]

    def require_copy(self, exercise):
        if not exercise.copy.exists():
            raise self.learn.Stop(f"{exercise.id} is not laid out yet: ./learn next {exercise.id}")

    @staticmethod
    def lay_out(exercise):
        if not exercise.copy.exists():
            exercise.copy.parent.mkdir(parents=True, exist_ok=True)
            exercise.copy.write_bytes(exercise.stub.read_bytes())

    def after(self, exercise):
        """All exercises, from the next one onward, ending with this one."""
        here = self.exercises.index(exercise) + 1 if exercise else 0
        return self.exercises[here:] + self.exercises[:here]

    def shown(self, path):
        for base in (Path.cwd(), ROOT):
            if path.is_relative_to(base):
                return str(path.relative_to(base))
        return str(path)

    # ------------------------------------------------------------ commands

    def map(self, chapter, directory=None):
        """The lines of a chapter's exercises, for the map, each below the page of the lesson that lists
        it; `directory` is the chapter's."""
        here = [exercise for exercise in self.exercises if exercise.chapter == chapter]
        pages = lesson_pages.chapter_pages(directory) if directory else []
        for exercise in here:
            while len(pages) > 1 and exercise.lesson in pages[1:]:
                pages.pop(0)
                self.learn.say(f"    {pages[0].name}")
            entry = self.progress.get(exercise.key, {})
            mark, note = "·", ""
            if self.passed(exercise):
                mark = "✓"
                if exercise.copy.exists() and self.digest(exercise.copy) != entry.get("digest"):
                    note = "  changed since; ./learn check " + exercise.id
            elif exercise.copy.exists():
                mark, tries = "▸", entry.get("tries", 0)
                note = f"  begun, {tries} {'try' if tries == 1 else 'tries'}"
            title = exercise.title
            if len(title) + len(note) > 72:
                title = title[:71 - len(note)] + "…"
            self.learn.say(f"      {mark} {title}{note}")
        for page in pages[1:]:
            self.learn.say(f"    {page.name}")

    def progress_of(self, chapter):
        """How many of a chapter's exercises are done, and how many there are."""
        here = [exercise for exercise in self.exercises if exercise.chapter == chapter]
        return sum(map(self.passed, here)), len(here)

    def here(self):
        """The chapter of the exercise that the learner is at, or None if all are done."""
        if all(map(self.passed, self.exercises)):
            return None
        begun = [one for one in self.exercises if one.copy.exists() and not self.passed(one)]
        done = [one for one in self.exercises if self.passed(one)]
        todo = [one for one in self.after(done[-1] if done else None) if not self.passed(one)]
        return (begun or todo)[0].chapter

    def summary(self):
        done = sum(map(self.passed, self.exercises))
        self.learn.say(f"\n  {done} of {len(self.exercises)} exercises done")

    def next(self, name=None, after=None):
        """Lays out the next exercise, or the one named."""
        say = self.learn.say
        if name is None:
            if after is None:  # where the learner is, who may have begun at chapter 03
                after = next((one for one in reversed(self.exercises) if self.passed(one)), None)
            todo = [exercise for exercise in self.after(after) if not self.passed(exercise)]
            if not todo:
                say(f"All {len(self.exercises)} exercises are done.")
                return None
            exercise = todo[0]
        else:
            exercise = self.find(name)
        self.lay_out(exercise)
        say(self.learn.bold(exercise.title))
        if exercise.lesson:
            say(f"  lesson  {self.shown(exercise.lesson)}")
        for line in self.files(exercise):
            say(line)
        say(f"  then    ./learn check {exercise.id}   (or ./learn watch; stuck: ./learn hint {exercise.id})")
        return exercise

    def check(self, exercise):
        """Checks the copy, notes the outcome and prints it. Lays the exercise out if it is not there yet."""
        self.lay_out(exercise)
        with self.alone("build"):
            digest = self.digest(exercise.copy)
            result = self.judge(exercise)
        with self.alone():
            entry = self.entry(exercise)
            if digest != self.digest(exercise.stub):
                entry["tries"] = entry.get("tries", 0) + 1
            entry["status"], entry["digest"] = result.status, digest
            self.save()
        for line in result.lines:
            self.learn.say(fitted(line))
        return result

    def hint(self, exercise):
        hints = exercise.hints
        with self.alone():
            entry = self.entry(exercise)
            seen = entry.get("hints", 0)
            number = entry["hints"] = min(seen + 1, len(hints))
            self.save()
        self.learn.say(f"Hint {number} of {len(hints)} for {exercise.title}\n\n{folded(hints[number - 1])}\n")
        if seen >= len(hints):
            self.learn.say(f"That was the last one: ./learn solution {exercise.id}")

    def reset(self, exercise, yes):
        """Restores the stub. Keeps the learner's text."""
        self.require_copy(exercise)
        if exercise.copy.read_bytes() == exercise.stub.read_bytes():
            self.learn.say(f"{self.shown(exercise.copy)} is the stub already.")
            return
        folder = self.home / ".learn" / "backups" / exercise.key
        taken = [int(path.name.split("_")[0]) for path in folder.glob("[0-9]*_*")]
        backup = folder / f"{max(taken, default=0) + 1}_{exercise.copy.name}"
        if not yes:
            print(f"Replace {self.shown(exercise.copy)} by the stub? "
                  f"Yours is kept as {self.shown(backup)}. [y/N] ", end="", flush=True)
            if sys.stdin.readline().strip().lower() not in ("y", "yes"):
                raise self.learn.Stop("nothing was changed", 1)
        folder.mkdir(parents=True, exist_ok=True)
        os.replace(exercise.copy, backup)
        exercise.copy.write_bytes(exercise.stub.read_bytes())
        with self.alone():
            self.entry(exercise)["status"] = "todo"
            self.save()
        self.learn.say(f"{self.shown(exercise.copy)} is the stub again; "
                       f"yours is in {self.shown(backup)}")

    def files(self, exercise):
        """Lines that say what to read and what to edit, where a long path has a separate line."""
        for what, path in (("read", exercise.here / "README.md"), ("edit", exercise.copy)):
            line = f"  {what}    {self.shown(path)}"
            split = f"  {what}\n    {self.shown(path)}"
            yield split if len(line) > 80 >= len(split) - len(f"  {what}\n") else line

    def show_solution(self, exercise, force):
        if not (force or self.entry(exercise).get("tries") or self.passed(exercise)):
            raise self.learn.Stop(f"try {exercise.id} first: ./learn check {exercise.id} "
                                  "(or --force)", 1)
        self.learn.say(f"{self.shown(exercise.solution)}\n")
        self.learn.say(exercise.solution.read_text(encoding="utf-8").rstrip("\n"))

    # ------------------------------------------------------------ build and run

    @staticmethod
    def untouched(exercise):
        return exercise.copy.read_bytes() == exercise.stub.read_bytes()

    def not_written(self, todo, exercise):
        return Result("todo", [f"{exercise.title}: not written yet", "", f"  {todo}", "",
                               *self.files(exercise)], exercise)

    def judge(self, exercise):
        stub = exercise.stub.read_text(encoding="utf-8")
        if self.untouched(exercise) and not prove.to_mend(stub, exercise.id):
            return self.not_written(prove.todo_of(stub, exercise.id), exercise)  # nothing to build
        if not exercise.copy.read_bytes().strip():
            return Result("broken", [f"{exercise.title}: the file is empty", "",
                                     f"  {self.shown(exercise.copy)}", "",
                                     f"  restore the stub: ./learn reset {exercise.id}"], exercise)
        plain_cuda = exercise.stub.suffix == ".cu"
        directory = self.learn.configure("release", self.learn.cuda_files(exercise.id) if plain_cuda else ())
        code, lines = self.build(directory, exercise)
        if code != 0:
            return Result("broken", self.compiler_words(directory, lines, exercise), exercise)
        return self.verdict(Run(directory / "bin" / exercise.program, exercise.copy), exercise)

    def build(self, directory, exercise):
        """Builds the program that tests the copy. ninja compares times, and a file that was restored
        from a backup can be older than the program. Therefore the content decides. Its digest is kept
        with the time of the program that was built from it."""
        program, kept = directory / "bin" / exercise.program, directory / "checked" / exercise.program

        def state():
            built = program.stat().st_mtime_ns if program.exists() else None
            return f"{self.digest(exercise.copy)} {built}"

        if exercise.stub.suffix == ".hpp" and not (kept.exists() and kept.read_text() == state()):
            for place in self.objects(directory, exercise):
                place.unlink()
        self.learn.announce_build(directory, [exercise.program])
        before = self.digest(exercise.copy)
        code, lines = self.learn.run_ninja(["ninja", "-C", str(directory), exercise.program], "Building")
        kept.parent.mkdir(exist_ok=True)
        same = code == 0 and before == self.digest(exercise.copy)  # not edited meanwhile
        kept.write_text(state() if same else "")
        return code, lines

    @staticmethod
    def objects(directory, exercise):
        return [place for part in ("", "exercises")
                for place in (directory / part / "CMakeFiles" / f"{exercise.program}.dir").rglob("*.o")]

    @staticmethod
    def syntax(directory, exercise, changed):
        """The compiler's words about the test's source as `changed`, a function of the command line,
        makes it. Nothing is written."""
        said = subprocess.run(["ninja", "-C", str(directory), "-t", "commands", exercise.program],
                              capture_output=True, text=True, errors="replace").stdout
        line = next((line for line in said.splitlines()
                     if f"{exercise.program}.dir/" in line and " -c " in line), "")
        words, kept = iter(shlex.split(line)), []
        for word in words:
            if word in ("-o", "-MF", "-MT"):
                next(words)
            elif word not in ("-c", "-MD"):
                kept.append(word)
        if not kept:
            return []
        run = subprocess.run([*changed(kept[:-1], kept[-1]), "-fsyntax-only", "-w"], cwd=directory,
                             env={**os.environ, "LC_ALL": "C.UTF-8"}, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, errors="replace")
        return diagnostics(run.stdout.splitlines())

    def compiler_words(self, directory, lines, exercise):
        """The compiler's errors in the learner's file, first and alone, up to three. If the file is not
        the reason for the failure, this stops."""
        words = diagnostics("".join(lines).splitlines())

        def errors(words, own=False):
            return [block for block in words if "error" in block[0]["kind"]
                    and not (own and Path(block[0]["path"]).name != exercise.copy.name)]

        failed = [line for line in lines if line.startswith("FAILED: ")]
        linked = re.findall(r"(?:undefined reference to|multiple definition of) .*", "".join(lines))
        mine = failed and all(exercise.program in line for line in failed)
        shown = errors(words, own=True)
        if mine and not shown and errors(words):
            # The test includes the file, so an error at its end shows only in the test, so the compiler reads the
            # file alone. If that is fine, the stub tells whether the test is.
            shown = errors(self.syntax(directory, exercise, lambda flags, _: [
                *flags, "-x", "c++", str(exercise.copy)]), own=True)
            if not shown:
                mine = not errors(self.syntax(directory, exercise, lambda flags, source: [
                    *(flag.replace(str(exercise.copy.parent), str(exercise.here)) for flag in flags),
                    source]))
        if not (shown or mine and (errors(words) or linked)):
            raise self.learn.Stop(
                f"the program that checks {exercise.id} could not be built, and your file is not the "
                "reason:\n" + "\n".join(line.rstrip() for line in lines[-20:]))
        result = [f"{exercise.title}: does not compile", ""]
        for match, *source in (shown or errors(words))[:3]:
            place = self.shown(exercise.copy) if shown else Path(match["path"]).name
            result += [f"{place}:{match['line']}: {match['text']}"] + source + [""]
        result += linked[:3] if not errors(words) else []
        if not shown:
            result.append("Your file alone is fine, but the test cannot use it: does the function "
                          "still have the name and the parameters of the stub?")
        return result

    def verdict(self, run, exercise):
        """The words of the test's verdict, and where to go from there."""
        printed = run.printed.splitlines()
        verdict = run.verdict or {"verdict": "wrong", "text": "wrong"}
        first, *told = verdict["text"].removeprefix(verdict["verdict"]).rstrip("\n").split("\n")
        for place in (str(exercise.copy), os.path.relpath(exercise.copy, ROOT)):  # as the program says it
            told = [line.replace(place, self.shown(exercise.copy)) for line in told]
        said = []
        if printed:
            cut = run.cut or len(printed) > LINES_SHOWN
            said = ["", f"  {'The end of what' if cut else 'What'} your code printed:"]
            said += [f"    {line[:200]}" for line in printed[-LINES_SHOWN:]]
        if verdict["verdict"] == "not written yet":
            return self.not_written(verdict["todo"], exercise)
        if verdict["verdict"] == "right" and run.code == 0:
            following = [other for other in self.after(exercise) if not self.passed(other)]
            lines = [self.learn.colored(f"{exercise.title}: right", "32") + first]
            lines += told + [f"  compare {self.shown(exercise.solution)}"]
            lines += ([f"  next    {following[0].title}: ./learn next {following[0].id}"] if following else
                      ["  that was the last one: every exercise is done"])
            return Result("passed", lines + said, exercise)
        untouched = self.untouched(exercise)
        ended = run.ended()
        lines = [self.learn.colored(f"{exercise.title}: {'not mended yet' if untouched else 'wrong'}",
                                    "31") + (f": {ended}" if ended else first)]
        if ended and run.case:
            lines += ["", f"  in the test case: {run.case}"]
        elif not ended:
            lines += ["  " + self.learn.bold(line[2:]) if line[2:] in verdict["named"] else line
                      for line in told]
        lines += said + ["", f"  stuck: ./learn hint {exercise.id}"]
        return Result("todo" if untouched else "wrong", lines, exercise)

    # ------------------------------------------------------------ watch

    def watch(self, exercise):
        """Checks after every save. With a terminal there are keys, but without, it ends when it passes."""
        if not exercise.copy.exists():
            self.next(exercise.id)
        with Keys() as keys, contextlib.ExitStack() as stack:
            checking = seen = None
            while True:
                stamp = self.stamp(exercise)
                if stamp is not None and stamp != seen:  # a new save ends the check of the old one
                    seen = stamp
                    stack.close()
                    if keys.terminal and self.learn.INTERACTIVE:
                        print("\033[2J\033[H", end="", flush=True)
                    checking = stack.enter_context(checked_by_a_child(exercise))
                elif checking and checking.poll() is not None:
                    if not keys.terminal and checking.returncode == 0:
                        return
                    checking = None
                    self.say_watching(exercise, keys)
                key = keys.read(0.1 if checking else 0.25)
                if key == "q":
                    return
                if key == "h":
                    self.learn.say()
                    self.hint(exercise)
                if key == "n":
                    stack.close()
                    checking, self.progress = None, self.read_progress()
                    if self.learn.INTERACTIVE:
                        print("\033[2J\033[H", end="", flush=True)
                    exercise = self.next(after=exercise) or exercise
                    seen = self.stamp(exercise)
                    self.say_watching(exercise, keys)

    def say_watching(self, exercise, keys):
        self.learn.say(f"\nwatching {self.shown(exercise.copy)}"
                       + ("   h: hint   n: next   q: quit" if keys.terminal else ""))

    @staticmethod
    def stamp(exercise):
        try:
            status = exercise.copy.stat()
            return status.st_mtime_ns, status.st_size, status.st_ino
        except FileNotFoundError:  # an editor is replacing it
            return None


@contextlib.contextmanager
def checked_by_a_child(exercise):
    """./learn check in a separate process group, which ends with all its children."""
    process = subprocess.Popen([sys.executable, str(ROOT / "learn"), "check", exercise.id],
                               stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()


def fitted(line):
    """A line of prose in at most 80 columns, but tables and what a compiler says stay as they are."""
    if len(line) <= 80 or re.search(r"\S {2,}\S", line) or re.match(r"\s*\d*\s*\||\S+:\d+: ", line):
        return line
    indent = line[:len(line) - len(line.lstrip())]
    return textwrap.fill(line.strip(), 80, initial_indent=indent, subsequent_indent=indent + "  ",
                         break_long_words=False, break_on_hyphens=False)


def folded(markdown):
    """Paragraphs in lines of 80 columns, but code stays as it is."""
    blocks = re.split(r"(\n\n+|```.*?```)", markdown, flags=re.DOTALL)
    return "".join(block if not block.strip() or re.match(r"```|    |\||- |\d+\. ", block)
                   else textwrap.fill(block, 80, break_long_words=False, break_on_hyphens=False)
                   for block in blocks)


def diagnostics(lines):
    """Returns the match of each compiler diagnostic and the source lines that belong to it."""
    words, block = [], None
    for line in lines:
        match = DIAGNOSTIC.match(line)
        if match:
            block = [match]
            words.append(block)
        elif block and re.match(r"^\s*\d*\s*\|", line):
            block.append(line)
        else:
            block = None
    return words


class Run:
    """A run of an exercise's program: its exit code (negative: the signal that ended it), the end of
    what the answer printed, the verdict or None, the test case that it was in. An endless one is ended."""

    def __init__(self, program, answer):
        self.case, self.cut, self.stopped = "", False, ""
        kept, count, end = bytearray(), 0, time.monotonic() + ENDLESS
        process = subprocess.Popen(
            [str(program), "--reporters=verdict"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, env={**os.environ, "EXERCISE_ANSWER": str(answer)})
        try:
            while not self.stopped:
                left = end - time.monotonic()
                over = process.poll() is not None  # then only what is in the pipe, because a child may hold it
                chunk = None
                if select.select([process.stdout], [], [], 0 if over else max(0, min(left, 0.2)))[0]:
                    chunk = os.read(process.stdout.fileno(), 65536)
                    kept += chunk
                    count += len(chunk)
                    for case in CASE.findall(kept[-len(chunk) - 500:])[-1:]:
                        self.case = json.loads(case.decode("utf-8", "replace"))["case"]
                    if len(kept) > 2 * KEPT_OUTPUT:
                        self.cut = True
                        del kept[:-KEPT_OUTPUT]
                if chunk == b"" or over and chunk is None:
                    break
                if left <= 0:
                    self.stopped = f"still running after {ENDLESS} s"
                elif count > MOST_OUTPUT:
                    self.stopped = f"it printed more than {MOST_OUTPUT >> 20} MB"
            if not self.stopped:
                process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:  # it has closed its output
            self.stopped = f"still running after {ENDLESS} s"
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        self.code = process.returncode
        self.printed, self.verdict = prove.read(kept.decode("utf-8", "replace"))

    def ended(self):
        """How it ended before its test did, or None if it did not."""
        if self.stopped:
            return f"{self.stopped}; is there a loop that never ends?"
        if self.code < 0:
            name = signal.Signals(-self.code).name
            return f"it crashed with {name}: {CRASHES.get(name, 'a signal ended it')}"
        if self.verdict is None:
            return f"it ended the program, with exit code {self.code}, before the test was over"
        return None


class Keys:
    """Single keys from a terminal, without Enter, after which the terminal is put back at the end."""

    def __enter__(self):
        self.terminal = sys.stdin.isatty() and sys.stdout.isatty()
        if self.terminal:
            import termios
            import tty
            self.before = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin.fileno())
        return self

    def __exit__(self, *_):
        if self.terminal:
            import termios
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self.before)

    def read(self, seconds):
        if not self.terminal:
            time.sleep(seconds)
            return None
        ready, _, _ = select.select([sys.stdin], [], [], seconds)
        return os.read(sys.stdin.fileno(), 1).decode("ascii", "replace") if ready else None
