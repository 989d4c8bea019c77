#!/usr/bin/env python3
"""Tests the files and the standard output of all programs, with links, modes, signals, full disks, equal
paths and long names. Every program of one table runs in every situation."""

import itertools
import json
import os
import random
import re
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import numpy as np

BIN = Path(os.environ["FA_BINARY_DIR"]) / "bin"
NO_SPACE = "No space left on device"
KERNEL = "--device emulator --shape 1,1,16,16,64"
TRAIN = "train --steps 1 --context 8 --layers 1 --heads 1 --channels 8 --batch 1"
# A run that takes moments, and the options of the files that it writes.
RUNS = [
    ("ch01_toy_machine run element", "--json"),
    ("ch02_tiled_cpu --shape 1,1,8,8,8", "--out --lse --json"),
    ("ch02_tiled_cpu memory --longest 512", "--json"),
    (f"ch03_basic_kernel {KERNEL}", "--out --json --events"),
    (f"ch09_masks_and_shapes {KERNEL}", "--out --lse --json --events"),
    (f"ch10_backward {KERNEL}", "--dq --dk --dv --json --events"),
    ("ch11_decoding --device emulator --shape 1,1,1,16,64", "--out --lse --json --events"),
    ("ch18_systolic_array matmul", "--json"),
    ("ch19_ring_attention --shape 1,1,16,16,8 --ranks 2", "--out --lse --json"),
    ("ch19_ring_attention --shape 1,1,16,16,8 --ranks 2 --backward", "--dq --dk --dv --json"),
    (f"ch20_train_a_gpt {TRAIN}", "--checkpoint --json"),
    ("ch24_serve_a_gpt --steps 1 --new 1", "--json"),
]
# The same with files that are read.
INPUTS = [
    ("ch02_tiled_cpu", "--q --k --v", "--out --lse --json"),
    ("ch09_masks_and_shapes --device emulator", "--q --k --v", "--out --lse --json --events"),
    ("ch10_backward --device emulator", "--q --k --v --do", "--dq --dk --dv --json --events"),
    ("ch19_ring_attention --ranks 2", "--q --k --v", "--out --lse --json"),
    (f"ch20_train_a_gpt {TRAIN}", "--text", "--checkpoint --json"),
    ("ch24_serve_a_gpt --steps 1 --new 1", "--text --prompts", "--json"),
]


