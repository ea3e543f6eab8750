"""Triangular substitutions that are cuBLAS's, with the emulated library."""

import re
from pathlib import Path

import pytest

SOLVES = """
import re, sys
import appy
import numpy as np

def loops(L, x, b):
    #pragma sequential for
    for i in range(x.shape[0]):
        s = 0.0
        #pragma simd
        for j in range(i):
            s += L[i, j] * x[j]
        x[i] = (b[i] - s) / L[i, i]

def slices(L, x, b):
    #pragma sequential for
    for i in range(x.shape[0]):
        #pragma 0=>reduction(sum)
        x[i] = (b[i] - L[i, :i] @ x[:i]) / L[i, i]

def columns(L, x, b):
    #pragma sequential for
    for i in range(x.shape[0]):
        #pragma 0=>reduction(sum)
        x[i] = (b[i] - L[:i, i] @ x[:i]) / L[i, i]

def unit(L, x, b):
    #pragma sequential for
    for i in range(x.shape[0]):
        #pragma 0=>reduction(sum)
        x[i] = b[i] - L[i, :i] @ x[:i]

def in_place(L, x, b):
    #pragma sequential for
    for i in range(x.shape[0]):
        #pragma 0=>reduction(sum)
        x[i] = (x[i] - L[i, :i] @ x[:i]) / L[i, i]

def with_more(L, x, b):
    #pragma sequential for
    for i in range(x.shape[0]):
        #pragma 0=>reduction(sum)
        x[i] = (b[i] - L[i, :i] @ x[:i]) / L[i, i]
        b[i] = 0.0

def other(L, x, b):
    #pragma sequential for
    for i in range(x.shape[0]):
        #pragma 0=>reduction(sum)
        x[i] = (b[i] - L[i, :i] @ b[:i]) / L[i, i]

name, case, dtype = sys.argv[1:4]
plain = globals()[name]
f = appy.jit(backend="cuda", strict=True)(plain)
for n in [int(a) for a in sys.argv[4:]]:
    rng = np.random.default_rng(n)
    L = (rng.random((n + 3, n + 5)) / (n + 1)).astype(dtype)
    L[np.triu_indices(n, 1, n)] = np.nan  # neither read nor written
    if name == "columns":
        L = L[:n, :n].T.copy()
    if case == "reversed":
        L = L[::-1]
    L[np.arange(n), np.arange(n)] = 0.5 if name == "unit" else 2.0
    x, b = rng.random(n).astype(dtype), rng.random(2 * n).astype(dtype)
    b = b[::2] if case == "strided" else b[:n]
    if case in ("zero", "inf", "nan"):
        L[n // 2, n // 2] = {"zero": 0, "inf": np.inf, "nan": np.nan}[case]
    if case.startswith("beside_a_zero"):
        b[0] = x[0] = 0
        L[0, 0] = 2
        L[n // 2, 0] = {"beside_a_zero": 1, "beside_a_zero_inf": np.inf, "beside_a_zero_nan": np.nan}[case]
    if case == "zero_by_zero":
        b[0] = x[0] = L[0, 0] = 0
    if case == "zeros":  # as many as are looked at, the last element among them
        b[:7] = x[:7] = 0
        b[-1] = x[-1] = 0
        L[n - 1, : n - 1] = 0
    if case == "too_many_zeros":
        b[:9] = x[:9] = 0
    if case == "negative_by_zero":
        b[0] = x[0] = 0
        L[0, 0] = -2
    if case == "overflow":
        b[n // 3] = np.finfo(dtype).max
        L[n // 3, n // 3] = 0.25
    if case == "same":
        b = x
    before = L.copy()
    want, right = x.copy(), b.copy()
    with np.errstate(all="ignore"):
        plain(before, want, want if case == "same" else right)
    f(L, x, b)
    np.testing.assert_allclose(x, want, rtol=1e-11 if dtype == "f8" else 2e-4)
    np.testing.assert_array_equal(np.signbit(x[x == 0]), np.signbit(want[want == 0]))
    np.testing.assert_array_equal(L, before)
    if case != "same":
        np.testing.assert_array_equal(b, right)
    print("used", n, int("substitution at line" in str(appy.explain(f))))
"""


