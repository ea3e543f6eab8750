"""Regions within Python's control flow: tracebacks, handlers, generators, recursion, nested calls, tracing tools."""

import asyncio
import contextlib
import copy
import cProfile
import pstats
import sys
import threading
import traceback

import numpy as np
import pytest

import appy


def in_finally(x, n):
    k = 0
    try:
        # pragma sequential for
        for i in range(n):
            k += 1
            x[i] = 1 + helper(
                i,
                5 - i,
            )
    finally:
        x[-1] = -k


def helper(a, b):
    c = a + 1
    return c / b


def in_with(x, n):
    for _ in range(2):
        with contextlib.nullcontext():
            # pragma parallel for
            for i in range(n):
                y = 2
                x[i] = y // (5 - i)


def reraised(x, n):
    try:
        # pragma sequential for
        for i in range(n):
            x[i] = i
            x[i] = 3 // (2 - i)
    except ZeroDivisionError:
        x[-1] = 7
        raise


def chained(x, n):
    try:
        # pragma sequential for
        for i in range(n):
            x[i] = 1 % (2 - i)
    except ZeroDivisionError as error:
        raise KeyError("other") from error


def generator(x, n):
    yield 1
    # pragma simd
    for i in range(n):
        x[i] = 1
        x[i + n] = 3
    yield 2


def drained(x, n):
    return list(generator(x, n))


def lines_of(error):
    return [(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__)]


def failure(function, x, n):
    with pytest.raises(Exception) as caught:
        function(x, n)
    error = caught.value
    rows = [lines_of(e) for e in (error, error.__cause__) if e is not None]
    # Frames of traced helpers are in the note instead.
    return type(error), str(error), [[row for row in one if row[0] not in ("helper", "failure")] for one in rows]


@pytest.mark.parametrize("function", [in_finally, in_with, reraised, chained], ids=lambda f: f.__name__)
def test_tracebacks_name_the_failing_line(function):
    compiled = appy.jit(strict=True)(copy.copy(function))
    x, y = np.zeros(9), np.zeros(9)
    expected = failure(function, x, 9)
    runs = compiled.stats()["runs"]
    for _ in range(3):
        y[:] = 0
        assert failure(compiled, y, 9) == expected
        np.testing.assert_array_equal(x[:5], y[:5])
        assert x[-1] == y[-1]
    assert compiled.stats()["runs"] == runs + 3


def test_a_failure_in_a_generator():
    compiled = appy.jit(strict=True)(generator)
    x, seen = np.zeros(9), []
    with pytest.raises(IndexError, match="index 9 is out of bounds for axis 0 with size 9"):
        for item in compiled(x, 6):
            seen.append(item)
    assert seen == [1]
    assert list(compiled(np.zeros(12), 6)) == [1, 2] and compiled.stats()["runs"] >= 1


@appy.jit(strict=True)
def inner(x, a):
    # pragma simd
    for i in range(len(x)):
        x[i] = x[i] * 2 + a
    return x[0]


@appy.jit(strict=True)
def recursive(x, depth):
    # pragma parallel for simd
    for i in range(len(x)):
        x[i] += depth
    if depth > 0:
        recursive(x, depth - 1)
        # pragma simd
        for i in range(len(x)):
            x[i] -= 1.0
    return x


def test_recursion():
    x = recursive(np.zeros(100), 200)
    assert (x == sum(range(201)) - 200).all()
    with pytest.raises(RecursionError):
        recursive(np.zeros(10), 10**6)
    assert (recursive(np.zeros(5), 1) == 0).all()


@pytest.mark.filterwarnings("ignore::appy.AppyWarning")
def test_a_decorated_function_called_in_a_region():
    """Its own pragmas are part of the caller's region."""

    @appy.jit
    def outer(rows):
        # pragma parallel for
        for i in range(rows.shape[0]):
            inner(rows[i], i)

    rows, expected = np.ones((6, 9)), np.ones((6, 9))
    outer(rows)
    for i in range(6):
        expected[i] = expected[i] * 2 + i
    np.testing.assert_array_equal(rows, expected)


def test_coroutines():
    @appy.jit(strict=True)
    async def work(x, k):
        await asyncio.sleep(0)
        # pragma simd
        for i in range(len(x)):
            x[i] += k
        await asyncio.sleep(0)
        # pragma simd
        for i in range(len(x)):
            x[i] *= 2
        return x.sum()

    async def main():
        return await asyncio.gather(*(work(np.zeros(10), k) for k in range(5)))

    assert asyncio.run(main()) == [20.0 * k for k in range(5)]
    assert work.stats()["runs"] == 10


