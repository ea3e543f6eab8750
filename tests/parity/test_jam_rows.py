"""Element-wise nests whose rows run together: the very bits of plain Python, whatever is left over."""

from __future__ import annotations

import numpy as np
import pytest

import appy

SIZES = [(0, 4), (1, 1), (2, 9), (3, 3), (4, 17), (5, 40), (17, 1), (18, 33), (33, 34), (34, 19), (51, 83)]


def five_points(a, b, c):
    m, n = a.shape
    # pragma parallel for
    for i in range(1, m - 1):
        # pragma simd
        for j in range(1, n - 1):
            b[i, j] = c[0] * a[i, j] + c[1] * (a[i, j - 1] + a[i, j + 1]) + c[2] * (a[i - 1, j] + a[i + 1, j])
    return m


def filtered(a, b, c):
    m, n = a.shape
    # pragma parallel for
    for i in range(1, m - 1):
        # pragma simd
        for j in range(1, n - 1):
            upper = c[0] * a[i - 1, j - 1] + c[1] * a[i - 1, j] + c[2] * a[i - 1, j + 1]
            middle = c[3] * a[i, j - 1] + c[4] * a[i, j] + c[3] * a[i, j + 1]
            b[i, j] = upper + middle + (c[2] * a[i + 1, j - 1] + c[1] * a[i + 1, j] + c[0] * a[i + 1, j + 1])


def diffused(a, b, c):
    m, n = a.shape
    # pragma parallel for
    for i in range(1, m - 1):
        # pragma simd
        for j in range(1, n - 1):
            down = a[i + 1, j] - a[i, j]
            up = a[i, j] - a[i - 1, j]
            right = a[i, j + 1] - a[i, j]
            left = a[i, j] - a[i, j - 1]
            down = 0 if down > c[1] else down
            up = 0 if up > c[1] else up
            right = 0 if right > c[2] else right
            left = 0 if left > c[2] else left
            b[i, j] = a[i, j] + c[0] * (down - up + right - left)


def divergence(a, b, c):
    gx = np.zeros_like(a)
    gy = np.zeros_like(a)
    # pragma 0=>parallel 1=>simd
    gx[:-1, :] = np.where(a[1:, :] > c[0], a[1:, :] - a[:-1, :], 0)
    # pragma 0=>parallel 1=>simd
    gy[:, :-1] = np.where(a[:, 1:] > c[0], a[:, 1:] - a[:, :-1], 0)
    # pragma 0=>parallel 1=>simd
    b[1:, 1:] = gx[1:, 1:] - gx[:-1, 1:] + gy[1:, 1:] - gy[1:, :-1]


def swept(a, b, c):
    m, n = a.shape
    # pragma sequential for
    for _ in range(5):
        # pragma parallel for
        for i in range(1, m - 1):
            # pragma simd
            for j in range(1, n - 1):
                b[i, j] = c[1] * (a[i, j] + a[i, j - 1] + a[i, j + 1] + a[i + 1, j] + a[i - 1, j])
        # pragma parallel for
        for i in range(1, m - 1):
            # pragma simd
            for j in range(1, n - 1):
                a[i, j] = c[1] * (b[i, j] + b[i, j - 1] + b[i, j + 1] + b[i + 1, j] + b[i - 1, j])


def planes(a, b, c):
    x = np.stack([a + c[0], a - c[1], a * c[2]], axis=2)
    y = np.zeros_like(x)
    for _ in range(3):
        # pragma parallel for
        for i in range(1, x.shape[0] - 1):
            for j in range(1, x.shape[1] - 1):
                # pragma simd
                for k in range(x.shape[2]):
                    y[i, j, k] = x[i + 1, j, k] - x[i - 1, j, k] + x[i, j + 1, k] * x[i, j - 1, k] - x[i, j, k]
    b[:, :] = y[:, :, 0] + y[:, :, 1] - y[:, :, 2]


