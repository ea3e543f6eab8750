"""Parallel loops that follow each other, which workers may still be at when the next one is described."""

from __future__ import annotations

import runpy
import signal
import threading
import time

import numpy as np
import pytest

import appy


def both_ways(x, y, n, steps):
    # pragma sequential for
    for t in range(steps):
        # pragma parallel for
        for i in range(n):
            y[i] = x[n - 1 - i] * 3 + t
        # pragma parallel for simd
        for i in range(n):
            x[i] = (y[n - 1 - i] ^ t) + 1


def read_between(x, y, n, steps):
    # pragma sequential for
    for t in range(steps):
        # pragma parallel for
        for i in range(n):
            y[i] = x[(i * 7 + t) % n] + 1
        if t % 2 == 1:
            x[0] = y[n - 1]
        # pragma parallel for schedule(dynamic, 64)
        for i in range(n):
            x[i] = y[n - 1 - i] * 5 - t


def sum_between(x, y, n, steps):
    # pragma sequential for
    for t in range(steps):
        # pragma parallel for
        for i in range(n):
            y[i] = x[n - 1 - i] + t
        s = 0
        # pragma parallel for
        for i in range(n):
            s += y[i] & 15
        # pragma parallel for
        for i in range(n):
            x[i] = y[n - 1 - i] + s
    return s


def uneven(x, y, n, steps):
    # pragma sequential for
    for t in range(steps):
        # pragma parallel for
        for i in range(n):
            k = 0
            for j in range(i % 11):
                k ^= j * t
            y[i] = x[n - 1 - i] + k
        # pragma parallel for
        for i in range(n):
            x[i] = y[n - 1 - i] * 3 + 1


def checked(x, y, n, steps):
    # pragma sequential for
    for t in range(steps):
        # pragma parallel for
        for i in range(n):
            y[x[i]] = i
        # pragma parallel for
        for i in range(n):
            x[i] = x[i] + 1


def many_values(x, y, n, steps):
    a, b, c, d, e, f, g, h, k, m, o, p, q, r = range(14)
    # pragma sequential for
    for t in range(steps):
        a = a * 3 + t
        # pragma parallel for
        for i in range(n):
            y[i] = x[n - 1 - i] + a
        if t % 4 == 3:
            b, c, d, e, f, g = c + t, d, e, f, g, b
        # pragma parallel for
        for i in range(n):
            x[i] = (y[n - 1 - i] ^ b) * c + d * i - (e & i) + (f ^ g)
        if t % 2 == 1:
            h, k, m, o, p, q, r = k ^ t, m, o, p, q, r, h
        # pragma parallel for
        for i in range(n):
            y[i] = (
                ((x[n - 1 - i] + a) ^ b) * c - d + (i & e) * f + (i ^ g) * h + (i & k) * m + (i ^ o) * p - q + (r ^ t)
            )
        # pragma parallel for
        for i in range(n):
            x[i] = y[n - 1 - i] & 1023
    return a, b, h


def rows(a, b, steps):
    # pragma sequential for
    for t in range(steps):
        # pragma parallel for
        for i in range(1, a.shape[0] - 1):
            # pragma simd
            for j in range(1, a.shape[1] - 1):
                b[i, j] = a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + t
        # pragma parallel for
        for i in range(1, a.shape[0] - 1):
            # pragma simd
            for j in range(1, a.shape[1] - 1):
                a[i, j] = b[i, j + 1] * 0.25 + b[i, j]
    return i, j


@pytest.mark.parametrize("threads", [2, 3, 16])
@pytest.mark.parametrize(
    "program", [both_ways, read_between, sum_between, uneven, many_values], ids=lambda p: p.__name__
)
def test_loops_see_what_those_before_wrote(program, threads):
    compiled = appy.jit(strict=True, threads=threads)(program)
    for n, steps in ((1, 3), (9, 4), (21_000, 9), (21_000, 1), (21_000, 4)):
        want = [np.random.default_rng(n).integers(0, 1000, n), np.zeros(n, dtype=np.int64)]
        got = [x.copy() for x in want]
        assert compiled(*got, n, steps) == program(*want, n, steps)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_array_equal(g, w)


