"""Pragmas in the places where people keep code: doctests, notebooks, exec, reloaded modules, closure factories."""

from __future__ import annotations

import doctest
import importlib
import linecache
import os
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import numpy as np
import pytest

import appy
from appy import pragmas

ROOT = str(Path(appy.__file__).parent.parent)


def python(*arguments, **environment):
    env = {**os.environ, "PYTHONPATH": ROOT, **environment}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=env, timeout=120)


def test_doctest():
    module = types.ModuleType("documented")
    module.__doc__ = textwrap.dedent("""
        >>> import numpy as np, appy
        >>> @appy.jit(strict=True)
        ... def double(x):
        ...     # pragma parallel for simd
        ...     for i in range(len(x)):
        ...         x[i] *= 2
        >>> a = np.arange(4.0)
        >>> double(a)
        >>> a
        array([0., 2., 4., 6.])
        >>> double.stats()["runs"]
        1
    """)
    result = doctest.testmod(module)
    assert result.attempted == 6 and result.failed == 0


def test_notebook_cells():
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    shell.run_cell(
        "import appy, numpy as np\n"
        "@appy.jit(strict=True)\n"
        "def f(x):\n"
        "    # pragma simd\n"
        "    for i in range(len(x)):\n"
        "        x[i] += 1\n"
        "a = np.zeros(3)\n"
        "f(a)\n"
    ).raise_error()
    np.testing.assert_array_equal(shell.user_ns["a"], 1)
    assert shell.user_ns["f"].stats()["runs"] == 1


def test_autoreload(tmp_path, monkeypatch):
    pytest.importorskip("IPython")
    monkeypatch.syspath_prepend(tmp_path)
    source = "import appy\n@appy.jit(strict=True)\ndef f(x):\n    # pragma simd\n    for i in range(len(x)):\n        x[i] = {}\n"
    path = tmp_path / "reloaded_subject.py"
    path.write_text(source.format("x[i] + 1"))
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "autoreload")
    shell.run_line_magic("autoreload", "2")
    shell.run_cell("import reloaded_subject, numpy as np; a = np.ones(3); reloaded_subject.f(a)").raise_error()
    np.testing.assert_array_equal(shell.user_ns["a"], 2)
    path.write_text("# another line\n" + source.format("x[i] * 10"))
    os.utime(path, (2_000_000_000, 2_000_000_000))
    shell.run_cell("reloaded_subject.f(a)").raise_error()
    shell.run_line_magic("autoreload", "0")
    np.testing.assert_array_equal(shell.user_ns["a"], 20)
    assert sys.modules["reloaded_subject"].f.stats()["runs"] == 1


def test_reload(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "reload_me.py"
    text = "import appy\n@appy.jit(strict=True)\ndef f(x):\n    # pragma simd\n    for i in range(len(x)):\n        x[i] = {}\n"
    for value in (1.0, 2.0, 3.0):
        path.write_text(text.format(value) + "#" * int(value))
        os.utime(path, (1_900_000_000 + value, 1_900_000_000 + value))
        importlib.invalidate_caches()
        module = (
            importlib.reload(sys.modules["reload_me"])
            if "reload_me" in sys.modules
            else importlib.import_module("reload_me")
        )
        x = np.zeros(2)
        module.f(x)
        assert x[0] == value and module.f.stats()["runs"] == 1


def test_exec_without_source_warns_and_runs():
    space = {"appy": appy}
    code = "@appy.jit\ndef unseen(x):\n    # pragma simd\n    for i in range(len(x)):\n        x[i] += 1\n"
    with pytest.warns(appy.AppyWarning, match=r"the source of unseen \(<string>\) is not available"):
        exec(code, space)
    x = np.zeros(2)
    space["unseen"](x)
    assert x[0] == 1
    with pytest.raises(appy.CompileError, match="is not available"):
        exec(code.replace("@appy.jit", "@appy.jit(strict=True)"), {"appy": appy})


def test_exec_with_source_in_linecache():
    code = "@appy.jit(strict=True)\ndef f(x):\n    # pragma simd\n    for i in range(len(x)):\n        x[i] += 1\n"
    linecache.cache["<cell 7>"] = (len(code), None, code.splitlines(keepends=True), "<cell 7>")
    space = {"appy": appy}
    exec(compile(code, "<cell 7>", "exec"), space)
    x = np.zeros(2)
    space["f"](x)
    assert x[0] == 1 and space["f"].stats()["runs"] == 1


def make_adder(amount):
    @appy.jit(strict=True)
    def add(x):
        # pragma simd
        for i in range(len(x)):
            x[i] += amount

    return add


def test_closure_factories():
    one, two = make_adder(1), make_adder(2.5)
    x = np.zeros(3)
    one(x), two(x), one(x)
    np.testing.assert_array_equal(x, 4.5)


def test_private_names():
    class Holder:
        def __init__(self):
            self.__data = np.zeros(3)

        @appy.jit(strict=True)
        def fill(self, __value):
            # pragma simd
            for __i in range(len(self.__data)):
                self.__data[__i] = __value
            return self.__data

    np.testing.assert_array_equal(Holder().fill(7.0), 7)


def test_stale_file_is_not_believed(tmp_path):
    path = tmp_path / "main.py"
    path.write_text(
        "import sys, os, appy, numpy as np\n"
        "def f(x):\n    # pragma simd\n    for i in range(len(x)):\n        x[i] += 1\n"
        "text = open(__file__).read().replace('+= 1', '+= 2')\n"
        "open(__file__, 'w').write(text); os.utime(__file__, (1, 1))\n"
        "g = appy.jit(f); x = np.zeros(2); g(x); print(x)\n"
    )
    out = python(str(path))
    assert out.stdout == "[1. 1.]\n", out
    assert "was changed after it was imported" in out.stderr


def test_sources_of_many_cells_are_not_kept_for_ever(monkeypatch):
    monkeypatch.setattr(pragmas, "_MOST_FILES", 3)
    monkeypatch.setattr(pragmas, "_sources", {})
    text = "def f(x):\n    # pragma simd\n    for i in range(len(x)):\n        x[i] += 1\n"
    for n in range(10):
        name = f"<cell {n}>"
        monkeypatch.setitem(linecache.cache, name, (len(text), None, text.splitlines(True), name))
        scope: dict = {}
        exec(compile(text, name, "exec"), scope)
        x = np.zeros(2)
        appy.jit(strict=True)(scope["f"])(x)
        assert x.tolist() == [1, 1]
    assert list(pragmas._sources) == ["<cell 7>", "<cell 8>", "<cell 9>"]


@pytest.mark.parametrize("flags", [(), ("-O",), ("-OO",), ("-X", "no_debug_ranges")], ids=str)
def test_interpreter_flags(tmp_path, flags):
    path = tmp_path / "main.py"
    path.write_text(
        "import appy, numpy as np\n@appy.jit(strict=True)\ndef f(x):\n    '''Doc.'''\n    assert len(x)\n"
        "    # pragma parallel for\n    for i in range(x.shape[0]):\n        # pragma simd\n        for j in range(x.shape[1]):\n"
        "            x[i, j] += i\nx = np.zeros((3, 2)); f(x); print(x.sum(), f.stats()['runs'])\n"
    )
    out = python(*flags, str(path))
    assert out.stdout == "6.0 1\n", out
