"""Recurrences whose iterations load what those before them stored, of every small length."""

from __future__ import annotations

import numpy as np
import pytest

import appy


def one_apart(x, y, n):
    # pragma sequential for
    for i in range(1, n):
        y[i] = 0.9 * y[i - 1] + 0.1 * x[i]


def two_apart(x, y, n):
    # pragma sequential for
    for i in range(2, n):
        y[i] = y[i - 1] - 0.5 * y[i - 2] + x[i]


def only_far(x, y, n):
    # pragma sequential for
    for i in range(3, n):
        y[i] = y[i - 3] + x[i]


def four_apart(x, y, n):
    # pragma sequential for
    for i in range(4, n):
        y[i] = y[i - 4] * x[i] + y[i - 2]


def backwards(x, y, n):
    # pragma sequential for
    for i in range(n - 3, -1, -1):
        y[i] = y[i + 1] * x[i] - y[i + 2]


def every_second(x, y, n):
    # pragma sequential for
    for i in range(4, n, 2):
        y[i] = y[i - 2] + y[i - 1] - y[i - 4] * x[i]


def moved_only(x, y, n):
    # pragma sequential for
    for i in range(2, n):
        y[i] = y[i - 2]


def behind_its_store(x, y, n):
    # pragma sequential for
    for i in range(1, n):
        y[i] = x[i]
        x[i] = y[i - 1] * 2


def of_both(x, y, n):
    # pragma sequential for
    for i in range(1, n):
        x[i] = x[i - 1] * 0.5 + y[i]
        y[i] = y[i - 1] + x[i]


def stored_twice(x, y, n):
    # pragma sequential for
    for i in range(1, n):
        y[i] = y[i - 1] + x[i]
        y[i] = y[i] * 2


def stored_ahead(x, y, n):
    # pragma sequential for
    for i in range(1, n - 1):
        y[i] = y[i - 1] + x[i]
        y[i + 1] = x[i]


def under_a_condition(x, y, n):
    # pragma sequential for
    for i in range(1, n):
        if x[i] > 2:
            y[i] = y[i - 1] + 1


def with_a_choice(x, y, n):
    # pragma sequential for
    for i in range(1, n):
        y[i] = y[i - 1] + x[i] if x[i] > 2 else x[i]


def until(x, y, n):
    # pragma sequential for
    for i in range(1, n):
        y[i] = y[i - 1] + x[i]
        if y[i] > 12:
            break


def through_negative_indices(x, y, n):
    # pragma sequential for
    for i in range(n):
        y[i] = y[i - 1] + x[i]


PROGRAMS = [
    one_apart, two_apart, only_far, four_apart, backwards, every_second, moved_only, behind_its_store, of_both,
    stored_twice, stored_ahead, under_a_condition, with_a_choice, until, through_negative_indices,
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_recurrences(program, dtype):
    compiled = appy.jit(strict=True)(program)
    for n in [*range(10), 200]:
        x, y = (np.random.default_rng(k).integers(1, 5, max(n, 1)).astype(dtype) for k in (1, 2))
        if dtype.startswith("int") and program is not moved_only:
            x, y = x % 2, y % 2
        mine, want = [x.copy(), y.copy()], [x.copy(), y.copy()]
        program(*want, n)
        compiled(*mine, n)
        for a, b in zip(mine, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4 if dtype == "float32" else 1e-11)


@pytest.mark.parametrize("shift", [-2, -1, 0, 1, 2])
def test_arrays_that_overlap(shift):
    """The other array may be what is carried, some elements away."""
    compiled = appy.jit(strict=True)(one_apart)
    for n in (2, 5, 30):
        want, mine = (np.random.default_rng(4).random(n + 4) for _ in range(2))
        for function, base in ((one_apart, want), (compiled, mine)):
            function(base[2 : n + 2], base[2 + shift : n + 2 + shift], n)
        np.testing.assert_allclose(mine, want, rtol=1e-12)


def by_rows(a, w):
    # pragma parallel for
    for r in range(a.shape[0]):
        for i in range(1, a.shape[1]):
            a[r, i] = w * a[r, i - 1] + a[r, i]


def along_diagonals(a, w):
    # pragma sequential for
    for i in range(1, min(a.shape[0], a.shape[1])):
        a[i, i] = a[i - 1, i - 1] * w + a[i - 1, i]


def edit_distance(a, w):
    # pragma sequential for
    for i in range(1, a.shape[0]):
        for j in range(1, a.shape[1]):
            a[i, j] = min(a[i - 1, j] + w, a[i, j - 1] + 1.0, a[i - 1, j - 1] + a[i, j])


def columns_in_lanes(a, w):
    # pragma parallel for simd
    for j in range(a.shape[1]):
        for i in range(1, a.shape[0]):
            a[i, j] = w * a[i - 1, j] + a[i, j]


@pytest.mark.parametrize(
    "program", [by_rows, along_diagonals, edit_distance, columns_in_lanes], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_rows(program, order):
    compiled = appy.jit(strict=True)(program)
    for shape in [(0, 0), (1, 1), (1, 9), (9, 1), (2, 2), (3, 17), (40, 33)]:
        a = np.asarray(np.random.default_rng(7).random(shape), order=order)
        mine, want = a.copy(order="K"), a.copy(order="K")
        program(want, 0.5)
        compiled(mine, 0.5)
        np.testing.assert_allclose(mine, want, rtol=1e-11)


def test_what_is_out_of_bounds_is_told_where_it_is_reached():
    def program(x, y, n):
        # pragma sequential for
        for i in range(1, n):
            y[i] = y[i - 1] + x[i]

    compiled = appy.jit(strict=True)(program)
    for n in (0, 1, 6, 9):
        x, y = np.ones(6), np.ones(6)
        if n <= 6:
            compiled(x, y, n)
            np.testing.assert_array_equal(y[:n], np.arange(1, n + 1))
        else:
            with pytest.raises(IndexError):
                compiled(x, y, n)
            np.testing.assert_array_equal(y, np.arange(1, 7))
