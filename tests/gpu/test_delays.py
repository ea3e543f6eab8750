"""Captured loops whose threads come late to barriers, by random delays: any number of blocks gives the same bits again.

``APPY_CUDA_DELAYS`` puts the delays into kernels. The programs are those of ``synchronised.py`` and of
``tests/parity/test_captures.py``.
"""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path

import emulate
import numpy as np
import pytest
from synchronised import SYNCHRONISED

import appy

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "parity"))
from test_captures import PROGRAMS as CAPTURED  # noqa: E402
from test_captures import outcome, same  # noqa: E402

BLOCKS = ["1", "2", "1000000"]  # as many as fit
CASES = {name: (p.function, p.arguments) for name, p in CAPTURED.items()}
CASES |= {
    f"synchronised.{name}": (f, lambda make=make: make(np.random.default_rng(3)))
    for name, (f, make) in SYNCHRONISED.items()
}
# On the emulated device: barriers of blocks and of lanes, reductions, a value of one thread for all of them.
EMULATED = [
    "conjugate",
    "relax",
    "k_means",
    "skips",
    "one_after_the_other",
    "synchronised.many_steps",
    "synchronised.reversed_sweep",
    "synchronised.shifted_rows",
    "synchronised.sums_of_sizes",
    "synchronised.fib_then_map",
]


def bits(value) -> bytes:
    if isinstance(value, (tuple, list)):
        return b"".join(map(bits, value))
    return value.tobytes() if isinstance(value, np.ndarray | np.generic) else repr(value).encode()


def run(name: str, blocks: str, times: int) -> None:
    """The answer is plain Python's, up to rounding, and the same bits each time, also without delays."""
    function, make = CASES[name]
    want = make()
    expected = outcome(function, want)
    os.environ["APPY_CUDA_BLOCKS"] = blocks
    found = set()
    for seed in ("", "1", "2"):
        os.environ["APPY_CUDA_DELAYS"] = seed
        compiled = appy.jit(copy.copy(function), backend="cuda")
        for turn in range(times if seed else 1):
            os.environ["APPY_EMULATOR_ORDER"] = str(turn)
            got = make()
            answer = outcome(compiled, got)
            assert same(answer, expected) and same(got, want), (seed, turn)
            found.add(bits((answer, got)))
        assert compiled.stats()["runs"] > 0
    assert len(found) == 1


@pytest.mark.gpu
@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("name", CASES)
def test_twenty_times_with_delays(name, blocks, monkeypatch):
    for variable in ("APPY_CUDA_BLOCKS", "APPY_CUDA_DELAYS", "APPY_EMULATOR_ORDER"):
        monkeypatch.setenv(variable, "")
    run(name, blocks, 10)  # with each of two seeds


def start(tmp_path, arguments, **variables):
    env = {key: value for key, value in os.environ.items() if not key.startswith("APPY_")}
    library = str(emulate.build())
    env |= {"PYTHONPATH": str(HERE.parent.parent), "APPY_LIBCUDA": library, "APPY_LIBNVRTC": library}
    env |= {"APPY_CACHE_DIR": str(tmp_path), "PYTHONWARNINGS": "ignore"} | variables
    return subprocess.run([sys.executable, *arguments], env=env, capture_output=True, text=True, timeout=200)


@pytest.mark.parametrize("name", EMULATED)
def test_emulated(name, tmp_path):
    done = start(tmp_path, [__file__, name, "3"])
    assert done.returncode == 0, done.stderr[-3000:]


def test_delays_reorder(tmp_path):
    """Without a barrier the answer depends on them, in the same order of the emulated device's threads."""
    arguments = [str(HERE / "run_synchronised.py"), "reversed_sweep", "forward"]
    seen = set()
    for seed in ("", "1", "2", "2"):
        done = start(tmp_path, arguments, APPY_EMULATOR_DROP_BARRIER="1", APPY_CUDA_DELAYS=seed)
        assert done.returncode == 0, done.stderr
        _, same_as_python, digest = done.stdout.split()
        assert same_as_python == "differs"
        seen.add(digest)
    assert len(seen) == 3


if __name__ == "__main__":
    for each in BLOCKS:
        run(sys.argv[1], each, int(sys.argv[2]))
