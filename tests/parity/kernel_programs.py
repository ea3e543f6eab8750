"""Kernels of scientific codes, each in two spellings: array statements, and loops as `<name>_loops`.

Those of the benchmarks are in scientific_programs.py. Registered with registry.py.
"""

from __future__ import annotations

import numpy as np
from array_programs import matrices, sparse
from registry import FLOATS, NUMBERS, program, values


def with_numbers(*numbers, shapes):
    return lambda dtype, rng: (*numbers, *matrices(*shapes)(dtype, rng))


# ---- vectors and matrices


@program(matrices((1003,), (1003,), (1003,)), dtypes=NUMBERS)
def vector_add(a, b, c):
    # pragma :=>parallel,simd
    c[:] = a + b


@program(matrices((1003,), (1003,), (1003,)), dtypes=NUMBERS)
def vector_add_loops(a, b, c):
    # pragma parallel for simd
    for i in range(a.shape[0]):
        c[i] = a[i] + b[i]


GEMV = with_numbers(1.5, 1.25, shapes=[(43, 57), (57,), (43,)])


@program(GEMV, scale=100.0)
def gemv(alpha, beta, a, x, y):
    # pragma :=>parallel 1=>reduction(sum)
    y[:] = alpha * a @ x + beta * y


@program(GEMV, scale=100.0)
def gemv_loops(alpha, beta, a, x, y):
    # pragma parallel for
    for i in range(a.shape[0]):
        s = 0.0
        # pragma simd
        for j in range(a.shape[1]):
            s += a[i, j] * x[j]
        y[i] = alpha * s + beta * y[i]


# ---- row programs

LAYER_NORM = matrices((20, 70), (70,), (70,))


@program(LAYER_NORM, ulps=32, scale=8.0)
def layer_norm(x, gain, bias):
    # pragma 0=>parallel 2=>reduction(sum)
    mean = x.mean(axis=-1, keepdims=True)
    # pragma 0=>parallel 2=>reduction(sum)
    std = x.std(axis=-1, keepdims=True)
    # pragma 0=>parallel 1=>simd
    out = (x - mean) / (std + 1e-5) * gain + bias
    return out


@program(LAYER_NORM, ulps=32, scale=8.0)
def layer_norm_loops(x, gain, bias):
    out = np.empty_like(x)
    n = x.shape[1]
    # pragma parallel for
    for i in range(x.shape[0]):
        s = 0.0
        # pragma simd
        for j in range(n):
            s += x[i, j]
        mean = s / n
        v = 0.0
        # pragma simd
        for j in range(n):
            v += (x[i, j] - mean) ** 2
        std = np.sqrt(v / n)
        # pragma simd
        for j in range(n):
            out[i, j] = (x[i, j] - mean) / (std + 1e-5) * gain[j] + bias[j]
    return out


# ---- statistics

CORRELATION = with_numbers(30.0, shapes=[(30, 14)])


@program(CORRELATION, scale=64.0, ulps=64)
def correlation(float_n, data):
    m = data.shape[1]
    # pragma 0=>parallel
    mean = np.mean(data, axis=0)
    # pragma 0=>parallel
    stddev = np.std(data, axis=0)
    # pragma 0=>parallel
    stddev[stddev <= 0.1] = 1.0
    # pragma 0=>parallel 1=>simd
    data -= mean
    # pragma 0=>parallel 1=>simd
    data /= np.sqrt(float_n) * stddev
    # pragma 0=>parallel 1=>simd
    corr = np.eye(m, dtype=data.dtype)
    # pragma parallel for
    for i in range(m - 1):
        corr[i + 1 : m, i] = corr[i, i + 1 : m] = data[:, i] @ data[:, i + 1 : m]
    return corr


@program(CORRELATION, scale=64.0, ulps=64)
def correlation_loops(float_n, data):
    n, m = data.shape
    corr = np.zeros((m, m), dtype=data.dtype)
    # pragma parallel for
    for j in range(m):
        mean = 0.0
        for i in range(n):
            mean += data[i, j]
        mean /= n
        var = 0.0
        for i in range(n):
            var += (data[i, j] - mean) ** 2
        std = np.sqrt(var / n)
        if std <= 0.1:
            std = 1.0
        for i in range(n):
            data[i, j] = (data[i, j] - mean) / (np.sqrt(float_n) * std)
    # pragma parallel for
    for i in range(m):
        corr[i, i] = 1.0
        for j in range(i + 1, m):
            s = 0.0
            # pragma simd
            for k in range(n):
                s += data[k, i] * data[k, j]
            corr[i, j] = corr[j, i] = s
    return corr


# ---- masks, gathers, scatters, atomics


def labelled(dtype, rng):
    return values(rng, dtype, 50, 33), rng.integers(0, 7, 50), np.zeros((7, 33), dtype)


@program(labelled, dtypes=(*FLOATS, "int32", "int64"), scale=100.0)
def group_by_label(data, labels, out):
    n = data.shape[1]
    # pragma parallel for
    for i in range(data.shape[0]):
        # pragma atomic :n=>le(128)
        out[labels[i], :n] += data[i, :n]


@program(labelled, dtypes=(*FLOATS, "int32", "int64"), scale=100.0)
def group_by_label_loops(data, labels, out):
    # pragma parallel for
    for i in range(data.shape[0]):
        # pragma simd le(128)
        for j in range(data.shape[1]):
            # pragma atomic
            out[labels[i], j] += data[i, j]


