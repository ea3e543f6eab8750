"""The suite of benchmarks, run as a command on small data."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import processes  # noqa: E402
import roofline  # noqa: E402
from scientific import report, sides, suite, timed  # noqa: E402
from scientific.kernels import KERNELS  # noqa: E402

REFUSED: set[tuple[str, str, str]] = set()  # versions that a compiler does not take
LIMITS = {"bandwidth": {"1000": 1e11, "1000000": 1e10}, "flops": {"float64": 1e11, "float32": 2e11}}


def run(path: Path, *more: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), "--suite", "npbench", "--preset", "tiny"]
    command += ["--sides", "appy,numpy", "--rounds", "3", "--footprint", str(1 << 21), "--json", str(path), *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


def test_a_sample_has_a_call_before_it():
    calls = []
    side = timed.Side.__new__(timed.Side)
    side.side = types.SimpleNamespace(wait=lambda _: None)
    side.fresh, side.given, side.functions = [], (), {"version": lambda: calls.append(1)}
    side.time(("version", 3, True))
    assert len(calls) == 4
    side.time(("version", 1, False))
    assert len(calls) == 5


def test_a_run_is_continued(tmp_path):
    path = tmp_path / "results.json"
    first = run(path, "--only", "syrk")
    assert first.returncode == 0, first.stderr
    data = json.loads(path.read_text())
    row = data["rows"]["syrk"]
    mine, theirs = row["sides"]["appy"], row["sides"]["numpy"]
    assert len(mine["measured"]) == 1 and not mine.get("failed")
    assert set(mine["first_call"]) == {"arrays", "loops"} and theirs["kind"] == {"default": "written"}
    middle, low, high = theirs["measured"]["default"]["ratio"]
    assert low <= middle <= high
    assert [int(size) for size in data["roofline"]["reading"]] == [1 << 17, 1 << 19, 1 << 21]
    assert data["about"]["appy"]["numpy"] == np.__version__ and data["settings"]["machine"]["cores"] >= 1

    second = run(path, "--only", "syrk,jacobi_1d", "--plot", str(tmp_path / "pictures"), "--apart", "1")
    assert second.returncode == 0, second.stderr
    assert "syrk: appy" not in second.stderr and "jacobi_1d: appy, loops" in second.stderr
    rows = json.loads(path.read_text())["rows"]
    assert rows["syrk"] == row and "shared_core" not in row and rows["jacobi_1d"]["shared_core"] >= 0
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


def test_a_run_is_not_continued_with_another_appy(tmp_path, monkeypatch):
    ours = suite.fingerprint()
    package = tmp_path / "appy"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "_C.so").write_bytes(b"one build")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert suite.folder_of_appy(sys.executable) == package
    one = suite.fingerprint()
    (package / "_C.so").write_bytes(b"another")
    assert len({ours, one, suite.fingerprint()}) == 3


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
    options = type("Options", (), {"preset": "tiny", "limit": 9})
    kernel = KERNELS["syrk"]
    suite.Suite(options, tmp_path).write_data(kernel, "tiny")
    assert side.versions("syrk") == {"default": "written"}
    assert side.first("default")["first_call"] > 0
    side.makers = {"nothing": lambda: lambda *arguments: None, "fails": lambda: lambda *arguments: 1 / 0}
    assert side.first("nothing")["failed"].startswith("wrong: syrk, result 0: differs by")
    assert side.first("fails")["failed"] == "ZeroDivisionError: division by zero"


def test_each_call_has_fresh_arguments(tmp_path):
    side = timed.Side("numpy", "cpu", tmp_path)
    suite.Suite(type("Options", (), {"limit": 9}), tmp_path).write_data(KERNELS["cholesky"], "tiny")
    side.versions("cholesky")
    side.first("default")
    compiled = side.functions["default"]
    for shared in (False, True):
        seen = []
        side.given = None
        side.functions["default"] = lambda A: seen.append(A.copy()) or compiled(A)  # noqa: B023
        assert side.prepare(("default", shared)) == {} and side.pilot("default")["pilot"] > 0
        side.time(("default", 3, True))
        assert len(seen) > 5 and all(np.array_equal(seen[0], a) for a in seen)


def test_a_call_that_fails_at_full_size_says_why(tmp_path):
    side = timed.Side("numpy", "cpu", tmp_path)
    suite.Suite(type("Options", (), {"preset": "tiny", "limit": 9}), tmp_path).write_data(KERNELS["syrk"], "tiny")
    side.versions("syrk")
    side.first("default")
    assert side.prepare(("default", False)) == {}
    side.functions["nothing"], side.functions["fails"] = lambda *_: None, lambda *_: 1 / 0
    assert side.prepare(("nothing", False))["failed"].startswith("wrong: syrk, result 0: differs by")
    assert side.pilot("fails") == {"failed": "ZeroDivisionError: division by zero"}
    assert side.prepare(("default", False)) == {}  # what the others did to the arguments is undone


def test_a_side_that_does_not_answer_is_lost_and_starts_again(tmp_path):
    worker = processes.Worker("numpy", tmp_path, "scientific:cpu")
    with pytest.raises(processes.Lost, match="no answer within 0 s"):
        worker.ask("about", timeout=0)
    worker.start()
    assert worker.ask("about", timeout=60)["numpy"] == np.__version__
    worker.process.kill()
    with pytest.raises(processes.Lost, match="its process ended"):
        worker.ask("about", timeout=60)


class Process:
    """A worker as far as Suite sees it: versions with their kinds, and the answers to each verb."""

    def __init__(self, kinds, pilots, endless=()):
        self.kinds, self.pilots, self.endless = kinds, pilots, endless
        self.held, self.asked = set(), []

    def start(self):
        self.held = set()

    def ask(self, verb, argument=None, timeout=None):
        self.asked.append((verb, argument))
        if verb == "versions":
            return self.kinds
        if verb == "first":
            self.held.add(argument)
            return {"first_call": 0.5}
        version = argument[0] if isinstance(argument, tuple) else argument
        if version in self.endless:
            raise processes.Lost("no answer within 9 s")
        assert version in self.held
        return {"pilot": self.pilots[version]} if verb == "pilot" else {}


def one_side(process, tmp_path, **more):
    options = types.SimpleNamespace(**{"limit": 9, "rounds": 5, "preset": "tiny", **more})
    made = suite.Suite(options, tmp_path)
    made.workers["jax"] = process
    return made


def test_the_best_version_of_each_kind_is_ready_though_another_was_lost(tmp_path):
    kinds = {"lapack": "library", "slow": "written", "default": "written", "rows": "rewritten", "blocks": "rewritten"}
    process = Process(kinds, {"lapack": 0.1, "default": 3.0, "rows": 2.0, "blocks": 1.0}, endless=("slow",))
    found = one_side(process, tmp_path).best_versions("jax", KERNELS["gemm"], False, lambda *_: None)
    assert found["best"] == ["lapack", "default", "blocks"] and set(found["best"]) <= process.held
    assert found["failed"] == {"slow": "no answer within 9 s"} and "slow" not in found["pilot"]
    firsts = [argument for verb, argument in process.asked if verb == "first"]
    assert firsts[:2] == ["slow", "default"]  # what is written comes first: only that takes others along


def test_nobody_is_stopped_before_four_times_what_appy_takes(tmp_path):
    made = one_side(None, tmp_path, limit=8)
    mine = {"pilot": {"loops": 3.0, "arrays": 2.0}, "whole": {"loops": 4.0, "arrays": 6.0, "failed": 1.0}}
    assert made.limit_beside(mine) == 16  # a version that failed afterwards says nothing
    assert made.limit_beside({"pilot": {"loops": 0.1}, "whole": {"loops": 1.0}}) == 8
    assert made.limit_beside({"pilot": {}, "whole": {"failed": 9.0}}) == made.limit_beside(None) == 8


def test_what_a_version_took_to_compute_once_is_kept(tmp_path):
    process = Process({"default": "written"}, {"default": 3.0})
    found = one_side(process, tmp_path).best_versions("jax", KERNELS["gemm"], False, lambda *_: None)
    assert set(found["whole"]) == {"default"} and 0 <= found["whole"]["default"] < 5


def test_what_was_lost_is_prepared_again(tmp_path):
    process = Process({"default": "written", "slow": "written"}, {"default": 3.0}, endless=("slow",))
    found = one_side(process, tmp_path).best_versions("jax", KERNELS["gemm"], False, lambda *_: None)
    assert found["best"] == ["default"] and process.held == {"default"}
    assert [argument for verb, argument in process.asked if verb == "first"] == ["default", "slow", "default"]


def test_a_version_that_is_much_slower_than_its_rivals_has_one_sample(tmp_path):
    kinds = {"default": "written", "rows": "rewritten", "library": "library"}
    found = {
        "appy": {"kind": {"loops": "own"}, "pilot": {"loops": 0.001}, "best": ["loops"]},
        "cupy": {"kind": kinds, "pilot": {"default": 0.5, "rows": 0.3, "library": 0.01}, "best": list(kinds)},
        "jax": {"kind": kinds, "pilot": {"default": 0.015, "rows": 0.02, "library": 0.0005}, "best": list(kinds)},
        "torch": {"kind": kinds, "pilot": {"library": 0.6}, "best": ["library"]},
    }
    planned = one_side(None, tmp_path).rounds(found)
    assert planned == {
        ("appy", "loops"): 5, ("cupy", "default"): 0, ("cupy", "rows"): 3, ("cupy", "library"): 3, ("jax", "default"): 3,
        ("jax", "rows"): 3, ("jax", "library"): 5, ("torch", "library"): 0,
    }  # fmt: skip
    slow = {side: {**f, "pilot": {v: 4.0 for v in f["pilot"]}} for side, f in found.items()}
    assert set(one_side(None, tmp_path).rounds(slow).values()) == {2}  # as many as the limit gives time for
    assert set(one_side(None, tmp_path, limit=7).rounds(slow).values()) == {0}

    times = {key: [0.001] * count for key, count in planned.items()}
    row = one_side(None, tmp_path).row(KERNELS["gemm"], found, times)
    assert row["sides"]["cupy"]["measured"]["default"] == {
        "seconds": 0.5, "fastest": 0.5, "rounds": 1, "ratio": (500.0, 500.0, 500.0),
    }  # fmt: skip
    assert row["sides"]["jax"]["measured"]["library"]["rounds"] == 5
    assert "ratio" not in row["sides"]["appy"]["measured"]["loops"]


def test_the_floor_is_of_memory_or_of_arithmetic():
    assert roofline.floor(LIMITS, 1000, 10, "float64") == (1000 / 1e11, "memory")
    assert roofline.floor(LIMITS, 10**9, 10, "float64") == (10**9 / 1e10, "memory")
    assert roofline.floor(LIMITS, 8, 10**6, "float64") == (1e-5, "arithmetic")
    assert roofline.floor(LIMITS, 8, 10**6, "int32") == (1e-5, "arithmetic")  # half of float32's
    # What only reads is compared with reading, where that was measured.
    reading = LIMITS | {"reading": {"1000": 2e11, "1000000": 5e9}}
    row = {"bytes": 10**9, "flops": 10, "dtype": "float64", "only_reads": True}
    assert roofline.floor_of(reading, row) == (10**9 / 5e9, "memory")
    assert roofline.floor_of(LIMITS, row) == roofline.floor_of(reading, row | {"only_reads": False})
    assert roofline.floor_of(LIMITS, row) == (10**9 / 1e10, "memory")


def test_footprints_are_at_least_one():
    assert roofline.up_to(1 << 19, roofline.FOOTPRINTS) == [1 << 17, 1 << 19]
    assert roofline.up_to(1, roofline.FOOTPRINTS_OF_DEVICES) == [1 << 24]


def test_of_two_rooflines_the_higher_rates_count():
    first = {"bandwidth": {"8": 5.0, "64": 2.0}, "reading": {"64": 3.0}, "flops": {"float64": 7.0}, "device": "x"}
    again = {"bandwidth": {8: 4.0, 64: 3.0}, "reading": {64: 2.0}, "flops": {"float64": 8.0}, "device": "x"}
    assert roofline.best_of(first, again) == {
        "bandwidth": {"8": 5.0, "64": 3.0}, "reading": {"64": 3.0}, "flops": {"float64": 8.0}, "device": "x",
    }  # fmt: skip
    del first["reading"], again["reading"]
    assert "reading" not in roofline.best_of(first, again)


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
    row = {"bytes": 0, "flops": 10**6, "dtype": "float64", "sides": canned(appy=mine)}
    peer = report.Measured("jax", "default", "written", theirs, theirs, 5, interval)
    assert report.standing(row, LIMITS, peer) == want


def canned(appy=1.0, **sides):
    """Sides of a row: `jax=4` is what is written, `jax_rows=2` rewritten, `jax_library=1` a library's; None was stopped."""
    measured = {"seconds": appy, "fastest": appy, "rounds": 5}
    found = {"appy": {"kind": {"loops": "own"}, "first_call": {"loops": 0.1}, "measured": {"loops": measured}}}
    for key, seconds in sides.items():
        side, _, version = key.partition("_")
        entry = found.setdefault(side, {"kind": {}, "first_call": {}, "failed": {}, "measured": {}})
        kind = "library" if version == "library" else "rewritten" if version else "written"
        entry["kind"][version or "default"] = kind
        if seconds is None:
            entry["failed"][version or "default"] = "no answer within 9 s"
            continue
        rounds = 1 if seconds > 100 else 5
        entry["measured"][version or "default"] = {
            "seconds": seconds, "fastest": seconds, "rounds": rounds, "ratio": (seconds / appy,) * 3,
        }  # fmt: skip
    return found


