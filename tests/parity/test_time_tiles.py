"""Loops over time around passes over arrays take several steps at a time, by blocks of rows; Python tells what comes of it."""

from __future__ import annotations

import signal
import threading
import time
import types

import numpy as np
import pytest

import appy

TILED = "takes several iterations at a time"
SMALL = "is not tiled: the arrays are small"


def heat_1d(steps, a, b, source):
    # pragma sequential for
    for t in range(steps):
        # pragma parallel for simd
        for i in range(1, a.shape[0] - 1):
            b[i] = a[i] + 0.1 * (a[i - 1] - 2.0 * a[i] + a[i + 1]) + source[t]
        # pragma parallel for simd
        for i in range(a.shape[0]):
            a[i] = b[i]


def heat_2d(steps, a, b, source):
    # pragma sequential for
    for t in range(steps):
        # pragma 1:-1=>parallel
        b[1:-1, 1:-1] = a[1:-1, 1:-1] + 0.1 * (a[2:, 1:-1] + a[:-2, 1:-1] + a[1:-1, 2:] + a[1:-1, :-2])
        # pragma 1:-1=>parallel
        a[1:-1, 1:-1] = b[1:-1, 1:-1] + 0.1 * (b[2:, 1:-1] + b[:-2, 1:-1] + b[1:-1, 2:] + b[1:-1, :-2])


def wave(steps, old, now, new):
    """Three arrays, the scalars of its loops left behind."""
    m, n = now.shape
    # pragma sequential for
    for t in range(steps):
        # pragma parallel for
        for i in range(1, m - 1):
            # pragma simd
            for j in range(1, n - 1):
                new[i, j] = (
                    2.0 * now[i, j]
                    - old[i, j]
                    + 0.1 * (now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1] - 4.0 * now[i, j])
                )
        # pragma parallel for
        for i in range(m):
            # pragma simd
            for j in range(n):
                old[i, j] = now[i, j]
                now[i, j] = new[i, j]
    return t, i, j


def nine_points(steps, a, b, source):
    """Periodic along the columns, open along the rows."""
    m, n = a.shape
    # pragma sequential for
    for t in range(steps):
        # pragma parallel for
        for i in range(m):
            a[i, 0] = a[i, n - 2]
            a[i, n - 1] = a[i, 1]
        # pragma parallel for
        for i in range(1, m - 1):
            # pragma simd
            for j in range(1, n - 1):
                b[i, j] = 0.1 * (
                    a[i - 1, j - 1] + a[i - 1, j] + a[i - 1, j + 1] + a[i, j - 1] + a[i, j] + a[i, j + 1]
                    + a[i + 1, j - 1] + a[i + 1, j] + a[i + 1, j + 1]
                )  # fmt: skip
        # pragma parallel for
        for i in range(1, m - 1):
            # pragma simd
            for j in range(1, n - 1):
                a[i, j] = b[i, j]


def edges(steps, a, b, source):
    """Rows at the edges of their own, one of them of single elements."""
    m, n = a.shape
    # pragma sequential for
    for t in range(steps):
        # pragma simd
        for j in range(n):
            a[0, j] = source[t]
        # pragma :=>simd
        a[-1, :] = 0.5 * a[-2, :]
        a[0, 0] = a[1, 1] + 1.0
        # pragma parallel for
        for i in range(1, m - 1):
            # pragma simd
            for j in range(1, n - 1):
                b[i, j] = 0.3 * (a[i - 1, j] + a[i + 1, j] + a[i, j])
        # pragma parallel for
        for i in range(2, m - 2):
            # pragma simd
            for j in range(1, n - 1):
                a[i, j] = 0.3 * (b[i - 2, j] + b[i + 2, j] + b[i, j])


def columns(steps, a, b, source):
    """The rows of the tiles are the arrays' second dimension."""
    m, n = a.shape
    # pragma sequential for
    for t in range(steps):
        # pragma parallel for
        for i in range(1, n - 1):
            # pragma simd
            for j in range(m):
                b[j, i] = 0.5 * (a[j, i - 1] + a[j, i + 1])
        # pragma parallel for
        for i in range(1, n - 1):
            # pragma simd
            for j in range(m):
                a[j, i] = b[j, i]


def periodic_rows(steps, a, b, source):
    m, n = a.shape
    # pragma sequential for
    for t in range(steps):
        # pragma simd
        for j in range(n):
            a[0, j] = a[m - 2, j]
        # pragma parallel for
        for i in range(1, m - 1):
            # pragma simd
            for j in range(n):
                b[i, j] = 0.5 * (a[i - 1, j] + a[i + 1, j])
        # pragma parallel for
        for i in range(1, m - 1):
            # pragma simd
            for j in range(n):
                a[i, j] = b[i, j]


