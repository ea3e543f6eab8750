"""The kernels in CuPy in other forms than the definition's, for which device_sides.py takes the reference's text.

`floyd_warshall` alone is a text of NPBench's own for CuPy: a row at a time.
`<kernel>_library` are calls of a library that do the whole kernel or most of it (cuBLAS, cuSOLVER, cuSPARSE); the others
are restructured for a device: operations on whole arrays in place of loops over elements, products of whole matrices,
and stencils as one kernel each.
"""

import cupy as cp
from cupy import cublas
from cupyx import cusparse
from cupyx.scipy import linalg, sparse, special


def cholesky_columns(A):
    n = A.shape[0]
    for j in range(n):
        A[j, j] = cp.sqrt(A[j, j] - A[j, :j] @ A[j, :j])
        A[j + 1 :, j] = (A[j + 1 :, j] - A[j + 1 :, :j] @ A[j, :j]) / A[j, j]


def cholesky_library(A):
    A[...] = cp.tril(cp.linalg.cholesky(A)) + cp.triu(A, 1)


def covariance_product(M, float_n, data):
    data -= data.mean(axis=0)
    return data.T @ data / (float_n - 1.0)


def floyd_warshall(path):
    for k in range(path.shape[0]):
        for i in range(path.shape[0]):
            path[i, :] = cp.minimum(path[i, :], path[i, k] + path[k, :])


def floyd_warshall_in_place(path):
    for k in range(path.shape[0]):
        cp.minimum(path, path[:, k, None] + path[k], out=path)


def gemm_product(alpha, beta, C, A, B):
    C[...] = alpha * (A @ B) + beta * C


def gemm_library(alpha, beta, C, A, B):
    cublas.gemm("N", "N", A, B, out=C, alpha=alpha, beta=beta)


def gemver_vectors(alpha, beta, A, u1, v1, u2, v2, w, x, y, z):
    A += cp.outer(u1, v1) + cp.outer(u2, v2)
    x += beta * (y @ A) + z
    w += alpha * (A @ x)


def gesummv_vectors(alpha, beta, A, B, x):
    return alpha * (A @ x) + beta * (B @ x)


def go_fast_diagonal(a):
    return a + cp.sum(cp.tanh(cp.diagonal(a)))


def gramschmidt_rows(A):
    n = A.shape[1]
    Q, R = cp.zeros_like(A), cp.zeros((n, n), dtype=A.dtype)
    for k in range(n):
        R[k, k] = cp.sqrt(A[:, k] @ A[:, k])
        Q[:, k] = A[:, k] / R[k, k]
        R[k, k + 1 :] = Q[:, k] @ A[:, k + 1 :]
        A[:, k + 1 :] -= cp.outer(Q[:, k], R[k, k + 1 :])
    return Q, R


def gramschmidt_library(A):
    Q, R = cp.linalg.qr(A)
    signs = cp.sign(cp.diagonal(R))  # the definition's diagonal is positive
    Q, R = Q * signs, R * signs[:, None]
    A[...] = Q * cp.diagonal(R)
    return Q, R


@cp.fuse()
def heat_point(centre, up, down, left, right, front, back):
    twice = 2.0 * centre
    rows, columns, depth = up - twice + down, left - twice + right, front - twice + back
    return 0.125 * rows + 0.125 * columns + 0.125 * depth + centre


def heat_step(A, B):
    B[1:-1, 1:-1, 1:-1] = heat_point(
        A[1:-1, 1:-1, 1:-1],
        A[2:, 1:-1, 1:-1],
        A[:-2, 1:-1, 1:-1],
        A[1:-1, 2:, 1:-1],
        A[1:-1, :-2, 1:-1],
        A[1:-1, 1:-1, 2:],
        A[1:-1, 1:-1, :-2],
    )


def heat_3d_fused(TSTEPS, A, B):
    for _ in range(1, TSTEPS):
        heat_step(A, B)
        heat_step(B, A)


@cp.fuse()
def sum_of_three(a, b, c):
    return 0.33333 * (a + b + c)


def jacobi_1d_fused(TSTEPS, A, B):
    for _ in range(1, TSTEPS):
        B[1:-1] = sum_of_three(A[:-2], A[1:-1], A[2:])
        A[1:-1] = sum_of_three(B[:-2], B[1:-1], B[2:])


@cp.fuse()
def sum_of_five(a, b, c, d, e):
    return 0.2 * (a + b + c + d + e)


def jacobi_2d_fused(TSTEPS, A, B):
    for _ in range(1, TSTEPS):
        for a, b in ((A, B), (B, A)):
            b[1:-1, 1:-1] = sum_of_five(a[1:-1, 1:-1], a[1:-1, :-2], a[1:-1, 2:], a[2:, 1:-1], a[:-2, 1:-1])


def softmax_library(x):
    return special.softmax(x, axis=-1)


def spmv_sums(A_row, A_col, A_val, x):
    """A row at a time waits for the device twice a row; this multiplies all and adds up along rows."""
    ends = cp.concatenate([cp.zeros(1), cp.cumsum(A_val * x[A_col])])
    return ends[A_row[1:]] - ends[A_row[:-1]]


def spmv_library(A_row, A_col, A_val, x):
    shape = A_row.size - 1, x.size
    matrix = sparse.csr_matrix((A_val, A_col.view(cp.int32), A_row.view(cp.int32)), shape=shape)
    matrix.has_canonical_format = True  # else each call finds out
    return cusparse.spmv(matrix, x)


def symm_rows(alpha, beta, C, A, B):
    C *= beta
    for i in range(C.shape[0]):
        C[:i] += alpha * cp.outer(A[i, :i], B[i])
        C[i] += alpha * (A[i, i] * B[i] + A[i, :i] @ B[:i])


def symm_product(alpha, beta, C, A, B):
    full = cp.tril(A) + cp.tril(A, -1).T
    C[...] = alpha * (full @ B) + beta * C


def syr2k_rows(alpha, beta, C, A, B):
    for i in range(A.shape[0]):
        C[i, : i + 1] *= beta
        C[i, : i + 1] += alpha * (A[: i + 1] @ B[i] + B[: i + 1] @ A[i])


def syr2k_product(alpha, beta, C, A, B):
    half = A @ B.T
    rows = cp.tri(C.shape[0], dtype=bool)
    C[...] = cp.where(rows, beta * C + alpha * (half + half.T), C)


def syrk_rows(alpha, beta, C, A):
    for i in range(A.shape[0]):
        C[i, : i + 1] *= beta
        C[i, : i + 1] += alpha * (A[: i + 1] @ A[i])


def syrk_library(alpha, beta, C, A):
    cublas.syrk("N", A, out=C, alpha=alpha, beta=beta, lower=True)


def trisolv_library(L, x, b):
    x[...] = linalg.solve_triangular(L, b, lower=True)


def trmm_rows(alpha, A, B):
    for i in range(B.shape[0]):
        B[i] += A[i + 1 :, i] @ B[i + 1 :]
    B *= alpha


def trmm_product(alpha, A, B):
    B[...] = alpha * (B + cp.tril(A, -1).T @ B)
