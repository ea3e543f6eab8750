"""The benchmark of tiles in time, as a command."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_rows(tmp_path):
    command = [sys.executable, str(ROOT / "benchmarks" / "time_tiles.py"), "--preset", "tiny", "--rounds", "2"]
    subprocess.run(
        [*command, "--only", "heat_3d,fdtd_2d", "--json", str(tmp_path / "rows.json")],
        check=True,
        timeout=300,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert list(rows) == ["heat_3d", "fdtd_2d"]
    for row in rows.values():
        assert row["tiled"] > 0 and row["plain"] > 0 and row["gain"] > 0
        assert len(row["seconds"]) == 3 and min(row["seconds"]) > 0
        assert row["at_most"] >= 1 and row["beyond"]["gain"] > 0
