"""What the GPU sides compute, where there is no GPU: CuPy's versions on NumPy in its place, torch's on the CPU."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from scientific import reference  # noqa: E402
from scientific.kernels import KERNELS  # noqa: E402
from scientific.results import agree, outcome  # noqa: E402
from scientific.sides import ON  # noqa: E402


def gemm(transa, transb, a, b, out, alpha, beta):
    out[...] = alpha * (a @ b) + beta * out


def syrk(trans, a, out, alpha, beta, lower):
    rows = np.tri(len(out), dtype=bool) if lower else np.tri(len(out), dtype=bool).T
    out[...] = np.where(rows, alpha * (a @ a.T) + beta * out, out)


class Sparse:
    """As much of a CSR matrix as the versions use."""

    def __init__(self, parts, shape):
        from scipy.sparse import csr_array

        self.matrix = csr_array(parts, shape=shape)


@pytest.fixture
def cupy_versions(monkeypatch):
    """Imported with NumPy as CuPy."""
    import scipy.linalg
    import scipy.special

    cupy = types.ModuleType("cupy")
    vars(cupy).update({name: getattr(np, name) for name in np.__all__})
    cupy.fuse = lambda: lambda function: function
    cupy.cublas = types.SimpleNamespace(gemm=gemm, syrk=syrk)
    cupyx, inner = types.ModuleType("cupyx"), types.ModuleType("cupyx.scipy")
    cupyx.cusparse = types.SimpleNamespace(spmv=lambda matrix, x: matrix.matrix @ x)
    inner.linalg, inner.special = scipy.linalg, scipy.special
    inner.sparse = types.SimpleNamespace(csr_matrix=Sparse)
    for name, module in {"cupy": cupy, "cupyx": cupyx, "cupyx.scipy": inner}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "scientific.cupy_versions", raising=False)
    yield importlib.import_module("scientific.cupy_versions")
    sys.modules.pop("scientific.cupy_versions")


@pytest.mark.parametrize("name", KERNELS)
def test_cupy(cupy_versions, name, tmp_path):
    from scientific.device_sides import CuPy, DeviceLibrary

    kernel = KERNELS[name]
    arguments = kernel.compared_arguments("tiny")
    want = outcome(kernel, arguments, getattr(reference, name)(*arguments))
    sides = CuPy(tmp_path), DeviceLibrary(tmp_path)
    versions = [made() for side in sides for made in side.versions(name).values()]
    for version in versions:
        arguments = kernel.compared_arguments("tiny")
        agree(kernel, outcome(kernel, arguments, version(*arguments)), want)
    kinds = {version: side.kind(version) for side in sides for version in side.versions(name)}
    assert [version for version, kind in kinds.items() if kind == "written"] == ["default"]
    assert {version for version, kind in kinds.items() if kind == "library"} <= {"library"}


def test_the_definition_computes_with_the_module_that_is_given(cupy_versions, tmp_path):
    from scientific.device_sides import CuPy

    definition = CuPy(tmp_path).found("azimint_naive")["default"]
    assert definition.__globals__["np"] is sys.modules["cupy"]
    assert definition.__code__ is reference.azimint_naive.__code__


@pytest.mark.parametrize("name", ["jacobi_1d", "jacobi_2d", "heat_3d", "fdtd_2d", "hdiff"])
def test_stencils_of_single_kernels(cupy_versions, name, monkeypatch):
    """benchmarks/device.py compares with these."""
    monkeypatch.delitem(sys.modules, "device", raising=False)
    device = importlib.import_module("device")
    assert name in device.CASES
    kernel = KERNELS[name]
    arguments, wanted = kernel.compared_arguments("tiny"), kernel.compared_arguments("tiny")
    want = outcome(kernel, wanted, getattr(reference, name)(*wanted))
    agree(kernel, outcome(kernel, arguments, device.by_cupy(name)(*arguments)), want)
    sys.modules.pop("device")


@pytest.mark.parametrize("name", [name for name in KERNELS if name != "azimint_naive"])
def test_torch(name, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch, "compile", lambda **options: lambda function: function)
    sys.modules.pop("scientific.torch_versions", None)
    module = importlib.import_module("scientific.torch_versions")
    versions = [f for key, f in vars(module).items() if key == name or key.startswith(f"{name}_")]
    sys.modules.pop("scientific.torch_versions")
    kernel = KERNELS[name]
    arguments = kernel.compared_arguments("tiny")
    copies = kernel.compared_arguments("tiny")
    want = outcome(kernel, copies, getattr(reference, name)(*copies))
    assert versions
    for version in versions:
        given = tuple(
            torch.from_numpy(np.array(a.astype(np.int32) if a.dtype == np.uint32 else a)) if isinstance(a, np.ndarray)
            else getattr(a, "item", lambda a=a: a)()
            for a in arguments
        )  # fmt: skip
        got = outcome(kernel, given, version(*given))
        agree(kernel, [g.numpy() for g in got], want)


def test_the_sides_of_a_device_have_a_class_each():
    from scientific import device_sides

    assert set(device_sides.SIDES) == set(ON["cuda"])
