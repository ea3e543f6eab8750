"""Products of matrices: in place and in tiles, every order of the factors in memory, ragged edges."""

from __future__ import annotations

import re

import numpy as np
import pytest

import appy

# Rows, depth, columns: below and above what is computed in place, around the sizes of groups, panels, tiles and blocks.
SHAPES = [
    (1, 1, 1),
    (5, 3, 2),
    (6, 8, 16),
    (7, 130, 17),
    (64, 64, 64),
    (109, 128, 112),
    (110, 129, 257),
    (505, 7, 513),
    (130, 40, 1024),
    (1009, 40, 31),
    (3, 700, 700),
    (490, 193, 23),
    (9, 40, 4500),
    (27, 600, 4500),
    (210, 900, 130),
    (97, 256, 130),
    (97, 257, 130),
    (97, 352, 130),
    (97, 353, 130),
    (0, 4, 5),
    (4, 0, 5),
    (200, 0, 300),
]


@appy.jit(strict=True)
def product(a, b):
    # pragma 0=>parallel
    c = a @ b
    return c


@appy.jit(strict=True)
def right_turned(a, b):
    # pragma 0=>parallel
    c = a @ b.T
    return c


@appy.jit(strict=True)
def left_turned(a, b):
    # pragma 0=>parallel
    c = a.T @ b
    return c


@appy.jit(strict=True)
def both_turned(a, b):
    # pragma 0=>parallel
    c = np.einsum("ki,jk->ij", a, b)
    return c


@appy.jit(strict=True)
def accumulated(alpha, a, b, c):
    # pragma 0=>parallel ::2=>simd
    c += alpha * a @ b[:, ::2]


def operands(shape, dtype):
    rng = np.random.default_rng(sum(shape))
    rows, depth, columns = shape
    if np.issubdtype(dtype, np.floating):
        return rng.random((rows, depth)).astype(dtype), rng.random((depth, columns)).astype(dtype)
    return rng.integers(0, 9, (rows, depth)).astype(dtype), rng.integers(0, 9, (depth, columns)).astype(dtype)


def assert_product(got, want, depth):
    assert got.dtype == want.dtype and got.shape == want.shape
    if np.issubdtype(want.dtype, np.floating):
        # All terms are positive, so that the sum of their absolute values is the result.
        np.testing.assert_allclose(got, want, rtol=max(depth, 1) * np.finfo(want.dtype).eps)
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32", "uint8"])
@pytest.mark.parametrize("shape", SHAPES)
def test_products_equal_numpys(shape, dtype):
    a, b = operands(shape, dtype)
    want = a @ b
    assert_product(product(a, b), want, shape[1])
    assert_product(right_turned(a, np.ascontiguousarray(b.T)), want, shape[1])
    assert_product(left_turned(np.ascontiguousarray(a.T), b), want, shape[1])
    assert_product(both_turned(np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)), want, shape[1])
    assert_product(product(np.asfortranarray(a), np.repeat(b, 2, axis=1)[:, ::2]), want, shape[1])
    assert product.stats()["declined"] == 0


def gram(a):
    # pragma 0=>parallel
    columns = a.T @ a
    # pragma 0=>parallel
    rows = a[:, 1:] @ a[:, 1:].T
    return columns, rows


def shifted_gram(a):
    # pragma 0=>parallel
    c = a[:, 1:].T @ a[:, :-1]
    return c


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize("shape", [(1, 5), (33, 200), (300, 130), (129, 520), (900, 130), (1100, 255), (505, 513)])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_matrix_times_its_transpose(shape, dtype, threads):
    """Of the symmetric result one triangle is computed; the other one is the same, bit for bit."""
    a, _ = operands((*shape, 1), dtype)
    with_threads = appy.jit(strict=True, threads=threads)
    for got, want, depth in zip(with_threads(gram)(a), (a.T @ a, a[:, 1:] @ a[:, 1:].T), shape, strict=True):
        assert_product(got, want, depth)
        np.testing.assert_array_equal(got, got.T)
    assert_product(with_threads(shifted_gram)(a), a[:, 1:].T @ a[:, :-1], shape[0])


