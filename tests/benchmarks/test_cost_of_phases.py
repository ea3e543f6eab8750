"""The table of what a phase costs, in two rounds."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_all_sides_give_a_figure_for_each_number_of_rows(tmp_path):
    kept = tmp_path / "phases.json"
    command = [sys.executable, ROOT / "benchmarks" / "phases.py", "--threads", "2", "--rounds", "2", "--json", kept]
    subprocess.run(command, check=True, timeout=200, env=os.environ | {"PYTHONPATH": str(ROOT)})
    found = json.loads(kept.read_text())
    for side in ("appy", "appy, sums", "gcc, parallel for", "gcc, one region"):
        assert [len(figures) for figures in found[side]] == [2, 2]
        assert all(math.isfinite(figure) for figures in found[side] for figure in figures)
