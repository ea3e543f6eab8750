"""Programs of array statements: tensor pragmas, slices in parallel loops, explicit vectors. Registered with registry.py.

Where the loop model says the same, the loop spelling stands beside it as `<name>_loops`.
"""

from __future__ import annotations

import numpy as np
from registry import FLOATS, INTS, NUMBERS, program, values

import appy


def matrices(*shapes):
    return lambda dtype, rng: tuple(values(rng, dtype, *shape) for shape in shapes)


# ---- element by element


@program(matrices((1003,), (1003,), (1003,)), dtypes=NUMBERS)
def vector_add(a, b, c):
    # pragma :N=>parallel,simd
    c[:] = a[:] + b[:]


@program(matrices((1003,), (1003,), (1003,)), dtypes=NUMBERS)
def vector_add_loops(a, b, c):
    # pragma parallel for simd
    for i in range(a.shape[0]):
        c[i] = a[i] + b[i]


@program(matrices((37, 53), (53,), (37, 1), (37, 53)), scale=8.0)
def broadcasting(a, row, column, out):
    # pragma :M=>parallel :N=>simd
    out[:, :] = a * row + column / 2 - a[:1, :]


@program(matrices((40, 41), (41, 40)), dtypes=NUMBERS)
def transposed(a, b):
    # pragma :M=>parallel :N=>simd
    b[:, :] = a.T
    # pragma :M=>parallel :N=>simd
    a[:, :] = a.T[::-1].T
    return b.T[0, 0]


@program(matrices((200,), (200,)), dtypes=NUMBERS)
def shifted_onto_itself(a, b):
    # pragma 1:N=>simd
    a[1:] = a[:-1]
    # pragma :N=>simd
    b[:-1] = b[1:]
    # pragma :N=>simd
    a[:] = a[::-1]
    # pragma :N=>simd
    b[2:] += b[:-2]


@program(matrices((61, 47)), dtypes=NUMBERS)
def slices(a):
    # pragma :M=>parallel :N=>simd
    a[1:-1, 2:40:3] = a[2:, 1:14] + 1
    # pragma :N=>simd
    a[-1] = a[0, ::-1]
    # pragma :N=>simd
    a[:, 5] = a[-61:100, -2]
    # pragma :N=>simd
    a[..., -3] = 7
    return a[2, 3]


@program(matrices((64,), (64,)), dtypes=FLOATS + INTS)
def in_place(a, b):
    # pragma :N=>simd
    a += b
    # pragma :N=>simd
    a[10:20] *= 2
    # pragma :N=>simd
    b -= a[:1]
    return a


@program(matrices((64,), (64,)), dtypes=FLOATS, ulps=16)
def in_place_division(a, b):
    # pragma :N=>simd
    a /= b + 3
    # pragma :N=>simd
    b **= 2


@program(matrices((33, 35), (33, 35)), dtypes=NUMBERS)
def choice(a, b):
    # pragma :M=>parallel :N=>simd
    a[:, :] = np.where(a > b, a, b) + np.maximum(a, 3) - np.minimum(b, a)
    # pragma :M=>parallel :N=>simd
    b[b < a] = 1


@program(matrices((33, 35), (33, 35)), dtypes=NUMBERS)
def comparisons(a, b):
    # pragma :M=>parallel :N=>simd
    c = (a < b) | ~(a != b) & (a >= 2)
    # pragma :M=>parallel :N=>simd
    d = (a == b) ^ c
    return c, d


@program(matrices((100,)), dtypes=NUMBERS)
def casts(a):
    # pragma :N=>simd
    b = a.astype(np.float32) * 2
    # pragma :N=>simd
    c = (a > 0).astype("i8") + a.astype(np.int16)
    return b, c


@program(matrices((333,), (333,)), ulps=8, scale=4.0)
def elementary(x, y):
    # pragma :N=>simd
    y[:] = np.exp(x) * np.sin(x) + np.sqrt(np.abs(x)) - np.tanh(y)


