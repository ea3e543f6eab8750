"""Products, and nests of their form, in tiles of either size and without, on the emulated device."""

from __future__ import annotations

import concurrent.futures
import json
import multiprocessing
import re
from pathlib import Path

import products
import pytest
import test_compile

PROGRAM = str(Path(__file__).parent / "products.py")
NAMES = [f.__name__ for f in products.PROGRAMS]


def run(python, *names, **variables):
    return json.loads(python("-W", "ignore", PROGRAM, *names, **variables).splitlines()[-1])


@pytest.mark.parametrize("name", NAMES)
def test_large_tiles(python, name):
    (found,) = run(python, name, APPY_CUDA_SHAPE="tiles=2").values()
    assert any(how.startswith("tiles of ") for how in found) == (name not in ("rows_that_stay", "one_after_the_other"))


@pytest.mark.parametrize("order", ["reverse", "1"])
def test_small_tiles_in_any_order_of_threads(python, order):
    names = ["product", "gemm", "chain", "in_order", "triangle", "captured", "onto_itself", "beside"]
    found = run(python, *names, APPY_CUDA_SHAPE="tiles=1", APPY_EMULATOR_ORDER=order)
    assert set(found["product"]) == {
        "tiles of 64 x 64 on tensor cores",
        "tiles of 64 x 64",
        "tiles of 32 x 32",
    }


def test_least_tiles(python):
    names = ["product", "gemm", "captured", "onto_itself", "of_two", "of_two_below", "of_two_from_before"]
    found = run(python, *names, APPY_CUDA_SHAPE="tiles=3")
    assert all("tiles of 32 x 64 on tensor cores" in how for how in found.values())


def test_other_blocks(python):
    for block in (32, 128, 512):
        found = run(python, "gemm", "in_order", APPY_CUDA_SHAPE=f"tiles=2,block={block}")
        assert any("tensor cores" in how for how in found["gemm"])


def test_many_tiles_in_bands(python, tmp_path):
    """More rows of tiles than are bands of their own, and blocks that take tiles in several rounds."""
    file = tmp_path / "program.py"
    file.write_text(MANY)
    python("-W", "ignore", str(file), APPY_CUDA_SHAPE="tiles=1,block=32")


MANY = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import appy, products
for f, sizes in ((products.of_two, (1100, 1100, 2)), (products.lower, (330, 65, 330)), (products.upper_right, (33, 330, 330))):
    compiled = appy.jit(backend="cuda", strict=True)(f)
    products.compare(f, compiled, *sizes, "f8", "plain", 1)
    assert "tiles of 32 x 32 on tensor cores" in str(appy.explain(compiled))
"""


def test_without_tiles(python):
    found = run(python, "gemm", "chain", "in_order", "captured", APPY_CUDA_SHAPE="tiles=0")
    assert not any("tiles of" in how for rows in found.values() for how in rows)


@pytest.mark.parametrize("size", [1, 2])
def test_nvidias_compiler_takes_them(python, monkeypatch, size):
    """For the tensor cores of three architectures; the other kernels for one."""
    for name in ("APPY_LIBCUDA", "APPY_LIBNVRTC"):
        monkeypatch.delenv(name, raising=False)
    printed = python("-W", "ignore", PROGRAM, "--texts", APPY_CUDA_SHAPE=f"tiles={size}")
    texts = []
    for part in re.split(r"^--- .* asm\n", printed, flags=re.MULTILINE)[1:]:
        text = re.sub(r"^(#line| *//) .*\n", "", part[: part.index("\n}\n") + 3], flags=re.MULTILINE)
        texts.append(re.sub(r"\bappy_\w+\(const Params", "kernel(const Params", text))
    assert sum("Tile<kBlock" in text for text in texts) >= len(NAMES) - 1
    of_tensor_cores = [text for text in texts if "TensorTile" in text]
    jobs = [([text], 90) for text in (texts if size == 2 else of_tensor_cores[:2])]
    jobs += [(of_tensor_cores[:2], capability) for capability in (80, 100)]
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        for (batch, _), (compiled, log) in zip(jobs, pool.map(test_compile.compile_batch, jobs)):
            assert compiled == len(batch), log


SIZES = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import appy, products
f = appy.jit(backend="cuda", strict=True)(products.product)
for n in (9, 80, 200):
    products.compare(products.product, f, n, n, n, "f8", "plain", 1)
appy.explain(f)
"""


