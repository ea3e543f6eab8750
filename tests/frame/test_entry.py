"""Rewritten functions do what the original ones do, wherever their regions stand."""

import dis
import gc
import inspect
import sys
import threading
import traceback
import types

import pytest
from cases import CASES

import appy
from appy import _C
from appy._assemble import disassemble
from appy._rewrite import original_of, regions_of


def outcome(function, n):
    try:
        return "returned", function(n)
    except Exception as error:
        frames = [(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__)[1:]]
        return "raised", type(error), str(error), frames


@pytest.mark.filterwarnings("ignore::appy.AppyWarning")
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_same_outcome(function):
    compiled = appy.jit(function)
    assert regions_of(compiled.__code__), "no region was found"
    for n in (0, 1, 3, 5, 9):
        assert outcome(compiled, n)[:3] == outcome(function, n)[:3]


# Those that need more than the entry: tuples as values, jumps to outer loops, exceptions.
LEFT_ALONE = {"with_else_in_a_host_loop", "returns_in_a_host_loop", "returns_in_with", "varargs"}
RAISING = {"in_try_finally", "raised_through", "in_with"}


@pytest.mark.parametrize("function", [f for f in CASES if f.__name__ not in LEFT_ALONE], ids=lambda f: f.__name__)
def test_compiled(function):
    compiled = appy.jit(function, strict=True)
    for n in (0, 1, 3) if function.__name__ in RAISING else (0, 1, 3, 5, 9):
        assert outcome(compiled, n)[:3] == outcome(function, n)[:3]
    stats = compiled.stats()
    assert stats["runs"] > 0 and stats["declined"] == 0


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_same_when_declining(function):
    """With appy disabled every region declines: tracebacks are the same too."""
    compiled = appy.jit(function)
    appy.disable()
    try:
        for n in (0, 1, 3, 5, 9):
            assert outcome(compiled, n) == outcome(function, n)
    finally:
        _C.set_enabled(True)


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_assembler_round_trip(function):
    """Taking a code object apart and putting it together changes nothing that can be seen."""
    for code in (function.__code__, *(c for c in function.__code__.co_consts if isinstance(c, types.CodeType))):
        again = disassemble(code).assemble({}, code.co_consts, code.co_stacksize)
        assert again.co_code == code.co_code
        assert list(again.co_positions()) == list(code.co_positions())
        assert dis._parse_exception_table(again) == dis._parse_exception_table(code)


def test_copies_of_a_finally_body_share_a_region():
    def f(n):
        s = 0
        try:
            s = 1 // n
        finally:
            # pragma sequential for
            for i in range(n):
                s += i
        return s

    code = appy.jit(f).__code__
    loads = [i for i in dis.get_instructions(code) if isinstance(i.argval, _C.Region)]
    assert len(loads) >= 2
    assert len(regions_of(code)) == 1


def test_stacksize_and_layout_are_kept():
    f = CASES[0]
    code = appy.jit(f).__code__
    assert code.co_varnames == f.__code__.co_varnames
    assert code.co_stacksize == f.__code__.co_stacksize


def test_metadata_is_kept():
    def f(a: int, b: float = 2.0, *, c: str = "x") -> float:
        """Doc."""
        # pragma sequential for
        for i in range(a):
            b += i
        return b

    f.mark = 7
    g = appy.jit(f)
    assert inspect.signature(g) == inspect.signature(f)
    kept = "__name__ __qualname__ __doc__ __module__ __defaults__ __kwdefaults__ __annotations__"
    for name in kept.split():
        assert getattr(g, name) == getattr(f, name)
    assert g.mark == 7 and inspect.getsource(g) == inspect.getsource(f)
    assert f is not g and not regions_of(f.__code__)


def test_decorating_twice_and_factories_share_code():
    def make(k):
        @appy.jit
        def f(n):
            s = k
            # pragma sequential for
            for i in range(n):
                s += i
            return s

        return f

    a, b = make(1), make(2)
    assert a.__code__ is b.__code__ and (a(3), b(3)) == (4, 5)
    assert appy.jit(a).__code__ is a.__code__
    assert appy.jit(a, exact=True).__code__ is not a.__code__
    assert original_of(appy.jit(a, exact=True).__code__) == original_of(a.__code__)


