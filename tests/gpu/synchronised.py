"""Programs whose kernels need barriers, each as ``make(rng) -> arguments`` and a function of these."""

from __future__ import annotations

import numpy as np


def jacobi_1d(a, b, steps):
    # pragma sequential for
    for t in range(steps):
        # pragma parallel for simd
        for i in range(1, a.shape[0] - 1):
            b[i] = (a[i - 1] + a[i] + a[i + 1]) / 3
        # pragma parallel for simd
        for i in range(1, a.shape[0] - 1):
            a[i] = (b[i - 1] + b[i] + b[i + 1]) / 3


def many_steps(u, v, w, steps):
    # pragma sequential for
    for t in range(steps):
        # pragma parallel for simd
        for i in range(1, u.shape[0] - 1):
            w[i] = 2 * v[i] - u[i] + 0.25 * (v[i - 1] - 2 * v[i] + v[i + 1])
        # pragma parallel for simd
        for i in range(u.shape[0]):
            u[i] = v[i]
        # pragma parallel for simd
        for i in range(u.shape[0]):
            v[i] = w[i]


def jacobi_2d(a, b, steps):
    # pragma sequential for
    for t in range(steps):
        # pragma parallel for
        for i in range(1, a.shape[0] - 1):
            # pragma simd
            for j in range(1, a.shape[1] - 1):
                b[i, j] = (a[i, j] + a[i, j - 1] + a[i, j + 1] + a[i - 1, j] + a[i + 1, j]) * 0.2
        # pragma parallel for
        for i in range(1, a.shape[0] - 1):
            # pragma simd
            for j in range(1, a.shape[1] - 1):
                a[i, j] = (b[i, j] + b[i, j - 1] + b[i, j + 1] + b[i - 1, j] + b[i + 1, j]) * 0.2


def reversed_sweep(a, b, steps):
    # pragma sequential for
    for t in range(steps):
        # pragma parallel for simd
        for i in range(a.shape[0]):
            b[i] = a[a.shape[0] - 1 - i] + 1
        # pragma parallel for simd
        for i in range(a.shape[0]):
            a[i] = b[i] * 0.5


def moving_window(a, steps):
    # pragma sequential for
    for t in range(steps):
        # pragma parallel for simd
        for i in range(a.shape[0] - steps):
            a[i + t] = a[i + t] * 0.5 + t


def moving_start(a, steps):
    # pragma sequential for
    for t in range(steps):
        # pragma parallel for simd
        for i in range(t, a.shape[0]):
            a[i] = a[i] * 0.5 + t


def scan_by_doubling(a, b, steps):
    # pragma sequential for
    for t in range(steps):
        # pragma parallel for simd
        for i in range(a.shape[0]):
            b[i] = a[i] + (a[i - (1 << t)] if i >= (1 << t) else 0.0)
        # pragma parallel for simd
        for i in range(a.shape[0]):
            a[i] = b[i]


def two_phases(x, y, z):
    # pragma sequential for
    for once in range(1):
        # pragma parallel for simd
        for i in range(x.shape[0]):
            y[i] = x[i] * 2
        # pragma parallel for simd
        for i in range(x.shape[0] - 1):
            z[i] = y[i + 1] - y[i]


def row_factors(x, s):
    # pragma sequential for
    for once in range(1):
        # pragma parallel for simd
        for i in range(x.shape[0]):
            s[i] = x[i, 0] + 1
        # pragma parallel for
        for i in range(x.shape[0]):
            f = s[i]
            # pragma simd
            for j in range(x.shape[1]):
                x[i, j] = x[i, j] * f


def row_heads(x):
    # pragma parallel for
    for i in range(x.shape[0]):
        head = x[i, 0]
        # pragma simd
        for j in range(x.shape[1]):
            x[i, j] = x[i, j] - head


def shifted_rows(x, y):
    # pragma parallel for
    for i in range(x.shape[0]):
        total = 0.0
        # pragma simd
        for j in range(x.shape[1]):
            total += x[i, j]
        # pragma simd
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] / total
        # pragma simd
        for j in range(x.shape[1] - 1):
            x[i, j] = y[i, j + 1]


def rows_in_two_loops(x, y, s):
    # pragma sequential for
    for once in range(1):
        # pragma parallel for
        for i in range(x.shape[0]):
            total = 0.0
            # pragma simd
            for j in range(x.shape[1]):
                total += x[i, j]
            s[i] = total
            # pragma simd
            for j in range(x.shape[1]):
                y[i, j] = x[i, j] * total
        # pragma parallel for
        for i in range(x.shape[0]):
            # pragma simd
            for j in range(x.shape[1] - 1):
                x[i, j] = y[i, j + 1]
            total = 0.0
            # pragma simd
            for j in range(x.shape[1]):
                total += x[i, j]
            s[i] = s[i] + total


def first_element(a, b, steps):
    # pragma sequential for
    for t in range(steps):
        a[0] = a[0] + 1
        # pragma parallel for simd
        for i in range(1, a.shape[0]):
            a[i] = a[0] + b[i]


def fib_then_map(a, b):
    # pragma sequential for
    for once in range(1):
        for i in range(2, 40):
            a[i] = a[i - 1] + a[i - 2]
        # pragma parallel for simd
        for i in range(b.shape[0]):
            b[i] = a[i % 40]


def bins_then_read(k, h, out):
    # pragma sequential for
    for once in range(1):
        # pragma parallel for
        for i in range(k.shape[0]):
            # pragma atomic
            h[k[i]] += 1
        # pragma parallel for simd
        for i in range(k.shape[0]):
            out[i] = h[k[i]]


