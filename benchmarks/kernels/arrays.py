"""The array statements of the suite in NumPy with tensor pragmas, and the data each runs on.

`CASES[name]` makes a fresh tuple of arguments. Uncompiled the functions are NumPy's side. The Numba versions
(arrays_numba.py) are the loops that one writes there. Shapes are those of NPBench's preset M where it has the kernel,
and syrk's of its preset L: M takes half a millisecond.
"""

import numpy as np

SIDES = ("appy", "c", "numpy", "numba", "numba_arrays", "pythran", "numexpr")
N = 1 << 23  # of element-wise cases: their arrays come from memory

# Bytes that must move at least, for the cases whose time is memory traffic.
TRAFFIC = {"vector_add": 24 * N, "chain": 32 * N, "gesummv": 16 * 4000 * 4000}


def vector_add(a, b, c):
    # pragma 0=>parallel,simd
    c[:] = a + b


def chain(a, b, c, out):
    # pragma 0=>parallel,simd
    out[:] = a * b + c - a / 3 + b * 2


def softmax(x, out):
    # pragma parallel for
    for i in range(x.shape[0]):
        e = np.exp(x[i] - np.max(x[i]))
        out[i] = e / np.sum(e)


def gesummv(alpha, beta, a, b, x, y):
    # pragma 0=>parallel 1=>reduction(sum)
    y[:] = alpha * a @ x + beta * b @ x


def gemver(alpha, beta, a, u1, v1, u2, v2, w, x, y, z):
    # pragma 0=>parallel 1=>simd
    a += np.outer(u1, v1) + np.outer(u2, v2)
    # pragma 0=>parallel
    x += beta * y @ a + z
    # pragma 0=>parallel 1=>reduction(sum)
    w += alpha * a @ x


def heat_3d(steps, a, b):
    for _ in range(1, steps):
        # pragma 0=>parallel 1=>parallel 2=>simd
        b[1:-1, 1:-1, 1:-1] = (
            0.125 * (a[2:, 1:-1, 1:-1] - 2.0 * a[1:-1, 1:-1, 1:-1] + a[:-2, 1:-1, 1:-1])
            + 0.125 * (a[1:-1, 2:, 1:-1] - 2.0 * a[1:-1, 1:-1, 1:-1] + a[1:-1, :-2, 1:-1])
            + 0.125 * (a[1:-1, 1:-1, 2:] - 2.0 * a[1:-1, 1:-1, 1:-1] + a[1:-1, 1:-1, :-2])
            + a[1:-1, 1:-1, 1:-1]
        )
        # pragma 0=>parallel 1=>parallel 2=>simd
        a[1:-1, 1:-1, 1:-1] = (
            0.125 * (b[2:, 1:-1, 1:-1] - 2.0 * b[1:-1, 1:-1, 1:-1] + b[:-2, 1:-1, 1:-1])
            + 0.125 * (b[1:-1, 2:, 1:-1] - 2.0 * b[1:-1, 1:-1, 1:-1] + b[1:-1, :-2, 1:-1])
            + 0.125 * (b[1:-1, 1:-1, 2:] - 2.0 * b[1:-1, 1:-1, 1:-1] + b[1:-1, 1:-1, :-2])
            + b[1:-1, 1:-1, 1:-1]
        )


def hdiff(in_field, out_field, coeff):
    i, j = out_field.shape[0], out_field.shape[1]
    # pragma 0=>parallel 1=>parallel 2=>simd
    lap = 4.0 * in_field[1 : i + 3, 1 : j + 3, :] - (
        in_field[2 : i + 4, 1 : j + 3, :]
        + in_field[0 : i + 2, 1 : j + 3, :]
        + in_field[1 : i + 3, 2 : j + 4, :]
        + in_field[1 : i + 3, 0 : j + 2, :]
    )
    # pragma 0=>parallel 1=>parallel 2=>simd
    res = lap[1:, 1 : j + 1, :] - lap[:-1, 1 : j + 1, :]
    # pragma 0=>parallel 1=>parallel 2=>simd
    flx = np.where((res * (in_field[2 : i + 3, 2 : j + 2, :] - in_field[1 : i + 2, 2 : j + 2, :])) > 0, 0, res)
    # pragma 0=>parallel 1=>parallel 2=>simd
    res = lap[1 : i + 1, 1:, :] - lap[1 : i + 1, :-1, :]
    # pragma 0=>parallel 1=>parallel 2=>simd
    fly = np.where((res * (in_field[2 : i + 2, 2 : j + 3, :] - in_field[2 : i + 2, 1 : j + 2, :])) > 0, 0, res)
    # pragma 0=>parallel 1=>parallel 2=>simd
    out_field[:, :, :] = in_field[2 : i + 2, 2 : j + 2, :] - coeff[:, :, :] * (
        flx[1:, :, :] - flx[:-1, :, :] + fly[:, 1:, :] - fly[:, :-1, :]
    )


def layer_norm(x, gain, bias, out):
    # pragma parallel for
    for i in range(x.shape[0]):
        out[i] = (x[i] - np.mean(x[i])) / np.sqrt(np.var(x[i]) + 1e-5) * gain + bias


def normalised(a, b):
    # pragma 0=>parallel 1=>reduction(sum)
    s = np.sum(a, 1)
    # pragma 0=>parallel 1=>simd
    b[:, :] = a / s[:, None]


def column_sums(a, s):
    # pragma 0=>parallel 1=>reduction(sum)
    s[:] = a.sum(axis=0)


def syrk(alpha, beta, c, a):
    # pragma parallel for
    for i in range(a.shape[0]):
        c[i, : i + 1] *= beta
        for k in range(a.shape[1]):
            c[i, : i + 1] += alpha * a[i, k] * a[: i + 1, k]


def exponential(x, y):
    # pragma 0=>parallel,simd
    y[:] = np.exp(x)


def uniform(*shapes, scale=1.0):
    def make():
        rng = np.random.default_rng(1)
        return tuple(rng.random(shape) * scale for shape in shapes)

    return make


CASES = {
    "vector_add": uniform((N,), (N,), (N,)),
    "chain": uniform((N,), (N,), (N,), (N,)),
    "exponential": uniform((N,), (N,)),
    "softmax": uniform((32 * 8 * 256, 256), (32 * 8 * 256, 256)),
    "layer_norm": uniform((2048, 1024), (1024,), (1024,), (2048, 1024)),
    "normalised": lambda: (uniform((1024, 1024))()[0] + 0.5, np.zeros((1024, 1024))),
    "column_sums": uniform((2048, 1024), (1024,)),
    "gesummv": lambda: (1.5, 1.2, *uniform((4000, 4000), (4000, 4000), (4000,), (4000,))()),
    "gemver": lambda: (1e-3, 1e-3, *uniform((3000, 3000), *((3000,),) * 8, scale=1e-6)()),
    "heat_3d": lambda: (50, *uniform((40, 40, 40), (40, 40, 40))()),
    "hdiff": uniform((132, 132, 160), (128, 128, 160), (128, 128, 160)),
    "syrk": lambda: (1.5, 0.5, *uniform((500, 500), (500, 600))()),
}
NUMPY = {name: globals()[name] for name in CASES}
