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


@program(matrices((37, 53), (53,), (37, 1), (37, 53)), scale=8.0)
def broadcasting(a, row, column, out):
    # pragma 0=>parallel 1=>simd
    out[:, :] = a * row + column / 2 - a[:1, :]


@program(matrices((40, 41), (41, 40)), dtypes=NUMBERS)
def transposed(a, b):
    # pragma 0=>parallel 1=>simd
    b[:, :] = a.T
    # pragma 0=>parallel ::-1=>simd
    a[:, :] = a.T[::-1].T
    return b.T[0, 0]


@program(matrices((200,), (200,)), dtypes=NUMBERS)
def shifted_onto_itself(a, b):
    # pragma :-1=>simd
    a[1:] = a[:-1]
    # pragma 1:=>simd
    b[:-1] = b[1:]
    # pragma ::-1=>simd
    a[:] = a[::-1]
    # pragma 2:=>simd
    b[2:] += b[:-2]


@program(matrices((61, 47)), dtypes=NUMBERS)
def slices(a):
    # pragma 2:=>parallel 1:14=>simd
    a[1:-1, 2:40:3] = a[2:, 1:14] + 1
    # pragma ::-1=>simd
    a[-1] = a[0, ::-1]
    # pragma -61:100=>simd
    a[:, 5] = a[-61:100, -2]
    # pragma 0=>simd
    a[..., -3] = 7
    return a[2, 3]


@program(matrices((64,), (64,)), dtypes=FLOATS + INTS)
def in_place(a, b):
    # pragma 0=>simd
    a += b
    # pragma 10:20=>simd
    a[10:20] *= 2
    # pragma 0=>simd
    b -= a[:1]
    return a


@program(matrices((64,), (64,)), dtypes=FLOATS, ulps=16)
def in_place_division(a, b):
    # pragma 0=>simd
    a /= b + 3
    # pragma 0=>simd
    b **= 2


@program(matrices((33, 35), (33, 35)), dtypes=NUMBERS)
def choice(a, b):
    # pragma 0=>parallel 1=>simd
    a[:, :] = np.where(a > b, a, b) + np.maximum(a, 3) - np.minimum(b, a)
    # pragma 0=>parallel 1=>simd
    b[b < a] = 1


@program(matrices((33, 35), (33, 35)), dtypes=NUMBERS)
def comparisons(a, b):
    # pragma 0=>parallel 1=>simd
    c = (a < b) | ~(a != b) & (a >= 2)
    # pragma 0=>parallel 1=>simd
    d = (a == b) ^ c
    return c, d


@program(matrices((100,)), dtypes=NUMBERS)
def casts(a):
    # pragma 0=>simd
    b = a.astype(np.float32) * 2
    # pragma 0=>simd
    c = (a > 0).astype("i8") + a.astype(np.int16)
    return b, c


@program(matrices((333,), (333,)), ulps=8, scale=4.0)
def elementary(x, y):
    # pragma :=>simd
    y[:] = np.exp(x) * np.sin(x) + np.sqrt(np.abs(x)) - np.tanh(y)


@program(matrices((50,), (50,)), dtypes=INTS)
def integers(a, b):
    # pragma 0=>simd
    c = a // (b | 1) + a % (b | 1) - (a << 1) + (b >> 1)
    # pragma 0=>simd
    d = -a ^ b & 7
    return c, d


# ---- fresh results


@program(matrices((64, 65), (64, 65)), scale=8.0)
def fresh(a, b):
    # pragma 0=>parallel 1=>simd
    c = a * b
    # pragma 0=>parallel 1=>simd
    d = c + a
    # pragma 0=>parallel 1=>simd
    a = d - 1
    return a, c


@program(lambda d, r: (values(r, d, 12, 20), 5))
def allocations(a, n):
    # pragma 0=>parallel
    z = np.zeros((n, a.shape[1]))
    # pragma 0=>parallel
    z[:, :] += a[:n]
    # pragma 0=>parallel
    o = np.ones_like(a) + np.full(20, 2.5) + np.arange(20)
    # pragma :M=>parallel
    e = np.empty(n, dtype=np.int32)
    # pragma :=>parallel
    e[:] = 3
    return z, o, e


# ---- reductions


@program(matrices((45, 67)), dtypes=NUMBERS, scale=200.0)
def sums(a):
    # pragma 0=>parallel 1=>reduction(sum)
    rows = np.sum(a, axis=1)
    # pragma 1=>reduction(sum) 0=>parallel
    columns = a.sum(axis=0)
    # pragma 0=>parallel 1=>reduction(sum)
    total = np.sum(a)
    # pragma 0=>parallel 2=>reduction(sum)
    kept = a.sum(axis=-1, keepdims=True)
    return rows, columns, total, kept


