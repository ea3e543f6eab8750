"""Programs on the dtypes beside float32, float64 and the integers. Registered with registry.py."""

from __future__ import annotations

import numpy as np
from registry import program, values

HALF = ("float16",)


def halves(*shapes):
    return lambda dtype, rng: tuple(values(rng, dtype, *shape) for shape in shapes)


# ---- float16: each operation is computed in float32 and rounded


@program(lambda dtype, rng: (*halves((1003,), (1003,))(dtype, rng), np.float16(1.5)), dtypes=HALF, ulps=0)
def half_saxpy(x, y, a):
    # pragma parallel for simd
    for i in range(x.shape[0]):
        y[i] = a * x[i] + y[i]


@program(halves((37, 53), (53,), (37, 1), (37, 53)), dtypes=HALF, ulps=0)
def half_statement(a, row, column, out):
    # pragma 0=>parallel 1=>simd
    out[:, :] = a * row + column / 2 - a[:1, :] * 3 + np.sqrt(np.abs(a)) % 0.25 - column // 0.125


@program(halves((1003,), (1003,)), dtypes=HALF, ulps=0)
def half_in_order(x, y):
    s = np.float16(0)
    # pragma sequential for
    for i in range(x.shape[0]):
        s = s * x[i] + y[i]
        y[i] = s
    return s


@program(halves((1003,)), dtypes=HALF, ulps=64, scale=30)
def half_sums(x):
    s = t = np.float16(0)
    p = np.float16(1)
    u = 0.5
    # pragma simd
    for i in range(x.shape[0]):
        s += x[i]
        if x[i] > 0:
            t -= x[i] * x[i]
        u += x[i]
        if i < 20:
            p *= x[i]
    return s, t, p, u


@program(halves((1003,)), dtypes=HALF, ulps=0)
def half_extremes(x):
    low = high = x[0]
    where = 0
    best = np.inf
    at = -1
    # pragma parallel for simd
    for i in range(x.shape[0]):
        low = min(low, x[i])
        high = np.maximum(high, x[i])
        if x[i] < best:
            best = x[i]
            at = i
    # pragma sequential for
    for i in range(1, x.shape[0]):
        if x[i] > x[where]:
            where = i
    return low, high, best, at, where


@program(halves((40, 51)), dtypes=HALF, ulps=40, scale=4)
def half_reductions(x):
    # pragma 0=>parallel 1=>reduction(sum)
    s = np.sum(x, axis=1)
    # pragma 0=>parallel 1=>simd
    c = x.sum(axis=0, keepdims=True)
    # pragma 0=>simd
    m = x.mean(axis=1)
    # pragma 0=>simd
    v = np.var(x, axis=1)
    # pragma 0=>simd
    d = x.std()
    # pragma :=>simd
    p = np.prod(x[:, :3], axis=1)
    # pragma 0=>simd
    q = np.cumsum(x, axis=1)
    return s, c, m, v, d, p, q


@program(halves((40, 51)), dtypes=HALF, ulps=0)
def half_choices(x):
    # pragma 0=>simd
    a = np.max(x, axis=1)
    # pragma 0=>simd
    b = x.min()
    # pragma 0=>simd
    c = np.argmax(x, axis=0)
    # pragma 0=>simd
    d = (x > 0.5).any(axis=1)
    # pragma :=>simd
    e = np.where(x < x[:, :1], -x, abs(x))
    # pragma 0=>simd
    f = (x == e) | (x != x)
    return a, b, c, d, e, f


@program(halves((30, 20), (20, 17), (20,)), dtypes=HALF, ulps=16, scale=4)
def half_products(a, b, v):
    # pragma 0=>parallel 1=>simd
    c = a @ b
    # pragma 0=>parallel
    d = a @ v
    # pragma 0=>simd
    e = np.outer(v, v)
    # pragma 0=>simd
    f = np.dot(v, v)
    # pragma 0=>simd
    g = np.einsum("ij,ij->j", a, a)
    return c, d, e, f, g


