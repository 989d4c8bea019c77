#!/usr/bin/env python3
"""Tests of prose.py cover what it finds, what it leaves alone, and where it looks."""

import unittest

import prose

FOUND = {  # a sentence, and what is found in it
    "Nobody loads before the roles begin.": "Nobody",
    "Who asks for more waits until it is there.": "Who asks",
    "It ends; who waits goes to sleep.": "; who waits",
    "What of it gains what": "What of it",
    "The last so many keys are new.": "so many",
    "The barrier stands before the copy.": "stands before",
    "The tile lies in shared memory.": "lies in shared",
    "The scale is chapter 15's.": "is chapter 15's",
    "The vote is in front of the wait.": "in front of",
    "A warp has 16 rows a warp, or more.": "16 rows a warp",
    "All warps meet once a tile.": "once a tile",
    "The scores are computed again.": "computed again",
    "One warp waits while the other goes on.": "goes on",
    "It subtracts the maximum at hand.": "at hand",
}
LEFT = ["Which thread waits? The one that loads.", "Who is this course for?", "There are so many that none is free.",
        "Plain attention stands in for the kernel.", "The factor is the same as in chapter 15.",
        "At D = 64 a tile has 64 keys.", "At 512 keys a block visits 2 tiles.", "It goes on to the next tile.",
        "128 rows per block, twice per tile."]


class Prose(unittest.TestCase):
    def found(self, name, text):
        return [problem.split('"')[1] for problem in prose.problems(name, text)]

    def test_markdown(self):
        for sentence, wanted in FOUND.items():
            self.assertEqual(self.found("a.md", sentence), [wanted.strip()], sentence)
        for sentence in LEFT:
            self.assertEqual(self.found("a.md", sentence), [], sentence)

    def test_only_prose(self):
        text = ("`nobody` <!-- nobody --> [text](nobody.md)\n\n```text\nnobody\n```\n\n    nobody\n\n"
                "| not | but |\n|---|---|\n| Nobody | No thread |\n\nNobody\n| a | nobody |\n")
        self.assertEqual(list(prose.problems("a.md", text)), [
            'a.md:13: "Nobody": ' + prose.PATTERNS[0][2], 'a.md:14: "nobody": ' + prose.PATTERNS[0][2]])

    def test_comments_and_messages(self):
        for name in ("a.cpp", "a.hpp", "a.cu", "a.mjs"):
            self.assertEqual(self.found(name, "int nobody = 1;  // nobody\n"), ["nobody"])
            self.assertEqual(self.found(name, "/// Is the phase complete?\n"), ["Is the phase complete?"])
            self.assertEqual(self.found(name, 'say("error: nobody can go on.");\n'), ["nobody", "go on"])
            self.assertEqual(self.found(name, 'find("nobody");\n#include "who asks for nobody.hpp"\n'), [])
            self.assertEqual(self.found(name, "// Nobody, said the poet.  prose: ok\n"), [])
        self.assertEqual(self.found("a.py", '"""Nobody.\n\nBut nobody knows, and somebody asks.\n"""\n'
                                            "nobody = 1  # at hand\nx = 'nobody'\n"),
                         ["Nobody", "nobody", "at hand"])

    def test_where(self):
        for name in ("README.md", "chapters/03_basic_kernel/README.md", "exercises/README.md", "common/file.cpp"):
            self.assertTrue(prose.checked(name), name)
        for name in ("docs/measurements/h200/ch08_notes.md", "docs/figures/ladder.svg", "LICENSE"):
            self.assertFalse(prose.checked(name), name)


if __name__ == "__main__":
    unittest.main()
