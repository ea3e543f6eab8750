"""Cholesky factorizations on the processor, by the LAPACK that NumPy has loaded and without it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import re, sys
import appy, factor_programs
import numpy as np

name, case, dtype = sys.argv[1:4]
plain = getattr(factor_programs, name)
f = appy.jit(plain)
for n in [int(a) for a in sys.argv[4:]]:
    rng = np.random.default_rng(n)
    A = rng.random((n, n)) - 0.5
    A = (A @ A.T + n * np.eye(n)).astype(dtype)
    A[np.triu_indices(n, 1)] = np.nan  # neither read nor written
    if name == "upper":
        A = A.T.copy()
    wide = np.full((n + 2, n + 9), 7.0, dtype)
    if case == "view":
        wide[1 : n + 1, 3 : n + 3] = A
        A = wide[1 : n + 1, 3 : n + 3]
    if case == "fortran":
        A = np.asfortranarray(A)
    if case == "strided":
        A = np.repeat(A, 2, axis=1)[:, ::2]
    if case == "backward":
        A = A[::-1].copy()[::-1]
    if case in ("zero", "inf", "nan", "negative"):
        A[n // 2, n // 2] = {"zero": 0, "inf": np.inf, "nan": np.nan, "negative": -1}[case]
    if case == "infinite_below":
        A[n - 1, 0] = np.inf
    if case == "overflow_below":
        A[n - 1, 0] = np.finfo(dtype).max
    want = A.copy()
    with np.errstate(all="ignore"):
        returned = plain(want)
    assert f(A) == returned
    double = dtype == "f8"
    np.testing.assert_allclose(A, want, rtol=1e-11 if double else 2e-4, atol=1e-14 if double else 1e-5)
    if case == "view":
        wide[1 : n + 1, 3 : n + 3] = 7
        assert (wide == 7).all()
    by = re.search("factorization at line ([0-9]+): OpenBLAS [0-9.]+$", str(appy.explain(f)), re.MULTILINE)
    assert not by or int(by.group(1)) > plain.__code__.co_firstlineno
    print("used", n, int(bool(by)))
"""


def used(name, case, dtype, *columns, **variables):
    variables = {"OPENBLAS_NUM_THREADS": "1", "APPY_NUM_THREADS": "1", **variables}
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parent.parent), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, name, case, dtype, *map(str, columns)],
        env={**os.environ, "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return [(int(n), by == "1") for n, by in re.findall(r"^used (\d+) (\d)$", run.stdout, re.MULTILINE)]


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("name", ["columns", "dots", "slices", "rows", "upper"])
def test_large_ones_are_lapacks(name, dtype):
    assert used(name, "random", dtype, 0, 1, 40, 150) == [(0, False), (1, False), (40, False), (150, True)]


@pytest.mark.parametrize(
    "name, case, dtype, ours",
    [
        ("columns", "random", "f8", True),
        ("slices", "random", "f8", True),
        ("dots", "view", "f8", True),
        ("columns", "fortran", "f8", False),
        ("columns", "random", "f4", False),
        ("upper", "random", "f8", False),
        ("rows", "random", "f8", False),
    ],
)
def test_blocked_loops_along_memory_are_faster(name, case, dtype, ours):
    assert used(name, case, dtype, 199, 200) == [(199, True), (200, not ours)]


@pytest.mark.parametrize("case", ["zero", "inf", "nan", "negative", "infinite_below", "overflow_below"])
def test_blocked_loops_and_what_is_not_positive_definite(case):
    assert used("columns", case, "f8", 210, APPY_NUM_THREADS="2", OPENBLAS_NUM_THREADS="2") == [(210, False)]


@pytest.mark.parametrize("case", ["view", "fortran"])
def test_any_leading_dimension(case):
    assert used("columns", case, "f8", 150) == [(150, True)]


@pytest.mark.parametrize("name", ["columns", "slices", "rows", "upper"])
@pytest.mark.parametrize("case", ["zero", "inf", "nan", "negative", "infinite_below", "overflow_below"])
def test_what_is_not_positive_definite(name, case):
    """Nothing of what LAPACK wrote is left: NaN and infinities are where Python has them."""
    if name == "upper" and case.endswith("below"):
        pytest.skip("that half is not read")
    assert used(name, case, "f8", 150) == [(150, False)]


@pytest.mark.parametrize("case", ["strided", "backward"])
def test_strides_that_lapack_has_not(case):
    assert used("columns", case, "f8", 150) == [(150, False)]


@pytest.mark.parametrize("name", ["without_root", "next_row", "kept", "guarded"])
def test_what_is_no_factorization(name):
    """One of them is: of fewer columns than the matrix has. Of two more a variable may be read
    afterwards."""
    assert used(name, "random", "f8", 150) == [(150, name == "next_row")]


@pytest.mark.parametrize("variables", [{"APPY_LAPACK": "none"}, {"OPENBLAS_NUM_THREADS": "1", "APPY_NUM_THREADS": "2"}])
def test_without_it(variables):
    """Not wanted, or with another number of threads than the region may use."""
    if "APPY_NUM_THREADS" in variables and len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one processor")
    assert used("columns", "random", "f8", 150, **variables) == [(150, False)]


def test_with_threads():
    """Many small blocks and few large ones, by as many threads as there are."""
    ours = {"OPENBLAS_NUM_THREADS": "2", "APPY_NUM_THREADS": "2"}
    assert [n for n, _ in used("dots", "random", "f8", 129, 333, 640, **ours)] == [129, 333, 640]
    assert [n for n, _ in used("rows", "random", "f8", 129, 333, 640, **ours)] == [129, 333, 640]
