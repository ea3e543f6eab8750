"""The kernels as DaCe programs, with extents as symbols.

As written, what its front end does not take is said as NPBench says it there: masked sums as a map with a condition,
`x -= y` on broadcast operands as np.subtract, ends of slices that are elements as scalars of their own.
"""

import dace
import numpy as np

M, N, K, T, NPT, NNZ = (dace.symbol(name, dtype=dace.int64) for name in ("M", "N", "K", "T", "NPT", "NNZ"))
f64, f32, i32, u32 = dace.float64, dace.float32, dace.int32, dace.uint32

EXTENTS = {
    "azimint_naive": lambda data, radius, npt: {"N": len(data), "NPT": npt},
    "cholesky": lambda A: {"N": len(A)},
    "covariance": lambda M, float_n, data: {"N": len(data), "M": M},
    "fdtd_2d": lambda TMAX, ex, ey, hz, _fict_: {"T": TMAX, "M": ex.shape[0], "N": ex.shape[1]},
    "floyd_warshall": lambda path: {"N": len(path)},
    "gemm": lambda alpha, beta, C, A, B: {"M": C.shape[0], "N": C.shape[1], "K": len(B)},
    "gemver": lambda alpha, beta, A, *vectors: {"N": len(A)},
    "gesummv": lambda alpha, beta, A, B, x: {"N": len(A)},
    "go_fast": lambda a: {"N": len(a)},
    "gramschmidt": lambda A: {"M": A.shape[0], "N": A.shape[1]},
    "hdiff": lambda in_field, out_field, coeff: dict(zip("MNK", out_field.shape)),
    "heat_3d": lambda TSTEPS, A, B: {"T": TSTEPS, "N": len(A)},
    "jacobi_1d": lambda TSTEPS, A, B: {"T": TSTEPS, "N": len(A)},
    "jacobi_2d": lambda TSTEPS, A, B: {"T": TSTEPS, "N": len(A)},
    "softmax": lambda x: {"M": x.shape[0], "N": x.shape[1], "K": x.shape[2]},
    "spmv": lambda A_row, A_col, A_val, x: {"M": len(A_row) - 1, "NNZ": len(A_val), "N": len(x)},
    "symm": lambda alpha, beta, C, A, B: {"M": C.shape[0], "N": C.shape[1]},
    "syr2k": lambda alpha, beta, C, A, B: {"N": len(C), "M": A.shape[1]},
    "syrk": lambda alpha, beta, C, A: {"N": len(C), "M": A.shape[1]},
    "trisolv": lambda L, x, b: {"N": len(L)},
    "trmm": lambda alpha, A, B: {"M": B.shape[0], "N": B.shape[1]},
}


@dace.program
def azimint_naive(data: f64[N], radius: f64[N]):
    rmax = np.amax(radius)
    res = np.zeros((NPT,), dtype=np.float64)
    for i in range(NPT):
        low = rmax * i / NPT
        high = rmax * (i + 1) / NPT
        inside = np.logical_and((low <= radius), (radius < high))
        count = 0
        total = np.float64(0)
        for j in dace.map[0:N]:
            if inside[j]:
                total += data[j]
                count += 1
        res[i] = total / count
    return res


@dace.program
def azimint_naive_conditions(data: f64[N], radius: f64[N]):
    rmax = np.amax(radius)
    res = np.zeros((NPT,), dtype=np.float64)
    for i in range(NPT):
        low = rmax * i / NPT
        high = rmax * (i + 1) / NPT
        total = np.float64(0)
        count = 0
        for j in dace.map[0:N]:
            if low <= radius[j] and radius[j] < high:
                total += data[j]
                count += 1
        res[i] = total / count
    return res


@dace.program
def cholesky(A: f64[N, N]):
    A[0, 0] = np.sqrt(A[0, 0])
    for i in range(1, N):
        for j in range(i):
            A[i, j] -= np.dot(A[i, :j], A[j, :j])
            A[i, j] /= A[j, j]
        A[i, i] -= np.dot(A[i, :i], A[i, :i])
        A[i, i] = np.sqrt(A[i, i])


