"""argmax and argmin of vectors, which are found block by block: the first of equal ones, NaNs, and their like."""

from __future__ import annotations

import numpy as np
import pytest

import appy


def positions(x, out):
    # pragma 0=>parallel,simd
    out[0] = np.argmax(x)
    # pragma 0=>parallel,simd
    out[1] = x.argmin()
    # pragma 0=>simd
    out[2] = np.argmax(x[::-1])
    # pragma 0=>parallel
    out[3] = np.argmin(x[1::2])


SIZES = (5, 17, 2047, 2048, 2049, 4096, 4097, 10000, 70001)
DTYPES = ("f8", "f4", "f2", "i8", "i4", "u8", "u2", "i1", "?")


def check(compiled, x):
    got, want = np.full((2, 4), -1)
    positions(x, want)
    compiled(x, got)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_and_sizes(dtype, threads):
    compiled = appy.jit(strict=True, threads=threads)(positions)
    rng = np.random.default_rng(0)
    for size in SIZES:
        for values in (100, 3):
            check(compiled, rng.integers(0, values, size).astype(dtype))
        check(compiled, np.zeros(size, dtype))
        check(compiled, np.full(size, np.inf if dtype[0] == "f" else np.array(-1).astype(dtype)).astype(dtype))
    assert compiled.stats()["declined"] == 0


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2"])
def test_nans_infinities_and_zeros(dtype):
    compiled = appy.jit(strict=True)(positions)
    rng = np.random.default_rng(1)
    for size in SIZES:
        for special in (np.nan, np.inf, -np.inf, -0.0):
            for place in {0, 1, size // 2, size - 1}:
                x = rng.integers(-3, 3, size).astype(dtype)
                x[place] = special
                check(compiled, x)
                x[rng.integers(0, size, 3)] = np.nan
                check(compiled, x)
        check(compiled, np.full(size, np.nan, dtype))
        check(compiled, np.where(rng.random(size) < 0.5, -0.0, 0.0).astype(dtype))


def test_empty():
    for size in (0, 1):
        with pytest.raises(ValueError, match="empty sequence"):
            appy.jit(strict=True)(positions)(np.zeros(size), np.zeros(4, int))
