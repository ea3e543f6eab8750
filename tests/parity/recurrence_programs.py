"""Loops that run in order because sums in them read what they wrote, longer than the tiles they are cut into."""

from __future__ import annotations

import numpy as np
from registry import NUMBERS, program, values


def triangle(rows, *more):
    """A lower triangle with a heavy diagonal, and arrays of these shapes."""

    def make(dtype, rng):
        lower = np.tril(values(rng, dtype, rows, rows) / rows, -1).astype(dtype) + 2 * np.eye(rows, dtype=dtype)
        return (lower, *(values(rng, dtype, *shape) for shape in more))

    return make


def positive(n):
    def make(dtype, rng):
        a = values(rng, dtype, n, n)
        return ((a @ a.T / n + 2 * np.eye(n)).astype(dtype),)

    return make


@program(triangle(150, (150,), (150,)), scale=64.0)
def forward_substitution(lower, x, b):
    # pragma sequential for
    for i in range(x.shape[0]):
        s = 0.0
        # pragma simd
        for j in range(i):
            s += lower[i, j] * x[j]
        x[i] = (b[i] - s) / lower[i, i]
    return s, i, j


@program(triangle(131, (131,)), scale=64.0)
def forward_substitution_in_place(lower, x):
    # pragma sequential for
    for i in range(x.shape[0]):
        # pragma 0=>reduction(sum)
        x[i] = (x[i] - lower[i, :i] @ x[:i]) / lower[i, i]


@program(triangle(1100, (1100,)), scale=64.0)
def long_substitution(lower, x):
    """More than a group of tiles."""
    # pragma sequential for
    for i in range(x.shape[0]):
        # pragma 0=>reduction(sum)
        x[i] = (x[i] - lower[i, :i] @ x[:i]) / lower[i, i]


@program(triangle(150, (150,), (150,)), scale=64.0)
def substitution_and_largest(lower, x, b):
    """Two sums of one loop."""
    # pragma sequential for
    for i in range(x.shape[0]):
        s = 0.0
        m = 0.0
        # pragma simd
        for k in range(i):
            s += lower[i, k] * x[k]
            m = max(m, abs(x[k]))
        x[i] = (b[i] - s) / lower[i, i] + m / 64


@program(triangle(150, (150,), (150,)), scale=64.0)
def substitution_with_weights(lower, x, b):
    """Rows behind divide by what the row in turn divides by."""
    # pragma sequential for
    for i in range(x.shape[0]):
        s = 0.0
        # pragma simd
        for k in range(i):
            s += lower[i, k] * x[k] / lower[k, k]
        x[i] = (b[i] - s) / lower[i, i]