@program(halves((333,), (333,)), dtypes=HALF, ulps=2, scale=0.05)
def half_elementary(x, y):
    # pragma 0=>simd
    a = np.exp(x) + np.log(np.abs(y) + 1) + np.sin(x) * np.cos(y)
    # pragma 0=>simd
    b = np.tanh(x) - np.arctan2(x, y) + np.hypot(x, y) + np.degrees(x) + np.logaddexp(x, y)
    # pragma 0=>simd
    c = np.power(np.abs(x), 1.5) + x**2 - np.abs(x) ** y
    # pragma 0=>simd
    d = np.floor(x * 9) + np.rint(y * 9) + np.sign(x) + np.copysign(y, x) + np.fmax(x, y)
    # pragma 0=>simd
    e = np.isnan(x) | np.isinf(1 / y) | np.signbit(x)
    return a, b, c, d, e


@program(
    lambda dtype, rng: (values(rng, dtype, 300), values(rng, "float16", 300)),
    dtypes=("bool", "int8", "uint8", "int16", "uint16", "int32", "int64", "uint64", "float32", "float64", "float16"),
    ulps=4,
    scale=1,
)
def half_mixed(x, h):
    # pragma 0=>simd
    a = x + h
    # pragma 0=>simd
    b = np.maximum(x, h) * 2.5 - 7
    # pragma 0=>simd
    c = (h * 100).astype(x.dtype)
    # pragma 0=>simd
    d = x.astype(np.float16) < h
    # pragma :=>simd
    h[:] = x
    # pragma 0=>simd
    e = np.where(d, x, h)
    return a, b, c, d, e


@program(
    lambda dtype, rng: (rng.integers(0, 100, 300).astype(dtype), rng.integers(1, 100, 300).astype(dtype)),
    dtypes=("bool", "int8", "uint8"),
    ulps=2,
)
def half_from_small_integers(x, y):
    # pragma 0=>simd
    a = np.sqrt(x)
    # pragma 0=>simd
    b = np.exp(-np.sin(y)) + np.arctan2(x, y)
    s = np.float16(0)
    # pragma simd
    for i in range(x.shape[0]):
        s = max(s, np.log1p(x[i]))
    return a, b, s


@program(
    lambda dtype, rng: (rng.integers(0, 9, 500), values(rng, dtype, 500), np.zeros(9, dtype)),
    dtypes=HALF,
    ulps=64,
    scale=8,
)
def half_histogram(k, x, h):
    # pragma parallel for
    for i in range(x.shape[0]):
        # pragma atomic
        h[k[i]] += x[i]
    top = np.ones_like(h)
    # pragma parallel for
    for i in range(x.shape[0]):
        # pragma atomic
        top[k[i]] *= 1 + x[i] / 64
    return top


@program(halves((200,)), dtypes=HALF, ulps=0)
def half_scalars(x):
    last = None
    kept = x[0]
    # pragma sequential for
    for i in range(x.shape[0]):
        last = x[i] + 1
        wide = np.float32(last) * 0.1
        back = np.float16(wide)
        n = int(last * 100)
        f = float(back)
        if back > kept:
            kept = back
    y = np.zeros(x.shape[0], dtype=np.float16)
    # pragma simd
    for i in range(x.shape[0]):
        y[i] = 2.7182818284 * i
    return last, wide, back, n, f, kept, y, x.dtype == np.float16


# ---- complex numbers: pairs of floats

COMPLEX = ("complex128", "complex64")


def complexes(*shapes):
    def make(dtype, rng):
        return tuple((values(rng, "f8", *shape) + 1j * values(rng, "f8", *shape)).astype(dtype) for shape in shapes)

    return make


@program(complexes((501,), (501,)), dtypes=COMPLEX)
def complex_saxpy(x, y):
    # pragma parallel for simd
    for i in range(x.shape[0]):
        y[i] = (1.5 - 2j) * x[i] + y[i]


