"""The kernels of arrays.py as loops for Numba, parallel and with fastmath."""

import math

import numpy as np
from numba import njit, prange
from scientific.numba_versions import heat_3d  # noqa: F401

jit = njit(parallel=True, fastmath=True, cache=False)


@jit
def vector_add(a, b, c):
    for i in prange(len(a)):
        c[i] = a[i] + b[i]


@jit
def chain(a, b, c, out):
    for i in prange(len(a)):
        out[i] = a[i] * b[i] + c[i] - a[i] / 3 + b[i] * 2


@jit
def exponential(x, y):
    for i in prange(len(x)):
        y[i] = math.exp(x[i])


@jit
def softmax(x, out):
    for i in prange(x.shape[0]):
        m = -np.inf
        for j in range(x.shape[1]):
            m = max(m, x[i, j])
        s = 0.0
        for j in range(x.shape[1]):
            out[i, j] = math.exp(x[i, j] - m)
            s += out[i, j]
        for j in range(x.shape[1]):
            out[i, j] /= s


@jit
def layer_norm(x, gain, bias, out):
    n = x.shape[1]
    for i in prange(x.shape[0]):
        mean = 0.0
        for j in range(n):
            mean += x[i, j]
        mean /= n
        var = 0.0
        for j in range(n):
            var += (x[i, j] - mean) ** 2
        scale = 1 / math.sqrt(var / n + 1e-5)
        for j in range(n):
            out[i, j] = (x[i, j] - mean) * scale * gain[j] + bias[j]


@jit
def normalised(a, b):
    for i in prange(a.shape[0]):
        s = 0.0
        for j in range(a.shape[1]):
            s += a[i, j]
        for j in range(a.shape[1]):
            b[i, j] = a[i, j] / s


@njit(fastmath=True)
def column_sums(a, s):
    s[:] = 0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            s[j] += a[i, j]


@jit
def gesummv(alpha, beta, a, b, x, y):
    for i in prange(a.shape[0]):
        s = 0.0
        t = 0.0
        for j in range(a.shape[1]):
            s += a[i, j] * x[j]
            t += b[i, j] * x[j]
        y[i] = alpha * s + beta * t


@jit
def gemver(alpha, beta, a, u1, v1, u2, v2, w, x, y, z):
    n = a.shape[0]
    for i in prange(n):
        for j in range(n):
            a[i, j] += u1[i] * v1[j] + u2[i] * v2[j]
    x += beta * (y @ a) + z
    for i in prange(n):
        s = 0.0
        for j in range(n):
            s += a[i, j] * x[j]
        w[i] += alpha * s


@jit
def hdiff(in_field, out_field, coeff):
    ni, nj, nk = out_field.shape
    lap = np.empty((ni + 2, nj + 2, nk))
    for i in prange(ni + 2):
        for j in range(nj + 2):
            for k in range(nk):
                lap[i, j, k] = 4.0 * in_field[i + 1, j + 1, k] - (
                    in_field[i + 2, j + 1, k]
                    + in_field[i, j + 1, k]
                    + in_field[i + 1, j + 2, k]
                    + in_field[i + 1, j, k]
                )
    for i in prange(ni):
        for j in range(nj):
            for k in range(nk):
                x1 = lap[i + 2, j + 1, k] - lap[i + 1, j + 1, k]
                x1 = 0.0 if x1 * (in_field[i + 3, j + 2, k] - in_field[i + 2, j + 2, k]) > 0 else x1
                x0 = lap[i + 1, j + 1, k] - lap[i, j + 1, k]
                x0 = 0.0 if x0 * (in_field[i + 2, j + 2, k] - in_field[i + 1, j + 2, k]) > 0 else x0
                y1 = lap[i + 1, j + 2, k] - lap[i + 1, j + 1, k]
                y1 = 0.0 if y1 * (in_field[i + 2, j + 3, k] - in_field[i + 2, j + 2, k]) > 0 else y1
                y0 = lap[i + 1, j + 1, k] - lap[i + 1, j, k]
                y0 = 0.0 if y0 * (in_field[i + 2, j + 2, k] - in_field[i + 2, j + 1, k]) > 0 else y0
                out_field[i, j, k] = in_field[i + 2, j + 2, k] - coeff[i, j, k] * (x1 - x0 + y1 - y0)


@jit
def syrk(alpha, beta, c, a):
    for i in prange(a.shape[0]):
        for j in range(i + 1):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * a[j, k]
            c[i, j] = c[i, j] * beta + alpha * s
