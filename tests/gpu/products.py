"""Products, and what has their form, on a device: ``python tests/gpu/products.py`` compares them with NumPy.

``APPY_CUDA_SHAPE=tiles=1``, ``tiles=2`` or ``tiles=3`` computes them in tiles whatever their sizes. The one line that it
prints is JSON: for each program, what ``appy.explain`` says of its products, once each.
"""

from __future__ import annotations

import json
import os
import re
import sys

import numpy as np

import appy


def product(C, A, B):
    # pragma 0=>parallel
    C[:, :] = A @ B


def product_new(C, A, B):
    # pragma 0=>parallel
    D = A @ B
    C[:, :] = D


def gemm(C, A, B):
    alpha, beta = 1.5, 1.25
    # pragma 0=>parallel
    C[:, :] = alpha * A @ B + beta * C


def names(x, y, c):
    r, k, sums, width, steps, Tile, SumTile = 1.5, 2.0, 0.5, 1.0, 1.0, 1.0, 1.0
    # pragma 0=>parallel
    x[:, :] = r * y @ c + k * x * sums * width * steps * Tile * SumTile


def layer(C, A, B):
    # pragma 0=>parallel
    C[:, :] = np.maximum(A @ B + B[0, :], 0)


def chain(C, A, B):
    # pragma 0=>parallel
    C[:, :] = A @ B @ (B.T @ B) + C


def accumulate(C, A, B):
    # pragma parallel for
    for i in range(A.shape[0]):
        # pragma simd
        for j in range(B.shape[1]):
            for k in range(A.shape[1]):
                C[i, j] += A[i, k] * B[k, j]


def in_order(C, A, B):
    # pragma parallel for
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            total = C[i, j]
            for k in range(A.shape[1]):
                total += A[i, k] * B[k, j]
            C[i, j] = total


def nearest(C, A, B):
    # pragma parallel for
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            least = C[i, j]
            for k in range(A.shape[1]):
                least = min(least, A[i, k] + B[k, j])
            C[i, j] = least


def distances(C, A, B):
    # pragma parallel for
    for i in range(A.shape[0]):
        # pragma parallel for
        for j in range(B.shape[1]):
            total = A[i, 0] * 0
            # pragma simd
            for k in range(A.shape[1]):
                total += (A[i, k] - B[k, j]) * (A[i, k] - B[k, j])
            C[i, j] = total


def several(C, A, B):
    batch = np.zeros((3, A.shape[0], A.shape[1]), A.dtype)
    # pragma 0=>parallel
    batch[:, :, :] = A
    batch[1, :, :] *= 2
    out = np.zeros((3, C.shape[0], C.shape[1]), C.dtype)
    # pragma 0=>parallel
    out[:, :, :] = np.einsum("bik,kj->bij", batch, B)
    C[:, :] = out[0] + out[1] - out[2]


def triangle(C, A, B):
    n = min(A.shape[0], B.shape[1])
    # pragma parallel for
    for i in range(n):
        # pragma simd
        for j in range(i + 1):
            total = 0.0 * A[i, 0]
            for k in range(A.shape[1]):
                total += A[i, k] * B[k, j]
            C[i, j] = total


def syrk(C, A, B):
    n = min(A.shape[0], C.shape[1])
    alpha, beta = 1.5, 1.25
    # pragma parallel for
    for i in range(n):
        C[i, : i + 1] *= beta
        for k in range(A.shape[1]):
            C[i, : i + 1] += alpha * A[i, k] * A[: i + 1, k]


def syr2k(C, A, B):
    n = min(A.shape[0], C.shape[1])
    C, A = C[:n, :n], A[:n]
    D = A[::-1, :].copy()
    alpha, beta = 1.5, 1.25
    # pragma parallel for
    for i in range(n):
        C[i, : i + 1] *= beta
        for k in range(A.shape[1]):
            C[i, : i + 1] += A[: i + 1, k] * alpha * D[i, k] + D[: i + 1, k] * alpha * A[i, k]


def rows(C, A, B):
    # pragma parallel for
    for i in range(A.shape[0]):
        for k in range(A.shape[1]):
            # pragma simd
            for j in range(B.shape[1]):
                C[i, j] += A[i, k] * B[k, j]


def rows_that_stay(C, A, B):
    n = min(A.shape[0], A.shape[1], C.shape[1])
    # pragma parallel for
    for i in range(n):
        for k in range(n):
            # pragma simd
            for j in range(1, n):
                C[i, j] += A[i, k] * C[i, 0]


def captured(C, A, B):
    for step in range(3):
        # pragma 0=>parallel
        C[:, :] = A @ B + C / (step + 1)
        # pragma 0=>parallel
        A[:, 0] = C[:, 0] / A.shape[1]


