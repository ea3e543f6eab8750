"""What a phase of a loop over time costs besides its work: appy beside gcc's OpenMP.

usage: python benchmarks/phases.py [--threads 2] [--rounds 20] [--json FILE]

A phase is a parallel loop over rows that are each worker's own and stay in its caches. Its cost is what it takes more
than it takes threads that have the same rows and never wait for each other, in microseconds: best of nine calls each, in
turn. `sums` are phases that add to a scalar. Every side has a process of its own in each round; the table has medians
and quartiles. `exchange` is what a line of the cache takes to go from one core to the other and back, which says what
can be had.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import sides

COLUMNS = 512
ROWS = (16, 64, 256)

C_SOURCE = """
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#define EACH(i, j) for (long i = 0; i < rows; ++i) for (long j = 0; j < COLUMNS; ++j)
#define X a[i * COLUMNS + j]
#define FIRST EACH(i, j) X = (X * 0.5 + 0.1) * (X * 0.3 + 0.2) / (X + 1.5) + t * 1e-3;
#define SECOND EACH(i, j) X = (X * 0.4 + 0.3) * (X * 0.2 + 0.1) / (X + 2.5) + t * 1e-3;
void each(double *a, long rows, long steps, int threads) {
  for (long t = 0; t < steps; ++t) {
    _Pragma("omp parallel for schedule(static) num_threads(threads)") FIRST
    _Pragma("omp parallel for schedule(static) num_threads(threads)") SECOND
  }
}
void together(double *a, long rows, long steps, int threads) {
  _Pragma("omp parallel num_threads(threads)") for (long t = 0; t < steps; ++t) {
    _Pragma("omp for schedule(static)") FIRST
    _Pragma("omp for schedule(static)") SECOND
  }
}
void apart(double *a, long rows, long steps, int threads) {
  const long part = (rows + threads - 1) / threads, all = rows;
  _Pragma("omp parallel for schedule(static, 1) num_threads(threads)") for (long k = 0; k < threads; ++k) {
    double *of_all = a, *a = of_all + k * part * COLUMNS;
    const long rows = part < all - k * part ? part : all - k * part;
    for (long t = 0; t < steps; ++t) { FIRST SECOND }
  }
}
static _Alignas(64) atomic_int there, back;
static void *answer(void *unused) {
  for (int n = 1; n <= 1000000; ++n) {
    while (atomic_load_explicit(&there, memory_order_acquire) != n) ;
    atomic_store_explicit(&back, n, memory_order_release);
  }
  return unused;
}
double exchange(void) {
  pthread_t other;
  struct timespec begin, end;
  pthread_create(&other, 0, answer, 0);
  for (int n = 1; n <= 1000000; ++n) {
    if (n == 500000) clock_gettime(CLOCK_MONOTONIC, &begin);
    atomic_store_explicit(&there, n, memory_order_release);
    while (atomic_load_explicit(&back, memory_order_acquire) != n) ;
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  pthread_join(other, 0);
  return ((end.tv_sec - begin.tv_sec) + (end.tv_nsec - begin.tv_nsec) * 1e-9) / 500000;
}
"""


def phases(a, steps):
    # pragma sequential for
    for t in range(steps):
        # pragma parallel for
        for i in range(a.shape[0]):
            # pragma simd
            for j in range(a.shape[1]):
                a[i, j] = (a[i, j] * 0.5 + 0.1) * (a[i, j] * 0.3 + 0.2) / (a[i, j] + 1.5) + t * 1e-3
        # pragma parallel for
        for i in range(a.shape[0]):
            # pragma simd
            for j in range(a.shape[1]):
                a[i, j] = (a[i, j] * 0.4 + 0.3) * (a[i, j] * 0.2 + 0.1) / (a[i, j] + 2.5) + t * 1e-3


def sums(a, steps):
    total = 0.0
    # pragma sequential for
    for t in range(steps):
        # pragma parallel for
        for i in range(a.shape[0]):
            # pragma simd
            for j in range(a.shape[1]):
                total += (a[i, j] * 0.5 + 0.1) / (a[i, j] + 1.5) + t * 1e-3
        # pragma parallel for
        for i in range(a.shape[0]):
            # pragma simd
            for j in range(a.shape[1]):
                total += (a[i, j] * 0.4 + 0.3) / (a[i, j] + 2.5) + t * 1e-3
    return total


def cost(together, apart, count: int) -> list[float]:
    """Microseconds a phase, of so many, for each number of rows; the two take an array and steps and return seconds."""
    import numpy as np

    found = []
    for rows in ROWS:
        array = np.random.default_rng(1).random((rows, COLUMNS))
        best = {run: float("inf") for run in (together, apart)}
        for _ in range(9):
            for run in best:
                best[run] = min(best[run], run(array, count // 2))
        found.append((best[together] - best[apart]) / count * 1e6)
    return found


def timed(run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def at_once(function, array, steps: int, most: int) -> float:
    """Seconds that the slowest of so many threads takes for its rows, when all have begun."""
    part = -(-len(array) // most)
    gate = threading.Barrier(most)

    def run(k):
        gate.wait()
        return timed(lambda: function(array[k * part : (k + 1) * part], steps))

    with ThreadPoolExecutor(most) as pool:
        return max(pool.map(run, range(most)))


def measure(side: str, library: str, most: int, count: int) -> dict:
    if side == "appy":
        import appy

        def cost_of(function):
            shared, alone = (appy.jit(threads=threads)(function) for threads in (most, 1))
            return cost(
                lambda a, steps: timed(lambda: shared(a, steps)),
                lambda a, steps: at_once(alone, a, steps, most),
                count,
            )

        return {"appy": cost_of(phases), "appy, sums": cost_of(sums)}
    c = ctypes.CDLL(library)
    c.exchange.restype = ctypes.c_double

    def seconds_of(function):
        return lambda a, steps: timed(
            lambda: function(ctypes.c_void_p(a.ctypes.data), ctypes.c_long(len(a)), ctypes.c_long(steps), most)
        )

    apart = seconds_of(c.apart)
    found = {
        name: cost(seconds_of(function), apart, count)
        for name, function in (("gcc, parallel for", c.each), ("gcc, one region", c.together))
    }
    return {**found, "exchange": [c.exchange() * 1e6]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20, help="two at least, for quartiles")
    parser.add_argument(
        "--phases",
        type=int,
        default=1000,
        help="of a run: many, so that how threads come to the first one does not count",
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--side", nargs=2, metavar=("SIDE", "LIBRARY"), help="one round of one side")
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("--rounds: quartiles need two at least")
    if options.side:
        print(json.dumps(measure(*options.side, options.threads, options.phases)))
        return
    results: dict[str, list[list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "phases.c")
        source.write_text(f"#define COLUMNS {COLUMNS}\n{C_SOURCE}")
        library = sides.compile_c(source, source.parent)
        for _ in range(options.rounds):
            for side in ("appy", "gcc"):
                command = [sys.executable, __file__, "--threads", str(options.threads), "--phases", str(options.phases)]
                command += ["--side", side, str(library)]
                answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                for name, figures in json.loads(answer).items():
                    results.setdefault(name, []).append(figures)
    print(f"{'microseconds a phase':<22}" + "".join(f"{f'{rows} rows':<22}" for rows in ROWS))
    for name, rounds in results.items():
        cells = []
        for figures in zip(*rounds, strict=True):
            low, middle, high = statistics.quantiles(figures, n=4)
            cells.append(f"{middle:.2f} [{low:.2f}, {high:.2f}]")
        print(f"{name:<22}" + "".join(f"{cell:<22}" for cell in cells))
    if options.json:
        options.json.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
