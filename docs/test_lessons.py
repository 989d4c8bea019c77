"""Tests docs/lessons.py in a small repository: each kind of error in a lesson must be reported."""

import os
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import lesson_pages
from without_breaks import without_breaks

TOOL = Path(__file__).resolve().parent / "lessons.py"

SOURCE = """\
    int before = 0;
    // [anchor: outer]
    for (;;) {
      // [anchor: inner]
      work();

      more();
      // [/anchor: inner]
    }
    // [/anchor: outer]
"""

PAGE = """\
# A page

<!-- code: code.cpp#inner -->
```cpp
work();

more();
```

<!-- code: code.cpp#outer -->
```cpp
for (;;) {
  work();

  more();
}
```

<!-- run: greet you -->
```text
$ greet you
hello, you
```

<!-- run(3): greet -->
```text
$ greet
error: no name to greet
```

See [the next page](../02_next/README.md#what-hurts), [the code](code.cpp), [above](#a-page).
"""

NEXT = "# Chapter 02: `next`\n\n## What hurts?\n\nBack to [01](../01_first/).\n"

GREET = """\
#!/bin/sh
[ $# -gt 0 ] || { echo "error: no name to greet" >&2; exit 3; }
echo "hello, $1"
"""


class Lessons(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.page = self.write("chapters/01_first/README.md", PAGE)
        self.source = self.write("chapters/01_first/code.cpp", SOURCE)
        self.next = self.write("chapters/02_next/README.md", NEXT)
        self.program = self.write("build/bin/greet", GREET)
        self.program.chmod(0o755)

    def write(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def change(self, path, old, new):
        text = path.read_text(encoding="utf-8")
        self.assertIn(old, text)
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    def lessons(self, *arguments):
        result = subprocess.run([sys.executable, str(TOOL), "--root", str(self.root), *arguments],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertNotIn("Traceback", result.stdout)
        return result.returncode, result.stdout

    def assert_fails(self, message, *arguments):
        code, output = self.lessons(*arguments)
        self.assertEqual(code, 1, output)
        self.assertIn(message, output)

    def assert_true(self, *arguments):
        code, output = self.lessons(*arguments)
        self.assertEqual(code, 0, output)
        return output

    def test_true_pages_pass(self):
        self.assertIn("2 pages, 4 quoted blocks, 4 links, 0 measured numbers: all true",
                      self.assert_true())

    # ---- numbers ----

    def numbers(self, paragraph, raw="chapter 04: 277.1 TFLOP/s, 12 %\nchapter 03: 55.6 TFLOP/s\n"):
        self.write("raw.txt", raw)
        self.page.write_text(PAGE + "\n" + paragraph + "\n", encoding="utf-8")

    def test_numbers_that_have_a_source(self):
        for paragraph in (
                "It takes 3 tries, two registers, a 16 × 8 tile and `9.5` of chapter 01.2.",
                "g++ 12.2, CUDA 13.0.88, exercises 10.2 and [09.1 One](code.cpp), $1.5$",
                "![2 %](code.cpp)",
                "It is 277.1.\n<!-- source: ../../raw.txt -->",
                "It is 277.1, then\n55.6 TFLOP/s.\n<!-- source: ../../raw.txt -->",
                "<!-- source: ../../raw.txt -->\n| a | b |\n|---|---|\n| 277.1 | x |",
                "About 277 TFLOP/s, 12 %.\n<!-- source: ../../raw.txt \"chapter 04\" -->",
                "Both 12 %.\n<!-- source: ../../raw.txt \"chapter; 04\" -->",
                "4.98 × more.\n<!-- source: ../../raw.txt -->\n"
                "<!-- number: 4.98 = 277.1 / 55.6 -->",
                "A third, 33 %.\n<!-- number: 33 = 100 * 1 / 3 -->",
                "4.9·10⁻⁴ and 33 %\n<!-- number: 4.9·10⁻⁴ = 1 / 2 ** 11; 33 = 100 / 3 -->",
                "The vendor says 989 TFLOP/s.\n<!-- cited: 989: https://example.org/h200 -->",
                "It costs about 40 µs.\n<!-- about: 40: no clock here is finer -->",
                "Write `<!-- source: FILE -->` or `<!-- number: N = EXPRESSION -->`.",
                "Hello to 1234.5.\n<!-- source: $ greet 1234.5 -->"):
            self.numbers(paragraph)
            with self.subTest(paragraph):
                self.assert_true()

    def test_output_on_the_page_is_a_source(self):
        said = lambda number: (f"<!-- run: greet {number} -->\n```text\n$ greet {number}\n"
                               f"hello, {number}\n```\n\nIt is {number} %.")
        self.numbers(said("123.4"))
        self.assert_true()
        self.numbers(said("12"))
        self.assert_fails("12 has no source")  # two digits are anywhere

    def test_numbers_without_a_source(self):
        for number, paragraph in (
                ("277.1", "It is 277.1."), ("12", "It is 12 % less."), ("4", "4 or 5 % less."),
                ("3", "3 times faster"), ("64", "64 registers"), ("52", "52 bytes, spilled"),
                ("40", "40 µs"), ("700", "700 W"), ("1.1", "1.1 ×"), ("2", "It is 2× faster"),
                ("186", "[186](code.cpp) registers"), ("1.5", "- one\n- 1.5 two"),
                ("9.1e-8", "an error of 9.1e-8"), ("0.5", "| a |\n|---|\n| 0.5 |"),
                ("277.2", "It is 277.2.\n<!-- source: ../../raw.txt -->"),
                ("77.1", "It is 77.1.\n<!-- source: ../../raw.txt -->"),
                ("277.1", "It is 277.1.\n\nA gap.\n<!-- number: 1 = 2 - 1 -->"),
                ("277", "It is 277 TFLOP/s.\n<!-- source: ../../raw.txt -->"),  # not rounded
                ("13", "13 %\n<!-- source: ../../raw.txt \"chapter 04\" -->"),
                ("12", "12 %\n<!-- source: ../../raw.txt \"chapter 03\" -->"),
                ("40", "It costs about 40 µs.")):
            self.numbers(paragraph)
            with self.subTest(paragraph):
                self.assert_fails(f"{number} has no source")

    def test_comments_that_are_not_true(self):
        for why, paragraph in (
                ("no such file", "1.5\n<!-- source: none.txt -->"),
                ("no such file", "1.5\n<!-- source: ../../../x.txt -->"),
                ("no line contains", "1.5\n<!-- source: ../../raw.txt \"chapter 09\" -->"),
                ("no number of this paragraph", "Words.\n<!-- source: ../../raw.txt -->"),
                ("exit status 3", "1.5\n<!-- source: $ greet -->"),
                ("it is 4.98", "4.99 ×\n<!-- source: ../../raw.txt -->\n"
                               "<!-- number: 4.99 = 277.1 / 55.6 -->"),
                ("277.1 is in none", "5 times\n<!-- number: 5 = 277.1 / 55.6 -->"),
                ("no source of itself", "1.5\n<!-- number: 1.5 = 1.5 -->"),
                ("a product of 0 would let", "15 %\n<!-- number: 15 = 15 + 0 * 3 -->"),
                ("cannot be computed", "5 %\n<!-- number: 5 = 1 / 0 -->"),
                ("expected numbers", "5 %\n<!-- number: 5 = len([]) + 5 -->"),
                ("expected N = ", "5 %\n<!-- number: 5 -->"),
                ("does not hold", "5 %\n<!-- number: 5 = 2 + 3; 6 = 3 + 3 -->"),
                ("no address", "5 %\n<!-- cited: 5: the vendor said so -->"),
                ("where it is from", "about 5 %\n<!-- about: five: it is hard to tell -->"),
                ("the reason, in a few words", "about 5 %\n<!-- about: 5: so -->"),
                ("does not say", "5 %\n<!-- about: 5: it is hard to tell -->"),
                ("splits this paragraph", "5 %\n<!-- number: 5 = 2 + 3 -->\nless."),
                ("malformed comment", "5 %\n<!-- source ../../raw.txt -->")):
            self.numbers(paragraph)
            with self.subTest(paragraph):
                self.assert_fails(why)

    def test_only_lessons_need_sources(self):
        self.write("common/notes.md", "It is 277.1 TFLOP/s.\n")
        self.assert_true()
        self.write("docs/notes.md", "It is 277.1 TFLOP/s.\n")
        self.assert_fails("docs/notes.md:1: 277.1 has no source")

    # ---- what is folded ----

    def test_the_answer_to_a_question_is_folded(self):
        run = "<!-- run: greet you -->\n```text\n$ greet you\nhello, you\n```\n"
        asked = "*Write down: who is greeted?*\n\n"
        folded = f"<details class=\"answer\"><summary>It prints</summary>\n\n{run}\n</details>\n"
        for paragraph in (asked + folded + run, run + asked + folded, asked + "Nobody knows.",
                          asked + "Words.\n\n" + folded, run):
            self.numbers(paragraph)
            with self.subTest(paragraph):
                self.assert_true()
        for paragraph in (asked + run, asked + "Words.\n\n" + run, asked + run + folded,
                          asked + folded + asked + run):
            self.numbers(paragraph)
            with self.subTest(paragraph):
                self.assert_fails('is in sight after "Write down')

    # ---- code, output, links ----

    def test_each_error_is_reported(self):
        page, source, program = self.page, self.source, self.program
        run, end = "<!-- run: greet you -->", "[above](#a-page).\n"
        for why, path, old, new in (
                ("chapters/01_first/README.md: differs from the source", source, "work();", "work(1);"),
                ("-work();\n+work(1);", source, "work();", "work(1);"),
                ("-less();\n+more();", page, "more();", "less();"),
                ("01_first/README.md:3: code: code.cpp#missing: no anchor of that name", page, "#inner", "#missing"),
                ("code: gone.cpp#inner: no such file", page, "code.cpp#inner", "gone.cpp#inner"),
                ("expected FILE#ANCHOR", page, "code.cpp#inner", "code.cpp"),
                ("code.cpp:4: anchor inner is never closed", source, "// [/anchor: inner]", ""),
                ("anchor inner is closed but not open", source, "// [anchor: inner]", ""),
                ("cannot be quoted without its breaks", source, "work();", "if (breaks.has(fa::IDLE)) {{{ work();"),
                ("-hello, you\n+good day, you", program, "hello", "good day"),
                ("run: greet you: prints 81 columns, more than 80", program, "hello", 71 * "y" + "hello"),
                ("contains a fence", program, 'echo "hello', "echo '```'; echo \"hello"),
                ("run: greet: exit status 3, expected 0", page, "run(3): greet", "run: greet"),
                ("run: greet you: exit status 0, expected 1", page, "run: greet you", "run(1): greet you"),
                ("exit status 127, expected 0", page, "run: greet you", "run: no_such_program you"),
                ("no fenced block directly below", page, run + "\n", run + "\n\n"),
                *(("malformed directive", page, run, wrong)
                  for wrong in ("<!-- run greet you -->", "<!-- code -->", " " + run)),
                ("fenced block is never closed", page, end, end + "\n```text\nto the end\n"),
                ("README.md:31: link to gone.cpp: no such file", page, "(code.cpp)", "(gone.cpp)"),
                ("link to ../02_next/README.md#what-helps: no such heading", page, "#what-hurts", "#what-helps"),
                ("link to #another: no such heading", page, "(#a-page)", "(#another)"),
                ("link to picture.svg: no such file", page, end, end + "![a picture](picture.svg)\n"),
                ("link to gone.md: no such file", page, end, end + "[it]: gone.md\n"),
                ("leads out of the repository", page, end, end + "[out](../../../x)\n"),
                ("starts with /", page, end, end + "[root](/x)\n")):
            before = path.read_text(encoding="utf-8")
            self.change(path, old, new)
            with self.subTest(why):
                self.assert_fails(why)
            path.write_text(before, encoding="utf-8")

    def test_anchors_without_a_page_or_a_partner(self):
        for why, text in (
                ("common/a.hpp: anchor lonely is quoted by no page", "// [anchor: lonely]\n// [/anchor: lonely]\n"),
                ("common/a.hpp:3: duplicate anchor a", "// [anchor: a]\n// [/anchor: a]\n" * 2),
                ("common/a.hpp:1: malformed anchor marker", "int x;  // [anchor: a]\n")):
            self.write("common/a.hpp", text)
            with self.subTest(why):
                self.assert_fails(why)

    def test_write_fills_and_then_all_is_true(self):
        self.change(self.source, "work();", "work(1);")
        self.change(self.program, "hello", "good day")
        self.assert_fails("differs")
        self.assert_true("--write")
        self.assert_true()
        text = self.page.read_text(encoding="utf-8")
        self.assertIn("```cpp\nwork(1);\n\nmore();\n```", text)
        self.assertIn("good day, you", text)

    def test_write_fills_an_empty_block_and_names_its_language(self):
        self.change(self.page, "```cpp\nwork();\n\nmore();\n```", "```\n```")
        self.assert_true("--write")
        self.assertEqual(self.page.read_text(encoding="utf-8"), PAGE)

    def test_write_leaves_a_true_page_alone(self):
        before = os.stat(self.page).st_mtime_ns
        self.assert_true("--write")
        self.assertEqual(os.stat(self.page).st_mtime_ns, before)

    def test_write_still_fails_on_what_it_cannot_fill(self):
        self.change(self.page, "#inner", "#missing")
        self.assert_fails("no anchor of that name", "--write")

    def test_markers_in_other_languages(self):
        self.write("common/a.py", "# [anchor: a]\nx = 1\n# [/anchor: a]\n")
        self.write("common/a.txt", "; [anchor: a]\nLOAD a, R0\n; [/anchor: a]\n")
        self.write("docs/page.md", "<!-- code: ../common/a.py#a -->\n```\nx = 1\n```\n"
                                   "<!-- code: ../common/a.txt#a -->\n```\nLOAD a, R0\n```\n")
        self.assert_true()

    def test_bin_option(self):
        self.program.rename(self.root / "greet")
        self.assert_fails("exit status 127")
        self.assert_true("--bin", str(self.root))

    def test_directives_and_links_inside_blocks_are_text(self):
        self.write("docs/how.md", textwrap.dedent("""\
            ````markdown
            <!-- code: nowhere.cpp#nothing -->
            ```cpp
            ```
            [gone](gone.md)
            ````
            And `[gone](gone.md)` too.
            """))
        self.assert_true()

    def test_code_is_quoted_without_its_breaks(self):
        self.change(self.source, "work();", "if (!breaks.has(fa::IDLE)) work();")
        self.assert_true()
        self.change(self.source, "more();", "breaks.has(fa::LESS) ? less() : more();")
        self.assert_true()
        self.change(self.page, "work();", "if (!breaks.has(fa::IDLE)) work();")
        self.assert_fails("differs from the source")

    def test_repeated_headings_and_web_links(self):
        self.page.write_text(PAGE + "## Two words\n## Two words\n[2](#two-words-1) "
                             "[web](https://example.org/x#y)\n")
        self.assert_true()
        self.page.write_text(PAGE + "## Two words\n[2](#two-words-1)\n")
        self.assert_fails("no such heading")

    # ---- usage ----

    def test_named_pages_only(self):
        self.change(self.source, "work();", "work(1);")
        self.assert_true(str(self.next))
        self.assert_fails("differs", str(self.page))

    def test_bad_usage(self):
        for arguments in ([str(self.root / "gone.md")], ["--root", str(self.root / "gone")],
                          ["--root", str(self.root / "build")], ["--unknown"]):
            with self.subTest(arguments):
                code, output = self.lessons(*arguments)
                self.assertEqual(code, 2, output)
                self.assertIn("error: ", output)


class WithoutBreaks(unittest.TestCase):
    def test_what_is_left(self):
        for source, wanted in (
                ("x = 1;  // no breaks here, breaks)", "x = 1;  // no breaks here, breaks)"),
                ("if (!breaks.has(fa::A)) wait<0>();  // the tile", "wait<0>();  // the tile"),
                ("a();\nif (breaks.has(A)) b(1, {2});  // wrong\nc();", "a();\nc();"),
                ("a();\nif (breaks.has(A)) {\n  b();\n}\nc();", "a();\nc();"),
                ("if (breaks.has(A)) {\n  b();\n} else {\n  c();\n  d();\n}\ne();", "c();\nd();\ne();"),
                ("if (!breaks.has(A)) {\n  b();\n} else c();\ne();", "b();\ne();"),
                ("if (breaks.has(A) && x) b();\nelse c();", "c();"),
                ("if (left < N && !breaks.has(A)) mask(x, left);", "if (left < N) mask(x, left);"),
                ("if (!breaks.has(A) && needs(x, y))\n  b();", "if (needs(x, y))\n  b();"),
                ("if (!breaks.has(A) || warp == 0) sync();", "sync();"),
                ("if (exists || !breaks.has(A)) commit();", "commit();"),
                ("if (!p || t != 0 || breaks.has(A)) return;", "if (!p || t != 0) return;"),
                ("b = n < 3 && (old || breaks.has(A));", "b = n < 3 && (old);"),
                ("b = !(x < 2) || breaks.has(A);", "b = !(x < 2);"),
                ("v = breaks.has(A) && i < c ? 16 : bytes;", "v = bytes;"),
                ("breaks.has(A) ? w<2>() : w<1>();  // stays", "w<1>();  // stays"),
                ("f(of(breaks.has(A) ? x : y, n), breaks.has(B) ? 1 : 2);", "f(of(y, n), 2);"),
                ("int at = i + (breaks.has(A) ? 1 : 0);", "int at = i;"),
                ("r = breaks.has(A) ? none : fa::Swizzle::b128;", "r = fa::Swizzle::b128;"),
                ("const int k =\n    breaks.has(A) ? 0 : g(n);", "const int k = g(n);"),
                ("{\n  const bool on = !breaks.has(A) || w == 0;\n  if (!breaks.has(B) && on) s();\n}",
                 "{\n  s();\n}"),
                ("{\n  const bool on = breaks.has(A);\n  n = on ? 0 : q;\n}\non = 2;",
                 "{\n  n = q;\n}\non = 2;"),
                ("if (breaks & A && late) break;\nf(breaks_ & B ? 0 : k);", "f(k);"),
                ("void f(int n,\n       uint32_t breaks) {\n  if (breaks_.has(A)) ++n;\n}", "void f(int n) {\n}"),
                ("bool grew = breaks.has(A);", "bool grew = false;"),
                ("const auto f = [&, breaks](int n) { return g(n, breaks) + h(breaks); };",
                 "const auto f = [&](int n) { return g(n) + h(); };"),
                ("template <class Breaks>\nvoid f(int n, Breaks breaks);", "void f(int n);"),
                ("template <int N, class Breaks>\nvoid f(Breaks breaks) { g<N, Breaks>(1,\n    breaks); }",
                 "template <int N>\nvoid f() { g<N>(1); }")):
            with self.subTest(source):
                self.assertEqual(without_breaks(source), wanted)

    def test_every_source_that_lessons_quote(self):
        root = TOOL.parent.parent
        for path in sorted((root / "chapters").rglob("*.hpp")):
            quoted = without_breaks(path.read_text(encoding="utf-8"))
            self.assertNotIn("breaks.has(", quoted, path)


class Pages(unittest.TestCase):
    """A chapter with three pages and two exercises. Each kind of error in its pages must be
    reported."""

    FIRST = "# Chapter 04: Tiles\n\nFirst of [two](2-copies.md) and [three](3-swizzles.md).\n"
    SECOND = ("# Chapter 04, page 2: Copies\n\n## Exercises\n\n- [04.2](../../exercises/04_tiles/ex2_copy/"
              "README.md)\n\n## Next\n\n[Swizzles](3-swizzles.md)\n")
    THIRD = "# Chapter 04, page 3: Swizzles\n\n## Exercises\n\n[04.1](../../exercises/04_tiles/ex1_xor/)\n"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.first = self.write("chapters/04_tiles/README.md", self.FIRST)
        self.second = self.write("chapters/04_tiles/2-copies.md", self.SECOND)
        self.third = self.write("chapters/04_tiles/3-swizzles.md", self.THIRD)
        self.registry = self.write("exercises/CMakeLists.txt",
                                   "exercise(04_tiles ex2_copy LIBRARIES x)\nexercise(04_tiles ex1_xor)\n")
        self.write("exercises/04_tiles/ex2_copy/README.md", "[back](../../../chapters/04_tiles/2-copies.md)")
        self.back = self.write("exercises/04_tiles/ex1_xor/README.md",
                               "[back](../../../chapters/04_tiles/3-swizzles.md#why)")

    def write(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def assert_problem(self, *messages):
        found = list(lesson_pages.problems(self.root))
        self.assertEqual(len(found), len(messages), found)
        for message, problem in zip(messages, found):
            self.assertIn(message, problem)

    def test_right_pages(self):
        self.assert_problem()
        self.assertEqual(lesson_pages.chapter_pages(self.root / "chapters/04_tiles"),
                         [self.first, self.second, self.third])
        self.assertEqual(lesson_pages.page_of_exercise(self.root / "chapters/04_tiles", "ex1_xor"), self.third)
        self.assertIsNone(lesson_pages.page_of_exercise(self.root / "chapters/04_tiles", "ex3_other"))
        self.assertIsNone(lesson_pages.page_of_exercise(self.root / "chapters/debugging", "ex1_xor"))

    def test_links_and_names(self):
        self.first.write_text("# Chapter 04: Tiles\n\n[three](3-swizzles.md), [two](2-copies.md)\n")
        self.assert_problem("in order (2-copies.md, 3-swizzles.md), got 3-swizzles.md, 2-copies.md")
        self.first.write_text("# Chapter 04: Tiles\n\n[two](2-copies.md)\n")
        self.assert_problem("in order (2-copies.md, 3-swizzles.md), got 2-copies.md")
        self.first.write_text(self.FIRST)
        self.second.write_text(self.SECOND.replace("(3-swizzles.md)", "(README.md)"))
        self.assert_problem("2-copies.md: has no link to the next page, 3-swizzles.md")
        self.second.write_text(self.SECOND.replace(", page 2", ""))
        self.assert_problem("2-copies.md: expected to begin with")
        self.second.write_text(self.SECOND)
        self.write("chapters/04_tiles/notes.md", "# Notes\n")
        self.assert_problem("notes.md: the name of a page is 2-short-name.md")
        (self.root / "chapters/04_tiles/notes.md").unlink()
        self.third.rename(self.root / "chapters/04_tiles/4-swizzles.md")
        self.assertIn("expected a page 3", "".join(lesson_pages.problems(self.root)))
        self.first.unlink()
        self.assert_problem("has no README.md")

    def test_lengths(self):
        self.third.write_text(self.THIRD + "word " * 3100)
        self.assert_problem()
        self.third.write_text(self.THIRD + "<!-- source: raw.txt -->" * 99 + " word" * 3200)
        self.assert_problem("3-swizzles.md: has 3209 words, 3200 are the most: move")
        self.third.write_text(self.THIRD)
        one = self.write("chapters/05_pipelining/README.md", "word " * 3200)
        self.assert_problem()
        one.write_text("word " * 3201)
        self.assert_problem("05_pipelining/README.md: has 3201 words, 3200 are the most: move")

    def test_exercises(self):
        self.back.write_text("[back](../../../chapters/04_tiles/README.md)")
        self.assert_problem("ex1_xor/README.md: has no link to the page that lists the exercise, 3-swizzles.md")
        self.back.write_text("[back](../../../chapters/04_tiles/3-swizzles.md)")
        self.registry.write_text("exercise(04_tiles ex1_xor)\nexercise(04_tiles ex2_copy)\n")
        self.assert_problem("takes them (ex1_xor, ex2_copy), got ex2_copy, ex1_xor")
        self.registry.write_text("exercise(04_tiles ex2_copy)\nexercise(04_tiles ex1_xor)\n")
        self.third.write_text(self.THIRD.replace("## Exercises", "## Questions"))
        self.assert_problem("takes them (ex2_copy, ex1_xor), got ex2_copy")

    def test_every_chapter(self):
        self.assertEqual(list(lesson_pages.problems(TOOL.parent.parent)), [])


class FirstPage(unittest.TestCase):
    """Compares the numbers about the course in README.md with the repository."""
    ROOT = TOOL.parent.parent
    PAGE = (ROOT / "README.md").read_text(encoding="utf-8")

    def test_hours_are_the_estimate_below_the_table(self):
        rows = re.findall(r"^\| \[\d\d .*\]\(chapters/(\w+)/README\.md\) \|.*\| (\d+) \|$", self.PAGE, re.M)
        chapters = sorted(path.parent.name for path in (self.ROOT / "chapters").glob("*/README.md"))
        self.assertEqual([name for name, _ in rows], chapters)
        for name, hours in rows:
            words = sum(len(page.read_text(encoding="utf-8").split())
                        for page in (self.ROOT / "chapters" / name).glob("*.md"))
            estimate = max(1, words / 150 / 60 + len(list((self.ROOT / "exercises" / name).glob("ex*_*"))) / 3)
            self.assertLess(abs(int(hours) - estimate), 0.8, f"{name}: {estimate:.1f}")

    def test_it_stays_short(self):
        words = re.findall(r"[^\s|]*\w[^\s|]*", re.sub(r"<!--.*?-->|!\[.*?\)|\]\(.*?\)", "", self.PAGE))
        self.assertLess(len(words), 900)


if __name__ == "__main__":
    unittest.main()
