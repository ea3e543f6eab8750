"""Loops that run until something holds, on a device: captured, and a launch and a wait a step.

usage: python benchmarks/until.py [N]    the grid is N by N, the matrix of the linear system, too
"""

from __future__ import annotations

import inspect
import linecache
import math
import sys
import time

import numpy as np

import appy


def relax(a, b, tol, most, told):
    steps = 0
    err = 1.0
    while err > tol and steps < most:
        # pragma parallel for
        for i in range(1, a.shape[0] - 1):
            # pragma simd
            for j in range(1, a.shape[1] - 1):
                b[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])
        err = 0.0
        # pragma parallel for
        for i in range(1, a.shape[0] - 1):
            # pragma simd
            for j in range(1, a.shape[1] - 1):
                err = max(err, abs(b[i, j] - a[i, j]))
        # pragma 0=>parallel
        a[:, :] = b
        steps += 1
    return steps


def solve(a, x, r, p, q, tol, told):
    rr = 0.0
    # pragma parallel for simd
    for i in range(len(r)):
        rr += r[i] * r[i]
    k = 0
    while math.sqrt(rr) > tol:
        # pragma parallel for
        for i in range(len(r)):
            s = 0.0
            # pragma simd
            for j in range(len(r)):
                s += a[i, j] * p[j]
            q[i] = s
        pq = 0.0
        # pragma parallel for simd
        for i in range(len(r)):
            pq += p[i] * q[i]
        alpha = rr / pq
        old = rr
        rr = 0.0
        # pragma parallel for simd
        for i in range(len(r)):
            x[i] += alpha * p[i]
            v = r[i] - alpha * q[i]
            r[i] = v
            rr += v * v
        beta = rr / old
        # pragma parallel for simd
        for i in range(len(r)):
            p[i] = r[i] + beta * p[i]
        k += 1
    return k


def by_steps(function, counter: str):
    """The function with a line in its loop that keeps the loop in the interpreter: ``told.append(counter)``."""
    last = f"        {counter} += 1\n"
    source = inspect.getsource(function)
    if source.count(last) != 1:
        raise ValueError(f"{function.__name__} counts its steps in another place")
    source = source.replace(last, f"{last}        told.append({counter})\n")
    file, name = f"<{function.__name__} by steps>", f"{function.__name__}_by_steps"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    scope = dict(globals())
    exec(compile(source, file, "exec"), scope)
    scope[function.__name__].__name__ = name
    return scope[function.__name__]


def grid(n: int) -> tuple:
    a = np.zeros((n, n))
    a[0] = 1.0
    return a, a.copy(), 1e-6, 1000


def system(n: int) -> tuple:
    rng = np.random.default_rng(1)
    m = rng.random((n, n))
    m = (m + m.T) / n + 4 * np.eye(n)
    b = rng.random(n)
    return m, np.zeros(n), b, b.copy(), np.zeros(n), 1e-10


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
    try:
        import cupy
    except ImportError:
        cupy = None
    print(f"{'':22}{'steps':>8}{'ms':>10}{'us a step':>12}")
    for make, captured, counter in ((grid, relax, "steps"), (system, solve, "k")):
        for function in (captured, by_steps(captured, counter)):
            compiled = appy.jit(function, backend="cuda")
            best = math.inf
            for _ in range(4):
                given = [cupy.array(v) if cupy and isinstance(v, np.ndarray) else v for v in make(n)]
                appy.synchronize()
                begun = time.perf_counter()
                steps = compiled(*given, [])
                appy.synchronize()
                best = min(best, time.perf_counter() - begun)
            print(f"{function.__name__:22}{steps:8}{best * 1e3:10.3f}{best * 1e6 / steps:12.2f}")


if __name__ == "__main__":
    main()
