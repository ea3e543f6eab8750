"""What the passes make of well-behaved programs: which loops keep their permission, and what is left in inner loops."""

from __future__ import annotations

import re
import warnings

import numpy as np
import programs
import pytest
from registry import PROGRAMS

import appy

LOOPS = [p for p in PROGRAMS.values() if p.function.__module__ == programs.__name__]
CASES = [(p, d) for p in LOOPS for d in p.dtypes if p.name != "overlapping_views"]


GRAPHS: dict[tuple[str, str], list[str]] = {}


@pytest.fixture
def graph(capfd):
    """The optimised graph of a program's last region, line by line."""

    def last(name: str, dtype: str) -> list[str]:
        if (name, dtype) not in GRAPHS:
            program = PROGRAMS[f"programs.{name}"]
            capfd.readouterr()
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                appy.jit(dump="passes")(program.function)(*program.make(dtype, np.random.default_rng(7)))
            dumped = "".join(capfd.readouterr())
            GRAPHS[name, dtype] = re.split(r"(?m)^--- .*$", dumped)[-1].splitlines()
        return GRAPHS[name, dtype]

    return last


def body(lines: list[str], head: str) -> list[str]:
    """The lines of the last loop whose head matches."""
    start = max(i for i, line in enumerate(lines) if re.search(head, line))
    indent = len(lines[start]) - len(lines[start].lstrip())
    end = next(i for i in range(start + 1, len(lines)) if lines[i] == " " * indent + "}")
    return lines[start + 1 : end]


def count(lines: list[str], word: str) -> int:
    return sum(bool(re.search(rf"(^|= ){word} ", line.strip())) for line in lines)


@pytest.mark.parametrize(("program", "dtype"), CASES, ids=[f"{p.name}-{d}" for p, d in CASES])
def test_loops_keep_their_permission(program, dtype):
    compiled = appy.jit(program.function)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error", appy.AppyWarning)
        compiled(*program.make(dtype, np.random.default_rng(7)))


@pytest.mark.parametrize("dtype", programs.NUMBERS)
@pytest.mark.parametrize(
    ("name", "loads"),
    [("saxpy", 2), ("dot", 2), ("total", 1), ("largest", 1), ("argmin", 1), ("argmax_last", 1), ("masked_sum", 1)],
)
def test_inner_loops_hold_their_loads_and_no_checks(graph, name, loads, dtype):
    inner = body(graph(name, dtype), r"for .*simd")
    assert count(inner, "load") == loads, inner
    assert count(inner, "check") == 0, inner


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
def test_positions_of_minima_are_reductions(graph, dtype):
    text = "\n".join(graph("argmin", dtype))
    assert "follow_first(leader" in text


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_periodic_and_guarded_loops_have_plain_main_loops(graph, dtype):
    for name in ("periodic", "guarded"):
        inner = body(graph(name, dtype), r"for .*simd")
        assert count(inner, "mod") == count(inner, "wrap") == count(inner, "if") == count(inner, "select") == 0, inner
        assert count(inner, "store") == 1
    assert count(body(graph("periodic", dtype), r"for .*simd"), "load") == 3
    assert count(body(graph("guarded", dtype), r"for .*simd"), "load") == 2


def test_products_and_sums_are_fused(graph):
    for name in ("saxpy", "dot", "gemm", "gemm_axpy_order"):
        inner = body(graph(name, "float64"), r"for ")
        assert count(inner, "fma") == 1 and count(inner, "mul") == count(inner, "add") == 0, inner
