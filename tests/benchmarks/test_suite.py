"""The suite of benchmarks, run as a command on small data."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import processes  # noqa: E402
import roofline  # noqa: E402
from scientific import report, suite, timed  # noqa: E402
from scientific.kernels import KERNELS  # noqa: E402

LIMITS = {"bandwidth": {"1000": 1e11, "1000000": 1e10}, "flops": {"float64": 1e11, "float32": 2e11}}


def run(path: Path, *more: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), "--suite", "npbench", "--preset", "tiny"]
    command += ["--sides", "appy,numpy", "--rounds", "3", "--json", str(path), *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


def test_a_run_is_continued(tmp_path):
    path = tmp_path / "results.json"
    first = run(path, "--only", "syrk")
    assert first.returncode == 0, first.stderr
    data = json.loads(path.read_text())
    row = data["rows"]["syrk"]
    assert row["sides"]["appy"]["version"] in ("arrays", "loops") and not row["sides"]["appy"].get("failed")
    assert set(row["sides"]["appy"]["first_call"]) == {"arrays", "loops"}
    assert row["ratio"]["numpy"][1] <= row["ratio"]["numpy"][0] <= row["ratio"]["numpy"][2]
    assert data["about"]["appy"]["numpy"] == np.__version__ and data["settings"]["machine"]["cores"] >= 1

    second = run(path, "--only", "syrk,jacobi_1d", "--plot", str(tmp_path / "pictures"))
    assert second.returncode == 0, second.stderr
    assert "syrk: appy" not in second.stderr and "jacobi_1d: appy, loops" in second.stderr
    assert json.loads(path.read_text())["rows"]["syrk"] == row
    assert second.stdout.count("\nsyrk ") == 2 and "geometric mean" in second.stdout
    assert sorted(p.name for p in (tmp_path / "pictures").iterdir()) == [
        "first_calls.png",
        "heat_map.png",
        "roofline.png",
    ]

    none = run(path, "--only", "trmm", "--budget", "0")
    assert none.returncode == 0 and "not measured within the budget, run again to go on: trmm" in none.stdout

    other = run(path, "--preset", "S")
    assert other.returncode == 1 and "was written with another preset; --restart begins it anew" in other.stderr


def test_an_unknown_kernel_is_named(tmp_path):
    done = run(tmp_path / "none.json", "--only", "syrk,gems")
    assert done.returncode == 1 and "no kernel is called gems; there are azimint_naive" in done.stderr


def test_a_device_that_is_not_there_is_said(tmp_path):
    if importlib.util.find_spec("cupy"):
        pytest.skip("CuPy is installed")
    done = run(tmp_path / "none.json", "--device", "cuda", "--only", "syrk", "--sides", "appy")
    assert done.returncode == 1 and "No module named 'cupy'" in done.stderr
    assert done.stderr.endswith("appy does not start on cuda: its reason stands above\n")


def test_a_wrong_version_is_found(tmp_path, monkeypatch):
    side = timed.Side("numpy", "cpu", tmp_path)
    options = type("Options", (), {"preset": "tiny"})
    kernel = KERNELS["syrk"]
    suite.Suite(options, tmp_path).write_data(kernel, "tiny")
    assert side.versions("syrk") == ["default"]
    assert side.first("default")["first_call"] > 0
    side.makers = {"nothing": lambda: lambda *arguments: None, "fails": lambda: lambda *arguments: 1 / 0}
    assert side.first("nothing")["failed"].startswith("wrong: syrk, result 0: differs by")
    assert side.first("fails")["failed"] == "ZeroDivisionError: division by zero"


def test_each_call_has_fresh_arguments(tmp_path):
    side = timed.Side("numpy", "cpu", tmp_path)
    suite.Suite(type("Options", (), {}), tmp_path).write_data(KERNELS["cholesky"], "tiny")
    side.versions("cholesky")
    side.first("default")
    for shared in (False, True):
        seen = []
        compiled = side.function
        side.function = lambda A: seen.append(A.copy()) or compiled(A)  # noqa: B023
        assert side.prepare(shared)["pilot"] > 0
        side.time(3)
        side.function = compiled
        assert len(seen) > 4 and all(np.array_equal(seen[0], a) for a in seen)


def test_a_side_that_does_not_answer_is_lost_and_starts_again(tmp_path):
    worker = processes.Worker("numpy", tmp_path, "scientific:cpu")
    with pytest.raises(processes.Lost, match="no answer within 0 s"):
        worker.ask("about", timeout=0)
    worker.start()
    assert worker.ask("about", timeout=60)["numpy"] == np.__version__
    worker.process.kill()
    with pytest.raises(processes.Lost, match="its process ended"):
        worker.ask("about", timeout=60)


def test_the_best_version_is_ready_though_a_later_one_was_lost():
    ready = []

    def prepare(side, kernel, version, shared, found):
        ready[:] = [version] if version != "endless" else []  # its process was started again
        found["pilot"] |= dict.fromkeys(ready, 1.0)
        return bool(ready)

    def ask(*arguments):
        return ["best", "endless"]

    one = types.SimpleNamespace(prepare=prepare, ask=ask, options=types.SimpleNamespace(limit=1))
    found = suite.Suite.best_version(one, "numba", KERNELS["gemm"], False, lambda *_: None)
    assert found["version"] == "best" and ready == ["best"]


def test_the_floor_is_of_memory_or_of_arithmetic():
    assert roofline.floor(LIMITS, 1000, 10, "float64") == (1000 / 1e11, "memory")
    assert roofline.floor(LIMITS, 10**9, 10, "float64") == (10**9 / 1e10, "memory")
    assert roofline.floor(LIMITS, 8, 10**6, "float64") == (1e-5, "arithmetic")
    assert roofline.floor(LIMITS, 8, 10**6, "int32") == (1e-5, "arithmetic")  # half of float32's


@pytest.mark.parametrize(
    ("mine", "theirs", "interval", "want"),
    [
        (1e-5, 2e-5, (2.0, 1.9, 2.1), "ahead"),
        (2e-5, 1.5e-5, (0.75, 0.7, 0.8), "behind"),
        (2e-5, 2.1e-5, (1.05, 0.9, 1.2), "even"),
        (1.02e-5, 1.01e-5, (0.99, 0.98, 0.995), "tie"),
        (0.1e-5, 0.2e-5, (2.0, 1.9, 2.1), "ahead"),  # from a cache that is faster than the triad's memory
    ],
)
def test_verdicts(mine, theirs, interval, want):
    row = {"bytes": 0, "flops": 10**6, "dtype": "float64", "ratio": {"jax": interval}}
    row["sides"] = {"appy": {"seconds": mine}, "jax": {"seconds": theirs}}
    assert report.standing(row, LIMITS, "jax") == want


def test_the_mean_over_compilers_leaves_out_hand_written_kernels_and_what_is_far(capsys):
    def row(**sides):
        base = {"bytes": 0, "flops": 1, "dtype": "float64", "sides": {"appy": {"seconds": 1}}}
        base["sides"] |= {side: {"seconds": t} for side, t in sides.items()}
        return base | {"ratio": {side: (t, t, t) for side, t in sides.items()}}

    rows = {"a": row(cupy=8, jax=4, torch=2), "b": row(cupy=9, triton=1), "c": row(jax=100, torch=1), "d": row(torch=1)}
    report.print_summary(rows, LIMITS)
    said = capsys.readouterr().out
    assert "(CuPy, JAX, DaCe): geometric mean 15.33 over 3, 6.00 over the 2 that are at most 20 times slower" in said


def test_libraries_are_told_apart_and_recorded_figures_are_in_no_mean():
    row = {
        "ratio": {"jax": (2, 1, 3), "library": (1, 1, 1)},
        "sides": {"jax": {"seconds": 2}, "library": {"seconds": 1}},
    }
    assert report.best_peer(row, libraries=False) == "jax" and report.best_peer(row, libraries=True) == "library"
    assert report.recorded("gemm", "cpu", "M") == (pytest.approx(0.414), "NumPy")
    assert report.recorded("gemm", "cpu", "S") is None
    known = json.loads(report.RECORDED.read_text())
    for table in known.values():
        assert set(table["milliseconds"]) == set(KERNELS)