@program(matrices((50,), (50,)), dtypes=INTS)
def integers(a, b):
    # pragma :N=>simd
    c = a // (b | 1) + a % (b | 1) - (a << 1) + (b >> 1)
    # pragma :N=>simd
    d = -a ^ b & 7
    return c, d


# ---- fresh results


@program(matrices((64, 65), (64, 65)), scale=8.0)
def fresh(a, b):
    # pragma :M=>parallel :N=>simd
    c = a * b
    # pragma :M=>parallel :N=>simd
    d = c + a
    # pragma :M=>parallel :N=>simd
    a = d - 1
    return a, c


@program(lambda d, r: (values(r, d, 12, 20), 5))
def allocations(a, n):
    # pragma :M=>parallel
    z = np.zeros((n, a.shape[1]))
    # pragma :M=>parallel
    z[:, :] += a[:n]
    # pragma :M=>parallel
    o = np.ones_like(a) + np.full(20, 2.5) + np.arange(20)
    # pragma :M=>parallel
    e = np.empty(n, dtype=np.int32)
    # pragma :M=>parallel
    e[:] = 3
    return z, o, e


# ---- reductions


@program(matrices((45, 67)), dtypes=NUMBERS, scale=200.0)
def sums(a):
    # pragma :M=>parallel :N=>reduction(sum)
    rows = np.sum(a, axis=1)
    # pragma :M=>reduction(sum) :N=>parallel
    columns = a.sum(axis=0)
    # pragma :M=>parallel :N=>reduction(sum)
    total = np.sum(a)
    # pragma :M=>parallel :N=>reduction(sum)
    kept = a.sum(axis=-1, keepdims=True)
    return rows, columns, total, kept


@program(matrices((45, 67)), dtypes=NUMBERS)
def extrema(a):
    # pragma :M=>parallel :N=>reduction(max)
    m = np.max(a, axis=1)
    # pragma :M=>parallel :N=>reduction(min)
    n = a.min(axis=0)
    # pragma :M=>parallel :N=>reduction(max)
    t = a.max() + a.min()
    # pragma :M=>parallel :N=>reduction(argmax)
    i = np.argmax(a, axis=1)
    # pragma :M=>parallel :N=>reduction(argmin)
    j = a.argmin(axis=0)
    # pragma :M=>parallel :N=>reduction(argmax)
    k = a.argmax()
    return m, n, t, i, j, k


@program(matrices((45, 67)), dtypes=NUMBERS, ulps=64, scale=100.0)
def moments(a):
    # pragma :M=>parallel :N=>reduction(sum)
    m = np.mean(a, axis=1)
    # pragma :M=>parallel :N=>reduction(sum)
    s = a.astype("float64").std(axis=0)
    # pragma :M=>parallel :N=>reduction(sum)
    v = a.astype("float64").var(ddof=1)
    return m, s, v


@program(matrices((21, 22)), dtypes=NUMBERS)
def truths(a):
    # pragma :M=>parallel :N=>reduction(any)
    x = np.any(a > 0.5, axis=1)
    # pragma :M=>parallel :N=>reduction(all)
    y = (a > -200).all(axis=0)
    # pragma :M=>parallel :N=>reduction(all)
    z = np.all(a)
    return x, y, z


@program(matrices((30, 31)), dtypes=FLOATS + ("int32", "uint8"), scale=40.0)
def running(a):
    # pragma :N=>simd
    b = np.cumsum(a, axis=1)
    # pragma :N=>simd
    c = a.cumsum(axis=0)
    return b, c


# ---- products


