"""Stencils over boxes whose threads go in order along the dimension around their rows, on the emulated device: the bits
of plain Python, whatever the sizes, the strides and the order of the blocks."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import types

import numpy as np
import pytest

import appy


def star(a, b, c):
    # pragma parallel for
    for i in range(2, a.shape[0] - 2):
        # pragma parallel for
        for j in range(2, a.shape[1] - 2):
            # pragma simd
            for k in range(a.shape[2]):
                b[i, j, k] = (a[i - 2, j, k] - a[i + 2, j, k]) * 2 + (a[i, j - 2, k] - a[i, j + 2, k]) - c[i, j, k]
                b[i, j, k] -= (a[i - 1, j, k] - a[i + 1, j, k]) * 2 + a[i, j, k]


def fluxes(a, b, c):
    """As of hdiff: what is computed in one step is needed in the next one."""
    # pragma parallel for
    for i in range(1, a.shape[0] - 1):
        # pragma parallel for
        for j in range(1, a.shape[1] - 1):
            # pragma simd
            for k in range(a.shape[2]):
                up = (a[i + 1, j, k] - a[i, j, k]) * (c[i + 1, j, k] + c[i, j, k])
                down = (a[i, j, k] - a[i - 1, j, k]) * (c[i, j, k] + c[i - 1, j, k])
                side = (a[i, j + 1, k] - a[i, j, k]) - (a[i, j, k] - a[i, j - 1, k])
                b[i, j, k] = (up if up > 0 else up * 2) - (down if down > 0 else down * 2) + side


def backward(a, b, c):
    """Downwards, by two, and rows downwards as well."""
    # pragma parallel for
    for i in range(a.shape[0] - 3, 1, -2):
        # pragma parallel for
        for j in range(a.shape[1] - 2, 0, -1):
            # pragma simd
            for k in range(a.shape[2]):
                b[i, j, k] = a[i - 2, j, k] + a[i, j, k] - a[i + 2, j, k] + a[i, j - 1, k] - a[i, j + 1, k] + c[i, j, k]


def four(a, b, c):
    """A loop around, and loads of rows and of steps."""
    # pragma parallel for
    for h in range(2):
        # pragma parallel for
        for i in range(1, a.shape[0] - 1):
            # pragma parallel for
            for j in range(1, a.shape[1] - 1):
                # pragma simd
                for k in range(a.shape[2]):
                    b[i, j, k, h] = (a[i - 1, j, k, h] + a[i, j, k, h] + a[i + 1, j, k, h]) * c[i, 0, 0, h] - (
                        c[i, j, 0, h] + c[i - 1, j, 0, h] + a[i, j - 1, k, h] + a[i, j + 1, k, h]
                    )


def conditions(a, b, c):
    """Stores under conditions, and in place: what the nest writes is not kept."""
    # pragma parallel for
    for i in range(1, a.shape[0] - 1):
        # pragma parallel for
        for j in range(1, a.shape[1] - 1):
            # pragma simd
            for k in range(a.shape[2]):
                d = a[i - 1, j, k] - a[i + 1, j, k] + a[i, j - 1, k] - a[i, j + 1, k] + a[i, j, k]
                b[i, j, k] -= c[i, j, k]
                if d > c[i, j, k]:
                    b[i, j, k] += d
                elif a[i, j, k] > 0:
                    b[i, j, k] = a[i - 1, j, k]


def twice(a, b, c):
    """Two nests, one after the other."""
    # pragma parallel for
    for i in range(1, a.shape[0] - 1):
        # pragma parallel for
        for j in range(1, a.shape[1] - 1):
            # pragma simd
            for k in range(a.shape[2]):
                b[i, j, k] = a[i - 1, j, k] + a[i, j, k] + a[i + 1, j, k] - a[i, j - 1, k] - a[i, j + 1, k]
    # pragma parallel for
    for i in range(1, a.shape[0] - 1):
        # pragma parallel for
        for j in range(1, a.shape[1] - 1):
            # pragma simd
            for k in range(a.shape[2]):
                c[i, j, k] = b[i - 1, j, k] + b[i, j, k] + b[i + 1, j, k] - b[i, j - 1, k] - b[i, j + 1, k]


def numbers(a, b, c):
    """Where a step is, as a number."""
    # pragma parallel for
    for i in range(1, a.shape[0] - 1):
        # pragma parallel for
        for j in range(1, a.shape[1] - 1):
            # pragma simd
            for k in range(a.shape[2]):
                b[i, j, k] = a[i - 1, j, k] + a[i, j, k] + a[i + 1, j, k] * i + c[i, j, k] * (i * 3 - j + k)


FUNCTIONS = {f.__name__: f for f in (star, fluxes, backward, four, conditions, twice, numbers)}
SHAPES = [(9, 10, 11), (5, 5, 70), (7, 23, 3), (4, 9, 9), (6, 5, 1), (3, 3, 2), (20, 7, 33), (5, 40, 9), (5, 6, 0)]


def arrays(shape, dtype, four_dimensions):
    rng = np.random.default_rng(sum(shape))
    made = rng.integers(-9, 9, (3, *shape, *((2,) if four_dimensions else ()))).astype(dtype)
    return list(made)


NUMBERS = itertools.count()


def compiled_anew(f):
    """A function of its own: kernels of the same code are shared, whatever the environment said when they were made."""
    code = f.__code__.replace(co_name=f"{f.__name__}_{next(NUMBERS)}")
    return appy.jit(strict=True, backend="cuda")(types.FunctionType(code, f.__globals__))


def explained(compiled) -> str:
    with contextlib.redirect_stdout(io.StringIO()):
        return str(appy.explain(compiled))


def loads_of(text: str) -> list[tuple[int, int, int]]:
    found = re.findall(r"a step loads (\d+) elements instead of (\d+) and keeps (\d+) values", text)
    return [tuple(map(int, each)) for each in dict.fromkeys(found)]


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ("unroll=4,block=128", "forward"),
        ("unroll=2,block=32", "reverse"),
        ("unroll=3,block=96", "3"),
        ("unroll=2,block=100", "forward"),
    ],
)
def test_bits_of_plain_python(name, shape, order, monkeypatch):
    monkeypatch.setenv("APPY_CUDA_SHAPE", f"march=1,{shape}")
    monkeypatch.setenv("APPY_EMULATOR_ORDER", order)
    f = FUNCTIONS[name]
    compiled = compiled_anew(f)
    for number, extents in enumerate(SHAPES):
        a, b, c = arrays(extents, ("int64", "float64", "float32", "int32")[number % 4], name == "four")
        got, want = (a, b.copy(), c.copy()), (a, b.copy(), c.copy())
        compiled(*got)
        f(*want)
        for x, y in zip(got, want):
            np.testing.assert_array_equal(x, y, f"{name} {extents}")
    assert compiled.stats()["declined"] == 0
    assert loads_of(explained(compiled)), "no thread goes along its rows"


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("layout", ["strided", "inner", "reversed"])
def test_strides(layout, monkeypatch):
    monkeypatch.setenv("APPY_CUDA_SHAPE", "march=1,unroll=3,block=64")
    compiled = compiled_anew(fluxes)

    def view(values):
        whole = np.zeros([2 * n for n in values.shape])
        part = {
            "strided": np.s_[::2, ::2, ::2],
            "inner": np.s_[::2, 1::2, : values.shape[2]],
            "reversed": np.s_[::-2, ::2, ::-2],
        }
        out = whole[part[layout]]
        out[...] = values
        return out

    for extents in SHAPES:
        got, want = ([view(v) for v in arrays(extents, "float64", False)] for _ in range(2))
        compiled(*got)
        fluxes(*want)
        for x, y in zip(got, want):
            np.testing.assert_array_equal(x, y, f"{layout} {extents}")
    assert compiled.stats()["declined"] == 0
    assert loads_of(explained(compiled))


@pytest.mark.usefixtures("emulated")
def test_arrays_that_overlap(monkeypatch):
    """Then every load stays where it is."""
    monkeypatch.setenv("APPY_CUDA_SHAPE", "march=1,unroll=2,block=64")
    compiled = compiled_anew(backward)
    whole = np.arange(30.0 * 9 * 7).reshape(30, 9, 7)
    for distance in (10, 14):
        got, want = whole.copy(), whole.copy()
        for each, f in ((got, compiled), (want, backward)):
            f(each[distance:][:10], each[: 10 if distance > 12 else 11][-10:], each[20:])
        np.testing.assert_array_equal(got, want, str(distance))
    assert compiled.stats()["declined"] == 0


@pytest.mark.usefixtures("emulated")
def test_what_is_kept(monkeypatch):
    """A step loads one new row of each array; without a third less to load there is no march, and none is forbidden."""
    monkeypatch.setenv("APPY_CUDA_SHAPE", "march=1,unroll=4,block=64")
    found = {}
    for f in (star, fluxes, conditions):
        compiled = compiled_anew(f)
        compiled(*arrays((9, 10, 11), "float64", False))
        found[f.__name__] = loads_of(explained(compiled))
    # In five rows, star: of i + 2 and two rows at each side; c. fluxes: of i + 1, and one row at each side of i; c of
    # i + 1. conditions: of i + 1, and one row at each side of i; b and c.
    assert found == {"star": [(14, 34, 20)], "fluxes": [(12, 32, 15)], "conditions": [(17, 27, 10)]}
    monkeypatch.setenv("APPY_CUDA_SHAPE", "march=2,unroll=4,block=64")
    compiled = compiled_anew(fluxes)
    compiled(*arrays((9, 10, 11), "float64", False))
    assert not loads_of(explained(compiled))


def relaxed(a, b, c):
    """Between barriers, and two nests that count alike without one: an element is the same thread's in both."""
    # pragma sequential for
    for t in range(3):
        # pragma parallel for
        for i in range(1, a.shape[0] - 1):
            # pragma parallel for
            for j in range(1, a.shape[1] - 1):
                # pragma simd
                for k in range(a.shape[2]):
                    b[i, j, k] = a[i - 1, j, k] + a[i, j, k] - a[i + 1, j, k] - a[i, j - 1, k] + a[i, j + 1, k] + t
        # pragma parallel for
        for i in range(1, a.shape[0] - 1):
            # pragma parallel for
            for j in range(1, a.shape[1] - 1):
                # pragma simd
                for k in range(a.shape[2]):
                    a[i, j, k] = b[i, j, k] - 2 * c[i, j, k]


