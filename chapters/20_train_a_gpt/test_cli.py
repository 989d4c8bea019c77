#!/usr/bin/env python3
"""ch20_train_a_gpt from the outside, with losses, resumed runs, breaks, bad input, generated text."""

import contextlib
import io
import json
import math
import os
import random
import shutil
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(ROOT, "reference"), os.path.join(ROOT, "common", "test")]
import cli_test  # noqa: E402
import gpt  # noqa: E402

SMALL = ("--layers", 1, "--channels", 16, "--heads", 2, "--context", 16, "--batch", 2)
run = cli_test.runner("ch20_train_a_gpt")


class Cli(cli_test.Cli):
    start = staticmethod(run)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def train(self, *options, code=0):
        result = run("train", *options, "--json", self.path("report.json"))
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return json.loads(self.bytes_of("report.json"))

    def test_40_default_steps_lower_the_loss_with_either_attention_alike(self):
        losses = {}
        for attention in ("plain", "tiled"):
            report = self.train("--attention", attention, "--steps", 40)
            loss = losses[attention] = report["loss"]
            self.assertEqual((len(loss), report["steps"]), (40, 40))
            self.assertTrue(all(math.isfinite(x) for x in loss))
            # Which characters come first depends on the lessons; 0.02 to 0.06 was seen.
            self.assertLess(abs(loss[0] - math.log(report["model"]["vocabulary"])), 0.1)
            self.assertLess(sum(loss[-5:]) / 5, loss[0] - 0.3)
            self.assertTrue(report["check"]["passed"])
        for plain, tiled in zip(losses["plain"][:20], losses["tiled"][:20]):
            self.assertTrue(abs(plain - tiled) <= 1e-5, (plain, tiled))

    def test_the_kernels_train_as_the_tiles_do(self):
        losses = []
        for attention in ("tiled", "ch10"):
            report = self.train("--attention", attention, "--steps", 6, "--batch", 4)
            self.assertEqual(report["attention"], attention)
            self.assertTrue(report["check"]["passed"])
            losses.append(report["loss"])
        self.assertGreater(report["check"]["relative_error"], 1e-5)  # with bf16 it is another one
        for tiled, kernels in zip(*losses):
            self.assertTrue(abs(tiled - kernels) <= 1e-3, (tiled, kernels))
        self.assertNotEqual(*losses)

    def test_all_of_the_model_on_the_emulator_trains_as_on_the_cpu(self):
        options = ("--steps", 6, "--batch", 2, "--context", 20)
        losses = []
        for device in ("cpu", "emulator"):
            report = self.train("--device", device, *options, "--checkpoint", self.path(device))
            self.assertEqual(report["device"], device)
            self.assertTrue(report["check"]["passed"])
            losses.append(report["loss"])
        self.assertEqual(report["attention"], "ch10")
        self.assertGreater(report["attention_bytes"], 0)
        for cpu, emulator in zip(*losses):
            self.assertTrue(abs(cpu - emulator) <= 1e-2, (cpu, emulator))
        self.assertNotEqual(*losses)
        # Each device continues from the other's checkpoint.
        for device, other in (("cpu", "emulator"), ("emulator", "cpu")):
            report = self.train("--resume", "--steps", 8, "--device", device,
                                "--checkpoint", self.path(other))
            self.assertEqual(len(report["loss"]), 8)

    def test_two_ranks_have_the_loss_of_one(self):
        if "left chapter 19 out" in run("train", "--attention", "ch19", "--steps", 0).stderr:
            self.skipTest("chapter 19 was left out")
        for context in (64, 3):  # of 3 positions, four pieces, of which one is empty
            one, two = (self.train("--attention", attention, "--steps", 20, "--context", context)
                        for attention in ("tiled", "ch19"))
            self.assertTrue(two["check"]["passed"])
            for tiled, ring in zip(one["loss"], two["loss"]):
                self.assertTrue(abs(tiled - ring) <= 1e-5, (tiled, ring))

    def test_numpy_takes_the_same_steps(self):
        text = ("--text", os.path.join(ROOT, "LICENSE"))
        self.train("--layers", 2, *SMALL[2:], *text, "--steps", 0, "--checkpoint", self.path("start"))

        def compared(steps, *options, code=0):
            shutil.copy(self.path("start"), self.path("end"))
            self.train("--resume", *text, "--steps", steps, "--checkpoint", self.path("end"),
                       *options, code=code)
            with contextlib.redirect_stdout(io.StringIO()) as out:
                status = gpt.main([self.path("start"), self.path("end"), *text])
            return status, out.getvalue()

        for attention in ("plain", "tiled"):
            status, out = compared(5, "--attention", attention, "--block", 5)
            self.assertEqual(status, 0, out)
            self.assertTrue(out.startswith("5 steps: loss off by at most "), out)
        for name, says in (("no-d", "moment of 0 in W"), ("no-scale-in-dk", "moment of 1 in W"),
                           ("mask-off-by-one", "loss")):
            status, out = compared(1, "--break", name, code=1)
            self.assertEqual(status, 1, out)
            self.assertIn(says + ": off by", out)

    def test_the_seed_decides(self):
        first, again, other = (self.train(*SMALL, "--steps", 3, "--seed", seed)["loss"]
                               for seed in (1, 1, 2))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)

    def test_a_resumed_run_is_the_run(self):
        whole, half = self.path("whole"), self.path("half")
        self.train(*SMALL, "--steps", 12, "--checkpoint", whole)
        self.train(*SMALL, "--steps", 5, "--checkpoint", half)
        report = self.train("--resume", "--steps", 12, "--checkpoint", half)
        self.assertEqual(len(report["loss"]), 12)
        self.assertTrue(self.bytes_of("whole") == self.bytes_of("half"))
        self.refused("train", "--resume", "--steps", 11, "--checkpoint", half,
                     says="has 12 steps already")
        self.refused("train", "--resume", "--steps", 13, "--context", 32, "--checkpoint", half,
                     says="--context 32: the checkpoint has 16")
        text = self.write("text", b"another text, longer than sixteen characters\n" * 9)
        self.refused("train", "--resume", "--steps", 13, "--text", text, "--checkpoint", half,
                     says="was trained on another text")

    def test_it_learns_another_text_in_utf8_and_writes_it(self):
        text = self.write("text", "größer, größer und größer. ".encode() * 40)
        self.train(*SMALL, "--steps", 150, "--learning-rate", 0.01, "--text", text,
                   "--checkpoint", self.path("gpt"))
        options = ("generate", "--checkpoint", self.path("gpt"), "--tokens", 40, "--prompt", "grö")
        result = run(*options)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(result.stdout), 3 + 40 + 1)
        self.assertTrue(result.stdout.startswith("grö"))
        self.assertIn("größer", result.stdout)
        self.assertEqual(run(*options, "--seed", 0).stdout, result.stdout)

    def test_a_text_without_lines_or_with_one_character_only(self):
        for name, letters, first in (("lines", "a\nb", "\n"), ("no lines", "cab", "c"), ("one", "z", "z")):
            with self.subTest(name):
                text = self.write(name, letters.encode() * 40)
                report = self.train(*SMALL, "--steps", 1, "--text", text, "--checkpoint", self.path("gpt"))
                self.assertTrue(report["check"]["passed"])
                self.assertLess(report["check"]["relative_error"], 1e-4)  # null if it is not a number
                result = run("generate", "--checkpoint", self.path("gpt"), "--tokens", 5)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertTrue(result.stdout.startswith(first), result.stdout)
                self.assertEqual(len(result.stdout), 1 + 5 + 1)

    def test_each_break_fails_the_check_of_the_gradients_and_trains_on(self):
        listed = run("--list-breaks").stdout.splitlines()
        self.assertEqual(len(listed), 5)
        for name in (line.split()[0] for line in listed):
            with self.subTest(name=name):
                report = self.train("--steps", 2, "--break", name, code=1)
                self.assertFalse(report["check"]["passed"])
                self.assertEqual(len(report["loss"]), 2)

    def test_who_sees_the_answer_has_a_loss_that_is_too_good(self):
        """A model guesses random letters only by chance, unless it sees them."""
        letters = random.Random(1).choices("abcdefghijklmnopqrst", k=20000)
        text = self.write("letters", "".join(letters).encode())
        small = ("--layers", 1, "--channels", 32, "--heads", 2, "--context", 32, "--batch", 8, "--steps", 150,
                 "--learning-rate", 0.01)
        intact, broken = (sum(self.train(*small, "--text", text, *options, code=code)["loss"][-10:]) / 10
                          for options, code in (((), 0), (("--break", "mask-off-by-one"), 1)))
        self.assertGreater(intact, math.log(20) - 0.1)
        self.assertLess(broken, 0.5)

    def test_the_gradient_check_sees_a_wrong_backward_not_a_wrong_mask(self):
        for options, code in (((), 0), (("--attention", "plain"), 0), (("--break", "no-d"), 1),
                              (("--break", "no-scale-in-dk"), 1), (("--break", "no-rescale"), 1),
                              (("--break", "mask-off-by-one"), 0),
                              (("--break", "tile-relative-mask"), 0)):
            with self.subTest(options=options):
                self.assertEqual(run("gradients", *options).returncode, code)

    def test_bad_numbers_are_refused(self):
        for options, says in ((("--steps", -1), "--steps"), (("--heads", 3), "--heads 3"),
                              (("--context", 0), "--context"), (("--block", 0), "--block"),
                              (("--learning-rate", "nan"), "--learning-rate"),
                              (("--learning-rate", 0), "--learning-rate"),
                              (("--attention", "flash"), "flash"), (("--break", "x"), "x"),
                              (("--break", "no-d", "--attention", "plain"), "--break"),
                              (("--break", "no-d", "--attention", "ch10"), "--break"),
                              (("--break", "no-d", "--attention", "ch19"), "--break"),
                              (("--attention", "ch10", "--heads", 4, "--channels", 48), "head size 12"),
                              (("--device", "tpu"), "tpu"),
                              (("--device", "emulator", "--attention", "tiled"), "ch10, ch16"),
                              (("--device", "emulator", "--break", "no-d"), "--break"),
                              (("--device", "emulator", "--memory-limit", 9), "--memory-limit"),
                              (("--device", "emulator", "--heads", 4, "--channels", 48), "head size 12"),
                              (("--resume",), "--checkpoint"), (("--frobnicate",), "frobnicate")):
            with self.subTest(options=options):
                self.refused("train", *options, "--json", self.path("no.json"), says=says)

    def test_a_byte_order_mark_is_no_character_of_the_text(self):
        content = "größer, größer und größer. ".encode() * 4
        files = [self.write("plain", content), self.write("marked", b"\xef\xbb\xbf" + content)]
        plain, marked = (self.train(*SMALL, "--steps", 2, "--text", file) for file in files)
        self.assertEqual(plain["loss"], marked["loss"])
        utf16 = self.write("utf16", b"\xff\xfe" + "a text".encode("utf-16-le") * 40)
        self.refused("train", "--text", utf16, says="is text in UTF-16; save it as UTF-8")

    def test_bad_files_are_refused(self):
        short = self.write("short", b"abc")
        binary = self.write("binary", b"abc\xff" * 99)
        empty = self.write("empty", b"")
        for text, says in ((short, "3 characters"), (binary, "byte 3 is not UTF-8"),
                           (empty, "0 characters"), (self.path("absent"), "absent")):
            self.refused("train", "--text", text, "--checkpoint", self.path("gpt"), says=says)
        self.refused("train", "--checkpoint", self.path("no/gpt"), says="no/gpt")
        self.refused("train", "--json", self.path("no/report"), says="no/report")
        self.refused("generate", says="--checkpoint")
        self.refused("generate", "--checkpoint", short, says="is no checkpoint")
        self.refused("train", "--resume", "--checkpoint", short, says="is no checkpoint")
        self.train(*SMALL, "--steps", 1, "--checkpoint", self.path("gpt"))
        whole = self.bytes_of("gpt")
        damaged = self.write("damaged", whole[:-100])
        self.refused("generate", "--checkpoint", damaged, says="is damaged")
        self.refused("train", "--resume", "--checkpoint", damaged, says="is damaged")
        for options, says in ((("--prompt", ""), "--prompt"), (("--tokens", -1), "--tokens"),
                              (("--prompt", "\N{SNOWMAN}\N{DRAGON}"), "has not seen"),
                              (("--temperature", 0), "--temperature")):
            self.refused("generate", "--checkpoint", self.path("gpt"), *options, says=says)

    def test_a_text_as_long_as_plain_attention_cannot_hold_is_refused_with_a_sentence(self):
        result = run("train", *SMALL, "--steps", 1, "--attention", "plain",
                     "--memory-limit", 1000)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertRegex(result.stderr, r"^error: --attention plain at --context 16 needs .*\n$")


if __name__ == "__main__":
    unittest.main()
