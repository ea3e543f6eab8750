"""Code objects as lists of instructions and back: just enough to insert instructions.

Jumps refer to instructions, EXTENDED_ARG and inline caches are folded away, and the tables of positions and exceptions
are written anew, so that nothing depends on what stands between two instructions.
"""

from __future__ import annotations

import dis
import itertools
import opcode
from collections.abc import Iterator
from types import CodeType
from typing import Any, NamedTuple

from . import _C

Position = tuple[int | None, int | None, int | None, int | None]  # line, end line, column, end column

_NAMES = dis.opname
_JUMPS = frozenset(dis.hasjrel)
_BACKWARD = frozenset(op for op in dis.hasjrel if op < len(_NAMES) and "BACKWARD" in _NAMES[op])
_EXTENDED_ARG = dis.EXTENDED_ARG


def _cache_counts() -> list[int]:
    entries = opcode._inline_cache_entries  # type: ignore[attr-defined]
    if isinstance(entries, dict):
        return [entries.get(name, 0) for name in _NAMES]
    return list(entries) + [0] * (len(_NAMES) - len(entries))


_CACHES = _cache_counts()


class Instr:
    """One instruction. ``offset`` is that of its first code unit in the original code object, or -1."""

    __slots__ = ("arg", "direct", "extended", "new_offset", "offset", "op", "position", "target")

    def __init__(self, op: int, arg: int = 0, position: Position = (None, None, None, None), offset: int = -1) -> None:
        self.op = op
        self.arg = arg
        self.offset = offset
        self.position = position
        self.target: Instr | None = None
        self.direct = False  # a jump to the target itself, past what was inserted before it
        self.new_offset = 0
        self.extended = 0

    @property
    def name(self) -> str:
        return _NAMES[self.op]

    def __repr__(self) -> str:
        return f"<{self.offset} {self.name} {self.arg}>"


class Handler(NamedTuple):
    """A row of the exception table. ``end`` is None at the end of the code."""

    start: Instr
    end: Instr | None
    target: Instr
    depth: int
    lasti: bool


class Assembly(NamedTuple):
    code: CodeType
    instrs: list[Instr]
    handlers: list[Handler]

    def assemble(self, inserted: dict[Instr, list[Instr]], consts: tuple[object, ...], stacksize: int) -> CodeType:
        """The code with instructions inserted before some of its own. Whatever led to those leads to the inserted ones
        first, exception ranges included."""
        out: list[Instr] = []
        for instr in self.instrs:
            out.extend(inserted.get(instr, ()))
            out.append(instr)
        heads = {instr: new[0] for instr, new in inserted.items()}
        for instr in out:
            if instr.target is not None and not instr.direct:
                instr.target = heads.get(instr.target, instr.target)
        size = _lay_out(out)
        handlers = [
            Handler(
                heads.get(h.start, h.start),
                None if h.end is None else heads.get(h.end, h.end),
                heads.get(h.target, h.target),
                h.depth,
                h.lasti,
            )
            for h in self.handlers
        ]
        return remade(
            self.code,
            co_code=_emit(out),
            co_consts=consts,
            co_stacksize=stacksize,
            co_linetable=_line_table(out, self.code.co_firstlineno),
            co_exceptiontable=_exception_table(handlers, size),
        )


def remade(code: CodeType, **changes: Any) -> CodeType:
    """A copy of a code object, with changes: ``code.replace``, which forgets which variables are hidden."""
    made = code.replace(**changes)
    _C.copy_kinds(made, code)
    return made


