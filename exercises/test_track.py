#!/usr/bin/env python3
"""./learn's exercise track from the outside, with its state and its build in a directory of its own."""

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
import mistakes  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
KEY = "02_tiled_cpu/ex1_safe_softmax"
ANSWERS = ROOT / "solutions" / KEY


def wrong_answer(key, mistake):
    return mistakes.read(*key.split("/"))[1][mistake]


class Learn(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = Path(tempfile.mkdtemp(prefix="learn_home_"))
        cls.copy = cls.home / "my_exercises" / KEY / "safe_softmax.hpp"
        cls.environment = {**os.environ, "LEARN_HOME": str(cls.home),
                           "CMAKE_BUILD_TYPE": "None"}  # not optimized: it builds in half of the time

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.home)

    def learn(self, *arguments, code=0, answer=""):
        result = subprocess.run([str(ROOT / "learn"), *arguments], env=self.environment, cwd=ROOT,
                                input=answer, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, timeout=250)
        self.assertEqual(result.returncode, code, result.stdout)
        return result.stdout

    def progress(self):
        return json.loads((self.home / ".learn" / "progress.json").read_text())[KEY]

    def test_a_learner(self):
        """One learner, from the first look to the solution. The steps need each other."""
        pristine = (ROOT / "exercises" / KEY / "safe_softmax.hpp").read_bytes()
        output = self.learn()
        self.assertIn("· 02.1 Safe softmax", output)
        self.assertIn("  debugging\n      · D.1 A row of attention", output)
        self.assertIn("  0 of ", output)
        self.assertIn("error: exercise 99.1: accepted: 01.1 ", self.learn("check", "99.1", code=2))
        self.assertIn("not laid out yet", self.learn("reset", "02.1", code=2))
        self.assertIn("01.1 One element", self.learn("next"))
        self.assertIn("D.1 A row of attention", self.learn("next", "d.1"))

        # The stub is laid out, by check too, and fails with its TODO.
        self.assertIn("TODO(02.1): three loops", self.learn("check", "2.1", code=1))
        self.assertEqual(self.copy.read_bytes(), pristine)
        self.assertEqual([path.name for path in self.copy.parent.iterdir()], ["safe_softmax.hpp"])
        self.assertIn("edit ", self.learn("next", "02.1"))
        self.assertFalse((self.home / "build").exists())  # no compiler was needed to say so
        self.assertEqual(self.progress()["status"], "todo")
        self.assertIn("try 02.1 first", self.learn("solution", "02.1", code=1))
        self.assertIn("std::exp", self.learn("solution", "02.1", "--force"))
        self.assertIn("begun, 0 tries", self.learn())
        self.copy.write_bytes(pristine + b"// soon\n")
        self.assertIn("TODO(02.1): three loops", self.learn("check", "2.1", code=1))

        # What does not compile: the learner's error comes first, and no other line of the compiler.
        self.copy.write_text(pristine.decode().replace("exercise::todo(", "float m = max_of(x);\n("))
        output = self.learn("check", "02.1", code=1)
        lines = [line for line in output.splitlines() if line and not line.startswith("Building")]
        self.assertEqual(lines[0], "02.1 Safe softmax: does not compile")
        self.assertRegex(lines[1], r"safe_softmax.hpp:14: .*max_of")
        self.assertNotIn("test.cpp", output)
        self.assertNotIn("FAILED", output)
        self.assertEqual(self.progress()["status"], "broken")
        # It is no part of what ./learn test builds.
        everything = subprocess.run(["ninja", "-C", str(self.home / "build"), "-t", "query", "all"],
                                    capture_output=True, text=True, check=True).stdout
        self.assertIn("exercise_02.1", everything)
        self.assertNotIn("ex02.1_safe_softmax", everything)
        self.copy.write_text(pristine.decode().replace("safe_softmax(", "soft_max("))
        self.assertIn("the test cannot use it", self.learn("check", "02.1", code=1))

        # A wrong answer is told what it looks like; there are two hints, one after the other.
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
        output = self.learn()
        self.assertIn("✓ 02.1 Safe softmax", output)
        self.assertIn("  1 of ", output)

        # Edited since: said, not forgotten. A broken progress file is not the end.
        self.copy.write_text(self.copy.read_text() + "// mine\n")
        self.assertIn("changed since", self.learn())
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
        self.assertNotIn("✓", self.learn())
        self.assertEqual((ROOT / "exercises" / KEY / "safe_softmax.hpp").read_bytes(), pristine)

        self.a_program_to_mend()
        self.watch_on_a_terminal()

    def a_program_to_mend(self):
        """Its test shows what it sees from the first check on, and tells a mistake from the stub."""
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

    def watch_on_a_terminal(self):
        """Save, be judged, ask for a hint, go on, quit: with keys, as on a real terminal."""
        try:
            leader, follower = pty.openpty()
        except OSError as error:  # a bare container
            self.skipTest(f"watch needs a terminal: {error}; the steps before it passed")
        process = subprocess.Popen([str(ROOT / "learn"), "watch", "02.1"], env=self.environment,
                                   cwd=ROOT, stdin=follower, stdout=follower, stderr=follower)
        os.close(follower)
        self.shown = ""

        def until(text):
            deadline = time.monotonic() + 120
            while text not in self.shown:
                self.assertLess(time.monotonic(), deadline, f"no {text!r} in:\n{self.shown}")
                if select.select([leader], [], [], 1)[0]:
                    self.shown += os.read(leader, 4096).decode("utf-8", "replace")
            self.shown = self.shown.split(text, 1)[1]

        try:
            until("TODO(02.1)")
            until("q: quit")
            self.copy.write_text(wrong_answer(KEY, "max-outside-exponent"))
            until("looks like: max-outside-exponent")
            until("q: quit")
            os.write(leader, b"h")
            until("Hint 2 of 2")
            shutil.copy(ANSWERS / "safe_softmax.hpp", self.copy)
            until(": right")
            until("q: quit")
            os.write(leader, b"n")
            until("edit ")
            until("q: quit")
            os.write(leader, b"q")
            self.assertEqual(process.wait(timeout=20), 0)
        finally:
            process.kill()
            process.wait()
            os.close(leader)


if __name__ == "__main__":
    unittest.main()
