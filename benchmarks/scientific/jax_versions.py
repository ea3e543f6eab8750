"""The kernels in JAX: array operations and library calls where there are any, `lax` loops for what is sequential.

Each returns what the definition writes into its arguments, then what that returns.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import solve_triangular


@partial(jax.jit, static_argnums=2)
def azimint_naive(data, radius, npt):
    rmax = radius.max()

    def ring(i):
        mask = (rmax * i / npt <= radius) & (radius < rmax * (i + 1) / npt)
        return jnp.sum(jnp.where(mask, data, 0.0)) / jnp.sum(mask)

    return lax.map(ring, jnp.arange(npt))


@jax.jit
def cholesky(A):
    lower = jnp.linalg.cholesky(A, symmetrize_input=False)
    return jnp.tril(lower) + jnp.triu(A, 1)


@partial(jax.jit, static_argnums=0)
def covariance(M, float_n, data):
    data = data - data.mean(axis=0)
    return data, data.T @ data / (float_n - 1.0)


@partial(jax.jit, static_argnums=0)
def fdtd_2d(TMAX, ex, ey, hz, _fict_):
    def step(t, fields):
        ex, ey, hz = fields
        ey = jnp.concatenate([jnp.full_like(ey[:1], _fict_[t]), ey[1:] - 0.5 * (hz[1:] - hz[:-1])])
        ex = ex.at[:, 1:].add(-0.5 * (hz[:, 1:] - hz[:, :-1]))
        hz = hz.at[:-1, :-1].add(-0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]))
        return ex, ey, hz

    return lax.fori_loop(0, TMAX, step, (ex, ey, hz))


@jax.jit
def floyd_warshall(path):
    return lax.fori_loop(0, len(path), lambda k, p: jnp.minimum(p, p[:, k, None] + p[k]), path)


@jax.jit
def gemm(alpha, beta, C, A, B):
    return alpha * (A @ B) + beta * C


@jax.jit
def gemver(alpha, beta, A, u1, v1, u2, v2, w, x, y, z):
    A = A + jnp.outer(u1, v1) + jnp.outer(u2, v2)
    x = x + beta * (y @ A) + z
    return A, w + alpha * (A @ x), x


@jax.jit
def gesummv(alpha, beta, A, B, x):
    return alpha * (A @ x) + beta * (B @ x)


@jax.jit
def go_fast(a):
    return a + jnp.sum(jnp.tanh(jnp.diag(a)))


@jax.jit
def gramschmidt(A):
    """By the library: the definition's diagonal is positive."""
    Q, R = jnp.linalg.qr(A)
    signs = jnp.sign(jnp.diag(R))
    Q, R = Q * signs, R * signs[:, None]
    return Q * jnp.diag(R), Q, R


@jax.jit
def gramschmidt_loop(A):
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
    lap = 4.0 * in_field[1:-1, 1:-1] - (
        in_field[2:, 1:-1] + in_field[:-2, 1:-1] + in_field[1:-1, 2:] + in_field[1:-1, :-2]
    )
    flx = lap[1:, 1:-1] - lap[:-1, 1:-1]
    flx = jnp.where(flx * (in_field[2:-1, 2:-2] - in_field[1:-2, 2:-2]) > 0, 0.0, flx)
    fly = lap[1:-1, 1:] - lap[1:-1, :-1]
    fly = jnp.where(fly * (in_field[2:-2, 2:-1] - in_field[2:-2, 1:-2]) > 0, 0.0, fly)
    return in_field[2:-2, 2:-2] - coeff * (flx[1:] - flx[:-1] + fly[:, 1:] - fly[:, :-1])


def heat_step(A, B):
    twice = 2.0 * A[1:-1, 1:-1, 1:-1]
    return B.at[1:-1, 1:-1, 1:-1].set(
        0.125 * (A[2:, 1:-1, 1:-1] - twice + A[:-2, 1:-1, 1:-1])
        + 0.125 * (A[1:-1, 2:, 1:-1] - twice + A[1:-1, :-2, 1:-1])
        + 0.125 * (A[1:-1, 1:-1, 2:] - twice + A[1:-1, 1:-1, :-2])
        + A[1:-1, 1:-1, 1:-1]
    )


def alternating(step, steps, A, B):
    """Steps from one array to the other and back."""

    def both(_, state):
        A, B = state
        B = step(A, B)
        return step(B, A), B

    return lax.fori_loop(1, steps, both, (A, B))


@partial(jax.jit, static_argnums=0)
def heat_3d(TSTEPS, A, B):
    return alternating(heat_step, TSTEPS, A, B)


@partial(jax.jit, static_argnums=0)
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
    return jax.nn.softmax(x, axis=-1)


def csr(A_row, A_col, A_val, columns):
    from jax.experimental.sparse import BCSR

    row, column = A_row.astype(jnp.int32), A_col.astype(jnp.int32)
    return BCSR((A_val, column, row), shape=(len(A_row) - 1, columns))


@jax.jit
def spmv(A_row, A_col, A_val, x):
    return csr(A_row, A_col, A_val, len(x)) @ x


@jax.jit
def spmv_segments(A_row, A_col, A_val, x):
    rows = jnp.searchsorted(A_row, jnp.arange(len(A_val), dtype=A_row.dtype), side="right") - 1
    return jax.ops.segment_sum(A_val * x[A_col], rows, len(A_row) - 1, indices_are_sorted=True)


@jax.jit
def symm(alpha, beta, C, A, B):
    full = jnp.tril(A) + jnp.tril(A, -1).T
    return beta * C + alpha * (full @ B)


@jax.jit
def syr2k(alpha, beta, C, A, B):
    half = A @ B.T
    return jnp.where(jnp.tri(len(C), dtype=bool), beta * C + alpha * (half + half.T), C)


@jax.jit
def syrk(alpha, beta, C, A):
    return jnp.where(jnp.tri(len(C), dtype=bool), beta * C + alpha * (A @ A.T), C)


@jax.jit
def trisolv(L, x, b):
    return solve_triangular(L, b, lower=True)


@jax.jit
def trmm(alpha, A, B):
    return alpha * (B + jnp.tril(A, -1).T @ B)
