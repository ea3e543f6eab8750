"""``tune=True``: shapes of kernels are measured on real calls, and kept for other processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

PROGRAM = """
import numpy as np, appy

def rows(a, b):
    # pragma parallel for
    for i in range(a.shape[0]):
        s = 0.0
        # pragma simd
        for j in range(a.shape[1]):
            s += a[i, j]
        b[i] = s

def triad(a, b):
    # pragma parallel for
    for i in range(a.shape[0]):
        # pragma simd
        for j in range(a.shape[1]):
            b[i, j] = 2 * a[i, j] + b[i, j]

def mean(a, b):
    s = 0.0
    # pragma parallel for simd
    for i in range(a.shape[0]):
        s += a[i]
    b[0] = s / a.shape[0]

def columns(a, b):
    # pragma parallel for
    for j in range(a.shape[1]):
        s = 0.0
        # pragma simd
        for i in range(a.shape[0]):
            s += a[i, j]
        b[j] = s

SHAPES = dict(rows=((60, 40), 60), triad=((60, 40), (60, 40)), mean=((3000,), 1), columns=((40, 60), 60))

def run(function, calls):
    made = appy.jit(strict=True, backend="cuda", tune=True)(function)
    one, other = SHAPES[function.__name__]
    a = np.arange(float(np.prod(one))).reshape(one)
    b, want = np.zeros(other), np.zeros(other)
    for _ in range(calls):
        made(a, b)
        function(a, want)
        np.testing.assert_allclose(b, want, rtol=1e-13)
    assert made.stats()["runs"] >= calls and not made.stats()["declined"], made.stats()
    appy.explain(made)
"""


@pytest.fixture
def program(python, tmp_path):
    """Runs the functions above, and then more text, in a process of its own."""

    def run(more, above="", **variables):
        path = tmp_path / "program.py"
        path.write_text(f"{above}{PROGRAM}\n{more}\n")
        return python(str(path), "", **variables)

    return run


@pytest.mark.parametrize("name", ["rows", "triad", "mean", "columns"])
def test_candidates_are_measured_and_the_choice_is_kept(name, program, tmp_path):
    text = program(f"run({name}, 1)")
    assert "tuning for a: " in text and "1 of at most" in text
    text = program(f"run({name}, 80)")
    assert "tuned for a: " in text and "us instead of" in text and "tuning for" not in text
    assert text.count(" lanes a worker") > 3  # shapes that were compiled
    (row,) = json.loads((tmp_path / "cache" / "tuned.json").read_text())["chosen"].items()
    assert row[0].startswith("Emulated device/9.0/") and f"|{name}|" in row[0] and "=" in row[1]["shape"]
    # Another process knows; where the source has moved to does not matter.
    for above in ("", "\n\n\n"):
        text = program(f"run({name}, 3)", above)
        assert "found before" in text and text.count(" lanes a worker") == 1


def test_other_sizes_are_measured_by_themselves(program):
    text = program("run(rows, 80)\nSHAPES['rows'] = ((61, 41), 61)\nrun(rows, 1)")
    assert text.count("tuned for a: <64 x <64, b: <64") == 2 and "tuning for" not in text
    text = program("SHAPES['rows'] = ((200, 40), 200)\nrun(rows, 1)")
    assert "tuning for a: <256 x <64, b: <256" in text


def test_what_the_device_refuses_is_not_chosen(program):
    # The sixth launch is one of a candidate: it is done again with the next one.
    text = program("run(rows, 80)", APPY_EMULATOR_FAIL="cuLaunchKernel:6:701")
    assert "tuned for a: " in text


def test_the_shape_that_is_asked_for_is_not_measured(program):
    text = program("run(rows, 20)", APPY_CUDA_SHAPE="block=128,lanes=8")
    assert "128 threads, 8 lanes" in text and "tun" not in text


def test_a_bar_on_terminals(capsys, monkeypatch):
    import sys

    from appy import _tune_kernels

    _tune_kernels.progress("f", 3, 12)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    _tune_kernels.progress("f", 3, 12)
    _tune_kernels.progress("f", 12, 12)
    first, second = capsys.readouterr().err.split("\r")[1:]
    assert first == f"appy: tuning f [{'#' * 7}{'.' * 23}] 3 of 12 calls"
    assert second == f"appy: tuning f [{'#' * 30}] 12 of 12 calls\n"


ON_DEVICE = """
import sys
sys.path.insert(0, {folder!r})
import fake_cupy, numpy as np, appy
cupy = fake_cupy.install()

@appy.jit(tune=True)
def gather(a, k, c):
    # pragma parallel for simd
    for i in range(c.shape[0]):
        c[i] = 2 * a[k[i]]

@appy.jit(strict=True, tune=True)
def add(a, b, c):
    # pragma parallel for simd
    for i in range(c.shape[0]):
        c[i] += a[i] + b[i]

def array(values):
    return fake_cupy.ndarray(np.asarray(values), 0)
"""


def test_launches_that_nothing_waits_for(program):
    """The next call looks at the time of the one before."""
    text = program(
        ON_DEVICE.format(folder=str(Path(__file__).parent))
        + """
a, b, c = array(np.arange(3000.0)), array(np.ones(3000)), array(np.zeros(3000))
for _ in range(80):
    add(a, b, c)
appy.synchronize()
np.testing.assert_array_equal(c.get(), 80 * (np.arange(3000.0) + 1))
appy.explain(add)
"""
    )
    assert "tuned for c: <4096" in text and "us instead of" in text


def test_a_failure_is_told_and_not_measured(program):
    text = program(
        ON_DEVICE.format(folder=str(Path(__file__).parent))
        + """
a, k, c = array(np.arange(500.0)), array(np.arange(500)[::-1].copy()), array(np.zeros(500))
bad = array(np.full(500, 500))
failed = 0
for number in range(80):
    try:
        gather(a, bad if number == 4 else k, c)
        if number == 4:
            appy.synchronize()
    except IndexError:
        failed += 1
appy.synchronize()
np.testing.assert_array_equal(c.get(), 2 * np.arange(500.0)[::-1])
assert failed == 1
appy.explain(gather)
"""
    )
    assert "tuned for " in text and "us instead of" in text
