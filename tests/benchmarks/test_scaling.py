"""The commands that measure by threads and by size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(ROOT / "benchmarks" / "scaling.py"), "--rounds", "1", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


def test_by_threads(tmp_path):
    path = tmp_path / "out.json"
    done = run("--preset", "tiny", "--only", "softmax,jacobi_1d", "--threads", "1,4096", "--json", str(path))
    assert done.returncode == 0, done.stderr
    rows = json.loads(path.read_text())["rows"]
    assert set(rows) == {"softmax", "jacobi_1d"}
    assert all(row["efficiency"] == 1 and list(row["seconds"]) == ["1"] for row in rows.values())


def test_by_size(tmp_path):
    path = tmp_path / "out.json"
    done = run("--sizes", "--largest", "1000", "--only", "total", "--json", str(path))
    assert done.returncode == 0, done.stderr
    assert set(json.loads(path.read_text())["rows"]["total"]) == {"100", "1000"}


def test_what_is_unknown_is_named():
    assert "no kernel is called nothing" in run("--only", "nothing").stderr
    assert "no statement is called nothing" in run("--sizes", "--only", "nothing").stderr
