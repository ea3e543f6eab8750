"""Tuning of kernels on devices: where the compiler keeps what it has measured, and the bar that says how far it is."""

from __future__ import annotations

import sys


def load(key: str) -> str:
    from . import _tune_store

    known = _tune_store.load(key)
    shape = known.get("shape") if isinstance(known, dict) else None
    return shape if isinstance(shape, str) else ""


def save(key: str, shape: str) -> None:
    from . import _tune_store

    # Nothing but zeros is what the compiler would choose by itself.
    _tune_store.save(key, {"shape": shape or "block=0"})


def progress(name: str, done: int, total: int) -> None:
    """One line of a terminal, written over; nothing anywhere else."""
    stream = sys.stderr
    if stream is None or not stream.isatty():
        return
    width = 30
    filled = width * done // max(total, 1)
    end = "\n" if done >= total else ""
    stream.write(f"\rappy: tuning {name} [{'#' * filled}{'.' * (width - filled)}] {done} of {total} calls{end}")
    stream.flush()
