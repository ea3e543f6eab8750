"""Builds the emulated device: a libcuda and libnvrtc without a GPU. ``python tests/gpu/emulate.py`` prints its path.

    export APPY_LIBCUDA=$(python tests/gpu/emulate.py) APPY_LIBNVRTC=$(python tests/gpu/emulate.py)

The variables that steer it are listed in ``emulator/driver.cpp``, ``emulator/nvrtc.cpp`` and ``emulator/fibers.h``.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

SOURCES = Path(__file__).parent / "emulator"


def build() -> Path:
    """The library, built once for its sources."""
    files = sorted(SOURCES.iterdir())
    text = b"".join(path.read_bytes() for path in files) + str(SOURCES).encode()
    folder = Path(tempfile.gettempdir()) / f"appy-emulator-{os.getuid()}"
    library = folder / f"libcuda-{hashlib.sha256(text).hexdigest()[:16]}.so"
    if not library.exists():
        folder.mkdir(mode=0o700, exist_ok=True)
        made = folder / f"{library.name}.{os.getpid()}"
        command = ["g++", "-std=c++20", "-O2", "-g", "-fPIC", "-shared", "-fvisibility=hidden"]
        command += [f'-DAPPY_EMULATOR_SOURCES="{SOURCES}"', "-o", str(made)]
        command += [str(path) for path in files if path.suffix == ".cpp"]
        subprocess.run(command, check=True)
        os.replace(made, library)
    return library


class Emulator:
    """The emulated device of this process."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._library = ctypes.CDLL(self.path)
        self._library.appy_emulator_calls.restype = ctypes.c_long
        self._library.appy_emulator_used_bytes.restype = ctypes.c_long
        self._library.appy_emulator_compilations.restype = ctypes.c_long

    def calls(self, name: str) -> int:
        """How often the driver's function was called, since the last reset."""
        return self._library.appy_emulator_calls(name.encode())

    def used_bytes(self) -> int:
        """Device memory in use, when all that streams were given is done."""
        return self._library.appy_emulator_used_bytes()

    def compilations(self) -> int:
        """Kernels for which g++ ran in this process."""
        return self._library.appy_emulator_compilations()

    def reset(self) -> None:
        """No call was counted, no error has happened; memory stays."""
        self._library.appy_emulator_reset()


if __name__ == "__main__":
    print(build())
