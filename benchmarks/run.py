"""Side-by-side timings: appy against others (sides.py), each in a process of its own.

usage: python benchmarks/run.py --suite loops [--only saxpy,dot] [--rounds 15] [--json FILE] [--plot FILE]

A suite is a module of kernels/: `loops`, or `arrays` (array statements; its cases have no C version, C measures the
bandwidth only). Its SIDES are those compared, as far as they are installed.

A case is first checked: every side's result and written arrays must agree. Then, round by round, each side times the
same number of calls in turn while the others are stopped (SIGSTOP), so that nobody's spinning threads disturb the next.
The table gives the median time in milliseconds, and the median of the round-by-round ratios to appy with a 95 %
bootstrap interval; above 1 appy is faster: `+` ahead, `-` behind, `~` the interval holds 1. Where two sides both reach
95 % of the bandwidth that STREAM's triad reaches in the same run, with plain stores or with stores around the caches,
whichever is faster, it is a tie, `=`.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.metadata
import importlib.util
import json
import os
import pickle
import platform
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import sides

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "kernels"))
MARKS = {"ahead": "+", "behind": "-", "even": "~", "tie": "="}


class Worker:
    def __init__(self, side: str, folder: Path, suite: str) -> None:
        command = [sys.executable, str(HERE / "worker.py"), side, str(folder), suite]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, verb, argument):
        self.process.send_signal(signal.SIGCONT)
        pickle.dump((verb, argument), self.process.stdin)
        self.process.stdin.flush()
        answer = pickle.load(self.process.stdout)
        self.process.send_signal(signal.SIGSTOP)
        return answer

    def close(self):
        self.process.kill()
        self.process.wait()


# Share of elements that may differ: at the edge of the set one rounding decides when a point escapes.
CHAOTIC = {"mandelbrot": 0.001}


def agree(name, got, want):
    """Results equal up to reassociation and fused multiply-add."""
    got_result, got_arrays, _ = got
    want_result, want_arrays, _ = want
    if want_result is not None:
        np.testing.assert_allclose(got_result, want_result, rtol=1e-9)
    for g, w in zip(got_arrays, want_arrays):
        if name in CHAOTIC:
            assert np.mean(~np.isclose(g, w, rtol=1e-9, atol=1e-9)) <= CHAOTIC[name], name
        else:
            np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-9)


def interval(ratios, rng):
    """Median and its 95 % bootstrap interval."""
    samples = np.median(rng.choice(ratios, (2000, len(ratios))), axis=1)
    return float(np.median(ratios)), float(np.percentile(samples, 2.5)), float(np.percentile(samples, 97.5))


def measure(workers, name, rounds, rng):
    prepared = {side: w.ask("prepare", name) for side, w in workers.items()}
    present = [side for side in workers if prepared[side] is not None]
    for side in present:
        if side != "appy":
            agree(name, prepared[side], prepared["appy"])
    once = workers["appy"].ask("time", 1)
    calls = max(1, min(2000, round(0.02 / once)))
    times = {side: [] for side in present}
    for r in range(rounds):
        for side in present if r % 2 == 0 else reversed(present):
            times[side].append(workers[side].ask("time", calls))
    row = {"seconds": {s: float(np.median(t)) for s, t in times.items()}, "calls": calls, "ratio": {}}
    row["first_call"] = {s: prepared[s][2] for s in present}
    for side in present:
        if side != "appy":
            row["ratio"][side] = interval(np.array(times[side]) / np.array(times["appy"]), rng)
    return row


def triad(worker, name, n):
    """Bytes a second of STREAM's triad."""
    worker.ask("prepare", name)
    return 24 * n / min(worker.ask("time", 20) for _ in range(5))


def verdict(row, side, name, bandwidth, suite):
    if side not in row["ratio"]:
        return "-"
    if name in suite.TRAFFIC:
        if all(suite.TRAFFIC[name] / row["seconds"][s] >= 0.95 * bandwidth for s in ("appy", side)):
            return "tie"
    _, low, high = row["ratio"][side]
    return "ahead" if low > 1 else "behind" if high < 1 else "even"


def machine():
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown")
    gcc = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True).stdout.strip()
    versions = {"python": platform.python_version(), "numpy": np.__version__, "gcc": gcc}
    for package in ("numba", "pythran", "numexpr"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "kernel": platform.release(), **versions}


