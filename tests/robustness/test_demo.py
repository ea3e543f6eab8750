"""The demo: one file, in the interpreter of a machine without appy and compiled under `python -m appy`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import appy

ROOT = str(Path(appy.__file__).parent.parent)
DEMO = Path(__file__).parents[2] / "benchmarks" / "demo"
SIZE = 48
WITHOUT_APPY = """
import runpy, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "appy":
            raise ModuleNotFoundError("No module named 'appy'", name=name)
sys.meta_path.insert(0, Absent())
sys.path.insert(0, {folder!r})
runpy.run_path({script!r}, run_name="__main__")
"""
REPORT = """
import atexit, json, sys
def report():
    appy = sys.modules.get("appy")
    print(json.dumps(appy and appy.stats()))
atexit.register(report)
"""


def run(*command, **environment):
    env = {**os.environ, "PYTHONPATH": ROOT, **environment}
    result = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=env, timeout=250)
    assert result.returncode == 0, result.stderr
    return result


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("demo")
    script = str(DEMO / "terrain.py")
    absent = folder / "absent.py"
    absent.write_text(WITHOUT_APPY.format(folder=str(DEMO), script=script))
    run(str(absent), str(SIZE), str(folder / "plain.npz"))
    # sitecustomize prints the counters at exit: the demo itself never names appy.
    (folder / "sitecustomize.py").write_text(REPORT)
    path = os.pathsep.join((str(folder), ROOT))
    compiled = run("-m", "appy", script, str(SIZE), str(folder / "fast.npz"), PYTHONPATH=path)
    with np.load(folder / "plain.npz") as plain, np.load(folder / "fast.npz") as fast:
        return dict(plain), dict(fast), compiled


def test_results_are_equal(results):
    plain, fast, _ = results
    names = [name for name in plain if not name.startswith("time_")]
    assert sorted(plain) == sorted(fast) and len(names) >= 8
    for name in names:
        assert plain[name].dtype == fast[name].dtype and plain[name].shape == fast[name].shape, name
        assert np.isfinite(plain[name]).all() and np.ptp(plain[name]) > 0, name
        if plain[name].dtype.kind == "f":
            scale = np.abs(plain[name]).max()
            np.testing.assert_allclose(fast[name], plain[name], rtol=1e-12, atol=1e-13 * scale, err_msg=name)
        else:
            np.testing.assert_array_equal(fast[name], plain[name], err_msg=name)


def test_every_region_was_compiled(results):
    _, _, compiled = results
    counters = json.loads(compiled.stdout.splitlines()[-1])
    assert compiled.stderr == ""
    assert counters["runs"] > 0 and counters["declined"] == 0
    regions = (DEMO / "kernels.py").read_text().count("# pragma parallel for")
    assert counters["regions"] >= regions
