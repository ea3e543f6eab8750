"""APPY_PERF_MAP=1: the file in which perf looks for the names of generated code."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PROGRAM = """
import os
import numpy as np
import appy

@appy.jit(strict=True)
def sums(x):
    s = 0.0
    # pragma simd
    for i in range(len(x)):
        s += x[i]
    # pragma parallel for
    for i in range(len(x)):
        x[i] = s
    return s

class Holder:
    @appy.jit(strict=True)
    def method(self, x):
        # pragma simd
        for i in range(len(x)):
            x[i] *= 2

sums(np.ones(100)), sums(np.ones(50)), sums(np.ones(9, np.float32)), Holder().method(np.ones(3))
print(os.getpid())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="perf is Linux's")
@pytest.mark.parametrize("setting", ["1", "0", None])
def test_perf_map_names_regions(tmp_path, setting):
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    env = {k: v for k, v in os.environ.items() if k != "APPY_PERF_MAP"}
    env["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    if setting is not None:
        env["APPY_PERF_MAP"] = setting
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=env, timeout=60, check=True
    )
    path = Path(f"/tmp/perf-{done.stdout.strip()}.map")
    if setting != "1":
        assert not path.exists()
        return
    try:
        rows = [re.fullmatch(r"([0-9a-f]+) ([0-9a-f]+) appy:(.+)", line) for line in path.read_text().splitlines()]
    finally:
        path.unlink()
    assert all(rows), rows
    names = [row[3] for row in rows]
    lines = {text: n for n, text in enumerate(script.read_text().splitlines(), 1)}
    first = lines["    s = 0.0"] + 2
    method = lines["    def method(self, x):"] + 2
    assert sorted(names) == sorted([f"sums:{first}", f"sums:{first + 3}"] * 2 + [f"Holder.method:{method}"])
    # Pieces of code that do not overlap.
    spans = sorted((int(row[1], 16), int(row[2], 16)) for row in rows)
    assert all(size > 0 for _, size in spans)
    assert all(start + size <= following for (start, size), (following, _) in zip(spans, spans[1:]))
