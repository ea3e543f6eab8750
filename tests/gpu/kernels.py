"""The texts of all kernels that the parity programs need; ``python tests/gpu/kernels.py`` prints them to stderr.

Those of every other program have their loops unrolled.
No kernel is compiled or run: a device has to be there, and the emulated one suffices.
"""

from __future__ import annotations

import copy
import os
import re
import subprocess
import sys
from pathlib import Path

import emulate

ROOT = Path(__file__).parent.parent.parent
PARITY = ROOT / "tests" / "parity"


def register() -> dict:
    """The programs by name."""
    sys.path.insert(0, str(PARITY))
    modules = (
        "array_programs",
        "kernel_programs",
        "programs",
        "recurrence_programs",
        "scientific_programs",
        "triangle_programs",
        "type_programs",
    )
    for module in modules:
        __import__(module)
    return __import__("registry").PROGRAMS


def dump() -> None:
    import numpy as np

    import appy

    for each, program in enumerate(register().values()):
        os.environ["APPY_CUDA_SHAPE"] = ("unroll=1", "unroll=4,march=1")[each % 2]
        for number, dtype in enumerate(program.dtypes):
            arguments = program.make(dtype, np.random.default_rng(7))
            options = program.options | {"backend": "cuda", "strict": True, "dry_run": True, "dump": "asm"}
            sys.stderr.write(f"=== {number} {program.name} {dtype}\n")
            sys.stderr.flush()
            with np.errstate(all="ignore"):
                appy.jit(**options)(copy.copy(program.function))(*arguments)


def texts() -> dict[str, tuple[int, str]]:
    """Each kernel once, without lines and its name: the number of the dtype, and who needs it."""
    library = str(emulate.build())
    env = {name: value for name, value in os.environ.items() if not name.startswith("APPY_")}
    env |= {"PYTHONPATH": str(ROOT), "APPY_LIBCUDA": library, "APPY_LIBNVRTC": library, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, __file__], env=env, stderr=subprocess.PIPE, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, tuple[int, str]] = {}
    for part in re.split(r"^=== ", done.stderr, flags=re.MULTILINE)[1:]:
        head, _, rest = part.partition("\n")
        for listing in re.split(r"^--- .*\n", rest, flags=re.MULTILINE)[1:]:
            text = re.sub(r"^(#line| *//) .*\n", "", listing[: listing.index("\n}\n") + 3], flags=re.MULTILINE)
            found.setdefault(
                re.sub(r"\bappy_\w+\(const Params", "kernel(const Params", text), (int(head.split()[0]), head)
            )
    return found


if __name__ == "__main__":
    dump()
