"""Recurrences of which sums can be taken out of the loop, and some of which they cannot."""

from __future__ import annotations

import numpy as np
import pytest
import recurrence_programs
from compare import assert_same

import appy


def lu_by_rows(a):
    n = a.shape[0]
    # pragma sequential for
    for i in range(n):
        for j in range(i):
            s = 0.0
            # pragma simd
            for k in range(j):
                s += a[i, k] * a[k, j]
            a[i, j] = (a[i, j] - s) / a[j, j]
        # pragma parallel for
        for j in range(i, n):
            t = 0.0
            # pragma simd
            for k in range(i):
                t += a[i, k] * a[k, j]
            a[i, j] -= t


def row_by_row_in_place(lower, x):
    """Each iteration reads the whole row that it writes: nothing of it is known before."""
    # pragma sequential for
    for i in range(1, x.shape[0]):
        for j in range(i):
            s = 0.0
            # pragma simd
            for k in range(i):
                s += x[i, k] * lower[k, j]
            x[i, j] = s


def arguments(name, n):
    rng = np.random.default_rng(n)
    a = rng.uniform(-1, 1, (n, n))
    if name == "lu_by_rows":
        return (a @ a.T / max(n, 1) + 2 * np.eye(n),)
    return np.tril(a) / max(n, 1), rng.uniform(-1, 1, (n, n))


@pytest.mark.parametrize("n", [0, 1, 33, 70])
@pytest.mark.parametrize("function", [lu_by_rows, row_by_row_in_place])
def test_rows_that_an_iteration_makes_of_themselves(function, n):
    want, got = arguments(function.__name__, n), arguments(function.__name__, n)
    function(*want)
    compiled = appy.jit(strict=True)(function)
    compiled(*got)
    assert_same(list(got), list(want), ulps=32, scale=64.0)
    assert compiled.stats()["runs"] > 0


SIZES = [0, 1, 2, 31, 32, 33, 63, 64, 65, 97]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n", SIZES)
def test_sizes_around_a_tile(n, threads):
    function = recurrence_programs.forward_substitution_in_place
    want = recurrence_programs.triangle(n, (n,))(np.float64, np.random.default_rng(n))
    got = [a.copy() for a in want]
    function(*want)
    compiled = appy.jit(strict=True, threads=threads)(function)
    compiled(*got)
    assert_same(list(got), list(want), ulps=8, scale=64.0)


@pytest.mark.parametrize("n", SIZES)
def test_exact_sums_keep_their_order(n):
    function = recurrence_programs.factor_by_columns
    want = recurrence_programs.positive(n)(np.float64, np.random.default_rng(n))
    got = [a.copy() for a in want]
    function(*want)
    appy.jit(strict=True, exact=True)(function)(*got)
    assert np.array_equal(got[0], want[0])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", ["eliminate", "orthogonalise"])
def test_what_is_behind_a_tile_gets_it_in_order(name, n, threads):
    function = getattr(recurrence_programs, name)
    want = recurrence_programs.heavy(n)(np.float64, np.random.default_rng(n))
    got = [a.copy() for a in want]
    expected = function(*want)
    result = appy.jit(strict=True, exact=True, threads=threads)(function)(*got)
    assert_same([*got, result], [*want, expected], ulps=0)


def test_explain_says_what_waits_for_the_end_of_a_tile():
    def explained(name):
        compiled = appy.jit(strict=True)(getattr(recurrence_programs, name))
        compiled(*recurrence_programs.heavy(40)(np.float64, np.random.default_rng(1)))
        return str(appy.explain(compiled))

    for name in ("eliminate", "orthogonalise"):
        assert "what is behind a tile gets" in explained(name)
    assert "what is behind a tile gets" not in explained("eliminate_in_two_loops")


def divides(function, *args):
    compiled = appy.jit(strict=True)(function)
    compiled(*args)
    return "runs in tiles of" in str(appy.explain(compiled))


def test_explain_says_which_loops_run_in_tiles():
    make = recurrence_programs.triangle(40, (40,))
    assert divides(recurrence_programs.forward_substitution_in_place, *make(np.float64, np.random.default_rng(1)))
    assert not divides(row_by_row_in_place, *arguments("row_by_row_in_place", 40))


def test_bands_stay_as_they_are():
    """Before a tile of a band there is nearly nothing, and an array for its points would be one for all of them."""

    def band(n, x, y):
        # pragma sequential for
        for i in range(n):
            for r in range(i * 5, i * 5 + 5):
                s = 0.0
                for k in range(max(0, i - 2), i):
                    s += x[k] * 0.25
                y[r] = s
            x[i] = y[i * 5] + 1.0

    want, got = ([np.zeros(200), np.zeros(1000)] for _ in range(2))
    band(200, *want)
    appy.jit(strict=True, exact=True)(band)(200, *got)
    assert_same(got, want, ulps=0)
    assert not divides(band, 200, np.zeros(200), np.zeros(1000))
