"""What a launch keeps from the one before: sizes, strides and scalars that change are seen."""

from __future__ import annotations

import numpy as np
import pytest

import appy


def part(a, b, n, scale):
    total = 0
    # pragma parallel for
    for i in range(n):
        s = 0.0
        # pragma simd
        for j in range(a.shape[1]):
            s += scale * a[i, j]
        b[i] = s
        total += i
    last = n * 2
    return total, last


def scratch(a, b):
    # pragma parallel for
    for i in range(a.shape[0]):
        row = 2 * a[i, :]
        b[i, :] = row[::-1] + np.sum(row)


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("repeat", [1, 2])
def test_sizes_and_scalars_in_turn(repeat):
    compiled = appy.jit(strict=True, backend="cuda")(part)
    rng = np.random.default_rng(repeat)
    # More than are kept, again and again, in two orders.
    cases = [(rows, columns, n) for rows in (1, 5, 40) for columns in (0, 1, 33) for n in (0, rows - 1, rows)]
    for rows, columns, n in cases * repeat + cases[::-1]:
        a = rng.random((rows, columns))
        if rows % 2:
            a = np.asfortranarray(a)
        got, want = np.full(rows, -1.0), np.full(rows, -1.0)
        for scale in (1.5, -2.0):
            assert compiled(a, got, n, scale) == part(a, want, n, scale)
            np.testing.assert_allclose(got, want, rtol=1e-13)
    assert compiled.stats()["declined"] == 0


@pytest.mark.usefixtures("emulated")
def test_arrays_of_workers_in_turn():
    compiled = appy.jit(strict=True, backend="cuda")(scratch)
    rng = np.random.default_rng(1)
    for _ in range(2):
        for rows, columns in [(3, 5), (70, 7), (2, 9000), (3, 5), (1, 1), (300, 40)]:
            a = rng.random((rows, columns))
            got, want = np.zeros_like(a), np.zeros_like(a)
            compiled(a, got)
            scratch(a, want)
            np.testing.assert_allclose(got, want, rtol=1e-12)
    assert compiled.stats()["declined"] == 0