@dace.program
def covariance(float_n: f64, data: f64[N, M]):
    mean = np.mean(data, axis=0)
    np.subtract(data, mean, out=data)
    cov = np.zeros((M, M), dtype=data.dtype)
    for i in range(M):
        cov[i, i:M] = data[:, i] @ data[:, i:M] / (float_n - 1.0)
        cov[i:M, i] = cov[i, i:M]
    return cov


@dace.program
def covariance_product(float_n: f64, data: f64[N, M]):
    mean = np.mean(data, axis=0)
    np.subtract(data, mean, out=data)
    return np.transpose(data) @ data / (float_n - 1.0)


@dace.program
def fdtd_2d(ex: f64[M, N], ey: f64[M, N], hz: f64[M, N], _fict_: f64[T]):
    for t in range(T):
        ey[0, :] = _fict_[t]
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])


@dace.program
def floyd_warshall(path: i32[N, N]):
    for k in range(N):
        path[:] = np.minimum(path[:], np.add.outer(path[:, k], path[k, :]))


@dace.program
def gemm(alpha: f64, beta: f64, C: f64[M, N], A: f64[M, K], B: f64[K, N]):
    C[:] = alpha * A @ B + beta * C


@dace.program
def gemver(
    alpha: f64, beta: f64, A: f64[N, N], u1: f64[N], v1: f64[N], u2: f64[N], v2: f64[N], w: f64[N], x: f64[N],
    y: f64[N], z: f64[N],
):  # fmt: skip
    A += np.multiply.outer(u1, v1) + np.multiply.outer(u2, v2)
    x += beta * y @ A + z
    w += alpha * A @ x


@dace.program
def gesummv(alpha: f64, beta: f64, A: f64[N, N], B: f64[N, N], x: f64[N]):
    return alpha * A @ x + beta * B @ x


@dace.program
def go_fast(a: f64[N, N]):
    trace = 0.0
    for i in range(N):
        trace += np.tanh(a[i, i])
    return a + trace


@dace.program
def gramschmidt(A: f64[M, N]):
    Q = np.zeros_like(A)
    R = np.zeros((N, N), dtype=A.dtype)
    for k in range(N):
        square = np.dot(A[:, k], A[:, k])
        R[k, k] = np.sqrt(square)
        Q[:, k] = A[:, k] / R[k, k]
        for j in range(k + 1, N):
            R[k, j] = np.dot(Q[:, k], A[:, j])
            A[:, j] -= Q[:, k] * R[k, j]
    return Q, R


@dace.program
def hdiff(in_field: f64[M + 4, N + 4, K], out_field: f64[M, N, K], coeff: f64[M, N, K]):
    lap = 4.0 * in_field[1 : M + 3, 1 : N + 3, :] - (
        in_field[2 : M + 4, 1 : N + 3, :]
        + in_field[0 : M + 2, 1 : N + 3, :]
        + in_field[1 : M + 3, 2 : N + 4, :]
        + in_field[1 : M + 3, 0 : N + 2, :]
    )
    along = lap[1:, 1 : N + 1, :] - lap[:-1, 1 : N + 1, :]
    flx = np.where(along * (in_field[2 : M + 3, 2 : N + 2, :] - in_field[1 : M + 2, 2 : N + 2, :]) > 0, 0, along)
    across = lap[1 : M + 1, 1:, :] - lap[1 : M + 1, :-1, :]
    fly = np.where(across * (in_field[2 : M + 2, 2 : N + 3, :] - in_field[2 : M + 2, 1 : N + 2, :]) > 0, 0, across)
    out_field[:, :, :] = in_field[2 : M + 2, 2 : N + 2, :] - coeff[:, :, :] * (
        flx[1:, :, :] - flx[:-1, :, :] + fly[:, 1:, :] - fly[:, :-1, :]
    )


