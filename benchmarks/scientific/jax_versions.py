"""The kernels in JAX: `<kernel>` as NPBench states it there, `<kernel>_<name>` in other forms.

As written, a loop of the definition is a `fori_loop`, and a slice whose length depends on a loop is a whole row or
column under a mask, since shapes are fixed. NPBench has products of whole matrices for covariance and trmm, one matrix in
gesummv, and go_fast's `_diagonal`. Each returns what the definition writes into its arguments, then what that returns.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import solve_triangular


@partial(jax.jit, static_argnums=2)
def azimint_naive(data, radius, npt):
    rmax = radius.max()

    def ring(i, rings):
        inside = jnp.logical_and(rmax * i / npt <= radius, radius < rmax * (i + 1) / npt)
        return rings.at[i].set(jnp.where(inside, data, 0).mean(where=inside))

    return lax.fori_loop(0, npt, ring, jnp.zeros(npt))


@partial(jax.jit, static_argnums=2)
def azimint_naive_map(data, radius, npt):
    rmax = radius.max()

    def ring(i):
        mask = (rmax * i / npt <= radius) & (radius < rmax * (i + 1) / npt)
        return jnp.sum(jnp.where(mask, data, 0.0)) / jnp.sum(mask)

    return lax.map(ring, jnp.arange(npt))


@jax.jit
def cholesky(A):
    columns = jnp.arange(A.shape[1])
    A = A.at[0, 0].set(jnp.sqrt(A[0, 0]))

    def row(i, A):
        def element(j, A):
            known = jnp.dot(jnp.where(columns < j, A[i, :], 0), jnp.where(columns < j, A[j, :], 0))
            return A.at[i, j].set((A[i, j] - known) / A[j, j])

        A = lax.fori_loop(0, i, element, A)
        before = jnp.where(columns < i, A[i, :], 0)
        return A.at[i, i].set(jnp.sqrt(A[i, i] - jnp.dot(before, before)))

    return lax.fori_loop(1, A.shape[0], row, A)


@jax.jit
def cholesky_library(A):
    lower = jnp.linalg.cholesky(A, symmetrize_input=False)
    return jnp.tril(lower) + jnp.triu(A, 1)


@partial(jax.jit, static_argnums=0)
def covariance(M, float_n, data):
    data = data - jnp.mean(data, axis=0)
    return data, data.T @ data / (float_n - 1.0)


@jax.jit
def covariance_library(M, float_n, data):
    return data - jnp.mean(data, axis=0), jnp.cov(data, rowvar=False)


@jax.jit
def fdtd_2d(TMAX, ex, ey, hz, _fict_):
    def step(t, fields):
        ex, ey, hz = fields
        ey = ey.at[0, :].set(_fict_[t])
        ey = ey.at[1:, :].set(ey[1:, :] - 0.5 * (hz[1:, :] - hz[:-1, :]))
        ex = ex.at[:, 1:].set(ex[:, 1:] - 0.5 * (hz[:, 1:] - hz[:, :-1]))
        curl = ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]
        hz = hz.at[:-1, :-1].set(hz[:-1, :-1] - 0.7 * curl)
        return ex, ey, hz

    return lax.fori_loop(0, TMAX, step, (ex, ey, hz))


@partial(jax.jit, static_argnums=0)
def fdtd_2d_joined(TMAX, ex, ey, hz, _fict_):
    def step(t, fields):
        ex, ey, hz = fields
        ey = jnp.concatenate([jnp.full_like(ey[:1], _fict_[t]), ey[1:] - 0.5 * (hz[1:] - hz[:-1])])
        ex = ex.at[:, 1:].add(-0.5 * (hz[:, 1:] - hz[:, :-1]))
        hz = hz.at[:-1, :-1].add(-0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]))
        return ex, ey, hz

    return lax.fori_loop(0, TMAX, step, (ex, ey, hz))


@jax.jit
def floyd_warshall(path):
    def through(k, path):
        return path.at[:].set(jnp.minimum(path[:], jnp.add.outer(path[:, k], path[k, :])))

    return lax.fori_loop(0, path.shape[0], through, path)


@jax.jit
def gemm(alpha, beta, C, A, B):
    return C.at[:].set(alpha * A @ B + beta * C)


@jax.jit
def gemm_product(alpha, beta, C, A, B):
    return alpha * (A @ B) + beta * C


@jax.jit
def gemver(alpha, beta, A, u1, v1, u2, v2, w, x, y, z):
    A += jnp.outer(u1, v1) + jnp.outer(u2, v2)
    x += beta * y @ A + z
    return A, w + alpha * A @ x, x


@jax.jit
def gemver_vectors(alpha, beta, A, u1, v1, u2, v2, w, x, y, z):
    A = A + jnp.outer(u1, v1) + jnp.outer(u2, v2)
    x = x + beta * (y @ A) + z
    return A, w + alpha * (A @ x), x


@jax.jit
def gesummv(alpha, beta, A, B, x):
    return (alpha * A + beta * B) @ x


@jax.jit
def gesummv_vectors(alpha, beta, A, B, x):
    return alpha * (A @ x) + beta * (B @ x)


@jax.jit
def go_fast(a):
    return a + lax.fori_loop(0, len(a), lambda i, trace: trace + jnp.tanh(a[i, i]), 0.0)


@jax.jit
def go_fast_diagonal(a):
    return a + jnp.sum(jnp.tanh(jnp.diag(a)))


@jax.jit
def gramschmidt(A):
    n = A.shape[1]

    def column(k, state):
        A, Q, R = state
        R = R.at[k, k].set(jnp.sqrt(jnp.dot(A[:, k], A[:, k])))
        Q = Q.at[:, k].set(A[:, k] / R[k, k])

        def behind(j, state):
            A, Q, R = state
            R = R.at[k, j].set(jnp.dot(Q[:, k], A[:, j]))
            return A.at[:, j].add(-Q[:, k] * R[k, j]), Q, R

        return lax.fori_loop(k + 1, n, behind, (A, Q, R))

    return lax.fori_loop(0, n, column, (A, jnp.zeros_like(A), jnp.zeros((n, n), dtype=A.dtype)))


@jax.jit
def gramschmidt_library(A):
    Q, R = jnp.linalg.qr(A)
    signs = jnp.sign(jnp.diag(R))  # the definition's diagonal is positive
    Q, R = Q * signs, R * signs[:, None]
    return Q * jnp.diag(R), Q, R


@jax.jit
def gramschmidt_rows(A):
    n = A.shape[1]

    def column(k, state):
        A, Q, R = state
        norm = jnp.sqrt(A[:, k] @ A[:, k])
        q = A[:, k] / norm
        row = jnp.where(jnp.arange(n) > k, q @ A, 0.0)
        return A - jnp.outer(q, row), Q.at[:, k].set(q), R.at[k].set(row.at[k].set(norm))

    return lax.fori_loop(0, n, column, (A, jnp.zeros_like(A), jnp.zeros((n, n), A.dtype)))


@jax.jit
def hdiff(in_field, out_field, coeff):
    ni, nj = out_field.shape[0], out_field.shape[1]
    lap = 4.0 * in_field[1 : ni + 3, 1 : nj + 3, :] - (
        in_field[2 : ni + 4, 1 : nj + 3, :]
        + in_field[0 : ni + 2, 1 : nj + 3, :]
        + in_field[1 : ni + 3, 2 : nj + 4, :]
        + in_field[1 : ni + 3, 0 : nj + 2, :]
    )
    res = lap[1:, 1 : nj + 1, :] - lap[:-1, 1 : nj + 1, :]
    flx = jnp.where(res * (in_field[2 : ni + 3, 2 : nj + 2, :] - in_field[1 : ni + 2, 2 : nj + 2, :]) > 0, 0, res)
    res = lap[1 : ni + 1, 1:, :] - lap[1 : ni + 1, :-1, :]
    fly = jnp.where(res * (in_field[2 : ni + 2, 2 : nj + 3, :] - in_field[2 : ni + 2, 1 : nj + 2, :]) > 0, 0, res)
    divergence = flx[1:, :, :] - flx[:-1, :, :] + fly[:, 1:, :] - fly[:, :-1, :]
    return out_field.at[:, :, :].set(in_field[2 : ni + 2, 2 : nj + 2, :] - coeff[:, :, :] * divergence)


def heat_step(A, B):
    return B.at[1:-1, 1:-1, 1:-1].set(
        0.125 * (A[2:, 1:-1, 1:-1] - 2.0 * A[1:-1, 1:-1, 1:-1] + A[:-2, 1:-1, 1:-1])
        + 0.125 * (A[1:-1, 2:, 1:-1] - 2.0 * A[1:-1, 1:-1, 1:-1] + A[1:-1, :-2, 1:-1])
        + 0.125 * (A[1:-1, 1:-1, 2:] - 2.0 * A[1:-1, 1:-1, 1:-1] + A[1:-1, 1:-1, :-2])
        + A[1:-1, 1:-1, 1:-1]
    )


def alternating(step, steps, A, B):
    """Steps from one array to the other and back."""

    def both(_, state):
        A, B = state
        B = step(A, B)
        return step(B, A), B

    return lax.fori_loop(1, steps, both, (A, B))


@jax.jit
def heat_3d(TSTEPS, A, B):
    return alternating(heat_step, TSTEPS, A, B)


@jax.jit
def jacobi_1d(TSTEPS, A, B):
    return alternating(lambda a, b: b.at[1:-1].set(0.33333 * (a[:-2] + a[1:-1] + a[2:])), TSTEPS, A, B)


@partial(jax.jit, static_argnums=0)
def jacobi_2d(TSTEPS, A, B):
    def step(a, b):
        around = a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1]
        return b.at[1:-1, 1:-1].set(0.2 * around)

    return alternating(step, TSTEPS, A, B)


@jax.jit
def softmax(x):
    e = jnp.exp(x - jnp.max(x, axis=-1, keepdims=True))
    return e / jnp.sum(e, axis=-1, keepdims=True)


@jax.jit
def softmax_library(x):
    return jax.nn.softmax(x, axis=-1)


def csr(A_row, A_col, A_val, columns):
    from jax.experimental.sparse import BCSR

    row, column = A_row.astype(jnp.int32), A_col.astype(jnp.int32)
    return BCSR((A_val, column, row), shape=(len(A_row) - 1, columns))


@jax.jit
def spmv(A_row, A_col, A_val, x):
    def row(i, y):
        inside = (jnp.arange(A_col.size) >= A_row[i]) & (jnp.arange(A_col.size) < A_row[i + 1])
        columns = jnp.where(inside, A_col, 0)
        values = jnp.where(inside, A_val, 0)
        return y.at[i].set(values @ x[columns])

    return lax.fori_loop(0, A_row.size - 1, row, jnp.empty(A_row.size - 1, dtype=A_val.dtype))


@jax.jit
def spmv_library(A_row, A_col, A_val, x):
    return csr(A_row, A_col, A_val, len(x)) @ x


@jax.jit
def spmv_segments(A_row, A_col, A_val, x):
    rows = jnp.searchsorted(A_row, jnp.arange(len(A_val), dtype=A_row.dtype), side="right") - 1
    return jax.ops.segment_sum(A_val * x[A_col], rows, len(A_row) - 1, indices_are_sorted=True)


@jax.jit
def symm(alpha, beta, C, A, B):
    def row(i, state):
        def element(j, state):
            C, below = state
            before = jnp.where(jnp.arange(A.shape[1]) < i, A[i, :], 0.0)
            above = jnp.where(jnp.arange(B.shape[0]) < i, B[:, j], 0.0)
            column = C[:, j] + alpha * B[i, j] * before
            C = lax.dynamic_update_slice(C, column[:, None], (0, j))
            return C, below.at[j].set(above @ before)

        C, below = lax.fori_loop(0, state[0].shape[1], element, state)
        return C.at[i, :].add(alpha * B[i, :] * A[i, i] + alpha * below), below

    C, _ = lax.fori_loop(0, C.shape[0], row, (beta * C, jnp.empty((C.shape[1],), dtype=C.dtype)))
    return C


@jax.jit
def symm_product(alpha, beta, C, A, B):
    full = jnp.tril(A) + jnp.tril(A, -1).T
    return beta * C + alpha * (full @ B)


def by_rows_below(beta, C, steps, term):
    """C with `term(i, k)` added to row i up to the diagonal for each step k, after the row's product with beta."""

    def row(i, C):
        inside = jnp.arange(C.shape[1]) < i + 1

        def changed(C, change):
            """C with row i changed up to the diagonal: the slice of it is the row under the mask."""
            part = change(jnp.where(inside, C[i, :], 0.0))
            return lax.dynamic_update_slice(C, jnp.where(inside, part, C[i, :])[None, :], (i, 0))

        C = changed(C, lambda part: part * beta)
        return lax.fori_loop(0, steps, lambda k, C: changed(C, lambda part: part + term(i, k)), C)

    return lax.fori_loop(0, C.shape[0], row, C)