def test_sizes_decide(python):
    found = python(SIZES)
    assert "too small for tiles" in found and "on tensor cores" in found


NO_COLUMNS = """
import appy
import numpy as np

def plain(C, A, B):
    # pragma parallel for
    for i in range(C.shape[0]):
        # pragma simd
        for j in range(A.shape[0] - i):
            total = C[i, j]
            for k in range(A.shape[1]):
                total += A[i, k] * B[k, j]
            C[i, j] = total

rng = np.random.default_rng(1)
C, A, B = rng.random((300, 40)), rng.random((40, 70)), rng.random((70, 40))
expected = C.copy()
f = appy.jit(plain, backend="cuda", strict=True)
f(C, A, B)
plain(expected, A, B)
np.testing.assert_allclose(C, expected)
assert "tiles of" in str(appy.explain(f))
"""


@pytest.mark.parametrize("size", [1, 2])
def test_rows_without_columns_load_nothing(python, tmp_path, size):
    file = tmp_path / "program.py"
    file.write_text(NO_COLUMNS)
    python("-W", "ignore", str(file), APPY_CUDA_SHAPE=f"tiles={size}", APPY_EMULATOR_GUARD="1")


STEPS = """
import appy
import numpy as np

def rows(C, A, B):
    # pragma parallel for
    for i in range(A.shape[0]):
        # pragma parallel for
        for j in range(B.shape[1]):
            total = C[i, j]
            # pragma simd
            for k in range(i):
                total += A[i - k - 1, 0] * B[k, j]
            C[i, j] = total

def columns(C, A, B):
    # pragma parallel for
    for i in range(A.shape[0]):
        # pragma parallel for
        for j in range(B.shape[1]):
            total = C[i, j]
            # pragma simd
            for k in range(j + 1, B.shape[0]):
                total += A[i, k] * B[k - j - 1, 0]
            C[i, j] = total

rng = np.random.default_rng(1)
for plain in (rows, columns):
    f = appy.jit(plain, backend="cuda", strict=True)
    for special in (0.0, np.inf, np.nan):
        n = 150
        A, B = rng.integers(-3, 4, (n, n)), rng.integers(-3, 4, (n - 1, 70))
        A, B = A.astype(float), B.astype(float)
        if plain is columns:
            A, B = A[:80, : n - 1].copy(), B
        A[:, 3] = B[5] = special
        C = np.full((A.shape[0], B.shape[1]), -0.0)
        expected = C.copy()
        f(C, A, B)
        with np.errstate(all="ignore"):
            plain(expected, A, B)
        # Small integers: any order gives the same sums, and a sum without steps keeps its sign.
        np.testing.assert_array_equal(C, expected)
        empty = np.s_[0] if plain is rows else np.s_[:, B.shape[0] - 1 :]
        assert (np.signbit(C[empty]) == np.signbit(expected[empty])).all()
    assert "on tensor cores" in str(appy.explain(f))
"""


@pytest.mark.parametrize("size", [1, 2])
def test_rows_and_columns_load_what_their_steps_load(python, tmp_path, size):
    file = tmp_path / "program.py"
    file.write_text(STEPS)
    python("-W", "ignore", str(file), APPY_CUDA_SHAPE=f"tiles={size}", APPY_EMULATOR_GUARD="1")


LIBRARY = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import re
import appy, products
import numpy as np

def add(C, A, B):
    #pragma 0=>parallel
    C[:, :] += A @ B

def parts(C, A, B):
    #pragma 0=>parallel
    C[2:, 1:] = A[2:, 3:] @ B[3:, 1:]

def transposed(C, A, B):
    #pragma 0=>parallel
    C.T[:, :] = (A @ B).T

def made(C, A, B):
    #pragma 0=>parallel
    D = A @ B
    C[0, 0] = D[1, 2]
    C[1, :] = D[0, :]

def scaled(C, A, B):
    alpha, beta = 1.5, 1.25
    #pragma 0=>parallel
    C[:, :] = alpha * (A @ B) + beta * C

