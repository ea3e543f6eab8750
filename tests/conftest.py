"""Settings of the whole test run."""

from __future__ import annotations

import signal
import threading


def pytest_configure() -> None:
    # A shell that starts the tests in the background ignores SIGINT for them and their children, and then CPython does
    # not turn it into KeyboardInterrupt.
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
