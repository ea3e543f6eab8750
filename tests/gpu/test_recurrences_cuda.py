"""Recurrences on the emulated device: one worker runs a tile, all run what is before and behind it."""

from __future__ import annotations

import copy
import re

import kernels
import numpy as np
import pytest

import appy

PROGRAMS = kernels.register()
from compare import assert_same  # noqa: E402  (lies beside the programs)

NAMES = [
    "forward_substitution",
    "factor_by_columns",
    "factor_with_a_diagonal",
    "crout",
    "band",
    "best_chain",
    "several_right_sides",
    "substitution_with_weights",
]
CHAINS = ["forward_substitution_in_place", "substitution_and_largest", "cheapest_chain"]


@pytest.mark.parametrize("shape", ["tiles=1", "tiles=2", "tiles=3", "lanes=32,block=64", "lanes=1"])
@pytest.mark.parametrize("name", NAMES + CHAINS)
def test_shapes_and_orders(name, shape, emulated, monkeypatch):
    program = PROGRAMS[f"recurrence_programs.{name}"]
    dtype = program.dtypes[0]
    want = program.make(dtype, np.random.default_rng(3))
    program.function(*want)
    monkeypatch.setenv("APPY_CUDA_SHAPE", shape)
    monkeypatch.setenv("APPY_CUDA_BLOCKS", "3")  # each has work, and few wait for the one that has a tile
    function = appy.jit(strict=True, backend="cuda")(copy.copy(program.function))
    for order in ("forward", "reverse", "2"):
        monkeypatch.setenv("APPY_EMULATOR_ORDER", order)
        got = program.make(dtype, np.random.default_rng(3))
        function(*got)
        assert_same(list(got), list(want), ulps=program.ulps, scale=program.scale, where=f"{shape}, {order}")


def text(capfd, name, stages):
    program = PROGRAMS[f"recurrence_programs.{name}"]
    function = appy.jit(strict=True, backend="cuda", dump=stages, dry_run=True)(copy.copy(program.function))
    function(*program.make(program.dtypes[0], np.random.default_rng(3)))
    return capfd.readouterr().err


def barriers(capfd, name):
    return text(capfd, name, "passes").split("\n---")[-1].count("barrier workers")


@pytest.mark.parametrize("name", ["best_chain", "cheapest_chain", "substitution_and_largest"])
def test_elements_of_every_size(name, emulated, monkeypatch):
    """Those of four and eight bytes are copied to shared memory by themselves."""
    monkeypatch.setenv("APPY_CUDA_BLOCKS", "3")
    program = PROGRAMS[f"recurrence_programs.{name}"]
    for dtype in program.dtypes:
        want = program.make(dtype, np.random.default_rng(3))
        got = copy.deepcopy(want)
        program.function(*want)
        appy.jit(strict=True, backend="cuda")(copy.copy(program.function))(*got)
        assert_same(list(got), list(want), ulps=program.ulps, scale=program.scale, where=str(dtype))


@pytest.mark.parametrize("size", [1.0, 0.0, 1e-310, 1e300])
@pytest.mark.parametrize("pivot", [2.0, -0.0, 1e-300, float("inf")])
def test_quotients_of_every_size(size, pivot, emulated, monkeypatch):
    """Those that no reciprocal gives are found when the tile is done, which begins again."""
    monkeypatch.setenv("APPY_CUDA_BLOCKS", "3")
    program = PROGRAMS["recurrence_programs.forward_substitution"]
    want = program.make(np.float64, np.random.default_rng(5))
    want[2][:] *= size
    want[2][::3] = 0
    want[0][97, 97] = pivot
    got = copy.deepcopy(want)
    with np.errstate(all="ignore"):
        program.function(*want)
        appy.jit(strict=True, backend="cuda")(copy.copy(program.function))(*got)
    np.testing.assert_allclose(got[1], want[1], rtol=1e-10, atol=1e-320)
    known = ~np.isnan(want[1])
    assert (np.signbit(got[1][known]) == np.signbit(want[1][known])).all()


@pytest.mark.parametrize("name", CHAINS)
def test_a_warp_keeps_the_rows_of_a_tile_in_registers(name, emulated, capfd):
    kernel = text(capfd, name, "asm")
    tile = kernel[kernel.index("team_of_blocks") :].split("barrier_workers")[0]
    told = tile[tile.index("const auto step") :].split("};")[0]
    assert "substitute<kLanes, 4, " in tile
    assert "[(Index)" not in told  # nothing of a step is in memory
    head = tile[tile.index("const auto head") :].split("};")[0]
    assert not re.search(r"= \w+ / \w+;", head)  # the reciprocal is there before
    assert ("divided(" in head) == (name != "cheapest_chain")


def test_warps_keep_rows_behind_a_tile_in_registers(emulated, capfd):
    kernel = text(capfd, "factor_with_a_diagonal", "asm")
    behind = kernel.split("barrier_workers")[-1]
    assert "substitute<kLanes, 2, true, " in behind
    assert "reduce_lanes" not in behind


@pytest.mark.parametrize("name", ["forward_substitution", "factor_by_columns", "crout"])
def test_what_a_tile_loads_is_copied_to_shared_memory(name, emulated, capfd):
    kernel = text(capfd, name, "asm")
    tile = re.split("barrier_workers|reduce_all", kernel[kernel.index("team_of_blocks") :])[0]
    copies, _, steps = tile.rpartition("appy_await_copies();")
    matrix = "lower" if name == "forward_substitution" else "a"
    assert re.search(rf"copy_ahead\(&{matrix}_\d+\[.*, &{matrix}\[", copies)
    assert re.search(rf"double \w+ = {matrix}_\d+\[", steps)
    assert not re.search(rf"double \w+ = {matrix}\[", steps)
    # What a lane adds up for its row it adds in several chains.
    assert ("+= 4)" in steps) == (name != "forward_substitution")


@pytest.mark.parametrize(("name", "count"), [("forward_substitution_in_place", 2 + 1), ("factor_by_columns", 3)])
def test_all_wait_for_each_other_a_few_times_a_tile(name, count, emulated, capfd):
    """A substitution twice, and once a group of tiles."""
    assert barriers(capfd, name) == count
