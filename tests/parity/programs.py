"""Loop programs, registered with registry.py."""

from __future__ import annotations

import math

import numpy as np
from registry import FLOATS, INTS, NUMBERS, program, values


def vectors(count, n=1003):
    return lambda dtype, rng: tuple(values(rng, dtype, n) for _ in range(count))


# ---- vectors and reductions


@program(lambda d, r: (np.dtype(d).type(3), *vectors(2)(d, r)), dtypes=NUMBERS, scale=4.0)
def saxpy(a, x, y):
    # pragma parallel for simd
    for i in range(len(x)):
        y[i] = a * x[i] + y[i]


@program(lambda d, r: (2.5, values(r, d, 517), values(r, d, 517)), scale=4.0)
def saxpy_python_scalar(a, x, y):
    n = x.shape[0]
    # pragma parallel for
    # pragma simd
    for i in range(n):
        y[i] += a * x[i]
    return n, i


@program(vectors(2), dtypes=NUMBERS, scale=40.0)
def dot(x, y):
    s = 0.0
    # pragma simd reduction(+: s)
    for i in range(x.shape[0]):
        s += x[i] * y[i]
    return s


@program(vectors(1), dtypes=NUMBERS, scale=40.0)
def total(x):
    s = x[0]
    # pragma parallel for simd
    for i in range(1, x.shape[0]):
        s = s + x[i]
    return s, i


@program(lambda d, r: (np.abs(values(r, d, 37)) + np.dtype(d).type(1),), dtypes=NUMBERS, ulps=200)
def product(x):
    p = 1
    # pragma simd
    for i in range(x.size):
        p *= x[i]
    return p


@program(vectors(1), dtypes=NUMBERS)
def largest(x):
    m = x[0]
    # pragma parallel for simd reduction(max: m)
    for i in range(len(x)):
        m = max(m, x[i])
    return m


@program(lambda d, r: (np.where(r.uniform(size=400) < 0.1, np.nan, values(r, d, 400)).astype(d),))
def largest_with_nan(x):
    m = -np.inf
    # pragma simd
    for i in range(len(x)):
        if x[i] > m:
            m = x[i]
    return m


@program(lambda d, r: (np.round(values(r, d, 1003) * 10).astype(d),), dtypes=NUMBERS)
def argmin(x):
    best = x[0]
    at = 0
    # pragma simd
    for i in range(1, len(x)):
        if x[i] < best:
            best = x[i]
            at = i
    return best, at


@program(lambda d, r: (np.round(values(r, d, 801) * 10).astype(d),), dtypes=NUMBERS)
def argmax_last(x):
    best = x[0]
    at = 0
    # pragma parallel for simd
    for i in range(1, len(x)):
        if x[i] >= best:
            best = x[i]
            at = i
    return best, at


@program(lambda d, r: (values(r, d, 300), np.zeros(300, d)), dtypes=NUMBERS, ulps=300, scale=10.0)
def prefix_sum(x, out):
    s = x[0] * 0
    # pragma sequential for
    for i in range(x.shape[0]):
        s += x[i]
        out[i] = s
    return s


@program(vectors(1), dtypes=NUMBERS, scale=40.0)
def masked_sum(x):
    s = 0.0
    count = 0
    # pragma simd
    for i in range(len(x)):
        if x[i] > 0:
            s += x[i]
            count += 1
    return s, count


@program(vectors(2), dtypes=FLOATS, scale=40.0)
def ternary_sum(x, y):
    s = 0.0
    # pragma parallel for simd reduction(sum: s)
    for i in range(len(x)):
        s += x[i] if x[i] > y[i] else 0
    return s


@program(vectors(1), dtypes=NUMBERS)
def conditional_scalar_write(x):
    last = -1
    value = 0.0
    # pragma parallel for simd
    for i in range(len(x)):
        if x[i] > 0.5:
            last = i
            value = x[i] * 2
    return last, value


@program(vectors(1), dtypes=NUMBERS)
def private_scalar(x):
    # pragma parallel for simd private(t)
    for i in range(len(x)):
        t = x[i] * x[i]
        x[i] = t + t
    return t, i


