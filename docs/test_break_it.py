#!/usr/bin/env python3
"""Runs every pair of program and break, and compares the result with the symptom in its
breaks.json.

    test_break_it.py [NN …]     the programs are on the PATH; without NN, all of them

The program prints the input that it runs, exits with 1, and compares itself with the intact
program, which passes on the same input. The symptom is at least one of

    nan: n            at least n elements are not finite
    wrong: x          all elements are finite, the largest error is at least x
    lse: x            O is correct, and the first wrong LSE is wrong by at least x
    tile: t           the first tile of chapter 02's trace in which p or l is not finite
    hazard: kind      the emulator reports it for a source line that contains `at`, and a second
                      line that contains `other`
    counter: name     the check passes, and this counter differs from the intact program's
    schedules: true   the check passes, and the bits under --schedule-seed 1 and 2 differ

On each `harmless` input the broken program passes and prints the input that shows the break.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import break_it  # noqa: E402
from break_it import CONTENT, TEXTS, demos  # noqa: E402

CHAPTERS = sorted(set(sys.argv[1:])) or sorted(break_it.PROGRAMS)
KERNELS = [chapter for chapter in break_it.ON_A_DEVICE if chapter not in ("10", "11")]
RACES = ("conditional-commit", "missing-wait", "missing-barrier", "wait-too-few",
         "divergent-barrier", "early-release")


def pair(name, demo, chapter, trace=False):
    with tempfile.TemporaryDirectory() as folder:
        return break_it.run_pair(name, demo, chapter, break_it.PROGRAMS[chapter], folder, trace)


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def tool(*arguments):
    return run(sys.executable, "-B", break_it.__file__, *arguments)


def typed(chapter, name, *options):
    """Returns (result, JSON report) of PROGRAM --break NAME with options that do not change the
    input."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        result = run(break_it.PROGRAMS[chapter], "--break", name, "--json", path, *options)
        report = json.loads(Path(path).read_text(encoding="utf-8")) if os.path.exists(path) else None
        return result, report


