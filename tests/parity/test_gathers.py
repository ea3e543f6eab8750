"""Loads whose lanes lie apart: looked up, down a column, every third element; and nothing beyond what the loop reads."""

from __future__ import annotations

import numpy as np
import pytest
from guarded import guarded_page

import appy

SIZES = [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 19, 31, 33, 66, 131]


def taken(y, x, at):
    # pragma simd
    for j in range(len(y)):
        y[j] = x[at[j]] + x[at[j]]


def added(y, x, at):
    s = x[0]
    # pragma simd
    for j in range(len(y)):
        s += x[at[j]]
    y[:1] = s


def behind(y, x, at):
    # pragma simd
    for j in range(len(y)):
        y[j] = x[at[j] + 3] - x[at[j] - 2]


def reversed_(y, x, at):
    # pragma simd
    for j in range(len(y) - 1, -1, -1):
        y[j] = x[at[j]]


def some(y, x, at):
    # pragma simd
    for j in range(len(y)):
        if at[j] % 3 > 0:
            y[j] = x[at[j]]


def third(y, x, at):
    # pragma simd
    for j in range(len(y)):
        y[j] = x[3 * j + 1] + x[3 * j + 1] * x[j]


def apart(y, x, at):
    step = len(x) // max(len(y), 1)
    # pragma simd
    for j in range(len(y)):
        y[j] = x[step * j]


def rows(y, x, at):
    # Of all lengths, none and one among them.
    for i in range(len(y)):
        s = x[0]
        # pragma simd
        for j in range(i):
            s += x[at[j]]
        y[i] = s


def from_end(y, x, at):
    s = x[0]
    # pragma simd
    for j in range(len(y)):
        s += x[len(x) - at[j]]
    y[:1] = s


def halves(y, x, at):
    s = x[0]
    first = len(x) - (len(y) + 1) // 2
    # pragma simd
    for j in range(len(y)):
        s += x[first + j // 2]
    y[:1] = s


PROGRAMS = [taken, added, behind, reversed_, some, third, apart, rows, from_end, halves]


def arrays(n, dtype, index):
    rng = np.random.default_rng(n)
    x = rng.integers(0, 9, 5 + 4 * n).astype(dtype)
    return np.zeros(n, dtype), x, rng.integers(2, len(x) - 3, n).astype(index)


@pytest.mark.parametrize("index", ["i8", "i4", "u4", "i2"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4", "i2"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_equal_plain_python(program, dtype, index):
    compiled = appy.jit(strict=True)(program)
    for n in SIZES:
        ours, theirs = arrays(n, dtype, index), arrays(n, dtype, index)
        compiled(*ours)
        with np.errstate(over="ignore"):
            program(*theirs)
        np.testing.assert_array_equal(ours[0], theirs[0])


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_columns(dtype, order):
    def sums(y, a, at):
        for i in range(a.shape[1]):
            s = y[i]
            # pragma simd
            for j in range(a.shape[0]):
                s += a[j, i] * a[at[j], i]
            y[i] = s

    compiled = appy.jit(strict=True)(sums)
    rng = np.random.default_rng(3)
    for shape in [(1, 1), (2, 5), (9, 3), (19, 7), (40, 2)]:
        whole = rng.integers(0, 9, (2 * shape[0], shape[1] + 1)).astype(dtype)
        for a in (np.asarray(whole[: shape[0], 1:], order=order), whole[::2, 1:], whole[::-2, :-1]):
            at = rng.integers(0, shape[0], shape[0]).astype("i4")
            ours, theirs = np.zeros(shape[1], dtype), np.zeros(shape[1], dtype)
            compiled(ours, a, at)
            sums(theirs, a, at)
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("index", ["i8", "i4", "u4"])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("program", [taken, added, behind, rows, third, from_end, halves], ids=lambda f: f.__name__)
def test_nothing_beyond_the_arrays_is_read(program, dtype, index):
    """Lanes that are off would read what lies before or behind the page."""
    compiled = appy.jit(strict=True)(program)
    with guarded_page() as x_bytes, guarded_page() as at_bytes:
        xs, ats = x_bytes.view(dtype), at_bytes.view(index)
        xs[:] = np.random.default_rng(1).integers(0, 9, len(xs))
        for n in [1, 2, 3, 5, 6, 7, 9, 11, 13, 18, 23]:
            for x, at in ((xs[-3 * n - 8 :], ats[-n:]), (xs[: 3 * n + 8], ats[:n])):
                for low, high in ((2, 3), (len(x) - 4, len(x) - 3)):
                    at[:] = np.random.default_rng(n).integers(low, high, n)
                    ours, theirs = np.zeros(n, dtype), np.zeros(n, dtype)
                    compiled(ours, x, at)
                    program(theirs, x, at)
                    np.testing.assert_array_equal(ours, theirs)
