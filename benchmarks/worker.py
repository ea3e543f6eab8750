"""One side of a comparison in a process of its own: prepares a case, and times it when told. Driven by run.py.

usage: python worker.py SIDE FOLDER SUITE   with SIDE one of appy, c, numba, numpy and SUITE a module of kernels/;
requests and answers are pickles on pipes.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "kernels"), str(HERE.parent)]

C_FLAGS = ("-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC")


def _pointer(a):
    return ctypes.c_void_p(a.ctypes.data)


def c_functions(folder: Path):
    """loops.c compiled on the spot, with each function taking the arguments of its Python namesake."""
    library = folder / "loops.so"
    source = HERE / "kernels" / "loops.c"
    subprocess.run(["gcc", *C_FLAGS, str(source), "-o", str(library), "-lm"], check=True)
    lib = ctypes.CDLL(str(library))
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
        "triad": lambda a, b, c: lib.triad(i64(len(a)), p(a), p(b), p(c)),
    }


def functions(side: str, folder: Path, suite):
    if side == "c":
        return c_functions(folder)
    if side == "numpy":
        return suite.NUMPY
    if side == "numba":
        return vars(importlib.import_module(f"{suite.__name__}_numba"))
    import appy

    return {name: appy.jit(strict=True)(getattr(suite, name)) for name in suite.CASES}


class Side:
    def __init__(self, side: str, folder: Path, suite) -> None:
        self.functions = functions(side, folder, suite)
        self.suite = suite
        self.call = None

    def prepare(self, name):
        """Makes the case's data and runs it once; the result, the written arguments and the first call's seconds."""
        function = self.functions.get(name)
        if function is None:
            return None
        if name == "triad":
            args = tuple(np.ones(self.suite.N) for _ in range(3))
        else:
            args = self.suite.CASES[name]()
        start = time.perf_counter()
        result = function(*args)
        first = time.perf_counter() - start
        self.call = lambda: function(*args)
        return result, [a.copy() for a in args if isinstance(a, np.ndarray)], first

    def time(self, calls):
        """Seconds a call, over that many calls in a row after one that warms caches and threads."""
        call = self.call
        call()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return (time.perf_counter() - start) / calls


def main():
    side = Side(sys.argv[1], Path(sys.argv[2]), importlib.import_module(sys.argv[3]))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not mix with the answers
    while True:
        try:
            verb, argument = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(getattr(side, verb)(argument), answers)
        answers.flush()


if __name__ == "__main__":
    main()
