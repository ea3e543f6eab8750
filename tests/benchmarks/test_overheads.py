"""The benchmark of what appy costs besides the loops, as a command."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_first_calls(tmp_path):
    command = [sys.executable, str(ROOT / "benchmarks" / "overheads.py"), "--only", "first", "--rounds", "1"]
    subprocess.run(
        [*command, "--json", str(tmp_path / "rows.json")],
        check=True,
        timeout=300,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert len(rows) == 6 and all(0.1 < row["value"] < 10_000 and row["unit"] == "ms" for row in rows.values()), rows
