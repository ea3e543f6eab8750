"""Loops that read a matrix down its columns, for one row of the result after the other: lanes read a transposed copy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import appy


def steps_inside(a, b, c):
    # pragma parallel for
    for i in range(c.shape[0]):
        # pragma parallel for simd
        for j in range(c.shape[1]):
            s = c[i, j]
            for k in range(a.shape[1]):
                s += a[i, k] * b[j, k]
            c[i, j] = s


def steps_outside(a, b, c):
    # pragma parallel for
    for i in range(c.shape[0]):
        for k in range(a.shape[1]):
            # pragma simd
            for j in range(c.shape[1]):
                c[i, j] += a[i, k] * b[j, k]


def statements(a, b, c):
    # pragma parallel for
    for i in range(c.shape[0]):
        c[i, :] *= 2
        for k in range(a.shape[1]):
            c[i, :] += a[i, k] * b[:, k]


def triangle(a, b, c):
    # pragma parallel for
    for i in range(min(c.shape)):
        for k in range(a.shape[1]):
            c[i, : i + 1] += a[i, k] * b[: i + 1, k]


def two_matrices(a, b, c):
    # pragma parallel for schedule(dynamic)
    for i in range(min(min(c.shape), b.shape[0])):
        for k in range(min(a.shape[1], b.shape[1])):
            c[i, : i + 1] += b[: i + 1, k] * 2 * a[i, k] + b[: i + 1, -1] * b[i, k]


def upper_part(a, b, c):
    # pragma parallel for
    for i in range(min(c.shape)):
        # pragma simd
        for j in range(i, c.shape[1]):
            for k in range(1, a.shape[1]):
                c[i, j] += a[i, k] * b[j, k - 1]


def columns_outside(a, b, c):
    # pragma parallel for simd
    for j in range(c.shape[1]):
        for i in range(c.shape[0]):
            for k in range(i, a.shape[1]):
                c[i, j] += a[i, k] * b[j, k]


def nearest(a, b, c):
    # pragma parallel for
    for i in range(c.shape[0]):
        # pragma parallel for simd
        for j in range(c.shape[1]):
            worst = 0
            for k in range(a.shape[1]):
                worst = max(worst, abs(a[i, k] - b[j, k]))
            c[i, j] = worst


def written_in_between(a, b, c):
    for time in range(3):
        # pragma parallel for
        for i in range(c.shape[0]):
            # pragma parallel for simd
            for j in range(c.shape[1]):
                for k in range(a.shape[1]):
                    c[i, j] += a[i, k] * b[j, k]
        # pragma parallel for
        for j in range(b.shape[0]):
            b[j, :] += time


def a_few_columns(a, b, c):
    # pragma parallel for
    for i in range(c.shape[0]):
        # pragma parallel for simd
        for j in range(3, c.shape[1] - 2):
            for k in range(2, min(a.shape[1], 7)):
                c[i, j] += a[i, k] * b[j + 2, k]


PROGRAMS = [
    steps_inside,
    steps_outside,
    statements,
    triangle,
    two_matrices,
    upper_part,
    columns_outside,
    nearest,
    written_in_between,
    a_few_columns,
]


def arguments(rows, columns, depth, dtype, order="C", seed=3):
    """``(a, b, c)``: rows x depth, columns x depth, rows x columns; small whole numbers, so that each sum is exact."""
    rng = np.random.default_rng(seed)
    return [
        rng.integers(0, 9, shape).astype(dtype, order=order)
        for shape in ((rows, depth), (columns, depth), (rows, columns))
    ]


def check(function, compiled, given):
    expected = [x.copy(order="K") for x in given]
    function(*expected)
    compiled(*given)
    for got, want in zip(given, expected):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("function", PROGRAMS)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4", "i2"])
@pytest.mark.parametrize("threads", [1, 2])
def test_as_python(function, dtype, threads):
    compiled = appy.jit(strict=True, threads=threads)(function)
    for shape in (
        (1, 1, 1),
        (4, 5, 6),
        (7, 33, 8),
        (13, 16, 19),
        (30, 9, 17),
        (6, 70, 3),
        (0, 4, 4),
        (4, 4, 0),
        (5, 0, 2),
    ):
        if 0 in shape and function is two_matrices:
            continue
        for order in "CF":
            check(function, compiled, arguments(*shape, dtype, order))
    assert compiled.stats()["runs"] > 0


@pytest.mark.parametrize("function", PROGRAMS)
@settings(max_examples=20, deadline=None)
@given(
    rows=st.integers(1, 40),
    columns=st.integers(1, 40),
    depth=st.integers(1, 40),
    seed=st.integers(0, 99),
    step=st.integers(1, 3),
)
def test_any_shape_and_stride(function, rows, columns, depth, seed, step):
    compiled = COMPILED.setdefault(function, appy.jit(strict=True)(function))
    whole = arguments(rows * step, columns * step, depth * step, "f8", seed=seed)
    check(function, compiled, [x[::step, ::step] for x in whole])
    check(function, compiled, arguments(rows, columns, depth, "f8", seed=seed))


COMPILED = {}


def test_arrays_that_overlap():
    for function in (steps_outside, triangle, statements):
        compiled = appy.jit(function)
        for shift in (0, 1, 5):
            memory = np.arange(400.0) % 7
            expected = memory.copy()

            def parts(m, shift=shift):
                return m[300:372].reshape(9, 8), m[shift : shift + 72].reshape(9, 8), m[0:81].reshape(9, 9)

            function(*parts(expected))
            compiled(*parts(memory))
            np.testing.assert_array_equal(memory, expected)


def test_what_is_wrong_is_wrong_as_before():
    a, b, c = arguments(9, 9, 5, "f8")
    with pytest.raises(IndexError):
        appy.jit(steps_inside)(a, b[:8], c)
    with pytest.raises(IndexError):
        appy.jit(steps_outside)(a, b[:, :4], c)
    with pytest.raises(ValueError, match="broadcast"):
        appy.jit(statements)(a, b[:8], c)
    c[:] = 0
    expected = c.copy()
    with pytest.raises(ValueError, match="broadcast"):
        triangle(a, b[:6], expected)
    with pytest.raises(ValueError, match="broadcast"):
        appy.jit(triangle)(a, b[:6], c)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("function", PROGRAMS)
def test_lanes_run_along_rows_of_the_copy(function):
    a, b, c = arguments(40, 40, 30, "f8")
    text = appy.lower(appy.jit(strict=True)(function), a, b, c).text(optimised=True)
    assert "%b.1 = alloc" in text and "load %b.1[" in text