def planes_again(a, b, c):
    # Few planes are left to the loop as written, whose rows run together.
    x = np.stack([a + c[0], a - c[1], a * c[2], a], axis=0)
    x = np.concatenate([x] * (1 + a.shape[1] // 9), axis=0)
    y = x * 2
    # pragma sequential for
    for _ in range(3):
        # pragma parallel for
        for i in range(1, x.shape[0] - 1):
            for j in range(1, x.shape[1] - 1):
                # pragma simd
                for k in range(1, x.shape[2] - 1):
                    y[i, j, k] = x[i + 1, j, k] - x[i - 1, j, k] + x[i, j + 1, k] - x[i, j - 1, k] + x[i, j, k]
        # pragma parallel for
        for i in range(1, x.shape[0] - 1):
            for j in range(1, x.shape[1] - 1):
                # pragma simd
                for k in range(1, x.shape[2] - 1):
                    x[i, j, k] = y[i + 1, j, k] - y[i - 1, j, k] + y[i, j + 1, k] - y[i, j - 1, k] + y[i, j, k]
    b[:, :] = x[1] + y[2]


def above_first(a, b, c):
    # An iteration needs the row before: nothing may mix.
    # pragma sequential for
    for i in range(1, a.shape[0] - 1):
        # pragma simd
        for j in range(1, a.shape[1] - 1):
            b[i, j] = b[i - 1, j + 1] + a[i, j - 1] - a[i, j + 1] + a[i + 1, j] - a[i - 1, j] + a[i, j]


def far_apart(a, b, c):
    # In order, over an array that it reads four rows further on.
    # pragma sequential for
    for i in range(1, a.shape[0] - 4):
        # pragma simd
        for j in range(1, a.shape[1] - 1):
            b[i, j] = b[i + 4, j] + a[i, j - 1] - a[i, j + 1] + a[i + 1, j] - a[i - 1, j] + a[i, j]


def triangle(a, b, c):
    # pragma parallel for
    for i in range(1, a.shape[0] - 1):
        # pragma simd
        for j in range(1, min(i + 2, a.shape[1] - 1)):
            b[i, j] = a[i, j - 1] + a[i, j + 1] + a[i + 1, j] - a[i - 1, j] + a[i, j]
    return b.shape


def leaves_variables(a, b, c):
    i = j = -1
    d = c[0] * 0
    # pragma sequential for
    for i in range(1, a.shape[0] - 1):
        # pragma simd
        for j in range(1, a.shape[1] - 1):
            d = a[i + 1, j] - a[i - 1, j]
            b[i, j] += d - a[i, j] + (a[i, j] - a[i - 1, j])
    return i, j, d


PROGRAMS = [
    five_points,
    filtered,
    diffused,
    divergence,
    swept,
    planes,
    planes_again,
    above_first,
    far_apart,
    triangle,
    leaves_variables,
]
TYPES = [np.float64, np.float32, np.int64, np.int16]


def arguments(shape, dtype):
    rng = np.random.default_rng(sum(shape))
    a = rng.integers(-9, 9, shape).astype(dtype)
    return a, (a * 3).astype(dtype)[::-1].copy(), np.array([2, 3, 1, 5, 7]).astype(dtype)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_rows_run_together_as_alone(program, dtype, exact):
    compiled = appy.jit(strict=True, exact=exact, threads=2)(program)
    for shape in SIZES:
        ours, theirs = arguments(shape, dtype), arguments(shape, dtype)
        with np.errstate(over="ignore"):
            assert compiled(*ours) == program(*theirs)
        for x, y in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("program", [five_points, filtered, diffused, swept, planes, planes_again])
def test_they_do(program):
    compiled = appy.jit(strict=True)(program)
    compiled(*arguments((34, 19), np.float64))
    assert "run together" in str(appy.explain(compiled))


@pytest.mark.parametrize("program", [above_first])
def test_they_do_not(program):
    compiled = appy.jit(strict=True)(program)
    compiled(*arguments((34, 19), np.float64))
    assert "run together" not in str(appy.explain(compiled))


def test_arrays_that_overlap_keep_their_order():
    compiled = appy.jit(strict=True)(five_points)
    _, _, c = arguments((4, 4), np.float64)
    ours, theirs = (np.arange(40.0 * 30).reshape(40, 30) % 17 for _ in range(2))
    compiled(ours[1:], ours[:-1], c)
    five_points(theirs[1:], theirs[:-1], c)
    np.testing.assert_array_equal(ours, theirs)


def test_a_row_that_fails_leaves_what_python_leaves():
    def checked(a, b, at):
        # pragma sequential for
        for i in range(1, a.shape[0] - 1):
            # pragma simd
            for j in range(1, a.shape[1] - 1):
                b[at[i], j] = a[i + 1, j] - a[i - 1, j] + a[i, j - 1] - a[i, j + 1] + a[i, j]

    a = np.arange(30.0 * 20).reshape(30, 20) % 13
    at = np.arange(30)
    at[17] = 99
    ours, theirs = np.zeros_like(a), np.zeros_like(a)
    compiled = appy.jit(strict=True)(checked)
    for f, b in (compiled, ours), (checked, theirs):
        with pytest.raises(IndexError):
            f(a, b, at)
    np.testing.assert_array_equal(ours, theirs)