def onto_itself(C, A, B):
    n = min(A.shape[0], A.shape[1], B.shape[1])
    # pragma 0=>parallel
    A[:n, :n] = A[:n, :n] @ B[:n, :n]
    # pragma 0=>parallel
    A[:n, :n] = A[:n, :n].T @ A[:n, :n]
    C[:n, :n] = A[:n, :n]


def beside(C, A, B):
    C[0, 0] = A[0, 0]
    # pragma 0=>parallel
    C[:, 1:] = A @ B[:, 1:]
    # pragma 0=>parallel
    C[:, 0] = np.sum(C[:, 1:], 1)


def rows_below(C, A, B):
    n = min(A.shape)
    # pragma sequential for
    for i in range(n):
        # pragma 0=>parallel
        B[i, :] += A[i + 1 : n, i] @ B[i + 1 : n, :]
    C[0, 0] = B[0, 0]


def columns_below(C, A, B):
    n = min(A.shape)
    alpha = 1.5
    # pragma parallel for simd
    for j in range(B.shape[1]):
        for i in range(n):
            s = 0.0
            for k in range(i, n):
                s += A[k, i] * B[k, j]
            B[i, j] = alpha * s


def rows_above(C, A, B):
    n = min(A.shape)
    # pragma sequential for
    for i in range(n - 1, -1, -1):
        # pragma 0=>parallel
        B[i, :] = A[i, : i + 1] @ B[: i + 1, :]


def lower(C, A, B):
    n = min(A.shape)
    # pragma parallel for
    for i in range(n):
        # pragma 0=>parallel
        C[i, :] -= A[i, :i] @ B[:i, :]


def upper_right(C, A, B):
    n = min(B.shape)
    # pragma parallel for
    for i in range(A.shape[0]):
        # pragma parallel for
        for j in range(n):
            s = C[i, j]
            # pragma simd
            for k in range(j, n):
                s += A[i, k] * B[k, j]
            C[i, j] = s


def nearest_below(C, A, B):
    n = min(A.shape)
    # pragma parallel for
    for i in range(n):
        for j in range(B.shape[1]):
            least = C[i, j]
            for k in range(i + 1, n):
                least = min(least, A[k, i] + B[k, j])
            C[i, j] = least


def symmetric(C, A, B):
    n = min(A.shape[0], A.shape[1], B.shape[1])
    C, A, B = C[:n, :n], A[:n, :n], B[:n, :n]
    alpha, beta = 1.5, 1.25
    # pragma 0=>parallel 1=>simd
    C *= beta
    # pragma sequential for
    for i in range(n):
        # pragma 0=>parallel 1=>simd
        C[:i, :] += alpha * np.outer(A[i, :i], B[i, :])
        # pragma 0=>parallel
        C[i, :] += alpha * (A[i, i] * B[i, :] + A[i, :i] @ B[:i, :])


def from_the_diagonal(C, A, B):
    n = min(A.shape[0], A.shape[1], B.shape[1])
    C, A, B = C[:n, :n], A[:n, :n], B[:n, :n]
    # pragma sequential for
    for i in range(n):
        # pragma 0=>parallel 1=>simd
        C[i:, :] -= np.outer(A[i, i:], B[i, :])


def of_two(C, A, B):
    n = min(A.shape[0], C.shape[1])
    D = A[::-1, :].copy()
    # pragma parallel for
    for i in range(n):
        for j in range(i + 1):
            s = 0.0
            # pragma simd
            for k in range(A.shape[1]):
                s += A[j, k] * D[i, k] + D[j, k] * A[i, k]
            C[i, j] = 1.25 * C[i, j] + 1.5 * s


def of_two_from_before(C, A, B):
    D, E = A[::-1, :].copy(), B[:, ::-1].copy()
    # pragma parallel for
    for i in range(A.shape[0]):
        # pragma parallel for
        for j in range(B.shape[1]):
            s = C[i, j]
            # pragma simd
            for k in range(A.shape[1]):
                s += A[i, k] * B[k, j] + E[k, j] * D[i, k]
            C[i, j] = s


def of_two_below(C, A, B):
    n = min(A.shape)
    D, E = A[::-1, :].copy(), B[:, ::-1].copy()
    # pragma parallel for
    for i in range(n):
        # pragma parallel for
        for j in range(B.shape[1]):
            s = 0.0
            # pragma simd
            for k in range(i, n):
                s += A[i, k] * E[k, j] + D[i, k] * B[k, j]
            C[i, j] -= s


def one_after_the_other(C, A, B):
    n = min(A.shape[0], A.shape[1], B.shape[1])
    C, A, B = C[:n, :n], A[:n, :n], B[:n, :n]
    # pragma sequential for
    for i in range(n):
        # pragma 0=>parallel
        C[i, :] = A[i, :] @ B
        # pragma 0=>parallel
        A[i, :] = A[i, : i + 1] @ C[: i + 1, :]