@pytest.mark.parametrize("threads", [1, 3, 4, 6, 16])
@pytest.mark.parametrize("depth", [200, 700])
def test_the_tiles_are_dealt_to_any_number_of_threads(threads, depth):
    a, b = operands((250, depth, 70), "float64")
    with_threads = appy.jit(strict=True, threads=threads)
    assert_product(with_threads(product)(a, b), a @ b, depth)
    assert_product(with_threads(left_turned)(a.T.copy(), b), a @ b, depth)
    assert_product(with_threads(right_turned)(a, b.T.copy()), a @ b, depth)
    assert_product(with_threads(shifted_gram)(a), a[:, 1:].T @ a[:, :-1], 250)
    assert_product(with_threads(shifted_gram)(b), b[:, 1:].T @ b[:, :-1], depth)
    columns, rows = with_threads(gram)(a)
    assert_product(columns, a.T @ a, 250)
    assert_product(rows, a[:, 1:] @ a[:, 1:].T, depth)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_factor_may_be_an_expression_and_the_result_be_added(shape):
    a, b = operands(shape, "float64")
    wide = np.repeat(b, 2, axis=1)
    c = np.ones((shape[0], shape[2]))
    want = c + 1.5 * a @ b
    accumulated(1.5, a, wide, c)
    assert_product(c, want, shape[1] + 2)


def test_a_product_that_reads_what_it_is_stored_to():
    a = np.random.default_rng(0).random((120, 120))
    want = a @ a + a

    @appy.jit(strict=True)
    def squared(a):
        # pragma 0=>parallel
        a += a @ a

    squared(a)
    assert_product(a, want, 121)


def test_products_in_a_parallel_loop():
    a, b = np.random.default_rng(0).random((2, 5, 40, 40))
    out = np.zeros((5, 40, 40))

    @appy.jit(strict=True)
    def batched(a, b, out):
        # pragma parallel for
        for i in range(a.shape[0]):
            out[i] = a[i] @ b[i]

    batched(a, b, out)
    assert_product(out, a @ b, 40)


@pytest.mark.parametrize("shape", [(5, 3, 2), (110, 129, 83), (505, 7, 325), (1009, 4, 291), (3, 700, 545)])
def test_no_subscript_leaves_a_tile(shape):
    """The evaluator ends the process where one does."""

    def sides(a, b, c, d):
        # pragma 0=>parallel
        p = a @ b
        # pragma 0=>parallel
        q = c.T @ d.T
        return p, q

    a, b = operands(shape, "float64")
    p, q = appy.jit(strict=True, backend="eval")(sides)(a, b, a.T.copy(), b.T.copy())
    assert_product(p, a @ b, shape[1])
    assert_product(q, a @ b, shape[1])


def test_six_rows_are_summed_in_registers():
    text = appy.lower(product, np.ones((8, 8)), np.ones((8, 8))).text(optimised=True)
    # One nest in place and one in tiles, which has an array for a block of each factor beside the result, and a loop that
    # copies the right factor: the first block of products takes no sums from the result. With 32 registers one more,
    # which has an array for a panel.
    panels = int("registers(32)" in text)
    assert text.count("= fma ") == 12 + 6 * panels and text.count(" = alloc ") == 3 + panels
    assert text.count("for parallel") == 3 + panels


def test_exact_products_are_numpys():
    with pytest.raises(appy.CompileError, match="exact"):

        @appy.jit(strict=True, exact=True)
        def exactly(a, b):
            # pragma :M=>parallel
            c = a @ b
            return c

        exactly(np.ones((3, 3)), np.ones((3, 3)))


def test_a_vector_times_a_matrix_adds_rows():
    @appy.jit(strict=True)
    def weighted(y, a):
        # pragma 0=>parallel
        x = y @ a
        return x

    a, y = np.random.default_rng(0).random((300, 40)), np.random.default_rng(1).random(300)
    np.testing.assert_allclose(weighted(y, a), y @ a, rtol=1e-13)
    text = appy.lower(weighted, y, a).text(optimised=True)
    # The innermost loop runs along rows of the matrix and has no sum of its own.
    inner = text[text.index("load %a") :]
    assert "for simd" in text and "carry" not in text and inner.index("store") < inner.index("yield")


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
@pytest.mark.parametrize("shape", [(1, 9), (3, 400), (8, 256), (9, 257), (103, 1100), (16, 5000), (0, 7), (7, 0)])
def test_sums_of_columns_add_several_rows_at_a_time(shape, dtype):
    @appy.jit(strict=True)
    def columns(a, y):
        # pragma 1=>reduction(sum) 0=>parallel
        s = a.sum(axis=0)
        # pragma 0=>parallel
        p = y @ a
        return s, p

    a, _ = operands((shape[0], shape[1], 1), dtype)
    y = np.arange(shape[0]).astype(dtype)
    s, p = columns(a, y)
    assert_product(s, a.sum(axis=0), shape[0])
    assert_product(p, y @ a, shape[0])
    if min(shape) > 1:
        text = appy.lower(columns, a, y).text(optimised=True)
        assert text.count("= load %a[8*") == 16  # eight rows of each sum


def projected(a, y, steps):
    # pragma sequential for
    for k in range(steps):
        # pragma 0=>parallel
        x = y @ a[:, k:]
        # pragma 0=>parallel 1=>simd
        a[:, k:] -= np.outer(y, x)


