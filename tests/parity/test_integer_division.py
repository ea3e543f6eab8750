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


LANES = """
def divide(a, q, r):
    # pragma 0=>parallel
    q[:] = a // {c}
    # pragma 0=>parallel
    r[:] = a % {c}
"""
ONE_BY_ONE = """
def divide(a, q, r):
    # pragma sequential for
    for i in range(len(a)):
        q[i] = a[i] // {c}
        r[i] = a[i] % {c}
"""


@pytest.mark.parametrize("text", [LANES, ONE_BY_ONE], ids=["lanes", "one_by_one"])
@pytest.mark.parametrize(
    "dtype, c",
    [("int64", c) for c in CONSTANTS]
    + [("uint64", c) for c in (3, 7, 641, 2**32 + 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1)]
    + [(dtype, c) for dtype in ("int32", "uint32", "int16", "uint8") for c in (1, 3, 7, 10, 100, 127)]
    + [("int32", -7), ("int8", -128), ("uint32", 2**32 - 1), ("uint16", 65535)],
)
def test_constant_divisor(dtype, c, text, tmp_path):
    path = tmp_path / "constant.py"
    path.write_text(text.format(c=f"np.{dtype}({c})"))
    space: dict = {"np": np}
    exec(compile(path.read_text(), str(path), "exec"), space)
    a = numbers(np.random.default_rng(5), 20_011).astype(dtype)
    q, r = np.empty_like(a), np.empty_like(a)
    appy.jit(strict=True)(space["divide"])(a, q, r)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(q, a // a.dtype.type(c))
        np.testing.assert_array_equal(r, a % a.dtype.type(c))


def test_no_division_by_a_constant(tmp_path, capfd):
    path = tmp_path / "constant.py"
    for text, product in ((LANES, "vpmuludq"), (ONE_BY_ONE, "mul r")):
        path.write_text(text.format(c="7"))
        space: dict = {"np": np}
        exec(compile(path.read_text(), str(path), "exec"), space)
        a = np.arange(-50, 50)
        appy.jit(strict=True, dump="asm")(space["divide"])(a, a.copy(), a.copy())
        code = capfd.readouterr().err
        assert product in code and "div" not in code.split(" asm\n")[-1].replace("divide", "")
