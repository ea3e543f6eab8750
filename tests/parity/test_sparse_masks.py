"""Stores under a condition that few elements meet: one branch goes around many of them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import appy


def clear(y, b):
    # pragma 0=>parallel
    y[b] = 0.0


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16"])
@pytest.mark.parametrize("n", [0, 1, 7, 31, 32, 33, 63, 64, 100, 127, 1000, 1003])
def test_values(n, dtype):
    compiled = appy.jit(strict=True)(clear)
    rng = np.random.default_rng(n)
    for share in (0.0, 0.01, 0.1, 0.5, 1.0):
        b = rng.random(n) < share
        want = rng.integers(1, 100, n).astype(dtype)
        got = want.copy()
        clear(want, b)
        compiled(got, b)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("at", range(70))
def test_one_element(at):
    y, b = np.ones(70), np.zeros(70, bool)
    b[at] = True
    appy.jit(strict=True)(clear)(y, b)
    np.testing.assert_array_equal(np.flatnonzero(y == 0), [at])


def test_a_vector_of_masks_is_tested_at_once(capfd):
    n = 100
    appy.jit(strict=True, dump="asm")(clear)(np.ones(n), np.zeros(n, bool))
    code = capfd.readouterr().err
    assert re.search(r"vptest ymm|vptestmd k\d, zmm", code), code
