"""Regions that assign globals and variables of enclosing functions, and helpers with globals of their own modules."""

import importlib
import linecache
import sys
import textwrap
import warnings
from types import ModuleType

import numpy as np
import pytest

import appy

MISSING = object()
count = 0
total = 0.0
last = "before"
found = None
level = 1


def sums(x, n):
    global count, total, last
    # pragma sequential for
    for i in range(n):
        if x[i] > 0:
            count += 1
            total += x[i]
        last = x[i]
    return i


def parallel_sums(x, n):
    global count, total
    # pragma parallel for simd
    for i in range(n):
        count += 1
        total += x[i]


def fails_in_the_middle(x, n):
    global count, last
    # pragma sequential for
    for i in range(n):
        count += 1
        last = x[i + 2]
        x[i] = 0


def unbound(x, n):
    global fresh
    # pragma sequential for
    for i in range(n):
        if x[i] > 0:
            count_me = fresh  # noqa: F841
        x[i] = 1
        if i == 2:
            fresh = i


def only_on_some_paths(x, n):
    global fresh, found
    # pragma sequential for
    for i in range(n):
        if i == 30:
            fresh = i
        if x[i] > 0:
            found = i
            break


def read_level():
    return level * 2


def helper_reads_what_the_region_assigns(x, n):
    global level
    s = 0
    # pragma sequential for
    for i in range(n):
        level = i
        s += read_level()
    return s


NAMES = ("count", "total", "last", "found", "level", "fresh")
FUNCTIONS = [
    sums,
    parallel_sums,
    fails_in_the_middle,
    unbound,
    only_on_some_paths,
    helper_reads_what_the_region_assigns,
]


def globals_after(function, x, n, **before):
    names = globals()
    saved = {k: names.get(k, MISSING) for k in NAMES}
    names.update(before)
    x = x.copy()
    try:
        try:
            result = function(x, n)
        except Exception as error:
            result = (type(error), str(error))
        after = {k: names[k] for k in NAMES if k in names}
        return result, x.tolist(), {k: (type(v), v) for k, v in after.items()}
    finally:
        for k, v in saved.items():
            if v is MISSING:
                names.pop(k, None)
            else:
                names[k] = v