def red_black(steps, a, b, source):
    # pragma sequential for
    for t in range(steps):
        # pragma parallel for
        for i in range(1, a.shape[0] - 1, 2):
            # pragma simd
            for j in range(a.shape[1]):
                a[i, j] = 0.5 * (a[i - 1, j] + a[i + 1, j])
        # pragma parallel for
        for i in range(2, a.shape[0] - 1, 2):
            # pragma simd
            for j in range(a.shape[1]):
                a[i, j] = 0.5 * (a[i - 1, j] + a[i + 1, j])


def gauss_seidel(steps, a, b, source):
    # pragma sequential for
    for t in range(steps):
        for i in range(1, a.shape[0] - 1):
            # pragma simd
            for j in range(a.shape[1]):
                a[i, j] = 0.5 * (a[i - 1, j] + a[i + 1, j])


def until_still(steps, a, b, source):
    # pragma sequential for
    for t in range(steps):
        most = 0.0
        # pragma parallel for
        for i in range(1, a.shape[0] - 1):
            # pragma simd
            for j in range(a.shape[1]):
                b[i, j] = 0.5 * (a[i - 1, j] + a[i + 1, j])
                most = max(most, abs(b[i, j] - a[i, j]))
        # pragma parallel for
        for i in range(1, a.shape[0] - 1):
            # pragma simd
            for j in range(a.shape[1]):
                a[i, j] = b[i, j]
        if most < 1e-9:
            break
    return t


def arguments(f, steps, rows):
    rng = np.random.default_rng(rows)
    shape = (rows,) if f is heat_1d else (24, rows) if f is columns else (rows, 24)
    arrays = [rng.random(shape) for _ in range(2)]
    return [steps, *arrays, rng.random(shape if f is wave else steps)]


def check(f, steps, rows, **options):
    compiled = appy.jit(strict=True, exact=True, **options)(f)
    got, want = arguments(f, steps, rows), arguments(f, steps, rows)
    before = compiled.stats()["runs"]
    assert compiled(*got) == f(*want)
    for x, y in zip(got[1:], want[1:]):
        np.testing.assert_array_equal(x, y)
    assert compiled.stats()["runs"] == before + 1
    return str(appy.explain(compiled))


@pytest.mark.parametrize("threads", [1, 3, 16])
@pytest.mark.parametrize("f", [heat_1d, heat_2d, wave, nine_points, edges, columns])
def test_stencils(f, threads):
    # Of the last size there are several blocks.
    for rows in [5, 30, 9001 if f is heat_1d else 1003]:
        for steps in [1, 2, 9]:
            if steps == 9 or rows < 100:
                text = check(f, steps, rows, threads=threads)
                assert TILED in text or SMALL in text


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("f", [heat_1d, heat_2d])
def test_sizes_choose_the_version(f, threads):
    """Each version is compiled where an entry wants it, and an entry that wants another one finds it, in any order."""
    few, many = 5, 12_000
    # Of its own: regions are those of the code.
    code = f.__code__.replace(co_name=f"{f.__name__}_{threads}")
    compiled = appy.jit(strict=True, exact=True, threads=threads)(types.FunctionType(code, f.__globals__))
    entries = [(1, few), (2, many), (1, few), (2, many), (1, many), (2, many)]
    for steps, rows in entries:
        got, want = arguments(f, steps, rows), arguments(f, steps, rows)
        assert compiled(*got) == f(*want)
        for x, y in zip(got[1:], want[1:]):
            np.testing.assert_array_equal(x, y)
    stats = compiled.stats()
    assert stats["runs"] == len(entries)
    assert stats["compiled"] == 2
    assert stats["declined"] == 0
    text = str(appy.explain(compiled))
    assert TILED in text
    assert SMALL in text


