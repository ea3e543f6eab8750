"""Quotients and remainders of 64-bit integers in lanes, where the processor has no such division."""

from __future__ import annotations

import numpy as np
import pytest

import appy

EDGES = [0, 1, -1, 2, 3, -3, 7, 2**31, 2**32, 2**50 - 1, 2**50 + 1, -(2**50) - 1, 2**53, 2**53 + 1, -(2**53) - 1,
         10**18, 2**62, -(2**62), 2**63 - 2, 2**63 - 1, -(2**63) + 1, -(2**63)]  # fmt: skip
CONSTANTS = [1, -1, 3, -3, 7, 10, 641, 1000, 2**31 - 1, 2**40 + 1, -(2**50) - 1, 2**62 + 1, 2**63 - 1, -(2**63)]


def numbers(rng, n):
    """Of all sizes, edges and their neighbours among them."""
    x = rng.integers(-(2**63), 2**63 - 1, n, endpoint=True) >> rng.integers(0, 64, n)
    edge = rng.random(n) < 0.2
    x[edge] = rng.choice(EDGES, edge.sum())
    near = rng.random(n) < 0.1
    x[near] += rng.integers(-3, 4, near.sum())
    return x


@appy.jit(strict=True)
def divide(a, b, q, r):
    # pragma parallel for simd
    for i in range(len(a)):
        q[i] = a[i] // b[i]
        r[i] = a[i] % b[i]


@pytest.mark.parametrize("seed", range(4))
def test_variable_divisor(seed):
    rng = np.random.default_rng(seed)
    a, b = numbers(rng, 50_003), numbers(rng, 50_003)
    multiple = rng.random(len(a)) < 0.3
    a[multiple] = b[multiple] * rng.integers(-5, 6, multiple.sum()) + rng.integers(-1, 2, multiple.sum())
    q, r = np.empty_like(a), np.empty_like(a)
    divide(a, b, q, r)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(q, a // b)
        np.testing.assert_array_equal(r, a % b)


@pytest.mark.parametrize("c", CONSTANTS)
def test_constant_divisor(c, tmp_path):
    path = tmp_path / "constant.py"
    path.write_text(
        f"def divide(a, q, r):\n    # pragma 0=>parallel\n    q[:] = a // ({c})\n"
        f"    # pragma 0=>parallel\n    r[:] = a % ({c})\n"
    )
    space: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    a = numbers(np.random.default_rng(5), 20_011)
    q, r = np.empty_like(a), np.empty_like(a)
    appy.jit(strict=True)(space["divide"])(a, q, r)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(q, a // c)
        np.testing.assert_array_equal(r, a % c)
