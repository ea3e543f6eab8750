"""Booleans that stop (`found = found or c`), flags, and sums of Python and NumPy numbers: out of order, with the types
that Python leaves."""

import warnings

import numpy as np
import pytest
from compare import assert_same

import appy


def any_or(x, y, found):
    # pragma parallel for simd
    for i in range(len(x)):
        found = found or x[i] > 0.5
    return found


def all_and(x, y, ok):
    # pragma simd
    for i in range(len(x)):
        ok = ok and x[i] > -0.5 and y[i] < 0.9
    return ok


def both_ways(x, y, found):
    ok = True
    # pragma parallel for
    for i in range(len(x)):
        found = found or (x[i] > 0.5 and y[i] > 0)
        ok = ok and (x[i] > -0.9 or not y[i] > 0)
    return found, ok, i if len(x) else None


def types_of_the_deciding_iteration(x, y, found):
    # pragma parallel for simd
    for i in range(1, len(x), 3):
        found = found or (bool(x[i] > 0.8) if y[i] > 0 else x[i] > 0.9)
    return found


def downwards(x, y, ok):
    # pragma simd
    for i in range(len(x) - 1, -1, -1):
        ok = ok and (x[i] < 0.99 if i % 2 else i >= 0)
    return ok


def as_a_condition(x, y, found):
    # pragma simd
    for i in range(len(x)):
        if not found:
            found = x[i] > 0.7
    return found


def flag(x, y, found):
    # pragma parallel for simd
    for i in range(len(x)):
        if x[i] > 0.99:
            found = True
    return found


def in_place(x, y, found):
    ok = True
    # pragma simd
    for i in range(len(x)):
        found |= x[i] > 0.9
        ok &= bool(y[i] < 2)
    return found, ok


LATCHES = [any_or, all_and, both_ways, types_of_the_deciding_iteration, downwards, as_a_condition, flag, in_place]


def without_remarks(function, *args, **options):
    compiled = appy.jit(strict=True, **options)(function)
    before = compiled.stats()["runs"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", appy.AppyWarning)
        result = compiled(*args)
    assert compiled.stats()["runs"] == before + 1
    return result


@pytest.mark.parametrize("function", LATCHES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("start", [False, True, np.False_, np.True_], ids=repr)
@pytest.mark.parametrize("threads", [1, 4])
def test_latches(function, start, threads):
    rng = np.random.default_rng(3)
    for n in (0, 1, 2, 5, 17, 40_000):
        for bound in (1.0, 0.45, 0.8):
            x, y = rng.uniform(-bound, bound, n), rng.uniform(-1, 1, n)
            want = function(x, y, start)
            assert_same(without_remarks(function, x, y, start, threads=threads), want, where=f"{n}, {bound}")


def test_what_python_does_not_evaluate_is_not_seen():
    """The shorter array is long enough where the value has not stopped."""

    def f(x, y):
        found = False
        # pragma simd
        for i in range(len(x)):
            found = found or y[i] > 0
        return found

    compiled = appy.jit(f)
    x = np.zeros(100)
    for at in (0, 3, 7):
        y = np.zeros(at + 1)
        y[at] = 1.0
        assert compiled(x, y) is f(x, y)
    with pytest.raises(IndexError, match="index 8 is out of bounds"):
        compiled(x, np.zeros(8))


def test_a_check_that_is_seen_keeps_the_order():
    def f(x, y):
        found = False
        # pragma simd
        for i in range(len(x)):
            y[i] = -1.0
            found = found or 1 // int(x[i]) > 0
        return found

    x, y = np.array([-2.0, 1.0, 0.0, 0.0]), np.zeros(4)
    compiled = appy.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", appy.AppyWarning)
        assert compiled(x, y) is True
    assert y.tolist() == [-1.0] * 4


def ternary_sum(x, s):
    # pragma parallel for simd
    for i in range(len(x)):
        s += x[i] if x[i] > 0 else 0
    return s


def ternary_product(x, s):
    # pragma parallel for simd
    for i in range(len(x)):
        s *= x[i] if x[i] < 0 else 1
    return s


def ternary_difference(x, s):
    # pragma simd
    for i in range(len(x)):
        s -= 0 if i % 3 else x[i]
    return s


def sum_and_product(x, s):
    p = 1
    # pragma parallel for simd
    for i in range(len(x)):
        s += x[i]
        p *= x[i] | 1
    return s, p


@pytest.mark.parametrize("function", [ternary_sum, ternary_product, ternary_difference], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_terms_that_are_python_numbers(function, dtype):
    rng = np.random.default_rng(5)
    for n in (0, 1, 5, 1000):
        for low, high in ((-1, 1), (0.5, 1), (-1.01, -0.99)):
            x = rng.uniform(low, high, n).astype(dtype)
            for start in (0.0, -0.0, 1.0):
                want = function(x, start)
                scale = 0.0 if function is ternary_product else float(np.abs(x).sum())
                assert_same(without_remarks(function, x, start), want, ulps=n + 8, scale=scale)


@pytest.mark.parametrize("dtype", ["uint64", "uint8", "int64"])
def test_integers_that_start_as_python_numbers(dtype):
    x = np.random.default_rng(5).integers(0, 200, 500).astype(dtype)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for n in (0, 1, 500):
            for start in (0, 7, 200):
                assert_same(without_remarks(sum_and_product, x[:n], start), sum_and_product(x[:n], start))


def extremes(x, m):
    least = m
    # pragma parallel for simd
    for i in range(len(x)):
        m = max(m, x[i])
        least = min(least, x[i])
    return m, least


def conditional_extreme(x, m):
    # pragma simd
    for i in range(len(x)):
        if x[i] > m:
            m = x[i]
    return m


def conditional_sum(x, m):
    # pragma parallel for simd
    for i in range(len(x)):
        if x[i] > 3:
            m += x[i]
    return m


@pytest.mark.parametrize("function", [extremes, conditional_extreme, conditional_sum], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "int32", "int64", "uint8", "uint32", "uint64"])
def test_numbers_that_start_as_python_ints(function, dtype):
    rng = np.random.default_rng(2)
    starts = (0, 1) if dtype in ("float32", "int8", "uint8") else (0, 1, 5, 100)  # does the dtype hold every int?
    for start in starts:
        for n in (0, 1, 7, 700):
            for low, high in ((0, 3), (0, 9), (6, 100)):
                x = rng.integers(low, high, n).astype(dtype)
                with np.errstate(all="ignore"), warnings.catch_warnings():
                    warnings.simplefilter("ignore", RuntimeWarning)
                    want = function(x, start)
                    assert_same(without_remarks(function, x, start), want, ulps=n + 8, scale=float(x.sum(dtype=float)))


def test_a_start_that_the_dtype_does_not_hold():
    """Too large an int for exact comparisons in float64, or for the array's integers."""
    x = np.array([1.0, 2.0**60, 5.0])
    for start in (2**53 + 1, 2**60 + 1, -(2**62), 2**31):
        for array in (x, x.astype(np.float32), x.astype(np.int64), x.astype(np.uint64)):
            for function in (extremes, conditional_extreme):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", appy.AppyWarning)
                    assert_same(
                        appy.jit(function)(array, start), function(array, start), where=f"{start}, {array.dtype}"
                    )


def test_a_negative_start_is_an_error():
    with pytest.raises(OverflowError):
        appy.jit(sum_and_product)(np.ones(3, np.uint64), -1)
    assert appy.jit(sum_and_product)(np.ones(0, np.uint64), -1) == (-1, 1)