@program(lambda d, r: (r.integers(0, 2, 999).astype(bool), r.integers(0, 2, 999).astype(bool)), dtypes=("bool",))
def any_all(p, q):
    some = False
    every = True
    # pragma simd
    for i in range(len(p)):
        some = some or (p[i] and q[i])
        every = every and (p[i] or not q[i])
    return bool(some), bool(every)


@program(vectors(1), dtypes=INTS)
def bits(x):
    a = x[0]
    o = x[0]
    e = x[0]
    # pragma simd
    for i in range(1, len(x)):
        a &= x[i]
        o |= x[i]
        e ^= x[i]
    return a, o, e


# ---- sparse, indexed


def csr(dtype, rng, rows=120, cols=90):
    lengths = rng.integers(0, 9, rows)
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    idx = rng.integers(0, cols, ptr[-1]).astype(np.int32)
    return ptr, idx, values(rng, dtype, int(ptr[-1]))


@program(lambda d, r: (*csr(d, r), values(r, d, 90), np.zeros(120, d)), dtypes=NUMBERS, scale=9.0)
def spmv(ptr, idx, val, x, y):
    # pragma parallel for
    for i in range(len(y)):
        s = x[0] * 0
        # pragma simd
        for j in range(ptr[i], ptr[i + 1]):
            s += val[j] * x[idx[j]]
        y[i] = s


@program(lambda d, r: (*csr(d, r), values(r, d, 90), np.zeros(120, d)), dtypes=FLOATS, scale=9.0)
def spmv_in_place(ptr, idx, val, x, y):
    # pragma parallel for
    for i in range(len(y)):
        y[i] = 0
        # pragma simd
        for j in range(ptr[i], ptr[i + 1]):
            y[i] += val[j] * x[idx[j]]


@program(lambda d, r: (*csr(d, r), values(r, d, 90, 13), np.zeros((120, 13), d)), dtypes=NUMBERS, scale=9.0)
def spmm(ptr, idx, val, B, C):
    m = B.shape[1]
    # pragma parallel for
    for i in range(C.shape[0]):
        for j in range(ptr[i], ptr[i + 1]):
            # pragma simd
            for k in range(m):
                C[i, k] += val[j] * B[idx[j], k]


@program(lambda d, r: (r.integers(0, 17, 3000), np.zeros(17, d)), dtypes=NUMBERS)
def histogram(labels, h):
    # pragma parallel for
    for i in range(labels.shape[0]):
        # pragma atomic
        h[labels[i]] += 1


@program(lambda d, r: (r.integers(-40, 40, 700), values(r, d, 40), np.zeros(700, d)), dtypes=NUMBERS)
def gather_wraps(index, table, out):
    # pragma simd
    for i in range(len(out)):
        out[i] = table[index[i]]


@program(lambda d, r: (r.permutation(501), values(r, d, 501), np.zeros(501, d)), dtypes=NUMBERS)
def scatter(perm, x, out):
    # pragma parallel for simd
    for i in range(len(perm)):
        out[perm[i]] = x[i]


@program(lambda d, r: (r.integers(0, 60, 50), np.zeros(50, d), values(r, d, 60)), dtypes=FLOATS, scale=60.0)
def rows_of_different_lengths(length, out, x):
    # pragma parallel for simd
    for i in range(len(out)):
        s = 0.0
        for j in range(length[i]):
            s += x[j]
        out[i] = s


# ---- scalar iterations


@program(lambda d, r: (33, 47, 60, np.zeros((33, 47), np.int32)), dtypes=("float64",))
def mandelbrot(h, w, limit, out):
    # pragma parallel for
    for i in range(h):
        # pragma simd
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


@program(lambda d, r: (300, np.zeros(300, np.int64)), dtypes=("int64",))
def collatz(n, steps):
    # pragma parallel for simd
    for i in range(1, n):
        m = i
        count = 0
        while m != 1:
            if m % 2 == 0:
                m = m // 2
            else:
                m = 3 * m + 1
            count += 1
        steps[i] = count


def options(dtype, rng, n=333):
    s, k, t = rng.uniform(5, 30, n), rng.uniform(1, 100, n), rng.uniform(0.25, 10, n)
    return s.astype(dtype), k.astype(dtype), t.astype(dtype), np.zeros(n, dtype), np.zeros(n, dtype)


