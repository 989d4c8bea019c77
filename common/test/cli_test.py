"""A program as a user meets it, with exit codes, one-line errors, files. Shared by the chapters' test_cli.py."""

import os
import subprocess
import tempfile
import unittest


def runner(program, base=None):
    """Returns run(*arguments, text=standard input, NAME=value of the environment)."""
    def run(*arguments, text=None, **environment):
        return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, input=text,
                              timeout=120, check=False, env={**(base or os.environ), **environment})
    return run


class Cli(unittest.TestCase):
    start = None  # the chapter's run

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def bytes_of(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def arrays(self, shapes, dtype="float32", spoil=None):
        """Random inputs, written; the arrays, and the options that name them. `spoil` changes the last."""
        import numpy as np
        random, arrays, options = np.random.default_rng(0), {}, []
        for name, shape in shapes.items():
            arrays[name] = random.normal(0.5, 1, shape).astype(dtype)
        if spoil:
            spoil(arrays[name])
        for name, array in arrays.items():
            np.save(self.path(name), array)
            options += ["--" + name, self.path(name + ".npy")]
        return arrays, options

    def refused(self, *arguments, says, **more):
        """Exit 2, one line on stderr that says why, nothing on stdout, no file touched."""
        before = {name: self.bytes_of(name) for name in os.listdir(self.folder)}
        result = self.start(*arguments, **more)
        self.assertEqual(result.returncode, 2, (arguments, result.stdout, result.stderr))
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertTrue(lines[0].startswith("error: "), result.stderr)
        for word in [says] if isinstance(says, str) else says:
            self.assertIn(word, lines[0])
        self.assertEqual(result.stdout, "")
        self.assertEqual({name: self.bytes_of(name) for name in os.listdir(self.folder)}, before)
