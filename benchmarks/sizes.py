"""Single array statements against NumPy at sizes from 1 to 10 million elements.

usage: python benchmarks/sizes.py [--only exp,sum] [--largest 10000000] [--rounds 9] [--json FILE]

Each statement is one function, compiled and plain, which takes turns; the table gives NumPy's time over appy's, each the
median of the rounds' fastest calls. A cell in brackets is a loss: appy is slower by more than the time that a warm
region's dispatch takes in the same run, plus a tenth.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

import appy

DISPATCH = "nothing"
STATEMENTS = {
    DISPATCH: "x[0] = y[0]",
    "copy": "y[:] = x",
    "fill": "y[:] = 1.5",
    "add": "y[:] = x + z",
    "scale": "y[:] = 2.5 * x",
    "in_place": "y += x",
    "divide": "y[:] = x / z",
    "chain": "y[:] = x * z + y - x / 3 + z * 2",
    "reversed": "y[:] = x[::-1]",
    "stride_2": "h[:] = x[::2] + x[1::2]",
    "where": "y[:] = np.where(x > z, x, z)",
    "maximum": "y[:] = np.maximum(x, z)",
    "compare": "b[:] = x < z",
    "mask_none": "y[b] = 0.0",
    "mask_half": "y[c] = 0.0",
    "gather": "y[:] = x[i]",
    "cast": "f[:] = x",
    "int_add": "j[:] = i + i",
    "int_divide": "j[:] = i // 7",
    "sqrt": "y[:] = np.sqrt(x)",
    "exp": "y[:] = np.exp(x)",
    "log": "y[:] = np.log(x)",
    "sin": "y[:] = np.sin(x)",
    "tanh": "y[:] = np.tanh(x)",
    "power": "y[:] = x ** 2",
    "sum": "s[0] = np.sum(x)",
    "mean": "s[0] = np.mean(x)",
    "std": "s[0] = np.std(x)",
    "max": "s[0] = np.max(x)",
    "argmax": "i[0] = np.argmax(x)",
    "any": "b[0] = np.any(b)",
    "dot": "s[0] = x @ z",
    "cumsum": "y[:] = np.cumsum(x)",
    "outer": "m[:, :] = np.outer(u, v)",
    "broadcast": "m[:, :] = n + v",
    "transpose": "m[:, :] = n.T",
    "row_sums": "u[:] = np.sum(n, axis=1)",
    "column_sums": "v[:] = np.sum(n, axis=0)",
    "matrix_vector": "u[:] = n @ v",
    "vector_matrix": "v[:] = u @ n",
}
NAMES = "x y z h f b c i j s m n u v".split()
SIZES = (1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000)


def arguments(size):
    """x, y, z: `size` elements; h half of them; f float32; b, c bool, all
    and half of them false; i, j int64; s one; m, n square matrices of about
    `size` elements, u, v their rows.
    """
    rng = np.random.default_rng(3)
    x, y, z = rng.random((3, size)) + 0.5
    x = np.append(x, 0.5) if size % 2 else x
    y, z = np.resize(y, len(x)), np.resize(z, len(x))
    side = round(size**0.5)
    m, n = rng.random((2, side, side))
    return {
        "x": x, "y": y, "z": z, "h": np.empty(len(x) // 2), "f": np.empty(len(x), np.float32), "b": x > 3,
        "c": rng.random(len(x)) > 0.5,         "i": rng.integers(0, len(x), len(x)), "j": np.zeros(len(x), np.int64), "s": np.zeros(1), "m": m, "n": n,
        "u": rng.random(side), "v": rng.random(side),
    }  # fmt: skip


def functions(folder: Path):
    """The statements as functions of a module: plain and compiled."""
    path = folder / "statements.py"
    lines = ["import numpy as np", ""]
    for name, statement in STATEMENTS.items():
        lines += [f"def {name}({', '.join(NAMES)}):", "    # pragma 0=>parallel", f"    {statement}", ""]
    path.write_text("\n".join(lines))
    space: dict = {"__name__": "statements", "__file__": str(path)}
    exec(compile(path.read_text(), str(path), "exec"), space)
    return {name: (space[name], appy.jit(strict=True)(space[name])) for name in STATEMENTS}


def fastest(call, values, calls):
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(calls):
            call(*values)
        best = min(best, (time.perf_counter() - start) / calls)
    return best


def measure(plain, compiled, size, rounds):
    values = tuple(arguments(size)[name] for name in NAMES)
    compiled(*values)
    plain(*values)
    calls = max(1, min(2000, round(0.002 / fastest(plain, values, 1))))
    times = [(fastest(plain, values, calls), fastest(compiled, values, calls)) for _ in range(rounds)]
    return tuple(float(np.median(column)) for column in zip(*times))


def main():
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(STATEMENTS)[1:])
    parser.add_argument("--largest", type=int, default=SIZES[-1])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    sizes = [size for size in SIZES if size <= options.largest]
    rows: dict[str, dict[int, tuple[float, float]]] = {}
    losses = 0
    with tempfile.TemporaryDirectory() as folder:
        made = functions(Path(folder))
        plain, compiled = measure(*made[DISPATCH], 1, options.rounds)
        dispatch = compiled
        print(f"a warm region: {dispatch * 1e9:.0f} ns, the same in NumPy {plain * 1e9:.0f} ns")
        print(f"{'statement':16}" + "".join(f"{size:>10}" for size in sizes))
        for name in options.only:
            rows[name] = {}
            cells = []
            for size in sizes:
                plain, compiled = rows[name][size] = measure(*made[name], size, options.rounds)
                lost = compiled > 1.1 * plain + dispatch
                losses += lost
                cells.append(f"[{plain / compiled:.2f}]" if lost else f"{plain / compiled:.2f} ")
            print(f"{name:16}" + "".join(f"{cell:>10}" for cell in cells), flush=True)
    print(f"{losses} losses in {sum(map(len, rows.values()))} cells")
    if options.json:
        options.json.write_text(json.dumps({"dispatch": dispatch, "seconds": rows}, indent=1))


if __name__ == "__main__":
    main()
