"""Columns that loops inside go over again and again, with strips of them copied (the pass `strips`): the same bits as
without it, and the same as plain Python."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from recurrence_programs import orthogonalise

import appy


def relaxed(a: Any) -> Any:
    """Sweeps down columns, each element by what the sweep made of the sum above it; all rows but the first."""
    m, n = a.shape
    last = np.zeros(n, dtype=a.dtype)
    # pragma parallel for simd
    for j in range(n):
        for k in range(17):
            t = 0.5
            for i in range(1, m):
                t = 0.5 * t + a[i, j]
                a[i, j] = 0.25 * t
            last[j] = t
    return (last,)


def where_positive(a: Any) -> Any:
    """A condition chooses what is stored; rows count from where the array ends."""
    m, n = a.shape
    counts = np.zeros(n, dtype=a.dtype)
    # pragma parallel for simd
    for j in range(1, n - 2):
        for k in range(16):
            for i in range(m):
                if a[i, j] > 0.25:
                    a[i, j] = a[i, j] - 0.125
            s = 0.0
            for i in range(m):
                s += a[i, j]
            counts[j] = s
    return (counts,)


SHAPES = ((700, 110), (90, 800), (300, 257), (1500, 60), (40, 30), (1, 5), (2000, 7))
PROGRAMS = [(orthogonalise, True), (relaxed, True), (where_positive, True)]


def matrix(m: int, n: int, dtype: str) -> Any:
    return np.random.default_rng(m * 100 + n).random((m, n)).astype(dtype)


@pytest.mark.parametrize("isa", ["avx2", "auto"])
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("program, told", PROGRAMS)
def test_the_same_bits(program: Callable[..., Any], told: bool, dtype: str, threads: int, isa: str) -> None:
    before = appy.config()
    results: list[list[Any]] = []
    try:
        for disabled in (["strips"], []):
            appy.config(isa=isa, disabled_passes=disabled)
            # What is compiled for one code is there for all that equal it.
            name = f"{program.__name__}_{len(disabled)}_{threads}"
            copy = types.FunctionType(program.__code__.replace(co_name=name), program.__globals__)
            compiled = appy.jit(strict=True, threads=threads)(copy)
            results.append([])
            for m, n in SHAPES:
                a = matrix(m, n, dtype)
                with np.errstate(all="ignore"):
                    results[-1].append((*compiled(a), a))
            assert ("copies strips of 'a'" in str(appy.explain(compiled))) == (told and not disabled)
    finally:
        appy.config(isa=before["isa"], disabled_passes=before["disabled_passes"])
    for ours, theirs in zip(*results):
        for x, y in zip(ours, theirs):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("program", [relaxed, where_positive])
def test_equal_plain_python(program: Callable[..., Any]) -> None:
    compiled = appy.jit(strict=True)(program)
    for m, n in ((500, 140), (4, 3), (1100, 64)):
        ours, theirs = matrix(m, n, "f8"), matrix(m, n, "f8")
        for x, y in zip((*compiled(ours), ours), (*program(theirs), theirs)):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)