def canned_rows():
    base = {"bytes": 0, "flops": 1, "dtype": "float64", "limit": 9}
    return {
        "gemm": base | {"sides": canned(cupy=8, jax=4, torch_rows=2, library_library=0.5)},
        "gemver": base | {"sides": canned(cupy=9, cupy_rows=3, jax_rows=5)},
        "cholesky": base | {"sides": canned(cupy=200, jax=None, jax_library=0.25)},
        "symm": base | {"sides": canned(cupy=None, jax=None, jax_rows=0.5)},
        "hdiff": base | {"sides": canned(torch_rows=2)},
    }


def test_the_three_means(capsys):
    report.print_summary(canned_rows(), LIMITS, "cuda")
    said = capsys.readouterr().out.splitlines()
    assert said[:6] == [
        "against the best as written (CuPy, JAX, DaCe): geometric mean 19.31 over 3, ahead on 3 of 5, ahead or tie on 3",
        "    without the 1 where it is more than 20 times slower: geometric mean 6.00 over 2",
        "    no answer within the limit, in no mean: symm",
        "against the best idiomatic (written or rewritten): geometric mean 4.13 over 5, ahead on 4 of 5, ahead or tie on 4",
        "against the best of anything: geometric mean 0.82 over 5, ahead on 2 of 5, ahead or tie on 2",
        "against cupy: geometric mean 16.87 over 3",
    ]
    report.print_summary(canned_rows(), LIMITS, "cpu")
    said = capsys.readouterr().out
    assert (
        "against the best as written (NumPy, Numba, Pythran, JAX, DaCe): geometric mean 4.00 over 1, ahead on 1 of 5"
        in said
    )
    assert "without the" not in said


