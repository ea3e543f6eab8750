"""The arguments of each kernel, after NPBench: `MAKERS[name](**parameters)` gives them in the order of the call."""

from __future__ import annotations

import numpy as np


def indices(*shape, dtype=np.float64):
    """The index along each dimension, shaped so that they broadcast to `shape`."""
    return np.ix_(*(np.arange(n, dtype=dtype) for n in shape))


def ramp(n, divisor):
    return (np.arange(n, dtype=np.float64) + 1) / n / divisor


def random(*shapes, dtype=np.float64):
    rng = np.random.default_rng(42)
    return tuple(rng.random(shape, dtype=dtype) for shape in shapes)


def azimint_naive(N, npt):
    return *random((N,), (N,)), npt


def cholesky(N):
    i, j = indices(N, N)
    lower = np.where(j < i, (-j % N) / N + 1, 0.0)
    np.fill_diagonal(lower, 1.0)
    return (lower @ lower.T,)


def covariance(M, N):
    i, j = indices(N, M)
    return M, np.float64(N), i * j / M


def fdtd_2d(TMAX, NX, NY):
    i, j = indices(NX, NY)
    fields = i * (j + 1) / NX, i * (j + 2) / NY, i * (j + 3) / NX
    return TMAX, *fields, np.arange(TMAX, dtype=np.float64)


def floyd_warshall(N):
    i, j = indices(N, N, dtype=np.int32)
    far = (i + j) % 13 == 0
    far |= (i + j) % 7 == 0
    far |= (i + j) % 11 == 0
    return (np.where(far, np.int32(999), i * j % 7 + 1),)


def gemm(NI, NJ, NK):
    i, j = indices(NI, NJ)
    C = (i * j + 1) % NI / NI
    i, k = indices(NI, NK)
    A = i * (k + 1) % NK / NK
    k, j = indices(NK, NJ)
    B = k * (j + 2) % NJ / NJ
    return np.float64(1.5), np.float64(1.2), C, A, B


def gemver(N):
    i, j = indices(N, N)
    u1, v1, u2, v2 = np.arange(N, dtype=np.float64), ramp(N, 4.0), ramp(N, 2.0), ramp(N, 6.0)
    w, x = np.zeros(N), np.zeros(N)
    return np.float64(1.5), np.float64(1.2), i * j % N / N, u1, v1, u2, v2, w, x, ramp(N, 8.0), ramp(N, 9.0)


def gesummv(N):
    i, j = indices(N, N)
    A, B = (i * j + 1) % N / N, (i * j + 2) % N / N
    return np.float64(1.5), np.float64(1.2), A, B, np.arange(N, dtype=np.float64) % N / N


def go_fast(N):
    return random((N, N))


def gramschmidt(M, N):
    return random((M, N))


def hdiff(I, J, K):
    return random((I + 4, J + 4, K), (I, J, K), (I, J, K))


def heat_3d(TSTEPS, N):
    i, j, k = indices(N, N, N)
    A = (i + j + (N - k)) * 10 / N
    return TSTEPS, A, A.copy()


def jacobi_1d(TSTEPS, N):
    (i,) = indices(N)
    return TSTEPS, (i + 2) / N, (i + 3) / N


def jacobi_2d(TSTEPS, N):
    i, j = indices(N, N)
    return TSTEPS, i * (j + 2) / N, i * (j + 3) / N


def softmax(N, H, SM):
    return random((N, H, SM, SM), dtype=np.float32)


def spmv(M, N, nnz):
    from scipy import sparse

    rng = np.random.default_rng(42)
    x = rng.random(N)
    matrix = sparse.random(M, N, density=nnz / (M * N), format="csr", dtype=np.float64, random_state=rng)
    return matrix.indptr.astype(np.uint32), matrix.indices.astype(np.uint32), matrix.data, x


def symm(M, N):
    i, j = indices(M, N)
    C, B = (i + j) % 100 / M, (N + i - j) % 100 / M
    i, j = indices(M, M)
    A = np.where(j <= i, (i + j) % 100 / M, -999.0)
    return np.float64(1.5), np.float64(1.2), C, A, B


def syr2k(M, N):
    i, j = indices(N, N)
    C = (i * j + 3) % N / M
    i, j = indices(N, M)
    return np.float64(1.5), np.float64(1.2), C, (i * j + 1) % N / N, (i * j + 2) % M / M


def syrk(M, N):
    i, j = indices(N, N)
    C = (i * j + 2) % N / M
    i, j = indices(N, M)
    return np.float64(1.5), np.float64(1.2), C, (i * j + 1) % N / N


def trisolv(N):
    i, j = indices(N, N)
    return (i + N - j + 1) * 2 / N, np.full(N, -999.0), np.arange(N, dtype=np.float64)


def trmm(M, N):
    i, j = indices(M, M)
    A = i * j % M / M
    np.fill_diagonal(A, 1.0)
    i, j = indices(M, N)
    return np.float64(1.5), A, (N + i - j) % N / N


MAKERS = {
    f.__name__: f
    for f in (
        azimint_naive, cholesky, covariance, fdtd_2d, floyd_warshall, gemm, gemver, gesummv, go_fast, gramschmidt, hdiff,
        heat_3d, jacobi_1d, jacobi_2d, softmax, spmv, symm, syr2k, syrk, trisolv, trmm,
    )
}  # fmt: skip
