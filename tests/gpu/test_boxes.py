"""Loops over time in boxes, boxes.py on the emulated device: the same bits as without them."""

from __future__ import annotations

from pathlib import Path

import pytest
from boxes import FUNCTIONS, RUNS

PROGRAM = str(Path(__file__).parent / "boxes.py")
LINES: list[str] = []


@pytest.mark.parametrize(
    ("blocks", "order", "more"), [("", "forward", ""), ("1", "reverse", "block=256,lanes=256"), ("3", "2", "")]
)
def test_same_bits(python, blocks, order, more):
    if not LINES:
        LINES.extend(python(PROGRAM, *FUNCTIONS, APPY_CUDA_SHAPE="boxes=2").splitlines())
        assert len(LINES) == len(RUNS) * len(FUNCTIONS)
    shape = {"APPY_CUDA_SHAPE": more, "APPY_CUDA_BLOCKS": blocks, "APPY_EMULATOR_ORDER": order}
    found = python(PROGRAM, *FUNCTIONS, **shape).splitlines()
    tiled = [f"{name} is tiled" for name in FUNCTIONS]
    assert [line for line in found if line in tiled] == tiled
    assert [line for line in found if line not in tiled] == LINES
