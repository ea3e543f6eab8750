"""Sums over matrices whose loops run in groups of rows and blocks of columns and steps (csrc/passes/blocks.cpp)."""

from __future__ import annotations

import numpy as np
import pytest

import appy


def product(c, a, b, d, alpha):
    # pragma parallel for
    for i in range(c.shape[0]):
        # pragma simd
        for j in range(c.shape[1]):
            c[i, j] *= alpha
        for k in range(b.shape[0]):
            # pragma simd
            for j in range(c.shape[1]):
                c[i, j] += alpha * a[i, k] * b[k, j]
        # pragma simd
        for j in range(c.shape[1]):
            c[i, j] -= d[i]


def product_by_numpy(c, a, b, d, alpha):
    c *= alpha
    c += alpha * a[: len(c), : len(b)] @ b - d[: len(c), None]


def sums_in_lanes(c, a, b, d, alpha):
    # pragma parallel for schedule(dynamic)
    for i in range(c.shape[0]):
        # pragma simd
        for j in range(1, c.shape[1]):
            s = alpha
            for k in range(b.shape[0]):
                s += a[i, k] * b[k, j]
            c[i, j] = s


def sums_in_lanes_by_numpy(c, a, b, d, alpha):
    c[:, 1:] = alpha + a[: len(c), : len(b)] @ b[:, 1:]


def rank_two(c, a, b, d, alpha):
    # pragma parallel for schedule(dynamic)
    for i in range(c.shape[0]):
        d[i] = 2 * d[i]
        for j in range(min(i + 1, c.shape[1])):
            s = 0.0
            # pragma simd
            for k in range(b.shape[0]):
                s += a[i, k] * a[j, k + 1] + a[j, k] * a[i, k + 1]
            c[i, j] = alpha * c[i, j] + s


def rank_two_by_numpy(c, a, b, d, alpha):
    (m, n), q = c.shape, len(b)
    d[:m] *= 2
    x, y = a[:, :q], a[:, 1 : q + 1]
    new = alpha * c + (x[:m] @ y[:n].T + y[:m] @ x[:n].T)
    c[:] = np.where(np.tri(m, n, dtype=bool), new, c)


def from_the_second_on(c, a, b, d, alpha):
    # pragma parallel for
    for i in range(2, c.shape[0]):
        for j in range(1, c.shape[1]):
            s = c[i, j]
            # pragma simd
            for k in range(1, b.shape[0]):
                s += a[i, k] * a[j, k]
            c[i, j] = s


def from_the_second_on_by_numpy(c, a, b, d, alpha):
    m, n = c.shape
    c[2:, 1:] += a[2:m, 1 : len(b)] @ a[1:n, 1 : len(b)].T


def upper_part(c, a, b, d, alpha):
    # pragma parallel for schedule(dynamic)
    for i in range(c.shape[0]):
        for k in range(b.shape[0]):
            # pragma simd
            for j in range(max(i + 1, 3), c.shape[1]):
                c[i, j] += a[i, k] * b[k, j]
        # pragma simd
        for j in range(i + 1, c.shape[1]):
            c[i, j] *= alpha


def upper_part_by_numpy(c, a, b, d, alpha):
    (m, n), q = c.shape, len(b)
    above = ~np.tri(m, n, dtype=bool)
    product = a[:m, :q] @ b
    product[:, :3] = 0
    c[:] = np.where(above, alpha * (c + product), c)


def lower_part(c, a, b, d, alpha):
    # pragma parallel for schedule(dynamic)
    for i in range(c.shape[0]):
        for k in range(b.shape[0]):
            # pragma simd
            for j in range(1, min(i + 2, c.shape[1])):
                c[i, j] += a[i, k] * b[k, j]


def lower_part_by_numpy(c, a, b, d, alpha):
    (m, n), q = c.shape, len(b)
    below = np.tri(m, n, 1, dtype=bool)
    below[:, :1] = False
    c += np.where(below, a[:m, :q] @ b, 0)