LARGE = """
import appy, sys
import numpy as np

@appy.jit(backend="cuda", strict=True)
def solved(L, x, b):
    #pragma sequential for
    for i in range(x.shape[0]):
        #pragma 0=>reduction(sum)
        x[i] = (b[i] - L[i, :i] @ x[:i]) / L[i, i]

@appy.jit(backend="cuda", strict=True)
def factored(A):
    #pragma sequential for
    for i in range(A.shape[0]):
        #pragma sequential for
        for j in range(i):
            #pragma 0=>reduction(sum)
            A[i, j] = (A[i, j] - A[i, :j] @ A[j, :j]) / A[j, j]
        #pragma 0=>reduction(sum)
        A[i, i] = np.sqrt(A[i, i] - A[i, :i] @ A[i, :i])

n = 4000
L, x, b = np.full((n, n), 1 / 64), np.zeros(n), np.zeros(n)
np.fill_diagonal(L, 2.0)
b[:] = np.arange(n) / 64 + 2
solved(L, x, b)
np.testing.assert_allclose(x, 1, rtol=1e-11)
text = str(appy.explain(solved))
assert "substitution at line" in text and "not compiled so far" in text
n = 1500
A = np.full((n, n), 1.0)
np.fill_diagonal(A, 2.0)
want = np.linalg.cholesky(A)
factored(A)
np.testing.assert_allclose(np.tril(A), want, rtol=1e-11)
assert (np.triu(A, 1) == np.triu(np.ones((n, n)), 1)).all()
text = str(appy.explain(factored))
assert "factorization at line" in text and "not compiled so far" in text
"""


def test_large_ones_are_the_librarys(python, tmp_path, emulator_path):
    file = tmp_path / "program.py"
    file.write_text(LARGE)
    python("-W", "ignore", str(file), APPY_LIBCUBLAS=emulator_path, APPY_LIBCUSOLVER=emulator_path)


def used(python, tmp_path, name, case, dtype, *rows, **variables):
    file = tmp_path / "program.py"
    file.write_text(SOLVES)
    variables = {"APPY_CUDA_SHAPE": "given=1", **variables}
    printed = python("-W", "ignore", str(file), name, case, dtype, *map(str, rows), **variables)
    return re.findall(r"^used (\d+) (\d)", printed, re.MULTILINE)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("name", ["loops", "slices", "columns", "unit", "in_place"])
def test_substitutions_are_the_librarys(python, tmp_path, emulator_path, name, dtype):
    got = used(python, tmp_path, name, "random", dtype, 0, 1, 150, APPY_LIBCUBLAS=emulator_path)
    assert got[0] == ("0", "0")
    assert got[2] == ("150", "1")


@pytest.mark.parametrize(
    ("name", "case", "by"),
    [
        ("slices", "same", "1"),
        ("slices", "zero", "0"),
        ("slices", "inf", None),
        ("slices", "nan", "0"),
        ("slices", "overflow", "0"),
        ("slices", "beside_a_zero", "1"),
        ("columns", "beside_a_zero", "1"),
        ("unit", "beside_a_zero_inf", "0"),
        ("slices", "zeros", "1"),
        ("unit", "zeros", "1"),
        ("columns", "zeros", "1"),
        ("slices", "too_many_zeros", "0"),
        ("slices", "negative_by_zero", "0"),
        ("slices", "beside_a_zero_inf", "0"),
        ("slices", "beside_a_zero_nan", "0"),
        ("in_place", "beside_a_zero_nan", "0"),
        ("slices", "zero_by_zero", "0"),
        ("slices", "strided", "0"),
        ("slices", "reversed", "0"),
        ("with_more", "random", "0"),
        ("other", "random", "0"),
    ],
)
def test_what_the_library_is_not_for(python, tmp_path, emulator_path, name, case, by):
    """Not finite, not contiguous, not a substitution, and nothing else: the kernel has what Python has. Of zeros in x
    few are looked at."""
    ((_, got),) = used(python, tmp_path, name, case, "f8", 150, APPY_LIBCUBLAS=emulator_path)
    assert by in (None, got)


@pytest.mark.parametrize(
    "variables",
    [{"APPY_LIBCUBLAS": "none"}, {"APPY_EMULATOR_BLAS": "14"}, {"APPY_CUDA_SHAPE": ""}, {"APPY_CUDA_SHAPE": "given=2"}],
)
def test_substitutions_without_the_library(python, tmp_path, emulator_path, variables):
    """None, one that fails, few rows, and one that is not wanted."""
    got = used(python, tmp_path, "slices", "random", "f8", 150, **{"APPY_LIBCUBLAS": emulator_path, **variables})
    assert got == [("150", "0")]


