"""Scalars whose Python type depends on the iteration, with both instruction sets, on one thread and on two."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import appy

ROOT = str(Path(appy.__file__).parent.parent)


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("isa", ["avx2", "avx512"])
def test_value_and_type_come_from_the_last_iteration_that_has_them(isa, threads):
    if isa == "avx512" and "avx512vl" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this processor has no AVX-512")
    settings = {"PYTHONPATH": ROOT, "APPY_ISA": isa, "APPY_NUM_THREADS": threads, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("tagged_loops.py"), "3", "150"],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
