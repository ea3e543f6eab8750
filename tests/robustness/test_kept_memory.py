"""Arrays of kept memory where a process begins and ends."""

import pytest


@pytest.mark.parametrize("make", ["empty(5)", "zeros(1 << 20)", "empty_like(np.ones(9))", "full((3, 4), 2.0)"])
def test_it_may_be_the_first_thing(python, make):
    python(f"import numpy as np, appy; a = appy.{make}; print(a.size)")


def test_arrays_outlive_the_module(python):
    """They are freed while the interpreter ends, by the handler that made them."""
    result = python("""
import numpy as np, appy

@appy.jit(strict=True)
def doubled(x):
    out = appy.empty_like(x)
    # pragma parallel for simd
    for i in range(x.shape[0]):
        out[i] = 2 * x[i]
    return out

kept = [doubled(np.arange(1e6)) for _ in range(3)]
print(kept[0][-1])
""")
    assert result.stdout == "1999998.0\n" and not result.stderr
