"""Prints the coefficient tables of csrc/passes/expand_math_tables.h: minimax polynomials by Remez' exchange algorithm.

usage: python scripts/fit_polynomials.py | clang-format > csrc/passes/expand_math_tables.h      (needs mpmath)

Each row of FITS states the function that a polynomial replaces, on which interval, and by how much an error of the
polynomial moves the final result, relative to it (the weight). What is printed as `error` is the largest weighted error
in units of 2**-53 (f64) or 2**-24 (f32), before the coefficients are rounded.
"""

from __future__ import annotations

import sys

import mpmath as mp
import numpy as np

mp.mp.dps = 60
LN2_HALF = mp.log(2) / 2 * mp.mpf("1.0001")
FIFTH = mp.mpf("0.20002")  # s = f / (2 + f) is between -1/7 and 1/5 for 1 + f in [3/4, 3/2)


def remainder(f, head, power, below=mp.mpf("1e-4"), order=12):
    """(f(x) - head(x)) / x**power without cancellation near 0."""
    taylor = mp.taylor(f, 0, order + power)[power:]
    return lambda x: mp.polyval(taylor[::-1], x) if abs(x) < below else (f(x) - head(x)) / x**power


def in_square(f, below=mp.mpf("1e-6")):
    """g with g(x*x) = f(x), where f is even and given away from 0 only."""
    return lambda z: f(mp.sqrt(z) if z > below * below else below)


def t_of_erf(x):
    """-log(erfc(x)) / x"""
    return -mp.log(mp.erfc(x)) / x if x > mp.mpf("1e-12") else 2 / mp.sqrt(mp.pi)


exp_q = remainder(mp.exp, lambda x: 1 + x, 2)
log_r = in_square(lambda s: (mp.log((1 + s) / (1 - s)) / s - 2) / s**2, mp.mpf("1e-8"))
sin_p = in_square(lambda x: (mp.sin(x) / x - 1) / x**2, mp.mpf("1e-8"))
atan_p = in_square(lambda x: (mp.atan(x) / x - 1) / x**2, mp.mpf("1e-8"))
asin_p = in_square(lambda x: (mp.asin(x) / x - 1) / x**2, mp.mpf("1e-8"))
tan_p = in_square(lambda x: (mp.tan(x) / x - 1) / x**2, mp.mpf("1e-8"))
HALF_PI = mp.pi / 2 * mp.mpf("1.0001")

# name: (function, interval, weight, {dtype: degree})
FITS = {
    # exp(r) = 1 + r + r**2 * q(r)
    "exp": (exp_q, (-LN2_HALF, LN2_HALF), lambda r: r * r / mp.exp(r), {"f64": 9, "f32": 4}),
    # expm1(r) = r + r**2 * q(r), in relative terms also near 0
    "expm1": (exp_q, (-LN2_HALF, LN2_HALF), lambda r: r if abs(r) < 1e-9 else r * r / mp.expm1(r), {"f64": 10, "f32": 5}),
    # exp2(r) = 1 + r * q(r)
    "exp2": (
        remainder(lambda r: mp.mpf(2) ** r, lambda r: 1, 1), (-mp.mpf("0.50005"), mp.mpf("0.50005")),
        lambda r: r / mp.mpf(2) ** r, {"f64": 10, "f32": 5},
    ),
    # log((1 + s) / (1 - s)) = 2 * s + s**3 * r(s**2)
    "log": (log_r, (0, FIFTH**2), lambda z: z / 2, {"f64": 6, "f32": 2}),
    # erf(x) = -expm1(-x * p(x)) for x >= 0
    "erf": (
        t_of_erf, (0, mp.mpf("5.95")), lambda x: x * mp.erfc(x) / mp.erf(x) if x > 0 else mp.sqrt(mp.pi) / 2,
        {"f64": 23, "f32": 8},
    ),
    # sin(x) = x + x**3 * p(x**2) up to pi / 2
    "sin": (sin_p, (0, HALF_PI**2), lambda z: z * mp.sqrt(z) / mp.sin(mp.sqrt(z)) if z > 0 else 0, {"f64": 8, "f32": 4}),
    # tan(x) = x + x**3 * p(x**2) up to pi / 8
    "tan": (
        tan_p, (0, HALF_PI**2 / 16), lambda z: z * mp.sqrt(z) / mp.tan(mp.sqrt(z)) if z > 0 else 0, {"f64": 8, "f32": 3},
    ),
    # atan(x) = x + x**3 * p(x**2) up to 1
    "atan": (atan_p, (0, 1), lambda z: z * mp.sqrt(z) / mp.atan(mp.sqrt(z)) if z > 0 else 0, {"f64": 18, "f32": 7}),
    # asin(x) = x + x**3 * p(x**2) up to 1/2
    "asin": (
        asin_p, (0, mp.mpf("0.2501")), lambda z: z * mp.sqrt(z) / mp.asin(mp.sqrt(z)) if z > 0 else 0,
        {"f64": 11, "f32": 4},
    ),
    # 1 / cbrt(x), where a step starts whose terms shrink with the error
    "cbrt": (
        lambda x: 1 / mp.cbrt(x), (mp.mpf("0.3749"), mp.mpf("3.001")), mp.cbrt,
        {"f64": 6, "f32": 4},
    ),
}  # fmt: skip


