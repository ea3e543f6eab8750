"""What appy costs besides the loops: dispatch, first calls, decoration, import, call-heavy Python, the PEP 523 hook.

usage: python benchmarks/overheads.py [--only dispatch,import] [--rounds 15] [--json FILE]

Every figure is a median over processes; what is compared runs in turn. Targets are those that the project set itself.
The appy is that of PYTHONPATH or, without it, of these sources.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

HOOK_SOURCE = """
#include <Python.h>
static PyObject *hook(PyThreadState *state, struct _PyInterpreterFrame *frame, int thrown) {
  return _PyEval_EvalFrameDefault(state, frame, thrown);
}
void install(void) { _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), hook); }
"""

CALLS = """
import sys, time
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
class Counter:
    def __init__(self):
        self.n = 0
    def add(self, k):
        self.n += k
        return self
def walk(depth, counter):
    counter.add(depth)
    if depth:
        walk(depth - 1, counter)
        walk(depth - 1, counter)
def work():
    fib(20)
    walk(12, Counter())
times = []
for _ in range(15):
    start = time.perf_counter()
    work()
    times.append(time.perf_counter() - start)
print(min(times))
"""


# In a process of its own each: prints numbers as JSON.


def per_call(function, *args, calls=20000, repeat=7):
    """Seconds a call: the best of a few runs, without the loop around it."""

    def timed(body):
        start = time.perf_counter()
        body()
        return time.perf_counter() - start

    def loop():
        for _ in range(calls):
            function(*args)

    def empty():
        for _ in range(calls):
            pass

    loop()
    return (min(timed(loop) for _ in range(repeat)) - min(timed(empty) for _ in range(repeat))) / calls


def child_dispatch():
    import numpy as np

    import appy

    def plain(x, n):
        pass

    @appy.jit(strict=True)
    def region(x, n):
        # pragma simd
        for i in range(n):
            x[i] = 0.0

    x = np.ones(8)
    region(x, 0)
    result = {"plain": per_call(plain, x, 0), "empty": per_call(region, x, 0), "one": per_call(region, x, 1)}
    assert region.stats()["runs"] > 0
    return result


def first_call(function, args):
    start = time.perf_counter()
    function(*args)
    seconds = time.perf_counter() - start
    assert function.stats()["runs"] > 0, function.stats()
    return seconds


def child_verifies():
    from appy import _C

    return _C.verifies_passes()


def child_first_saxpy():
    import numpy as np

    import appy

    @appy.jit(strict=True)
    def saxpy(a, x, y):
        # pragma parallel for simd
        for i in range(len(x)):
            y[i] += a * x[i]

    return first_call(saxpy, (2.0, np.ones(1000), np.ones(1000)))


def child_first_largest():
    import numpy as np

    import appy

    sys.path.insert(0, str(ROOT / "tests" / "parity"))
    import programs  # noqa: F401  (registers)
    from registry import PROGRAMS

    largest = max(PROGRAMS.values(), key=lambda p: len(p.function.__code__.co_code))
    saxpy = appy.jit(PROGRAMS["programs.saxpy"].function)
    saxpy(*PROGRAMS["programs.saxpy"].make("float64", np.random.default_rng(7)))
    args = largest.make(largest.dtypes[-1], np.random.default_rng(7))
    return {"name": largest.name, "seconds": first_call(appy.jit(strict=True)(largest.function), args)}


def child_first_kernels():
    """Seconds that each kernel of NPBench, as arrays and as loops, takes from bytecode to machine code, and from its
    decoration to the first result."""
    import warnings

    from scientific import appy_arrays, appy_loops
    from scientific.kernels import KERNELS

    import appy

    warnings.simplefilter("ignore")
    child_first_saxpy()  # whose first decoration imports what decorates
    seconds = {}
    for model in (appy_arrays, appy_loops):
        for name, kernel in KERNELS.items():
            if hasattr(model, name):
                before = appy.stats()["compile_seconds"]
                options = getattr(model, "OPTIONS", {}).get(name, {})
                start = time.perf_counter()
                compiled = appy.jit(strict=True, **options)(getattr(model, name))
                decorated = time.perf_counter() - start
                whole = decorated + first_call(compiled, kernel.compared_arguments("tiny"))
                form = model.__name__.rpartition("_")[2]
                compiling = appy.stats()["compile_seconds"] - before
                seconds[f"{name} as {form}"] = {"compiling": compiling, "whole": whole}
    return seconds


def child_decoration():
    """A module of 500 lines whose functions all hold a pragma; the first one decorated, and the following ones."""
    import importlib.util

    import numpy  # noqa: F401  (whoever has arrays has imported it)

    import appy

    function = (
        "def f{k}(a, x, y):\n    # pragma parallel for simd\n    for i in range(len(x)):\n        y[i] += a * x[i]\n\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "generated.py"
        path.write_text("".join(function.format(k=k) for k in range(100)))
        spec = importlib.util.spec_from_file_location("generated", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        times = []
        for k in range(100):
            start = time.perf_counter()
            appy.jit(getattr(module, f"f{k}"))
            times.append(time.perf_counter() - start)
    return {"first": times[0], "further": statistics.median(times[1:])}


def child_norm():
    """`mag(x)` is the same in every iteration: seconds at n and 2n, on one thread and written without `parallel`."""
    import math

    import numpy as np

    import appy

    def mag(x):
        total = 0.0
        for k in range(len(x)):
            total += x[k] * x[k]
        return math.sqrt(total)

    def parallel(x, out):
        # pragma parallel for simd
        for i in range(len(x)):
            out[i] = x[i] / mag(x)

    def serial(x, out):
        # pragma simd
        for i in range(len(x)):
            out[i] = x[i] / mag(x)

    n = 100_000
    threaded, one, alone = (
        appy.jit(strict=True, threads=threads)(f) for f, threads in ((parallel, None), (parallel, 1), (serial, None))
    )
    best = dict.fromkeys(("n", "2n", "one", "serial"), float("inf"))
    for _ in range(40):
        for name, function, size in (
            ("n", threaded, n),
            ("2n", threaded, 2 * n),
            ("one", one, n),
            ("serial", alone, n),
        ):
            x, out = np.ones(size), np.empty(size)
            function(x, out)
            start = time.perf_counter()
            for _ in range(5):
                function(x, out)
            best[name] = min(best[name], (time.perf_counter() - start) / 5)
    return best


def child_import():
    start = time.perf_counter()
    import numpy  # noqa: F401

    middle = time.perf_counter()
    import appy  # noqa: F401

    return {"numpy": middle - start, "appy": time.perf_counter() - middle}


def child_hook(kind, library):
    """Call-heavy Python without a hook, with an empty one, or with appy's."""
    if kind == "empty":
        import ctypes

        ctypes.PyDLL(library).install()
    elif kind == "appy":
        from appy import _C

        assert _C.install_hook([per_call.__code__])  # it waits for a function that is not called
    space = {"__name__": "calls"}
    out = []
    space["print"] = out.append
    exec(compile(CALLS, "calls.py", "exec"), space)
    return out[0]


