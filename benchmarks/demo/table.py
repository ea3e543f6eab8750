"""Runs terrain.py in the interpreter on a sample, compiled and in NumPy at full size; prints a table, writes pictures.

usage: python table.py [--size 4096] [--sample 160] [--repeat 3] [--out out]
Times are per call: the median of ``repeat`` calls after a first one. Plain Python runs a sample of the work; its time
is scaled by the number of cells.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
KERNELS = ("refine", "slope", "hillshade", "smooth", "unsharp", "spmv", "pagerank")


def run(arguments, path, compiled, environment):
    """One run of terrain.py in a process of its own; what it saved."""
    command = [sys.executable, *(["-m", "appy"] if compiled else []), str(HERE / "terrain.py")]
    subprocess.run([*command, *arguments], check=True, env={**os.environ, **environment})
    with np.load(path) as saved:
        return dict(saved)


def seconds(value):
    for unit, scale in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if value * scale >= 1:
            return f"{value * scale:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def print_table(plain, fast, size, sample):
    scale = (size / sample) ** 2
    columns = f"{'Python':>10} {'NumPy':>10} {'appy':>10} {'x Python':>9} {'x NumPy':>8} {'difference':>11}"
    header = f"{'kernel':10} {columns}"
    print(header, "-" * len(header), sep="\n")
    for name in KERNELS:
        python = float(plain["time_" + name][1]) * scale
        numpy, appy = float(fast["numpy_" + name][1]), float(fast["time_" + name][1])
        difference = float(fast["difference_" + name])
        print(
            f"{name:10} {seconds(python):>10} {seconds(numpy):>10} {seconds(appy):>10} "
            f"{python / appy:>9.0f} {numpy / appy:>8.1f} {difference:>11.2g}"
        )
    first = sum(float(fast["time_" + name][0] - fast["time_" + name][1]) for name in KERNELS)
    print(f"\n{size} x {size} cells. Python: {sample} x {sample} cells, scaled.")
    print(f"First calls took {seconds(max(first, 0))} more.")


def write_pictures(fast, folder):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    maps = {"slope": "magma", "hillshade": "gray", "smooth": "terrain", "photo": "gray", "unsharp": "gray"}
    for name, cmap in maps.items():
        plt.imsave(folder / f"{name}.png", fast[name], cmap=cmap)
    for name in ("spmv", "pagerank"):
        plt.imsave(folder / f"{name}.png", np.log(fast[name] + 1e-12), cmap="viridis")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--sample", type=int, default=160)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("out"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    result = options.out / "terrain.npz"

    print(f"Plain Python, {options.sample} x {options.sample} cells ...", flush=True)
    plain = run([str(options.sample), str(result)], result, False, {})
    print(f"appy and NumPy, {options.size} x {options.size} cells ...\n", flush=True)
    arguments = [str(options.size), str(result), "--compare", "--pictures"]
    fast = run(arguments, result, True, {"DEMO_REPEAT": str(options.repeat)})
    print_table(plain, fast, options.size, options.sample)
    write_pictures(fast, options.out)
    result.unlink()
    print(f"Pictures are in {options.out}/")


if __name__ == "__main__":
    main()
