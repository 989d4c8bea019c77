#!/usr/bin/env python3
"""The proofs of prove.py can fail, because each is shown what it must reject."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import mistakes  # noqa: E402
import prove  # noqa: E402

TODO = "TODO(09.1): write it"


def verdict(word, **more):
    return {"verdict": word, "todo": "", "mistakes": [], "text": word + " (2 test cases)\n",
            "told_by_an_answer": [], "told_by_what_it_shows": [], "unproved": [], **more}


class Judging(unittest.TestCase):
    def test_output_is_read(self):
        output = ('2 + 2\x1e{"case": "a \\"row\\""}\n= 5\n\x1e{"verdict": "wrong", "text": "wrong\\n  o: 5\\n"}\n')
        self.assertEqual(prove.read(output), ("2 + 2= 5\n", {"verdict": "wrong", "text": "wrong\n  o: 5\n"}))
        for ended_early in ("", "verdict: right\n", output.partition("= 5")[0], output[:-1]):
            self.assertIsNone(prove.read(ended_early)[1])

    def test_solution(self):
        self.assertIsNone(prove.judge_solution(0, verdict("right")))
        self.assertIsNotNone(prove.judge_solution(1, verdict("right")))
        self.assertIsNotNone(prove.judge_solution(-11, verdict("right")))
        self.assertIsNotNone(prove.judge_solution(0, verdict("wrong")))
        self.assertIsNotNone(prove.judge_solution(0, verdict("not written yet", todo=TODO)))

    def test_stub(self):
        thrown = verdict("not written yet", todo=TODO)
        self.assertIsNone(prove.judge_stub(1, thrown, TODO))
        for code in (0, -6, 99):
            self.assertIsNotNone(prove.judge_stub(code, thrown, TODO))
        self.assertIsNotNone(prove.judge_stub(1, verdict("wrong"), TODO))
        self.assertIsNotNone(prove.judge_stub(1, {**thrown, "todo": TODO.replace("09.1", "09.2")}, TODO))

    def test_stub_to_mend(self):
        wrong = verdict("wrong", text="wrong (0 of 1 test cases pass)\n\n  a row\n    o is wrong\n")
        self.assertIsNone(prove.judge_stub(1, wrong, None))
        self.assertIsNotNone(prove.judge_stub(1, verdict("wrong"), None))  # it does not say what is wrong
        self.assertIsNotNone(prove.judge_stub(0, wrong, None))
        self.assertIsNotNone(prove.judge_stub(-11, wrong, None))
        self.assertIsNotNone(prove.judge_stub(1, {**wrong, "todo": TODO}, None))
        self.assertIsNotNone(prove.judge_stub(1, {**wrong, "mistakes": ["no-max"]}, None))
        self.assertTrue(prove.to_mend("// TODO(D.1): mend it\n", "D.1"))
        self.assertFalse(prove.to_mend('exercise::todo("TODO(02.1): write it");\n', "02.1"))

    def test_wrong_answer(self):
        named = verdict("wrong", mistakes=["no-max"])
        self.assertIsNone(prove.judge_wrong(1, named, "no-max"))
        self.assertIsNotNone(prove.judge_wrong(0, named, "no-max"))
        self.assertIsNotNone(prove.judge_wrong(-11, named, "no-max"))
        self.assertIsNotNone(prove.judge_wrong(1, named, "no-rescale"))
        self.assertIsNotNone(prove.judge_wrong(1, verdict("wrong"), "no-max"))
        self.assertIsNotNone(prove.judge_wrong(1, {**named, "mistakes": ["no-max", "no-rescale"]}, "no-max"))
        self.assertIsNotNone(prove.judge_wrong(1, {**named, "todo": TODO}, "no-max"))

    def test_mistakes(self):
        told = verdict("right", told_by_what_it_shows=["no-max"], told_by_an_answer=["too-long"])
        self.assertIsNone(prove.judge_mistakes(told, ["no-max", "too-long"]))
        self.assertIsNone(prove.judge_mistakes(told, ["too-long"]))
        self.assertIsNone(prove.judge_mistakes(told, ["no-max"], ["too-long"]))
        self.assertIsNotNone(prove.judge_mistakes(told, ["no-max"]))
        self.assertIsNotNone(prove.judge_mistakes(told, ["no-rescale", "too-long"]))
        self.assertIsNotNone(prove.judge_mistakes({**told, "unproved": ["never shows: no-max"]}, ["too-long"]))

    def test_programs_are_run(self):
        code, output = prove.run("/bin/echo")
        self.assertEqual((code, output), (0, "--reporters=verdict\n"))
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
        self.assertNotEqual(prove.misformatted(self.root), "")  # None without clang-format

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
