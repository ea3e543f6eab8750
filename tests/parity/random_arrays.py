"""Random programs of array statements as source text, and their arguments.

``choose(n)`` decides everything, as in random_loops.py. A statement takes its rows and its columns from one class of
slices each, so that shapes agree, mostly; where they do not, both sides raise. Arrays come contiguous, transposed,
with steps, backwards, and overlapping each other; one that is only read repeats rows, columns or one element.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from types import FunctionType
from typing import Any

import numpy as np

numbers = count()
EXTENTS = (7, 9, 1, 33, 2, 0)
DTYPES = (
    "float64",
    "float32",
    "int32",
    "int64",
    "uint8",
    "int8",
    "int16",
    "uint32",
    "bool",
    "float16",
    "complex128",
    "complex64",
)
# Slices of one dimension that select equally many elements, by class.
SLICES = (
    (":", "::-1"),
    ("1:", ":-1", "-2::-1"),
    ("1:-1", "2:", ":-2", "-2:0:-1"),
    ("::2", "::2"),
    (":3", "-3:", "2::-1"),
)
PROPERTIES = (
    "parallel",
    "simd",
    "parallel,simd",
    "le",
    "le(4)",
    "single_block",
    "block(3)",
    "in_reg",
    "in_reg,block(2)",
)
REDUCTIONS = ("reduction(sum)", "reduce(max)", "simd,reduce(sum:v0)", "parallel,reduction(min)", "in_reg,reduce(sum)")


@dataclass
class Program:
    source: str
    arguments: dict[str, Any]

    def function(self) -> FunctionType:
        """The function, compiled from a file that `linecache` knows."""
        path = f"<random arrays {next(numbers)}>"
        linecache.cache[path] = (len(self.source), None, self.source.splitlines(True), path)
        space: dict[str, Any] = {"np": np}
        exec(compile(self.source, path, "exec"), space)
        return space["f"]


@dataclass
class Writer:
    choose: Callable[[int], int]
    kinds: dict[str, str]  # name -> "RC", "C", "R1" or "S"
    read_only: tuple[str, ...]
    rows: int = 0  # classes of slices of the statement
    columns: int = 0
    made: list[str] = field(default_factory=list)
    rowwise: list[str] = field(default_factory=list)  # what stands for a row in a loop over rows

    def pick(self, options: Any) -> Any:
        return options[self.choose(len(options))]

    def target(self, kind: str) -> str:
        return self.pick([n for n, k in self.kinds.items() if k == kind and n not in self.read_only])

    def slices(self, kind: str) -> str:
        row = self.pick(SLICES[self.rows])
        column = self.pick(SLICES[self.columns])
        if kind == "C":
            return f"[{column}]"
        if kind == "R1":
            return f"[{row}, :]"
        if self.rows == self.columns == 0 and self.choose(2):
            return ""
        return self.pick((f"[{row}, {column}]", f"[{row}][:, {column}]" if self.choose(2) else f"[{row}, {column}]"))

    def leaf(self, kind: str) -> str:
        if self.rowwise and kind == "C" and self.choose(4):
            return self.pick(self.rowwise) + self.slices("C")
        named = [n for n, k in self.kinds.items() if k == kind]
        choice = self.choose(6)
        if kind == "S" or (choice == 5 and kind != "RC"):
            return self.pick(("2", "0.5", "s", "k", "1"))
        if self.columns == 0 and kind == "C" and self.choose(4) == 3:
            # Not other rows in a loop that writes rows: a false promise.
            rows = () if self.rowwise else ("a[0, g]", "d[-1][g]", "o[0]", "o[0][g]")
            return self.pick(("b[g]", "b[g][::-1]", *rows))
        if choice == 4 and kind == "RC":
            return self.leaf(self.pick(("C", "R1", "S")))
        if choice == 3 and kind == "RC":
            return f"b{self.slices('C')}[None, :]"
        return self.pick(named) + self.slices(kind) if named else "2"

    def expression(self, kind: str, depth: int) -> str:
        if depth == 0:
            return self.leaf(kind)
        form = self.choose(11)
        if form == 10 and not self.rowwise:
            return self.product(kind)
        x = self.expression(kind, depth - 1)
        if form == 0:
            return x
        if form == 1:
            return f"-({x})" if self.choose(2) else f"abs({x})"
        if form == 2:
            return f"np.sqrt(np.abs({x} * 1.0))"
        y = self.expression(kind, depth - 1)
        if form == 9 and self.choose(2):
            return self.rearranged(kind, x, y)
        if form == 3:
            return f"np.where({x} {self.pick(('<', '>=', '!='))} {y}, {x}, {y})"
        if form == 4:
            return f"np.{self.pick(('maximum', 'minimum'))}({x}, {y})"
        if form == 5:
            return f"({x}) {self.pick(('//', '%'))} ({y})"
        if form == 6:
            return f"({x} {self.pick(('<', '==', '>'))} {y}) {self.pick(('|', '&', '^'))} ({y} > {x})"
        return f"({x}) {self.pick(('+', '-', '*', '/'))} ({y})"

    def product(self, kind: str) -> str:
        """A product of arrays, or two in a row, of the kind's shape."""
        x, y = self.array("RC"), self.array("RC")
        if kind == "C":
            return f"{self.array('R1')}[:, 0] @ {x}"
        if kind == "R1":
            return f"({x} @ {self.array('C')})[:, None]"
        if self.choose(3) == 0:
            return f"np.outer({self.array('R1')}, {self.array('C')})"
        return f"{x} @ {y}.T @ {self.array('RC')}" if self.choose(2) else f"{x} @ ({y}.T @ {self.array('RC')})"

    def array(self, kind: str) -> str:
        return self.pick([n for n, k in self.kinds.items() if k == kind]) + self.slices(kind)

    def rearranged(self, kind: str, x: str, y: str) -> str:
        """The elements of two expressions joined, or in another shape and back, where they are no numbers."""
        forms = [f"np.concatenate((({x})[:2], ({y})[2:]))", f"np.stack([{x}, {y}])[{self.choose(2)}]"]
        if kind == "C":
            forms.append(f"({x}).reshape(1, -1).ravel()")
        if kind == "RC" and self.columns == 0:
            forms += [f"({x}).ravel()[::-1].reshape(-1, len(b))", f"({x}).T.flatten().reshape(len(b), -1).T"]
        return str(self.pick(forms))

    def pragma(self) -> str:
        """Items in any order for any dimensions, sense or no sense."""
        items = []
        for _ in range(1 + self.choose(3)):
            dims = ("0", "1", "2", self.pick(SLICES[self.rows]), self.pick(SLICES[self.columns]), ":len(b)", ":b.size")
            properties = self.pick(PROPERTIES + REDUCTIONS)
            if self.choose(3) == 0:
                properties += "," + self.pick(PROPERTIES)
            items.append(f"{self.pick(dims)}=>{properties}")
        return "    # pragma " + " ".join(items)

    def statement(self) -> list[str]:
        self.rows, self.columns = self.choose(len(SLICES)), self.choose(len(SLICES))
        depth = 1 + self.choose(3)
        pragma = self.pragma()
        form = self.choose(11)
        if form > 8:
            return self.loop_over_rows(depth)
        kind = self.pick(("RC", "RC", "C", "R1"))
        if form == 8:
            self.columns = 0
            target = self.pick(("b[g]", "b[g]", "a[0, g]", "d[g % 3, 0]"))
            op = self.pick(("=", "+=", "-="))
            return [pragma, f"    {target} {op} {self.expression('C', depth)}"]
        if form < 3:
            target = self.target(kind)
            return [pragma, f"    {target}{self.slices(kind) or '[:]'} = {self.expression(kind, depth)}"]
        if form == 3:
            target = self.target(kind)
            op = self.pick(("+", "-", "*"))
            return [pragma, f"    {target}{self.slices(kind) or '[:]'} {op}= {self.expression(kind, depth)}"]
        name = f"v{len(self.made)}"
        self.made.append(name)
        if self.choose(5) == 4:  # a view, which later statements change or are changed through
            source = self.target(kind)
            if self.rows == self.columns == 0:
                self.kinds[name] = kind
            return [pragma, f"    {name} = {source}{self.slices(kind) or '[:]'}"]
        if form < 6:
            text = self.expression(kind, depth)
            if self.rows == self.columns == 0:
                self.kinds[name] = kind
            return [pragma, f"    {name} = {text}"]
        reduction = self.pick(("sum", "max", "min", "mean", "any", "all", "argmax", "argmin", "prod", "cumsum"))
        axis = self.pick((", axis=1", ", axis=0", "", ", axis=-1"))
        if reduction == "cumsum":
            axis = self.pick((", axis=1", ", axis=0"))
        elif axis and not reduction.startswith("arg") and self.choose(2):
            axis += ", keepdims=True"
        return [pragma, f"    {name} = np.{reduction}({self.expression('RC', depth)}{axis})"]

    def loop_over_rows(self, depth: int) -> list[str]:
        lines = ["    # pragma parallel for", "    for i in range(a.shape[0]):"]
        self.rowwise = ["a[i]", "d[i]", "b", "c[i, 0] * b"]
        for _ in range(1 + self.choose(2)):
            self.columns = self.choose(len(SLICES))
            form = self.choose(4)
            text = self.expression("C", depth)
            if form == 0:
                lines.append(f"        t = {text}")
                if self.columns == 0:
                    self.rowwise.append("t")
            elif form == 1:
                lines.append(f"        c[i, 0] = np.{self.pick(('sum', 'min', 'max'))}({text})")
            else:
                op = self.pick(("=", "+=", "="))
                lines.append(f"        {self.pick(('a', 'd'))}[i, {self.pick(SLICES[self.columns])}] {op} {text}")
        self.rowwise = []
        return lines


