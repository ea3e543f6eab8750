"""Measures the kernels side by side and keeps what it found in a JSON file, from which it goes on another time."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import figures
import numpy as np
import roofline
from processes import Lost, Worker

from scientific import reference, report, sides
from scientific.kernels import KERNELS
from scientific.results import outcome
from scientific.timed import save_arguments

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SMALL = "S"  # the preset on which results are compared with the reference
SAMPLE = 0.02  # seconds that a sample takes at least, unless a call takes longer
FEW = 3  # rounds of a side that is much slower than the fastest


def fingerprint() -> str:
    """Changes with the kernels, their versions and appy."""
    digest = hashlib.sha256()
    for path in sorted([*HERE.glob("*.py"), *(ROOT / "appy").glob("_C*.so"), *(ROOT / "appy").glob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class Progress:
    """Where the run is, on stderr."""

    def __init__(self, total: int) -> None:
        self.total, self.number, self.start = total, 0, time.perf_counter()

    def say(self, text: str, minor: bool = False) -> None:
        line = f"[{self.number}/{self.total}, {time.perf_counter() - self.start:.0f} s] {text}"
        if sys.stderr.isatty():
            print(f"\r\x1b[K{line[:110]}", end="", file=sys.stderr, flush=True)
        elif not minor:
            print(line, file=sys.stderr, flush=True)

    def clear(self) -> None:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


class Suite:
    def __init__(self, options, folder: Path) -> None:
        self.options, self.folder = options, folder
        self.rng = np.random.default_rng(0)
        self.workers: dict[str, Worker] = {}

    def start(self, names) -> dict[str, dict[str, str]]:
        """Starts the sides; what each says of itself. Those that cannot start are left out."""
        pythons = dict(entry.split("=", 1) for entry in self.options.python)
        about = {}
        for side in names:
            worker = Worker(side, self.folder, f"scientific:{self.options.device}", pythons.get(side, sys.executable))
            try:
                about[side] = worker.ask("about", timeout=120)
            except Lost as error:
                print(f"{side} is left out: {error}", file=sys.stderr)
            else:
                self.workers[side] = worker
        return about

    def close(self) -> None:
        for worker in self.workers.values():
            if worker.process.poll() is None:
                worker.close()

    def ask(self, side, verb, argument=None, timeout=None):
        """The answer, or what failed; a side that was lost is started again."""
        worker = self.workers[side]
        try:
            return worker.ask(verb, argument, timeout)
        except Lost as error:
            worker.start()
            return {"failed": str(error)}

    def write_data(self, kernel, preset) -> bool:
        """Arguments for the sides, and the reference's outcome. Whether all sides' copies would not fit in memory."""
        place = self.folder / kernel.name
        small = kernel.compared_arguments(SMALL)
        save_arguments(place / "small", small)
        (place / "want_small").mkdir()
        for i, array in enumerate(outcome(kernel, small, getattr(reference, kernel.name)(*small))):
            np.save(place / "want_small" / f"{i}.npy", array)
        arguments = kernel.arguments(preset)
        save_arguments(place / "timed", arguments)
        size = sum(a.nbytes for a in arguments if isinstance(a, np.ndarray))
        return size * (len(self.workers) + 2) > 0.5 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")

    def best_version(self, side, kernel, shared, say) -> dict:
        """Tries every version of a side and prepares the fastest; what was found."""
        found = {"first_call": {}, "pilot": {}, "failed": {}}
        versions = self.ask(side, "versions", kernel.name, self.options.limit)
        if isinstance(versions, dict):
            return found | {"failed": {"all": versions["failed"]}}
        ready = None
        for version in versions:
            say(f"{kernel.name}: {side}, {version}")
            # One that fails may have taken the process along, and what was ready in it.
            ready = version if self.prepare(side, kernel, version, shared, found) else None
        if found["pilot"]:
            best = found["version"] = min(found["pilot"], key=found["pilot"].get)
            if ready != best and not self.prepare(
                side, kernel, best, shared, {"first_call": {}, "pilot": {}, "failed": {}}
            ):
                del found["version"]
        return found

    def prepare(self, side, kernel, version, shared, found) -> bool:
        self.ask(side, "versions", kernel.name, self.options.limit)  # names the kernel to a side that was lost
        answer = self.ask(side, "first", version, self.options.limit)
        if "failed" not in answer:
            found["first_call"][version] = answer["first_call"]
            answer = self.ask(side, "prepare", shared, self.options.limit)
        if "failed" in answer:
            found["failed"][version] = answer["failed"]
            return False
        found["pilot"][version] = answer["pilot"]
        return True

    def measure(self, kernel, seconds, say) -> dict:
        """A row of the table; `seconds` are for the rounds."""
        preset = self.options.preset
        say(f"{kernel.name}: data")
        shared = self.write_data(kernel, preset)
        found = {side: self.best_version(side, kernel, shared, say) for side in self.workers}
        pilots = {side: f["pilot"][f["version"]] for side, f in found.items() if "version" in f}
        times: dict[str, list[float]] = {side: [] for side in pilots}
        fastest = min(pilots.values(), default=0.0)
        begin = time.perf_counter()
        for r in range(self.options.rounds):
            taken = time.perf_counter() - begin
            if r >= FEW and taken * (r + 1) / r > seconds:
                break
            say(f"{kernel.name}: round {r + 1}", minor=True)
            for side in pilots if r % 2 == 0 else reversed(pilots):
                if r < FEW or pilots[side] < 20 * fastest:
                    calls = max(1, min(200, round(SAMPLE / pilots[side])))
                    sample = self.ask(side, "time", calls, 60 + 100 * calls * pilots[side])
                    if isinstance(sample, dict):
                        found[side]["failed"][found[side]["version"]] = sample["failed"]
                        sample = float("nan")
                    times[side].append(sample)
        for side in self.workers:
            self.ask(side, "forget", None, 60)
        shutil.rmtree(self.folder / kernel.name)
        return self.row(kernel, found, times) | {"shared_pages": shared}

    def row(self, kernel, found, times) -> dict:
        work = dict(zip(("bytes", "flops"), kernel.work(self.options.preset)))
        row = {**work, "dtype": kernel.dtype, "sides": {}, "ratio": {}}
        for side, f in found.items():
            entry = {key: value for key, value in f.items() if value}
            if times.get(side) and np.isfinite(times[side]).all():
                entry |= {"seconds": float(np.median(times[side])), "fastest": min(times[side])}
                entry["rounds"] = len(times[side])
            row["sides"][side] = entry
        mine = times.get("appy", []) if "seconds" in row["sides"].get("appy", {}) else []
        for side, theirs in times.items():
            common = min(len(mine), len(theirs))
            if side != "appy" and common and "seconds" in row["sides"][side]:
                ratios = np.array(theirs[:common]) / np.array(mine[:common])
                row["ratio"][side] = figures.interval(ratios, self.rng)
        return row


def matching(path: Path, settings: dict) -> dict:
    """What the file holds, where it was written with the same settings; SystemExit where it was not."""
    if not path.exists():
        return {"settings": settings, "rows": {}}
    before = json.loads(path.read_text())
    differ = [key for key in settings if before.get("settings", {}).get(key) != settings[key]]
    if differ:
        raise SystemExit(f"{path} was written with another {', '.join(differ)}; --restart begins it anew")
    return before


def run(options) -> None:
    begin = time.perf_counter()
    wanted = options.only.split(",") if options.only else list(KERNELS)
    if unknown := set(wanted) - set(KERNELS):
        raise SystemExit(f"no kernel is called {', '.join(sorted(unknown))}; there are {', '.join(KERNELS)}")
    path = options.json or Path(f"npbench-{options.device}-{options.preset}.json")
    if options.restart:
        path.unlink(missing_ok=True)
    pythons = dict(entry.split("=", 1) for entry in options.python)
    names = options.sides.split(",") if options.sides else [
        side for side in sides.ON[options.device] if side in pythons or sides.installed(side, options.device)
    ]  # fmt: skip
    settings = {
        "preset": options.preset, "device": options.device, "machine": figures.machine(), "code": fingerprint(),
        "sides": names,
    }  # fmt: skip
    data = matching(path, settings)
    missing = [name for name in wanted if name not in data["rows"]]
    progress = Progress(len(missing))
    root = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="appy-benchmark-", dir=root) as folder:
        suite = Suite(options, Path(folder))
        try:
            if missing:
                data["about"] = suite.start(names)
                if "appy" in names and "appy" not in data["about"]:
                    raise SystemExit(f"appy does not start on {options.device}: its reason stands above")
                if "roofline" not in data:
                    progress.say("roofline")
                    data["roofline"] = roofline.measure(options.device, Path(folder))
            for number, name in enumerate(missing):
                left = options.budget - (time.perf_counter() - begin)
                if left <= 0:
                    break
                progress.number = number + 1
                row = suite.measure(KERNELS[name], 0.5 * left / (len(missing) - number), progress.say)
                data["rows"][name] = row | {"load": os.getloadavg()[0]}
                path.write_text(json.dumps(data, indent=1))
                progress.clear()
                report.print_progress(name, data)
        finally:
            suite.close()
    report.print_table(data, wanted)
    if options.plot:
        from scientific import plots

        plots.draw(data, wanted, options.plot)
