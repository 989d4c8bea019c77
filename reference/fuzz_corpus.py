#!/usr/bin/env python3
"""Makes seed inputs for common/fuzz_npy.cpp, which are small valid .npy files and each known kind of invalid
file."""

import argparse
import io
import os

import numpy as np


def npy(array: np.ndarray, version=None) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=version)
    return file.getvalue()


def seeds() -> dict:
    """Returns a dictionary from file name to bytes."""
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3)
    valid = npy(matrix)
    return {
        "f16": npy(matrix.astype(np.float16)), "f32": valid, "f64": npy(matrix.astype(np.float64)),
        "four_dimensions": npy(np.zeros((1, 2, 1, 2), np.float32)),
        "scalar": npy(np.float32(1.5) * np.ones(())), "empty": npy(np.zeros((0, 3), np.float32)),
        "version2": npy(matrix, (2, 0)), "version3": npy(matrix, (3, 0)),
        "fortran": npy(np.asfortranarray(matrix)), "big_endian": npy(matrix.astype(">f4")),
        "int32": npy(matrix.astype(np.int32)), "not_finite": npy(np.array([np.nan, -np.inf])),
        "truncated": valid[:-3], "truncated_header": valid[:40], "trailing": valid + b"x",
        "bad_magic": b"PNG" + valid[3:], "huge_header": valid[:8] + b"\xff\xff" + valid[10:],
        "huge_shape": valid.replace(b"(2, 3)", b"(9999999999999, 3)"),
        "control_character": valid.replace(b"<f4", b"<\nf"), "no_bytes": b"",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="directory for the seed files")
    out = parser.parse_args().out
    os.makedirs(out, exist_ok=True)
    for name, content in seeds().items():
        with open(os.path.join(out, name), "wb") as file:
            file.write(content)


if __name__ == "__main__":
    main()
