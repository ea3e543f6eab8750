"""``@appy.jit(tune=…)``: values of parameters and globals, chosen by measurement.

Each candidate is a variant of the function with regions of its own. The first calls of a kind run the candidates in
turn, one a call, on the caller's data: every call is complete, nothing runs twice and nothing is copied. Calls are of
one kind where their arguments have equal types and sizes of the same power of two. After the last one the fastest is
used, and kept on disk for the next process.
"""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
import re
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

from . import _C, _tune_store
from ._rewrite import Options, original_of, regions_of, rewrite
from ._tune_kernels import progress
from ._warn import warn

Values = dict[str, Any]
Spec = dict[str, tuple[Any, ...] | None]  # None: candidates are made from the value
_CALLS = 3  # of each candidate; the first one compiles and is not counted
_MOST = 64  # candidates of all names together; with more, one name varies at a time
_LEAST = 8  # of ints that are taken for sizes of blocks
_NAMES = frozenset([*dis.hasname, *dis.haslocal, *dis.hasfree])


def spec_of(option: Any) -> Spec | None:
    """The option as a dict; empty for True, which finds the names itself; None where there is nothing to tune."""
    if option is None or option is False:
        return None
    if option is True:
        return {}
    if isinstance(option, list | tuple) and all(isinstance(name, str) for name in option):
        return dict.fromkeys(option)
    if isinstance(option, dict) and all(isinstance(name, str) for name in option):
        out: Spec = {}
        for name, values in option.items():
            if not isinstance(values, list | tuple | range) or not values:
                raise ValueError(f"tune[{name!r}] must be a list of values, not {values!r}")
            out[name] = tuple(values)
        return out
    raise TypeError(f"tune must be True, False or a dict of lists of values, not {option!r}")


class _Kind:
    """What is known of one kind of calls."""

    def __init__(self, text: str, count: int) -> None:
        self.text = text
        self.times: list[list[float]] = [[] for _ in range(count)]
        self.started = 0
        self.best: int | None = None


class Tuner:
    def __init__(self, function: types.FunctionType, options: Options, candidates: dict[str, tuple[Any, ...]]) -> None:
        self.function = function
        self.names = tuple(candidates)
        self.values = list(_combinations(candidates, _current(function, self.names)))
        self.base = _variant(function, options, {})
        self.variants = [_variant(function, options, values) for values in self.values]
        self.key = _function_key(function, self.values)
        self.machine = _tune_store.machine()
        self.kinds: dict[str, _Kind] = {}
        self.lock = threading.Lock()
        parameters = list(inspect.signature(function).parameters.values())
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        self.place = {
            p.name: n if p.kind in positional else len(parameters)
            for n, p in enumerate(parameters)
            if p.name in self.names
        }

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = any(at < len(args) or name in kwargs for name, at in self.place.items())
        if given or not _C.is_enabled():
            return self.base(*args, **kwargs)
        kind = self._kind(args, kwargs)
        if kind.best is not None:
            chosen = self.variants[kind.best] if kind.best < len(self.variants) else self.base
            return chosen(*args, **kwargs)
        with self.lock:
            candidate = kind.started % len(self.variants)
            kind.started += 1
        _C.gpu_synchronize()  # what a device does is part of the call
        start = time.perf_counter()
        result = self.variants[candidate](*args, **kwargs)
        _C.gpu_synchronize()
        seconds = time.perf_counter() - start
        with self.lock:
            kind.times[candidate].append(seconds)
            if kind.best is None:
                self._choose(kind, candidate)
            total = _CALLS * len(kind.times)
            done = total if kind.best is not None else sum(min(len(times), _CALLS) for times in kind.times)
        progress(self.function.__qualname__, done, total)
        return result

    def _kind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Kind:
        text = ",".join([*map(_describe, args), *(f"{name}={_describe(kwargs[name])}" for name in sorted(kwargs))])
        kind = self.kinds.get(text)
        if kind is None:
            kind = _Kind(text, len(self.variants))
            known = _tune_store.load(self._row(text))
            if isinstance(known, dict) and known in self.values:
                kind.best = self.values.index(known)
            kind = self.kinds.setdefault(text, kind)  # another thread may have been first
        return kind

    def _row(self, kind: str) -> str:
        return f"{self.machine}|{self.function.__qualname__}|{self.key}|{kind}"

    def _choose(self, kind: _Kind, last: int) -> None:
        if not any(_C.region_stats(r)["runs"] for r in regions_of(self.variants[last].__code__)):
            kind.best = self._own()  # nothing is compiled: nothing is chosen
            return
        if all(len(times) >= _CALLS for times in kind.times):
            kind.best = min(range(len(kind.times)), key=lambda k: min(kind.times[k][1:]))
            _tune_store.save(self._row(kind.text), self.values[kind.best])

    def _own(self) -> int:
        """The candidate with the values that the program gives, or the function without candidates' values."""
        own = _current(self.function, self.names)
        return next((k for k, values in enumerate(self.values) if values == own), len(self.values))

    def chosen(self) -> dict[str, Values | None]:
        """By kind of calls what was chosen; None while candidates are measured."""
        values = [*self.values, _current(self.function, self.names)]
        return {k.text: None if k.best is None else values[k.best] for k in list(self.kinds.values())}

    def regions(self) -> Iterator[Any]:
        for variant in (self.base, *self.variants):
            yield from regions_of(variant.__code__)


