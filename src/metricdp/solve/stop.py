"""When to stop: a deadline, a signal (Ctrl-C or SIGTERM), a request by the caller, or a lack of memory."""

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
LISTEN_SECONDS = 0.05  # between two looks at the flag
UNCHECKED_BYTES = 1e6  # smaller requests are granted without asking the machine for its free memory
SECONDS_AFTER_REQUEST = (
    2.0  # for simple mechanisms after a request to end; the best one so far is certified in any case
)


class Stop:
    """A deadline and a flag that long computations check; results so far are kept.

    The last repair and the certificate also take time: solvers see a deadline that is `reserve` seconds earlier
    (``is_due``, ``seconds_left``), and the steps after them see the deadline itself (``seconds_to_the_end``).

    Memory has no deadline: check ``has_room`` before growing.
    """

    def __init__(self, time_limit: float | None = None) -> None:
        self.begin = time.monotonic()
        self._processor_begin = time.process_time()
        self.time_limit = float("inf") if time_limit is None else time_limit
        self.reserve = 0.0  # seconds
        self.most_bytes = float("inf")  # that this process may hold while solvers run
        self._asked_at = float("inf")
        self._listeners: dict[object, Callable[[], None]] = {}

    @property
    def deadline(self) -> float:
        """The time at which the whole run has to end, on the clock of ``time.monotonic``."""
        return self.begin + self.time_limit

    def keep_back(self, seconds: float) -> None:
        """Reserve ``seconds`` before the deadline for the steps after the solvers."""
        self.reserve = max(self.reserve, seconds)

    @property
    def slowness(self) -> float:
        """Seconds of the clock for each one of a processor so far, at least 1: more beside other work."""
        processor = max(time.process_time() - self._processor_begin, 1e-3)
        return max(1.0, (time.monotonic() - self.begin) / processor)

    @property
    def room(self) -> float:
        """Bytes by which solvers may still grow in this process."""
        return max(0.0, min(self.most_bytes - held_bytes(), available_bytes()))

    def has_room(self, more: float) -> bool:
        """Return whether solvers may grow by ``more`` bytes in this process; large requests check the machine, too."""
        return held_bytes() + more <= self.most_bytes and (more < UNCHECKED_BYTES or more <= available_bytes())

    def request_end(self) -> None:
        """Request an early end, and call all listeners."""
        self._asked_at = min(self._asked_at, time.monotonic())
        for listener in list(self._listeners.values()):
            listener()

    @property
    def is_end_requested(self) -> bool:
        """Whether an early end was requested (Ctrl-C)."""
        return self._asked_at < float("inf")

    @property
    def seconds_left(self) -> float:
        """Seconds that solvers have, not below 0; 0 after a request to end."""
        return 0.0 if self.is_end_requested else max(0.0, self.deadline - self.reserve - time.monotonic())

    @property
    def is_due(self) -> bool:
        """Whether solvers have to end now."""
        return self.seconds_left <= 0.0

    @property
    def seconds_to_the_end(self) -> float:
        """Seconds until the deadline itself, or until shortly after a request to end; below 0 when it is past."""
        return min(self.deadline, self._asked_at + SECONDS_AFTER_REQUEST) - time.monotonic()

    def check(self) -> None:
        """Raise StoppedError if solvers have to end now: for work that is useless when incomplete."""
        if self.is_due:
            raise StoppedError("it was time to stop")

    def waiting_for(self, work: Callable[[], Value]) -> Value:
        """Return the result of ``work``, or raise StoppedError as soon as solvers have to end.

        For calls into other libraries that cannot be interrupted. The work runs in a thread, which is then left to
        finish on its own.
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
        """Call ``listener``, which must be quick, when an end is requested within this block or was requested before.

        There is no lock: it could be held when a signal arrives, and the signal's handler would wait for it forever.
        """
        key = object()
        self._listeners[key] = listener
        try:
            if self.is_end_requested:
                listener()
            yield
        finally:
            del self._listeners[key]

    @contextmanager
    def on_interrupt(self) -> Iterator[None]:
        """Turn Ctrl-C and SIGTERM into a request to end within this block; a second signal ends the process."""
        with ExitStack() as handlers:
            if threading.current_thread() is threading.main_thread():
                for number in SIGNALS:
                    handlers.enter_context(self._handling(number))
            yield

    @contextmanager
    def _handling(self, number: signal.Signals) -> Iterator[None]:
        before = signal.getsignal(number)

        def ask(number: int, frame: Any) -> None:
            if self.is_end_requested and callable(before):
                before(number, frame)
            elif self.is_end_requested:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
            self.request_end()

        signal.signal(number, ask)
        try:
            yield
        finally:
            # None: the previous handler was set outside Python and cannot be restored
            signal.signal(number, signal.SIG_DFL if before is None else before)
