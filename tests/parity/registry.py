"""The register of the programs that are run as written and compiled, and compared.

A program is plain Python whose pragmas are comments only. It registers itself with the types it is run on, a maker of arguments (a fresh set for each run) and the
tolerance of its floats. What a program returns, and every array it was given, is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

FLOATS = ("float64", "float32")
INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NUMBERS = FLOATS + INTS


@dataclass(frozen=True)
class Program:
    name: str
    function: Callable
    make: Callable  # (dtype, rng) -> args
    dtypes: tuple[str, ...]
    ulps: float
    scale: float
    options: dict = field(default_factory=dict)  # of appy.jit


PROGRAMS: dict[str, Program] = {}  # by module.name


def program(make, dtypes=FLOATS, ulps=8.0, scale=0.0, options=None, suffix=""):
    def register(function):
        name = function.__name__ + suffix
        key = f"{function.__module__}.{name}"
        assert key not in PROGRAMS, key
        PROGRAMS[key] = Program(name, function, make, tuple(dtypes), ulps, scale, options or {})
        return function

    return register


def values(rng, dtype, *shape):
    """Numbers that use the dtype's range without overflowing small sums for floats."""
    dtype = np.dtype(dtype)
    if dtype == bool:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(max(info.min, -100), min(info.max, 100), shape, dtype=dtype, endpoint=True)
    return rng.uniform(-1, 1, shape).astype(dtype)
