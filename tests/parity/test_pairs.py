"""Neighbours that are loaded or stored together: the parts of complex numbers, `out[2 * i]` and `out[2 * i + 1]`."""

from __future__ import annotations

import linecache
import os
import random
import re

import numpy as np
import pytest
from guarded import guarded_page

import appy

LENGTHS = [0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 130, 1000, 1023]
COMPLEX = ["complex128", "complex64"]
TYPES = ["f8", "f4", "i8", "i4", "u4", "i2"]


def same(got, want):
    if got.dtype.kind in "cf":
        np.testing.assert_allclose(got, want, rtol=1e-5 if got.dtype.itemsize <= 8 and got.dtype != "f8" else 1e-13)
    else:
        np.testing.assert_array_equal(got, want)


def numbers(n, dtype, seed=0):
    r = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "c":
        return (r.normal(size=n) + 1j * r.normal(size=n)).astype(dtype)
    if np.dtype(dtype).kind == "f":
        return r.normal(size=n).astype(dtype)
    return r.integers(0, 50, n).astype(dtype)


def saxpy_statement(a, x, y):
    # pragma :n=>simd
    y[:] = a * x + y


def saxpy_loop(a, x, y):
    # pragma simd
    for i in range(y.shape[0]):
        y[i] = a * x[i] + y[i]


def saxpy_down(a, x, y):
    # pragma simd
    for i in range(y.shape[0] - 1, -1, -1):
        y[i] = a * x[i] + y[i]


def product_in_place(a, x, y):
    # pragma :n=>simd
    y *= x


def parts_swapped(a, x, y):
    # pragma simd
    for i in range(y.shape[0]):
        y[i] = complex(x[i].imag, y[i].real)


def only_some(a, x, y):
    # pragma simd
    for i in range(y.shape[0]):
        if x[i].real > 0:
            y[i] = a * y[i]


def reversed_views(a, x, y):
    # pragma :n=>simd
    y[::-1] = a * x


def one_for_all(a, x, y):
    # pragma :n=>simd
    y[:] = a


def until_large(a, x, y):
    # pragma simd
    for i in range(y.shape[0]):
        z = y[i]
        k = 0
        while k < 20 and z.real * z.real + z.imag * z.imag < 4:
            z = z * z + x[i]
            y[i] = z
            k += 1


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize(
    "function",
    [
        saxpy_statement,
        saxpy_loop,
        saxpy_down,
        product_in_place,
        parts_swapped,
        only_some,
        reversed_views,
        one_for_all,
        until_large,
    ],
)
def test_complex_numbers(function, dtype):
    compiled = appy.jit(strict=True)(function)
    a = np.dtype(dtype).type(1.5 - 2j)
    for n in LENGTHS:
        for shift in (0, 1, 3):
            x, y = numbers(n, dtype, n), numbers(n + 7, dtype, n + 1)
            got, want = y.copy(), y.copy()
            with np.errstate(all="ignore"):
                function(a, x, want[shift : n + shift])
                before = compiled.stats()["runs"]
                compiled(a, x, got[shift : n + shift])
            assert compiled.stats()["runs"] == before + 1
            if function is not until_large:
                same(got, want)
            else:  # chaotic: as far as both agree on which elements change
                np.testing.assert_array_equal(got == y, want == y)


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("n", [3, 16, 40, 1000])
def test_arguments_that_are_the_same_or_overlap(dtype, n):
    for function in (saxpy_loop, saxpy_statement, product_in_place, reversed_views):
        compiled = appy.jit(strict=True)(function)
        for first, second in ((0, 0), (0, 1), (1, 0), (0, 5)):
            got = numbers(n + 8, dtype, n) / 4
            want = got.copy()
            function(a := np.dtype(dtype).type(0.5 + 0.25j), want[first : first + n], want[second : second + n])
            compiled(a, got[first : first + n], got[second : second + n])
            same(got, want)


