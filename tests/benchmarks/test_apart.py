"""Samples are taken while each processor has a core for itself, as long as there is patience."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "benchmarks"))

import apart  # noqa: E402


class Machine:
    """Its slowdowns, one a look, the last one from then on."""

    def __init__(self, *slowdowns: float) -> None:
        self.slowdowns, self.looks, self.slept, self.taken = list(slowdowns), 0, 0.0, 0

    def look(self) -> float:
        self.looks += 1
        return self.slowdowns.pop(0) if len(self.slowdowns) > 1 else self.slowdowns[0]

    def sleep(self, seconds: float) -> None:
        self.slept += seconds

    def take(self) -> int:
        self.taken += 1
        time.sleep(0.002)
        return self.taken


def test_a_sample_is_taken_at_once_where_processors_are_apart():
    m = Machine(1.0)
    assert apart.Apart(m.look, 10, m.sleep).sample(m.take) == (1, True)
    assert (m.looks, m.slept) == (2, 0)


def test_it_waits_before_a_sample():
    m = Machine(2.0, 1.9, 1.0)
    waiting = apart.Apart(m.look, 10, m.sleep)
    assert waiting.sample(m.take) == (1, True)
    assert m.slept == 2 * apart.PAUSE == 10 - waiting.left


def test_a_sample_after_which_they_share_a_core_is_taken_again():
    m = Machine(1.0, 2.0, 1.0)
    waiting = apart.Apart(m.look, 10, m.sleep)
    assert waiting.sample(m.take) == (2, True)
    assert waiting.left < 10


def test_patience_ends():
    m = Machine(2.0)
    waiting = apart.Apart(m.look, 1, m.sleep)
    assert waiting.sample(m.take) == (1, False)
    assert m.slept == 1
    assert waiting.sample(m.take) == (2, False)
    m = Machine(1.0, 2.0, 1.0, 2.0)
    assert apart.Apart(m.look, 1e-3, m.sleep).sample(m.take) == (2, False)


def test_a_long_sample_is_not_taken_again(monkeypatch):
    monkeypatch.setattr(apart, "LONG", 1e-3)
    m = Machine(1.0, 2.0, 1.0)
    assert apart.Apart(m.look, 10, m.sleep).sample(m.take) == (1, False)


def test_what_failed_is_not_taken_again():
    failed = {"failed": "its process ended with 1"}
    m = Machine(1.0, 2.0)
    assert apart.Apart(m.look, 10, m.sleep).sample(lambda: failed) == (failed, False)


def test_the_look_itself(tmp_path):
    busy = apart.compiled(tmp_path)
    assert busy(2000) > 0
    assert 0.3 < apart.slowdown(busy) < 100
