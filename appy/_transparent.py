"""Transparent mode: annotated loops of functions that nobody decorated.

Modules imported from now on are rewritten by their loader; functions that exist get the rewritten code at once; those
that running code will still define are met by a function watcher (3.12 and later) or by the PEP 523 hook (3.11), which
is taken out when it has seen all of them.
"""

from __future__ import annotations

import gc
import importlib.abc
import importlib.machinery
import re
import sys
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any

from . import _C
from ._rewrite import OPTIMIZED, original_of, regions_of, rewrite, rewrite_fresh
from ._selfcheck import usable
from ._state import state
from ._warn import warn

_CANDIDATE = re.compile(rb"^[ \t]*#[ \t]?pragma(?![:\w])", re.MULTILINE)
_files: dict[str, bool] = {}
_awaited: dict[int, CodeType] = {}  # what the hook waits for, by id
_namespaces: list[dict[str, Any]] = []  # where the functions of these may appear


def start(existing: bool = True) -> None:
    """Turns the mode on; ``existing``: also for functions that exist already."""
    if state.transparent or not usable():
        return
    state.transparent = True
    sys.meta_path.insert(0, _finder)
    _C.set_decider(_decide)
    if existing:
        _rewrite_existing()
    if not _C.watch_functions(True):
        _await_running_code()


def stop() -> None:
    """Turns it off. What was rewritten stays so; its regions decline while appy is disabled."""
    state.transparent = False
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    _C.watch_functions(False)
    _take_hook_out()


def rewrite_module(code: CodeType, filename: str) -> CodeType:
    """A freshly compiled module with its regions entered, or as it is."""
    if not _has_pragmas(filename) or not usable():
        return code
    from .pragmas import SourceMissing

    try:
        return rewrite_fresh(code)
    except SourceMissing as missing:
        warn(f"{filename} runs in the interpreter: {missing}", filename, 1)
    except SyntaxError as error:
        warn(str(error), filename, error.lineno or 1)
    return code


def _has_pragmas(filename: str) -> bool:
    known = _files.get(filename)
    if known is None:
        try:
            with open(filename, "rb") as file:
                known = bool(_CANDIDATE.search(file.read()))
        except (OSError, ValueError):
            import linecache

            known = bool(_CANDIDATE.search("".join(linecache.getlines(filename)).encode()))
            if not known:
                return False  # a notebook cell may still get its lines
        _files[filename] = known
    return known


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType | None:
        code = super().get_code(fullname)
        if code is None:
            return None
        path = self.get_filename(fullname)
        _files.pop(path, None)  # it may have been edited since
        return rewrite_module(code, path)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds what the path finder finds, and loads source files with our loader."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or type(spec.loader) is not importlib.machinery.SourceFileLoader:
            return None
        spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


_finder = _Finder()


def _decide(code: CodeType) -> CodeType | None:
    """What runs in place of a code object, asked once for each."""
    if id(code) in _awaited:
        _exchange_made()
        _awaited.pop(id(code), None)
        if not _awaited:
            _take_hook_out()
    if not code.co_flags & OPTIMIZED or original_of(code) is not code or not _has_pragmas(code.co_filename):
        return None  # no function, or decided already
    return _rewritten(code)


def _rewritten(code: CodeType) -> CodeType | None:
    from .pragmas import SourceMissing

    try:
        other = rewrite(code, warn_only=True)
    except SourceMissing as missing:
        warn(str(missing), code.co_filename, code.co_firstlineno)
        return None
    return None if other is code else other


def _rewrite_existing() -> None:
    for function in gc.get_objects():
        if type(function) is FunctionType:
            code = function.__code__
            if original_of(code) is code and _has_pragmas(code.co_filename):
                other = _rewritten(code)
                if other is not None and regions_of(other):
                    function.__code__ = other


def _await_running_code() -> None:
    """Functions that the frames on the stacks will make from constants of the code that they run."""
    for frame in sys._current_frames().values():
        at: FrameType | None = frame
        while at is not None:
            if _has_pragmas(at.f_code.co_filename):
                before = len(_awaited)
                _collect(at.f_code)
                if len(_awaited) > before:
                    _namespaces.append(at.f_globals)
            at = at.f_back
    if _awaited and not _C.install_hook(_awaited.values()):
        warn("another PEP 523 hook is installed; functions that running code defines stay as they are", "", 0, "notice")


def _collect(code: CodeType) -> None:
    for const in code.co_consts:
        if isinstance(const, CodeType) and original_of(const) is const:
            if not const.co_flags & OPTIMIZED:
                _collect(const)  # a class body
            elif _rewritten(const) is not None:
                _awaited[id(const)] = const  # the functions in it come with it


def _exchange_made() -> None:
    """Awaited functions that modules and their classes hold already need not be called to be met."""
    met: set[int] = set()
    for namespace in _namespaces:
        for value in list(namespace.values()):
            for function in _functions_in(value):
                code = function.__code__
                other = _rewritten(code) if id(code) in _awaited else None
                if other is not None:
                    function.__code__ = other
                    met.add(id(code))
    for key in met:
        _awaited.pop(key, None)


def _functions_in(value: Any) -> Iterator[FunctionType]:
    if type(value) is FunctionType:
        yield value
    elif type(value) is type:
        for member in list(vars(value).values()):
            inner = member.__func__ if isinstance(member, staticmethod | classmethod) else member
            if type(inner) is FunctionType:
                yield inner


def _take_hook_out() -> None:
    _awaited.clear()
    _namespaces.clear()
    if _C.hook_installed():
        _C.remove_hook()