def normal_cdf(x):
    return 0.5 * (1.0 + math.erf(x / math.sqrt(2.0)))


@program(options, dtypes=("float64",), ulps=64, scale=100.0)
def black_scholes(spot, strike, years, call, put):
    rate = 0.02
    vol = 0.30
    # pragma parallel for simd
    for i in range(len(spot)):
        root = vol * math.sqrt(years[i])
        d1 = (math.log(spot[i] / strike[i]) + (rate + 0.5 * vol * vol) * years[i]) / root
        d2 = d1 - root
        discount = math.exp(-rate * years[i]) * strike[i]
        call[i] = spot[i] * normal_cdf(d1) - discount * normal_cdf(d2)
        put[i] = discount * normal_cdf(-d2) - spot[i] * normal_cdf(-d1)


@program(lambda d, r: (20000,), dtypes=("float64",), ulps=400)
def pi(n):
    s = 0.0
    step = 1.0 / n
    # pragma parallel for simd reduction(+: s)
    for i in range(n):
        x = (i + 0.5) * step
        s += 4.0 / (1.0 + x * x)
    return s * step


@program(lambda d, r: (r.integers(0, 2**31, 500).astype(np.uint32), np.zeros(500, np.int64)), dtypes=("uint32",))
def bit_counting(x, out):
    # pragma parallel for simd
    for i in range(len(x)):
        v = int(x[i])
        c = 0
        while v:
            v &= v - 1
            c += 1
        out[i] = c


@program(lambda d, r: (40, 0.5), dtypes=("float64",))
def newton(n, guess):
    last = 0.0
    # pragma sequential for
    for i in range(n):
        x = guess
        while abs(x * x - i) > 1e-9 * (i + 1):
            x = 0.5 * (x + i / x)
        last += x
    return last, x


# ---- grids


@program(lambda d, r: (np.abs(values(r, d, 31, 31)) * 50,), dtypes=FLOATS + ("int32", "int64", "uint16"))
def floyd_warshall(path):
    n = path.shape[0]
    # pragma sequential for
    for k in range(n):
        # pragma parallel for
        for i in range(n):
            # pragma simd
            for j in range(n):
                path[i, j] = min(path[i, j], path[i, k] + path[k, j])


@program(lambda d, r: (values(r, d, 19, 19),), dtypes=FLOATS + ("int64",))
def shortest_paths_in_order(path):
    # Negative lengths: the loop over j changes path[i, k], which it reads, and no pragma promises anything of it.
    n = path.shape[0]
    # pragma sequential for
    for k in range(n):
        for i in range(n):
            for j in range(n):
                path[i, j] = min(path[i, j], path[i, k] + path[k, j])


@program(lambda d, r: (41, values(r, d, 100), np.zeros(100, d)), dtypes=FLOATS + ("int32",))
def own_element_after_its_store(k, x, out):
    # Only iteration k reads x[k], after it has written it.
    # pragma parallel for simd
    for j in range(len(x)):
        x[j] = x[j] + 1
        if j == k:
            out[j] = x[k]


@program(lambda d, r: (6, values(r, d, 203), values(r, d, 203)), ulps=64, scale=1.0)
def jacobi_1d(steps, A, B):
    for t in range(steps):
        # pragma parallel for simd
        for i in range(1, len(A) - 1):
            B[i] = 0.33333 * (A[i - 1] + A[i] + A[i + 1])
        # pragma parallel for simd
        for i in range(1, len(A) - 1):
            A[i] = 0.33333 * (B[i - 1] + B[i] + B[i + 1])


@program(lambda d, r: (values(r, d, 37, 41), np.zeros((37, 41), d)), ulps=16, scale=1.0)
def jacobi_2d(A, B):
    # pragma parallel for
    for i in range(1, A.shape[0] - 1):
        # pragma simd
        for j in range(1, A.shape[1] - 1):
            B[i, j] = 0.2 * (A[i, j] + A[i, j - 1] + A[i, j + 1] + A[i + 1, j] + A[i - 1, j])


