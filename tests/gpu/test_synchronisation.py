"""Kernels with barriers: any order of threads and any number of blocks gives the answer, and none without one of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import emulate
import pytest
from run_synchronised import barriers
from synchronised import SYNCHRONISED

HERE = Path(__file__).parent
ORDERS = ["forward", "reverse", "depth", "1", "2"]
# What the pass keeps for caution: the barrier's number, and why its absence is not seen.
SPARE: dict[str, dict[int, str]] = {
    "boxes": {2: "a thread stores of a box what it loads of the next one: four rows above are whole turns of threads"},
    "many_steps": {2: "each worker has one tile"},
    "rows_in_two_loops": {2: "it does not see that only the lane that stores to s uses what all of them loaded"},
}


@pytest.fixture
def run(tmp_path):
    def start(name, orders, **variables):
        env = {key: value for key, value in os.environ.items() if not key.startswith("APPY_")}
        library = str(emulate.build())
        env |= {"PYTHONPATH": str(HERE.parent.parent), "APPY_LIBCUDA": library, "APPY_LIBNVRTC": library}
        env |= {"APPY_CACHE_DIR": str(tmp_path / "_".join(map(str, variables.values())))}
        env |= {key: str(value) for key, value in variables.items()}
        return subprocess.run(
            [sys.executable, str(HERE / "run_synchronised.py"), name, *orders],
            env=env,
            capture_output=True,
            text=True,
            timeout=200,
        )

    return start


def answers(done):
    assert done.returncode == 0, done.stderr[-3000:]
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.parametrize("name", SYNCHRONISED)
def test_each_barrier_is_needed(name, run):
    first = run(name, ORDERS)
    assert [(order, "same") for order in ORDERS] == [(order, same) for order, same, _ in answers(first)]
    spare = SPARE.get(name, {})
    for number in range(1, barriers(first.stderr) + 1):
        done = run(name, ["--until-one-differs", *ORDERS], APPY_EMULATOR_DROP_BARRIER=number)
        missed = done.returncode == 0 and all(same == "same" for _, same, _ in answers(done))
        assert missed == (number in spare), f"barrier {number}: {done.stdout}{done.stderr[-500:]}"


@pytest.mark.parametrize("blocks", [1, 2, 1000])
@pytest.mark.parametrize("name", SYNCHRONISED)
def test_often_with_any_number_of_blocks(name, blocks, run):
    times = 20 if blocks < 1000 else 6  # so many blocks take as long as they have threads
    got = answers(run(name, [str(seed) for seed in range(times)], APPY_CUDA_BLOCKS=blocks))
    assert [same for _, same, _ in got] == ["same"] * times
    assert len({digest for *_, digest in got}) == 1


def test_programs_have_barriers(run):
    counts = {name: barriers(run(name, ["forward"]).stderr) for name in SYNCHRONISED}
    assert sum(counts.values()) >= 18, counts
    assert sum(count > 0 for count in counts.values()) >= 11, counts
