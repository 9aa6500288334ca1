"""When to stop: a deadline, Ctrl-C, or a word from the caller."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from metricdp.errors import MetricDPError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class StoppedError(MetricDPError):
    """Work that is of no use when half done was broken off because it was time to stop."""


class Stop:
    """A deadline and a flag that long work looks at; what it has found by then is kept."""

    def __init__(self, time_limit: float | None = None) -> None:
        self.deadline = float("inf") if time_limit is None else time.monotonic() + time_limit
        self._asked = threading.Event()
        self._listeners: dict[object, Callable[[], None]] = {}

    def ask(self) -> None:
        """Ask the work to end soon, and tell all who listen."""
        self._asked.set()
        for listener in list(self._listeners.values()):
            listener()

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
    def telling(self, listener: Callable[[], None]) -> Iterator[None]:
        """Call ``listener``, which must be quick, when somebody asks to end while in this block or has asked before.

        There is no lock: it could be held when a signal comes, and the signal's handler would wait for it for ever.
        """
        key = object()
        self._listeners[key] = listener
        try:
            if self.is_asked:
                listener()
            yield
        finally:
            del self._listeners[key]

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
            # None: whoever was there before came from outside Python and cannot be put back
            signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
