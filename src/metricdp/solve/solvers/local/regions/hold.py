"""Where the states of regions are kept between two tasks: in files, or on the workers of a Dask cluster.

A *question* is a function of `work` with a message for each region. It reads states by name, may write one, and its
answer comes back. On any ``Executor`` of this machine states lie in files of a private folder, so a task that is lost
with its process is done again here. On Dask states stay in the workers' memory as futures: the scheduler sends tasks to
where the states are, and computes anew what is lost with a worker. What a cluster cannot do any more is done here, from
the beginning of the region: nothing depends on where it was computed.
"""

from __future__ import annotations

import itertools
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from metricdp.errors import StoppedError
from metricdp.metric.closure import kernel_threads
from metricdp.solve.solvers.local.regions.sizes import n_workers
from metricdp.solve.solvers.local.regions.store import read_state, write_state

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from metricdp.solve.executor import Workers
    from metricdp.solve.stop import Stop

    Work = Callable[..., tuple[Any, dict[str, Any]]]
    Message = Callable[[int], Any]
    Accept = Callable[[int, dict[str, Any]], None]

_running: dict[str, Stop] = {}  # runs of this process: their tasks here end as soon as they have to
_numbers = itertools.count()


class Held(ABC):
    """The states of all regions of a run."""

    def __init__(self, n_regions: int, stop: Stop, said: Callable[[str, int], None] = lambda *_: None) -> None:
        self.n_regions, self.stop, self.said = n_regions, stop, said
        self.n_waves = n_regions  # how many regions are done one after the other
        self.bytes_moved = 0
        self.n_lost = 0  # tasks that were done again in this process

    @abstractmethod
    def ask(
        self, work: Work, message: Message, accept: Accept, *, reads: Sequence[str] = (), writes: str | None = None
    ) -> list[dict[str, Any]]:
        """Return the answers of all regions; raise StoppedError if it is time to stop.

        ``accept`` raises an InputError for an answer of a region that cannot be right: it is then computed here.
        """

    @abstractmethod
    def fetch(self, name: str, region: int, accept: Accept) -> dict[str, Any]:
        """Return a state of plain arrays."""

    def _count(self, *things: Any) -> None:
        self.bytes_moved += sum(_size(thing) for thing in things)


def _size(thing: Any) -> int:
    """Return about how many bytes arrays need to travel."""
    if isinstance(thing, np.ndarray):
        return thing.nbytes
    if isinstance(thing, dict):
        return sum(map(_size, thing.values()))
    if isinstance(thing, (tuple, list)):
        return sum(map(_size, thing))
    return _size(vars(thing)) if hasattr(thing, "__dataclass_fields__") else 8


@dataclass(frozen=True)
class _Task:
    """A question to one region whose states are in files."""

    region: int
    run: str
    work: Work
    message: Any
    reads: tuple[Path, ...]
    writes: Path | None
    seconds: float
    threads: int | None


def _do(task: _Task) -> dict[str, Any]:
    """Do a task where the files are."""
    states = [read_state(path) for path in task.reads]
    with kernel_threads(task.threads):
        state, answer = task.work(*states, task.message, _end_of(task.run, task.seconds))
    if task.writes is not None:
        part = task.writes.with_suffix(f".part{next(_numbers)}")
        write_state(state, part)
        part.replace(task.writes)
    return answer


def _end_of(run: str, seconds: float) -> Callable[[], bool]:
    """Return a function that says when work has to end: with the run, or after some seconds in another process."""
    stop = _running.get(run)
    if stop is not None:
        return lambda: stop.is_due
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


class InFiles(Held):
    """States in files of a folder that all workers see.

    Parameters
    ----------
    workers
        Where tasks run; if they are only the threads of this process, regions are done one after the other with all
        threads each, so that the memory of one is enough.
    folder
        Nobody else may write there.
    """

    def __init__(
        self,
        n_regions: int,
        stop: Stop,
        workers: Workers,
        folder: Path,
        said: Callable[[str, int], None] = lambda *_: None,
    ) -> None:
        super().__init__(n_regions, stop, said)
        self.workers, self.folder, self.run = workers, folder, str(folder)
        self.n_waves = n_regions if workers.is_own else -(-n_regions // n_workers(workers))
        self._files: dict[tuple[str, int], Path] = {}
        _running[self.run] = stop

    def ask(
        self, work: Work, message: Message, accept: Accept, *, reads: Sequence[str] = (), writes: str | None = None
    ) -> list[dict[str, Any]]:
        """Return the answers of all regions."""
        version = next(_numbers)
        alone = self.workers.is_own

        def task(region: int) -> _Task:
            target = None if writes is None else self.folder / f"{writes}-{region}-{version}"
            paths = tuple(self._files[name, region] for name in reads)
            said = message(region)
            self._count(said)
            return _Task(region, self.run, work, said, paths, target, self.stop.seconds_left, None if alone else 1)

        def accepted(task: _Task, answer: dict[str, Any]) -> dict[str, Any]:
            accept(task.region, answer)
            return answer

        answers: list[dict[str, Any]] = []
        if alone:
            for region in range(self.n_regions):
                self.stop.check()
                answers.append(_do(task(region)))
                self.said(work.__name__, region + 1)
        else:
            tasks = [task(region) for region in range(self.n_regions)]
            found = self.workers.run(_do, tasks, self.stop, accepted, partial(self.said, work.__name__))
            if found is None:
                raise StoppedError("regions were interrupted")
            answers = found
            self.n_lost = self.workers.n_lost
        if writes is not None:
            for region in range(self.n_regions):
                before = self._files.get((writes, region))
                if before is not None:
                    before.unlink()
                self._files[writes, region] = self.folder / f"{writes}-{region}-{version}"
        self._count(answers)
        return answers

    def fetch(self, name: str, region: int, accept: Accept) -> dict[str, Any]:
        """Return a state of plain arrays."""
        state = cast("dict[str, Any]", read_state(self._files[name, region]))
        accept(region, state)
        self._count(state)
        return state

    def close(self) -> None:
        """Forget the run."""
        _running.pop(self.run, None)


@dataclass
class Replay:
    """All questions so far, to answer for one region again from the beginning."""

    questions: list[tuple[Work, Message, tuple[str, ...], str | None]] = field(default_factory=list)

    def states(self, region: int, is_over: Callable[[], bool]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the states of a region, and its last answer."""
        states: dict[str, Any] = {}
        answer: dict[str, Any] = {}
        for work, message, reads, writes in self.questions:
            state, answer = work(*(states[name] for name in reads), message(region), is_over)
            if writes is not None:
                states[writes] = state
        return states, answer
