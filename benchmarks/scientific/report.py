"""Tables of what suite.py measured."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import figures
import roofline

from scientific.sides import KINDS

RECORDED = Path(__file__).parent.parent / "results" / "recorded.json"
WIDTH = 55  # of a column
FAR = 20  # times slower than appy: as a rule a program that the compiler runs step by step
# Sides that take the definition's text, by device. Kernels for torch and Triton are written by hand.
COMPILERS = {
    "cpu": {"numpy": "NumPy", "numba": "Numba", "pythran": "Pythran", "jax": "JAX", "dace": "DaCe"},
    "cuda": {"cupy": "CuPy", "jax": "JAX", "dace": "DaCe"},
}


@dataclass(frozen=True)
class Measured:
    """A version of a side in a row."""

    side: str
    version: str
    kind: str
    seconds: float
    fastest: float
    rounds: int
    ratio: tuple[float, float, float] | None = None

    @property
    def name(self) -> str:
        return self.side if self.version in ("default", self.side) else f"{self.side} {self.version}"


@dataclass(frozen=True)
class Column:
    """What appy is compared with: the fastest version of some kinds, of some sides or of all."""

    title: str
    kinds: tuple[str, ...]
    sides: dict[str, str] | None = None  # to their names

    @property
    def full_title(self) -> str:
        return self.title if self.sides is None else f"{self.title} ({', '.join(self.sides.values())})"

    def takes(self, side: str, kind: str) -> bool:
        return side != "appy" and kind in self.kinds and (self.sides is None or side in self.sides)

    def best(self, row: dict) -> Measured | None:
        found = [m for m in versions(row) if self.takes(m.side, m.kind) and m.ratio is not None]
        return min(found, key=lambda m: m.seconds, default=None)

    def unanswered(self, row: dict) -> bool:
        """Whether there is none because of those that were stopped."""
        reasons = [
            reason
            for side, entry in row["sides"].items()
            for version, reason in entry.get("failed", {}).items()
            if self.takes(side, entry.get("kind", {}).get(version, self.kinds[0]))
        ]
        return self.best(row) is None and any(reason.startswith("no answer") for reason in reasons)


def columns(device: str) -> tuple[Column, Column, Column]:
    names = COMPILERS[device]
    return (
        Column("the best as written", KINDS[:1], names),
        Column("the best idiomatic (written or rewritten)", KINDS[:2]),
        Column("the best of anything", KINDS),
    )


def versions(row: dict) -> list[Measured]:
    """All that were measured, appy's too."""
    return [
        Measured(side, version, entry["kind"][version], **{"ratio": None, **measured})
        for side, entry in row["sides"].items()
        for version, measured in entry.get("measured", {}).items()
    ]


def best(row: dict, side: str) -> Measured | None:
    """A side's fastest version."""
    return min((m for m in versions(row) if m.side == side), key=lambda m: m.seconds, default=None)


def seconds(row: dict, side: str) -> float | None:
    found = best(row, side)
    return None if found is None else found.seconds


def complete(data: dict, other: dict) -> list[str]:
    """Takes versions that had no answer within a run's limit from another run of the same code; says which."""
    differ = [key for key in ("preset", "device", "machine", "code") if data["settings"][key] != other["settings"][key]]
    if differ:
        raise SystemExit(f"these runs are of another {', '.join(differ)}")
    notes = []
    for name, row in other["rows"].items():
        for side, entry in row["sides"].items():
            mine = data["rows"].get(name, {"sides": {}})["sides"].get(side, {})
            for version, measured in entry["measured"].items():
                if mine.get("failed", {}).get(version, "").startswith("no answer"):
                    del mine["failed"][version]
                    mine["measured"][version] = measured
                    mine.setdefault("first_call", {})[version] = entry["first_call"][version]
                    notes.append(
                        f"{name}: {side}, {version}: beside appy in a run with a limit of {row['limit']:.0f} s"
                    )
    return notes


