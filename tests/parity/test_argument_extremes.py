"""argmin and argmax of arrays: the first position, and that of the first NaN."""

from __future__ import annotations

import numpy as np
import pytest

import appy


@appy.jit(strict=True)
def of_all(x, out):
    # pragma 0=>parallel
    out[0] = np.argmax(x)
    # pragma 0=>parallel
    out[1] = np.argmin(x)


@appy.jit(strict=True)
def by_axis(x, rows, columns):
    # pragma 0=>parallel
    rows[:] = np.argmax(x, axis=1)
    # pragma 0=>parallel
    columns[:] = np.argmin(x, axis=0)


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4", "u8", "u1", "i2", "?"])
@pytest.mark.parametrize("size", [1, 7, 33, 300, 40_000])
def test_positions(dtype, size):
    rng = np.random.default_rng(size)
    for _ in range(20):
        x = rng.integers(0, rng.choice([2, 5, 1000]), size).astype(dtype)
        if dtype[0] == "f":
            for special in (np.nan, np.inf, -np.inf, -0.0, 0.0):
                if rng.random() < 0.4:
                    x[rng.integers(0, size, rng.integers(0, 4))] = special
        rows = int(rng.integers(1, min(9, size + 1)))
        y = x[: size // rows * rows].reshape(rows, -1)
        for array in (x, y, y.T):
            out = np.zeros(2, int)
            of_all(array, out)
            assert list(out) == [np.argmax(array), np.argmin(array)]
        along, across = np.zeros(y.shape[0], int), np.zeros(y.shape[1], int)
        by_axis(y, along, across)
        np.testing.assert_array_equal(along, np.argmax(y, 1))
        np.testing.assert_array_equal(across, np.argmin(y, 0))
