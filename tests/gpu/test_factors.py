"""Cholesky factorizations that are cuSOLVER's, with the emulated library."""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FACTORS = """
import os, re, sys
sys.path[:0] = FOLDERS
import appy, emulate, factor_programs
import numpy as np

name, case, dtype = sys.argv[1:4]
plain = getattr(factor_programs, name)
emulator, f = emulate.Emulator(os.environ["APPY_LIBCUDA"]), appy.jit(backend="cuda", strict=True)(plain)
for n in [int(a) for a in sys.argv[4:]]:
    rng = np.random.default_rng(n)
    A = rng.random((n, n)) - 0.5
    A = (A @ A.T + n * np.eye(n)).astype(dtype)
    A[np.triu_indices(n, 1)] = np.nan  # neither read nor written
    if name == "upper":
        A = A.T.copy()
    wide = np.full((n, n + 9), 7.0, dtype)
    if case == "view":
        wide[:, 3 : n + 3] = A
        A = wide[:, 3 : n + 3]
    if case == "wider":
        wide = np.full((n, 2 * n + 10), 7.0, dtype)
        wide[:, :n] = A
        A = wide[:, :n]
    if case == "fortran":
        A = np.asfortranarray(A)
    if case == "strided":
        A = np.repeat(A, 2, axis=1)[:, ::2]
    if case in ("zero", "inf", "nan", "negative", "subnormal"):
        A[n // 2, n // 2] = {"zero": 0, "inf": np.inf, "nan": np.nan, "negative": -1, "subnormal": 1e-310}[case]
    if case == "infinite_below":
        A[n - 1, 0] = np.inf
    if case == "zeros":
        A[...] = 0
    want = A.copy()
    with np.errstate(all="ignore"):
        plain(want)
    f(A)
    double = dtype == "f8"
    np.testing.assert_allclose(A, want, rtol=1e-11 if double else 2e-4, atol=1e-14 if double else 1e-5)
    if case == "view":
        assert (wide[:, :3] == 7).all() and (wide[:, n + 3 :] == 7).all()
    if case == "wider":
        assert (wide[:, n:] == 7).all()
    text = str(appy.explain(f))
    by = re.search("factorization at line ([0-9]+): (.*)", text)
    assert not by or (int(by.group(1)) > plain.__code__.co_firstlineno and by.group(2) == "cuSOLVER 12.1")
    print("used", n, int(bool(by)), emulator.calls("cuModuleLoadDataEx"))
"""


def used(python, tmp_path, name, case, dtype, *columns, **variables):
    file = tmp_path / "program.py"
    file.write_text(FACTORS.replace("FOLDERS", repr([str(HERE), str(HERE.parent / "parity")])))
    variables = {"APPY_CUDA_SHAPE": "given=1", **variables}
    printed = python("-W", "ignore", str(file), name, case, dtype, *map(str, columns), **variables)
    return re.findall(r"^used (\d+) (\d) (\d+)", printed, re.MULTILINE)


def both(path):
    return {"APPY_LIBCUBLAS": path, "APPY_LIBCUSOLVER": path}


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("name", ["columns", "dots", "rows", "upper"])
def test_factorizations_are_the_librarys(python, tmp_path, emulator_path, name, dtype):
    """The kernel is not compiled, and what is above the diagonal stays."""
    got = used(python, tmp_path, name, "random", dtype, 2, 90, **both(emulator_path))
    assert got == [("2", "1", "0"), ("90", "1", "0")]


@pytest.mark.parametrize("case", ["view", "fortran", "random", "wider"])
def test_matrices_of_any_kind_are_the_librarys(python, tmp_path, emulator_path, case):
    got = used(python, tmp_path, "columns", case, "f8", 0, 1, 90, **both(emulator_path))
    assert got[0][1] == "0"
    assert got[2][1] == "1"


@pytest.mark.parametrize("case", ["zero", "inf", "nan", "negative", "zeros", "infinite_below", "subnormal", "strided"])
def test_matrices_that_the_library_is_not_for(python, tmp_path, emulator_path, case):
    """Not positive definite, not finite, or not as the library has them: the kernel has what Python has."""
    ((_, by, compiled),) = used(python, tmp_path, "columns", case, "f8", 90, **both(emulator_path))
    assert (by, compiled) == ("0", "1")


@pytest.mark.parametrize("name", ["without_root", "next_row"])
def test_what_is_no_factorization(python, tmp_path, emulator_path, name):
    ((_, by, _),) = used(python, tmp_path, name, "random", "f8", 90, **both(emulator_path))
    assert by == ("1" if name == "next_row" else "0")


@pytest.mark.parametrize(
    "variables",
    [
        {"APPY_LIBCUSOLVER": "none"},
        {"APPY_LIBCUBLAS": "none"},
        {"APPY_EMULATOR_SOLVER": "6"},
        {"APPY_EMULATOR_FAIL": "cuMemAllocAsync:3,cuMemAllocAsync:4"},
        {"APPY_CUDA_SHAPE": ""},
        {"APPY_CUDA_SHAPE": "given=2"},
    ],
)
def test_factorizations_without_the_library(python, tmp_path, emulator_path, variables):
    """None, one that fails, no memory for a copy, few columns, and one that is not wanted."""
    got = used(python, tmp_path, "columns", "random", "f8", 90, **{**both(emulator_path), **variables})
    assert got == [("90", "0", "1")]


def test_doctor_tells_of_the_library(python, emulator_path):
    assert f"12.1, {emulator_path}" in python("-m", "appy", "doctor", APPY_LIBCUSOLVER=emulator_path)
    assert "not used: APPY_LIBCUSOLVER is none" in python("-m", "appy", "doctor", APPY_LIBCUSOLVER="none")