def test_the_table_names_versions_and_says_what_was_measured_once(capsys):
    machine = {"cpu": "some", "cores": 2}
    settings = {"machine": machine, "preset": "paper", "device": "cuda"}
    rows = canned_rows()
    report.print_table({"settings": settings, "rows": rows, "roofline": LIMITS}, [*rows, "trmm"])
    said = capsys.readouterr().out
    lines = {line.split()[0]: line for line in said.splitlines()[5:10]}
    assert " ".join(lines["cholesky"].split()[3:9]) == "cupy 200000.000 200.00 [one sample] +"
    assert "jax library    250.000   0.25 [0.25, 0.25] -" in lines["cholesky"]
    assert "no answer within 9 s" in lines["symm"] and "jax rows    500.000" in lines["symm"]
    assert lines["gemm"].count("jax   4000.000") == 1 and lines["gemm"].count("torch rows   2000.000") == 1
    assert "library    500.000" in lines["gemm"] and lines["gemver"].count("cupy rows   3000.000") == 2
    assert lines["hdiff"].split()[3] == "-"
    assert "200000.000*" in said and "* one sample" in said and "symm: jax, default: no answer within 9 s" in said
    assert "the best as written   " in said and "the best idiomatic (written or rewritten) " in said
    assert said.endswith("not measured within the budget, run again to go on: trmm\n")


