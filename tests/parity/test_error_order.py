"""Statements that can fail in several ways, and do: the exception is the one that NumPy raises first.

The indices are computed in the loop that uses them, so that no check comes before the loop.
"""

from __future__ import annotations

import itertools
import linecache
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import appy

N = 9
STATEMENTS = {
    "two": "out[:] += a[i] + b[j]",
    "other_order": "out[:] += b[j] + (a[i] + b[i])",
    "two_names": "x = a[i] * 2; y = b[j] * 3; out[:] += x * y",
    "two_stores": "out[:] += a[i]; other[:] += b[j]",
    "store_between": "x = a[i]; other[:] = 7; out[:] += x + b[j]",
    "in_place": "out += a[i]; out *= b[j]",
    "not_used": "x = a[i]; x = b[j]; out[:] += x",
    "not_bound": "a[i]; b[j]; out[:] += 1",
    "halves": "x = a[i]; y = b[j]; out[:5] += x[:5] + y[4:]",
    "swap": "out[:], other[:] = a[i], b[j]",
    "where": "out[:] += np.where(i > 2, a[i], b[j])",
    "masked": "m = out > 1; out[m] += a[i][m] + b[j][m]",
    "nested": "out[:] += a[i[j]]",
    "reversed": "out[:] += a[i] + b[j][::-1]",
    "sums": "out[0] += np.sum(a[i]) + np.sum(b[j])",
    "dot": "out[0] += np.dot(a[i], b[j])",
    "cumsum": "out[:] += np.cumsum(a[i]) + b[j]",
    "extremes": "out[0] += min(a[i].max(), b[j].max())",
    "joined": "out[:] += np.concatenate((a[i][:4], b[j][4:]))",
    "outer": "table[:, :] += a[i][:, None] + b[j][None, :]",
    "columns": "table[:, :] += rows[:, i] + rows[:, j]",
    "pairs": "out[:] += table[i, j]",
    "pairs_reversed": "out[:] += table[j, i]",
    "powers": "out[:] += a[i] ** p + b[j]",
    "power_first": "x = out ** p; out[:] += x + a[i]",
    "power_last": "out[:] += a[i] + out ** p",
    "scatter": "out[i] = b[j]",
    "update": "out[i] += b[j]",
    "helper": "out[:] += plus_one(a, i) + plus_one(b, j)",
    "added_at": "np.add.at(out, i, b[j])",
    "atomic": "\n#pragma atomic\nout[i] += b[j]",
    "atomic_element": "\nfor q in range(9):\n    #pragma atomic\n    out[i[q]] += b[j[q]]",
    "loops": "\nfor q in range(9):\n    out[q] += a[i[q]]\nfor q in range(9):\n    other[q] += b[j[q]]",
    "sums_of_loops": "\ns = t = 0\n#pragma simd\nfor q in range(9):\n    s += a[i[q]]\n#pragma simd\n"
    "for q in range(9):\n    t += b[j[q]]\nout[0] += s + t",
}
# What is out of range, and where: in i, in j, or negative in p. The later one is found first by who goes by elements.
FAULTS = [
    {"i": {6: 21}, "j": {2: 33}},
    {"i": {2: 21}, "j": {6: 33}},
    {"i": {6: 21, 7: 22}},
    {"j": {2: 33, 6: -31}},
    {"i": {8: 50}, "j": {7: 44}, "p": {3: -2}},
    {"i": {7: 50}, "j": {0: 51}, "p": {1: -2}},
    {"i": {1: 50}, "p": {7: -2}},
    {},
]
numbers = itertools.count()


def program(statement: str) -> FunctionType:
    lines = [line for part in statement.split("; ") for line in part.split("\n") if line]
    head = """
def f(a, b, rows, indices, powers, i, j, p, out, other, table):
    #pragma sequential for
    for k in range(3):
        i[:] = indices[k, 0] + out * 0
        j[:] = indices[k, 1] + out * 0
        p[:] = powers[k] + out * 0
"""
    source = head + "".join(f"        {line}\n" for line in lines)
    path = f"<error order {next(numbers)}>"
    linecache.cache[path] = (len(source), None, source.splitlines(True), path)
    space: dict[str, Any] = {"np": np, "plus_one": lambda x, at: x[at] + 1}
    exec(compile(source, path, "exec"), space)
    return space["f"]


def arguments(faults):
    indices = np.tile(np.stack([np.arange(N), np.arange(N)[::-1]]), (3, 1, 1))
    powers = np.ones((3, N), int)
    for name, at in faults.items():
        for where, value in at.items():
            (powers[1] if name == "p" else indices[1, "ij".index(name)])[where] = value
    vectors = [np.zeros(N, int) for _ in range(3)]
    out, other, table = np.full(N, 2), np.full(N, 50), np.arange(11 * 13).reshape(11, 13)[:N, :N].copy()
    return (
        np.arange(11),
        np.arange(13) + 1,
        np.tile(np.arange(13), (N, 1)),
        indices,
        powers,
        *vectors,
        out,
        other,
        table,
    )


def outcome(function, faults):
    given = arguments(faults)
    error = None
    try:
        function(*given)
    except Exception as e:
        error = e
    return error, given


@pytest.mark.parametrize("name", STATEMENTS)
def test_the_first_exception_is_numpys(name):
    function = program(STATEMENTS[name])
    compiled = appy.jit(strict=True)(function)
    for faults in FAULTS:
        want, theirs = outcome(function, faults)
        got, ours = outcome(compiled, faults)
        assert type(got) is type(want), (faults, got, want)
        assert str(got) == str(want), (faults, got, want)
        for x, y in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(x, y)
    stats = compiled.stats()
    assert stats["runs"] > 0 and stats["declined"] == 0, stats
    error, _ = outcome(compiled, FAULTS[0])
    assert error.__notes__[0].startswith("at "), "it was the interpreter's"
