"""Loads of every other element, in both directions, at the ends of arrays and behind offsets."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest

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
    page, size = mmap.PAGESIZE, np.dtype(dtype).itemsize
    region = mmap.mmap(-1, 3 * page)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    base = ctypes.addressof(ctypes.c_char.from_buffer(region))
    for outer in (base, base + 2 * page):
        assert libc.mprotect(outer, page, 0) == 0
    try:
        for n in (1, 15, 16, 31, 32, 33, 255, page // size - 1, page // size):
            for offset in (page, 2 * page - size * n):
                x = np.frombuffer(region, dtype, n, offset)
                x[:] = np.arange(n)
                up, down = np.zeros((2, (n + 1) // 2), dtype)
                halves(x, up, down)
                np.testing.assert_array_equal(up, x[::2])
                np.testing.assert_array_equal(down, x[::-2])
    finally:
        for outer in (base, base + 2 * page):
            libc.mprotect(outer, page, 3)
