"""Programs of several loops, and of loops around loops, against the interpreter. On the CPU each loop is a region."""

from __future__ import annotations

import math

import capture_programs
import numpy as np
import pytest
import until_programs

import appy

PROGRAMS = capture_programs.PROGRAMS | until_programs.PROGRAMS


def outcome(function, arguments):
    try:
        return function(*arguments)
    except Exception as error:
        return type(error), str(error)


def same(got, want):
    if isinstance(want, tuple | list):
        return type(got) is type(want) and len(got) == len(want) and all(map(same, got, want))
    if isinstance(want, np.ndarray):
        return got.dtype == want.dtype and np.allclose(got, want, rtol=1e-12, atol=1e-14, equal_nan=True)
    if isinstance(want, float):
        return type(got) is type(want) and math.isclose(got, want, rel_tol=1e-12)
    return type(got) is type(want) and got == want


def compare(name, **options):
    """The compiled function, after it was called once and did what the interpreter does."""
    function, arguments, _ = PROGRAMS[name]
    want, got = arguments(), arguments()
    compiled = appy.jit(function, **options)
    expected, answer = outcome(function, want), outcome(compiled, got)
    assert same(answer, expected), (answer, expected)
    assert same(got, want)
    return compiled


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    compare(name)


def test_regions_for_devices_are_no_matter_of_the_cpu():
    compiled = compare("gramschmidt")
    stats = compiled.stats()
    # One of them has columns to update that get fewer: code for many and code for few.
    assert (stats["regions"], stats["compiled"], stats["declined"]) == (3, 4, 0)
    assert str(appy.explain(compiled)).count("entered") == 3
    text = appy.lower(compiled, *PROGRAMS["gramschmidt"].arguments()).text()
    assert text.count("for ") == 1  # the first statement


@pytest.mark.parametrize("backend", ["auto", "cpu"])
def test_a_loop_that_is_tiled_in_time_is_one_region(backend):
    compiled = compare("jacobi_1d", backend=backend)
    stats = compiled.stats()
    assert (stats["compiled"], stats["declined"]) == (1, 0)
    text = str(appy.explain(compiled))
    assert text.count("entered") == 1 and "takes several iterations at a time" in text
    lowered = appy.lower(compiled, *PROGRAMS["jacobi_1d"].arguments())
    assert lowered.text().count("for ") == 3
    assert lowered.text(optimised=True).count("for ") > 3
