"""New arrays lie in memory as NumPy's do: in the order of the arrays that they are computed of (order='K')."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import appy


def scaled(x, y):
    # pragma 0=>parallel 1=>simd
    c = 2 * x + y
    return c


def one_operand(x, y):
    # pragma 0=>parallel 1=>simd
    c = x + 1
    return c


def turned(x, y):
    # pragma 0=>parallel 1=>simd
    c = x.T * 2
    return c


def both_turned(x, y):
    # pragma 0=>parallel 1=>simd
    c = x.T - y.T
    return c


def with_row(x, y):
    # pragma 0=>parallel 1=>simd
    c = x - y[0]
    return c


def with_column(x, y):
    # pragma 0=>parallel 1=>simd
    c = x / y[:, :1]
    return c


def of_vectors(x, y):
    # pragma 0=>parallel 1=>simd
    c = x[:, :1] + y[0]
    return c


def of_parts(x, y):
    # pragma 0=>parallel 1=>simd
    c = x[1:, :-1] * y[:-1, 1:]
    return c


def chosen(x, y):
    # pragma 0=>parallel 1=>simd
    c = np.where(x > y, x, 0.0)
    return c


def cast(x, y):
    # pragma 0=>parallel 1=>simd
    c = x.astype(np.float32)
    return c


def copied_in_rows(x, y):
    # pragma 0=>parallel 1=>simd
    c = x.copy()
    return c


def copied(x, y):
    # pragma 0=>parallel 1=>simd
    c = np.copy(x)
    return c


def like(x, y):
    # pragma 0=>parallel 1=>simd
    c = np.zeros_like(x)
    # pragma 0=>parallel 1=>simd
    d = np.full_like(y, 2.5)
    # pragma 0=>parallel 1=>simd
    c[...] = x + d
    return c, d


def raising(x, y):
    # pragma 0=>parallel 1=>simd
    c = x.astype(np.int64) // (np.abs(y).astype(np.int64) + 1)
    return c


def cumulated(x, y):
    # pragma 0=>parallel
    c = np.cumsum(x, axis=0)
    # pragma 0=>parallel
    d = np.cumprod(x, axis=1)
    return c, d


def joined(x, y):
    # pragma 0=>parallel 1=>simd
    c = np.concatenate([x, y])
    # pragma 0=>parallel 1=>simd
    d = np.hstack([x, y + 1])
    return c, d


def product(x, y):
    # pragma 0=>parallel 1=>simd
    c = x @ y.T
    return c


def chained(x, y):
    # pragma 0=>parallel 1=>simd
    c = x * y
    # pragma 0=>parallel 1=>simd
    d = c + 1
    # pragma 0=>parallel 1=>simd
    e = d.T / 2
    return c, d, e


def of_temporaries(x, y):
    # pragma 0=>parallel 1=>simd
    c = np.exp(x) - y
    # pragma 0=>parallel 1=>simd
    d = c[1:] - c[:-1]
    # pragma 0=>parallel 1=>simd
    e = c - c[:, ::-1]
    # pragma :=>reduction(sum)
    s = np.sum(np.abs(e))
    return d, s


def written_as_vector(x, y):
    # pragma 0=>parallel 1=>simd
    c = x + y
    r = c.reshape(-1)
    # pragma 0=>simd
    r[:2] = 99.0
    return c, r


def again_and_again(x, y):
    c = np.zeros(x.shape)
    for _ in range(3):
        # pragma 0=>parallel 1=>simd
        c = x * 2 + y
        # pragma 0=>parallel 1=>simd
        y[...] = c - 1
    return c


STATEMENTS = [
    scaled, one_operand, turned, both_turned, with_row, with_column, of_vectors, of_parts, chosen, cast,
    copied_in_rows, copied, like, raising, chained, cumulated, joined, of_temporaries, product, written_as_vector, again_and_again,
]  # fmt: skip


def rows(a):
    return np.ascontiguousarray(a)


def columns(a):
    return np.asfortranarray(a)


def apart(a):
    wide = np.zeros(tuple(2 * n for n in a.shape))
    wide[tuple(slice(None, None, 2) for _ in a.shape)] = a
    return wide[tuple(slice(None, None, 2) for _ in a.shape)]


def same(got, expected):
    got, expected = (v if isinstance(v, tuple) else (v,) for v in (got, expected))
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
        assert np.asarray(a).dtype == np.asarray(b).dtype
        ours, theirs = np.asarray(a).flags, np.asarray(b).flags
        # Orders between the two, as of `x[:, 1:2] * y` with x in rows and y in columns, are rows here.
        assert ours.f_contiguous == theirs.f_contiguous
        assert ours.c_contiguous == (theirs.c_contiguous or not theirs.f_contiguous)


@pytest.mark.parametrize("shape", [(37, 3), (5, 21), (40, 2), (1, 9), (9, 1), (64, 64)], ids=str)
@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda f: f.__name__)
def test_results_lie_as_numpys_do(statement, shape):
    rng = np.random.default_rng(3)
    for lay_x, lay_y in itertools.product((rows, columns), repeat=2):
        x, y = rng.standard_normal(shape), rng.standard_normal(shape)
        arguments, again = ([lay_x(x.copy()), lay_y(y.copy())] for _ in range(2))
        expected = statement(*again)
        same(appy.jit(strict=True)(statement)(*arguments), expected)
        np.testing.assert_allclose(arguments[1], again[1], rtol=1e-12)


@pytest.mark.parametrize("statement", [one_operand, scaled, with_row, of_parts], ids=lambda f: f.__name__)
def test_whoever_does_not_know_the_order_makes_rows(statement):
    """Of views whose strides are anything the values are right."""
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((12, 7)), rng.standard_normal((12, 7))
    np.testing.assert_allclose(appy.jit(strict=True)(statement)(apart(x), columns(y)), statement(x, y), rtol=1e-12)


def three_dimensions(x, y):
    # pragma 0=>parallel 2=>simd
    c = x * y + 1
    # pragma 0=>parallel 2=>simd
    d = np.transpose(x, (2, 1, 0)) - 1
    # pragma 0=>parallel 2=>simd
    e = x[:, 1:2] * y
    # pragma 0=>parallel 1=>simd
    f = x[:, :, 1] + y[:, :, 0]
    return c, d, e, f


def of_three_in_float32(x, y):
    # pragma 0=>parallel 2=>simd
    c = np.float32(2) * x.astype(np.float32)
    return c, y.astype(np.int32)


@pytest.mark.parametrize("statement", [three_dimensions, of_three_in_float32], ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(6, 5, 4), (17, 3, 2), (3, 2, 33)], ids=str)
def test_results_of_three_dimensions_lie_as_numpys_do(statement, shape):
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal(shape), rng.standard_normal(shape)
    for lay_x, lay_y in itertools.product((rows, columns), repeat=2):
        expected = statement(lay_x(x), lay_y(y))
        same(appy.jit(strict=True)(statement)(lay_x(x), lay_y(y)), expected)
