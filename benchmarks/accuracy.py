"""Largest error of the compiled elementary functions, in ulps of the correctly rounded result.

usage: python benchmarks/accuracy.py [--points 400000] [--markdown docs/accuracy.md]

For each function, dtype and instruction set: a loop under `simd` (where up to 4 ulp are allowed) and the same loop under
`sequential for` (at most 1 ulp). The reference is NumPy's long double (64-bit significand) or, where that
has no such function, mpmath on fewer points.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

# name -> (lower, upper) of the range that is sampled; the domain's ends themselves are tried too.
FUNCTIONS = {
    "exp": (-750, 710), "exp2": (-1080, 1024), "expm1": (-45, 710), "log": (0, 1e308), "log2": (0, 1e308),
    "log10": (0, 1e308), "log1p": (-1, 1e308), "sin": (-1e6, 1e6), "cos": (-1e6, 1e6), "tan": (-1e6, 1e6),
    "arcsin": (-1, 1), "arccos": (-1, 1), "arctan": (-1e300, 1e300), "sinh": (-711, 711), "cosh": (-711, 711),
    "tanh": (-25, 25), "arcsinh": (-1e308, 1e308), "arccosh": (1, 1e308), "arctanh": (-1, 1), "cbrt": (-1e300, 1e300),
    "sqrt": (0, 1e308), "erf": (-6, 6), "erfc": (-6, 26), "gamma": (0.1, 170),
}  # fmt: skip
# Not in NumPy: of Python floats, so that there is nothing in f32.
MATH = {"erf": "math.erf", "erfc": "math.erfc", "gamma": "math.gamma"}
EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, np.inf, -np.inf, np.nan, 1e-300, 5e-324, 1e-40, 709.79, -745.2, 89.5)
TEMPLATE = """
def kernel(x, out):
    # pragma {pragma}
    for i in range(len(x)):
        out[i] = {call}(x[i])
