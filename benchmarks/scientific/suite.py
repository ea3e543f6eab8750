"""Measures the kernels side by side and keeps what it found in a JSON file, from which it goes on another time."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import apart
import figures
import numpy as np
import roofline
from processes import Lost, Worker

from scientific import pages, reference, report, sides
from scientific.kernels import KERNELS, Kernel
from scientific.results import outcome
from scientific.timed import save_arguments

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SMALL = "S"  # the preset on which results are compared with the reference
COMPILING = 180  # seconds that a version has on that preset at least, most of which it compiles
SAMPLE = 0.02  # seconds that a sample takes at least, unless a call takes longer
# Seconds of a call up to which another one goes before each sample. It warms threads and caches, and frees the memory for
# the next result: what has been free for seconds a virtual machine may have to ask its host for again, at 2 s a gigabyte.
WARMED = 1.0
FAR = 20  # times slower than the fastest: such a version has few rounds, or one sample where its rivals are that fast
FEW = 3
PATIENCE = 10  # times the limit that appy has, whose time the others' limit follows
SLOW = 4  # times as long as appy: others are not stopped before
DEAR = 0.1  # seconds of a call from which on such a version has one sample only; rounds of less cost little
RIVALS = {
    kind: sides.KINDS[: number + 1] for number, kind in enumerate(sides.KINDS)
}  # kinds that a version is compared with


def folder_of_appy(python: str) -> Path:
    """Of the appy that this interpreter finds, in the folder where sides are started; ours if it finds none."""
    code = "import importlib.util; print(importlib.util.find_spec('appy').origin)"
    found = subprocess.run([python, "-c", code], cwd=HERE.parent, capture_output=True, text=True)
    return Path(found.stdout.strip()).parent if found.returncode == 0 else ROOT / "appy"


def fingerprint(python: str = sys.executable) -> str:
    """Changes with the kernels, their versions and the appy that is measured."""
    digest = hashlib.sha256()
    appy = folder_of_appy(python)
    for path in sorted([*HERE.glob("*.py"), *appy.glob("_C*.so"), *appy.glob("*.py")]):
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
    def __init__(self, options, folder: Path, waiting: apart.Apart | None = None) -> None:
        self.options, self.folder, self.waiting = options, folder, waiting
        self.rng = np.random.default_rng(0)
        self.workers: dict[str, Worker] = {}
        self.ready: dict[str, set[str]] = {}  # by side, the versions that its process holds
        self.limit = options.limit  # seconds that a call of this kernel may take, with what it needs to get its data

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
            self.ready.pop(side, None)
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
        shared = size * (len(self.workers) + 2) > 0.5 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
        if shared:
            for path in (place / "timed").glob("*.npy"):
                pages.gather(path)
        return shared

    def best_versions(self, side, kernel, shared, say) -> dict:
        """Tries every version of a side; what was found, with `best` the fastest of each kind, which its process holds."""
        found = {"kind": {}, "first_call": {}, "whole": {}, "pilot": {}, "failed": {}, "best": []}
        kinds = self.introduce(side, kernel)
        if "failed" in kinds:
            return found | {"failed": {"all": kinds["failed"]}}
        found["kind"] = kinds
        # What is written takes longest, and takes what was ready in its process along where it is stopped.
        for version in sorted(kinds, key=lambda v: (*sides.KINDS, "own").index(kinds[v])):
            say(f"{kernel.name}: {side}, {version}")
            self.prepare(side, kernel, version, shared, found)
        for kind in dict.fromkeys(kinds.values()):
            best = min((v for v in found["pilot"] if kinds[v] == kind), key=found["pilot"].get, default=None)
            if best is not None and (best in self.ready.get(side, ()) or self.prepare(side, kernel, best, shared)):
                found["best"].append(best)
        # One that was prepared again may have been stopped, and its process with it.
        found["best"] = [version for version in found["best"] if version in self.ready.get(side, ())]
        return found

    def introduce(self, side: str, kernel: Kernel) -> dict[str, str]:
        """Names the kernel to a side; its versions and their kinds, or what failed."""
        kinds = self.ask(side, "versions", kernel.name, self.limit)
        if "failed" not in kinds:
            self.ready[side] = set()
        return kinds

    def prepare(self, side, kernel, version, shared, found=None) -> bool:
        """Whether a version ran and was right. Its times, or why it failed, go into `found`."""
        found = {"first_call": {}, "whole": {}, "pilot": {}, "failed": {}} if found is None else found
        if side not in self.ready:
            self.introduce(side, kernel)  # to a side that was lost
        answer = self.ask(side, "first", version, max(COMPILING, self.limit))
        if "failed" not in answer:
            found["first_call"][version] = answer["first_call"]
            begin = time.perf_counter()
            answer = self.ask(side, "prepare", (version, shared), self.limit)
            found["whole"][version] = time.perf_counter() - begin
        if "failed" not in answer:
            answer = self.ask(side, "pilot", version, self.limit)
        if "failed" in answer:
            found["failed"][version] = answer["failed"]
            return False
        found["pilot"][version] = answer["pilot"]
        self.ready[side].add(version)
        return True

    def limit_beside(self, mine: dict | None) -> float:
        """The limit of the other sides, after what appy's versions took to get the data and compute once, in `whole`."""
        whole = [mine["whole"][version] for version in mine["pilot"]] if mine else []
        return max(self.options.limit, SLOW * min(whole, default=0.0))

    def rounds(self, found: dict[str, dict]) -> dict[tuple[str, str], int]:
        """How many each of the best versions takes part in: none where the pilot is all there is time for."""
        pilots = {(side, v): f["pilot"][v] for side, f in found.items() for v in f["best"]}
        fastest = min(pilots.values(), default=0.0)
        planned = {}
        for (side, version), pilot in pilots.items():
            mine = found[side]["kind"][version]
            rivals = [p for (s, v), p in pilots.items() if found[s]["kind"][v] in RIVALS.get(mine, (mine,))]
            count = self.options.rounds if pilot < FAR * fastest else min(FEW, self.options.rounds)
            count = min(count, int(self.limit / (pilot * calls_in(pilot))))
            alone = pilot > DEAR and pilot > FAR * min(rivals)
            planned[side, version] = 0 if alone or count < min(2, self.options.rounds) else count
        return planned

    def measure(self, kernel, seconds, say) -> dict:
        """A row of the table; `seconds` are for the rounds."""
        preset = self.options.preset
        say(f"{kernel.name}: data")
        shared = self.write_data(kernel, preset)
        found = {}
        if "appy" in self.workers:
            self.limit = PATIENCE * self.options.limit
            found["appy"] = self.best_versions("appy", kernel, shared, say)
        self.limit = self.limit_beside(found.get("appy"))
        found |= {s: self.best_versions(s, kernel, shared, say) for s in self.workers if s != "appy"}
        planned = self.rounds(found)
        times: dict[tuple[str, str], list[float]] = {key: [] for key in planned}
        shared_core = 0
        begin = time.perf_counter()
        for r in range(max(planned.values(), default=0)):
            taken = time.perf_counter() - begin
            if r >= FEW and taken * (r + 1) / r > seconds:
                break
            say(f"{kernel.name}: round {r + 1}", minor=True)
            for side, version in planned if r % 2 == 0 else reversed(planned):
                if r < planned[side, version]:
                    pilot = found[side]["pilot"][version]
                    calls = calls_in(pilot)
                    argument, timeout = (version, calls, pilot < WARMED), 60 + 100 * calls * pilot
                    take = partial(self.ask, side, "time", argument, timeout)
                    sample, was_apart = self.waiting.sample(take) if self.waiting else (take(), True)
                    shared_core += not was_apart
                    if isinstance(sample, dict):
                        found[side]["failed"][version] = sample["failed"]
                        sample = float("nan")
                    times[side, version].append(sample)
        for side in self.workers:
            self.ask(side, "forget", None, 60)
        shutil.rmtree(self.folder / kernel.name)
        row = self.row(kernel, found, times) | {"shared_pages": shared, "limit": self.limit}
        return row | ({"shared_core": shared_core} if self.waiting else {})

    def row(self, kernel, found, times) -> dict:
        """`times` are empty for versions of which the pilot is the one sample."""
        work = dict(zip(("bytes", "flops"), kernel.work(self.options.preset)))
        row = {**work, "dtype": kernel.dtype, "only_reads": kernel.only_reads, "sides": {}}
        samples = {key: taken or [found[key[0]]["pilot"][key[1]]] for key, taken in times.items()}
        mine = next(
            (taken for (side, _), taken in samples.items() if side == "appy" and np.isfinite(taken).all()), None
        )
        for side, f in found.items():
            row["sides"][side] = {key: value for key, value in f.items() if value and key != "best"} | {"measured": {}}
        for (side, version), taken in samples.items():
            if np.isfinite(taken).all():
                entry = {"seconds": float(np.median(taken)), "fastest": min(taken), "rounds": len(taken)}
                if side != "appy" and mine is not None:
                    entry["ratio"] = self.ratio(taken, mine)
                row["sides"][side]["measured"][version] = entry
        return row

    def ratio(self, theirs: list[float], mine: list[float]) -> tuple[float, float, float]:
        """The median and its interval; where there is one sample of either, that of their fastest to our median thrice."""
        common = min(len(mine), len(theirs))
        if common < 2:
            return (float(np.min(theirs) / np.median(mine)),) * 3
        return figures.interval(np.array(theirs[:common]) / np.array(mine[:common]), self.rng)