@program(lambda d, r: (values(r, d, 11, 12, 13), np.zeros((11, 12, 13), d)), ulps=32, scale=1.0)
def jacobi_3d(A, B):
    n0, n1, n2 = A.shape
    # pragma parallel for collapse(2)
    for i in range(1, n0 - 1):
        for j in range(1, n1 - 1):
            # pragma simd
            for k in range(1, n2 - 1):
                B[i, j, k] = (
                    0.125 * (A[i + 1, j, k] - 2.0 * A[i, j, k] + A[i - 1, j, k])
                    + 0.125 * (A[i, j + 1, k] - 2.0 * A[i, j, k] + A[i, j - 1, k])
                    + 0.125 * (A[i, j, k + 1] - 2.0 * A[i, j, k] + A[i, j, k - 1])
                    + A[i, j, k]
                )


@program(lambda d, r: (values(r, d, 64), np.zeros(64, d)), dtypes=NUMBERS, ulps=16, scale=1.0)
def periodic(u, out):
    n = len(u)
    # pragma simd
    for i in range(n):
        out[i] = u[i - 1] + u[(i + 1) % n] - u[i]


@program(lambda d, r: (values(r, d, 65), np.zeros(65, d)), dtypes=NUMBERS, ulps=16, scale=1.0)
def guarded(x, out):
    n = len(x)
    # pragma parallel for simd
    for i in range(n):
        if i + 1 < n:
            out[i] = x[i + 1] - x[i]
        else:
            out[i] = x[i]


@program(lambda d, r: (values(r, d, 23, 19),), ulps=64, scale=1.0)
def gauss_seidel(u):
    # pragma sequential for
    for i in range(1, u.shape[0] - 1):
        for j in range(1, u.shape[1] - 1):
            u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])


@program(lambda d, r: (r.integers(0, 2, (40, 33)).astype(np.uint8), np.zeros((40, 33), np.uint8)), dtypes=("uint8",))
def game_of_life(grid, new):
    h, w = grid.shape
    # pragma parallel for
    for i in range(h):
        # pragma simd
        for j in range(w):
            count = 0
            for di in range(-1, 2):
                for dj in range(-1, 2):
                    if di != 0 or dj != 0:
                        count += int(grid[(i + di) % h, (j + dj) % w])
            if count == 3 or (count == 2 and grid[i, j]):
                new[i, j] = 1
            else:
                new[i, j] = 0


@program(lambda d, r: (values(r, d, 20, 30), np.zeros((33, 41), d)), ulps=64, scale=2.0)
def bilinear(src, out):
    h, w = src.shape
    # pragma parallel for
    for i in range(out.shape[0]):
        # pragma simd
        for j in range(out.shape[1]):
            y = i * (h - 1) / (out.shape[0] - 1)
            x = j * (w - 1) / (out.shape[1] - 1)
            y0 = min(int(y), h - 2)
            x0 = min(int(x), w - 2)
            fy = y - y0
            fx = x - x0
            top = src[y0, x0] * (1 - fx) + src[y0, x0 + 1] * fx
            bottom = src[y0 + 1, x0] * (1 - fx) + src[y0 + 1, x0 + 1] * fx
            out[i, j] = top * (1 - fy) + bottom * fy


# ---- linear algebra


@program(lambda d, r: (values(r, d, 17, 23), values(r, d, 23, 19), np.zeros((17, 19), d)), dtypes=NUMBERS, scale=23.0)
def gemm(A, B, C):
    # pragma parallel for
    for i in range(C.shape[0]):
        # pragma simd
        for j in range(C.shape[1]):
            s = A[0, 0] * 0
            for k in range(A.shape[1]):
                s += A[i, k] * B[k, j]
            C[i, j] = s


@program(lambda d, r: (values(r, d, 17, 23), values(r, d, 23, 19), np.zeros((17, 19), d)), dtypes=NUMBERS, scale=23.0)
def gemm_axpy_order(A, B, C):
    # pragma parallel for
    for i in range(C.shape[0]):
        for k in range(A.shape[1]):
            # pragma simd
            for j in range(C.shape[1]):
                C[i, j] += A[i, k] * B[k, j]