class FrontEnds(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="front_ends_")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.random = random.Random(41)

    def run_program(self, words, *more, **options):
        program, *arguments = words.split()
        options = {"stdout": subprocess.PIPE, **options}
        return subprocess.run([BIN / program, *arguments, *map(str, more)], cwd=self.folder,
                              stderr=subprocess.PIPE, text=True, timeout=60, **options)

    def refused(self, says, words, *more, **options):
        """Checks for exit status 2 and one line with the reason, before the run prints anything,
        and for no new file."""
        before = sorted(self.folder.rglob("*"))
        run = self.run_program(words, *more, **options)
        self.assertEqual(run.returncode, 2, (words, more, run.stdout, run.stderr))
        self.assertRegex(run.stderr, r"\Aerror: [^\n]*\n\Z")
        self.assertIn(says, run.stderr)
        self.assertIn(run.stdout, ("", None), (words, more))
        self.assertEqual(sorted(self.folder.rglob("*")), before, (words, more))

    def path(self, name=""):
        """Returns a path without a file, in an empty folder."""
        return Path(tempfile.mkdtemp(dir=self.folder)) / (name or "file")

    def spelled(self, path):
        """Returns another path of the same file, chosen at random."""
        link = self.path("link")

        def symbolic():
            link.symlink_to(path)
            return link

        def folder():
            link.symlink_to(path.parent)
            return link / path.name

        def chain():
            (link.parent / "next").symlink_to(path)
            link.symlink_to("next")
            return link

        def hard():
            path.touch()
            link.hardlink_to(path)
            return link

        return self.random.choice([
            lambda: path, symbolic, folder, chain, hard, lambda: os.path.relpath(path, self.folder),
            lambda: path.parent / ".." / path.parent.name / "." / path.name])()

    def for_each_output(self, check):
        for words, options in RUNS:
            for option in options.split():
                with self.subTest(words, option=option):
                    check(words, option)

    def test_full_disk(self):
        with open("/dev/full", "w") as full:
            for words, _ in RUNS:
                program = words.split()[0]
                for arguments in (words, f"{program} --help", f"{program} --list-breaks"):
                    with self.subTest(arguments):
                        self.refused("standard output cannot be written", arguments, stdout=full)

        def check(words, option):
            run = self.run_program(words, option, "/dev/full")
            self.assertEqual((run.returncode, run.stderr),
                             (2, f"error: /dev/full: cannot write: {NO_SPACE}\n"))

        self.for_each_output(check)

    def test_size_limit(self):
        """A file may have 1 byte. Standard output is first a pipe, which has no limit, and then a
        file."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))

        def check(words, option):
            path = self.path()
            path.write_text("x")
            run = self.run_program(words, option, path, preexec_fn=limit)
            self.assertEqual((run.returncode, run.stderr),
                             (2, f"error: {path}: cannot write: File too large\n"))
            self.assertEqual(path.read_text(), "x")
            self.assertEqual(os.listdir(path.parent), ["file"])
            with open(self.path(), "w") as out:
                run = self.run_program(words, stdout=out, preexec_fn=limit)
            self.assertEqual(run.returncode, 2)
            self.assertRegex(run.stderr, r"\Aerror: standard output cannot be written[^\n]*\n\Z")

        self.for_each_output(check)

    def test_same_file_twice(self):
        for words, options in RUNS:
            for first, second in itertools.permutations(options.split(), 2):
                path = self.path()
                with self.subTest(words, options=(first, second)):
                    self.refused("are the same file", words, first, path, second,
                                 self.spelled(path))

        def check(words, option):
            path = self.path()
            with open(path, "w") as out:
                self.refused("standard output goes to this file", words, option,
                             self.spelled(path), stdout=out)
            self.assertEqual(path.read_text(), "")

        self.for_each_output(check)

    def test_input_is_output(self):
        for words, inputs, outputs in INPUTS:
            for option in outputs.split():
                files = {name: self.path() for name in inputs.split()}
                for path in files.values():
                    if "--text" in files:
                        path.write_text("a text to learn from\n" * 9)
                    else:
                        with open(path, "wb") as file:
                            np.save(file, np.ones((16, 64), np.float32))
                given = [word for name, path in files.items() for word in (name, path)]
                for name, path in files.items():
                    with self.subTest(words, options=(name, option)):
                        self.refused("are the same file", words, *given, option,
                                     self.spelled(path))
                self.assertEqual(self.run_program(words, *given, option, self.path()).returncode, 0)

    def test_devices_may_be_given_twice(self):
        for words, options in RUNS:
            with self.subTest(words):
                null = [word for option in options.split() for word in (option, "/dev/null")]
                self.assertEqual(self.run_program(words, *null).returncode, 0)
        self.assertTrue(Path("/dev/null").is_char_device())

    def test_links_modes_and_long_names(self):
        def check(words, option):
            mode = self.random.choice((0o600, 0o640, 0o666, 0o755))
            target = self.path(self.random.choice("aü") * self.random.choice((1, 125)))
            target = target.with_name(target.name + "b" * (255 - len(os.fsencode(target.name))))
            link = self.path("link")
            link.symlink_to(os.path.relpath(target, link.parent))
            self.assertEqual(self.run_program(words, option, link).returncode, 0)
            self.assertTrue(link.is_symlink())
            content = target.read_bytes()
            self.assertGreater(len(content), 1)
            target.write_bytes(b"x")
            target.chmod(mode)
            self.assertEqual(self.run_program(words, option, link).returncode, 0)
            self.assertGreater(len(target.read_bytes()), 1)
            self.assertEqual(stat.S_IMODE(target.stat().st_mode), mode)
            self.assertEqual(os.listdir(target.parent), [target.name])
            self.assertEqual(os.listdir(link.parent), ["link"])

        self.for_each_output(check)

    def test_paths_that_cannot_be_written(self):
        circle = self.path()
        circle.symlink_to(circle)
        file = self.path()
        file.touch()
        astray = self.path()
        astray.symlink_to("no/such/folder")

        def check(words, option):
            for path, says in ((self.path("a" * 256), "File name too long"),
                               (self.path() / "folder", "No such file or directory"),
                               (astray, "No such file or directory"),
                               (self.folder, "it is a directory"),
                               (f"{file}/", "Not a directory"),
                               (file / "below", "Not a directory"),
                               (circle, "Too many levels of symbolic links"),
                               ("", "empty path")):
                self.refused(says, words, option, path)

        self.for_each_output(check)

    def test_help_lists_the_options_that_are_taken(self):
        """The options of chapter 09's masks, which a program lists and takes one, or refuses it by name."""
        options = {"--causal": "", "--window": "1,1", "--kv-heads": "1", "--softcap": "3", "--alibi": "",
                   "--cu-seqlens-q": "0,16", "--layout": "blhd", "--lse": "x.npy", "--sinks": "random"}
        taken = {"ch03_basic_kernel": [], "ch09_masks_and_shapes": list(options),
                 "ch16_maximum_on_demand": ["--causal", "--window", "--kv-heads", "--cu-seqlens-q",
                                            "--layout", "--lse", "--sinks"]}
        for program, listed in taken.items():
            help_text = self.run_program(f"{program} --help").stdout
            self.assertEqual([one for one in options if re.search(rf"{one}\b", help_text)],
                             [one for one in options if one in listed], program)
            for option, value in options.items():
                if option not in listed:
                    self.refused(f"{option}: not in this chapter; chapter 09 has it",
                                 f"{program} {KERNEL} {option} {value}")

    def test_breaks_that_a_gpu_does_not_show(self):
        """Refused before a GPU is looked for."""
        self.refused("--break flat-map: a GPU run does not show it, because the counter "
                     "tma_bytes_outside changes: expected --device emulator",
                     "ch12_tma --break flat-map --device gpu")
        self.refused("--break unordered-dq: a GPU run does not show it, because the bits of two "
                     "schedules differ: expected --device emulator",
                     "ch22_backward_on_hopper --break unordered-dq --device gpu")

    def test_estimates(self):
        """The counters that no hardware has confirmed, in the text and in the JSON."""
        for program, expected in (("ch04_swizzling", set()), ("ch12_tma", {"mbarrier_operations"}),
                                  ("ch23_fp8", {"mbarrier_operations", "shared_store_wavefronts", "tma_bytes",
                                                "tma_instructions"})):  # it stores O with TMA
            report = self.path()
            run = self.run_program(f"{program} --device emulator --shape 1,1,64,64,64 --profile",
                                   "--json", report)
            self.assertEqual(run.returncode, 0, run)
            self.assertEqual(set(re.findall(r"^  (\w+) .*  estimate$", run.stdout, re.M)), expected)
            self.assertEqual(set(json.loads(report.read_text())["profile"]["estimates"]), expected)

    def test_signals(self):
        """Each signal ends the process while it writes 32 MiB, and no file may be left."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            path = self.path()
            program = subprocess.Popen(
                [BIN / "ch02_tiled_cpu", "--shape", "1,1,131072,1,64", "--out", path],
                stdout=subprocess.DEVNULL, cwd=self.folder,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
            partial = Path(f"{path}.partial-{program.pid}")
            size = 0
            while size == 0 and program.poll() is None:
                time.sleep(0.0005)
                size = partial.stat().st_size if partial.exists() else 0
            program.send_signal(number)
            self.assertEqual(program.wait(60), -number)
            self.assertEqual(os.listdir(path.parent), [])
            self.assertGreater(size, 0)


if __name__ == "__main__":
    sys.exit(unittest.main())
