"""Statements that end in the loops of a product of matrices, and those that must not."""

from __future__ import annotations

import numpy as np
import pytest

import appy


def scaled(a, b, c, d, v):
    # pragma 0=>parallel
    c[:, :] = 1.5 * (a @ b) + 1.25 * c


def in_place(a, b, c, d, v):
    # pragma 0=>parallel 1=>simd
    c -= a @ b


def named(a, b, c, d, v):
    # pragma 0=>parallel
    made = 1.5 * (a @ b) - c
    return made


def broadcast(a, b, c, d, v):
    # pragma 0=>parallel
    c[:, :] = (a @ b) * v + d[:, :1]


def two_products(a, b, c, d, v):
    # pragma 0=>parallel
    c[:, :] = a @ b + d @ b


def twice_the_same(a, b, c, d, v):
    # pragma 0=>parallel
    c[:, :] = (made := a @ b) * made
    return made


def stored_twice(a, b, c, d, v):
    e = np.zeros(c.shape)
    # pragma 0=>parallel
    c[:, :] = e[:, :] = a @ b
    # pragma 0=>parallel
    c[:, :] = e[:, :] = 2 * (a @ b) + e
    return e


def overlaps_a_factor(a, b, c, d, v):
    # pragma 0=>parallel
    a[:, :] = (a @ b)[:, :1] + 1.5 * a
    # pragma 0=>parallel
    d[:, :] = d + d @ d.T @ d


def turned(a, b, c, d, v):
    # pragma 0=>parallel
    made = (a @ b).T + c.T
    return made


def shifted(a, b, c, d, v):
    # pragma 0=>parallel
    c[1:, :] = (a @ b)[:-1, :] + c[1:, :]


def other_order(a, b, c, d, v):
    # pragma 1=>parallel
    c[:, :] = 1.5 * (a @ b) + c


def bumped(x):
    x += 1
    return x[:, :1]


def changes_a_factor_later(a, b, c, d, v):
    # pragma 0=>parallel
    c[:, :] = a @ b + bumped(a)


def chosen(a, b, c, d, v):
    # pragma 0=>parallel
    c[:, :] = (a @ b) * (2 if v[0] < 0.5 else 3) + c


def again_and_again(a, b, c, d, v):
    # pragma sequential for
    for k in range(3):
        # pragma 0=>parallel
        c[:, :] = 0.5 * (a @ b) + 0.25 * c
        # pragma 0=>parallel
        a[:, :] = a + k


def narrower(a, b, c, d, v):
    # pragma 0=>parallel
    c[:, :] = a.astype(np.float32) @ b.astype(np.float32) + v


def selected(a, b, c, d, v):
    # pragma 0=>parallel
    c[:, :] = np.maximum(a @ b, c) + a[:, :1]


PROGRAMS = [
    scaled,
    in_place,
    named,
    broadcast,
    two_products,
    twice_the_same,
    stored_twice,
    overlaps_a_factor,
    turned,
    shifted,
    other_order,
    changes_a_factor_later,
    chosen,
    again_and_again,
    narrower,
    selected,
]

# In place and in tiles of one block of the common dimension, and of several; ragged, and of one row or column.
SHAPES = [
    (1, 1, 1),
    (1, 7, 5),
    (7, 5, 1),
    (13, 9, 17),
    (115, 130, 121),
    (250, 600, 77),
    (50, 1100, 300),
    (130, 90, 256),
]


def arrays(shape):
    rows, depth, columns = shape
    rng = np.random.default_rng(sum(shape))
    sizes = ((rows, depth), (depth, columns), (rows, columns), (rows, depth), (columns,))
    return [rng.random(size) for size in sizes]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_a_statement_with_a_product_is_numpys(program, shape):
    want, got = arrays(shape), arrays(shape)
    compiled = appy.jit(strict=True, threads=2)(program)
    expected = program(*want)
    result = compiled(*got)
    eps = np.finfo(np.float32 if program is narrower else np.float64).eps
    for g, w in zip([*got, result], [*want, expected], strict=True):
        if w is not None:
            np.testing.assert_allclose(g, w, rtol=16 * shape[1] * eps, atol=16 * shape[1] * eps)


def covariances(a, s, u):
    # pragma 0=>parallel 1=>simd
    made = a.T @ a / (u[0] + 2.0)
    return made


def ranks(a, s, u):
    # pragma 0=>parallel
    s[:, :] = 1.5 * (a.T @ a) + 1.25 * s


def by_rows(a, s, u):
    # pragma 0=>parallel
    s += (a.T @ a) * u[:, None] - u


