"""The kernels: both spellings agree, and every dialect of the pragmas means the same."""

from __future__ import annotations

import inspect
import itertools
import linecache
import re

import kernel_programs
import numpy as np
import pytest
import scientific_programs
from compare import assert_same
from registry import PROGRAMS

import appy

MODULES = {
    module.__name__: module
    for module in (kernel_programs, scientific_programs.appy_arrays, scientific_programs.appy_loops)
}
KERNELS = {p.name: p for p in PROGRAMS.values() if p.function.__module__ in MODULES}
PAIRS = [(p, KERNELS[p.name + "_loops"]) for p in KERNELS.values() if p.name + "_loops" in KERNELS]
numbers = itertools.count()


def run(program, function, dtype):
    """What it returns and what it left in its arguments, compiled."""
    arguments = program.make(dtype, np.random.default_rng(11))
    compiled = appy.jit(strict=True, **program.options)(function)
    result = compiled(*arguments)
    stats = compiled.stats()
    assert stats["runs"] > 0 and stats["declined"] == 0, stats
    return result, list(arguments)


def test_all_of_them():
    assert len(PAIRS) >= 23
    assert len(KERNELS) == 2 * len(PAIRS)


@pytest.mark.parametrize(("arrays", "loops"), PAIRS, ids=[a.name for a, _ in PAIRS])
def test_spellings_agree(arrays, loops):
    for dtype in arrays.dtypes:
        got = run(arrays, arrays.function, dtype)
        want = run(loops, loops.function, dtype)
        assert_same(got, want, ulps=2 * arrays.ulps, scale=arrays.scale)


def thesis(text: str) -> str:
    """`parallel for single`, and reductions that name what they make."""
    text = text.replace("sequential for", "parallel for single")
    return re.sub(r"(=>reduction\(\w+)\)(?=.*\n\s+(\w+))", r"\1:\2)", text)


def blocks(text: str) -> str:
    """`block` and `reduce`, the oldest ones."""
    text = text.replace("=>reduction(", "=>reduce(").replace("=>parallel,simd", "=>block(64)")
    text = text.replace("=>simd", "=>block(64)").replace("=>le(128)", "=>single_block")
    return re.sub(r"pragma parallel for$", "pragma parallel for block(2)", text, flags=re.MULTILINE)


def source_of(program) -> str:
    source = inspect.getsource(program.function)
    return source[source.index("def ") :]


def rewritten(program, dialect=lambda text: text):
    """A function of its own, whose counters start at 0."""
    source = dialect(source_of(program))
    path = f"<{program.name} {next(numbers)}>"
    linecache.cache[path] = (len(source), None, source.splitlines(True), path)
    space = dict(vars(MODULES[program.function.__module__]))
    exec(compile(source, path, "exec"), space)
    return space[program.function.__name__]


DIALECTS = [(p, d) for p in KERNELS.values() for d in (thesis, blocks) if d(source_of(p)) != source_of(p)]


@pytest.mark.parametrize(("program", "dialect"), DIALECTS, ids=[f"{p.name}-{d.__name__}" for p, d in DIALECTS])
def test_dialects(program, dialect):
    got = run(program, rewritten(program, dialect), "float64")
    want = run(program, program.function, "float64")
    assert_same(got, want, ulps=2 * program.ulps, scale=program.scale)


def test_dialects_are_told_apart():
    for dialect in (thesis, blocks):
        assert sum(d is dialect for _, d in DIALECTS) >= 12


DISPATCHES = ["jacobi_1d", "jacobi_2d", "fdtd_2d", "heat_3d", "correlation", "hdiff", "gemver"]


@pytest.mark.parametrize("name", DISPATCHES)
def test_neighbouring_statements_are_one_dispatch(name):
    """Three time steps are one, too; shapes are compared before the first store, wherever the statement stands."""
    program = KERNELS[name]
    compiled = appy.jit(strict=True, **program.options)(rewritten(program))
    compiled(*program.make("float64", np.random.default_rng(0)))
    assert compiled.stats()["runs"] == 1


def test_shapes_that_differ_in_a_later_statement_leave_what_numpy_leaves():
    program = KERNELS["jacobi_1d"]
    for function in (program.function, compiled := appy.jit(strict=True)(rewritten(program))):
        a, b = np.arange(9.0), np.zeros(10)
        with pytest.raises(ValueError, match="could not broadcast input array from shape"):
            function(3, a, b)
        np.testing.assert_array_equal(a, np.arange(9.0))
        np.testing.assert_array_equal(b, 0)
    assert compiled.stats()["runs"] == 0
