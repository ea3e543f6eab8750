"""Loops with an `else`, and loops whose `break` leads elsewhere than to what follows them.

The region is the loop alone. It is traced in a copy of the code where each way out returns a mark, and in the rewritten
code the answer with that mark leads to where the `break` led.
"""

from __future__ import annotations

import dis
from types import CodeType
from typing import Any

from ._assemble import ENDS, Assembly, Instr, disassemble

_marks: list[str] = []


def mark(k: int) -> str:
    """What the k-th exit returns: told by identity, so that no value of the program is one."""
    while len(_marks) <= k:
        _marks.append(f"appy: exit {len(_marks)}")
    return _marks[k]


def traced_code(code: CodeType, assembly: Assembly, entry: Any) -> tuple[CodeType, int, int]:
    """The copy in which a region with exits is traced, and the offsets of the region there."""
    fresh = disassemble(code)
    twin = dict(zip(assembly.instrs, fresh.instrs))
    consts = list(code.co_consts)
    position = twin[entry.begin].position
    stubs: list[Instr] = []
    stub_of: dict[Instr, Instr] = {}
    for k, exit in enumerate(entry.exits):
        stub = Instr(dis.opmap["LOAD_CONST"], len(consts), position)
        stubs += [stub, Instr(dis.opmap["RETURN_VALUE"], 0, position)]
        stub_of |= {instr: stub for instr, of in entry.copies.items() if of is exit} or {exit: stub}
        consts.append(mark(k))
    inserted: dict[Instr, list[Instr]] = {}
    for instr, following in zip(assembly.instrs, [*assembly.instrs[1:], None]):
        if instr not in entry.members:
            continue
        if instr.target in stub_of:
            forward = instr.name.replace("_NO_INTERRUPT", "").replace("BACKWARD", "FORWARD")
            twin[instr].op = dis.opmap[forward]
            twin[instr].target = stub_of[instr.target]
        if instr.op not in ENDS and following in stub_of:
            jump = Instr(dis.opmap["JUMP_FORWARD"], 0, position)
            jump.target = stub_of[following]
            inserted[twin[following]] = [jump]
    handlers = [h if h.end is not None else h._replace(end=stubs[0]) for h in fresh.handlers]
    changed = Assembly(code, [*fresh.instrs, *stubs], handlers)
    made = changed.assemble(inserted, tuple(consts), code.co_stacksize + 1)
    return made, twin[entry.begin].new_offset, twin[entry.end].new_offset
