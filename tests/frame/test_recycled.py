"""Large arrays that regions make: their memory is kept for the next ones."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import appy

LARGE = 1 << 20  # elements of float64: 8 MB


@appy.jit(strict=True)
def doubled(x):
    out = appy.empty_like(x)
    # pragma parallel for simd
    for i in range(x.shape[0]):
        out[i] = 2 * x[i]
    return out


def test_a_freed_array_is_the_next_ones_memory():
    x = np.arange(float(LARGE))
    first = doubled(x)
    at = first.ctypes.data
    second = doubled(x)
    assert second.ctypes.data != at
    del first
    third = doubled(x)
    assert third.ctypes.data == at
    np.testing.assert_array_equal(third, 2 * x)
    np.testing.assert_array_equal(second, third)


def test_a_view_keeps_the_memory():
    x = np.arange(float(LARGE))
    row = doubled(x)[5:10]
    others = [doubled(-x) for _ in range(3)]
    np.testing.assert_array_equal(row, 2 * x[5:10])
    assert len({a.ctypes.data for a in others}) == 3


def test_it_is_an_array_as_any():
    x = np.arange(float(LARGE))
    made = doubled(x)
    assert made.flags.owndata and made.base is None and made.flags.writeable
    made.resize(LARGE // 2)
    np.testing.assert_array_equal(made, 2 * x[: LARGE // 2])
    made.resize(3 * LARGE)
    np.testing.assert_array_equal(made[: LARGE // 2], 2 * x[: LARGE // 2])
    assert not made[LARGE // 2 :].any()
    assert np.empty(LARGE).ctypes.data != made.ctypes.data
    other = np.ones(LARGE)  # NumPy's own arrays are NumPy's
    del made, other
    np.testing.assert_array_equal(doubled(x), 2 * x)


@pytest.mark.parametrize("elements", [LARGE // 2 - 1, LARGE // 2, LARGE // 2 + 1, LARGE + 3])
def test_sizes_around_the_limits(elements):
    x = np.arange(float(elements))
    for _ in range(3):
        np.testing.assert_array_equal(doubled(x), 2 * x)


def test_tracemalloc_counts_it():
    x = np.arange(float(LARGE))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        made = doubled(x)
        assert tracemalloc.get_traced_memory()[0] - before >= made.nbytes
        del made
        assert tracemalloc.get_traced_memory()[0] - before < x.nbytes
    finally:
        tracemalloc.stop()


def test_zeros_are_zero_in_used_memory():
    for _ in range(3):
        a = appy.zeros((2, LARGE))
        assert not a.any()
        a += 1
