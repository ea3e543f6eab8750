"""What programs do beside large kernels: pictures, recurrences, counts, arrays in Fortran's order.

    python benchmarks/everyday.py [--only grey,...] [--rounds 15] [--json FILE]

Each case runs on one thread, with appy and in turns with it: loops as Numba's code of the same function
(`njit(fastmath=True)`), array statements as NumPy runs them. Microseconds of a call, each the median of `rounds`, the
median of the ratios of a round with its quartiles, and what was compared. Results are compared before.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import in_order
import numpy as np

import appy

# Pictures of 480 x 640 pixels.


def grey(picture, out):
    # pragma parallel for
    for i in range(out.shape[0]):
        # pragma simd
        for j in range(out.shape[1]):
            out[i, j] = 0.299 * picture[i, j, 0] + 0.587 * picture[i, j, 1] + 0.114 * picture[i, j, 2]


def threshold(picture, out):
    # pragma parallel for
    for i in range(out.shape[0]):
        # pragma simd
        for j in range(out.shape[1]):
            out[i, j] = 255 if picture[i, j, 1] > 128 else 0


def table(picture, values, out):
    # pragma parallel for
    for i in range(out.shape[0]):
        # pragma simd
        for j in range(out.shape[1]):
            out[i, j] = values[picture[i, j]]


def difference(a, b, out):
    # pragma parallel for simd
    for i in range(len(out)):
        # Numba's int() of what has no sign has none either.
        out[i] = abs(np.int64(a[i]) - np.int64(b[i]))


def blend(a, b, out):
    # pragma parallel for simd
    for i in range(len(out)):
        out[i] = (int(a[i]) * 77 + int(b[i]) * 179) // 256


def mean_of_neighbours(picture, out):
    # pragma parallel for
    for i in range(1, picture.shape[0] - 1):
        # pragma simd
        for j in range(1, picture.shape[1] - 1):
            s = 0.0
            for a in range(-1, 2):
                for b in range(-1, 2):
                    s += picture[i + a, j + b]
            out[i, j] = s / 9


def zoom(picture, out, scale):
    # pragma parallel for
    for i in range(out.shape[0]):
        # pragma simd
        for j in range(out.shape[1]):
            y = i * scale
            x = j * scale
            top = int(y)
            left = int(x)
            down = y - top
            right = x - left
            above = picture[top, left] * (1 - right) + picture[top, left + 1] * right
            below = picture[top + 1, left] * (1 - right) + picture[top + 1, left + 1] * right
            out[i, j] = above * (1 - down) + below * down


# Recurrences: what an iteration stores the next one loads.


def exponential_mean(x, out):
    # pragma sequential for
    for i in range(1, len(x)):
        out[i] = 0.9 * out[i - 1] + 0.1 * x[i]


def tridiagonal(a, b, c, d, e, x):
    n = len(b)
    e[0] = c[0] / b[0]
    x[0] = d[0] / b[0]
    # pragma sequential for
    for i in range(1, n):
        w = b[i] - a[i] * e[i - 1]
        e[i] = c[i] / w
        x[i] = (d[i] - a[i] * x[i - 1]) / w
    # pragma sequential for
    for i in range(n - 2, -1, -1):
        x[i] -= e[i] * x[i + 1]


def decay_of_columns(a):
    # pragma parallel for simd
    for j in range(a.shape[1]):
        for i in range(1, a.shape[0]):
            a[i, j] = 0.5 * a[i - 1, j] + 0.5 * a[i, j]


# Counts that nobody can foresee.


def random_walk(steps):
    at = 0
    most = 0
    # pragma sequential for
    for i in range(len(steps)):
        if steps[i] == 1:
            at += 1
        else:
            at -= 1
        if at > most:
            most = at
    return most


def pi_by_generators(hits):
    # pragma parallel for
    for i in range(len(hits)):
        s = np.uint64(i * 7919 + 1)
        n = 0
        for _ in range(2000):
            s = s * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            x = (s >> np.uint64(11)) * 1.1102230246251565e-16
            s = s * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            y = (s >> np.uint64(11)) * 1.1102230246251565e-16
            if x * x + y * y <= 1.0:
                n += 1
        hits[i] = n


def bins(x, counts):
    # pragma sequential for
    for i in range(len(x)):
        counts[int(x[i] * len(counts))] += 1


def bins_of_pairs(x, y, counts):
    # pragma sequential for
    for i in range(len(x)):
        counts[int(x[i] * counts.shape[0]), int(y[i] * counts.shape[1])] += 1


def places_of(text, word, found):
    n = 0
    # pragma sequential for
    for i in range(len(text) - len(word) + 1):
        same = True
        for j in range(len(word)):
            if text[i + j] != word[j]:
                same = False
                break
        if same:
            found[n] = i
            n += 1
    return n


# Arrays in Fortran's order, as statements.


def scaled_columns(a, b):
    # pragma 0=>parallel 1=>simd
    c = 2 * a + b
    return c


def turned(a, b):
    # pragma 0=>parallel 1=>simd
    c = a.T + 1
    return c


def _bytes(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, shape, np.uint8)


def _reals(*shape: int) -> np.ndarray:
    return np.random.default_rng(2).random(shape)


def _ints(below: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, below, shape)


def _places(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.int64)


def _columns() -> list[np.ndarray]:
    return [np.asfortranarray(_reals(20000, 3).astype(np.float32)) for _ in range(2)]


# The function, what makes its arguments, and whom it is compared with.
CASES: dict[str, tuple[Callable, Callable[[], list], str]] = {
    "grey": (grey, lambda: [_bytes(480, 640, 3), _bytes(480, 640)], "numba"),
    "threshold": (threshold, lambda: [_bytes(480, 640, 3), _bytes(480, 640)], "numba"),
    "table": (table, lambda: [_bytes(480, 640), _bytes(256), _bytes(480, 640)], "numba"),
    "difference": (difference, lambda: [_bytes(307200), _bytes(307200)[::-1].copy(), _bytes(307200)], "numba"),
    "blend": (blend, lambda: [_bytes(307200), _bytes(307200)[::-1].copy(), _bytes(307200)], "numba"),
    "mean_of_neighbours": (mean_of_neighbours, lambda: [_reals(480, 640), _reals(480, 640)], "numba"),
    "zoom": (zoom, lambda: [_reals(480, 640), _reals(300, 400), 1.59], "numba"),
    "exponential_mean": (exponential_mean, lambda: [_reals(100000), _reals(100000)], "numba"),
    "tridiagonal": (tridiagonal, lambda: [*(_reals(20000) + k % 2 * 2 for k in range(6))], "numba"),
    "decay_of_columns": (decay_of_columns, lambda: [_reals(300, 400)], "numba"),
    "random_walk": (random_walk, lambda: [_bytes(200000) % 2], "numba"),
    "pi_by_generators": (pi_by_generators, lambda: [np.zeros(32, np.int64)], "numba"),
    "bins": (bins, lambda: [_reals(100000), np.zeros(64, np.int64)], "numba"),
    "bins_of_pairs": (bins_of_pairs, lambda: [*_reals(2, 100000), np.zeros((32, 32), np.int64)], "numba"),
    "places_of": (places_of, lambda: [_bytes(20000) % 3, _bytes(6) % 3, np.zeros(20000, np.int64)], "numba"),
    "knapsack": (in_order.knapsack, lambda: [_ints(60, 60) + 1, _ints(100, 61)[1:] + 1, _places(1000)], "numba"),
    "common_subsequence": (
        in_order.common_subsequence,
        lambda: [_ints(4, 300), _ints(4, 301)[1:], _places(301, 301)],
        "numba",
    ),
    "edit_distance": (in_order.edit_distance, lambda: [_ints(4, 300), _ints(4, 301)[1:], _places(301, 301)], "numba"),
    "binary_searches": (
        in_order.binary_searches,
        lambda: [np.sort(_reals(10000)), _reals(15000)[10000:].copy(), _places(5000)],
        "numba",
    ),
    "first_of_rows": (in_order.first_of_rows, lambda: [_reals(3000, 40), _places(3000)], "numba"),
    "insertion_sort": (in_order.insertion_sort, lambda: [_reals(800)], "numba"),
    "bubble_sort": (in_order.bubble_sort, lambda: [_reals(400)], "numba"),
    "sieve": (in_order.sieve, lambda: [np.ones(100000, bool)], "numba"),
    "products_of_3x3": (in_order.products_of_3x3, lambda: [*_reals(3, 3000, 3, 3)], "numba"),
    "pulls": (in_order.pulls, lambda: [_reals(60, 3), np.zeros((60, 3)), 0.1], "numba"),
    "live_neighbours": (in_order.live_neighbours, lambda: [_ints(2, 150, 150), _places(150, 150)], "numba"),
    "labels": (in_order.labels, lambda: [_reals(200, 200) > 0.5, _places(200, 200)], "numba"),
    "heat_steps": (in_order.heat_steps, lambda: [_reals(100, 120), _reals(100, 120), 10], "numba"),
    "levels": (in_order.levels, lambda: [_bytes(480, 640), _bytes(480, 640)], "numba"),
    "normalized": (in_order.normalized, lambda: [_reals(300, 400), _reals(300, 400)], "numba"),
    "mixed": (in_order.mixed, lambda: [*_reals(3, 100000)], "numba"),
    "eliminated": (in_order.eliminated, lambda: [_reals(100, 100) + 100 * np.eye(100)], "numba"),
    "lifted": (in_order.lifted, lambda: [_reals(300, 300), 0.5, _reals(300, 300)], "numba"),
    "scaled_columns": (scaled_columns, _columns, "numpy"),
    "turned": (turned, lambda: [a.T.copy() for a in _columns()], "numpy"),
}


def other_side(function: Callable, name: str) -> Callable:
    if name == "numpy":
        return function
    import numba

    return numba.njit(fastmath=True)(function)


def copies(arguments: list) -> list:
    return [a.copy(order="K") if isinstance(a, np.ndarray) else a for a in arguments]


def results(function: Callable, arguments: list) -> list:
    """Of one call: what it returns, and its arguments as it leaves them."""
    given = copies(arguments)
    return [function(*given), *given]


def seconds(function: Callable, arguments: list, calls: int, anew: bool) -> float:
    """Of a call; `anew`: each finds the arguments as the first one did, as what sorts or labels them must."""
    total = 0.0
    for given in [copies(arguments) if anew else arguments for _ in range(calls)]:
        begin = time.perf_counter()
        function(*given)
        total += time.perf_counter() - begin
    return total / calls


def compare(mine: np.ndarray, theirs: np.ndarray) -> None:
    # What is cut off to bytes differs by one where sums are in another order.
    one = 1 if mine.dtype == np.uint8 else 0
    close = 1e-5 if mine.dtype == np.float32 else 1e-9
    np.testing.assert_allclose(mine.astype(float), theirs.astype(float), rtol=close, atol=max(one, close))


def measure(name: str, rounds: int) -> dict[str, Any]:
    function, make, against = CASES[name]
    arguments = make()
    sides = [appy.jit(strict=True, threads=1)(function), other_side(function, against)]
    mine, theirs = (results(side, arguments) for side in sides)
    for a, b in zip(mine, theirs, strict=True):
        if a is not None:
            compare(np.asarray(a), np.asarray(b))
    anew = function.__module__ == in_order.__name__
    calls = max(1, int(2e-3 / seconds(sides[0], arguments, 3, anew)))
    times = [[seconds(side, arguments, calls, anew) for side in sides] for _ in range(rounds)]
    ratios = statistics.quantiles([b / a for a, b in times], n=4)
    mine_us, theirs_us = (statistics.median(t) * 1e6 for t in zip(*times, strict=True))
    return {"us": mine_us, "other_us": theirs_us, "against": against, "ratio": ratios[1], "quartiles": ratios[::2]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default=",".join(CASES), help="names, separated by commas")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.rounds < 2:
        parser.error("quartiles take two rounds or more")
    warnings.simplefilter("ignore")
    print(f"{'microseconds':20}{'appy':>10}{'other':>10}  ratio", flush=True)
    rows = {}
    for name in given.only.split(","):
        rows[name] = row = measure(name, given.rounds)
        low, high = row["quartiles"]
        print(
            f"{name:20}{row['us']:10.1f}{row['other_us']:10.1f}  {row['ratio']:.2f} [{low:.2f}, {high:.2f}] {row['against']}",
            flush=True,
        )
    mean = statistics.geometric_mean(row["ratio"] for row in rows.values())
    print(f"geometric mean {mean:.2f} over {len(rows)}")
    if given.json:
        given.json.write_text(json.dumps({"rows": rows, "geometric_mean": mean}, indent=1))


if __name__ == "__main__":
    main()
