"""Shapes and indices that do not fit, found in a loop that has stored already: what NumPy raises, and what it leaves."""

from __future__ import annotations

import numpy as np
import pytest

import appy


def operands(a, b, n):
    # pragma sequential for
    for i in range(n):
        a[i] = i
        a[: 4 - i] = a[:4] + b[: 4 - i * i]


def operands_of_two_dimensions(a, b, n):
    m = b.reshape(2, 4)
    # pragma sequential for
    for i in range(n):
        a[i] = i
        m[:, : 4 - i * i] = m[:, 0:4] * a[0]


def assignment(a, b, n):
    # pragma sequential for
    for i in range(n):
        a[i] = i
        a[0:4] = a[4 + i * i : 8]


def in_place(a, b, n):
    # pragma sequential for
    for i in range(n):
        a[i] = i
        a[: 4 - i * i] += b[:4]


def matrix_product(a, b, n):
    # pragma sequential for
    for i in range(n):
        a[i] = i
        a[i] += a[:4] @ b[i * i : 4]


def dot_product(a, b, n):
    # pragma sequential for
    for i in range(n):
        a[i] = i
        a[i] += np.dot(a[:4], b[i * i : 4])


def mask(a, b, n):
    # pragma sequential for
    for i in range(n):
        a[i] = i
        a[: 4 - i][b[:4] > 0] = 3


def index(a, b, n):
    # pragma sequential for
    for i in range(n):
        a[i] = i
        a[3 * i * i + 2] = a[0] + 1


def index_array(a, b, n):
    g = b.astype("int64") * 3
    # pragma sequential for
    for i in range(n):
        a[i] = i
        g[7] = i  # what the loop writes is not tested before it
        a[g[i : i + 2]] = a[0] + 1


def in_workers(a, b, n):
    # pragma parallel for
    for i in range(n):
        a[i] = b[i]
        a[i] += np.dot(b[: 4 + i % 7 % 6], b[:4])


FUNCTIONS = [
    operands,
    operands_of_two_dimensions,
    assignment,
    in_place,
    matrix_product,
    dot_product,
    mask,
    index,
    index_array,
    in_workers,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=[f.__name__ for f in FUNCTIONS])
def test_as_numpy(function):
    outcomes = []
    compiled = appy.jit(strict=True)(function)
    for f in (function, compiled):
        a, b = np.arange(8.0), np.arange(8.0) + 1
        with pytest.raises((ValueError, IndexError)) as raised:
            f(a, b, 7)
        text = str(raised.value)
        if function is in_place:
            text = text.removesuffix("(3,) ")  # NumPy names the target too
        outcomes.append((raised.type, text, [] if function is in_workers else a.tolist(), b.tolist()))
    assert outcomes[0] == outcomes[1]
    assert compiled.stats()["runs"] == 1


def one_element(a, b, n):
    # pragma sequential for
    for i in range(n):
        a[i] = i
        a[:4] = a[:4] + b[: 4 - i * 3]


def test_an_extent_that_becomes_one_is_said_to_be_beyond_compiled_code():
    with pytest.raises(RuntimeError, match="compiled code cannot continue"):
        appy.jit(strict=True)(one_element)(np.arange(8.0), np.arange(8.0), 2)