def one_element(k, h):
    # Lanes that come together to one element, and others.
    # pragma sequential for
    for t in range(2):
        # pragma parallel for
        for i in range(k.shape[0]):
            # pragma atomic
            h[t] += k[i]
            # pragma atomic
            h[2 + i // 64] += 1
            # pragma atomic
            h[60 + k[i]] += i
            if i % 3:
                # pragma atomic
                h[50] -= t + 1


def sums_of_sizes(x, y, out, steps):
    # Partial results of several sizes, one reduction after the other.
    # pragma sequential for
    for t in range(steps):
        s = 0.0
        # pragma parallel for simd
        for i in range(x.shape[0]):
            s += x[i]
        q = 0.0
        # pragma parallel for simd
        for i in range(x.shape[0]):
            q += x[i] * y[i]
        low = 9.0
        where = -1
        high = -9.0
        # pragma parallel for simd
        for i in range(x.shape[0]):
            high = max(high, x[i])
            if x[i] < low:
                low = x[i]
                where = i
        out[t, 0] = s
        out[t, 1] = q
        out[t, 2] = low
        out[t, 3] = where
        out[t, 4] = high
        # pragma parallel for simd
        for i in range(x.shape[0]):
            y[i] = y[i] * 0.5 + q * 0.001 + s * 0.001
            x[i] = y[i] * 0.25 + low + high * 0.5 + where * 0.0001


def orthogonal(a, q, r):
    # The norm and what is divided by it are few operations: blocks need not wait for each other's part of it.
    # pragma sequential for
    for k in range(a.shape[1]):
        s = 0.0
        # pragma simd
        for i in range(a.shape[0]):
            s += a[i, k] * a[i, k]
        norm = np.sqrt(s)
        # pragma simd
        for i in range(a.shape[0]):
            q[i, k] = a[i, k] / norm
        # pragma parallel for
        for j in range(k + 1, a.shape[1]):
            t = 0.0
            # pragma simd
            for i in range(a.shape[0]):
                t += q[i, k] * a[i, j]
            r[k, j] = t
        # pragma parallel for
        for i in range(a.shape[0]):
            # pragma simd
            for j in range(k + 1, a.shape[1]):
                a[i, j] -= q[i, k] * r[k, j]


def swept(a, u, y, x, steps):
    # pragma sequential for
    for t in range(steps):
        # pragma 0=>parallel 1=>simd
        a += np.outer(u, x)
        # pragma 0=>parallel
        x[:] = 1e-3 * (y @ a)
        # pragma 0=>parallel
        u[:] = 0.5 * u + a[:, 7]


def _tall(rows, columns):
    return lambda rng: (rng.uniform(1, 2, (rows, columns)), np.zeros((rows, columns)), np.zeros((columns, columns)))


def _line(*more):
    return lambda rng: (rng.uniform(-1, 1, 700), rng.uniform(-1, 1, 700), *more)


# name: function, arguments
SYNCHRONISED = {
    f.__name__: (f, make)
    for f, make in [
        (jacobi_1d, _line(2)),
        (many_steps, lambda rng: (*rng.uniform(-1, 1, (3, 2500)), 60)),
        (jacobi_2d, lambda rng: (rng.uniform(-1, 1, (24, 40)), rng.uniform(-1, 1, (24, 40)), 2)),
        (reversed_sweep, _line(3)),
        (moving_window, lambda rng: (rng.uniform(-1, 1, 700), 4)),
        (moving_start, lambda rng: (rng.uniform(-1, 1, 700), 4)),
        (scan_by_doubling, _line(10)),
        (two_phases, lambda rng: (rng.uniform(-1, 1, 700), np.zeros(700), np.zeros(700))),
        (row_factors, lambda rng: (rng.uniform(1, 2, (40, 50)), np.zeros(40))),
        (row_heads, lambda rng: (rng.uniform(1, 2, (40, 50)),)),
        (shifted_rows, lambda rng: (rng.uniform(1, 2, (20, 300)), np.zeros((20, 300)))),
        (rows_in_two_loops, lambda rng: (rng.uniform(1, 2, (20, 300)), np.zeros((20, 300)), np.zeros(20))),
        (first_element, _line(3)),
        (fib_then_map, lambda rng: (rng.uniform(1, 2, 40), np.zeros(700))),
        (bins_then_read, lambda rng: (rng.integers(0, 9, 700), np.zeros(9, np.int64), np.zeros(700, np.int64))),
        (one_element, lambda rng: (rng.integers(0, 9, 700), np.zeros(70, np.int64))),
        (sums_of_sizes, lambda rng: (rng.uniform(-1, 1, 1500), rng.uniform(-1, 1, 1500), np.zeros((2, 5)), 2)),
    ]
}
# More than the emulated device caches, and steps enough: in overlapping boxes.
SYNCHRONISED["boxes"] = (jacobi_2d, lambda rng: (rng.uniform(-1, 1, (180, 190)), rng.uniform(-1, 1, (180, 190)), 9))
# Columns that a block takes in one go, and others that all blocks divide among them.
SYNCHRONISED["short_columns"] = (orthogonal, _tall(40, 9))
SYNCHRONISED["long_columns"] = (orthogonal, _tall(2100, 4))
# Columns enough for elements to be made where they are added up.
SYNCHRONISED["swept"] = (swept, lambda rng: (*(rng.uniform(-1, 1, s) for s in [(30, 1100), 30, 30, 1100]), 3))
# Columns of which each block has several groups.
SYNCHRONISED["many_columns"] = (orthogonal, _tall(64, 30))
