"""Ints of arrays of few bits, computed in lanes, as Python's ints are."""

from __future__ import annotations

import linecache
import random

import numpy as np
import pytest

import appy

TYPES = ["u1", "i1", "u2", "i2", "i4"]


class Expressions:
    """Of ints x, y and w, and conditions of them, so deep."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def number(self, depth: int) -> str:
        if depth == 0 or self.random.random() < 0.15:
            return self.random.choice(["x", "y", "x", "y", "w", str(self.random.randint(-3, 300))])
        a, b = self.number(depth - 1), self.number(depth - 1)
        return self.random.choice(
            [
                f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"(-{a})", f"abs({a})", f"min({a}, {b})", f"max({a}, {b})",
                f"({a} & {b})", f"({a} | {b})", f"({a} ^ {b})", f"({a} >> {self.random.randint(0, 20)})",
                f"({a} << {self.random.randint(0, 3)})", f"({a} // {2 ** self.random.randint(0, 5)})",
                f"({a} if {self.condition(depth - 1)} else {b})",
            ]
        )  # fmt: skip

    def condition(self, depth: int) -> str:
        a, b = self.number(depth), self.number(depth)
        return f"{a} {self.random.choice(['<', '<=', '>', '>=', '==', '!='])} {b}"


def program(expression: str, out: str):
    # What does not fit is cut off by NumPy's cast, not by the store.
    text = (
        "def f(a, b, out, w):\n"
        "    # pragma parallel for simd\n"
        "    for i in range(len(out)):\n"
        "        x = int(a[i])\n"
        "        y = int(b[i])\n"
        f"        out[i] = ({expression}) & {'127' if out == 'i1' else '255'}\n"
    )
    name = f"<narrow {expression}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict = {}
    exec(compile(text, name, "exec"), scope)
    return scope["f"]


def extremes(dtype: str, n: int, seed: int) -> np.ndarray:
    info = np.iinfo(dtype)
    values = np.random.default_rng(seed).integers(info.min, info.max, n, dtype, endpoint=True)
    values[: min(n, 4)] = [info.max, info.min, 0, 1][: min(n, 4)]
    values[n // 2 : n // 2 + 2] = info.max
    return values


@pytest.mark.parametrize("seed", range(60))
def test_expressions(seed):
    choose = random.Random(1000 + seed)
    a, b, out = choose.choice(TYPES), choose.choice(TYPES), choose.choice(["u1", "i1", "i2", "u2", "i4", "i8"])
    f = program(Expressions(seed).number(choose.choice([1, 2, 3])), out)
    compiled = appy.jit(strict=True)(f)
    for n in (1, 5, 70, 200):
        x, y = extremes(a, n, 1), extremes(b, n, 2)
        mine, want = np.zeros(n, out), np.zeros(n, out)
        f(x, y, want, 7)
        compiled(x, y, mine, 7)
        np.testing.assert_array_equal(mine, want)


def test_pictures():
    def f(a, b, out, mean):
        # pragma parallel for simd
        for i in range(len(out)):
            out[i] = (int(a[i]) * 77 + int(b[i]) * 179) // 256
        # pragma parallel for simd
        for i in range(len(out)):
            mean[i] = (int(a[i]) + int(b[i])) >> 1

    compiled = appy.jit(strict=True)(f)
    a, b = (np.repeat(np.arange(256, dtype="u1"), 256), np.tile(np.arange(256, dtype="u1"), 256))
    out, mean = np.zeros((2, len(a)), "u1")
    compiled(a, b, out, mean)
    np.testing.assert_array_equal(out, (a.astype(int) * 77 + b.astype(int) * 179) // 256)
    np.testing.assert_array_equal(mean, (a.astype(int) + b) >> 1)
