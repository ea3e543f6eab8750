"""Tables of what suite.py measured."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import figures
import roofline

RECORDED = Path(__file__).parent.parent / "results" / "recorded.json"
LIBRARIES = ("library",)  # sides whose calls are the whole kernel
DEVICE_COMPILERS = ("cupy", "jax", "dace")  # of array programs; torch and Triton have kernels written by hand
FAR = 20  # times slower than appy: as a rule a program that the compiler runs step by step


def seconds(row: dict, side: str) -> float | None:
    return row["sides"].get(side, {}).get("seconds")


def best_peer(row: dict, libraries: bool) -> str | None:
    """The fastest other side, with or without libraries."""
    return fastest(row, [s for s in row["ratio"] if libraries or s not in LIBRARIES])


def fastest(row: dict, sides: Iterable[str]) -> str | None:
    """Of those that were measured."""
    return min((s for s in sides if s in row["ratio"]), key=lambda side: seconds(row, side), default=None)


def recorded(name: str, device: str, preset: str) -> tuple[float, str] | None:
    """The best figure recorded earlier, in seconds, and whose it is."""
    table = json.loads(RECORDED.read_text()).get(f"{device} {preset}", {}).get("milliseconds", {})
    entries = table.get(name, {})
    side = min(entries, key=entries.get, default=None)
    return None if side is None else (entries[side] * 1e-3, side)


def standing(row: dict, limits: dict, side: str) -> str:
    """Of appy against a side; a tie where both reach 95 % of the roofline, and none is above it by being in a cache."""
    least, _ = roofline.floor(limits, row["bytes"], row["flops"], row["dtype"])
    tie = all(0.95 <= least / seconds(row, s) <= 1.25 for s in ("appy", side))
    return figures.verdict(row["ratio"][side], tie)


def rate(row: dict, side: str, bound: str) -> str:
    if bound == "memory":
        return f"{row['bytes'] / seconds(row, side) * 1e-9:7.1f} GB/s"
    return f"{row['flops'] / seconds(row, side) * 1e-9:7.1f} GF/s"


def print_progress(name: str, data: dict) -> None:
    row = data["rows"][name]
    mine = seconds(row, "appy")
    peer = best_peer(row, libraries=True)
    told = "appy failed" if mine is None else f"{mine * 1e3:.3f} ms"
    if mine is not None and peer is not None:
        told += f", {peer} {seconds(row, peer) * 1e3:.3f} ms, ratio {row['ratio'][peer][0]:.2f}"
    print(f"{name:16} {told}", flush=True)


def cell(row: dict, limits: dict, side: str | None) -> str:
    if side is None:
        return f"{'-':>36}"
    m, low, high = row["ratio"][side]
    mark = figures.MARKS[standing(row, limits, side)]
    return f"{side:>8}{seconds(row, side) * 1e3:10.3f} {m:6.2f} [{low:.2f}, {high:.2f}] {mark}".ljust(43)


def print_table(data: dict, wanted: list[str]) -> None:
    settings, limits = data["settings"], data.get("roofline")
    rows = {name: data["rows"][name] for name in wanted if name in data["rows"]}
    print(f"\n{settings['machine']['cpu']}, {settings['machine']['cores']} cores; preset {settings['preset']}")
    if limits:
        sizes = sorted(limits["bandwidth"], key=int)
        print(
            f"roofline: triad {limits['bandwidth'][sizes[-1]] * 1e-9:.1f} GB/s from memory, "
            f"{max(limits['bandwidth'].values()) * 1e-9:.0f} at best; "
            + ", ".join(f"{value * 1e-9:.0f} GF/s {dtype}" for dtype, value in limits["flops"].items())
        )
    print(
        f"\n{'milliseconds':16}{'appy':>10} {'':7}{'best of the others as written':43}{'best of all, libraries too':43}"
        f"{'minima':>6} {'of roof':>8} {'':12} {'first':>8}  recorded"
    )
    for name, row in rows.items():
        print_row(name, row, limits, settings)
    print_sides(rows)
    print_summary(rows, limits)
    if left := [name for name in wanted if name not in data["rows"]]:
        print(f"not measured within the budget, run again to go on: {', '.join(left)}")


def minima(row: dict) -> str:
    """The ratio to the best of all by the fastest samples: on a machine that others use medians are theirs too."""
    fastest = {side: row["sides"][side]["fastest"] for side in row["ratio"]}
    return f"{min(fastest.values()) / row['sides']['appy']['fastest']:.2f}" if fastest else "-"


def print_row(name: str, row: dict, limits: dict, settings: dict) -> None:
    mine = row["sides"].get("appy", {})
    if "seconds" not in mine:
        print(f"{name:16}    failed {'; '.join(mine.get('failed', {}).values())}")
        return
    least, bound = roofline.floor(limits, row["bytes"], row["flops"], row["dtype"])
    earlier = recorded(name, settings["device"], settings["preset"])
    print(
        f"{name:16}{mine['seconds'] * 1e3:10.3f} {mine['version']:7}"
        f"{cell(row, limits, best_peer(row, libraries=False))}{cell(row, limits, best_peer(row, libraries=True))}"
        f"{minima(row):>6} "
        f"{least / mine['seconds']:8.2f} {rate(row, 'appy', bound)} {mine['first_call'][mine['version']] * 1e3:5.0f} ms  "
        + (f"{earlier[0] * 1e3:.2f} {earlier[1]}" if earlier else "")
    )


def print_sides(rows: dict) -> None:
    """All sides' milliseconds and the version that was the fastest."""
    names = list(dict.fromkeys(side for row in rows.values() for side in row["sides"]))
    print(f"\n{'milliseconds':16}" + "".join(f"{side:>22}" for side in names))
    for name, row in rows.items():
        cells = []
        for side in names:
            time = seconds(row, side)
            version = row["sides"].get(side, {}).get("version", "")
            text = "-" if time is None else f"{time * 1e3:.3f}"
            cells.append(f"{text:>11} {'' if version == 'default' else version[:10]:10}")
        print(f"{name:16}" + "".join(cells))
    print()
    for name, row in rows.items():
        for side, entry in row["sides"].items():
            for version, reason in entry.get("failed", {}).items():
                print(f"{name}: {side}, {version}: {reason}")


