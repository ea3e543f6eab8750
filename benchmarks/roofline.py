"""The roofline of this machine: bandwidth of STREAM's triad for arrays of several sizes, that of reading alone, and the
flops of multiply-adds in registers, or of a matrix product where there is no compiler."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

FOOTPRINTS = [1 << k for k in range(17, 32, 2)]  # bytes of the triad's three arrays
FOOTPRINTS_OF_DEVICES = [1 << k for k in range(24, 33, 2)]
LARGEST = FOOTPRINTS_OF_DEVICES[-1]
DTYPES = ("float64", "float32")
STEPS = 2_000_000  # of the multiply-adds: some milliseconds


def up_to(largest: int, footprints: list[int]) -> list[int]:
    """Those that are not larger; the first one in any case."""
    return [f for f in footprints if f <= largest] or footprints[:1]


def best_seconds(call, least=0.15) -> float:
    """The shortest of several calls."""
    call()
    best, begin = float("inf"), time.perf_counter()
    while time.perf_counter() - begin < least:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def yardsticks(folder: Path) -> tuple[list, list, dict]:
    """Functions of a length and three arrays, a triad; of a length and one, which is read; and, by dtype, of a number of
    steps, which return how many operations those took on all threads. Those there are only where there is gcc."""
    import sides

    try:
        lib = sides.c_library(sides.KERNELS / "loops.c", folder)
    except (OSError, subprocess.CalledProcessError):  # no compiler: NumPy, on one thread
        return [lambda n, a, b, c: np.add(b, c, out=a)], [lambda n, a: np.sum(a)], {}

    def calling(function, threads):
        def call(n, *arrays):
            lib.omp_set_num_threads(threads)
            return function(ctypes.c_int64(n), *(ctypes.c_void_p(x.ctypes.data) for x in arrays))

        return call

    # One thread is faster where the arrays are small.
    threads = {1, len(os.sched_getaffinity(0))}
    triads = [calling(f, t) for f in (lib.triad, lib.triad_streaming) for t in threads]
    computing = {}
    for dtype in DTYPES:
        function = getattr(lib, f"multiply_adds_{dtype}")
        function.restype = ctypes.c_int64
        computing[dtype] = calling(function, max(threads))
    return triads, [calling(f, t) for f in (lib.read_only, lib.read_ahead) for t in threads], computing


def measure_cpu(folder: Path, largest: int) -> dict:
    triads, readers, computing = yardsticks(folder)
    bandwidth, reading = {}, {}
    for footprint in up_to(largest, FOOTPRINTS):
        n = footprint // 24
        arguments = n, np.zeros(n), np.ones(n), np.ones(n)
        bandwidth[footprint] = 24 * n / min(best_seconds(partial(f, *arguments)) for f in triads)
        n, read = footprint // 8, np.ones(footprint // 8)
        reading[footprint] = 8 * n / min(best_seconds(partial(f, n, read)) for f in readers)
    flops = {}
    for dtype in DTYPES:
        # OpenBLAS may have no kernels for this machine's longest vectors, and takes some percent of any for its copies.
        x = np.ones((1536, 1536), dtype=dtype)
        out = np.empty_like(x)
        flops[dtype] = 2 * len(x) ** 3 / best_seconds(lambda x=x, out=out: np.matmul(x, x, out=out), 0.5)
        if dtype in computing:
            count = computing[dtype](STEPS)
            flops[dtype] = max(flops[dtype], count / best_seconds(partial(computing[dtype], STEPS), 0.5))
    return {"bandwidth": bandwidth, "reading": reading, "flops": flops}


def measure_gpu(folder: Path, largest: int) -> dict:
    import cupy as cp

    def seconds(call, calls):
        begin, end = cp.cuda.Event(), cp.cuda.Event()
        best = float("inf")
        for _ in range(5):
            begin.record()
            for _ in range(calls):
                call()
            end.record()
            end.synchronize()
            best = min(best, cp.cuda.get_elapsed_time(begin, end) * 1e-3 / calls)
        return best

    triad = cp.ElementwiseKernel("float64 b, float64 c", "float64 a", "a = b + 3.0 * c", "triad")
    bandwidth = {}
    for footprint in up_to(largest, FOOTPRINTS_OF_DEVICES):
        n = footprint // 24
        bandwidth[footprint] = 24 * n / seconds(partial(triad, cp.ones(n), cp.ones(n), cp.zeros(n)), 20)
    flops = {}
    for dtype in DTYPES:
        x = cp.ones((8192, 8192), dtype=dtype)
        flops[dtype] = 2 * len(x) ** 3 / seconds(lambda x=x: cp.matmul(x, x), 3)
    return {"bandwidth": bandwidth, "flops": flops, "device": cp.cuda.runtime.getDeviceProperties(0)["name"].decode()}


def measure(device: str, folder: Path, largest: int = LARGEST) -> dict:
    """With arrays of up to so many bytes together; in a process of its own: threads and contexts end with it."""
    name = "measure_cpu" if device == "cpu" else "measure_gpu"
    code = (
        f"import json, pathlib, roofline\nprint(json.dumps(roofline.{name}(pathlib.Path({str(folder)!r}), {largest})))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def best_of(a: dict, b: dict) -> dict:
    """Of two rooflines measured on one machine at different times: what it could do is the most that it did."""
    rates = ("bandwidth", "reading", "flops")
    # Those that were read from a file have sizes as text.
    tables = [{name: {str(key): rate for key, rate in x[name].items()} for name in rates if name in x} for x in (a, b)]
    return a | {
        name: {key: max(rate, tables[1][name].get(key, 0)) for key, rate in table.items()}
        for name, table in tables[0].items()
    }


def floor(roofline: dict, bytes: int, flops: int, dtype: str, only_reads: bool = False) -> tuple[float, str]:
    """The least seconds, and whether `memory` or `arithmetic` takes them.

    The bandwidth is that of a triad on as many bytes, or that of reading, where that was measured, for what writes next to
    nothing. Integers do half of float32's operations: nothing fuses two.
    """
    rates = roofline.get("reading") if only_reads else None
    rates = rates or roofline["bandwidth"]
    sizes = sorted(rates, key=int)
    size = next((s for s in sizes if int(s) >= bytes), sizes[-1])
    peak = roofline["flops"]["float32"] / 2 if dtype == "int32" else roofline["flops"][dtype]
    memory, arithmetic = bytes / rates[size], flops / peak
    return (memory, "memory") if memory >= arithmetic else (arithmetic, "arithmetic")


def floor_of(roofline: dict, row: dict) -> tuple[float, str]:
    """The same for a row of the suite's results."""
    return floor(roofline, row["bytes"], row["flops"], row["dtype"], row.get("only_reads", False))
