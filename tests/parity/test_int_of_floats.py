"""int() of floats that have none, in loops: which error it is, in which iteration, and what was done before."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import appy


def counted(x, h):
    # pragma sequential for
    for i in range(len(x)):
        h[int(x[i])] += 1


def table(x, y, h):
    # pragma sequential for
    for i in range(len(x)):
        a = int(x[i] * 4)
        b = int(y[i] * 4)
        h[a, b] += a - b
        h[b, a] = h[a, b] + 1


def floors(x, h):
    # pragma sequential for
    for i in range(len(x)):
        h[math.floor(x[i]) - math.ceil(x[i] / 2)] = i


def lanes(x, h):
    # pragma parallel for simd
    for i in range(len(x)):
        h[i] = int(x[i]) + int(x[i] / 2)


def in_turn(x, h):
    # pragma simd
    for i in range(len(x)):
        if x[i] > 1:
            h[i] = int(x[i]) - round(x[i])


def outcome(function, *args):
    args = [a.copy() for a in args]
    try:
        return function(*args), args
    except Exception as e:
        return (type(e), str(e)), args


def same(function, *args, fits=True):
    """`fits`: all ints have 64 bits, which compiled regions may insist on where something was stored before."""
    want, arrays = outcome(function, *args)
    got, made = outcome(appy.jit(strict=True)(copy.copy(function)), *args)
    if not fits and got != want:
        assert got[0] is OverflowError
        assert "64 bits" in got[1]
        return
    assert got == want
    for a, b in zip(made, arrays):
        np.testing.assert_array_equal(a, b)


WRONG = [math.nan, math.inf, -math.inf, 2e18, 100.0, -50.0]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("value", [0.5, *WRONG])
@pytest.mark.parametrize("at", [0, 3, 16, 36])
def test_counted(value, at, dtype):
    x = (np.arange(37) % 8 + 0.25).astype(dtype)
    x[at] = value
    same(counted, x, np.zeros(8, int))
    same(floors, x, np.zeros(64, int))
    same(lanes, x, np.zeros(37, int))
    same(in_turn, x, np.zeros(37, int))


@pytest.mark.parametrize("function", [counted, floors, lanes, in_turn])
@pytest.mark.parametrize("value", [1e300, 2.0**63])
@pytest.mark.parametrize("at", [3, 16, 36])
def test_too_large(function, value, at):
    x = np.arange(37) % 8 + 0.25
    x[at] = value
    same(function, x, np.zeros(64, int), fits=False)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0, 0.99), min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(0, 39), st.booleans(), st.sampled_from(WRONG)), max_size=3),
)
def test_tables(values, wrong):
    x = np.array(values)
    y = x[::-1].copy()
    for at, first, value in wrong:
        (x if first else y)[at % len(x)] = value
    same(table, x, y, np.zeros((4, 4), int))
