"""The extension module against its stub, and what it is linked with."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
from pathlib import Path

import pytest

from appy import _C

STUB = ast.parse((Path(__file__).parent.parent / "appy" / "_C.pyi").read_text())
DECLARED = {node.name: node for node in STUB.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def public(names):
    return {n for n in names if not n.startswith("_")}


def test_stub_declares_what_is_there():
    assert public(DECLARED) == public(dir(_C))


@pytest.mark.parametrize("name", [n for n, node in DECLARED.items() if isinstance(node, ast.FunctionDef)])
def test_stub_names_the_parameters(name):
    arguments = DECLARED[name].args
    groups = [*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg]
    # The first line of a docstring that pybind11 writes: name(first: type, second: type = value, *args) -> type
    signature = inspect.getdoc(getattr(_C, name)).splitlines()[0]
    found = re.findall(r"(?:\(|, )\**(\w+)", re.sub(r"\[.*?\]", "", signature.rsplit(" -> ", 1)[0]))
    assert found == [a.arg for a in groups if a], signature


@pytest.mark.parametrize("name", [n for n, node in DECLARED.items() if isinstance(node, ast.ClassDef)])
def test_stub_declares_the_members(name):
    inherited = {m for base in getattr(_C, name).__mro__[1:] for m in vars(base)}
    declared = {node.name for node in DECLARED[name].body if isinstance(node, ast.FunctionDef)}
    assert public(declared) == public(dir(getattr(_C, name))) - public(inherited)


def test_extension_does_not_bring_a_libpython():
    dynamic = subprocess.run(["readelf", "-d", _C.__file__], check=True, capture_output=True, text=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    assert needed and not [n for n in needed if n.startswith(("libpython", "libasmjit"))]
