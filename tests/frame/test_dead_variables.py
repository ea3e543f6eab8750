"""Variables of loops inside parallel ones that nothing reads any more are not computed; all others are as in Python."""

from __future__ import annotations

import copy
import sys

import numpy as np
import pytest

import appy


def of_the_caller(name):
    return sys._getframe(1).f_locals[name]


STARTS = np.array([0, 2, 2, 5, 6, 6])
X = np.arange(6.0)


def sums(starts, x, out):
    # pragma parallel for
    for i in range(len(out)):
        s = 0.0
        # pragma simd
        for j in range(starts[i], starts[i + 1]):
            s += x[j]
        out[i] = s


def read_after(starts, x, out):
    # pragma parallel for
    for i in range(len(out)):
        s = 0.0
        # pragma simd
        for j in range(starts[i], starts[i + 1]):
            s += x[j]
        out[i] = s
    return i, j, s


def read_of_a_loop_inside(starts, x, out):
    # pragma parallel for
    for i in range(len(out)):
        for j in range(i):
            s = 0.0
            # pragma simd
            for k in range(starts[i], starts[i + 1]):
                s += x[k]
            out[i] += s
    return s


def not_read_of_a_loop_inside(starts, x, out):
    # pragma parallel for
    for i in range(len(out)):
        for j in range(i):
            s = 0.0
            # pragma simd
            for k in range(starts[i], starts[i + 1]):
                s += x[k]
            out[i] += s
    return i


def read_on_one_path(starts, x, out):
    # pragma parallel for
    for i in range(len(out)):
        # pragma simd
        for j in range(starts[i], starts[i + 1]):
            out[i] += x[j]
    if len(starts) > 3:
        return j
    return None


def read_by_the_next_round(starts, x, out):
    i = j = -1
    seen = []
    for step in range(3):
        seen.append((i, j))
        # pragma parallel for
        for i in range(len(out) - step):
            # pragma simd
            for j in range(starts[i], starts[i + 1]):
                out[i] += x[j]
    return seen


def read_by_a_handler(starts, x, out):
    j = -1
    try:
        # pragma parallel for
        for i in range(len(out)):
            # pragma simd
            for j in range(starts[i], starts[i + 1]):
                out[i] += x[j]
        raise ValueError
    except ValueError:
        return j


def read_by_a_closure(starts, x, out):
    # pragma parallel for
    for i in range(len(out)):
        # pragma simd
        for j in range(starts[i], starts[i + 1]):
            out[i] += x[j]
    return (lambda: j)()


def deleted(starts, x, out):
    # pragma parallel for
    for i in range(len(out)):
        # pragma simd
        for j in range(starts[i], starts[i + 1]):
            out[i] += x[j]
    del j
    return i


def looked_at_by_a_callee(starts, x, out):
    # pragma parallel for
    for i in range(len(out)):
        s = x[i] * 2
        # pragma simd
        for j in range(starts[i], starts[i + 1]):
            s += x[j]
        out[i] = s
    return of_the_caller("i"), of_the_caller("s")


def returned_with_others(starts, x, out):
    # pragma parallel for
    for i in range(len(out)):
        s = 0.0
        # pragma simd
        for j in range(starts[i], starts[i + 1]):
            s += x[j]
        out[i] = s
    return starts, s, 1


def looked_at(starts, x, out):
    # pragma parallel for
    for i in range(len(out)):
        # pragma simd
        for j in range(starts[i], starts[i + 1]):
            out[i] += x[j]
    return {k: v for k, v in locals().items() if k in "ij"}


@pytest.mark.parametrize(
    "function",
    [
        sums,
        read_after,
        read_of_a_loop_inside,
        not_read_of_a_loop_inside,
        read_on_one_path,
        read_by_the_next_round,
        read_by_a_handler,
        read_by_a_closure,
        deleted,
        looked_at_by_a_callee,
        returned_with_others,
        looked_at,
    ],
)
def test_as_python(function):
    outcomes = []
    for f in (function, appy.jit(strict=True)(copy.copy(function))):
        out = np.zeros(5)
        outcomes.append((repr(f(STARTS, X, out)), out.tolist()))
    assert outcomes[1] == outcomes[0]


def test_what_nothing_reads_is_not_computed():
    graph = appy.lower(appy.jit(strict=True)(sums), STARTS, X, np.zeros(5)).text(optimised=True)
    assert "results(" not in graph
    graph = appy.lower(appy.jit(strict=True)(looked_at_by_a_callee), STARTS, X, np.zeros(5)).text(optimised=True)
    assert "tie" not in graph and 'results("i", ' in graph and '"s"' in graph and '"j"' not in graph
    graph = appy.lower(appy.jit(strict=True)(read_after), STARTS, X, np.zeros(5)).text(optimised=True)
    assert "tie" in graph and '"j"' in graph
    graph = appy.lower(appy.jit(strict=True)(not_read_of_a_loop_inside), STARTS, X, np.zeros(5)).text(optimised=True)
    assert 'results("i", ' in graph and '"s"' not in graph
    graph = appy.lower(appy.jit(strict=True)(read_of_a_loop_inside), STARTS, X, np.zeros(5)).text(optimised=True)
    assert '"s"' in graph


def test_a_debugger_sees_them_at_the_return():
    seen = []

    def look(frame, event, _):
        if frame.f_code.co_name == "sums" and event == "return":
            seen.append({k: v for k, v in frame.f_locals.items() if k in "ijs"})
        return look

    compiled = appy.jit(copy.copy(sums))
    compiled(STARTS, X, np.zeros(5))
    before = sys.gettrace()
    sys.settrace(look)
    try:
        compiled(STARTS, X, np.zeros(5))
    finally:
        sys.settrace(before)
    assert seen == [{"i": 4, "j": 5, "s": 0.0}]


class Expressions:
    """Looks for the variables of the caller, as numexpr and pandas do."""

    @staticmethod
    def evaluate(name):
        return sys._getframe(1).f_locals.get(name)


def looked_at_by_an_expression(starts, x, out):
    # pragma parallel for
    for i in range(len(out)):
        for j in range(i):
            s = x[j] * 2
            out[i] += s
    return Expressions.evaluate("s"), Expressions.evaluate("j")


def test_expressions_see_the_variables_that_they_name():
    out = np.zeros(5)
    assert appy.jit(strict=True)(looked_at_by_an_expression)(STARTS, X, out) == (X[3] * 2, 3)