def scaled_after(C, A, B):
    #pragma 0=>parallel
    C[:, :] = C + (A @ B) * 0.75

def two_thirds(C, A, B):
    #pragma 0=>parallel
    C[:, :] = C * 0.5 + A @ B

def half(C, A, B):
    #pragma 0=>parallel
    C[:, :] = 0.5 * (A @ B)

def less(C, A, B):
    #pragma 0=>parallel
    C[:, :] = A @ B - C

def update(alpha, beta, C, A, B):
    #pragma 0=>parallel
    C[:, :] = alpha * (A @ B) + beta * C

kinds = () if "few" in sys.argv else (("f8", float), ("f4", np.float32), ("f4", float))
for dtype, kind in kinds:
    compiled = appy.jit(backend="cuda", strict=True)(update)
    for alpha, beta in ((1.5, 0.75), (0, 1), (1, 0), (0, 0), (-2.0, np.inf)):
        rng = np.random.default_rng(0)
        C, A, B = (rng.random(shape).astype(dtype) for shape in ((90, 80), (90, 70), (70, 80)))
        A[3, 5] = C[7, 8] = np.inf
        want = C.copy()
        update(kind(alpha), kind(beta), want, A, B)
        compiled(kind(alpha), kind(beta), C, A, B)
        np.testing.assert_allclose(C, want, rtol=1e-12 if dtype == "f8" else 1e-4)
        assert dtype == C.dtype
        types = (kind.__module__ == "numpy") * "np." + kind.__name__ + ", A: " + A.dtype.name
        of = next(s for s in str(appy.explain(compiled)).split("  for alpha: ") if s.startswith(types))
        print("used", f"update_{{dtype}}_{{kind.__name__}}_{{alpha}}_{{beta}}", len(re.findall("cuBLAS 13.1", of)))

all_of_them = (scaled, scaled_after, two_thirds, half, less, products.product, add, parts, transposed, made,
               products.gemm, products.in_order)
for f in all_of_them if kinds else (scaled, products.product, made):
    compiled = appy.jit(backend="cuda", strict=True)(f)
    products.compare(f, compiled, 5, 4, 3, "f8", "plain", 1)
    for layout in ("plain", "transposed", "strided", "reversed")[: 4 if f is products.product else 1]:
        products.compare(f, compiled, 90, 80, 70, "f8", layout, 1)
    if f is products.product:
        products.compare(f, compiled, 90, 80, 70, "f4", "plain", 1)
    text = str(appy.explain(compiled))
    print("used", f.__name__, len(re.findall("cuBLAS 13.1", text)))
"""


def library(python, tmp_path, *arguments, **variables):
    file = tmp_path / "program.py"
    file.write_text(LIBRARY)
    printed = python("-W", "ignore", str(file), *arguments, **variables)
    return dict(re.findall(r"^used ([\w.-]+) (\d+)", printed, re.MULTILINE))


def test_whole_products_are_the_librarys(python, tmp_path, emulator_path):
    used = library(python, tmp_path, APPY_LIBCUBLAS=emulator_path)
    # Where rows or columns are contiguous, and factors scale the sums; what has an order is a kernel's.
    assert int(used.pop("product")) >= 3
    by_library = {name for name, count in used.items() if int(count) and not name.startswith("update")}
    # Matrices with a factor of 0 would not be read.
    updates = {name: int(count) > 0 for name, count in used.items() if name.startswith("update")}
    assert len(updates) == 15
    assert {name: by for name, by in updates.items() if by == ("0" in name.split("_")[-2:])} == {}
    assert by_library == {"add", "parts", "transposed", "made", "scaled", "scaled_after", "two_thirds", "half"}


TRIANGLES = """
import re, sys
import appy
import numpy as np

def lower(alpha, beta, C, A):
    #pragma parallel for
    for i in range(A.shape[0]):
        for j in range(i + 1):
            s = 0.0
            #pragma simd
            for k in range(A.shape[1]):
                s += A[i, k] * A[j, k]
            C[i, j] = beta * C[i, j] + alpha * s

