"""appy.explain: what became of each annotated loop, as text and as data."""

import functools
import json
import textwrap

import numpy as np
import pytest

import appy


@appy.jit
def kernel(x, k):
    s = 0.0
    # pragma simd
    for i in range(len(x)):
        s += x[i] * k
    return s


@appy.jit
def refused(x):
    # pragma simd
    for i in range(len(x)):
        print(x[i])


def test_a_loop_that_was_not_entered(capsys):
    @appy.jit
    def unused(n):
        # pragma simd
        for i in range(n):
            n += i

    report = appy.explain(unused)
    line = unused.__code__.co_firstlineno + 3
    assert str(report).splitlines() == [
        f"{__file__}, lines {line}-{line + 1}, in test_a_loop_that_was_not_entered.<locals>.unused:",
        "  entered 0 times, 0 compiled",
        "  not entered yet",
    ]
    assert capsys.readouterr().out == f"{report}\n" and repr(report) == str(report)


def test_a_compiled_loop(capsys):
    x = np.arange(5.0)
    kernel(x, 2), kernel(x, 2), kernel(x.astype(np.float32), 1.5)
    report = appy.explain(kernel)
    (region,) = report.regions
    text = str(report)
    assert region["stats"] == kernel.stats() and region["stats"]["runs"] == 3
    assert [one["compiled"] for one in region["specializations"]] == [True, True]
    assert {one["runs"] for one in region["specializations"]} == {1, 2}
    for needed in ("entered 3 times, 3 compiled", "float64", "float32", "compiled in", "run 2 times", "s += x[i] * k"):
        assert needed in text
    first = kernel.__code__.co_firstlineno + 4
    assert f"  + {first:4}     for i in range(len(x)):" in text.splitlines()
    assert capsys.readouterr().out == text + "\n"


@pytest.mark.filterwarnings("ignore::appy.AppyWarning")
def test_a_refused_loop(capsys):
    x = np.arange(2.0)
    refused(x), refused(x)
    report = appy.explain(refused)
    (region,) = report.regions
    (one,) = region["specializations"]
    line = refused.__code__.co_firstlineno + 4
    assert not one["compiled"] and one["abort"] and one["line"] == line and one["file"] == __file__
    text = str(report)
    assert "entered 2 times, 0 compiled" in text
    assert f"not compiled: {__file__}, line {line}: {one['reason']} [{one['abort']}]" in text
    assert f"remedy: {one['remedy']}" in text and one["remedy"]
    assert f"  ! {line:4}         print(x[i])" in text.splitlines()


def test_a_loop_left_to_the_interpreter_although_compiled(capsys):
    @appy.jit
    def careful(x):
        # pragma simd
        for i in range(len(x)):
            x[i] = x[i] * 2.0

    x = np.ones(3)
    careful(x)
    with np.errstate(all="raise"):
        careful(x)
    reason = "np.errstate or a warning filter asks for floating-point errors"
    assert f"  last left to the interpreter because {reason}" in str(appy.explain(careful)).splitlines()
    assert (x == 4).all()


def test_nested_functions_methods_and_wrappers(capsys):
    class Holder:
        @appy.jit
        def method(self, n):
            # pragma simd
            for i in range(n):
                n += i
            return n

        @appy.jit
        @staticmethod
        def static(n):
            # pragma simd
            for i in range(n):
                n += i

    @functools.wraps(kernel)
    def wrapper(*args):
        return kernel(*args)

    for function in (Holder().method, Holder.method, Holder.static, wrapper):
        assert len(appy.explain(function).regions) == 1


def test_functions_without_regions(capsys):
    def plain():
        pass

    assert str(appy.explain(plain)).endswith("plain: no region")
    for what in (3, len, "kernel"):
        with pytest.raises(TypeError) as caught:
            appy.explain(what)
        assert str(caught.value) == f"appy.explain takes a function, not {type(what).__name__}"


