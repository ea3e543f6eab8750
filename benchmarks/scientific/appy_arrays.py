"""The kernels as array statements with tensor pragmas."""

import numpy as np

import appy

OPTIONS = {"heat_3d": {"dim_info": {"A": ("M", "N", "K"), "B": ("M", "N", "K")}}}  # of appy.jit


def azimint_naive(data, radius, npt):
    # pragma 0=>reduction(max)
    rmax = radius.max()
    res = appy.zeros(npt)
    # pragma parallel for
    for i in range(npt):
        r1 = rmax * i / npt
        r2 = rmax * (i + 1) / npt
        mask = np.logical_and(r1 <= radius, radius < r2)
        res[i] = data[mask].mean()
    return res


def cholesky(A):
    # pragma sequential for
    for j in range(A.shape[0]):
        # pragma 0=>reduction(sum)
        A[j, j] = np.sqrt(A[j, j] - A[j, :j] @ A[j, :j])
        # pragma 0=>parallel 1=>reduction(sum)
        A[j + 1 :, j] = (A[j + 1 :, j] - A[j + 1 :, :j] @ A[j, :j]) / A[j, j]


def covariance(M, float_n, data):
    # pragma 0=>parallel
    mean = np.mean(data, axis=0)
    # pragma 0=>parallel 1=>simd
    data -= mean
    # pragma 0=>parallel 1=>simd
    cov = data.T @ data / (float_n - 1.0)
    return cov


def fdtd_2d(TMAX, ex, ey, hz, _fict_):
    for t in range(TMAX):
        # pragma :=>simd
        ey[0, :] = _fict_[t]
        # pragma 1:=>parallel :=>simd
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        # pragma :=>parallel 1:=>simd
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        # pragma :-1=>parallel
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])


def floyd_warshall(path):
    for k in range(path.shape[0]):
        # pragma 0=>parallel 1=>simd
        path[:] = np.minimum(path[:], np.add.outer(path[:, k], path[k, :]))


def gemm(alpha, beta, C, A, B):
    # pragma 0=>parallel 1=>simd
    C[:] = alpha * (A @ B) + beta * C


def gemver(alpha, beta, A, u1, v1, u2, v2, w, x, y, z):
    # pragma 0=>parallel 1=>simd
    A += np.outer(u1, v1) + np.outer(u2, v2)
    # pragma 0=>parallel
    x += beta * y @ A + z
    # pragma 0=>parallel
    w += alpha * A @ x


def gesummv(alpha, beta, A, B, x):
    # pragma 0=>parallel 1=>reduction(sum)
    y = alpha * A @ x + beta * B @ x
    return y


def go_fast(a):
    # pragma 0=>reduction(sum)
    trace = np.sum(np.tanh(np.diag(a)))
    # pragma 0=>parallel 1=>simd
    out = a + trace
    return out


def gramschmidt(A):
    n = A.shape[1]
    Q = appy.zeros_like(A)
    R = appy.zeros((n, n), dtype=A.dtype)
    # pragma sequential for
    for k in range(n):
        # pragma 0=>parallel,reduction(sum)
        R[k, k] = np.sqrt(A[:, k] @ A[:, k])
        # pragma :=>parallel,simd
        Q[:, k] = A[:, k] / R[k, k]
        # pragma 0=>parallel 1=>reduction(sum)
        R[k, k + 1 :] = Q[:, k] @ A[:, k + 1 :]
        # pragma 0=>parallel 1=>simd
        A[:, k + 1 :] -= np.outer(Q[:, k], R[k, k + 1 :])
    return Q, R


def hdiff(in_field, out_field, coeff):
    i, j = out_field.shape[0], out_field.shape[1]
    # pragma 0=>parallel
    lap = 4.0 * in_field[1 : i + 3, 1 : j + 3, :] - (
        in_field[2 : i + 4, 1 : j + 3, :]
        + in_field[0 : i + 2, 1 : j + 3, :]
        + in_field[1 : i + 3, 2 : j + 4, :]
        + in_field[1 : i + 3, 0 : j + 2, :]
    )
    # pragma 0=>parallel
    res = lap[1:, 1 : j + 1, :] - lap[:-1, 1 : j + 1, :]
    # pragma 0=>parallel
    flx = np.where((res * (in_field[2 : i + 3, 2 : j + 2, :] - in_field[1 : i + 2, 2 : j + 2, :])) > 0, 0, res)
    # pragma 0=>parallel
    res = lap[1 : i + 1, 1:, :] - lap[1 : i + 1, :-1, :]
    # pragma 0=>parallel
    fly = np.where((res * (in_field[2 : i + 2, 2 : j + 3, :] - in_field[2 : i + 2, 1 : j + 2, :])) > 0, 0, res)
    # pragma 0=>parallel
    out_field[:, :, :] = in_field[2 : i + 2, 2 : j + 2, :] - coeff[:, :, :] * (
        flx[1:, :, :] - flx[:-1, :, :] + fly[:, 1:, :] - fly[:, :-1, :]
    )