def recorded(name: str, device: str, preset: str) -> tuple[float, str] | None:
    """The best figure recorded earlier, in seconds, and whose it is."""
    table = json.loads(RECORDED.read_text()).get(f"{device} {preset}", {}).get("milliseconds", {})
    entries = table.get(name, {})
    side = min(entries, key=entries.get, default=None)
    return None if side is None else (entries[side] * 1e-3, side)


def standing(row: dict, limits: dict, peer: Measured) -> str:
    """Of appy against a version; a tie where both reach 95 % of the roofline, and none is above it by being in a cache."""
    least, _ = roofline.floor_of(limits, row)
    tie = all(0.95 <= least / t <= 1.25 for t in (seconds(row, "appy"), peer.seconds))
    return figures.verdict(peer.ratio, tie)


def rate(row: dict, side: str, bound: str) -> str:
    if bound == "memory":
        return f"{row['bytes'] / seconds(row, side) * 1e-9:7.1f} GB/s"
    return f"{row['flops'] / seconds(row, side) * 1e-9:7.1f} GF/s"


def print_progress(name: str, data: dict) -> None:
    row = data["rows"][name]
    mine = seconds(row, "appy")
    told = ["appy failed" if mine is None else f"{mine * 1e3:.3f} ms"]
    for column in columns(data["settings"]["device"]):
        peer = column.best(row)
        told.append("-" if peer is None else f"{peer.name} {peer.seconds * 1e3:.3f} ms, ratio {peer.ratio[0]:.2f}")
    print(f"{name:16} {'; '.join(told)}", flush=True)


def cell(row: dict, limits: dict, column: Column) -> str:
    peer = column.best(row)
    if peer is None:
        text = f"no answer within {row['limit']:.0f} s" if column.unanswered(row) else "-"
        return f"{text:>34}".ljust(WIDTH)
    m, low, high = peer.ratio
    spread = "[one sample]" if 1 in (peer.rounds, best(row, "appy").rounds) else f"[{low:.2f}, {high:.2f}]"
    mark = figures.MARKS[standing(row, limits, peer)]
    return f"{peer.name[:18]:>18} {peer.seconds * 1e3:10.3f} {m:6.2f} {spread} {mark}".ljust(WIDTH)


def print_table(data: dict, wanted: list[str]) -> None:
    settings, limits = data["settings"], data.get("roofline")
    rows = {name: data["rows"][name] for name in wanted if name in data["rows"]}
    print(f"\n{settings['machine']['cpu']}, {settings['machine']['cores']} cores; preset {settings['preset']}")
    if limits:
        sizes = sorted(limits["bandwidth"], key=int)
        print(
            f"roofline: triad {limits['bandwidth'][sizes[-1]] * 1e-9:.1f} GB/s from memory, "
            f"{max(limits['bandwidth'].values()) * 1e-9:.0f} at best; "
            + (f"reading alone {limits['reading'][sizes[-1]] * 1e-9:.1f}; " if "reading" in limits else "")
            + ", ".join(f"{value * 1e-9:.0f} GF/s {dtype}" for dtype, value in limits["flops"].items())
        )
    print(
        f"\n{'milliseconds':16}{'appy':>10} {'':7}"
        + "".join(f"  {column.title:{WIDTH - 2}}" for column in columns(settings["device"]))
        + f"{'minima':>6} {'of roof':>8} {'':12} {'first':>8}  recorded"
    )
    for name, row in rows.items():
        print_row(name, row, limits, settings)
    print_sides(rows)
    print_summary(rows, limits, settings["device"])
    if together := {name: row["shared_core"] for name, row in rows.items() if row.get("shared_core")}:
        counts = ", ".join(f"{name} {count}" for name, count in together.items())
        print(f"samples taken while processors shared a core: {counts}")
    if left := [name for name in wanted if name not in data["rows"]]:
        print(f"not measured within the budget, run again to go on: {', '.join(left)}")


