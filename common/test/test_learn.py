#!/usr/bin/env python3
"""./learn from the inside, with programs, compilers and package managers that are scripts."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import sys
import tempfile
import unittest
from argparse import Namespace
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]


def load_learn():
    """The script as a module, fresh: a test may change its variables."""
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("learn", str(ROOT / "learn"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("learn", loader))
    loader.exec_module(module)
    return module


class Case(unittest.TestCase):
    """Each test has an empty directory as root, and a bin/ that holds its scripts."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="learn_")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.learn = load_learn()
        self.learn.ROOT = self.root

    def script(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return path

    def said(self, function, *arguments):
        """What a call prints, its own and its processes' words; and how it ended."""
        stop = None
        with tempfile.TemporaryFile("w+") as file, contextlib.redirect_stdout(io.StringIO()) as own:
            before = os.dup(1)
            os.dup2(file.fileno(), 1)
            try:
                function(*arguments)
            except self.learn.Stop as problem:
                stop = problem
            finally:
                os.dup2(before, 1)
                os.close(before)
            file.seek(0)
            return own.getvalue() + file.read(), stop


class Chapters(Case):
    """What a chapter's program takes, it says itself."""

    def setUp(self):
        super().setUp()
        helps = {"01_plain": "  -h,--help  this", "07_kernel": "  --device TEXT  where\n"
                 "  --bench  time it", "18_other": "  -b,--bench  time it, on a --device"}
        self.learn.CHAPTERS = [self.root / "chapters" / name for name in helps]
        for name, text in helps.items():
            self.script(f"build/bin/ch{name}", f'if [ "$1" = --help ]; then echo "{text}"; '
                        f'else echo {name} called with "[$*]"; fi\n')
        self.script("build/bin/cuda_in_one_picture", 'echo "cuda called with [$*]"\n')
        self.script("chapters/07_kernel/attention.hpp", "")
        self.learn.build = lambda *_, **__: self.root / "build"

    def test_cuda_stands_before_the_first_kernel_or_alone(self):
        output, stop = self.said(self.learn.command_run, Namespace(chapters=[], device="auto"))
        self.assertIsNone(stop)
        called = [line.split()[0] for line in output.splitlines() if "called with" in line]
        self.assertEqual(called, ["01_plain", "cuda", "07_kernel", "18_other"])
        output, stop = self.said(self.learn.command_run, Namespace(chapters=["cuda"], device="auto"))
        self.assertIsNone(stop)
        self.assertIn("cuda called with []", output)
        self.assertNotIn("07_kernel", output)
        output, _ = self.said(self.learn.command_run, Namespace(chapters=["7"], device="auto"))
        self.assertNotIn("cuda called", output)

    def test_run(self):
        output, stop = self.said(self.learn.command_run, Namespace(chapters=[], device="auto"))
        self.assertIsNone(stop)
        self.assertIn("01_plain called with []", output)
        self.assertIn("07_kernel called with [--device auto --profile]", output)
        self.assertIn("18_other called with []", output)

    def test_bench(self):
        with mock.patch.object(self.learn, "gpu", lambda: None):
            output, stop = self.said(self.learn.command_bench, Namespace(what=None))
            self.assertIsNone(stop)
            self.assertNotIn("01_plain called", output)
            self.assertIn("07_kernel called with [--bench]", output)
            self.assertIn("18_other called with [--bench]", output)
            _, stop = self.said(self.learn.command_bench, Namespace(what="1"))
            self.assertEqual((str(stop), stop.code), ("chapter 1 has no benchmark", 2))


if __name__ == "__main__":
    unittest.main()
