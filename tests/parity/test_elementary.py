"""Elementary functions in simd loops, where they are compiled into the loop: errors of a few ulp, and every special value
(rules 4 and 10 of docs/language.md)."""

from __future__ import annotations

import math

import numpy as np
import pytest

import appy

EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.0, 1e-300, -1e-300, 5e-324, 1e-310, 1e-40, 1e300,
         -1e300, 3e38, 709.7, 709.79, 710.4, -708.5, -745.1, -745.2, -746.0, 88.7, 88.8, 89.05, 89.45, -87.5, -103.9,
         -104.1, 1023.9, 1024.0, -1074.5, -1075.5, 1e5, 100001.0, 1e22, math.pi, math.pi / 2, 1.0000000000000002,
         0.9999999999999999, 0.7071067811865475, 1.4142135623730951, 0.34657359027997264]  # fmt: skip


@appy.jit(strict=True)
def run_exp(x, out):
    # pragma simd
    for i in range(len(x)):
        out[i] = np.exp(x[i])


@appy.jit(strict=True)
def run_exp2(x, out):
    # pragma simd
    for i in range(len(x)):
        out[i] = np.exp2(x[i])


@appy.jit(strict=True)
def run_expm1(x, out):
    # pragma simd
    for i in range(len(x)):
        out[i] = np.expm1(x[i])


@appy.jit(strict=True)
def run_log(x, out):
    # pragma simd
    for i in range(len(x)):
        out[i] = np.log(x[i])


@appy.jit(strict=True)
def run_log2(x, out):
    # pragma simd
    for i in range(len(x)):
        out[i] = np.log2(x[i])


@appy.jit(strict=True)
def run_log10(x, out):
    # pragma simd
    for i in range(len(x)):
        out[i] = np.log10(x[i])


@appy.jit(strict=True)
def run_log1p(x, out):
    # pragma simd
    for i in range(len(x)):
        out[i] = np.log1p(x[i])


@appy.jit(strict=True)
def run_sin(x, out):
    # pragma simd
    for i in range(len(x)):
        out[i] = np.sin(x[i])


@appy.jit(strict=True)
def run_cos(x, out):
    # pragma simd
    for i in range(len(x)):
        out[i] = np.cos(x[i])


@appy.jit(strict=True)
def run_tan(x, out):
    # pragma simd
    for i in range(len(x)):
        out[i] = np.tan(x[i])


@appy.jit(strict=True)
def run_arcsin(x, out):
    # pragma simd
    for i in range(len(x)):
        out[i] = np.arcsin(x[i])


@appy.jit(strict=True)
def run_arccos(x, out):
    # pragma simd
    for i in range(len(x)):
        out[i] = np.arccos(x[i])


@appy.jit(strict=True)
def run_arctan(x, out):
    # pragma simd
    for i in range(len(x)):
        out[i] = np.arctan(x[i])


@appy.jit(strict=True)
def run_sinh(x, out):
    # pragma simd
    for i in range(len(x)):
        out[i] = np.sinh(x[i])


@appy.jit(strict=True)
def run_cosh(x, out):
    # pragma simd
    for i in range(len(x)):
        out[i] = np.cosh(x[i])


@appy.jit(strict=True)
def run_tanh(x, out):
    # pragma simd
    for i in range(len(x)):
        out[i] = np.tanh(x[i])


@appy.jit(strict=True)
def run_arcsinh(x, out):
    # pragma simd
    for i in range(len(x)):
        out[i] = np.arcsinh(x[i])


@appy.jit(strict=True)
def run_arccosh(x, out):
    # pragma simd
    for i in range(len(x)):
        out[i] = np.arccosh(x[i])


@appy.jit(strict=True)
def run_arctanh(x, out):
    # pragma simd
    for i in range(len(x)):
        out[i] = np.arctanh(x[i])


@appy.jit(strict=True)
def run_cbrt(x, out):
    # pragma simd
    for i in range(len(x)):
        out[i] = np.cbrt(x[i])


RUNS = {name[4:]: f for name, f in list(globals().items()) if name.startswith("run_")}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", RUNS)
def test_errors_and_special_values(name, dtype):
    rng = np.random.default_rng(5)
    small = np.exp(rng.uniform(-80, 80, 2000)) * rng.choice([-1, 1], 2000)
    with np.errstate(all="ignore"):
        x = np.concatenate([EDGES, rng.uniform(-1, 1, 2000), rng.uniform(-90, 710, 2000), small]).astype(dtype)
        exact = getattr(np, name)(x.astype(np.longdouble))
        want = exact.astype(dtype)
    got = np.zeros_like(x)
    RUNS[name](x, got)
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite])
    np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))
    ulps = np.abs(got[finite].astype(np.longdouble) - exact[finite]) / np.spacing(np.abs(want[finite]))
    assert np.max(ulps) <= 3, (x[finite][np.argmax(ulps)], np.max(ulps))


