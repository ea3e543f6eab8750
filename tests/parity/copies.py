"""Copies of arrays that lie in memory as the originals do."""

from __future__ import annotations

import numpy as np


def relaid(a: np.ndarray, bases: dict[int, np.ndarray]) -> np.ndarray:
    """A copy with the same strides; what shared memory shares it again."""
    base = a if a.base is None else a.base
    copied = bases.setdefault(id(base), base.copy(order="K"))
    offset = a.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    out = np.ndarray(a.shape, a.dtype, copied, offset, a.strides)
    out.flags.writeable = a.flags.writeable
    return out
