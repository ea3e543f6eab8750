"""Sizes decide which of two ways to compute something there is code for; entries with others get code of their own."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import appy

# Rows of factors: of a product in place, and of one in blocks; of 256 that is so with any instructions, as those rows of
# float64 fall into few sets of the caches.
FEW, MANY = 5, 256


def product(a, b, out):
    # pragma 0=>parallel 1=>simd
    out[:, :] = 2.0 * (a @ b) + out


def behind_a_store(a, b, out):
    # pragma 0=>parallel 1=>simd
    b[:, :] += 1.0
    # pragma 0=>parallel 1=>simd
    out[:, :] = a @ b


def triangle(a, c, alpha):
    # pragma parallel for
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            c[i, : i + 1] += alpha * a[i, k] * a[: i + 1, k]


def squares(seed, *rows):
    rng = np.random.default_rng(seed)
    return [rng.random((n, n)) for n in rows]


def check(compiled, function, arguments):
    got, want = [np.copy(x) for x in arguments], [np.copy(x) for x in arguments]
    compiled(*got)
    function(*want)
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


@pytest.mark.parametrize("function", [product, behind_a_store])
def test_any_order(function):
    compiled = appy.jit(strict=True)(function)
    order = [FEW, MANY, MANY, FEW, MANY, FEW, FEW]
    for rows in order:
        check(compiled, function, squares(rows, rows, rows, rows))
    stats = compiled.stats()
    assert (stats["runs"], stats["compiled"], stats["declined"]) == (len(order), 2, 0)


def test_a_loop_that_is_versioned():
    compiled = appy.jit(strict=True)(triangle)
    order = [2, 60, 2, 61, 3]
    for rows in order:
        a, c = squares(rows, rows, rows)
        check(compiled, triangle, [a, c, np.float64(0.5)])
    stats = compiled.stats()
    assert (stats["runs"], stats["compiled"], stats["declined"]) == (len(order), 2, 0)


def test_many_combinations_end_in_code_for_all():
    def combined(a, b, c, d, out):
        # pragma 0=>parallel 1=>simd
        out[:FEW, :FEW] = (a @ a)[:FEW, :FEW] + (b @ b)[:FEW, :FEW] + (c @ c)[:FEW, :FEW] + (d @ d)[:FEW, :FEW]

    compiled = appy.jit(strict=True)(combined)
    combinations = list(itertools.product([FEW, MANY], repeat=4))
    for rows in combinations + combinations:
        check(compiled, combined, [*squares(1, *rows), np.zeros((FEW, FEW))])
    stats = compiled.stats()
    assert (stats["runs"], stats["declined"]) == (2 * len(combinations), 0)
    assert 8 < stats["compiled"] <= 10


def test_a_shape_error_is_the_interpreters():
    compiled = appy.jit(strict=True)(product)
    before = compiled.stats()["compiled"]
    check(compiled, product, squares(1, FEW, FEW, FEW))
    for _ in range(3):
        with pytest.raises(ValueError, match="mismatch|broadcast"):
            compiled(np.ones((MANY, MANY)), np.ones((FEW, FEW)), np.ones((MANY, FEW)))
    assert compiled.stats()["compiled"] <= before + 2


def test_a_condition_that_takes_a_truth_value():
    def chosen(a, c, alpha, wide):
        # pragma parallel for
        for i in range(2 + 58 * wide):
            for k in range(a.shape[1]):
                c[i, : i + 1] += alpha * a[i, k] * a[: i + 1, k]

    compiled = appy.jit(strict=True)(chosen)
    order = [True, True, False, True, False]
    for wide in order:
        a, c = squares(60, 60, 60)
        got = c.copy()
        compiled(a, got, 0.5, wide)
        chosen(a, c, 0.5, wide)
        np.testing.assert_allclose(got, c, rtol=1e-12)
    stats = compiled.stats()
    assert (stats["runs"], stats["compiled"], stats["declined"]) == (len(order), 2, 0)
