"""New arrays on a device: in the order of what they are computed of, as NumPy's and torch's; in rows, as CuPy's."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

STATEMENTS = """
def scaled(x, y):
    # pragma 0=>parallel 1=>parallel
    c = 2 * x + y
    return c

def turned(x, y):
    # pragma 0=>parallel 1=>parallel
    c = x.T * 2
    return c

def with_row(x, y):
    # pragma 0=>parallel 1=>parallel
    c = x - y[0]
    return c

def of_temporaries(x, y):
    # pragma 0=>parallel 1=>parallel
    c = x * y
    # pragma 0=>parallel 1=>parallel
    d = c[1:] - c[:-1]
    # pragma :=>reduction(max)
    s = d.max()
    # pragma 0=>parallel 1=>parallel
    e = d - s
    return c, e

def of_shifts(x, y):
    # pragma 0=>parallel 1=>parallel
    c = x[1:, :-1] * y[:-1, 1:]
    return c

STATEMENTS = [scaled, turned, with_row, of_temporaries, of_shifts]
"""

PROGRAM = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import fake_cupy
cupy = fake_cupy.install()
import numpy as np
import appy
{STATEMENTS}
wrap = {{"numpy": np.asarray, "cupy": fake_cupy.ndarray}}[sys.argv[1]]
array = {{"numpy": np.asarray, "cupy": lambda a: a._array}}[sys.argv[1]]
for f in STATEMENTS:
    compiled = appy.jit(strict=True, backend="cuda")(f)
    for shape in [(7, 37), (64, 3), (3, 203), (16, 16)]:
        for orders in ("CC", "FF", "CF"):
            x, y = (np.asarray(np.random.default_rng(k).integers(0, 9, shape) * 0.5, order=o)
                    for k, o in enumerate(orders))
            want = f(x, y)
            got = compiled(wrap(x), wrap(y))
            appy.synchronize()
            both = zip(got, want) if isinstance(want, tuple) else [(got, want)]
            for a, b in both:
                text = f"{{f.__name__}} {{shape}} {{orders}}"
                np.testing.assert_array_equal(array(a), b, text)
                # CuPy's operators make rows.
                want_columns = b.flags.f_contiguous and sys.argv[1] == "numpy"
                assert array(a).flags.f_contiguous == want_columns, text
                assert array(a).flags.c_contiguous != want_columns, text
print("done")
"""


@pytest.mark.parametrize("library, shape", [("numpy", "piece=16,unroll=2"), ("cupy", "piece=16"), ("cupy", "unroll=1")])
def test_new_arrays_lie_as_the_librarys_do(eager, library, shape):
    assert eager(PROGRAM, library, shape=shape) == "done\n"


ON_DEVICE = f"""
import sys
import numpy as np
import appy
library = __import__(sys.argv[1])
if library.__name__ == "torch":
    wrap = lambda a: library.asarray(np.ascontiguousarray(a.T)).cuda().T if a.flags.f_contiguous else library.asarray(a).cuda()
    lies = lambda a: a.stride()
else:
    wrap, lies = library.asarray, lambda a: a.strides
{STATEMENTS}
if library.__name__ == "torch":
    STATEMENTS.remove(of_temporaries)  # its maximum is torch's, and named otherwise
for f in STATEMENTS:
    compiled = appy.jit(strict=True)(f)
    for shape in [(7, 37), (64, 3), (3, 203), (16, 16)]:
        for orders in ("CC", "FF"):
            x, y = (np.asarray(np.random.default_rng(k).integers(0, 9, shape) * 0.5, order=o)
                    for k, o in enumerate(orders))
            want, got = f(wrap(x), wrap(y)), compiled(wrap(x), wrap(y))
            for a, b in zip(got, want) if isinstance(want, tuple) else [(got, want)]:
                text = f"{{f.__name__}} {{shape}} {{orders}}"
                assert bool((a == b).all()), text
                assert lies(a) == lies(b), (text, lies(a), lies(b))
print("done")
"""


@pytest.mark.gpu
@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_new_arrays_lie_as_those_of_the_real_library(tmp_path, monkeypatch, capsys, library):
    pytest.importorskip(library)
    program = tmp_path / "program.py"
    program.write_text(ON_DEVICE)
    monkeypatch.setattr(sys, "argv", [str(program), library])
    runpy.run_path(str(program))
    assert capsys.readouterr().out == "done\n"