@dace.program
def heat_3d(A: f64[N, N, N], B: f64[N, N, N]):
    for _ in range(1, T):
        B[1:-1, 1:-1, 1:-1] = (
            0.125 * (A[2:, 1:-1, 1:-1] - 2.0 * A[1:-1, 1:-1, 1:-1] + A[:-2, 1:-1, 1:-1])
            + 0.125 * (A[1:-1, 2:, 1:-1] - 2.0 * A[1:-1, 1:-1, 1:-1] + A[1:-1, :-2, 1:-1])
            + 0.125 * (A[1:-1, 1:-1, 2:] - 2.0 * A[1:-1, 1:-1, 1:-1] + A[1:-1, 1:-1, 0:-2])
            + A[1:-1, 1:-1, 1:-1]
        )
        A[1:-1, 1:-1, 1:-1] = (
            0.125 * (B[2:, 1:-1, 1:-1] - 2.0 * B[1:-1, 1:-1, 1:-1] + B[:-2, 1:-1, 1:-1])
            + 0.125 * (B[1:-1, 2:, 1:-1] - 2.0 * B[1:-1, 1:-1, 1:-1] + B[1:-1, :-2, 1:-1])
            + 0.125 * (B[1:-1, 1:-1, 2:] - 2.0 * B[1:-1, 1:-1, 1:-1] + B[1:-1, 1:-1, 0:-2])
            + B[1:-1, 1:-1, 1:-1]
        )


@dace.program
def jacobi_1d(A: f64[N], B: f64[N]):
    for _ in range(1, T):
        B[1:-1] = 0.33333 * (A[:-2] + A[1:-1] + A[2:])
        A[1:-1] = 0.33333 * (B[:-2] + B[1:-1] + B[2:])


@dace.program
def jacobi_2d(A: f64[N, N], B: f64[N, N]):
    for _ in range(1, T):
        B[1:-1, 1:-1] = 0.2 * (A[1:-1, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:] + A[2:, 1:-1] + A[:-2, 1:-1])
        A[1:-1, 1:-1] = 0.2 * (B[1:-1, 1:-1] + B[1:-1, :-2] + B[1:-1, 2:] + B[2:, 1:-1] + B[:-2, 1:-1])


@dace.program
def softmax(x: f32[M, N, K, K]):
    highest = np.maximum.reduce(x, axis=-1, keepdims=True, initial=-9999)
    e = np.exp(x - highest)
    total = np.add.reduce(e, axis=-1, keepdims=True)
    return e / total


@dace.program
def spmv(A_row: u32[M + 1], A_col: u32[NNZ], A_val: f64[NNZ], x: f64[N]):
    y = np.empty(M, A_val.dtype)
    for i in range(M):
        start = dace.define_local_scalar(dace.uint32)
        stop = dace.define_local_scalar(dace.uint32)
        start = A_row[i]
        stop = A_row[i + 1]
        columns = A_col[start:stop]
        values = A_val[start:stop]
        y[i] = values @ x[columns]
    return y


@dace.program
def spmv_maps(A_row: u32[M + 1], A_col: u32[NNZ], A_val: f64[NNZ], x: f64[N]):
    y = np.zeros((M,), dtype=np.float64)
    for i in dace.map[0:M]:
        for j in dace.map[A_row[i] : A_row[i + 1]]:
            y[i] += A_val[j] * x[A_col[j]]
    return y


@dace.program
def symm(alpha: f64, beta: f64, C: f64[M, N], A: f64[M, M], B: f64[M, N]):
    below = np.empty((N,), dtype=C.dtype)
    C *= beta
    for i in range(M):
        for j in range(N):
            C[:i, j] += alpha * B[i, j] * A[i, :i]
            below[j] = B[:i, j] @ A[i, :i]
        C[i, :] += alpha * B[i, :] * A[i, i] + alpha * below


@dace.program
def syr2k(alpha: f64, beta: f64, C: f64[N, N], A: f64[N, M], B: f64[N, M]):
    for i in range(N):
        C[i, : i + 1] *= beta
        for k in range(M):
            C[i, : i + 1] += A[: i + 1, k] * alpha * B[i, k] + B[: i + 1, k] * alpha * A[i, k]


@dace.program
def syrk(alpha: f64, beta: f64, C: f64[N, N], A: f64[N, M]):
    for i in range(N):
        C[i, : i + 1] *= beta
        for k in range(M):
            C[i, : i + 1] += alpha * A[i, k] * A[: i + 1, k]


@dace.program
def trisolv(L: f64[N, N], x: f64[N], b: f64[N]):
    for i in range(N):
        x[i] = (b[i] - L[i, :i] @ x[:i]) / L[i, i]


@dace.program
def trmm(alpha: f64, A: f64[M, M], B: f64[M, N]):
    for i in range(M):
        for j in range(N):
            B[i, j] += np.dot(A[i + 1 :, i], B[i + 1 :, j])
    B *= alpha
