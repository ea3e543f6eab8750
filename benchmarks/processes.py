"""Sides of a comparison as processes of their own, stopped while another one is timed."""

from __future__ import annotations

import contextlib
import pickle
import select
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


class Lost(Exception):
    """A side's process ended, or did not answer in time; it has been ended."""


class Worker:
    """worker.py for one side. `python` is the interpreter, where it is another one than this."""

    def __init__(self, side: str, folder: Path, suite: str, python: str = sys.executable) -> None:
        self.command = [python, str(HERE / "worker.py"), side, str(folder), suite]
        self.process = None
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, verb, argument=None, timeout=None):
        """The answer; the process is stopped after it. Lost where none comes within `timeout` seconds."""
        self.process.send_signal(signal.SIGCONT)
        try:
            pickle.dump((verb, argument), self.process.stdin)
            self.process.stdin.flush()
            if not select.select([self.process.stdout], [], [], timeout)[0]:
                self.close()
                raise Lost(f"no answer within {timeout:.0f} s")
            answer = pickle.load(self.process.stdout)
        except (EOFError, BrokenPipeError):
            self.close()
            raise Lost(f"its process ended with {self.process.returncode}") from None
        self.process.send_signal(signal.SIGSTOP)
        return answer

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):  # what it had not read
            self.process.stdin.close()
        self.process.stdout.close()
