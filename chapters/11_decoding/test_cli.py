#!/usr/bin/env python3
"""ch11_decoding from the outside: against NumPy, tables from files, bad input, the serving loop."""

import json
import os
import sys
import unittest

import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(ROOT, "reference"), os.path.join(ROOT, "common", "test")]
import attention  # noqa: E402
import cli_test  # noqa: E402

run = cli_test.runner("ch11_decoding")


class Cli(cli_test.Cli):
    start = staticmethod(run)

    def files(self, q=(2, 4, 3, 64), k=(2, 2, 50, 64)):
        arrays, options = self.arrays({"q": q, "k": k, "v": k}, np.float16)
        return arrays, [*options, "--dtype", "f16", "--device", "emulator"]

    def agrees(self, arrays, lengths, *options, trees=None):
        """O and LSE of these sequences are NumPy's in float64, each by itself."""
        result = run(*options, "--out", self.path("o.npy"), "--lse", self.path("lse.npy"))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        o, lse = np.load(self.path("o.npy")), np.load(self.path("lse.npy"))
        for n, length in enumerate(lengths):
            q, k, v = (x[n:n + 1].astype(np.float64) for x in arrays.values())
            expected_o, expected_lse = attention.general(
                q, k[:, :, :length], v[:, :, :length], causal="--causal" in options,
                tree=None if trees is None else attention.tree_mask(trees[n]))
            worst = np.abs(o[n] - expected_o[0])
            self.assertTrue((worst <= 4e-3).all(), f"sequence {n}: {worst.max()}")
            self.assertTrue((np.abs(lse[n] - expected_lse[0]) <= 1e-3).all())

    def test_numpy_agrees_with_lengths_of_their_own(self):
        arrays, options = self.files()
        self.agrees(arrays, (50, 50), *options, "--causal")
        self.agrees(arrays, (50, 7), *options, "--causal", "--cache-seqlens", "50,7", "--splits", 2)
        self.agrees(arrays, (33, 50), *options, "--cache-seqlens", "33,50", "--page-size", 3)

    def test_a_table_from_a_file(self):
        arrays, options = self.files()
        table = np.full((2, 6), -7, np.int32)  # what is not needed may be anything
        table[0, :4], table[1, :2] = (5, 0, 9, 2), (7, 3)
        np.save(self.path("table"), table)
        options += ["--page-size", 16, "--block-table", self.path("table.npy")]
        lengths = ["--cache-seqlens", "50,20"]
        for more in ([], ["--append", 5], ["--layout", "blhd", "--splits", 3]):
            self.agrees(arrays, (50, 20), *options, *lengths, *more)
        self.refused(*options, says="page -7 of sequence 1: expected 0 to")
        np.save(self.path("narrow"), table[:, :3])
        self.refused(*options[:-1], self.path("narrow.npy"),
                     says="sequence 0 needs 4 pages, its row has 3")
        table[1, 1] = 9
        np.save(self.path("table"), table)
        self.refused(*options, *lengths, says="page 9 of sequence 1 is in the table twice")
        table[1, 1] = 1 << 30
        np.save(self.path("table"), table)
        self.refused(*options, *lengths, says="page 1073741824 of sequence 1: expected 0 to")
        for wrong in (table.astype(np.int64), table[:1], table.astype(np.float32)):
            np.save(self.path("table"), wrong)
            self.refused(*options, *lengths, says="int32")

    def test_a_prefix_of_all_sequences(self):
        arrays, options = self.files(q=(3, 4, 2, 64), k=(3, 2, 50, 64))
        options += ["--page-size", 8, "--prefix", 32]
        self.refused(*options, says="--k: sequence 1 does not begin with the --prefix of sequence 0")
        for name in "kv":
            arrays[name][:, :, :32] = arrays[name][:1, :, :32]
            np.save(self.path(name), arrays[name])
        for more in ([], ["--causal", "--append", 3], ["--splits", 2], ["--layout", "blhd"]):
            self.agrees(arrays, (50, 37, 41), *options, "--cache-seqlens", "50,37,41", *more)
        table = np.array([[4, 2, 0, 7, 9, 1, 3], [4, 2, 0, 7, 8, 10, 12], [4, 2, 0, 7, 11, 6, 5]])
        np.save(self.path("table"), table.astype(np.int32))
        options += ["--block-table", self.path("table.npy")]
        self.agrees(arrays, (50, 50, 50), *options)
        table[2, 3] = 13
        np.save(self.path("table"), table.astype(np.int32))
        self.refused(*options, says="page 13 of sequence 2: the --prefix has page 7 there")

    def test_a_tree_of_new_tokens(self):
        arrays, options = self.files(q=(2, 4, 6, 64))
        one = (-1, 0, 0, 2, 2, 1)
        lengths = ["--cache-seqlens", "50,17"]
        for more in ([], ["--append", 6, "--page-size", 5], ["--splits", 3, "--causal"],
                     ["--layout", "blhd", "--page-size", 16, "--append", 2]):
            self.agrees(arrays, (50, 17), *options, *lengths, *more, "--tree", "-1,0,0,2,2,1",
                        trees=(one, one))
        trees = np.array([one, (-1, -1, 1, 2, 0, 3)], np.int32)
        np.save(self.path("tree"), trees)
        file = ["--tree", self.path("tree.npy")]
        self.agrees(arrays, (50, 17), *options, *lengths, *file, trees=trees)
        self.refused(*options, "--cache-seqlens", "50,5", *file,
                     says="--tree: a sequence has 5 keys, fewer than its 6 new tokens")
        self.refused(*options, "--tree", "-1,0", says="is [2], expected [6], a parent for each new token")
        self.refused(*options, "--tree", "-1,0,0,2,4,1",
                     says="token 4 has parent 4: expected an earlier token, or -1 for none")
        self.refused(*options, "--tree", "-1,0,0,2,-2,1", says="parent -2")
        self.refused(*options, "--tree", "-1,0,,2,2,1", says="expected a whole number")
        self.refused(*options, "--tree", self.path("none.npy"), says="none.npy")
        for wrong, says in ((trees[:, :4], "is [2, 4], expected [6]"), (trees.astype(np.int64), "int32"),
                            (trees[0] == 0, "int32"), (trees - 1, "has parent -2")):
            np.save(self.path("tree"), wrong)
            self.refused(*options, *file, says=says)
        self.refused("--shape", "1,1,65,99,64", "--tree", ",".join(["-1"] * 65),
                     "--device", "emulator", says="a tree of 65 tokens: expected at most 64")

    def test_a_prefix_is_read_once(self):
        profiles = []
        for prefix in ([], ["--prefix", 1024]):
            self.assertEqual(run("--shape", "4,8,1,1088,64", "--kv-heads", 2, "--page-size", 64,
                                 "--splits", 1, *prefix, "--device", "emulator", "--profile",
                                 "--json", self.path("o.json")).returncode, 0)
            with open(self.path("o.json"), encoding="utf-8") as file:
                profiles.append(json.load(file)["profile"])
        sectors = 2 * 2 * 64 * 2 // 32  # of a key and its value, of both heads
        for profile, keys in zip(profiles, (4 * 1088, 1024 + 4 * 64)):
            self.assertGreaterEqual(profile["global_load_sectors"], keys * sectors)
            self.assertLess(profile["global_load_sectors"], 1.25 * keys * sectors)
        self.assertEqual(profiles[1]["pages"], 16 + 4)
        self.assertEqual(profiles[1]["prefix_splits"], 1)

    def test_refusals(self):
        emulator = ["--device", "emulator"]
        self.refused("--cache-seqlens", "1", *emulator, says="--cache-seqlens 1: expected 2 lengths")
        for length in (1001, -1):
            self.refused(f"--cache-seqlens=1,{length}", *emulator,
                         says=f"--cache-seqlens 1,{length}: length {length}: expected a whole number from 0 to 1000")
        self.refused("--cache-seqlens", "1,,2", *emulator, says="expected a whole number")
        self.refused("--page-size", "257", *emulator, says="--page-size")
        self.refused("--page-size", "0", *emulator, says="--page-size")
        self.refused("--splits", "0", *emulator, says="--splits")
        self.refused("--splits", "129", *emulator, says="--splits")
        self.refused("--block-table", "x.npy", *emulator, says="goes with --page-size")
        self.refused("--append", "9", "--cache-seqlens", "9,8", *emulator, says="has 8 keys")
        self.refused("--prefix", "16", *emulator, says="goes with --page-size")
        pages = ["--page-size", 16, *emulator]
        self.refused("--prefix", "0", *pages, says="--prefix")
        self.refused("--prefix", "24", *pages, says="whole pages, a multiple of 16")
        self.refused("--prefix", "1008", *pages, says="a sequence has 1000 keys")
        self.refused("--prefix", "16", "--cache-seqlens", "16,17", "--causal", *pages,
                     says="a sequence has 16 keys, including new ones")
        self.refused("--prefix", "16", "--splits", 65, *pages, says="130 splits: expected at most")
        self.refused("--window", "1,1", *emulator, says="chapter 09 has it")
        self.refused("--shape", "1,1,1,9,100", *emulator, says="multiples of 8 up to 128")
        self.refused("--shape", "65536,1,1,1,8", *emulator, says="up to 65535")
        self.refused("serve", "--requests", "3", says="STEP:PROMPT+NEW")
        self.refused("serve", "--requests", "0:0+1", says="prompt")
        self.refused("serve", "--pages", "0", says="--pages")
        self.refused("waves", "--items", "0", says="--items")

    def test_the_report(self):
        self.assertEqual(run("--shape", "2,4,1,300,64", "--kv-heads", 2, "--page-size", 7,
                             "--cache-seqlens", "300,0", "--device", "emulator", "--splits", 2,
                             "--profile", "--json", self.path("o.json")).returncode, 0)
        with open(self.path("o.json"), encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual(report["profile"]["splits"], 2)
        self.assertEqual(report["profile"]["pages"], 43)
        self.assertEqual(report["cache_seqlens"], [300, 0])
        self.assertTrue(report["check"]["passed"])
        self.assertEqual(report["hazards"], [])

    def test_heads_that_share_keys_read_them_once(self):
        sectors = []
        for kv_heads in (8, 2, 1):
            self.assertEqual(run("--shape", "1,8,1,4096,64", "--kv-heads", kv_heads, "--splits", 4,
                                 "--device", "emulator", "--profile", "--json",
                                 self.path("o.json")).returncode, 0)
            with open(self.path("o.json"), encoding="utf-8") as file:
                profile = json.load(file)["profile"]
            once = kv_heads * 4096 * 64 * 2 * 2 // 32
            sectors.append(profile["global_load_sectors"])
            self.assertLess(sectors[-1], 1.1 * once)
            self.assertGreaterEqual(profile["previous"]["global_load_sectors"], 8 * once // kv_heads)
        self.assertGreater(sectors[0], 3.6 * sectors[1])

    def test_pages_cost_table_entries_only(self):
        sectors = {}
        for page_size in (0, 256, 16, 1):
            pages = ["--page-size", page_size] if page_size else []
            self.assertEqual(run("--shape", "1,2,1,2048,128", "--splits", 2, *pages, "--device",
                                 "emulator", "--profile", "--json",
                                 self.path("o.json")).returncode, 0)
            with open(self.path("o.json"), encoding="utf-8") as file:
                sectors[page_size] = json.load(file)["profile"]["global_load_sectors"]
        for page_size in (256, 16, 1):  # 4 bytes for each page, and a lane asks for each key
            self.assertGreater(sectors[page_size], sectors[0])
            self.assertLess(sectors[page_size], 1.02 * sectors[0])

    def test_every_order_gives_the_same_bits(self):
        outputs = []
        for seed in (0, 1, 2):
            self.assertEqual(run("--shape", "2,4,2,500,64", "--causal", "--splits", 3, "--append", 2,
                                 "--page-size", 5, "--schedule-seed", seed, "--device", "emulator",
                                 "--out", self.path("o.npy")).returncode, 0)
            outputs.append(np.load(self.path("o.npy")))
        for other in outputs[1:]:
            self.assertTrue((other == outputs[0]).all())

    def test_serving_gives_every_page_back(self):
        for options, put_back in ((["--pages", 5], True),
                                  (["--page-size", 1, "--pages", 240, "--batch", 2], False),
                                  (["--page-size", 256, "--pages", 2, "--batch", 8], False)):
            result = run("serve", "--device", "emulator", "--json", self.path("s.json"), "--requests",
                         "0:60+20,0:60+25,0:60+30,0:60+6,3:1200+9,4:90+12", *options)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            with open(self.path("s.json"), encoding="utf-8") as file:
                report = json.load(file)
            self.assertEqual((report["pages_lost"], report["passed"]), (0, True))
            self.assertEqual((report["refused"], report["answered"]), (1, 20 + 25 + 30 + 6 + 12))
            self.assertEqual(report["preempted"] > 0, put_back)

    def test_serving_when_nobody_fits(self):
        result = run("serve", "--requests", "0:100+1,5:9+1", "--pages", 1, "--page-size", 8,
                     "--device", "emulator")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(result.stdout.count("refused: over 8 tokens"), 2)


if __name__ == "__main__":
    unittest.main()
