"""The kernels as loops with loop pragmas."""

import numpy as np

import appy


def azimint_naive(data, radius, npt):
    rmax = 0.0
    # pragma parallel for simd
    for j in range(radius.shape[0]):
        rmax = max(rmax, radius[j])
    res = appy.zeros(npt)
    # pragma parallel for
    for i in range(npt):
        r1 = rmax * i / npt
        r2 = rmax * (i + 1) / npt
        s = 0.0
        count = 0
        # pragma simd
        for j in range(data.shape[0]):
            if r1 <= radius[j] and radius[j] < r2:
                s += data[j]
                count += 1
        res[i] = s / np.float64(count)
    return res


def cholesky(A):
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


def covariance(M, float_n, data):
    n = data.shape[0]
    mean = appy.zeros(M, dtype=data.dtype)
    cov = appy.zeros((M, M), dtype=data.dtype)
    # pragma parallel for simd
    for j in range(M):
        for i in range(n):
            mean[j] += data[i, j]
        mean[j] /= float_n
    # pragma parallel for
    for i in range(n):
        # pragma simd
        for j in range(M):
            data[i, j] -= mean[j]
    # pragma parallel for schedule(dynamic)
    for i in range(M):
        for k in range(n):
            # pragma simd
            for j in range(i, M):
                cov[i, j] += data[k, i] * data[k, j]
        for j in range(i, M):
            cov[i, j] /= float_n - 1.0
            cov[j, i] = cov[i, j]
    return cov


def fdtd_2d(TMAX, ex, ey, hz, _fict_):
    m, n = hz.shape
    # pragma sequential for
    for t in range(TMAX):
        # pragma simd
        for j in range(n):
            ey[0, j] = _fict_[t]
        # pragma parallel for
        for i in range(1, m):
            # pragma simd
            for j in range(n):
                ey[i, j] -= 0.5 * (hz[i, j] - hz[i - 1, j])
        # pragma parallel for
        for i in range(m):
            # pragma simd
            for j in range(1, n):
                ex[i, j] -= 0.5 * (hz[i, j] - hz[i, j - 1])
        # pragma parallel for
        for i in range(m - 1):
            # pragma simd
            for j in range(n - 1):
                hz[i, j] -= 0.7 * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])


def floyd_warshall(path):
    n = path.shape[0]
    # pragma sequential for
    for k in range(n):
        # pragma parallel for
        for i in range(n):
            # pragma simd
            for j in range(n):
                path[i, j] = min(path[i, j], path[i, k] + path[k, j])


def gemm(alpha, beta, C, A, B):
    # pragma parallel for
    for i in range(C.shape[0]):
        # pragma simd
        for j in range(C.shape[1]):
            C[i, j] *= beta
        for k in range(A.shape[1]):
            # pragma simd
            for j in range(C.shape[1]):
                C[i, j] += alpha * A[i, k] * B[k, j]


def gemver(alpha, beta, A, u1, v1, u2, v2, w, x, y, z):
    n = A.shape[0]
    # pragma parallel for
    for i in range(n):
        # pragma simd
        for j in range(n):
            A[i, j] += u1[i] * v1[j] + u2[i] * v2[j]
    # pragma parallel for simd
    for j in range(n):
        s = 0.0
        for i in range(n):
            s += A[i, j] * y[i]
        x[j] += beta * s + z[j]
    # pragma parallel for
    for i in range(n):
        s = 0.0
        # pragma simd
        for j in range(n):
            s += A[i, j] * x[j]
        w[i] += alpha * s


def gesummv(alpha, beta, A, B, x):
    y = appy.empty_like(x)
    # pragma parallel for
    for i in range(A.shape[0]):
        s = 0.0
        t = 0.0
        # pragma simd
        for j in range(A.shape[1]):
            s += A[i, j] * x[j]
            t += B[i, j] * x[j]
        y[i] = alpha * s + beta * t
    return y


