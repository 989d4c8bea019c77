"""The learner's side of ./learn: lays exercises out, judges them, keeps track. Standard library only.

A learner edits copies below my_exercises/. What is kept in .learn/ is derived from running the
tests on them. LEARN_HOME puts both, and a build of the exercises alone, elsewhere.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))
import prove  # noqa: E402  the registry

ROOT = Path(__file__).resolve().parents[1]
NAMED = r"  (?:looks like: |could be |no mistake that is known )"  # the mistake, in a verdict
ENDLESS = 30  # seconds after which a program is taken for endless
DIAGNOSTIC = re.compile(r"^(?P<path>[^\s:][^:]*):(?P<line>\d+):(\d+:)? "
                        r"(?P<kind>fatal error|error|warning|note): (?P<text>.*)")


class Exercise:
    def __init__(self, topic, directory, home):
        self.topic, self.directory = topic, directory
        self.id, self.name = prove.identifier(topic, directory)
        self.chapter = self.id.partition(".")[0]  # "02", or "D" of debugging
        self.key = f"{topic}/{directory}"
        self.here = ROOT / "exercises" / topic / directory
        ending = ".txt" if (self.here / f"{self.name}.txt").exists() else ".hpp"
        self.stub = self.here / (self.name + ending)
        self.copy = home / "my_exercises" / topic / directory / self.stub.name
        self.solution = ROOT / "solutions" / topic / directory / self.stub.name
        self.program = f"ex{self.id}_{self.name}"

    @property
    def title(self):
        first = (self.here / "README.md").read_text(encoding="utf-8").splitlines()[0]
        return first.removeprefix("# ")  # "02.1 Safe softmax"

    @property
    def hints(self):
        text = (self.here / "hints.md").read_text(encoding="utf-8")
        return [part.strip() for part in re.split(r"^## Hint \d+$", text, flags=re.MULTILINE)[1:]]

    def answers_to(self, name):
        short = {self.id, self.id.lower(), self.id.removeprefix("0"), self.name, self.directory, self.key,
                 self.program, str(self.copy), str(self.stub)}
        return name.rstrip("/") in short or name.endswith(f"{self.key}/{self.stub.name}")


class Result:
    """What judging a copy gave: passed, wrong, todo, broken (does not compile)."""

    def __init__(self, status, lines, exercise):
        self.status, self.lines, self.exercise = status, lines, exercise


class Track:
    def __init__(self, learn):
        self.learn = learn
        self.home = Path(os.environ.get("LEARN_HOME") or ROOT).resolve()
        self.exercises = [Exercise(topic, name, self.home) for topic, name in prove.registry()]
        self.progress_file = self.home / ".learn" / "progress.json"
        self.progress = self.read_progress()

    # ------------------------------------------------------------ progress

    def read_progress(self):
        try:
            progress = json.loads(self.progress_file.read_text(encoding="utf-8"))
            if all(isinstance(entry, dict) for entry in progress.values()):
                return progress
        except FileNotFoundError:
            return {}
        except (ValueError, AttributeError, OSError):
            pass
        self.learn.say(f"{self.shown(self.progress_file)} cannot be read; starting a new one. "
                       "Check your exercises again and it is as it was.")
        return {}

    def entry(self, exercise):
        return self.progress.setdefault(exercise.key, {})

    def save(self):
        self.progress_file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.progress_file.with_suffix(".new")
        temporary.write_text(json.dumps(self.progress, indent=1) + "\n", encoding="utf-8")
        os.replace(temporary, self.progress_file)

    @contextlib.contextmanager
    def alone(self):
        """A check in this terminal and a watch in another take turns, and see each other's progress."""
        self.progress_file.parent.mkdir(parents=True, exist_ok=True)
        with open(self.progress_file.with_name("lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.progress = self.read_progress()
            yield

    def passed(self, exercise):
        return self.progress.get(exercise.key, {}).get("status") == "passed"

    @staticmethod
    def digest(path):
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]

    # ------------------------------------------------------------ which exercise

    def find(self, name):
        """The exercise of that name; without a name the one to work on."""
        if name is None:
            return self.current()
        for exercise in self.exercises:
            if exercise.answers_to(name):
                return exercise
        raise self.learn.Stop(f"exercise {name}: accepted: "
                              + " ".join(exercise.id for exercise in self.exercises))

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
        """All exercises, from the one behind it on, and round to it at last."""
        here = self.exercises.index(exercise) + 1 if exercise else 0
        return self.exercises[here:] + self.exercises[:here]

    def shown(self, path):
        for base in (Path.cwd(), ROOT):
            if path.is_relative_to(base):
                return str(path.relative_to(base))
        return str(path)

    # ------------------------------------------------------------ commands

    def map(self, chapter):
        """The lines of a chapter's exercises, for the map."""
        for exercise in self.exercises:
            if exercise.chapter != chapter:
                continue
            entry = self.progress.get(exercise.key, {})
            mark, note = "·", ""
            if self.passed(exercise):
                mark = "✓"
                if exercise.copy.exists() and self.digest(exercise.copy) != entry.get("digest"):
                    note = "  changed since; ./learn check " + exercise.id
            elif exercise.copy.exists():
                mark, tries = "▸", entry.get("tries", 0)
                note = f"  begun, {tries} {'try' if tries == 1 else 'tries'}"
            self.learn.say(f"      {mark} {exercise.title}{note}")

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
        say(f"  read    {self.shown(exercise.here / 'README.md')}")
        say(f"  edit    {self.shown(exercise.copy)}")
        say(f"  then    ./learn check {exercise.id}   (or ./learn watch; stuck: ./learn hint {exercise.id})")
        return exercise

    def check(self, exercise):
        """Judges the copy, notes the outcome and prints it; lays out what is not there yet."""
        self.lay_out(exercise)
        with self.alone():
            digest = self.digest(exercise.copy)
            result = self.judge(exercise)
            entry = self.entry(exercise)
            if digest != self.digest(exercise.stub):
                entry["tries"] = entry.get("tries", 0) + 1
            entry["status"], entry["digest"] = result.status, digest
            self.save()
        for line in result.lines:
            self.learn.say(line)
        return result

    def hint(self, exercise):
        hints = exercise.hints
        with self.alone():
            entry = self.entry(exercise)
            seen = entry.get("hints", 0)
            number = entry["hints"] = min(seen + 1, len(hints))
            self.save()
        self.learn.say(f"Hint {number} of {len(hints)} for {exercise.title}\n\n{hints[number - 1]}\n")
        if seen >= len(hints):
            self.learn.say(f"That was the last one: ./learn solution {exercise.id}")

    def reset(self, exercise, yes):
        """The stub again. What was written is kept."""
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

    def show_solution(self, exercise, force):
        if not (force or self.entry(exercise).get("tries") or self.passed(exercise)):
            raise self.learn.Stop(f"try {exercise.id} first: ./learn check {exercise.id} "
                                  "(or --force)", 1)
        self.learn.say(f"{self.shown(exercise.solution)}\n")
        self.learn.say(exercise.solution.read_text(encoding="utf-8").rstrip("\n"))

    # ------------------------------------------------------------ build and run

    def build_directory(self):
        if self.home == ROOT:
            return self.learn.configure("release")
        directory = self.home / "build"
        if not (directory / "build.ninja").exists():
            result = subprocess.run(
                ["cmake", "-G", "Ninja", "-S", str(ROOT / "exercises"), "-B", str(directory),
                 f"-DFA_MY_EXERCISES={self.home / 'my_exercises'}"], capture_output=True, text=True)
            if result.returncode != 0:
                raise self.learn.Stop("cmake could not configure:\n" + result.stderr, 1)
        return directory

    @staticmethod
    def untouched(exercise):
        return exercise.copy.read_bytes() == exercise.stub.read_bytes()

    def not_written(self, todo, exercise):
        return Result("todo", [f"{exercise.title}: not written yet", "", f"  {todo}", "",
                               f"  read    {self.shown(exercise.here / 'README.md')}",
                               f"  edit    {self.shown(exercise.copy)}"], exercise)

    def judge(self, exercise):
        stub = exercise.stub.read_text(encoding="utf-8")
        if self.untouched(exercise) and not prove.to_mend(stub, exercise.id):
            return self.not_written(prove.todo_of(stub, exercise.id), exercise)  # nothing to build
        directory = self.build_directory()
        code, lines = self.learn.run_ninja(["ninja", "-C", str(directory), exercise.program],
                                           "Building")
        if code != 0:
            return Result("broken", self.compiler_words(lines, exercise), exercise)
        try:
            run = subprocess.run([str(directory / "bin" / exercise.program), "--reporters=verdict"],
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=ENDLESS,
                                 env={**os.environ, "EXERCISE_ANSWER": str(exercise.copy)})
        except subprocess.TimeoutExpired:
            return Result("wrong", [f"{exercise.title}: still running after {ENDLESS} s; "
                                    "is there a loop that never ends?"], exercise)
        return self.verdict(run.returncode, run.stdout.decode("utf-8", "replace"), exercise)

    def compiler_words(self, lines, exercise):
        """The compiler's errors in the learner's file, first and alone; up to three."""
        words, block = [], None  # of each diagnostic its match and the lines that belong to it
        for line in "".join(lines).splitlines():
            match = DIAGNOSTIC.match(line)
            if match:
                block = [match]
                words.append(block)
            elif block and re.match(r"^\s*\d*\s*\|", line):
                block.append(line)
            else:
                block = None
        errors = [block for block in words if "error" in block[0]["kind"]]
        own = [block for block in errors if Path(block[0]["path"]).name == exercise.copy.name]
        result = [f"{exercise.title}: does not compile", ""]
        for match, *source in (own or errors)[:3]:
            place = self.shown(exercise.copy) if own else Path(match["path"]).name
            result += [f"{place}:{match['line']}: {match['text']}"] + source + [""]
        if not own and errors:
            result.append("Your file alone is fine, but the test cannot use it: does the function "
                          "still have the name and the parameters of the stub?")
        if not errors:
            result += [line.rstrip() for line in lines][-20:]
        return result

    def verdict(self, code, output, exercise):
        """verdict.cpp's words, and where to go from there."""
        words = re.split(r"^verdict: ", output, flags=re.MULTILINE)[1:]
        first, *told = words[-1].rstrip("\n").splitlines() if words else [""]
        if first == "not written yet":
            return self.not_written(told[-1].strip(), exercise)
        if first.startswith("right ") and code == 0:
            following = [other for other in self.after(exercise) if not self.passed(other)]
            lines = [self.learn.colored(f"{exercise.title}: right", "32") + first.removeprefix("right")]
            lines += told + [f"  compare {self.shown(exercise.solution)}"]
            lines += ([f"  next    {following[0].title}: ./learn next {following[0].id}"] if following else
                      ["  that was the last one: every exercise is done"])
            return Result("passed", lines, exercise)
        untouched = self.untouched(exercise)
        lines = [self.learn.colored(f"{exercise.title}: {'not mended yet' if untouched else 'wrong'}",
                                    "31") + first.removeprefix("wrong")]
        if not words:  # it did not come to the end
            told = ["", *("  " + line for line in output.splitlines()[-10:])]
        lines += ["  " + self.learn.bold(line.strip()) if re.match(NAMED, line) else line for line in told]
        lines += ["", f"  stuck: ./learn hint {exercise.id}"]
        return Result("todo" if untouched else "wrong", lines, exercise)

    # ------------------------------------------------------------ watch

    def watch(self, exercise):
        """Judges after every save. With a terminal there are keys; without, it ends when it passes."""
        if not exercise.copy.exists():
            self.next(exercise.id)
        with Keys() as keys:
            seen = None
            while True:
                stamp = self.stamp(exercise)
                if stamp is not None and stamp != seen:
                    seen = stamp
                    if keys.terminal:
                        print("\033[2J\033[H", end="")
                    result = self.check(exercise)
                    if not keys.terminal and result.status == "passed":
                        return
                    self.learn.say(f"\nwatching {self.shown(exercise.copy)}"
                                   + ("   h: hint   n: next   q: quit" if keys.terminal else ""))
                key = keys.read(0.25)
                if key == "q":
                    return
                if key == "h":
                    self.learn.say()
                    self.hint(exercise)
                if key == "n":
                    print("\033[2J\033[H", end="")
                    exercise = self.next(after=exercise) or exercise
                    seen = self.stamp(exercise)
                    self.learn.say(f"\nwatching {self.shown(exercise.copy)}   h: hint   n: next   q: quit")

    @staticmethod
    def stamp(exercise):
        try:
            status = exercise.copy.stat()
            return status.st_mtime_ns, status.st_size, status.st_ino
        except FileNotFoundError:  # an editor is replacing it
            return None


class Keys:
    """Single keys from a terminal, without Enter; the terminal is put back at the end."""

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
