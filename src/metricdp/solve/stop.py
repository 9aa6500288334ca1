"""When to stop: a deadline, Ctrl-C, or a word from the caller."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class Stop:
    """A deadline and a flag that long work looks at; what it has found by then is kept."""

    def __init__(self, time_limit: float | None = None) -> None:
        self.deadline = float("inf") if time_limit is None else time.monotonic() + time_limit
        self._asked = threading.Event()

    def ask(self) -> None:
        """Ask the work to end soon."""
        self._asked.set()

    @property
    def is_asked(self) -> bool:
        """Whether somebody asked to end (Ctrl-C)."""
        return self._asked.is_set()

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline, not below 0; 0 once somebody has asked."""
        return 0.0 if self.is_asked else max(0.0, self.deadline - time.monotonic())

    @property
    def is_due(self) -> bool:
        """Whether to end now."""
        return self.seconds_left <= 0.0

    @contextmanager
    def on_interrupt(self) -> Iterator[None]:
        """Turn Ctrl-C into a request to end while in this block; a second Ctrl-C interrupts for good."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(signal.SIGINT)

        def ask(number: int, frame: Any) -> None:
            if self.is_asked and callable(before):
                before(number, frame)
            self.ask()

        signal.signal(signal.SIGINT, ask)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
