"""A matrix that one statement writes and the next one sums down its columns is gone over once."""

from __future__ import annotations

import numpy as np
import pytest

import appy


def updated(a, u, v, y, x, w):
    # pragma parallel for
    for i in range(a.shape[0]):
        # pragma simd
        for j in range(a.shape[1]):
            a[i, j] += u[i] * v[j]
    # pragma parallel for
    for j in range(a.shape[1]):
        s = 0.0
        # pragma simd
        for i in range(a.shape[0]):
            s += a[i, j] * y[i]
        x[j] += s
    # pragma parallel for
    for i in range(a.shape[0]):
        s = 0.0
        # pragma simd
        for j in range(a.shape[1]):
            s += a[i, j] * x[j]
        w[i] += s


def statements(a, u, v, y, x, w):
    # pragma 0=>parallel 1=>simd
    a += np.outer(u, v)
    # pragma 0=>parallel
    x += y @ a
    # pragma 0=>parallel
    w += a @ x


def largest(a, u, v, y, x, w):
    # pragma 0=>parallel 1=>simd
    a[:, :] = u[:, None] * v - 1
    # pragma 0=>parallel
    x[:] = a.max(axis=0)


def in_turn(a, u, v, y, x, w):
    # pragma sequential for
    for t in range(3):
        # pragma 0=>parallel 1=>simd
        a += np.outer(u, v)
        # pragma 0=>parallel
        x[:] = y @ a
        # pragma 0=>parallel
        u[:] = 0.5 * u + 1e-3 * a[:, 0]


SHAPES = [(1, 1), (3, 5), (40, 30), (0, 4), (5, 0), (7, 1023), (7, 1024), (0, 1030), (1, 1025), (70, 1050), (150, 2049)]


def assert_close(got, want):
    # Sums of terms much larger than themselves are as exact as the largest of them.
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12 * max(1.0, np.abs(want).max(initial=0.0)))


def check(program, shape):
    m, n = shape
    if program is in_turn and n == 0:
        pytest.skip("reads the first column")
    rng = np.random.default_rng(m + n)
    if program is largest and m == 0:
        pytest.skip("NumPy has no maximum of nothing")
    arguments = [rng.uniform(-1, 1, s) for s in [(m, n), m, n, m, n, m]]
    compiled = appy.jit(strict=True, backend="cuda")(program)
    for order in ("C", "F"):
        got, want = [[np.array(a, order=order) for a in arguments] for _ in range(2)]
        compiled(*got)
        appy.synchronize()
        program(*want)
        for g, w in zip(got, want):
            assert_close(g, w)
    if m > 1 and n > 1:  # others are not planes
        assert "which sums its columns, where there are 1024 or more" in str(appy.explain(compiled))


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("program", [updated, statements, largest, in_turn])
def test_every_element_once(program, shape):
    check(program, shape)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [*SHAPES, (3000, 5000), (20000, 1100)])
@pytest.mark.parametrize("program", [updated, statements, largest, in_turn])
def test_every_element_once_on_a_device(program, shape):
    check(program, shape)


def shifted(a, u, v, y, x, w):
    # pragma parallel for
    for i in range(a.shape[0]):
        # pragma simd
        for j in range(a.shape[1]):
            a[i, j] += u[i] * v[j]
    # pragma parallel for
    for j in range(a.shape[1] - 1):
        s = 0.0
        # pragma simd
        for i in range(a.shape[0]):
            s += a[i, j + 1] * y[i]
        x[j] += s


def factor_is_written(a, u, v, y, x, w):
    # pragma parallel for
    for i in range(a.shape[0]):
        # pragma simd
        for j in range(a.shape[1]):
            a[i, j] += u[i] * v[j]
    # pragma parallel for
    for j in range(a.shape[1]):
        s = 0.0
        # pragma simd
        for i in range(a.shape[0]):
            s += a[i, j]
        v[j] = s


def some_rows(a, u, v, y, x, w):
    # pragma parallel for
    for i in range(a.shape[0]):
        # pragma simd
        for j in range(a.shape[1]):
            a[i, j] += u[i] * v[j]
    # pragma parallel for
    for j in range(a.shape[1]):
        s = 0.0
        # pragma simd
        for i in range(a.shape[0]):
            if y[i] > 0:
                s += a[i, j]
        x[j] = s


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("program", [shifted, factor_is_written, some_rows])
def test_what_does_not_sum_each_element_stays_as_it_is(program):
    rng = np.random.default_rng(5)
    arguments = [rng.uniform(-1, 1, s) for s in [(40, 1100), 40, 1100, 40, 1100, 40]]
    got, want = [[a.copy() for a in arguments] for _ in range(2)]
    compiled = appy.jit(strict=True, backend="cuda")(program)
    compiled(*got)
    program(*want)
    for g, w in zip(got, want):
        assert_close(g, w)
    assert "which sums its columns" not in str(appy.explain(compiled))
