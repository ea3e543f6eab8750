"""The library that kernels are written with, uncompiled: NumPy, or whatever `appy.tensorlib` is, under our names."""

from __future__ import annotations

import math
import os
import sys
from typing import Any

import numpy

from ._state import state


def machine_vector_length(l1_bytes: int) -> int:
    """The length of an explicit vector: eight of them, of 8-byte elements, fit the first-level cache of ``l1_bytes``.

    A power of two from 128 to 1024. Shorter vectors spend a fifth of the time between them, and longer ones gain nothing
    (figures in benchmarks/README.md).
    """
    fits = 1 << max(l1_bytes // 64, 1).bit_length() - 1
    return min(max(fits, 128), 1024)


def _l1_bytes() -> int:
    try:
        return os.sysconf("SC_LEVEL1_DCACHE_SIZE")
    except (ValueError, OSError):
        return 0


MVL = 128 if state.disabled else machine_vector_length(_l1_bytes() or 32768)


def tensorlib() -> Any:
    """The module that allocates: `appy.tensorlib`, which may be assigned; NumPy by default."""
    return vars(sys.modules[__package__]).get("tensorlib", numpy)


def vidx(start: int, length: int, bound: int | None = None) -> Any:
    """The indices ``start`` to ``start + length``, those past ``bound`` left out."""
    stop = start + length
    return tensorlib().arange(start, stop if bound is None else min(stop, bound))


def _dtype(dtype: Any) -> Any:
    return getattr(tensorlib(), dtype, dtype) if isinstance(dtype, str) else dtype


def _is_small(shape: Any) -> bool:
    """Is memory for so many elements not worth keeping?"""
    try:
        return bool((shape if type(shape) is int else math.prod(shape)) < 1 << 16)
    except TypeError:
        return False


def _made(name: str, small: bool, *args: Any, **more: Any) -> Any:
    """What the module's function of this name makes; a large NumPy array in memory that is kept when it dies."""
    lib = tensorlib()
    make = getattr(lib, name)
    if small or state.disabled or lib is not numpy:
        return make(*args, **more)
    from ._C import recycling

    return recycling(make, *args, **more)


def empty(shape: Any, dtype: Any = "float64", **more: Any) -> Any:
    return _made("empty", _is_small(shape), shape, dtype=_dtype(dtype), **more)


def zeros(shape: Any, dtype: Any = "float64", **more: Any) -> Any:
    return _made("zeros", _is_small(shape), shape, dtype=_dtype(dtype), **more)


def ones(shape: Any, dtype: Any = "float64", **more: Any) -> Any:
    return _made("ones", _is_small(shape), shape, dtype=_dtype(dtype), **more)


def full(shape: Any, value: Any, dtype: Any = "float64", **more: Any) -> Any:
    shape = (shape,) if isinstance(shape, int) else shape
    return _made("full", _is_small(shape), shape, value, dtype=_dtype(dtype), **more)


def empty_like(prototype: Any, *args: Any, **more: Any) -> Any:
    return _made("empty_like", False, prototype, *args, **more)


def zeros_like(prototype: Any, *args: Any, **more: Any) -> Any:
    return _made("zeros_like", False, prototype, *args, **more)


def arange(*bounds: Any, **more: Any) -> Any:
    if "dtype" in more:
        more["dtype"] = _dtype(more["dtype"])
    return tensorlib().arange(*bounds, **more)


def copy(array: Any) -> Any:
    return array.clone() if hasattr(array, "clone") else array.copy()


def randn(*shape: Any, dtype: Any = "float64") -> Any:
    """Samples of the standard normal distribution; the shape as ints or as one tuple or list."""
    lib = tensorlib()
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    if hasattr(lib, "randn"):
        return lib.randn(*sizes, dtype=_dtype(dtype))
    samples = lib.random.randn(*sizes)
    return samples.astype(_dtype(dtype)) if sizes else samples


def randint(low: int, high: int | None = None, size: Any = None, dtype: Any = "int64") -> Any:
    """Random integers of [low, high), or of [0, low) without ``high``."""
    lib = tensorlib()
    if high is None:
        low, high = 0, low
    if hasattr(lib, "randint"):
        return lib.randint(low, high, (size,) if isinstance(size, int) else size or (), dtype=_dtype(dtype))
    return lib.random.randint(low, high, size, dtype=_dtype(dtype))


def mv(matrix: Any, vector: Any) -> Any:
    return matrix @ vector


def erf(x: Any) -> Any:
    lib = tensorlib()
    if hasattr(lib, "erf"):
        return lib.erf(x)
    try:
        from scipy import special
    except ImportError:
        import math

        return numpy.vectorize(math.erf, otypes=[float])(x)
    return special.erf(x)


def get(name: str) -> Any:
    """What ``appy.<name>`` is."""
    if name == "tensorlib":
        return tensorlib()
    own = globals().get(name)
    if own is None:
        return getattr(tensorlib(), name)
    setattr(sys.modules[__package__], name, own)  # which asks once
    return own
