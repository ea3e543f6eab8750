"""What time tiles gain on this machine, and what any tiles could gain at most.

    python benchmarks/time_tiles.py [--preset L] [--threads 2] [--rounds 7] [--form arrays] [--apart 0] [--json FILE]

For each stencil of the suite, in turns: milliseconds of a call with the pass `time_tiles` and without it
(`APPY_DISABLE_PASS`), each after one that warms caches and threads as in `run.py`, the median of their ratios with its
quartiles, and the ratio of their minima. Then, on one thread and without the pass, nanoseconds an element and step: at
the preset's size, and of arrays that fit into half of the second-level cache and of the first-level one, whose rows
are as long as there is room for. What a step takes from there, no tiling is faster than: `at most` is the ratio of the
preset's to the least of the three. Where the arrays of the preset do not leave the last cache it says how much there
is to gain, and `beyond it` is the gain for arrays of six times that size. With `--apart SECONDS` rounds wait that
long, in all, until the processors have a core each (`apart.py`).
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import apart
import numpy as np
from scientific.data import MAKERS
from scientific.kernels import KERNELS
from without import Side, gain, spread

import appy

# How many arrays go through a kernel's steps, and how many dimensions they have.
STENCILS = {"jacobi_1d": (2, 1), "jacobi_2d": (2, 2), "heat_3d": (2, 3), "fdtd_2d": (3, 2)}
# Elements that small arrays have in each dimension but the last, by how many dimensions there are.
SHORT = {1: 1, 2: 10, 3: 6}


def cache_bytes(level: int) -> int:
    """Of one core's data; what Linux says of the first one, or what is usual where there is no /sys."""
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        if int((index / "level").read_text()) == level and (index / "type").read_text().strip() != "Instruction":
            text = (index / "size").read_text().strip()
            return int(text[:-1]) << {"K": 10, "M": 20}[text[-1]]
    return {1: 32, 2: 512}[level] << 10


def of_bytes(name: str, size: int) -> tuple[Any, ...]:
    """Arguments whose arrays have about so many bytes together, in rows as long as there is room for."""
    arrays, rank = STENCILS[name]
    shape = (SHORT[rank],) * (rank - 1)
    width = size // (8 * arrays * int(np.prod(shape)))
    steps = max(4, 10_000_000 // (width * int(np.prod(shape))))
    fields = [np.random.default_rng(7).random((*shape, width)) for _ in range(arrays)]
    return (steps, *fields, np.zeros(steps)) if name == "fdtd_2d" else (steps, *fields)


def larger(name: str, preset: str) -> tuple[Any, ...]:
    """The preset's arguments with six times as many elements and a sixth of the steps."""
    steps, *extents = KERNELS[name].sizes[preset].items()
    factor = 6 ** (1 / STENCILS[name][1])
    sizes = {steps[0]: max(4, steps[1] // 6)} | {key: round(n * factor) for key, n in extents}
    return MAKERS[name](**sizes)


def arguments_of(name: str, which: str, size: Any) -> tuple[Any, ...]:
    if which == "preset":
        return KERNELS[name].arguments(size)
    return larger(name, size) if which == "larger" else of_bytes(name, size)


def child(form: str, threads: int) -> None:
    """Answers lines on standard input: the arguments' description prepares a kernel, an empty line times one call."""
    warnings.simplefilter("ignore")
    module = importlib.import_module(f"scientific.appy_{form}")
    function, arguments = None, ()
    for line in sys.stdin:
        if line.strip():
            name, which, size = json.loads(line)
            arguments = arguments_of(name, which, size)
            function = appy.jit(strict=True, threads=threads)(getattr(module, name))
            function(*copies(arguments))
            elements = int(np.prod([n - 2 for n in arguments[1].shape])) * arguments[0]
            print(json.dumps(elements), flush=True)
        else:
            function(*copies(arguments))
            fresh = copies(arguments)
            begin = time.perf_counter()
            function(*fresh)
            print(json.dumps(time.perf_counter() - begin), flush=True)


def copies(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in arguments)


def per_element(side: Side, question: list[Any], rounds: int) -> float:
    """Seconds an element and step, the best of the calls."""
    elements = side.ask(question)
    return min(side.ask() for _ in range(rounds)) / elements


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default=",".join(STENCILS), help="names, separated by commas")
    parser.add_argument("--preset", default="L", choices=["tiny", "S", "M", "L"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--form", default="arrays", choices=["arrays", "loops"])
    parser.add_argument("--apart", type=float, default=0, metavar="SECONDS", help="to wait for cores; needs gcc")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        return child(given.form, given.threads)
    caches = [cache_bytes(level) for level in (1, 2)]
    command = [sys.executable, __file__, "--child", "--form", given.form, "--threads"]
    pair = Side([*command, str(given.threads)]), Side([*command, str(given.threads)], without="time_tiles")
    alone = Side([*command, "1"], without="time_tiles")
    print(
        f"{'':12}{'tiled':>9}{'without':>9}  {'gain':20}{'minima':>8}{'ns':>9}{'from L2':>9}{'from L1':>9}{'at most':>9}{'beyond it':>11}",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        waiting = apart.waiting(given.apart, Path(folder))
    rows = {}
    for name in given.only.split(","):
        row = gain(pair, [name, "preset", given.preset], given.rounds, waiting)
        sizes = [["preset", given.preset], ["bytes", caches[1] // 2], ["bytes", caches[0] * 3 // 4]]
        row["seconds"] = [per_element(alone, [name, *size], given.rounds) for size in sizes]
        row["at_most"] = row["seconds"][0] / min(row["seconds"])
        row["beyond"] = gain(pair, [name, "larger", given.preset], given.rounds, waiting)
        rows[name] = row
        ns = "".join(f"{s * 1e9:9.3f}" for s in row["seconds"])
        print(
            f"{name:12}{row['with'] * 1e3:9.2f}{row['without'] * 1e3:9.2f}  {spread(row):20}{row['of_minima']:8.2f}{ns}"
            f"{row['at_most']:9.2f}{row['beyond']['gain']:11.2f}",
            flush=True,
        )
        if row["shared_core"]:
            print(f"{'':12}in {row['shared_core']} of {given.rounds} rounds processors shared a core", flush=True)
    for side in (*pair, alone):
        side.close()
    if given.json:
        given.json.write_text(json.dumps({"threads": given.threads, "preset": given.preset, "rows": rows}, indent=1))
    return None


if __name__ == "__main__":
    main()
