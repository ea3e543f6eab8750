"""The loops of loops.py as a Numba user writes them: njit with parallel and fastmath, prange outermost."""

import math

import numpy as np
from numba import njit, prange
from scientific.numba_versions import floyd_warshall  # noqa: F401

jit = njit(parallel=True, fastmath=True)


@jit
def saxpy(a, x, y):
    for i in prange(len(x)):
        y[i] = a * x[i] + y[i]


@jit
def dot(x, y):
    s = 0.0
    for i in prange(len(x)):
        s += x[i] * y[i]
    return s


@jit
def total(x):
    s = 0.0
    for i in prange(len(x)):
        s += x[i]
    return s


@jit
def product(x):
    p = 1.0
    for i in prange(len(x)):
        p *= x[i]
    return p


@jit
def largest(x):
    m = x[0]
    for i in prange(1, len(x)):
        m = max(m, x[i])
    return m


@njit(fastmath=True)
def argmin(x):
    # Numba has no argmin reduction under prange: its best version is its serial one.
    best = x[0]
    at = 0
    for i in range(1, len(x)):
        if x[i] < best:
            best = x[i]
            at = i
    return at


@njit(fastmath=True)
def prefix_sum(x, out):
    s = 0.0
    for i in range(len(x)):
        s += x[i]
        out[i] = s


@jit
def spmv(ptr, idx, val, x, y):
    for i in prange(len(y)):
        s = 0.0
        for j in range(ptr[i], ptr[i + 1]):
            s += val[j] * x[idx[j]]
        y[i] = s


@jit
def spmm(ptr, idx, val, B, C):
    for i in prange(C.shape[0]):
        for k in range(C.shape[1]):
            C[i, k] = 0.0
        for j in range(ptr[i], ptr[i + 1]):
            for k in range(C.shape[1]):
                C[i, k] += val[j] * B[idx[j], k]


@njit(fastmath=True)
def histogram(labels, h):
    # No atomics in Numba on the CPU: serial.
    for i in range(len(labels)):
        h[labels[i]] += 1


@jit
def mandelbrot(limit, out):
    h, w = out.shape
    for i in prange(h):
        for j in range(w):
            cr = -2.0 + 3.0 * j / w
            ci = -1.25 + 2.5 * i / h
            zr = 0.0
            zi = 0.0
            k = 0
            while k < limit and zr * zr + zi * zi < 4.0:
                t = zr * zr - zi * zi + cr
                zi = 2.0 * zr * zi + ci
                zr = t
                k += 1
            out[i, j] = k


@jit
def collatz(steps):
    for i in prange(1, len(steps)):
        m = np.int64(i)
        count = 0
        while m != 1:
            if m % 2 == 0:
                m = m // 2
            else:
                m = 3 * m + 1
            count += 1
        steps[i] = count


@njit(fastmath=True)
def normal_cdf(x):
    return 0.5 * (1.0 + math.erf(x * 0.7071067811865476))


@jit
def black_scholes(spot, strike, years, call, put):
    rate = 0.02
    vol = 0.30
    for i in prange(len(spot)):
        root = vol * math.sqrt(years[i])
        d1 = (math.log(spot[i] / strike[i]) + (rate + 0.5 * vol * vol) * years[i]) / root
        d2 = d1 - root
        discount = math.exp(-rate * years[i]) * strike[i]
        call[i] = spot[i] * normal_cdf(d1) - discount * normal_cdf(d2)
        put[i] = discount * normal_cdf(-d2) - spot[i] * normal_cdf(-d1)


@jit
def pi(n):
    s = 0.0
    step = 1.0 / n
    for i in prange(n):
        x = (i + 0.5) * step
        s += 4.0 / (1.0 + x * x)
    return s * step


@jit
def jacobi_1d(A, B):
    for i in prange(1, len(A) - 1):
        B[i] = 0.33333 * (A[i - 1] + A[i] + A[i + 1])


@jit
def jacobi_2d(A, B):
    for i in prange(1, A.shape[0] - 1):
        for j in range(1, A.shape[1] - 1):
            B[i, j] = 0.2 * (A[i, j] + A[i, j - 1] + A[i, j + 1] + A[i + 1, j] + A[i - 1, j])


@jit
def jacobi_3d(A, B):
    for i in prange(1, A.shape[0] - 1):
        for j in range(1, A.shape[1] - 1):
            for k in range(1, A.shape[2] - 1):
                B[i, j, k] = (
                    0.125 * (A[i + 1, j, k] - 2.0 * A[i, j, k] + A[i - 1, j, k])
                    + 0.125 * (A[i, j + 1, k] - 2.0 * A[i, j, k] + A[i, j - 1, k])
                    + 0.125 * (A[i, j, k + 1] - 2.0 * A[i, j, k] + A[i, j, k - 1])
                    + A[i, j, k]
                )


@jit
def periodic(u, out):
    n = len(u)
    for i in prange(n):
        out[i] = u[i - 1] - 2.0 * u[i] + u[(i + 1) % n]


@jit
def guarded(x, out):
    n = len(x)
    for i in prange(n):
        if i + 1 < n:
            out[i] = x[i + 1] - x[i]
        else:
            out[i] = x[i]
