"""Conditionals in simd loops that become selects: the same sums, bit for bit where the order is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import appy


def between(lo: float, hi: float, x: Any, y: Any, start: Any) -> tuple[Any, int]:
    s, n = start, 0
    # pragma simd
    for i in range(len(x)):
        if lo <= x[i] and x[i] < hi:
            s += y[i]
            n += 1
    return s, n


def outside(lo: float, hi: float, x: Any, y: Any, start: Any) -> tuple[Any, int]:
    s, n = start, 0
    # pragma simd
    for i in range(len(x)):
        if x[i] < lo or not x[i] < hi:
            n += 1
        else:
            s = y[i] + s
    return s, n


def clipped(lo: float, hi: float, x: Any, y: Any, start: Any) -> tuple[Any, int]:
    last = start
    # pragma simd
    for i in range(len(x)):
        if x[i] < lo:
            y[i] = lo
        elif x[i] > hi:
            y[i] = hi
        else:
            y[i] = x[i] - y[i]
        last = y[i]
    return last, 0


def products(lo: float, hi: float, x: Any, y: Any, start: Any) -> tuple[Any, int]:
    s, t = start, start
    # pragma simd
    for i in range(len(x)):
        v = x[i]
        if v > lo:
            s += v * y[i]
            if v > hi:
                t -= y[i]
    return s + t, 0


PROGRAMS = [between, outside, clipped, products]


def same(a: Any, b: Any, exact: bool) -> None:
    if exact:
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    else:
        np.testing.assert_allclose(a, b, rtol=1e-5 if np.asarray(b).dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4"])
def test_as_the_interpreter(program: Any, exact: bool, dtype: str) -> None:
    rng = np.random.default_rng(5)
    compiled = appy.jit(strict=True, exact=exact)(program)
    for n in (0, 1, 7, 8, 31, 33, 1000):
        x = (100 * rng.random(n)).astype(dtype)
        y = rng.integers(-50, 50, n).astype(dtype)
        if dtype == "f8" and n > 8:
            x[rng.integers(0, n, 3)] = np.nan
        lo, hi = (20, 60) if dtype[0] == "i" else (20.5, 60.25)
        start = np.dtype(dtype).type(0)
        ys = y.copy(), y.copy()
        got, want = (f(lo, hi, x, z, start) for f, z in zip((compiled, program), ys))
        same(got[0], want[0], exact)
        assert got[1] == want[1]
        same(ys[0], ys[1], True)
    assert compiled.stats()["declined"] == 0


@pytest.mark.parametrize("program", [between, outside, products])
@pytest.mark.parametrize("exact", [True, False])
def test_a_sum_of_nothing_keeps_its_sign(program: Any, exact: bool) -> None:
    x, y = np.full(40, np.nan), np.full(40, -0.0)
    compiled = appy.jit(strict=True, exact=exact)(program)
    for start in (-0.0, 0.0):
        for lo, hi in ((20.0, 60.0), (-1.0, 5.0)):
            for values in (x, x * 0 + 3.0, np.nan_to_num(x)):
                got, want = compiled(lo, hi, values, y, start), program(lo, hi, values, y, start)
                assert np.float64(got[0]).tobytes() == np.float64(want[0]).tobytes(), (start, lo, values[0])
                assert got[1] == want[1]


@pytest.mark.parametrize("length", [0, 1, 8, 25, 26, 49, 50, 51, 90])
def test_what_the_condition_guards_may_be_missing(length: int) -> None:
    """Iterations that do not get there must not fail; the first that does fails with what was added before."""

    def shifted(mask: Any, y: Any, kept: Any) -> float:
        s = 0.0
        # pragma simd
        for i in range(len(mask)):
            if mask[i]:
                s += y[i + 1]
                kept[i] = y[i]
        return s

    compiled, sums = appy.jit(strict=True)(shifted), appy.jit(strict=True)(between)
    y = np.arange(length) + 0.5
    for last in (0, 1, 7, 24, 25, 30, 49, 50):
        mask = np.arange(50) < last
        outcomes = []
        for f in (shifted, compiled):
            kept = np.zeros(50)
            try:
                outcomes.append((f(mask, y, kept), kept.tolist()))
            except IndexError as error:
                outcomes.append((str(error), kept.tolist()))
        assert outcomes[0] == outcomes[1]
        x = np.arange(50.0)
        if length > last:
            assert sums(-1.0, last + 0.5, x, y, 0.0) == between(-1.0, last + 0.5, x, y, 0.0)
