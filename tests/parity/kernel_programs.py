"""Kernels of scientific codes, each in two spellings: array statements, and loops as `<name>_loops`.

The array spelling says what NPBench's definition of the kernel says, where it has one. Registered with registry.py.
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


GESUMMV = with_numbers(1.5, 1.25, shapes=[(40, 40), (40, 40), (40,), (40,)])


@program(GESUMMV, scale=100.0)
def gesummv(alpha, beta, a, b, x, y):
    # pragma :=>parallel 2=>reduction(sum)
    y[:] = alpha * a @ x + beta * b @ x


@program(GESUMMV, scale=100.0)
def gesummv_loops(alpha, beta, a, b, x, y):
    # pragma parallel for
    for i in range(a.shape[0]):
        s = 0.0
        t = 0.0
        # pragma simd
        for j in range(a.shape[1]):
            s += a[i, j] * x[j]
            t += b[i, j] * x[j]
        y[i] = alpha * s + beta * t


GEMVER = with_numbers(1.5, 1.25, shapes=[(30, 30)] + 8 * [(30,)])


@program(GEMVER, scale=2000.0)
def gemver(alpha, beta, a, u1, v1, u2, v2, w, x, y, z):
    # pragma 0=>parallel 1=>simd
    a += np.outer(u1, v1) + np.outer(u2, v2)
    # pragma 0=>parallel
    x += beta * y @ a + z
    # pragma 0=>parallel
    w += alpha * a @ x


@program(GEMVER, scale=2000.0)
def gemver_loops(alpha, beta, a, u1, v1, u2, v2, w, x, y, z):
    n = a.shape[0]
    # pragma parallel for
    for i in range(n):
        # pragma simd
        for j in range(n):
            a[i, j] += u1[i] * v1[j] + u2[i] * v2[j]
    # pragma parallel for
    for i in range(n):
        # pragma simd
        for j in range(n):
            x[i] += beta * a[j, i] * y[j]
        x[i] += z[i]
    # pragma parallel for
    for i in range(n):
        # pragma simd
        for j in range(n):
            w[i] += alpha * a[i, j] * x[j]


# ---- row programs

SOFTMAX = matrices((3, 4, 6, 37))


@program(SOFTMAX, ulps=16, scale=2.0)
def softmax(x):
    # pragma 4=>reduction(max)
    highest = np.max(x, axis=-1, keepdims=True)
    # pragma 0=>simd
    e = np.exp(x - highest)
    # pragma 4=>reduction(sum)
    total = np.sum(e, axis=-1, keepdims=True)
    # pragma 0=>simd
    out = e / total
    return out


@program(SOFTMAX, ulps=16, scale=2.0)
def softmax_loops(x):
    out = np.empty_like(x)
    # pragma parallel for
    for b in range(x.shape[0]):
        for h in range(x.shape[1]):
            for i in range(x.shape[2]):
                m = -np.inf
                # pragma simd
                for j in range(x.shape[3]):
                    m = max(m, x[b, h, i, j])
                s = 0.0
                # pragma simd
                for j in range(x.shape[3]):
                    out[b, h, i, j] = np.exp(x[b, h, i, j] - m)
                    s += out[b, h, i, j]
                # pragma simd
                for j in range(x.shape[3]):
                    out[b, h, i, j] /= s
    return out


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


# ---- triangles

SYRK = with_numbers(1.5, 1.2, shapes=[(20, 20), (20, 12)])


@program(SYRK, scale=60.0)
def syrk(alpha, beta, c, a):
    # pragma parallel for
    for i in range(a.shape[0]):
        c[i, : i + 1] *= beta
        for k in range(a.shape[1]):
            c[i, : i + 1] += alpha * a[i, k] * a[: i + 1, k]


@program(SYRK, scale=60.0)
def syrk_loops(alpha, beta, c, a):
    # pragma parallel for
    for i in range(a.shape[0]):
        # pragma simd
        for j in range(i + 1):
            c[i, j] *= beta
        for k in range(a.shape[1]):
            # pragma simd
            for j in range(i + 1):
                c[i, j] += alpha * a[i, k] * a[j, k]


SYR2K = with_numbers(1.5, 1.2, shapes=[(20, 20), (20, 12), (20, 12)])


@program(SYR2K, scale=60.0)
def syr2k(alpha, beta, c, a, b):
    # pragma parallel for
    for i in range(a.shape[0]):
        c[i, : i + 1] *= beta
        for k in range(a.shape[1]):
            c[i, : i + 1] += a[: i + 1, k] * alpha * b[i, k] + b[: i + 1, k] * alpha * a[i, k]


@program(SYR2K, scale=60.0)
def syr2k_loops(alpha, beta, c, a, b):
    # pragma parallel for
    for i in range(a.shape[0]):
        # pragma simd
        for j in range(i + 1):
            c[i, j] *= beta
        for k in range(a.shape[1]):
            # pragma simd
            for j in range(i + 1):
                c[i, j] += a[j, k] * alpha * b[i, k] + b[j, k] * alpha * a[i, k]


TRMM = with_numbers(1.5, shapes=[(20, 20), (20, 22)])


@program(TRMM, scale=60.0)
def trmm(alpha, a, b):
    # pragma sequential for
    for i in range(b.shape[0]):
        for j in range(b.shape[1]):
            b[i, j] += np.dot(a[i + 1 :, i], b[i + 1 :, j])
    # pragma 0=>parallel 1=>simd
    b *= alpha


@program(TRMM, scale=60.0)
def trmm_loops(alpha, a, b):
    # pragma parallel for
    for j in range(b.shape[1]):
        for i in range(b.shape[0]):
            # pragma simd
            for k in range(i + 1, b.shape[0]):
                b[i, j] += a[k, i] * b[k, j]
            b[i, j] *= alpha


COVARIANCE = with_numbers(30.0, shapes=[(30, 17)])


@program(COVARIANCE, scale=60.0)
def covariance(float_n, data):
    m = data.shape[1]
    # pragma 0=>parallel
    mean = np.mean(data, axis=0)
    # pragma 0=>parallel 1=>simd
    data -= mean
    cov = np.zeros((m, m), dtype=data.dtype)
    # pragma parallel for
    for i in range(m):
        cov[i:m, i] = cov[i, i:m] = data[:, i] @ data[:, i:m] / (float_n - 1.0)
    return cov


@program(COVARIANCE, scale=60.0)
def covariance_loops(float_n, data):
    n, m = data.shape
    cov = np.zeros((m, m), dtype=data.dtype)
    # pragma parallel for
    for j in range(m):
        mean = 0.0
        for i in range(n):
            mean += data[i, j]
        mean /= n
        for i in range(n):
            data[i, j] -= mean
    # pragma parallel for
    for i in range(m):
        for j in range(i, m):
            s = 0.0
            # pragma simd
            for k in range(n):
                s += data[k, i] * data[k, j]
            cov[i, j] = cov[j, i] = s / (float_n - 1.0)
    return cov


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


def ring_data(dtype, rng):
    return values(rng, dtype, 400), np.abs(values(rng, dtype, 400)), 7


@program(ring_data, dtypes=("float64",), scale=8.0, ulps=32)
def azimint(data, radius, n):
    # pragma 0=>reduction(max)
    rmax = radius.max()
    res = np.zeros(n)
    # pragma parallel for
    for i in range(n):
        r1 = rmax * i / n
        r2 = rmax * (i + 1) / n
        mask = np.logical_and(r1 <= radius, radius < r2)
        res[i] = data[mask].mean()
    return res


@program(ring_data, dtypes=("float64",), scale=8.0, ulps=32)
def azimint_loops(data, radius, n):
    rmax = 0.0
    # pragma simd
    for j in range(radius.shape[0]):
        rmax = max(rmax, radius[j])
    res = np.zeros(n)
    # pragma parallel for
    for i in range(n):
        r1 = rmax * i / n
        r2 = rmax * (i + 1) / n
        s = 0.0
        count = 0
        # pragma simd
        for j in range(data.shape[0]):
            if r1 <= radius[j] and radius[j] < r2:
                s += data[j]
                count += 1
        res[i] = s / np.float64(count)
    return res


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
