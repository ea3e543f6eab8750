"""The loops of the suite in plain Python with pragmas, and the data each runs on.

`CASES[name]` makes a fresh tuple of arguments. The C (loops.c) and Numba (loops_numba.py) versions have the same names
and the same arguments; `NUMPY` holds NumPy versions of those that can be said in NumPy.
"""

import math

import numpy as np

N = 1 << 20

SIDES = ("appy", "c", "numba", "numpy")

# Bytes that must move at least, for the cases whose time is memory traffic.
TRAFFIC = {name: bytes_an_element * N for name, bytes_an_element in {
    "saxpy": 24, "dot": 16, "total": 8, "product": 8, "largest": 8, "argmin": 8, "prefix_sum": 16,
    "jacobi_1d": 16, "jacobi_2d": 16, "periodic": 16, "guarded": 16,
}.items()}  # fmt: skip


def saxpy(a, x, y):
    # pragma parallel for simd
    for i in range(len(x)):
        y[i] = a * x[i] + y[i]


def dot(x, y):
    s = 0.0
    # pragma parallel for simd reduction(+: s)
    for i in range(len(x)):
        s += x[i] * y[i]
    return s


def total(x):
    s = 0.0
    # pragma parallel for simd reduction(+: s)
    for i in range(len(x)):
        s += x[i]
    return s


def product(x):
    p = 1.0
    # pragma parallel for simd reduction(*: p)
    for i in range(len(x)):
        p *= x[i]
    return p


def largest(x):
    m = x[0]
    # pragma parallel for simd reduction(max: m)
    for i in range(1, len(x)):
        m = max(m, x[i])
    return m


def argmin(x):
    best = x[0]
    at = 0
    # pragma parallel for simd
    for i in range(1, len(x)):
        if x[i] < best:
            best = x[i]
            at = i
    return at


def prefix_sum(x, out):
    s = 0.0
    # pragma sequential for
    for i in range(len(x)):
        s += x[i]
        out[i] = s


def spmv(ptr, idx, val, x, y):
    # pragma parallel for
    for i in range(len(y)):
        s = 0.0
        # pragma simd
        for j in range(ptr[i], ptr[i + 1]):
            s += val[j] * x[idx[j]]
        y[i] = s


def spmm(ptr, idx, val, B, C):
    # pragma parallel for
    for i in range(C.shape[0]):
        # pragma simd
        for k in range(C.shape[1]):
            C[i, k] = 0.0
        for j in range(ptr[i], ptr[i + 1]):
            # pragma simd
            for k in range(C.shape[1]):
                C[i, k] += val[j] * B[idx[j], k]


def histogram(labels, h):
    # pragma parallel for
    for i in range(len(labels)):
        # pragma atomic
        h[labels[i]] += 1


def mandelbrot(limit, out):
    h, w = out.shape
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


def collatz(steps):
    # pragma parallel for simd
    for i in range(1, len(steps)):
        m = i
        count = 0
        while m != 1:
            if m % 2 == 0:
                m = m // 2
            else:
                m = 3 * m + 1
            count += 1
        steps[i] = count


def normal_cdf(x):
    return 0.5 * (1.0 + math.erf(x * 0.7071067811865476))


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


def pi(n):
    s = 0.0
    step = 1.0 / n
    # pragma parallel for simd reduction(+: s)
    for i in range(n):
        x = (i + 0.5) * step
        s += 4.0 / (1.0 + x * x)
    return s * step


def floyd_warshall(path):
    n = path.shape[0]
    # pragma sequential for
    for k in range(n):
        # pragma parallel for
        for i in range(n):
            # pragma simd
            for j in range(n):
                path[i, j] = min(path[i, j], path[i, k] + path[k, j])


def jacobi_1d(A, B):
    # pragma parallel for simd
    for i in range(1, len(A) - 1):
        B[i] = 0.33333 * (A[i - 1] + A[i] + A[i + 1])


def jacobi_2d(A, B):
    # pragma parallel for
    for i in range(1, A.shape[0] - 1):
        # pragma simd
        for j in range(1, A.shape[1] - 1):
            B[i, j] = 0.2 * (A[i, j] + A[i, j - 1] + A[i, j + 1] + A[i + 1, j] + A[i - 1, j])


def jacobi_3d(A, B):
    # pragma parallel for
    for i in range(1, A.shape[0] - 1):
        for j in range(1, A.shape[1] - 1):
            # pragma simd
            for k in range(1, A.shape[2] - 1):
                B[i, j, k] = (
                    0.125 * (A[i + 1, j, k] - 2.0 * A[i, j, k] + A[i - 1, j, k])
                    + 0.125 * (A[i, j + 1, k] - 2.0 * A[i, j, k] + A[i, j - 1, k])
                    + 0.125 * (A[i, j, k + 1] - 2.0 * A[i, j, k] + A[i, j, k - 1])
                    + A[i, j, k]
                )


def periodic(u, out):
    n = len(u)
    # pragma parallel for simd
    for i in range(n):
        out[i] = u[i - 1] - 2.0 * u[i] + u[(i + 1) % n]


def guarded(x, out):
    n = len(x)
    # pragma parallel for simd
    for i in range(n):
        if i + 1 < n:
            out[i] = x[i + 1] - x[i]
        else:
            out[i] = x[i]


def _rng():
    return np.random.default_rng(42)


def _vector(n=N):
    return _rng().uniform(-1, 1, n)


