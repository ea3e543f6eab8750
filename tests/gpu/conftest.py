"""The emulated device, for tests in this process and in others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import emulate

import appy

ROOT = Path(__file__).parent.parent.parent
_OURS = ("APPY_", "CUDA_", "LD_LIBRARY_PATH")


def _device_here() -> bool:
    """A device that is not emulated."""
    env = {name: value for name, value in os.environ.items() if name not in ("APPY_LIBCUDA", "APPY_LIBNVRTC")}
    text = "import appy, sys; sys.exit(not appy.devices())"
    return subprocess.run([sys.executable, "-c", text], env=env | {"PYTHONPATH": str(ROOT)}).returncode == 0


def pytest_collection_modifyitems(config, items):
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked or config.option.collectonly:
        return
    insists = os.environ.get("APPY_TEST_GPU") == "1"
    if insists or _device_here():
        return
    for item in marked:
        item.add_marker(pytest.mark.skip(reason="no device"))


@pytest.fixture(scope="session")
def _emulated_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture
def emulated(emulator_path, _emulated_cache, monkeypatch):
    """This process runs kernels on the emulated device. What a process has loaded stays: with a real one it is skipped."""
    if os.environ.get("APPY_TEST_GPU") == "1":
        pytest.skip("this run is for the device")
    monkeypatch.setenv("APPY_LIBCUDA", emulator_path)
    monkeypatch.setenv("APPY_LIBNVRTC", emulator_path)
    monkeypatch.setenv("APPY_CACHE_DIR", str(_emulated_cache))
    if not appy.devices():
        # scripts/test runs these tests in processes of their own, where that is a failure.
        assert os.environ.get("APPY_TEST_KERNELS") != "1"
        pytest.skip("this process has looked for a driver before")


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
        done = subprocess.run([sys.executable, *arguments], env=env, capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def eager(python, tmp_path):
    """Runs a program with kernels of this shape; the emulated device does its work at once."""

    def run(text, *arguments, shape):
        program = tmp_path / "program.py"
        program.write_text(text)
        quiet = ("-X", "utf8", "-W", "ignore")
        return python(*quiet, str(program), *arguments, APPY_CUDA_SHAPE=shape, APPY_EMULATOR_EAGER=1)

    return run