@program(matrices((45, 67)), dtypes=NUMBERS)
def extrema(a):
    # pragma 0=>parallel 1=>reduction(max)
    m = np.max(a, axis=1)
    # pragma 0=>parallel 1=>reduction(min)
    n = a.min(axis=0)
    # pragma 0=>parallel 1=>reduction(max)
    t = a.max() + a.min()
    # pragma 0=>parallel 1=>reduction(argmax)
    i = np.argmax(a, axis=1)
    # pragma 0=>parallel 1=>reduction(argmin)
    j = a.argmin(axis=0)
    # pragma 0=>parallel 1=>reduction(argmax)
    k = a.argmax()
    return m, n, t, i, j, k


@program(matrices((45, 67)), dtypes=NUMBERS, ulps=64, scale=100.0)
def moments(a):
    # pragma 0=>parallel 1=>reduction(sum)
    m = np.mean(a, axis=1)
    # pragma 0=>parallel 1=>reduction(sum)
    s = a.astype("float64").std(axis=0)
    # pragma 0=>parallel 1=>reduction(sum)
    v = a.astype("float64").var(ddof=1)
    return m, s, v


@program(matrices((21, 22)), dtypes=NUMBERS)
def truths(a):
    # pragma 0=>parallel 1=>reduction(any)
    x = np.any(a > 0.5, axis=1)
    # pragma 0=>parallel 1=>reduction(all)
    y = (a > -200).all(axis=0)
    # pragma 0=>parallel 1=>reduction(all)
    z = np.all(a)
    return x, y, z


@program(matrices((30, 31)), dtypes=FLOATS + ("int32", "uint8"), scale=40.0)
def running(a):
    # pragma 0=>simd
    b = np.cumsum(a, axis=1)
    # pragma 0=>simd
    c = a.cumsum(axis=0)
    return b, c


# ---- products


@program(matrices((30, 40), (40, 20), (40,), (30,)), scale=100.0)
def products(a, b, x, y):
    # pragma 0=>parallel 1=>simd
    c = a @ b
    # pragma 0=>parallel 1=>reduction(sum)
    d = a @ x
    # pragma 0=>parallel
    e = y @ a
    # pragma 0=>reduction(sum)
    f = np.dot(x, x)
    # pragma 0=>parallel
    g = np.outer(y, x)
    # pragma 0=>parallel
    h = np.einsum("ij,jk->ik", a, b)
    # pragma 0=>parallel
    k = appy.mv(a, x) + a.dot(x)
    return c, d, e, f, g, h, k


# ---- row programs


@program(matrices((24, 129), (24, 129)), ulps=16, scale=2.0)
def softmax_rows(x, out):
    # pragma parallel for
    for i in range(x.shape[0]):
        m = np.max(x[i])
        e = np.exp(x[i, :] - m)
        out[i, :] = e / np.sum(e)


@program(matrices((20, 30), (20, 30)), scale=40.0)
def normalised(a, b):
    # pragma 0=>parallel 1=>reduction(sum)
    s = np.sum(a, 1) + 40
    # pragma 0=>parallel 1=>simd
    b[:, :] = a / s[:, None]


# ---- relaxations


@program(lambda d, r: (np.abs(values(r, d, 20, 20)) * 50 + 1,), dtypes=FLOATS + ("int32",))
def floyd_rows(path):
    for k in range(path.shape[0]):
        # pragma :=>parallel 1=>simd
        path[:] = np.minimum(path[:], path[:, k, None] + path[k])


# ---- gathers, scatters, atomics


def labelled(dtype, rng):
    return values(rng, dtype, 50, 33), rng.integers(0, 7, 50), np.zeros((7, 33), dtype)


@program(lambda d, r: (values(r, d, 60), r.integers(-60, 60, (4, 25)), values(r, d, 60)), dtypes=NUMBERS)
def gathers(x, idx, y):
    # pragma 0=>parallel 1=>simd
    a = x[idx] * 2
    # pragma 0=>simd
    y[idx[0]] = x[idx[1]]
    # pragma 0=>simd
    y[idx[2]] += 1
    # pragma ::-1=>simd
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
def spmv_rows(ptr, col, val, b, c):
    # pragma parallel for
    for i in range(c.shape[0]):
        c[i, 0] = np.dot(val[ptr[i] : ptr[i + 1]], b[col[ptr[i] : ptr[i + 1]], 0])


# ---- masks, diagonals, triangles


@program(matrices((23, 31), (23, 31), (23,)), dtypes=NUMBERS, scale=64.0)
def selections(a, b, c):
    # pragma 0=>simd
    x = a[a > 0]
    # pragma 0=>simd
    y = a[a > 0] * 2 - b[a > 0]
    # pragma 0=>simd
    rows = a[c < 1]
    # pragma :=>simd
    columns = a[:, b[0] > 0]
    # pragma 0=>simd
    part = a[3, b[0] > 0]
    return x, y, rows, columns, part