@program(sparse, scale=20.0)
def spmm(ptr, col, val, b, c):
    # pragma parallel for
    for i in range(c.shape[0]):
        for k in range(ptr[i], ptr[i + 1]):
            c[i, :] += val[k] * b[col[k], :]


@program(sparse, scale=20.0)
def spmm_loops(ptr, col, val, b, c):
    # pragma parallel for
    for i in range(c.shape[0]):
        for k in range(ptr[i], ptr[i + 1]):
            # pragma simd
            for j in range(c.shape[1]):
                c[i, j] += val[k] * b[col[k], j]


KMEANS = with_numbers(3, shapes=[(60, 5), (4, 5)])


@program(KMEANS, scale=64.0, ulps=32)
def k_means(steps, points, centres):
    labels = np.zeros(points.shape[0], dtype=np.int64)
    for t in range(steps):
        # pragma 0=>parallel
        distance = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        # pragma :=>parallel
        labels[:] = np.argmin(distance, axis=1)
        # pragma parallel for
        for k in range(centres.shape[0]):
            mine = labels == k
            if mine.any():
                centres[k] = points[mine].mean(axis=0)
    return labels


@program(KMEANS, scale=64.0, ulps=32)
def k_means_loops(steps, points, centres):
    n, d = points.shape
    labels = np.zeros(n, dtype=np.int64)
    for t in range(steps):
        sums = np.zeros_like(centres)
        counts = np.zeros(centres.shape[0], dtype=np.int64)
        # pragma parallel for
        for i in range(n):
            best = np.inf
            at = 0
            for k in range(centres.shape[0]):
                s = 0.0
                # pragma simd
                for j in range(d):
                    s += (points[i, j] - centres[k, j]) ** 2
                if s < best:
                    best = s
                    at = k
            labels[i] = at
            # pragma atomic
            counts[at] += 1
            for j in range(d):
                # pragma atomic
                sums[at, j] += points[i, j]
        # pragma parallel for
        for k in range(centres.shape[0]):
            if counts[k] > 0:
                for j in range(d):
                    centres[k, j] = sums[k, j] / counts[k]
    return labels


CONV2D = matrices((2, 9, 9, 3), (3, 3, 3, 4))


@program(CONV2D, scale=64.0)
def conv2d(image, weights):
    k = weights.shape[0]
    h, w = image.shape[1] - k + 1, image.shape[2] - k + 1
    out = np.empty((image.shape[0], h, w, weights.shape[3]), dtype=image.dtype)
    # pragma parallel for
    for i in range(h):
        for j in range(w):
            window = image[:, i : i + k, j : j + k, :, np.newaxis]
            out[:, i, j, :] = np.sum(window * weights[np.newaxis, :, :, :], axis=(1, 2, 3))
    return out


@program(CONV2D, scale=64.0)
def conv2d_loops(image, weights):
    k, _, channels, kernels = weights.shape
    h, w = image.shape[1] - k + 1, image.shape[2] - k + 1
    out = np.zeros((image.shape[0], h, w, kernels), dtype=image.dtype)
    # pragma parallel for
    for n in range(image.shape[0]):
        for i in range(h):
            for j in range(w):
                for y in range(k):
                    for x in range(k):
                        for c in range(channels):
                            # pragma simd
                            for o in range(kernels):
                                out[n, i, j, o] += image[n, i + y, j + x, c] * weights[y, x, c, o]
    return out


def transport(dtype, rng):
    kernel = np.abs(values(rng, dtype, 16, 18)) + np.asarray(0.1, dtype)
    return 4, kernel, np.full(16, 1 / 16, dtype), np.full(18, 1 / 18, dtype)


@program(transport, scale=8.0, ulps=64)
def sinkhorn(steps, kernel, a, b):
    u, v = np.ones_like(a), np.ones_like(b)
    error = 0.0
    for t in range(steps):
        # pragma 0=>parallel 1=>reduction(sum)
        new = a / (kernel @ v)
        # pragma 0=>parallel 1=>reduction(sum)
        v[:] = b / (kernel.T @ new)
        # pragma 0=>reduction(max)
        error = np.abs(new - u).max()
        # pragma :=>simd
        u[:] = new
    # pragma 0=>parallel 1=>simd
    plan = u[:, None] * kernel * v[None, :]
    return plan, error


@program(transport, scale=8.0, ulps=64)
def sinkhorn_loops(steps, kernel, a, b):
    m, n = kernel.shape
    u, v = np.ones_like(a), np.ones_like(b)
    error = a.dtype.type(0)
    for t in range(steps):
        error = a.dtype.type(0)
        # pragma parallel for
        for i in range(m):
            s = 0.0
            # pragma simd
            for j in range(n):
                s += kernel[i, j] * v[j]
            new = a[i] / s
            error = max(error, np.abs(new - u[i]))
            u[i] = new
        # pragma parallel for
        for j in range(n):
            s = 0.0
            for i in range(m):
                s += kernel[i, j] * u[i]
            v[j] = b[j] / s
    plan = np.empty_like(kernel)
    # pragma parallel for
    for i in range(m):
        # pragma simd
        for j in range(n):
            plan[i, j] = u[i] * kernel[i, j] * v[j]
    return plan, error
