"""Neighbouring iterations as one access: types of all sizes, odd lengths, addresses that are and are not aligned."""

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

def axpy(x, y):
    # pragma parallel for simd
    for i in range(y.shape[0]):
        y[i] = x[i] * 3 + y[i]

def fill(x, y):
    # pragma parallel for simd
    for i in range(2, y.shape[0]):
        y[i] = 7

def shifted(x, y):
    # pragma parallel for simd
    for i in range(1, y.shape[0] - 1):
        y[i] = x[i - 1] + x[i + 1]

def chosen(x, y):
    # pragma parallel for simd
    for i in range(y.shape[0]):
        y[i] = x[i] if x[i] > 2 else y[i]

def backward(x, y):
    # pragma parallel for simd
    for i in range(y.shape[0] - 1, -1, -1):
        y[i] = x[y.shape[0] - 1 - i]

def update(x, y):
    # pragma 0=>parallel 1=>simd
    y[:, :] = x + y
    # pragma parallel for
    for i in range(y.shape[0]):
        # pragma simd
        for j in range(y.shape[1]):
            y[i, j] += x[i, 0] * x[0, j]

def normalise(x, y):
    # pragma parallel for
    for i in range(x.shape[0]):
        t = x[i, :] - np.max(x[i, :])
        y[i, :] = t + np.sum(t)

def two_lengths(x, y):
    # pragma parallel for
    for i in range(x.shape[0]):
        # pragma simd
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] + 1
        # pragma simd
        for j in range(x.shape[1] - 3):
            y[i, j] = y[i, j] * 2

def array(dtype, shape, shift, step, room):
    rng = np.random.default_rng(3)
    size = np.dtype(dtype).itemsize
    whole = (*shape[:-1], (shape[-1] + room) * abs(step))
    memory = np.zeros(64 + np.prod(whole) * size, np.uint8)
    start = -memory.ctypes.data % 16 + shift * size
    values = memory[start : start + np.prod(whole) * size].view(dtype).reshape(whole)[..., ::step][..., : shape[-1]]
    values[...] = rng.integers(0, 5, shape)
    return values

lines, planes = (axpy, fill, shifted, chosen, backward), (update, normalise, two_lengths)
dtype, names = sys.argv[1], sys.argv[2].split(",")
for f in (f for f in lines + planes if f.__name__ in names):
    compiled = appy.jit(strict=True)(f)
    # Aligned, shifted in one array or both; steps; rows with room behind them.
    for x_shift, y_shift, step, room in [(0, 0, 1, 0), (1, 0, 1, 0), (0, 3, 1, 0), (1, 1, 1, 0), (0, 0, 2, 0),
                                         (0, 0, -1, 0), (0, 0, 1, 1), (0, 0, 1, 16)]:
        for n in (0, 1, 2, 16, 37, 64, 203):
            if f in planes and step != 1:
                continue
            if f in (normalise,) and n == 0:
                continue
            shape = (n,) if f in lines else (9, n)
            x, y = array(dtype, shape, x_shift, step, room), array(dtype, shape, y_shift, 1, room)
            want = y.copy()
            f(x, want)
            compiled(fake_cupy.ndarray(x), fake_cupy.ndarray(y))
            appy.synchronize()
            np.testing.assert_array_equal(y, want, f"{{dtype}} {{f.__name__}} {{(x_shift, y_shift, step, room, n)}}")
print("done")
"""


@pytest.mark.parametrize(
    "dtype, names, shape",
    [
        ("float64", "axpy,fill,shifted", "piece=16,unroll=3"),
        ("float64", "chosen,backward,two_lengths", "piece=16,lanes=8,block=64"),
        ("float64", "update,normalise", "piece=16,unroll=3"),
        ("float32", "axpy,normalise", "piece=16"),
        ("float32", "update,two_lengths", "piece=16,unroll=2"),
        ("float16", "axpy,two_lengths", "piece=16,unroll=4"),
        ("int8", "axpy,update", "piece=16,unroll=2"),
    ],
)
def test_answers(eager, dtype, names, shape):
    assert eager(PROGRAM, dtype, names, shape=shape) == "done\n"
