"""Each kernel as one plain CUDA file, in which nothing of this repository is left, and nvcc compiles it.

    test_export.py                 the texts
    test_export.py --compile NN    chapter NN's file, by nvcc, to PTX
"""

import argparse
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import export


class Texts(unittest.TestCase):
    def test_a_file_needs_nothing_of_this_repository(self):
        for chapter in export.EXPORTED:
            with self.subTest(chapter=chapter):
                text = export.export(chapter)
                code = export.masked(text)
                for left in (r'#include "', r"\b(?:fa|gpu|emulator|ch\d\d)::", r"(?i)\bbreaks\b", r"\bline, file\b",
                             r"\bFA_(?!(?:[DFO]\d*|WGMMA_\w+|EVERY_N_\w+|TYPES|MAJORS)\b)"):
                    found = re.search(left, text if "include" in left else code)
                    self.assertIsNone(found and text[found.start() - 40:found.end() + 40])
                self.assertNotIn("anchor:", text)
                self.assertIn("__global__", code)
                self.assertIn("__syncthreads();", code)

    def test_learn_writes_the_file_or_says_why_not(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "a.cu")
            for words, status, output in (
                    (("4", "-o", path), 0, rf"^{path}: \d+ lines; compile it with\n  nvcc .*{path} -o \w+\n$"),
                    (("18",), 2, "^error: chapter 18 has no kernel to export; accepted: 03 to 16, 21 to 23\n$"),
                    (("04", "-o", Path(folder, "none", "a.cu")), 2,
                     r"^error: .*/none/a.cu: No such file or directory\n$")):
                result = subprocess.run([str(export.ROOT / "learn"), "export", *map(str, words)],
                                        capture_output=True, text=True)
                self.assertEqual(result.returncode, status)
                self.assertRegex(result.stdout + result.stderr, output)
            self.assertEqual(path.read_text(encoding="utf-8"), export.export(4))
            self.assertEqual([p.name for p in Path(folder).iterdir()], ["a.cu"])

    def test_other_chapters_are_refused(self):
        for chapter in ("02", "18", "99"):
            result = subprocess.run([sys.executable, "-B", str(export.HERE / "export.py"), chapter],
                                    capture_output=True, text=True)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn("chapters 03 to 16, 21 to 23", result.stderr)


def compile_by_nvcc(chapter, nvcc):
    """Returns nvcc's exit status for the chapter's file, where warnings count as errors. It is not optimized (-G),
    because the build makes machine code of the same instructions."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "attention.cu")
        source.write_text(export.export(chapter), encoding="utf-8")
        result = subprocess.run([
            nvcc, "-std=c++20", "-ptx", "-G", "-o", str(Path(folder, "attention.ptx")),
            "-arch", export.architecture(chapter).replace("sm_", "compute_"), str(source)],
            stderr=subprocess.PIPE, text=True)
    print(result.stderr, end="")
    # Only -G says this, of long kernels.
    warnings = [line for line in result.stderr.splitlines()
                if "warning" in line and "debug information may not be accurate" not in line]
    return result.returncode or int(bool(warnings))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--compile", type=int, metavar="NN")
    parser.add_argument("--nvcc", default="nvcc")
    options, rest = parser.parse_known_args()
    if options.compile:
        sys.exit(compile_by_nvcc(options.compile, options.nvcc))
    unittest.main(argv=[sys.argv[0], *rest])