def elements(choose: Callable[[int], int], dtype: str, *shape: int) -> np.ndarray:
    """Small dyadic numbers: sums are exact in any order."""
    rng = np.random.default_rng(choose(1000))
    values = rng.integers(-12, 13, shape)
    if dtype == "bool":
        return values > 0
    if np.dtype(dtype).kind == "u":
        values = np.abs(values)
    if np.dtype(dtype).kind == "c":
        return (values / 4 + rng.integers(-2, 3, shape) * 1j).astype(dtype)
    return (values / 4 if np.dtype(dtype).kind == "f" else values).astype(dtype)


def indices(choose: Callable[[int], int], extent: int) -> np.ndarray:
    """As many as there are elements, negative ones and repeated ones among them; rarely one out of range."""
    rng = np.random.default_rng(choose(1000))
    out = rng.integers(-extent, max(extent, 1), extent)
    if choose(8) == 7 and extent:
        out[int(rng.integers(extent))] = extent
    return out.astype(("int64", "int32")[choose(2)])


def laid_out(choose: Callable[[int], int], dtype: str, rows: int, columns: int) -> np.ndarray:
    layout = choose(6)
    if layout == 1:
        return elements(choose, dtype, columns, rows).T
    if layout == 2:
        return elements(choose, dtype, 2 * rows + 1, columns + 2)[1::2, 1 : columns + 1]
    if layout == 3:
        return elements(choose, dtype, rows, columns)[::-1]
    if layout == 4:
        return elements(choose, dtype, rows, columns)[:, ::-1]
    if layout == 5:
        return elements(choose, dtype, columns, 3 * rows)[::-1, ::-3].T
    return elements(choose, dtype, rows, columns)


