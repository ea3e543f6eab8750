"""Where the regions of pickled functions come back to life; named in their pickles."""

from __future__ import annotations

from typing import Any

from . import _C
from ._rewrite import Options, _regions
from ._state import state


def region(key: str, index: int, begin: int, end: int, rows: list[tuple[Any, ...]], options: Options) -> Any:
    """The region of that key, made from what its pickle says unless this process has it already. It takes its code from
    the first frame that calls it."""
    if state.disabled:
        return bool
    found = _regions.get((key, index))
    if found is None:
        line, end_line = rows[0][1], rows[0][2]
        found = _C.make_region(key, index, None, begin, end, rows, dict(options), "", "", line, end_line, None)
        from ._rewrite import _recipe

        _C.set_recipe(found, _recipe((key, index), begin, end, rows, options))
        _regions[key, index] = found
    return found
