"""Where a region begins and ends in bytecode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ._assemble import Assembly, Instr

_NONE: Mapping[Instr, Instr] = {}


class Entry(NamedTuple):
    """One copy of the statement: the instructions ``[begin, end)`` of the code object, or its ``members``.

    With ``exits`` it is left elsewhere than to `end` as well: a `break` leads there, or a `return` stands there. The
    compiler may have made copies of these places, which the loop leads to.
    """

    begin: Instr
    end: Instr
    depth: int  # of the stack before `begin`
    returns: bool  # a `return` may leave it
    exits: tuple[Instr, ...] = ()
    members: frozenset[Instr] = frozenset()  # its instructions, where they do not stand in one piece
    copies: Mapping[Instr, Instr] = _NONE  # of `end` and the exits, those themselves among them


def is_entered_once(assembly: Assembly, begin: Instr, members: set[Instr]) -> bool:
    """Control enters these instructions at `begin` only, and none of them handles exceptions."""
    jumps = (i for i in assembly.instrs if i not in members)
    if any(i.target in members and i.target is not begin for i in jumps):
        return False
    return all(handler.target not in members for handler in assembly.handlers)
