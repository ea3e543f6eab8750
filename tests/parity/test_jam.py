"""Sums whose rows or columns run together: elements are small whole numbers, so that every order adds up to the same."""

from __future__ import annotations

import numpy as np
import pytest

import appy

SIZES = [0, 1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 19, 37]


def gram(x, c):
    # pragma parallel for
    for i in range(x.shape[0]):
        for j in range(i, x.shape[0]):
            s = 0.0
            # pragma simd
            for k in range(x.shape[1]):
                s += x[i, k] * x[j, k]
            c[i, j] = s
    return i, j, s


def lower_gram(x, c):
    # pragma parallel for schedule(dynamic, 3)
    for i in range(x.shape[0]):
        for j in range(i + 1):
            s = 0.0
            # pragma simd
            for k in range(j, x.shape[1]):
                s += x[i, k] * x[j, k]
            c[i, j] += 2 * s


def distances(x, c):
    n = x.shape[0]
    # pragma parallel for collapse(2)
    for i in range(n):
        # pragma parallel for
        for j in range(n):
            d = 0.0
            # pragma simd
            for k in range(x.shape[1]):
                d += (x[i, k] - x[j, k]) ** 2
            c[i, j] = d


def nearest(x, c):
    # pragma parallel for
    for i in range(x.shape[0]):
        best = np.inf
        at = -1
        for j in range(x.shape[0]):
            d = 0.0
            # pragma simd
            for k in range(x.shape[1]):
                d += abs(x[i, k] - x[j, k])
            if i != j and d < best:
                best = d
                at = j
        if at >= 0:
            c[i, 0] = best
            c[i, 1] = at


