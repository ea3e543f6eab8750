"""Statements and loops over whole matrices, whose rows follow each other in memory, or do not, or not in all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

PROGRAM = f"""
import itertools, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import fake_cupy
cupy = fake_cupy.install()
import numpy as np
import appy

def added(x, y, z):
    # pragma 0=>parallel 1=>simd
    y[...] = 2 * x + y

def centred(x, y, z):
    # pragma 0=>parallel 1=>simd
    s = np.sum(x)
    # pragma 0=>parallel 1=>simd
    y[...] = x - s

def chained(x, y, z):
    # pragma sequential for
    for t in range(3):
        # pragma 0=>parallel 1=>simd
        y[...] = y + x
        # pragma 0=>parallel 1=>simd
        z[...] = 2 * y - z
        # pragma 0=>parallel 1=>simd
        y[...] = y + z

def beside_rows(x, y, z):
    # pragma sequential for
    for t in range(3):
        # pragma 0=>parallel 1=>simd
        y[...] = y + x
        # pragma 0=>parallel 1=>simd
        y[...] = y * x[0] + z

def by_loops(x, y, z):
    # pragma parallel for
    for i in range(x.shape[0]):
        # pragma simd
        for j in range(x.shape[1]):
            if x[i, j] > 2:
                y[i, j] = x[i, j] + z[i, j]

def numbered(x, y, z):
    # pragma parallel for
    for i in range(x.shape[0]):
        # pragma simd
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] + 10 * i + j

def upper(x, y, z):
    # pragma parallel for
    for i in range(1, x.shape[0]):
        # pragma simd
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] * 2

def growing(x, y, z):
    # pragma sequential for
    for t in range(x.shape[1]):
        # pragma parallel for
        for i in range(x.shape[0]):
            # pragma simd
            for j in range(t):
                y[i, j] = x[i, j] + y[i, j]

def of_numbers(x, y, z, n, m):
    # pragma parallel for
    for i in range(n):
        # pragma simd
        for j in range(m):
            y[i, j] = x[i, j] + z[i, j]

def array(dtype, shape, room, order, seed):
    values = np.empty((*shape[:-1], shape[-1] + room), dtype, order=order)[..., : shape[-1]]
    values[...] = np.random.default_rng(seed).integers(0, 5, shape)
    return values

dtype, names = sys.argv[1], sys.argv[2].split(",")
for f in [globals()[name] for name in names]:
    compiled = appy.jit(strict=True)(f)
    # Rows that are longer than what is touched of them, in one of the arrays or all; Fortran's order, in one or all.
    for rooms in ((0, 0, 0), (0, 1, 0), (2, 2, 2), (0, 0, 5)):
        for orders in ("CCC", "FFF", "CCF"):
            for shape in [(0, 3), (3, 0), (1, 7), (5, 1), (9, 16), (7, 37), (3, 203)] + [(2, 3, 5), (3, 4, 16)]:
                if len(shape) == 3 and f in (by_loops, numbered, upper, growing, of_numbers):
                    continue
                if 0 in shape and f is beside_rows:
                    continue
                arrays = [array(dtype, shape, room, order, k) for k, (room, order) in enumerate(zip(rooms, orders))]
                for less in (0, 1, 300) if f is of_numbers else (0,):
                    numbers = (shape[0], shape[1] - less) if f is of_numbers else ()
                    want = [a.copy(order="K") for a in arrays]
                    f(*want, *numbers)
                    compiled(*[fake_cupy.ndarray(a) for a in arrays], *numbers)
                    appy.synchronize()
                    for a, b in zip(arrays, want):
                        text = f"{{dtype}} {{f.__name__}} {{rooms}} {{orders}} {{shape}} {{numbers}}"
                        np.testing.assert_array_equal(a, b, text)
print("done")
"""


@pytest.mark.parametrize(
    "dtype, names, shape",
    [
        ("float64", "added,centred,upper", "piece=16,unroll=3"),
        ("float64", "growing,of_numbers", "piece=16,unroll=2"),
        ("float64", "chained,beside_rows", "piece=16,unroll=2"),
        ("float64", "chained,by_loops,numbered", "unroll=1,block=64"),
        ("float32", "added,beside_rows", "piece=16,unroll=4"),
        ("int8", "added,chained,by_loops", "piece=16"),
    ],
)
def test_answers(eager, dtype, names, shape):
    assert eager(PROGRAM, dtype, names, shape=shape) == "done\n"
