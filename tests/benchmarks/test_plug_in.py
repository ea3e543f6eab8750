"""The framework for NPBench's runner, on a stub of what it derives from, driven as that runner drives it."""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import appy

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
FOLDER = ROOT / "benchmarks" / "npbench"

from scientific import reference  # noqa: E402
from scientific.kernels import KERNELS  # noqa: E402
from scientific.results import agree, outcome  # noqa: E402


class Framework:
    """What NPBench's class of that name does, as far as the plug-in builds on it."""

    def __init__(self, name):
        self.fname = name
        self.info = json.loads((FOLDER / f"{name}.json").read_text())["framework"]

    def copy_func(self):
        return np.copy

    def copy_back_func(self):
        return lambda x: x

    def named(self, argument):
        return f"__npb_{self.info['prefix']}_{argument}"

    def setup_str(self, bench, impl=None):
        arrays = bench.info["array_args"]
        return f"{', '.join(map(self.named, arrays))} = {', '.join(f'__npb_copy({a})' for a in arrays)}"

    def exec_str(self, bench, impl=None):
        info = bench.info
        given = [self.named(a) if a in info["array_args"] else a for a in info["input_args"]]
        return f"__npb_result = __npb_impl({', '.join(given)})"


@pytest.fixture
def plug_in(monkeypatch):
    stub = types.ModuleType("npbench.infrastructure")
    stub.Framework, stub.Benchmark = Framework, object
    monkeypatch.setitem(sys.modules, "npbench", types.ModuleType("npbench"))
    monkeypatch.setitem(sys.modules, "npbench.infrastructure", stub)
    spec = importlib.util.spec_from_file_location("appy_jit_framework", FOLDER / "appy_jit_framework.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bench(name, *, inputs, arrays):
    return types.SimpleNamespace(info={"module_name": name, "input_args": inputs, "array_args": arrays})


SYRK = bench("syrk", inputs=["alpha", "beta", "C", "A"], arrays=["C", "A"])


@pytest.mark.parametrize("model", ["arrays", "loops"])
def test_the_runner_gets_what_numpy_gives(plug_in, model):
    framework = plug_in.AppyJitFramework("appy_jit")
    implementation = dict((name, impl) for impl, name in framework.implementations(SYRK))[model]
    kernel = KERNELS["syrk"]
    alpha, beta, C, A = kernel.arguments("tiny")
    space = {"alpha": alpha, "beta": beta, "C": C.copy(), "A": A, "__npb_impl": implementation, **framework.imports()}
    space["__npb_copy"] = framework.copy_func()
    for _ in range(2):  # each setup starts from NPBench's data
        exec(framework.setup_str(SYRK), space)
        exec(framework.exec_str(SYRK), space)
    np.testing.assert_array_equal(space["C"], C)
    got = framework.copy_back_func()(space["__npb_aj_C"])
    reference.syrk(alpha, beta, C, A)
    agree(kernel, [got], outcome(kernel, (alpha, beta, C, A), None))
    assert implementation.stats()["runs"] > 0


def test_every_kernel_has_both_implementations_and_their_files(plug_in):
    framework = plug_in.AppyJitFramework("appy_jit")
    for name in KERNELS:
        assert [model for _, model in framework.implementations(bench(name, inputs=[], arrays=[]))] == [
            "arrays",
            "loops",
        ]
    assert framework.version() == appy.__version__
    assert all(path.exists() for path, _ in framework.impl_files(SYRK))
    with pytest.raises(ValueError, match="no version of lu for appy"):
        framework.implementations(bench("lu", inputs=[], arrays=[]))


def test_on_a_device_a_call_is_timed_until_it_has_ended(plug_in):
    framework = plug_in.AppyJitFramework("appy_jit_cuda")
    wait = "; cupy.cuda.get_current_stream().synchronize()"
    assert framework.setup_str(SYRK).endswith(wait) and framework.exec_str(SYRK).endswith(wait)
    assert framework.exec_str(SYRK).startswith("__npb_result = __npb_impl(alpha, beta, __npb_aj_C, __npb_aj_A)")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda p: p.stem)
def test_descriptions(plug_in, path):
    info = json.loads(path.read_text())["framework"]
    assert info["simple_name"] == path.stem and hasattr(plug_in, info["class"]) and info["arch"] in ("cpu", "gpu")
