"""Loads of every other element, in both directions, at the ends of arrays and behind offsets."""

from __future__ import annotations

import numpy as np
import pytest
from guarded import guarded_page

import appy


@appy.jit(strict=True)
def pairs(x, up, down, odd):
    # pragma parallel for simd
    for i in range(len(up)):
        up[i] = x[2 * i] + x[2 * i + 1]
    # pragma parallel for simd
    for i in range(len(down)):
        down[i] = x[len(x) - 1 - 2 * i]
    # pragma 0=>parallel
    odd[:] = x[1::2] - x[-2::-2]


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4", "i2", "u1"])
@pytest.mark.parametrize("n", [2, 4, 14, 16, 18, 30, 32, 34, 62, 66, 1000, 4096])
def test_every_other(dtype, n):
    x = np.random.default_rng(n).integers(0, 100, n).astype(dtype)
    up, down, odd = (np.zeros(n // 2, x.dtype) for _ in range(3))
    pairs(x, up, down, odd)
    np.testing.assert_array_equal(up, x[::2] + x[1::2])
    np.testing.assert_array_equal(down, x[::-2])
    np.testing.assert_array_equal(odd, x[1::2] - x[-2::-2])


@appy.jit(strict=True)
def halves(x, up, down):
    # pragma 0=>parallel
    up[:] = x[::2]
    # pragma 0=>parallel
    down[:] = x[::-2]


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_nothing_outside_the_array_is_read(dtype):
    """Memory before and behind the array is not mapped."""
    with guarded_page() as bytes_inside:
        inside = bytes_inside.view(dtype)
        for n in (1, 15, 16, 31, 32, 33, 255, len(inside) - 1, len(inside)):
            for offset in (0, len(inside) - n):
                x = inside[offset : offset + n]
                x[:] = np.arange(n)
                up, down = np.zeros((2, (n + 1) // 2), dtype)
                halves(x, up, down)
                np.testing.assert_array_equal(up, x[::2])
                np.testing.assert_array_equal(down, x[::-2])