@program(triangle(1, (139,), (139,)), dtypes=NUMBERS)
def cheapest_chain(_, cost, best):
    """Minima that begin with an element of another array."""
    # pragma sequential for
    for i in range(1, best.shape[0]):
        m = cost[i]
        # pragma simd
        for k in range(i):
            m = min(m, best[k] // 2 + cost[k] // 4)
        best[i] = m


@program(triangle(140, (140, 7), (140, 7)), scale=64.0)
def several_right_sides(lower, x, b):
    # pragma sequential for
    for i in range(x.shape[0]):
        # pragma parallel for
        for r in range(x.shape[1]):
            s = 0.0
            for k in range(i):
                s += lower[i, k] * x[k, r]
            x[i, r] = (b[i, r] - s) / lower[i, i]


@program(triangle(140, (140, 33), (140, 33)), scale=64.0)
def several_right_sides_in_lanes(lower, x, b):
    # pragma sequential for
    for i in range(x.shape[0]):
        # pragma simd
        for r in range(x.shape[1]):
            s = 0.0
            for k in range(i):
                s += lower[i, k] * x[k, r]
            x[i, r] = (b[i, r] - s) / lower[i, i]


@program(triangle(150, (150,), (150,)), scale=64.0)
def back_substitution(lower, x, b):
    n = x.shape[0]
    # pragma sequential for
    for i in range(n - 1, -1, -1):
        s = 0.0
        # pragma simd
        for j in range(i + 1, n):
            s += lower[j, i] * x[j]
        x[i] = (b[i] - s) / lower[i, i]


@program(positive(90), scale=64.0, ulps=32)
def factor_by_columns(a):
    # pragma sequential for
    for j in range(a.shape[0]):
        s = 0.0
        # pragma simd
        for k in range(j):
            s += a[j, k] * a[j, k]
        a[j, j] = np.sqrt(a[j, j] - s)
        # pragma parallel for
        for i in range(j + 1, a.shape[0]):
            t = 0.0
            # pragma simd
            for k in range(j):
                t += a[i, k] * a[j, k]
            a[i, j] = (a[i, j] - t) / a[j, j]


@program(positive(85), scale=64.0, ulps=32)
def factor_by_columns_arrays(a):
    # pragma sequential for
    for j in range(a.shape[0]):
        # pragma 0=>reduction(sum)
        a[j, j] = np.sqrt(a[j, j] - a[j, :j] @ a[j, :j])
        # pragma 0=>parallel 1=>reduction(sum)
        a[j + 1 :, j] = (a[j + 1 :, j] - a[j + 1 :, :j] @ a[j, :j]) / a[j, j]


@program(lambda dtype, rng: (*positive(150)(dtype, rng), np.zeros(150, dtype)), scale=64.0, ulps=32)
def factor_with_a_diagonal(a, d):
    """Without square roots: the factor's diagonal is ones, and what it is multiplied with another array."""
    # pragma sequential for
    for j in range(a.shape[0]):
        s = 0.0
        # pragma simd
        for k in range(j):
            s += a[j, k] * a[j, k] * d[k]
        d[j] = a[j, j] - s
        # pragma parallel for
        for i in range(j + 1, a.shape[0]):
            t = 0.0
            # pragma simd
            for k in range(j):
                t += a[i, k] * a[j, k] * d[k]
            a[i, j] = (a[i, j] - t) / d[j]


@program(positive(80), scale=64.0, ulps=32)
def crout(a):
    """A column of the lower factor and a row of the upper one at a time, in the place of the matrix."""
    n = a.shape[0]
    # pragma sequential for
    for j in range(n):
        # pragma parallel for
        for i in range(j, n):
            s = 0.0
            # pragma simd
            for k in range(j):
                s += a[i, k] * a[k, j]
            a[i, j] -= s
        # pragma parallel for
        for i in range(j + 1, n):
            t = 0.0
            # pragma simd
            for k in range(j):
                t += a[j, k] * a[k, i]
            a[j, i] = (a[j, i] - t) / a[j, j]


@program(triangle(1, (200,), (200,)), dtypes=NUMBERS)
def best_chain(_, gain, best):
    # pragma sequential for
    for i in range(1, best.shape[0]):
        m = best[0] // 8
        # pragma simd
        for k in range(i - 1):
            m = max(m, best[k] // 2 + gain[k])
        best[i] = m
    return m


@program(triangle(160, (160,)), scale=64.0)
def band(lower, x):
    # pragma sequential for
    for i in range(x.shape[0]):
        s = 0.0
        # pragma simd
        for k in range(max(0, i - 100), i):
            s += lower[i, k] * x[k]
        x[i] -= s


@program(triangle(100, (100,)), scale=64.0)
def previous_and_own(lower, x):
    """Every sum ends with the element that the iteration before it wrote, and with its own."""
    # pragma sequential for
    for i in range(1, x.shape[0]):
        s = x[0]
        # pragma simd
        for k in range(i + 1):
            s += lower[i, k] * x[k]
        x[i] = s / 2


def heavy(rows, *more):
    """A matrix with a heavy diagonal, and arrays of these shapes."""

    def make(dtype, rng):
        a = (values(rng, dtype, rows, rows) / rows).astype(dtype) + 2 * np.eye(rows, dtype=dtype)
        return (a, *(values(rng, dtype, *shape) for shape in more))

    return make


@program(heavy(90), scale=64.0, ulps=64)
def eliminate(a):
    """What a row behind the pivot is given it gets when the tile is done."""
    # pragma sequential for
    for k in range(a.shape[0]):
        # pragma parallel for
        for i in range(k + 1, a.shape[0]):
            a[i, k] = a[i, k] / a[k, k]
            # pragma simd
            for j in range(k + 1, a.shape[1]):
                a[i, j] -= a[i, k] * a[k, j]


@program(heavy(77), scale=64.0, ulps=64)
def eliminate_in_two_loops(a):
    """The next pivot's column is divided in all rows: nothing may wait."""
    # pragma sequential for
    for k in range(a.shape[0]):
        # pragma parallel for simd
        for i in range(k + 1, a.shape[0]):
            a[i, k] = a[i, k] / a[k, k]
        # pragma parallel for
        for i in range(k + 1, a.shape[0]):
            for j in range(k + 1, a.shape[1]):
                a[i, j] -= a[i, k] * a[k, j]


@program(heavy(70), scale=256.0, ulps=64)
def orthogonalise(a):
    m, n = a.shape
    q = np.zeros_like(a)
    r = np.zeros((n, n), dtype=a.dtype)
    s = t = 0.0
    i = j = k = -1
    # pragma sequential for
    for k in range(n):
        s = 0.0
        # pragma simd
        for i in range(m):
            s += a[i, k] * a[i, k]
        r[k, k] = np.sqrt(s)
        # pragma simd
        for i in range(m):
            q[i, k] = a[i, k] / r[k, k]
        # pragma parallel for simd
        for j in range(k + 1, n):
            t = 0.0
            for i in range(m):
                t += q[i, k] * a[i, j]
            r[k, j] = t
            for i in range(m):
                a[i, j] -= q[i, k] * t
    return q, r, s, t, i, j, k


@program(triangle(150, (150,), (150,)), scale=64.0)
def substitution_by_columns(lower, x, b):
    # pragma sequential for
    for j in range(x.shape[0]):
        pivot = b[j] / lower[j, j]
        x[j] = pivot
        # pragma parallel for simd
        for i in range(j + 1, x.shape[0]):
            b[i] -= lower[i, j] * pivot
    return pivot
