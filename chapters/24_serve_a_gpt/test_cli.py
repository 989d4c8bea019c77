#!/usr/bin/env python3
"""ch24_serve_a_gpt from the outside, with prompts from files and standard input, reports, bad input."""

import json
import os
import subprocess
import tempfile
import unittest

PROGRAM = "ch24_serve_a_gpt"
TEXT = "the kernel reads a tile. the warp reads a row. the tile has a row of keys. " * 4


def run(*arguments, text=None, program=PROGRAM):
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, input=text,
                          timeout=120, check=False)


class Cli(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.text, cls.model = cls.write("text", TEXT), cls.path("model")
        result = run("train", "--text", cls.text, "--context", 64, "--steps", 30, "--checkpoint", cls.model,
                     program="ch20_train_a_gpt")
        assert result.returncode == 0, result.stderr

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def write(cls, name, content):
        with open(cls.path(name), "w", encoding="utf-8") as file:
            file.write(content)
        return cls.path(name)

    def serve(self, *options, code=0, text=None):
        result = run("--checkpoint", self.model, *options, "--json", self.path("report"), text=text)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        with open(self.path("report"), encoding="utf-8") as file:
            report = json.load(file)
        os.remove(self.path("report"))
        self.assertTrue(all(len(line) <= 80 for line in result.stdout.splitlines()), result.stdout)
        return report, result.stdout

    def refused(self, *arguments, says, text=None):
        """Exit 2, one line on stderr that says why, nothing on stdout, no file written."""
        before = sorted(os.listdir(self.folder))
        result = run(*arguments, text=text)
        self.assertEqual(result.returncode, 2, (arguments, result.stdout, result.stderr))
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertTrue(lines[0].startswith("error: "), result.stderr)
        self.assertIn(says, lines[0])
        self.assertEqual(result.stdout, "")
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def answers(self, *options, **more):
        return [one["answer"] for one in sorted(self.serve(*options, **more)[0]["answers"],
                                                key=lambda one: one["request"])]

    def test_a_file_and_standard_input_have_the_same_answers(self):
        lines = "the tile\nthe kernel\r\n\nthe tile has\n"
        options = ("--device", "cpu", "--new", 20)
        from_file = self.answers(*options, "--prompts", self.write("prompts", lines))
        self.assertEqual(self.answers(*options, "--stdin", text=lines), from_file)
        self.assertEqual([len(one.replace("\\n", " ")) for one in from_file], [20, 20, 20])

    def test_batches_pages_drafts_and_sharing_change_no_token(self):
        prompts = ("--prompts", self.write("many", "the tile\nthe tile has a\nthe tile has the\nthe row\n" * 2))
        expected = self.answers("--device", "cpu", "--new", 20, *prompts, "--batch", 1, "--no-sharing")
        for options in (("--batch", 8, "--pages", 40), ("--pages", 9), ("--draft", 4), ("--page-size", 3),
                        ("--draft", 7, "--pages", 8, "--every", 0)):
            with self.subTest(options=options):
                self.assertEqual(self.answers("--device", "cpu", "--new", 20, *prompts, *options), expected)

    def test_the_report_and_the_table(self):
        prompts = self.write("two", "the tile has a\nthe tile has the\n")
        report, printed = self.serve("--device", "cpu", "--new", 12, "--prompts", prompts, "--page-size", 4,
                                     "--draft", 2)
        self.assertTrue(report["check"]["passed"])
        self.assertLess(report["check"]["max_abs_error"], 1e-4)
        self.assertEqual((report["tokens"], report["pages_lost"], report["refused"]), (24, 0, 0))
        self.assertEqual(sum(step["new_tokens"] for step in report["trace"]), 24)
        self.assertEqual(report["prompt_tokens_found"], 12)  # "the tile has"
        self.assertEqual(report["prompt_tokens_computed"], 14 + 16 - 12)
        self.assertGreater(report["drafted"], report["accepted"])
        self.assertEqual(report["trace"][-1]["pages"], 0)
        self.assertTrue(all(len(step["holders"]) == report["pages"] for step in report["trace"]))
        for words in ("request 1 starts, finds 3 pages", "request 0 done", "check      passed: 24 tokens",
                      "all released, none shared by accident"):
            self.assertIn(words, printed)

    def test_the_kernels_answer_as_the_cpu_does_up_to_an_undecided_token(self):
        prompts = ("--prompts", self.write("three", "the tile\nthe tile has a\nthe row\n"), "--new", 8)
        reports = {device: self.serve(*prompts, "--draft", 2, "--device", device)[0]
                   for device in ("cpu", "emulator")}
        self.assertEqual(reports["emulator"]["device"], "emulator")
        undecided = {one["request"]: one["token"] for one in reports["emulator"]["undecided"]}
        answers = [{one["request"]: one["answer"] for one in report["answers"]} for report in reports.values()]
        for request, answer in answers[0].items():
            end = undecided.get(request, 8)
            self.assertEqual(answer[:end], answers[1][request][:end])
        self.assertGreater(reports["emulator"]["check"]["max_abs_error"],
                           10 * reports["cpu"]["check"]["max_abs_error"])  # bf16, so another program

    def test_a_request_that_is_too_long_is_refused_and_the_others_are_answered(self):
        prompts = self.write("long", "the tile\n" + TEXT[:60] + "\n")
        report, printed = self.serve("--device", "cpu", "--prompts", prompts, "--new", 10)
        self.assertEqual((report["refused"], len(report["answers"])), (1, 1))
        self.assertIn("request 1 refused: over 64 tokens", printed)

    def test_without_a_checkpoint_it_trains_a_model(self):
        result = run("--text", self.text, "--steps", 2, "--device", "cpu", "--new", 3, "--stdin", text="the\n")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("training step 2 of 2", result.stdout)

    def test_bad_input_is_refused(self):
        for options, says in ((("--pages", 0), "--pages"), (("--page-size", 0), "--page-size"),
                              (("--new", 0), "--new"), (("--draft", -1), "--draft"), (("--batch", 0), "--batch"),
                              (("--device", "tpu"), "tpu"), (("--steps", 3), "--steps"),
                              (("--text", self.text), "--text"), (("--break", "x"), "x"),
                              (("--prompts", self.path("absent")), "absent"),
                              (("--json", self.path("no/report")), "no/report"),
                              (("--stdin", "--prompts", self.text), "--stdin"), (("--frobnicate",), "frobnicate")):
            with self.subTest(options=options):
                self.refused("--checkpoint", self.model, *options, says=says, text="")
        self.refused("--checkpoint", self.text, says="is no checkpoint")
        self.refused("--checkpoint", self.model, "--stdin", says="expected at least one line", text="\n\n")
        self.refused("--checkpoint", self.model, "--stdin", says="has not seen", text="the \N{SNOWMAN}\n")
        self.refused("--checkpoint", self.model, "--prompts", self.write("empty", ""), says="at least one line")


if __name__ == "__main__":
    unittest.main()
