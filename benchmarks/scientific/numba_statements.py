"""The definitions in Numba's dialect of NumPy: `reference.py`'s text, and here what that compiler does not take of it.

A loop over `prange` is one that NPBench gives to threads in one of its versions; Numba's side compiles it as `range`,
too. `<kernel>_parallel` is the text of the parallel forms where they do not take the other.
"""

import numpy as np
from numba import prange

from scientific.reference import (  # noqa: F401
    cholesky,
    fdtd_2d,
    gemm,
    gemver,
    gesummv,
    gramschmidt,
    hdiff,
    heat_3d,
    jacobi_1d,
    jacobi_2d,
    syr2k,
    syrk,
    trisolv,
)  # fmt: skip


def azimint_naive(data, radius, npt):
    outermost = radius.max()
    rings = np.zeros(npt)
    for ring in prange(npt):
        low, high = outermost * ring / npt, outermost * (ring + 1) / npt
        inside = np.logical_and(low <= radius, radius < high)
        rings[ring] = data[inside].mean()
    return rings


def covariance(M, float_n, data):
    mean = np.sum(data, axis=0) / float_n
    data -= mean
    cov = np.zeros((M, M), dtype=data.dtype)
    for i in prange(M):
        cov[i:M, i] = cov[i, i:M] = data[:, i] @ data[:, i:M] / (float_n - 1.0)
    return cov


def covariance_parallel(M, float_n, data):
    mean = np.sum(data, axis=0) / float_n
    data[:] = data - mean
    cov = np.zeros((M, M), dtype=data.dtype)
    for i in prange(M):
        cov[i:M, i] = cov[i, i:M] = data[:, i] @ data[:, i:M] / (float_n - 1.0)
    return cov


def floyd_warshall(path):
    for k in range(path.shape[0]):
        for i in prange(path.shape[0]):
            path[i, :] = np.minimum(path[i, :], path[i, k] + path[k, :])


def go_fast(a):
    trace = 0.0
    for i in prange(a.shape[0]):
        trace += np.tanh(a[i, i])
    return a + trace


def softmax(x):
    rows = (x.shape[0], x.shape[1], x.shape[2], 1)
    highest = np.empty(rows, dtype=x.dtype)  # of np.full the parallel form does not know that the last extent is 1
    highest[:] = -np.inf
    for i in range(x.shape[3]):
        highest[:, :, :, 0] = np.maximum(highest[:, :, :, 0], x[:, :, :, i])
    e = np.exp(x - highest)
    total = np.reshape(np.sum(e, axis=-1), rows)
    return e / total


def spmv(A_row, A_col, A_val, x):
    y = np.empty(A_row.size - 1, dtype=A_val.dtype)
    for i in prange(A_row.size - 1):
        columns = A_col[A_row[i] : A_row[i + 1]]
        values = A_val[A_row[i] : A_row[i + 1]]
        y[i] = values @ x[columns]
    return y


def symm(alpha, beta, C, A, B):
    below = np.empty((C.shape[1],), dtype=C.dtype)
    C *= beta
    for i in range(C.shape[0]):
        for j in prange(C.shape[1]):
            C[:i, j] += alpha * B[i, j] * A[i, :i]
            below[j] = B[:i, j] @ A[i, :i]
        C[i, :] += alpha * B[i, :] * A[i, i] + alpha * below


def trmm(alpha, A, B):
    for i in range(B.shape[0]):
        for j in prange(B.shape[1]):
            B[i, j] += np.dot(A[i + 1 :, i], B[i + 1 :, j])
    B *= alpha
