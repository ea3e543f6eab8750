"""Checks of a wheel, run by scripts/wheel.

``needs WHEEL``: the libraries that its shared objects need are in the wheel or belong to every Linux.
``kernels``: the demo's kernels, compiled and plain, in an environment that holds nothing but the wheel and NumPy.
"""

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

SYSTEM = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}


def needs(wheel: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(wheel).extractall(folder)
        objects = [p for p in Path(folder).rglob("*") if re.search(r"\.so($|\.)", p.name)]
        carried = {p.name for p in objects}
        assert any(p.name.startswith("_C.") for p in objects), "the wheel holds no extension"
        for path in objects:
            dynamic = subprocess.run(["readelf", "-d", str(path)], check=True, capture_output=True, text=True).stdout
            needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
            missing = needed - carried - SYSTEM
            assert not missing, f"{path.name} needs {sorted(missing)}"
            print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB, needs {', '.join(sorted(needed))}")


def kernels() -> None:
    import numpy as np

    import appy

    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks" / "demo"))
    import kernels

    rng = np.random.default_rng(0)
    coarse, size = rng.uniform(0, 100, (20, 30)), 65
    fine = np.zeros((size, size))
    kernels.refine(coarse, fine)
    photo = rng.integers(0, 256, (size, size), dtype=np.uint8)
    ptr = np.concatenate([[0], np.cumsum(rng.integers(0, 5, 100))])
    idx, val = rng.integers(0, 100, ptr[-1]), rng.uniform(size=ptr[-1])
    leaks = rng.uniform(size=100) < 0.1
    cases = {
        "refine": (coarse, np.zeros((size, size))),
        "slope": (fine, 2.0, 3.0, np.zeros_like(fine)),
        "hillshade": (fine, 2.0, 3.0, 5.5, 0.7, np.zeros_like(fine)),
        "smooth": (fine.copy(), fine.copy(), 3),
        "unsharp": (photo, np.zeros((size, size), np.float32), photo.copy(), 1.5),
        "downhill": (fine, np.zeros_like(fine)),
        "spmv": (ptr, idx, val, rng.uniform(size=100), np.zeros(100)),
        "pagerank": (ptr, idx, val, leaks, np.full(100, 0.01), np.zeros(100), 0.85, 4),
    }
    for name, args in cases.items():
        plain_args, fast_args = (tuple(a.copy() if isinstance(a, np.ndarray) else a for a in args) for _ in range(2))
        plain = getattr(kernels, name)
        fast = appy.jit(strict=True)(plain)
        plain(*plain_args)
        fast(*fast_args)
        for p, f in zip(plain_args, fast_args):
            np.testing.assert_allclose(f, p, rtol=1e-12, atol=1e-12, err_msg=name)
        assert fast.stats()["runs"] > 0, name
    print(f"{len(cases)} kernels compiled and agree, {appy.__file__}, Python {sys.version.split()[0]}")


if __name__ == "__main__":
    if sys.argv[1] == "needs":
        needs(sys.argv[2])
    else:
        kernels()