def over_both(a, s, u):
    # pragma 0=>parallel
    s[:, :] = a.T @ a + s.T


@pytest.mark.parametrize("shape", [(1, 1), (9, 13), (150, 31), (40, 96), (64, 130), (1100, 117), (500, 257)])
@pytest.mark.parametrize("program", [covariances, ranks, by_rows, over_both], ids=lambda p: p.__name__)
def test_of_a_matrix_with_itself_half_is_computed(program, shape):
    rng = np.random.default_rng(sum(shape))
    want = [rng.random(shape), rng.random((shape[1], shape[1])), rng.random(shape[1])]
    got = [x.copy() for x in want]
    expected = program(*want)
    result = appy.jit(strict=True, threads=2)(program)(*got)
    for g, w in zip([*got, result], [*want, expected], strict=True):
        if w is not None:
            np.testing.assert_allclose(g, w, rtol=16 * shape[0] * np.finfo(float).eps)
    if result is not None:
        np.testing.assert_array_equal(result, result.T)


def test_arrays_that_overlap():
    """The target is the left factor, the right one, or both, by a name of its own."""
    compiled = appy.jit(threads=2)(scaled)
    for which in ((0, 0, 0), (0, 1, 0), (1, 0, 0)):
        for n in (40, 150):
            want = [np.random.default_rng(k).random((n, n)) for k in range(2)]
            got = [x.copy() for x in want]
            v = np.ones(n)
            scaled(*(want[k] for k in which), want[0], v)
            compiled(*(got[k] for k in which), got[0], v)
            for g, w in zip(got, want, strict=True):
                np.testing.assert_allclose(g, w, rtol=16 * n * np.finfo(float).eps)


@pytest.mark.parametrize("program", [scaled, in_place, named], ids=lambda p: p.__name__)
def test_sums_that_are_complete_need_no_array(program):
    """With what is done to them they go where they belong from registers; those of tiles in loops of their own."""
    a, b, c, d, v = arrays((8, 8, 8))
    text = appy.lower(appy.jit(strict=True)(program), a, b, c, d, v).text(optimised=True)
    panels = [6] if "registers(32)" in text else []
    assert [loop.count("load %c[") for loop in text.split("for parallel")[1:]] == [6, *panels, 0, 0, 1]


def test_halves_become_the_whole_in_one_loop():
    a, _, c, _, v = arrays((8, 8, 8))
    text = appy.lower(appy.jit(strict=True)(ranks), a, c, v).text(optimised=True)
    in_place, *in_tiles, whole = text.split("for parallel")[1:]
    assert [loop.count("load %s[") for loop in (in_place, *in_tiles, whole)] == [6, 0, 0, 2]


def test_a_turned_product_stays_apart():
    a, b, c, d, v = arrays((8, 8, 8))
    text = appy.lower(appy.jit(strict=True)(turned), a, b, c, d, v).text(optimised=True)
    loops = text.split("for parallel")[1:]
    assert "%c[" not in loops[0] + loops[1] and "%c[" in "".join(loops[2:])


def test_without_a_pragma_numpys_order_of_operations_is_kept():
    def plain(a, b, c):
        # pragma 0=>parallel
        d = a + 1
        c[:, :] = 1.5 * (a @ b) + 1.25 * c
        return d

    a, b, c, _, _ = arrays((8, 8, 8))
    want = c.copy()
    plain(a, b, want)
    appy.jit()(plain)(a, b, c)
    np.testing.assert_allclose(c, want, rtol=1e-14)


def test_a_result_that_does_not_fit_raises_before_anything_is_stored():
    a, b, c, d, v = arrays((60, 50, 40))
    for wrong in (c[:, :39].copy(), c[:59].copy()):
        before = wrong.copy()
        with pytest.raises(ValueError, match=r"operands could not be broadcast together"):
            appy.jit(strict=True)(scaled)(a, b, wrong, d, v)
        np.testing.assert_array_equal(wrong, before)


def unbound_behind_a_product(a, b, c, x):
    # pragma sequential for
    for k in range(3):
        if k == 1:
            del x
            # pragma 0=>parallel
            c[:, :] = (a @ b) * x
        # pragma 0=>parallel
        c[:, :] = c + a @ b


def test_a_path_may_end_before_the_product_is_needed():
    a, b, c, _, _ = arrays((9, 8, 7))
    want = c.copy()
    for function, out in ((unbound_behind_a_product, want), (appy.jit(unbound_behind_a_product), c)):
        with pytest.raises(UnboundLocalError):
            function(a, b, out, 2.0)
    np.testing.assert_allclose(c, want, rtol=1e-13)