def _csr(rows=1 << 16, cols=1 << 16, per_row=16):
    rng = _rng()
    ptr = np.concatenate([[0], np.cumsum(rng.integers(0, 2 * per_row, rows))])
    return ptr, rng.integers(0, cols, ptr[-1]), rng.uniform(-1, 1, ptr[-1])


def _options(n=1 << 18):
    rng = _rng()
    s, k, t = rng.uniform(5, 30, n), rng.uniform(1, 100, n), rng.uniform(0.25, 10, n)
    return s, k, t, np.zeros(n), np.zeros(n)


CASES = {
    "saxpy": lambda: (2.5, _vector(), _vector()),
    "dot": lambda: (_vector(), _vector()),
    "total": lambda: (_vector(),),
    "product": lambda: (1.0 + 1e-6 * _vector(),),
    "largest": lambda: (_vector(),),
    "argmin": lambda: (_vector(),),
    "prefix_sum": lambda: (_vector(), np.zeros(N)),
    "spmv": lambda: (*_csr(), _vector(1 << 16), np.zeros(1 << 16)),
    "spmm": lambda: (*_csr(1 << 13, 1 << 13), _vector(1 << 19).reshape(1 << 13, 64), np.zeros((1 << 13, 64))),
    "histogram": lambda: (_rng().integers(0, 256, N), np.zeros(256, np.int64)),
    "mandelbrot": lambda: (100, np.zeros((400, 600), np.int64)),
    "collatz": lambda: (np.zeros(100_000, np.int64),),
    "black_scholes": _options,
    "pi": lambda: (1 << 21,),
    "floyd_warshall": lambda: (_rng().uniform(1, 100, (300, 300)),),
    "jacobi_1d": lambda: (_vector(), np.zeros(N)),
    "jacobi_2d": lambda: (_vector().reshape(1024, 1024), np.zeros((1024, 1024))),
    "jacobi_3d": lambda: (_vector(128**3).reshape(128, 128, 128), np.zeros((128, 128, 128))),
    "periodic": lambda: (_vector(), np.zeros(N)),
    "guarded": lambda: (_vector(), np.zeros(N)),
}


def _np_saxpy(a, x, y):
    y += a * x


def _np_argmin(x):
    return int(np.argmin(x))


def _np_prefix_sum(x, out):
    np.cumsum(x, out=out)


def _np_histogram(labels, h):
    h += np.bincount(labels, minlength=len(h))


def _np_spmv(ptr, idx, val, x, y):
    # Rows may be empty, which np.add.reduceat does not allow.
    products = np.concatenate([[0.0], np.cumsum(val * x[idx])])
    y[:] = products[ptr[1:]] - products[ptr[:-1]]


def _np_pi(n):
    x = (np.arange(n) + 0.5) / n
    return np.sum(4.0 / (1.0 + x * x)) / n


def _np_floyd_warshall(path):
    for k in range(len(path)):
        np.minimum(path, path[:, k, None] + path[None, k], out=path)


def _np_jacobi_1d(A, B):
    B[1:-1] = 0.33333 * (A[:-2] + A[1:-1] + A[2:])


def _np_jacobi_2d(A, B):
    B[1:-1, 1:-1] = 0.2 * (A[1:-1, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:] + A[2:, 1:-1] + A[:-2, 1:-1])


def _np_jacobi_3d(A, B):
    c = A[1:-1, 1:-1, 1:-1]
    B[1:-1, 1:-1, 1:-1] = (
        0.125 * (A[2:, 1:-1, 1:-1] - 2.0 * c + A[:-2, 1:-1, 1:-1])
        + 0.125 * (A[1:-1, 2:, 1:-1] - 2.0 * c + A[1:-1, :-2, 1:-1])
        + 0.125 * (A[1:-1, 1:-1, 2:] - 2.0 * c + A[1:-1, 1:-1, :-2])
        + c
    )


def _np_periodic(u, out):
    out[:] = np.roll(u, 1) - 2.0 * u + np.roll(u, -1)


def _np_guarded(x, out):
    out[:-1] = x[1:] - x[:-1]
    out[-1] = x[-1]


def _np_mandelbrot(limit, out):
    h, w = out.shape
    c = (-2.0 + 3.0 * np.arange(w) / w)[None, :] + 1j * (-1.25 + 2.5 * np.arange(h) / h)[:, None]
    z = np.zeros_like(c)
    out[:] = 0
    active = np.ones(c.shape, bool)
    for _ in range(limit):
        active &= z.real**2 + z.imag**2 < 4.0
        out += active
        z = np.where(active, z * z + c, z)


NUMPY = {
    "saxpy": _np_saxpy,
    "dot": lambda x, y: float(np.dot(x, y)),
    "total": lambda x: float(np.sum(x)),
    "product": lambda x: float(np.prod(x)),
    "largest": np.max,
    "argmin": _np_argmin,
    "prefix_sum": _np_prefix_sum,
    "spmv": _np_spmv,
    "histogram": _np_histogram,
    "mandelbrot": _np_mandelbrot,
    "pi": _np_pi,
    "floyd_warshall": _np_floyd_warshall,
    "jacobi_1d": _np_jacobi_1d,
    "jacobi_2d": _np_jacobi_2d,
    "jacobi_3d": _np_jacobi_3d,
    "periodic": _np_periodic,
    "guarded": _np_guarded,
}