def go_fast(a):
    out = appy.empty_like(a)
    trace = 0.0
    # pragma parallel for simd
    for i in range(a.shape[0]):
        trace += np.tanh(a[i, i])
    # pragma parallel for
    for i in range(a.shape[0]):
        # pragma simd
        for j in range(a.shape[1]):
            out[i, j] = a[i, j] + trace
    return out


def gramschmidt(A):
    m, n = A.shape
    Q = appy.zeros_like(A)
    R = appy.zeros((n, n), dtype=A.dtype)
    # pragma sequential for
    for k in range(n):
        s = 0.0
        # pragma simd
        for i in range(m):
            s += A[i, k] * A[i, k]
        R[k, k] = np.sqrt(s)
        # pragma simd
        for i in range(m):
            Q[i, k] = A[i, k] / R[k, k]
        # pragma parallel for simd
        for j in range(k + 1, n):
            t = 0.0
            for i in range(m):
                t += Q[i, k] * A[i, j]
            R[k, j] = t
            for i in range(m):
                A[i, j] -= Q[i, k] * t
    return Q, R


def laplacian(field, i, j, k):
    around = field[i + 1, j, k] + field[i - 1, j, k] + field[i, j + 1, k] + field[i, j - 1, k]
    return 4.0 * field[i, j, k] - around


def hdiff(in_field, out_field, coeff):
    m, n, depth = out_field.shape
    lap = appy.empty((m + 2, n + 2, depth), dtype=in_field.dtype)
    flx = appy.empty((m + 1, n, depth), dtype=in_field.dtype)
    fly = appy.empty((m, n + 1, depth), dtype=in_field.dtype)
    # pragma parallel for
    for i in range(m + 2):
        for j in range(n + 2):
            # pragma simd
            for k in range(depth):
                lap[i, j, k] = laplacian(in_field, i + 1, j + 1, k)
    # pragma parallel for
    for i in range(m + 1):
        for j in range(n):
            # pragma simd
            for k in range(depth):
                r = lap[i + 1, j + 1, k] - lap[i, j + 1, k]
                flx[i, j, k] = 0 if r * (in_field[i + 2, j + 2, k] - in_field[i + 1, j + 2, k]) > 0 else r
    # pragma parallel for
    for i in range(m):
        for j in range(n + 1):
            # pragma simd
            for k in range(depth):
                r = lap[i + 1, j + 1, k] - lap[i + 1, j, k]
                fly[i, j, k] = 0 if r * (in_field[i + 2, j + 2, k] - in_field[i + 2, j + 1, k]) > 0 else r
    # pragma parallel for
    for i in range(m):
        for j in range(n):
            # pragma simd
            for k in range(depth):
                flux = flx[i + 1, j, k] - flx[i, j, k] + fly[i, j + 1, k] - fly[i, j, k]
                out_field[i, j, k] = in_field[i + 2, j + 2, k] - coeff[i, j, k] * flux


def heat_step(A, B, i, j, k):
    x = 2.0 * A[i, j, k]
    rows = 0.125 * (A[i + 1, j, k] - x + A[i - 1, j, k])
    columns = 0.125 * (A[i, j + 1, k] - x + A[i, j - 1, k])
    depth = 0.125 * (A[i, j, k + 1] - x + A[i, j, k - 1])
    B[i, j, k] = rows + columns + depth + A[i, j, k]


def heat_3d(TSTEPS, A, B):
    # pragma sequential for
    for t in range(1, TSTEPS):
        # pragma parallel for
        for i in range(1, A.shape[0] - 1):
            for j in range(1, A.shape[1] - 1):
                # pragma simd
                for k in range(1, A.shape[2] - 1):
                    heat_step(A, B, i, j, k)
        # pragma parallel for
        for i in range(1, A.shape[0] - 1):
            for j in range(1, A.shape[1] - 1):
                # pragma simd
                for k in range(1, A.shape[2] - 1):
                    heat_step(B, A, i, j, k)


