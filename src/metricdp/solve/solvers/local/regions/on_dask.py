"""States of regions on a Dask cluster, as futures."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

from metricdp.errors import InputError, StoppedError
from metricdp.metric.closure import kernel_threads
from metricdp.solve.answers import pack, unpack
from metricdp.solve.solvers.local.regions.hold import Held, Replay
from metricdp.solve.solvers.local.regions.sizes import n_workers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from metricdp.solve.solvers.local.regions.hold import Accept, Message, Work
    from metricdp.solve.stop import Stop

LISTEN_SECONDS = 0.05
FIRST_PATIENCE = 600.0  # seconds without any answer, before it is known how long one takes
LEAST_PATIENCE, PATIENCE_RATIO = 60.0, 10.0  # and after: times the longest that an answer to such work took
RETRIES = 2  # of a task that failed on a worker


class OnDask(Held):
    """States on the workers of a cluster; what it cannot do is done in this process."""

    def __init__(
        self, n_regions: int, stop: Stop, client: Any, said: Callable[[str, int], None] = lambda *_: None
    ) -> None:
        super().__init__(n_regions, stop, said)
        self.client, self.first_patience = client, FIRST_PATIENCE
        self.n_waves = -(-n_regions // n_workers_of(client))
        self._states: dict[tuple[str, int], Any] = {}
        self._here: dict[int, dict[str, Any]] = {}
        self._replay = Replay()
        self._longest: dict[str, float] = {}  # seconds until an answer came, for each kind of work: steps take long

    def ask(
        self, work: Work, message: Message, accept: Accept, *, reads: Sequence[str] = (), writes: str | None = None
    ) -> list[dict[str, Any]]:
        """Return the answers of all regions."""
        self._replay.questions.append((work, message, tuple(reads), writes))
        pairs, waiting = {}, {}
        for region in range(self.n_regions):
            if region not in self._here:
                pairs[region] = self._submit(work, message(region), [self._states[name, region] for name in reads])
                waiting[region] = self._answer_of(_answer_bytes, pairs[region])
        answers = self._collected(waiting, accept, work.__name__)
        for region in range(self.n_regions):
            if region in answers:
                if writes is not None:
                    self._states[writes, region] = pairs[region]
            elif region in self._here:
                answers[region] = self._done_here(region, work, message, reads, writes)
            else:
                self.stop.check()
                self.n_lost += 1
                self._here[region], answers[region] = self._replay.states(region, self._is_over)
                self.said(work.__name__, len(answers))
        return [answers[region] for region in range(self.n_regions)]

    def fetch(self, name: str, region: int, accept: Accept) -> dict[str, Any]:
        """Return a state of plain arrays."""
        if region not in self._here:
            waiting = {region: self._answer_of(_state_bytes, self._states[name, region])}
            answers = self._collected(waiting, accept, name)
            if region in answers:
                return answers[region]
            self.stop.check()
            self.n_lost += 1
            self._here[region], _ = self._replay.states(region, self._is_over)
        return dict(self._here[region][name])

    def _is_over(self) -> bool:
        return self.stop.is_due

    def _done_here(
        self, region: int, work: Work, message: Message, reads: Sequence[str], writes: str | None
    ) -> dict[str, Any]:
        states = self._here[region]
        state, answer = work(*(states[name] for name in reads), message(region), self._is_over)
        if writes is not None:
            states[writes] = state
        return answer

    def _submit(self, work: Work, message: Any, states: Sequence[Any]) -> Any:
        self._count(message)
        with warnings.catch_warnings():
            # a part of the problem is larger than what Dask likes in a task, and it must survive the worker
            warnings.filterwarnings("ignore", message="Sending large graph")
            try:
                seconds = self.stop.seconds_left
                return self.client.submit(_on_worker, work, message, seconds, *states, pure=False, retries=RETRIES)
            except Exception:  # noqa: BLE001  (a cluster that is gone takes nothing more)
                return None

    def _answer_of(self, function: Callable[[Any], bytes], state: Any) -> Any:
        if state is None:
            return None
        try:
            return self.client.submit(function, state, pure=False)
        except Exception:  # noqa: BLE001
            return None

    def _collected(self, waiting: dict[int, Any], accept: Accept, what: str) -> dict[int, dict[str, Any]]:
        """Return the accepted answers; raise StoppedError if it is time to stop or the cluster is gone."""
        answers: dict[int, dict[str, Any]] = {}
        begin = last = time.monotonic()
        pending = {region: future for region, future in waiting.items() if future is not None}
        while pending:
            self.stop.check()
            for region in [region for region, future in pending.items() if future.done()]:
                future = pending.pop(region)
                last = time.monotonic()
                self._longest[what] = max(self._longest.get(what, 0.0), last - begin)
                if future.status == "finished":
                    try:
                        data = future.result()
                        answer = unpack(data)
                        accept(region, answer)
                    except (InputError, OSError, RuntimeError):
                        continue
                    answers[region] = answer
                    self.bytes_moved += len(data)
                    self.said(what, len(answers))
            longest = self._longest.get(what)
            patience = self.first_patience if longest is None else max(LEAST_PATIENCE, PATIENCE_RATIO * longest)
            if pending and time.monotonic() - last > patience:
                break
            time.sleep(LISTEN_SECONDS)
        if len(answers) < len(waiting) and self.client.status != "running":
            raise StoppedError("the cluster's scheduler is gone")
        return answers


def _on_worker(work: Work, message: Any, seconds: float, *pairs: tuple[Any, bytes]) -> tuple[Any, bytes]:
    """Answer a question on a worker; return the new state and the answer's bytes."""
    end = time.monotonic() + seconds
    with kernel_threads(1):
        state, answer = work(*(state for state, _ in pairs), message, lambda: time.monotonic() >= end)
    return state, pack(answer)


def _answer_bytes(pair: tuple[Any, bytes]) -> bytes:
    return pair[1]


def _state_bytes(pair: tuple[Any, bytes]) -> bytes:
    return pack(pair[0])
