"""Graph and stencil kernels, each in two spellings as those of kernel_programs.py."""

from __future__ import annotations

import numpy as np
from array_programs import matrices
from kernel_programs import with_numbers
from registry import FLOATS, program, values


def distances(dtype, rng):
    return (np.abs(values(rng, dtype, 20, 20)) * 50 + 1,)


@program(distances, dtypes=(*FLOATS, "int32"))
def floyd_warshall(path):
    for k in range(path.shape[0]):
        # pragma 0=>parallel 1=>simd
        path[:] = np.minimum(path[:], np.add.outer(path[:, k], path[k, :]))


@program(distances, dtypes=(*FLOATS, "int32"))
def floyd_warshall_loops(path):
    n = path.shape[0]
    # pragma sequential for
    for k in range(n):
        # pragma parallel for
        for i in range(n):
            # pragma simd
            for j in range(n):
                path[i, j] = min(path[i, j], path[i, k] + path[k, j])


@program(matrices((25, 25)), scale=64.0)
def go_fast(a):
    # pragma 0=>reduction(sum)
    trace = np.sum(np.tanh(np.diag(a)))
    # pragma 0=>parallel 1=>simd
    out = a + trace
    return out


@program(matrices((25, 25)), scale=64.0)
def go_fast_loops(a):
    out = np.empty_like(a)
    trace = 0.0
    # pragma simd
    for i in range(a.shape[0]):
        trace += np.tanh(a[i, i])
    # pragma parallel for
    for i in range(a.shape[0]):
        # pragma simd
        for j in range(a.shape[1]):
            out[i, j] = a[i, j] + trace
    return out


HEAT = with_numbers(3, shapes=[(12, 13, 14), (12, 13, 14)])


@program(HEAT, scale=16.0, options={"dim_info": {"a": ("M", "N", "K"), "b": ("M", "N", "K")}})
def heat_3d(steps, a, b):
    # pragma sequential for
    for t in range(1, steps):
        # pragma 1:M-1=>parallel 1:N-1=>parallel 1:K-1=>simd
        b[1:-1, 1:-1, 1:-1] = (
            0.125 * (a[2:, 1:-1, 1:-1] - 2.0 * a[1:-1, 1:-1, 1:-1] + a[:-2, 1:-1, 1:-1])
            + 0.125 * (a[1:-1, 2:, 1:-1] - 2.0 * a[1:-1, 1:-1, 1:-1] + a[1:-1, :-2, 1:-1])
            + 0.125 * (a[1:-1, 1:-1, 2:] - 2.0 * a[1:-1, 1:-1, 1:-1] + a[1:-1, 1:-1, 0:-2])
            + a[1:-1, 1:-1, 1:-1]
        )
        # pragma 1:M-1=>parallel 1:N-1=>parallel 1:K-1=>simd
        a[1:-1, 1:-1, 1:-1] = (
            0.125 * (b[2:, 1:-1, 1:-1] - 2.0 * b[1:-1, 1:-1, 1:-1] + b[:-2, 1:-1, 1:-1])
            + 0.125 * (b[1:-1, 2:, 1:-1] - 2.0 * b[1:-1, 1:-1, 1:-1] + b[1:-1, :-2, 1:-1])
            + 0.125 * (b[1:-1, 1:-1, 2:] - 2.0 * b[1:-1, 1:-1, 1:-1] + b[1:-1, 1:-1, 0:-2])
            + b[1:-1, 1:-1, 1:-1]
        )


def heat_step(a, b, i, j, k):
    x = 2.0 * a[i, j, k]
    rows = 0.125 * (a[i + 1, j, k] - x + a[i - 1, j, k])
    columns = 0.125 * (a[i, j + 1, k] - x + a[i, j - 1, k])
    depth = 0.125 * (a[i, j, k + 1] - x + a[i, j, k - 1])
    b[i, j, k] = rows + columns + depth + a[i, j, k]


@program(HEAT, scale=16.0)
def heat_3d_loops(steps, a, b):
    # pragma sequential for
    for t in range(1, steps):
        # pragma parallel for
        for i in range(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                # pragma simd
                for k in range(1, a.shape[2] - 1):
                    heat_step(a, b, i, j, k)
        # pragma parallel for
        for i in range(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                # pragma simd
                for k in range(1, a.shape[2] - 1):
                    heat_step(b, a, i, j, k)


JACOBI_1D = with_numbers(4, shapes=[(90,), (90,)])


@program(JACOBI_1D, scale=8.0)
def jacobi_1d(steps, a, b):
    for t in range(1, steps):
        # pragma 1:-1=>simd
        b[1:-1] = 0.33333 * (a[:-2] + a[1:-1] + a[2:])
        # pragma 1:-1=>simd
        a[1:-1] = 0.33333 * (b[:-2] + b[1:-1] + b[2:])


@program(JACOBI_1D, scale=8.0)
def jacobi_1d_loops(steps, a, b):
    for t in range(1, steps):
        # pragma parallel for simd
        for i in range(1, a.shape[0] - 1):
            b[i] = 0.33333 * (a[i - 1] + a[i] + a[i + 1])
        # pragma parallel for simd
        for i in range(1, a.shape[0] - 1):
            a[i] = 0.33333 * (b[i - 1] + b[i] + b[i + 1])


JACOBI_2D = with_numbers(4, shapes=[(30, 31), (30, 31)])


@program(JACOBI_2D, scale=8.0)
def jacobi_2d(steps, a, b):
    for t in range(1, steps):
        # pragma 0=>parallel 1=>simd
        b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])
        # pragma 0=>parallel 1=>simd
        a[1:-1, 1:-1] = 0.2 * (b[1:-1, 1:-1] + b[1:-1, :-2] + b[1:-1, 2:] + b[2:, 1:-1] + b[:-2, 1:-1])


