"""The kernels rewritten as loops for Numba, parallel and with fastmath; Pythran compiles them, too (see sides.py)."""

import math

import numpy as np
from numba import njit, prange

jit = njit(parallel=True, fastmath=True)


@jit
def azimint_naive(data, radius, npt):
    rmax = radius.max()
    res = np.zeros(npt)
    for i in prange(npt):
        r1 = rmax * i / npt
        r2 = rmax * (i + 1) / npt
        s = 0.0
        count = 0
        for j in range(data.shape[0]):
            if (r1 <= radius[j]) & (radius[j] < r2):
                s += data[j]
                count += 1
        res[i] = s / count
    return res


@jit
def cholesky(A):
    n = A.shape[0]
    for j in range(n):
        d = A[j, j]
        for k in range(j):
            d -= A[j, k] * A[j, k]
        d = math.sqrt(d)
        A[j, j] = d
        for i in prange(j + 1, n):
            s = A[i, j]
            for k in range(j):
                s -= A[i, k] * A[j, k]
            A[i, j] = s / d


@jit
def covariance(M, float_n, data):
    n = data.shape[0]
    mean = np.zeros(M)
    for i in range(n):
        for j in range(M):
            mean[j] += data[i, j]
    for j in range(M):
        mean[j] /= float_n
    for i in prange(n):
        for j in range(M):
            data[i, j] -= mean[j]
    cov = np.zeros((M, M))
    for i in prange(M):
        for k in range(n):
            for j in range(i, M):
                cov[i, j] += data[k, i] * data[k, j]
        for j in range(i, M):
            cov[i, j] /= float_n - 1.0
            cov[j, i] = cov[i, j]
    return cov


@njit(fastmath=True)
def covariance_product(M, float_n, data):
    n = data.shape[0]
    mean = np.zeros(M)
    for i in range(n):
        for j in range(M):
            mean[j] += data[i, j]
    data -= mean / float_n
    return np.dot(data.T, data) / (float_n - 1.0)


@jit
def fdtd_2d(TMAX, ex, ey, hz, _fict_):
    m, n = hz.shape
    for t in range(TMAX):
        for j in range(n):
            ey[0, j] = _fict_[t]
        for i in prange(1, m):
            for j in range(n):
                ey[i, j] -= 0.5 * (hz[i, j] - hz[i - 1, j])
        for i in prange(m):
            for j in range(1, n):
                ex[i, j] -= 0.5 * (hz[i, j] - hz[i, j - 1])
        for i in prange(m - 1):
            for j in range(n - 1):
                hz[i, j] -= 0.7 * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])


@jit
def floyd_warshall(path):
    n = path.shape[0]
    for k in range(n):
        for i in prange(n):
            for j in range(n):
                path[i, j] = min(path[i, j], path[i, k] + path[k, j])


@jit
def gemm(alpha, beta, C, A, B):
    C[:] = alpha * np.dot(A, B) + beta * C


@jit
def gemver(alpha, beta, A, u1, v1, u2, v2, w, x, y, z):
    n = A.shape[0]
    for i in prange(n):
        for j in range(n):
            A[i, j] += u1[i] * v1[j] + u2[i] * v2[j]
    x += beta * np.dot(y, A) + z
    for i in prange(n):
        s = 0.0
        for j in range(n):
            s += A[i, j] * x[j]
        w[i] += alpha * s


@jit
def gesummv(alpha, beta, A, B, x):
    n = A.shape[0]
    y = np.empty(n)
    for i in prange(n):
        s = 0.0
        t = 0.0
        for j in range(n):
            s += A[i, j] * x[j]
            t += B[i, j] * x[j]
        y[i] = alpha * s + beta * t
    return y


@njit(fastmath=True)
def gesummv_vectors(alpha, beta, A, B, x):
    return alpha * (A @ x) + beta * (B @ x)


@jit
def go_fast(a):
    out = np.empty_like(a)
    trace = 0.0
    for i in range(a.shape[0]):
        trace += math.tanh(a[i, i])
    for i in prange(a.shape[0]):
        for j in range(a.shape[1]):
            out[i, j] = a[i, j] + trace
    return out


@jit
def gramschmidt(A):
    m, n = A.shape
    Q = np.zeros((m, n))
    R = np.zeros((n, n))
    for k in range(n):
        s = 0.0
        for i in range(m):
            s += A[i, k] * A[i, k]
        R[k, k] = math.sqrt(s)
        for i in range(m):
            Q[i, k] = A[i, k] / R[k, k]
        for i in range(m):
            for j in range(k + 1, n):
                R[k, j] += Q[i, k] * A[i, j]
        for i in prange(m):
            for j in range(k + 1, n):
                A[i, j] -= Q[i, k] * R[k, j]
    return Q, R


@jit
def hdiff(in_field, out_field, coeff):
    ni, nj, nk = out_field.shape
    lap = np.empty((ni + 2, nj + 2, nk))
    for i in prange(ni + 2):
        for j in range(nj + 2):
            for k in range(nk):
                lap[i, j, k] = 4.0 * in_field[i + 1, j + 1, k] - (
                    in_field[i + 2, j + 1, k]
                    + in_field[i, j + 1, k]
                    + in_field[i + 1, j + 2, k]
                    + in_field[i + 1, j, k]
                )
    for i in prange(ni):
        for j in range(nj):
            for k in range(nk):
                centre = in_field[i + 2, j + 2, k]
                x1 = lap[i + 2, j + 1, k] - lap[i + 1, j + 1, k]
                x1 = 0.0 if x1 * (in_field[i + 3, j + 2, k] - centre) > 0 else x1
                x0 = lap[i + 1, j + 1, k] - lap[i, j + 1, k]
                x0 = 0.0 if x0 * (centre - in_field[i + 1, j + 2, k]) > 0 else x0
                y1 = lap[i + 1, j + 2, k] - lap[i + 1, j + 1, k]
                y1 = 0.0 if y1 * (in_field[i + 2, j + 3, k] - centre) > 0 else y1
                y0 = lap[i + 1, j + 1, k] - lap[i + 1, j, k]
                y0 = 0.0 if y0 * (centre - in_field[i + 2, j + 1, k]) > 0 else y0
                out_field[i, j, k] = centre - coeff[i, j, k] * (x1 - x0 + y1 - y0)


