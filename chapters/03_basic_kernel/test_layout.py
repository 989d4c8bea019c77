#!/usr/bin/env python3
"""ch03_layout against the formulas of the PTX ISA, which its code does not contain: sections "Matrix
Fragments for mma.m16n8k16 with floating point type" and "ldmatrix", names as there."""

import json
import os
import subprocess
import tempfile
import unittest

LANES = range(32)


def run(*arguments):
    return subprocess.run(["ch03_layout", *arguments], capture_output=True, text=True, timeout=60)


def read():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "layout.json")
        result = run("--layout", path)
        assert result.returncode == 0, result.stderr
        with open(path) as file:
            return json.load(file)


LAYOUT = read()


class Mma(unittest.TestCase):
    def check(self, matrix, elements, halves, place):
        for lane in LANES:
            found = LAYOUT["mma"][matrix][lane]
            expected = [place(lane >> 2, lane % 4, i) for i in range(elements)]
            self.assertEqual([e for register in found for e in register], expected, (matrix, lane))
            self.assertEqual([len(register) for register in found], [halves] * (elements // halves))

    def test_a(self):
        def place(group, in_group, i):
            row = group if 0 <= i < 2 or 4 <= i < 6 else group + 8
            return [row, in_group * 2 + (i & 1) + (0 if i < 4 else 8)]
        self.check("A", 8, 2, place)

    def test_b(self):
        def place(group, in_group, i):
            return [in_group * 2 + (i & 1) + (0 if i < 2 else 8), group]
        self.check("B", 4, 2, place)

    def test_c(self):
        def place(group, in_group, i):
            return [group if i < 2 else group + 8, in_group * 2 + (i & 1)]
        self.check("C", 4, 1, place)


class Weights(unittest.TestCase):
    def test_s_becomes_p_where_it_is(self):
        """Each half of A's registers holds the element of S that is in the same row and column."""
        for lane in LANES:
            for register, halves in enumerate(LAYOUT["weights"][lane]):
                for half, (source, tile, c) in enumerate(halves):
                    self.assertEqual(source, lane)
                    [row, column], = LAYOUT["mma"]["C"][lane][c]
                    self.assertEqual([row, column + 8 * tile], LAYOUT["mma"]["A"][lane][register][half])


class Ldmatrix(unittest.TestCase):
    def test_all_forms_are_there(self):
        forms = {(load["matrices"], load["trans"]) for load in LAYOUT["loads"]}
        self.assertEqual(forms, {(m, t) for m in (1, 2, 4) for t in (False, True)})

    def test_who_receives_what(self):
        """Lane t has row t / 4, elements 2 (t % 4) and the next, of each matrix; .trans: rows are columns.
        Row j of matrix i is the one that lane 8 i + j points to."""
        for load in LAYOUT["loads"]:
            for lane in LANES:
                major, minor = lane // 4, 2 * (lane % 4)
                for i, halves in enumerate(load["receives"][lane]):
                    expected = [[8 * i + minor + half, major] if load["trans"]
                                else [8 * i + major, minor + half] for half in range(2)]
                    self.assertEqual(halves, expected, (load["name"], lane, i))
                self.assertEqual(len(load["receives"][lane]), load["matrices"])

    def test_registers_are_operands(self):
        """With these addresses, a register holds the elements that mma's figure has there: A = Q,
        B = K.T or V, and for the second mma the B of the next 8 columns."""
        for load in LAYOUT["loads"]:
            self.assertEqual(len(load["becomes"]), load["matrices"])
            for lane in LANES:
                for halves, [name, mma] in zip(load["receives"][lane], load["becomes"]):
                    self.assertEqual(name[0], "a" if load["source"] == "Q" else "b")
                    operand = LAYOUT["mma"][name[0].upper()][lane][int(name[1])]
                    for [giver, position], [row, column] in zip(halves, operand):
                        at = [row, column + 8 * mma]
                        if load["source"] == "K":
                            at.reverse()
                        [first_row, first_column] = load["addresses"][giver]
                        self.assertEqual([first_row, first_column + position], at, (load["name"], lane))

    def test_addresses(self):
        """The lanes' addresses in chapters 03 and 06, that is, of load_fragments_Q, multiply_query_key,
        multiply_weights_value."""
        expected = {
            "x1": lambda lane: [lane, 0],
            "x1.trans": lambda lane: [lane, 0],
            "Q x4": lambda lane: [lane % 16, lane // 16 * 8],
            "K x2": lambda lane: [lane % 8, lane // 8 % 2 * 8],
            "V x2.trans": lambda lane: [lane % 16, 0],
            "K x4": lambda lane: [lane // 16 * 8 + lane % 8, lane // 8 % 2 * 8],
            "V x4.trans": lambda lane: [lane % 16, lane // 16 * 8],
        }
        self.assertEqual([load["name"] for load in LAYOUT["loads"]], list(expected))
        for load in LAYOUT["loads"]:
            asked = 8 * load["matrices"]
            self.assertEqual(load["addresses"],
                             [expected[load["name"]](lane) if lane < asked else None for lane in LANES])


class Cli(unittest.TestCase):
    def test_prints_a_lane(self):
        result = run("--lane", "31")
        self.assertEqual(result.returncode, 0)
        self.assertIn("a3 15,14 15,15", result.stdout)
        self.assertNotIn("a3 15,14 15,15", run().stdout)

    def test_refuses(self):
        for arguments in (["--lane", "32"], ["--lane", "x"], ["--layout", "/no/such/folder/f"], ["x"]):
            result = run(*arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertRegex(result.stderr, r"^error: .*\n$")
            self.assertEqual(result.stdout, "")


if __name__ == "__main__":
    unittest.main()
