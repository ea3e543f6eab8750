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


@appy.jit(strict=True)
def channels(x, mean, first, backwards, wide):
    # pragma parallel for simd
    for i in range(x.shape[0]):
        mean[i] = 0.25 * x[i, 0] + 0.5 * x[i, x.shape[1] - 1]
    # pragma 0=>parallel
    first[:] = x[:, 1]
    # pragma 0=>parallel
    backwards[:] = x[::-1, 0]
    # pragma 0=>parallel
    wide[:] = x[:, 0] + wide


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "f2", "?"])
@pytest.mark.parametrize("step", [2, 3, 4, 5, 7, 8, 9, 16])
def test_one_of_some_bytes(dtype, step):
    """One channel of pixels; memory before and behind the pixels is not mapped."""
    with guarded_page() as bytes_inside:
        for n in (1, 3, 8, 15, 16, 17, 33, 64, 100, 200):
            size = n * step * np.dtype(dtype).itemsize
            if size > len(bytes_inside):
                continue
            for at in (0, len(bytes_inside) - size):
                x = bytes_inside[at : at + size].view(dtype).reshape(n, step)
                x[...] = np.random.default_rng(step).integers(0, 2 if dtype == "?" else 100, (n, step))
                mean, first, backwards = np.zeros(n), np.zeros(n, dtype), np.zeros(n, dtype)
                wide = np.arange(n) if dtype != "f2" else np.arange(n) * 0.5
                want = wide + x[:, 0]
                channels(x, mean, first, backwards, wide)
                np.testing.assert_array_equal(mean, 0.25 * x[:, 0] + 0.5 * x[:, -1].astype(float))
                np.testing.assert_array_equal(first, x[:, 1])
                np.testing.assert_array_equal(backwards, x[::-1, 0])
                np.testing.assert_array_equal(wide, want)


def looked_up(table, places, out, under):
    # pragma parallel for simd
    for i in range(len(places)):
        out[i] = table[places[i]]
    # pragma parallel for simd
    for i in range(len(places)):
        if out[i] > 50:
            under[i] = table[places[i]] + under[i]


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "f4", "f8"])
@pytest.mark.parametrize("index", ["u1", "i1", "u2", "i4", "i8"])
def test_tables(dtype, index):
    compiled = appy.jit(strict=True)(looked_up)
    table = np.random.default_rng(1).integers(0, 100, 100).astype(dtype)
    for n in (1, 7, 8, 16, 31, 64, 65, 1000):
        low = -50 if index.startswith("i") else 0
        places = np.random.default_rng(n).integers(low, 100, n).astype(index)
        out, under = np.zeros(n, dtype), np.ones(n)
        compiled(table, places, out, under)
        np.testing.assert_array_equal(out, table[places])
        np.testing.assert_array_equal(under, np.where(out > 50, out + 1.0, 1.0))


@appy.jit(strict=True)
def chained(places, out, at):
    # pragma sequential for
    for k in range(3):
        # pragma simd
        for i in range(len(places)):
            at[i] = places[i]
            out[i] = at[at[i]]


def test_indices_that_the_loop_stores():
    """Each iteration reads where earlier ones have stored."""
    for n in (1, 8, 40, 133):
        places = np.random.default_rng(n).integers(0, n, n).astype("u1")
        mine, want = ([np.zeros(n, "u1"), np.arange(n).astype("u1")] for _ in range(2))
        chained(places, *mine)
        for _ in range(3):
            for i in range(n):
                want[1][i] = places[i]
                want[0][i] = want[1][want[1][i]]
        np.testing.assert_array_equal(mine, want)
