"""Whether each processor has a core for itself at the moment.

The processors of a virtual machine may be threads of one core for seconds or minutes, which it is not told. All of them
together then have what one core has, and whatever is measured with as many threads is measured on fewer cores.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import sides

ROUNDS = 150_000  # some 0.5 ms
SHARED = 1.35  # times as long, from which on others take part of the core
PAUSE = 0.25  # seconds between two looks
LONG = 2.0  # seconds of a sample that has all states in it, and is not worth another one

Sample = TypeVar("Sample")


def compiled(folder: Path) -> Callable[[int], float]:
    """`busy` of busy.c: the seconds that so many rounds take. Needs gcc."""
    function = sides.c_library(sides.KERNELS / "busy.c", folder).busy
    function.restype = ctypes.c_double
    sink = ctypes.c_double()
    return lambda n: function(ctypes.c_int64(n), ctypes.byref(sink))


def slowdown(busy: Callable[[int], float]) -> float:
    """What the slowest processor takes when all are busy over what one takes alone."""
    allowed = os.sched_getaffinity(0)
    barrier = threading.Barrier(len(allowed))
    taken: dict[int, float] = {}

    def together(cpu: int) -> None:
        os.sched_setaffinity(0, {cpu})  # of this thread
        barrier.wait()
        # Others may begin later and end earlier: the one in the middle is beside all of them.
        taken[cpu] = sorted(busy(ROUNDS) for _ in range(3))[1]

    alone = min(busy(ROUNDS) for _ in range(3))
    threads = [threading.Thread(target=together, args=(cpu,)) for cpu in allowed]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return max(taken.values()) / alone


class Apart:
    """Waits for moments in which the processors are apart, `patience` seconds in all."""

    def __init__(self, look: Callable[[], float], patience: float, sleep: Callable[[float], None] = time.sleep) -> None:
        self.look, self.left, self.sleep = look, patience, sleep

    def wait(self) -> bool:
        """Whether they are, after waiting for it as long as there is patience."""
        while self.look() > SHARED:
            if self.left <= 0:
                return False
            self.left -= PAUSE
            self.sleep(PAUSE)
        return True

    def sample(self, take: Callable[[], Sample]) -> tuple[Sample, bool]:
        """What `take` gives, and whether processors were apart before and after it; it is called again until they were,
        or it takes long, or gives what failed instead of a time, or patience ends."""
        while True:
            before = self.wait()
            begin = time.monotonic()
            taken = take()
            apart = before and self.look() <= SHARED
            seconds = time.monotonic() - begin
            if apart or isinstance(taken, dict) or seconds > LONG or self.left <= 0:
                return taken, apart
            self.left -= seconds


def waiting(patience: float, folder: Path) -> Apart | None:
    """What waits so many seconds in all, or None where that is 0. Its code is compiled in the folder."""
    if patience <= 0:
        return None
    busy = compiled(folder)
    return Apart(lambda: slowdown(busy), patience)
