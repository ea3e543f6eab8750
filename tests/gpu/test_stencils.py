"""Loops over time in overlapping tiles, stencils.py on the emulated device: the same bits as without the tiles."""

from __future__ import annotations

from pathlib import Path

import pytest
from stencils import FUNCTIONS

PROGRAM = str(Path(__file__).parent / "stencils.py")
LINES: list[str] = []


@pytest.mark.parametrize(
    ("blocks", "order"), [("", "forward"), ("", "1"), ("1", "reverse"), ("2", "2"), ("1000", "depth")]
)
def test_same_bits(python, blocks, order):
    if not LINES:
        LINES.extend(python(PROGRAM, *FUNCTIONS, APPY_DISABLE_PASS="overlapped_tiles").splitlines())
        assert len(LINES) == 16 * len(FUNCTIONS)
    found = python(PROGRAM, *FUNCTIONS, APPY_CUDA_BLOCKS=blocks, APPY_EMULATOR_ORDER=order).splitlines()
    tiled = [f"{name} is tiled" for name in FUNCTIONS]
    assert [line for line in found if line in tiled] == tiled
    assert [line for line in found if line not in tiled] == LINES


def test_a_tile_has_a_block(python):
    """No more tiles than multiprocessors: each is a large block."""
    text = f"""
import sys
sys.path.insert(0, {str(Path(PROGRAM).parent)!r})
import appy, stencils
compiled = appy.jit(strict=True, backend="cuda")(stencils.jacobi)
compiled(*stencils.arguments("jacobi", 70, 600))
assert appy.devices()[0].multiprocessors == 2
appy.explain(compiled)
"""
    assert "512 lanes a worker" in python(text)


SEVERAL = """
import numpy as np, appy

def several_rows(a, b, c, steps, n):
    # pragma sequential for
    for t in range(steps):
        # pragma parallel for simd
        for x in range(1, n - 2):
            b[x] = a[x - 1] + a[x]
        # pragma parallel for simd
        for x in range(1, n - 2):
            a[x] = b[x + 1] - b[x]
            c[x + 1] = c[x + 1] * 3 + b[x]

for n in (300, 3000):
    found = []
    for f in (several_rows, appy.jit(backend="cuda", strict=True)(several_rows)):
        arrays = np.arange(3 * n, dtype=np.int64).reshape(3, n)
        f(*arrays, 20, n)
        found.append(arrays.copy())
    np.testing.assert_array_equal(found[1], found[0])
"""


def test_a_point_that_stores_to_several_rows(python, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(SEVERAL)
    python(str(program), "")
