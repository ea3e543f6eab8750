"""Loops that follow each other, and loops around annotated ones: what a device runs as one region.

Each program has what it is called with, and how many launches it is on a device: None where that is not counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Program(NamedTuple):
    function: Callable[..., Any]
    arguments: Callable[[], tuple[Any, ...]]
    launches: int | None


def programs_in(found: dict[str, Program]) -> Any:
    """The decorator that adds to these."""

    def program(arguments: Callable[[np.random.Generator], tuple[Any, ...]], launches: int | None = 1) -> Any:
        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            name = function.__name__
            found[name] = Program(function, lambda: arguments(np.random.default_rng(len(name))), launches)
            return function

        return add

    return program


PROGRAMS: dict[str, Program] = {}
program = programs_in(PROGRAMS)


@program(lambda rng: (rng.random((20, 33)), np.zeros((20, 33))))
def go_fast(a, out):
    trace = 0.0
    # pragma parallel for simd
    for i in range(a.shape[0]):
        trace += np.tanh(a[i, i])
    # pragma parallel for
    for i in range(a.shape[0]):
        # pragma simd
        for j in range(a.shape[1]):
            out[i, j] = a[i, j] + trace


@program(lambda rng: (rng.random(300), rng.random(300)))
def conjugate(r, p):
    rr = 0.0
    # pragma parallel for simd
    for i in range(len(r)):
        rr += r[i] * r[i]
    pp = 0.0
    # pragma parallel for simd
    for i in range(len(p)):
        pp += p[i] * p[i]
    alpha = rr / pp
    beta, gamma = alpha + 1, alpha * 0.5
    # pragma parallel for simd
    for i in range(len(r)):
        r[i] -= alpha * p[i]
    # pragma 0=>parallel
    p[:] = gamma * p + beta * r
    return alpha, beta


@program(lambda rng: (rng.integers(-5, 5, 100),))
def counted(x):
    n = 0
    # pragma parallel for simd
    for i in range(len(x)):
        if x[i] > 0:
            n += 1
    m = n * 2 + 1
    # pragma parallel for simd
    for i in range(len(x)):
        x[i] += m
    return n, m, type(n), i, type(i)


@program(lambda rng: (7, rng.random(700), rng.random(700)))
def jacobi_1d(steps, a, b):
    for _ in range(1, steps):
        # pragma parallel for simd
        for i in range(1, len(a) - 1):
            b[i] = 0.33333 * (a[i - 1] + a[i] + a[i + 1])
        # pragma parallel for simd
        for i in range(1, len(b) - 1):
            a[i] = 0.33333 * (b[i - 1] + b[i] + b[i + 1])


@program(lambda rng: (4, rng.random((24, 67)), rng.random((24, 67))))
def jacobi_2d(steps, a, b):
    for _ in range(1, steps):
        # pragma 1:-1=>parallel
        b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])
        # pragma 1:-1=>parallel
        a[1:-1, 1:-1] = 0.2 * (b[1:-1, 1:-1] + b[1:-1, :-2] + b[1:-1, 2:] + b[2:, 1:-1] + b[:-2, 1:-1])


@program(lambda rng: (rng.random((19, 70)), rng.random((19, 70)), rng.random((19, 70)), rng.random(5)))
def fdtd_2d(ex, ey, hz, fict):
    for t in range(len(fict)):
        ey[0, :] = fict[t]
        # pragma parallel for
        for i in range(1, ey.shape[0]):
            # pragma simd
            for j in range(ey.shape[1]):
                ey[i, j] -= 0.5 * (hz[i, j] - hz[i - 1, j])
        # pragma parallel for
        for i in range(ex.shape[0]):
            # pragma simd
            for j in range(1, ex.shape[1]):
                ex[i, j] -= 0.5 * (hz[i, j] - hz[i, j - 1])
        # pragma parallel for
        for i in range(hz.shape[0] - 1):
            # pragma simd
            for j in range(hz.shape[1] - 1):
                hz[i, j] -= 0.7 * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])


@program(lambda rng: (rng.random((13, 9)), np.zeros((13, 9)), np.zeros((9, 9))))
def gramschmidt(a, q, r):
    for k in range(a.shape[1]):
        norm = 0.0
        # pragma parallel for simd
        for i in range(a.shape[0]):
            norm += a[i, k] * a[i, k]
        r[k, k] = math.sqrt(norm)
        # pragma parallel for simd
        for i in range(a.shape[0]):
            q[i, k] = a[i, k] / r[k, k]
        # pragma parallel for
        for j in range(k + 1, a.shape[1]):
            s = 0.0
            # pragma simd
            for i in range(a.shape[0]):
                s += q[i, k] * a[i, j]
            r[k, j] = s
            # pragma simd
            for i in range(a.shape[0]):
                a[i, j] -= q[i, k] * r[k, j]


@program(lambda rng: (rng.random((30, 30)) * 10,))
def floyd_warshall(paths):
    n = len(paths)
    for k in range(n):
        # pragma parallel for
        for i in range(n):
            # pragma simd
            for j in range(n):
                paths[i, j] = min(paths[i, j], paths[i, k] + paths[k, j])


@program(lambda rng: (6, rng.random(600), rng.random(600)))
def alternating(steps, a, b):
    for t in range(steps):
        if t % 3 == 2:
            continue
        if t % 2 == 0:
            # pragma parallel for simd
            for i in range(1, len(a)):
                b[i] = a[i - 1] + t
        else:
            # pragma parallel for simd
            for i in range(1, len(a)):
                a[i] = b[i - 1] * 0.5
    return t, type(t)


@program(lambda rng: (rng.random((6, 600)),))
def triangular(a):
    for i in range(a.shape[0]):
        for k in range(i):
            # pragma parallel for simd
            for j in range(a.shape[1]):
                a[i, j] -= 0.25 * a[k, j]


@program(lambda rng: (rng.random(900), 5))
def summed(x, steps):
    total = 0.0
    history = 0
    for _ in range(steps):
        s = 0.0
        # pragma parallel for simd
        for i in range(len(x)):
            s += x[i]
        total += s
        history += 1
        # pragma parallel for simd
        for i in range(len(x)):
            x[i] = x[i] / s + 0.1
    return total, history, type(history)


@program(lambda rng: (rng.random(20), 0))
def never(x, steps):
    last = None
    for t in range(steps):
        last = t
        # pragma parallel for simd
        for i in range(len(x)):
            x[i] = 0.0
    return last


@program(lambda rng: (rng.random(700), 3))
def around(x, steps):
    # pragma parallel for simd
    for i in range(len(x)):
        x[i] += 1.0
    w = 0.5
    for t in range(steps):
        # pragma parallel for simd
        for i in range(len(x)):
            x[i] *= w + t
    # pragma parallel for simd
    for i in range(len(x)):
        x[i] -= 1.0


@program(lambda rng: (rng.random(1200), 4))
def reversing(x, steps):
    for _ in range(steps):
        # pragma parallel for simd
        for i in range(len(x) // 2):
            x[i], x[len(x) - 1 - i] = x[len(x) - 1 - i], x[i] * 0.5


@program(lambda rng: (rng.random((8, 90)), 3))
def with_a_row_of_its_own(a, steps):
    for t in range(steps):
        row = a[t] * 2.0
        # pragma parallel for
        for i in range(a.shape[0]):
            # pragma simd
            for j in range(a.shape[1]):
                a[i, j] += row[j]


@program(lambda rng: (rng.random(400), 6))
def shrinking(a, steps):
    for k in range(steps):
        # pragma parallel for simd
        for j in range(k + 1, len(a)):
            a[j] = a[j] * 0.5 + k


@program(lambda rng: (rng.random(600), 6))
def sliding(a, steps):
    for t in range(steps):
        # pragma parallel for simd
        for j in range(len(a) - steps):
            a[j + t] = a[j + t] * 0.5 + t


@program(lambda rng: (rng.random((40, 70)), np.zeros((40, 70)), 4))
def sliding_rows(a, b, steps):
    for t in range(steps):
        # pragma parallel for
        for i in range(a.shape[0] - steps):
            s = 0.0
            # pragma simd
            for j in range(a.shape[1] - t):
                s += a[i + t, j + t]
            # pragma simd
            for j in range(a.shape[1] - t):
                a[i + t, j + t] = a[i + t, j + t] * 0.5 + s
                b[i, j] += s


@program(lambda rng: (rng.random((9, 70)), np.zeros(9), np.zeros((9, 70))))
def column_sums_of_rows(m, c, out):
    # pragma parallel for
    for i in range(m.shape[0]):
        # pragma simd
        for j in range(m.shape[1]):
            m[i, j] = m[i, j] * 0.5 + c[i]
    # pragma parallel for
    for i in range(len(c)):
        c[i] = c[i] + 1.0
    # pragma parallel for
    for i in range(m.shape[0]):
        # pragma simd
        for j in range(m.shape[1]):
            out[i, j] = m[i, j] * c[i]


@program(lambda rng: (rng.random((5, 70)), np.zeros((5, 70)), np.zeros((5, 70))))
def other_lanes_of_a_worker(a, b, c):
    # pragma parallel for
    for i in range(a.shape[0]):
        s = 0.0
        # pragma simd
        for j in range(a.shape[1]):
            s += a[i, j]
        # pragma simd
        for j in range(a.shape[1]):
            b[i, j] = a[i, j] / s
    # pragma parallel for
    for i in range(a.shape[0] - 1):
        s = 0.0
        # pragma simd
        for j in range(a.shape[1]):
            s = max(s, b[i, a.shape[1] - 1 - j])
        # pragma simd
        for j in range(a.shape[1]):
            c[i, j] = b[i, a.shape[1] - 1 - j] / s


@program(lambda rng: (rng.integers(0, 12, 400), np.zeros(12, dtype=np.int64), np.zeros(12)))
def histogram_then_share(data, counts, share):
    # pragma parallel for
    for i in range(len(data)):
        # pragma atomic
        counts[data[i]] += 1
    n = len(data)
    # pragma parallel for simd
    for k in range(len(counts)):
        share[k] = counts[k] / n


@program(lambda rng: ((x := rng.random(700))[1:], x[:-1]), launches=None)
def overlapping(a, b):
    for _ in range(3):
        # pragma parallel for simd
        for i in range(len(a)):
            a[i] = a[i] + 1.0
        # pragma parallel for simd
        for i in range(len(a)):
            b[i] = b[i] * 0.5


@program(lambda rng: (rng.random(20), 3, []), launches=3)
def telling(x, steps, told):
    for t in range(steps):
        # pragma parallel for simd
        for i in range(len(x)):
            x[i] += t
        told.append(float(x[0]))


@program(lambda rng: (rng.random(20), 4), launches=None)
def leaving(x, steps):
    for t in range(steps):
        s = 0.0
        # pragma parallel for simd
        for i in range(len(x)):
            s += x[i]
        if s > 20.0:
            break
        # pragma parallel for simd
        for i in range(len(x)):
            x[i] *= 1.5
    return s, t


@program(lambda rng: (rng.random(20), rng.random(20)), launches=None)
def in_a_try(x, y):
    try:
        # pragma parallel for simd
        for i in range(len(x)):
            x[i] += 1.0
        # pragma parallel for simd
        for i in range(len(x)):
            y[i] = x[len(x) - 1 - i]
    finally:
        # pragma parallel for simd
        for i in range(len(x)):
            x[i] *= 2.0
        # pragma parallel for simd
        for i in range(len(x)):
            y[i] += x[len(x) - 1 - i]


@program(lambda rng: (rng.random(16), 0.0), launches=None)
def dividing(x, zero):
    s = 0.0
    # pragma parallel for simd
    for i in range(len(x)):
        s += x[i]
        x[i] = 1.0
    q = 1.0 / zero
    # pragma parallel for simd
    for i in range(len(x)):
        x[i] = q


@program(lambda rng: (np.zeros(8), np.array([1, 5, 9, 2])), launches=None)
def gathering(x, places):
    for t in range(len(places)):
        # pragma parallel for simd
        for i in range(len(x)):
            x[i] += places[t]
        # pragma parallel for
        for k in range(1):
            x[places[t]] += 1.0


@program(lambda rng: (rng.random((30, 45)) + 0.5, np.zeros(45), np.zeros(30), 5))
def balanced(a, columns, rows, steps):
    for _ in range(steps):
        # pragma parallel for
        for j in range(a.shape[1]):
            s = 0.0
            # pragma simd
            for i in range(a.shape[0]):
                s += a[i, j]
            columns[j] = s
        # pragma parallel for
        for i in range(a.shape[0]):
            # pragma simd
            for j in range(a.shape[1]):
                a[i, j] /= columns[j]
        # pragma parallel for
        for i in range(a.shape[0]):
            s = 0.0
            # pragma simd
            for j in range(a.shape[1]):
                s += a[i, j]
            rows[i] = s
            # pragma simd
            for j in range(a.shape[1]):
                a[i, j] /= s


@program(lambda rng: (rng.random((25, 300)), np.zeros((6, 300)), 6))
def centred(a, means, steps):
    for t in range(steps):
        # pragma parallel for
        for j in range(2, a.shape[1]):
            s = 0.0
            # pragma simd
            for i in range(1, a.shape[0]):
                s += a[i, j]
            means[t, j] = s / (a.shape[0] - 1)
        # pragma parallel for
        for i in range(1, a.shape[0]):
            # pragma simd
            for j in range(2, a.shape[1]):
                a[i, j] -= 0.5 * means[t, j]


@program(lambda rng: (rng.random((33, 40)), np.zeros((33, 40)), np.zeros((40, 40))))
def projected(a, q, r):
    for k in range(a.shape[1] - 2):
        # pragma simd
        for i in range(a.shape[0]):
            q[i, k] = a[i, k] * 0.125
        # pragma parallel for
        for j in range(k + 2, a.shape[1] - 1):
            s = 0.0
            # pragma simd
            for i in range(a.shape[0]):
                s += q[i, k] * a[i, j]
            r[k, j] = s
        # pragma parallel for
        for i in range(a.shape[0]):
            # pragma simd
            for j in range(k + 2, a.shape[1] - 1):
                a[i, j] -= q[i, k] * r[k, j] * r[k, j]
        # pragma simd
        for i in range(a.shape[0]):
            q[i, k] += 1.0
