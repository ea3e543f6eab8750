"""Kernels on a GPU, on CuPy arrays, beside CuPy (and torch.compile where it is asked for).

    python benchmarks/device.py [--only NAME,...] [--rounds N] [--json FILE]

Times are medians over rounds that take the sides in turn. ``device`` is the time between two events around a batch of
calls, divided by their number; ``host`` is the time that a call takes to return, with nothing waiting for the device.
``GB/s`` counts the bytes that the kernel has to move, each once; ``of copy`` divides by what a copy within the device
moves in the same run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import cupy as cp
import numpy as np
from scientific import appy_arrays, cupy_versions, reference
from scientific.sides import rebound

import appy


class Case(NamedTuple):
    """One kernel: its arguments, the bytes it has to move, and who else computes the same."""

    compiled: Callable[..., Any]
    other: Callable[..., Any]
    arguments: tuple[Any, ...]
    bytes: int
    check: Callable[..., Any]


CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    CASES[make.__name__] = make
    return make


def random(*shape: int, dtype: str = "float64") -> cp.ndarray:
    return cp.random.default_rng(1).random(shape, dtype=dtype if dtype != "float16" else "float32").astype(dtype)


def by_cupy(name: str) -> Callable[..., Any]:
    """A stencil with one kernel of CuPy a statement, where there is such a version, or as the definition has it."""
    return getattr(cupy_versions, f"{name}_fused", None) or rebound(reference, np=cp)[name]


def written(position: int) -> Callable[..., Any]:
    """What a call leaves in one of its arguments."""
    return lambda result, arguments: arguments[position]


def returned(result: Any, arguments: tuple[Any, ...]) -> Any:
    return result


@case
def vec_add() -> Case:
    @appy.jit(strict=True)
    def compiled(a, b, c):
        # pragma parallel for simd
        for i in range(c.shape[0]):
            c[i] = a[i] + b[i]

    n = 1 << 26
    return Case(compiled, lambda a, b, c: cp.add(a, b, out=c), (random(n), random(n), cp.zeros(n)), 24 * n, written(2))


@case
def axpy() -> Case:
    @appy.jit(strict=True)
    def compiled(alpha, x, y):
        # pragma parallel for simd
        for i in range(y.shape[0]):
            y[i] = alpha * x[i] + y[i]

    @cp.fuse()
    def fused(alpha, x, y):
        return alpha * x + y

    def other(alpha, x, y):
        y[:] = fused(alpha, x, y)

    n = 1 << 26
    return Case(compiled, other, (1e-9, random(n), random(n)), 24 * n, written(2))


@case
def row_sums() -> Case:
    @appy.jit(strict=True)
    def compiled(a, out):
        # pragma parallel for
        for i in range(a.shape[0]):
            s = 0.0
            # pragma simd
            for j in range(a.shape[1]):
                s += a[i, j]
            out[i] = s

    def other(a, out):
        out[:] = cp.sum(a, axis=1)

    m, n = 8192, 8192
    return Case(compiled, other, (random(m, n), cp.zeros(m)), 8 * m * n, written(1))


@case
def softmax() -> Case:
    @appy.jit(strict=True)
    def compiled(x, y):
        # pragma parallel for
        for i in range(x.shape[0]):
            t = np.exp(x[i, :] - np.max(x[i, :]))
            y[i, :] = t / np.sum(t)

    def other(x, y):
        t = cp.exp(x - cp.max(x, axis=1, keepdims=True))
        cp.divide(t, cp.sum(t, axis=1, keepdims=True), out=y)

    m, n = 65536, 1024
    return Case(compiled, other, (random(m, n), cp.zeros((m, n))), 16 * m * n, written(1))


@case
def go_fast() -> Case:
    @appy.jit(strict=True)
    def compiled(a, out):
        trace = 0.0
        # pragma parallel for simd
        for i in range(a.shape[0]):
            trace += np.tanh(a[i, i])
        # pragma parallel for
        for i in range(a.shape[0]):
            # pragma simd
            for j in range(a.shape[1]):
                out[i, j] = a[i, j] + trace

    def other(a, out):
        cp.add(a, cp.sum(cp.tanh(cp.diagonal(a))), out=out)

    n = 8192
    return Case(compiled, other, (random(n, n), cp.zeros((n, n))), 16 * n * n, written(1))


@case
def gesummv() -> Case:
    @appy.jit(strict=True)
    def compiled(alpha, beta, a, b, x, y):
        # pragma parallel for
        for i in range(a.shape[0]):
            s = 0.0
            t = 0.0
            # pragma simd
            for j in range(a.shape[1]):
                s += a[i, j] * x[j]
                t += b[i, j] * x[j]
            y[i] = alpha * s + beta * t

    def other(alpha, beta, a, b, x, y):
        y[:] = alpha * (a @ x) + beta * (b @ x)

    n = 11200
    arguments = (1.5, 1.2, random(n, n), random(n, n), random(n), cp.zeros(n))
    return Case(compiled, other, arguments, 16 * n * n, written(5))


@case
def gemver() -> Case:
    @appy.jit(strict=True)
    def compiled(alpha, beta, a, u1, v1, u2, v2, w, x, y, z):
        n = a.shape[0]
        # pragma parallel for
        for i in range(n):
            # pragma simd
            for j in range(n):
                a[i, j] += u1[i] * v1[j] + u2[i] * v2[j]
        # pragma parallel for
        for i in range(n):
            s = 0.0
            # pragma simd
            for j in range(n):
                s += a[j, i] * y[j]
            x[i] += beta * s + z[i]
        # pragma parallel for
        for i in range(n):
            s = 0.0
            # pragma simd
            for j in range(n):
                s += a[i, j] * x[j]
            w[i] += alpha * s

    def other(alpha, beta, a, u1, v1, u2, v2, w, x, y, z):
        a += cp.outer(u1, v1) + cp.outer(u2, v2)
        x += beta * (y @ a) + z
        w += alpha * (a @ x)

    n = 10000
    vectors = [1e-9 * random(n) for _ in range(8)]
    return Case(compiled, other, (1e-9, 1e-9, random(n, n), *vectors), 32 * n * n, written(7))


@case
def spmv() -> Case:
    from cupyx.scipy import sparse

    rows, nonzeros = 131072, 262144
    rng = np.random.default_rng(3)
    matrix = sparse.random(rows, rows, density=nonzeros / rows / rows, format="csr", random_state=5)
    x = cp.asarray(rng.random(rows))
    y = cp.zeros(rows)

    # Not strict, which waits for what its checks find.
    @appy.jit
    def compiled(ptr, idx, val, x, y):
        # pragma parallel for
        for i in range(y.shape[0]):
            s = 0.0
            # pragma simd
            for j in range(ptr[i], ptr[i + 1]):
                s += val[j] * x[idx[j]]
            y[i] = s

    def other(ptr, idx, val, x, y):
        y[:] = matrix @ x

    arguments = (matrix.indptr, matrix.indices, matrix.data, x, y)
    return Case(compiled, other, arguments, 12 * matrix.nnz + 20 * rows, written(4))


def of_the_suite(name: str, arguments: tuple[Any, ...], output: int, bytes: int = 0) -> Case:
    """A kernel of scientific/, in array form on both sides."""
    compiled = appy.jit(strict=True, **appy_arrays.OPTIONS.get(name, {}))(getattr(appy_arrays, name))
    return Case(compiled, by_cupy(name), arguments, bytes, written(output))


@case
def jacobi_1d() -> Case:
    n, steps = 32000, 4000
    return of_the_suite("jacobi_1d", (steps + 1, random(n), random(n)), 1)


@case
def jacobi_2d() -> Case:
    n, steps = 2800, 1000
    return of_the_suite("jacobi_2d", (steps + 1, random(n, n), random(n, n)), 1)


@case
def heat_3d() -> Case:
    n, steps = 120, 500
    return of_the_suite("heat_3d", (steps + 1, random(n, n, n), random(n, n, n)), 1)


@case
def fdtd_2d() -> Case:
    m, n, steps = 1000, 1200, 500
    return of_the_suite("fdtd_2d", (steps, random(m, n), random(m, n), random(m, n), random(steps)), 3)


@case
def hdiff() -> Case:
    m, n, k = 256, 256, 160
    arguments = (random(m + 4, n + 4, k), cp.zeros((m, n, k)), random(m, n, k))
    return of_the_suite("hdiff", arguments, 1, 8 * k * ((m + 4) * (n + 4) + 2 * m * n))


@case
def column_sums() -> Case:
    @appy.jit(strict=True)
    def compiled(a, y, out):
        # pragma parallel for
        for j in range(a.shape[1]):
            s = 0.0
            # pragma simd
            for i in range(a.shape[0]):
                s += a[i, j] * y[i]
            out[j] = s

    def other(a, y, out):
        cp.matmul(y, a, out=out)

    n = 10000
    return Case(compiled, other, (random(n, n), random(n), cp.zeros(n)), 8 * n * n, written(2))


@case
def rank_two() -> Case:
    @appy.jit(strict=True)
    def compiled(a, u1, v1, u2, v2):
        # pragma parallel for
        for i in range(a.shape[0]):
            # pragma simd
            for j in range(a.shape[1]):
                a[i, j] += u1[i] * v1[j] + u2[i] * v2[j]

    def other(a, u1, v1, u2, v2):
        a += cp.outer(u1, v1) + cp.outer(u2, v2)

    n = 10000
    return Case(compiled, other, (random(n, n), *(1e-9 * random(n) for _ in range(4))), 16 * n * n, written(0))


def product_of(dtype: str) -> Case:
    @appy.jit(strict=True)
    def compiled(a, b, c):
        # pragma 0=>parallel
        c[:, :] = a @ b

    n = 4096
    arguments = (random(n, n, dtype=dtype), random(n, n, dtype=dtype), cp.zeros((n, n), dtype))
    return Case(
        compiled, lambda a, b, c: cp.matmul(a, b, out=c), arguments, 3 * n * n * arguments[0].itemsize, written(2)
    )


@case
def product() -> Case:
    return product_of("float64")


@case
def product_f32() -> Case:
    return product_of("float32")


@case
def gemm() -> Case:
    @appy.jit(strict=True)
    def compiled(alpha, beta, c, a, b):
        # pragma 0=>parallel
        c[:, :] = alpha * (a @ b) + beta * c

    def other(alpha, beta, c, a, b):
        c[:] = alpha * (a @ b) + beta * c

    m, n, k = 2000, 2300, 2600
    arguments = (1.5, 1e-3, random(m, n), random(m, k), random(k, n))
    return Case(compiled, other, arguments, 8 * (2 * m * n + m * k + k * n), written(2))


def lower_triangle(c: cp.ndarray, whole: cp.ndarray) -> None:
    c[:] = cp.tril(whole) + cp.triu(c, 1)


@case
def syrk() -> Case:
    @appy.jit(strict=True)
    def compiled(alpha, beta, c, a):
        # pragma parallel for
        for i in range(a.shape[0]):
            c[i, : i + 1] *= beta
            for k in range(a.shape[1]):
                c[i, : i + 1] += alpha * a[i, k] * a[: i + 1, k]

    def other(alpha, beta, c, a):
        lower_triangle(c, beta * c + alpha * a @ a.T)

    m, n = 1000, 1200
    return Case(compiled, other, (1.5, 1e-3, random(n, n), random(n, m)), 8 * (n * n + n * m), written(2))


@case
def syr2k() -> Case:
    @appy.jit(strict=True)
    def compiled(alpha, beta, c, a, b):
        # pragma parallel for
        for i in range(a.shape[0]):
            c[i, : i + 1] *= beta
            for k in range(a.shape[1]):
                c[i, : i + 1] += a[: i + 1, k] * alpha * b[i, k] + b[: i + 1, k] * alpha * a[i, k]

    def other(alpha, beta, c, a, b):
        both = alpha * a @ b.T
        lower_triangle(c, beta * c + both + both.T)

    m, n = 1000, 1200
    arguments = (1.5, 1e-3, random(n, n), random(n, m), random(n, m))
    return Case(compiled, other, arguments, 8 * (n * n + 2 * n * m), written(2))


@case
def small() -> Case:
    """A kernel with next to no work: what a launch costs."""

    @appy.jit(strict=True)
    def compiled(a, b, c):
        # pragma parallel for simd
        for i in range(c.shape[0]):
            c[i] = a[i] + b[i]

    n = 1024
    return Case(compiled, lambda a, b, c: cp.add(a, b, out=c), (random(n), random(n), cp.zeros(n)), 0, written(2))


def device_seconds(call: Callable[[], Any], calls: int) -> float:
    begin, end = cp.cuda.Event(), cp.cuda.Event()
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    return cp.cuda.get_elapsed_time(begin, end) * 1e-3 / calls


def host_seconds(call: Callable[[], Any], calls: int) -> float:
    cp.cuda.Device().synchronize()
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    taken = (time.perf_counter() - begin) / calls
    cp.cuda.Device().synchronize()
    return taken


def fresh(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(a.copy() if isinstance(a, cp.ndarray) else a for a in arguments)


def measure(name: str, rounds: int) -> dict[str, Any]:
    made = CASES[name]()
    mine, theirs = fresh(made.arguments), fresh(made.arguments)
    begin = time.perf_counter()
    got = made.check(made.compiled(*mine), mine)
    cp.cuda.Device().synchronize()
    first = time.perf_counter() - begin
    want = made.check(made.other(*theirs), theirs)
    error = float(cp.max(cp.abs(got - want)) / cp.max(cp.abs(want)))
    row: dict[str, Any] = {"kernel": name, "first_ms": first * 1e3, "error": error}
    if error > 1e-9:
        print(f"{name}: wrong by {error}", file=sys.stderr)
    sides = {"appy": lambda: made.compiled(*mine), "cupy": lambda: made.other(*theirs)}
    once = {side: device_seconds(call, 1) for side, call in sides.items()}
    times: dict[str, list[float]] = {side: [] for side in sides}
    hosts: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side, call in sides.items():
            calls = max(1, min(100, int(0.02 / max(once[side], 1e-6))))
            times[side].append(device_seconds(call, calls))
            hosts[side].append(host_seconds(call, calls))
    for side in sides:
        row[side] = statistics.median(times[side])
        row[side + "_host"] = statistics.median(hosts[side])
    row["gbs"] = made.bytes / row["appy"] * 1e-9
    return row


def copy_bandwidth() -> float:
    """Bytes a second, read and written, of a copy within the device."""
    a = cp.zeros(1 << 28, dtype=cp.float64)
    b = cp.empty_like(a)
    cp.copyto(b, a)
    return 2 * a.nbytes / min(device_seconds(lambda: cp.copyto(b, a), 3) for _ in range(5))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="names, with commas between")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json")
    options = parser.parse_args()
    copy = copy_bandwidth()
    print(f"copy within the device: {copy * 1e-9:.0f} GB/s")
    print(
        f"{'kernel':10} {'appy us':>10} {'host us':>8} {'cupy us':>10} {'ratio':>6} {'GB/s':>6} {'of copy':>7} first ms"
    )
    rows = []
    for name in options.only.split(",") if options.only else CASES:
        try:
            row = measure(name, options.rounds)
        except Exception as error:
            print(f"{name:10} failed: {type(error).__name__}: {error}")
            continue
        rows.append(row)
        print(
            f"{name:10} {row['appy'] * 1e6:10.1f} {row['appy_host'] * 1e6:8.1f} {row['cupy'] * 1e6:10.1f} "
            f"{row['cupy'] / row['appy']:6.2f} {row['gbs']:6.0f} {row['gbs'] / copy * 1e9:7.2f} {row['first_ms']:8.1f}",
            flush=True,
        )
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"copy": copy, "rows": rows, "device": str(cp.cuda.Device().id)}, file, indent=1)


if __name__ == "__main__":
    main()