def lower_of_columns(alpha, beta, C, A):
    #pragma parallel for
    for i in range(A.shape[1]):
        for j in range(1 + i):
            s = 0.0
            #pragma simd
            for k in range(A.shape[0]):
                s += A[k, i] * A[k, j]
            C[j, i] = alpha * s + beta * C[j, i]

def next_to_it(alpha, beta, C, A):
    #pragma parallel for
    for i in range(A.shape[0] - 1):
        for j in range(i + 1):
            s = 0.0
            #pragma simd
            for k in range(A.shape[1]):
                s += A[i, k] * A[j + 1, k]
            C[i, j] = beta * C[i, j] + alpha * s

def below(alpha, beta, C, A):
    #pragma parallel for
    for i in range(A.shape[0]):
        for j in range(i):
            s = 0.0
            #pragma simd
            for k in range(A.shape[1]):
                s += A[i, k] * A[j, k]
            C[i, j] = beta * C[i, j] + alpha * s

plain, dtype = globals()[sys.argv[1]], sys.argv[2]
kind = np.dtype(dtype).type
f = appy.jit(backend="cuda", strict=True)(plain)
for n, k in ((3, 2), (70, 40), (40, 70)):
    for beta in (0.75, 0.0):
        rng = np.random.default_rng(n)
        C = rng.random((n, n)).astype(dtype)
        A = (rng.random((k, n) if plain is lower_of_columns else (n, k)) - 0.25).astype(dtype)
        A[1, 1] = C[2, 1] = np.inf
        want = C.copy()
        with np.errstate(all="ignore"):
            plain(kind(1.5), kind(beta), want, A)
        f(kind(1.5), kind(beta), C, A)
        double = dtype == "f8"
        np.testing.assert_allclose(C, want, rtol=1e-11 if double else 2e-4, atol=1e-12 if double else 1e-4)
        if n > 3:
            print("used", beta, int("cuBLAS 13.1" in str(appy.explain(f))))
"""


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("name", ["lower", "lower_of_columns", "next_to_it", "below"])
def test_triangles_are_the_librarys(python, tmp_path, emulator_path, name, dtype):
    """A matrix times its own transpose, with the diagonal, is one call; what a factor of 0 would not read is not."""
    file = tmp_path / "program.py"
    file.write_text(TRIANGLES)
    printed = python("-W", "ignore", str(file), name, dtype, APPY_LIBCUBLAS=emulator_path)
    used = re.findall(r"^used ([\d.]+) (\d)", printed, re.MULTILINE)
    whole = "1" if name in ("lower", "lower_of_columns") else "0"
    assert used == [("0.75", whole), ("0.0", "0")] * 2


def test_without_the_library_or_where_it_fails(python, tmp_path, emulator_path):
    for variables in ({"APPY_LIBCUBLAS": "none"}, {"APPY_LIBCUBLAS": emulator_path, "APPY_EMULATOR_BLAS": "14"}, {}):
        assert library(python, tmp_path, "few", **variables) == dict.fromkeys(("scaled", "product", "made"), "0")


UNCOMPILED = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import appy, emulate
import numpy as np

def scaled(alpha, C, A, B):
    #pragma 0=>parallel
    C[:, :] = alpha * (A @ B)

emulator, compiled = emulate.Emulator(os.environ["APPY_LIBCUDA"]), appy.jit(backend="cuda", strict=True)(scaled)
for n, alpha in ((90, 2.0), (80, 0.0), (5, 2.0), (90, 3.0)):
    C, A, B = (np.random.default_rng(seed).random((n, n)) for seed in range(3))
    compiled(alpha, C, A, B)
    np.testing.assert_allclose(C, alpha * (A @ B), rtol=1e-12)
    launches = emulator.calls("cuLaunchKernel") + emulator.calls("cuLaunchCooperativeKernel")
    waits = "not compiled so far" in str(appy.explain(compiled))
    print("used", n, alpha, emulator.calls("cuModuleLoadDataEx"), launches, waits)
"""


def test_kernels_of_whole_products_are_compiled_when_they_run(python, tmp_path, emulator_path):
    """For a factor that the library does not take, and for few elements."""
    file = tmp_path / "program.py"
    file.write_text(UNCOMPILED)
    printed = python("-W", "ignore", str(file), APPY_LIBCUBLAS=emulator_path)
    counts = re.findall("^used (.*)", printed, re.MULTILINE)
    assert counts == ["90 2.0 0 0 True", "80 0.0 1 1 False", "5 2.0 2 2 False", "90 3.0 2 2 False"]