def capped_dots(c, a, b, d, alpha):
    # pragma parallel for
    for i in range(1, c.shape[0]):
        for j in range(2, min(i + 3, c.shape[1])):
            s = 0.0
            # pragma simd
            for k in range(b.shape[0]):
                s += a[i, k] * a[j, k]
            c[i, j] = s + alpha * c[i, j]


def capped_dots_by_numpy(c, a, b, d, alpha):
    (m, n), q = c.shape, len(b)
    stored = np.tri(m, n, 2, dtype=bool)
    stored[:1] = False
    stored[:, :2] = False
    c[:] = np.where(stored, a[:m, :q] @ a[:n, :q].T + alpha * c, c)


def triangle_of_lanes(c, a, b, d, alpha):
    # pragma parallel for schedule(dynamic)
    for i in range(c.shape[0]):
        # pragma simd
        for j in range(1, min(i, c.shape[1])):
            s = 0.0
            for k in range(b.shape[0]):
                s += a[i, k] * b[k, j]
            c[i, j] -= s


def triangle_of_lanes_by_numpy(c, a, b, d, alpha):
    (m, n), q = c.shape, len(b)
    stored = np.tri(m, n, -1, dtype=bool)
    stored[:, :1] = False
    c -= np.where(stored, a[:m, :q] @ b, 0)


def dots(c, a, b, d, alpha):
    # pragma parallel for
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            s = d[i]
            # pragma simd
            for k in range(b.shape[0]):
                s += a[i, k] * a[j, k]
            c[i, j] = s


def dots_by_numpy(c, a, b, d, alpha):
    (m, n), q = c.shape, len(b)
    c[:] = d[:m, None] + a[:m, :q] @ a[:n, :q].T


def sums_of_the_columns_before(c, a, b, d, alpha):
    # pragma parallel for
    for i in range(c.shape[0]):
        for j in range(1, c.shape[1]):
            s = 0.0
            # pragma simd
            for k in range(b.shape[0]):
                s += a[i, k] * a[j, k]
            c[i, j] = s - c[i, j - 1]


def sums_of_the_columns_before_by_numpy(c, a, b, d, alpha):
    (m, n), q = c.shape, len(b)
    product = a[:m, :q] @ a[:n, :q].T
    for j in range(1, n):
        c[:, j] = product[:, j] - c[:, j - 1]


PROGRAMS = {
    dots: dots_by_numpy,
    capped_dots: capped_dots_by_numpy,
    triangle_of_lanes: triangle_of_lanes_by_numpy,
    sums_of_the_columns_before: sums_of_the_columns_before_by_numpy,
    upper_part: upper_part_by_numpy,
    lower_part: lower_part_by_numpy,
    product: product_by_numpy,
    sums_in_lanes: sums_in_lanes_by_numpy,
    rank_two: rank_two_by_numpy,
    from_the_second_on: from_the_second_on_by_numpy,
}
# Rows, columns, steps: nothing, one of each, what one block has, and several in each direction.
SHAPES = [(0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1), (5, 7, 3), (33, 70, 20), (40, 300, 280), (150, 270, 260)]
# Enough that columns are copied to panels, with 36 rows for each of two workers and without.
SHAPES += [(72, 75, 41), (73, 64, 32), (110, 140, 47), (160, 90, 33), (250, 251, 39)]  # dots only
LARGE = [(77, 1111, 1033), (150, 1027, 1025), (1300, 1090, 970), (50, 1111, 1033)]


