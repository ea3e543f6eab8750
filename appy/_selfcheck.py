"""Before anything is compiled: does this interpreter look the way we think it does?"""

from __future__ import annotations

import sys
from typing import Any

from . import _C
from ._state import state
from ._warn import warn


def usable() -> bool:
    """False, after one notice, where frames or bytecode are not what this build was made for."""
    if not state.checked:
        state.checked = True
        problem = _problem()
        if problem:
            state.disabled = True
            warn(f"appy stays in the interpreter: {problem}", "", 0, "notice")
    return not state.disabled


def _problem() -> str:
    if sys.implementation.name != "cpython" or not (3, 11) <= sys.version_info[:2] <= (3, 13):
        return f"{sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]} is not supported"
    if not _reads_frames(object(), object()):
        return "the frame of a function could not be read"
    try:
        if _entered([False, True, (7,)]) != [3, 0, 7]:
            return "a rewritten function gives a wrong result"
    except Exception as error:
        return f"a function could not be rewritten ({error!r})"
    return ""


def _reads_frames(a: object, b: object) -> bool:
    return _C.frame_reads(a, b)


def _sample(n: int) -> int:
    total = 0
    for i in range(n):
        if i > 5:
            return i
        total += i
    return total


def _entered(answers: list[Any]) -> list[Any]:
    """What `_sample` gives for 3 when a region that answers so is put before its loop."""
    from types import FunctionType

    from ._assemble import disassemble
    from ._regions import locate
    from ._rewrite import call_region
    from .pragmas import PlacedPragma

    code = _sample.__code__
    line = code.co_firstlineno + 2
    place = PlacedPragma("loop", "", line, line + 3, line, 13, line, line + 3)
    assembly = disassemble(code)
    (region,) = locate(assembly, [place])
    consts = (*code.co_consts, iter(answers).__next__, True)
    inserted = {e.begin: call_region(e, len(consts) - 2, len(consts) - 1, []) for e in region.entries}
    rewritten = assembly.assemble(inserted, consts, code.co_stacksize + 3)
    entered = FunctionType(rewritten, {"range": range})
    return [entered(3) for _ in answers]
