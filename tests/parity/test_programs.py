"""Every registered program, compiled under strict=True, equals plain Python."""

from __future__ import annotations

import copy

import array_programs  # noqa: F401  (registers)
import kernel_programs  # noqa: F401  (registers)
import numpy as np
import programs  # noqa: F401  (registers)
import pytest
import recurrence_programs  # noqa: F401  (registers)
import scientific_programs  # noqa: F401  (registers)
import triangle_programs  # noqa: F401  (registers)
import type_programs  # noqa: F401  (registers)
from compare import assert_same
from registry import PROGRAMS

import appy

CASES = [(p, d) for p in PROGRAMS.values() for d in p.dtypes]


@pytest.mark.parametrize(("program", "dtype"), CASES, ids=[f"{p.name}-{d}" for p, d in CASES])
def test_compiled_equals_python(program, dtype):
    plain_args = program.make(dtype, np.random.default_rng(7))
    fast_args = program.make(dtype, np.random.default_rng(7))
    with np.errstate(all="ignore"):
        want = program.function(*plain_args)
    compiled = appy.jit(strict=True, **program.options)(copy.copy(program.function))
    got = compiled(*fast_args)
    assert_same(got, want, ulps=program.ulps, scale=program.scale)
    assert_same(list(fast_args), list(plain_args), ulps=program.ulps, scale=program.scale, where="arguments")
    stats = compiled.stats()
    assert stats["runs"] > 0 and stats["declined"] == 0, stats


def test_enough_programs():
    assert len(PROGRAMS) >= 45
