"""Loops that fail in the middle: exception, arrays and scalars as docs/language.md says, next to plain Python."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
from failing import (
    asserting,
    domain,
    first_access,
    float_division,
    overflow_after_stores,
    overflow_declines,
    parallel_count,
    parallel_gather,
    parallel_scatter,
    raising,
    read_only,
    sequential_division,
    sequential_gather,
    sequential_store,
    too_large_for_element,
)

import appy

N = 64


def outcome(function, *args):
    """(exception type, message, scalars or None, copies of the arrays) of a call whose locals are reported by it."""
    state = {}
    try:
        function(*args, state)
        error = None
    except Exception as e:
        error = e
    return type(error), str(error), state, [a for a in args if isinstance(a, np.ndarray)]


def both(function, make):
    plain = outcome(function, *make())
    compiled = appy.jit(strict=True)(copy.copy(function))
    fast = outcome(compiled, *make())
    assert compiled.stats()["compiled"] >= 1
    return plain, fast


def same(plain, fast):
    assert fast[0] is plain[0]
    assert fast[1] == plain[1]
    assert fast[2] == plain[2]
    assert {k: type(v) for k, v in fast[2].items()} == {k: type(v) for k, v in plain[2].items()}
    for f, p in zip(fast[3], plain[3]):
        np.testing.assert_array_equal(f, p)


def bad_index(at=37, value=N):
    index = np.arange(N)[::-1].copy()
    index[at] = value
    return index


def test_gather_out_of_range_in_order():
    same(*both(sequential_gather, lambda: (bad_index(), np.arange(N) + 0.5, np.zeros(N))))


def test_gather_negative_out_of_range():
    same(*both(sequential_gather, lambda: (bad_index(value=-N - 1), np.arange(N) + 0.5, np.zeros(N))))


def test_scatter_out_of_range():
    same(*both(sequential_store, lambda: (bad_index(), np.zeros(N))))


def test_zero_division_in_order():
    divisor = np.arange(-20, N - 20)
    same(*both(sequential_division, lambda: (np.arange(N), divisor.copy(), np.zeros(N, int))))


def test_float_zero_division():
    same(*both(float_division, lambda: (np.arange(5.0, -5.0, -1.0), np.zeros(10))))


def test_math_domain_error():
    same(*both(domain, lambda: (np.arange(5.0, -5.0, -1.0), np.zeros(10))))


def test_python_int_out_of_bounds_for_the_element():
    same(*both(too_large_for_element, lambda: (np.arange(250, 260), np.zeros(10, np.uint8))))


def test_overflow_of_a_python_int_is_exact():
    plain, fast = outcome(overflow_declines, 40), outcome(appy.jit(strict=True)(overflow_declines), 40)
    same(plain, fast)
    assert plain[2]["p"] == math.factorial(39)


def test_overflow_after_stores_raises():
    compiled = appy.jit(strict=True)(overflow_after_stores)
    x = np.zeros(60)
    kind, message, state, _ = outcome(compiled, x)
    assert kind is OverflowError
    assert "64 bits" in message and "failing.py, line 87" in message and "iteration 21" in message
    assert state == {"i": 21}  # 21! does not fit
    np.testing.assert_array_equal(x[:22], np.arange(22.0))
    np.testing.assert_array_equal(x[22:], 0)


@pytest.mark.parametrize("at", [0, 1, 7, 8, 31, 63])
def test_parallel_failure_is_the_first_in_order(at):
    def make():
        index = bad_index(at).astype(float)  # no index array: nothing to inspect before the loop
        index[63] = N + 100
        return index, np.arange(N) + 0.5, np.zeros(N)

    plain, fast = both(parallel_gather, make)
    assert fast[0] is IndexError and fast[1] == plain[1]
    assert fast[2] == {"s": 5.0}, "scalars keep the value from before the loop"
    np.testing.assert_array_equal(fast[3][2][:at], plain[3][2][:at])  # earlier iterations are complete
    assert fast[3][2][at] == 0


@pytest.mark.parametrize("dtype", ["i8", "i4", "u1", "i1"])
@pytest.mark.parametrize("n", [0, 1, 50, 100_000])
def test_labels_from_either_end(dtype, n):
    low = 0 if dtype[0] == "u" else -100
    labels = np.random.default_rng(0).integers(low, 100, n).astype(dtype)
    same(*both(parallel_count, lambda: (labels, np.zeros(100, int))))


@pytest.mark.parametrize("value", [100, -101, 10**12, -(10**12)])
@pytest.mark.parametrize("at", [0, 1, 31_000, 99_999])
def test_a_label_out_of_range_in_a_parallel_loop(at, value):
    def make():
        labels = np.random.default_rng(0).integers(-100, 100, 100_000)
        labels[at] = value
        labels[at + 1 :: 7] = 100  # found by others, maybe before
        return labels, np.zeros(100, int)

    plain, fast = both(parallel_count, make)
    assert fast[0] is IndexError and fast[1] == plain[1]
    assert (fast[3][1] >= plain[3][1]).all(), "earlier iterations are complete"


@pytest.mark.parametrize("at", [0, 500, 9_999])
def test_a_place_out_of_range_in_a_parallel_loop(at):
    def make():
        places = np.random.default_rng(0).permutation(10_000) + 3
        places[at] = 10_003
        return places, np.arange(1.0, 10_001.0), np.zeros(10_000)

    plain, fast = both(parallel_scatter, make)
    assert fast[0] is IndexError and fast[1] == plain[1]
    written = plain[3][2] != 0
    np.testing.assert_array_equal(fast[3][2][written], plain[3][2][written])


def test_explicit_raise():
    same(*both(raising, lambda: (np.arange(10),)))


def test_assertion():
    same(*both(asserting, lambda: (np.arange(10),)))


def test_hoisted_bounds_check_declines_to_python():
    plain, fast = outcome(first_access, np.zeros(5), 9), outcome(appy.jit(strict=True)(first_access), np.zeros(5), 9)
    same(plain, fast)


def test_read_only_array():
    x = np.zeros(5)
    x.flags.writeable = False
    plain = outcome(read_only, x)
    assert plain[:2] == outcome(appy.jit(read_only), x)[:2]
    assert plain[0] is ValueError


def test_unbound_local_after_empty_loop():
    def f(x):
        # pragma simd
        for i in range(len(x)):
            y = x[i]
        return y

    with pytest.raises(UnboundLocalError):
        appy.jit(strict=True)(f)(np.zeros(0))
    assert appy.jit(strict=True)(f)(np.ones(3)) == 1
