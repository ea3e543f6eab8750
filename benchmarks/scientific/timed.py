"""What a worker process does for one side of the suite: runs a version once and compares, then times it when told."""

from __future__ import annotations

import pickle
import time
from pathlib import Path

import figures
import numpy as np

from scientific import pages
from scientific.kernels import KERNELS
from scientific.results import agree, outcome
from scientific.sides import create


def save_arguments(folder: Path, arguments) -> None:
    """Writes what `load_arguments` reads: other processes need not make the data again."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, a in enumerate(arguments):
        if isinstance(a, np.ndarray):
            np.save(folder / f"{i}.npy", a)
    rest = [None if isinstance(a, np.ndarray) else a if isinstance(a, int) else float(a) for a in arguments]
    (folder / "rest.pickle").write_bytes(pickle.dumps(rest))


def load_arguments(folder: Path, shared: bool, written: tuple[int, ...] = ()) -> tuple:
    """The arguments; with `shared` the arrays that are not written have the pages of their files."""
    rest = pickle.loads((folder / "rest.pickle").read_bytes())

    def load(i):
        return (pages.load if shared and i not in written else np.load)(folder / f"{i}.npy")

    # Definitions take NumPy's scalars, of the arrays' type.
    return tuple(load(i) if a is None else np.float64(a) if isinstance(a, float) else a for i, a in enumerate(rest))


class Side:
    """The verbs that the parent sends; folders hold `small` and `timed` arguments, and `want`, a reference's outcome."""

    def __init__(self, side: str, device: str, folder: Path) -> None:
        self.side = create(side, device, folder)
        self.folder = folder

    def about(self, _):
        return self.side.about() | figures.versions()

    def versions(self, name):
        """The versions of a kernel that this side has, and their kinds."""
        self.kernel = KERNELS[name]
        self.makers = self.side.versions(name)
        self.functions, self.given = {}, None
        return {version: self.side.kind(version) for version in self.makers}

    def first(self, version):
        """Runs a version on small arguments and compares; seconds of that call, with what it compiles."""
        small = load_arguments(self.folder / self.kernel.name / "small", shared=False)
        given = self.side.given(small)
        try:
            self.side.compiled_before = 0.0
            start = time.perf_counter()
            function = self.makers[version]()
            if function is None:
                return {"failed": "it does not compile this kernel"}
            result = function(*given)
            self.side.wait(result)
            seconds = time.perf_counter() - start + self.side.compiled_before
            agree(self.kernel, self.outcome(given, result), self.load("want_small"))
        except Exception as error:
            return {"failed": reason(error)}
        self.functions[version] = function
        return {"first_call": seconds}

    def load(self, name):
        return [np.load(f, mmap_mode="r") for f in sorted((self.folder / self.kernel.name / name).glob("*.npy"))]

    def outcome(self, given, result):
        if self.side.functional:  # they return what others write, first
            results = list(result) if isinstance(result, (tuple, list)) else [result]
            return [self.side.host(r) for r in results]
        return [self.side.host(r) for r in outcome(self.kernel, given, result)]

    def prepare(self, request):
        """Runs a version at full size and compares with what the first side left there."""
        version, shared = request
        try:
            if self.given is None:
                arguments = load_arguments(self.folder / self.kernel.name / "timed", shared, self.kernel.written)
                self.given = self.side.given(arguments)
                written = () if self.side.functional else self.kernel.written
                self.fresh = [(self.given[i], self.side.copy(self.given[i])) for i in written]
                del arguments
            self.refill()
            result = self.functions[version](*self.given)
            self.side.wait(result)
            got = self.outcome(self.given, result)
            del result
            folder = self.folder / self.kernel.name / "want_timed"
            if folder.exists():
                agree(self.kernel, got, self.load("want_timed"))
            else:
                folder.mkdir()
                for i, array in enumerate(got):
                    np.save(folder / f"{i}.npy", array)
        except Exception as error:
            return {"failed": reason(error)}
        return {}

    def pilot(self, version):
        """Seconds of the fastest of some calls, after the one that may have compiled for these sizes.

        Four, or fewer that take 2 seconds; more where those do not take 20 ms: one that is disturbed decides nothing.
        """
        best, spent, calls = float("inf"), 0.0, 0
        try:
            while spent < 2 and (calls < 4 or spent < 0.02):
                seconds = self.call(version)
                best, spent, calls = min(best, seconds), spent + seconds, calls + 1
        except Exception as error:
            return {"failed": reason(error)}
        return {"pilot": best}

    def refill(self):
        for array, content in self.fresh:
            self.side.refill(array, content)
        self.side.wait(None)

    def call(self, version):
        """Seconds of a call on fresh arguments."""
        self.refill()
        start = time.perf_counter()
        result = self.functions[version](*self.given)
        self.side.wait(result)
        return time.perf_counter() - start

    def time(self, request):
        """Seconds a call, over that many, after one that warms caches and threads if `warm`."""
        version, calls, warm = request
        if warm:
            self.call(version)
        return sum(self.call(version) for _ in range(calls)) / calls

    def forget(self, _):
        self.given = self.fresh = None
        self.functions = {}
        self.side.forget()


def reason(error: Exception) -> str:
    """Why a version failed, in a line."""
    if isinstance(error, AssertionError):
        return f"wrong: {error}"
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200] if lines else ''}"
