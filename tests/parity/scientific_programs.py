"""The kernels of the benchmarks (benchmarks/scientific/), registered: array statements, and loops as `<name>_loops`.

Signs, values near zero and types are more varied here than in the data of the benchmarks.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from array_programs import matrices, sparse
from kernel_programs import with_numbers
from registry import FLOATS, program, values

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "benchmarks"))

from scientific import appy_arrays, appy_loops, reference  # noqa: E402, F401
from scientific.kernels import KERNELS  # noqa: E402
from scientific.results import agree, outcome  # noqa: E402, F401


def as_defined(name):
    """The data of the benchmarks, in another type."""

    def make(dtype, rng):
        return tuple(a.astype(dtype) if isinstance(a, np.ndarray) else a for a in KERNELS[name].arguments("tiny"))

    return make


def ring_data(dtype, rng):
    return values(rng, dtype, 400), np.abs(values(rng, dtype, 400)), 7


def distances(dtype, rng):
    return (np.abs(values(rng, dtype, 20, 20)) * 50 + 1,)


def columns(dtype, rng):
    ptr, col, val, b, _ = sparse(dtype, rng)
    return ptr, col, val, b[:, 0].copy()


def register(name, make, dtypes=FLOATS, **tolerance):
    options = appy_arrays.OPTIONS.get(name)
    program(make, dtypes=dtypes, options=options, **tolerance)(getattr(appy_arrays, name))
    program(make, dtypes=dtypes, suffix="_loops", **tolerance)(getattr(appy_loops, name))


register("azimint_naive", ring_data, dtypes=("float64",), scale=8.0, ulps=32)
register("cholesky", as_defined("cholesky"), scale=64.0, ulps=32)
register("covariance", lambda dtype, rng: (17, 30.0, values(rng, dtype, 30, 17)), scale=60.0)
register("fdtd_2d", with_numbers(3, shapes=[(20, 21), (20, 21), (20, 21), (3,)]), scale=16.0)
register("floyd_warshall", distances, dtypes=(*FLOATS, "int32"))
register("gemm", with_numbers(1.5, 1.2, shapes=[(17, 19), (17, 23), (23, 19)]), scale=64.0)
register("gemver", with_numbers(1.5, 1.25, shapes=[(30, 30)] + 8 * [(30,)]), scale=2000.0)
register("gesummv", with_numbers(1.5, 1.25, shapes=[(40, 40), (40, 40), (40,)]), scale=100.0)
register("go_fast", matrices((25, 25)), scale=64.0)
register("gramschmidt", as_defined("gramschmidt"), scale=64.0, ulps=64)
register("hdiff", matrices((16, 17, 5), (12, 13, 5), (12, 13, 5)), scale=64.0, ulps=32)
register("heat_3d", with_numbers(3, shapes=[(12, 13, 14), (12, 13, 14)]), scale=16.0)
register("jacobi_1d", with_numbers(4, shapes=[(90,), (90,)]), scale=8.0)
register("jacobi_2d", with_numbers(4, shapes=[(30, 31), (30, 31)]), scale=8.0)
register("softmax", matrices((3, 4, 6, 37)), ulps=16, scale=2.0)
register("spmv", columns, scale=20.0)
register("symm", with_numbers(1.5, 1.2, shapes=[(17, 22), (17, 17), (17, 22)]), scale=64.0)
register("syr2k", with_numbers(1.5, 1.2, shapes=[(20, 20), (20, 12), (20, 12)]), scale=60.0)
register("syrk", with_numbers(1.5, 1.2, shapes=[(20, 20), (20, 12)]), scale=60.0)
register("trisolv", as_defined("trisolv"), scale=64.0, ulps=64)
register("trmm", with_numbers(1.5, shapes=[(20, 20), (20, 22)]), scale=60.0)
