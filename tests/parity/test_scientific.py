"""The kernels of the benchmarks: both of appy's versions give what the reference gives, on the benchmark's own data."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from scientific_programs import KERNELS, agree, appy_arrays, appy_loops, outcome, reference

import appy

VERSIONS = {"arrays": appy_arrays, "loops": appy_loops}


def copies(arguments):
    return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in arguments)


@pytest.mark.parametrize("preset", ["tiny", "S"])
@pytest.mark.parametrize("name", KERNELS)
def test_versions_agree_with_the_reference(name, preset):
    kernel = KERNELS[name]
    arguments = kernel.compared_arguments(preset)
    used = copies(arguments)
    want = outcome(kernel, used, getattr(reference, name)(*used))
    for module in VERSIONS.values():
        compiled = appy.jit(strict=True, **getattr(module, "OPTIONS", {}).get(name, {}))(getattr(module, name))
        used = copies(arguments)
        got = outcome(kernel, used, compiled(*used))
        agree(kernel, got, want)
        stats = compiled.stats()
        assert stats["runs"] > 0 and stats["declined"] == 0, stats


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_written_is_known(name):
    kernel = KERNELS[name]
    arguments = kernel.compared_arguments("tiny")
    used = copies(arguments)
    getattr(reference, name)(*used)
    changed = [i for i, (a, u) in enumerate(zip(arguments, used)) if not np.array_equal(a, u)]
    assert changed == list(kernel.written)


def test_every_kernel_has_every_version_and_size():
    assert len(KERNELS) == 21
    for name, kernel in KERNELS.items():
        assert set(kernel.sizes) == {"tiny", "S", "M", "L", "paper"}, name
        order = list(inspect.signature(getattr(reference, name)).parameters)
        for module in VERSIONS.values():
            assert list(inspect.signature(getattr(module, name)).parameters) == order, name
        work = [kernel.work(preset) for preset in ("tiny", "S", "M", "L")]
        assert work == sorted(work) and min(work[0]) > 0, name


def test_differences_are_seen():
    kernel = KERNELS["syrk"]
    arguments = kernel.arguments("tiny")
    want = outcome(kernel, arguments, None)
    got = [want[0].copy()]
    got[0][3, 2] += 1e-6
    with pytest.raises(AssertionError, match="syrk"):
        agree(kernel, got, want)
    with pytest.raises(AssertionError, match="syrk"):
        agree(kernel, [want[0][:-1]], want)
