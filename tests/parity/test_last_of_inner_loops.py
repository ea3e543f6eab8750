"""What variables of loops inside of loops in lanes hold afterwards, where those are left early."""

from __future__ import annotations

import numpy as np
import pytest

import appy


def searched(x, y, z, mask, idx, n, fl, state):
    try:
        k = j0 = 0
        # pragma parallel for simd
        for ix in range(n):
            k, j0 = j0 % 1000, int(fl * (x[ix + 50] if ix + 50 < len(x) else 0.5)) % 99
            if -3 <= y[idx[ix]] <= int(z[63 - ix]):
                # pragma simd
                for jx in range(0, 9, 2):
                    for kx in range(-12, 2):
                        if not mask[idx[kx]]:
                            break
    finally:
        state.update(locals())


@pytest.mark.parametrize("kind", [bool, np.int8, np.int16, np.float64])
@pytest.mark.parametrize("seed", range(4))
def test_search_in_each_lane(kind, seed):
    """Eight vectors of each variable are combined in the end, whatever the lanes of the narrowest type."""
    rng = np.random.default_rng(seed)
    arrays = [
        rng.uniform(-5, 5, 64),
        rng.uniform(-5, 5, 64).astype(np.float32),
        rng.integers(0, 9, 64, dtype=np.uint8)[::-1],
        rng.integers(0, 4, 64).astype(kind),
        rng.integers(-60, 60, 64, dtype=np.int32),
    ]
    states = [{}, {}]
    compiled = appy.jit(strict=True)(searched)
    for function, state in zip((searched, compiled), states, strict=True):
        function(*arrays, 25, 3.0, state)
        state.pop("state")
    assert states[0].keys() == states[1].keys()
    for name in ("k", "j0", "ix", "jx", "kx"):
        assert states[0].get(name) == states[1].get(name), name
    assert compiled.stats()["runs"] >= 1
