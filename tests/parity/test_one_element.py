"""Slices that have one element in some calls, where they are broadcast, and more in others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import appy


def odd(x: Any, y: Any, out: Any) -> None:
    # pragma 0=>simd
    out[:] = x[1::2] * 2.0 + y


def rows(x: Any, y: Any, out: Any) -> None:
    # pragma 0=>parallel 1=>simd
    out[:, :] = x[1:-1, ::3] + y


def bounds(x: Any, y: Any, out: Any, a: int, b: int) -> None:
    # pragma 0=>simd
    out[:] = x[a:b] - y[b:a:-1]


def halves(x: Any, y: Any, out: Any) -> None:
    # pragma 0=>simd
    out[:] = x[len(x) // 2 :] + y[: len(x) // 2]


def arguments(name: str, n: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(n)
    if name == "odd":
        return rng.random(n), rng.random(n // 2), np.zeros(n // 2)
    if name == "rows":
        y = rng.random((n - 2, 4))
        return rng.random((n, 10 if n % 2 else 3)), y, np.zeros((n - 2, 4))
    if name == "bounds":
        return rng.random(20), rng.random(20), np.zeros(n), 3, 3 + n
    return rng.random(n), rng.random(n), np.zeros(max(n // 2, n - n // 2))


def outcome(f: Any, name: str, n: int) -> Any:
    given = arguments(name, n)
    try:
        f(*given)
    except ValueError as error:
        return str(error)
    return given[2]


@pytest.mark.parametrize("sizes", [(3, 10, 3, 64, 2), (10, 3, 64, 3, 2), (64, 7, 3, 3, 8), (3, 3, 5, 4, 3)])
@pytest.mark.parametrize("function", [odd, rows, bounds, halves])
def test_any_order_of_sizes(function: Any, sizes: tuple[int, ...]) -> None:
    compiled = appy.jit(function)
    for n in sizes:
        expected, got = outcome(function, function.__name__, n), outcome(compiled, function.__name__, n)
        assert type(expected) is type(got)
        np.testing.assert_array_equal(expected, got)


def any_bounds(x: Any, y: Any, z: Any, out: Any, a: int, b: int, c: int) -> None:
    # pragma 0=>simd
    out[a:] = x[a:b] * y[c::2] + z[:c, None][::-1, 0]
    # pragma 0=>simd
    out[:b] = x[-b:] * y[b:-c:-1]


def test_any_bounds_and_sizes() -> None:
    rng = np.random.default_rng(3)
    f = appy.jit(strict=True)(any_bounds)
    agreed = 0
    for _ in range(3000):
        size = rng.integers(0, 5, 4)
        x, y, z, out = (rng.random(n) for n in size)
        bounds = [int(k) for k in rng.integers(0, 4, 3)]
        expected, got = out.copy(), out.copy()
        messages = []
        for function, target in ((any_bounds, expected), (f, got)):
            try:
                function(x, y, z, target, *bounds)
                messages.append("")
            except ValueError as error:
                messages.append(str(error))
        assert messages[0] == messages[1]
        np.testing.assert_allclose(expected, got, rtol=1e-14)
        agreed += messages[0] == ""
    assert agreed > 200
    assert f.stats()["runs"] > agreed


# Each has specializations of its own.
def one_first(x: Any, y: Any, out: Any) -> None:
    # pragma 0=>simd
    out[:] = x[1::2] + y


def one_last(x: Any, y: Any, out: Any) -> None:
    # pragma 0=>simd
    out[:] = x[1::2] + y


def wrong(x: Any, y: Any, out: Any) -> None:
    # pragma 0=>simd
    out[:] = x[1::2] + y


def call(f: Any, n: int, m: int) -> None:
    x, y, out = np.arange(float(n)), np.arange(float(m)) + 0.5, np.zeros(max(m, n // 2))
    f(x, y, out)
    np.testing.assert_array_equal(out, x[1::2] + y)


@pytest.mark.parametrize("function", [one_first, one_last])
def test_every_size_runs_compiled(function: Any) -> None:
    f = appy.jit(strict=True)(function)
    few, many = [(2, 1), (3, 5), (2, 7)], [(8, 4), (20, 10), (31, 15)]
    sizes = few + many if function is one_first else many + few
    for n, m in sizes * 3:
        call(f, n, m)
    assert f.stats()["declined"] == 0
    assert f.stats()["runs"] == 18
    assert f.stats()["compiled"] == 3  # y's extent of 1 is another one


def test_what_cannot_be_added_stays_numpys() -> None:
    f = appy.jit(strict=True)(wrong)
    call(f, 8, 4)
    for _ in range(3):
        with pytest.raises(ValueError, match="could not"):
            f(np.ones(8), np.ones(5), np.zeros(5))
        with pytest.raises(ValueError, match="could not"):
            f(np.ones(2), np.ones(4), np.zeros(5))
        call(f, 2, 6)
    assert f.stats()["compiled"] == 2


def index_out_of_range(x: Any, y: Any, out: Any, at: int) -> None:
    # pragma 0=>simd
    out[:] = x[1::2] + y[at]


def test_one_that_declines_for_another_reason_is_compiled_once() -> None:
    f = appy.jit(strict=True)(index_out_of_range)
    out = np.zeros(5)
    f(np.arange(10.0), np.ones(4), out, 2)
    for _ in range(10):
        with pytest.raises(IndexError):
            f(np.arange(2.0), np.ones(4), out, 7)
    assert f.stats()["compiled"] <= 2
    f(np.arange(2.0), np.full(4, 3.0), out, 2)
    np.testing.assert_array_equal(out, np.full(5, 4.0))
    f(np.arange(10.0), np.ones(4), out, 3)
    np.testing.assert_array_equal(out, np.arange(1.0, 10, 2) + 1)
    assert f.stats()["compiled"] <= 2


def first_taken_away(a: Any, b: Any) -> None:
    # pragma 0=>simd
    b -= a[:1]


def test_many_types_each_broadcast_one_element() -> None:
    f = appy.jit(strict=True)(first_taken_away)
    dtypes = "f4 f8 i1 i2 i4 i8 u1 u2 u4 u8".split()
    pairs = [(s, t) for s in dtypes for t in dtypes if np.can_cast(s, t, "same_kind")][:32]
    for source, target in pairs:
        a, b = np.ones(64, source), np.full(64, 3, target)
        f(a, b)
        np.testing.assert_array_equal(b, 2)
    assert f.stats()["compiled"] == f.stats()["runs"] == 32
    assert f.stats()["declined"] == 0


def five(a: Any, b: Any, c: Any, d: Any, e: Any, out: Any) -> None:
    # pragma 0=>simd
    out[:] = a[1:] + b[1:] + c[1:] + d[1:] + e[1:]


def test_beyond_the_places_what_was_compiled_still_runs() -> None:
    """Where versions of one type have run out, the sizes that have one are not left to NumPy."""

    def call_with(f: Any, ones: int) -> int:
        sizes = [2 if ones >> k & 1 else 5 for k in range(5)]
        given = [np.arange(float(n)) for n in sizes]
        expected, got = np.zeros(4), np.zeros(4)
        five(*given, expected)
        f(*given, got)
        np.testing.assert_array_equal(expected, got)
        return int(f.stats()["declined"])

    f = appy.jit(five)
    call_with(f, 0)
    call_with(f, 1)
    for ones in range(2, 31):
        call_with(f, ones)
    before = call_with(f, 30)
    assert call_with(f, 1) == before
    assert call_with(f, 1) == before
