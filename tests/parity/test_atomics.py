"""Atomic updates: every operator and dtype, of elements and slices, on indices that collide, by several workers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import appy

OPERATORS = ("+=", "-=", "*=", "/=", "//=", "%=", "**=", "<<=", ">>=", "&=", "|=", "^=")
DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
N, BINS, WIDTH = 4000, 7, 5

FORMS = {
    "element": "h[at[i], 0] {op} v[i, 0]",
    "slice": "h[at[i], :] {op} v[i, :]",
    "gather": "h[g[i], 0] {op} v[i, :]",
    "scalar": "h[at[i], 1] {op} 1",
    "max": "h[at[i], 0] = max(h[at[i], 0], v[i, 0])",
    "min": "h[at[i], 0] = min(h[at[i], 0], v[i, 0])",
    "maximum": "h[at[i], :] = np.maximum(h[at[i], :], v[i, :])",
}


def function_of(form: str, op: str, tmp_path):
    path = tmp_path / "atomic.py"
    path.write_text(
        "import numpy as np\n"
        "def f(h, at, g, v):\n"
        "    # pragma parallel for\n"
        "    for i in range(v.shape[0]):\n"
        "        # pragma atomic\n"
        f"        {FORMS[form].format(op=op)}\n"
    )
    space: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    return space["f"]


def arguments(dtype):
    rng = np.random.default_rng(3)
    dtype = np.dtype(dtype)
    if dtype == bool:
        h, v = rng.integers(0, 2, (BINS, WIDTH)) > 0, rng.integers(0, 2, (N, WIDTH)) > 0
    else:
        # Small whole numbers: what depends on the order is seen, rounding is not.
        h = rng.integers(1, 100, (BINS, WIDTH)).astype(dtype)
        v = rng.integers(0 if dtype.kind != "f" else -2, 3, (N, WIDTH)).astype(dtype)
    at = rng.integers(0, BINS, N)
    return h, at, rng.integers(0, BINS, (N, WIDTH)), v


def outcome(function, dtype):
    h, at, g, v = arguments(dtype)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            function(h, at, g, v)
        except (TypeError, ZeroDivisionError, OverflowError, ValueError) as e:
            return type(e), h
    return None, h


CASES = [(form, op) for form in FORMS for op in (OPERATORS if "op" in FORMS[form] else ("=",))]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("form", "op"), CASES, ids=[f"{f}{o}" for f, o in CASES])
def test_as_python(form, op, dtype, tmp_path):
    function = function_of(form, op, tmp_path)
    want = outcome(function, dtype)
    for threads in (1, 4):
        compiled = appy.jit(strict=True, threads=threads)(function)
        try:
            got = outcome(compiled, dtype)
        except appy.CompileError:
            assert want[0] is not None and issubclass(want[0], TypeError)  # left to NumPy, which refuses it
            return
        assert got[0] is want[0] or (want[0] and issubclass(want[0], TypeError) and issubclass(got[0], TypeError))
        if want[0] is None:
            np.testing.assert_array_equal(got[1], want[1])
            assert compiled.stats()["runs"] > 0 and compiled.stats()["declined"] == 0


def repeated(h, idx, v, n):
    h[idx[:n]] += v[:n]
    # pragma 0=>simd
    h[idx[:n]] += v[:n]
    # pragma 0=>simd
    h[idx[:n]] *= v[:n]


def test_a_repeated_index_counts_once():
    v, idx = np.arange(9.0) + 1, np.array([1, 1, 2, 1, 0, 0, 3, 3, 3])
    results = []
    for f in (repeated, appy.jit(strict=True)(repeated)):
        h = np.ones(5)
        f(h, idx, v, 7)
        results.append(h)
    np.testing.assert_array_equal(*results)


def complex_updates(z, w, at):
    # pragma parallel for
    for i in range(3):
        # pragma atomic
        z[:5] += z[1:6] * 1j
        # pragma atomic
        z[at] -= z[:5] * 1j
        # pragma atomic
        z[i % 2] += w[i]
        # pragma atomic
        z[i % 2] += 1


@pytest.mark.parametrize("dtypes", [("c8", "c16"), ("c16", "c8"), ("c16", "c16")])
def test_complex_updates_read_before_they_store(dtypes):
    rng = np.random.default_rng(1)
    z, w = ((rng.normal(size=12) + 1j * rng.normal(size=12)).astype(dtype) for dtype in dtypes)
    at = np.array([3, 5, 7, 9, 1])
    want = z.copy()
    complex_updates(want, w, at)
    for threads in (1, 2):
        got = z.copy()
        appy.jit(strict=True, threads=threads)(complex_updates)(got, w, at)
        np.testing.assert_allclose(got, want, rtol=1e-5 if dtypes[0] == "c8" else 1e-13)


def rounded_updates(z, w):
    # pragma parallel for
    for i in range(w.shape[0]):
        # pragma atomic
        z[i % 4] += w[i]


def scaled(z, w):
    # pragma parallel for
    for i in range(w.shape[0]):
        # pragma atomic
        z[i % 4] *= w[i]


def test_wider_complex_numbers_are_added_before_they_are_rounded():
    rng = np.random.default_rng(1)
    w = rng.normal(size=37) + 1j * rng.normal(size=37)
    want, got = np.zeros(4, np.complex64), np.zeros(4, np.complex64)
    rounded_updates(want, w)
    appy.jit(strict=True, exact=True)(rounded_updates)(got, w)
    np.testing.assert_array_equal(got, want)
    want, got = np.ones(4, complex), np.ones(4, complex)
    scaled(want, w)
    appy.jit(strict=True)(scaled)(got, w)
    np.testing.assert_allclose(got, want, rtol=1e-12)


def counted_by_a_condition(mask, h, w):
    # pragma simd
    for i in range(mask.shape[0]):
        if mask[i]:
            # pragma atomic
            h[0] += w


def added_to_each(mask, h, w):
    # pragma simd
    for i in range(mask.shape[0]):
        # pragma atomic
        h[i] += w


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16"])
@pytest.mark.parametrize("updated", ["uint8", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("function", [counted_by_a_condition, added_to_each])
def test_an_invariant_value_is_wider_than_the_lanes(function, updated, dtype):
    compiled = appy.jit(strict=True)(function)
    w = np.dtype(updated).type(1)
    for n in (0, 1, 31, 32, 63, 64, 65, 130, 200, 256, 300, 511, 600):
        mask = (np.arange(n) % 3 == 0).astype(dtype)
        got, want = np.zeros(n + 1, updated), np.zeros(n + 1, updated)
        compiled(mask, got, w)
        function(mask, want, w)
        np.testing.assert_array_equal(got, want)
