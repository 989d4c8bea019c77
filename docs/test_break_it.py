#!/usr/bin/env python3
"""Holds every break to the symptom on its label, in every chapter that has it.

    test_break_it.py [NN …]     the programs are on the PATH; without NN, everything

The intact program passes on the same input; the broken one shows what break_data.py claims: NaN
where NaN is claimed, finite and wrong by at least so much where wrong is claimed, kind and source
line of the hazard where a race is claimed; and it passes where the break is said to be harmless.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import break_it  # noqa: E402
from break_data import BREAKS, KERNELS  # noqa: E402

CHAPTERS = sorted(set(sys.argv[1:])) or sorted(break_it.PROGRAMS)
RACES = ("conditional-commit", "missing-wait", "missing-barrier", "wait-too-few",
         "divergent-barrier", "early-release")


def demos(chapter):
    return [(name, demo) for name in BREAKS for demo in BREAKS[name]["demos"]
            if chapter in demo["chapters"]]


def pair(name, demo, chapter, trace=False):
    with tempfile.TemporaryDirectory() as folder:
        return break_it.run_pair(name, demo, chapter, break_it.PROGRAMS[chapter], folder, trace)


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def tool(*arguments):
    return run(sys.executable, "-B", break_it.__file__, *arguments)


class Symptoms(unittest.TestCase):
    def every(self, check):
        for chapter in CHAPTERS:
            for name, demo in demos(chapter):
                with self.subTest(chapter=chapter, name=name):
                    check(chapter, name, demo)

    def test_the_intact_program_passes_and_the_broken_one_shows_its_symptom(self):
        self.every(self.shows)

    def shows(self, chapter, name, demo):
        symptom = demo["symptom"]
        intact, broken = pair(name, demo, chapter, trace="tile" in symptom)
        self.assertEqual(intact.code, 0, intact.text)
        self.assertTrue(intact.check["passed"])
        self.assertEqual(intact.hazards, [])
        if "masked" in symptom:
            masked = [one.report["profile"]["tiles_masked"] for one in (intact, broken)]
            self.assertEqual((broken.code, masked[1]), (0, symptom["masked"]), broken.text)
            self.assertLess(*masked)
            return
        if "silent" in symptom:
            self.assertEqual((broken.code, broken.hazards), (0, []), broken.text)
            self.assertTrue(broken.check["passed"])
            return
        self.assertEqual(broken.code, 1)
        if "nan" in symptom:
            self.assertGreaterEqual(broken.check["nonfinite"], symptom["nan"])
            self.assertIsNone(broken.check["max_abs_error"])  # an error of NaN is not a number
        if "wrong" in symptom:
            self.assertEqual(broken.check["nonfinite"], 0)
            self.assertGreaterEqual(broken.check["max_abs_error"], symptom["wrong"])
            self.assertFalse(broken.check["passed"])
        if "lse" in symptom:
            first = broken.check["first_bad"]
            self.assertLessEqual(broken.check["max_abs_error"], broken.check["bound"])
            self.assertEqual((first["tensor"], broken.check["nonfinite"]), ("LSE", 0))
            self.assertGreaterEqual(abs(first["got"] - first["expected"]), symptom["lse"])
        if "tile" in symptom:
            self.assertEqual(break_it.first_tile(intact, broken)[0], symptom["tile"])
        if "hazard" in symptom:
            found = [(h["kind"], break_it.source_line(chapter, h["where"]),
                      break_it.source_line(chapter, h["other"])) for h in broken.hazards]
            self.assertTrue(any(
                kind == symptom["hazard"] and symptom["at"] in where and symptom["other"] in other
                for kind, where, other in found), found)
        else:
            self.assertEqual(broken.hazards, [])
        self.assertTrue({"nan", "wrong", "lse", "hazard"} & set(symptom))

    def test_where_a_break_is_said_to_be_harmless_it_is(self):
        self.every(self.harmless)

    def harmless(self, chapter, name, demo):
        for change in demo.get("fine", []):
            with self.subTest(change=change):
                intact, broken = pair(name, {**demo, **change}, chapter)
                self.assertEqual((intact.code, broken.code), (0, 0), broken.text)

    def test_every_break_of_every_program_is_in_the_museum(self):
        for chapter in CHAPTERS:
            with self.subTest(chapter=chapter):
                listed = run(break_it.PROGRAMS[chapter], "--list-breaks")
                self.assertEqual(listed.returncode, 0, listed.stderr)
                names = {line.split()[0] for line in listed.stdout.splitlines()}
                self.assertEqual(names, {name for name, _ in demos(chapter)})

    def test_a_break_that_is_undefined_on_a_gpu_is_refused_there(self):
        for chapter in set(CHAPTERS) & set(KERNELS):
            for name in RACES:
                if chapter not in break_it.chapters_of(name):
                    continue
                with self.subTest(chapter=chapter, name=name):
                    result = run(break_it.PROGRAMS[chapter], "--device", "gpu", "--break", name)
                    self.assertEqual((result.returncode, result.stdout), (2, ""))
                    self.assertRegex(result.stderr,
                                     rf"^error: --break {name} is undefined .*--i-know.*\n$")

    def test_i_know_is_refused_where_there_is_nothing_to_know(self):
        for chapter in set(CHAPTERS) & set(KERNELS):
            for options in ([], ["--device", "gpu"], ["--device", "gpu", "--break", "no-max"],
                            ["--break", "missing-wait"], ["--device", "emulator"]):
                with self.subTest(chapter=chapter, options=options):
                    result = run(break_it.PROGRAMS[chapter], "--i-know", *options)
                    self.assertEqual((result.returncode, result.stdout), (2, ""))
                    self.assertRegex(result.stderr, r"^error: --i-know: goes with --device gpu .*\n$")


@unittest.skipIf(len(sys.argv) > 1 and "02" not in CHAPTERS, "chapter 02 only")
class Thresholds(unittest.TestCase):
    def first_tile(self, **changes):
        demo, chapter = break_it.choose("no-max")
        intact, broken = pair("no-max", break_it.changed(demo, chapter, **changes), chapter, True)
        self.assertEqual(intact.code, 0)
        found = break_it.first_tile(intact, broken)
        return found and found[0]

    def test_fp16_overflows_in_tile_1_and_fp32_in_tile_11(self):
        self.assertEqual(self.first_tile(dtype="f32"), 11)   # 88.7 / 0.5 = key 178
        self.assertEqual(self.first_tile(dtype="bf16"), 11)  # fp32's exponents
        self.assertEqual(self.first_tile(dtype="f16"), 1)    # 11.09 / 0.5 = key 23

    def test_the_threshold_follows_the_scale(self):
        self.assertIsNone(self.first_tile(scale=0.34))       # the last score is 86.7
        self.assertEqual(self.first_tile(scale=0.36), 15)    # the last score is 91.8
        self.assertIsNone(self.first_tile(scale=0.043, dtype="f16"))
        self.assertEqual(self.first_tile(scale=0.044, dtype="f16"), 15)  # 11.22

    def test_no_rescale_hides_below_two_percent_and_is_wildly_wrong_when_softmax_is_sharp(self):
        def relative(scale):
            demo, chapter = break_it.choose("no-rescale")
            broken = pair("no-rescale", break_it.changed(demo, chapter, scale=scale), chapter)[1]
            self.assertEqual((broken.code, broken.check["nonfinite"]), (1, 0))
            return broken.check["relative_error"]
        self.assertLess(relative(0.3), 0.02)
        self.assertGreater(relative(0.3), 0.005)
        self.assertGreater(relative(3), 0.5)


@unittest.skipIf(len(sys.argv) > 1 and "02" not in CHAPTERS, "chapter 02 only")
class Tool(unittest.TestCase):
    def refused(self, *arguments, says):
        result = tool(*arguments)
        self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
        self.assertIn(says, result.stderr.splitlines()[-1])
        self.assertIn("error: ", result.stderr.splitlines()[-1])

    def test_bad_usage_is_one_sentence(self):
        self.refused("8000", says="no chapter 8000")
        self.refused("everything", says="accepted: no-max")
        self.refused("no-max", "--chapter", "19", says="01 02 03")
        self.refused("no-rescale", "--chapter", "4", "--dtype", "f16", says="chapter 02")
        self.refused("no-rescale", "--length", "0", says="--length")
        self.refused("no-rescale", "--scale", "nan", says="--scale")
        self.refused("no-rescale", "--scale", "inf", says="--scale")
        self.refused("no-max", "--dtype", "f64", says="--dtype")

    def test_the_list_names_every_break(self):
        result = tool()
        self.assertEqual(result.returncode, 0)
        self.assertEqual([line.split()[0] for line in result.stdout.splitlines()[:len(BREAKS)]],
                         list(BREAKS))

    def test_a_chapters_second_kernel_has_a_list_of_its_own(self):
        listed = [line.split()[0] for line in tool("17f").stdout.splitlines() if "17f" in line]
        self.assertEqual(listed, [name for name in BREAKS if "17f" in break_it.chapters_of(name)])
        self.assertIn("keys-in-order", listed)

    def test_an_exhibit_shows_both_sides_and_does_not_wait_without_a_terminal(self):
        result = tool("no-max", "--dtype", "f16")
        self.assertEqual(result.returncode, 0, result.stderr)
        for words in ("Predict", "intact", "broken", "Tile by tile", "It begins in tile 1: ",
                      "not finite", "Error by query", "Why", "Caught by"):
            self.assertIn(words, result.stdout)

    def test_a_harmless_input_is_called_harmless(self):
        result = tool("no-rescale", "--length", "64")
        self.assertEqual(result.returncode, 0)
        self.assertIn("harmless", result.stdout)

    def test_every_label_is_complete(self):
        for name, entry in BREAKS.items():
            with self.subTest(name=name):
                for text in ("line", "predict", "happens", "why", "caught"):
                    self.assertGreater(len(entry[text]), 20)
                self.assertIsNone(re.search(r"\s{2}|[^\x20-\x7e]", entry["predict"] + entry["why"]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