def column_to(matrix, i, k):
    """Column k under a mask of the rows up to i."""
    return jnp.where(jnp.arange(matrix.shape[0]) < i + 1, matrix[:, k], 0.0)


@jax.jit
def syr2k(alpha, beta, C, A, B):
    def term(i, k):
        return column_to(A, i, k) * (alpha * B[i, k]) + column_to(B, i, k) * (alpha * A[i, k])

    return by_rows_below(beta, C, A.shape[1], term)


@jax.jit
def syr2k_product(alpha, beta, C, A, B):
    half = A @ B.T
    return jnp.where(jnp.tri(len(C), dtype=bool), beta * C + alpha * (half + half.T), C)


@jax.jit
def syrk(alpha, beta, C, A):
    return by_rows_below(beta, C, A.shape[1], lambda i, k: column_to(A, i, k) * (alpha * A[i, k]))


@jax.jit
def syrk_product(alpha, beta, C, A):
    return jnp.where(jnp.tri(len(C), dtype=bool), beta * C + alpha * (A @ A.T), C)


@jax.jit
def trisolv(L, x, b):
    def row(i, x):
        known = jnp.where(jnp.arange(x.shape[0]) < i, L[i, :] * x, 0.0)
        return x.at[i].set((b[i] - jnp.sum(known)) / L[i, i])

    return lax.fori_loop(0, len(x), row, x)


@jax.jit
def trisolv_library(L, x, b):
    return solve_triangular(L, b, lower=True)


@jax.jit
def trmm(alpha, A, B):
    B += jnp.tril(A, -1).T @ B
    return B * alpha