def in_two_arrays(a, b, c):
    # pragma sequential for
    for t in range(3):
        # pragma parallel for
        for i in range(1, a.shape[0] - 1):
            # pragma parallel for
            for j in range(1, a.shape[1] - 1):
                # pragma simd
                for k in range(1, a.shape[2] - 1):
                    b[i, j, k] = a[i - 1, j, k] + a[i + 1, j, k] - a[i, j - 1, k] + a[i, j + 1, k] + a[i, j, k - 1]
        # pragma parallel for
        for i in range(1, a.shape[0] - 1):
            # pragma parallel for
            for j in range(1, a.shape[1] - 1):
                # pragma simd
                for k in range(1, a.shape[2] - 1):
                    a[i, j, k] = b[i - 1, j, k] + b[i + 1, j, k] - b[i, j - 1, k] + b[i, j + 1, k] + c[i, j, k + 1]


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize(("f", "marches"), [(relaxed, False), (in_two_arrays, True)])
@pytest.mark.parametrize("order", ["forward", "reverse", "5"])
def test_between_barriers(f, marches, order, monkeypatch):
    monkeypatch.setenv("APPY_CUDA_SHAPE", "march=1,unroll=2,block=32")
    monkeypatch.setenv("APPY_EMULATOR_ORDER", order)
    compiled = compiled_anew(f)
    for extents in SHAPES:
        got, want = (arrays(extents, "int64", False) for _ in range(2))
        compiled(*got)
        f(*want)
        for x, y in zip(got, want):
            np.testing.assert_array_equal(x, y, f"{extents}")
    assert compiled.stats()["declined"] == 0
    assert bool(loads_of(explained(compiled))) == marches


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("f", [fluxes, in_two_arrays])
@pytest.mark.parametrize(("shape", "marches"), [((20, 40, 60), True), ((6, 40, 200), False), ((60, 20, 60), False)])
def test_where_it_is_chosen(f, shape, marches, monkeypatch):
    """Steps and rows enough, and iterations enough for the device, whose multiprocessors are two."""
    monkeypatch.delenv("APPY_CUDA_SHAPE", raising=False)
    compiled = compiled_anew(f)
    got, want = (arrays(shape, "float64", False) for _ in range(2))
    compiled(*got)
    f(*want)
    for x, y in zip(got, want):
        np.testing.assert_array_equal(x, y)
    assert bool(loads_of(explained(compiled))) == marches