def test_a_module_level_loop(python):
    program = textwrap.dedent(
        """
        import numpy as np
        x, s = np.arange(1000.0), 0.0
        # pragma simd
        for i in range(len(x)):
            s += x[i]
            x[i] = 1.0
        def total():
            return s, x.sum(), i
        for turn in range(3):
            # pragma parallel for
            for i in range(len(x)):
                x[i] += turn
        import json, sys
        appy = sys.modules.get("appy")
        print(json.dumps([total(), appy and appy.stats()["runs"]]))
        """
    )
    plain = json.loads(python(program).stdout)
    compiled = python(program, "-m", "appy")
    assert plain == [[499500.0, 4000.0, 999], None]
    result, runs = json.loads(compiled.stdout)
    assert result == plain[0] and runs is not None


@pytest.mark.filterwarnings("ignore::appy.AppyWarning")
def test_one_region_refused_and_one_compiled(capsys):
    @appy.jit
    def mixed(x):
        # pragma simd
        for i in range(len(x)):
            print(x[i])
        # pragma simd
        for i in range(len(x)):
            x[i] += 1.0

    mixed(np.zeros(2))
    capsys.readouterr()
    report = appy.explain(mixed)
    bad, good = report.regions
    first = mixed.__code__.co_firstlineno + 3
    assert (bad["line"], good["line"]) == (first, first + 3)
    (refusal,) = bad["specializations"]
    (compiled,) = good["specializations"]
    assert not refusal["compiled"] and compiled["compiled"]
    name = "test_one_region_refused_and_one_compiled.<locals>.mixed"
    lines = str(report).splitlines()
    second = lines.index(f"{__file__}, lines {first + 3}-{first + 4}, in {name}:")
    above, below = lines[:second], lines[second:]
    assert above[:2] == [f"{__file__}, lines {first}-{first + 1}, in {name}:", "  entered 1 times, 0 compiled"]
    reason = "the call of print cannot be traced [call]"
    assert any(f"not compiled: {__file__}, line {first + 1}: {reason}" in line for line in above)
    assert not any("compiled in" in line for line in above) and any("compiled in" in line for line in below)
    assert below[1] == "  entered 1 times, 1 compiled" and not any("not compiled" in line for line in below)
    assert "x: float64[:] c" in "".join(below)
    assert capsys.readouterr().out == f"{report}\n"


@appy.jit(strict=True)
def rows(x, out):
    # pragma parallel for
    for i in range(x.shape[0]):
        e = np.exp(x[i] - np.max(x[i]))
        out[i] = e / np.sum(e)


@appy.jit(strict=True)
def scaled(x, out):
    # pragma 0=>parallel
    s = np.sum(x, 1)
    # pragma 0=>parallel
    out[:, :] = x / s[:, None] + np.exp(x) * 2
    # pragma 0=>parallel
    kept = x.T + out.T
    return kept


def test_arrays_that_are_not_made():
    """The interpreter's arrays by operator and call, in place of which the report counts what the graph still makes."""
    x = np.random.default_rng(1).random((10, 20))
    rows(x, np.empty_like(x))
    scaled(x, np.empty_like(x))
    (one,) = appy.explain(rows).regions[0]["specializations"]
    assert one["arrays"] == "3 arrays of 480 bytes an iteration in the interpreter, 1 array of 160 bytes here"
    group = next(region for region in appy.explain(scaled).regions if region["stats"]["runs"])
    (one,) = group["specializations"]
    assert one["arrays"] == f"6 arrays of {5 * 1600 + 80} bytes in the interpreter, 1 array of 1600 bytes here"


def triangle(a, out):
    # pragma parallel for
    for i in range(len(out)):
        for j in range(i):
            out[i] += a[i, j]


def blocks(a, out):
    # pragma parallel for
    for i in range(len(out)):
        for j in range(a.shape[1]):
            for k in range(j, a.shape[1]):
                out[i] += a[i, k] * j


def stretches(a, out):
    # pragma parallel for
    for i in range(len(out)):
        for j in range(i, min(i + 3, a.shape[1])):
            out[i] += a[i, j]


@pytest.mark.parametrize("function, schedule", [(triangle, "dynamic"), (blocks, "static"), (stretches, "static")])
def test_the_schedule_follows_the_loops_inside(function, schedule):
    f = appy.jit(strict=True)(function)
    a, out = np.arange(30.0).reshape(5, 6), np.zeros(5)
    f(a, out)
    assert f"threads, {schedule} schedule" in str(appy.explain(f))
    want = np.zeros(5)
    function(a, want)
    np.testing.assert_array_equal(out, want)
