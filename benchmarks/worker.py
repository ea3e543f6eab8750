"""One side of a comparison in a process of its own: prepares a case, and times it when told. Driven by run.py.

usage: python worker.py SIDE FOLDER SUITE   with SIDE one of sides.SIDES and SUITE a module of kernels/, or one of
scientific/sides.py and `scientific:cpu` or `scientific:cuda`; requests and answers are pickles on pipes. The appy is
that of PYTHONPATH or, without it, of these sources.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import pickle
import signal
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "kernels"))
if "PYTHONPATH" not in os.environ:
    sys.path.insert(0, str(HERE.parent))


class Side:
    def __init__(self, side: str, folder: Path, suite) -> None:
        import sides

        self.function = sides.SIDES[side](suite, folder)
        self.suite = suite
        self.call = None

    def prepare(self, name):
        """Makes the case's data and runs it once; the result, the written arguments and the first call's seconds."""
        function = self.function(name)
        if function is None:
            return None
        if name.startswith("triad"):
            args = tuple(np.ones(self.suite.N) for _ in range(3))
        else:
            args = self.suite.CASES[name]()
        start = time.perf_counter()
        result = function(*args)
        first = time.perf_counter() - start
        self.call = lambda: function(*args)
        return result, [a.copy() for a in args if isinstance(a, np.ndarray)], first

    def time(self, calls):
        """Seconds a call, over that many calls in a row after one that warms caches and threads."""
        call = self.call
        call()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return (time.perf_counter() - start) / calls


def side_of(name, folder, suite):
    if suite.startswith("scientific:"):
        return importlib.import_module("scientific.timed").Side(name, suite.partition(":")[2], folder)
    return Side(name, folder, importlib.import_module(suite))


def main():
    ctypes.CDLL(None).prctl(
        1, signal.SIGKILL
    )  # PR_SET_PDEATHSIG: a stopped process would outlive the one that drives it
    side = side_of(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not mix with the answers
    while True:
        try:
            verb, argument = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(getattr(side, verb)(argument), answers)
        answers.flush()


if __name__ == "__main__":
    main()
