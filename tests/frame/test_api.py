"""Options, switches, the uncompiled library."""

import ast
import os
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import appy
from appy import _C


def decorated(**options):
    def f(n):
        s = 0
        # pragma sequential for
        for i in range(n):
            s += i
        return s

    return appy.jit(**options)(f)


@pytest.mark.filterwarnings("ignore::appy.AppyWarning")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"backend": "auto"},
        {"backend": "cpu"},
        {"backend": "cuda"},
        {"backend": "triton"},
        {"auto_simd": False},
        {"auto_block": True},
        {"tune": True},
        {"tune": {"n": [1, 2]}},
        {"dim_info": {"A": ("M", "N")}},
        {"exact": True},
        {"threads": 2},
        {"threads": None},
        {"dry_run": True},
        {"dump": ""},
    ],
    ids=str,
)
def test_every_option_is_accepted(options):
    assert decorated(**options)(5) == 10


def test_unknown_option_names_the_nearest():
    with pytest.raises(TypeError, match="no option 'exakt'; did you mean 'exact'"):
        appy.jit(exakt=True)
    with pytest.raises(ValueError, match="backend must be one of"):
        appy.jit(backend="gpu9")
    with pytest.raises(ValueError, match="threads"):
        appy.jit(threads="two")
    with pytest.raises(ValueError, match="no stage"):
        decorated(dump="nonsense")


def test_bad_pragma_raises_at_decoration():
    with pytest.raises(appy.PragmaError, match=r"line \d+, column \d+"):

        @appy.jit
        def f(n):
            # pragma paralel for
            for i in range(n):
                n += i


def test_missing_source_warns_or_raises():
    space = {}
    exec("def f(n):\n    return n", space)
    with pytest.warns(appy.AppyWarning, match="source"):
        assert appy.jit(space["f"])(3) == 3
    with pytest.raises(appy.CompileError, match="source"):
        appy.jit(strict=True)(space["f"])


def test_stats():
    f = decorated()
    before = f.stats()
    f(3)
    after = f.stats()
    names = {"regions", "compiled", "runs", "declined", "cache_hits", "compile_seconds"}
    assert set(after) == names == set(appy.stats())
    assert after["regions"] >= 1 and after["runs"] + after["declined"] == before["runs"] + before["declined"] + 1


def test_config():
    before = appy.config()
    assert set(before) == {"dump", "backend", "isa", "disabled_passes", "stream_bytes", "sync", "emulated"}
    with pytest.raises(TypeError, match="did you mean 'backend'"):
        appy.config(bakend="cpu")
    try:
        assert appy.config(isa="avx2")["isa"] == "avx2"
    finally:
        appy.config(isa=before["isa"])


def test_disable_variable():
    script = "import appy\ndef f(n): return n\ng = appy.jit(f)\nprint(g(3), appy.enabled(), appy.stats()['regions'])\n"
    import os

    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "APPY_DISABLE": "1"}
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env, timeout=60)
    assert result.stdout == "3 False 0\n", result.stderr


def test_library():
    for make in (appy.zeros, appy.ones, appy.empty):
        assert make(3).dtype == np.float64 and make((2, 3)).shape == (2, 3) and make([2], "int32").dtype == np.int32
    assert (appy.full(2, 7) == 7).all() and appy.full((2,), 7).dtype == np.float64
    assert appy.arange(3).tolist() == [0, 1, 2] and appy.arange(1, 3, dtype="float32").dtype == np.float32
    a = appy.randn(3, 2)
    assert a.shape == (3, 2) and appy.randn((4,), dtype="float32").dtype == np.float32
    assert appy.zeros_like(a).shape == a.shape and appy.empty_like(a).dtype == a.dtype
    b = appy.copy(a)
    b[0] = 1
    assert not np.array_equal(a, b)
    r = appy.randint(2, 5, size=100)
    assert r.min() >= 2 and r.max() < 5 and r.dtype == np.int64 and appy.randint(1, size=3).tolist() == [0, 0, 0]
    assert np.array_equal(appy.mv(a, np.ones(2)), a @ np.ones(2))
    assert appy.dot is np.dot and appy.sum is np.sum and appy.where is np.where and appy.min is np.min
    assert appy.vidx(4, 8, 10).tolist() == [4, 5, 6, 7, 8, 9] and appy.vidx(0, 2, bound=9).tolist() == [0, 1]
    assert appy.MVL in (128, 256, 512, 1024) and abs(appy.erf(0.5) - 0.5204998778130465) < 1e-15
    assert appy.utils.allclose(a, a.copy()) and not appy.utils.allclose(a, a + 1, verbose=False)
    assert appy.utils.bench(lambda: None, warmup=1, repeat=3) >= 0
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        appy.nothing


def test_tensorlib_can_be_assigned(monkeypatch):
    made = []
    lib = types.SimpleNamespace(zeros=lambda shape, dtype: made.append((shape, dtype)), float64="its float64")
    monkeypatch.setattr(appy, "tensorlib", lib, raising=False)
    appy.zeros(3)
    assert made == [(3, "its float64")]


def test_star_import_shadows_no_builtin():
    space = {}
    exec("from appy import *", space)
    import builtins

    assert not [n for n in space if hasattr(builtins, n) and n != "__builtins__" and not n.startswith("__")]
    assert space["vidx"] and space["zeros"] and space["MVL"] == appy.MVL


def test_stub_matches_the_module():
    stub = Path(appy.__file__).with_name("_C.pyi")
    tree = ast.parse(stub.read_text())
    public = {n for n in vars(_C) if not n.startswith("__")}
    described = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            described[node.name] = node
    assert set(described) == public
    for name, node in described.items():
        if isinstance(node, ast.ClassDef):
            members = {m.name for m in node.body if isinstance(m, ast.FunctionDef)}
            own = {m for m in vars(getattr(_C, name)) if not m.startswith("_")}
            assert {m for m in members if not m.startswith("_")} == own - {"with_traceback", "add_note", "args"}
        else:
            first = getattr(_C, name).__doc__.splitlines()[0]
            if "*args" in first:
                continue
            named = [a.arg for a in node.args.args]
            inside = first[first.index("(") + 1 : first.rindex(") ->")]
            assert [p.split(":")[0].strip() for p in _split(inside)] == named, first


def _split(signature):
    """Parameters of a pybind11 signature: commas inside brackets separate nothing."""
    out, depth, current = [], 0, ""
    for c in signature:
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            out.append(current)
            current = ""
        else:
            current += c
    return [p for p in [*out, current] if p.strip()]


@pytest.mark.parametrize(
    ("l1_bytes", "length"), [(0, 128), (4096, 128), (16384, 256), (32768, 512), (49152, 512), (1 << 20, 1024)]
)
def test_machine_vector_length(l1_bytes, length):
    from appy._library import machine_vector_length

    assert machine_vector_length(l1_bytes) == length


def test_uncompiled_vectors_have_the_length_of_the_language():
    command = [sys.executable, "-c", "import appy; print(appy.MVL)"]
    out = subprocess.run(command, env={**os.environ, "APPY_DISABLE": "1"}, capture_output=True, text=True, check=True)
    assert out.stdout == "128\n"