def repeated(choose: Callable[[int], int], dtype: str, rows: int, columns: int) -> np.ndarray:
    """An array with strides of 0, which NumPy makes read-only."""
    shape = ((1, columns), (rows, 1), (1, 1), (columns,), ())[choose(5)]
    return np.broadcast_to(elements(choose, dtype, *shape), (rows, columns))


def row(choose: Callable[[int], int], dtype: str, columns: int) -> np.ndarray:
    layout = choose(4)
    if layout == 2:
        return elements(choose, dtype, columns)[::-1]
    if layout == 3:
        return elements(choose, dtype, 2 * columns)[::-2]
    return elements(choose, dtype, columns)


def program(choose: Callable[[int], int]) -> Program:
    rows, columns = EXTENTS[choose(len(EXTENTS))], EXTENTS[choose(len(EXTENTS))]
    dtypes = {n: DTYPES[choose(len(DTYPES))] for n in "abcde"}
    a = laid_out(choose, dtypes["a"], rows, columns)
    arguments = {
        "a": a,
        "b": row(choose, dtypes["b"], columns),
        "c": elements(choose, dtypes["c"], rows, 1),
        "d": laid_out(choose, dtypes["d"], rows, columns),
        "e": repeated(choose, dtypes["e"], rows, columns),
        "o": (a[:, ::-1], a, a.copy())[choose(3)],  # overlaps a, or does not
        "g": indices(choose, columns),
        "s": (1.5, np.float32(0.5), 3, np.int64(2), np.float16(0.25), 1 - 2j)[choose(6)],
        "k": (2, -1, 100)[choose(3)],
    }
    kinds = {"a": "RC", "d": "RC", "o": "RC", "e": "RC", "b": "C", "c": "R1"}
    writer = Writer(choose, kinds, ("e",))
    lines = ["def f(a, b, c, d, e, g, o, s, k, state):", "    try:"]
    body: list[str] = []
    for _ in range(1 + choose(3)):
        body += writer.statement()
    lines += ["    " + line for line in body]
    lines += ["    finally:", "        state.update(a=a, b=b, c=c, d=d, o=o)"]
    for name in writer.made:
        lines += [
            "        try:",
            f"            state['{name}'] = {name}",
            "        except UnboundLocalError:",
            "            pass",
        ]
    return Program("\n".join(lines) + "\n", arguments)
