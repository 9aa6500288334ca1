"""When to stop: a deadline, a signal (Ctrl-C or SIGTERM), a word from the caller, or no more memory."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from metricdp.errors import StoppedError
from metricdp.problem.memory_model import available_bytes, held_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Stop", "StoppedError"]
Value = TypeVar("Value")
SIGNALS = (signal.SIGINT, signal.SIGTERM)
LISTEN_SECONDS = 0.05
LITTLE_BYTES = 1e6
LAST_SECONDS = 2.0  # for simple mechanisms after somebody has asked: the best one so far is certified in any case


class Stop:
    """A deadline and a flag that long work looks at; what it has found by then is kept.

    The last repair and the certificate take time, too: solvers see a deadline that is sooner by `reserve` seconds
    (``is_due``, ``seconds_left``), and what comes after them looks at the deadline itself (``seconds_to_the_end``).

    Memory has no clock: whoever grows looks before (``has_room``).
    """

    def __init__(self, time_limit: float | None = None) -> None:
        self.begin = time.monotonic()
        self.time_limit = float("inf") if time_limit is None else time_limit
        self.reserve = 0.0  # seconds
        self.most_bytes = float("inf")  # that this process may hold while solvers run
        self._asked_at = float("inf")
        self._listeners: dict[object, Callable[[], None]] = {}

    @property
    def deadline(self) -> float:
        """The time at which everything has to be done, on the clock of ``time.monotonic``."""
        return self.begin + self.time_limit

    def keep_back(self, seconds: float) -> None:
        """Reserve ``seconds`` before the deadline for what comes after the solvers."""
        self.reserve = max(self.reserve, seconds)

    @property
    def room(self) -> float:
        """Bytes by which solvers may still grow in this process."""
        return max(0.0, min(self.most_bytes - held_bytes(), available_bytes()))

    def has_room(self, more: float) -> bool:
        """Whether solvers may grow by ``more`` bytes in this process; what the machine has is asked for large ones."""
        return held_bytes() + more <= self.most_bytes and (more < LITTLE_BYTES or more <= available_bytes())

    def ask(self) -> None:
        """Ask the work to end soon, and tell all who listen."""
        self._asked_at = min(self._asked_at, time.monotonic())
        for listener in list(self._listeners.values()):
            listener()

    @property
    def is_asked(self) -> bool:
        """Whether somebody asked to end (Ctrl-C)."""
        return self._asked_at < float("inf")

    @property
    def seconds_left(self) -> float:
        """Seconds that solvers have, not below 0; 0 once somebody has asked."""
        return 0.0 if self.is_asked else max(0.0, self.deadline - self.reserve - time.monotonic())

    @property
    def is_due(self) -> bool:
        """Whether solvers have to end now."""
        return self.seconds_left <= 0.0

    @property
    def seconds_to_the_end(self) -> float:
        """Seconds until the deadline itself, or until shortly after somebody has asked; below 0 when it is past."""
        return min(self.deadline, self._asked_at + LAST_SECONDS) - time.monotonic()

    def check(self) -> None:
        """Raise StoppedError if solvers have to end now: for work that is of no use when half done."""
        if self.is_due:
            raise StoppedError("it was time to stop")

    def waiting_for(self, work: Callable[[], Value]) -> Value:
        """Return what ``work`` gives, or raise StoppedError as soon as solvers have to end.

        For work of others (a clustering library) that cannot be broken off. It is done in a thread, which is then left
        alone to come to its end.
        """
        answer: Future[Value] = Future()

        def run() -> None:
            try:
                answer.set_result(work())
            except BaseException as error:  # noqa: BLE001  (whatever it is, it is raised where it is waited for)
                answer.set_exception(error)

        self.check()
        threading.Thread(target=run, daemon=True).start()
        while not answer.done():
            self.check()
            wait([answer], timeout=min(LISTEN_SECONDS, self.seconds_left))
        return answer.result()

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
        """Turn Ctrl-C and SIGTERM into a request to end while in this block; a second signal ends for good."""
        with ExitStack() as handlers:
            if threading.current_thread() is threading.main_thread():
                for number in SIGNALS:
                    handlers.enter_context(self._handling(number))
            yield

    @contextmanager
    def _handling(self, number: signal.Signals) -> Iterator[None]:
        before = signal.getsignal(number)

        def ask(number: int, frame: Any) -> None:
            if self.is_asked and callable(before):
                before(number, frame)
            elif self.is_asked:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
            self.ask()

        signal.signal(number, ask)
        try:
            yield
        finally:
            # None: whoever was there before came from outside Python and cannot be put back
            signal.signal(number, signal.SIG_DFL if before is None else before)
