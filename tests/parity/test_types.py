"""Types: every half and its neighbours, special complex values, what is refused and why."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from compare import assert_same

import appy


@appy.jit(strict=True)
def converted(source, target):
    # pragma simd
    for i in range(source.shape[0]):
        target[i] = source[i]


def finite_halves() -> np.ndarray:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    return every[np.isfinite(every)]


def test_doubles_round_once_to_halves():
    d = np.unique(finite_halves().astype(float))
    middle = (d[1:] + d[:-1]) / 2
    special = [np.inf, -np.inf, np.nan, 65519.99, 65520.0, 1e300, 5e-324, -0.0]
    x = np.concatenate([d, middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf), special])
    got = np.empty(x.size, np.float16)
    converted(x, got)
    with np.errstate(all="ignore"):
        want = x.astype(np.float16)
    np.testing.assert_array_equal(got.view(np.uint16), want.view(np.uint16))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?", "f4"])
def test_conversions_of_halves_and_integers(dtype):
    numbers = np.arange(-70000, 70000).astype(dtype)
    got = np.empty(numbers.size, np.float16)
    converted(numbers, got)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, numbers.astype(np.float16))
    halves = finite_halves()
    halves = halves[(halves >= 0) & (halves < 100)]
    back = np.empty(halves.size, dtype)
    converted(halves, back)
    np.testing.assert_array_equal(back, halves.astype(dtype))


@appy.jit(strict=True)
def functions(z):
    # pragma 0=>simd
    a = np.exp(z)
    # pragma 0=>simd
    b = np.sqrt(z)
    # pragma 0=>simd
    c = np.log(z)
    # pragma 0=>simd
    d = 1 / z
    # pragma 0=>simd
    e = np.abs(z)
    return a, b, c, d, e


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
def test_complex_functions_of_special_values(dtype):
    edges = [0.0, -0.0, 1, -1, 1e300, 1e-300, 5e-324, np.inf, -np.inf, np.nan, 1.7e308, 3e-170, 710, -746, 1 + 1e-9]
    with np.errstate(all="ignore"):
        z = np.array([complex(a, b) for a in edges for b in edges]).astype(dtype)
        wanted = np.exp(z), np.sqrt(z), np.log(z), 1 / z, np.abs(z)
        for got, want in zip(functions(z), wanted):
            assert got.dtype == want.dtype
            for g, w in ((got.real, want.real), (got.imag, want.imag)):
                close = np.abs(g - w) <= 16 * np.finfo(dtype).eps * np.abs(want)
                assert np.all((g == w) | (np.isnan(g) & np.isnan(w)) | close)


@appy.jit(strict=True)
def divided(z, w):
    # pragma sequential for
    for _ in range(3):
        z = z / w
    return z


def test_python_complex_numbers_raise_as_python_does():
    with pytest.raises(ZeroDivisionError) as got:
        divided(1 + 1j, 0j)
    with pytest.raises(ZeroDivisionError) as want:
        (1 + 1j) / 0j
    assert str(got.value) == str(want.value)
    assert type(divided(1 + 1j, 2j)) is complex
    assert type(divided(np.complex64(1), 2j)) is np.complex64


@appy.jit(strict=True)
def size_of(z):
    s = 0.0
    # pragma sequential for
    for _ in range(2):
        s = abs(z)
    return s


def test_too_large_a_complex_number_overflows():
    assert size_of(3 + 4j) == 5
    with pytest.raises(OverflowError, match="absolute value too large"):
        size_of(complex(1.7e308, 1.7e308))


def doubled(x):
    # pragma simd
    for i in range(x.shape[0]):
        x[i] *= 2


def added(h, k):
    # pragma parallel for
    for i in range(k.shape[0]):
        # pragma atomic
        h[k[i]] += 1


def test_what_is_refused_has_a_reason():
    swapped = np.arange(9.0).astype(">f8")
    with pytest.raises(appy.CompileError, match="byte order"):
        appy.jit(strict=True)(doubled)(swapped)
    with pytest.raises(appy.CompileError, match="dtype"):
        appy.jit(strict=True)(doubled)(np.arange(3).astype("m8[s]"))
    with pytest.raises(appy.CompileError, match="of type recarray"):
        total(np.rec.array(np.zeros(3, [("x", "f8")])))
    unaligned = np.zeros(81, np.uint8)[1:].view("f8")
    with pytest.raises(appy.CompileError, match="not aligned"):
        appy.jit(strict=True)(added)(unaligned, np.arange(10))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        appy.jit(doubled)(swapped)
    np.testing.assert_array_equal(swapped, np.arange(9.0) * 2)


@appy.jit(strict=True)
def total(r):
    s = 0.0
    # pragma simd
    for i in range(r["x"].shape[0]):
        s += r["x"][i]
    return s


def test_other_records_are_no_other_specialization():
    for n in range(1, 12):
        r = np.zeros(n, [("y", "i4"), ("x", "f8")])
        r["x"] = np.arange(n)
        assert total(r) == n * (n - 1) / 2
    assert total.stats()["compiled"] <= 2


@appy.jit(strict=True)
def neighbours_and_rounded(h, b):
    # pragma 0=>simd
    up = np.nextafter(h, np.float16(1))
    # pragma 0=>simd
    rounded = np.round(b)
    # pragma 0=>simd
    larger = np.maximum(h, np.float16(-0.0))
    return up, rounded, larger


def test_functions_that_look_at_the_words_of_halves():
    h = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    b = np.array([True, False])
    up, rounded, larger = neighbours_and_rounded(h, b)
    np.testing.assert_array_equal(up, np.nextafter(h, np.float16(1)))
    assert rounded.dtype == np.round(b).dtype
    np.testing.assert_array_equal(rounded, np.round(b))
    want = np.maximum(h, np.float16(-0.0))
    np.testing.assert_array_equal(np.signbit(larger), np.signbit(want))
    np.testing.assert_array_equal(larger, want)


@appy.jit(strict=True)
def complex_means(z, whole, rows):
    # pragma 0=>parallel
    whole[0] = np.mean(z)
    # pragma 0=>parallel
    rows[:] = z.mean(axis=1)


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_a_mean_is_a_quotient_of_complex_numbers(dtype):
    """Infinities and NaN in one part reach the other."""
    inf, nan = np.inf, np.nan
    for special in (complex(inf, 1), complex(1, inf), complex(nan, 1), complex(1, nan), complex(-inf, inf), 3 + 4j):
        z = np.array([[1 + 2j, special, 2], [1, 2j, 3]], dtype)
        whole, rows = np.zeros(1, dtype), np.zeros(2, dtype)
        complex_means(z, whole, rows)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(whole[0], np.mean(z), rtol=1e-6)
            np.testing.assert_allclose(rows, z.mean(axis=1), rtol=1e-6)
            for part in ("real", "imag"):
                np.testing.assert_array_equal(np.isnan(getattr(rows, part)), np.isnan(getattr(z.mean(axis=1), part)))


def complex_extrema(x, y, out):
    # pragma 0=>parallel
    a = np.maximum(x, y)
    # pragma 0=>parallel
    b = np.minimum(x, y)
    # pragma 0=>parallel
    c = np.maximum(x, 1)
    # pragma 0=>parallel
    d = np.minimum(2.5, y)
    # pragma sequential for
    for i in range(len(x)):
        out[i] = np.maximum(x[i], y[i])
    return a, b, c, d


@pytest.mark.parametrize("part", ["f8", "f4"])
def test_extrema_of_complex_numbers(part):
    """By the real part, then the imaginary one; the first operand where it has a NaN."""
    parts = (0.0, -0.0, 1.0, 3.0, np.nan, np.inf, -np.inf)
    values = np.array([complex(re, im) for re in parts for im in parts])
    x, y = (v.ravel().astype(part.replace("f8", "c16").replace("f4", "c8")) for v in np.meshgrid(values, values))
    for left, right in ((x, y), (x, y.real), (x.real, y)):
        want, got = np.zeros((2, len(x)), x.dtype)
        for g, w in zip(
            appy.jit(strict=True)(complex_extrema)(left, right, got), complex_extrema(left, right, want), strict=True
        ):
            assert_same(g, w, ulps=0)
        assert_same(got, want, ulps=0)
