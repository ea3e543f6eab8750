"""What compiled array statements become: loops, loads and arrays that are left; groups; what is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest
from machine import streams
from scientific_programs import appy_arrays

import appy


def graph(function, *args) -> str:
    """The optimised graph of the first region."""
    return appy.lower(function, *args).text(optimised=True)


def counts(text: str) -> tuple[int, int, int]:
    """Loops, loads and allocations."""
    lines = [line.strip() for line in text.splitlines()]
    return (
        sum(line.startswith("for ") or " = for " in line for line in lines),
        sum(" = load " in line for line in lines),
        sum(" = alloc " in line for line in lines),
    )


@appy.jit(strict=True)
def chain(a, b, out):
    # pragma 0=>parallel,simd
    t = a * b
    # pragma 0=>parallel,simd
    u = t + a
    # pragma :=>parallel,simd
    out[:] = u * t


def test_a_chain_of_statements_is_one_loop_without_arrays():
    a = np.arange(50.0)
    assert counts(graph(chain, a, a + 1, np.zeros(50))) == (1, 2, 0)
    out = np.zeros(50)
    chain(a, a + 1, out)
    np.testing.assert_array_equal(out, (a * (a + 1) + a) * (a * (a + 1)))


@appy.jit(strict=True)
def normalised(a, b):
    # pragma :M=>parallel :N=>reduction(sum)
    s = np.sum(a, 1)
    # pragma :M=>parallel :N=>simd
    b[:, :] = a / s[:, None]


def test_a_sum_over_rows_and_its_use_are_one_loop_over_rows():
    a = np.random.default_rng(0).random((9, 12))
    assert counts(graph(normalised, a, a.copy())) == (3, 2, 0)


@appy.jit(strict=True)
def softmax(x):
    # pragma 0=>parallel 2=>reduction(max)
    m = np.max(x, axis=1, keepdims=True)
    # pragma 0=>parallel 1=>simd
    e = np.exp(x - m)
    # pragma 0=>parallel 2=>reduction(sum)
    s = np.sum(e, axis=1, keepdims=True)
    # pragma 0=>parallel 1=>simd
    out = e / s
    return out


def test_softmax_is_one_loop_over_rows_with_a_row_of_its_own():
    x = np.random.default_rng(0).random((9, 12))
    text = graph(softmax, x)
    assert counts(text) == (4, 3, 2)  # rows; maximum, exponential and sum, quotient; the result and a row
    assert text.count("escapes") == 1


def test_explain_shows_a_group_once(capsys):
    softmax(np.ones((3, 4)))
    text = str(appy.explain(softmax))
    assert text.count("entered") == 1 and "runs inside the one at" in text


@appy.jit(strict=True)
def gesummv(alpha, beta, a, b, x, y):
    # pragma :M=>parallel :N=>reduction(sum)
    y[:] = alpha * a @ x + beta * b @ x


def test_gesummv_reads_each_matrix_once_and_makes_no_array():
    a = np.ones((8, 8))
    text = graph(gesummv, 2.0, 3.0, a, a + 1, np.ones(8), np.zeros(8))
    loops, loads, arrays = counts(text)
    # A few rows of both together, and those that are left.
    assert (loops, arrays) == (4, 0) and loads == (streams() + 1) + 3


def gemver(alpha, beta, a, u1, v1, u2, v2, w, x, y, z):
    # pragma 0=>parallel 1=>simd
    a += np.outer(u1, v1) + np.outer(u2, v2)
    # pragma 0=>parallel
    x += beta * y @ a + z
    # pragma 0=>parallel 1=>reduction(sum)
    w += alpha * a @ x


def made_and_summed(a, u, v, s):
    # pragma 0=>parallel 1=>simd
    a[:, :] = u[:, None] * v - 1
    # pragma 0=>parallel
    s[:] = a.sum(axis=0)


def random_arguments(m, n):
    rng = np.random.default_rng(m + n)
    rows, columns = rng.random((4, m)), rng.random((4, n))
    return (1.5, 1.2, rng.random((m, n)), rows[0], columns[0], rows[1], columns[1], rows[2], columns[2], rows[3], columns[3])  # fmt: skip


def test_an_updated_matrix_is_summed_by_columns_in_the_same_sweep():
    text = graph(appy.jit(strict=True)(gemver), *random_arguments(9, 9))
    # Eight rows together, and those that are left; the last statement, some rows together, and those that are left.
    assert text.count("load %a[") == 8 + 1 + streams() + 1 and text.count(", %a[") == 9
    a = np.ones((8, 8))
    text = graph(appy.jit(strict=True)(made_and_summed), a, np.ones(8), np.ones(8), np.zeros(8))
    assert text.count("load %a[") == 0 and text.count(", %a[") == 9


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (4, 300), (9, 257), (30, 2050), (1, 5000), (700, 3), (0, 4), (4, 0)])
def test_sweeps_of_all_shapes(shape):
    got, want = random_arguments(*shape), random_arguments(*shape)
    appy.jit(strict=True)(gemver)(*got)
    gemver(*want)
    for g, w in zip(got[2:], want[2:]):
        np.testing.assert_allclose(g, w, rtol=1e-13)
    _, _, a, u, v, *_, s, _, _ = random_arguments(*shape)
    s = np.zeros(shape[1])
    appy.jit(strict=True)(made_and_summed)(a, u, v, s)
    np.testing.assert_allclose(a, u[:, None] * v - 1, atol=1e-15)
    np.testing.assert_allclose(s, a.sum(axis=0), rtol=1e-12)


def mag(v):
    return np.sqrt(np.sum(v * v))


@appy.jit(strict=True)
def norm(x, out):
    # pragma parallel for
    for i in range(x.shape[0]):
        out[i] = x[i] / mag(x)


def test_an_invariant_call_moves_out_of_a_parallel_loop():
    x = np.random.default_rng(0).random(40)
    text = graph(norm, x, np.zeros(40))
    assert counts(text) == (2, 2, 0)
    assert "for " not in text.rsplit("for parallel annotated", 1)[1]
    out = np.zeros(40)
    norm(x, out)
    np.testing.assert_allclose(out, x / np.sqrt(np.sum(x * x)), rtol=1e-14)


@appy.jit(strict=True)
def twice_differenced(a, b):
    # pragma 1:=>simd
    d = a[1:] - a[:-1]
    # pragma :=>simd
    b[:] = d[1:] - d[:-1]


def test_a_difference_of_differences_makes_no_array():
    a = np.random.default_rng(0).random(30)
    b = np.zeros(28)
    assert counts(graph(twice_differenced, a, b)) == (1, 3, 0)
    twice_differenced(a, b)
    np.testing.assert_allclose(b, np.diff(a, 2), rtol=0, atol=1e-15)


def test_a_stencil_of_limited_fluxes_is_one_nest_that_computes_each_laplacian_once():
    rng = np.random.default_rng(0)
    f, coeff = rng.random((9, 10, 11)), rng.random((5, 6, 11))
    out, want = np.zeros((5, 6, 11)), np.zeros((5, 6, 11))
    compiled = appy.jit(strict=True)(appy_arrays.hdiff)
    text = graph(compiled, f, out, coeff)
    # Of two rows together, and of what is left: loads; multiply-adds, one a Laplacian; fluxes. Each is there twice, once
    # in groups and strips of large planes.
    pairs, single = (20, 8 + 2, 7), (14, 5 + 1, 4)
    # Whole rows along the last dimension are one loop with the dimension before.
    assert counts(text) == (2 * (2 + 4), 2 * (pairs[0] + single[0]), 0)
    assert text.count(" = fma ") == 2 * (pairs[1] + single[1])
    assert len(re.findall(r" = select .* : f64", text)) == 2 * (pairs[2] + single[2])
    compiled(f, out, coeff)
    appy_arrays.hdiff(f, want, coeff)
    np.testing.assert_allclose(out, want, rtol=0, atol=1e-14)


@appy.jit(strict=True)
def shifted(a):
    # pragma :N=>simd
    a[1:] = a[:-1]


def test_a_statement_that_reads_what_it_writes_has_a_temporary():
    assert counts(graph(shifted, np.arange(5.0)))[2] == 1


@appy.jit(strict=True)
def masked_mean(a, b):
    # pragma :N=>reduction(sum)
    m = (a[b > 0] * 2).mean()
    return m


@appy.jit(strict=True)
def masked_update(a, b):
    # pragma :N=>simd
    a[b > 0] *= 2
    # pragma :N=>simd
    a[b < 0] = -a[b < 0]


def test_a_mask_that_needs_no_positions_makes_no_array():
    a, b = np.arange(9.0), np.ones(9)
    assert counts(graph(masked_mean, a, b))[2] == 0
    assert counts(graph(masked_update, a, b))[2] == 0


@appy.jit
def partly(a):
    # pragma 0=>simd
    b = a * 2
    # pragma :N=>simd
    c = np.sort(b[::-1])
    # pragma 0=>simd
    d = b + 1
    return c, d


def test_what_a_group_cannot_compile_is_interpreted_alone():
    a = np.arange(6.0)
    with pytest.warns(appy.AppyWarning, match="the call of sort"):
        c, d = partly(a)
    np.testing.assert_array_equal(c, a * 2)
    np.testing.assert_array_equal(d, a * 2 + 1)
    assert partly.stats()["runs"] == 2


@appy.jit(strict=True)
def broadcast(a, b, out):
    # pragma 0=>parallel 1=>simd
    out[:, :] = a + b


def test_extents_of_one_are_part_of_the_key():
    for shape in ((4, 5), (1, 5), (4, 1), (5,), (1,), ()):
        b = np.arange(np.prod(shape, dtype=int), dtype=float).reshape(shape)
        a, out = np.ones((4, 5)), np.zeros((4, 5))
        broadcast(a, b, out)
        np.testing.assert_array_equal(out, a + b)
    assert broadcast.stats()["declined"] == 0


def test_shapes_that_do_not_agree_raise_what_numpy_raises():
    with pytest.raises(ValueError, match="could not be broadcast together"):
        broadcast(np.ones((4, 5)), np.ones(4), np.zeros((4, 5)))


@appy.jit(strict=True)
def leaving(a):
    b = None
    # pragma 0=>simd
    b = a + 1
    # pragma 0=>simd
    a = b * 2
    return a, b


def test_names_bound_to_fresh_arrays():
    first = np.arange(4.0)
    a, b = leaving(first)
    np.testing.assert_array_equal(b, first + 1)
    np.testing.assert_array_equal(a, (first + 1) * 2)
    assert a.flags.owndata and a.flags.writeable and b.base is None


@appy.jit(strict=True)
def scattered(x, y, idx):
    # pragma 0=>simd
    x[idx] = y


@appy.jit(strict=True)
def accumulated(x, y):
    # pragma parallel for
    for _ in range(1):
        # pragma atomic
        x[:] += y


def test_what_overlaps_the_target_is_read_before_it_is_stored_to():
    base = np.arange(10.0)
    scattered(base[1:], base[:-1], np.arange(9))
    np.testing.assert_array_equal(base, [0, 0, 1, 2, 3, 4, 5, 6, 7, 8])
    base = np.arange(10.0)
    accumulated(base[1:], base[:-1])
    np.testing.assert_array_equal(base, [0, 1, 3, 5, 7, 9, 11, 13, 15, 17])


def column_from_those_before(A, j, k):
    # pragma 0=>parallel 1=>reduction(sum)
    A[1:, j] = A[1:, j] - A[1:, :j] @ A[0, :j]


def column_from_some_before(A, j, k):
    # pragma 0=>parallel 1=>reduction(sum)
    A[1:, j] = A[1:, j] - A[1:, k:j] @ A[0, k:j]


def row_from_one_before(A, j, k):
    # pragma 0=>simd
    A[j, 1:] = A[:j, :-1].T @ A[:j, 0]


def row_from_the_next(A, j, k):
    # pragma 0=>parallel
    A[0, 1:] = A[1:2, :-1] * 2.0


def column_from_itself(A, j, k):
    # pragma 0=>parallel 1=>reduction(sum)
    A[1:, j] = A[1:, : j + 1] @ A[0, : j + 1]


def column_from_another(A, j, k):
    # pragma 0=>parallel 1=>reduction(sum)
    A[1:, j] = A[1:, :k] @ A[0, :k]


def column_from_every_other(A, j, k):
    # pragma 0=>parallel 1=>reduction(sum)
    A[1:, j] = A[1:, :j:2] @ A[0, :j:2]


@pytest.mark.parametrize(
    "f, arrays",
    [
        (column_from_those_before, 0),
        (column_from_some_before, 0),
        (row_from_the_next, 0),
        (row_from_one_before, 1),  # sums of rows are added up in an array
        (column_from_itself, 1),
        (column_from_another, 1),
        (column_from_every_other, 1),
    ],
)
def test_what_lies_before_the_target_needs_no_copy(f, arrays):
    compiled = appy.jit(strict=True)(f)
    start = np.random.default_rng(0).random((9, 8))
    assert counts(graph(compiled, start.copy(), 5, 2))[2] == arrays
    for j in range(-8, 8):
        for k in range(-9, 10):
            got, want = start.copy(), start.copy()
            compiled(got, j, k)
            f(want, j, k)
            np.testing.assert_allclose(got, want, rtol=1e-13)


@appy.jit(strict=True)
def half_guarded(a, e):
    try:
        # pragma :=>simd
        a[:] = 1.0
    except ValueError:
        return "caught"
    # pragma 0=>simd
    c = e**e
    return c


def made_in_finally(x):
    try:
        if x[0] > 5:
            return None
    finally:
        # pragma 0=>simd
        made = x * 2
        # pragma parallel for simd
        for i in range(len(x)):
            x[i] += made[i]
    return made, i


def test_a_variable_is_needed_after_any_copy_of_a_finally():
    compiled = appy.jit(strict=True)(made_in_finally)
    got, want = np.ones(5), np.ones(5)
    made, i = compiled(got)
    expected, last = made_in_finally(want)
    assert i == last
    np.testing.assert_array_equal(made, expected)
    np.testing.assert_array_equal(got, want)
    assert compiled(got * 9) is None


def test_a_group_does_not_reach_out_of_a_try():
    with pytest.raises(ValueError, match="negative integer powers"):
        half_guarded(np.zeros(3), np.array([2, 3, -4]))
    np.testing.assert_array_equal(half_guarded(np.zeros(3), np.array([2, 3, 4])), [4, 27, 256])


@appy.jit(strict=True)
def multiplied(a, b, x):
    # pragma 0=>parallel
    c = a @ b
    # pragma 0=>parallel
    d = x @ a
    # pragma 0=>parallel
    s = a.sum(axis=0)
    return c, d, s


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(1, 1, 1), (3, 1, 5), (2, 0, 3), (0, 4, 3), (2, 0, 0), (5, 1023, 7), (7, 1024, 3), (4, 1025, 9), (3, 2049, 2050)],
)
def test_products_at_the_edges_of_their_blocks(m, k, n):
    rng = np.random.default_rng(0)
    a, b, x = rng.random((m, k)), rng.random((k, n)), rng.random(m)
    for got, want in zip(multiplied(a, b, x), (a @ b, x @ a, a.sum(axis=0))):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-12)
    assert multiplied.stats()["declined"] == 0


@appy.jit(strict=True)
def early(b, d, g, state):
    try:
        # pragma 0=>simd
        v = b * 2
        # pragma :=>simd
        d[:] = 7
        # pragma 0=>simd
        d[g] = -1
    finally:
        state.append(v)


def test_what_statements_before_a_failing_one_have_assigned_is_there():
    state: list = []
    d = np.zeros(4)
    with pytest.raises(IndexError):
        early(np.arange(4.0), d, np.array([0, 9]), state)
    np.testing.assert_array_equal(state[0], [0, 2, 4, 6])
    np.testing.assert_array_equal(d, 7)


@appy.jit(strict=True)
def repeated_gather(a, b, g):
    # pragma 0=>parallel 1=>simd
    c = a + b[g]
    return c


def test_an_index_array_is_checked_where_no_element_asks_for_it():
    b = np.arange(3.0)
    assert repeated_gather(np.zeros((0, 2)), b, np.array([1, 2])).shape == (0, 2)
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        repeated_gather(np.zeros((0, 2)), b, np.array([1, 3]))


def masked_stores(y, b, x):
    # pragma 0=>parallel
    y[b] = 0.0
    # pragma 0=>parallel
    y[b] += x[b]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16])
def test_masks_that_are_false_for_long_stretches(dtype):
    compiled = appy.jit(strict=True)(masked_stores)
    for n in (1, 31, 32, 33, 100, 300):
        for true in ([], [0], [n - 1], [n // 2], range(n), range(0, n, 31)):
            got, want = np.arange(n, dtype=dtype), np.arange(n, dtype=dtype)
            mask = np.zeros(n, bool)
            mask[list(true)] = True
            compiled(got, mask, got * 3)
            masked_stores(want, mask, want * 3)
            np.testing.assert_array_equal(got, want)
    assert compiled.stats()["runs"] > 0