# The measurements.


class Bench:
    def __init__(self, rounds, folder):
        self.rounds = rounds
        self.folder = Path(folder)
        self.rows = {}
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", str(ROOT)), str(ROOT)]),
            # As an installed package, appy has its bytecode.
            "PYTHONPYCACHEPREFIX": str(self.folder / "bytecode"),
            "PYTHONDONTWRITEBYTECODE": "",
        }
        self.child("decoration")  # writes it

    def child(self, *arguments):
        """The answer of one of the functions above, in a new process."""
        command = [sys.executable, __file__, "--child", *arguments]
        return json.loads(self.output(command))

    def output(self, command):
        return subprocess.run(command, check=True, capture_output=True, text=True, env=self.environment).stdout

    def repeat(self, *functions):
        """The answers of functions that are called in turn, a list for each."""
        answers = [[] for _ in functions]
        for r in range(self.rounds):
            for k in range(len(functions)) if r % 2 == 0 else reversed(range(len(functions))):
                answers[k].append(functions[k]())
        return answers

    def row(self, name, value, unit, target=None):
        self.rows[name] = {"value": value, "unit": unit, "target": target}
        verdict = "" if target is None else f"at most {target:g}  {'met' if value <= target else 'MISSED'}"
        print(f"{name:58} {value:9.3f} {unit:3} {verdict}", flush=True)

    def dispatch(self):
        (answers,) = self.repeat(lambda: self.child("dispatch"))
        plain = statistics.median(a["plain"] for a in answers)
        self.row("plain Python call", plain * 1e9, "ns")
        for kind, text in (("empty", "no iteration"), ("one", "one iteration")):
            extra = statistics.median(a[kind] - a["plain"] for a in answers)
            self.row(f"warm region, {text}, above a plain call", extra * 1e9, "ns", 300 if kind == "empty" else None)

    def first(self):
        if self.child("verifies"):
            print("This build verifies the graph after each pass (APPY_VERIFY): a release takes less for first calls.")
        saxpy, largest = self.repeat(lambda: self.child("first_saxpy"), lambda: self.child("first_largest"))
        self.row("first call of saxpy after import", statistics.median(saxpy) * 1e3, "ms", 1)
        name, seconds = largest[0]["name"], statistics.median(a["seconds"] for a in largest)
        self.row(f"first call of the largest program ({name})", seconds * 1e3, "ms", 10)
        (kernels,) = self.repeat(lambda: self.child("first_kernels"))
        targets = {
            "compiling": ("compiling a kernel of NPBench", 3, 10),
            "whole": ("from its decoration on", None, None),
        }
        for part, (what, typical, most) in targets.items():
            seconds = {name: statistics.median(a[name][part] for a in kernels) for name in kernels[0]}
            self.row(f"{what}, the median", statistics.median(seconds.values()) * 1e3, "ms", typical)
            longest = max(seconds, key=seconds.__getitem__)
            self.row(f"{what}, {longest}", seconds[longest] * 1e3, "ms", most)

    def decoration(self):
        (answers,) = self.repeat(lambda: self.child("decoration"))
        self.row("first decoration in a 500-line file", statistics.median(a["first"] for a in answers) * 1e3, "ms", 10)
        self.row("each further function", statistics.median(a["further"] for a in answers) * 1e3, "ms", 3)

    def norm(self):
        (answers,) = self.repeat(lambda: self.child("norm"))
        growth = statistics.median(a["2n"] / a["n"] for a in answers)
        self.row("x[i] / mag(x) in a parallel loop: 2n against n", growth, "x", 2.2)
        one = statistics.median(a["one"] / a["serial"] for a in answers)
        self.row("the same on one thread, against the loop without parallel", one, "x", 1.03)

    def imports(self):
        (answers,) = self.repeat(lambda: self.child("import"))
        self.row("import numpy", statistics.median(a["numpy"] for a in answers) * 1e3, "ms")
        self.row("import appy, after numpy", statistics.median(a["appy"] for a in answers) * 1e3, "ms")

    def transparent(self):
        script = self.folder / "calls.py"
        script.write_text(CALLS)
        plain, under = self.repeat(
            lambda: float(self.output([sys.executable, str(script)])),
            lambda: float(self.output([sys.executable, "-m", "appy", str(script)])),
        )
        ratio = statistics.median(u / p for p, u in zip(plain, under))
        self.row("call-heavy Python under python -m appy, against python", ratio, "x", 1.02)

    def hook(self):
        import sysconfig

        source, library = self.folder / "hook.c", self.folder / "hook.so"
        source.write_text(HOOK_SOURCE)
        include = sysconfig.get_path("include")
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", f"-I{include}", source, "-o", library], check=True)
        none, empty, appy = self.repeat(
            *(lambda k=k: self.child("hook", k, str(library)) for k in ("none", "empty", "appy"))
        )
        self.row("empty hook against none", statistics.median(e / n for n, e in zip(none, empty)), "x")
        self.row("appy's hook against an empty one", statistics.median(a / e for e, a in zip(empty, appy)), "x", 1.05)


def main():
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(globals()["child_" + sys.argv[2]](*sys.argv[3:])))
        return
    parts = ("dispatch", "first", "decoration", "norm", "imports", "transparent", "hook")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(parts))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.rounds, folder)
        for part in options.only.split(","):
            getattr(bench, part)()
    if options.json:
        options.json.write_text(json.dumps({"python": sys.version.split()[0], "rows": bench.rows}, indent=1))


if __name__ == "__main__":
    main()
