"""``python -m appy doctor``: what appy finds on this machine, what is missing, and what helps."""

from __future__ import annotations

import importlib
import os
import platform
from collections.abc import Iterator
from typing import Any

from . import _C, __version__, _selfcheck, _tune_store
from ._api import tell_wheel_folders

_LABEL = 12


def report() -> str:
    tell_wheel_folders()
    lines = [f"appy {__version__}, CPython {platform.python_version()}, {platform.system()} {platform.machine()}"]
    lines += _rows("processor", _processor())
    lines += _rows("driver", _driver())
    lines += _rows("NVRTC", _compiler())
    lines += _rows("cuBLAS", _optional(_C.gpu_blas(), "cublas", "products of matrices and substitutions"))
    lines += _rows("cuSOLVER", _optional(_C.gpu_solver(), "cusolver", "factorizations"))
    lines += _rows("devices", _devices())
    lines += _rows("cache", _cache())
    # Last: they bring an NVRTC and a driver of their own.
    lines += _rows("NumPy", _library("numpy", ""))
    lines += _rows("CuPy", _library("cupy", "pip install cupy-cuda12x or cupy-cuda13x, for arrays on the device"))
    lines += _rows("torch", _library("torch", "pip install torch, for its tensors"))
    return "\n".join(lines) + "\n"


def _rows(label: str, rows: Iterator[str]) -> Iterator[str]:
    for row in rows:
        first, *more = row.splitlines() or [""]
        yield f"{label:{_LABEL}}{first}"
        yield from (" " * _LABEL + line for line in more)
        label = ""


def _problem(of: dict[str, Any]) -> Iterator[str]:
    yield f"not usable: {of['problem']}"
    if of["remedy"]:
        yield f"-> {of['remedy']}"


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _bytes(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def _processor() -> Iterator[str]:
    isa = _C.detected_isa()  # "none" below AVX2
    yield f"{_tune_store.machine().split('/')[0]}, {'no AVX2' if isa == 'none' else isa}, {_C.default_threads()} threads"
    if isa == "none":
        yield "-> regions run in the interpreter: machine code needs AVX2 and FMA"
    if os.environ.get("APPY_DISABLE", "") not in ("", "0"):
        yield "-> APPY_DISABLE is set: nothing is compiled"
    elif not _selfcheck.usable():
        yield "-> regions run in the interpreter: the notice above says why"


def _driver() -> Iterator[str]:
    driver = _C.gpu_driver()
    if driver["version"]:
        yield f"CUDA {_version(driver['version'])}, {driver['path']}"
    if driver["problem"]:
        yield from _problem(driver)


def _compiler() -> Iterator[str]:
    compiler = _C.gpu_compiler()
    if compiler["problem"]:
        yield from _problem(compiler)
        return
    yield f"{_version(compiler['version'])}, {compiler['path']}"
    yield "for " + ", ".join(f"{number // 10}.{number % 10}" for number in compiler["architectures"])
    driver = _C.gpu_driver()["version"]
    if driver and compiler["version"] // 1000 > driver // 1000:
        yield f"-> it is newer than the driver: pip install nvidia-cuda-nvrtc-cu{driver // 1000}"


def _optional(library: dict[str, Any], name: str, otherwise: str) -> Iterator[str]:
    if library["path"]:
        yield f"{_version(library['version'])}, {library['path']}"
        return
    yield f"not used: {library['problem']}"
    if os.environ.get(f"APPY_LIB{name.upper()}") != "none":
        yield f"-> {otherwise} are appy's own kernels; pip install nvidia-{name} or nvidia-{name}-cu12"


def _devices() -> Iterator[str]:
    found = _C.gpu_devices()
    if not found["devices"]:
        yield "none"
        if found["problem"] and not _C.gpu_driver()["problem"]:  # else that has said it
            yield from _problem(found)
    for device in found["devices"]:
        major, minor = device["compute_capability"]
        yield (
            f"{device['ordinal']}: {device['name']}, compute capability {major}.{minor}, "
            f"{device['multiprocessors']} multiprocessors, {_bytes(device['memory_bytes'])}"
        )
        problem, remedy = _C.gpu_self_test(device["ordinal"])
        if problem:
            yield from _problem({"problem": problem, "remedy": remedy})
        else:
            yield "   a kernel was compiled and ran"


def _cache() -> Iterator[str]:
    cache = _C.gpu_cache()
    yield f"{cache['folder']}: {cache['files']} files, {_bytes(cache['bytes'])}"
    if cache["problem"]:
        yield f"-> not used, kernels are compiled anew in each process: {cache['problem']}"
    elif not _writable(cache["folder"]):
        yield "-> not used, kernels are compiled anew in each process: it cannot be written; set APPY_CACHE_DIR"


def _writable(folder: str) -> bool:
    """Whether it can be written to, or made."""
    while not os.path.lexists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder) or os.curdir
    return os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)


def _library(name: str, remedy: str) -> Iterator[str]:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            yield f"cannot be imported: {error}"
        else:
            yield "not installed" + (f"; {remedy}" if remedy else "")
    except Exception as error:  # a broken installation raises what it likes
        yield f"cannot be imported: {error}"
    else:
        text = str(getattr(module, "__version__", "of unknown version"))
        if name == "torch" and getattr(getattr(module, "version", None), "cuda", None) is None:
            text += ", without CUDA"
        yield text
