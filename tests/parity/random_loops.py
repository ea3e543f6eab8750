"""Random loop programs as source text, and their arguments.

``choose(n)`` decides everything: it returns an int in [0, n), 0 being the simplest choice, so that Hypothesis can shrink
a program and a plain random generator can make many. Numbers are dyadic and small, so that sums and products are exact
in any order and a branch on them goes the same way however the loop is scheduled. Python ints stay far below 64 bits.
"""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from types import FunctionType
from typing import Any

import numpy as np

N = 64  # extent of every dimension
FLOATS = ("float64", "float32", "float16")
COMPLEX = ("complex128", "complex64")
INTS = ("int64", "int32", "uint8", "int8", "int16", "uint16", "uint32", "uint64")
PRAGMAS = ("parallel for", "simd", "parallel for simd")
numbers = count()

HELPERS = """
def double(v):
    return v + v

def clip(v, low=-4.0, high=4.0):
    if v < low:
        return low
    return high if v > high else v

def steps(v):
    k = 0
    while v > 0:
        v = v - 3
        k += 1
        if k > 5:
            break
    return k
"""


@dataclass
class Loop:
    var: str
    low: int  # bounds of the values it takes
    high: int
    annotated: bool


@dataclass
class Program:
    source: str
    arguments: dict[str, Any]
    in_order: bool
    exact: bool = False

    def function(self) -> FunctionType:
        """The function, compiled from a file that `linecache` knows."""
        path = f"<random loop {next(numbers)}>"
        linecache.cache[path] = (len(self.source), None, self.source.splitlines(True), path)
        space: dict[str, Any] = {"np": np, "math": math}
        exec(compile(self.source, path, "exec"), space)
        return space["f"]


