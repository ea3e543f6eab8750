"""Complex arrays on a device, at addresses that are aligned to both parts of an element or to one."""

from __future__ import annotations

import itertools
from pathlib import Path

PROGRAM = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import fake_cupy
cupy = fake_cupy.install()
import numpy as np
import appy

def whole(a, x, y):
    # pragma parallel for simd
    for i in range(x.shape[0]):
        y[i] = a * x[i] + y[i]

def rows(a, x, y):
    # pragma 0=>parallel 1=>simd
    y[:, :] = a * x + y.conj()

def array(dtype, shape, shift, step):
    rng = np.random.default_rng(1)
    part = np.dtype(dtype).itemsize // 2
    memory = np.zeros(64 + np.prod(shape) * step * 2 * part, np.uint8)
    start = -memory.ctypes.data % 16 + shift * part
    count = np.prod(shape) * step
    strided = memory[start : start + count * 2 * part].view(dtype)[::step]
    values = strided.reshape(shape) if step == 1 else strided
    values[...] = rng.random(shape) + 1j * rng.random(shape)
    return values

for dtype in ("complex64", "complex128"):
    for shifts, step in {list(itertools.product(itertools.product((0, 1), repeat=2), (1, 3)))!r}:
        for f, shape in ((whole, (77,)), (rows, (9, 7))):
            if f is rows and step > 1:
                continue
            x, y = (array(dtype, shape, shift, step) for shift in shifts)
            want = x.copy(), y.copy()
            f(2 - 1j, *want)
            compiled = appy.jit(strict=True)(f)
            compiled(2 - 1j, fake_cupy.ndarray(x), fake_cupy.ndarray(y))
            appy.synchronize()
            np.testing.assert_allclose(x, want[0])
            np.testing.assert_allclose(y, want[1], rtol=1e-5)
print("done")
"""


def test_alignment(eager):
    for unroll in (1, 2):
        assert eager(PROGRAM, shape=f"unroll={unroll}") == "done\n"