def print_row(name, row, others):
    cells = [f"{name:16}{row['seconds']['appy'] * 1e3:9.3f}"]
    for side in others:
        if side in row["ratio"]:
            m, low, high = row["ratio"][side]
            mark = MARKS[row["verdict"][side]]
            cells.append(f"{row['seconds'][side] * 1e3:9.3f} {m:6.2f} [{low:6.2f},{high:7.2f}] {mark}")
        else:
            cells.append(f"{'-':>35}")
    print(" ".join(cells), flush=True)


def installed(side):
    package = sides.NEEDS.get(side, side)
    return side in ("appy", "c") or importlib.util.find_spec(package) is not None


def plot(rows, others, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(rows)
    figure, axes = plt.subplots(figsize=(11, 5))
    width = 0.8 / len(others)
    for k, side in enumerate(others):
        at = [i + width * (k - (len(others) - 1) / 2) for i, n in enumerate(names) if side in rows[n]["ratio"]]
        triples = [rows[n]["ratio"][side] for n in names if side in rows[n]["ratio"]]
        heights = [t[0] for t in triples]
        errors = [[t[0] - t[1] for t in triples], [t[2] - t[0] for t in triples]]
        axes.bar(at, heights, 0.9 * width, yerr=errors, label=f"against {side}", capsize=1.5)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_yscale("log")
    axes.set_xticks(range(len(names)), names, rotation=60, ha="right")
    axes.set_ylabel("speed of appy (above 1: appy is faster)")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def geomean(values):
    return float(np.exp(np.mean(np.log(values)))) if values else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", choices=["loops", "arrays"], required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--sides", help="those of the suite, if not given")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()

    suite = importlib.import_module(options.suite)
    wanted = options.only.split(",") if options.only else list(suite.CASES)
    asked = options.sides.split(",") if options.sides else [side for side in suite.SIDES if installed(side)]
    others = [side for side in asked if side != "appy" and (side != "c" or options.suite == "loops")]
    rng = np.random.default_rng(0)
    rows = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        workers = {
            side: Worker(side, Path(folder), options.suite) for side in ("appy", *(s for s in asked if s != "appy"))
        }
        for worker in workers.values():
            stack.callback(worker.close)
        bandwidth = float("inf")
        if "c" in workers:
            triads = [triad(workers["c"], name, suite.N) for name in ("triad", "triad_streaming")]
            bandwidth = max(triads)
            print(f"triad on arrays of {suite.N} doubles: {triads[0] / 1e9:.1f} GB/s, ", end="")
            print(f"with stores around the caches {triads[1] / 1e9:.1f} GB/s", flush=True)
        print(f"{'milliseconds':16}{'appy':>9} " + " ".join(f"{side:>35}" for side in others))
        for name in wanted:
            row = measure(workers, name, options.rounds, rng)
            row["verdict"] = {s: verdict(row, s, name, bandwidth, suite) for s in others}
            rows[name] = row
            print_row(name, row, others)
            if name in suite.TRAFFIC:
                row["of_bandwidth"] = suite.TRAFFIC[name] / row["seconds"]["appy"] / bandwidth
                print(f"{'':16}{row['of_bandwidth']:9.2f} of the triad's bandwidth", flush=True)
    summary = {}
    for side in others:
        ratios = [r["ratio"][side][0] for r in rows.values() if side in r["ratio"]]
        counts = [r["verdict"][side] for r in rows.values()]
        summary[side] = {"geomean": geomean(ratios), "ahead_or_tie": sum(v in ("ahead", "tie") for v in counts)}
        summary[side]["at_least_1.2"] = sum(x >= 1.2 for x in ratios)
        print(
            f"against {side}: geometric mean {summary[side]['geomean']:.2f} over {len(ratios)}, ahead or tie on "
            f"{summary[side]['ahead_or_tie']}, at least 1.2x on {summary[side]['at_least_1.2']}"
        )
    if options.json:
        report = {"machine": machine(), "bandwidth": bandwidth, "rows": rows, "summary": summary}
        options.json.write_text(json.dumps(report, indent=1))
    if options.plot:
        plot(rows, others, options.plot)


if __name__ == "__main__":
    main()