@program(JACOBI_2D, scale=8.0)
def jacobi_2d_loops(steps, a, b):
    m, n = a.shape
    for t in range(1, steps):
        # pragma parallel for
        for i in range(1, m - 1):
            # pragma simd
            for j in range(1, n - 1):
                b[i, j] = 0.2 * (a[i, j] + a[i, j - 1] + a[i, j + 1] + a[i + 1, j] + a[i - 1, j])
        # pragma parallel for
        for i in range(1, m - 1):
            # pragma simd
            for j in range(1, n - 1):
                a[i, j] = 0.2 * (b[i, j] + b[i, j - 1] + b[i, j + 1] + b[i + 1, j] + b[i - 1, j])


FDTD = with_numbers(3, shapes=[(20, 21), (20, 21), (20, 21), (3,)])


@program(FDTD, scale=16.0)
def fdtd_2d(steps, ex, ey, hz, fict):
    for t in range(steps):
        # pragma :=>simd
        ey[0, :] = fict[t]
        # pragma 1:=>parallel :=>simd
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        # pragma :=>parallel 1:=>simd
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        # pragma :-1=>parallel
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])


@program(FDTD, scale=16.0)
def fdtd_2d_loops(steps, ex, ey, hz, fict):
    m, n = hz.shape
    # pragma sequential for
    for t in range(steps):
        # pragma simd
        for j in range(n):
            ey[0, j] = fict[t]
        # pragma parallel for
        for i in range(1, m):
            # pragma simd
            for j in range(n):
                ey[i, j] -= 0.5 * (hz[i, j] - hz[i - 1, j])
        # pragma parallel for
        for i in range(m):
            # pragma simd
            for j in range(1, n):
                ex[i, j] -= 0.5 * (hz[i, j] - hz[i, j - 1])
        # pragma parallel for
        for i in range(m - 1):
            # pragma simd
            for j in range(n - 1):
                hz[i, j] -= 0.7 * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])


HDIFF = matrices((16, 17, 5), (12, 13, 5), (12, 13, 5))


@program(HDIFF, scale=64.0, ulps=32)
def hdiff(field, out, coeff):
    i, j = out.shape[0], out.shape[1]
    # pragma 0=>parallel
    lap = 4.0 * field[1 : i + 3, 1 : j + 3, :] - (
        field[2 : i + 4, 1 : j + 3, :]
        + field[0 : i + 2, 1 : j + 3, :]
        + field[1 : i + 3, 2 : j + 4, :]
        + field[1 : i + 3, 0 : j + 2, :]
    )
    # pragma 0=>parallel
    res = lap[1:, 1 : j + 1, :] - lap[:-1, 1 : j + 1, :]
    # pragma 0=>parallel
    flx = np.where((res * (field[2 : i + 3, 2 : j + 2, :] - field[1 : i + 2, 2 : j + 2, :])) > 0, 0, res)
    # pragma 0=>parallel
    res = lap[1 : i + 1, 1:, :] - lap[1 : i + 1, :-1, :]
    # pragma 0=>parallel
    fly = np.where((res * (field[2 : i + 2, 2 : j + 3, :] - field[2 : i + 2, 1 : j + 2, :])) > 0, 0, res)
    # pragma 0=>parallel
    out[:, :, :] = field[2 : i + 2, 2 : j + 2, :] - coeff[:, :, :] * (
        flx[1:, :, :] - flx[:-1, :, :] + fly[:, 1:, :] - fly[:, :-1, :]
    )


def laplacian(field, i, j, k):
    around = field[i + 1, j, k] + field[i - 1, j, k] + field[i, j + 1, k] + field[i, j - 1, k]
    return 4.0 * field[i, j, k] - around


@program(HDIFF, scale=64.0, ulps=32)
def hdiff_loops(field, out, coeff):
    m, n, depth = out.shape
    lap = np.empty((m + 2, n + 2, depth), dtype=field.dtype)
    flx = np.empty((m + 1, n, depth), dtype=field.dtype)
    fly = np.empty((m, n + 1, depth), dtype=field.dtype)
    # pragma parallel for
    for i in range(m + 2):
        for j in range(n + 2):
            # pragma simd
            for k in range(depth):
                lap[i, j, k] = laplacian(field, i + 1, j + 1, k)
    # pragma parallel for
    for i in range(m + 1):
        for j in range(n):
            # pragma simd
            for k in range(depth):
                r = lap[i + 1, j + 1, k] - lap[i, j + 1, k]
                flx[i, j, k] = 0 if r * (field[i + 2, j + 2, k] - field[i + 1, j + 2, k]) > 0 else r
    # pragma parallel for
    for i in range(m):
        for j in range(n + 1):
            # pragma simd
            for k in range(depth):
                r = lap[i + 1, j + 1, k] - lap[i + 1, j, k]
                fly[i, j, k] = 0 if r * (field[i + 2, j + 2, k] - field[i + 2, j + 1, k]) > 0 else r
    # pragma parallel for
    for i in range(m):
        for j in range(n):
            # pragma simd
            for k in range(depth):
                flux = flx[i + 1, j, k] - flx[i, j, k] + fly[i, j + 1, k] - fly[i, j, k]
                out[i, j, k] = field[i + 2, j + 2, k] - coeff[i, j, k] * flux