@program(matrices((30, 40), (40, 20), (40,), (30,)), scale=100.0)
def products(a, b, x, y):
    # pragma :M=>parallel :N=>simd
    c = a @ b
    # pragma :M=>parallel :N=>reduction(sum)
    d = a @ x
    # pragma :M=>parallel
    e = y @ a
    # pragma :N=>reduction(sum)
    f = np.dot(x, x)
    # pragma :M=>parallel
    g = np.outer(y, x)
    # pragma :M=>parallel
    h = np.einsum("ij,jk->ik", a, b)
    # pragma :M=>parallel
    k = appy.mv(a, x) + a.dot(x)
    return c, d, e, f, g, h, k


@program(lambda d, r: (1.5, 1.25, *matrices((40, 40), (40, 40), (40,), (40,))(d, r)), scale=100.0)
def gesummv(alpha, beta, a, b, x, y):
    # pragma :M=>parallel :N=>reduction(sum)
    y[:] = alpha * a @ x + beta * b @ x


@program(lambda d, r: (1.5, 1.25, *matrices((40, 40), (40, 40), (40,), (40,))(d, r)), scale=100.0)
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


@program(
    lambda d, r: (
        1.5,
        1.25,
        *matrices((30, 30), (30,), (30,), (30,), (30,), (30,), (30,), (30,), (30,))(d, r),
    ),
    scale=2000.0,
)
def gemver(alpha, beta, a, u1, v1, u2, v2, w, x, y, z):
    # pragma :M=>parallel :N=>simd
    a += np.outer(u1, v1) + np.outer(u2, v2)
    # pragma :M=>parallel
    x += beta * y @ a + z
    # pragma :M=>parallel
    w += alpha * a @ x


# ---- row programs


@program(matrices((24, 129)), ulps=16, scale=2.0)
def softmax(x):
    # pragma :M=>parallel :N=>reduction(max)
    m = np.max(x, axis=1, keepdims=True)
    # pragma :M=>parallel :N=>simd
    e = np.exp(x - m)
    # pragma :M=>parallel :N=>reduction(sum)
    s = np.sum(e, axis=1, keepdims=True)
    # pragma :M=>parallel :N=>simd
    out = e / s
    return out


@program(matrices((24, 129), (24, 129)), ulps=16, scale=2.0)
def softmax_rows(x, out):
    # pragma parallel for
    for i in range(x.shape[0]):
        m = np.max(x[i])
        e = np.exp(x[i, :] - m)
        out[i, :] = e / np.sum(e)


@program(matrices((24, 129), (24, 129)), ulps=16, scale=2.0)
def softmax_loops(x, out):
    # pragma parallel for
    for i in range(x.shape[0]):
        m = -np.inf
        # pragma simd
        for j in range(x.shape[1]):
            m = max(m, x[i, j])
        s = 0.0
        # pragma simd
        for j in range(x.shape[1]):
            out[i, j] = np.exp(x[i, j] - m)
            s += out[i, j]
        # pragma simd
        for j in range(x.shape[1]):
            out[i, j] /= s


@program(matrices((20, 70), (70,), (70,), (20, 70)), ulps=16, scale=8.0)
def layer_norm(x, gain, bias, out):
    # pragma parallel for
    for i in range(x.shape[0]):
        mean = np.mean(x[i])
        var = np.var(x[i])
        out[i] = (x[i] - mean) / np.sqrt(var + 1e-5) * gain + bias


@program(matrices((20, 30), (20, 30)), scale=40.0)
def normalised(a, b):
    # pragma :M=>parallel :N=>reduction(sum)
    s = np.sum(a, 1) + 40
    # pragma :M=>parallel :N=>simd
    b[:, :] = a / s[:, None]


# ---- triangles


@program(lambda d, r: (1.5, 1.2, *matrices((20, 20), (20, 12))(d, r)), scale=60.0)
def syrk(alpha, beta, c, a):
    # pragma parallel for
    for i in range(a.shape[0]):
        c[i, : i + 1] *= beta
        for k in range(a.shape[1]):
            c[i, : i + 1] += alpha * a[i, k] * a[: i + 1, k]


