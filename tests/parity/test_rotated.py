"""Loops whose iterations sum up elements and then update them, with the next sum computed while they update (the pass
`rotate`): the same bits as without it, and the same as plain Python."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from recurrence_programs import orthogonalise

import appy


def by_columns(a: Any) -> Any:
    """The loop over what is subtracted stands inside, and has no iterations where there are few columns."""
    m, n = a.shape
    q = a * 0.125
    r = np.zeros((n, n), dtype=a.dtype)
    # pragma parallel for simd
    for j in range(n):
        for k in range(min(n, 5), n):
            t = 1.0
            for i in range(m):
                t += q[i, k] * a[i, j]
            r[k, j] = t
            for i in range(m):
                a[i, j] = a[i, j] * 0.5 - q[i, k] * t
    return (r,)


def another_row(a: Any) -> Any:
    """The sum reads what the update of another row stores."""
    m, n = a.shape
    q = a * 0.125
    r = np.zeros((n, n), dtype=a.dtype)
    # pragma parallel for simd
    for j in range(n):
        for k in range(n):
            t = 0.0
            for i in range(1, m):
                t += q[i, k] * a[i - 1, j]
            r[k, j] = t
            for i in range(1, m):
                a[i, j] = 0.25 * a[i, j] - q[i, k] * t
    return (r,)


def matrix(m: int, n: int, dtype: str) -> Any:
    return np.random.default_rng(m * 100 + n).random((m, n)).astype(dtype)


@pytest.mark.parametrize("isa", ["avx2", "auto"])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("program, told", [(orthogonalise, True), (by_columns, True), (another_row, False)])
def test_the_same_bits(program: Callable[..., Any], told: bool, dtype: str, isa: str) -> None:
    before = appy.config()
    results: list[list[Any]] = []
    try:
        for disabled in (["rotate"], []):
            appy.config(isa=isa, disabled_passes=disabled)
            # What is compiled for one code is there for all that equal it.
            code = program.__code__.replace(co_name=f"{program.__name__}_{len(disabled)}")
            copy = types.FunctionType(code, program.__globals__)
            compiled = appy.jit(strict=True, threads=2)(copy)
            results.append([])
            for m, n in ((40, 90), (9, 33), (1, 40), (33, 17), (3, 1), (120, 64), (5, 4)):
                a = matrix(m, n, dtype)
                with np.errstate(all="ignore"):
                    results[-1].append((*compiled(a), a))
            text = str(appy.explain(compiled))
            assert ("is computed while the iteration before updates" in text) == (told and not disabled)
    finally:
        appy.config(isa=before["isa"], disabled_passes=before["disabled_passes"])
    for ours, theirs in zip(*results):
        for x, y in zip(ours, theirs):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("program", [orthogonalise, by_columns, another_row])
def test_equal_plain_python(program: Callable[..., Any]) -> None:
    compiled = appy.jit(strict=True)(program)
    for m, n in ((20, 9), (4, 1), (6, 0), (50, 36), (7, 5)):
        ours, theirs = matrix(m, n, "f8"), matrix(m, n, "f8")
        for x, y in zip((*compiled(ours), ours), (*program(theirs), theirs)):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)
