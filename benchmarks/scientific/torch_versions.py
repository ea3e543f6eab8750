"""The kernels that torch.compile takes as array operations, and library calls; sequential ones are not torch's.

`<kernel>_library` are calls that do the whole kernel, `_library_compiled` within what torch.compile makes.
"""

import torch

compiled = torch.compile(dynamic=False)


def covariance(M, float_n, data):
    data -= data.mean(dim=0)
    return data.T @ data / (float_n - 1.0)


@compiled
def gemm(alpha, beta, C, A, B):
    C.copy_(alpha * (A @ B) + beta * C)


def gemm_library(alpha, beta, C, A, B):
    torch.addmm(C, A, B, beta=beta, alpha=alpha, out=C)


@compiled
def gemver(alpha, beta, A, u1, v1, u2, v2, w, x, y, z):
    A += torch.outer(u1, v1) + torch.outer(u2, v2)
    x += beta * (y @ A) + z
    w += alpha * (A @ x)


@compiled
def gesummv(alpha, beta, A, B, x):
    return alpha * (A @ x) + beta * (B @ x)


@compiled
def go_fast(a):
    return a + torch.sum(torch.tanh(torch.diagonal(a)))


@compiled
def hdiff(in_field, out_field, coeff):
    lap = 4.0 * in_field[1:-1, 1:-1] - (
        in_field[2:, 1:-1] + in_field[:-2, 1:-1] + in_field[1:-1, 2:] + in_field[1:-1, :-2]
    )
    flx = lap[1:, 1:-1] - lap[:-1, 1:-1]
    flx = torch.where(flx * (in_field[2:-1, 2:-2] - in_field[1:-2, 2:-2]) > 0, 0.0, flx)
    fly = lap[1:-1, 1:] - lap[1:-1, :-1]
    fly = torch.where(fly * (in_field[2:-2, 2:-1] - in_field[2:-2, 1:-2]) > 0, 0.0, fly)
    out_field.copy_(in_field[2:-2, 2:-2] - coeff * (flx[1:] - flx[:-1] + fly[:, 1:] - fly[:, :-1]))


@compiled
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


@compiled
def three(A, B):
    B[1:-1] = 0.33333 * (A[:-2] + A[1:-1] + A[2:])


def jacobi_1d(TSTEPS, A, B):
    for _ in range(1, TSTEPS):
        three(A, B)
        three(B, A)


@compiled
def five(A, B):
    B[1:-1, 1:-1] = 0.2 * (A[1:-1, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:] + A[2:, 1:-1] + A[:-2, 1:-1])


def jacobi_2d(TSTEPS, A, B):
    for _ in range(1, TSTEPS):
        five(A, B)
        five(B, A)


@compiled
def fields(first, ex, ey, hz):
    ey[0] = first
    ey[1:] -= 0.5 * (hz[1:] - hz[:-1])
    ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
    hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])


def fdtd_2d(TMAX, ex, ey, hz, _fict_):
    for t in range(TMAX):
        fields(_fict_[t], ex, ey, hz)


@compiled
def through(path, column, row):
    torch.minimum(path, column[:, None] + row, out=path)


def floyd_warshall(path):
    for k in range(len(path)):
        through(path, path[:, k].clone(), path[k].clone())


@compiled
def softmax(x):
    e = torch.exp(x - torch.amax(x, dim=-1, keepdim=True))
    return e / torch.sum(e, dim=-1, keepdim=True)


@compiled
def softmax_library_compiled(x):
    return torch.softmax(x, dim=-1)


def softmax_library(x):
    return torch.nn.functional.softmax(x, dim=-1)


def spmv_library(A_row, A_col, A_val, x):
    shape = len(A_row) - 1, len(x)
    matrix = torch.sparse_csr_tensor(A_row.int(), A_col.int(), A_val, size=shape, check_invariants=False)
    return matrix @ x


def cholesky_library(A):
    A.copy_(torch.tril(torch.linalg.cholesky(A)) + torch.triu(A, 1))


def gramschmidt_library(A):
    Q, R = torch.linalg.qr(A)
    signs = torch.sign(torch.diagonal(R))  # the definition's diagonal is positive
    Q, R = Q * signs, R * signs[:, None]
    A.copy_(Q * torch.diagonal(R))
    return Q, R


@compiled
def symm(alpha, beta, C, A, B):
    full = torch.tril(A) + torch.tril(A, -1).T
    C.copy_(beta * C + alpha * (full @ B))


@compiled
def syr2k(alpha, beta, C, A, B):
    half = A @ B.T
    rows = torch.ones_like(C, dtype=torch.bool).tril()
    C.copy_(torch.where(rows, beta * C + alpha * (half + half.T), C))


@compiled
def syrk(alpha, beta, C, A):
    rows = torch.ones_like(C, dtype=torch.bool).tril()
    C.copy_(torch.where(rows, beta * C + alpha * (A @ A.T), C))


def trisolv_library(L, x, b):
    x.copy_(torch.linalg.solve_triangular(L, b[:, None], upper=False)[:, 0])


@compiled
def trmm(alpha, A, B):
    B.copy_(alpha * (B + torch.tril(A, -1).T @ B))
