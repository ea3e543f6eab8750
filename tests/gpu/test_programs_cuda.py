"""The parity programs as kernels: on the emulated device in several orders of its threads, or on the one that is here."""

from __future__ import annotations

import contextlib
import itertools
import os
import types

import kernels
import numpy as np
import pytest

import appy

PROGRAMS = kernels.register()
from compare import assert_same  # noqa: E402  (lies beside the programs)

CASES = [(p, d) for p in PROGRAMS.values() for d in p.dtypes]
# Programs, each with one of its dtypes.
ONCE = [(p, p.dtypes[number % len(p.dtypes)]) for number, p in enumerate(PROGRAMS.values())]


def names(cases):
    return [f"{p.name}-{d}" for p, d in cases]


def plain(program, dtype):
    arguments = program.make(dtype, np.random.default_rng(7))
    with np.errstate(all="ignore"):
        return program.function(*arguments), arguments


def compiled(program, library="numpy"):
    """A region takes so many types and no more, and equal code shares regions: arrays of each library enter their own."""
    function = program.function
    code = function.__code__.replace(co_consts=(*function.__code__.co_consts, library))
    own = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    own.__kwdefaults__ = function.__kwdefaults__
    return appy.jit(**program.options | {"strict": True, "backend": "cuda"})(own)


@pytest.mark.parametrize(("number", "program", "dtype"), [(k, *c) for k, c in enumerate(ONCE)], ids=names(ONCE))
def test_emulated(number, program, dtype, emulated, monkeypatch):
    monkeypatch.setenv("APPY_CUDA_SHAPE", ("unroll=1", "unroll=3,march=1")[number % 2])
    want, wanted = plain(program, dtype)
    function = compiled(program)
    for order in ("forward", "reverse", "depth", "1"):
        monkeypatch.setenv("APPY_EMULATOR_ORDER", order)
        arguments = program.make(dtype, np.random.default_rng(7))
        got = function(*arguments)
        assert_same(got, want, ulps=program.ulps, scale=program.scale, where=f"result, {order}")
        assert_same(list(arguments), list(wanted), ulps=program.ulps, scale=program.scale, where=f"arguments, {order}")
    stats = function.stats()
    assert stats["runs"] > 0 and stats["declined"] == 0, stats


@pytest.mark.gpu
@pytest.mark.parametrize(("program", "dtype"), CASES, ids=names(CASES))
def test_numpy(program, dtype):
    want, wanted = plain(program, dtype)
    function = compiled(program)
    arguments = program.make(dtype, np.random.default_rng(7))
    got = function(*arguments)
    assert_same(got, want, ulps=program.ulps, scale=program.scale)
    assert_same(list(arguments), list(wanted), ulps=program.ulps, scale=program.scale, where="arguments")
    stats = function.stats()
    assert stats["runs"] > 0 and stats["declined"] == 0, stats


class Library:
    """Arrays of another library for arrays of NumPy, there and back."""

    def __init__(self, name):
        self.name = name
        self.module = pytest.importorskip(name)
        if name == "torch" and not self.module.cuda.is_available():
            pytest.skip("torch has no device")

    def takes(self, arguments) -> str:
        """Why the library cannot hold these arrays, or ""."""
        arrays = [a for a in arguments if isinstance(a, np.ndarray)]
        if not arrays:
            return "no arrays"
        if any(np.shares_memory(a, b) for a, b in itertools.combinations(arrays, 2)):
            return "arrays that overlap"
        for a in arrays:
            if a.dtype.kind not in "biufc" or not a.flags.aligned or not a.dtype.isnative:
                return f"an array of {a.dtype}"
            if self.name == "torch" and (a.dtype.kind == "u" and a.dtype.itemsize > 1 or any(s < 0 for s in a.strides)):
                return f"torch has no arrays like {a.dtype}, {a.strides}"
        return "" if all(not isinstance(a, (list, dict)) for a in arguments) else "other containers"

    def array(self, value):
        if not isinstance(value, np.ndarray):
            return value
        if self.name == "torch":
            return self.module.from_numpy(value).cuda()
        return self.module.asarray(value)

    @contextlib.contextmanager
    def allocates(self):
        """What `appy.zeros` and its like make is an array of the library on its device."""
        appy.tensorlib = self.module
        if self.name == "torch":
            self.module.set_default_device("cuda")
        try:
            yield
        finally:
            appy.tensorlib = np
            if self.name == "torch":
                self.module.set_default_device("cpu")

    def host(self, value):
        """With arrays of no dimensions, which these libraries have for scalars, as NumPy's."""
        if isinstance(value, (tuple, list)):
            return type(value)(self.host(v) for v in value)
        if type(value).__module__.split(".")[0] == self.name:
            return value.cpu().numpy() if self.name == "torch" else value.get()
        return np.asarray(value) if isinstance(value, (np.ndarray, np.generic, int, float, complex)) else value


def uses_numpy(function) -> bool:
    """The program makes or reads arrays by NumPy's name, which the library's own arrays do not mix with."""
    return "np" in function.__code__.co_names


def with_host_types(value, like):
    """Scalars of Python and NumPy compared as arrays of the result's type: libraries have types of their own."""
    if isinstance(value, (tuple, list)):
        return type(value)(with_host_types(v, w) for v, w in zip(value, like, strict=True))
    return np.asarray(value, getattr(like, "dtype", None)) if isinstance(like, np.ndarray) else value


@pytest.mark.gpu
@pytest.mark.parametrize("library", ["cupy", "torch"])
@pytest.mark.parametrize(("program", "dtype"), CASES, ids=names(CASES))
def test_arrays_on_the_device(program, dtype, library):
    arrays = Library(library)
    given = program.make(dtype, np.random.default_rng(7))
    if why := arrays.takes(given):
        pytest.skip(why)
    if uses_numpy(program.function):
        pytest.skip("the program names NumPy")
    function = compiled(program, library)
    arguments = [arrays.array(a) for a in given]
    before = function.stats()["declined"]  # torch's refusals in tests before count, too
    try:
        with arrays.allocates():
            got = arrays.host(function(*arguments))
    except appy.CompileError as refused:
        pytest.skip(str(refused))
    appy.synchronize()
    after = [arrays.host(a) for a in arguments]

    def check(want, wanted):
        assert_same(got, with_host_types(arrays.host(want), got), ulps=program.ulps, scale=program.scale)
        assert_same(after, [arrays.host(a) for a in wanted], ulps=program.ulps, scale=program.scale, where="arguments")

    try:
        check(*plain(program, dtype))
    except AssertionError:
        # Elements of these libraries are arrays that share memory: then what they do themselves is right.
        wanted = [arrays.array(a) for a in program.make(dtype, np.random.default_rng(7))]
        with arrays.allocates():
            want = program.function(*wanted)
        check(want, wanted)
    stats = function.stats()
    assert stats["runs"] > 0 and stats["declined"] == before, stats


def test_enough_programs():
    assert len(ONCE) >= 150 and len(CASES) > len(ONCE)
    assert len({d for _, d in ONCE}) >= 8
    assert sum(not uses_numpy(p.function) for p in PROGRAMS.values()) >= 60


@pytest.mark.gpu
def test_there_is_a_device():
    assert appy.devices(), os.environ.get("APPY_LIBCUDA", "")
