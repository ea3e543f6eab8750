"""Pictures of what suite.py measured: a heat map against NumPy, the roofline, and first calls."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from figures import geomean

from scientific.report import best, seconds


def sides_of(rows: dict) -> list[str]:
    return list(dict.fromkeys(side for row in rows.values() for side in row["sides"]))


def heat_map(rows: dict, path: Path, base: str) -> None:
    """How many times faster than `base` each side is, as NPBench draws it."""
    names, columns = list(rows), [side for side in sides_of(rows) if side != base]
    values = np.full((len(names) + 1, len(columns)), np.nan)
    for i, row in enumerate(rows.values()):
        for j, side in enumerate(columns):
            if seconds(row, side) and seconds(row, base):
                values[i + 1, j] = seconds(row, base) / seconds(row, side)
    for j in range(len(columns)):
        values[0, j] = geomean([v for v in values[1:, j] if np.isfinite(v)])
    figure, axes = plt.subplots(figsize=(1.6 + 1.1 * len(columns), 1 + 0.33 * len(values)))
    axes.imshow(np.clip(np.log2(values), -5, 5), cmap="RdYlGn", vmin=-5, vmax=5, aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        text = "" if np.isnan(value) else f"{value:.1f}x" if value < 100 else f"{value:.0f}x"
        axes.text(j, i, text, ha="center", va="center", fontsize=8, weight="bold" if i == 0 else None)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(values)), ["geometric mean", *names])
    axes.xaxis.tick_top()
    axes.set_title(f"times faster than {base}", pad=22)
    save(figure, path)


def draw_roofline(rows: dict, limits: dict, path: Path) -> None:
    """Flops a second over flops a byte; appy's kernels below the roof of their type."""
    figure, axes = plt.subplots(figsize=(9, 6))
    sizes = sorted(limits["bandwidth"], key=int)
    intensity = np.logspace(-2, 4, 200)
    memory, cache = limits["bandwidth"][sizes[-1]], max(limits["bandwidth"].values())
    for dtype, peak in limits["flops"].items():
        axes.plot(intensity, np.minimum(intensity * memory, peak) * 1e-9, label=f"{dtype}, from memory")
        axes.plot(intensity, np.minimum(intensity * cache, peak) * 1e-9, ":", label=f"{dtype}, from the caches")
    for name, row in rows.items():
        if mine := seconds(row, "appy"):
            x, y = row["flops"] / row["bytes"], row["flops"] / mine * 1e-9
            axes.plot(x, y, "k.")
            axes.annotate(name, (x, y), fontsize=7, xytext=(3, 3), textcoords="offset points")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("flops a byte that must move")
    axes.set_ylabel("GF/s")
    axes.legend(fontsize=8)
    save(figure, path)


def first_calls(rows: dict, path: Path) -> None:
    """What compiling costs: the first call of the version that was the fastest."""
    columns = [side for side in sides_of(rows) if side not in ("numpy", "library")]
    figure, axes = plt.subplots(figsize=(11, 5))
    width = 0.8 / max(1, len(columns))
    for j, side in enumerate(columns):
        at, heights = [], []
        for i, row in enumerate(rows.values()):
            if fastest := best(row, side):
                at.append(i + width * (j - (len(columns) - 1) / 2))
                heights.append(row["sides"][side]["first_call"][fastest.version])
        axes.bar(at, heights, 0.9 * width, label=side)
    axes.set_yscale("log")
    axes.set_xticks(range(len(rows)), list(rows), rotation=60, ha="right")
    axes.set_ylabel("seconds until the first result")
    axes.legend()
    save(figure, path)


def save(figure, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def draw(data: dict, wanted: list[str], folder: Path) -> None:
    """Writes the pictures into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = {name: data["rows"][name] for name in wanted if name in data["rows"]}
    base = "numpy" if any(seconds(row, "numpy") for row in rows.values()) else "cupy"
    heat_map(rows, folder / "heat_map.png", base)
    draw_roofline(rows, data["roofline"], folder / "roofline.png")
    first_calls(rows, folder / "first_calls.png")