@jit
def heat_step(A, B):
    for i in prange(1, A.shape[0] - 1):
        for j in range(1, A.shape[1] - 1):
            for k in range(1, A.shape[2] - 1):
                B[i, j, k] = (
                    0.125 * (A[i + 1, j, k] - 2.0 * A[i, j, k] + A[i - 1, j, k])
                    + 0.125 * (A[i, j + 1, k] - 2.0 * A[i, j, k] + A[i, j - 1, k])
                    + 0.125 * (A[i, j, k + 1] - 2.0 * A[i, j, k] + A[i, j, k - 1])
                    + A[i, j, k]
                )


@njit
def heat_3d(TSTEPS, A, B):
    for t in range(1, TSTEPS):
        heat_step(A, B)
        heat_step(B, A)


@jit
def jacobi_1d(TSTEPS, A, B):
    for t in range(1, TSTEPS):
        for i in prange(1, A.shape[0] - 1):
            B[i] = 0.33333 * (A[i - 1] + A[i] + A[i + 1])
        for i in prange(1, A.shape[0] - 1):
            A[i] = 0.33333 * (B[i - 1] + B[i] + B[i + 1])


@njit(fastmath=True)
def jacobi_1d_serial_loops(TSTEPS, A, B):
    for t in range(1, TSTEPS):
        for i in range(1, A.shape[0] - 1):
            B[i] = 0.33333 * (A[i - 1] + A[i] + A[i + 1])
        for i in range(1, A.shape[0] - 1):
            A[i] = 0.33333 * (B[i - 1] + B[i] + B[i + 1])


@jit
def jacobi_2d(TSTEPS, A, B):
    m, n = A.shape
    for t in range(1, TSTEPS):
        for i in prange(1, m - 1):
            for j in range(1, n - 1):
                B[i, j] = 0.2 * (A[i, j] + A[i, j - 1] + A[i, j + 1] + A[i + 1, j] + A[i - 1, j])
        for i in prange(1, m - 1):
            for j in range(1, n - 1):
                A[i, j] = 0.2 * (B[i, j] + B[i, j - 1] + B[i, j + 1] + B[i + 1, j] + B[i - 1, j])


@jit
def softmax(x):
    rows, n = x.shape[0] * x.shape[1] * x.shape[2], x.shape[3]
    flat = x.reshape(rows, n)
    out = np.empty((rows, n), dtype=np.float32)
    for i in prange(rows):
        m = flat[i, 0]
        for j in range(n):
            m = max(m, flat[i, j])
        s = np.float32(0)
        for j in range(n):
            e = np.exp(flat[i, j] - m)
            out[i, j] = e
            s += e
        for j in range(n):
            out[i, j] /= s
    return out.reshape(x.shape)


@jit
def spmv(A_row, A_col, A_val, x):
    y = np.empty(A_row.size - 1, dtype=A_val.dtype)
    for i in prange(A_row.size - 1):
        s = 0.0
        for j in range(A_row[i], A_row[i + 1]):
            s += A_val[j] * x[A_col[j]]
        y[i] = s
    return y


@jit
def symm(alpha, beta, C, A, B):
    m, n = C.shape
    for i in prange(m):
        for j in range(n):
            C[i, j] *= beta
        for k in range(i + 1):
            for j in range(n):
                C[i, j] += alpha * A[i, k] * B[k, j]
        for k in range(i + 1, m):
            for j in range(n):
                C[i, j] += alpha * A[k, i] * B[k, j]


@jit
def syr2k(alpha, beta, C, A, B):
    for i in prange(A.shape[0]):
        for j in range(i + 1):
            s = 0.0
            for k in range(A.shape[1]):
                s += A[j, k] * B[i, k] + B[j, k] * A[i, k]
            C[i, j] = beta * C[i, j] + alpha * s


@jit
def syrk(alpha, beta, C, A):
    for i in prange(A.shape[0]):
        for j in range(i + 1):
            s = 0.0
            for k in range(A.shape[1]):
                s += A[i, k] * A[j, k]
            C[i, j] = beta * C[i, j] + alpha * s


@njit(fastmath=True)
def trisolv(L, x, b):
    for i in range(x.shape[0]):
        s = 0.0
        for j in range(i):
            s += L[i, j] * x[j]
        x[i] = (b[i] - s) / L[i, i]


@jit
def trmm(alpha, A, B):
    m, n = B.shape
    for i in range(m):
        for j in prange(n):
            s = B[i, j]
            for k in range(i + 1, m):
                s += A[k, i] * B[k, j]
            B[i, j] = alpha * s


@njit(fastmath=True)
def trmm_rows(alpha, A, B):
    m, n = B.shape
    for i in range(m):
        for k in range(i + 1, m):
            for j in range(n):
                B[i, j] += A[k, i] * B[k, j]
        for j in range(n):
            B[i, j] *= alpha
