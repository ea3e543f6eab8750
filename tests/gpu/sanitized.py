"""The parity programs as kernels, without other libraries of the device, which the sanitizer takes long to watch: for
scripts/sanitize.

usage: python tests/gpu/sanitized.py PART PARTS: every PARTS-th program from PART on, each with one of its dtypes
"""

from __future__ import annotations

import sys
import traceback

from test_programs_cuda import ONCE, test_numpy

import appy


def main(part: int, parts: int) -> int:
    failures = 0
    for program, dtype in ONCE[part::parts]:
        try:
            test_numpy(program, dtype)
            appy.synchronize()
            print(f"{program.name}-{dtype} ok", flush=True)
        except Exception:
            failures += 1
            print(f"{program.name}-{dtype} FAILED\n{traceback.format_exc()}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
