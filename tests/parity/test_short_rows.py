"""Sums of rows that lie one behind the other, as those of sparse matrices do: short rows, long ones, empty ones, and
pointers that do not ascend. There are enough of them to be added up in blocks (the pass `segments`)."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import appy

ROWS = 21_000  # of one thread


def loops(ptr: Any, idx: Any, val: Any, x: Any, y: Any) -> None:
    # pragma parallel for
    for i in range(len(y)):
        s = 0
        # pragma simd
        for j in range(ptr[i], ptr[i + 1]):
            s += val[j] * x[idx[j]]
        y[i] = s


def in_place(ptr: Any, idx: Any, val: Any, x: Any, y: Any) -> None:
    # pragma parallel for
    for i in range(1, len(y)):
        # pragma simd
        for j in range(ptr[i], ptr[i + 1]):
            y[i] += val[j] * x[idx[j]]


def statement(ptr: Any, idx: Any, val: Any, x: Any, y: Any) -> None:
    # pragma parallel for
    for i in range(len(y)):
        y[i] = 3 * (val[ptr[i] : ptr[i + 1]] @ x[idx[ptr[i] : ptr[i + 1]]]) + y[i]


def two_sums(ptr: Any, idx: Any, val: Any, x: Any, y: Any) -> None:
    # pragma parallel for
    for i in range(len(y)):
        s = 0
        t = 0
        # pragma simd
        for j in range(ptr[i], ptr[i + 1]):
            s += val[j] * x[idx[j]]
            t += x[idx[j]]
        y[i] = s * 2 + t


def of_the_row(ptr: Any, idx: Any, val: Any, x: Any, y: Any) -> None:
    # pragma parallel for
    for i in range(len(y)):
        s = 0
        # pragma simd
        for j in range(ptr[i], ptr[i + 1]):
            s += val[j] * (x[idx[j]] - x[i])
        y[i] = s


def plain(ptr: Any, val: Any, y: Any) -> None:
    # pragma parallel for
    for i in range(len(y)):
        s = 0.0
        # pragma simd
        for j in range(ptr[i], ptr[i + 1]):
            s += val[j]
        y[i] = s


def pointers(lengths: Any, kind: Any) -> Any:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(kind)


def rows_of(kind: str, rng: Any) -> Any:
    if kind == "short":
        return pointers(rng.poisson(1.5, ROWS), np.int32)
    if kind == "mixed":
        return pointers(np.where(rng.random(ROWS) < 0.001, rng.integers(0, 400, ROWS), rng.poisson(2, ROWS)), np.uint32)
    if kind == "longer":
        return pointers(rng.poisson(7, ROWS), np.int64)
    if kind == "few hold all":
        return pointers(np.where(rng.random(ROWS) < 0.01, 60, 0), np.int32)
    ptr = pointers(rng.poisson(2, ROWS), np.int32)
    moved = rng.integers(0, ROWS, 40)
    ptr[moved] = rng.integers(0, ptr[-1] + 1, 40)
    return ptr


@pytest.mark.parametrize("kind", ["short", "mixed", "longer", "few hold all", "out of order"])
@pytest.mark.parametrize("function", [loops, in_place, statement, two_sums, of_the_row])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_rows_have_their_sums(kind: str, function: Callable[..., None], dtype: Any) -> None:
    rng = np.random.default_rng(0)
    ptr = rows_of(kind, rng)
    n = int(ptr.max())
    idx = rng.integers(0, ROWS, n).astype(np.int32)
    val, x = (rng.integers(-8, 9, k).astype(dtype) for k in (n, ROWS))  # whose sums are exact in any order
    want = rng.integers(-8, 9, ROWS).astype(dtype)
    for threads in (1, 2):
        expected, got = want.copy(), want.copy()
        function(ptr, idx, val, x, expected)
        appy.jit(strict=True, threads=threads)(function)(ptr, idx, val, x, got)
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("kind", ["short", "mixed"])
def test_signs_of_zeros_and_what_is_no_number_stay_in_their_rows(kind: str) -> None:
    rng = np.random.default_rng(1)
    ptr = rows_of(kind, rng)
    n = int(ptr[-1])
    idx = rng.integers(0, ROWS, n).astype(np.int32)
    x = np.full(ROWS, -0.0)
    val = rng.choice(np.array([1.0, 0.0, np.inf, np.nan]), n, p=[0.5, 0.4, 0.05, 0.05])
    expected, got = np.empty(ROWS), np.empty(ROWS)
    with np.errstate(invalid="ignore"):
        loops(ptr, idx, val, x, expected)
        appy.jit(strict=True, threads=1)(loops)(ptr, idx, val, x, got)
    np.testing.assert_array_equal(got, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers]))


@pytest.mark.parametrize("function", [in_place, statement])
@pytest.mark.parametrize("isa", ["avx2", "auto"])
def test_a_sum_of_nothing_or_of_negative_zeros_leaves_a_negative_zero(function: Callable[..., None], isa: str) -> None:
    rng = np.random.default_rng(5)
    ptr = rows_of("short", rng)
    n = int(ptr[-1])
    idx = rng.integers(0, ROWS, n).astype(np.int32)
    x, val = np.where(rng.random(ROWS) < 0.9, -0.0, 0.0), np.ones(n)
    expected = np.where(rng.random(ROWS) < 0.5, -0.0, 0.0)
    got = expected.copy()
    function(ptr, idx, val, x, expected)
    before = appy.config()["isa"]
    appy.config(isa=isa)
    try:
        appy.jit(strict=True, threads=1)(function)(ptr, idx, val, x, got)
    finally:
        appy.config(isa=before)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))


def test_it_says_that_rows_are_added_up_together() -> None:
    rng = np.random.default_rng(2)
    ptr = rows_of("short", rng)
    idx = rng.integers(0, ROWS, int(ptr[-1]))
    val, x, y = rng.random(int(ptr[-1])), rng.random(ROWS), np.zeros(ROWS)
    for function, told in ((loops, True), (statement, True), (of_the_row, False)):
        compiled = appy.jit(strict=True)(function)
        compiled(ptr, idx, val, x, y)
        assert ("adds up terms that blocks of rows" in str(appy.explain(compiled))) == told


def test_rows_of_neighbours_in_memory() -> None:
    rng = np.random.default_rng(3)
    for kind in ("short", "mixed", "longer", "out of order"):
        ptr = rows_of(kind, rng)
        val = rng.integers(-8, 9, int(ptr.max())).astype(np.float64)
        expected, got = np.zeros(ROWS), np.zeros(ROWS)
        plain(ptr, val, expected)
        appy.jit(strict=True)(plain)(ptr, val, got)
        np.testing.assert_array_equal(got, expected)


def begin_to_end(ptr: Any, val: Any, y: Any) -> None:
    # pragma parallel for
    for i in range(len(ptr) - 1):
        s = 0.0
        for j in range(ptr[i], ptr[i + 1]):
            s += val[j]
        y[i] = s


@pytest.mark.parametrize("rows", [1, 2, 3, 40, 700])
def test_the_first_pointer_and_the_last_may_be_the_extremes(rows: int) -> None:
    # One inspector finds the least of all pointers but the last and the greatest of all but the first.
    rng = np.random.default_rng(rows)
    val = rng.integers(-8, 9, 50).astype(np.float64)
    compiled = appy.jit(begin_to_end)
    for kind in (np.int32, np.int64, np.uint8):
        for where in {0, 1, rows // 2, rows - 1, rows}:
            for extreme in (-50, -51, 0, 50, 51, 60):
                ptr = np.sort(rng.integers(10, 40, rows + 1))[:: rng.choice([-1, 1])].astype(kind)
                ptr[where] = extreme % 256 if kind == np.uint8 else extreme
                expected, got = np.zeros(rows), np.zeros(rows)
                errors: list[str] = []
                for function, y in ((begin_to_end, expected), (compiled, got)):
                    try:
                        function(ptr, val, y)
                        errors.append("")
                    except IndexError as error:
                        errors.append(str(error))
                assert errors[0] == errors[1]
                if not errors[0]:
                    np.testing.assert_array_equal(got, expected)
    lowered = appy.lower(compiled, np.arange(9), val, np.zeros(8))
    assert lowered is not None
    assert re.findall("carry.minimum .*maximum ", lowered.text(optimised=True))


def repeated(ptr: Any, idx: Any, val: Any, x: Any, y: Any, times: int) -> None:
    # pragma sequential for
    for _ in range(times):
        # pragma parallel for
        for i in range(len(y)):
            s = 0.0
            # pragma simd
            for j in range(ptr[i], ptr[i + 1]):
                s += val[j] * x[idx[j]]
            y[i] = s


def test_an_interrupt_ends_it() -> None:
    rng = np.random.default_rng(4)
    ptr = rows_of("short", rng)
    n = int(ptr[-1])
    args = ptr, rng.integers(0, ROWS, n), rng.random(n), rng.random(ROWS), np.zeros(ROWS)
    compiled = appy.jit(strict=True, threads=1)(repeated)
    compiled(*args, 1)
    import _thread

    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    begin = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        compiled(*args, 1_000_000)
    assert time.perf_counter() - begin < 5
    timer.join()
