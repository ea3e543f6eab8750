"""Switches and counters of the process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from . import _C
from ._state import state


def enable() -> None:
    """Compiles annotated loops also without the decorator: of modules imported from now on, of functions defined from
    now on, and of functions that exist already. Undoes `disable`."""
    _C.set_enabled(True)
    from ._transparent import start

    start()


def disable() -> None:
    """From now on every region runs in the interpreter, decorated functions included."""
    _C.set_enabled(False)
    if state.transparent:
        from ._transparent import stop

        stop()


def enabled() -> bool:
    """Whether regions run compiled."""
    return not state.disabled and _C.is_enabled()


def stats() -> dict[str, Any]:
    """Counters over all regions of the process."""
    return _C.global_stats()


def config(**changes: Any) -> dict[str, Any]:
    """Sets options of the process, for regions compiled from then on, and returns all of them.

    ``dump``: stages to print (``"bytecode,ir,passes,asm"``); ``backend``: auto, cpu, cuda or eval; ``isa``: avx2 or
    avx512; ``disabled_passes``: a list of names; ``stream_bytes``: see docs/options.md; ``sync``: regions on a device
    wait for it; ``emulated``: pointers of devices are the host's.
    """
    known = _C.get_config()
    for name in changes:
        if name not in known:
            import difflib

            nearest = difflib.get_close_matches(name, known, 1, 0.0)[0]
            raise TypeError(f"appy.config has no option {name!r}; did you mean {nearest!r}?")
    _C.set_config(changes)
    return _C.get_config()


def synchronize() -> None:
    """Waits until devices have done what they were given, by appy, CuPy or torch; without a device nothing.

    What failed in a region there, after its call had returned, is raised here. Ctrl-C ends the wait.
    """
    from .utils import synchronize_devices

    _C.gpu_synchronize()
    synchronize_devices()


def _finish() -> None:
    """At exit: what failed on a device after the last region is not lost."""
    try:
        _C.gpu_synchronize()
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)


def lower(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """The graph of the first region that ``function(*args, **kwargs)`` enters, or None where it enters none.

    The function runs up to there.
    """
    return _C.lower(function, *args, **kwargs)


def tell_wheel_folders() -> None:
    """NVIDIA's wheels lie in ``nvidia/`` of these folders; nothing of them is imported or loaded."""
    _C.set_wheel_folders([folder for folder in sys.path if isinstance(folder, str) and folder])