def test_a_run_is_completed_from_one_with_a_longer_limit(tmp_path):
    settings = {"machine": {"cpu": "some", "cores": 2}, "preset": "paper", "device": "cuda", "code": "1"}
    rows = canned_rows()
    longer = {"symm": {**rows["symm"], "limit": 60, "sides": canned(jax=50, jax_rows=0.25)}}
    longer["symm"]["sides"]["jax"]["first_call"] = {"default": 3.0, "rows": 1.0}
    files = [tmp_path / "run.json", tmp_path / "longer.json", tmp_path / "other.json"]
    for file, content in zip(files, (rows, longer, longer)):
        told = settings | {"code": "2"} if file.stem == "other" else settings
        file.write_text(json.dumps({"settings": told, "roofline": LIMITS, "rows": content}))
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), "--suite", "npbench", "--show"]
    done = subprocess.run([*command, *files[:2]], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("symm "))
    assert "jax  50000.000  50.00" in line and "jax rows    500.000" in line  # what the run has stays
    assert "geometric mean 24.49 over 4, ahead on 4 of 5" in done.stdout and "in no mean" not in done.stdout
    assert "symm: cupy, default: no answer within 9 s" in done.stdout
    assert done.stdout.endswith("symm: jax, default: beside appy in a run with a limit of 60 s\n")
    other = subprocess.run([*command, files[0], files[2]], capture_output=True, text=True, timeout=60)
    assert other.returncode == 1 and other.stderr == "these runs are of another code\n"


