"""The benchmarks of what tiles gain, as commands."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def rows_of(script, tmp_path, *options):
    path = tmp_path / "rows.json"
    subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / script), "--rounds", "2", *options, "--json", str(path)],
        check=True,
        timeout=300,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    return json.loads(path.read_text())["rows"]


def test_tiles_in_time(tmp_path):
    rows = rows_of("time_tiles.py", tmp_path, "--preset", "tiny", "--only", "heat_3d,fdtd_2d")
    assert list(rows) == ["heat_3d", "fdtd_2d"]
    for row in rows.values():
        assert row["with"] > 0 and row["without"] > 0 and row["gain"] > 0
        assert len(row["seconds"]) == 3 and min(row["seconds"]) > 0
        assert row["at_most"] >= 1 and row["beyond"]["gain"] > 0


def test_strips_of_planes(tmp_path):
    rows = rows_of("planes.py", tmp_path, "--only", "seven_points,long_lines", "--shapes", "6x5x7,7x30x8")
    assert len(rows) == 4 and {row["stencil"] for row in rows} == {"seven_points", "long_lines"}
    for row in rows:
        assert row["with"] > 0 and row["without"] > 0 and row["gain"] > 0
    assert rows[0]["shape"] == [6, 5, 7] and rows[0]["plane"] == 280