@pytest.mark.parametrize("loops", [1, 2, 3, 7, 8, 9, 13])
def test_more_loops_than_are_remembered(loops, tmp_path):
    lines = ["def program(x, y, n, steps):", "    # pragma sequential for", "    for t in range(steps):"]
    for k in range(loops):
        to, of = ("y", "x") if k % 2 == 0 else ("x", "y")
        lines += ["        # pragma parallel for", "        for i in range(n):"]
        lines += [
            f"            {to}[i] = {of}[n - 1 - i] * {k + 3} + t" if k else "            y[i] = x[n - 1 - i] ^ t"
        ]
    source = tmp_path / "loops.py"
    source.write_text("\n".join(lines) + "\n")
    program = runpy.run_path(str(source))["program"]
    want = [np.random.default_rng(loops).integers(0, 1000, 21_000) for _ in range(2)]
    got = [x.copy() for x in want]
    program(*want, 21_000, 7)
    appy.jit(strict=True, threads=2)(program)(*got, 21_000, 7)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)


def test_they_overlap():
    compiled = appy.jit(strict=True)(both_ways)
    compiled(np.zeros(9, dtype=np.int64), np.zeros(9, dtype=np.int64), 9, 1)
    assert str(appy.explain(compiled)).count("overlaps with the next one") == 2


@pytest.mark.parametrize("shape", [(3, 2), (2, 9), (5, 7), (160, 300)])
@pytest.mark.parametrize("steps", [1, 3])
def test_last_values_of_loops_inside(shape, steps):
    """Rows that are all empty leave the variable of the loop over them as it was."""
    rng = np.random.default_rng(1)
    want = [rng.random(shape), rng.random(shape)]
    got = [x.copy() for x in want]

    def outcome(function, arrays):
        try:
            return function(*arrays, steps)
        except UnboundLocalError as error:
            return str(error)

    assert outcome(appy.jit(strict=True)(rows), got) == outcome(rows, want)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-13)


@pytest.mark.parametrize("at", [0, 10_400, 10_600, 20_999])
def test_nothing_behind_a_failure_runs(at):
    n = 21_000
    x, y = np.arange(n) % 50, np.zeros(90, dtype=np.int64)
    x[at] = 80  # 90 in step 10
    compiled = appy.jit(threads=2)(checked)
    with pytest.raises(IndexError):
        compiled(x, y, n, 30)
    assert x[at] == 90
    np.testing.assert_array_equal(np.delete(x, at), np.delete(np.arange(n) % 50, at) + 10)


def steps_done(x, y, n, steps):
    t = -1
    try:
        # pragma sequential for
        for t in range(steps):
            # pragma parallel for
            for i in range(n):
                y[i] = x[n - 1 - i] + 1.0
            # pragma parallel for
            for i in range(n):
                x[i] = y[n - 1 - i]
    except KeyboardInterrupt:
        pass
    return t


def test_an_interrupt_tells_the_step_that_it_was_in():
    n = 30_000
    compiled = appy.jit(strict=True, threads=2)(steps_done)
    compiled(np.zeros(n), np.zeros(n), n, 3)
    for _ in range(5):
        x, y = np.zeros(n), np.zeros(n)
        timer = threading.Timer(0.1, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT))
        begin = time.perf_counter()
        timer.start()
        t = compiled(x, y, n, 10**9)
        timer.join()
        assert time.perf_counter() - begin < 5
        # The poll in front of a step tells the one before, which is done; that one may be half done.
        assert t > 0
        for array in (x, y):
            assert t + 1 <= array.min() and array.max() <= t + 2, (t, array.min(), array.max())