def test_whole_products_without_a_compiler(python, tmp_path, emulator_path):
    """The region is refused as it is elsewhere, whatever the library could do."""
    file = tmp_path / "program.py"
    file.write_text(UNCOMPILED)
    with pytest.raises(AssertionError, match="NVRTC, NVIDIA's compiler for kernels, was not found"):
        python("-W", "ignore", str(file), APPY_LIBCUBLAS=emulator_path, APPY_LIBNVRTC="/nowhere/libnvrtc.so")


@pytest.mark.parametrize(
    "variables",
    [{"APPY_EMULATOR_NVRTC": "11000"}, {"APPY_EMULATOR_ARCHITECTURES": "100"}, {"APPY_EMULATOR_DRIVER": "12000"}],
)
def test_whole_products_with_a_compiler_that_cannot_be_used(python, tmp_path, emulator_path, variables):
    """Too old, for other devices, newer than the driver: the interpreter runs the first call, and the others."""
    file = tmp_path / "program.py"
    file.write_text(UNCOMPILED.replace("strict=True", "strict=False"))
    printed = python("-W", "ignore", str(file), APPY_LIBCUBLAS=emulator_path, **variables)
    assert re.findall(r"^used \S+ \S+ (.*)", printed, re.MULTILINE) == ["0 0 False"] * 4


TINY_FACTORS = """
import re
import appy
import numpy as np

def updated(alpha, beta, C, A, B):
    #pragma 0=>parallel
    C[:, :] = alpha * (A @ B) + beta * C

compiled = appy.jit(backend="cuda", strict=True)(updated)
for alpha, beta in ((1.0, 1.0), (1.0, 1e-60), (1e-60, 1.0)):
    A, B, C = (np.random.default_rng(seed).random((90, 90)).astype("f4") for seed in range(3))
    A[3, 4] = C[5, 6] = np.inf
    with np.errstate(all="ignore"):
        want = C.copy()
        updated(alpha, beta, want, A, B)
    compiled(alpha, beta, C, A, B)
    np.testing.assert_allclose(C, want, rtol=1e-5)
    print("used", len(re.findall("product at line 8: cuBLAS", str(appy.explain(compiled)))))
"""


def test_factors_that_are_zero_in_the_products_precision(python, tmp_path, emulator_path):
    """The library does not read what it multiplies by 0, and 0 times infinity is no number."""
    file = tmp_path / "program.py"
    file.write_text(TINY_FACTORS)
    printed = python("-W", "ignore", str(file), APPY_LIBCUBLAS=emulator_path)
    assert re.findall("^used (.*)", printed, re.MULTILINE)[0] == "1"


def test_doctor_tells_of_the_library(python, emulator_path):
    assert f"13.1, {emulator_path}" in python("-m", "appy", "doctor", APPY_LIBCUBLAS=emulator_path)
    assert "not used: APPY_LIBCUBLAS is none" in python("-m", "appy", "doctor", APPY_LIBCUBLAS="none")


