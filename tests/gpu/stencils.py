"""Loops over time around passes over the elements of arrays. As a program: runs them on a device, in many sizes.

usage: python stencils.py NAME...: prints for each program and size a digest of what its arrays hold in the end,
and whether the program is tiled.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import sys

import numpy as np

import appy


def jacobi(steps, a, b):
    for _ in range(steps):
        # pragma parallel for simd
        for i in range(1, len(a) - 1):
            b[i] = 0.33333 * (a[i - 1] + a[i] + a[i + 1])
        # pragma parallel for simd
        for i in range(1, len(b) - 1):
            a[i] = 0.33333 * (b[i - 1] + b[i] + b[i + 1])


def slices(steps, a, b):
    for _ in range(1, steps):
        # pragma 1:-1=>simd
        b[1:-1] = 0.33333 * (a[:-2] + a[1:-1] + a[2:])
        # pragma 1:-1=>simd
        a[1:-1] = 0.33333 * (b[:-2] + b[1:-1] + b[2:])


def wave(steps, u, v, w):
    for _ in range(steps):
        # pragma parallel for simd
        for i in range(1, len(u) - 1):
            w[i] = 2 * v[i] - u[i] + 0.25 * (v[i - 1] - 2 * v[i] + v[i + 1])
        # pragma parallel for simd
        for i in range(len(u)):
            u[i] = v[i]
        # pragma parallel for simd
        for i in range(len(u)):
            v[i] = w[i]


def maxwell(steps, e, h, loss, source):
    """Arrays of two lengths, one that is only read, and single points: a source, and an edge."""
    last = -1
    for t in range(steps):
        # pragma parallel for simd
        for i in range(len(h)):
            h[i] = h[i] + 0.5 * (e[i + 1] - e[i])
        # pragma parallel for simd
        for i in range(1, len(e) - 1):
            e[i] = loss[i] * e[i] + 0.5 * (h[i] - h[i - 1])
            last = i
        e[1] = e[1] + source[t]
        e[len(e) - 1] = e[len(e) - 2]
    return last


def upwind(steps, a, b):
    """What a point needs lies on one side, two elements away."""
    for _ in range(steps):
        # pragma parallel for simd
        for i in range(2, len(a)):
            b[i] = a[i] - 0.25 * (3 * a[i] - 4 * a[i - 1] + a[i - 2])
        # pragma parallel for simd
        for i in range(2, len(a)):
            a[i] = b[i] if b[i] > 0 else -b[i]


def integers(steps, a, b):
    """Backward, over every other element of arrays; what its loops leave."""
    i = -1
    for t in range(steps, 0, -1):
        # pragma parallel for simd
        for i in range(1, len(a) - 1):
            b[i] = (a[i - 1] + 3 * a[i + 1] + t) % 1000003
        # pragma parallel for simd
        for i in range(1, len(a) - 1):
            a[i] = b[i + 1] - b[i]
        b[0] = b[1]
    return t, i


def arguments(name: str, steps: int, n: int) -> tuple:
    rng = np.random.default_rng(n)
    made = [rng.random(n) for _ in range(3)]
    return {
        "jacobi": (steps, *made[:2]),
        "slices": (steps, *(a.astype(np.float32) for a in made[:2])),
        "wave": (steps, *made),
        "maxwell": (steps, made[0], made[1][:-1].copy(), made[2], rng.random(steps)),
        "upwind": (steps, *made[:2]),
        "integers": (steps, *(rng.integers(0, 1000, 2 * n)[::2] for _ in range(2))),
    }[name]


FUNCTIONS = {f.__name__: f for f in (jacobi, slices, wave, maxwell, upwind, integers)}


def main(*names: str) -> None:
    for name in names:
        compiled = appy.jit(strict=True, backend="cuda")(FUNCTIONS[name])
        for n in (3, 40, 600, 3001):
            for steps in (1, 2, 3, 70):
                args = arguments(name, steps, n)
                result = compiled(*args)
                if (n, steps) == (600, 70):
                    plain = arguments(name, steps, n)
                    assert FUNCTIONS[name](*plain) == result
                    assert all(
                        np.allclose(a, b, rtol=1e-5 if a.dtype == np.float32 else 1e-12)
                        for a, b in zip(args, plain)
                        if isinstance(a, np.ndarray)
                    )
                digest = hashlib.sha256(b"".join(a.tobytes() for a in args[1:])).hexdigest()[:16]
                print(name, n, steps, result, digest)
        with contextlib.redirect_stdout(io.StringIO()):
            text = str(appy.explain(compiled))
        if "by overlapping tiles" in text:
            print(name, "is tiled")


if __name__ == "__main__":
    main(*sys.argv[1:])