def test_kinds_are_told_apart_and_recorded_figures_are_in_no_mean():
    row = canned_rows()["gemver"]
    written, idiomatic, anything = report.columns("cuda")
    assert written.best(row).name == "cupy" and idiomatic.best(row).name == anything.best(row).name == "cupy rows"
    assert report.recorded("gemm", "cpu", "M") == (pytest.approx(0.414), "NumPy")
    assert report.recorded("gemm", "cpu", "S") is None
    known = json.loads(report.RECORDED.read_text())
    for table in known.values():
        assert set(table["milliseconds"]) == set(KERNELS)


@pytest.mark.parametrize("side", ["numpy", "numba", "pythran", "jax", "dace", "library"])
@pytest.mark.parametrize("name", KERNELS)
def test_every_version_agrees_with_the_reference(side, name, tmp_path):
    if not sides.installed(side, "cpu"):
        pytest.skip(f"{side} is not installed")
    one = timed.Side(side, "cpu", tmp_path)
    suite.Suite(types.SimpleNamespace(limit=9), tmp_path).write_data(KERNELS[name], "tiny")
    found = one.versions(name)
    assert set(found.values()) <= set(sides.KINDS)
    assert side == "library" or "written" in found.values()
    for version in found:
        answer = one.first(version)
        assert "first_call" in answer or (side, name, version) in REFUSED, answer


@pytest.mark.parametrize("name", KERNELS)
def test_every_pragma_of_ours_says_something(name, tmp_path):
    for version in sides.SIDES["appy"](tmp_path).versions(name).values():
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            version()(*KERNELS[name].arguments("tiny"))
        assert not [str(w.message) for w in said]