@program(lambda d, r: (values(r, d, 29, 29), np.zeros(29, d)), dtypes=NUMBERS, scale=29.0)
def triangular(L, out):
    # pragma parallel for schedule(dynamic, 4)
    for i in range(L.shape[0]):
        s = L[0, 0] * 0
        # pragma simd
        for j in range(i + 1):
            s += L[i, j]
        out[i] = s


@program(lambda d, r: (values(r, d, 21, 21) + 20 * np.eye(21, dtype=d),), ulps=4000, scale=20.0)
def lu(A):
    n = A.shape[0]
    # pragma sequential for
    for k in range(n):
        # pragma simd
        for i in range(k + 1, n):
            A[i, k] /= A[k, k]
        # pragma parallel for
        for i in range(k + 1, n):
            # pragma simd
            for j in range(k + 1, n):
                A[i, j] -= A[i, k] * A[k, j]


@program(lambda d, r: (values(r, d, 37, 25), np.zeros((25, 37), d)), dtypes=(*NUMBERS, "bool"))
def transpose(A, B):
    # pragma parallel for
    for i in range(A.shape[0]):
        # pragma simd
        for j in range(A.shape[1]):
            B[j, i] = A[i, j]


# ---- applications


@program(
    lambda d, r: (values(r, d, 1500), np.sqrt(np.abs(values(r, d, 1500))), np.zeros(12, d), np.zeros(12, np.int64)),
    scale=150.0,
)
def azimuthal(data, radius, sums, counts):
    nbins = len(sums)
    # pragma parallel for
    for b in range(nbins):
        lo = b / nbins
        hi = (b + 1) / nbins
        s = 0.0
        c = 0
        # pragma simd
        for i in range(len(data)):
            if lo <= radius[i] < hi:
                s += data[i]
                c += 1
        sums[b] = s
        counts[b] = c


@program(lambda d, r: (values(r, d, 45, 3), np.abs(values(r, d, 45)), np.zeros((45, 3), d)), ulps=4000, scale=50.0)
def n_body(pos, mass, acc):
    n = pos.shape[0]
    # pragma parallel for
    for i in range(n):
        ax = 0.0
        ay = 0.0
        az = 0.0
        # pragma simd
        for j in range(n):
            dx = pos[j, 0] - pos[i, 0]
            dy = pos[j, 1] - pos[i, 1]
            dz = pos[j, 2] - pos[i, 2]
            inv = 1.0 / np.sqrt(dx * dx + dy * dy + dz * dz + 0.01)
            f = mass[j] * inv * inv * inv
            ax += f * dx
            ay += f * dy
            az += f * dz
        acc[i, 0] = ax
        acc[i, 1] = ay
        acc[i, 2] = az


@program(lambda d, r: (values(r, d, 150, 5), values(r, d, 7, 5), np.zeros(150, np.int32)), ulps=32, scale=5.0)
def kmeans_assign(points, centres, label):
    # pragma parallel for
    for i in range(points.shape[0]):
        best = np.inf
        which = 0
        for c in range(centres.shape[0]):
            dist = 0.0
            # pragma simd
            for k in range(points.shape[1]):
                diff = points[i, k] - centres[c, k]
                dist += diff * diff
            if dist < best:
                best = dist
                which = c
        label[i] = which


@program(
    lambda d, r: (r.integers(97, 101, 30).astype(np.uint8), r.integers(97, 101, 25).astype(np.uint8)),
    dtypes=("uint8",),
)
def levenshtein(a, b):
    previous = np.arange(len(b) + 1)
    current = np.zeros(len(b) + 1, np.int64)
    # pragma sequential for
    for i in range(len(a)):
        current[0] = i + 1
        for j in range(len(b)):
            cost = 0 if a[i] == b[j] else 1
            current[j + 1] = min(previous[j + 1] + 1, current[j] + 1, previous[j] + cost)
        for j in range(len(b) + 1):
            previous[j] = current[j]
    return previous


# ---- shapes of loops and views


@program(lambda d, r: (values(r, d, 400)[::3], values(r, d, 300)[::-1], np.zeros(260, d)[1::2]), dtypes=NUMBERS)
def strided_and_reversed(x, y, out):
    # pragma parallel for simd
    for i in range(len(out)):
        out[i] = x[i] - y[i]


