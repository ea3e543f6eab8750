"""``python -m appy [--dump=STAGES] script.py args...``, ``python -m appy [--dump=STAGES] -m module args...``: runs an
unmodified program with its annotated loops compiled. ``python -m appy doctor`` says what appy finds on this machine."""

from __future__ import annotations

import builtins
import importlib.util
import os
import sys
from types import CodeType, ModuleType
from typing import Any

_USAGE = "usage: python -m appy [--dump=STAGES] (script.py | -m module) [args...]\n       python -m appy doctor"


def main(arguments: list[str]) -> None:
    while arguments and arguments[0].startswith("--"):
        option = arguments.pop(0)
        if option == "--help":
            print(_USAGE)
            return
        if not option.startswith("--dump="):
            raise SystemExit(f"python -m appy: unknown option {option}\n{_USAGE}")
        import appy

        try:
            appy.config(dump=option.removeprefix("--dump="))
        except ValueError as error:
            raise SystemExit(f"python -m appy: {error}") from None
    if not arguments or (arguments[0] == "-m" and len(arguments) < 2):
        raise SystemExit(_USAGE)
    if arguments == ["doctor"]:
        from appy._doctor import report

        print(report(), end="")
    elif arguments[0] == "-m":
        _run_module(arguments[1], arguments[2:])
    elif arguments[0].startswith("-"):
        raise SystemExit(f"python -m appy: unknown option {arguments[0]}\n{_USAGE}")
    else:
        _run_script(arguments[0], arguments[1:])


def _run_script(path: str, arguments: list[str]) -> None:
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        raise SystemExit(f"python -m appy: can't open file {path!r}: {error.strerror}") from None
    sys.argv = [path, *arguments]
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    code = compile(source, path, "exec", dont_inherit=True)
    _run(code, path, __file__=path, __cached__=None)


def _run_module(name: str, arguments: list[str]) -> None:
    sys.path[0] = os.getcwd()
    spec = _find(name)
    path = spec.origin
    sys.argv = [path, *arguments]
    code = spec.loader.get_code(spec.name)
    _run(code, path, __file__=path, __cached__=spec.cached, __spec__=spec, __package__=spec.parent)


def _find(name: str) -> Any:
    try:
        spec = importlib.util.find_spec(name)
    except ImportError as error:
        raise SystemExit(f"python -m appy: {error}") from None
    if spec is None:
        raise SystemExit(f"python -m appy: no module named {name}")
    if spec.submodule_search_locations is not None:
        return _find(name + ".__main__")
    if not hasattr(spec.loader, "get_code"):
        raise SystemExit(f"python -m appy: {name} is no Python module")
    return spec


def _run(code: CodeType, path: str, **variables: Any) -> None:
    """Runs `code` as the module __main__, in place of this one."""
    from appy._transparent import rewrite_module, start

    module = ModuleType("__main__")
    variables = {"__builtins__": builtins, "__package__": None, "__spec__": None, "__loader__": None, **variables}
    module.__dict__.update(variables)
    sys.modules["__main__"] = module
    start(existing=False)
    code = rewrite_module(code, path)
    exec(code, module.__dict__)


if __name__ == "__main__":
    main(sys.argv[1:])
