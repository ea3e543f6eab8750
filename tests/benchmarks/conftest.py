"""Benchmarks run as commands."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def json_of(tmp_path):
    """What a script of benchmarks/ finds, given options, with the appy of these sources: what it writes to `--json`."""

    def run(script, *options):
        path = tmp_path / "found.json"
        command = [sys.executable, str(ROOT / "benchmarks" / script), *options, "--json", str(path)]
        subprocess.run(command, check=True, timeout=300, env=os.environ | {"PYTHONPATH": str(ROOT)})
        return json.loads(path.read_text())

    return run
