"""Chapters 03 to 08, 12 to 16, 22 and 23 through both doors: the program, and its kernel as a plain CUDA file.

    test_doors.py EMUCUDA BIN        BIN: the directory of the chapters' programs

O has the same bits (without contraction to FMA in either), the counters are equal, and without a barrier both report
the same kinds of hazards.
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import export

EMUCUDA, BIN = (Path(word).resolve() for word in sys.argv[1:3])
SHAPE = "1,2,100,150,64"  # ragged in queries and keys
# The GPU computes e^x as 2^(x log2 e), which rounds twice. The emulator's `exp` rounds once, and so does CUDA's expf.
EXP = "return exp2(x * 1.44269504f);", "return expf(x);"


def run(*command):
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          encoding="utf-8", timeout=120)


def counters_of(report):
    """The counters of all kernels together; shared memory is the largest of a block."""
    profiles = [kernel["profile"] for kernel in report["kernels"]]
    return {key: (max if key == "shared_bytes_per_block" else sum)(profile[key] for profile in profiles)
            for key in profiles[0]}


class Doors(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="fa_doors_"))
        self.addCleanup(lambda: subprocess.run(["rm", "-r", str(self.folder)], check=True))

    def emulated(self, text):
        """The report of an exported file and its output. Its tensors are in the folder."""
        source, report = self.folder / "attention.cu", self.folder / "cuda.json"
        source.write_text(text.replace(*EXP), encoding="utf-8")
        result = run(EMUCUDA, source, "-std=c++20", "--arch", "sm_90a", "-fmad=false", "--profile", "--json", report,
                     "--", SHAPE, self.folder)
        self.assertTrue(report.exists(), result.stdout)
        return json.loads(report.read_text(encoding="utf-8")), result

    def program(self, chapter, *options, out="--out"):
        report = self.folder / "program.json"
        tensors = [word for name in "qkv" for word in (f"--{name}", self.folder / f"{name}.npy")]
        result = run(BIN / f"ch{export.CHAPTERS[chapter]}", "--device", "emulator", *tensors, "--profile", "--json",
                     report, out, self.folder / "out.npy", *options)
        return json.loads(report.read_text(encoding="utf-8")), result

    def test_bits_and_counters_are_equal(self):
        for chapter in (*range(3, 9), *range(12, 17), 23):
            with self.subTest(chapter=chapter):
                text = export.export(chapter)
                ours, result = self.emulated(text)
                self.assertEqual((result.returncode, ours["hazards"]), (0, []), result.stdout)
                causal = ["--causal"] if "constexpr bool CAUSAL = true" in text else []
                theirs, result = self.program(chapter, *causal)
                self.assertEqual((result.returncode, theirs["hazards"]), (0, []), result.stdout)
                out, o = (self.folder / name for name in ("out.npy", "o.npy"))
                bits, expected = (file.read_bytes()[-2 * 100 * 64 * 4:] for file in (o, out))
                self.assertEqual(sum(bits[i:i + 4] != expected[i:i + 4] for i in range(0, len(bits), 4)), 0)
                counters, expected = counters_of(ours), theirs["profile"]
                # The programs of chapters 16 and 23 also ask for LSE, which 23 corrects by what K's mean adds.
                more = {16: ["global_store"], 23: ["global_store", "global_load", "shuffle"]}.get(chapter, [])
                common = [key for key in expected if key in counters and not key.startswith(tuple(more))]
                self.assertGreaterEqual(len(common), 10, counters)
                self.assertEqual({key: counters[key] for key in common}, {key: expected[key] for key in common})

    def test_the_backward_pass_has_the_same_counters(self):
        """Its gradients differ in bits, because the exported main computes O and LSE itself."""
        ours, result = self.emulated(export.export(22))
        self.assertEqual((result.returncode, ours["hazards"]), (0, []), result.stdout)
        theirs, result = self.program(22, "--do", self.folder / "do.npy", out="--dq")
        self.assertEqual((result.returncode, theirs["hazards"]), (0, []), result.stdout)
        counters, expected = counters_of(ours), theirs["profile"]
        # The compiler loads a Pair, whose alignment is 4, as two floats, and no rows that are not stored.
        common = [key for key in expected if key in counters and not key.startswith(("shared_load", "shared_bytes"))]
        self.assertGreaterEqual(len(common), 10, counters)
        self.assertEqual({key: counters[key] for key in common}, {key: expected[key] for key in common})

    def test_without_a_barrier_the_hazards_are_the_same(self):
        barrier = ("    // Every thread's part of K_smem has landed, and all warps have read the last tile's V_smem.\n"
                   "    __syncthreads();\n")
        text = export.export(3)
        self.assertEqual(text.count(barrier), 1)
        ours, _ = self.emulated(text.replace(barrier, ""))
        theirs, _ = self.program(3, "--break", "missing-barrier")

        def counts(report):
            return sorted((hazard["kind"], hazard["count"]) for hazard in report["hazards"])
        self.assertEqual(counts(ours), counts(theirs))
        self.assertGreater(len(counts(ours)), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