class Symptoms(unittest.TestCase):
    def every(self, check):
        for chapter in CHAPTERS:
            for name, demo in demos(chapter):
                with self.subTest(chapter=chapter, name=name):
                    check(chapter, name, demo)

    def test_a_break_typed_alone_shows_itself(self):
        self.every(self.shows_alone)

    def shows_alone(self, chapter, name, demo):
        result, report = typed(chapter, name)
        self.assertEqual((result.returncode, result.stderr), (1, ""), result.stdout)
        self.shows_input(result, demo, name)
        self.assertIn(name, report["breaks"])
        intact, broken = report["symptom"]["intact"], report["symptom"]["broken"]
        shown = result.stdout.partition("\n  symptom    ")[2].split()  # a long one has two lines
        self.assertEqual(" ".join(shown), f"intact: {intact['text']} broken: {broken['text']}")
        self.assertTrue(intact["text"].startswith("the check passes"), intact)
        self.assertNotIn("hazard", intact["text"])
        self.assertNotEqual(intact, broken)
        symptom = demo["symptom"]
        self.has(chapter, symptom, report)
        if "nan" in symptom:
            self.assertIn("values are not finite", broken["text"])
        if "wrong" in symptom:
            self.assertIn("values are wrong", broken["text"])
        if "hazard" in symptom:
            self.assertIn(symptom["hazard"], broken["text"])
        if "counter" in symptom:
            self.assertNotEqual(intact["counter"], broken["counter"])
            self.assertGreaterEqual(min(intact["counter"], broken["counter"]), 0)  # -1: not counted
            for side in (intact, broken):
                self.assertTrue(side["text"].endswith(f"; {symptom['counter']} {side['counter']}"), side)
        if "schedules" in symptom:
            self.assertEqual(intact["differing"], 0)
            self.assertGreater(broken["differing"], 0)
            self.assertIn("differ under --schedule-seed 1 and 2", broken["text"])

    def shows_input(self, result, demo, name):
        line = f"input: {demo['input']}, which shows {name} "  # may be printed in several
        self.assertEqual(" ".join(result.stdout.split())[:len(line)], line)

    def has(self, chapter, symptom, report):
        check = report["check"]
        if "counter" in symptom or "schedules" in symptom:
            self.assertTrue(check["passed"])
            self.assertEqual(report["hazards"], [])
        if "nan" in symptom:
            self.assertGreaterEqual(check["nonfinite"], symptom["nan"])
            self.assertIsNone(check["max_abs_error"])  # an error of NaN is not a number
        if "wrong" in symptom:
            self.assertEqual(check["nonfinite"], 0)
            self.assertGreaterEqual(check["max_abs_error"], symptom["wrong"])
            self.assertFalse(check["passed"])
        if "lse" in symptom:
            first = check["first_bad"]
            self.assertLessEqual(check["max_abs_error"], check["bound"])
            self.assertEqual((first["tensor"], check["nonfinite"]), ("LSE", 0))
            self.assertGreaterEqual(abs(first["got"] - first["expected"]), symptom["lse"])
        if "hazard" in symptom:
            found = [(h["kind"], break_it.source_line(chapter, h["where"]),
                      break_it.source_line(chapter, h["other"])) for h in report["hazards"]]
            self.assertTrue(any(
                kind == symptom["hazard"] and symptom["at"] in where and symptom["other"] in other
                for kind, where, other in found), found)
        else:
            self.assertEqual(report.get("hazards", []), [])
        self.assertTrue({"nan", "wrong", "lse", "hazard", "counter", "schedules"} & set(symptom))

    def test_other_inputs_show_the_symptom_and_the_intact_program_passes(self):
        self.every(self.shows)

    def shows(self, chapter, name, demo):
        # A break typed alone has run its own input, intact and broken, but without a trace.
        for one in [demo] * ("tile" in demo["symptom"]) + demo.get("more", []):
            symptom = one["symptom"]
            with self.subTest(input=one["input"]):
                intact, broken = pair(name, one, chapter, trace="tile" in symptom)
                self.assertEqual((intact.code, intact.hazards, broken.code), (0, [], 1), intact.text)
                self.assertTrue(intact.check["passed"])
                self.has(chapter, symptom, broken.report)
                if "tile" in symptom:
                    self.assertEqual(break_it.first_tile(intact, broken)[0], symptom["tile"])

    def test_an_input_that_does_not_show_a_break_is_answered_with_one_that_does(self):
        self.every(self.harmless)

    def harmless(self, chapter, name, demo):
        program = break_it.PROGRAMS[chapter]
        for one in [demo, *demo.get("more", [])]:
            for words in one.get("harmless", []):
                with self.subTest(input=words):
                    result = run(program, *words.split(), "--break", name)
                    self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
                    shows = demo["input"].removesuffix(" --device emulator")
                    device = " --device emulator" if shows != demo["input"] else ""
                    self.assertLessEqual(max(map(len, result.stdout.splitlines())), 80)
                    answer = " ".join(result.stdout.replace(" \\\n", "").split())
                    self.assertTrue(answer.endswith(
                        f" this input does not show {name}; this one does: "
                        f"{program} {shows} --break {name}{device}"), result.stdout)
                    self.assertEqual(run(program, *words.split()).returncode, 0)

    def test_an_option_that_is_no_input_goes_with_the_breaks_own_input(self):
        for chapter in set(CHAPTERS) & set(break_it.ON_A_DEVICE):
            name, demo = demos(chapter)[1]
            result, report = typed(chapter, name, "--device", "emulator", "--schedule-seed", "3")
            self.assertEqual(result.returncode, 1, result.stdout)
            self.shows_input(result, demo, name)
            self.assertEqual(report["device"], "emulator")

    def test_device_auto_leaves_the_choice_to_the_breaks_own_input(self):
        if "10" in CHAPTERS:  # an algorithm of the CPU, with which --device does not go
            result, _ = typed("10", "bf16-dq", "--device", "auto")
            self.assertEqual((result.returncode, result.stderr), (1, ""), result.stdout)

    def test_several_breaks_run_the_input_of_the_first(self):
        for chapter in CHAPTERS:
            (first, demo), (second, _) = demos(chapter)[:2]
            if chapter in ("01", "10"):  # one program, or one device, does not have both
                continue
            result, report = typed(chapter, first, "--break", second)
            self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
            self.shows_input(result, demo, first)
            self.assertEqual(report["breaks"], [first, second])

    def test_an_unknown_break_is_refused_with_the_names(self):
        for chapter in CHAPTERS:
            names = [name for name, _ in demos(chapter)]
            result = run(break_it.PROGRAMS[chapter], "--break", "everything")
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertEqual(result.stderr,
                             f'error: --break everything: accepted: {", ".join(names)}\n')

    def test_a_break_before_a_command_is_refused(self):
        for chapter, command in (("01", "softmax"), ("02", "overflow"), ("18", "matmul"), ("20", "train")):
            if chapter in CHAPTERS:
                result = run(break_it.PROGRAMS[chapter], "--break", demos(chapter)[0][0], command)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertTrue(result.stderr.startswith(f"error: --break before {command}: "))

    def test_the_list_has_a_line_for_each_break(self):
        for chapter in CHAPTERS:
            listed = run(break_it.PROGRAMS[chapter], "--list-breaks")
            self.assertEqual((listed.returncode, listed.stderr), (0, ""))
            self.assertEqual([line.split(None, 1) for line in listed.stdout.splitlines()],
                             [[name, TEXTS[name]["line"]] for name, _ in demos(chapter)])
            self.assertLessEqual(max(map(len, listed.stdout.splitlines())), 80)

    def test_counters_and_schedules_are_shown_beside_the_intact_program(self):
        for chapter, name, words in (("09", "mask-every-tile", "tiles_masked 20"),
                                     ("10", "unordered-dq", "values differ under"),
                                     ("16", "no-sum-check", "global_load_sectors")):
            if chapter not in CHAPTERS:
                continue
            result = tool(name, "--chapter", chapter)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertRegex(" ".join(result.stdout.split()),
                             f"intact: the check passes.* broken: .*{words}")
            self.assertNotIn("harmless", result.stdout)

    def test_a_break_that_is_undefined_on_a_gpu_is_refused_there(self):
        for chapter in set(CHAPTERS) & set(KERNELS):
            for name in RACES:
                if chapter not in break_it.chapters_of(name):
                    continue
                with self.subTest(chapter=chapter, name=name):
                    result = run(break_it.PROGRAMS[chapter], "--device", "gpu", "--break", name)
                    self.assertEqual((result.returncode, result.stdout), (2, ""))
                    self.assertRegex(result.stderr,
                                     rf"^error: --break {name} is undefined .*--allow-undefined.*\n$")

    def test_allow_undefined_is_refused_where_nothing_is_undefined(self):
        for chapter in set(CHAPTERS) & set(KERNELS):
            for options in ([], ["--device", "gpu"], ["--device", "gpu", "--break", "no-rescale"],
                            ["--break", "missing-wait"], ["--device", "emulator"]):
                with self.subTest(chapter=chapter, options=options):
                    result = run(break_it.PROGRAMS[chapter], "--allow-undefined", *options)
                    self.assertEqual((result.returncode, result.stdout), (2, ""))
                    self.assertRegex(result.stderr, r"^error: --allow-undefined: goes with --device gpu .*\n$")


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
        self.refused("everything", says="break everything: there is no such break; ./learn break lists them")
        self.refused("no-mx", says="break no-mx: there is no such break; did you mean no-max?")
        self.refused("no-max", "--chapter", "19", says="01 02 03")
        self.refused("no-rescale", "--chapter", "4", "--dtype", "f16", says="chapter 02")
        self.refused("no-rescale", "--length", "0", says="--length")
        self.refused("no-rescale", "--scale", "nan", says="--scale")
        self.refused("no-rescale", "--scale", "inf", says="--scale")
        self.refused("no-max", "--dtype", "f64", says="--dtype")

    def test_the_inputs_own_length_changes_nothing(self):
        """The lines below "With fewer keys" end with the input that is shown above them."""
        for chapter in break_it.PROGRAMS:
            for name, demo in demos(chapter):
                words = demo["input"].split()
                if "--shape" in words and "--x" not in words:
                    length = int(break_it.option_of(words, "--shape").split(",")[3])
                    with self.subTest(chapter=chapter, name=name):
                        self.assertEqual(break_it.changed(demo, chapter, length=length), demo)

    def test_the_list_names_every_break(self):
        result = tool()
        self.assertEqual(result.returncode, 0)
        names = re.findall(r"(?<= )([a-z0-9-]+) \(", result.stdout)
        self.assertEqual(sorted(names), sorted(TEXTS))
        self.assertLessEqual(len(result.stdout.splitlines()), 40)
        self.assertLessEqual(max(map(len, result.stdout.splitlines())), 80)

    def test_a_chapter_has_a_list_of_its_own(self):
        listed = [line.split()[0] for line in tool("23").stdout.splitlines()[1:-2]]
        self.assertEqual(listed, [name for name, _ in demos("23")])
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

    def test_every_break_has_its_texts_once(self):
        for name, entry in TEXTS.items():
            with self.subTest(name=name):
                chapters = [chapter for chapter in break_it.chapters_of(name)
                            if "line" in CONTENT[break_it.DIRECTORIES[chapter]]["breaks"][name]]
                self.assertEqual(chapters, break_it.chapters_of(name)[:1])
                self.assertIn(entry["kind"], break_it.chapters_breaks.KINDS)
                for text in ("line", "predict", "happens", "why", "caught"):
                    self.assertGreater(len(entry[text]), 20)
                    self.assertIsNone(re.search(r"\s{2}|[^\x20-\x7e]", entry[text]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
