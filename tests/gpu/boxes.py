"""Loops over time around passes over rows and columns. As a program: runs them on a device, in many sizes.

usage: python boxes.py NAME...: prints for each program and size a digest of what its arrays hold in the end, and
whether the program is tiled.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import sys

import numpy as np

import appy


def jacobi(steps, a, b):
    for _ in range(1, steps):
        # pragma 0=>parallel 1=>simd
        b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])
        # pragma 0=>parallel 1=>simd
        a[1:-1, 1:-1] = 0.2 * (b[1:-1, 1:-1] + b[1:-1, :-2] + b[1:-1, 2:] + b[2:, 1:-1] + b[:-2, 1:-1])


def loops(steps, a, b):
    """Backward; a coefficient of each point, one of each step, and what its loops leave."""
    t = i = j = -1
    m, n = a.shape
    for t in range(steps, 0, -1):
        # pragma parallel for
        for i in range(1, m - 1):
            # pragma simd
            for j in range(1, n - 1):
                b[i, j] = 0.1 * a[i, j] + 0.2 * a[i - 1, j - 1] + 0.3 * a[i + 1, j + 1] + 0.01 * (t + i - j)
        # pragma parallel for
        for i in range(1, m - 1):
            # pragma simd
            for j in range(1, n - 1):
                a[i, j] = b[i, j] if b[i, j] < 2 else 2 - 0.5 * b[i, j - 1]
    return t, i, j


def gray_scott(steps, u, v, lu, lv):
    """Two arrays go from step to step, two are computed anew."""
    for _ in range(steps):
        # pragma 0=>parallel 1=>simd
        lu[1:-1, 1:-1] = u[:-2, 1:-1] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1] + u[1:-1, 2:] + u[2:, 1:-1]
        # pragma 0=>parallel 1=>simd
        lv[1:-1, 1:-1] = v[:-2, 1:-1] + v[1:-1, :-2] - 4 * v[1:-1, 1:-1] + v[1:-1, 2:] + v[2:, 1:-1]
        # pragma 0=>parallel 1=>simd
        u[1:-1, 1:-1] += 0.1 * lu[1:-1, 1:-1] - 0.05 * u[1:-1, 1:-1]
        # pragma 0=>parallel 1=>simd
        v[1:-1, 1:-1] += 0.05 * lv[1:-1, 1:-1] + 0.02 * u[1:-1, 1:-1]


def staggered(steps, ex, ey, hz):
    """Arrays of several shapes, each updated in place."""
    for _ in range(steps):
        # pragma 0=>parallel 1=>simd
        ey[1:, :] = ey[1:, :] - 0.5 * (hz[1:, :] - hz[:-1, :])
        # pragma 0=>parallel 1=>simd
        ex[:, 1:-1] = ex[:, 1:-1] - 0.5 * (hz[:, 1:] - hz[:, :-1])
        # pragma 0=>parallel 1=>simd
        hz[:-1, :] = hz[:-1, :] - 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :] - ey[:-1, :])


def heat(steps, u, v, k):
    """A coefficient of each point, in an array that nothing writes."""
    for _ in range(steps):
        # pragma 0=>parallel 1=>simd
        v[1:-1, 2:-2] = (1 - k[1:-1, 2:-2]) * u[1:-1, 2:-2] + k[1:-1, 2:-2] * 0.25 * (
            u[:-2, 2:-2] + u[2:, 2:-2] + u[1:-1, :-4] + u[1:-1, 4:]
        )
        # pragma 0=>parallel 1=>simd
        u[1:-1, 1:-1] = 0.5 * v[1:-1, 1:-1] + 0.25 * (v[:-2, :-2] + v[2:, 2:])


def sources(steps, a, b, source):
    """A row that is set anew in each step, in a loop of its own, by an element that is read where there is a row."""
    m, n = a.shape
    for t in range(steps):
        # pragma simd
        for j in range(n):
            a[0, j] = source[t]
        # pragma parallel for
        for i in range(1, m):
            # pragma simd
            for j in range(1, n):
                b[i, j] = 0.7 * b[i, j] + 0.2 * (a[i - 1, j] - a[i, j - 1])
        # pragma parallel for
        for i in range(1, m - 1):
            # pragma simd
            for j in range(n):
                a[i, j] = 0.5 * a[i, j] + 0.5 * b[i + 1, j]


def edges(steps, p, q, b):
    """Two columns and two rows that follow those beside them."""
    for _ in range(steps):
        # pragma 0=>parallel 1=>simd
        q[1:-1, 1:-1] = 0.25 * (p[1:-1, 2:] + p[1:-1, :-2] + p[2:, 1:-1] + p[:-2, 1:-1] - b[1:-1, 1:-1])
        # pragma 0=>parallel 1=>simd
        p[1:-1, 1:-1] = q[1:-1, 1:-1]
        # pragma 0=>parallel
        p[:, -1] = p[:, -2] + 0.01
        # pragma 0=>simd
        p[0, :] = p[1, :]
        # pragma 0=>parallel
        p[:, 0] = 0.5 * p[:, 1]
        # pragma 0=>simd
        p[-1, :] = 0.1


def arguments(name: str, steps: int, m: int, n: int) -> tuple:
    rng = np.random.default_rng(n)
    made = [rng.random((m, n)) for _ in range(4)]
    return {
        "jacobi": (steps, *(a.astype(np.float32) for a in made[:2])),
        "loops": (steps, *made[:2]),
        "gray_scott": (steps, *made),
        "staggered": (steps, rng.random((m, n + 1)), *made[:2]),
        "sources": (steps, *made[:2], rng.random(steps)),
        "edges": (steps, *made[:3]),
        # Every other row, and columns backward.
        "heat": (steps, rng.random((2 * m, n))[::2], rng.random((m, n))[:, ::-1], *made[2:3]),
    }[name]


FUNCTIONS = {f.__name__: f for f in (jacobi, loops, gray_scott, staggered, heat, sources, edges)}
# Rows, columns and steps. Boxes are for arrays of 4 KiB for each of two multiprocessors, and for steps enough.
RUNS = (
    *((130, 170, 33), (130, 170, 0), (3, 1201, 38), (1201, 3, 33)),
    *((90, 211, 38), (90, 211, 2), (90, 211, 1), (20, 20, 38)),
)


def main(*names: str) -> None:
    for name in names:
        compiled = appy.jit(strict=True, backend="cuda")(FUNCTIONS[name])
        for m, n, steps in RUNS:
            args = arguments(name, steps, m, n)
            result = compiled(*args)
            if m == 90:
                plain = arguments(name, steps, m, n)
                with np.errstate(all="ignore"):
                    assert FUNCTIONS[name](*plain) == result
                for a, b in zip(args[1:], plain[1:]):
                    assert np.allclose(a, b, rtol=1e-4 if a.dtype == np.float32 else 1e-11)
            digest = hashlib.sha256(b"".join(a.tobytes() for a in args[1:])).hexdigest()[:16]
            print(name, m, n, steps, result, digest)
        with contextlib.redirect_stdout(io.StringIO()):
            text = str(appy.explain(compiled))
        if "by overlapping tiles" in text:
            print(name, "is tiled")


if __name__ == "__main__":
    main(*sys.argv[1:])
