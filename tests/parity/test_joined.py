"""Arrays in another shape, joined to one, and updated by `at`: values, dtypes, shapes and exceptions are NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from compare import assert_same

import appy

A = np.arange(12.0).reshape(3, 4)
B = np.arange(8, dtype=np.int32).reshape(2, 4)
V = np.arange(12.0) / 7


def flat(a, b, v):
    # pragma 0=>parallel,simd
    v[:] = a.ravel()
    # pragma 0=>parallel
    w = a.reshape(-1) * 2 + v
    return w


def folded(a, b, v):
    # pragma 0=>parallel 1=>simd
    a[:, :] = v.reshape(3, 4)
    # pragma 0=>parallel
    c = v.reshape((2, 3, 2)) + 1
    # pragma 0=>parallel
    d = np.reshape(v, (2, -1)) * np.reshape(a, (-1, 6))
    # pragma 0=>parallel
    e = (a + 1).reshape(6, 2)
    return c, d, e


def as_columns(a, b, v):
    # pragma 0=>parallel
    c = v[:4].reshape(-1, 1) - v[None, :5]
    return c


def of_a_view(a, b, v):
    # pragma 0=>parallel
    c = a[:, ::2].ravel() + a.T[1:3].ravel()
    # pragma 0=>parallel
    d = v[::-1].reshape(4, 3) + a[::-1].flatten()[::4].reshape(1, 3)
    # pragma 0=>parallel
    e = a.flatten()
    return c, d, e


def reduced(a, b, v):
    # pragma 0=>parallel
    s = a.ravel().sum()
    # pragma 0=>parallel
    m = np.max(a.reshape(-1)) + a.T.ravel().argmax()
    # pragma 0=>parallel
    r = v.reshape(3, 4).sum(axis=1)
    # pragma 0=>parallel
    k = a.ravel().sum(keepdims=True)
    return s, m, r, k


def overlapping(a, b, v):
    # pragma 0=>parallel,simd
    v[1:] = v.reshape(4, 3).ravel()[:-1]
    # pragma 0=>parallel 1=>simd
    a[:, :] = a.ravel()[::-1].reshape(3, 4)


def rows(a, b, v):
    # pragma parallel for
    for i in range(a.shape[0]):
        a[i] = np.concatenate((v[i : i + 2], a[i, :2]))
        v[i] = a[i].reshape(2, 2)[1, 0]


def joined(a, b, v):
    # pragma 0=>parallel
    c = np.concatenate((a, b))
    # pragma 0=>parallel
    d = np.concatenate([v, v[:3] * 2, a[0]])
    # pragma 0=>parallel
    e = np.concatenate([a, a[:, :2] + 1], axis=1)
    # pragma 0=>parallel
    f = np.concatenate((b, b[:, :1], b), axis=-1)
    return c, d, e, f


def stacked(a, b, v):
    # pragma 0=>parallel
    c = np.stack((a[0], a[1], v[:4]))
    # pragma 0=>parallel
    d = np.stack([v, v + 1], axis=1)
    # pragma 0=>parallel
    e = np.stack([a, a * 2], axis=-1)
    # pragma 0=>parallel
    f = np.vstack([a, v[:4]])
    # pragma 0=>parallel
    g = np.hstack([a, a]) + np.hstack((v, v))[:8]
    # pragma 0=>parallel
    h = np.column_stack([v, v[::-1]])
    return c, d, e, f, g, h


def in_a_statement(a, b, v):
    # pragma 0=>parallel,simd
    v[:] = np.concatenate((v[6:], v[:6])) + np.stack((a[0], a[1], a[2])).ravel()


def counted(a, b, v):
    # pragma sequential for
    for i in range(2):
        np.add.at(v, b[i], a[0, 1])
        np.maximum.at(v, b[i] - 3, a[1])
        np.subtract.at(v, b[0] // 2, v[:4])


PROGRAMS = [flat, folded, as_columns, of_a_view, reduced, overlapping, rows, joined, stacked, in_a_statement, counted]


@pytest.mark.parametrize("function", PROGRAMS)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8"])
@pytest.mark.filterwarnings("ignore::appy.AppyWarning")
def test_as_numpy(function, dtype):
    plain = [A.astype(dtype), B.copy(), (V * 7).astype(dtype)]
    arrays = [x.copy() for x in plain]
    compiled = appy.jit(strict=True)(function)
    want, got = function(*plain), compiled(*arrays)
    assert compiled.stats()["runs"] > 0
    for g, w in zip(got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,)):
        assert_same(g, w, ulps=4)
    for g, w in zip(arrays, plain):
        assert_same(g, w, ulps=4)


def to_shape(v, n, m):
    # pragma 0=>parallel
    w = v.reshape(n, m) + 0
    return w


def side_by_side(x, y):
    # pragma 0=>parallel
    z = np.concatenate((x, y), axis=1)
    return z


def on_top(x, y):
    # pragma 0=>parallel
    z = np.stack((x, y))
    return z


def at(h, k):
    # pragma sequential for
    for _ in range(1):
        np.add.at(h, k, 1.5)


FAILING = [
    (to_shape, (V, 5, 2)),
    (to_shape, (V, -1, 5)),
    (to_shape, (V, 0, -1)),
    (to_shape, (V, -1, -1)),
    (to_shape, (V, -2, -6)),
    (to_shape, (V, 3, 4)),
    (to_shape, (V, -1, 4)),
    (to_shape, (V[:0], 0, 7)),
    (to_shape, (V[:1], 1, 1)),
    (side_by_side, (A, B)),
    (side_by_side, (A, A[:, :0])),
    (on_top, (A, A[:2])),
    (on_top, (A, A)),
    (on_top, (A[:0], A[:0])),
    (at, (V, np.array([1, 1, -1, 12]))),
    (at, (V, np.array([1, 1, -1, -13]))),
    (at, (V, np.array([1, 1, -1, 11, 1]))),
    (at, (V, np.array([], int))),
]


@pytest.mark.parametrize(("function", "arguments"), FAILING)
@pytest.mark.filterwarnings("ignore::appy.AppyWarning")
def test_exceptions(function, arguments):
    """The same exception with the same message, and nothing stored."""
    outcomes = []
    for f in (function, appy.jit(function)):
        given = [x.copy() if isinstance(x, np.ndarray) else x for x in arguments]
        try:
            outcomes.append((f(*given), None, given))
        except (ValueError, IndexError) as error:
            outcomes.append((None, (type(error), str(error)), given))
    (want, want_error, want_given), (got, got_error, got_given) = outcomes
    assert got_error == want_error
    assert_same(got, want)
    for g, w in zip(got_given, want_given):
        assert_same(g, w)


def named(v):
    # pragma 0=>parallel
    m = v.reshape(3, 4)
    # pragma 0=>parallel
    v[:] = 0
    return m


def named_part(v):
    # pragma 0=>parallel
    m = v.reshape(3, 4)[1:].T
    v[:] = 0
    return m


def returned_by_a_helper(v):
    # pragma parallel for
    for i in range(3):
        v[i] = second(v.ravel())


def second(x):
    x[1] = 3
    return x[1]


def diagonal_of_another_shape(v):
    for _ in range(1):
        # pragma 0=>simd
        d = np.diagonal(v.reshape(3, 4))
        v[0] = 5
        # pragma 0=>simd
        v[1:4] = d


def targeted(v):
    # pragma 0=>parallel
    v.reshape(3, 4)[1:, 2] = 5


def updated(v):
    # pragma 0=>parallel
    v.reshape(3, 4)[1:, 2] += 5


def a_list(v):
    # pragma parallel for
    for i in range(3):
        both = [v[i], v[i]]
        v[i] = len(both)


@pytest.mark.parametrize(
    "function", [named, named_part, returned_by_a_helper, diagonal_of_another_shape, targeted, updated, a_list]
)
@pytest.mark.filterwarnings("ignore::appy.AppyWarning")
def test_what_shares_memory_is_left_to_numpy(function):
    want, got = V.copy(), V.copy()
    assert_same(appy.jit(function)(got), function(want))
    assert_same(got, want)
    with pytest.raises(appy.CompileError):
        appy.jit(strict=True)(function)(V.copy())


def square(v, n):
    # pragma 0=>simd 1=>simd
    s = np.sum(v.reshape(n, n))
    return s


@pytest.mark.filterwarnings("ignore::appy.AppyWarning")
def test_more_elements_than_a_word_counts():
    with pytest.raises(ValueError, match="reshape"):
        appy.jit(square)(np.zeros(0), 2**32)