def above(x, c):
    n = x.shape[0]
    # pragma parallel for simd
    for j in range(c.shape[1]):
        for i in range(n):
            s = 0.0
            for k in range(i + 1, n):
                s += x[k, i % x.shape[1]] * c[k, j]
            c[i, j] = c[i, j] + s - 8 * (s // 8)


def solved(x, c):
    n = x.shape[0]
    # pragma parallel for simd
    for j in range(c.shape[1]):
        for i in range(n):
            s = 0.0
            for k in range(i):
                s += x[i, k % 2] * c[k, j]
            c[i, j] = c[i, j] - s % 8


def rows_of_a_triangle(x, c):
    n = x.shape[0]
    # pragma parallel for simd
    for j in range(n):
        for i in range(n - 1):
            s = 0.0
            for k in range(n - i):
                s += x[k, 0] * x[k, j % x.shape[1]] * i
            c[i + 1, j] = s
    return i, s


def skewed(x, c):
    n = x.shape[0]
    # pragma parallel for
    for i in range(n):
        s = 0.0
        t = 1.0
        # pragma simd
        for k in range(i, n):
            s += x[i, 0] * c[0, k]
            t += x[k, 0]
        c[i, n - 1] += 0 * s
        x[i, 1] = s + t
    return s, t, k


def product(x, c):
    n = x.shape[0]
    # pragma parallel for
    for i in range(n):
        # pragma simd
        for j in range(n):
            c[i, j] *= 2
        for k in range(min(n, x.shape[1])):
            # pragma simd
            for j in range(n):
                c[i, j] += 3 * x[i, k] * x[k, 0]
        for k in range(i, min(n, x.shape[1])):
            # pragma simd
            for j in range(min(n, x.shape[1])):
                c[i, j] += x[i, k] * x[k, j]
    return i


def mirrored(x, c):
    n = min(x.shape)
    # pragma parallel for schedule(dynamic)
    for i in range(n):
        for k in range(i + 1):
            # pragma simd
            for j in range(n):
                c[i, j] += 2 * x[i, k] * x[k, j]
        for k in range(i + 1, n):
            # pragma simd
            for j in range(n):
                c[i, j] += 2 * x[k, i] * x[k, j]


def columns_of_rows(x, c):
    n = x.shape[0]
    # pragma parallel for
    for i in range(min(n, x.shape[1])):
        for k in range(n):
            # pragma simd
            for j in range(i, min(n, x.shape[1])):
                c[i, j] += x[k, i] * x[k, j]
        for j in range(i, min(n, x.shape[1])):
            c[j, i] = c[i, j]


def least_sums(x, c):
    n = min(x.shape)
    # pragma parallel for
    for i in range(n):
        for k in range(n):
            # pragma simd
            for j in range(n):
                c[i, j] = min(c[i, j], x[i, k] + x[k, j])


def streams(x, c):
    m = c.shape[1]
    # pragma parallel for
    for i in range(c.shape[0]):
        s = 0.0
        # pragma simd
        for j in range(m):
            s += c[i, j] * c[0, j]
        x[i, 0] = s
    # pragma parallel for
    for i in range(1, x.shape[0]):
        s = 1.0
        low = x[0, 0]
        # pragma simd
        for j in range(min(m, x.shape[1])):
            s += x[i, j]
            low = min(low, c[i, j])
        c[0, i] = s + low
    return i, j, s, low


ROWS = [product, mirrored, columns_of_rows, least_sums]
TAKEN = [*ROWS, streams, gram, lower_gram, distances, nearest, above, rows_of_a_triangle, skewed]


def inputs(n, columns, dtype):
    rng = np.random.default_rng(n)
    x = rng.integers(-3, 4, (n, max(columns, 2))).astype(dtype)
    c = rng.integers(-3, 4, (n, n)).astype(dtype)
    return x, c


def check(f, n, columns, dtype, **options):
    x, c = inputs(n, columns, dtype)
    wanted = x.copy(), c.copy()
    compiled = appy.jit(strict=True, **options)(f)
    try:
        left = f(*wanted)
    except (UnboundLocalError, IndexError) as raised:
        with pytest.raises(type(raised)):
            compiled(x, c)
    else:
        assert compiled(x, c) == left
    for got, want in zip((x, c), wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    return compiled


@pytest.mark.parametrize("f", [*TAKEN, solved], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8"])
def test_equals_plain_python(f, dtype):
    for n in SIZES:
        for columns in (2, 5, 16, 41):
            check(f, n, columns, dtype)


@pytest.mark.parametrize("f", TAKEN, ids=lambda f: f.__name__)
def test_exact(f):
    for n in SIZES:
        check(f, n, 9, "f8", exact=True)


@pytest.mark.parametrize("f", TAKEN, ids=lambda f: f.__name__)
def test_iterations_run_together(f):
    compiled = check(f, 13, 5, "f8")
    assert "run together" in str(appy.explain(compiled))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("n", [47, 48, 95, 96, 101, 149])
def test_rows_that_are_read_once(n, threads):
    for columns in (3, 8, 37):
        check(streams, n, columns, "f8", threads=threads)
        check(streams, n, columns, "f4", threads=threads)


@pytest.mark.parametrize("f", ROWS, ids=lambda f: f.__name__)
def test_rows_add_up_in_registers(f):
    assert "adds up inside" in str(appy.explain(check(f, 13, 5, "f8")))


def test_rows_that_need_the_ones_before_run_in_order():
    assert "run together" not in str(appy.explain(check(solved, 13, 5, "f8")))


def test_exact_sums_keep_their_order():
    @appy.jit(strict=True, exact=True)
    def product(a, b, c):
        # pragma parallel for
        for i in range(a.shape[0]):
            for j in range(b.shape[0]):
                s = 0.0
                for k in range(a.shape[1]):
                    s += a[i, k] * b[j, k]
                c[i, j] = s

    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((11, 23)), rng.standard_normal((9, 23))
    c = np.empty((11, 9))
    product(a, b, c)
    assert "run together" in str(appy.explain(product))
    for i in range(11):
        for j in range(9):
            s = 0.0
            for k in range(23):
                s += a[i, k] * b[j, k]
            assert c[i, j] == s
