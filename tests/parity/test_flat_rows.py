"""Statements and loops over whole matrices as one loop: rows that follow each other in memory, or do not, or overlap."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import appy


def added(x, y, z):
    # pragma 0=>parallel 1=>simd
    y[...] = 2 * x + y


def chosen(x, y, z):
    # pragma 0=>parallel 1=>simd
    y[...] = np.where(x > y, x, z)


def returned(x, y, z):
    # pragma 0=>parallel 1=>simd
    c = x * y
    # pragma 0=>parallel 1=>simd
    y[...] = c + z
    return c


def beside_rows(x, y, z):
    for _ in range(3):
        # pragma 0=>parallel 1=>simd
        y[...] = y + x
        # pragma 0=>parallel 1=>simd
        y[...] = y - x[0] + z


def by_loops(x, y, z):
    # pragma parallel for
    for i in range(x.shape[0]):
        # pragma simd
        for j in range(x.shape[1]):
            if x[i, j] > 2:
                y[i, j] = x[i, j] + z[i, j]


def of_three(x, y, z):
    # pragma parallel for
    for i in range(x.shape[0]):
        # pragma simd
        for j in range(3):
            y[i, j] = x[i, j] * 2 + z[i, j]


def in_order(x, y, z):
    for i in range(x.shape[0]):
        # pragma simd
        for j in range(3):
            y[i, j] = x[i, j] * 2 + z[i, j]


def numbered(x, y, z):
    # pragma parallel for
    for i in range(x.shape[0]):
        # pragma simd
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] * i + j


def growing(x, y, z):
    for t in range(x.shape[1]):
        # pragma parallel for
        for i in range(x.shape[0]):
            # pragma simd
            for j in range(t):
                y[i, j] = x[i, j] + y[i, j]


def planes(x, y, z):
    # pragma parallel for
    for k in range(1, x.shape[0]):
        for i in range(x.shape[1]):
            # pragma simd
            for j in range(x.shape[2]):
                y[k, i, j] = x[k, i, j] - z[k - 1, i, j]


def first_columns(x, y, z):
    # pragma parallel for simd
    for i in range(x.shape[0]):
        y[i, 0] = x[i, 0] * 2 + z[i, 0]


def column_between(x, y, z):
    # pragma 0=>parallel 1=>simd
    y[:, 0, :] = 2 * x[:, 0, :] + z[:, 0, :]


def summed(x, y, z):
    # pragma 0=>parallel 1=>simd
    s = np.sum(x * y)
    # pragma 0=>parallel 1=>simd
    y[...] = z + s
    # pragma 0=>parallel 1=>simd
    m = np.max(y)
    return s + m


def summed_by_loops(x, y, z):
    s = 0.0
    count = 0
    # pragma parallel for reduction(+:s,count)
    for i in range(x.shape[0]):
        # pragma simd reduction(+:s,count)
        for j in range(x.shape[1]):
            s += x[i, j] * y[i, j]
            count += 1
    return s, count


def summed_in_rows(x, y, z):
    s = 0.0
    for i in range(x.shape[0]):
        # pragma simd
        for j in range(3):
            s += x[i, j] * z[i, j]
    return s


def place_of_largest(x, y, z):
    # pragma 0=>parallel 1=>simd
    k = np.argmax(x)
    # pragma 0=>parallel 1=>simd
    j = np.argmin(y)
    return k, j


def place_and_neighbour(x, y, z):
    best, at, beside = x[0, 0], -1, z[0, 0]
    # pragma parallel for
    for i in range(x.shape[0]):
        # pragma simd
        for j in range(x.shape[1]):
            if x[i, j] > best:
                best, at, beside = x[i, j], i * x.shape[1] + j, z[i, j]
    return best, at, beside


def last_place(x, y, z):
    best, at = x[0, 0], -1
    # pragma parallel for
    for i in range(x.shape[0]):
        # pragma simd
        for j in range(x.shape[1]):
            if x[i, j] <= best:
                best, at = x[i, j], i * x.shape[1] + j
    return best, at


def places_in_rows(x, y, z):
    best, row, column = x[0, 0], -1, -1
    # pragma parallel for
    for i in range(x.shape[0]):
        # pragma simd
        for j in range(x.shape[1]):
            if x[i, j] < best:
                best, row, column = x[i, j], i, j
    return best, row, column


def differences(x, y, z):
    # pragma 0=>parallel 1=>simd
    d = x[1:] - x[:-1]
    # pragma 0=>parallel 1=>simd
    y[1:-1] = x[2:] + x[:-2] - z[1:-1]
    # pragma 0=>parallel 1=>simd
    y[2:] += z[1:-1]
    return d


def of_both_sides(x, y, z):
    # pragma parallel for
    for i in range(1, x.shape[0] - 1):
        # pragma simd
        for j in range(x.shape[1]):
            y[i, j] = x[i + 1, j] - x[i - 1, j] + z[i, j]


def moved(x, y, z):
    # pragma 0=>parallel 1=>simd
    y[1:] = y[:-1] + x[1:]
    for i in range(2, x.shape[0]):
        # pragma simd
        for j in range(x.shape[1]):
            y[i, j] = y[i - 2, j] + z[i, j]


def sums_of_some_rows(x, y, z):
    # pragma 0=>parallel 1=>simd
    s = np.sum(x[1:] * z[:-1])
    # pragma 0=>parallel 1=>simd
    k = np.argmax(x[2:])
    return s, k


NUMBERS = itertools.count(1 << 40)


def compiled_anew(function):
    """Of code of its own: of one there are only so many combinations of types."""
    code = function.__code__
    return appy.jit(strict=True)(type(function)(code.replace(co_consts=(*code.co_consts, next(NUMBERS))), globals()))


SHAPES = [(0, 3), (3, 0), (1, 7), (5, 1), (1, 1), (40, 3), (9, 16), (7, 37), (3, 203), (300, 5)]


def array(dtype, shape, room, order, seed):
    values = np.empty((*shape[:-1], shape[-1] + room), dtype, order=order)[..., : shape[-1]]
    values[...] = np.random.default_rng(seed).integers(0, 5, shape)
    return values


def same(function, compiled, arrays, what):
    want = [a.copy(order="K") for a in arrays]
    with np.errstate(all="ignore"):
        result = function(*want)
    got = compiled(*arrays)
    np.testing.assert_array_equal(got, result, what)
    for a, b in zip(arrays, want, strict=True):
        np.testing.assert_array_equal(a, b, what)


DTYPES = ("float64", "float32", "int8", "float16")
# Complex numbers have no order.
CASES = [
    *itertools.product((chosen, by_loops), DTYPES),
    *itertools.product((added, returned, beside_rows, of_three, in_order, growing, planes), (*DTYPES, "complex128")),
    *itertools.product((numbered,), ("float64", "float32", "int32", "float16", "complex128")),
    *itertools.product((first_columns, column_between), (*DTYPES, "complex128")),
    *itertools.product((place_of_largest, place_and_neighbour, last_place, places_in_rows), DTYPES),
    *itertools.product((differences, of_both_sides, moved), (*DTYPES, "complex128")),
    *itertools.product((summed, sums_of_some_rows, summed_by_loops, summed_in_rows), ("float64", "float32", "int32")),
]


# Rows and columns that a function needs.
LEAST = {
    **dict.fromkeys((of_three, in_order, summed_in_rows), (0, 3)),
    **dict.fromkeys((beside_rows, first_columns, summed), (1, 1)),
    **dict.fromkeys((place_of_largest, place_and_neighbour, last_place, places_in_rows), (1, 1)),
    sums_of_some_rows: (3, 1),
}


@pytest.mark.parametrize(("function", "dtype"), CASES)
def test_answers(function, dtype):
    shapes = SHAPES
    if function is planes:
        shapes = [(2, 3, 5), (4, 4, 16), (3, 30, 3)]
    elif function is column_between:
        shapes = [(5, 1, 7), (40, 1, 3), (40, 2, 3), (7, 1, 1), (1, 1, 1)]
    for rooms in ((0, 0, 0), (0, 1, 0), (2, 2, 2), (0, 0, 5)):
        for orders in ("CCC", "FFF", "CCF"):
            compiled = compiled_anew(function)
            for shape in shapes:
                if any(n < least for n, least in zip(shape, LEAST.get(function, ()), strict=False)):
                    continue
                arrays = [
                    array(dtype, shape, room, order, k)
                    for k, (room, order) in enumerate(zip(rooms, orders, strict=True))
                ]
                same(function, compiled, arrays, f"{rooms} {orders} {shape}")


# A statement reads everything before it stores; loops in lanes may be apart by whole rows.
@pytest.mark.parametrize(("function", "apart"), [(added, 1), (added, 3), (added, 7), (in_order, 3), (in_order, 6)])
def test_overlapping_rows(function, apart):
    """Rows behind are those of the other array: what they hold is what the interpreter finds there."""
    base = np.random.default_rng(1).integers(0, 5, 60 * 3 + 3 * apart).astype(float)
    compiled = compiled_anew(function)
    for forward in (True, False):
        memory = [base.copy(), base.copy()]
        for m, f in zip(memory, (compiled, function), strict=True):
            views = [m[: 60 * 3].reshape(60, 3), m[apart : apart + 60 * 3].reshape(60, 3)]
            if not forward:
                views.reverse()
            f(*views, np.ones((60, 3)))
        np.testing.assert_array_equal(memory[0], memory[1])


@pytest.mark.parametrize(
    "function", [added, of_three, planes, summed, summed_by_loops, place_of_largest, differences, of_both_sides]
)
def test_rows_are_one_loop(function):
    shape = (4, 10, 3) if function is planes else (40, 3)
    arrays = [array("float64", shape, 0, "C", k) for k in range(3)]
    compiled = compiled_anew(function)
    compiled(*arrays)
    assert "rows follow each other in memory" in str(appy.explain(compiled))
    # Of a wider array they do not.
    wider = np.zeros((*shape[:-1], 4))
    compiled = compiled_anew(function)
    if function in (of_three, planes):
        compiled(arrays[0], wider, arrays[2])
        assert "rows follow each other in memory" not in str(appy.explain(compiled))
        # An entry with other sizes has code of its own.
        same(function, compiled, arrays, "narrow after wide")
        same(function, compiled, [arrays[0], wider, arrays[2]], "and wide again")
        assert "rows follow each other in memory" in str(appy.explain(compiled))


@pytest.mark.parametrize("function", [added, first_columns, column_between])
def test_one_column_is_a_row(function):
    shape = (300, 1, 1) if function is column_between else (300, 1)
    arrays = [array("float32", shape, 0, "C", k) for k in range(3)]
    compiled = compiled_anew(function)
    compiled(*arrays)
    assert "arrays of one column are rows" in str(appy.explain(compiled))
    compiled = compiled_anew(function)
    wider = [array("float32", (*shape[:-1], 3), 0, "C", k) for k in range(3)]
    same(function, compiled, wider, "three columns")
    assert "arrays of one column are rows" not in str(appy.explain(compiled))
    same(function, compiled, arrays, "one column after three")
    same(function, compiled, wider, "and three again")
