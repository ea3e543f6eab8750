"""The sides of a comparison: SIDES[name](suite, folder) gives a function from a case's name to what is to be called, or
to None where the side does not have it. `folder` is for what has to be compiled.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import inspect
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

KERNELS = Path(__file__).parent / "kernels"
C_FLAGS = ("-O3", "-march=native", "-ffast-math", "-fopenmp", "-fPIC")


def compile_c(source: Path, folder: Path) -> Path:
    """The library that gcc makes of `source`; gcc may be missing or fail: OSError, CalledProcessError."""
    # Under a name of this process's own until it is whole: several may share the folder.
    compiled, linked = (folder / f"{source.stem}.{os.getpid()}.{kind}" for kind in ("o", "so"))
    subprocess.run(["gcc", *C_FLAGS, "-c", str(source), "-o", str(compiled)], check=True)
    # Apart, since gcc 12 given -ffast-math links what turns subnormal numbers off in the thread that loads the library.
    subprocess.run(["gcc", "-shared", "-fopenmp", str(compiled), "-o", str(linked), "-lm"], check=True)
    return linked.replace(folder / f"{source.stem}.so")


def c_library(source: Path, folder: Path) -> ctypes.CDLL:
    """`source` compiled on the spot; errors as of compile_c."""
    return ctypes.CDLL(str(compile_c(source, folder)))


def _pointer(a):
    return ctypes.c_void_p(a.ctypes.data)


def c(suite, folder: Path):
    """loops.c compiled on the spot, with each function taking the arguments of its Python namesake."""
    lib = c_library(KERNELS / "loops.c", folder)
    i64, f64, p = ctypes.c_int64, ctypes.c_double, _pointer

    def returning(name, kind):
        getattr(lib, name).restype = kind
        return getattr(lib, name)

    dot, total, product = (returning(n, f64) for n in ("dot", "total", "product"))
    largest, pi, argmin = returning("largest", f64), returning("pi", f64), returning("argmin", i64)
    one_to_one = lambda f: lambda x, y: f(i64(len(x)), p(x), p(y))  # noqa: E731
    return {
        "saxpy": lambda a, x, y: lib.saxpy(f64(a), i64(len(x)), p(x), p(y)),
        "dot": one_to_one(dot),
        "total": lambda x: total(i64(len(x)), p(x)),
        "product": lambda x: product(i64(len(x)), p(x)),
        "largest": lambda x: largest(i64(len(x)), p(x)),
        "argmin": lambda x: argmin(i64(len(x)), p(x)),
        "prefix_sum": one_to_one(lib.prefix_sum),
        "spmv": lambda ptr, idx, val, x, y: lib.spmv(i64(len(y)), p(ptr), p(idx), p(val), p(x), p(y)),
        "spmm": lambda ptr, idx, val, B, C: lib.spmm(i64(len(C)), i64(C.shape[1]), p(ptr), p(idx), p(val), p(B), p(C)),
        "histogram": one_to_one(lib.histogram),
        "mandelbrot": lambda limit, out: lib.mandelbrot(i64(out.shape[0]), i64(out.shape[1]), i64(limit), p(out)),
        "collatz": lambda steps: lib.collatz(i64(len(steps)), p(steps)),
        "black_scholes": lambda *a: lib.black_scholes(i64(len(a[0])), *(p(x) for x in a)),
        "pi": lambda n: pi(i64(n)),
        "floyd_warshall": lambda path: lib.floyd_warshall(i64(len(path)), p(path)),
        "jacobi_1d": one_to_one(lib.jacobi_1d),
        "jacobi_2d": lambda A, B: lib.jacobi_2d(i64(A.shape[0]), i64(A.shape[1]), p(A), p(B)),
        "jacobi_3d": lambda A, B: lib.jacobi_3d(*(i64(n) for n in A.shape), p(A), p(B)),
        "periodic": one_to_one(lib.periodic),
        "guarded": one_to_one(lib.guarded),
        "vector_add": lambda a, b, c: lib.vector_add(i64(len(a)), p(a), p(b), p(c)),
        "chain": lambda a, b, c, out: lib.chain(i64(len(a)), p(a), p(b), p(c), p(out)),
        "triad": lambda a, b, c: lib.triad(i64(len(a)), p(a), p(b), p(c)),
        "triad_streaming": lambda a, b, c: lib.triad_streaming(i64(len(a)), p(a), p(b), p(c)),
    }.get


def appy(suite, folder: Path):
    import appy as library

    return lambda name: library.jit(strict=True)(getattr(suite, name))


def numpy(suite, folder: Path):
    return suite.NUMPY.get


def numba(suite, folder: Path):
    """Loops as one writes them for Numba."""
    return vars(importlib.import_module(f"{suite.__name__}_numba")).get


def numba_arrays(suite, folder: Path):
    """The suite's own array statements, compiled by Numba."""
    from numba import njit
    from numba.core.errors import NumbaError

    def find(name):
        compiled = njit(parallel=True, fastmath=True)(suite.NUMPY[name])
        try:
            compiled(*suite.CASES[name]())
        except (NumbaError, AssertionError):  # what it cannot type, or takes for shapes that differ
            return None
        return compiled

    return find


def pythran_type(value) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{','.join(':' * value.ndim)}]"
    return type(value).__name__


def pythran(suite, folder: Path):
    """The suite's own array statements, compiled by Pythran, each function as a module."""

    def find(name):
        function = suite.NUMPY[name]
        types = ", ".join(pythran_type(value) for value in suite.CASES[name]())
        source, library = folder / f"pythran_{name}.py", folder / f"pythran_{name}.so"
        source.write_text(f"#pythran export {name}({types})\nimport numpy as np\n\n{inspect.getsource(function)}")
        flags = ["-O3", "-march=native", "-ffast-math", "-fopenmp", "-DUSE_XSIMD"]
        command = [sys.executable, "-m", "pythran.run", str(source), "-o", str(library), *flags]
        if subprocess.run(command, capture_output=True).returncode:
            return None
        spec = importlib.util.spec_from_file_location(source.stem, library)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, name)

    return find


def numexpr(suite, folder: Path):
    return vars(importlib.import_module(f"{suite.__name__}_numexpr")).get


SIDES = {f.__name__: f for f in (appy, c, numba, numba_arrays, numpy, pythran, numexpr)}
NEEDS = {"numba_arrays": "numba"}  # the package where it is not the side's name