@appy.jit(strict=True)
def run_erf(x, out):
    # pragma simd
    for i in range(len(x)):
        out[i] = math.erf(x[i])


def test_erf():
    rng = np.random.default_rng(6)
    edges = [v for v in EDGES if abs(v) < 7 or v != v or abs(v) > 1e299]
    x = np.concatenate([edges, rng.uniform(-7, 7, 4000), rng.uniform(-1e-3, 1e-3, 200)])
    got = np.zeros_like(x)
    run_erf(x, got)
    want = np.array([math.erf(v) for v in x])
    np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    fine = ~np.isnan(want)
    assert np.max(np.abs(got[fine] - want[fine]) / np.spacing(np.abs(want[fine]))) <= 3


@appy.jit(strict=True)
def odd_twice(x, out):
    # pragma simd
    for i in range(len(x)):
        out[i] = math.erf(-(x[i] * 0.5)) + 3.0 * math.erf(x[i] * 0.5) + np.sin(-x[i]) * 0.0


def test_negated_arguments_share_code():
    x = np.linspace(-4, 4, 1001)
    got = np.zeros_like(x)
    odd_twice(x, got)
    np.testing.assert_allclose(got, [2 * math.erf(0.5 * v) for v in x], rtol=1e-15)


def in_order(x, out, function):
    # pragma sequential for
    for i in range(len(x)):
        out[i] = function(x[i])


def run_in_order(x, function, **options):
    got = np.zeros_like(x)
    compiled = appy.jit(strict=True, **options)(in_order)
    before = compiled.stats()["runs"]
    compiled(x, got, function)
    assert compiled.stats()["runs"] == before + 1
    return got


# Where glibc is not within 1 ulp.
IN_ORDER = {"log10": (0, 1e308), "sinh": (-710, 710), "cosh": (-710, 710), "tanh": (-25, 25), "arcsinh": (-1e308, 1e308),
            "arccosh": (1, 1e308), "arctanh": (-1, 1), "cbrt": (-1e308, 1e308)}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", IN_ORDER)
def test_within_one_ulp_outside_of_simd(name, dtype):
    low, high = IN_ORDER[name]
    rng = np.random.default_rng(8)
    size = np.exp(rng.uniform(-740, 708, 4000)) * rng.choice([-1, 1], 4000)
    with np.errstate(all="ignore"):
        x = np.concatenate([EDGES, rng.uniform(-2, 2, 4000), rng.uniform(-100, 100, 2000), size])
        x = x[((x >= low) & (x <= high)) | ~np.isfinite(x)].astype(dtype)
        exact = getattr(np, name)(x.astype(np.longdouble))
        want = exact.astype(dtype)
    got = run_in_order(x, getattr(np, name))
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite])
    np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))
    ulps = np.abs(got[finite].astype(np.longdouble) - exact[finite]) / np.spacing(np.abs(want[finite]))
    assert np.max(ulps) <= 1.001, (x[finite][np.argmax(ulps)], np.max(ulps))


@pytest.mark.parametrize("name", ["tanh", "sinh", "acosh", "log10", "cbrt", "erfc"])
def test_exact_calls_what_python_calls(name):
    if not hasattr(math, name):
        pytest.skip("not in this Python's math")
    x = np.random.default_rng(9).uniform(1.0, 20.0, 3000)
    got = run_in_order(x, getattr(math, name), exact=True)
    np.testing.assert_array_equal(got, [getattr(math, name)(float(v)) for v in x])


@pytest.mark.parametrize("name", ["erfc", "gamma"])
def test_special_functions_within_one_ulp(name):
    mpmath = pytest.importorskip("mpmath")
    x = np.random.default_rng(10).uniform(-5, 25, 600)
    got = run_in_order(x, getattr(math, name))
    with mpmath.workprec(120):
        exact = [getattr(mpmath, name)(mpmath.mpf(float(v))) for v in x]
        ulps = [abs(mpmath.mpf(float(g)) - e) / float(np.spacing(abs(float(e)))) for g, e in zip(got, exact)]
    assert max(ulps) <= 1.001, x[int(np.argmax([float(u) for u in ulps]))]
