"""Arrays in files that several processes map, in huge pages, as NumPy asks for where it makes arrays of some size itself.

Linux gives files in memory pages of 4 KiB by default, which a virtual machine reads a tenth slower: the processor looks up
five hundred times as many. It gathers them into huge ones when it is asked to (MADV_COLLAPSE, Linux 6.1), and a process
finds those as such where the file is mapped at a multiple of their size.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import weakref
from pathlib import Path

import numpy as np

HUGE = 2 << 20  # bytes of a huge page on x86-64
MADV_COLLAPSE = 25
MAP_FIXED = 0x10

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def mapped(path: Path, flags: int):
    """A file's bytes as a ctypes array, at a multiple of `HUGE`; they are unmapped when it is gone. OSError as of mmap."""
    size = path.stat().st_size
    rounded = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    with open(path, "r+b") as file:
        room = map_at(None, rounded + HUGE, mmap.PROT_READ, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1)
        start = -(-room // HUGE) * HUGE
        try:
            map_at(start, size, mmap.PROT_READ | mmap.PROT_WRITE, flags | MAP_FIXED, file.fileno())
        except OSError:
            libc.munmap(room, rounded + HUGE)
            raise
    found = (ctypes.c_ubyte * size).from_address(start)
    weakref.finalize(found, libc.munmap, room, rounded + HUGE)
    return found


def map_at(address: int | None, size: int, protection: int, flags: int, file: int) -> int:
    start = libc.mmap(address, size, protection, flags, file, 0)
    if start is None or start == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "mmap failed")
    return start


def gather(path: Path) -> bool:
    """Puts a file's pages together; whether all became huge but those behind the last whole one. Else they stay as they are."""
    with contextlib.suppress(OSError):
        found = mapped(path, mmap.MAP_SHARED)
        return libc.madvise(ctypes.addressof(found), len(found), MADV_COLLAPSE) == 0
    return False


def load(path: Path) -> np.ndarray:
    """The array in a .npy file; what is written to it stays in this process."""
    header = np.load(path, mmap_mode="r")
    if not header.size:
        return np.array(header)
    found = np.frombuffer(mapped(path, mmap.MAP_PRIVATE), dtype=header.dtype, count=header.size, offset=header.offset)
    return found.reshape(header.shape, order="F" if header.flags.fnc else "C")
