"""Loops over time work on copies of arrays whose rows are whole lines of the cache; Python tells what comes of it."""

from __future__ import annotations

import signal
import threading
import time
import types

import numpy as np
import pytest

import appy

PADDED = "whose rows begin with a line of the cache"


def heat_3d(steps, a, b):
    # pragma sequential for
    for t in range(steps):
        # pragma 1:-1=>parallel
        b[1:-1, 1:-1, 1:-1] = a[1:-1, 1:-1, 1:-1] + 0.125 * (
            (a[2:, 1:-1, 1:-1] - 2.0 * a[1:-1, 1:-1, 1:-1] + a[:-2, 1:-1, 1:-1])
            + (a[1:-1, 2:, 1:-1] - 2.0 * a[1:-1, 1:-1, 1:-1] + a[1:-1, :-2, 1:-1])
            + (a[1:-1, 1:-1, 2:] - 2.0 * a[1:-1, 1:-1, 1:-1] + a[1:-1, 1:-1, :-2])
        )
        # pragma 1:-1=>parallel
        a[1:-1, 1:-1, 1:-1] = b[1:-1, 1:-1, 1:-1] + 0.125 * (
            (b[2:, 1:-1, 1:-1] - 2.0 * b[1:-1, 1:-1, 1:-1] + b[:-2, 1:-1, 1:-1])
            + (b[1:-1, 2:, 1:-1] - 2.0 * b[1:-1, 1:-1, 1:-1] + b[1:-1, :-2, 1:-1])
            + (b[1:-1, 1:-1, 2:] - 2.0 * b[1:-1, 1:-1, 1:-1] + b[1:-1, 1:-1, :-2])
        )


def jacobi_2d(steps, a, b):
    # pragma sequential for
    for t in range(steps):
        # pragma 1:-1=>parallel
        b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])
        # pragma 1:-1=>parallel
        a[1:-1, 1:-1] = 0.2 * (b[1:-1, 1:-1] + b[1:-1, :-2] + b[1:-1, 2:] + b[2:, 1:-1] + b[:-2, 1:-1])


def weighted(steps, a, b, w):
    """A read-only array of another type, one that is written in a part of its columns, and an edge of its own."""
    m, n = a.shape
    # pragma sequential for
    for t in range(steps):
        # pragma simd
        for j in range(n):
            a[0, j] = w[1, j] + t
        # pragma parallel for
        for i in range(1, m - 1):
            # pragma simd
            for j in range(3, n - 2):
                b[i, j] = w[i, j] * (a[i - 1, j + 1] + a[i + 1, j - 3])
        # pragma parallel for
        for i in range(1, m - 1):
            # pragma simd
            for j in range(n):
                a[i, j] = 0.5 * b[i - 1, j] + 0.25 * b[i + 1, j]
    return t, i, j


def in_numpy(steps, a, b, w):
    for t in range(steps):
        a[0] = w[1] + t
        b[1:-1, 3:-2] = w[1:-1, 3:-2] * (a[:-2, 4:-1] + a[2:, :-5])
        a[1:-1] = 0.5 * b[:-2] + 0.25 * b[2:]
    return steps - 1, a.shape[0] - 2, a.shape[1] - 1


def check(compiled, wanted, steps, arrays, read_only=()):
    got, want = [x.copy() for x in arrays], [x.copy() for x in arrays]
    assert compiled(steps, *got, *read_only) == wanted(steps, *want, *read_only)
    for x, y in zip(got, want):
        np.testing.assert_array_equal(x, y)


def randoms(shape, dtype, count=2):
    rng = np.random.default_rng(sum(shape))
    return [(8 * rng.random(shape)).astype(dtype) for _ in range(count)]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize(
    "f, steps, shapes",
    [
        (heat_3d, 60, [(34, 35, 70), (20, 80, 72), (17, 41, 130), (9, 70, 257)]),
        (jacobi_2d, 150, [(130, 131), (70, 512), (200, 255), (41, 1001)]),
    ],
)
def test_copies(f, steps, shapes, dtype, threads):
    compiled = appy.jit(strict=True, exact=True, threads=threads)(f)
    for shape in shapes:
        check(compiled, f, steps, randoms(shape, dtype))
    assert PADDED in str(appy.explain(compiled))


