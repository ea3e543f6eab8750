"""The emulated device, for tests in this process and in others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import emulate

ROOT = Path(__file__).parent.parent.parent
_OURS = ("APPY_", "CUDA_", "LD_LIBRARY_PATH")


@pytest.fixture(scope="session")
def emulator_path():
    return str(emulate.build())


@pytest.fixture
def python(tmp_path, emulator_path):
    """Runs Python text, or arguments, in a process of its own; ``emulated`` gives it the emulated device."""

    def run(*arguments, emulated=True, **variables):
        env = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        env |= {"PYTHONPATH": str(ROOT), "APPY_CACHE_DIR": str(tmp_path / "cache")}
        if emulated:
            env |= {"APPY_LIBCUDA": emulator_path, "APPY_LIBNVRTC": emulator_path}
        env |= {name: str(value) for name, value in variables.items()}
        if len(arguments) == 1:
            arguments = ("-c", *arguments)
        done = subprocess.run([sys.executable, *arguments], env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
