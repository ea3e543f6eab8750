"""Coverage and profilers, as their users run them."""

import cProfile
import os
import pstats
import subprocess
import sys

import pytest

import appy

SCRIPT = """
import appy

@appy.jit
def kernel(n):
    s = 0
    #pragma sequential for
    for i in range(n):
        if i > 100:
            s = -1
        s += i
    return s

for _ in range(3):
    assert kernel(10) == 45
"""


def covered_lines(tmp_path, core):
    coverage = pytest.importorskip("coverage")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    data = tmp_path / "data"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "COVERAGE_CORE": core}
    command = [sys.executable, "-m", "coverage", "run", f"--data-file={data}", str(script)]
    result = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    found = coverage.CoverageData(str(data))
    found.read()
    return sorted(found.lines(str(script)))


@pytest.mark.parametrize("core", ["ctrace", "pytrace", "sysmon"])
def test_coverage_reports_the_lines_that_ran(tmp_path, core):
    if core == "sysmon" and sys.version_info < (3, 12):
        pytest.skip("sys.monitoring came with 3.12")
    assert covered_lines(tmp_path, core) == [2, 4, 5, 6, 8, 9, 11, 12, 14, 15]


@pytest.mark.filterwarnings("ignore::appy.AppyWarning")
def test_cprofile():
    @appy.jit
    def kernel(n):
        s = 0
        # pragma sequential for
        for i in range(n):
            s += i
        return s

    profile = cProfile.Profile()
    profile.runcall(kernel, 10)
    names = {name for _, _, name in pstats.Stats(profile).stats}
    assert "kernel" in names