def tuned(function: types.FunctionType, options: Options, spec: Spec, plain: Callable[..., Any]) -> Any:
    """The function with these names tuned; ``plain`` where none of them can be."""
    from ._jit import Stats, _with_code

    function = _with_code(function, original_of(function.__code__))
    candidates: dict[str, tuple[Any, ...]] = {}
    for name in spec or _harmless(function):
        fault = _fault(function, name)
        if fault:
            if spec:
                _warn(function, f"{name} is not tuned: {fault}")
            continue
        values = spec.get(name) or _around(_current(function, (name,))[name])
        if values:
            candidates[name] = tuple(dict.fromkeys(values))
    if not candidates or function.__code__.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
        return plain
    tuner = Tuner(function, options, candidates)

    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        return tuner(*args, **kwargs)

    call.__appy_tuner__ = tuner  # type: ignore[attr-defined]
    call.stats = Stats(tuple(tuner.regions()), tuner)  # type: ignore[attr-defined]
    return call


def _warn(function: types.FunctionType, message: str) -> None:
    code = function.__code__
    warn(f"tune of {code.co_qualname}: {message}", code.co_filename, code.co_firstlineno, "remark")


def _describe(value: Any) -> str:
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.ndarray | numpy.generic):
        return type(value).__name__
    return f"{value.dtype}[{value.ndim}]<{1 << value.size.bit_length()}"


def _defaults(function: types.FunctionType) -> Values:
    return {
        p.name: p.default
        for p in inspect.signature(function).parameters.values()
        if p.default is not inspect.Parameter.empty
    }


def _current(function: types.FunctionType, names: tuple[str, ...]) -> Values:
    defaults = _defaults(function)
    return {name: defaults[name] if name in defaults else function.__globals__.get(name) for name in names}


