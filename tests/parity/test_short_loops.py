"""Loops of a few iterations inside of loops in lanes, as plain Python runs them."""

from __future__ import annotations

import numpy as np
import pytest

import appy


def window(x, y, k):
    # pragma parallel for
    for i in range(1, x.shape[0] - 1):
        # pragma simd
        for j in range(1, x.shape[1] - 1):
            s = 0.0
            for a in range(-1, 2):
                for b in range(-1, 2):
                    s += x[i + a, j + b] * k[a + 1, b + 1]
            y[i, j] = s


def by_steps(x, y, k):
    # pragma parallel for
    for i in range(x.shape[0]):
        # pragma simd
        for j in range(x.shape[1] - 3):
            s = x[i, j]
            for b in range(1, 4, 2):
                s = s * k[0, 0] + x[i, j + b]
            y[i, j] = s


def with_conditions(x, y, k):
    # pragma parallel for
    for i in range(x.shape[0]):
        # pragma simd
        for j in range(x.shape[1]):
            best = 0.0
            at = -1
            for a in range(3):
                if j + a < x.shape[1] and x[i, j + a] > best:
                    best = x[i, j + a]
                    at = a
            y[i, j] = best + at


def none_at_all(x, y, k):
    # pragma parallel for
    for i in range(x.shape[0]):
        # pragma simd
        for j in range(x.shape[1]):
            s = x[i, j]
            for a in range(2, 2):
                s += 1
            for a in range(1):
                s += a
            y[i, j] = s + a


def with_breaks(x, y, k):
    # pragma parallel for
    for i in range(x.shape[0]):
        # pragma simd
        for j in range(x.shape[1]):
            s = 0.0
            for a in range(3):
                if x[i, j] < 0.2:
                    break
                if x[i, j] > 0.8:
                    continue
                s += x[i, j] * a
            y[i, j] = s


def stores(x, y, k):
    # pragma parallel for
    for i in range(x.shape[0]):
        # pragma simd
        for j in range(x.shape[1] // 3):
            for a in range(3):
                y[i, 3 * j + a] = x[i, 3 * j + a] * (a + 1)


@pytest.mark.parametrize("shape", [(3, 3), (1, 1), (4, 37), (7, 130)], ids=str)
@pytest.mark.parametrize(
    "program", [window, by_steps, with_conditions, none_at_all, with_breaks, stores], ids=lambda f: f.__name__
)
def test_answers(program, shape):
    x, k = np.random.default_rng(5).random(shape), np.random.default_rng(6).random((3, 3))
    mine, want = np.zeros(shape), np.zeros(shape)
    program(x, want, k)
    appy.jit(strict=True)(program)(x, mine, k)
    np.testing.assert_allclose(mine, want, rtol=1e-12)


def test_the_first_one_out_of_bounds_raises():
    def program(x, y, n):
        # pragma parallel for simd
        for i in range(n):
            s = 0.0
            for a in range(3):
                s += x[i + a]
            y[i] = s

    compiled = appy.jit(strict=True)(program)
    x, y = np.ones(40), np.zeros(40)
    compiled(x, y, 38)
    np.testing.assert_array_equal(y, [3.0] * 38 + [0.0] * 2)
    with pytest.raises(IndexError):
        compiled(x, y, 39)
