#!/usr/bin/env python3
"""The proofs of prove.py can fail: each is shown what it must reject."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import mistakes  # noqa: E402
import prove  # noqa: E402

PASSED = ("[doctest] test cases: 2 | 2 passed\n[doctest] assertions: 5 | 5 passed | 0 failed |\n"
          "[doctest] Status: SUCCESS!\n")
TODO = "TODO(09.1): write it"


class Judging(unittest.TestCase):
    def test_solution(self):
        self.assertIsNone(prove.judge_solution(0, PASSED))
        self.assertIsNotNone(prove.judge_solution(1, PASSED))
        self.assertIsNotNone(prove.judge_solution(-11, ""))
        self.assertIsNotNone(prove.judge_solution(0, ""))
        nothing_ran = PASSED.replace("assertions: 5 | 5", "assertions: 0 | 0")
        self.assertIsNotNone(prove.judge_solution(0, nothing_ran))
        self.assertIsNotNone(prove.judge_solution(0, PASSED + "looks like: no-max: it overflows\n"))

    def test_stub(self):
        output = f"ERROR: test case THREW exception: {TODO}\nnot written yet: {TODO}\n"
        self.assertIsNone(prove.judge_stub(1, output, TODO))
        self.assertIsNotNone(prove.judge_stub(0, output, TODO))
        self.assertIsNotNone(prove.judge_stub(-6, output, TODO))
        self.assertIsNotNone(prove.judge_stub(99, output, TODO))
        self.assertIsNotNone(prove.judge_stub(1, "segmentation fault", TODO))
        self.assertIsNotNone(prove.judge_stub(1, output.replace("09.1", "09.2"), TODO))
        self.assertIsNotNone(prove.judge_stub(1, f"ERROR: {TODO}\n", TODO))  # said, not thrown

    def test_stub_to_mend(self):
        self.assertEqual(prove.unwritten(f"x\nnot written yet: {TODO}\n"), TODO)
        self.assertIsNone(prove.unwritten(f"logged: {TODO}\n"))  # said, not thrown
        self.assertIsNone(prove.judge_stub(1, "ERROR: o is wrong\n", None))
        self.assertIsNotNone(prove.judge_stub(1, "", None))
        self.assertIsNotNone(prove.judge_stub(0, "", None))
        self.assertIsNotNone(prove.judge_stub(-11, "ERROR: o is wrong\n", None))
        self.assertIsNotNone(prove.judge_stub(1, f"ERROR: o\nnot written yet: {TODO}\n", None))
        self.assertIsNotNone(prove.judge_stub(1, "ERROR: o\nlooks like: no-max: it grows\n", None))
        self.assertTrue(prove.to_mend("// TODO(D.1): mend it\n", "D.1"))
        self.assertFalse(prove.to_mend('exercise::todo("TODO(02.1): write it");\n', "02.1"))

    def test_wrong_answer(self):
        named = "looks like: no-max: it overflows\n"
        self.assertIsNone(prove.judge_wrong(1, named, "no-max"))
        self.assertIsNotNone(prove.judge_wrong(0, named, "no-max"))
        self.assertIsNotNone(prove.judge_wrong(-11, named, "no-max"))
        self.assertIsNotNone(prove.judge_wrong(1, named, "no-rescale"))
        self.assertIsNotNone(prove.judge_wrong(1, "a[0] is wrong", "no-max"))
        self.assertIsNotNone(prove.judge_wrong(1, "looks like: no-max:\n", "no-max"))
        both = named + "looks like: no-rescale: the old sum stays\n"
        self.assertIsNotNone(prove.judge_wrong(1, both, "no-max"))
        self.assertIsNotNone(prove.judge_wrong(1, both.replace("looks like: ", "could be "), "no-max"))
        self.assertIsNotNone(prove.judge_wrong(1, named + f"not written yet: {TODO}\n", "no-max"))

    def test_mistakes(self):
        shows, answer = "told by what it shows: no-max\n", "told by an answer: too-long\n"
        self.assertIsNone(prove.judge_mistakes(shows + answer, ["no-max", "too-long"]))
        self.assertIsNone(prove.judge_mistakes(shows + answer, ["too-long"]))
        self.assertIsNone(prove.judge_mistakes(shows + answer, ["no-max"], ["too-long"]))
        self.assertIsNotNone(prove.judge_mistakes(shows + answer, ["no-max"]))
        self.assertIsNotNone(prove.judge_mistakes(shows, ["no-rescale"]))
        self.assertIsNotNone(prove.judge_mistakes(shows + "never shows: no-max\n", []))
        self.assertIsNotNone(prove.judge_mistakes(shows + "the same: no-max, no-rescale\n", []))

    def test_programs_are_run(self):
        code, output = prove.run("/bin/echo")
        self.assertEqual((code, output), (0, "--no-version\n"))
        self.assertEqual(prove.run("/bin/false")[0], 1)


SOLUTION = """#pragma once
#include <cmath>

