"""Functions of tensors, compiled and plain, and what they leave. A module of torch's tests, which need torch."""

from __future__ import annotations

import contextlib
import itertools
import linecache

import pytest

import appy

try:
    import torch
except ImportError:  # the tests are skipped
    torch = None

counter = itertools.count()


def function(source, **names):
    """The last function of the source, whose pragmas can be found."""
    file = f"<torch test {next(counter)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    scope = {"torch": torch, "__name__": file, **names}
    exec(compile(source, file, "exec"), scope)
    return [f for f in scope.values() if callable(f) and getattr(f, "__module__", "") == file][-1]


def tensor(*shape, dtype="float32", low=1, high=9):
    generator = torch.Generator().manual_seed(sum(shape))
    dtype = getattr(torch, dtype)
    make = lambda: torch.rand(shape, generator=generator, dtype=torch.float64, device="cpu")
    values = make()
    if dtype.is_complex:
        values = torch.complex(values, make())
    return (values * (high - low) + low).to(dtype).to(torch.get_default_device())


def assert_same(mine, theirs):
    assert type(mine) is type(theirs)
    if isinstance(mine, torch.Tensor):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        halves = {torch.float16: 2e-3, torch.bfloat16: 1e-2}
        eps = halves.get(mine.dtype)
        loose = {"rtol": eps, "atol": eps} if eps else {"rtol": 2e-6, "atol": 1e-6}
        torch.testing.assert_close(mine, theirs, equal_nan=True, **loose)
    elif isinstance(mine, tuple):
        for x, y in zip(mine, theirs, strict=True):
            assert_same(x, y)
    else:
        assert mine == theirs


def outcome(f, args):
    """What the function leaves and returns, or the exception's type."""
    try:
        return f(*args), args
    except appy.CompileError:
        raise
    except Exception as error:
        return type(error)


def both(f, make, backend, refused=False):
    """Compiled and plain; a region may be refused where torch raises, or where `refused` says so."""
    compiled = appy.jit(strict=True, backend=backend)(f)
    expected = outcome(f, make())
    try:
        got = outcome(compiled, make())
    except appy.CompileError:
        assert refused or isinstance(expected, type), f"refused, torch gives {expected}"
        return None
    if isinstance(expected, type):
        assert got is expected
        return None
    assert not isinstance(got, type), got
    assert_same(got[0], expected[0])
    assert_same(got[1], expected[1])
    return got[0]


ELEMENTS = """
def f(x, y, out):
    #pragma sequential for
    for i in range(x.shape[0]):
        out[i] = {0}
    t = 0
    #pragma sequential for
    for i in range(x.shape[0]):
        t = {0}
    return t
"""
WHOLE = """
def f(x, y, out):
    #pragma 0=>parallel
    z = {0}
    return z
"""


@contextlib.contextmanager
def on_device():
    """Tensors are made on the device that is here."""
    if not torch.cuda.is_available():
        pytest.skip("torch has no device")
    torch.set_default_device("cuda")
    yield "auto"
    torch.set_default_device(None)
