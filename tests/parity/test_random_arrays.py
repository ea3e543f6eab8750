"""Random array programs: compiled code does what NumPy does, exceptions and fresh arrays included."""

from __future__ import annotations

import contextlib
import copy
import os
import re
import warnings
from collections import Counter

import numpy as np
import pytest
from compare import assert_same
from copies import relaid
from hypothesis import HealthCheck, given, note, seed, settings
from hypothesis import strategies as st
from random_arrays import Program, program

import appy

EXAMPLES = int(os.environ.get("APPY_FUZZ_ARRAYS", "500"))
BATCH = 50


def run(function, p: Program) -> tuple[type, str, dict]:
    state: dict = {}
    arguments = copy.deepcopy({k: v for k, v in p.arguments.items() if not isinstance(v, np.ndarray)})
    bases: dict[int, np.ndarray] = {}
    for name, value in p.arguments.items():
        if isinstance(value, np.ndarray):
            arguments[name] = relaid(value, bases)
    error = None
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(**arguments, state=state)
        except Exception as e:
            error = e
    if isinstance(error, appy.CompileError):
        raise error
    kind = TypeError if isinstance(error, TypeError) else type(error)
    state.pop("state", None)
    # Which of several indices out of range NumPy names depends on how it walks them.
    text = re.sub(r"index -?\d+", "index", str(error)) if kind is IndexError else str(error)
    return kind, text, state


def check(p: Program) -> bool:
    """Was it compiled, and did it run unless Python raises?"""
    want = run(p.function(), p)
    compiled = appy.jit(strict=True)(p.function())
    try:
        got = run(compiled, p)
    except appy.CompileError:
        if want[0] is TypeError:  # UFuncTypeError and its kin: the interpreter is to raise it
            return True
        raise
    assert got[:2] == want[:2], (got[:2], want[:2])
    if want[0] is not type(None) and "parallel for" in p.source:
        return compiled.stats()["compiled"] > 0  # iterations after the failing one may have run
    try:
        assert_same(got[2], want[2], ulps=256, scale=100.0, eps=1.2e-7)
    except AssertionError:
        if not casts_out_of_range(p):
            raise
    return compiled.stats()["runs" if want[0] is type(None) else "compiled"] > 0


def casts_out_of_range(p: Program) -> bool:
    """Does a float that the integer type cannot hold become one? What comes out depends on how NumPy was compiled."""
    bases: dict[int, np.ndarray] = {}
    arguments = {k: relaid(v, bases) if isinstance(v, np.ndarray) else v for k, v in p.arguments.items()}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with contextlib.suppress(Exception):
            p.function()(**arguments, state={})
    return any("in cast" in str(w.message) for w in seen)


@pytest.mark.parametrize("batch", range(EXAMPLES // BATCH))
def test_random_arrays(batch):
    """A failing program is shrunk; the same batches run each time."""
    counts: Counter[str] = Counter()

    @seed(batch)
    @settings(max_examples=BATCH, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def run_all(data):
        p = program(lambda n: data.draw(st.integers(0, n - 1)))
        note(p.source)
        counts["all"] += 1
        try:
            counts["compiled"] += check(p)
        except appy.CompileError as e:
            counts["refused: " + str(e).split(": ", 1)[-1]] += 1

    run_all()
    # Hypothesis varies what it has found: many programs of a batch may be refused for one reason.
    assert counts["compiled"] >= 0.5 * counts["all"], counts


@pytest.mark.parametrize("batch", range(EXAMPLES // BATCH))
def test_seeded_arrays(batch):
    """Every choice alike, while Hypothesis prefers small programs."""
    counts: Counter[str] = Counter()
    for number in range(BATCH * batch, BATCH * (batch + 1)):
        rng = np.random.default_rng(number)
        p = program(lambda n, rng=rng: int(rng.integers(n)))
        counts["all"] += 1
        try:
            counts["compiled"] += check(p)
        except appy.CompileError as e:
            counts["refused: " + str(e).split(": ", 1)[-1]] += 1
        except AssertionError as e:
            raise AssertionError(f"seed {number}: {e}\n{p.source}") from None
    assert counts["compiled"] >= 0.65 * counts["all"], counts
