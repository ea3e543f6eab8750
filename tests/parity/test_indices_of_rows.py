"""Sums of rows over elements that an index array names, which are tested while they are summed: negative indices,
those outside, arrays without elements, and nothing but what the rows name is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from guarded import guarded_page
from hypothesis import given, settings
from hypothesis import strategies as st

import appy

MANY = 42_000  # rows of two threads that add up terms in blocks


def loops(ptr: Any, idx: Any, val: Any, x: Any, y: Any) -> None:
    # pragma parallel for
    for i in range(len(y)):
        s = 0.0
        # pragma simd
        for j in range(ptr[i], ptr[i + 1]):
            s += val[j] * x[idx[j]]
        y[i] = s


def statement(ptr: Any, idx: Any, val: Any, x: Any, y: Any) -> None:
    # pragma parallel for
    for i in range(len(y)):
        y[i] = val[ptr[i] : ptr[i + 1]] @ x[idx[ptr[i] : ptr[i + 1]]]


def in_place(ptr: Any, idx: Any, val: Any, x: Any, y: Any) -> None:
    # pragma parallel for
    for i in range(len(y)):
        # pragma simd
        for j in range(ptr[i], ptr[i + 1]):
            y[i] += val[j] - x[idx[j]]


def two_sums(ptr: Any, idx: Any, val: Any, x: Any, y: Any) -> None:
    # pragma parallel for
    for i in range(len(y)):
        s = 0.0
        t = 1.0
        # pragma simd
        for j in range(ptr[i], ptr[i + 1]):
            s += val[j] * x[idx[j]]
            t += x[idx[j] // 2]
        y[i] = s - t


def added_twice(ptr: Any, idx: Any, val: Any, x: Any, y: Any) -> None:
    # pragma parallel for
    for i in range(len(y)):
        s = 0.5
        # pragma simd
        for j in range(ptr[i], ptr[i + 1]):
            s += val[j] * x[idx[j]]
            s += val[j] * x[idx[j] // 2]
        y[i] = s


def greatest(ptr: Any, idx: Any, val: Any, x: Any, y: Any) -> None:
    # pragma parallel for
    for i in range(len(y)):
        s = -1000.0
        # pragma simd
        for j in range(ptr[i], ptr[i + 1]):
            s = max(s, val[j] + x[idx[j]])
        y[i] = s


PROGRAMS = [loops, statement, in_place, two_sums, added_twice, greatest]


@pytest.fixture(params=["avx2", "auto"])
def isa(request: Any) -> Iterator[None]:
    before = appy.config()["isa"]
    appy.config(isa=request.param)
    yield
    appy.config(isa=before)


def arrays(lengths: Any, columns: int, index: str, dtype: str, seed: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    idx = rng.integers(0, max(columns, 1), ptr[-1]).astype(index)
    val, x = (rng.integers(-8, 9, k).astype(dtype) for k in (ptr[-1], columns))
    return ptr, idx, val, x, rng.integers(-8, 9, len(lengths)).astype(dtype)


def agree(program: Callable[..., None], compiled: Any, given: tuple[Any, ...]) -> type | None:
    """The same results; of a run that fails, the same exception, and the rows before complete. Its type."""
    ours, theirs = given[-1].copy(), given[-1].copy()
    error: Exception | None = None
    try:
        program(*given[:-1], theirs)
    except (IndexError, ValueError) as e:
        error = e
    if error is None:
        compiled(*given[:-1], ours)
        np.testing.assert_array_equal(ours, theirs)
        return None
    with pytest.raises(type(error)) as caught:
        compiled(*given[:-1], ours)
    assert str(caught.value) == str(error)
    # In the interpreter the rows behind the failing one are as they were.
    done = int(np.flatnonzero(np.concatenate([theirs != given[-1], [False]]))[-1:].sum()) if len(theirs) else 0
    np.testing.assert_array_equal(ours[:done], theirs[:done])
    return type(error)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("index", ["i8", "i4", "i2"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_every_length(program: Callable[..., None], index: str, threads: int, isa: None) -> None:
    for dtype in ("f8", "f4", "i8"):
        compiled = appy.jit(strict=True, threads=threads)(program)
        for columns in (1, 7, 50):
            given = arrays(np.arange(70) % 37, columns, index, dtype, columns)
            assert agree(program, compiled, given) is None


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("index", ["i8", "i4"])
def test_negative_ones_count_from_the_end(program: Callable[..., None], index: str, isa: None) -> None:
    compiled = appy.jit(strict=True, threads=2)(program)
    for at in range(40):
        ptr, idx, val, x, y = arrays([5, 0, 40, 3, 17], 20, index, "f8", at)
        idx[5 + at] = -1 - at % 19
        assert agree(program, compiled, (ptr, idx, val, x, y)) is None
        idx[:] = -1 - idx % 19
        assert agree(program, compiled, (ptr, idx, val, x, y)) is None
    assert compiled.stats()["declined"] == 0


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("index, wrong", [("i8", 20), ("i8", -22), ("i8", 2**62), ("i8", -(2**63)), ("u4", 2**32 - 1)])
def test_the_first_one_outside_is_told(program: Callable[..., None], index: str, wrong: int, isa: None) -> None:
    compiled = appy.jit(strict=True, threads=2)(program)
    for at in range(0, 65, 3):
        ptr, idx, val, x, y = arrays([5, 0, 40, 3, 17], 20, index, "f8", at)
        idx[at] = wrong
        idx[60] = 21  # a later one
        assert agree(program, compiled, (ptr, idx, val, x, y)) is IndexError


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_arrays_without_elements(program: Callable[..., None], isa: None) -> None:
    compiled = appy.jit(strict=True, threads=2)(program)
    for rows in (0, 1, 6):
        assert agree(program, compiled, arrays([0] * rows, 0, "i8", "f8", 1)) is None
    given = arrays([0, 0, 2], 0, "i8", "f8", 1)
    assert agree(program, compiled, given) is IndexError


@pytest.mark.parametrize("program", [loops, statement, in_place], ids=lambda f: f.__name__)
@pytest.mark.parametrize("threads", [1, 2])
def test_blocks_of_rows(program: Callable[..., None], threads: int, isa: None) -> None:
    compiled = appy.jit(strict=True, threads=threads)(program)
    lengths = np.random.default_rng(3).poisson(1.5, MANY)
    ptr, idx, val, x, y = arrays(lengths, 300, "i8", "f8", 3)
    assert agree(program, compiled, (ptr, idx, val, x, y)) is None
    idx[::7] -= 300
    assert agree(program, compiled, (ptr, idx, val, x, y)) is None
    for wrong in (len(idx) - 1, len(idx) // 2, 4001):
        idx[wrong] = 300 + wrong
        assert agree(program, compiled, (ptr, idx, val, x, y)) is IndexError
    assert agree(program, compiled, (ptr * 0, idx, val, x[:0], y)) is None


def next_one(ptr: Any, idx: Any, val: Any, x: Any, y: Any) -> None:
    # pragma parallel for
    for i in range(len(y)):
        s = 0.0
        # pragma simd
        for j in range(ptr[i], ptr[i + 1]):
            s += val[j] * x[idx[j] + 1]
        y[i] = s


def of_a_matrix(ptr: Any, idx: Any, val: Any, x: Any, y: Any) -> None:
    m = x[:300].reshape(100, 3)
    # pragma parallel for
    for i in range(len(y)):
        s = 0.0
        # pragma simd
        for j in range(ptr[i], ptr[i + 1]):
            s += val[j] * m[idx[j] // 3, 2]
        y[i] = s


@pytest.mark.parametrize("program", [next_one, of_a_matrix], ids=lambda f: f.__name__)
@pytest.mark.parametrize("index", ["u4", "i4", "i8"])
def test_blocks_of_rows_that_load_beside_what_is_tested(program: Callable[..., None], index: str, isa: None) -> None:
    compiled = appy.jit(strict=True, threads=1)(program)
    lengths = np.random.default_rng(4).poisson(1.5, MANY)
    ptr, idx, val, x, y = arrays(lengths, 300, index, "f8", 4)
    idx[idx == 299] = 0
    assert agree(program, compiled, (ptr, idx, val, x, y)) is None
    for wrong in (len(idx) // 2, 17):
        idx[wrong] = 2**31 - 3
        assert agree(program, compiled, (ptr, idx, val, x, y)) is IndexError


@pytest.mark.parametrize("index", ["i8", "i4", "u4"])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_nothing_else_is_read(index: str, dtype: str, isa: None) -> None:
    compiled = appy.jit(strict=True, threads=1)(loops)
    with guarded_page() as x_bytes, guarded_page() as at_bytes:
        xs, ats = x_bytes.view(dtype), at_bytes.view(index)
        xs[:] = np.random.default_rng(1).integers(0, 9, len(xs))
        for n in (1, 2, 3, 5, 15, 16, 17, 19, 24, 37):
            for x, idx in ((xs[-n:], ats[-n:]), (xs[:n], ats[:n])):
                for one in (0, n - 1):
                    idx[:] = one
                    val, y = np.ones(n, dtype), np.zeros(2, dtype)
                    assert agree(loops, compiled, (np.array([0, 0, n]), idx, val, x, y)) is None
                    idx[-1] = n
                    assert agree(loops, compiled, (np.array([0, 0, n]), idx, val, x, y)) is IndexError


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 45), max_size=12),
    st.integers(1, 30),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(-40, 40)), max_size=4),
    st.sampled_from(PROGRAMS),
    st.sampled_from(["i8", "i4"]),
)
def test_random_rows(
    lengths: list[int], columns: int, changes: list[tuple[int, int]], program: Callable[..., None], index: str
) -> None:
    given = arrays(lengths or [0], columns, index, "f8", columns)
    for at, to in changes:
        if len(given[1]):
            given[1][at % len(given[1])] = to
    agree(program, appy.jit(strict=True, threads=2)(program), given)