GIVEN = f"""
import re, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import appy, products
import numpy as np

def covariance(x, out):
    #pragma 0=>parallel
    mean = np.mean(x, axis=0)
    #pragma 0=>parallel 1=>simd
    x -= mean
    #pragma 0=>parallel 1=>simd
    out[:, :] = x.T @ x / (x.shape[0] - 1.0)
    #pragma 0=>parallel
    x[0, :] = np.sum(out, axis=0)

def gram(number, out, x):
    #pragma 0=>parallel 1=>simd
    x += 1
    #pragma 0=>parallel 1=>simd
    out[:, :] = x @ x.T / (number - 1.0)

def tiny(number, out, x):
    #pragma 0=>parallel 1=>simd
    out[:, :] = x @ x.T / (number * 1e-310)

def syrk(alpha, beta, C, A):
    #pragma parallel for
    for i in range(A.shape[0]):
        for j in range(i + 1):
            s = 0.0
            #pragma simd
            for k in range(A.shape[1]):
                s += A[i, k] * A[j, k]
            C[i, j] = beta * C[i, j] + alpha * s

def above(C, A):
    n = C.shape[0]
    #pragma parallel for
    for i in range(n - 1):
        for j in range(n - 1 - i):
            s = C[i, j]
            #pragma simd
            for k in range(A.shape[1] - 2):
                s += A[i + 1, k + 2] * A[j, k]
            C[i, j] = s

def syr2k(alpha, beta, C, A, B):
    #pragma parallel for
    for i in range(A.shape[0]):
        for j in range(i + 1):
            s = 0.0
            #pragma simd
            for k in range(A.shape[1]):
                s += A[j, k] * B[i, k] + B[j, k] * A[i, k]
            C[i, j] = beta * C[i, j] + alpha * s

def of_others(C, A, B):
    #pragma parallel for
    for i in range(C.shape[0]):
        for j in range(C.shape[0]):
            s = 0.0
            #pragma simd
            for k in range(A.shape[1] - 1):
                s += A[j, k] * B[i, k] + B[j, k] * A[i, k + 1]
            C[i, j] = s

def scaled(C, A, B):
    #pragma parallel for
    for i in range(C.shape[0]):
        for j in range(C.shape[0]):
            s = 0.0
            #pragma simd
            for k in range(A.shape[1]):
                s += A[j, k] * B[i, k]
            C[i, j] = s * A[0, 0]

def behind_a_number(C, A, B):
    #pragma 0=>reduction(sum)
    most = np.sum(A[0, :])
    #pragma 0=>parallel 1=>simd
    C[:, :] = np.maximum(A @ B.T, most)

def in_order(C, A, B):
    #pragma parallel for
    for i in range(C.shape[0]):
        for j in range(C.shape[0]):
            s = C[i, j]
            for k in range(A.shape[1]):
                s += A[i, k] * B[j, k]
            C[i, j] = max(s, 0.0)

def both(C, A, B):
    #pragma 0=>parallel 1=>simd
    D = A @ A.T * 2
    #pragma 0=>parallel 1=>simd
    C[:, :] = np.maximum(B @ A.T, 0) + D

def updated(alpha, beta, C, A, B):
    #pragma 0=>parallel 1=>simd
    S = A + 2 * A
    #pragma 0=>parallel
    C[:, :] = alpha * (S @ B.T) + beta * C

def less(C, A, B):
    #pragma 0=>parallel 1=>simd
    S = A + 2 * A
    #pragma 0=>parallel
    C[:, :] = S @ B.T - C * C

calls = dict(
    covariance=lambda n, k, m, d: (covariance, m(k, n), m(n, n)),
    gram=lambda n, k, m, d: (gram, d(7.5), m(n, n), m(n, k)),
    tiny=lambda n, k, m, d: (tiny, d(7.5), m(n, n), m(n, k)),
    syrk=lambda n, k, m, d: (syrk, d(1.5), d(0.75), m(n, n), m(n, k)),
    above=lambda n, k, m, d: (above, m(n, n), m(n, k)),
    syr2k=lambda n, k, m, d: (syr2k, d(1.5), d(0.75), m(n, n), m(n, k), m(n, k)),
    of_others=lambda n, k, m, d: (of_others, m(n, n), m(n, k), m(n, k)),
    scaled=lambda n, k, m, d: (scaled, m(n, n), m(n, k), m(n, k)),
    behind_a_number=lambda n, k, m, d: (behind_a_number, m(n, n), m(n, k), m(n, k)),
    in_order=lambda n, k, m, d: (in_order, m(n, n), m(n, k), m(n, k)),
    both=lambda n, k, m, d: (both, m(n, n), m(n, k), m(n, k)),
    updated=lambda n, k, m, d: (updated, d(1.5), d(0.75), m(n, n), m(n, k), m(n, k)),
    not_read=lambda n, k, m, d: (updated, d(1.5), d(0), m(n, n), m(n, k), m(n, k)),
    added=lambda n, k, m, d: (updated, d(n % 2), d(-1), m(n, n), m(n, k), m(n, k)),
    less=lambda n, k, m, d: (less, m(n, n), m(n, k), m(n, k)),
)
for name in sys.argv[1:] or calls:
    compiled = appy.jit(backend="cuda", strict=True)(calls[name](3, 3, lambda *s: np.zeros(s), float)[0])
    for n, k, dtype in ((75, 40, "f8"), (33, 90, "f8"), (1, 3, "f8"), (40, 60, "f4")):
        rng = np.random.default_rng(n)
        plain, *arguments = calls[name](n, k, lambda *s: rng.random(s).astype(dtype) - 0.25, np.dtype(dtype).type)
        for special in (None, np.inf):
            if special and arguments[-1].ndim == 2 and name != "covariance":
                arguments[-1][0, k // 2] = special
            expected = [x.copy() for x in arguments]
            with np.errstate(all="ignore"):
                plain(*expected)
            compiled(*arguments)
            for got, want in zip(arguments, expected):
                np.testing.assert_allclose(got, want, rtol=1e-11 if dtype == "f8" else 2e-4, atol=1e-12 if dtype == "f8" else 1e-4)
            arguments = expected
    text = str(appy.explain(compiled))
    print("used", name, *sorted(set(re.findall("cuBLAS 13.1, ([a-z]+)", text))))
"""