def test_wrapped_functions():
    import functools

    def loud(f):
        @functools.wraps(f)
        def wrapper(*args):
            return "loud", f(*args)

        return wrapper

    @appy.jit
    @loud
    def f(n):
        s = 0
        # pragma sequential for
        for i in range(n):
            s += i
        return s

    assert f(4) == ("loud", 6) and regions_of(f.__wrapped__.__code__)

    class C:
        @appy.jit
        @staticmethod
        def s(n):
            # pragma sequential for
            for i in range(n):
                n += i
            return n

        @appy.jit
        @classmethod
        def c(cls, n):
            # pragma sequential for
            for i in range(n):
                n += i
            return cls, n

    assert C.s(3) == 6 and C().c(3) == (C, 6)
    with pytest.raises(TypeError, match="takes a function"):
        appy.jit(3)


def test_regions_are_called_without_arguments():
    (region,) = regions_of(appy.jit(CASES[0]).__code__)
    with pytest.raises(TypeError, match="no arguments"):
        region(1)
    assert region() is False  # not our frame


def test_settrace_sees_the_original_lines():
    f = CASES[0]

    def lines(g):
        seen = []

        def trace(frame, event, arg):
            if frame.f_code.co_name == f.__name__ and event == "line":
                seen.append(frame.f_lineno)
            return trace

        sys.settrace(trace)
        try:
            g(4)
        finally:
            sys.settrace(None)
        return seen

    g = appy.jit(f)
    g(4)
    assert lines(g) == lines(f)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with 3.12")
def test_monitoring_sees_the_original_lines():
    f = CASES[0]
    mon = sys.monitoring

    def lines(g):
        seen = []
        mon.use_tool_id(3, "test")
        mon.register_callback(3, mon.events.LINE, lambda code, line: seen.append(line))
        mon.set_local_events(3, g.__code__, mon.events.LINE)
        try:
            g(4)
        finally:
            mon.set_local_events(3, g.__code__, 0)
            mon.register_callback(3, mon.events.LINE, None)
            mon.free_tool_id(3)
        return seen

    g = appy.jit(f)
    g(4)
    assert lines(g) == lines(f) != []


def test_profiler_does_not_stop_regions():
    calls = []
    g = appy.jit(CASES[0])
    g(3)
    sys.setprofile(lambda frame, event, arg: calls.append((event, frame.f_code.co_name)))
    try:
        assert g(4) == CASES[0](4)
    finally:
        sys.setprofile(None)
    assert ("call", "plain") in calls


def test_threads():
    g = appy.jit(CASES[2])
    expected = CASES[2](40)
    results = []
    threads = [threading.Thread(target=lambda: results.extend(g(40) for _ in range(20))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [expected] * 80


def test_references_are_kept():
    class Thing:
        pass

    def f(thing, n):
        # pragma sequential for
        for i in range(n):
            n += i
        return n

    g = appy.jit(f)
    thing = Thing()
    g(thing, 3)
    before = sys.getrefcount(thing)
    for _ in range(100):
        g(thing, 3)
    assert sys.getrefcount(thing) == before


def test_code_dies_with_its_function(tmp_path):
    import linecache
    import weakref

    refs = []
    for n in range(3):
        path = str(tmp_path / f"made{n}.py")
        source = f"def f(n):\n    #pragma sequential for\n    for i in range(n):\n        n += {n}\n    return n\n"
        linecache.cache[path] = (len(source), None, source.splitlines(True), path)
        space = {}
        exec(compile(source, path, "exec"), space)
        g = appy.jit(space["f"])
        assert g(2) == 2 + 2 * n and appy.jit(g) is not g and appy.jit(g).__code__ is g.__code__
        refs += [weakref.ref(space["f"].__code__), weakref.ref(g.__code__), weakref.ref(*regions_of(g.__code__))]
        del space, g
        _forget(path)
    gc.collect()
    assert [r() for r in refs] == [None] * 9


def _forget(path):
    """The pragma reader keeps one version of every file, with its code objects."""
    from appy import pragmas

    pragmas._sources.pop(path, None)