def heat_3d(TSTEPS, A, B):
    # pragma sequential for
    for t in range(1, TSTEPS):
        # pragma 0=>parallel 1=>parallel 2=>simd
        B[1:-1, 1:-1, 1:-1] = (
            0.125 * (A[2:, 1:-1, 1:-1] - 2.0 * A[1:-1, 1:-1, 1:-1] + A[:-2, 1:-1, 1:-1])
            + 0.125 * (A[1:-1, 2:, 1:-1] - 2.0 * A[1:-1, 1:-1, 1:-1] + A[1:-1, :-2, 1:-1])
            + 0.125 * (A[1:-1, 1:-1, 2:] - 2.0 * A[1:-1, 1:-1, 1:-1] + A[1:-1, 1:-1, 0:-2])
            + A[1:-1, 1:-1, 1:-1]
        )
        # pragma 0=>parallel 1=>parallel 2=>simd
        A[1:-1, 1:-1, 1:-1] = (
            0.125 * (B[2:, 1:-1, 1:-1] - 2.0 * B[1:-1, 1:-1, 1:-1] + B[:-2, 1:-1, 1:-1])
            + 0.125 * (B[1:-1, 2:, 1:-1] - 2.0 * B[1:-1, 1:-1, 1:-1] + B[1:-1, :-2, 1:-1])
            + 0.125 * (B[1:-1, 1:-1, 2:] - 2.0 * B[1:-1, 1:-1, 1:-1] + B[1:-1, 1:-1, 0:-2])
            + B[1:-1, 1:-1, 1:-1]
        )


def jacobi_1d(TSTEPS, A, B):
    for t in range(1, TSTEPS):
        # pragma 1:-1=>simd
        B[1:-1] = 0.33333 * (A[:-2] + A[1:-1] + A[2:])
        # pragma 1:-1=>simd
        A[1:-1] = 0.33333 * (B[:-2] + B[1:-1] + B[2:])


def jacobi_2d(TSTEPS, A, B):
    for t in range(1, TSTEPS):
        # pragma 0=>parallel 1=>simd
        B[1:-1, 1:-1] = 0.2 * (A[1:-1, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:] + A[2:, 1:-1] + A[:-2, 1:-1])
        # pragma 0=>parallel 1=>simd
        A[1:-1, 1:-1] = 0.2 * (B[1:-1, 1:-1] + B[1:-1, :-2] + B[1:-1, 2:] + B[2:, 1:-1] + B[:-2, 1:-1])


def softmax(x):
    # pragma 4=>reduction(max)
    highest = np.max(x, axis=-1, keepdims=True)
    # pragma 0=>parallel 3=>simd
    e = np.exp(x - highest)
    # pragma 4=>reduction(sum)
    total = np.sum(e, axis=-1, keepdims=True)
    # pragma 0=>parallel 3=>simd
    out = e / total
    return out


def spmv(A_row, A_col, A_val, x):
    y = appy.empty(A_row.shape[0] - 1, dtype=A_val.dtype)
    # pragma parallel for
    for i in range(A_row.shape[0] - 1):
        begin, end = A_row[i], A_row[i + 1]
        y[i] = A_val[begin:end] @ x[A_col[begin:end]]
    return y


def symm(alpha, beta, C, A, B):
    # pragma 0=>parallel 1=>simd
    full = np.tril(A) + np.tril(A, -1).T
    # pragma 0=>parallel
    C[:, :] = alpha * (full @ B) + beta * C


def syr2k(alpha, beta, C, A, B):
    # pragma 0=>parallel
    half = A @ B.T
    # pragma 0=>parallel 1=>simd
    C[:, :] = np.tril(beta * C + alpha * (half + half.T)) + np.triu(C, 1)


def syrk(alpha, beta, C, A):
    # pragma parallel for
    for i in range(A.shape[0]):
        C[i, : i + 1] *= beta
        for k in range(A.shape[1]):
            C[i, : i + 1] += alpha * A[i, k] * A[: i + 1, k]


def trisolv(L, x, b):
    # pragma sequential for
    for i in range(x.shape[0]):
        # pragma 0=>reduction(sum)
        x[i] = (b[i] - L[i, :i] @ x[:i]) / L[i, i]


def trmm(alpha, A, B):
    # pragma sequential for
    for i in range(B.shape[0]):
        # pragma 0=>parallel
        B[i, :] += A[i + 1 :, i] @ B[i + 1 :, :]
    # pragma 0=>parallel 1=>simd
    B *= alpha
