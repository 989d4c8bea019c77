"""Tests that the decoding grid's cases are complete, plain attention passes, mistakes are detected.

    cd docs/measurements && python3 -W error -m unittest -q test_decode_grid
"""

import contextlib
import io
import unittest

import paths  # noqa: F401, before the modules of reference/
import numpy as np

import attention
import decode_grid

CASES = list(decode_grid.small_grid(1))


class Plain:
    """Plain attention in NumPy in place of the library. `change` modifies the call."""

    def __init__(self, change=lambda what, value: value):
        self.change = change

    def decode(self, q, k_cache, v_cache, lengths, table, causal, layout, splits, return_lse,
               k_new=None, v_new=None, prefix=0):
        q, k_cache, v_cache, k_new, v_new = (
            x if x is None or layout == "bhld" else x.swapaxes(1, 2)
            for x in (q, k_cache, v_cache, k_new, v_new))
        o, lse = np.zeros_like(q), np.full((*q.shape[:3],), -np.inf, np.float32)
        dtype = "f16" if q.dtype == np.float16 else "bf16"
        for n, old in enumerate(lengths):
            length = old + (0 if k_new is None else k_new.shape[2])
            length = self.change("length", length)
            heads, dim = k_cache.shape[1], q.shape[3]
            k, v = (np.full((heads, length, dim), np.nan, q.dtype) for _ in "kv")
            for cache, new, into in ((k_cache, k_new, k), (v_cache, v_new, v)):
                keys, size = np.arange(length), cache.shape[2]
                pages, rows = (np.full_like(keys, n), keys) if table is None else (
                    table[n, keys // size], keys % size)
                if new is not None:
                    cache[pages[old:], :, rows[old:]] = self.change(
                        "new", new[n].swapaxes(0, 1)[:max(0, length - old)])
                into[:] = cache[pages, :, rows].swapaxes(0, 1)
            if length:
                part = attention.general(*(x[None].astype(np.float32) for x in (q[n], k, v)),
                                         lambda *qkv, **more: attention.plain(*qkv, dtype, **more),
                                         causal=causal)
                o[n], lse[n] = part.o[0], part.lse[0]
        o, lse = self.change("o", o), self.change("lse", lse)
        return o if layout == "bhld" else o.swapaxes(1, 2), lse


def right(change, cases) -> int:
    return decode_grid.run_grid(cases, Plain(change), None, lambda line: None)


class Grid(unittest.TestCase):
    def test_every_combination(self):
        cases = list(decode_grid.whole_grid(1))
        # lengths, head sizes, heads, masks, appends, pages, types; lengths, head sizes, masks, splits,
        # types; queries, sequences, keys, common ones, heads, masks, head sizes, pages, types
        self.assertEqual(len(cases), 11 * 4 * 3 * 2 * 2 * 6 * 2 + 7 * 4 * 2 * 9 * 2
                         + 2 * 2 * 2 * 3 * 2 * 2 * 2 * 2 * 2)
        self.assertEqual(len({str(case) for case in cases}), len(cases))
        for value in ("dim", "heads", "causal", "page_size", "dtype", "layout", "test"):
            self.assertEqual({getattr(case, value) for case in CASES},
                             {getattr(case, value) for case in cases}, value)

    def test_plain_attention_is_right(self):
        self.assertEqual(right(lambda what, value: value, CASES[::-6]), len(CASES[::-6]))

    def test_mistakes_are_seen(self):
        def one(wanted, how):
            return lambda what, value: how(value) if what == wanted else value

        cases = CASES[::-18]
        self.assertEqual(right(one("o", lambda o: o * np.nan), cases), 0)
        self.assertEqual(right(one("lse", lambda lse: lse + 0.1), cases), 0)
        self.assertLess(right(one("new", lambda row: row * 0), cases), len(cases))
        self.assertEqual(right(one("length", lambda length: max(0, length - 1)), cases), 0)

    def test_command_line(self):
        def run(*arguments):
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                status = decode_grid.main(arguments)
            return status, out.getvalue(), err.getvalue()

        status, out, _ = run("--small", "--list")
        self.assertEqual((status, out.count("\n")), (0, len(CASES)))
        for arguments, says in ((["--only", "("], "--only"), (["--only", "nothing"], "no case"),
                                (["--small", "--library", "no.so"], "build the target")):
            status, out, err = run(*arguments)
            self.assertEqual((status, out, err.count("\n")), (2, "", 1), arguments)
            self.assertIn(says, err)


if __name__ == "__main__":
    unittest.main()
