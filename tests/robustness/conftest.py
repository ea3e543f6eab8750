import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import appy

ROOT = str(Path(appy.__file__).parent.parent)


@pytest.fixture
def python(tmp_path):
    """Runs a program in a process of its own: what goes wrong here hangs or kills it."""

    def run(source, *arguments, timeout=60, check=True, **environment):
        script = tmp_path / "program.py"
        script.write_text(textwrap.dedent(source))
        env = {**os.environ, "PYTHONPATH": ROOT, **environment}
        command = [sys.executable, *arguments, str(script)]
        result = subprocess.run(command, capture_output=True, text=True, env=env, timeout=timeout, cwd=tmp_path)
        if check:
            assert result.returncode == 0, result.stdout + result.stderr
        return result

    return run