def remez(f, interval, weight, degree):
    """Coefficients, constant first, of the polynomial whose weighted error is least, and that error."""
    a, b = mp.mpf(interval[0]), mp.mpf(interval[1])
    n = degree + 2
    grid = [(a + b) / 2 + (b - a) / 2 * mp.cos(mp.pi * (k + mp.mpf(1) / 2) / (40 * n)) for k in range(40 * n)][::-1]
    values, weights = [f(x) for x in grid], [weight(x) for x in grid]
    picks = [round((k + 0.5) * (len(grid) - 1) / n) for k in range(n)]
    for _ in range(60):
        rows, right = mp.matrix(n, n), mp.matrix(n, 1)
        for i, k in enumerate(picks):
            for j in range(degree + 1):
                rows[i, j] = grid[k] ** j * weights[k]
            rows[i, degree + 1] = (-1) ** i
            right[i] = values[k] * weights[k]
        solution = mp.lu_solve(rows, right)
        c = [solution[j] for j in range(degree + 1)]
        errors = [(mp.polyval(c[::-1], x) - v) * w for x, v, w in zip(grid, values, weights)]
        # The extremum of each run of one sign; then the n neighbours whose smallest is largest.
        runs = []
        for k, e in enumerate(errors):
            if runs and (errors[runs[-1]] < 0) == (e < 0):
                if abs(e) > abs(errors[runs[-1]]):
                    runs[-1] = k
            else:
                runs.append(k)
        while len(runs) > n:
            runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
        if len(runs) < n:
            break
        worst, least = max(abs(errors[k]) for k in runs), min(abs(errors[k]) for k in runs)
        picks = runs
        if worst < least * mp.mpf("1.02"):
            break
    return c, max(abs(e) for e in errors)


def rounded(value, dtype):
    return float(value) if dtype == "f64" else float(np.float32(float(value)))


def parts(value, dtype, count, below=False):
    """The number as a sum of `count` numbers of the type, each the nearest to what is left, or `below` it the first."""
    out = []
    for _ in range(count):
        out.append(rounded(value, dtype))
        if below and not out[1:] and out[0] > value:
            out[0] = float(
                np.nextafter(out[0], 0) if dtype == "f64" else np.nextafter(np.float32(out[0]), np.float32(0))
            )
        value -= mp.mpf(out[-1])
    return out


def constants():
    for bits in (64, 32):
        dtype = f"f{bits}"
        for name, low, value in (
            (f"kLn2High{bits}", f"kLn2Low{bits}", mp.log(2)),
            (f"kLog2EHigh{bits}", f"kLog2ELow{bits}", 1 / mp.log(2)),
            (f"kLog10E{bits}", f"kLog10ELow{bits}", 1 / mp.log(10)),
            (f"kLog10Of2{bits}", f"kLog10Of2Low{bits}", mp.log(2) / mp.log(10)),
        ):
            # Those that are multiplied with a logarithm's exponent: see expand_math_log.cpp.
            below = name.startswith(("kLn2", "kLog10Of2"))
            for label, part in zip((name, low), parts(value, dtype, 2, below)):
                yield f"inline constexpr double {label} = {part.hex()};"
        for name, value, count in (("kPi", mp.pi, 3), ("kHalfPi", mp.pi / 2, 3)):
            yield f"inline constexpr double {name}{bits}[] = {{{', '.join(v.hex() for v in parts(value, dtype, count))}}};"
    yield f"inline constexpr double kLog2E = {float(1 / mp.log(2)).hex()};"


HEADER = """\
// Minimax coefficients, constant first, and constants in parts. Generated by scripts/fit_polynomials.py, which states what
// each table approximates; do not edit. `error` is in units of 2**-53 (f64) or 2**-24 (f32) of the final result.
#pragma once

namespace appy::passes {
"""


def main():
    wanted = sys.argv[1:] or list(FITS)
    print(HEADER)
    print("\n".join(constants()) + "\n")
    for name in wanted:
        f, interval, weight, degrees = FITS[name]
        for dtype, degree in degrees.items():
            c, error = remez(f, interval, weight, degree)
            print(f"// {name}, {dtype}: error {mp.nstr(error * 2 ** (53 if dtype == 'f64' else 24), 2)}")
            print(f"inline constexpr double k_{name}_{dtype}[] = {{")
            print("\n".join(f"    {rounded(v, dtype).hex()}," for v in c))
            print("};\n", flush=True)
    print("}  // namespace appy::passes")


if __name__ == "__main__":
    main()