def disassemble(code: CodeType) -> Assembly:
    raw = code.co_code
    positions = list(code.co_positions())
    instrs: list[Instr] = []
    by_offset: dict[int, Instr] = {}
    jumps: list[tuple[Instr, int]] = []
    at, arg, start = 0, 0, 0
    while at < len(raw):
        op = raw[at]
        arg |= raw[at + 1]
        if op == _EXTENDED_ARG:
            arg <<= 8
            at += 2
            continue
        instr = Instr(op, arg, positions[at // 2], start)
        at += 2 + 2 * _CACHES[op]
        if op in _JUMPS:
            jumps.append((instr, at - 2 * arg if op in _BACKWARD else at + 2 * arg))
        instrs.append(instr)
        by_offset[start] = instr
        arg, start = 0, at
    for instr, target in jumps:
        instr.target = by_offset[target]
    handlers = [
        Handler(by_offset[start], by_offset.get(end), by_offset[target], depth, lasti)
        for start, end, target, depth, lasti in _read_exception_table(code.co_exceptiontable)
    ]
    return Assembly(code, instrs, handlers)


def stack_depths(assembly: Assembly) -> dict[Instr, int]:
    """The depth of the stack before each reachable instruction."""
    instrs = assembly.instrs
    following = dict(itertools.pairwise(instrs))
    depths: dict[Instr, int] = {}
    work = [(instrs[0], 0)] + [(h.target, h.depth + h.lasti + 1) for h in assembly.handlers]
    while work:
        instr, depth = work.pop()
        while instr not in depths:
            depths[instr] = depth
            op = instr.op
            arg = instr.arg if op in _HAS_ARG else None
            if instr.target is not None:
                work.append((instr.target, depth + dis.stack_effect(op, arg, jump=True)))
            if op in ENDS:
                break
            depth += dis.stack_effect(op, arg, jump=False)
            after = following.get(instr)
            if after is None:
                break
            instr = after
    return depths


_HAS_ARG = frozenset(getattr(dis, "hasarg", range(dis.HAVE_ARGUMENT, 256)))
ENDS = frozenset(
    op
    for op, name in enumerate(_NAMES)
    if name
    in (
        "RETURN_VALUE",
        "RETURN_CONST",
        "RERAISE",
        "RAISE_VARARGS",
        "JUMP_FORWARD",
        "JUMP_BACKWARD",
        "JUMP_BACKWARD_NO_INTERRUPT",
    )
)


def _lay_out(instrs: list[Instr]) -> int:
    """Gives every instruction its offset and every jump its argument. Returns the size in bytes."""
    for instr in instrs:
        instr.extended = 0 if instr.arg < 256 else (instr.arg.bit_length() - 1) // 8
    while True:
        at = 0
        for instr in instrs:
            instr.new_offset = at
            at += 2 * (instr.extended + 1 + _CACHES[instr.op])
        grown = False
        for instr in instrs:
            if instr.target is None:
                continue
            after = instr.new_offset + 2 * (instr.extended + 1 + _CACHES[instr.op])
            distance = (instr.target.new_offset - after) // 2
            instr.arg = -distance if instr.op in _BACKWARD else distance
            if instr.arg < 0:
                raise ValueError("a jump changed its direction")
            needed = 0 if instr.arg < 256 else (instr.arg.bit_length() - 1) // 8
            if needed > instr.extended:
                instr.extended = needed
                grown = True
        if not grown:
            return at


def _emit(instrs: list[Instr]) -> bytes:
    out = bytearray()
    for instr in instrs:
        for n in range(instr.extended, 0, -1):
            out += bytes((_EXTENDED_ARG, instr.arg >> (8 * n) & 255))
        out += bytes((instr.op, instr.arg & 255))
        out += bytes(2 * _CACHES[instr.op])
    return bytes(out)


# The location table (Objects/locations.md of CPython): entries of 1 to 8 code units, numbers in 6-bit groups, least
# significant first.


_SMALL = tuple(bytes((n,)) for n in range(64))


def _varint(value: int) -> bytes:
    if value < 64:
        return _SMALL[value]
    out = bytearray()
    while value >= 64:
        out.append(0x40 | value & 63)
        value >>= 6
    out.append(value)
    return bytes(out)


def _line_table(instrs: list[Instr], first_line: int) -> bytes:
    out = bytearray()
    previous = first_line
    count, position = 0, instrs[0].position
    for instr in [*instrs, None]:
        if instr is None or instr.position != position:
            while count:
                entry, previous = _location(position, previous)
                units = min(count, 8)
                out.append(0x80 | entry[0] << 3 | units - 1)
                out += entry[1:]
                count -= units
            if instr is None:
                break
            position = instr.position
        count += instr.extended + 1 + _CACHES[instr.op]
    return bytes(out)


def _location(position: Position, previous: int) -> tuple[bytes, int]:
    line, end_line, column, end_column = position
    if line is None:
        return b"\x0f", previous
    delta = line - previous
    zigzag = -delta << 1 | 1 if delta < 0 else delta << 1
    if end_line is None or column is None or end_column is None:
        return b"\x0d" + _varint(zigzag), line
    return b"\x0e" + _varint(zigzag) + _varint(end_line - line) + _varint(column + 1) + _varint(end_column + 1), line


# The exception table: four numbers a row, in 6-bit groups, most significant first; bit 7 marks a row's start.


def _read_exception_table(table: bytes) -> Iterator[tuple[int, int, int, int, bool]]:
    data = iter(table)

    def number() -> int:
        byte = next(data)
        value = byte & 63
        while byte & 64:
            byte = next(data)
            value = value << 6 | byte & 63
        return value

    while True:
        try:
            start = number() * 2
        except StopIteration:
            return
        end = start + number() * 2
        target = number() * 2
        depth_lasti = number()
        yield start, end, target, depth_lasti >> 1, bool(depth_lasti & 1)


def _exception_table(handlers: list[Handler], size: int) -> bytes:
    out = bytearray()
    for handler in handlers:
        start = handler.start.new_offset
        end = size if handler.end is None else handler.end.new_offset
        first = True
        for value in (
            start // 2,
            (end - start) // 2,
            handler.target.new_offset // 2,
            handler.depth << 1 | handler.lasti,
        ):
            groups = [value & 63]
            while value >= 64:
                value >>= 6
                groups.append(value & 63 | 64)
            groups.reverse()
            if first:
                groups[0] |= 128
                first = False
            out += bytes(groups)
    return bytes(out)
