"""What tuning found, kept on disk: one JSON file in the user's cache directory, or in ``APPY_CACHE_DIR``."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from typing import Any

from ._warn import warn

_VERSION = 1


def path() -> str:
    folder = os.environ.get("APPY_CACHE_DIR")
    if not folder:
        folder = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "appy")
    return os.path.join(folder, "tuned.json")


def machine() -> str:
    """The processor, and how many of its threads and which of its instructions this process uses."""
    import platform

    from . import _C

    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as cpus:
        model = next((line.split(":", 1)[1].strip() for line in cpus if line.startswith("model name")), model)
    limits = [os.environ.get(name, "") for name in ("OMP_NUM_THREADS", "APPY_NUM_THREADS", "APPY_ISA")]
    return "/".join([model, str(len(os.sched_getaffinity(0))), *limits, _C.get_config()["isa"]])


def _read() -> dict[str, Any]:
    try:
        with open(path(), encoding="utf-8") as file:
            data = json.load(file)
        if not isinstance(data, dict) or not isinstance(data.get("chosen"), dict):
            raise ValueError("it holds something else")
        return data["chosen"] if data.get("version") == _VERSION else {}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        warn(f"what tuning found before cannot be read from {path()}, and is found anew: {error}", "", 0, "notice")
        return {}


def load(key: str) -> Any:
    return _read().get(key)


def save(key: str, values: dict[str, Any]) -> None:
    """Adds a row: readers find the old file or the new one, never a part."""
    chosen = _read()
    chosen[key] = values
    temporary = None
    try:
        os.makedirs(os.path.dirname(path()), exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=os.path.dirname(path()), suffix=".tmp", delete=False
        ) as file:
            temporary = file.name
            json.dump({"version": _VERSION, "chosen": chosen}, file, indent=1, sort_keys=True)
        os.replace(temporary, path())
    except (OSError, TypeError, ValueError) as error:
        warn(f"what tuning found is not kept: {error}", "", 0, "notice")
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
