"""Loops of which no pragma says that they have lanes, and that have some: they leave what Python leaves."""

from __future__ import annotations

import copy
import re

import numpy as np
import pytest
from compare import assert_same

import appy


def scaled(a, b):
    # pragma sequential for
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            b[i, j] = a[i, j] * 2 - b[i, j]
    return i, j


def workers(a, b):
    # pragma parallel for
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            b[i, j] = a[i, j] / 3


def one_dimension(a, b):
    x, y = a[0], b[0]
    # pragma parallel for
    for i in range(len(x)):
        y[i] = abs(x[i]) if x[i] < 0.5 else y[i]
    return i


def turned(a, b):
    # pragma sequential for
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            b[i, a.shape[1] - 1 - j] = a[i, a.shape[1] - 1 - j] + a[i, 0]


def columns(a, b):
    x, y = a.T, b.T
    # pragma sequential for
    for j in range(x.shape[1]):
        for i in range(x.shape[0]):
            y[i, j] = np.floor(x[i, j] * 8)


def under_conditions(a, b):
    n = m = 0
    # pragma sequential for
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if a[i, j] > 0.25:
                b[i, j] = a[i, j]
                if a[i, j] > 0.5:
                    b[i, j] -= 1
            last = a[i, j]
            m = j
    return n, m, last


def where_it_is_read(a, b):
    # pragma sequential for
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if b[i, j] > 0.25:
                b[i, j] = a[i, j]
                if a[i, j] > 0.5:
                    b[i, j] -= 1


def neighbours(a, b):
    # pragma sequential for
    for i in range(1, a.shape[0]):
        for j in range(1, a.shape[1] - 1):
            b[i, j] = a[i - 1, j] + a[i, j - 1] - a[i, j + 1]
            near = b[i, j]
    return near


def factorized(a, b):
    # pragma sequential for
    for k in range(min(a.shape)):
        for i in range(k + 1, a.shape[0]):
            b[i, k] += a[i, k] / 2
            for j in range(k + 1, a.shape[1]):
                b[i, j] -= b[i, k] * b[k, j] * 0.25


def paths(a, b):
    # pragma sequential for
    for k in range(min(a.shape)):
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                a[i, j] = min(a[i, j], a[i, k] + a[k, j])


def counted(k, out):
    total = most = same = 0
    least = k[0, 0]
    # pragma sequential for
    for i in range(k.shape[0]):
        for j in range(k.shape[1]):
            total = total + int(k[i, j])
            most = max(most, int(k[i, j]))
            least = min(least, k[i, j])
            same ^= int(k[i, j])
            out[i, j] = k[i, j] > 7
    return total, most, least, same


def wrapped(k, out):
    s = k[0, 0]
    # pragma sequential for
    for i in range(k.shape[0]):
        for j in range(k.shape[1]):
            s = s + k[i, j]
            s = s * k.dtype.type(3)
            out[i, j] = k[i, j] != 0
    return s


def reals(rng, rows, columns):
    return [rng.standard_normal((rows, columns)), rng.standard_normal((rows, columns))]


def whole(dtype):
    def make(rng, rows, columns):
        return [rng.integers(0, 100, (rows, columns)).astype(dtype), np.zeros((rows, columns), bool)]

    return make


CASES = [
    *(
        (f, reals)
        for f in (
            scaled,
            workers,
            one_dimension,
            turned,
            columns,
            under_conditions,
            where_it_is_read,
            neighbours,
            factorized,
            paths,
        )
    ),
    *((counted, whole(t)) for t in ("int64", "int32", "uint8")),
    *((wrapped, whole(t)) for t in ("int64", "uint8")),
]


def outcome(function, arguments):
    try:
        return function(*arguments), arguments
    except Exception as error:  # unbound after an empty loop
        return type(error), str(error), arguments


@pytest.mark.parametrize(("function", "make"), CASES, ids=lambda x: getattr(x, "__name__", ""))
def test_as_python(function, make):
    rng = np.random.default_rng(1)
    compiled = appy.jit(strict=True)(function)
    for rows, columns in [(1, 1), (2, 3), (3, 7), (4, 8), (3, 17), (5, 64), (2, 301), (0, 9), (3, 0)]:
        arguments = make(rng, rows, columns)
        if function in (counted, wrapped) and 0 in (rows, columns):
            continue
        with np.errstate(all="ignore"):
            expected = outcome(function, copy.deepcopy(arguments))
            assert_same(outcome(compiled, arguments), expected)


@pytest.mark.parametrize(
    ("function", "make"),
    [c for c in CASES if c[0] not in (wrapped, paths, under_conditions)],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_have_lanes(function, make):
    text = appy.lower(appy.jit(strict=True)(function), *make(np.random.default_rng(1), 9, 40)).text(optimised=True)
    assert re.search(r"\bsimd\b", text), text


def test_have_lanes_where_sizes_rule_out_that_an_index_is_wrong(capfd):
    compiled = appy.jit(strict=True, dump="passes")(copy.copy(under_conditions))
    for shape, lanes in [((9, 40), True), ((9, 39), False)]:
        compiled(np.zeros((9, 40)), np.zeros(shape))
        text = re.split(r"(?m)^--- .*$", "".join(capfd.readouterr()))[-1]
        assert bool(re.search(r"\bsimd\b", text)) == lanes, text


def running(a, b):
    # pragma sequential for
    for i in range(a.shape[0]):
        for j in range(1, a.shape[1]):
            a[i, j] = a[i, j - 1] + b[i, j]


def summed(a, b):
    s = 0.0
    # pragma sequential for
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            s += a[i, j] * b[i, j]
    return s


def looked_up(a, b):
    # pragma sequential for
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            a[i, j] = np.exp(b[i, j])


@pytest.mark.parametrize("function", [running, summed, looked_up, paths])
def test_have_an_order(function):
    arguments = reals(np.random.default_rng(1), 9, 40)
    text = appy.lower(appy.jit(strict=True)(function), *arguments).text(optimised=True)
    assert not re.search(r"\bsimd\b", text), text
    expected = outcome(function, copy.deepcopy(arguments))
    assert_same(outcome(appy.jit(strict=True)(function), arguments), expected)


def test_not_where_they_are_to_be_asked_for():
    text = appy.lower(appy.jit(scaled, auto_simd=False), *reals(np.random.default_rng(1), 9, 40)).text(optimised=True)
    assert not re.search(r"\bsimd\b", text), text


def shifted(a, b, by):
    # pragma sequential for
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if a[i, j] > 0:
                b[i, j + by] = a[i, j]
            elif a[i, j] < -1:
                b[i - by, j] += 1
    return i, j


@pytest.mark.parametrize("order", [1, -1])
def test_under_a_condition_sizes_decide_whether_an_index_is_tested(order):
    rng = np.random.default_rng(2)
    compiled = appy.jit(strict=True)(copy.copy(shifted))
    entries = [
        (rows, columns, more, by)
        for rows, columns in [(1, 1), (3, 9), (4, 40)]
        for more in (0, 1, 5)
        for by in (0, 1, 3, -2)
    ]
    for rows, columns, more, by in entries[::order]:
        a = rng.standard_normal((rows, columns))
        arguments = [a, np.zeros((rows, columns + more)), by]
        expected = outcome(shifted, copy.deepcopy(arguments))
        assert_same(outcome(compiled, arguments), expected)
    # None of those that are out of bounds is reached.
    a = -rng.random((3, 9)) / 2
    arguments = [a, np.zeros((3, 4)), 7]
    assert_same(outcome(compiled, arguments), outcome(shifted, copy.deepcopy(arguments)))