@program(vectors(1, 100), dtypes=NUMBERS)
def negative_step(x):
    # pragma simd
    for i in range(len(x) - 1, 9, -3):
        x[i] = x[i] + x[i - 10]
    return i


@program(lambda d, r: (np.zeros(0, d), np.zeros((0, 5), d)), dtypes=NUMBERS)
def zero_length(x, A):
    i = "before"
    s = 7
    # pragma parallel for simd
    for i in range(len(x)):
        s += x[i]
        fresh = i
    # pragma parallel for
    for k in range(A.shape[0]):
        for j in range(A.shape[1]):
            A[k, j] = s
    return i, s, "fresh" in locals(), "k" in locals()


@program(lambda d, r: (values(r, d, 1), np.zeros(1, d), np.array(r.uniform(1, 2)).astype(d)), dtypes=NUMBERS)
def size_one(x, y, zero_d):
    # pragma parallel for simd
    for i in range(x.shape[0]):
        y[i] = x[i] + zero_d[()]
    return i


@program(vectors(1, 200), dtypes=NUMBERS, ulps=64, scale=200.0)
def overlapping_views(x):
    a = x[1:]
    b = x[:-1]
    # pragma simd
    for i in range(len(b)):
        b[i] = a[i] + 1
    even = x[::2]
    odd = x[1::2]
    # pragma parallel for simd
    for i in range(len(odd)):
        odd[i] = even[i]


def square(x):
    return x * x


def shifted_square(x, by=1):
    return square(x + by)


def polynomial(x, scale):
    if x > 0:
        return scale * shifted_square(x)
    return scale * shifted_square(x, by=2)


@program(vectors(2), dtypes=FLOATS, ulps=32, scale=4.0)
def helpers_three_deep(x, y):
    # pragma parallel for simd
    for i in range(len(x)):
        y[i] = polynomial(x[i], scale=3.0)


@program(vectors(1), dtypes=FLOATS)
def region_in_finally(x):
    try:
        if len(x) > 5000:
            return None
        x[0] = 1
    finally:
        # pragma parallel for simd
        for i in range(len(x)):
            x[i] = x[i] * 2
    return i


@program(vectors(1), dtypes=NUMBERS)
def break_and_continue(x):
    found = -1
    skipped = 0
    # pragma sequential for
    for i in range(len(x)):
        if x[i] < 0:
            skipped += 1
            continue
        if i > 10 and x[i] > 0:
            found = i
            break
    else:
        found = -2
    return found, skipped, i


@program(lambda d, r: (values(r, d, 50), 12), dtypes=NUMBERS)
def short_circuit(a, n):
    hits = 0
    # pragma simd
    for i in range(n + 100):
        if i < len(a) and a[i] > 0 and not (i % 3 == 0 or a[i] > 50):
            hits += 1
    return hits


@program(vectors(3, 77), dtypes=NUMBERS)
def tuple_swap(x, y, z):
    a = x[0]
    b = y[0]
    # pragma sequential for
    for i in range(len(x)):
        a, b = b, a
        z[i], y[i] = y[i], a
    return a, b


@program(lambda d, r: (values(r, d, 333), np.zeros(333, d)), dtypes=FLOATS, ulps=64, scale=1.0)
def elementary(x, out):
    # pragma parallel for simd
    for i in range(len(x)):
        out[i] = np.sin(x[i]) * np.exp(x[i]) + np.tanh(x[i]) - np.log1p(np.abs(x[i])) + np.arctan2(x[i], 2)


@program(lambda d, r: (values(r, d, 100, 8), np.zeros((100, 8), d)), dtypes=FLOATS, ulps=64, scale=1.0)
def softmax(x, out):
    # pragma parallel for
    for i in range(x.shape[0]):
        m = -np.inf
        # pragma simd le(8)
        for j in range(x.shape[1]):
            m = max(m, x[i, j])
        s = 0.0
        # pragma simd le(8)
        for j in range(x.shape[1]):
            out[i, j] = np.exp(x[i, j] - m)
            s += out[i, j]
        # pragma simd le(8)
        for j in range(x.shape[1]):
            out[i, j] /= s
