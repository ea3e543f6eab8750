"""Stencils over planes that caches do not hold, which go by strips: what NumPy computes, whatever is left
over of strips and groups."""

from __future__ import annotations

import numpy as np
import pytest

import appy


def seven_points(a, b):
    # pragma 0=>parallel 2=>simd
    b[1:-1, 1:-1, 1:-1] = (
        a[2:, 1:-1, 1:-1] - a[:-2, 1:-1, 1:-1] + a[1:-1, 2:, 1:-1] * a[1:-1, :-2, 1:-1]
        - a[1:-1, 1:-1, 2:] + a[1:-1, 1:-1, :-2] - a[1:-1, 1:-1, 1:-1]
    )  # fmt: skip


def limited(a, b):
    # Second differences of second differences, of which neighbouring planes share most.
    # pragma 0=>parallel 2=>simd
    lap = 4 * a[1:-1, 1:-1, :] - (a[2:, 1:-1, :] + a[:-2, 1:-1, :] + a[1:-1, 2:, :] + a[1:-1, :-2, :])
    # pragma 0=>parallel 2=>simd
    down = lap[1:, 1:-1, :] - lap[:-1, 1:-1, :]
    # pragma 0=>parallel 2=>simd
    flux = np.where(down * (a[2:-1, 2:-2, :] - a[1:-2, 2:-2, :]) > 0, 0, down)
    # pragma 0=>parallel 2=>simd
    b[2:-2, 2:-2, :] = a[2:-2, 2:-2, :] - 2 * (flux[1:, :, :] - flux[:-1, :, :])


def in_turns(a, b):
    for _ in range(3):
        # pragma 0=>parallel 2=>simd
        b[1:-1, 1:-1, :] = a[2:, 1:-1, :] - a[:-2, 1:-1, :] + a[1:-1, 2:, :] - a[1:-1, :-2, :]
        # pragma 0=>parallel 2=>simd
        a[1:-1, 1:-1, :] = b[2:, 1:-1, :] - b[:-2, 1:-1, :] - b[1:-1, 2:, :] + b[1:-1, :-2, :]


def order_of_lines(a, b):
    # A line needs the one before of its own plane.
    # pragma parallel for
    for i in range(1, a.shape[0] - 1):
        # pragma sequential for
        for j in range(1, a.shape[1]):
            # pragma :=>simd
            b[i, j, :] = a[i - 1, j, :] + a[i + 1, j, :] - b[i, j - 1, :]


def long_lines(a, b):
    a, b = a.reshape(a.shape[0], -1), b.reshape(b.shape[0], -1)
    # pragma 0=>parallel 1=>simd
    b[1:-1, 1:-1] = a[2:, 1:-1] - a[:-2, 1:-1] + a[1:-1, 2:] - a[1:-1, :-2]


RUNS = {
    f.__name__: (f, appy.jit(strict=True, threads=2)(f))
    for f in (seven_points, limited, in_turns, order_of_lines, long_lines)
}
# Planes are large in the first four; then they are few, small, or have too long lines.
SHAPES = [(20, 151, 1200), (21, 150, 2601), (18, 403, 457), (33, 71, 2001), (9, 170, 900), (40, 20, 33), (20, 5, 70000)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", RUNS)
def test_strips_compute_what_numpy_does(name, shape, dtype):
    plain, compiled = RUNS[name]
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-9, 9, shape).astype(dtype) for _ in range(2))  # whole numbers: no order of sums matters
    want = a.copy(), b.copy()
    plain(*want)
    compiled(a, b)
    for x, y in zip((a, b), want, strict=True):
        np.testing.assert_array_equal(x, y)


@appy.jit(strict=True, threads=2)  # each of which has planes enough
def neighbours(a, b):
    # pragma 0=>parallel 2=>simd
    b[1:-1, :, :] = a[2:, :, :] - a[:-2, :, :]


def test_small_planes_have_no_strips():
    for shape, strips in (((20, 20, 20), False), ((20, 151, 1200), True)):
        a = np.ones(shape)
        neighbours(a, a.copy())
        assert ("runs in groups, each by strips of the one at" in str(appy.explain(neighbours))) == strips