PROGRAMS = [
    product,
    product_new,
    gemm,
    names,
    layer,
    chain,
    accumulate,
    in_order,
    nearest,
    distances,
    several,
    triangle,
]
PROGRAMS += [syrk, syr2k, rows, rows_that_stay, captured, onto_itself, beside]
PROGRAMS += [rows_below, columns_below, rows_above, lower, upper_right, nearest_below]
PROGRAMS += [symmetric, from_the_diagonal, one_after_the_other]
PROGRAMS += [of_two, of_two_from_before, of_two_below]
OTHER_TYPES = {
    "product": ["f4", "c16", "i8", "f2", "c8"],
    "gemm": ["f4", "c16"],
    "in_order": ["f4", "i4", "i8"],
    "nearest": ["f4", "i8"],
    "accumulate": ["f4"],
    "triangle": ["f4"],
    "syrk": ["f4", "c16"],
    "syr2k": ["f4"],
    "rows_below": ["f4", "c16"],
    "symmetric": ["f4"],
    "lower": ["f4", "i8"],
    "upper_right": ["f4"],
    "nearest_below": ["f4", "i4"],
    "of_two": ["f4"],
}
SIZES = [
    (1, 1, 1),
    (7, 8, 9),
    (8, 1, 63),
    (63, 64, 65),
    (64, 65, 16),
    (65, 130, 17),
    (130, 7, 64),
    (1, 130, 8),
    (40, 33, 1),
]
FEW = [(1, 1, 1), (7, 8, 9), (65, 130, 17)]


def operands(m, n, k, dtype, layout, seed):
    rng = np.random.default_rng(seed)
    made = []
    for shape in ((m, n), (m, k), (k, n)):
        values = rng.integers(-9, 9, shape) if dtype[0] == "i" else rng.standard_normal(shape)
        if dtype[0] == "c":
            values = values + 1j * rng.standard_normal(shape)
        values = values.astype(dtype)
        if layout == "transposed":
            values = np.ascontiguousarray(values.T).T
        elif layout == "strided":
            room = np.zeros((2 * shape[0], 3 * shape[1]), dtype)
            room[::2, 1::3] = values
            values = room[::2, 1::3]
        elif layout == "reversed":
            values = values[::-1, ::-1].copy()[::-1, ::-1]
        made.append(values)
    return made


def compare(f, compiled, m, n, k, dtype, layout, seed):
    made = operands(m, n, k, dtype, layout, seed)
    if dtype[0] == "f" and k > 2 and seed % 3 == 0:  # what is not finite stays where it belongs
        made[1][0, k // 2] = np.inf
        made[2][k // 2, 0] = np.nan
    expected = [x.copy() for x in made]
    compiled(*made)
    with np.errstate(all="ignore"):
        f(*expected)
    for mine, numpys in zip(made, expected):
        where = f"{f.__name__} {m}x{n}x{k} {dtype} {layout}"
        if dtype[0] == "i":
            assert np.array_equal(mine, numpys), where
            continue
        eps = np.finfo(dtype).eps
        scale = 4 * eps * (k + n + 8) * 20.0 * (max(n, k) if f in (chain, onto_itself, captured) else 1)
        with np.errstate(all="ignore"):
            largest = max(1.0, float(np.nanmax(np.abs(np.where(np.isfinite(numpys), numpys, 0)), initial=0)))
        np.testing.assert_allclose(mine, numpys, rtol=scale, atol=scale * largest, equal_nan=True, err_msg=where)


def print_texts():
    """The kernels, compiled by nobody."""
    for f in PROGRAMS:
        appy.jit(backend="cuda", strict=True, dry_run=True, dump="asm")(f)(*operands(65, 33, 40, "f8", "plain", 1))


def main(names):
    found = {}
    for f in PROGRAMS:
        if names and f.__name__ not in names:
            continue
        seed = 0
        compiled = appy.jit(backend="cuda", strict=True)(f)
        for layout in ("plain", "transposed", "strided", "reversed"):
            if layout != "plain" and f not in (product, gemm, in_order):
                continue
            for m, n, k in SIZES if layout == "plain" else FEW:
                seed += 1
                if f is beside and n < 2:
                    continue
                compare(f, compiled, m, n, k, "f8", layout, seed)
        for dtype in OTHER_TYPES.get(f.__name__, []):
            for m, n, k in FEW:
                seed += 1
                compare(f, compiled, m, n, k, dtype, "plain", seed)
        assert compiled.stats()["runs"] > 0
        found[f.__name__] = sorted(set(re.findall(r"product at line \d+: (.*)", str(appy.explain(compiled)))))
    print(json.dumps(found))


if __name__ == "__main__":
    if sys.argv[1:] == ["--texts"]:
        os.dup2(1, 2)
        print_texts()
    else:
        main(sys.argv[1:])