def _around(value: Any) -> tuple[Any, ...]:
    if type(value) is not int or value < 1:
        return ()
    return tuple(v for v in (value // 4, value // 2, value, 2 * value, 4 * value) if v > 0)


def _combinations(candidates: dict[str, tuple[Any, ...]], own: Values) -> Iterator[Values]:
    names = tuple(candidates)
    count = 1
    for values in candidates.values():
        count *= len(values)
    if count <= _MOST:
        for row in itertools.product(*candidates.values()):
            yield dict(zip(names, row))
        return
    middle = {name: own[name] if own[name] in candidates[name] else candidates[name][0] for name in names}
    yield dict(middle)
    for name in names:
        for value in candidates[name]:
            if value != middle[name]:
                yield {**middle, name: value}


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield const
            yield from _codes(const)


def _fault(function: types.FunctionType, name: str) -> str:
    """Why this name cannot be tuned, or an empty string."""
    code = function.__code__
    if name in _defaults(function):
        return ""
    if name in inspect.signature(function).parameters:
        return "the parameter has no default"
    uses = [i.opname for i in dis.get_instructions(code) if i.argval == name and i.opcode in dis.hasname]
    if not uses:
        return "there is no parameter with a default and no global of that name"
    if set(uses) != {"LOAD_GLOBAL"}:
        return "the name is an attribute's too, or is assigned"
    if any(name in nested.co_names for nested in _codes(code)):
        return "a function inside reads the global, too"
    # What it calls has to see the same value.
    seen = {code}
    waiting = [code]
    while waiting:
        for called in waiting.pop().co_names:
            value = function.__globals__.get(called)
            value = inspect.unwrap(value) if isinstance(value, types.FunctionType) else value
            other = getattr(value, "__code__", None)
            if not isinstance(other, types.CodeType) or other in seen:
                continue
            if name in other.co_names or any(name in nested.co_names for nested in _codes(other)):
                return f"{called}, which it calls, reads the global, too"
            seen.add(other)
            waiting.append(other)
    return ""


def _variant(function: types.FunctionType, options: Options, values: Values) -> types.FunctionType:
    """The function with these values for defaults and globals, and regions of its own."""
    from ._jit import _with_code

    signature = inspect.signature(function)
    own = {name: value for name, value in values.items() if name in signature.parameters}
    others = tuple((name, f"{name} {value!r}") for name, value in values.items() if name not in own)
    for name, made in others:
        function.__globals__[made] = values[name]  # no name that a program can write
    more = (("tuned", tuple(sorted((k, repr(v)) for k, v in values.items()))), ("globals", others)) if values else ()
    out = _with_code(function, rewrite(function.__code__, tuple(sorted((*options, *more)))))
    defaults = list(function.__defaults__ or ())
    names = [p.name for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for k in range(len(defaults)):
        defaults[k] = own.get(names[len(names) - len(defaults) + k], defaults[k])
    out.__defaults__ = tuple(defaults) or None
    if function.__kwdefaults__:
        out.__kwdefaults__ = {name: own.get(name, value) for name, value in function.__kwdefaults__.items()}
    return out


def _function_key(function: types.FunctionType, values: list[Values]) -> str:
    import _imp

    from .pragmas import pragmas_of

    code = function.__code__
    texts = [p.text for p in pragmas_of(code)]
    constants = [c for c in code.co_consts if not isinstance(c, types.CodeType)]
    data = repr((code.co_code, constants, code.co_names, code.co_varnames, texts, values)).encode()
    return _imp.source_hash(3, data).hex()


def _harmless(function: types.FunctionType) -> list[str]:
    """What cannot change the result: ints that stand in nothing but arguments of pragmas. The size of a block of
    elements may: a block reads what the block before it wrote, where arrays overlap."""
    from .pragmas import pragmas_of

    hints = " ".join(p.text for p in pragmas_of(function.__code__))
    arguments = " ".join(re.findall(r"\b(?:block|le|num_threads|schedule)\s*\(([^()]*)\)", hints))
    values = {**function.__globals__, **_defaults(function)}
    read = {
        name
        for code in (function.__code__, *_codes(function.__code__))
        for i in dis.get_instructions(code)
        if i.opcode in _NAMES
        for name in (i.argval if isinstance(i.argval, tuple) else (i.argval,))
    }
    return [
        name
        for name in dict.fromkeys(re.findall(r"[^\W\d]\w*", arguments))
        if type(values.get(name)) is int and values[name] >= _LEAST and name not in read
    ]
