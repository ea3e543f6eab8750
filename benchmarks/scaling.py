"""How the kernels scale with threads, and what five of them cost by size.

usage: python benchmarks/scaling.py [--preset M] [--threads 1,2,4,8,16] [--only heat_3d,gemm] [--rounds 7]
           [--limit SECONDS] [--json FILE]
       python benchmarks/scaling.py --sizes [--largest 100000000] [--rounds 7] [--json FILE]

The first form runs each kernel of `scientific/` in both models with each number of threads, in turns, on fresh copies of
what it writes; the model that is faster with most threads goes into the table: the median with one thread, the median of
the paired speed-ups, and the parallel efficiency, the last speed-up over its threads. `triad` is a[:] = b + 3 * c on
three arrays of 64 MB, which shows what the memory allows. More threads than processors are left out.

The second form times statements of 100 to 100 million elements, compiled and plain, and gives nanoseconds an element and
the size from which appy is faster; the plain side is NumPy.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
if "PYTHONPATH" not in os.environ:
    sys.path.insert(0, str(HERE.parent))

import figures  # noqa: E402
from scientific import appy_arrays, appy_loops  # noqa: E402
from scientific.kernels import KERNELS  # noqa: E402

import appy  # noqa: E402

SIZES = tuple(10**k for k in range(2, 9))


def triad(a, b, c):
    # pragma 0=>parallel,simd
    a[:] = b + 3 * c


def add(n, x, y, z):
    # pragma 0=>parallel,simd
    z[:] = x + y


def exponential(n, x, y, z):
    # pragma 0=>parallel,simd
    z[:] = np.exp(x)


def total(n, x, y, z):
    # pragma 0=>parallel,simd,reduction(sum)
    s = np.sum(x)
    return s


def three_points(n, x, y, z):
    # pragma 0=>parallel,simd
    z[1:-1] = 0.25 * x[:-2] + 0.5 * x[1:-1] + 0.25 * x[2:]


def row_sums(n, x, y, z):
    side = int(n**0.5)
    # pragma 0=>parallel 1=>reduction(sum)
    z[:side] = np.sum(x[: side * side].reshape(side, side), axis=1)


BY_SIZE = {f.__name__: f for f in (add, exponential, total, three_points, row_sums)}


class Version:
    """One kernel in one model with one number of threads."""

    def __init__(self, function, threads, arguments, written, options):
        self.call = appy.jit(strict=True, threads=threads, **options)(function)
        self.arguments = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        self.fresh = [(self.arguments[i], self.arguments[i].copy()) for i in written]
        self.seconds()

    def seconds(self):
        for array, content in self.fresh:
            array[...] = content
        start = time.perf_counter()
        self.call(*self.arguments)
        return time.perf_counter() - start


def models(name):
    """Model to function and options."""
    return {
        module.__name__.rpartition("_")[2]: (getattr(module, name), getattr(module, "OPTIONS", {}).get(name, {}))
        for module in (appy_loops, appy_arrays)
        if hasattr(module, name)
    }


def paired(versions, threads, rounds):
    """Seconds by threads, one a round; each round has all of them, there and back."""
    times = {n: [] for n in threads}
    for r in range(rounds):
        for n in threads if r % 2 == 0 else reversed(threads):
            versions[n].seconds()  # warms its threads and caches
            times[n].append(versions[n].seconds())
    return {n: np.array(t) for n, t in times.items()}


def scale(name, threads, rounds, preset, limit):
    if name == "triad":
        arguments, written = tuple(np.ones(1 << 23) for _ in range(3)), ()
        choices = {"arrays": (triad, {})}
    else:
        arguments, written, choices = KERNELS[name].arguments(preset), KERNELS[name].written, models(name)
    best = None
    for model, (function, options) in choices.items():
        make = partial(Version, function, arguments=arguments, written=written, options=options)
        fastest = make(threads=threads[-1])
        seconds = min(fastest.seconds() for _ in range(3)) if fastest.seconds() < limit else fastest.seconds()
        if best is None or seconds < best[0]:
            best = seconds, model, make
    if best[0] * threads[-1] > limit:
        return None
    _, model, make = best
    times = paired({n: make(threads=n) for n in threads}, threads, rounds)
    speed_up = {n: float(np.median(times[threads[0]] / times[n])) for n in threads}
    return {
        "model": model, "seconds": {n: float(np.median(t)) for n, t in times.items()}, "speed_up": speed_up,
        "efficiency": speed_up[threads[-1]] * threads[0] / threads[-1],
    }  # fmt: skip


def by_threads(options):
    threads = [n for n in options.threads if n <= len(os.sched_getaffinity(0))]
    if not threads:
        raise SystemExit(f"--threads: this process may use {len(os.sched_getaffinity(0))} processors")
    names = options.only or ["triad", *KERNELS]
    if unknown := set(names) - set(KERNELS) - {"triad"}:
        raise SystemExit(f"no kernel is called {', '.join(sorted(unknown))}; there are triad, {', '.join(KERNELS)}")
    print(f"preset {options.preset}; {figures.machine()}")
    print(f"{'':16}{'ms with ' + str(threads[0]):>12}" + "".join(f"{'x' + str(n):>8}" for n in threads[1:]), end="")
    print(f"{'efficiency':>12}")
    rows = {}
    for name in names:
        row = scale(name, threads, options.rounds, options.preset, options.limit)
        if row is None:
            print(f"{name:16}{'over the limit':>20}", flush=True)
            continue
        rows[name] = row
        speeds = "".join(f"{row['speed_up'][n]:8.2f}" for n in threads[1:])
        print(
            f"{name:16}{row['seconds'][threads[0]] * 1e3:12.3f}{speeds}{row['efficiency']:12.2f} {row['model']}",
            flush=True,
        )
    return rows


def per_element(call, n, x, y, z):
    call(n, x, y, z)
    calls = max(1, min(20_000, round(2e6 / n)))
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(calls):
            call(n, x, y, z)
        best = min(best, (time.perf_counter() - start) / calls)
    return best / n * 1e9


def by_size(options):
    if unknown := set(options.only or ()) - set(BY_SIZE):
        raise SystemExit(f"no statement is called {', '.join(sorted(unknown))}; there are {', '.join(BY_SIZE)}")
    sizes = [n for n in SIZES if n <= options.largest]
    rng = np.random.default_rng(0)
    print(f"nanoseconds an element, appy and NumPy; {figures.machine()}")
    print(f"{'':14}" + "".join(f"{n:>16}" for n in sizes) + "  appy is faster from")
    rows = {}
    for name in options.only or BY_SIZE:
        plain, compiled = BY_SIZE[name], appy.jit(strict=True)(BY_SIZE[name])
        row = {}
        for n in sizes:
            data = rng.random(n), rng.random(n), np.zeros(n)
            rounds = [(per_element(compiled, n, *data), per_element(plain, n, *data)) for _ in range(options.rounds)]
            row[n] = tuple(float(np.median(column)) for column in zip(*rounds))
        ahead = [n for n in sizes if all(row[m][0] <= row[m][1] for m in sizes if m >= n)]
        cells = "".join(f"{f'{mine:.3f} {other:.3f}':>16}" for mine, other in row.values())
        print(f"{name:14}{cells}  {ahead[0] if ahead else 'no size here'}", flush=True)
        rows[name] = row
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", choices=["tiny", "S", "M", "L", "paper"], default="M")
    parser.add_argument("--threads", type=lambda text: sorted(map(int, text.split(","))), default=[1, 2, 4, 8, 16])
    parser.add_argument("--only", type=lambda text: text.split(","))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--limit", type=float, default=20, help="seconds a call may take with one thread, as estimated")
    parser.add_argument("--sizes", action="store_true", help="cost by size, not by threads")
    parser.add_argument("--largest", type=int, default=SIZES[-1])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = by_size(options) if options.sizes else by_threads(options)
    if options.json:
        options.json.write_text(json.dumps({"machine": figures.machine(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
