"""The parity programs as kernels, without pytest and other libraries of the device, for scripts/sanitize.

usage: python tests/gpu/sanitized.py PART PARTS: every PARTS-th program from PART on, each with one of its dtypes
"""

from __future__ import annotations

import sys
import traceback

import kernels
import numpy as np

import appy


def run(program, dtype):
    from compare import assert_same  # lies beside the programs

    wanted = program.make(dtype, np.random.default_rng(7))
    with np.errstate(all="ignore"):
        want = program.function(*wanted)
    arguments = program.make(dtype, np.random.default_rng(7))
    function = appy.jit(**program.options | {"strict": True, "backend": "cuda"})(program.function)
    got = function(*arguments)
    appy.synchronize()
    assert_same(got, want, ulps=program.ulps, scale=program.scale)
    assert_same(list(arguments), list(wanted), ulps=program.ulps, scale=program.scale, where="arguments")


def main(part: int, parts: int) -> int:
    failures = 0
    for number, program in list(enumerate(kernels.register().values()))[part::parts]:
        dtype = program.dtypes[number % len(program.dtypes)]
        try:
            run(program, dtype)
            print(f"{program.name}-{dtype} ok", flush=True)
        except Exception:
            failures += 1
            print(f"{program.name}-{dtype} FAILED\n{traceback.format_exc()}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
