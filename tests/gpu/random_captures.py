"""Random functions of several loops and of loops around loops, as source text.

usage: python random_captures.py FIRST COUNT: compares them on the device with the interpreter.
"""

from __future__ import annotations

import copy
import importlib.util
import random
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

VECTORS = "abc"


class Writer:
    """Values stay small: everything that is stored is halved."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.fresh = 0
        self.leaves = False

    def function(self) -> str:
        self.lines = ["def program(a, b, c, m, p, n, steps):", "    s, r, k = 0.5, 0.25, 0"]
        if self.random.random() < 0.3:
            self.statements(1, 4, "0")
        else:
            self.statements(1, self.random.randint(0, 1), "0")
            self.loop()
            self.statements(1, self.random.randint(0, 2), "0")
        self.put(1, f"return {self.random.choice(['s, r, k', 's', 'k', 'None', 'a.sum(), s'])}")
        return "\n".join(self.lines) + "\n"

    def loop(self) -> None:
        """One over `range`, or one that counts itself; some are left early, or do something else when they are not."""
        pick = self.random.random()
        if pick < 0.5:
            self.put(1, "for t in range(steps):")
        elif pick < 0.8:
            self.put(
                1, f"t = -1\nwhile {self.random.choice(['', 's < 0.9 and ', 'k < 3 and '])}t + 1 < steps:\n    t += 1"
            )
        else:
            self.put(1, "t = -1\nwhile True:\n    t += 1\n    if t >= steps:\n        break")
        self.leaves = self.random.random() < 0.5
        self.statements(2, self.random.randint(2, 4), "t", 1)
        if pick < 0.8 and self.random.random() < 0.2:
            self.put(1, "else:")
            self.statements(2, self.random.randint(1, 2), "0")

    def put(self, depth: int, text: str) -> None:
        for line in text.split("\n"):
            self.lines.append("    " * depth + line)

    def vector(self) -> str:
        return self.random.choice(VECTORS)

    def scalar(self, t: str) -> str:
        return self.random.choice(["s", "r", "0.125", "k", f"({t} + 1)"])

    def statements(self, depth: int, count: int, t: str, nested: int = 0) -> None:
        for _ in range(count):
            pick = self.random.random()
            if nested and pick < 0.12:
                self.put(depth, f"if {self.random.choice([f'{t} % 2 == 0', 's > 0.7', f'{t} < 2'])}:")
                self.statements(depth + 1, self.random.randint(1, 2), t)
                if self.random.random() < 0.5:
                    self.put(depth, "else:")
                    self.statements(depth + 1, 1, t)
            elif nested and pick < 0.18:
                self.put(depth, "for u in range(2):")
                self.statements(depth + 1, self.random.randint(1, 2), "u")
            elif nested and pick < 0.22 and t == "t":
                self.put(depth, "if t % 3 == 1:\n    continue")
            elif nested and pick < 0.34 and self.leaves:
                way = self.random.choice(["break", "break", "break", "return s", "return -1", "return k, s"])
                self.put(depth, f"if {self.random.choice(['s > 0.6', 'r < 0.2', f'{t} == 2', 'k > 1'])}:\n    {way}")
            else:
                self.random.choice(
                    (
                        self.elementwise,
                        self.neighbours,
                        self.total,
                        self.maximum,
                        self.count,
                        self.scalars,
                        self.element,
                    )
                    * 2
                    + (self.slices, self.tensor, self.gather, self.atomic, self.plane, self.rows, self.own)
                )(depth, t)

    def elementwise(self, depth: int, t: str) -> None:
        x, y, z = self.vector(), self.vector(), self.vector()
        pragma = self.random.choice(["parallel for simd", "parallel for", "simd"])
        self.put(
            depth,
            f"# pragma {pragma}\nfor i in range(n):\n    {x}[i] = 0.5 * {y}[i] + 0.25 * {z}[i] * {self.scalar(t)}",
        )

    def neighbours(self, depth: int, t: str) -> None:
        x, y = self.random.sample(VECTORS, 2)
        self.put(
            depth,
            f"# pragma parallel for simd\nfor i in range(1, n - 1):\n    {x}[i] = 0.5 * ({y}[i - 1] + {y}[i + 1])",
        )

    def total(self, depth: int, t: str) -> None:
        x, y = self.vector(), self.vector()
        self.put(depth, f"s = 0.0\n# pragma parallel for simd\nfor i in range(n):\n    s += {x}[i] * {y}[i]\ns = s / n")

    def maximum(self, depth: int, t: str) -> None:
        self.put(
            depth, f"# pragma parallel for simd\nfor i in range(n):\n    r = max(r, {self.vector()}[i])\nr = r * 0.5"
        )

    def count(self, depth: int, t: str) -> None:
        self.put(
            depth,
            f"# pragma parallel for\nfor i in range(n):\n    if {self.vector()}[i] > 0.4:\n        k += 1\nk = k % 7",
        )

    def scalars(self, depth: int, t: str) -> None:
        self.put(depth, self.random.choice(["s = s * 0.5 + 0.25", "r = s / (r * r + 2.0)", "s, r = r, s", "k = k + 1"]))

    def element(self, depth: int, t: str) -> None:
        x, y = self.vector(), self.vector()
        self.put(
            depth,
            self.random.choice(
                [f"{x}[{t}] = s * 0.5", f"s = {x}[{t}] * 0.5 + {y}[0] * 0.25", f"{x}[{t}] = {y}[{t} + 1]"]
            ),
        )

    def slices(self, depth: int, t: str) -> None:
        x, y = self.vector(), self.vector()
        self.put(
            depth,
            self.random.choice([f"{x}[1:] = {y}[:-1] * 0.5", f"{x}[:] = {y}[::-1] * 0.5", f"m[{t}, :] = {x} * 0.5"]),
        )

    def tensor(self, depth: int, t: str) -> None:
        x, y = self.vector(), self.vector()
        self.put(depth, f"# pragma 0=>parallel\n{x}[:] = {y} * 0.5 + {self.random.choice(['s', 'r', '0.5'])} * 0.25")

    def gather(self, depth: int, t: str) -> None:
        x, y = self.random.sample(VECTORS, 2)
        self.put(
            depth,
            "# pragma parallel for simd\nfor i in range(n):\n    "
            + self.random.choice([f"{x}[i] = {y}[p[i]] * 0.5", f"{x}[p[i]] = {y}[i] * 0.5"]),
        )

    def atomic(self, depth: int, t: str) -> None:
        x = self.vector()
        self.put(depth, f"# pragma parallel for\nfor i in range(n):\n    # pragma atomic\n    {x}[p[i] // 2] += 0.125")

    def plane(self, depth: int, t: str) -> None:
        x, y = self.vector(), self.vector()
        self.put(
            depth,
            f"# pragma parallel for\nfor i in range(m.shape[0]):\n    # pragma simd\n    for j in range(n):\n"
            f"        m[i, j] = 0.5 * m[i, j] + 0.25 * {x}[j] * {y}[i] + {self.random.choice(['s', 'r'])} * 0.125",
        )

    def rows(self, depth: int, t: str) -> None:
        self.fresh += 1
        w = f"w{self.fresh}"
        self.put(
            depth,
            f"# pragma parallel for\nfor i in range(m.shape[0]):\n    {w} = 0.0\n    # pragma simd\n    for j in range(n):\n"
            f"        {w} += m[i, j]\n    {self.vector()}[i] = {w} / n",
        )

    def own(self, depth: int, t: str) -> None:
        self.fresh += 1
        v, x = f"v{self.fresh}", self.vector()
        self.put(
            depth,
            f"{v} = {x} * 0.5\n# pragma parallel for simd\nfor i in range(n):\n    {self.vector()}[i] = {v}[n - 1 - i]",
        )


def arguments(seed: int) -> tuple:
    rng = np.random.default_rng(seed)
    n = int(rng.choice([12, 40, 600]))
    p = rng.permutation(n)
    return rng.random(n), rng.random(n), rng.random(n), rng.random((9, n)), p, n, int(rng.integers(0, 6))


def compare(seed: int, folder: Path) -> str:
    """Nothing, or what is wrong."""
    import appy

    path = folder / f"random_{seed}.py"
    path.write_text(Writer(seed).function())
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    want, got = arguments(seed), arguments(seed)
    expected = module.program(*want)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = appy.jit(module.program, backend="cuda")
        first = copy.deepcopy(got)
        answer = compiled(*got)
        again = compiled(*first)
    try:
        for found, arrays in ((answer, got), (again, first)):
            assert type(found) is type(expected), (found, expected)
            if isinstance(expected, tuple):
                assert list(map(type, found)) == list(map(type, expected)), (found, expected)
            if expected is not None:
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
            for x, y in zip(arrays[:4], want):
                np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)
    except AssertionError as error:
        return f"{path}: {error}"
    annotated = "# pragma" in path.read_text()
    return "" if compiled.stats()["runs"] or not annotated else f"{path}: nothing ran compiled"


if __name__ == "__main__":
    first, count = map(int, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        faults = [f for seed in range(first, first + count) if (f := compare(seed, Path(folder)))]
    print("\n".join(faults) or f"{count} programs")
    sys.exit(bool(faults))
