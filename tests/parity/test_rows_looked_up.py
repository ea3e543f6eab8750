"""Ranges and rows that are looked up: none of what lies outside of them counts, in whatever direction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import appy


def smaller(x: Any, a: int, b: int) -> Any:
    return np.exp(x) if a < b else x


def downwards(ptr: Any, col: Any, val: Any, B: Any, C: Any, a: int, b: int, step: int) -> None:
    # pragma parallel for
    for i in range(C.shape[0]):
        for j in range(ptr[i], ptr[i + 1]):
            # pragma simd
            for k in range(a, b, step):
                C[i, k] += val[j] * smaller(B[col[j], k], a, b)


@pytest.mark.parametrize(("n", "a", "b", "step"), [(9, 8, 2, -1), (40, 30, 0, -1), (40, 3, 39, 1), (40, 39, 0, -3)])
def test_a_test_of_the_bounds_is_kept_where_the_loop_runs_down(n: int, a: int, b: int, step: int) -> None:
    rng = np.random.default_rng(0)
    ptr, col = np.array([0, 3, 3, 7, 8]), rng.integers(0, 5, 8)
    val, B, C = rng.random(8), rng.random((5, n)), rng.random((4, n))
    got = C.copy()
    downwards(ptr, col, val, B, C, a, b, step)
    appy.jit(strict=True)(downwards)(ptr, col, val, B, got, a, b, step)
    np.testing.assert_allclose(got, C, rtol=1e-12)


def ragged(start: Any, stop: Any, val: Any, y: Any) -> None:
    # pragma parallel for
    for i in range(len(y)):
        begin, end = int(start[i]), int(stop[i])
        s = 0.0
        # pragma simd
        for k in range(end - begin):
            s += val[begin + k]
        y[i] = s


def padded(start: Any, stop: Any, val: Any, col: Any, x: Any, y: Any) -> None:
    # pragma parallel for
    for i in range(len(y)):
        y[i] = np.dot(val[start[i] : stop[i]], x[col[start[i] : stop[i]]])


def repeated(ptr: Any, val: Any, col: Any, x: Any, y: Any, steps: int, n: int) -> None:
    for _ in range(steps):
        # pragma parallel for
        for i in range(n):
            y[i] = val[ptr[i] : ptr[i + 1]] @ x[col[ptr[i] : ptr[i + 1]]]


@pytest.mark.parametrize("dtype", ["i4", "u4", "i8"])
def test_what_no_iteration_reads_keeps_nothing_from_running(dtype: str) -> None:
    compiled = appy.jit(strict=True)(ragged)
    val = np.arange(6.0)
    for stop in ([3, 100, 6], [3, 50, 6]):  # the second row is empty
        y = np.zeros(3)
        compiled(np.array([0, 100, 3], dtype), np.array(stop, dtype), val, y)
        assert y.tolist() == [3, 0, 12]
    assert compiled.stats()["declined"] == 0

    compiled = appy.jit(strict=True)(padded)
    col, y = np.array([0, 1, 2, 99, 3, 4, 99, 99, 0, 1], dtype), np.zeros(3)
    compiled(np.array([0, 4, 8], dtype), np.array([3, 6, 10], dtype), np.ones(10), col, np.arange(5.0), y)
    assert y.tolist() == [3, 7, 1]
    assert compiled.stats()["declined"] == 0

    compiled = appy.jit(strict=True)(repeated)
    ptr, col, y = np.array([0, 2, 2, 5], dtype), np.array([0, 1, 4, 3, 2], dtype), np.zeros(3)
    for n in (3, 0):
        compiled(ptr, np.ones(5), col, np.arange(5.0), y, 3, n)
        assert y.tolist() == [1, 0, 9]
    assert compiled.stats()["declined"] == 0


def test_what_was_evaluated_first_fails_first() -> None:
    """After a store, when the interpreter cannot begin anew: of two gathers out of bounds the first is named."""

    def turned(a: Any, b: Any, c: Any, g: Any) -> None:
        # pragma :=>parallel
        b[:] = b + 1
        # pragma :=>parallel
        a[0, g] -= b[g][::-1]

    def summed(a: Any, b: Any, c: Any, g: Any) -> None:
        # pragma :=>parallel
        b[:] = b + 1
        # pragma :=>parallel
        a[0, :] = b[g] + np.sum(c[g])

    def cumulated(a: Any, b: Any, c: Any, g: Any) -> None:
        # pragma :=>parallel
        b[:] = b + 1
        # pragma :=>parallel
        a[0, :] = c[g] + np.cumsum(b[g])

    g = np.array([4, 17, -2, 2, -1, -7, -3])
    for program in (turned, summed, cumulated):
        said = []
        for f in (program, appy.jit(strict=True)(program)):
            b = np.arange(7)
            with pytest.raises(IndexError) as raised:
                f(np.zeros((9, 8), int)[:, :7] if program is not turned else np.zeros((9, 8), int), b, np.arange(9), g)
            said.append((str(raised.value), b.tolist()))
        assert said[0] == said[1]


def test_what_waits_is_computed_once() -> None:
    """A gather waits while a call stores what it joins: both ask for it to be computed."""

    def joined(b: Any, c: Any, g: Any) -> None:
        # pragma :=>parallel
        b[g] += np.stack([np.maximum(2, c[::-1]), c[:]])[1]

    b, c, g = np.arange(9), np.arange(7), np.array([4, 7, -2, 2, -1, -7, -3])
    got = b.copy()
    joined(b, c, g)
    appy.jit(strict=True)(joined)(got, c, g)
    assert got.tolist() == b.tolist()