@pytest.mark.parametrize("threads", [1, 2])
def test_arrays_that_differ(threads):
    compiled = appy.jit(strict=True, exact=True, threads=threads)(weighted)
    for shape in [(130, 140), (60, 1003)]:
        w = np.random.default_rng(1).random(shape).astype(np.float32)
        for steps in [250, 1]:
            check(compiled, in_numpy, steps, randoms(shape, "f8"), (w,))
    assert PADDED in str(appy.explain(compiled))


def test_views_of_larger_arrays():
    """Rows that are parts of longer ones, and of which some lie apart."""
    compiled = appy.jit(strict=True, exact=True, threads=2)(jacobi_2d)
    got, want = [randoms((300, 400), "f8") for _ in range(2)]
    for part in [np.s_[10:140, 7:200], np.s_[::2, 1:130]]:
        compiled(200, got[0][part], got[1][part])
        jacobi_2d(200, want[0][part], want[1][part])
        for x, y in zip(got, want):
            np.testing.assert_array_equal(x, y)
    assert PADDED in str(appy.explain(compiled))


def test_only_what_is_stored_goes_back():
    """Another thread has the rest of the array meanwhile."""

    def left_half(steps, a, b):
        m, n = a.shape[0], a.shape[1] // 2
        # pragma sequential for
        for t in range(steps):
            # pragma parallel for
            for i in range(1, m - 1):
                # pragma simd
                for j in range(1, n - 1):
                    b[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])
            # pragma parallel for
            for i in range(1, m - 1):
                # pragma simd
                for j in range(1, n - 1):
                    a[i, j] = b[i, j]

    compiled = appy.jit(strict=True, threads=1)(left_half)
    a, b = randoms((300, 600), "f8")
    compiled(300, a, b)
    before = a[1, 1]

    def write():
        while a[1, 1] == before:  # nothing has gone back: there are more such times to come
            time.sleep(0.001)
        a[:, 300:] = 7.0
        b[0] = 7.0

    other = threading.Thread(target=write)
    other.start()
    compiled(20_000, a, b)
    other.join()
    assert PADDED in str(appy.explain(compiled))
    assert np.all(a[:, 300:] == 7.0)
    assert np.all(b[0] == 7.0)


def test_few_steps_and_short_rows_stay_where_they_are():
    # Of its own: regions are those of the code.
    code = jacobi_2d.__code__.replace(co_name="seldom")
    compiled = appy.jit(strict=True, exact=True, threads=2)(types.FunctionType(code, jacobi_2d.__globals__))
    check(compiled, jacobi_2d, 3, randoms((300, 301), "f8"))
    check(compiled, jacobi_2d, 300, randoms((900, 21), "f8"))
    assert PADDED not in str(appy.explain(compiled))


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_finds_arrays_and_variables_of_the_same_step(threads):
    def counting(steps, a, b):
        t = -1
        try:
            # pragma sequential for
            for t in range(steps):
                # pragma parallel for
                for i in range(1, a.shape[0] - 1):
                    # pragma simd
                    for j in range(1, a.shape[1] - 1):
                        b[i, j] = a[i, j] + 1.0
                # pragma parallel for
                for i in range(1, a.shape[0] - 1):
                    # pragma simd
                    for j in range(1, a.shape[1] - 1):
                        a[i, j] = max(b[i - 1, j], b[i, j])
        except KeyboardInterrupt:
            return t
        return None

    compiled = appy.jit(strict=True, threads=threads)(counting)
    compiled(200, *np.zeros((2, 500, 602)))
    a, b = np.zeros((2, 500, 602))

    def interrupt():
        while a[1, 1] == 0:  # nothing has gone back
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    other = threading.Thread(target=interrupt)
    other.start()
    t = compiled(10**7, a, b)
    other.join()
    assert PADDED in str(appy.explain(compiled))
    done = a[1, 1]
    assert np.all(a[1:-1, 1:-1] == done)
    assert np.all(b[1:-1, 1:-1] == done)
    assert t in (done - 1, done)
    a[1:-1, 1:-1] = 0
    assert not a.any()
