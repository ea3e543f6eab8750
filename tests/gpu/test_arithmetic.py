"""Quotients by one divisor are those of `/`, and exp is as near as its text says, over the whole range."""

from __future__ import annotations

import numpy as np
import pytest

import appy


def rows_by_one(x, s, y):
    # pragma parallel for
    for i in range(x.shape[0]):
        by = s[i]
        # pragma simd
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] / by


def columns_by_one(x, s, y):
    # pragma parallel for simd
    for j in range(x.shape[1]):
        for i in range(x.shape[0]):
            y[i, j] = x[i, j] / s[j]


def exponentials(x, y):
    # pragma parallel for simd
    for i in range(x.shape[0]):
        y[i] = np.exp(x[i])


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("program", [rows_by_one, columns_by_one])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_quotients_are_correctly_rounded(program, dtype):
    compiled = appy.jit(strict=True, backend="cuda")(program)
    rng = np.random.default_rng(1)
    of = np.finfo(dtype)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, of.tiny, of.smallest_subnormal, of.max, 1, 3]
    for exponents in np.array([0, 0.02, 0.2, 0.25, 0.3, 0.6, 0.99]) * of.maxexp:

        def numbers(*shape, exponents=exponents):
            drawn = rng.uniform(1, 2, shape) * np.exp2(rng.uniform(-exponents, exponents, shape))
            return (drawn * rng.choice([-1, 1], shape)).astype(dtype)

        x, s = numbers(40, 40), numbers(40)
        x[:, : len(special)] = special
        s[: len(special)] = special
        got, want = np.zeros_like(x), np.zeros_like(x)
        compiled(x, s, got)
        with np.errstate(all="ignore"):
            program(x, s, want)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        shown = ~np.isnan(want)
        np.testing.assert_array_equal(got[shown].view(f"u{of.bits // 8}"), want[shown].view(f"u{of.bits // 8}"))


@pytest.mark.usefixtures("emulated")
def test_exponentials():
    compiled = appy.jit(strict=True, backend="cuda")(exponentials)
    rng = np.random.default_rng(2)
    ends = [709.78, 709.783, 710.5, 1e300, -708.0, -708.5, -745.13, -745.14, -746.5, -1e300, 1e-300, 0.0, -0.0]
    x = np.concatenate([rng.uniform(-750, 712, 20000), rng.uniform(-1, 1, 20000), ends, [np.nan, np.inf, -np.inf]])
    got, want = np.zeros_like(x), np.zeros_like(x)
    compiled(x, got)
    with np.errstate(all="ignore"):
        want = np.exp(x)
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite])
    assert np.max(np.abs(got[finite] - want[finite]) / np.spacing(want[finite])) <= 1