def test_failures_do_not_compile_another_version():
    def looked_up(steps, a, b, k):
        # pragma sequential for
        for t in range(steps):
            # pragma parallel for
            for i in range(1, a.shape[0] - 1):
                # pragma simd
                for j in range(a.shape[1]):
                    b[i, j] = a[i - 1, j] + a[i + 1, j] + k[t]
            # pragma parallel for
            for i in range(1, a.shape[0] - 1):
                # pragma simd
                for j in range(a.shape[1]):
                    a[i, j] = b[i, j]

    compiled = appy.jit(strict=True)(looked_up)
    a = np.ones((20, 10))
    compiled(4, a, a.copy(), np.ones(4))
    for _ in range(3):
        with pytest.raises(IndexError):
            compiled(4, a, a.copy(), np.ones(2))
    assert compiled.stats()["compiled"] == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_planes_are_taken_by_lines(threads):
    def heat_3d(steps, a, b):
        # pragma sequential for
        for t in range(steps):
            # pragma 1:-1=>parallel
            b[1:-1, 1:-1, 1:-1] = a[1:-1, 1:-1, 1:-1] + 0.1 * (
                a[2:, 1:-1, 1:-1] + a[:-2, 1:-1, 1:-1] - a[1:-1, 2:, 1:-1] - a[1:-1, 1:-1, :-2]
            )
            # pragma 1:-1=>parallel
            a[1:-1, 1:-1, 1:-1] = b[1:-1, 1:-1, 1:-1] + 0.1 * (
                b[2:, 1:-1, 1:-1] + b[:-2, 1:-1, 1:-1] - b[1:-1, 2:, 1:-1] - b[1:-1, 1:-1, :-2]
            )

    compiled = appy.jit(strict=True, exact=True, threads=threads)(heat_3d)
    for shape, steps in [((40, 300, 300), 7), ((70, 200, 240), 3), ((12, 400, 300), 5)]:
        a = np.random.default_rng(steps).random(shape)
        got, want = [a.copy(), a.copy()], [a.copy(), a.copy()]
        compiled(steps, *got)
        heat_3d(steps, *want)
        for x, y in zip(got, want):
            np.testing.assert_array_equal(x, y)
    assert TILED in str(appy.explain(compiled))


@pytest.mark.parametrize("threads", [1, 2])
def test_lines_of_planes_in_turn(threads):
    """A line may need the one before it in the same step; the loops' variables are left behind."""

    def carried_along(steps, a, b):
        p, m, n = a.shape
        # pragma sequential for
        for t in range(steps):
            # pragma parallel for
            for i in range(1, p - 1):
                for y in range(2, m):
                    # pragma simd
                    for j in range(n):
                        b[i, y, j] = 0.5 * b[i, y - 1, j] + 0.25 * (a[i - 1, y, j] + a[i + 1, y - 2, j])
            # pragma parallel for
            for i in range(1, p - 1):
                for y in range(m - 3):
                    # pragma simd
                    for j in range(n):
                        a[i, y + 1, j] = b[i, y + 3, j] - b[i, y, j]
        return t, i, y, j

    compiled = appy.jit(strict=True, exact=True, threads=threads)(carried_along)
    for shape, steps in [((1700, 40, 40), 5), ((9, 31, 50), 3)]:
        a = np.random.default_rng(steps).random(shape)
        got, want = [a.copy(), a[::-1].copy()], [a.copy(), a[::-1].copy()]
        left = compiled(steps, *got)
        if shape[0] < 100:
            assert left == carried_along(steps, *want)
        else:
            with_arrays(steps, *want)
        for x, y in zip(got, want):
            np.testing.assert_array_equal(x, y)
    assert TILED in str(appy.explain(compiled))


def with_arrays(steps, a, b):
    """The same as that, with whole lines."""
    for _ in range(steps):
        for y in range(2, a.shape[1]):
            b[1:-1, y] = 0.5 * b[1:-1, y - 1] + 0.25 * (a[:-2, y] + a[2:, y - 2])
        for y in range(a.shape[1] - 3):
            a[1:-1, y + 1] = b[1:-1, y + 3] - b[1:-1, y]


@pytest.mark.parametrize(
    "f, why",
    [
        (periodic_rows, "are not those of its loop"),
        (red_black, "has a step"),
        (gauss_seidel, None),
        (until_still, None),
    ],
)
def test_others_are_left_alone(f, why):
    text = check(f, 4, 60)
    assert TILED not in text
    assert why is None or why in text


def test_zero_steps_leave_variables_unbound():
    def swept(steps, a, b):
        # pragma sequential for
        for t in range(steps):
            # pragma parallel for simd
            for i in range(1, a.shape[0] - 1):
                b[i] = a[i - 1] + a[i + 1]
            # pragma parallel for simd
            for i in range(1, a.shape[0] - 1):
                a[i] = b[i]
        return t, i

    compiled = appy.jit(strict=True)(swept)
    with pytest.raises(UnboundLocalError):
        compiled(0, np.ones(9), np.ones(9))
    with pytest.raises(UnboundLocalError):
        compiled(3, np.ones(2), np.ones(2))
    assert compiled(3, np.ones(9), np.ones(9)) == (2, 7)


def test_interrupt():
    compiled = appy.jit(strict=True)(heat_1d)
    a = np.ones(200_000)
    compiled(1, a, a.copy(), np.zeros(1))
    steps = 200_000
    source = np.zeros(steps)
    timer = threading.Timer(0.3, _interrupt)
    timer.start()
    begin = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        compiled(steps, a, a.copy(), source)
    assert time.perf_counter() - begin < 5
    timer.join()


def _interrupt():
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