@dataclass
class Writer:
    choose: Callable[[int], int]
    in_order: bool
    exact: bool
    lines: list[str] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    floats: list[str] = field(default_factory=list)  # scalars of bounded magnitude that may be unbound at no point
    ints: list[str] = field(default_factory=list)
    sums: list[str] = field(default_factory=list)
    rough: list[str] = field(default_factory=list)  # rounded floats: never in conditions
    owners: dict[str, tuple[str, int]] = field(default_factory=dict)  # array -> its subscript in the annotated loops
    has_nan: bool = False
    names: int = 0
    statements: int = 0
    whiles: int = 0

    def pick(self, *options: Any) -> Any:
        return options[self.choose(len(options))]

    def rarely(self, one_in: int = 4) -> bool:
        return self.choose(one_in) == one_in - 1

    def put(self, text: str) -> None:
        self.lines.append("    " * (2 + self.indent) + text)

    indent: int = 0

    # ---- subscripts

    def affine(self, loop: Loop) -> str:
        """An injective subscript in the loop's variable, within [-N, N)."""
        v = loop.var
        forms = [v] if loop.low >= -N else []
        if loop.high + 3 < N:
            forms.append(f"{v} + 3")
        if loop.low >= 0:
            forms += [f"{N - 1} - {v}", f"-1 - {v}"]
            if 2 * loop.high + 1 < N:
                forms += [f"2 * {v}", f"2 * {v} + 1"]
        return self.pick(*forms)

    def subscript(self) -> str:
        """Any subscript within bounds."""
        how = self.choose(6)
        if self.loops and how < 3:
            return self.affine(self.loops[-1 - self.choose(len(self.loops))])
        if how == 3:
            return f"idx[{self.affine(self.loops[-1])}]" if self.loops else "idx[5]"
        if how == 4:
            return f"({self.integer(1)}) % {N}"
        return self.pick("0", "7", "-1", "n % 64")

    # ---- expressions

    def load_float(self) -> str:
        how = self.choose(8)
        if how < 4:
            return f"{self.pick('x', 'y')}[{self.subscript()}]"
        if how < 6:
            return f"A[{self.subscript()}, {self.subscript()}]"
        if how == 6 and self.loops:
            v = self.loops[-1].var
            return f"(x[{v} + 50] if {v} + 50 < len(x) else 0.5)"
        if how == 7 and self.rarely(2):
            return f"c1[{self.subscript()}].{self.pick('real', 'imag')}"
        return self.pick("0.5", "2.0", "-1.25", "fl", "g")

    def number(self, depth: int) -> str:
        """A float (or number) whose magnitude is at most about 2**7 and that is a multiple of 1/16."""
        if depth == 0:
            if self.floats and self.rarely(3):
                return self.pick(*self.floats)
            return self.load_float()
        how = self.choose(12)
        if how < 3:
            return f"{self.number(depth - 1)} {self.pick('+', '-')} {self.number(depth - 1)}"
        if how == 3:
            return f"{self.load_float()} * {self.load_float()}"
        if how == 4:
            return f"{self.pick('min', 'max')}({self.number(depth - 1)}, {self.number(depth - 1)})"
        if how == 5:
            return f"{self.pick('abs', '-', '+', 'float', 'np.abs', 'np.negative')}({self.number(depth - 1)})"
        if how == 6:
            return f"({self.number(depth - 1)} if {self.condition(1)} else {self.number(depth - 1)})"
        if how == 7:
            return f"float({self.integer(depth - 1)} % 13)"
        if how == 8:
            return f"{self.pick('clip', 'double')}({self.number(0)})"
        if how == 9:
            return f"{self.pick('np.maximum', 'np.minimum', 'np.fmax')}({self.number(0)}, {self.number(0)})"
        if how == 10:
            return f"np.{self.pick('floor', 'ceil', 'trunc', 'rint')}({self.load_float()})"
        return f"np.where({self.condition(1)}, float({self.number(0)}), {self.pick('0.0', '1')})[()]"

    def complex_number(self, depth: int) -> str:
        """A complex number of small dyadic parts."""
        if depth == 0:
            return self.pick(f"c1[{self.subscript()}]", "1j", "(0.5-2j)", "h")
        how = self.choose(8)
        x = self.complex_number(depth - 1)
        if how < 2:
            return f"{x} {self.pick('+', '-')} {self.complex_number(depth - 1)}"
        if how == 2:
            return f"{self.complex_number(0)} * {self.complex_number(0)}"
        if how == 3:
            return f"{self.complex_number(0)} * {self.load_float()}"
        if how == 4:
            # Of one type: a scalar that is complex in different ways is refused.
            return f"(c1[{self.subscript()}] if {self.condition(1)} else c1[{self.subscript()}])"
        if how == 5:
            return f"({x}).conjugate()"
        if how == 6:
            return f"{self.pick('-', '+')}({x})"
        return x

    def clamped(self, depth: int) -> str:
        return f"min(max({self.number(depth)}, -32.0), 32.0)"

    def rounded(self) -> str:
        """A float that may be rounded differently in compiled code."""
        arg = f"({self.number(1)})"
        how = self.choose(5)
        if how == 0:
            return f"{arg} / (abs({self.number(0)}) + 1.5)"
        if how == 1:
            return f"math.sqrt(abs({arg}))" if not self.has_nan else f"np.sqrt(abs({arg}))"
        if how == 2 and not self.exact:
            return f"np.{self.pick('sin', 'cos', 'tanh', 'arctan')}({arg})"
        if how == 3 and not self.has_nan:
            return f"math.{self.pick('sin', 'cos', 'atan')}({arg})"
        if self.rough:
            return f"{self.pick(*self.rough)} * 0.25 + {arg}"
        return f"{arg} * 0.1"

    def raw_integer(self) -> str:
        """A NumPy integer that may wrap."""
        how = self.choose(5)
        a = f"z[{self.subscript()}]"
        if how == 0:
            return a
        if how == 1:
            return f"({a} {self.pick('+', '*', '-', '//', '%', '&', '|', '^')} {self.pick(3, 1, 7, 100)})"
        if how == 2:
            return f"({a} {self.pick('+', '*', '-', '//', '%', '&', '|', '^')} z[{self.subscript()}])"
        if how == 3:
            return f"max({a}, z[{self.subscript()}])"
        return f"({a} {self.pick('<<', '>>')} {self.pick(1, 2)})"

    def integer(self, depth: int) -> str:
        """A Python int (or bool) below about 2**40."""
        if depth == 0:
            how = self.choose(6)
            if self.loops and how < 3:
                return self.loops[-1 - self.choose(len(self.loops))].var
            if self.ints and how == 3:
                return self.pick(*self.ints)
            if how == 4:
                return f"int(z[{self.subscript()}])"
            return self.pick("3", "1", "n", "-2", "len(x)", "A.shape[1]", "True")
        how = self.choose(12)
        if how < 3:
            return f"({self.integer(depth - 1)} {self.pick('+', '-')} {self.integer(depth - 1)})"
        if how == 3:
            return f"({self.integer(0)} % 1021 * ({self.integer(0)} % 1021))"
        if how == 4:
            return f"({self.integer(depth - 1)} {self.pick('//', '%')} {self.pick('3', '-4', '7')})"
        if how == 5:
            return f"({self.integer(depth - 1)} {self.pick('&', '|', '^')} {self.integer(depth - 1)})"
        if how == 6:
            return f"{self.pick('min', 'max')}({self.integer(depth - 1)}, {self.integer(depth - 1)})"
        if how == 7:
            return f"{self.pick('abs', '-', '~', '+', 'int', 'double')}({self.integer(depth - 1)})"
        if how == 8:
            return f"({self.integer(depth - 1)} if {self.condition(1)} else {self.integer(depth - 1)})"
        if how == 9 and not self.has_nan:
            return f"int({self.number(1)})"
        if how == 10:
            return f"int({self.raw_integer()} % 100)"
        return f"({self.integer(depth - 1)} {self.pick('>>', '<<')} {self.pick(1, 3)}) % 8191"

    def condition(self, depth: int) -> str:
        if depth == 0:
            how = self.choose(8)
            op = self.pick("<", ">", "<=", ">=", "==", "!=")
            if how < 2:
                return f"{self.load_float()} {op} {self.pick('0', '1.5', '-2')}"
            if how == 2:
                return f"{self.integer(0)} % 3 {op} 1"
            if how == 3:
                return f"mask[{self.subscript()}]"
            if how == 4:
                return f"{self.number(0)} {op} {self.number(0)}"
            if how == 5:
                return f"{self.integer(0)} {op} {self.number(0)}"
            if how == 6:
                return f"{self.raw_integer()} {op} {self.pick('5', self.integer(0))}"
            return self.integer(0)
        how = self.choose(5)
        if how < 2:
            return self.condition(0)
        if how == 2:
            return f"({self.condition(depth - 1)} {self.pick('and', 'or')} {self.condition(depth - 1)})"
        if how == 3:
            return f"(not {self.condition(depth - 1)})"
        ops = self.pick("<", "<=", ">")
        return f"({self.pick('-3', 'fl')} {ops} {self.number(0)} {self.pick('<', '<=', '>')} {self.integer(0)})"

    # ---- statements

    def fresh(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def annotated(self) -> list[Loop]:
        return [loop for loop in self.loops if loop.annotated]

    def store(self) -> None:
        marked = self.annotated()
        array = self.pick("o1", "o2", "oi", "oc")
        rank = 2 if array == "o2" else 1
        op = self.pick("=", "=", "+=", "-=")
        if not marked or self.in_order:
            where = self.affine(self.loops[-1]) if rank == 1 else f"{self.subscript()}, {self.subscript()}"
            if rank == 1 and self.rarely():
                where = self.subscript()
        else:
            if array in self.owners:
                where, depth = self.owners[array]
            elif len(marked) == 1:
                depth = self.loops.index(marked[0]) + 1
                outer = self.affine(marked[0])
                where = outer if rank == 1 else self.pick(f"{outer}, 3", f"5, {outer}")
                self.owners[array] = where, depth
            elif rank == 2:
                depth = self.loops.index(marked[-1]) + 1
                where = f"{self.affine(marked[0])}, {self.affine(marked[1])}"
                self.owners[array] = where, depth
            else:
                return
            # Where an annotated loop inside does not move the element, only a sum of it is no conflict.
            if any(loop.annotated for loop in self.loops[depth:]) or len(marked) > 2:
                return
        if array == "oi":
            value = self.pick(f"({self.integer(2)}) % 100", "oi_value")
            if value == "oi_value":
                value = f"int({self.raw_integer()} % 50)"
        elif array == "oc":
            value = self.complex_number(2)
        else:
            value = self.pick(self.clamped(2), f"{self.integer(1)} % 64")
            if op == "=" and self.rarely():
                value = self.rounded()
        if op != "=" and array != "oi":
            value = f"({value}) * 0.125" if self.rarely() else value
        self.put(f"{array}[{where}] {op} {value}")
        if self.rarely() and array != "oi" and op == "=" and "math" not in value and "np." not in value:
            name = self.fresh("r")
            self.put(f"{name} = {array}[{where}]")

    def accumulate(self) -> None:
        how = self.choose(14)
        v = f"({self.number(1)})"
        if how == 0:
            self.put(f"s {self.pick('+=', '-=')} {v}")
        elif how == 1:
            self.put(f"s = s + {v}")
        elif how == 2:
            self.put(f"s = {v} + s" if self.rarely() else f"s += {v} if {self.condition(1)} else 0")
        elif how == 3:
            self.put(f"m = {self.pick('max', 'min')}(m, {self.load_float()})")
        elif how == 4:
            self.put(f"if {self.load_float()} {self.pick('>', '<')} m:")
            self.put(f"    m = {self.load_float()}")
        elif how == 5 and self.loops:
            load = self.load_float()
            self.put(f"if {load} {self.pick('<', '>')} best:")
            self.put(f"    best = {load}")
            self.put(f"    where = {self.loops[-1].var}")
        elif how == 6:
            self.put(f"if {self.condition(1)}:")
            self.put("    k += 1")
        elif how == 7:
            self.put(f"k {self.pick('+=', '-=')} {self.integer(1)} % 1000")
        elif how == 8:
            self.put(f"{self.pick('bits', 'k')} {self.pick('|=', '&=', '^=')} {self.integer(1)} % 255")
        elif how == 9:
            self.put(f"w += {self.raw_integer()}")
        elif how == 10:
            self.put(f"p *= {self.pick('z[' + self.subscript() + ']', '-1', 'q')}")
        elif how == 13:
            self.put(f"sc {self.pick('+=', '-=')} {self.complex_number(1)}")
        elif how == 11:
            self.put(f"flag = flag {self.pick('or', 'and')} {self.condition(0)}")
        else:
            self.put(f"k, j0 = j0 % 1000, {self.integer(1)} % 99")

    def private(self) -> None:
        how = self.choose(5)
        if how < 2:
            value = self.clamped(2)
            name = self.pick(*self.floats) if self.floats and self.rarely() else self.fresh("t")
            self.put(f"{name} = {value}")
            self.remember(self.floats, name)
        elif how == 2:
            value = self.integer(2)
            name = self.pick(*self.ints) if self.ints and self.rarely() else self.fresh("u")
            self.put(f"{name} = ({value}) % 4093")
            self.remember(self.ints, name)
        elif how == 3:
            value = self.rounded()
            name = self.fresh("v")
            self.put(f"{name} = {value}")
            self.remember(self.rough, name)
        else:
            self.put(f"last = {self.pick(self.number(1), self.integer(1), self.raw_integer(), self.condition(1))}")

    def remember(self, scope: list[str], name: str) -> None:
        if name not in scope:
            scope.append(name)

    def block(self, depth: int, statements: int) -> None:
        """Statements one level deeper; names that they bind are forgotten afterwards."""
        known = len(self.floats), len(self.ints), len(self.rough)
        self.indent += 1
        for _ in range(1 + self.choose(statements)):
            self.statement(depth)
        self.indent -= 1
        for scope, length in zip((self.floats, self.ints, self.rough), known):
            del scope[length:]

    def statement(self, depth: int) -> None:
        self.statements += 1
        how = self.choose(16) if self.statements < 30 else self.choose(7)
        if how < 3:
            self.store()
            self.private() if self.rarely() else self.accumulate()
        elif how < 5:
            self.private()
        elif how < 7:
            self.accumulate()
        elif how < 10 and depth > 0:
            self.put(f"if {self.condition(2)}:")
            self.block(depth - 1, 2)
            if self.rarely():
                self.put(f"elif {self.condition(1)}:")
                self.block(depth - 1, 2)
            if self.rarely(3):
                self.put("else:")
                self.block(depth - 1, 2)
        elif how == 10:
            self.put(f"if {self.condition(1)}:")
            self.put("    continue")
        elif how == 11 and self.rarely(3):
            self.put(f"if {self.condition(1)}:")
            self.put("    break")
        elif how < 14 and len(self.loops) < 3:
            self.loop(depth)
        elif how == 14 and self.whiles < 2:
            self.whiles += 1
            name = self.fresh("left")
            self.put(f"{name} = ({self.integer(1)}) % 6")
            self.put(f"while {name} > 0:")
            self.put(f"    {name} -= 1")
            self.block(0, 2)
        else:
            self.accumulate()

    def loop(self, depth: int) -> None:
        var = "ijk"[len(self.loops)] + "x"
        top = not self.loops
        trips = 25 if top else 9
        how = self.choose(8)
        low, high = 0, trips - 1
        if how < 3:
            bounds = self.pick(f"{trips}", "n" if top else "5", "0", "1")
        elif how == 3:
            low = -12
            bounds = f"{self.pick(-12, 2, -3)}, {self.pick(trips, 9, 2)}"
        elif how == 4:
            bounds = f"{self.pick(1, 0)}, {trips}, {self.pick(2, 3, 5)}"
        elif how == 5:
            bounds = f"{trips - 1}, {self.pick(-1, 4)}, {self.pick(-1, -2)}"
        elif how == 6 and not top:
            outer = self.loops[-1]
            low, high = min(outer.low, 0), max(outer.high + 1, trips - 1)
            bounds = self.pick(f"{outer.var}", f"{outer.var}, {trips - 1}", f"{outer.var} + 1")
        else:
            bounds = self.pick("n", "3, n", "len(x) // 4")
        annotated = not self.in_order and self.choose(3) < (3 if top else 1)
        if top:
            self.put(f"# pragma {'sequential for' if self.in_order else self.pick(*PRAGMAS)}")
        elif annotated:
            self.put(f"# pragma {self.pick(*PRAGMAS)}")
        self.put(f"for {var} in range({bounds}):")
        self.loops.append(Loop(var, low, high, annotated))
        owners = dict(self.owners)
        self.block(depth - 1, 3 if not top else 4)
        self.loops.pop()
        # What the loop owned stays owned in the annotated loops around it, at its subscripts: nobody else may use it.
        if top:
            self.owners = {}
        else:
            self.owners = {**self.owners, **owners} if self.annotated() else owners
            gone = [a for a, (_, d) in self.owners.items() if d > len(self.loops)]
            for a in gone:
                self.owners[a] = (self.owners[a][0], -1)
        if self.rarely(6):
            self.put("else:")
            self.put("    k += 1")


def values(rng: np.random.Generator, dtype: str, *shape: int, nan: bool = False) -> np.ndarray:
    kind = np.dtype(dtype).kind
    if kind == "c":
        return (rng.integers(-32, 33, shape) / 4 + rng.integers(-8, 9, shape) / 2 * 1j).astype(dtype)
    if kind == "f":
        out = (rng.integers(-32, 33, shape) / 4).astype(dtype)
        if nan:
            out[rng.random(shape) < 0.05] = np.nan
        return out
    return rng.integers(0 if kind == "u" else -100, 101, shape).astype(dtype)


def arranged(a: np.ndarray, how: int) -> np.ndarray:
    """The same numbers in another layout."""
    if how == 0:
        return a
    if a.ndim == 2:
        if how == 1:
            return np.asfortranarray(a)
        if how == 3:
            wide = np.zeros((len(a), a.shape[1] + 3), a.dtype)
            wide[:, 1:-2] = a
            return wide[:, 1:-2]
        base = np.zeros((len(a), 2 * a.shape[1]), a.dtype)
        base[:, ::2] = a
        return base[:, ::2]
    if how == 1:
        return a[::-1].copy()[::-1]
    base = np.zeros((a.size, 3), a.dtype)
    base[:, 1] = a
    return base[:, 1]


def program(choose: Callable[[int], int], in_order: bool = False) -> Program:
    """A program and its arguments."""

    def pick(options):
        return options[choose(len(options))]

    exact = choose(3) == 2
    nan = choose(6) == 5
    w = Writer(choose, in_order, exact)
    w.has_nan = nan
    seed = choose(1 << 16)
    rng = np.random.default_rng(seed)
    first, second, out = pick(FLOATS), pick(FLOATS), pick(FLOATS)
    arguments = {
        "x": arranged(values(rng, first, N, nan=nan), choose(3)),
        "y": arranged(values(rng, second, N), choose(3)),
        "A": arranged(values(rng, pick(FLOATS), N, N), choose(3)),
        "z": arranged(values(rng, pick(INTS), N), choose(3)),
        "c1": arranged(values(rng, pick(COMPLEX), N), choose(3)),
        "mask": rng.random(N) < 0.5,
        "idx": rng.integers(-N, N, N).astype(pick(("int64", "int32", "int16"))),
        "o1": arranged(np.zeros(N, out), choose(3)),
        "o2": arranged(np.zeros((N, N), out), choose(3)),
        "oi": np.zeros(N, pick(("int64", "int32", "int16"))),
        "oc": arranged(np.zeros(N, pick(COMPLEX)), choose(3)),
        "n": pick((17, 0, 1, 25)),
        "fl": pick((0.5, -1.5, 3.0)),
        "h": pick((1 - 2j, 0.5j, np.complex64(2 + 1j), np.complex128(-1.5))),
        "g": pick((np.float32(1.5), np.float64(-0.25), np.float16(0.5))),
        "q": pick((np.int16(3), np.int32(-1), np.uint8(2), 1)),
    }
    w.put(f"s = {pick(('0.0', '0', 'g', 'np.float32(0)', '0.5'))}")
    w.put(f"m = {pick(('-np.inf', '0.0', 'x[0]', 'math.inf', '0'))}")
    w.put(f"best = {pick(('np.inf', '1e30', 'x[1]', '-1e30'))}")
    w.put(f"sc = {pick(('np.complex128(0)', 'np.complex128(h)', 'c1[2] * np.float64(1)'))}")
    w.put("where = -1")
    w.put("k = bits = j0 = 0")
    w.put(f"w = {pick(('0', 'z[0]', 'q'))}")
    w.put(f"p = {pick(('z[0]', 'q'))}")
    w.put("flag = False")
    if choose(2):
        w.put("last = None" if choose(4) == 3 else "last = 0")
    for _ in range(1 + (choose(4) == 3)):
        w.loop(3)
    body = "\n".join(w.lines)
    names = ", ".join(arguments)
    source = f"{HELPERS}\n\ndef f({names}, state):\n    try:\n{body}\n    finally:\n        state.update(locals())\n"
    return Program(source, arguments, in_order, exact)
