"""What a kernel leaves, and whether two versions left the same."""

from __future__ import annotations

import numpy as np

# Of the largest element: sums are long, and versions add in different orders. Exponentials of float32 differ by ulps.
TOLERANCE = {"float64": 1e-10, "float32": 3e-6}
# Orthogonalisation multiplies rounding errors by the condition of the matrix, of which the last columns of R and Q show
# all; libraries solve by inverses of diagonal blocks.
LOOSER = {"gramschmidt": 1e-7, "trisolv": 1e-9}


def outcome(kernel, arguments, result) -> list:
    """The arguments that the kernel writes, then what it returned."""
    returned = [] if result is None else list(result) if isinstance(result, tuple) else [result]
    return [arguments[i] for i in kernel.written] + returned


def agree(kernel, got, want) -> None:
    """Raises AssertionError where two outcomes are not equal up to rounding."""
    assert len(got) == len(want), f"{kernel.name}: {len(got)} results instead of {len(want)}"
    for number, (g, w) in enumerate(zip(got, want)):
        where = f"{kernel.name}, result {number}"
        assert g.shape == w.shape and g.dtype == w.dtype, f"{where}: {g.dtype}{g.shape} for {w.dtype}{w.shape}"
        if w.dtype.kind == "i":
            assert np.array_equal(g, w), f"{where}: not equal"
            continue
        assert np.array_equal(np.isfinite(g), np.isfinite(w)), f"{where}: other elements are infinite or NaN"
        tolerance = LOOSER.get(kernel.name, TOLERANCE[w.dtype.name])
        with np.errstate(invalid="ignore"):
            difference, size = np.nanmax(np.abs(g - w)), np.nanmax(np.abs(w))
        assert difference <= tolerance * size, f"{where}: differs by {difference / size:.1e} of the largest element"
