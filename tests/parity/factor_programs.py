"""Cholesky factorizations in place, and what is nearly one."""

import numpy as np


def columns(A):
    n = A.shape[0]
    # pragma sequential for
    for j in range(n):
        s = 0.0
        # pragma simd
        for k in range(j):
            s += A[j, k] * A[j, k]
        A[j, j] = np.sqrt(A[j, j] - s)
        # pragma parallel for
        for i in range(j + 1, n):
            t = 0.0
            # pragma simd
            for k in range(j):
                t += A[i, k] * A[j, k]
            A[i, j] = (A[i, j] - t) / A[j, j]


def dots(A):
    # pragma sequential for
    for j in range(A.shape[1]):
        # pragma 0=>reduction(sum)
        A[j, j] = np.sqrt(A[j, j] - A[j, :j] @ A[j, :j])
        # pragma parallel for
        for i in range(j + 1, A.shape[1]):
            # pragma 0=>reduction(sum)
            A[i, j] = (A[i, j] - A[i, :j] @ A[j, :j]) / A[j, j]


def slices(A):
    # pragma sequential for
    for j in range(A.shape[0]):
        # pragma 0=>reduction(sum)
        A[j, j] = np.sqrt(A[j, j] - A[j, :j] @ A[j, :j])
        # pragma 0=>parallel 1=>reduction(sum)
        A[j + 1 :, j] = (A[j + 1 :, j] - A[j + 1 :, :j] @ A[j, :j]) / A[j, j]


def rows(A):
    # pragma sequential for
    for i in range(A.shape[0]):
        # pragma sequential for
        for j in range(i):
            # pragma 0=>reduction(sum)
            A[i, j] = (A[i, j] - A[i, :j] @ A[j, :j]) / A[j, j]
        # pragma 0=>reduction(sum)
        A[i, i] = np.sqrt(A[i, i] - A[i, :i] @ A[i, :i])


def upper(A):
    n = A.shape[0]
    # pragma sequential for
    for j in range(n):
        s = 0.0
        # pragma simd
        for k in range(j):
            s += A[k, j] * A[k, j]
        A[j, j] = np.sqrt(A[j, j] - s)
        # pragma parallel for
        for i in range(j + 1, n):
            t = 0.0
            # pragma simd
            for k in range(j):
                t += A[k, i] * A[k, j]
            A[j, i] = (A[j, i] - t) / A[j, j]


def without_root(A):
    n = A.shape[0]
    # pragma sequential for
    for j in range(n):
        s = 0.0
        # pragma simd
        for k in range(j):
            s += A[j, k] * A[j, k]
        A[j, j] = A[j, j] - s
        # pragma parallel for
        for i in range(j + 1, n):
            t = 0.0
            # pragma simd
            for k in range(j):
                t += A[i, k] * A[j, k]
            A[i, j] = (A[i, j] - t) / A[j, j]


def next_row(A):
    n = A.shape[0] - 1
    # pragma sequential for
    for j in range(n):
        s = 0.0
        # pragma simd
        for k in range(j):
            s += A[j, k] * A[j, k]
        A[j, j] = np.sqrt(A[j, j] - s)
        # pragma parallel for
        for i in range(j + 1, n):
            t = 0.0
            # pragma simd
            for k in range(j):
                t += A[i, k] * A[j, k]
            A[i, j] = (A[i, j] - t) / A[j, j]


def kept(A):
    last = 0.0
    # pragma sequential for
    for j in range(A.shape[0]):
        last = A[j, j]
        # pragma 0=>reduction(sum)
        A[j, j] = np.sqrt(A[j, j] - A[j, :j] @ A[j, :j])
        # pragma parallel for
        for i in range(j + 1, A.shape[0]):
            # pragma 0=>reduction(sum)
            A[i, j] = (A[i, j] - A[i, :j] @ A[j, :j]) / A[j, j]
    return last


def guarded(A):
    try:
        # pragma sequential for
        for j in range(A.shape[0]):
            # pragma 0=>reduction(sum)
            A[j, j] = np.sqrt(A[j, j] - A[j, :j] @ A[j, :j])
            # pragma parallel for
            for i in range(j + 1, A.shape[0]):
                # pragma 0=>reduction(sum)
                A[i, j] = (A[i, j] - A[i, :j] @ A[j, :j]) / A[j, j]
    except KeyboardInterrupt:
        return j
