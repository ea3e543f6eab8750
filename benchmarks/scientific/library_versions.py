"""Kernels that a library call of NumPy, BLAS, LAPACK or SciPy does as a whole.

BLAS and LAPACK take matrices by columns: the transpose of a matrix by rows is given in place, and its lower triangle is
the upper one there. covariance is a product of whole matrices, more than which no library has.
"""

import numpy as np
from scipy.linalg import blas, lapack
from scipy.sparse import csr_array


def cholesky(A):
    lapack.dpotrf(A.T, lower=0, clean=0, overwrite_a=1)


def covariance_product(M, float_n, data):
    data -= data.mean(axis=0)
    return data.T @ data / (float_n - 1.0)


def gemm(alpha, beta, C, A, B):
    blas.dgemm(alpha, B.T, A.T, beta, C.T, overwrite_c=1)


def gemver(alpha, beta, A, u1, v1, u2, v2, w, x, y, z):
    blas.dger(1.0, v1, u1, a=A.T, overwrite_a=1)
    blas.dger(1.0, v2, u2, a=A.T, overwrite_a=1)
    x += blas.dgemv(beta, A.T, y) + z
    w += blas.dgemv(alpha, A.T, x, trans=1)


def gesummv(alpha, beta, A, B, x):
    return blas.dgemv(beta, B.T, x, 1.0, blas.dgemv(alpha, A.T, x, trans=1), trans=1, overwrite_y=1)


def gramschmidt(A):
    Q, R = np.linalg.qr(A)
    signs = np.sign(np.diag(R))  # the definition's diagonal is positive
    Q, R = Q * signs, R * signs[:, None]
    A[...] = Q * np.diag(R)
    return Q, R


def spmv(A_row, A_col, A_val, x):
    shape = len(A_row) - 1, len(x)
    return csr_array((A_val, A_col.view(np.int32), A_row.view(np.int32)), shape=shape) @ x


def symm(alpha, beta, C, A, B):
    blas.dsymm(alpha, A.T, B.T, beta, C.T, side=1, lower=0, overwrite_c=1)


def syr2k(alpha, beta, C, A, B):
    blas.dsyr2k(alpha, A.T, B.T, beta, C.T, trans=1, lower=0, overwrite_c=1)


def syrk(alpha, beta, C, A):
    blas.dsyrk(alpha, A.T, beta, C.T, trans=1, lower=0, overwrite_c=1)


def trisolv(L, x, b):
    x[...] = b
    blas.dtrsv(L.T, x, trans=1, lower=0, overwrite_x=1)


def trmm(alpha, A, B):
    B[...] = blas.dtrmm(alpha, A.T, B.T, side=1, lower=0, trans_a=1, diag=1).T
