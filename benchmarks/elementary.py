"""Elementary functions over arrays that stay in the cache: nanoseconds an element on one thread, and largest errors.

usage: python benchmarks/elementary.py [--only exp,log] [--rounds 30] [--points 40000] [--markdown FILE]

appy: a loop under `simd`. C: the loop that gcc compiles with -O3 -ffast-math -march=native, which calls libmvec where it
has the function. NumPy: the ufunc with out=. Each figure is the fastest of the rounds, the sides taking turns. The errors
are ulps of the correctly rounded result, as accuracy.py measures them.
"""

from __future__ import annotations

import argparse
import ctypes
import tempfile
import time
from pathlib import Path

import accuracy
import numpy as np
from sides import c_library

N = 4096
C_NAMES = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh",
           "arctanh": "atanh", "gamma": "tgamma"}  # fmt: skip
RANGES = {"arcsin": (-1, 1), "arccos": (-1, 1), "arctanh": (-1, 1), "log": (0, 100), "log2": (0, 100),
          "log10": (0, 100), "log1p": (-1, 100), "sqrt": (0, 100), "arccosh": (1, 100), "gamma": (0.1, 20)}  # fmt: skip


def compiled_by_gcc(folder):
    """f_<function>_<bits>(n, x, out) for every function."""
    lines = ["#include <math.h>"]
    for name in accuracy.FUNCTIONS:
        for bits, kind, suffix in ((64, "double", ""), (32, "float", "f")):
            call = C_NAMES.get(name, name) + suffix
            lines.append(
                f"void f_{name}_{bits}(long n, const {kind} *restrict x, {kind} *restrict out) "
                f"{{ for (long i = 0; i < n; i++) out[i] = {call}(x[i]); }}"
            )
    source = Path(folder) / "f.c"
    source.write_text("\n".join(lines))
    return c_library(source, source.parent)


def sides(name, dtype, library):
    """The calls to time."""
    low, high = RANGES.get(name, (-10, 10))
    x = np.random.default_rng(2).uniform(low, high, N).astype(dtype)
    out = np.empty_like(x)
    kernel = accuracy.compiled(name, "simd")
    function = getattr(library, f"f_{name}_{8 * x.itemsize}")
    arguments = ctypes.c_long(N), ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(out.ctypes.data)
    calls = {"appy": lambda: kernel(x, out), "C": lambda: function(*arguments)}
    if name not in accuracy.MATH:
        calls["NumPy"] = lambda: getattr(np, name)(x, out=out)
    return calls


def fastest(calls, rounds):
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for side, call in calls.items():
            call()
            start = time.perf_counter()
            for _ in range(5):
                call()
            best[side] = min(best[side], (time.perf_counter() - start) / 5)
    return {side: seconds / N * 1e9 for side, seconds in best.items()}


def errors(name, dtype, count):
    """Ulps of appy in a `simd` loop, and of NumPy where it has the function."""
    x, exact = accuracy.reference(name, accuracy.points(name, dtype, count))
    out = np.zeros_like(x)
    accuracy.compiled(name, "simd")(x, out)
    ulps = [accuracy.error(out, exact)]
    if name not in accuracy.MATH:
        with np.errstate(all="ignore"):
            ulps.append(accuracy.error(getattr(np, name)(x), exact))
    return ulps


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(accuracy.FUNCTIONS))
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--points", type=int, default=40_000)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    names = ("appy", "C", "NumPy", "ulp appy", "ulp NumPy")
    lines = ["| function | f64 " + " | ".join(names) + " | f32 " + " | ".join(names) + " |", "|" + "---|" * 11]
    kinds = [
        (n, t) for n in options.only for t in (np.float64, np.float32) if t is np.float64 or n not in accuracy.MATH
    ]
    ulps = {(name, dtype): errors(name, dtype, options.points) for name, dtype in kinds}
    with tempfile.TemporaryDirectory() as folder:
        library = compiled_by_gcc(folder)
        for name in options.only:
            cells = []
            for dtype in (np.float64, np.float32):
                if (name, dtype) not in ulps:
                    cells += [""] * len(names)
                    continue
                times = fastest(sides(name, dtype, library), options.rounds)
                cells += [f"{times[side]:.2f}" if side in times else "" for side in ("appy", "C", "NumPy")]
                cells += [f"{ulp:.2f}" for ulp in ulps[name, dtype]] + [""] * (2 - len(ulps[name, dtype]))
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
    if options.markdown:
        options.markdown.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
