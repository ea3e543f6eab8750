"""What is done to the sums of rows: rows that are summed together share vectors, and so does what follows their sums.

Programs are random. All numbers are small dyadic ones, so that results are the same in any order of the additions.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from copies import relaid
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_loops import Program, arranged

import appy

EXAMPLES = int(os.environ.get("APPY_FUZZ_EXAMPLES", "60"))
ROWS, COLUMNS, STEPS = 45, 83, 3


class Writer:
    """``choose(n)`` gives an int in [0, n), 0 being the simplest choice."""

    def __init__(self, choose):
        self.choose = choose
        self.lines: list[str] = []

    def pick(self, *options: str) -> str:
        return options[self.choose(len(options))]

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def term(self) -> str:
        return self.pick(
            "A[j, i] * B[k, i]", "A[j, i] * x[i]", "F[i, j] * x[i]", "F[i, j] * F[i, k]", "A[j, i]", "A[j, i] * A[j, i]"
        )

    def trips(self) -> str:
        return self.pick("m", "m // 8 * 8", "m // 4 * 4", "32", "64", "48", "5", "j", "j + 1", "k + 8", "k * 8 + 8")

    def simple(self) -> str:
        return self.pick("C[j, k]", "C[j, 2 * k]", "y[j]", "z[k]", "alpha", "G[k, j]", "0.5", "y[j + 2]", "y[2 * j]")

    def value(self, sums: list[str]) -> str:
        t = self.pick(*sums)
        how = self.choose(9)
        if how < 2:
            return f"{self.simple()} {self.pick('-', '+')} {t}"
        if how == 2:
            return f"({self.simple()} - {t}) / {self.pick('d[k]', 'd[j]', '4.0')}"
        if how == 3:
            return f"{t} * {self.simple()}"
        if how == 4:
            return f"{self.simple()} * {self.simple()} + {self.pick('alpha', 'z[k]', '2.0')} * {t}"
        if how == 5:
            return f"{t} {self.pick('+', '-', '*')} {self.pick(*sums)}"
        if how == 6:
            return f"{t} / d[k] - {self.simple()}"
        if how == 7:
            return f"({t} if {self.simple()} > 0 else {self.simple()})"
        return t

    def program(self) -> str:
        depth = 1
        if self.choose(2):
            self.put(depth, "# pragma sequential for")
            self.put(depth, "for k in range(q):")
            depth += 1
        else:
            self.put(depth, "k = 1")
        rows = self.pick("n", "k, n", "n // 8 * 8", "32", "k + 1, n", "3, 40")
        pragma = self.pick("parallel for", "parallel for simd")
        self.put(depth, f"# pragma {pragma}")
        self.put(depth, f"for j in range({rows}):")
        depth += 1
        sums = []
        for t in "tu"[: 1 + (self.choose(4) == 3)]:
            self.put(depth, f"{t} = {self.pick('0.0', 'y[j]', 'C[j, k]', 'alpha')}")
            if pragma == "parallel for" and self.choose(3):
                self.put(depth, "# pragma simd")
            self.put(depth, f"for i in range({self.trips()}):")
            self.put(depth + 1, f"{t} {self.pick('+=', '-=')} {self.term()}")
            sums.append(t)
        places = ["o[j]", "O[j, k]", "P[k, j]", "O[j, 2 * k + 4]", "o[2 * j + 45]"]
        for _ in range(1 + self.choose(3)):
            place = places.pop(self.choose(len(places)))
            value = self.value(sums)
            if place == "O[j, k]" and self.choose(3) == 2:
                value = f"O[j, k] + {self.pick(*sums)}"
            self.put(depth, f"{place} = {value}")
        if self.choose(4) == 3:
            self.put(depth, f"for i in range({self.pick('m', 'm // 8 * 8', '16')}):")
            self.put(depth + 1, f"R[j, i] -= B[k, i] * {self.pick(*sums)}")
        body = "\n".join(self.lines)
        return f"def f(A, B, C, F, G, x, y, z, d, o, O, P, R, alpha, n, m, q):\n{body}\n"


def arguments(choose) -> dict:
    rng = np.random.default_rng(choose(1 << 16))
    dtype = ("f8", "f4")[choose(2)]

    def some(*shape, low=-2, high=3):
        return arranged(rng.integers(low, high, shape).astype(dtype), choose(4) if choose(3) == 2 else 0)

    return {
        "A": some(ROWS, COLUMNS),
        "B": some(STEPS, COLUMNS),
        "C": some(ROWS, 2 * STEPS),
        "F": some(COLUMNS, ROWS),
        "G": some(STEPS, ROWS),
        "x": some(COLUMNS),
        "y": some(2 * ROWS),
        "z": some(STEPS),
        "d": 2.0 ** some(ROWS, low=-1, high=3),
        "o": np.zeros(3 * ROWS, dtype),
        "O": np.zeros((ROWS, 3 * STEPS), dtype),
        "P": np.zeros((STEPS, ROWS), dtype),
        "R": some(ROWS, COLUMNS),
        "alpha": (0.5, 2.0, -1.0)[choose(3)],
        "n": (ROWS, 33, 8, 5, 1, 0)[choose(6)],
        "m": (COLUMNS, 64, 32, 7, 0)[choose(5)],
        "q": (STEPS, 1)[choose(2)],
    }


def check(choose) -> None:
    source = Writer(choose).program()
    args = arguments(choose)
    function = Program(source, args, in_order=False).function()
    want, got = ({k: relaid(v, {}) if isinstance(v, np.ndarray) else v for k, v in args.items()} for _ in range(2))
    function(**want)
    appy.jit(strict=True)(function)(**got)
    for name, value in want.items():
        np.testing.assert_array_equal(got[name], value, err_msg=f"{name} of\n{source}")


@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_follows_sums(data):
    check(lambda n: data.draw(st.integers(0, n - 1)))


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_seeded(seed):
    rng = np.random.default_rng(seed)
    check(lambda n: int(rng.integers(n)))
