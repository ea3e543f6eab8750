"""First calls on a GPU, on CuPy arrays, in processes that find their kernels on disk and in those that do not.

    python benchmarks/first_calls.py [--only NAME,...] [--preset paper] [--rounds 5]

Each call is the first one of a process, which has made CuPy's context and nothing else; NVRTC keeps nothing by itself
(`CUDA_CACHE_DISABLE=1`) and appy's cache is a new folder. ``without`` is the first process, ``from disk`` the median and
the range of those after it, both in ms without the second call's time, that of the kernel itself. Of the median process
``trace``, ``passes`` and ``backend`` follow, and what its machine code took to be found and loaded.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CAPTURED = "jacobi_1d.arrays,jacobi_2d.arrays,jacobi_2d.loops,heat_3d.arrays,heat_3d.loops,fdtd_2d.arrays,fdtd_2d.loops"


def child(name: str, form: str, preset: str) -> dict[str, Any]:
    import cupy as cp
    import numpy as np
    from scientific import appy_arrays, appy_loops
    from scientific.kernels import KERNELS
    from scientific.sides import rebound

    import appy

    model = {"arrays": appy_arrays, "loops": appy_loops}[form]
    options = getattr(model, "OPTIONS", {}).get(name, {})
    compiled = appy.jit(strict=True, **options)(rebound(model, np=cp)[name])
    given = KERNELS[name].arguments(preset)
    seconds = []
    for _ in range(2):
        arguments = [cp.asarray(a) if isinstance(a, np.ndarray) else a for a in given]
        cp.cuda.runtime.deviceSynchronize()
        begin = time.perf_counter()
        compiled(*arguments)
        cp.cuda.runtime.deviceSynchronize()
        seconds.append(time.perf_counter() - begin)
    with contextlib.redirect_stdout(None):
        regions = appy.explain(compiled).regions
    rows = [one for region in regions for one in region["specializations"] if one["runs"]]
    out = {part: sum(one[f"{part}_seconds"] for one in rows) * 1e3 for part in ("trace", "passes", "backend")}
    out["code"] = sum(float(ms) for one in rows for ms in re.findall(r" in ([0-9.]+) ms \(text", one["summary"]))
    return {"first": seconds[0] * 1e3, "second": seconds[1] * 1e3, **out}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default=CAPTURED, help="kernels of NPBench, as NAME.arrays or NAME.loops")
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--rounds", type=int, default=5, help="processes that find the kernels")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(*options.child.split("."), options.preset)))
        return
    print(
        f"{'kernel':20} {'without':>8} {'from disk':>10} {'range':>13} {'run':>7}  of it trace, passes, backend, code"
    )
    for kernel in options.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            environment = os.environ | {
                "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", str(ROOT)), str(ROOT)]),
                "APPY_CACHE_DIR": folder,
                "CUDA_CACHE_DISABLE": "1",
            }
            command = [sys.executable, __file__, "--preset", options.preset, "--child", kernel]
            made = [
                json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)
                for _ in range(options.rounds + 1)
            ]
        without, *found = ({**one, "own": one["first"] - one["second"]} for one in made)
        middle = sorted(found, key=lambda one: one["own"])[len(found) // 2]
        own = [one["own"] for one in found]
        parts = ", ".join(f"{middle[part]:.1f}" for part in ("trace", "passes", "backend", "code"))
        print(
            f"{kernel:20} {without['own']:8.1f} {statistics.median(own):10.1f} "
            f"{f'{min(own):.1f} to {max(own):.1f}':>13} {middle['second']:7.2f}  {parts}",
            flush=True,
        )


if __name__ == "__main__":
    main()
