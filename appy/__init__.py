"""appy compiles annotated Python loops: `#pragma` comments say what may run in parallel; they never change meaning.

    @appy.jit
    def saxpy(a, x, y):
        #pragma parallel for simd
        for i in range(len(x)):
            y[i] += a * x[i]

``python -m appy script.py`` does the same for a file that does not import appy.
"""

from __future__ import annotations

import atexit as _atexit
from typing import Any

from . import _C, _tune_kernels
from ._api import _finish, config, disable, enable, enabled, lower, stats, synchronize, tell_wheel_folders
from ._errors import AppyWarning, CompileError, DeviceError, DeviceMemoryError, PragmaError
from ._jit import jit
from ._warn import warn as _warn_from_compiler

_C.set_hooks(_warn_from_compiler, CompileError)
_C.set_tuning(_tune_kernels.load, _tune_kernels.save, _tune_kernels.progress)
_C.set_device_errors(DeviceError, DeviceMemoryError)
tell_wheel_folders()
_atexit.register(_finish)

__version__ = "0.1.0"

# The uncompiled library of the pragma language: NumPy under our names, loaded when it is first used.
_LIBRARY = frozenset(
    """MVL vidx tensorlib empty zeros ones full arange empty_like zeros_like copy randn randint mv dot outer matmul sum
    prod min max any all argmin argmax where maximum minimum abs sqrt exp log sin cos tan tanh sinh cosh floor ceil
    power mean transpose isnan isinf isfinite erf sign exp2 log2 log10 arctan arctan2 arcsin arccos""".split()
)
# What `from appy import *` leaves alone: names of builtins.
_SHADOWS = frozenset("sum min max any all abs".split())


def __getattr__(name: str) -> Any:
    if name in _LIBRARY:
        from . import _library

        return _library.get(name)
    if name == "utils":
        import importlib

        return importlib.import_module("." + name, __name__)
    if name == "explain":
        from ._explain import explain

        return explain
    if name == "devices":
        from ._devices import devices

        return devices
    raise AttributeError(f"module 'appy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LIBRARY, "utils", "explain", "devices"})


__all__ = [
    "AppyWarning",
    "CompileError",
    "DeviceError",
    "DeviceMemoryError",
    "PragmaError",
    "config",
    "devices",
    "disable",
    "enable",
    "enabled",
    "explain",
    "jit",
    "lower",
    "stats",
    "synchronize",
    "utils",
    *sorted(_LIBRARY - _SHADOWS),
]
