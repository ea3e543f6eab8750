"""Largest error of the compiled elementary functions, in ulps of the correctly rounded result.

usage: python benchmarks/accuracy.py [--points 400000] [--markdown docs/accuracy.md]

For each function, dtype and instruction set: a loop under `simd` (where up to 4 ulp are allowed) and the same loop under
`sequential for` (1 ulp). The reference is NumPy's long double (64-bit significand) or, where that has no such function,
mpmath on fewer points. Points are uniform over the function's domain, over the exponents, and near its special points.
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
    "exp": (-700, 700), "exp2": (-1000, 1000), "expm1": (-40, 700), "log": (1e-300, 1e300), "log2": (1e-300, 1e300),
    "log10": (1e-300, 1e300), "log1p": (-0.999, 1e10), "sin": (-1e4, 1e4), "cos": (-1e4, 1e4), "tan": (-1e4, 1e4),
    "arcsin": (-1, 1), "arccos": (-1, 1), "arctan": (-1e6, 1e6), "sinh": (-700, 700), "cosh": (-700, 700),
    "tanh": (-20, 20), "arcsinh": (-1e6, 1e6), "arccosh": (1, 1e6), "arctanh": (-0.9999, 0.9999), "cbrt": (-1e30, 1e30),
    "sqrt": (0, 1e300), "erf": (-6, 6), "erfc": (-6, 25), "gamma": (0.1, 170), "lgamma": (0.1, 1e6),
}  # fmt: skip
MATH = {"erf": "math.erf", "erfc": "math.erfc", "gamma": "math.gamma", "lgamma": "math.lgamma"}
TEMPLATE = """
def kernel(x, out):
    # pragma {pragma}
    for i in range(len(x)):
        out[i] = {call}(x[i])
"""


def points(name, dtype, count):
    low, high = FUNCTIONS[name]
    if dtype == np.float32:
        low, high = max(low, -1e4 if "1e" in repr(low) else -80), min(high, 80 if high < 1e5 else 1e6)
        low = max(low, 1e-30) if name.startswith("log") and name != "log1p" or name == "sqrt" else low
    rng = np.random.default_rng(1)
    uniform = rng.uniform(low, high, count // 2)
    size = np.exp(rng.uniform(np.log(1e-20), np.log(max(abs(low), abs(high))), count // 2))
    signs = np.where(rng.uniform(size=count // 2) < 0.5, -1, 1)
    x = np.concatenate([uniform, size * signs]).astype(dtype)
    return x[(x >= low) & (x <= high)]


def reference(name, x):
    """Long double results, and the points they belong to."""
    if name in MATH:
        import mpmath

        mpmath.mp.prec = 90
        x = x[:: max(1, len(x) // 4000)]
        function = {"lgamma": mpmath.loggamma}.get(name) or getattr(mpmath, name)
        exact = [function(mpmath.mpf(float(v))) for v in x]
        heads = np.array([float(e) for e in exact], np.longdouble)
        tails = np.array([float(e - mpmath.mpf(float(h))) for e, h in zip(exact, heads)], np.longdouble)
        return x, heads + tails
    return x, getattr(np, name)(x.astype(np.longdouble))


def measure(count):
    """{function: {dtype: {pragma: ulps}}} for the instruction set of this process."""
    import linecache

    import appy

    out = {}
    for name in FUNCTIONS:
        out[name] = {}
        for dtype in (np.float64, np.float32):
            x, exact = reference(name, points(name, dtype, count))
            row = {}
            for pragma in ("simd", "sequential for"):
                source = TEMPLATE.format(pragma=pragma, call=MATH.get(name, "np." + name))
                filename = f"<accuracy {name} {pragma}>"
                linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
                space = {"np": np, "math": __import__("math")}
                exec(compile(source, filename, "exec"), space)
                got = np.zeros_like(x)
                appy.jit(strict=True)(space["kernel"])(x, got)
                rounded = exact.astype(dtype)
                fine = np.isfinite(rounded) & (np.abs(rounded) >= np.finfo(dtype).tiny)
                ulp = np.spacing(np.abs(rounded[fine])).astype(np.longdouble)
                row[pragma] = float(np.max(np.abs(got[fine].astype(np.longdouble) - exact[fine]) / ulp))
            out[name][np.dtype(dtype).name] = row
    return out


def table(results):
    lines = ["| function | " + " | ".join(f"{t} {isa} {p}" for isa in results for t in ("f64", "f32") for p in ("simd", "seq.")) + " |"]
    lines.append("|" + "---|" * (1 + 4 * len(results)))
    for name in FUNCTIONS:
        cells = []
        for isa in results:
            for dtype in ("float64", "float32"):
                row = results[isa][name][dtype]
                cells += [f"{row['simd']:.2f}", f"{row['sequential for']:.2f}"]
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
            "# Accuracy of the elementary functions\n\nLargest error found, in ulps of the correctly rounded result "
            "(`python benchmarks/accuracy.py --markdown docs/accuracy.md`): in loops annotated `simd`, where up to 4 ulp "
            "are allowed, and in `sequential for` loops.\n\n" + text + "\n"
        )


if __name__ == "__main__":
    main()
