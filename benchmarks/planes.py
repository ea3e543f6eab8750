"""What strips gain in stencils over large planes.

    python benchmarks/planes.py [--shapes 150x600x600,...] [--only seven_points,...] [--threads 2] [--rounds 9]
                                [--json FILE]

For each stencil and shape, in turns: milliseconds of a call with the pass `planes` and without it
(`APPY_DISABLE_PASS`), and the median of their ratios with its quartiles. `planes` is how many of them the stencil reads
at a time, two iterations together, and `MB` what these have.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
from without import Side, gain, spread

import appy


def seven_points(a, b):
    # pragma 0=>parallel 2=>simd
    b[1:-1, 1:-1, 1:-1] = 0.4 * a[1:-1, 1:-1, 1:-1] + 0.1 * (
        a[2:, 1:-1, 1:-1] + a[:-2, 1:-1, 1:-1] + a[1:-1, 2:, 1:-1] + a[1:-1, :-2, 1:-1]
        + a[1:-1, 1:-1, 2:] + a[1:-1, 1:-1, :-2]
    )  # fmt: skip


def along_planes(a, b):
    # Derivatives of the eighth order across planes, of the second one along lines.
    # pragma 0=>parallel 2=>simd
    b[4:-4, 4:-4, 4:-4] = (
        0.8 * (a[5:-3, 4:-4, 4:-4] - a[3:-5, 4:-4, 4:-4]) - 0.2 * (a[6:-2, 4:-4, 4:-4] - a[2:-6, 4:-4, 4:-4])
        + 0.04 * (a[7:-1, 4:-4, 4:-4] - a[1:-7, 4:-4, 4:-4]) - 0.004 * (a[8:, 4:-4, 4:-4] - a[:-8, 4:-4, 4:-4])
        + 0.5 * (a[4:-4, 5:-3, 4:-4] - a[4:-4, 3:-5, 4:-4])
    )  # fmt: skip


def long_lines(a, b):
    a, b = a.reshape(a.shape[0], -1), b.reshape(b.shape[0], -1)
    # pragma 0=>parallel 1=>simd
    b[1:-1, 1:-1] = 0.6 * a[1:-1, 1:-1] + 0.1 * (a[2:, 1:-1] + a[:-2, 1:-1] + a[1:-1, 2:] + a[1:-1, :-2])


STENCILS = {"seven_points": (seven_points, 4), "along_planes": (along_planes, 10), "long_lines": (long_lines, 4)}


def child(threads: int) -> None:
    """Answers lines on standard input: a stencil and a shape prepare one, an empty line times one call."""
    call = None
    for line in sys.stdin:
        if line.strip():
            name, shape = json.loads(line)
            a = np.random.default_rng(7).random(shape)
            b = np.zeros_like(a)
            function = appy.jit(strict=True, threads=threads)(STENCILS[name][0])
            call = lambda function=function, a=a, b=b: function(a, b)  # noqa: E731
            call()
            print(0, flush=True)
        else:
            assert call
            begin = time.perf_counter()
            call()
            print(json.dumps(time.perf_counter() - begin), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default=",".join(STENCILS), help="names, separated by commas")
    parser.add_argument("--shapes", default="256x256x256,200x400x400,150x600x600,60x1000x1000")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        return child(given.threads)
    command = [sys.executable, __file__, "--child", "--threads", str(given.threads)]
    sides = Side(command), Side(command, without="planes")
    print(f"{'':14}{'shape':>16}{'planes':>8}{'MB':>7}{'strips':>9}{'without':>9}  gain", flush=True)
    rows = []
    for name in given.only.split(","):
        for text in given.shapes.split(","):
            shape = [int(n) for n in text.split("x")]
            row = gain(sides, [name, shape], given.rounds)
            plane, planes = 8 * shape[1] * shape[2], STENCILS[name][1]
            rows.append({"stencil": name, "shape": shape, "plane": plane, **row})
            print(
                f"{name:14}{text:>16}{planes:8}{planes * plane / 2**20:7.1f}"
                f"{row['with'] * 1e3:9.2f}{row['without'] * 1e3:9.2f}  {spread(row)}",
                flush=True,
            )
    for side in sides:
        side.close()
    if given.json:
        given.json.write_text(json.dumps({"threads": given.threads, "rows": rows}, indent=1))
    return None


if __name__ == "__main__":
    main()