@pytest.mark.parametrize("threads", [1, 2, 3, 7, 16])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_in_a_loop_workers_add_up_rows_of_their_own(dtype, threads):
    """Where rows are many for so many threads, and columns at most four times as many, and elsewhere. Of more threads
    several divide the columns of the same rows."""
    rng = np.random.default_rng(0)
    compiled = appy.jit(strict=True, threads=threads)(projected)
    for rows in (0, 1, 31, 32, 33, 72, 130):
        for columns in (1, 2, 9, 129, 4 * rows + 2, 1030):
            a, y = rng.integers(-3, 4, (rows, columns)), rng.integers(-1, 2, rows) * (rng.random(rows) < 0.2)
            want, got = a.astype(dtype), a.astype(dtype)
            y = y.astype(dtype)
            steps = min(3, columns)
            projected(want, y, steps)
            compiled(got, y, steps)
            np.testing.assert_array_equal(got, want)  # of small integers, in any order of the sums


def test_booleans_in_a_loop_are_joined():
    @appy.jit(strict=True, threads=2)
    def reached(a, y, steps):
        # pragma sequential for
        for _ in range(steps):
            # pragma 0=>parallel
            y[:] = y @ a

    a, y = np.eye(90, dtype=bool) | (np.random.default_rng(0).random((90, 90)) < 0.005), np.zeros(90, bool)
    y[::9] = True
    want = y.copy()
    for _ in range(4):
        want[:] = want @ a
    reached(a, y, 4)
    np.testing.assert_array_equal(y, want)
    assert 0 < want.sum() < 90


@pytest.mark.parametrize("n", [1, 7, 8, 16, 33, 100])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_several_sums_inside_a_simd_loop(n, dtype):
    """Two vectors of lanes at a time, and elements that are the same for all lanes."""

    def sums(a, x, out):
        # pragma simd
        for j in range(x.shape[1]):
            p, q, r, s, t = out[0, j], out[1, j], out[2, j], out[3, j], out[4, j]
            for k in range(x.shape[0]):
                p += a[0, k] * x[k, j]
                q -= a[1, k] * x[k, j]
                r = max(r, a[2, k] + x[k, j])
                s = s * a[3, k] + x[k, j]
                t += x[k, j] / a[4, k]
            out[0, j], out[1, j], out[2, j], out[3, j], out[4, j] = p, q, r, s, t

    a, x = (
        np.random.default_rng(0).random((5, 12)).astype(dtype),
        np.random.default_rng(1).random((12, n)).astype(dtype),
    )
    got, want = np.zeros((2, 5, n), dtype)
    compiled = appy.jit(strict=True)(sums)
    compiled(a, x, got)
    sums(a, x, want)
    np.testing.assert_allclose(got, want, rtol=64 * np.finfo(dtype).eps)


def updated_and_summed(a, u, v, x, y):
    # pragma 0=>parallel 1=>simd
    a += np.outer(u, v)
    # pragma 0=>parallel
    x += y @ a


@pytest.mark.parametrize("columns", [0, 1, 200, 959, 960, 961, 1024, 5000])
@pytest.mark.parametrize("threads", [1, 2])
def test_one_sweep_over_short_and_long_rows(columns, threads):
    """Columns are divided between threads where rows are long."""
    rng = np.random.default_rng(0)
    for rows in (0, 1, 7, 33):
        made = [rng.random(shape) for shape in ((rows, columns), rows, columns, columns, rows)]
        want, got = [x.copy() for x in made], [x.copy() for x in made]
        updated_and_summed(*want)
        appy.jit(strict=True, threads=threads)(updated_and_summed)(*got)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-12)


def sum_of_two(a, b, c, x, y):
    # pragma 0=>parallel 1=>simd
    c[:] = x * (a @ b) + y * c


def turned(a, b, c, x, y):
    # pragma 0=>parallel 1=>simd
    c[:] = a.T @ b


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("program", [sum_of_two, turned])
def test_sums_stay_in_the_sixteen_registers_of_avx2(program, dtype, capfd):
    """Six rows of two vectors, a row of the right factor and an element of the left one take fifteen."""
    one = np.dtype(dtype).type(1)
    before = appy.config()["isa"]
    appy.config(isa="avx2")
    try:
        appy.jit(strict=True, dump="asm")(program)(*np.ones((3, 8, 8), dtype), one, one)
    finally:
        appy.config(isa=before)
    code = capfd.readouterr()
    parts = re.split(r"\nL\d+:", code.out + code.err)
    loops = [part for part in parts if part.count("vfmadd231p") == 12 and "vbroadcast" in part]
    assert len(loops) >= 2  # where the factors lie, and in tiles
    for loop in loops:
        last = [line.start() for line in re.finditer("vfmadd231p", loop)][-1]
        assert "ymmword ptr [rsp" not in loop[:last], loop
