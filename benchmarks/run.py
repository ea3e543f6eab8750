"""Side-by-side timings: appy against others (sides.py), each in a process of its own.

usage: python benchmarks/run.py --suite loops [--only saxpy,dot] [--rounds 15] [--json FILE] [--plot FILE]
       python benchmarks/run.py --suite npbench --preset M [--device cuda] [--budget 600]

A suite is a module of kernels/: `loops`, or `arrays` (array statements; its cases have no C version, C measures the
bandwidth only). Its SIDES are those compared, as far as they are installed. `npbench` is the package scientific/.

A case is first checked: every side's result and written arrays must agree. Then, round by round, each side times the
same number of calls in turn while the others are stopped (SIGSTOP), so that nobody's spinning threads disturb the next.
The table gives the median time in milliseconds, and the median of the round-by-round ratios to appy with a 95 %
bootstrap interval; above 1 appy is faster: `+` ahead, `-` behind, `~` the interval holds 1. Where two sides both reach
95 % of the bandwidth that STREAM's triad reaches in the same rounds, with plain stores or with stores around the
caches, whichever is faster, it is a tie, `=`.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import roofline
import sides
from figures import MARKS, geomean, interval, machine, verdict, versions
from processes import Worker

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "kernels"))


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


def measure(workers, name, rounds, rng, yardsticks):
    """Seconds a call and ratios by side; those of `yardsticks`, the triads of STREAM, in the same rounds."""
    prepared = {side: w.ask("prepare", name) for side, w in workers.items()}
    present = [side for side in workers if prepared[side] is not None]
    for side in present:
        if side != "appy":
            agree(name, prepared[side], prepared["appy"])
    once = workers["appy"].ask("time", 1)
    calls = max(1, min(2000, round(0.02 / once)))
    times = {side: [] for side in present}
    triads = {triad: [] for triad in yardsticks}
    for r in range(rounds):
        for side in present if r % 2 == 0 else reversed(present):
            times[side].append(workers[side].ask("time", calls))
        for triad, worker in yardsticks.items():
            triads[triad].append(worker.ask("time", calls))
    row = {"seconds": {s: float(np.median(t)) for s, t in times.items()}, "calls": calls, "ratio": {}}
    row["first_call"] = {s: prepared[s][2] for s in present}
    for side in present:
        if side != "appy":
            row["ratio"][side] = interval(np.array(times[side]) / np.array(times["appy"]), rng)
    row["triads"] = {triad: float(np.median(t)) for triad, t in triads.items()}
    return row


def bandwidth_of(row, suite):
    """Bytes a second of the faster triad in the row's rounds."""
    return 24 * suite.N / min(row["triads"].values()) if row["triads"] else float("inf")


def judge(row, side, name, suite):
    if side not in row["ratio"]:
        return "-"
    bandwidth = bandwidth_of(row, suite)
    tie = name in suite.TRAFFIC and all(
        suite.TRAFFIC[name] / row["seconds"][s] >= 0.95 * bandwidth for s in ("appy", side)
    )
    return verdict(row["ratio"][side], tie)


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


def print_bandwidth(name, row, suite):
    if not row["triads"]:
        return
    shares = {s: suite.TRAFFIC[name] / t / bandwidth_of(row, suite) for s, t in row["seconds"].items()}
    row["of_bandwidth"] = shares["appy"]
    rates = [24e-9 * suite.N / row["triads"][triad] for triad in ("triad", "triad_streaming")]
    in_c = f"; the same in C {shares['c']:.2f}" if "c" in shares else ""
    print(
        f"{'':16}{shares['appy']:9.2f} of the triad's bandwidth{in_c} (triad {rates[0]:.1f} GB/s, with stores around "
        f"the caches {rates[1]:.1f})",
        flush=True,
    )


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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", choices=["loops", "arrays", "npbench"], required=True)
    parser.add_argument("--only", default="", help="names of kernels, with commas between")
    parser.add_argument("--sides", help="those of the suite that are installed, if not given")
    parser.add_argument("--rounds", type=int, default=15, help="at most")
    parser.add_argument("--json", type=Path, help="where results go; npbench has a name by default and goes on from it")
    parser.add_argument("--plot", type=Path, help="a picture; for npbench a folder of pictures")
    npbench = parser.add_argument_group("npbench")
    npbench.add_argument("--preset", choices=["tiny", "S", "M", "L", "paper"], default="M")
    npbench.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    npbench.add_argument("--budget", type=float, default=float("inf"), help="seconds, after which no kernel is begun")
    npbench.add_argument(
        "--limit",
        type=float,
        default=90,
        help="seconds for a call of a version, or four times appy's where that is more",
    )
    npbench.add_argument(
        "--apart",
        type=float,
        default=0,
        metavar="SECONDS",
        help="wait, so long in all, for moments in which each processor has a core for itself, and take samples then",
    )
    npbench.add_argument(
        "--footprint",
        type=int,
        default=roofline.LARGEST,
        metavar="BYTES",
        help="of the largest arrays that the roofline is measured on",
    )
    npbench.add_argument("--restart", action="store_true", help="forget what the JSON file holds")
    npbench.add_argument(
        "--show",
        nargs="+",
        type=Path,
        metavar="JSON",
        help="print a run, completed from others with longer limits; measures nothing",
    )
    npbench.add_argument("--python", action="append", default=[], metavar="SIDE=PATH", help="a side's interpreter")
    options = parser.parse_args()
    if options.suite == "npbench":
        from scientific import suite

        suite.run(options)
        return

    suite = importlib.import_module(options.suite)
    wanted = options.only.split(",") if options.only else list(suite.CASES)
    if unknown := [name for name in wanted if name not in suite.CASES]:
        parser.error(f"--only: no kernel {', '.join(unknown)} in {options.suite}; it has {', '.join(suite.CASES)}")
    asked = options.sides.split(",") if options.sides else [side for side in suite.SIDES if installed(side)]
    others = [side for side in asked if side != "appy"]
    rng = np.random.default_rng(0)
    rows = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        workers = {
            side: Worker(side, Path(folder), options.suite) for side in ("appy", *(s for s in asked if s != "appy"))
        }
        for worker in workers.values():
            stack.callback(worker.close)
        yardsticks = {}
        if "c" in workers:
            for triad in ("triad", "triad_streaming"):
                yardsticks[triad] = stack.enter_context(contextlib.closing(Worker("c", Path(folder), options.suite)))
                yardsticks[triad].ask("prepare", triad)
        print(f"{'milliseconds':16}{'appy':>9} " + " ".join(f"{side:>35}" for side in others))
        for name in wanted:
            row = measure(workers, name, options.rounds, rng, yardsticks if name in suite.TRAFFIC else {})
            row["verdict"] = {s: judge(row, s, name, suite) for s in others}
            rows[name] = row
            print_row(name, row, others)
            if name in suite.TRAFFIC:
                print_bandwidth(name, row, suite)
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
        report = {"machine": {**machine(), **versions()}, "rows": rows, "summary": summary}
        options.json.write_text(json.dumps(report, indent=1))
    if options.plot:
        plot(rows, others, options.plot)


if __name__ == "__main__":
    main()
