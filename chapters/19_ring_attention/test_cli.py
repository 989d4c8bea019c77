#!/usr/bin/env python3
"""ch19_ring_attention from the outside: against NumPy, by threads and under mpirun; bad input; ranks
that differ, wait for ever, or end."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(ROOT, "reference"), os.path.join(ROOT, "common", "test")]
import attention  # noqa: E402
import cli_test  # noqa: E402

PROGRAM = shutil.which("ch19_ring_attention")
SCHEDULES = ("gather", "ring", "overlap", "zigzag")
WITHOUT_MPI = {name: value for name, value in os.environ.items()
               if not name.startswith(("OMPI_", "PMI_", "PMIX_"))}


def run(*arguments, environment=None):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=120,
                          check=False, env={**WITHOUT_MPI, **(environment or {})})


HAS_MPI = "mpirun" in run("--help").stdout
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe")


def by_mpi(*arguments, ranks=4):
    """Runs N processes. After a ":" mpirun starts others."""
    return subprocess.run([*MPIRUN, "-n", str(ranks), PROGRAM, *map(str, arguments)],
                          capture_output=True, text=True, timeout=120, check=False, env=WITHOUT_MPI)


class Cli(cli_test.Cli):
    def files(self, q, k):
        return self.arrays({"q": q, "k": k, "v": k, "do": q})

    def outputs(self, *names):
        return [part for name in names for part in ("--" + name, self.path(name + ".npy"))]

    def agrees(self, start, ranks, schedule, causal):
        """Both passes of files are NumPy's in float64, and the report says who, how and how much."""
        arrays, options = self.files((2, 4, 37, 16), (2, 2, 50, 16))
        options += self.outputs("out", "lse", "dq", "dk", "dv") + ["--json", self.path("r.json")]
        options += ["--schedule", schedule] + ["--causal"] * causal
        result = start(ranks, options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        q, k, v, do = (arrays[name].astype(np.float64) for name in ("q", "k", "v", "do"))
        o, lse = attention.general(q, k, v, causal=causal)
        expected = {"out": o, "lse": lse}
        expected.update(zip(("dq", "dk", "dv"), attention.backward(q, k, v, do, causal=causal)[:3]))
        for name, right in expected.items():
            got = np.load(self.path(name + ".npy"))
            self.assertEqual(got.shape, right.shape)
            self.assertTrue((abs(got - right) <= 1e-5 * (1 + abs(right))).all(), (name, schedule))
        with open(self.path("r.json"), encoding="utf-8") as file:
            profile = json.load(file)["profile"]
        once = 2 * k.size * 4
        hops = ranks - 1 if schedule == "gather" else ranks if ranks > 1 else 0
        self.assertEqual(profile["bytes_sent"], (2 * (ranks - 1) + hops) * once)
        self.assertEqual(profile["ranks"], ranks)
        self.assertEqual([len(steps) for steps in profile["steps"]], [ranks] * ranks)
        return profile

    def test_files_by_threads(self):
        for schedule in SCHEDULES:
            for ranks, causal in ((1, False), (3, True), (8, False)):
                profile = self.agrees(lambda n, options: run(*options, "--ranks", n), ranks, schedule,
                                      causal)
                self.assertEqual(profile["transport"], "threads")
        self.assertEqual(run("--device", "auto", "--shape", "1,1,9,9,3").returncode, 0)  # as learn calls it

    @unittest.skipUnless(HAS_MPI, "built without MPI")
    def test_files_by_mpi(self):
        for schedule, ranks, causal in (("gather", 2, True), ("ring", 3, False), ("overlap", 3, True),
                                        ("zigzag", 4, True), ("zigzag", 1, False)):
            profile = self.agrees(lambda n, options: by_mpi(*options, ranks=n), ranks, schedule, causal)
            self.assertEqual(profile["transport"], "mpi")

    def test_kernels_on_the_emulator(self):
        starts = [lambda *options: run(*options, "--ranks", 2)]
        if HAS_MPI:
            starts.append(lambda *options: by_mpi(*options, ranks=2))
        for start, transport in zip(starts, ("threads", "mpi")):
            arrays, options = self.files((1, 4, 70, 16), (1, 2, 90, 16))
            result = start(*options[:6], "--causal", "--device", "emulator", "--json",
                           self.path("r.json"), *self.outputs("out", "lse"))
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            with open(self.path("r.json"), encoding="utf-8") as file:
                report = json.load(file)
            self.assertEqual((report["device"], report["profile"]["transport"]), ("emulator", transport))
            self.assertEqual(report["profile"]["bytes_sent"], 2 * arrays["k"].size * 2)
            for steps in report["profile"]["steps"]:
                self.assertEqual(len(steps), 2)
                self.assertGreater(steps[0]["compute_ms"], 0)
                self.assertGreaterEqual(steps[1]["begin_ms"], steps[0]["begin_ms"])
                self.assertGreater(steps[0]["transfer_ms"], 0)
            o, lse = attention.general(*(arrays[name].astype(np.float64) for name in ("q", "k", "v")),
                                       causal=True)
            self.assertTrue((abs(np.load(self.path("out.npy")) - o) <= 3e-2 * (1 + abs(o))).all())
            self.assertTrue((abs(np.load(self.path("lse.npy")) - lse) <= 3e-2 * (1 + abs(lse))).all())

    def test_gradients_by_kernels_on_the_emulator(self):
        for kernels in ([], ["--attention", "ch22"]):
            result = run("--device", "emulator", "--backward", "--causal", "--ranks", 2, "--shape",
                         "1,2,70,90,64", *kernels, "--json", self.path("r.json"))
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            with open(self.path("r.json"), encoding="utf-8") as file:
                self.assertEqual([len(steps) for steps in json.load(file)["profile"]["backward_steps"]], [2, 2])

    def test_work_is_shared_evenly_by_zigzag_only(self):
        def work(*options):
            result = run("--causal", "--ranks", 4, "--shape", "1,1,256,256,8", "--json",
                         self.path("r.json"), *options)
            self.assertEqual(result.returncode, 0, result.stderr)
            with open(self.path("r.json"), encoding="utf-8") as file:
                ranks = json.load(file)["profile"]["steps"]
            return [sum(step["scores"] for step in steps) for steps in ranks]
        self.assertEqual(len(set(work("--schedule", "zigzag"))), 1)
        in_order = work("--schedule", "overlap")
        self.assertEqual(sum(in_order), 256 * 257 // 2)
        self.assertEqual(in_order, sorted(in_order))
        self.assertGreater(in_order[3], 6 * in_order[0])

    def test_what_is_refused(self):
        for arguments, says in (
                (["--ranks", "0"], "--ranks"), (["--ranks", "65"], "--ranks"),
                (["--schedule", "star"], "--schedule"), (["--window", "3,0"], "--window"),
                (["--dq", self.path("none") + "/dq.npy"], "dq.npy"),
                (self.files((1, 2, 4, 8), (1, 2, 4, 8))[1][:6] + ["--backward"], "--do"),
                (["--device", "tpu"], "--device"), (["--link", "rope"], "--link"),
                (["--backward", "--attention", "ch22"], "--attention"),
                (["--device", "emulator", "--attention", "ch22"], "--attention"),
                (["--device", "emulator", "--backward", "--attention", "ch22", "--shape", "1,1,8,8,16"],
                 "head size 16"),
                (["--device", "emulator", "--break", "bf16-hops"], "--break"),
                (["--device", "emulator", "--shape", "1,1,8,8,12"], "head size 12"),
                (["--device", "emulator", "--link", "nccl"], "--link"),
                (["--break", "nothing"], "overflowing-merge")):
            before = sorted(os.listdir(self.folder))
            result = run(*arguments, "--json", self.path("r.json"))
            self.assertEqual(result.returncode, 2, (arguments, result.stdout))
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
            self.assertTrue(result.stderr.startswith("error: "), result.stderr)
            self.assertIn(says, result.stderr)
            self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_threads_name_what_mpi_leaves_open(self):
        for name, kind, says in (("blocking-sends", "deadlock", "all ranks wait for one another"),
                                 ("one-buffer", "memory_in_use", "rank 0 sends memory")):
            result = run("--break", name, "--schedule", "overlap", "--shape", "1,1,64,64,8")
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(f"hazard     {kind}: {says}", result.stdout)

    @unittest.skipIf(HAS_MPI, "built with MPI")
    def test_without_mpi_mpirun_is_refused(self):
        for rank, lines in (("0", 1), ("1", 0)):
            result = run(environment={"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": "2"})
            self.assertEqual((result.returncode, len(result.stderr.splitlines())), (2, lines))

    @unittest.skipUnless(HAS_MPI, "built without MPI")
    def test_mpirun_passes_on_what_the_program_says(self):
        self.assertEqual(by_mpi("--help", ranks=2).returncode, 0)
        result = by_mpi("--ranks", "3", ranks=2)
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr.count("error: "), 1, result.stderr)

    @unittest.skipUnless(HAS_MPI, "built without MPI")
    def test_a_break_alone_runs_the_input_that_shows_it(self):
        for name, options in (("bf16-hops", "--shape 1,2,256,256,32"),
                              ("local-positions", "--shape 1,2,256,256,32 --schedule overlap --causal")):
            result = by_mpi("--break", name, ranks=2)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(f"input: {options}, which shows {name} ", " ".join(result.stdout.split()))
            self.assertIn("ranks      2, by ", result.stdout)
            self.assertRegex(result.stdout, "symptom +intact: the check passes.*\n +broken: .* wrong")

    @unittest.skipUnless(HAS_MPI, "built without MPI")
    def test_ranks_that_were_started_differently(self):
        result = by_mpi("--shape", "1,1,8,8,8", ":", "-n", "1", PROGRAM, "--shape", "1,1,9,9,8", ranks=2)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertIn("error: rank 2 was started with other arguments", result.stderr)

    @unittest.skipUnless(HAS_MPI, "built without MPI")
    def test_ranks_that_wait_for_one_another_end(self):
        began = time.monotonic()
        result = by_mpi("--break", "blocking-sends", "--schedule", "ring", "--shape",
                        "1,8,2048,2048,64", ranks=2)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertRegex(result.stderr, r"error: rank \d: nothing from rank \d for \d+ seconds")
        self.assertLess(time.monotonic() - began, 60)

    @unittest.skipUnless(HAS_MPI and Path(f"/proc/self/task/{os.getpid()}/children").exists(),
                         "needs MPI, and /proc that lists children")
    def test_a_rank_that_is_killed_ends_all(self):
        with subprocess.Popen([*MPIRUN, "-n", "3", PROGRAM, "--bench", "--shape",
                               "1,8,4096,4096,64"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, env=WITHOUT_MPI) as job:
            children = []
            for _ in range(200):
                children = [int(child) for listed in Path("/proc").glob(f"{job.pid}/task/*/children")
                            for child in listed.read_text(encoding="ascii").split()]
                if len(children) == 3:
                    break
                time.sleep(0.05)
            self.assertEqual(len(children), 3)
            time.sleep(0.5)
            os.kill(children[1], signal.SIGKILL)
            began = time.monotonic()
            _, errors = job.communicate(timeout=60)
            self.assertLess(time.monotonic() - began, 10)
            self.assertNotEqual(job.returncode, 0)
            self.assertIn("signal 9", errors)


if __name__ == "__main__":
    unittest.main()
