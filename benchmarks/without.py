"""What a pass gains: processes with it and without it, which answer in turns."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from typing import Any


class Side:
    """A process that answers lines of JSON; `without` names a pass that it has not (`APPY_DISABLE_PASS`)."""

    def __init__(self, command: list[str], without: str = "") -> None:
        environment = os.environ | ({"APPY_DISABLE_PASS": without} if without else {})
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, question: Any = None) -> Any:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(question) + "\n" if question else "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        self.process.communicate()


def gain(sides: tuple[Side, Side], question: list[Any], rounds: int) -> dict[str, Any]:
    """Both are asked the question, then `rounds` times for the seconds of a call: medians of the two, and the median of
    the second one's over the first one's with its quartiles."""
    for side in sides:
        side.ask(question)
    times = [tuple(side.ask() for side in sides) for _ in range(rounds)]
    given, plain = (statistics.median(t) for t in zip(*times, strict=True))
    low, middle, high = statistics.quantiles([b / a for a, b in times], n=4)
    return {"with": given, "without": plain, "gain": middle, "quartiles": [low, high]}


def spread(row: dict[str, Any]) -> str:
    return "{:.2f} [{:.2f}, {:.2f}]".format(row["gain"], *row["quartiles"])