def print_summary(rows: dict, limits: dict) -> None:
    for title, libraries in (("the best of the others as written", False), ("the best of all, libraries too", True)):
        peers = [(row, best_peer(row, libraries)) for row in rows.values()]
        pairs = [(row, peer) for row, peer in peers if peer is not None]
        ratios = [row["ratio"][peer][0] for row, peer in pairs]
        good = sum(standing(row, limits, peer) in ("ahead", "tie") for row, peer in pairs)
        print(
            f"against {title}: geometric mean {figures.geomean(ratios):.2f} over {len(ratios)}, ahead or tie on {good}"
        )
    if any("cupy" in row["ratio"] for row in rows.values()):
        pairs = [(row, fastest(row, DEVICE_COMPILERS)) for row in rows.values()]
        ratios = [row["ratio"][side][0] for row, side in pairs if side is not None]
        near = [r for r in ratios if r <= FAR]
        print(
            f"against the best compiler of array programs (CuPy, JAX, DaCe): geometric mean {figures.geomean(ratios):.2f} over "
            f"{len(ratios)}, {figures.geomean(near):.2f} over the {len(near)} that are at most {FAR} times slower"
        )
    for side in dict.fromkeys(s for row in rows.values() for s in row["ratio"]):
        ratios = [row["ratio"][side][0] for row in rows.values() if side in row["ratio"]]
        print(f"against {side}: geometric mean {figures.geomean(ratios):.2f} over {len(ratios)}")
