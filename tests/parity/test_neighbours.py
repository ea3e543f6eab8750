"""Loads of neighbours along the lanes: from a stretch of the row that ends where the loop's own reads end."""

from __future__ import annotations

import numpy as np
import pytest
from guarded import guarded_page

import appy

TYPES = ["f8", "f4", "i8", "i4", "i2", "u1", "?"]
SIZES = [0, 1, 2, 3, 5, 8, 9, 16, 17, 18, 31, 34, 63, 66, 130, 259]


def three(a, b):
    # pragma simd
    for i in range(1, len(a) - 1):
        b[i] = a[i - 1] + a[i] + a[i + 1]


def five(a, b):
    # pragma parallel for simd
    for i in range(2, len(a) - 2):
        b[i] = a[i + 2] - a[i - 2] + a[i] + a[i + 1] * a[i - 1]


def far(a, b):
    # The last of these is more lanes away than one vector has.
    # pragma simd
    for i in range(len(a) - 17):
        b[i] = a[i + 1] + a[i] + a[i + 3] - a[i + 2] + a[i + 17]


def ahead(a, b):
    # What lies ahead is read before it is overwritten, by hand or by lanes.
    # pragma simd
    for i in range(len(a) - 2):
        x = a[i] + a[i + 1] + a[i + 2]
        b[i] = x


def twice(a, b):
    # The second three come behind a store to what the first three come from.
    # pragma simd
    for i in range(1, len(a) // 2 - 1):
        x = a[i - 1] + a[i] + a[i + 1]
        a[i + len(a) // 2] = x
        b[i] = x - a[i - 1] + a[i] * a[i + 1]


def mixed(a, b):
    # pragma simd
    for i in range(1, len(a) - 1):
        m = a[i] if a[i - 1] < a[i + 1] else a[i + 1]
        b[i] = max(m, a[i - 1])


def taken(a, b):
    n = len(a)
    # pragma simd
    for i in range(1, n - 1):
        if a[i] > a[i - 1]:
            b[i] = a[i + 1] + a[i] + a[i - 1]


def backwards(a, b):
    # pragma simd
    for i in range(len(a) - 2, 0, -1):
        b[i] = a[i - 1] + a[i] + a[i + 1]


PROGRAMS = [three, five, far, ahead, twice, mixed, taken, backwards]


def values(n, dtype):
    return (np.random.default_rng(n).integers(0, 9, n) % (2 if dtype == "?" else 9)).astype(dtype)


@pytest.mark.parametrize(
    ("program", "dtype"),
    [(program, dtype) for program in PROGRAMS for dtype in TYPES if dtype != "?" or program is mixed],
    ids=lambda of: of if isinstance(of, str) else of.__name__,
)
def test_neighbours_equal_plain_python(program, dtype):
    compiled = appy.jit(strict=True)(program)
    with np.errstate(over="ignore"):
        for n in SIZES:
            for start in range(3):
                ours, theirs = ([values(n + start, dtype)[start:], np.zeros(n, dtype)] for _ in range(2))
                compiled(*ours)
                program(*theirs)
                for x, y in zip(ours, theirs, strict=True):
                    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("program", [three, five, far, ahead], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_nothing_beyond_the_array_is_read(program, dtype):
    compiled = appy.jit(strict=True)(program)
    with guarded_page() as bytes_inside:
        inside = bytes_inside.view(dtype)
        inside[:] = values(len(inside), dtype)
        for n in [*range(5, 70), len(inside)]:
            for a in (inside[-n:], inside[:n]):
                ours, theirs = np.zeros(n, dtype), np.zeros(n, dtype)
                compiled(a, ours)
                program(a, theirs)
                np.testing.assert_array_equal(ours, theirs)


def test_rows_of_a_matrix():
    def blurred(a, b):
        # pragma parallel for
        for i in range(1, a.shape[0] - 1):
            # pragma simd
            for j in range(1, a.shape[1] - 1):
                b[i, j] = a[i, j - 1] + 2 * a[i, j] + a[i, j + 1] + a[i - 1, j - 1] - a[i - 1, j] + a[i - 1, j + 1]

    compiled = appy.jit(strict=True)(blurred)
    for shape in [(3, 3), (20, 19), (33, 64), (17, 131)]:
        a = values(shape[0] * shape[1], "f8").reshape(shape)
        ours, theirs = np.zeros(shape), np.zeros(shape)
        compiled(a, ours)
        blurred(a, theirs)
        np.testing.assert_array_equal(ours, theirs)