"""


def points(name, dtype, count):
    """Uniform over the range and around 0 and 1, uniform over the exponents, and the edges."""
    low, high = FUNCTIONS[name]
    largest = float(np.finfo(dtype).max)
    low, high = max(low, -largest), min(high, largest)
    rng = np.random.default_rng(1)
    near = [rng.uniform(max(low, -r), min(high, r), count // 8) for r in (1e5, 1000, 20, 3, 2, 1) if low < r]
    smallest = float(np.finfo(dtype).tiny) / 1024
    size = np.exp(rng.uniform(np.log(smallest), np.log(max(abs(low), abs(high))), count // 4))
    x = np.concatenate([rng.uniform(low / 2, high / 2, count // 8) * 2, *near, size * rng.choice([-1, 1], len(size))])
    x = x[(x >= low) & (x <= high)]
    edges = np.array(EDGES if name not in MATH else [v for v in EDGES if low <= v <= high])
    with np.errstate(over="ignore"):
        return np.concatenate([edges, x]).astype(dtype)


def reference(name, x):
    """The points and their results in long double."""
    with np.errstate(all="ignore"):
        if name not in MATH:
            return x, getattr(np, name)(x.astype(np.longdouble))
    import mpmath

    mpmath.mp.prec = 90
    x = np.concatenate([x[: len(EDGES)], x[len(EDGES) :: max(1, len(x) // 8000)]])
    exact = [getattr(mpmath, name)(mpmath.mpf(float(v))) for v in x]
    heads = np.array([float(e) for e in exact], np.longdouble)
    tails = np.array([float(e - mpmath.mpf(float(h))) for e, h in zip(exact, heads)], np.longdouble)
    return x, np.where((heads == 0) & (x == 0), x, heads + tails)  # mpmath has no negative zero


def compiled(name, pragma):
    """The kernel of the function under the pragma."""
    import linecache
    import math

    import appy

    source = TEMPLATE.format(pragma=pragma, call=MATH.get(name, "np." + name))
    filename = f"<accuracy {name} {pragma}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    space = {"np": np, "math": math}
    exec(compile(source, filename, "exec"), space)
    return appy.jit(strict=True)(space["kernel"])


def error(got, exact):
    """Largest error in ulps of the rounded exact result; infinite where infinities, NaN or signs of zero differ."""
    largest, eps = np.longdouble(np.finfo(got.dtype).max), np.finfo(got.dtype).eps
    with np.errstate(all="ignore"):
        rounded = exact.astype(got.dtype)
        wrong = np.isnan(got) != np.isnan(rounded)
        # Next to the largest number both it and infinity are within the error.
        wrong |= (np.isinf(got) != np.isinf(rounded)) & ~(np.abs(np.abs(exact) / largest - 1) < 4 * eps)
        wrong |= (np.isinf(got) | (got == 0)) & (got == rounded) & (np.signbit(got) != np.signbit(rounded))
        ulps = np.abs(got.astype(np.longdouble) - exact) / np.spacing(np.abs(rounded)).astype(np.longdouble)
    return float("inf") if np.any(wrong) else float(np.max(ulps[np.isfinite(rounded) & np.isfinite(got)]))


def measure(count):
    """{function: {dtype: {pragma: ulps}}} for the instruction set of this process."""
    out = {}
    for name in FUNCTIONS:
        out[name] = {}
        for dtype in (np.float64,) if name in MATH else (np.float64, np.float32):
            x, exact = reference(name, points(name, dtype, count))
            row = {}
            for pragma in ("simd", "sequential for"):
                got = np.zeros_like(x)
                compiled(name, pragma)(x, got)
                row[pragma] = error(got, exact)
            out[name][np.dtype(dtype).name] = row
    return out


def table(results):
    lines = [
        "| function | "
        + " | ".join(f"{t} {isa} {p}" for isa in results for t in ("f64", "f32") for p in ("simd", "seq."))
        + " |"
    ]
    lines.append("|" + "---|" * (1 + 4 * len(results)))
    for name in FUNCTIONS:
        cells = []
        for isa in results:
            for dtype in ("float64", "float32"):
                row = results[isa][name].get(dtype)
                cells += [f"{row['simd']:.2f}", f"{row['sequential for']:.2f}"] if row else ["", ""]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=400_000)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--isa", help="measure this one and print JSON")
    options = parser.parse_args()
    if options.isa:
        print(json.dumps(measure(options.points)))
        return
    results = {}
    flags = Path("/proc/cpuinfo").read_text()
    for isa in ("avx2", "avx512") if "avx512dq" in flags else ("avx2",):
        command = [sys.executable, __file__, "--isa", isa, "--points", str(options.points)]
        done = subprocess.run(command, env={**os.environ, "APPY_ISA": isa}, capture_output=True, text=True, check=True)
        results[isa] = json.loads(done.stdout.splitlines()[-1])
    text = table(results)
    print(text)
    if options.markdown:
        options.markdown.write_text(
            "# Accuracy of the elementary functions\n\nLargest error found, in units in the last place of the correctly "
            "rounded result (0.5 is the best possible), by `python benchmarks/accuracy.py --markdown docs/accuracy.md`. "
            "*simd*: loops annotated `simd`, where up to 4 ulp are allowed; most functions are then polynomials that are "
            "compiled into the loop (`csrc/passes/expand_math.cpp`), the others SLEEF's. *seq.*: `sequential for` loops, "
            "with the C library's functions where glibc's are within 1 ulp, and SLEEF's or a wider type's where they are "
            "not (`csrc/cpu/math_accurate.cpp`); `exact=True` calls those that the interpreter calls. Infinities, NaN and "
            "the signs of zeros are right throughout: a wrong one would count as an "
            "infinite error. There is no column f32 for functions of Python floats.\n\n" + text + "\n"
        )


if __name__ == "__main__":
    main()
