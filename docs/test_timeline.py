"""Tests docs/timeline.py with event logs whose picture is known."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parent / "timeline.py"


def log_of(kinds, warp=0):
    """Returns the events of one warp. Each entry is a kind, or (kind, group, source)."""
    events = []
    for step, entry in enumerate(kinds):
        kind, group, source = entry if isinstance(entry, tuple) else (entry, None, None)
        event = {"kind": kind, "block": 0, "warp": warp, "step": step}
        if group is not None:
            event["group"] = group
        if source:
            event["source"] = source
        events.append(event)
    return events


class Timeline(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_tool(self, *arguments):
        return subprocess.run([sys.executable, str(TOOL), *map(str, arguments)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def draw(self, events, *options):
        log = self.folder / "events.json"
        log.write_text(json.dumps({"events": events}), encoding="utf-8")
        result = self.run_tool(*options, log)
        self.assertEqual(result.returncode, 0, result.stderr)
        return {line[:10].strip(): line[10:].split(None, 1)
                for line in result.stdout.splitlines()[4:]}, result.stdout

    def test_a_copy_that_is_waited_for_at_once_overlaps_nothing(self):
        rows, _ = self.draw(log_of([("copy_issue", 0, "K[0]"), "commit", ("land", 0, None),
                                    "mma", "mma"]))
        self.assertEqual(rows["K tile 0"], ["0", "==|"])
        self.assertEqual(rows["mma"][0], "2")

    def test_mma_between_issue_and_wait_are_counted(self):
        rows, _ = self.draw(log_of([("copy_issue", 0, "K[0]"), "mma", "mma", ("land", 0, None),
                                    "mma"]))
        self.assertEqual(rows["K tile 0"], ["2", "===|"])

    def test_tiles_are_numbered_for_each_matrix(self):
        rows, _ = self.draw(log_of([("copy_issue", 0, "K[0]"), ("copy_issue", 0, "K[64]"),
                                    ("copy_issue", 1, "V[0]"), ("copy_issue", 2, "K[4096]")]))
        self.assertEqual(set(rows), {"K tile 0", "V tile 0", "K tile 1", "mma", "barriers"})

    def test_a_group_is_named_by_all_that_it_holds(self):
        _, picture = self.draw(log_of([("copy_issue", 0, "Q[0]"), ("copy_issue", 0, "Q[512]"),
                                       ("copy_issue", 0, "K[0]"), ("copy_issue", 0, "K[512]"),
                                       ("copy_issue", 1, "V[0]"), ("copy_issue", 2, "K[4096]")]))
        self.assertEqual([line.split("  ")[0] for line in picture.splitlines()[4:]],
                         ["Q tile 0, K tile 0", "V tile 0", "K tile 1", "mma", "barriers"])

    def test_an_empty_group_has_no_row_and_an_unwaited_copy_no_end(self):
        rows, _ = self.draw(log_of([("copy_issue", 0, "V[0]"), ("commit", 0, None),
                                    ("commit", 1, None), "mma"]))
        self.assertEqual(rows["V tile 0"], ["1", "===="])
        self.assertEqual(len(rows), 3)

    def test_tensor_copies_end_where_their_phase_is_waited_for(self):
        events = []
        for kind, mbarrier, phase, source in [
                ("tma_load", 64, 0, "K[0]"), ("tma_load", 64, 0, "V[0]"), ("mma",) + 3 * (None,),
                ("mbarrier_wait", 64, -1, None), ("mbarrier_wait", 72, 0, None),
                ("mbarrier_wait", 64, 0, None), ("tma_load", 64, 1, "K[6144]"), ("mma",) + 3 * (None,)]:
            event = {"kind": kind, "block": 0, "warp": 0, "step": len(events)}
            if mbarrier:
                event.update(mbarrier=mbarrier, phase=phase)
            if source:
                event["source"] = source
            events.append(event)
        _, picture = self.draw(events)
        rows = [line.split() for line in picture.splitlines()[4:]]
        self.assertEqual(rows[:2], [["K", "tile", "0,", "V", "tile", "0", "1", "=====|"],
                                    ["K", "tile", "1", "1", "=="]])

    def test_only_the_chosen_warp_is_drawn(self):
        events = log_of(["mma"] * 3) + log_of(["mma"] * 5, warp=1)
        self.assertEqual(self.draw(events)[0]["mma"][0], "3")
        self.assertEqual(self.draw(events, "--warp", 1)[0]["mma"][0], "5")

    def test_the_picture_is_as_wide_as_asked(self):
        _, picture = self.draw(log_of(["mma"] * 1000), "--columns", 10)
        self.assertIn("1000 instructions, a column is 100 of them", picture)
        self.assertIn("1000 " + "#" * 10 + "\n", picture)

    def test_bad_input_is_a_sentence_and_exit_2(self):
        text = self.folder / "text.json"
        text.write_text("[]", encoding="utf-8")
        for arguments in ([], [text], [self.folder / "none.json"], ["no-such-program"],
                          ["--columns", "0", text]):
            result = self.run_tool(*arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertTrue(result.stderr.startswith("error: "), result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1)

    def test_a_program_is_run_and_its_failure_shown(self):
        program = self.folder / "program"
        program.write_text("#!/bin/sh\n"
                           "[ \"$1\" = fail ] && { echo broken; exit 1; }\n"
                           "for log; do :; done\n"  # the last argument
                           "echo '" + json.dumps({"events": log_of(["mma"])}) + "' > \"$log\"\n",
                           encoding="utf-8")
        os.chmod(program, 0o755)
        self.assertIn("1 instructions", self.run_tool(program).stdout)
        result = self.run_tool(program, "fail")
        self.assertEqual((result.returncode, result.stdout), (1, "broken\n"))


if __name__ == "__main__":
    unittest.main()