def up(x, out):
    # pragma simd
    for i in range(x.shape[0] // 2):
        out[2 * i] = x[2 * i] + x[2 * i + 1]
        out[2 * i + 1] = x[2 * i] - x[2 * i + 1]


def odd_first(x, out):
    # pragma simd
    for i in range(x.shape[0] // 2):
        out[2 * i + 1] = x[2 * i] + x[2 * i + 1]
        out[2 * i] = x[2 * i] - x[2 * i + 1]


def down(x, out):
    n = x.shape[0] // 2
    # pragma simd
    for i in range(n):
        out[2 * n - 2 * i - 2] = x[2 * i + 1]
        out[2 * n - 2 * i - 1] = x[2 * i] + x[2 * n - 2 * i - 1]


def in_place(x, out):
    # pragma simd
    for i in range(x.shape[0] // 2):
        out[2 * i] = out[2 * i] + x[i]
        out[2 * i + 1] = out[2 * i + 1] - x[i]


def first_is_read(x, out):
    # pragma simd
    for i in range(x.shape[0] // 2):
        out[2 * i] = x[i]
        out[2 * i + 1] = out[2 * i] + x[2 * i]


def second_is_read_before(x, out):
    # pragma simd
    for i in range(x.shape[0] // 2):
        out[2 * i] = out[2 * i + 1] + x[i]
        out[2 * i + 1] = out[2 * i] + out[2 * i + 1]


def stored_twice(x, out):
    # pragma simd
    for i in range(x.shape[0] // 2):
        out[2 * i] = x[2 * i]
        out[2 * i] = x[2 * i + 1]
        out[2 * i + 1] = x[i]
        out[2 * i] = out[2 * i] + x[i]


def constants(x, out):
    # pragma simd
    for i in range(x.shape[0] // 2):
        out[2 * i] = 3
        out[2 * i + 1] = i


def every_third(x, out):
    # pragma simd
    for i in range(x.shape[0] // 3):
        out[3 * i] = x[3 * i + 1]
        out[3 * i + 1] = x[3 * i]


def overlapping_pairs(x, out):
    # pragma simd
    for i in range(x.shape[0] // 2 - 1):
        out[2 * i + 1] = x[2 * i + 1] + x[2 * i + 2]
        out[2 * i + 2] = x[2 * i] - x[2 * i + 3]


def under_conditions(x, out):
    # pragma simd
    for i in range(x.shape[0] // 2):
        if x[i] > 10:
            out[2 * i] = x[2 * i + 1]
            out[2 * i + 1] = x[2 * i]
        else:
            out[2 * i] = x[2 * i]
            if x[i] < 5:
                out[2 * i + 1] = x[i]


def columns(x, out):
    # pragma sequential for
    for j in range(2):
        # pragma simd
        for i in range(x.shape[0] // 4):
            out[4 * i + 2 * j] = x[2 * i + j]
            out[4 * i + 2 * j + 1] = x[2 * i + 1 - j]


def carried_inside(x, out):
    # pragma simd
    for i in range(x.shape[0] // 2):
        s = x[2 * i]
        for j in range(3):
            out[2 * i] = s
            s = s + x[2 * i + 1]
            out[2 * i + 1] = s


def into_two(x, out):
    n = x.shape[0] // 4
    # pragma simd
    for i in range(n):
        out[2 * i] = x[i]
        out[2 * i + 2 * n] = x[2 * i]
        out[2 * i + 1] = x[2 * i + 1]
        out[2 * i + 1 + 2 * n] = x[2 * i + 3]


EVERY = [
    up,
    odd_first,
    down,
    in_place,
    first_is_read,
    second_is_read_before,
    stored_twice,
    constants,
    every_third,
    overlapping_pairs,
    under_conditions,
    columns,
    carried_inside,
    into_two,
]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("function", EVERY)
def test_neighbours(function, dtype):
    compiled = appy.jit(strict=True)(function)
    for n in LENGTHS:
        x, out = numbers(n, dtype, n), numbers(n, dtype, n + 1)
        got, want = out.copy(), out.copy()
        with np.errstate(all="ignore"):
            function(x, want)
            before = compiled.stats()["runs"]
            compiled(x, got)
        assert compiled.stats()["runs"] > before
        same(got, want)


def rows(x, at, out):
    # pragma simd
    for i in range(x.shape[0] // 2):
        s = x[2 * i]
        for j in range(out.shape[0]):
            out[j, 2 * i] = s
            s = s * 0.5 + x[2 * i + 1]
            out[j, 2 * i + 1] = s


def stored_in_between(x, at, out):
    # pragma simd
    for i in range(x.shape[0] // 2):
        b = at[i] & 1
        s = x[2 * i]
        x[2 * i + b] = s + 1
        t = x[2 * i + 1]
        out[0, 2 * i] = s
        out[1, 2 * i + 1] = t


def loaded_in_between(x, at, out):
    # pragma simd
    for i in range(x.shape[0] // 2):
        b = at[i] & 1
        x[2 * i] = i
        s = x[2 * i + b]
        x[2 * i + 1] = s + 3
        out[0, i] = s


@pytest.mark.parametrize("function", [rows, stored_in_between, loaded_in_between])
@pytest.mark.parametrize("other", [0, 1])
def test_order_of_accesses(function, other):
    compiled = appy.jit(strict=True)(function)
    before = compiled.stats()["runs"]
    for n in (2, 16, 34, 100):
        at = 2 * np.arange(n // 2) + other
        got, want = [(numbers(n, "f8"), np.zeros((4, n))) for _ in range(2)]
        function(want[0], at, want[1])
        compiled(got[0], at, got[1])
        same(got[0], want[0])
        same(got[1], want[1])
    assert compiled.stats()["runs"] == before + 4


@pytest.mark.parametrize("function", [up, in_place, into_two])
def test_neighbours_of_overlapping_arrays(function):
    compiled = appy.jit(strict=True)(function)
    for n in (4, 32, 100):
        for shift in (1, 2, 3):
            got = numbers(n + 4, "f8", n)
            want = got.copy()
            function(want[:n], want[shift : n + shift])
            compiled(got[:n], got[shift : n + shift])
            same(got, want)


def mixed(x, counts, out):
    # pragma simd
    for i in range(counts.shape[0]):
        out[2 * i] = x[2 * i + 1] * counts[i]
        out[2 * i + 1] = x[2 * i]


@pytest.mark.parametrize("other", ["i8", "f8", "i2"])
@pytest.mark.parametrize("dtype", TYPES)
def test_beside_other_types(dtype, other):
    """Where another type is wider, vectors of this one are shorter than registers."""
    compiled = appy.jit(strict=True)(mixed)
    for n in LENGTHS:
        x, counts = numbers(2 * n, dtype, n), numbers(n, other, n)
        got, want = np.zeros((2, 2 * n), dtype)
        with np.errstate(all="ignore"):
            mixed(x, counts, want)
            compiled(x, counts, got)
        same(got, want)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_nothing_outside_the_arrays_is_touched(dtype):
    """Memory before and behind the arrays is not mapped."""
    a = np.dtype(dtype).type(1.5 - 2j)
    with guarded_page() as x_bytes, guarded_page() as y_bytes:
        xs, ys = x_bytes.view(dtype), y_bytes.view(dtype)
        for function in (saxpy_statement, saxpy_loop, saxpy_down, only_some, reversed_views):
            compiled = appy.jit(strict=True)(function)
            for n in (1, 3, 4, 7, 8, 9, 15, 17, 100, len(xs) - 1, len(xs)):
                for offset in (0, len(xs) - n):
                    x, y = (inside[offset : offset + n] for inside in (xs, ys))
                    x[:], y[:] = numbers(n, dtype), numbers(n, dtype, 1)
                    want = y.copy()
                    function(a, x, want)
                    compiled(a, x, y)
                    same(y, want)


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("function", [saxpy_statement, saxpy_loop, product_in_place, only_some])
def test_no_element_by_itself(function, dtype, capfd):
    """A part that is read alone, under a condition, may be gathered."""
    x, y = numbers(100, dtype), numbers(100, dtype, 1)
    appy.jit(strict=True, dump="asm")(function)(np.dtype(dtype).type(1.5 - 2j), x, y)
    code = capfd.readouterr()
    text = code.out + code.err
    assert re.search(r"v(permt2|unpckl)p[sd]", text)
    assert not re.search("scatter" if function is only_some else "gather|scatter", text)


def random_program(seed: int) -> str:
    """Iteration i reads and writes elements 2 * i and 2 * i + 1 of two arrays, in any order."""
    r = random.Random(seed)

    def element(name):
        return f"{name}[2 * i{r.choice(['', ' + 1'])}]"

    def value():
        return r.choice([element("x"), element("y"), "s", "t", "1.5", "w[i]", "w[2 * i]", "w[2 * i + 1]"])

    def lines(indent, depth):
        out = []
        for _ in range(r.randint(2, 5)):
            kind = r.randrange(10)
            if kind < 6:
                out.append(f"{indent}{element(r.choice('xxy'))} = {value()} {r.choice('+-')} {value()}")
            elif kind < 8 or depth == 0:
                out.append(f"{indent}{r.choice('st')} = {value()} {r.choice('+-')} {value()}")
            elif kind == 8:
                out += [f"{indent}if {value()} > {value()}:", *lines(indent + "    ", depth - 1)]
            else:
                out += [f"{indent}for j{depth} in range(2):", *lines(indent + "    ", depth - 1)]
        return out

    head = ["def f(x, y, w):", "    # pragma simd", "    for i in range(x.shape[0] // 2):", "        s = w[i]"]
    return "\n".join([*head, "        t = y[2 * i]", *lines("        ", 2)]) + "\n"


@pytest.mark.parametrize("seed", [*range(int(os.environ.get("APPY_FUZZ_PAIRS", "60"))), 289])
def test_random_programs(seed):
    source = random_program(seed)
    path = f"<random pairs {seed}>"
    linecache.cache[path] = (len(source), None, source.splitlines(True), path)
    space = {}
    exec(compile(source, path, "exec"), space)
    compiled = appy.jit(strict=True)(space["f"])
    for n in (6, 20, 70):
        # Small integers: sums of them are exact in any order.
        arrays = [np.random.default_rng([seed, n, k]).integers(-4, 5, n).astype(float) for k in range(3)]
        got, want = [[a.copy() for a in arrays] for _ in range(2)]
        space["f"](*want)
        compiled(*got)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_array_equal(g, w, err_msg=source)
    assert compiled.stats()["runs"] == 3