def test_generators_interleaved_and_closed():
    @appy.jit(strict=True)
    def steps(x):
        try:
            while True:
                # pragma simd
                for i in range(len(x)):
                    x[i] += 1
                yield x[0]
        finally:
            # pragma simd
            for i in range(len(x)):
                x[i] = -1

    a, b = np.zeros(4), np.zeros(5)
    first, second = steps(a), steps(b)
    assert [next(first), next(second), next(first), next(second), next(first)] == [1, 1, 2, 2, 3]
    first.close()
    with pytest.raises(KeyError):
        second.throw(KeyError("x"))
    assert (a == -1).all() and (b == -1).all() and steps.stats()["runs"] == 7


def test_frames_are_seen_as_python_leaves_them():
    @appy.jit(strict=True)
    def f(x):
        s = 0.0
        # pragma sequential for
        for i in range(len(x)):
            s += x[i]
        before = dict(locals())
        s = "changed"
        return before, sys._getframe().f_locals["s"]

    before, after = f(np.arange(4.0))
    assert before["s"] == 6.0 and before["i"] == 3 and type(before["i"]) is int and after == "changed"


def test_settrace_sees_the_original_lines():
    lines = []

    def tracer(frame, event, arg):
        if frame.f_code.co_name == "inner" and event == "line":
            lines.append(frame.f_lineno - frame.f_code.co_firstlineno)
        return tracer

    x = np.zeros(3)
    inner(x, 1)
    runs = inner.stats()["runs"]
    old = sys.gettrace()
    sys.settrace(tracer)
    try:
        inner(x, 1)
    finally:
        sys.settrace(old)
    assert (x == 3).all() and lines.count(4) == 3 and inner.stats()["runs"] == runs
    inner(x, 1)
    assert (x == 7).all() and (inner.stats()["runs"] == runs + 1 or old is not None)


def test_threading_settrace_and_setprofile():
    x, calls = np.zeros(3), []
    threading.setprofile(lambda frame, event, arg: calls.append(event))
    try:
        thread = threading.Thread(target=inner, args=(x, 1))
        thread.start()
        thread.join()
    finally:
        threading.setprofile(None)
    assert (x == 1).all() and "call" in calls


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with 3.12")
def test_monitoring():
    events = sys.monitoring.events
    tool = sys.monitoring.PROFILER_ID
    starts, raised = [], []
    sys.monitoring.use_tool_id(tool, "test")
    try:
        sys.monitoring.register_callback(tool, events.PY_START, lambda code, at: starts.append(code.co_name))
        sys.monitoring.register_callback(tool, events.RAISE, lambda code, at, error: raised.append(code.co_name))
        sys.monitoring.set_events(tool, events.PY_START | events.RAISE | events.CALL)
        x = np.zeros(3)
        runs = inner.stats()["runs"]
        inner(x, 1)
        compiled = appy.jit(strict=True)(copy.copy(in_with))
        others = compiled.stats()["runs"]
        with pytest.raises(ZeroDivisionError):
            compiled(np.zeros(9), 9)
        assert inner.stats()["runs"] == runs + 1 and compiled.stats()["runs"] == others + 1
        sys.monitoring.set_events(tool, events.LINE)
        inner(x, 1)
        assert (x == 3).all() and inner.stats()["runs"] == runs + 1
    finally:
        sys.monitoring.set_events(tool, 0)
        sys.monitoring.free_tool_id(tool)
    assert "inner" in starts and "in_with" in raised


def test_cprofile_around_failures():
    profile = cProfile.Profile()
    compiled = appy.jit(strict=True)(copy.copy(in_finally))
    runs = compiled.stats()["runs"]  # copies of a function share their regions
    with pytest.raises(ZeroDivisionError):
        profile.runcall(compiled, np.zeros(9), 9)
    assert compiled.stats()["runs"] == runs + 1
    assert "in_finally" in {name for _, _, name in pstats.Stats(profile).stats}


def test_references_do_not_leak():
    x = np.zeros(9)
    compiled = appy.jit(strict=True)(copy.copy(in_finally))
    for n in (3, 9, 3, 9):
        with contextlib.suppress(ZeroDivisionError):
            compiled(x, n)
    before = sys.getrefcount(x)
    for n in (3, 9) * 50:
        with contextlib.suppress(ZeroDivisionError):
            compiled(x, n)
    assert sys.getrefcount(x) == before
