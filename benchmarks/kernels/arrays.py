"""The array statements of the suite in NumPy with tensor pragmas, and the data each runs on.

`CASES[name]` makes a fresh tuple of arguments. Uncompiled the functions are NumPy's side. The Numba versions
(arrays_numba.py) are the loops that one writes there. Shapes are those of NPBench's preset M where it has the kernel.
"""

import numpy as np

N = 1 << 20
TRAFFIC = {"chain": 32, "vector_add": 24}


def vector_add(a, b, c):
    # pragma :N=>parallel,simd
    c[:] = a + b


def chain(a, b, c, out):
    # pragma :N=>parallel,simd
    out[:] = a * b + c - a / 3 + b * 2


def softmax(x, out):
    # pragma parallel for
    for i in range(x.shape[0]):
        e = np.exp(x[i] - np.max(x[i]))
        out[i] = e / np.sum(e)


def gesummv(alpha, beta, a, b, x, y):
    # pragma :M=>parallel :N=>reduction(sum)
    y[:] = alpha * a @ x + beta * b @ x


def gemver(alpha, beta, a, u1, v1, u2, v2, w, x, y, z):
    # pragma :M=>parallel :N=>simd
    a += np.outer(u1, v1) + np.outer(u2, v2)
    # pragma :N=>parallel
    x += beta * y @ a + z
    # pragma :M=>parallel :N=>reduction(sum)
    w += alpha * a @ x


def heat_3d(a, b):
    # pragma 1:M-1=>parallel 1:N-1=>parallel 1:K-1=>simd
    b[1:-1, 1:-1, 1:-1] = (
        0.125 * (a[2:, 1:-1, 1:-1] - 2.0 * a[1:-1, 1:-1, 1:-1] + a[:-2, 1:-1, 1:-1])
        + 0.125 * (a[1:-1, 2:, 1:-1] - 2.0 * a[1:-1, 1:-1, 1:-1] + a[1:-1, :-2, 1:-1])
        + 0.125 * (a[1:-1, 1:-1, 2:] - 2.0 * a[1:-1, 1:-1, 1:-1] + a[1:-1, 1:-1, :-2])
        + a[1:-1, 1:-1, 1:-1]
    )


def hdiff(in_field, out_field, coeff):
    i, j = out_field.shape[0], out_field.shape[1]
    # pragma :I=>parallel :J=>parallel :K=>simd
    lap = 4.0 * in_field[1 : i + 3, 1 : j + 3, :] - (
        in_field[2 : i + 4, 1 : j + 3, :]
        + in_field[0 : i + 2, 1 : j + 3, :]
        + in_field[1 : i + 3, 2 : j + 4, :]
        + in_field[1 : i + 3, 0 : j + 2, :]
    )
    # pragma :I=>parallel :J=>parallel :K=>simd
    res = lap[1:, 1 : j + 1, :] - lap[:-1, 1 : j + 1, :]
    # pragma :I=>parallel :J=>parallel :K=>simd
    flx = np.where((res * (in_field[2 : i + 3, 2 : j + 2, :] - in_field[1 : i + 2, 2 : j + 2, :])) > 0, 0, res)
    # pragma :I=>parallel :J=>parallel :K=>simd
    res = lap[1 : i + 1, 1:, :] - lap[1 : i + 1, :-1, :]
    # pragma :I=>parallel :J=>parallel :K=>simd
    fly = np.where((res * (in_field[2 : i + 2, 2 : j + 3, :] - in_field[2 : i + 2, 1 : j + 2, :])) > 0, 0, res)
    # pragma :I=>parallel :J=>parallel :K=>simd
    out_field[:, :, :] = in_field[2 : i + 2, 2 : j + 2, :] - coeff[:, :, :] * (
        flx[1:, :, :] - flx[:-1, :, :] + fly[:, 1:, :] - fly[:, :-1, :]
    )


def layer_norm(x, gain, bias, out):
    # pragma parallel for
    for i in range(x.shape[0]):
        out[i] = (x[i] - np.mean(x[i])) / np.sqrt(np.var(x[i]) + 1e-5) * gain + bias


def normalised(a, b):
    # pragma :M=>parallel :N=>reduction(sum)
    s = np.sum(a, 1)
    # pragma :M=>parallel :N=>simd
    b[:, :] = a / s[:, None]


def column_sums(a, s):
    # pragma :M=>reduction(sum) :N=>parallel
    s[:] = a.sum(axis=0)


def syrk(alpha, beta, c, a):
    # pragma parallel for
    for i in range(a.shape[0]):
        c[i, : i + 1] *= beta
        for k in range(a.shape[1]):
            c[i, : i + 1] += alpha * a[i, k] * a[: i + 1, k]


def exponential(x, y):
    # pragma :N=>parallel,simd
    y[:] = np.exp(x)


def uniform(*shapes):
    rng = np.random.default_rng(1)
    return lambda: tuple(rng.random(shape) for shape in shapes)


def stable(*shapes):
    """Arguments that stay as they are however often the kernel runs."""
    rng = np.random.default_rng(1)
    return lambda: tuple(rng.random(shape) * 1e-6 for shape in shapes)


CASES = {
    "vector_add": uniform((N,), (N,), (N,)),
    "chain": uniform((N,), (N,), (N,), (N,)),
    "exponential": uniform((N,), (N,)),
    "softmax": uniform((2048, 1024), (2048, 1024)),
    "layer_norm": uniform((2048, 1024), (1024,), (1024,), (2048, 1024)),
    "normalised": lambda: (uniform((1024, 1024))()[0] + 0.5, np.zeros((1024, 1024))),
    "column_sums": uniform((2048, 1024), (1024,)),
    "gesummv": lambda: (1.5, 1.2, *uniform((2000, 2000), (2000, 2000), (2000,), (2000,))()),
    "gemver": lambda: (1e-3, 1e-3, *stable((1500, 1500), *((1500,),) * 8)()),
    "heat_3d": uniform((100, 100, 100), (100, 100, 100)),
    "hdiff": uniform((132, 132, 64), (128, 128, 64), (128, 128, 64)),
    "syrk": lambda: (1.5, 0.5, *uniform((300, 300), (300, 250))()),
}
NUMPY = {name: globals()[name] for name in CASES}