UNCOMPILED = """
import ctypes, os, signal, sys, threading, time
sys.path.insert(0, FOLDER)
import appy, emulate, fake_cupy
import numpy as np

@appy.jit
def twice(x):
    #pragma parallel for simd
    for i in range(x.shape[0]):
        x[i] = x[i] * 2

@appy.jit
def solved(L, x, b, n):
    #pragma sequential for
    for i in range(n):
        #pragma 0=>reduction(sum)
        x[i] = (b[i] - L[i, :i] @ x[:i]) / L[i, i]

emulator = emulate.Emulator(os.environ["APPY_LIBCUDA"])

def array(values):
    # The library's copies are between memory of the device.
    context, address = ctypes.c_void_p(), ctypes.c_uint64()
    driver = ctypes.CDLL(os.environ["APPY_LIBCUDA"])
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and driver.cuCtxPushCurrent_v2(context) == 0
    assert driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(values.nbytes)) == 0
    assert driver.cuCtxPopCurrent_v2(ctypes.byref(context)) == 0
    there = np.frombuffer((ctypes.c_char * values.nbytes).from_address(address.value)).reshape(values.shape)
    there[...] = values
    return fake_cupy.ndarray(there)

n = 90
L, b = np.tril(np.random.default_rng(1).random((n, n))) + 2 * np.eye(n), np.random.default_rng(2).random(n)
want = np.linalg.solve(L, b)
y = fake_cupy.ndarray(np.ones(10))
twice(y)
appy.synchronize()
loaded = emulator.calls("cuModuleLoadDataEx") + 1  # the kernel that looks at the solution
on_device = [array(a) for a in (L, np.full(n, 5.0), b)]

# What comes before it can be interrupted, and then it has not begun.
os.environ["APPY_EMULATOR_BUSY"] = "1"
twice(y)
timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
timer.start()
start = time.monotonic()
try:
    solved(*on_device, n)
except KeyboardInterrupt:
    assert time.monotonic() - start < 0.9
else:
    raise AssertionError("no KeyboardInterrupt")
timer.join()
os.environ["APPY_EMULATOR_BUSY"] = "0"
appy.synchronize()
assert (on_device[1].get() == 5).all()

solved(*on_device, n)
appy.synchronize()
np.testing.assert_allclose(on_device[1].get(), want, rtol=1e-11)
text = str(appy.explain(solved))
assert "not compiled so far" in text and "substitution at line" in text
assert emulator.calls("cuModuleLoadDataEx") == loaded

# Fewer rows than there are are a slice of them; where the library is not for it the kernel is compiled.
x = array(np.full(n, 5.0))
solved(on_device[0], x, on_device[2], n - 20)
appy.synchronize()
np.testing.assert_allclose(x.get()[:-20], want[:-20], rtol=1e-11)
assert (x.get()[-20:] == 5).all()
assert emulator.calls("cuModuleLoadDataEx") == loaded
singular = L.copy()
singular[50, 50] = 0
solved(array(singular), x, on_device[2], n)
appy.synchronize()
assert emulator.calls("cuModuleLoadDataEx") == loaded + 1
np.testing.assert_allclose(x.get()[:50], want[:50], rtol=1e-11)
assert not np.isfinite(x.get()[50:]).any()
assert "substitution at line" not in str(appy.explain(solved))

# The kernel has the next calls, too.
by = []
for _ in range(17):
    solved(*on_device, n)
    appy.synchronize()
    np.testing.assert_allclose(on_device[1].get(), want, rtol=1e-11)
    by.append("substitution at line" in str(appy.explain(solved)))
assert by == [False] * 15 + [True] * 2
"""


def test_kernels_of_substitutions_are_compiled_when_they_run(python, tmp_path, emulator_path):
    file = tmp_path / "program.py"
    file.write_text(UNCOMPILED.replace("FOLDER", repr(str(Path(__file__).parent))))
    python("-W", "ignore", str(file), APPY_LIBCUBLAS=emulator_path, APPY_CUDA_SHAPE="given=1")
