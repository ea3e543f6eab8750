"""Random loop programs: compiled code does what plain Python does, exceptions and boundness of names included."""

from __future__ import annotations

import copy
import os
import warnings
from collections import Counter

import numpy as np
import pytest
from compare import assert_same
from copies import relaid
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from random_loops import Program, program

import appy

EXAMPLES = int(os.environ.get("APPY_FUZZ_EXAMPLES", "60"))
BATCH = 20  # of seeds in a test, of which only few may be refused


def run(function, p: Program) -> tuple[type, str, dict]:
    state: dict = {}
    arguments = copy.deepcopy(p.arguments)
    for name, value in p.arguments.items():
        if isinstance(value, np.ndarray):
            arguments[name] = relaid(value, {})
    error = None
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(**arguments, state=state)
        except Exception as e:
            error = e
    state.pop("state", None)
    if isinstance(error, appy.CompileError):
        raise error
    return type(error), str(error), state


def check(p: Program) -> dict[str, int]:
    want = run(p.function(), p)
    compiled = appy.jit(strict=True, exact=p.exact)(p.function())
    got = run(compiled, p)
    assert got[:2] == want[:2]
    if want[0] is type(None) or p.in_order:
        rounding = {} if p.exact else {"ulps": 256, "scale": 100.0, "eps": 1.2e-7}
        assert_same(got[2], want[2], **rounding)
    return compiled.stats()


def random_program(seed: int) -> Program:
    rng = np.random.default_rng(seed)
    return program(lambda n: int(rng.integers(n)), in_order=seed % 3 == 2)


@pytest.mark.parametrize("in_order", [False, True])
def test_random_loops(in_order):
    counts: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def run_all(data):
        p = program(lambda n: data.draw(st.integers(0, n - 1)), in_order)
        note(p.source)
        counts["all"] += 1
        try:
            check(p)
        except appy.CompileError as e:
            counts[str(e).split(": ", 1)[-1]] += 1

    run_all()
    refused = sum(counts.values()) - counts["all"]
    assert refused <= 0.05 * counts["all"] + 1, counts


@pytest.mark.parametrize("first", range(0, EXAMPLES, BATCH))
def test_seeded_loops(first):
    counts: Counter[str] = Counter()
    seeds = range(first, min(first + BATCH, EXAMPLES))
    for seed in seeds:
        p = random_program(seed)
        try:
            check(p)
        except appy.CompileError as e:
            counts[str(e).split(": ", 1)[-1]] += 1
        except AssertionError as e:
            raise AssertionError(f"seed {seed}: {e}\n{p.source}") from None
    assert sum(counts.values()) <= 0.05 * len(seeds) + 1, counts
