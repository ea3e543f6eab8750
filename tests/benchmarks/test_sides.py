"""What is compiled for the sides of a comparison."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "benchmarks"))

import sides  # noqa: E402


def test_what_is_compiled_leaves_subnormal_numbers_on(tmp_path):
    def smallest():
        library = sides.c_library(sides.KERNELS / "loops.c", tmp_path)
        return library.saxpy is not None and np.nextafter(np.zeros(1), 1.0) * np.ones(1)

    # Whether they are on is a state of the thread, which the other tests do not have to share.
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(smallest).result() > 0
