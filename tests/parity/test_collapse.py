"""collapse(n): where there are few outer iterations, the inner ones are divided between threads, too."""

from __future__ import annotations

import re

import numpy as np
import pytest

import appy


def scaled(A, B):
    # pragma parallel for collapse(2)
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            B[i, j] = A[i, j] * 2 + i - j


def triangle(A, B):
    n = A.shape[0]
    # pragma parallel for collapse(2)
    for i in range(1, n):
        # pragma simd
        for j in range(i, A.shape[1]):
            B[i, j] = A[i, j] + 1


def total(A, B):
    s = 0.0
    # pragma parallel for collapse(2)
    for i in range(A.shape[0]):
        # pragma simd
        for j in range(A.shape[1]):
            s += A[i, j]
    B[0, 0] = s


def three(A, B):
    # pragma parallel for collapse(3)
    for i in range(2):
        for j in range(A.shape[0]):
            for k in range(A.shape[1]):
                B[j, k] = A[j, k] * 3


def more_than_a_loop(A, B):
    # pragma parallel for collapse(2)
    for i in range(A.shape[0]):
        B[i, 0] = 1.0
        for j in range(1, A.shape[1]):
            B[i, j] = A[i, j] + 1


def dependent(A, B):
    # pragma parallel for collapse(2)
    for i in range(A.shape[0]):
        for j in range(1, A.shape[1]):
            B[i, j] = B[i, j - 1] + A[i, j]


def raising(A, B):
    # pragma parallel for collapse(2)
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            B[i, j] = 1 / float(A[i, j])


def lasting(A, B):
    i = j = -1
    # pragma parallel for collapse(2)
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            B[i, j] = A[i, j]
    return i, j, type(i), type(j)


PROGRAMS = [scaled, triangle, total, three, more_than_a_loop, dependent, lasting]


@pytest.mark.filterwarnings("ignore::appy.AppyWarning")
@pytest.mark.parametrize("function", PROGRAMS)
@pytest.mark.parametrize("shape", [(1, 5000), (2, 3000), (3, 1), (5, 0), (0, 7), (1, 1), (7, 63), (70, 90), (65, 2)])
def test_collapsed_loops_compute_the_same(function, shape):
    compiled = appy.jit(strict=True)(function)
    A = np.arange(np.prod(shape), dtype=float).reshape(shape) / 8
    if function is total:
        shape = (1, 1)
    if function is more_than_a_loop and shape[1] == 0:
        return  # B[i, 0] is out of bounds
    got, want = np.zeros(shape), np.zeros(shape)
    before = compiled.stats()["runs"]
    assert compiled(A, got) == function(A, want)
    np.testing.assert_allclose(got, want, rtol=1e-13)
    assert compiled.stats()["runs"] == before + 1


@pytest.mark.parametrize("function", [scaled, triangle, total, lasting])
def test_the_inner_loop_is_divided(function):
    A = np.ones((2, 50))
    text = appy.lower(appy.jit(strict=True)(function), A, np.zeros((2, 50))).text(optimised=True)
    outer, inner = re.findall(r"for .*\{", text)[:2]
    assert "parallel" in outer and "collapse" not in outer
    assert text.count("floordiv") >= 2 and re.search(r"pymin %\d+, %\w+ : i64\n *(%\S+ = )?for ", text), inner


@pytest.mark.parametrize("function", [more_than_a_loop])
def test_what_is_no_perfect_nest_stays(function):
    A = np.ones((2, 50))
    text = appy.lower(appy.jit(strict=True)(function), A, np.zeros((2, 50))).text(optimised=True)
    assert "floordiv" not in text


@appy.jit(strict=True)
def recurrence(A, B):
    # pragma parallel for collapse(2)
    for i in range(A.shape[0]):
        for j in range(1, A.shape[1]):
            B[i, j] = B[i, j - 1] + A[i, j]


def test_a_conflict_between_the_inner_iterations_takes_the_permission():
    A, B = np.ones((2, 5000)), np.ones((2, 5000))
    with pytest.warns(appy.AppyWarning, match="in order"):
        recurrence(A, B)
    np.testing.assert_array_equal(B, np.cumsum(A, axis=1))


def test_the_first_failing_iteration_raises():
    A = np.ones((2, 3000))
    A[0, 2000] = A[1, 1] = 0
    B = np.zeros_like(A)
    compiled = appy.jit(strict=True)(raising)
    with pytest.raises(ZeroDivisionError):
        compiled(A, B)
    np.testing.assert_array_equal(B[0, :2000], 1.0)
    assert B[0, 2000] == 0