@program(lambda d, r: (1.5, 1.2, *matrices((20, 20), (20, 12), (20, 12))(d, r)), scale=60.0)
def syr2k(alpha, beta, c, a, b):
    # pragma parallel for
    for i in range(a.shape[0]):
        c[i, : i + 1] *= beta
        for k in range(a.shape[1]):
            c[i, : i + 1] += a[: i + 1, k] * alpha * b[i, k] + b[: i + 1, k] * alpha * a[i, k]


@program(lambda d, r: (1.5, *matrices((20, 20), (20, 22))(d, r)), scale=60.0)
def trmm(alpha, a, b):
    # pragma parallel for
    for j in range(b.shape[1]):
        for i in range(b.shape[0]):
            b[i, j] += np.dot(a[i + 1 :, i], b[i + 1 :, j])
    # pragma :M=>parallel
    b *= alpha


@program(lambda d, r: (float(30), *matrices((30, 17))(d, r)), scale=60.0)
def covariance(float_n, data):
    m = data.shape[1]
    # pragma :N=>parallel
    mean = np.mean(data, axis=0)
    # pragma :N=>parallel
    data -= mean
    cov = np.zeros((m, m), dtype=data.dtype)
    # pragma parallel for
    for i in range(m):
        cov[i:m, i] = data[:, i] @ data[:, i:m] / (float_n - 1.0)
        cov[i, i:m] = cov[i:m, i]
    return cov


# ---- stencils


@program(lambda d, r: (4, *matrices((90,), (90,))(d, r)), scale=8.0)
def jacobi_1d_slices(steps, a, b):
    for t in range(1, steps):
        # pragma 1:N-1=>simd
        b[1:-1] = 0.33333 * (a[:-2] + a[1:-1] + a[2:])
        # pragma 1:N-1=>simd
        a[1:-1] = 0.33333 * (b[:-2] + b[1:-1] + b[2:])


@program(lambda d, r: (4, *matrices((30, 31), (30, 31))(d, r)), scale=8.0)
def jacobi_2d_slices(steps, a, b):
    for t in range(1, steps):
        # pragma 1:M-1=>parallel 1:N-1=>simd
        b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])
        # pragma 1:M-1=>parallel 1:N-1=>simd
        a[1:-1, 1:-1] = 0.2 * (b[1:-1, 1:-1] + b[1:-1, :-2] + b[1:-1, 2:] + b[2:, 1:-1] + b[:-2, 1:-1])


@program(lambda d, r: (3, *matrices((12, 13, 14), (12, 13, 14))(d, r)), scale=16.0)
def heat_3d(steps, a, b):
    for t in range(1, steps):
        # pragma 1:M-1=>parallel 1:N-1=>parallel 1:K-1=>simd
        b[1:-1, 1:-1, 1:-1] = (
            0.125 * (a[2:, 1:-1, 1:-1] - 2.0 * a[1:-1, 1:-1, 1:-1] + a[:-2, 1:-1, 1:-1])
            + 0.125 * (a[1:-1, 2:, 1:-1] - 2.0 * a[1:-1, 1:-1, 1:-1] + a[1:-1, :-2, 1:-1])
            + 0.125 * (a[1:-1, 1:-1, 2:] - 2.0 * a[1:-1, 1:-1, 1:-1] + a[1:-1, 1:-1, 0:-2])
            + a[1:-1, 1:-1, 1:-1]
        )


@program(lambda d, r: (3, *matrices((20, 21), (20, 21), (20, 21))(d, r), values(r, d, 3)), dtypes=FLOATS, scale=16.0)
def fdtd_2d(steps, ex, ey, hz, fict):
    for t in range(steps):
        # pragma :N=>simd
        ey[0, :] = fict[t]
        # pragma 1:M=>parallel :N=>simd
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        # pragma :M=>parallel 1:N=>simd
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        # pragma :M-1=>parallel :N-1=>simd
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])