def minima(row: dict, mine: Measured) -> str:
    """The ratio to the best of all by the fastest samples: on a machine that others use medians are theirs too."""
    fastest = [m.fastest for m in versions(row) if m.side != "appy"]
    return f"{min(fastest) / mine.fastest:.2f}" if fastest else "-"


def print_row(name: str, row: dict, limits: dict, settings: dict) -> None:
    mine = best(row, "appy")
    if mine is None:
        print(f"{name:16}    failed {'; '.join(row['sides'].get('appy', {}).get('failed', {}).values())}")
        return
    least, bound = roofline.floor_of(limits, row)
    earlier = recorded(name, settings["device"], settings["preset"])
    first = row["sides"]["appy"]["first_call"][mine.version]
    print(
        f"{name:16}{mine.seconds * 1e3:10.3f} {mine.version:7}"
        + "".join(cell(row, limits, column) for column in columns(settings["device"]))
        + f"{minima(row, mine):>6} {least / mine.seconds:8.2f} {rate(row, 'appy', bound)} {first * 1e3:5.0f} ms  "
        + (f"{earlier[0] * 1e3:.2f} {earlier[1]}" if earlier else "")
    )


def print_sides(rows: dict) -> None:
    """Milliseconds of the fastest version of each kind that a side has, and which it was."""
    found = {name: {(m.side, m.kind): m for m in versions(row)} for name, row in rows.items()}
    sides = list(dict.fromkeys(side for row in rows.values() for side in row["sides"]))
    heads = [
        (side, kind) for side in sides for kind in (*KINDS, "own") if any((side, kind) in f for f in found.values())
    ]
    titles = [side if kind == "own" or side == kind else f"{side}, {kind}" for side, kind in heads]
    print(f"\n{'milliseconds':16}" + "".join(f"{title:>22}" for title in titles))
    for name in rows:
        cells = []
        for head in heads:
            m = found[name].get(head)
            text = "-" if m is None else f"{m.seconds * 1e3:.3f}{'*' if m.rounds == 1 else ''}"
            label = "" if m is None or m.version in ("default", m.kind) else m.version[:10]
            cells.append(f"{text:>11} {label:10}")
        print(f"{name:16}" + "".join(cells))
    print("* one sample. appy's time is that of the faster of its two models, arrays and loops, in all comparisons\n")
    for name, row in rows.items():
        for side, entry in row["sides"].items():
            for version, reason in entry.get("failed", {}).items():
                print(f"{name}: {side}, {version}: {reason}")


def print_summary(rows: dict, limits: dict, device: str) -> None:
    for number, column in enumerate(columns(device)):
        pairs = {name: (row, column.best(row)) for name, row in rows.items()}
        measured = [(row, peer) for row, peer in pairs.values() if peer is not None]
        ratios = [peer.ratio[0] for _, peer in measured]
        marks = [standing(row, limits, peer) for row, peer in measured]
        print(
            f"against {column.full_title}: geometric mean {figures.geomean(ratios):.2f} over {len(ratios)}, "
            f"ahead on {marks.count('ahead')} of {len(rows)}, ahead or tie on {marks.count('ahead') + marks.count('tie')}"
        )
        if number == 0 and device == "cuda":
            near = [r for r in ratios if r <= FAR]
            print(
                f"    without the {len(ratios) - len(near)} where it is more than {FAR} times slower: "
                f"geometric mean {figures.geomean(near):.2f} over {len(near)}"
            )
        if late := [name for name, row in rows.items() if column.unanswered(row)]:
            print(f"    no answer within the limit, in no mean: {', '.join(late)}")
    for side in dict.fromkeys(m.side for row in rows.values() for m in versions(row) if m.side != "appy"):
        ratios = [m.ratio[0] for row in rows.values() if (m := best(row, side)) is not None and m.ratio is not None]
        print(f"against {side}: geometric mean {figures.geomean(ratios):.2f} over {len(ratios)}")