// 4 >= 3; a comment.
constexpr int ROWS = 4;

// The larger one; { is no brace here.
inline int larger(int a, int b) { return a < b ? b : a; }

struct Sum {
  int total = 0;
  // Adds.
  void add(int x) {
    if (x > ROWS) total += x;
  }
};
"""


class Mistakes(unittest.TestCase):
    def answers(self, text):
        return {name: mistakes.apply(SOLUTION, places, name)
                for name, places in mistakes.parse(text).items()}

    def refused(self, text):
        with self.assertRaises(mistakes.BadEdit) as caught:
            mistakes.proof_header(SOLUTION, self.answers(text), "sum.hpp")
        return str(caught.exception)

    def test_edits(self):
        answers = self.answers("# Two.\na\n   void add(int x) {\n-    if (x > ROWS) total += x;\n"
                               "+    total += x;\n\nb\n-constexpr int ROWS = 4;\n@@\n   // Adds.\n+\n")
        self.assertEqual(answers["a"], SOLUTION.replace("if (x > ROWS) ", ""))
        self.assertEqual(answers["b"], SOLUTION.replace("constexpr int ROWS = 4;\n", "")
                         .replace("  // Adds.\n", "  // Adds.\n\n"))

    def test_edits_that_do_not_match_once(self):
        self.assertIn("found 0 times", self.refused("a\n-constexpr int ROWS = 5;\n"))
        self.assertIn("found 0 times", self.refused("a\n-constexpr int ROWS =\n"))  # whole lines only
        self.assertIn("found 3 times", self.refused("a\n-\n+int i;\n"))
        self.assertIn("order", self.refused("a\n-  int total = 0;\n@@\n-constexpr int ROWS = 4;\n"))
        self.assertIn("order", self.refused("a\n-  int total = 0;\n@@\n-  int total = 0;\n   // Adds.\n"))
        self.assertIn("a change", self.refused("a\n   int total = 0;\n"))
        self.assertIn("a change", self.refused("a\n+int i;\n"))
        self.assertIn("a change", self.refused("a\n"))

    def test_texts_that_are_no_edits(self):
        self.assertIn("line 1: expected the name", self.refused("-constexpr int ROWS = 4;\n"))
        self.assertIn("line 3: there are two", self.refused("a\n-  int total = 0;\na\n"))
        self.assertIn("line 2: expected a line that begins", self.refused("a\n*int i;\n"))

    def test_header(self):
        """All answers behave in one program as each does alone."""
        text = ("too-many\n-    if (x > ROWS) total += x;\n+    total += x;\n\n"
                "smaller\n-inline int larger(int a, int b) { return a < b ? b : a; }\n"
                "+inline int larger(int a, int b) { return a < b ? a : b; }\n\n"
                "rows\n-constexpr int ROWS = 4;\n+constexpr int ROWS = 5;\n\n"
                "includes\n-#include <cmath>\n+#include <algorithm>\n@@\n"
                "-inline int larger(int a, int b) { return a < b ? b : a; }\n"
                "+inline int larger(int a, int b) { return std::max(a, b) + 1; }\n")
        answers = {"stub": SOLUTION.replace("if (x > ROWS) total += x", "throw TODO")
                   .replace("inline int larger(int a, int b) { return a < b ? b : a; }\n", ""),
                   **self.answers(text)}
        header = mistakes.proof_header(SOLUTION, answers, "sum.hpp")
        self.assertEqual(header.count("total += x;"), 2)
        self.assertEqual(header.count("inline int larger"), 1)
        self.assertIn("throw TODO;", header)
        self.assertIn("#include <algorithm>\n#include <cmath>\n", header)
        self.assertRegex(header, r"const int ROWS = exercise_answer == 4 \? \(5\) : \(4\);")
        self.assertRegex(header, r'(?s)== 2\) \{  // too-many\n#line 13 "sum.hpp"\n\n    total \+= x;')

    def test_header_of_what_cannot_be_told_apart(self):
        self.assertIn("a changes more", self.refused("a\n-  int total = 0;\n+  int total = 1;\n"))
        self.assertIn("a changes more", self.refused("a\n-  void add(int x) {\n+  void add(long x) {\n"))
        self.assertIn("a has what", self.refused("a\n };\n+inline int more() { return 1; }\n"))


class Texts(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        self.files = {
            "exercises/CMakeLists.txt": "exercise(09_topic ex1_thing)\n",
            "exercises/09_topic/ex1_thing/README.md":
                "# 09.1 Thing\n**You know:** **You write:** **Run:** **Expected:**\n",
            "exercises/09_topic/ex1_thing/hints.md": "## Hint 1\n\nA\n\n## Hint 2\n\nB\n",
            "exercises/09_topic/ex1_thing/thing.hpp": f'exercise::todo("{TODO}");\n',
            "exercises/09_topic/ex1_thing/test.cpp": '{{"no-max", a, "b"}, {"no-rescale", c, "d"}}\n',
            "solutions/09_topic/ex1_thing/thing.hpp": "done\n",
            "solutions/09_topic/ex1_thing/mistakes.txt": "no-max\n-done\n+wrong\n\nno-rescale\n-done\n",
        }
        for path, text in self.files.items():
            self.write(path, text)

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def problems(self):
        return prove.missing_texts("09_topic", "ex1_thing", self.root)

    def test_complete(self):
        self.assertEqual(self.problems(), [])
        self.assertEqual(prove.todo_of(f'exercise::todo("{TODO}");', "09.1"), TODO)

    def test_each_file_is_needed(self):
        for path in self.files:
            if path.endswith("CMakeLists.txt"):
                continue
            with self.subTest(path):
                (self.root / path).unlink()
                self.assertNotEqual(self.problems(), [])
                self.write(path, self.files[path])

    def test_defects(self):
        here = "exercises/09_topic/ex1_thing/"
        for path, text in [(here + "README.md", "# 09.2 Thing"), (here + "hints.md", "## Hint 1\n\nA\n"),
                           (here + "hints.md", "## Hint 1\n\n## Hint 2\n\n"),
                           (here + "thing.hpp", "// nothing to do\n"),
                           (here + "thing.hpp", self.files[here + "thing.hpp"] + 60 * "\n"),
                           ("solutions/09_topic/ex1_thing/thing.hpp", TODO),
                           ("solutions/09_topic/ex1_thing/thing.hpp", "#include <cmath>\ndone\n"),
                           ("solutions/09_topic/ex1_thing/mistakes.txt", "no-max\n-done\n"),
                           ("solutions/09_topic/ex1_thing/mistakes.txt", "a\n-done\n\nb\n-doone\n")]:
            with self.subTest(path):
                self.write(path, text)
                self.assertNotEqual(self.problems(), [])
                self.write(path, self.files[path])

    def test_formatting(self):
        self.write("exercises/09_topic/ex1_thing/test.cpp", "int main() { return 0; }\n")
        self.write("solutions/09_topic/ex1_thing/thing.hpp", "int i;\n")
        self.write("exercises/09_topic/ex1_thing/thing.hpp", "int i;\n")
        self.assertFalse(prove.misformatted(self.root))
        self.write("exercises/09_topic/ex1_thing/thing.hpp", "int   i ;\n")
        self.assertNotEqual(prove.misformatted(self.root), "")  # None: no clang-format here

    def test_identifiers(self):
        self.assertEqual(prove.identifier("02_tiled_cpu", "ex1_safe_softmax"), ("02.1", "safe_softmax"))
        self.assertEqual(prove.identifier("debugging", "ex12_thing"), ("D.12", "thing"))

    def test_registry(self):
        self.assertEqual(prove.registry(self.root), [("09_topic", "ex1_thing")])
        self.assertEqual(prove.prove_track(self.root), [])
        self.write("exercises/09_topic/ex2_unlisted/README.md", "")
        self.assertNotEqual(prove.prove_track(self.root), [])
        self.write("exercises/CMakeLists.txt", "")
        self.assertNotEqual(prove.prove_track(self.root), [])


if __name__ == "__main__":
    unittest.main()
