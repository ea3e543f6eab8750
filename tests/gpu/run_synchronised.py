"""Runs a program of synchronised.py in several orders of the emulated device's threads.

    python tests/gpu/run_synchronised.py NAME [--until-one-differs] ORDER...

prints for each order whether the answer is plain Python's, and a digest of it; to standard error, in the end, how many
barriers the kernel calls, beside those of reductions.
"""

from __future__ import annotations

import copy
import ctypes
import hashlib
import os
import re
import sys

import numpy as np
from synchronised import SYNCHRONISED

import appy


def main(name: str, orders: list[str]) -> None:
    function, make = SYNCHRONISED[name]
    want = make(np.random.default_rng(3))
    function(*want)
    compiled = appy.jit(strict=True, backend="cuda")(copy.copy(function))
    until_one_differs = orders[0] == "--until-one-differs"
    for order in orders[until_one_differs:]:
        os.environ["APPY_EMULATOR_ORDER"] = order
        got = make(np.random.default_rng(3))
        compiled(*got)
        arrays = [(g, w) for g, w in zip(got, want) if isinstance(w, np.ndarray)]
        same = all(np.allclose(g, w, rtol=1e-12, atol=1e-12) for g, w in arrays)
        digest = hashlib.sha256(b"".join(g.tobytes() for g, _ in arrays)).hexdigest()[:16]
        print(order, "same" if same else "differs", digest)
        if until_one_differs and not same:
            break
    assert compiled.stats()["declined"] == 0
    print(ctypes.CDLL(os.environ["APPY_LIBNVRTC"]).appy_emulator_barriers(), "barriers", file=sys.stderr)


def barriers(errors: str) -> int:
    """What main() said."""
    return int(re.findall(r"^(\d+) barriers$", errors, re.MULTILINE)[-1])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
