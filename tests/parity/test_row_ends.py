"""What whole groups of lanes leave of a row: nothing beyond the row is touched, and each element is computed once or the
same again."""

from __future__ import annotations

import numpy as np
import pytest
from guarded import guarded_page

import appy

TYPES = ["f8", "f4", "i8", "i4", "i2", "u1"]


def doubled(a, b):
    # pragma simd
    for i in range(len(a)):
        b[i] = a[i] + a[i]


def shared(a, b):
    # pragma parallel for simd
    for i in range(len(a)):
        b[i] = a[i] * a[i]


def in_place(a, b):
    # pragma simd
    for i in range(len(a)):
        b[i] = b[i] + a[i]


def backwards(a, b):
    # pragma simd
    for i in range(len(a) - 1, -1, -1):
        b[i] = a[i] + a[i]


def every_third(a, b):
    # pragma simd
    for i in range(0, len(a), 3):
        b[i] = a[i] + a[i]


def some(a, b):
    # pragma simd
    for i in range(len(a)):
        if a[i] > 3:
            b[i] = a[i] + a[i]


def counted(a, b):
    # The loop's variable is a value of the lanes.
    # pragma simd
    for i in range(len(a)):
        b[i] = a[i] + a[i] * (i & 3)


def halves(a, b):
    n = len(a) // 2
    # pragma simd
    for i in range(n):
        b[i] = a[i]
        b[i + n] = a[i] + a[i + n]


PROGRAMS = [doubled, shared, in_place, backwards, every_third, some, counted, halves]


def values(n, dtype):
    return np.random.default_rng(n).integers(0, 7, n).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_rows_of_every_length_equal_plain_python(program, dtype):
    compiled = appy.jit(strict=True)(program)
    for n in [*range(70), 1000, 1003]:
        ours, theirs = ([values(n, dtype), values(n + 1, dtype)[:n]] for _ in range(2))
        compiled(*ours)
        program(*theirs)
        for x, y in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["f8", "f4", "u1"])
def test_nothing_beyond_the_row_is_touched(program, dtype):
    compiled = appy.jit(strict=True)(program)
    with guarded_page() as bytes_inside:
        inside = bytes_inside.view(dtype)
        for n in [*range(1, 40), 65]:
            for at in (slice(0, n), slice(len(inside) - n, len(inside))):
                inside[:] = 1
                a, theirs = values(n, dtype), np.ones(n, dtype)
                compiled(a, inside[at])
                program(a, theirs)
                np.testing.assert_array_equal(inside[at], theirs)
                assert np.delete(inside, np.r_[at]).min(initial=1) == 1
                inside[at] = a
                ours, theirs = np.ones(n, dtype), np.ones(n, dtype)
                compiled(inside[at], ours)
                program(a, theirs)
                np.testing.assert_array_equal(ours, theirs)


def test_rows_of_a_matrix_leave_their_neighbours_alone():
    @appy.jit(strict=True)
    def inner(a, b):
        # pragma parallel for
        for i in range(1, a.shape[0] - 1):
            # pragma simd
            for j in range(1, a.shape[1] - 1):
                b[i, j] = a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1] - 4 * a[i, j]

    for n in range(3, 48):
        a = values(20 * n, "f8").reshape(20, n)
        b = np.full((20, n), 99.0)
        inner(a, b)
        want = np.full((20, n), 99.0)
        want[1:-1, 1:-1] = a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] - 4 * a[1:-1, 1:-1]
        np.testing.assert_array_equal(b, want)