@program(lambda dtype, rng: (np.zeros((24, 32), np.int64), 40), dtypes=("complex128",))
def mandelbrot(out, limit):
    # pragma parallel for
    for y in range(out.shape[0]):
        # pragma simd
        for x in range(out.shape[1]):
            c = complex(x * 3 / 32 - 2, y * 2 / 24 - 1)
            z = 0j
            n = 0
            while n < limit and abs(z) <= 2:
                z = z * z + c
                n += 1
            out[y, x] = n
    return z, c


@program(lambda dtype, rng: (complexes((300,))(dtype, rng)[0] * 2, np.zeros(300, int)), dtypes=COMPLEX)
def julia(start, out):
    # pragma parallel for simd
    for i in range(start.shape[0]):
        z = start[i]
        n = 0
        while abs(z) < 2 and n < 30:
            z = z * z - 0.4 + 0.6j
            n += 1
        out[i] = n
    return z


@program(complexes((301,)), dtypes=COMPLEX, ulps=64, scale=20)
def complex_sums(x):
    s = 0j
    t = x[0]
    # pragma simd
    for i in range(x.shape[0]):
        s += x[i]
        t -= x[i] * x[i].conjugate()
    p = np.complex64(1)
    # pragma sequential for
    for i in range(20):
        p = p * x[i]
    return s, t, p


@program(complexes((37, 53), (53,), (37, 53)), dtypes=COMPLEX, ulps=32)
def complex_statement(a, row, out):
    # pragma 0=>parallel 1=>simd
    out[:, :] = a * row + a[:1] / (row + 3) - 2j * np.conj(a) + a.real - 1
    # pragma 0=>parallel 1=>simd
    b = (a + row).T
    # pragma 0=>parallel 1=>simd
    a *= 1 + 1j
    # pragma ::2=>simd
    a[1, ::2] = row[::-2]
    # pragma 0=>simd
    out.imag[0] = 3
    # pragma :=>simd
    out.real[:, 1] += a.imag[:, 2]
    return b, out[3, 4], a.shape, a.dtype == out.dtype


@program(complexes((400,), (400,)), dtypes=COMPLEX)
def complex_overlap(a, b):
    # pragma :-1=>simd
    a[1:] = a[:-1] * 1j
    # pragma ::-1=>simd
    b[:] = b[::-1] - b.imag
    # pragma :=>simd
    b[:] = b * b


@program(complexes((333,)), dtypes=COMPLEX, ulps=16, scale=1)
def complex_functions(z):
    # pragma 0=>simd
    a = np.exp(z) + np.sqrt(z)
    # pragma 0=>simd
    b = np.log(z)
    # pragma 0=>simd
    c = np.abs(z) + np.angle(z) - np.imag(z)
    # pragma 0=>simd
    d = z**3 - z**2
    # pragma 0=>simd
    e = 1 / z
    # pragma 0=>simd
    f = (z == a) | (z != z) | (z < a) & np.isfinite(z)
    # pragma 0=>simd
    g = np.where(z.real > 0, z, -z.conj())
    return a, b, c, d, e, f, g


@program(complexes((30, 20), (20, 17), (20,)), dtypes=COMPLEX, ulps=64, scale=4)
def complex_products(a, b, v):
    # pragma 0=>parallel 1=>simd
    c = a @ b
    # pragma 0=>parallel
    d = a @ v
    # pragma 0=>simd
    f = np.dot(v, v)
    # pragma 0=>parallel
    g = np.sum(a, axis=1)
    # pragma 0=>simd
    h = a.mean(axis=0)
    # pragma 0=>simd
    k = v.prod()
    return c, d, f, g, h, k


