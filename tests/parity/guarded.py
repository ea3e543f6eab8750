"""Memory whose neighbours may not be touched."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from collections.abc import Iterator

import numpy as np


@contextlib.contextmanager
def guarded_page() -> Iterator[np.ndarray]:
    """A page of bytes; the pages before and behind it may be neither read nor written while the context lasts."""
    page = mmap.PAGESIZE
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    whole = np.frombuffer(mmap.mmap(-1, 3 * page), np.uint8)  # unmapped with the last array that lies in it
    outside = [whole.ctypes.data + at for at in (0, 2 * page)]
    for start in outside:
        assert libc.mprotect(start, page, 0) == 0
    try:
        yield whole[page : 2 * page]
    finally:
        for start in outside:
            libc.mprotect(start, page, mmap.PROT_READ | mmap.PROT_WRITE)