@program(matrices((16, 17, 5), (12, 13, 5), (12, 13, 5)), scale=64.0, ulps=32)
def hdiff(in_field, out_field, coeff):
    i, j = out_field.shape[0], out_field.shape[1]
    # pragma :I=>parallel
    lap = 4.0 * in_field[1 : i + 3, 1 : j + 3, :] - (
        in_field[2 : i + 4, 1 : j + 3, :]
        + in_field[0 : i + 2, 1 : j + 3, :]
        + in_field[1 : i + 3, 2 : j + 4, :]
        + in_field[1 : i + 3, 0 : j + 2, :]
    )
    # pragma :I=>parallel
    res = lap[1:, 1 : j + 1, :] - lap[:-1, 1 : j + 1, :]
    # pragma :I=>parallel
    flx = np.where((res * (in_field[2 : i + 3, 2 : j + 2, :] - in_field[1 : i + 2, 2 : j + 2, :])) > 0, 0, res)
    # pragma :I=>parallel
    res = lap[1 : i + 1, 1:, :] - lap[1 : i + 1, :-1, :]
    # pragma :I=>parallel
    fly = np.where((res * (in_field[2 : i + 2, 2 : j + 3, :] - in_field[2 : i + 2, 1 : j + 2, :])) > 0, 0, res)
    # pragma :I=>parallel
    out_field[:, :, :] = in_field[2 : i + 2, 2 : j + 2, :] - coeff[:, :, :] * (
        flx[1:, :, :] - flx[:-1, :, :] + fly[:, 1:, :] - fly[:, :-1, :]
    )


@program(matrices((25, 25)), scale=64.0)
def go_fast(a):
    trace = 0.0
    # pragma simd
    for i in range(a.shape[0]):
        trace += np.tanh(a[i, i])
    # pragma :M=>parallel :N=>simd
    out = a + trace
    return out


@program(lambda d, r: (np.abs(values(r, d, 20, 20)) * 50 + 1,), dtypes=FLOATS + ("int32",))
def floyd_rows(path):
    for k in range(path.shape[0]):
        # pragma :M=>parallel :N=>simd
        path[:] = np.minimum(path[:], path[:, k, None] + path[k])


# ---- gathers, scatters, atomics


def labelled(dtype, rng):
    return values(rng, dtype, 50, 33), rng.integers(0, 7, 50), np.zeros((7, 33), dtype)


@program(labelled, dtypes=FLOATS + ("int32", "int64"), scale=100.0)
def group_by_label(data, labels, out):
    # pragma parallel for
    for i in range(data.shape[0]):
        # pragma atomic :n=>le(128)
        out[labels[i], :] += data[i, :]


@program(lambda d, r: (values(r, d, 60), r.integers(-60, 60, (4, 25)), values(r, d, 60)), dtypes=NUMBERS)
def gathers(x, idx, y):
    # pragma :M=>parallel :N=>simd
    a = x[idx] * 2
    # pragma :N=>simd
    y[idx[0]] = x[idx[1]]
    # pragma :N=>simd
    y[idx[2]] += 1
    # pragma :N=>simd
    x[5:30] = y[idx[3, ::-1]]
    return a


def sparse(dtype, rng):
    rows = 30
    counts = rng.integers(0, 9, rows)
    ptr = np.zeros(rows + 1, np.int64)
    np.cumsum(counts, out=ptr[1:])
    col = rng.integers(0, 40, ptr[-1])
    return ptr, col, values(rng, dtype, ptr[-1]), values(rng, dtype, 40, 18), np.zeros((rows, 18), dtype)


@program(sparse, scale=20.0)
def spmm_rows(ptr, col, val, b, c):
    # pragma parallel for
    for i in range(c.shape[0]):
        for k in range(ptr[i], ptr[i + 1]):
            c[i, :] += val[k] * b[col[k], :]