@program(
    lambda dtype, rng: (values(rng, dtype, 100), *complexes((100,))("complex64", rng)),
    dtypes=("bool", "int8", "uint16", "int32", "int64", "float16", "float32", "float64"),
    ulps=16,
)
def complex_mixed(x, z):
    # pragma 0=>simd
    a = x * 1j
    # pragma 0=>simd
    b = x + z
    # pragma 0=>simd
    c = z / (x + 2.5)
    # pragma :=>simd
    z[:] = x
    # pragma 0=>simd
    d = x.astype(complex) - 2
    return a, b, c, d


@program(lambda dtype, rng: (7, dtype, *complexes((7,))(dtype, rng)), dtypes=COMPLEX)
def complex_arrays_made(n, dtype, x):
    # pragma 0=>simd
    a = np.zeros(n, dtype=complex)
    # pragma 0=>simd
    b = np.ones((n, 2), np.complex64)
    # pragma 0=>simd
    c = np.zeros_like(x)
    # pragma parallel for
    for i in range(n):
        a[i] = x[i] * i
        b[i, 1] -= a[i]
        c[i] += complex(i, -1)
    # pragma 0=>simd
    d = x.copy()
    return a, b, c, d


@program(complexes((60,)), dtypes=COMPLEX)
def complex_scalars(x):
    z = x[0]
    w = 2 - 1j
    kept = np.complex128(3)
    # pragma sequential for
    for i in range(x.shape[0]):
        z = z / (x[i] + 2)
        w = -w.conjugate() / (1 + 1j)
        if abs(x[i]) > 0.5:
            kept = np.complex128(x[i])
        re, im = z.real, w.imag
    # pragma sequential for
    for i in range(0):
        z = 1j
    return z, w, kept, re, im, z == w, bool(w)


@program(
    lambda dtype, rng: (rng.integers(0, 9, 500), *complexes((500,))(dtype, rng), np.zeros(9, dtype)),
    dtypes=COMPLEX,
    ulps=64,
    scale=8,
)
def complex_histogram(k, x, h):
    # pragma parallel for
    for i in range(x.shape[0]):
        # pragma atomic
        h[k[i]] += x[i]


# ---- fields of records, unaligned arrays

RECORDS = {
    "aligned": np.dtype([("x", "f8"), ("n", "i4"), ("z", "c8"), ("h", "f2")], align=True),
    "packed": np.dtype([("n", "i1"), ("x", "f8"), ("z", "c8"), ("h", "f2")]),
}


def records(dtype, rng):
    a = np.zeros(203, RECORDS[dtype])
    a["x"] = rng.uniform(-1, 1, 203)
    a["n"] = rng.integers(-50, 50, 203)
    a["z"] = rng.uniform(-1, 1, 203) + 2j
    a["h"] = rng.uniform(-1, 1, 203)
    return (a,)


@program(records, dtypes=tuple(RECORDS), ulps=64, scale=8)
def fields_of_records(r):
    s = 0.0
    # pragma parallel for simd
    for i in range(r["x"].shape[0]):
        s += r["x"][i] * r["n"][i]
        r["z"][i] *= r["x"][i]
    # pragma :-1=>simd
    r["x"][1:] = r["x"][:-1] + r["h"][1:]
    # pragma 0=>simd
    t = np.sum(r["n"])
    return s, t


@program(records, dtypes=tuple(RECORDS))
def field_in_a_variable(r):
    x, n = r["x"], r["n"][::2]
    # pragma simd
    for i in range(n.shape[0]):
        n[i] += 1
        x[i] = x[i] * 2 + n[i]


def unaligned(dtype, rng):
    n = 100
    memory = np.zeros(n * np.dtype(dtype).itemsize + 1, np.uint8)
    a = memory[1:].view(dtype)
    a[:] = values(rng, dtype, n)
    return a, values(rng, dtype, n)


@program(unaligned, dtypes=("float64", "float32", "float16", "int32", "int64", "uint16"))
def unaligned_array(a, b):
    # pragma simd
    for i in range(a.shape[0]):
        a[i] = a[i] * 2 + b[i]
    # pragma :=>simd
    b[:] = a[::-1] + a
