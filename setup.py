"""Builds the extension with CMake. Everything else is declared in pyproject.toml."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent.resolve()


class CMakeExtension(Extension):
    def __init__(self, name: str) -> None:
        super().__init__(name, sources=[])


class CMakeBuild(build_ext):
    """Configures and builds the target ``_C``.

    ``CMAKE_ARGS`` adds arguments to the configuration, ``APPY_BUILD_DIR`` names a build folder that is kept.
    Without it the folder is configured anew: pip puts what the build requires in another place each time.
    """

    def build_extension(self, ext: Extension) -> None:
        target = Path(self.get_ext_fullpath(ext.name)).resolve()
        kept = os.environ.get("APPY_BUILD_DIR")
        build = Path(kept or self.build_temp).resolve()
        build.mkdir(parents=True, exist_ok=True)
        configure = [
            "cmake",
            "-S",
            str(ROOT),
            "-B",
            str(build),
            *([] if kept else ["--fresh"]),
            *(["-G", "Ninja"] if shutil.which("ninja") else []),
            f"-DPython3_EXECUTABLE={sys.executable}",
            f"-DCMAKE_BUILD_TYPE={'Debug' if self.debug else 'Release'}",
            f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY={target.parent}",
            "-DAPPY_TESTS=OFF",
            *os.environ.get("CMAKE_ARGS", "").split(),
        ]
        try:
            subprocess.run(configure, check=True)
            jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(len(os.sched_getaffinity(0))))
            subprocess.run(["cmake", "--build", str(build), "--target", "_C", "--parallel", jobs], check=True)
        except FileNotFoundError:
            raise SystemExit("appy needs CMake 3.25 or newer to build: install Debian's cmake") from None
        except subprocess.CalledProcessError as error:
            raise SystemExit(f"building appy's extension failed (exit status {error.returncode}); see above") from None


setup(ext_modules=[CMakeExtension("appy._C")], cmdclass={"build_ext": CMakeBuild})
