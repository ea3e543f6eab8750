"""Finds loops that are captured in bytecode, by following control from where they begin: `while` loops, and loops that
are left by `break` or `return`.

What is no part of the loop is where it is left: another statement, or a `return` in the loop itself, which the
interpreter executes. The compiler copies short ways out of a function, so several places may be one way.
"""

from __future__ import annotations

from collections.abc import Iterator

from ._assemble import ENDS, Assembly, Instr, Position
from ._captures import Capture, Span
from ._entries import Entry, is_entered_once

_JUMPS = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "NOP")
_RETURNS = ("RETURN_VALUE", "RETURN_CONST")
_MAX_COPY = 8  # instructions of a way out that is compared; what is longer is one place


def entries_of(assembly: Assembly, capture: Capture, depths: dict[Instr, int]) -> list[Entry | None]:
    """The copies of the loop; None for one that cannot be entered."""
    loop = _Loop(assembly, capture, depths)
    out: list[Entry | None] = []
    seen: set[Instr] = set()
    for instr in assembly.instrs:
        if instr not in seen and _lies_in(instr.position, capture.span):
            out.append(loop.entry_at(instr, seen))
    return out


def _lies_in(position: Position, span: Span) -> bool:
    line, end_line, column, end_column = position
    if line is None or end_line is None or column is None or end_column is None:
        return False
    return span.start <= (line, column) and (end_line, end_column) <= span.end


class _Loop:
    def __init__(self, assembly: Assembly, capture: Capture, depths: dict[Instr, int]) -> None:
        self.assembly = assembly
        self.capture = capture
        self.depths = depths
        self.place = {instr: at for at, instr in enumerate(assembly.instrs)}

    def entry_at(self, begin: Instr, seen: set[Instr]) -> Entry | None:
        """The copy that begins here. Adds what it consists of, its own returns included, to `seen`."""
        members, exits = self._follow(begin)
        seen.update(members)
        for instr in exits:
            seen.update(i for i in self._straight(instr) if _lies_in(i.position, self.capture.span))
        depth = self.depths.get(begin)
        if depth is None or not exits or any(self.depths.get(instr) != depth for instr in exits):
            return None
        ways = self._ways(exits)
        end = ways[-1]
        if self.place[end] <= self.place[begin] or not is_entered_once(self.assembly, begin, members):
            return None
        returns = any(i.name in _RETURNS for i in members)
        return Entry(begin, end, depth, returns, tuple(ways[:-1]), frozenset(members), self._copies(exits, ways))

    def _follow(self, begin: Instr) -> tuple[set[Instr], list[Instr]]:
        """The loop's instructions, and those that control enters next."""
        members: set[Instr] = set()
        exits: list[Instr] = []
        work = [begin]
        depth = self.depths.get(begin)
        while work:
            instr = work.pop()
            if instr in members or instr in exits:
                continue
            if not self._is_inside(instr, depth):
                exits.append(instr)
                continue
            members.add(instr)
            if instr.target is not None:
                work.append(instr.target)
            following = self.place[instr] + 1
            if instr.op not in ENDS and following < len(self.assembly.instrs):
                work.append(self.assembly.instrs[following])
        return members, sorted(exits, key=self.place.__getitem__)

    def _is_inside(self, instr: Instr, depth: int | None) -> bool:
        if instr.position[0] is None:  # jumps that the compiler made
            return instr.name in _JUMPS and _lies_in(self._landing(instr).position, self.capture.span)
        if not _lies_in(instr.position, self.capture.span):
            return False
        if self.depths.get(instr) != depth:
            return True
        if instr.name in ("JUMP_FORWARD", "JUMP_BACKWARD"):
            return _lies_in(self._landing(instr).position, self.capture.span)
        if any(_lies_in(instr.position, span) for span in self.capture.returns):
            return False
        # `return None`, which the compiler puts where a `break` or the end of the loop leads to the function's end.
        at = self.place[instr]
        following = self.assembly.instrs[at + 1] if at + 1 < len(self.assembly.instrs) else instr
        return instr.name != "RETURN_CONST" and (instr.name, following.name) != ("LOAD_CONST", "RETURN_VALUE")

    def _landing(self, instr: Instr) -> Instr:
        """Where jumps lead, one after the other."""
        for _ in range(_MAX_COPY):
            if instr.name not in _JUMPS:
                break
            instr = instr.target or self.assembly.instrs[self.place[instr] + 1]
        return instr

    def _straight(self, instr: Instr) -> Iterator[Instr]:
        for at in range(self.place[instr], len(self.assembly.instrs)):
            yield self.assembly.instrs[at]
            if self.assembly.instrs[at].op in ENDS:
                return

    def _way(self, instr: Instr) -> object:
        """Equal for places from where the same happens."""
        instr = self._landing(instr)
        straight: list[tuple[str, int, int | None]] = []
        for following in self._straight(instr):
            if following.target is not None or len(straight) == _MAX_COPY:
                return instr
            straight += _simple(following)
        constant = len(straight) <= 2 and straight[0][0] in ("LOAD_CONST", "RETURN_CONST")
        return tuple((name, arg, None if constant else line) for name, arg, line in straight)

    def _ways(self, exits: list[Instr]) -> list[Instr]:
        """One place for each way out, in the order of the last ones. Of copies the one that asks whether variables are
        bound serves all."""
        found: dict[object, Instr] = {}
        for instr in exits:
            way = self._way(instr)
            known = found.pop(way, None)
            asks = known is not None and any(i.name == "LOAD_FAST_CHECK" for i in self._straight(known))
            found[way] = known if known is not None and asks else instr
        return sorted(found.values(), key=self.place.__getitem__)

    def _copies(self, exits: list[Instr], ways: list[Instr]) -> dict[Instr, Instr]:
        """Every place where the loop is left, with the one that stands for it."""
        of = {self._way(instr): instr for instr in ways}
        return {instr: of[self._way(instr)] for instr in exits}


def _simple(instr: Instr) -> list[tuple[str, int, int | None]]:
    """As what it does where variables are bound."""
    if instr.name == "LOAD_FAST_LOAD_FAST":
        return [("LOAD_FAST", arg, instr.position[0]) for arg in (instr.arg >> 4, instr.arg & 15)]
    name = "LOAD_FAST" if instr.name == "LOAD_FAST_CHECK" else instr.name
    return [(name, instr.arg, instr.position[0])]
