"""Graphs that the passes are done with are kept on disk: who finds one there does the same without them."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

PROGRAM = """
import contextlib
import numpy as np
import appy

def steps(n, a, b):
    # pragma sequential for
    for t in range(n):
        # pragma parallel for simd
        for i in range(1, a.shape[0] - 1):
            b[i] = (a[i - 1] + a[i] + a[i + 1]) / {divisor}
        # pragma parallel for simd
        for i in range(1, a.shape[0] - 1):
            a[i] = b[i - 1] + b[i + 1]

def odd(x, y):
    # pragma parallel for simd le(7)
    for i in range(x.shape[0]):
        y[i] = x[i] + 1 if x[i] > 0 else 0

rng = np.random.default_rng(3)
for function, before in (steps, (5,)), (odd, ()):
    want = rng.random((2, 1000))
    got = want.copy()
    function(*before, *want)
    compiled = appy.jit(strict=True, backend="cuda")(function)
    compiled(*before, *got)
    assert np.array_equal(want, got), function
    with contextlib.redirect_stdout(None):
        regions = appy.explain(compiled).regions
    (one,) = [one for region in regions for one in region["specializations"] if one["runs"]]
    shape = one["summary"].split("compiled by")[0].split("read from")[0]
    print(one["passes_from_disk"], one["passes"], one["remarks"], [*shape.splitlines()])
"""


@pytest.fixture
def program(python, tmp_path):
    def run(divisor=3, **variables):
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(PROGRAM.format(divisor=divisor)))
        return python("-B", str(path), **variables).splitlines()

    return run


def graphs(folder: Path) -> list[Path]:
    return sorted((folder / "cache/kernels").glob("*.graph"))


def test_a_second_process_finds_them(program, tmp_path):
    first = program()
    kept = [path.stat().st_mtime_ns for path in graphs(tmp_path)]
    assert kept and {path.stat().st_mode & 0o777 for path in graphs(tmp_path)} == {0o600}
    second = program()
    assert [line[:6] for line in first] == ["False ", "False "]
    # What the passes did, what they remarked and the kernel's shape are as they were.
    assert [line.replace("False ", "True ", 1) for line in first] == second
    assert [path.stat().st_mtime_ns for path in graphs(tmp_path)] == kept


def test_other_programs_and_other_passes_have_their_own(program, tmp_path):
    program()
    count = len(graphs(tmp_path))
    assert program(divisor=5)[0].startswith("False")
    assert len(graphs(tmp_path)) > count
    assert program(APPY_DISABLE_PASS="overlapped_tiles")[0].startswith("False")
    assert program()[0].startswith("True")


@pytest.mark.parametrize("damage", ["truncated", "flipped", "no graph"])
def test_damaged_ones_are_made_anew(program, tmp_path, damage):
    first = program()
    for path in graphs(tmp_path):
        content = bytearray(path.read_bytes())
        if damage == "truncated":
            content = content[: len(content) // 2]
        elif damage == "flipped":
            content[-20] ^= 4
        else:
            content = bytearray()
        path.write_bytes(content)
    assert program() == first
    assert program()[0].startswith("True")


def test_shown_passes_run(program):
    """What is asked to be shown of each pass is there, whatever the cache has."""
    program()
    assert program(APPY_DUMP="passes")[0].startswith("False")
