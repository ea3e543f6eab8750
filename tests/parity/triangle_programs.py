"""Triangular products in place, and updates of triangles: loops in order that read what later iterations overwrite."""

from __future__ import annotations

import numpy as np
from registry import program, values


def square(rows, *more):
    """A square matrix, and arrays of these shapes."""

    def make(dtype, rng):
        return ((values(rng, dtype, rows, rows) / rows).astype(dtype), *(values(rng, dtype, *shape) for shape in more))

    return make


@program(square(70, (70, 33)), scale=64.0)
def rows_below(a, b):
    # pragma sequential for
    for i in range(b.shape[0]):
        # pragma 0=>parallel
        b[i, :] += a[i + 1 :, i] @ b[i + 1 :, :]
    # pragma 0=>parallel 1=>simd
    b *= 1.5


@program(square(60, (60, 41)), scale=64.0)
def rows_above_from_the_last(a, b):
    # pragma sequential for
    for i in range(b.shape[0] - 1, -1, -1):
        # pragma 0=>parallel
        b[i, :] = a[i, : i + 1] @ b[: i + 1, :]


@program(square(60, (60, 41)), scale=64.0)
def elements_below(a, b):
    # pragma parallel for simd
    for j in range(b.shape[1]):
        for i in range(b.shape[0]):
            s = 0.0
            for k in range(i, b.shape[0]):
                s += a[k, i] * b[k, j]
            b[i, j] = s


@program(square(48, (300,)), scale=64.0)
def windows_ahead(a, x):
    # pragma sequential for
    for i in range(x.shape[0] - 48):
        s = 0.0
        # pragma simd
        for k in range(i, i + 48):
            s += a[0, k - i] * x[k]
        x[i] = s


@program(square(50, (50,)), scale=64.0)
def vector_below(a, x):
    # pragma sequential for
    for i in range(x.shape[0]):
        s = x[i]
        for k in range(i + 1, x.shape[0]):
            s += a[k, i] * x[k]
        x[i] = s


@program(square(40, (40, 19), (40, 19)), scale=64.0)
def both_halves(a, b, c):
    # pragma sequential for
    for i in range(c.shape[0]):
        # pragma 0=>parallel 1=>simd
        c[:i, :] += 0.5 * np.outer(a[i, :i], b[i, :])
        # pragma 0=>parallel
        c[i, :] += 0.5 * (a[i, i] * b[i, :] + a[i, :i] @ b[:i, :])


@program(square(40, (40, 19), (40, 19)), scale=64.0)
def updates_that_are_read(a, b, c):
    """The sums read rows that the updates have changed: their order counts."""
    # pragma sequential for
    for i in range(c.shape[0]):
        # pragma 0=>parallel 1=>simd
        c[:i, :] += 0.5 * np.outer(a[i, :i], b[i, :])
        # pragma 0=>parallel
        c[i, :] += 0.5 * (a[i, :i] @ c[:i, :])


@program(square(40, (40, 23), (40, 23)), scale=64.0)
def more_rows_each_time(a, b, c):
    # pragma sequential for
    for i in range(1, c.shape[0]):
        # pragma parallel for
        for k in range(c.shape[0] - i, c.shape[0]):
            # pragma simd
            for j in range(c.shape[1]):
                c[k, j] -= a[i, k] * b[i, j]


@program(square(30, (2, 30, 30)), scale=64.0)
def batches(a, b):
    # pragma parallel for
    for n in range(b.shape[0]):
        for i in range(b.shape[1]):
            for j in range(b.shape[2]):
                s = b[n, i, j]
                for k in range(i + 1, b.shape[1]):
                    s += a[k, i] * b[n, k, j]
                b[n, i, j] = s


@program(square(31, (31, 31)), scale=64.0)
def steps(a, b):
    for _ in range(3):
        # pragma sequential for
        for i in range(b.shape[0]):
            # pragma 0=>parallel
            b[i, :] += a[i + 1 :, i] @ b[i + 1 :, :]
