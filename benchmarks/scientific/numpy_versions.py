"""The kernels in NumPy in other forms than the definition's, which is reference.py."""

import numpy as np


def floyd_warshall_in_place(path):
    for k in range(path.shape[0]):
        np.minimum(path, path[:, k, None] + path[k], out=path)


def gemm_product(alpha, beta, C, A, B):
    C[:] = alpha * (A @ B) + beta * C


def gemver_vectors(alpha, beta, A, u1, v1, u2, v2, w, x, y, z):
    A += np.outer(u1, v1) + np.outer(u2, v2)
    x += beta * y @ A + z
    w += alpha * (A @ x)


def gesummv_vectors(alpha, beta, A, B, x):
    return alpha * (A @ x) + beta * (B @ x)


def heat_step(A, B):
    twice = 2.0 * A[1:-1, 1:-1, 1:-1]
    B[1:-1, 1:-1, 1:-1] = (
        0.125 * (A[2:, 1:-1, 1:-1] - twice + A[:-2, 1:-1, 1:-1])
        + 0.125 * (A[1:-1, 2:, 1:-1] - twice + A[1:-1, :-2, 1:-1])
        + 0.125 * (A[1:-1, 1:-1, 2:] - twice + A[1:-1, 1:-1, :-2])
        + A[1:-1, 1:-1, 1:-1]
    )


def heat_3d_doubled(TSTEPS, A, B):
    for _ in range(1, TSTEPS):
        heat_step(A, B)
        heat_step(B, A)


def trmm_rows(alpha, A, B):
    for i in range(B.shape[0]):
        B[i] += A[i + 1 :, i] @ B[i + 1 :]
    B *= alpha
