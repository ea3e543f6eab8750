"""Variables that hold a view after the region: of the same memory, as NumPy's are."""

from __future__ import annotations

import numpy as np
import pytest

import appy


def slices(a):
    # pragma :N=>simd
    x = a[1:]
    # pragma :N=>simd
    y = a[::-2, 3]
    return x, y


def transposed(a):
    # pragma :N=>simd
    x = a.T
    # pragma :N=>simd
    y = a[None, ..., :2]
    # pragma :N=>simd
    z = np.expand_dims(a[2], 1)
    return x, y, z


def of_a_new_array(a):
    # pragma 0=>simd
    b = np.zeros(a.shape)
    # pragma :N=>simd
    x = b[1:, ::2]
    return b, x


def last_row(a):
    # pragma sequential for
    for i in range(a.shape[0]):
        row = a[i]
        row[0] += i
    return (row,)


def last_row_of_workers(a):
    # pragma parallel for
    for i in range(a.shape[0]):
        row = a[i]
        row[:] = i
    return (row,)


def of_varying_length(a):
    # pragma sequential for
    for i in range(a.shape[0]):
        part = a[i:, : i + 2]
        part += 1
    return (part,)


def diagonal(a):
    # pragma :N=>simd
    d = np.diagonal(a, 1)
    # pragma 0=>simd
    a += 1
    return (d,)


def swapped_roles(a):
    # pragma sequential for
    for i in range(4):
        if i % 2:
            x = a[1:]
        else:
            x = a[:-1]
        x *= 2
    return (x,)


def kept(a):
    x = a[0]
    # pragma sequential for
    for i in range(2, 2):
        x = a[i]
    return (x,)


def empty(a):
    # pragma :N=>simd
    x = a[3:3, 100:]
    return (x,)


FUNCTIONS = [
    slices,
    transposed,
    of_a_new_array,
    last_row,
    last_row_of_workers,
    of_varying_length,
    diagonal,
    swapped_roles,
    kept,
    empty,
]


def described(a, views):
    """What can be seen of views: shapes, strides, flags, bases, contents, and what a write through them changes."""
    seen = []
    for k, v in enumerate(views):
        flags = v.flags
        strides = [s for s, n in zip(v.strides, v.shape) if n > 1 and v.size]
        seen.append((type(v), v.shape, strides, v.dtype, flags.writeable, flags.owndata, flags.c_contiguous))
        seen.append((v.tolist(), v.base is not None, [np.shares_memory(v, w) for w in (a, *views)]))
        if flags.writeable and v.size:
            v[(0,) * v.ndim] = 1000 + k
        seen.append((a.tolist(), [w.tolist() for w in views]))
    return seen


@pytest.mark.parametrize("function", FUNCTIONS, ids=[f.__name__ for f in FUNCTIONS])
@pytest.mark.parametrize("order", ["C", "F", "steps"])
def test_as_numpy(function, order):
    compiled = appy.jit(strict=True)(function)
    seen = []
    for f in (function, compiled):
        a = np.arange(48.0).reshape(8, 6)
        a = np.asfortranarray(a) if order == "F" else a
        a = a[::2, ::-1] if order == "steps" else a
        seen.append(described(a, f(a)))
    assert seen[0] == seen[1]
    assert compiled.stats()["runs"] > 0 and compiled.stats()["declined"] == 0


def fails(a, state):
    x = "before"
    try:
        # pragma sequential for
        for i in range(9):
            x = a[i]
            x[0] = i
    finally:
        state.append(x)


def test_after_an_exception_it_is_the_view_that_it_was():
    for f in (fails, appy.jit(strict=True)(fails)):
        a, state = np.zeros((4, 2)), []
        with pytest.raises(IndexError, match="index 4 is out of bounds"):
            f(a, state)
        np.testing.assert_array_equal(state[0], [3, 0])
        assert np.shares_memory(state[0], a[3])


def unread(a):
    # pragma :N=>simd
    x = a[1:]
    # pragma :N=>simd
    x += 1


def test_references_are_kept():
    a = np.zeros((4, 4))
    x, _ = appy.jit(strict=True)(slices)(a)
    assert x.base is a
    del a
    x[:] = 3
    np.testing.assert_array_equal(x, np.full((3, 4), 3))


def real_part(z):
    # pragma 0=>parallel
    part = z[1:, ::2].real
    # pragma parallel for
    for i in range(z.shape[0]):
        z[i, 0] = i * 2j
    return part


def imaginary_part(z):
    # pragma sequential for
    for i in range(3):
        part = z[i].imag
        z[i, 1] += 2j
    return part


def part_of_a_new_array(z):
    # pragma 0=>parallel
    w = z * 2
    # pragma 0=>parallel
    part = w.T.imag
    return part, w


@pytest.mark.parametrize("function", [real_part, imaginary_part, part_of_a_new_array], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_parts_of_complex_arrays(function, dtype):
    for make in (lambda a: a.copy(), lambda a: a[::2, ::-1], lambda a: a.T.copy().T):
        z, expected = (make(np.arange(60).reshape(6, 10) * dtype(1 + 3j)) for _ in range(2))
        got, want = appy.jit(strict=True)(function)(z), function(expected)
        for mine, theirs in zip(got, want, strict=True) if isinstance(got, tuple) else [(got, want)]:
            np.testing.assert_array_equal(mine, theirs)
            assert mine.dtype == theirs.dtype and (mine.strides == theirs.strides or function is part_of_a_new_array)
        np.testing.assert_array_equal(z, expected)
        assert function is part_of_a_new_array or np.shares_memory(got, z)
