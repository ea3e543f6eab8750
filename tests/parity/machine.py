"""What the machine that runs the tests makes of graphs."""

from __future__ import annotations

import appy


def streams() -> int:
    """Rows of arrays that are read once that run together: with AVX-512, whose vectors are lines of memory, fewer."""
    return 4 if "512" in (appy.config()["isa"] or appy._C.detected_isa()) else 6
