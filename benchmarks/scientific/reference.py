"""The kernels in NumPy: the definition that every other version is compared with, and NumPy's side."""

import numpy as np


def azimint_naive(data, radius, npt):
    outermost = radius.max()
    rings = np.zeros(npt)
    for ring in range(npt):
        low, high = outermost * ring / npt, outermost * (ring + 1) / npt
        rings[ring] = data[(low <= radius) & (radius < high)].mean()
    return rings


def cholesky(A):
    for i in range(A.shape[0]):
        for j in range(i):
            A[i, j] = (A[i, j] - np.dot(A[i, :j], A[j, :j])) / A[j, j]
        A[i, i] = np.sqrt(A[i, i] - np.dot(A[i, :i], A[i, :i]))


def covariance(M, float_n, data):
    data -= data.mean(axis=0)
    cov = np.zeros((M, M), dtype=data.dtype)
    for i in range(M):
        row = data[:, i] @ data[:, i:] / (float_n - 1.0)
        cov[i, i:] = row
        cov[i:, i] = row
    return cov


def fdtd_2d(TMAX, ex, ey, hz, _fict_):
    for t in range(TMAX):
        ey[0] = _fict_[t]
        ey[1:] -= 0.5 * (hz[1:] - hz[:-1])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])


def floyd_warshall(path):
    for k in range(path.shape[0]):
        np.minimum(path, path[:, k, None] + path[k], out=path)


def gemm(alpha, beta, C, A, B):
    C[:] = alpha * (A @ B) + beta * C


def gemver(alpha, beta, A, u1, v1, u2, v2, w, x, y, z):
    A += np.outer(u1, v1) + np.outer(u2, v2)
    x += beta * y @ A + z
    w += alpha * (A @ x)


def gesummv(alpha, beta, A, B, x):
    return alpha * (A @ x) + beta * (B @ x)


def go_fast(a):
    trace = 0.0
    for i in range(a.shape[0]):
        trace += np.tanh(a[i, i])
    return a + trace


def gramschmidt(A):
    n = A.shape[1]
    Q, R = np.zeros_like(A), np.zeros((n, n), dtype=A.dtype)
    for k in range(n):
        R[k, k] = np.sqrt(A[:, k] @ A[:, k])
        Q[:, k] = A[:, k] / R[k, k]
        for j in range(k + 1, n):
            R[k, j] = Q[:, k] @ A[:, j]
            A[:, j] -= R[k, j] * Q[:, k]
    return Q, R


def hdiff(in_field, out_field, coeff):
    inner = in_field[2:-2, 2:-2]
    lap = 4.0 * in_field[1:-1, 1:-1] - (
        in_field[2:, 1:-1] + in_field[:-2, 1:-1] + in_field[1:-1, 2:] + in_field[1:-1, :-2]
    )
    flx = lap[1:, 1:-1] - lap[:-1, 1:-1]
    flx = np.where(flx * (in_field[2:-1, 2:-2] - in_field[1:-2, 2:-2]) > 0, 0, flx)
    fly = lap[1:-1, 1:] - lap[1:-1, :-1]
    fly = np.where(fly * (in_field[2:-2, 2:-1] - in_field[2:-2, 1:-2]) > 0, 0, fly)
    out_field[:] = inner - coeff * (flx[1:] - flx[:-1] + fly[:, 1:] - fly[:, :-1])


def heat_step(A, B):
    twice = 2.0 * A[1:-1, 1:-1, 1:-1]
    B[1:-1, 1:-1, 1:-1] = (
        0.125 * (A[2:, 1:-1, 1:-1] - twice + A[:-2, 1:-1, 1:-1])
        + 0.125 * (A[1:-1, 2:, 1:-1] - twice + A[1:-1, :-2, 1:-1])
        + 0.125 * (A[1:-1, 1:-1, 2:] - twice + A[1:-1, 1:-1, :-2])
        + A[1:-1, 1:-1, 1:-1]
    )


def heat_3d(TSTEPS, A, B):
    for _ in range(1, TSTEPS):
        heat_step(A, B)
        heat_step(B, A)


def jacobi_1d(TSTEPS, A, B):
    for _ in range(1, TSTEPS):
        B[1:-1] = 0.33333 * (A[:-2] + A[1:-1] + A[2:])
        A[1:-1] = 0.33333 * (B[:-2] + B[1:-1] + B[2:])


def jacobi_2d(TSTEPS, A, B):
    for _ in range(1, TSTEPS):
        B[1:-1, 1:-1] = 0.2 * (A[1:-1, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:] + A[2:, 1:-1] + A[:-2, 1:-1])
        A[1:-1, 1:-1] = 0.2 * (B[1:-1, 1:-1] + B[1:-1, :-2] + B[1:-1, 2:] + B[2:, 1:-1] + B[:-2, 1:-1])


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def spmv(A_row, A_col, A_val, x):
    y = np.empty(A_row.size - 1, dtype=A_val.dtype)
    for i in range(A_row.size - 1):
        row = slice(A_row[i], A_row[i + 1])
        y[i] = A_val[row] @ x[A_col[row]]
    return y


def symm(alpha, beta, C, A, B):
    """C = alpha A B + beta C; of the symmetric A the lower triangle is given."""
    C *= beta
    below = np.empty(C.shape[1], dtype=C.dtype)
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            C[:i, j] += alpha * B[i, j] * A[i, :i]
            below[j] = B[:i, j] @ A[i, :i]
        C[i] += alpha * (A[i, i] * B[i] + below)


def syr2k(alpha, beta, C, A, B):
    for i in range(A.shape[0]):
        C[i, : i + 1] *= beta
        for k in range(A.shape[1]):
            C[i, : i + 1] += A[: i + 1, k] * alpha * B[i, k] + B[: i + 1, k] * alpha * A[i, k]


def syrk(alpha, beta, C, A):
    for i in range(A.shape[0]):
        C[i, : i + 1] *= beta
        for k in range(A.shape[1]):
            C[i, : i + 1] += alpha * A[i, k] * A[: i + 1, k]


def trisolv(L, x, b):
    for i in range(x.shape[0]):
        x[i] = (b[i] - L[i, :i] @ x[:i]) / L[i, i]


def trmm(alpha, A, B):
    """B = alpha A^T B; of A the strictly lower triangle is used, with ones on the diagonal."""
    for i in range(B.shape[0]):
        for j in range(B.shape[1]):
            B[i, j] += A[i + 1 :, i] @ B[i + 1 :, j]
    B *= alpha
