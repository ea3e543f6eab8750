"""Slices of several arrays with the same bounds: where the arrays have one length, the slices have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import appy


def spmv(ptr: Any, col: Any, val: Any, x: Any, y: Any) -> None:
    # pragma parallel for
    for i in range(len(ptr) - 1):
        begin, end = ptr[i], ptr[i + 1]
        y[i] = val[begin:end] @ x[col[begin:end]]


def weighted(ptr: Any, val: Any, weight: Any, y: Any) -> None:
    # pragma parallel for
    for i in range(len(ptr) - 1):
        y[i] = np.sum(val[ptr[i] : ptr[i + 1]] * weight[ptr[i] : ptr[i + 1]])


def matrix(n: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(n)
    ptr = np.concatenate([[0], np.cumsum(rng.integers(0, 7, n))])
    col = rng.integers(0, max(n, 1), ptr[-1])
    return ptr, col, rng.random(ptr[-1]), rng.random(n), np.zeros(n)


def outcome(function: Any, *given: Any) -> tuple[Any, str]:
    y = given[-1].copy()
    try:
        function(*given[:-1], y)
    except (IndexError, ValueError) as error:
        return None, str(error)
    return y, ""


def agree(compiled: Any, function: Any, *given: Any) -> str:
    got, expected = outcome(compiled, *given), outcome(function, *given)
    assert got[1] == expected[1]
    if expected[0] is not None:
        np.testing.assert_allclose(got[0], expected[0], rtol=1e-13)
    return expected[1]


def test_a_gather_in_a_product_makes_no_array() -> None:
    f = appy.jit(strict=True)(spmv)
    for n in (50, 1, 0, 700, 2):
        assert not agree(f, spmv, *matrix(n))
    assert f.stats()["declined"] == 0
    # What blocks of rows keep their terms in.
    assert "1 array an iteration in the interpreter, 1 array of 8256 bytes here" in str(appy.explain(f))


def test_what_else_bounds_and_lengths_may_be() -> None:
    f, g = appy.jit(strict=True)(spmv), appy.jit(strict=True)(weighted)
    ptr, col, val, x, y = matrix(60)
    assert not agree(f, spmv, ptr, col, np.append(val, 1.0), x, y)  # the slices are equally long
    assert not agree(f, spmv, ptr, np.append(col, 10**6), val, x, y)
    assert agree(f, spmv, ptr, col[:-1], val, x, y)
    assert agree(f, spmv, ptr, col, val[:-2], x, y)
    assert not agree(f, spmv, ptr - ptr[-1], col, val, x, y)  # from the end
    assert not agree(f, spmv, ptr[::-1].copy(), col, val, x, y)  # empty
    assert not agree(f, spmv, ptr + 5, col, val, x, y)  # past the end
    assert not agree(f, spmv, ptr[:1], col, val[:3], x, y)  # no row
    wrong = col.copy()
    wrong[len(col) // 2] = len(x)
    assert "out of bounds" in agree(f, spmv, ptr, wrong, val, x, y)
    assert not agree(g, weighted, ptr, val, val[::-1], y)
    assert agree(g, weighted, ptr, val, val[:-1], y)


@pytest.mark.parametrize("longer", [0, 1])
def test_random_bounds(longer: int) -> None:
    rng = np.random.default_rng(7)
    f = appy.jit(strict=True)(spmv)
    for _ in range(300):
        size = int(rng.integers(1, 12))
        ptr = rng.integers(-size - 2, size + 3, 9)
        col = rng.integers(-5, 5, size + longer)
        agree(f, spmv, ptr, col, rng.random(size), rng.random(5), np.zeros(8))
