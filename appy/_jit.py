"""The decorator."""

from __future__ import annotations

import sys
import types
from typing import Any

from . import _C
from ._rewrite import Options, regions_of, rewrite
from ._selfcheck import usable
from ._state import state
from ._warn import warn, warn_fallback

_DEFAULTS: dict[str, Any] = {
    "backend": "auto",
    "auto_simd": True,
    "auto_block": True,  # the older name of auto_simd
    "tune": False,
    "dim_info": None,
    "strict": False,
    "exact": False,
    "threads": 0,
    "dump": "",
    "dump_code": False,
    "dump_final_appy": False,
    "dry_run": False,
}
_BACKENDS = ("auto", "cpu", "cuda", "triton", "eval")
_COUNTERS = ("regions", "compiled", "runs", "declined", "cache_hits", "compile_seconds")


class Stats:
    """``f.stats()``: the counters of a function's regions."""

    def __init__(self, regions: tuple[Any, ...] = (), tuner: Any = None) -> None:
        self.regions = tuple(r for r in regions if isinstance(r, _C.Region))
        self.tuner = tuner

    def __call__(self) -> dict[str, Any]:
        totals: dict[str, Any] = dict.fromkeys(_COUNTERS, 0)
        totals["compile_seconds"] = 0.0
        for region in self.regions:
            for name, value in _C.region_stats(region).items():
                totals[name] += value
        if self.tuner is not None:
            totals["tuned"] = self.tuner.chosen()
        return totals

    def __reduce__(self) -> tuple[Any, ...]:
        # Where appy is absent the attribute becomes `dict`, whose call gives no counters.
        recipes = "".join(region.__reduce__()[1][0] + "," for region in self.regions)
        return eval, (
            f"(__import__('appy._jit', fromlist=['Stats']).Stats(({recipes}))"
            " if __import__('importlib.util', fromlist=['find_spec']).find_spec('appy') else dict)",
        )


def jit(function: Any = None, /, **options: Any) -> Any:
    """Compiles the annotated loops of ``function``: a decorator, bare or with options.

    Gives a function of the same code with its regions entered; static and class methods, and functions that other
    decorators have wrapped, are compiled where they are.
    """
    region_options = _check_options(options)
    spec = None
    if options.get("tune"):
        from ._tune import spec_of

        spec = spec_of(options["tune"])
    if spec == {}:
        region_options = tuple(sorted((*region_options, ("tune", True))))
    if function is None:
        return lambda f: _decorate(f, region_options, spec)
    return _decorate(function, region_options, spec)


def _decorate(function: Any, options: Options, tune: Any = None) -> Any:
    if isinstance(function, staticmethod | classmethod):
        return type(function)(_decorate(function.__func__, options, tune))
    if isinstance(function, property):
        fget, fset, fdel = (f and _decorate(f, options) for f in (function.fget, function.fset, function.fdel))
        return property(fget, fset, fdel, function.__doc__)
    if isinstance(function, types.FunctionType) and not hasattr(function, "__wrapped__"):
        code = _compile(function, options)
        made = _with_code(function, code)
        made.stats = Stats(tuple(regions_of(code)))  # type: ignore[attr-defined]
        if tune is not None and regions_of(code):
            from ._tune import tuned

            return tuned(function, options, tune, made)
        return made
    inner = function
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    if not isinstance(inner, types.FunctionType):
        raise TypeError(f"appy.jit takes a function, not {type(function).__name__}")
    if tune is not None:
        code = inner.__code__
        warn("tune is ignored: another decorator has wrapped the function", code.co_filename, code.co_firstlineno)
    # Only the wrapper refers to it, so it is exchanged in place.
    inner.__code__ = _compile(inner, options)
    try:
        function.stats = Stats(tuple(regions_of(inner.__code__)))
    except AttributeError:
        pass
    return function


def _compile(function: types.FunctionType, options: Options) -> types.CodeType:
    code = function.__code__
    if state.disabled or not usable():
        return code
    from .pragmas import SourceMissing

    try:
        return rewrite(code, options)
    except SourceMissing as missing:
        strict = bool(dict(options).get("strict"))
        warn_fallback(code.co_filename, code.co_firstlineno, code.co_qualname, str(missing), strict)
        return code


def _with_code(function: types.FunctionType, code: types.CodeType) -> types.FunctionType:
    made = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__ = function.__qualname__
    made.__module__ = function.__module__
    made.__doc__ = function.__doc__
    made.__annotations__ = function.__annotations__
    if sys.version_info >= (3, 12):
        made.__type_params__ = function.__type_params__
    made.__dict__.update(function.__dict__)
    return made


def _check_options(options: dict[str, Any]) -> Options:
    for name in options:
        if name not in _DEFAULTS:
            import difflib

            nearest = difflib.get_close_matches(name, _DEFAULTS, 1, 0.0)[0]
            raise TypeError(f"appy.jit has no option {name!r}; did you mean {nearest!r}?")
    backend = options.get("backend", "auto")
    if backend not in _BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(map(repr, _BACKENDS))}, not {backend!r}")
    if backend == "triton":
        backend = "cuda"
    threads = options.get("threads")
    if threads is not None and (not isinstance(threads, int) or isinstance(threads, bool) or threads < 0):
        raise ValueError(f"threads must be a number of threads, or 0 or None for all, not {threads!r}")
    return _region_options(options, backend, threads or 0)


def _region_options(options: dict[str, Any], backend: str, threads: int) -> Options:
    dump = options.get("dump") or ""
    stages = [dump] if isinstance(dump, str) else list(dump)
    if dump is True:
        stages = ["bytecode,ir,passes,asm"]
    if options.get("dump_code"):
        stages.append("asm")
    if options.get("dump_final_appy"):
        stages.append("passes")
    out = {
        "backend": backend,
        "exact": bool(options.get("exact", False)),
        "strict": bool(options.get("strict", False)),
        "dry_run": bool(options.get("dry_run", False)),
        "threads": threads,
        "dump": ",".join(s for s in stages if s),
        "auto_simd": bool(options.get("auto_simd", options.get("auto_block", True))),
        "dim_info": _dim_info(options.get("dim_info")),
    }
    defaults = {
        "backend": "auto",
        "exact": False,
        "strict": False,
        "dry_run": False,
        "threads": 0,
        "dump": "",
        "auto_simd": True,
        "dim_info": (),
    }
    return tuple(sorted((k, v) for k, v in out.items() if v != defaults[k]))


def _dim_info(given: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """{"A": ("M", "N")} as a tuple; a single name stands for a vector's."""
    if given is None:
        return ()
    if not isinstance(given, dict):
        raise TypeError(f"dim_info must be a dict of names, {{'A': ('M', 'N')}}, not {given!r}")
    out = []
    for array, names in given.items():
        row = (names,) if isinstance(names, str) else tuple(names) if isinstance(names, tuple | list) else (None,)
        if not isinstance(array, str) or not all(isinstance(n, str) and n.isidentifier() for n in row):
            raise ValueError(f"dim_info[{array!r}] must be names of dimensions, not {names!r}")
        out.append((array, row))
    return tuple(out)
