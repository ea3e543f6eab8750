"""Helpers around kernels."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def allclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False, verbose: bool = True
) -> bool:
    """Whether two arrays agree within a tolerance; prints the largest difference where they do not."""
    import numpy

    x, y = _on_host(a), _on_host(b)
    same = bool(numpy.allclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan))
    if not same and verbose:
        difference = numpy.abs(numpy.asarray(x, dtype=float) - y) if numpy.shape(x) == numpy.shape(y) else None
        print("shapes differ" if difference is None else f"largest difference: {numpy.nanmax(difference)}")
    return same


def bench(function: Callable[[], Any], warmup: int = 3, repeat: int = 20) -> float:
    """The median time of a call, in milliseconds, with the device synchronised."""
    for _ in range(warmup):
        function()
    times = []
    for _ in range(max(repeat, 1)):
        synchronize_devices()
        start = time.perf_counter()
        function()
        synchronize_devices()
        times.append(time.perf_counter() - start)
    times.sort()
    middle = len(times) // 2
    median = times[middle] if len(times) % 2 else (times[middle - 1] + times[middle]) / 2
    return median * 1e3


def _on_host(array: Any) -> Any:
    if hasattr(array, "detach"):
        return array.detach().cpu().numpy()
    return array.get() if hasattr(array, "get") and hasattr(array, "device") else array


def synchronize_devices() -> None:
    import sys

    cupy, torch = sys.modules.get("cupy"), sys.modules.get("torch")
    if cupy is not None:
        cupy.cuda.Device().synchronize()
    if torch is not None and torch.cuda.is_available():
        torch.cuda.synchronize()
