"""Conditionals of loops without lanes: choices between ints, of what is stored, and what a search leaves."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import appy


def places(table, keys, found):
    # pragma sequential for
    for q in range(len(keys)):
        low = 0
        high = len(table)
        while low < high:
            middle = (low + high) // 2
            if table[middle] < keys[q]:
                low = middle + 1
            else:
                high = middle
        found[q] = low


def labels(picture, made):
    n = 0
    # pragma sequential for
    for i in range(picture.shape[0]):
        for j in range(picture.shape[1]):
            if picture[i, j]:
                up = made[i - 1, j] if i > 0 else 0
                left = made[i, j - 1] if j > 0 else 0
                if up > 0:
                    made[i, j] = up
                elif left > 0:
                    made[i, j] = left
                else:
                    n += 1
                    made[i, j] = n
    return n


def common(a, b, longest):
    # pragma sequential for
    for i in range(len(a)):
        for j in range(len(b)):
            if a[i] == b[j]:
                longest[i + 1, j + 1] = longest[i, j] + 1
            else:
                longest[i + 1, j + 1] = max(longest[i, j + 1], longest[i + 1, j])


def walk(steps):
    at = most = 0
    # pragma sequential for
    for i in range(len(steps)):
        if steps[i] > 2:
            at += steps[i]
        else:
            at -= 1
        if at > most:
            most = at
    return at, most, i


def first_of_rows(a, limit, out):
    n = 0
    # pragma sequential for
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if a[i, j] > limit:
                out[n] = j
                n += 1
                break
        else:
            out[n] = -1
    return n, i, j


def either(x, y, z):
    # pragma sequential for
    for i in range(len(x)):
        if x[i] > 0:
            y[i + 1] = x[i]
        elif x[i] < -3:
            y[i + 1] = y[i]
        else:
            y[i + 1] = 7
            z[i] = 1


def outcome(function, *args):
    args = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    try:
        return function(*args), args
    except Exception as e:
        return (type(e), str(e)), args


def same(function, *args):
    want, arrays = outcome(function, *args)
    got, made = outcome(appy.jit(strict=True)(copy.copy(function)), *args)
    assert got == want
    for a, b in zip(made, arrays):
        np.testing.assert_array_equal(a, b)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-5, 5), max_size=30), st.lists(st.integers(-6, 6), max_size=20), st.sampled_from("lfd"))
def test_places(table, keys, dtype):
    same(places, np.sort(np.array(table, dtype)), np.array(keys, dtype), np.zeros(len(keys), int))


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (7, 1), (12, 17)])
@pytest.mark.parametrize("cut", [(0, 0), (1, 0), (0, 1)])
def test_labels(shape, cut):
    picture = np.random.default_rng(shape[0]).random(shape) > 0.4
    same(labels, picture, np.zeros((shape[0] - cut[0], shape[1] - cut[1]), int))


@pytest.mark.parametrize("cut", [(0, 0), (1, 0), (0, 1), (1, 1), (5, 0), (0, 5)])
@pytest.mark.parametrize("rows", [0, 1, 6])
def test_common(rows, cut):
    a, b = np.random.default_rng(rows).integers(0, 3, (2, 8))
    same(common, a[:rows], b, np.zeros((max(0, rows + 1 - cut[0]), 9 - cut[1]), int))


@pytest.mark.parametrize("dtype", ["u1", "i2", "i8"])
def test_walk(dtype):
    rng = np.random.default_rng(3)
    for n in (1, 2, 100):
        same(walk, rng.integers(0, 6, n).astype(dtype))
    same(walk, np.array([2**62, 5, 2**62, 4], np.int64) if dtype == "i8" else np.array([5], dtype))


@pytest.mark.parametrize("limit", [-1.0, 0.5, 0.9, 2.0])
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (6, 1), (9, 40), (3, 0)])
@pytest.mark.parametrize("room", [0, 2, 9])
def test_first_of_rows(limit, shape, room):
    a = np.random.default_rng(1).random(shape)
    want, arrays = outcome(first_of_rows, a, limit, np.zeros(room, int))
    got, made = outcome(appy.jit(strict=True)(copy.copy(first_of_rows)), a, limit, np.zeros(room, int))
    assert got == want
    np.testing.assert_array_equal(made[2], arrays[2])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-6, 6), max_size=12), st.integers(-2, 1), st.integers(-2, 1))
def test_either(values, more_y, more_z):
    x = np.array(values, int)
    same(either, x, np.zeros(max(0, len(x) + 1 + more_y), int), np.zeros(max(0, len(x) + more_z), int))