def given(python, tmp_path, *names, **variables):
    file = tmp_path / "program.py"
    file.write_text(GIVEN)
    printed = python("-W", "ignore", str(file), *names, APPY_EMULATOR_GUARD="1", **variables)
    return {name: how.split() for name, how in re.findall(r"^used (\w+)(.*)", printed, re.MULTILINE)}


GIVEN_SUMS = dict(
    covariance=["between"],
    gram=["behind"],
    tiny=["before"],
    syrk=[],  # as a whole
    above=["before"],
    syr2k=["before"],
    of_others=[],
    scaled=[],
    behind_a_number=[],
    in_order=[],
    both=["before"],
    updated=["behind"],
    not_read=["between"],
    added=["behind", "between"],
    less=["between"],
)


@pytest.mark.parametrize("name", GIVEN_SUMS)
def test_sums_from_the_library(python, tmp_path, emulator_path, name):
    """Before the kernel, or between two launches of it; not where the nest reads more, or a number is in registers."""
    used = given(python, tmp_path, name, APPY_LIBCUBLAS=emulator_path, APPY_CUDA_SHAPE="given=1")
    assert used == {name: GIVEN_SUMS[name]}


@pytest.mark.parametrize(("block", "how"), [(96, ["before"]), (16, [])])
def test_sums_from_the_library_with_blocks_of_any_size(python, tmp_path, emulator_path, block, how):
    """Rows of 32 are those of whole warps."""
    used = given(python, tmp_path, "above", APPY_LIBCUBLAS=emulator_path, APPY_CUDA_SHAPE=f"given=1,block={block}")
    assert used == {"above": how}


@pytest.mark.parametrize("case", ["small", "none", "fails"])
def test_small_sums_are_the_kernels(python, tmp_path, emulator_path, case):
    variables = {"APPY_LIBCUBLAS": "none" if case == "none" else emulator_path}
    if case != "small":
        variables["APPY_CUDA_SHAPE"] = "given=1"
    if case == "fails":
        variables["APPY_EMULATOR_BLAS"] = "14"
    names = ("covariance", "syr2k")
    assert given(python, tmp_path, *names, **variables) == dict.fromkeys(names, [])


LARGE = f"""
{GIVEN[: GIVEN.index("calls = dict(")]}
n, k = 700, 700
C, A, B = (np.random.default_rng(seed).random((n, k)) for seed in range(3))
before = C.copy()
compiled = appy.jit(backend="cuda", strict=True)(syr2k)
compiled(1.5, 0.75, C, A, B)
want = np.where(np.tri(n, dtype=bool), 0.75 * before + 1.5 * (A @ B.T + B @ A.T), before)
np.testing.assert_allclose(C, want, rtol=1e-12)
assert "cuBLAS 13.1, before the launch" in str(appy.explain(compiled))
"""


def test_large_sums_are_the_librarys(python, tmp_path, emulator_path):
    file = tmp_path / "program.py"
    file.write_text(LARGE)
    python("-W", "ignore", str(file), APPY_LIBCUBLAS=emulator_path)
