"""Stores that go around the caches (docs/design.md, CPU backend): the same values as NumPy's, whatever the sizes."""

from __future__ import annotations

import numpy as np
import pytest
from compare import assert_same

import appy


@pytest.fixture
def streaming():
    """Sets the bytes from which loops stream, for functions compiled in the test."""
    before = appy.config()["stream_bytes"]
    yield lambda least: appy.config(stream_bytes=least)
    appy.config(stream_bytes=before)


def at_offset(shape, dtype, offset):
    """An array that begins `offset` elements after a cache line."""
    size = int(np.prod(shape)) + offset + 128 // np.dtype(dtype).itemsize
    memory = np.zeros(size, dtype)
    first = (-memory.ctypes.data % 64) // memory.itemsize + offset
    return memory[first : first + int(np.prod(shape))].reshape(shape)


def add(a, b, c):
    # pragma 0=>parallel,simd
    c[:] = a + b


def loop(a, b, c):
    # pragma parallel for simd
    for i in range(a.shape[0]):
        c[i] = a[i] + b[i]


def two_results(a, b, c):
    # pragma 0=>parallel,simd
    c[1:] = a[1:] - b[:-1]
    # pragma 0=>parallel,simd
    b[:] = c + a


def rows(a, b, c):
    # pragma 0=>parallel 1=>simd
    c[:, :] = a * 2 + b


def read_at_once(a, b, c):
    # pragma parallel for
    for i in range(a.shape[0]):
        c[i] = a[i] + b[i]
        b[i] = c[i, ::-1]


def repeated(a, b, c):
    for _ in range(3):
        # pragma 0=>parallel,simd
        c[:] = a + b
        # pragma 0=>parallel,simd
        a[:] = c - 1


def fresh(a, b, c):
    # pragma 0=>parallel,simd
    d = a + b
    # pragma 0=>parallel,simd
    c[:] = d * d[::-1]
    return d


def run(function, *arrays):
    compiled = appy.jit(strict=True)(function)
    expected = [a.copy() for a in arrays]
    wanted = function(*expected)
    got = compiled(*arrays)
    assert compiled.stats()["runs"] > 0
    assert_same(got, wanted, ulps=0)
    for a, e in zip(arrays, expected):
        np.testing.assert_array_equal(a, e)


@pytest.mark.parametrize("function", [add, loop, two_results, repeated, fresh])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4", "i2", "u1", "c16"])
@pytest.mark.parametrize("least", [0, 3000, -1])
def test_offsets_and_sizes(function, dtype, least, streaming):
    streaming(least)
    rng = np.random.default_rng(1)
    for n in (1, 2, 65, 128, 333, 1000, 1001):
        for offset in (0, 1, 5):
            arrays = [at_offset(n, dtype, k) for k in (0, 2, offset)]
            for a in arrays:
                a[:] = rng.integers(0, 100, n)
            run(function, *arrays)


@pytest.mark.parametrize("function", [rows, read_at_once])
@pytest.mark.parametrize("least", [0, -1])
def test_rows(function, least, streaming):
    streaming(least)
    rng = np.random.default_rng(1)
    for shape in ((3, 64), (7, 131), (40, 1000), (1, 5000), (5000, 1)):
        arrays = [at_offset(shape, "f8", offset) for offset in (0, 0, 3)]
        for a in arrays:
            a[:] = rng.random(shape)
        run(function, *arrays)


def test_sizes_around_the_threshold(streaming):
    n = 4096
    streaming(24 * n)
    for size in range(n - 3, n + 4):
        a, b = np.random.default_rng(size).random((2, size))
        run(add, a, b, np.zeros(size))


def test_the_setting_is_bytes(streaming):
    streaming(123)
    assert appy.config()["stream_bytes"] == 123


def test_what_is_printed(streaming, capfd):
    """Compiled for a loop that may stream, and left out where the array is read again at once."""
    streaming(0)
    a, b, c = np.ones((3, 100))
    appy.jit(strict=True, dump="asm")(add)(a, b, c)
    assert "vmovntpd" in capfd.readouterr().err
    a, b, c = np.ones((3, 10, 100))
    appy.jit(strict=True, dump="asm")(read_at_once)(a, b, c)
    assert "vmovnt" not in capfd.readouterr().err


def counted(c, d):
    # Vectors have as many lanes as 8-byte integers need: stores are of half a vector.
    # pragma simd
    for i in range(len(c)):
        c[i] = d[i] + i % 5


@pytest.mark.parametrize("dtype", ["f4", "i4", "f8", "i2"])
@pytest.mark.parametrize("offset", range(9))
def test_stores_narrower_than_a_vector(streaming, dtype, offset):
    streaming(0)
    compiled = appy.jit(strict=True)(counted)
    for n in (8, 31, 38, 400, 1003):
        got, want = (at_offset(n, dtype, offset) for _ in range(2))
        got[:] = want[:] = 99
        d = np.arange(n).astype(dtype) % 7
        compiled(got, d)
        counted(want, d)
        np.testing.assert_array_equal(got, want, err_msg=f"{n} elements")
    assert compiled.stats()["runs"] > 0