def arguments(shape, dtype, seed=0):
    m, n, q = shape
    rng = np.random.default_rng(m + n + q + seed)
    # Small integers: sums are exact in any order.
    sizes = [(m, n), (max(m, n, 1), q + 1), (q, n), max(m, 1)]
    return [rng.integers(-3, 4, size).astype(dtype) for size in sizes] + [dtype(2)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", SHAPES + LARGE)
@pytest.mark.parametrize("program", PROGRAMS)
def test_each_row_and_column_once(program, shape, dtype):
    got, want = arguments(shape, dtype), arguments(shape, dtype)
    compiled = appy.jit(strict=True)(program)
    compiled(*got)
    PROGRAMS[program](*want)
    for g, w in zip(got[:4], want[:4]):
        np.testing.assert_array_equal(g, w)
    assert "runs in groups of rows" in str(appy.explain(compiled))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("program", PROGRAMS)
def test_any_order_in_memory_and_any_number_of_threads(program, threads):
    compiled = appy.jit(strict=True, threads=threads)(program)
    for change in (np.asfortranarray, lambda a: np.repeat(a, 2, axis=-1)[..., ::2], lambda a: a[::-1]):
        got, want = ([change(a) for a in arguments((70, 300, 290), np.float64)[:4]] for _ in range(2))
        compiled(*got, 2.0)
        PROGRAMS[program](*want, 2.0)
        for g, w in zip(got, want):
            np.testing.assert_array_equal(g, w)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("program", [product, sums_in_lanes, triangle_of_lanes, rank_two, capped_dots, dots])
def test_panels_for_any_number_of_threads(program, threads):
    compiled = appy.jit(strict=True, threads=threads)(program)
    for shape in LARGE:
        got, want = arguments(shape, np.float64), arguments(shape, np.float64)
        compiled(*got)
        PROGRAMS[program](*want)
        for g, w in zip(got[:4], want[:4]):
            np.testing.assert_array_equal(g, w)


def test_panels_are_copied_and_scaled_once():
    got = arguments((77, 300, 280), np.float64)
    for program, arrays in ((product, 2), (sums_in_lanes, 1)):
        text = appy.lower(appy.jit(strict=True)(program), *got).text(optimised=True)
        assert text.count(" alloc ") == arrays
        assert text.count("%b.1 = alloc ") == 1


def test_as_python_does_it():
    """The formulas above are the programs."""
    for program, by_numpy in PROGRAMS.items():
        got, want = arguments((6, 5, 4), np.float64), arguments((6, 5, 4), np.float64)
        program(*got)
        by_numpy(*want)
        for g, w in zip(got[:4], want[:4]):
            np.testing.assert_array_equal(g, w)


@pytest.mark.parametrize("offset", range(8))
@pytest.mark.parametrize("columns", [127, 128, 136, 200])
def test_rows_that_begin_between_lines_of_the_cache(offset, columns):
    """What stands before the first aligned element is added up, too, wherever that is, and once."""
    memory = np.random.default_rng(offset).integers(-3, 4, 12 * columns + 16).astype(np.float64)
    begin = (-memory.ctypes.data % 64) // 8 + offset
    a = memory[begin : begin + 12 * columns].reshape(12, columns)
    c, b = np.zeros((12, 12)), np.zeros((columns - 1, 12))
    appy.jit(strict=True)(from_the_second_on)(c, a, b, None, 0.0)
    want = np.zeros((12, 12))
    from_the_second_on_by_numpy(want, a, b, None, 0.0)
    np.testing.assert_array_equal(c, want)


def written_behind(c, a, b, d, alpha):
    # pragma parallel for
    for i in range(c.shape[0]):
        f = d[i]
        for k in range(b.shape[0]):
            # pragma simd
            for j in range(c.shape[1]):
                c[i, j] += f * a[i, k] * b[k, j]
        d[i] = f + 1


@pytest.mark.parametrize("shape", [(40, 300, 280), LARGE[0]])
def test_a_value_that_is_written_behind_its_use(shape):
    got, want = arguments(shape, np.float64), arguments(shape, np.float64)
    appy.jit(strict=True)(written_behind)(*got)
    c, a, b, d, _ = want
    c += d[: len(c), None] * (a[: len(c), : len(b)] @ b)
    np.testing.assert_array_equal(got[0], c)
    np.testing.assert_array_equal(got[3][: len(c)], d[: len(c)] + 1)