@program(sparse, scale=20.0)
def spmv_rows(ptr, col, val, b, c):
    # pragma parallel for
    for i in range(c.shape[0]):
        c[i, 0] = np.dot(val[ptr[i] : ptr[i + 1]], b[col[ptr[i] : ptr[i + 1]], 0])


# ---- explicit vectors


@program(matrices((20, 333), (333,), (20,)), scale=400.0)
def vidx_mv(a, x, y):
    m, n = a.shape
    # pragma parallel for
    for i in range(m):
        y[i] = 0.0
        for j in range(0, n, appy.MVL):
            vj = appy.vidx(j, appy.MVL, n)
            y[i] += np.sum(a[i, vj] * x[vj])


@program(matrices((333,), (333,), (333,)))
def vidx_axpy(x, y, z):
    # pragma parallel for
    for i in range(0, x.shape[0], 64):
        i = appy.vidx(i, 64, bound=x.shape[0])
        z[i] = np.where(x[i] > 0, x[i] + y[i], 0)


# ---- hoisting


def mag(a):
    return np.sqrt(np.sum(a * a))


@program(matrices((40,), (40,)), scale=8.0)
def norm(x, out):
    # pragma parallel for
    for i in range(x.shape[0]):
        out[i] = x[i] / mag(x)


@program(matrices((12, 6), (5, 6)), scale=16.0)
def kmeans_assignment(points, centres):
    labels = np.zeros(points.shape[0], dtype=np.int64)
    # pragma parallel for
    for i in range(points.shape[0]):
        d = np.sum((centres - points[i]) ** 2, axis=1)
        labels[i] = np.argmin(d)
    return labels


@program(matrices((4, 9, 9), (3, 4, 3, 3)), scale=64.0)
def conv2d(image, weights):
    k, _, h, w = weights.shape[0], weights.shape[1], image.shape[1] - 2, image.shape[2] - 2
    out = np.zeros((k, h, w), dtype=image.dtype)
    # pragma parallel for
    for i in range(h):
        for j in range(w):
            for o in range(k):
                out[o, i, j] = np.sum(image[:, i : i + 3, j : j + 3] * weights[o])
    return out


@program(lambda d, r: (np.abs(values(r, d, 16, 18)) + 0.1, np.ones(16, d), np.ones(18, d)), scale=64.0, ulps=32)
def sinkhorn(kernel, u, v):
    for t in range(3):
        # pragma :M=>parallel :N=>reduction(sum)
        u[:] = 1.0 / (kernel @ v)
        # pragma :M=>parallel :N=>reduction(sum)
        v[:] = 1.0 / (kernel.T @ u)


@program(matrices((30, 14)), scale=64.0, ulps=64)
def correlation(data):
    m = data.shape[1]
    # pragma :N=>parallel
    mean = np.mean(data, axis=0)
    # pragma :N=>parallel
    stddev = np.std(data, axis=0)
    # pragma :N=>parallel
    stddev[stddev <= 0.1] = 1.0
    # pragma :M=>parallel
    data -= mean
    # pragma :M=>parallel
    data /= np.sqrt(30.0) * stddev
    corr = np.eye(m, dtype=data.dtype)
    # pragma parallel for
    for i in range(m - 1):
        corr[i + 1 : m, i] = data[:, i] @ data[:, i + 1 : m]
        corr[i, i + 1 : m] = corr[i + 1 : m, i]
    return corr


def bins(dtype, rng):
    return values(rng, dtype, 200), np.abs(values(rng, dtype, 200)), 5


@program(bins, dtypes=("float64",), scale=64.0, ulps=32)
def azimint(data, radius, n):
    rmax = radius.max()
    res = np.zeros(n)
    # pragma parallel for
    for i in range(n):
        r1 = rmax * i / n
        r2 = rmax * (i + 1) / n
        mask = np.logical_and(r1 <= radius, radius < r2)
        on_values = np.sum(np.where(mask, data, 0))
        count = np.sum(mask)
        res[i] = on_values / np.maximum(count, 1)
    return res
