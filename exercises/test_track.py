#!/usr/bin/env python3
"""./learn's exercise track from the outside, with its state and its build in a separate directory."""

import contextlib
import json
import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "docs" / "figures"))
import mistakes  # noqa: E402
import recording  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
BUILT = os.environ.get("FA_BINARY_DIR", "/none")
KEY = "02_tiled_cpu/ex1_safe_softmax"
ANSWERS = ROOT / "solutions" / KEY


def wrong_answer(key, mistake):
    return mistakes.read(*key.split("/"))[1][mistake]


class Learn(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = Path(tempfile.mkdtemp(prefix="learn_home_"))
        cls.copy = cls.home / "my_exercises" / KEY / "safe_softmax.hpp"
        launcher = cls.home / "launcher"  # the compiler, which fails if a file says how
        launcher.write_text(f"""#!/bin/sh
[ ! -e {cls.home}/disk_is_full ] || {{ echo "cc1plus: error: writing: No space left on device"; exit 1; }}
[ ! -e {cls.home}/broken_test ] || set -- "$@" -Dcheck_softmax=7
set -- {os.environ.get("CMAKE_CXX_COMPILER_LAUNCHER", "")} "$@"
output=$(echo "$*" | sed -nE 's/.* -o ([^ ]+).*/\\1/p')
case "$output" in common/*|chapters/*|CMakeFiles/fa_*|exercises/CMakeFiles/exercise_*) ;; *) exec "$@";; esac
# What is not the learner's is taken from the build that this test belongs to, or compiled once, also for a copied
# build folder.
place=${{PWD%/build*}}
built={BUILT}/$output
kept={cls.home}/objects/$(echo "$*" | sed "s,$place,,g" | md5sum | cut -c1-32)
if [ -e "$built" ]; then
  cp "$built" "$output" && echo "$output:" > "$output.d"
elif [ -e "$kept.o" ]; then
  cp "$kept.o" "$output" && sed "s,@HOME@,$place,g" "$kept.d" > "$output.d"
else
  "$@" && mkdir -p {cls.home}/objects && cp "$output" "$kept.o" && sed "s,$place,@HOME@,g" "$output.d" > "$kept.d"
fi
""")
        launcher.chmod(0o755)
        cls.environment = {**os.environ, "LEARN_HOME": str(cls.home),
                           "CMAKE_CXX_COMPILER_LAUNCHER": str(launcher)}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.home)

    def learn(self, *arguments, code=0, answer=""):
        result = subprocess.run([str(ROOT / "learn"), *arguments], env=self.environment, cwd=ROOT,
                                input=answer, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, timeout=550)
        self.assertEqual(result.returncode, code, result.stdout)
        return result.stdout

    def progress(self):
        return json.loads((self.home / ".learn" / "progress.json").read_text())[KEY]

    def test_a_learner(self):
        """One learner, from the first look to the solution. The steps need each other."""
        pristine = (ROOT / "exercises" / KEY / "safe_softmax.hpp").read_bytes()
        output = self.learn("map")
        self.assertIn("· 02.1 Safe softmax", output)
        self.assertRegex(output, r"\nDebugging .*\n      · D.1 A row of attention")
        self.assertIn("  0 of ", output)
        self.the_map_fits_on_a_screen(part="The algorithm", exercise="01.1 One element")
        self.assertIn("error: exercise 12.11: there is none; did you mean 12.1?",
                      self.learn("check", "12.11", code=2))
        for meant, words in (("check", ["chek", "02.1"]), ("run 05", ["05"]), ("check D.1", ["D.1"])):
            output = self.learn(*words, code=2)
            self.assertIn(f"there is no such command; did you mean ./learn {meant}?\n", output)
            self.assertEqual(output.count("\n"), 1)
        for words, said in ((["run", "05", "--devise", "gpu"], "did you mean --device?"),
                            (["map", "--devise=gpu"], "./learn map --help lists them")):
            self.assertEqual(f"error: --devise: there is no such option; {said}\n", self.learn(*words, code=2))
        self.assertIn("not laid out yet", self.learn("reset", "02.1", code=2))
        self.assertIn("01.1 One element", self.learn("next"))
        self.assertIn("D.1 A row of attention", self.learn("next", "d.1"))

        # The stub is laid out, by check too, and fails with its TODO.
        self.assertIn("TODO(02.1): three loops", self.learn("check", "2.1", code=1))
        self.assertEqual(self.copy.read_bytes(), pristine)
        self.assertEqual([path.name for path in self.copy.parent.iterdir()], ["safe_softmax.hpp"])
        self.assertIn("  edit", self.learn("next", "02.1"))
        self.assertFalse((self.home / "build").exists())  # no compiler was needed to say so
        self.assertEqual(self.progress()["status"], "todo")
        self.assertIn("try 02.1 first", self.learn("solution", "02.1", code=1))
        self.assertIn("std::exp", self.learn("solution", "02.1", "--force"))
        self.assertIn("begun, 0 tries", self.learn("map"))
        self.copy.write_bytes(pristine + b"// soon\n")
        self.assertIn("TODO(02.1): three loops", self.learn("check", "2.1", code=1))

        # A file that does not compile, where the learner's error comes first, and no other line of the compiler.
        self.copy.write_text(pristine.decode().replace("exercise::todo(", "float m = max_of(x);\n("))
        output = self.learn("check", "02.1", code=1)
        lines = [line for line in output.splitlines() if line and not line.startswith("Building")]
        self.assertEqual(lines[0], "02.1 Safe softmax: does not compile")
        self.assertRegex(lines[1], r"safe_softmax.hpp:14: .*max_of")
        self.assertNotIn("test.cpp", output)
        self.assertNotIn("FAILED", output)
        self.assertEqual(self.progress()["status"], "broken")
        # It is no part of what ./learn test builds.
        everything = subprocess.run(["ninja", "-C", str(self.home / "build"), "-t", "query", "exercises/all"],
                                    capture_output=True, text=True, check=True).stdout
        self.assertIn("exercise_02.1", everything)
        self.assertNotIn("ex02.1_safe_softmax", everything)
        self.copy.write_text(pristine.decode().replace("safe_softmax(", "soft_max("))
        self.assertIn("the test cannot use it", self.learn("check", "02.1", code=1))

        # A wrong answer is told what it looks like, and there are two hints, one after the other.
        self.copy.write_text(wrong_answer(KEY, "no-max"))
        output = self.learn("check", "safe_softmax", code=1)
        self.assertIn("looks like: no-max: ", output)
        self.assertIn("a[2]: expected 1, got NaN", output)
        self.assertIn("Hint 1 of 2", self.learn("hint", "02.1"))
        self.assertIn("Hint 2 of 2", self.learn("hint", "02.1"))
        self.assertIn("That was the last one", self.learn("hint", "02.1"))

        # The solution passes and counts.
        shutil.copy(ANSWERS / "safe_softmax.hpp", self.copy)
        output = self.learn("check", "02.1")
        self.assertIn("02.1 Safe softmax: right", output)
        self.assertIn("./learn next 02.2", output)
        self.assertIn("02.2 Online softmax", self.learn("next"))
        self.assertEqual(self.progress()["status"], "passed")
        output = self.learn("map")
        self.assertIn("✓ 02.1 Safe softmax", output)
        self.assertIn("  1 of ", output)

        # Edited since, which is said and not forgotten. A broken progress file is not the end.
        self.copy.write_text(self.copy.read_text() + "// mine\n")
        self.assertIn("changed since", self.learn("map"))
        state = self.home / ".learn" / "progress.json"
        before = state.read_text()
        state.write_text("{")
        self.assertIn("cannot be read", self.learn())
        state.write_text(before)

        # reset asks, and keeps what was written.
        mine = self.copy.read_bytes()
        self.assertIn("nothing was changed", self.learn("reset", "02.1", code=1, answer="n\n"))
        self.assertEqual(self.copy.read_bytes(), mine)
        self.learn("reset", "02.1", answer="y\n")
        self.assertEqual(self.copy.read_bytes(), pristine)
        backup = self.home / ".learn" / "backups" / KEY / "1_safe_softmax.hpp"
        self.assertEqual(backup.read_bytes(), mine)
        self.assertIn("the stub already", self.learn("reset", "02.1", "--yes"))
        self.copy.write_bytes(mine + b"// again\n")
        self.learn("reset", "02.1", "--yes")
        self.assertEqual(backup.read_bytes(), mine)
        self.assertTrue(backup.with_name("2_safe_softmax.hpp").exists())
        self.assertNotIn("✓", self.learn("map"))
        self.assertEqual((ROOT / "exercises" / KEY / "safe_softmax.hpp").read_bytes(), pristine)

        self.a_program_to_mend()
        self.what_is_in_the_file_decides()
        self.answers_that_end_the_program()
        self.what_the_compiler_cannot_read()
        self.failures_that_are_not_the_learners()
        self.watch_on_a_terminal()
        self.a_save_ends_the_run_before()
        self.ended_from_outside()
        self.copied_and_moved()

    def the_map_fits_on_a_screen(self, part, exercise):
        """The part that the learner is at is open, the others are a line each."""
        for output in (self.learn(), self.learn("map"), self.learn("help")):
            self.assertLessEqual(max(map(len, output.splitlines())), 80, output)
        output = self.learn()
        self.assertLessEqual(len(output.splitlines()), 40, output)
        self.assertRegex(output, rf"\n{part} .* exercises\n  \d\d_")
        self.assertIn(exercise, output)

    def a_program_to_mend(self):
        """Its test shows the results since the first check, and tells a mistake from the stub."""
        output = self.learn("check", "D.3", code=1)
        self.assertIn("D.3 Sums that are right today: not mended yet", output)
        self.assertIn("read_before_barrier", output)
        self.assertNotIn("not written yet", output)
        copy = self.home / "my_exercises/debugging/ex3_sum_tiles/sum_tiles.hpp"
        copy.write_text(wrong_answer("debugging/ex3_sum_tiles", "one-barrier"))
        output = self.learn("check", "D.3", code=1)
        self.assertIn("D.3 Sums that are right today: wrong", output)
        self.assertIn("overwrite_while_read", output)
        self.assertIn("looks like: one-barrier: ", output)

    def write(self, statement):
        """The solution with a statement more at the beginning of the function."""
        text = (ANSWERS / "safe_softmax.hpp").read_text().replace("  float m", f"  {statement}\n  float m")
        self.copy.write_text("#include <cstdio>\n#include <cstdlib>\n#include <fstream>\n"
                             "#include <unistd.h>\n" + text)

    def what_is_in_the_file_decides(self):
        """A restored backup is older than the program that was built meanwhile."""
        self.write("")
        self.assertIn(": right", self.learn("check", "02.1"))
        self.copy.write_text(wrong_answer(KEY, "no-max"))
        os.utime(self.copy, (1e9, 1e9))
        self.assertIn("looks like: no-max: ", self.learn("check", "02.1", code=1))
        shutil.copy(ANSWERS / "safe_softmax.hpp", self.copy)
        os.utime(self.copy, (1e9, 1e9))
        self.assertIn(": right", self.learn("check", "02.1"))

    def answers_that_end_the_program(self):
        """By which signal or how, in which test case, and their output."""
        for statement, told in (
                ("*(volatile int*)nullptr = 1;", "it crashed with SIGSEGV"),
                ("safe_softmax(x, a);", "it crashed with SIGSEGV"),
                ("std::abort();", "it crashed with SIGABRT"),
                ("std::exit(0);", "it ended the program, with exit code 0,"),
                ("_exit(3);", "it ended the program, with exit code 3,"),
                ("for (;;) std::printf(\"again%6000s\\n\", \"\");", "it printed more than 64 MB")):
            with self.subTest(statement):
                self.write('std::printf("here\\n"); ' + statement)
                output = self.learn("check", "02.1", code=1)
                self.assertIn("02.1 Safe softmax: wrong: " + told, output)
                self.assertIn("in the test case: 1 to 6\n", output)
                self.assertIn("your code printed:\n    " + ("again" if "again" in statement else "here"),
                              output)
                self.assertEqual(self.progress()["status"], "wrong")
        self.write('std::printf("no newline");')
        output = self.learn("check", "02.1")
        self.assertIn(": right (9 test cases)", output)
        self.assertIn("no newline", output)

    def what_the_compiler_cannot_read(self):
        """An error at the end of a file appears only after it, and is reported in the file itself."""
        self.copy.write_text((ANSWERS / "safe_softmax.hpp").read_text().rstrip().removesuffix("}"))
        output = self.learn("check", "02.1", code=1)
        self.assertRegex(output, r"does not compile\n\n\S*safe_softmax.hpp:\d+: expected .}.")
        self.assertNotIn("test.cpp", output)
        self.copy.write_text("\n")
        output = self.learn("check", "02.1", code=1)
        self.assertIn("the file is empty", output)
        self.assertIn("./learn reset 02.1", output)
        self.assertEqual(self.progress()["status"], "broken")

    def failures_that_are_not_the_learners(self):
        self.write("")
        for reason, shown in (("disk_is_full", "No space left on device"),
                              ("broken_test", "test.cpp:")):
            (self.home / reason).touch()
            os.utime(self.copy)
            output = self.learn("check", "02.1", code=2)
            (self.home / reason).unlink()
            self.assertIn("could not be built, and your file is not the reason", output)
            self.assertIn(shown, output)
            self.assertNotIn("does not compile", output)
        self.assertIn(": right", self.learn("check", "02.1"))

    def endless(self):
        """Writes an answer that never ends and leaves its process id in a file."""
        flag = self.home / "pid"
        flag.unlink(missing_ok=True)
        self.write(f'{{ std::ofstream f("{flag}.new"); f << getpid() << std::flush; }} '
                   f'std::rename("{flag}.new", "{flag}"); for (;;) usleep(1000);')
        return flag

    def wait_for(self, what, that):
        deadline = time.monotonic() + 120
        while not that():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)

    def wait_for_end(self, pid):
        self.wait_for(f"process {pid} to end", lambda: not Path(f"/proc/{pid}/cmdline").exists()
                      or not Path(f"/proc/{pid}/cmdline").read_bytes())

    def a_save_ends_the_run_before(self):
        """While an answer runs that never ends, watch gives hints, checks a new save, and quits at q."""
        flag = self.endless()
        with self.on_a_terminal("watch", "02.1") as (until, press, _):
            self.wait_for("the answer to run", flag.exists)
            press(b"h")
            until("Hint 2 of 2")
            first = int(flag.read_text())
            shutil.copy(ANSWERS / "safe_softmax.hpp", self.copy)
            until(": right")
            self.wait_for_end(first)
            flag = self.endless()
            self.wait_for("the answer to run", flag.exists)
            press(b"q")
        self.wait_for_end(int(flag.read_text()))
        self.assertNotIn("still running", self.shown)

    def ended_from_outside(self):
        """As `timeout` does, so that the processes that learn has started end with it."""
        flag = self.endless()
        process = subprocess.Popen([str(ROOT / "learn"), "check", "02.1"], env=self.environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.wait_for("the answer to run", flag.exists)
        process.terminate()
        output = process.communicate(timeout=60)[0]
        self.assertEqual(process.returncode, 143, output)
        self.assertNotIn("Traceback", output)
        self.wait_for_end(int(flag.read_text()))

    def copied_and_moved(self):
        """A build folder that comes along names the place it was made in, and is made anew."""
        shutil.copy(ANSWERS / "safe_softmax.hpp", self.copy)
        self.assertIn(": right", self.learn("check", "02.1"))
        with tempfile.TemporaryDirectory() as folder:
            copied, moved = Path(folder) / "copied", Path(folder) / "moved"
            shutil.copytree(self.home, copied, symlinks=True)
            there = copied / self.copy.relative_to(self.home)
            there.write_text(wrong_answer(KEY, "no-max"))
            self.environment["LEARN_HOME"] = str(copied)
            output = self.learn("check", "02.1", code=1)
            self.assertIn(f"build/ was made for {self.home}", output)
            self.assertIn("looks like: no-max: ", output)
            copied.rename(moved)
            self.environment["LEARN_HOME"] = str(moved)
            self.assertIn("looks like: no-max: ", self.learn("check", "02.1", code=1))
            self.environment["LEARN_HOME"] = str(self.home)
        self.assertIn(": right", self.learn("check", "02.1"))

    def test_the_recording_of_a_check(self):
        """docs/figures/check.svg, on the first page, shows what ./learn check prints now."""
        recorded = recording.svg(recording.scenes(self.home, self.environment))
        self.assertEqual(recorded, recording.PICTURE.read_text(encoding="utf-8"),
                         "docs/figures/recording.py records it again")

    def test_a_folder_that_cannot_be_written(self):
        """One sentence says what to do."""
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            here = Path(folder) / "checkout"
            here.mkdir()
            shutil.copy(ROOT / "learn", here)
            shutil.copytree(ROOT / "exercises", here / "exercises", ignore=shutil.ignore_patterns("*.pyc"))
            (here / "docs").mkdir()
            shutil.copy(ROOT / "docs" / "lesson_pages.py", here / "docs")
            here.chmod(0o555)
            environment = {key: value for key, value in os.environ.items() if key != "LEARN_HOME"}
            other = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
            for command in (["next", "02.1"], ["check", "02.1"]):
                run = subprocess.run([sys.executable, "-B", str(here / "learn"), *command], env=environment,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **other)
                self.assertEqual(run.returncode, 2, run.stdout)
                self.assertRegex(run.stdout, r"^error: \S+: Permission denied; LEARN_HOME=FOLDER .*\n$")
            here.chmod(0o755)
            run = subprocess.run([sys.executable, "-B", str(here / "learn"), "next", "02.1"],
                                 env={**environment, "LEARN_HOME": "/proc/none"}, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True)
            self.assertEqual(run.returncode, 2, run.stdout)
            self.assertRegex(run.stdout, r"^error: /proc/none: No such file or directory; LEARN_HOME=FOLDER .*\n$")

    def test_a_plain_terminal(self):
        """Latin-1 has no ✓ and no ▸, and NO_COLOR and TERM=dumb say what a terminal takes."""
        with tempfile.TemporaryDirectory() as folder:
            environment = {**self.environment, "LEARN_HOME": folder, "PYTHONIOENCODING": "latin-1"}
            outputs = [subprocess.run([str(ROOT / "learn"), *command], env=environment, check=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
                       for command in (["next", "02.1"], ["map"])]
        self.assertIn("> 02.1 Safe softmax", outputs[1].decode("latin-1"))  # begun
        for key, value in (("NO_COLOR", "1"), ("TERM", "dumb"), ("TERM", "xterm")):
            self.environment[key], before = value, self.environment.get(key)
            with self.on_a_terminal("map") as (until, _, __):
                until("./learn help")
            self.environment[key] = before
            if before is None:
                del self.environment[key]
            self.assertEqual("\033" in self.shown_before, value == "xterm", key)

    @contextlib.contextmanager
    def on_a_terminal(self, *arguments):
        """Runs learn on a separate terminal: (wait until it shows a text, press keys, the process)."""
        try:
            leader, follower = pty.openpty()
        except OSError as error:  # a bare container
            self.skipTest(f"this needs a terminal: {error}; the steps before it passed")
        process = subprocess.Popen([str(ROOT / "learn"), *arguments], env=self.environment,
                                   cwd=ROOT, stdin=follower, stdout=follower, stderr=follower)
        os.close(follower)
        self.shown = self.shown_before = ""

        def until(text):
            deadline = time.monotonic() + 120
            while text not in self.shown:
                self.assertLess(time.monotonic(), deadline, f"no {text!r} in:\n{self.shown}")
                if select.select([leader], [], [], 1)[0]:
                    self.shown += os.read(leader, 4096).decode("utf-8", "replace")
            before, self.shown = self.shown.split(text, 1)
            self.shown_before += before

        try:
            yield until, lambda keys: os.write(leader, keys), process
            self.assertEqual(process.wait(timeout=20), 0)
        finally:
            process.kill()
            process.wait()
            os.close(leader)

    def watch_on_a_terminal(self):
        """Save, be checked, request a hint, continue, quit: with keys, as on a real terminal."""
        self.copy.write_bytes((ROOT / "exercises" / KEY / "safe_softmax.hpp").read_bytes())
        with self.on_a_terminal("watch", "02.1") as (until, press, _):
            until("TODO(02.1)")
            until("q: quit")
            self.copy.write_text(wrong_answer(KEY, "max-outside-exponent"))
            until("looks like: max-outside-exponent")
            until("q: quit")
            press(b"h")
            until("Hint 2 of 2")
            shutil.copy(ANSWERS / "safe_softmax.hpp", self.copy)
            until(": right")
            until("q: quit")
            press(b"n")
            until("edit ")
            until("q: quit")
            press(b"q")


if __name__ == "__main__":
    unittest.main()