@program(matrices((23, 31), (23, 31), (23,)), dtypes=NUMBERS, scale=64.0, ulps=32)
def masked_reductions(a, b, c):
    m = c < 60
    # pragma 1=>reduction(sum)
    s = a[a > 0].sum()
    # pragma 1=>reduction(sum)
    t = np.sum(a[b > 0] - b[b > 0])
    # pragma 1=>reduction(sum)
    y = a[m].mean()
    # pragma 1=>reduction(max)
    u = a[m].max(axis=0)
    # pragma 1=>reduction(min)
    v = np.min(a[m], axis=1)
    # pragma 1=>reduction(any)
    w = np.any(a[m] > 50) or np.all(a[m] < 0)
    # pragma 3=>reduction(sum)
    x = a[m].mean(axis=0, keepdims=True) + a[m].var(axis=0)
    # pragma 1=>reduction(sum)
    n = np.count_nonzero(a > 0)
    # pragma 0=>reduction(argmax)
    p = a[a > 0].argmax()
    return s, t, u, v, w, x, y, n, p


@program(matrices((23, 31), (23, 31), (23,)), dtypes=FLOATS + INTS)
def masked_stores(a, b, c):
    # pragma 0=>parallel 1=>simd
    a[b > 0] += 3
    # pragma 0=>parallel 1=>simd
    a[a < 0] = -a[a < 0]
    # pragma 0=>parallel 1=>simd
    b[c > 0] = 5
    # pragma 0=>parallel 1=>simd
    b[c > 0] = a[c > 0]
    # pragma 0=>parallel 1=>simd
    a[a > 2] = b[a > 2][::-1]
    # pragma 0=>parallel 1=>simd
    a[c < 0] = b[0]


@program(lambda d, r: (np.zeros(3000, d), r.integers(0, 8, 3000)))
def masked_stores_of_workers(a, labels):
    # pragma parallel for
    for k in range(8):
        for _ in range(20):
            a[labels == k] += k


@program(matrices((12, 17), (12,)), dtypes=NUMBERS, scale=64.0)
def diagonals(a, b):
    # pragma 0=>simd
    d = np.diag(a) + np.diagonal(a, -3)[0] + a.diagonal(offset=2)
    # pragma 0=>simd
    m = np.diag(b) + np.eye(12, dtype=b.dtype)
    # pragma :5=>simd
    k = np.eye(5, 7, 1) + np.eye(5, 7, -2) + np.identity(7)[:5]
    # pragma 0=>simd
    t = np.trace(a) + a.trace(offset=1)
    # pragma 0=>simd
    r = np.triu(a, 1) + np.tril(a * 2, -1)
    return d, m, k, t, r


@program(matrices((12, 17), (17,)), scale=64.0)
def norms(a, b):
    # pragma 1=>reduction(sum)
    x = np.linalg.norm(b) + np.linalg.norm(a)
    # pragma 1=>reduction(sum)
    y = np.linalg.norm(a, axis=1) + np.linalg.norm(b, 1) + np.linalg.norm(b, ord=np.inf)
    # pragma 1=>reduction(sum)
    z = np.linalg.norm(a, axis=0, keepdims=True)
    return x, y, z


@program(matrices((40,), (40,)), dtypes=NUMBERS)
def extrema_of_scalars(a, b):
    # pragma parallel for simd
    for i in range(a.shape[0]):
        b[i] = np.max((a[i], b[i])) - np.min((a[i], b[i]))


@program(matrices((12,), (17,)), dtypes=NUMBERS)
def outer_ufuncs(a, b):
    # pragma 0=>parallel 1=>simd
    x = np.add.outer(a, b)
    # pragma :=>parallel :5=>simd
    y = np.maximum.outer(a, b[:5]) - np.subtract.outer(a, 2)[:, None]
    return x, y


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


@program(matrices((12, 6), (5, 6), (72,)), dtypes=NUMBERS)
def joined_and_reshaped(a, b, v):
    # pragma 0=>parallel 1=>simd
    c = np.concatenate((a, b, a[:2] + 1))
    # pragma 0=>parallel
    d = np.stack((b[0], b[1], a[2]), axis=1)
    # pragma 0=>parallel,simd
    v[:] = v + a.ravel()
    # pragma 0=>parallel
    e = v.reshape(9, -1) - v[:8]
    return c, d, e, np.max(a.reshape(-1)), a.T.ravel().argmin()


@program(lambda dtype, rng: (values(rng, dtype, 20), rng.integers(-20, 20, 100), values(rng, dtype, 100)), scale=64.0)
def updates_by_index(h, at, v):
    # pragma sequential for
    for i in range(2):
        np.add.at(h, at, v)
        np.maximum.at(h, at[::3], v[i])
