"""Devices that appy finds."""

from __future__ import annotations

from dataclasses import dataclass

from . import _C
from ._api import tell_wheel_folders


@dataclass(frozen=True)
class Device:
    """A device that the driver shows."""

    ordinal: int
    name: str
    compute_capability: tuple[int, int]
    multiprocessors: int
    memory_bytes: int
    l2_bytes: int
    shared_bytes_per_block: int
    registers_per_block: int
    max_threads_per_block: int
    max_threads_per_multiprocessor: int
    cooperative_launch: bool
    memory_pools: bool


def devices() -> list[Device]:
    """The devices that the driver shows, none where there is no driver. Makes no context and reserves no memory.

    ``python -m appy doctor`` says why there is none.
    """
    tell_wheel_folders()
    return [Device(**row) for row in _C.gpu_devices()["devices"]]