def calls_in(pilot: float) -> int:
    """Calls in a sample."""
    return max(1, min(200, round(SAMPLE / pilot)))


def matching(path: Path, settings: dict) -> dict:
    """What the file holds, where it was written with the same settings; SystemExit where it was not."""
    if not path.exists():
        return {"settings": settings, "rows": {}}
    before = json.loads(path.read_text())
    differ = [key for key in settings if before.get("settings", {}).get(key) != settings[key]]
    if differ:
        raise SystemExit(f"{path} was written with another {', '.join(differ)}; --restart begins it anew")
    return before


def show(options) -> None:
    """Prints the first file's run. What had no answer there comes from the others, as far as they have it."""
    data, *others = (json.loads(path.read_text()) for path in options.show)
    notes = [note for other in others for note in report.complete(data, other)]
    report.print_table(data, list(data["rows"]))
    print("\n".join(notes))
    if options.plot:
        from scientific import plots

        plots.draw(data, list(data["rows"]), options.plot)


def run(options) -> None:
    if options.show:
        show(options)
        return
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
        "preset": options.preset, "device": options.device, "machine": figures.machine(),
        "code": fingerprint(pythons.get("appy", sys.executable)), "sides": names,
    }  # fmt: skip
    data = matching(path, settings)
    missing = [name for name in wanted if name not in data["rows"]]
    progress = Progress(len(missing))
    root = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="appy-benchmark-", dir=root) as folder:
        suite = Suite(options, Path(folder), apart.waiting(options.apart, Path(folder)))
        try:
            if missing:
                data["about"] = suite.start(names)
                if "appy" in names and "appy" not in data["about"]:
                    raise SystemExit(f"appy does not start on {options.device}: its reason stands above")
                if "roofline" not in data:
                    progress.say("roofline")
                    data["roofline"] = roofline.measure(options.device, Path(folder), options.footprint)
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
            if progress.number and options.device == "cpu":  # others may have used the memory the first time
                progress.say("roofline")
                again = roofline.measure("cpu", Path(folder), options.footprint)
                data["roofline"] = roofline.best_of(data["roofline"], again)
                path.write_text(json.dumps(data, indent=1))
                progress.clear()
        finally:
            suite.close()
    report.print_table(data, wanted)
    if options.plot:
        from scientific import plots

        plots.draw(data, wanted, options.plot)
