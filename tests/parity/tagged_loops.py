"""Loops whose scalars change their Python type in an inner loop that may not run: compiled and plain, types included.

usage: python tagged_loops.py SEED COUNT
"""

from __future__ import annotations

import linecache
import random
import sys
from typing import Any

import numpy as np

import appy

OUTER = ("parallel for simd", "simd", "parallel for")
INNER = ("pass", "# pragma simd", "# pragma parallel for", "# pragma parallel for simd")
ORDERS = ("range(n)", "range(n - 1, -1, -1)", "range(0, n, 2)")
TRIPS = (
    "range(i % 3)",
    "range(0, k[i])",
    "range(k[i], 4)",
    "range(n % 4)",
    "range(3 if x[i] > 0 else 0)",
    "range(k[i] if x[i] > 0 else 2)",
    "range(i // 30)",
    "range(5, 5 - k[i], -1)",
)
FIRST = ("t = 0.5", "t = x[0]", "t = 1")
BEFORE = ("pass", "t = 0.5", "t = 7", "t = y[i]", "if k[i] > 0: t = 0.5")
INSIDE = (
    "t = x[j]",
    "t = min(max(x[i] * y[j], -2.0), 2.0)",
    "t = x[j] if y[i] > 0 else 1.5",
    "t = max(t, x[j])",
    "t = float(x[j]) if k[j] else y[j]",
    "if y[j] > 0: t = x[j]",
    "t = y[j] if k[i] == 1 else 2.5",
    "t = x[i + j] if j else 3",
    "t = 0.25 if x[j] > 0 else y[j] if k[j] > 1 else t",
    "t += x[j]",
    "t = t + 1 if k[j] else x[j]",
)
AFTER = ("pass", "u = t", "if k[i]: u = t", "s += t * 0.0", "if x[i] > 0: s = t")
SIZES = (1, 5, 17, 40, 67, 4000)


def source(rng: random.Random) -> str:
    return f"""
def f(x, y, k, n, state):
    {rng.choice(FIRST)}
    u = 0.25
    s = 0.0
    # pragma {rng.choice(OUTER)}
    for i in {rng.choice(ORDERS)}:
        {rng.choice(BEFORE)}
        {rng.choice(INNER)}
        for j in {rng.choice(TRIPS)}:
            {rng.choice(INSIDE)}
        {rng.choice(AFTER)}
    state.update(locals())
"""


def function(text: str, path: str) -> Any:
    linecache.cache[path] = (len(text), None, text.splitlines(True), path)
    space: dict[str, Any] = {}
    exec(compile(text, path, "exec"), space)
    return space["f"]


def run(f: Any, x: np.ndarray, y: np.ndarray, k: np.ndarray, n: int) -> dict[str, tuple[type, str]]:
    state: dict[str, Any] = {}
    f(x, y, k, n, state)
    return {name: (type(state[name]), repr(state[name])) for name in ("t", "u", "s", "i", "j") if name in state}


def main(seed: int, count: int) -> None:
    rng = random.Random(seed)
    for at in range(count):
        text, n = source(rng), rng.choice(SIZES)
        values = np.random.default_rng(rng.randrange(1 << 30))
        x, y = (values.integers(-9, 9, 2 * n + 8) / 4 for _ in "xy")
        y = y.astype(rng.choice(("f8", "f4")))
        k = values.integers(0, 4, 2 * n + 8) * (values.random(2 * n + 8) < 0.7)
        want = run(function(text, f"<plain {seed}:{at}>"), x, y, k, n)
        compiled = appy.jit(strict=True, exact=rng.random() < 0.5)(function(text, f"<compiled {seed}:{at}>"))
        for _ in range(2):
            got = run(compiled, x, y, k, n)
            assert got == want, f"{seed}:{at}, n = {n}\n{text}\n{got}\n{want}"
        assert compiled.stats()["declined"] == 0, text


if __name__ == "__main__":
    with np.errstate(all="ignore"):
        main(int(sys.argv[1]), int(sys.argv[2]))
