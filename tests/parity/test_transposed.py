"""Statements whose arrays run along different dimensions: rows of a transposed array are loaded as squares."""

from __future__ import annotations

import numpy as np
import pytest

import appy


def copy(a, b, c):
    # pragma 0=>parallel
    c[:, :] = a.T


def symmetric(a, b, c):
    # pragma 0=>parallel 1=>simd
    c[:, :] = (a.T + b) * 2


def in_place(a, b, c):
    # pragma 0=>parallel
    c -= a.T * b


def itself(a, b, c):
    # pragma 0=>parallel
    c[:, :] = c + a.T
    # pragma 0=>parallel
    b[:, :] = b + c[::-1, ::-1]


def backwards(a, b, c):
    # pragma 0=>parallel
    c[:, :] = a[::-1].T + b


def every_other(a, b, c):
    # pragma 0=>parallel
    c[::2, :] = a.T[::2] + b[::2]


def three_dimensions(a, b, c):
    # pragma 0=>parallel
    c[:, :] = np.transpose(a[:, :, None] + b.T[:, :, None], (2, 1, 0))[0]


def fresh(a, b, c):
    # pragma 0=>parallel
    d = a.T + b
    # pragma 0=>parallel
    c[:, :] = d * d


def repeated(a, b, c):
    for _ in range(2):
        # pragma 0=>parallel
        c[:, :] = c + a.T


STATEMENTS = [copy, symmetric, in_place, itself, backwards, every_other, three_dimensions, fresh, repeated]


@pytest.mark.parametrize("function", STATEMENTS)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4", "i2", "c16", "?"])
def test_as_numpy(function, dtype):
    if dtype == "?" and function is not copy:
        pytest.skip("no arithmetic on bool")
    rng = np.random.default_rng(5)
    compiled = appy.jit(strict=True)(function)
    for rows, columns in ((1, 1), (2, 9), (8, 8), (17, 16), (33, 7), (16, 64), (5, 40), (0, 3), (70, 70)):
        for order in "CF":
            a = rng.integers(0, 100, (columns, rows)).astype(dtype, order=order)
            b, c = rng.integers(0, 100, (2, rows, columns)).astype(dtype)
            expected = [x.copy(order="K") for x in (a, b, c)]
            function(*expected)
            compiled(a, b, c)
            for got, want in zip((a, b, c), expected):
                np.testing.assert_array_equal(got, want)
    assert compiled.stats()["runs"] > 0


def test_rows_of_a_transposed_array_are_read_together():
    a, b = np.ones((2, 9, 9))
    text = appy.lower(appy.jit(strict=True)(symmetric), a, b, np.zeros((9, 9))).text(optimised=True)
    assert text.count("load %a[") == 9 and text.count("for ") == 4  # eight of a square, and the rows that are left
    text = appy.lower(appy.jit(strict=True)(symmetric), a.T, b, np.zeros((9, 9))).text(optimised=True)
    assert text.count("load %a[") == 1


def test_what_the_pragma_says_stands():
    def blocks(a, c):
        # pragma 0=>parallel,block(16) 1=>simd,block(32)
        c[:, :] = a.T

    a, c = np.arange(81.0).reshape(9, 9), np.zeros((9, 9))
    compiled = appy.jit(strict=True)(blocks)
    assert appy.lower(compiled, a, c).text(optimised=True).count("load %a[") == 1
    compiled(a, c)
    np.testing.assert_array_equal(c, a.T)
