"""Statistics of timings, and what there is to say of the machine that they were taken on."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import subprocess

import numpy as np

MARKS = {"ahead": "+", "behind": "-", "even": "~", "tie": "="}
PACKAGES = (
    "numpy",
    "scipy",
    "numba",
    "pythran",
    "numexpr",
    "dace",
    "jax",
    "torch",
    "triton",
    "cupy-cuda13x",
    "cupy-cuda12x",
)


def interval(ratios, rng):
    """Median and its 95 % bootstrap interval."""
    samples = np.median(rng.choice(ratios, (2000, len(ratios))), axis=1)
    return float(np.median(ratios)), float(np.percentile(samples, 2.5)), float(np.percentile(samples, 97.5))


def geomean(values):
    return float(np.exp(np.mean(np.log(values)))) if values else float("nan")


def verdict(ratio, tie=False):
    if tie:
        return "tie"
    _, low, high = ratio
    return "ahead" if low > 1 else "behind" if high < 1 else "even"


def versions():
    """Of the packages that this interpreter has."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def machine():
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown")
    with contextlib.suppress(FileNotFoundError):
        gcc = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True).stdout.strip()
        return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "kernel": platform.release(), "gcc": gcc}
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "kernel": platform.release()}