@pytest.mark.parametrize("before", [{}, {"count": 7, "total": np.float32(1.5)}, {"count": 2.5, "fresh": 3}], ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_globals(function, dtype, before):
    x = np.array([0, -1, 2, 3, 0, -5], dtype)
    compiled = appy.jit(strict=True)(function)
    for n in (6, 0, 3):
        assert globals_after(compiled, x, n, **before) == globals_after(function, x, n, **before), n
    assert compiled.stats()["compiled"]
    assert "fresh" not in globals()


def counter(decorate):
    count = 0
    total = 0.0
    log = "nothing"

    @decorate
    def add(x, n):
        nonlocal count, total, log
        # pragma sequential for
        for i in range(n):
            count += 1
            total += x[i]
            if x[i] > 2:
                log = x[i]
                x[i] = 100 // (n - i - 1)

    @decorate
    def remember(x, n):
        nonlocal late
        # pragma sequential for
        for i in range(n):
            if x[i] > 2:
                x[i] = late
            late = i

    def state():
        try:
            seen = late
        except NameError as error:
            seen = str(error)
        return [(type(v), v) for v in (count, total, log, seen)]

    if len(log) == 0:
        late = 0
    return add, remember, state


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_nonlocals(dtype):
    plain, compiled = counter(lambda f: f), counter(appy.jit(strict=True))
    for values in ([1, 2, 3], [], [5, 1, 1], [1, 1, 9], [9, 1], [0, 3, 1]):
        for which in (0, 1, 0):
            outcomes = []
            for made in (plain, compiled):
                x = np.array(values, dtype)
                try:
                    result = made[which](x, len(x))
                except Exception as error:
                    result = type(error), str(error)
                outcomes.append((result, x.tolist(), made[2]()))
            assert outcomes[0] == outcomes[1], (values, which)
    assert compiled[0].stats()["runs"] and compiled[1].stats()["runs"]


def deletes(n, bound):
    if bound:
        s = 1
    t = 0
    # pragma sequential for
    for i in range(n):
        t += 1
        if i > 2:
            del s
    return t, "s" in locals()


def deletes_a_cell(n, bound):
    if bound:
        s = 1
    t = 0
    # pragma sequential for
    for i in range(n):
        t += 1
        if i % 3 == 1:
            s = i
        if i > 2:
            del s

    def seen():
        return s

    try:
        return t, seen()
    except NameError as error:
        return t, str(error)


@pytest.mark.parametrize("function", [deletes, deletes_a_cell], ids=lambda f: f.__name__)
def test_del_of_what_is_not_bound(function):
    compiled = appy.jit(strict=True)(function)
    for bound in (True, False):
        for n in range(8):
            outcomes = []
            for f in (function, compiled):
                try:
                    outcomes.append(f(n, bound))
                except NameError as error:
                    outcomes.append((type(error), str(error)))
            assert outcomes[0] == outcomes[1], (n, bound)


def test_a_cell_that_a_helper_shares():
    def build(decorate):
        k = 1

        def helper(v):
            return v * k

        @decorate
        def run(n):
            nonlocal k
            s = 0
            # pragma sequential for
            for i in range(n):
                k = i
                s += helper(2)
            return s, k

        return run

    assert build(appy.jit(strict=True))(5) == build(lambda f: f)(5)


@pytest.fixture
def three_modules(tmp_path, monkeypatch):
    sources = {
        "appy_deep_c": """
            scale = 3
            def innermost(v):
                return v * scale + int(offset)
            offset = 0.0
            """,
        "appy_deep_b": """
            import appy_deep_c
            from appy_deep_c import innermost
            scale = 100
            def middle(v):
                return innermost(v) + scale + appy_deep_c.scale
            """,
        "appy_deep_a": """
            from appy_deep_b import middle
            scale = 1000
            def outer(v):
                return middle(v) - scale
            """,
    }
    for name, text in sources.items():
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield [importlib.import_module(f"appy_deep_{letter}") for letter in "abc"]
    for name in sources:
        sys.modules.pop(name, None)


def test_helpers_three_modules_deep(three_modules):
    a, b, c = three_modules
    outer = a.outer

    def run(n):
        s = 0
        # pragma sequential for
        for i in range(n):
            s += outer(i) * scale
        return s

    scale = 2
    compiled = appy.jit(strict=True)(run)

    def agree():
        assert compiled(6) == run(6)

    agree()
    assert compiled.stats()["runs"] == 1
    for module, name, value in [
        (c, "scale", 7),
        (b, "scale", -1),
        (a, "scale", 5),
        (c, "offset", 4.75),
        (c, "scale", 2.5),
        (c, "innermost", lambda v: v + 1),
        (b, "innermost", lambda v: v - 1),
        (a, "middle", lambda v: v * v),
    ]:
        setattr(module, name, value)
        agree()
    assert compiled.stats()["runs"] == 9 and not compiled.stats()["declined"]
    del a.scale  # the name is looked up in the helper's module, then in builtins
    with pytest.raises(NameError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        appy.jit(run)(6)


def test_an_attribute_of_the_module_that_the_region_assigns():
    names = ModuleType("appy_itself")
    names.me = names
    source = textwrap.dedent(
        """
        s = k = 0
        def run(n):
            global s, k
            # pragma sequential for
            for i in range(n):
                k = i
                s += me.k
            return s
        """
    )
    linecache.cache["<appy itself>"] = (len(source), None, source.splitlines(True), "<appy itself>")
    exec(compile(source, "<appy itself>", "exec"), names.__dict__)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", appy.AppyWarning)
        assert appy.jit(names.run)(5) == 10
