"""What the process has decided about appy: off for good, or why the interpreter does all the work."""

from __future__ import annotations

import os


class _State:
    def __init__(self) -> None:
        self.disabled = os.environ.get("APPY_DISABLE", "") not in ("", "0")
        self.checked = False
        self.transparent = False


state = _State()