def jacobi_1d(TSTEPS, A, B):
    for t in range(1, TSTEPS):
        # pragma parallel for simd
        for i in range(1, A.shape[0] - 1):
            B[i] = 0.33333 * (A[i - 1] + A[i] + A[i + 1])
        # pragma parallel for simd
        for i in range(1, A.shape[0] - 1):
            A[i] = 0.33333 * (B[i - 1] + B[i] + B[i + 1])


def jacobi_2d(TSTEPS, A, B):
    m, n = A.shape
    for t in range(1, TSTEPS):
        # pragma parallel for
        for i in range(1, m - 1):
            # pragma simd
            for j in range(1, n - 1):
                B[i, j] = 0.2 * (A[i, j] + A[i, j - 1] + A[i, j + 1] + A[i + 1, j] + A[i - 1, j])
        # pragma parallel for
        for i in range(1, m - 1):
            # pragma simd
            for j in range(1, n - 1):
                A[i, j] = 0.2 * (B[i, j] + B[i, j - 1] + B[i, j + 1] + B[i + 1, j] + B[i - 1, j])


def softmax(x):
    out = appy.empty_like(x)
    # pragma parallel for collapse(3)
    for b in range(x.shape[0]):
        for h in range(x.shape[1]):
            for i in range(x.shape[2]):
                m = x[b, h, i, 0]
                # pragma simd
                for j in range(x.shape[3]):
                    m = np.maximum(m, x[b, h, i, j])
                s = 0.0
                # pragma simd
                for j in range(x.shape[3]):
                    e = np.exp(x[b, h, i, j] - m)
                    out[b, h, i, j] = e
                    s += e
                # pragma simd
                for j in range(x.shape[3]):
                    out[b, h, i, j] /= s
    return out


def spmv(A_row, A_col, A_val, x):
    y = appy.empty(A_row.shape[0] - 1, dtype=A_val.dtype)
    # pragma parallel for
    for i in range(A_row.shape[0] - 1):
        s = 0.0
        # pragma simd
        for j in range(A_row[i], A_row[i + 1]):
            s += A_val[j] * x[A_col[j]]
        y[i] = s
    return y


def symm(alpha, beta, C, A, B):
    m, n = C.shape
    # pragma parallel for schedule(dynamic)
    for i in range(m):
        # pragma simd
        for j in range(n):
            C[i, j] *= beta
        for k in range(i + 1):
            # pragma simd
            for j in range(n):
                C[i, j] += alpha * A[i, k] * B[k, j]
        for k in range(i + 1, m):
            # pragma simd
            for j in range(n):
                C[i, j] += alpha * A[k, i] * B[k, j]


def syr2k(alpha, beta, C, A, B):
    # pragma parallel for schedule(dynamic)
    for i in range(A.shape[0]):
        for j in range(i + 1):
            s = 0.0
            # pragma simd
            for k in range(A.shape[1]):
                s += A[j, k] * B[i, k] + B[j, k] * A[i, k]
            C[i, j] = beta * C[i, j] + alpha * s


def syrk(alpha, beta, C, A):
    # pragma parallel for schedule(dynamic)
    for i in range(A.shape[0]):
        for j in range(i + 1):
            s = 0.0
            # pragma simd
            for k in range(A.shape[1]):
                s += A[i, k] * A[j, k]
            C[i, j] = beta * C[i, j] + alpha * s


def trisolv(L, x, b):
    # pragma sequential for
    for i in range(x.shape[0]):
        s = 0.0
        # pragma simd
        for j in range(i):
            s += L[i, j] * x[j]
        x[i] = (b[i] - s) / L[i, i]


def trmm(alpha, A, B):
    # pragma parallel for simd
    for j in range(B.shape[1]):
        for i in range(B.shape[0]):
            s = 0.0
            for k in range(i + 1, B.shape[0]):
                s += A[k, i] * B[k, j]
            B[i, j] = alpha * (B[i, j] + s)
