"""What a device runs as one region: the programs of tests/parity/test_captures.py on the emulated device."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

PARITY = Path(__file__).parent.parent / "parity"

COMPARE = f"""
import json, os, sys, warnings
sys.path[:0] = [{str(PARITY)!r}, {str(Path(__file__).parent)!r}]
import emulate
from test_captures import PROGRAMS, compare
warnings.simplefilter("ignore")
emulator = emulate.Emulator(os.environ["APPY_LIBCUDA"])
found = {{}}
for name in PROGRAMS:
    emulator.reset()
    compiled = compare(name, backend="cuda")
    calls = [emulator.calls(f"cuLaunch{{kind}}Kernel") for kind in ("", "Cooperative")]
    found[name] = [sum(calls), compiled.stats()["runs"], PROGRAMS[name].launches]
print(json.dumps(found))
"""


@pytest.mark.parametrize("order", ["forward", "reverse", "1", "2"])
def test_programs_and_their_launches(python, order):
    found = json.loads(python(COMPARE, APPY_EMULATOR_ORDER=order).splitlines()[-1])
    counted = {name: row for name, row in found.items() if row[2] is not None}
    assert {name: row[0] for name, row in counted.items()} == {name: row[2] for name, row in counted.items()}
    assert all(row[1] > 0 for row in counted.values())


COMPARE_ON_A_DEVICE = f"""
import sys, warnings
sys.path[:0] = [{str(PARITY)!r}, {str(Path(__file__).parent)!r}]
import emulate, os
import numpy as np
import fake_cupy
cupy = fake_cupy.install()
import appy
from until_programs import PROGRAMS
from test_captures import outcome, same
warnings.simplefilter("ignore")
emulator = emulate.Emulator(os.environ["APPY_LIBCUDA"])

def moved(value, what, how):
    if isinstance(value, tuple | list):
        return type(value)(moved(each, what, how) for each in value)
    return how(value) if isinstance(value, what) else value

for name, program in PROGRAMS.items():
    if name == "overlapping":  # copies do not
        continue
    want = program.arguments()
    got = moved(program.arguments(), np.ndarray, cupy.array)
    expected = outcome(program.function, want)
    emulator.reset()
    answer = outcome(appy.jit(program.function), got)
    here = lambda value: moved(value, cupy.ndarray, lambda array: array.get()[()])
    assert same(here(answer), expected), (name, answer, expected)
    assert same(here(got), want), (name, got, want)
    launches = emulator.calls("cuLaunchKernel") + emulator.calls("cuLaunchCooperativeKernel")
    assert program.launches in (launches, None), (name, launches)
"""


def test_loops_until_something_holds_with_arrays_of_a_device(python):
    """What fails in the middle leaves arrays and variables as Python does, too."""
    python(COMPARE_ON_A_DEVICE, APPY_EMULATOR_EAGER=1)


def test_barriers_are_what_makes_captured_loops_right(python):
    text = COMPARE.replace("in PROGRAMS", "in ['jacobi_1d']")
    with pytest.raises(AssertionError, match="AssertionError"):
        python(text, APPY_EMULATOR_ORDER="reverse", APPY_DISABLE_PASS="barriers")


def test_random_programs(python):
    """More with ``python tests/gpu/random_captures.py 0 1000`` and the emulated device, or another one."""
    assert (
        python(str(Path(__file__).parent / "random_captures.py"), "0", "10", APPY_EMULATOR_ORDER="1") == "10 programs\n"
    )


ARRAYS_ON_A_DEVICE = f"""
import sys
sys.path[:0] = [{str(PARITY)!r}, {str(Path(__file__).parent)!r}]
import emulate, os
import numpy as np
import fake_cupy
cupy = fake_cupy.install()
import appy
from test_captures import PROGRAMS
emulator = emulate.Emulator(os.environ["APPY_LIBCUDA"])
compiled = appy.jit(PROGRAMS["jacobi_1d"].function)

def launches(function, *arguments):
    emulator.reset()
    function(*arguments)
    return emulator.calls("cuLaunchKernel") + emulator.calls("cuLaunchCooperativeKernel")

steps, a, b = PROGRAMS["jacobi_1d"].arguments()
x, y = cupy.array(a), cupy.array(b)
assert launches(compiled, steps, x, y) == 1
PROGRAMS["jacobi_1d"].function(steps, a, b)
np.testing.assert_allclose(x.get(), a, rtol=1e-12)
assert compiled.stats()["regions"] == 3
assert launches(compiled, steps, a, b) == 0
text = str(appy.explain(compiled))
# The loop on both: tiled in time on the CPU.
assert text.count("entered") == 1 and "entered 2 times" in text, text
"""


def test_arrays_say_whether_it_is_one_region(python):
    python(ARRAYS_ON_A_DEVICE, APPY_EMULATOR_EAGER=1)


EXPLAINED = f"""
import sys
sys.path.insert(0, {str(PARITY)!r})
import appy
from test_captures import PROGRAMS
for name in ("jacobi_1d", "around"):
    program = PROGRAMS[name]
    compiled = appy.jit(program.function, backend="cuda")
    compiled(*program.arguments())
    text = str(appy.explain(compiled))
    assert text.count("entered") == 1, text
    assert "1 compiled" in text and "not compiled" not in text
telling = appy.jit(PROGRAMS["telling"].function, backend="cuda", strict=True)
telling(*PROGRAMS["telling"].arguments())
assert str(appy.explain(telling)).count("entered 3 times, 3 compiled") == 1
"""


def test_explain_shows_what_ran(python):
    python(EXPLAINED)
