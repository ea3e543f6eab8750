"""What a pass gains: processes with it and without it, which answer in turns."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from typing import Any

from apart import Apart


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


def gain(sides: tuple[Side, Side], question: list[Any], rounds: int, waiting: Apart | None = None) -> dict[str, Any]:
    """Both are asked the question, then `rounds` times for the seconds of a call: medians of the two, the median of the
    second one's over the first one's with its quartiles, and the ratio of their minima. With `waiting` they are asked
    while processors are apart, and how often those shared a core all the same is counted."""
    for side in sides:
        side.ask(question)

    def once() -> tuple[float, ...]:
        return tuple(side.ask() for side in sides)

    samples = [waiting.sample(once) if waiting else (once(), True) for _ in range(rounds)]
    times = [taken for taken, _ in samples]
    given, plain = (statistics.median(t) for t in zip(*times, strict=True))
    low, middle, high = statistics.quantiles([b / a for a, b in times], n=4)
    least = [min(t) for t in zip(*times, strict=True)]
    return {
        "with": given,
        "without": plain,
        "gain": middle,
        "quartiles": [low, high],
        "of_minima": least[1] / least[0],
        "shared_core": sum(not apart for _, apart in samples),
    }


def spread(row: dict[str, Any]) -> str:
    return "{:.2f} [{:.2f}, {:.2f}]".format(row["gain"], *row["quartiles"])
