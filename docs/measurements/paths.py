"""Makes the modules of reference/ and the library's Python interface importable, so import it first."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "reference"), str(ROOT / "common" / "kernels" / "library")]
