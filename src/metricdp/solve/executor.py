"""Work in parallel on any ``concurrent.futures.Executor``: threads, processes, or a Dask cluster.

A task carries everything that is needed to do it anywhere, so a lost or hanging worker costs time and nothing else:
what does not come back is done here.
"""

from __future__ import annotations

import math
import os
import time
from concurrent.futures import FIRST_COMPLETED, Executor, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeGuard, TypeVar

from metricdp.errors import InputError, MissingExtraError, SolverError
from metricdp.solve.stop import StoppedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from metricdp.solve.stop import Stop

Task = TypeVar("Task")
Answer = TypeVar("Answer")
PATIENCE = 60.0  # seconds without any answer before what is missing is done here instead
LEAST_PATIENCE = 1.0
REMOTE_AGAINST_HERE = 3.0  # once tasks have been lost: how much longer than here they may take elsewhere
LISTEN_SECONDS = 0.1
CONNECT_SECONDS = 10.0


class Workers:
    """Runs a function over tasks on an executor; tasks that are lost or take too long are done in this process.

    Parameters
    ----------
    executor
        Where tasks go first.
    patience
        Seconds without any answer after which the rest counts as lost: a worker may hang.
    threads
        Threads for work in this process; all cores by default.
    """

    def __init__(self, executor: Executor, *, patience: float | None = None, threads: int | None = None) -> None:
        # threads of this process are never lost
        own = math.inf if isinstance(executor, ThreadPoolExecutor) else PATIENCE
        self.executor, self.patience = executor, own if patience is None else patience
        self.threads = threads or os.cpu_count() or 1
        self.n_lost = 0

    def run(self, function: Callable[[Task], Answer], tasks: Sequence[Task], stop: Stop) -> list[Answer] | None:
        """Give the answers in the order of the tasks, or None if it is time to stop."""
        futures = [self._submit(function, task) for task in tasks]
        _wait([future for future in futures if future is not None], stop, self.patience)
        answers = {number: future.result() for number, future in enumerate(futures) if _has_answer(future)}
        lost = [number for number in range(len(tasks)) if number not in answers]
        late = [future for future in futures if future is not None and not future.done()]
        for future in late:
            future.cancel()
        if lost:
            begin = time.monotonic()
            again = None if stop.is_due else self.run_here(function, [tasks[number] for number in lost], stop)
            if again is None:
                return None
            answers.update(zip(lost, again, strict=True))
            self.n_lost += len(lost)
            if late:
                # a worker that hangs is not waited for that long again, one that is slow is given more time
                here = time.monotonic() - begin
                self.patience = max(min(LEAST_PATIENCE, self.patience), REMOTE_AGAINST_HERE * here)
        return [answers[number] for number in range(len(tasks))]

    def run_here(self, function: Callable[[Task], Answer], tasks: Sequence[Task], stop: Stop) -> list[Answer] | None:
        """Give the answers by threads of this process: for work that shares what it reads, and work that was lost."""
        pool = ThreadPoolExecutor(self.threads)
        try:
            futures = [pool.submit(function, task) for task in tasks]
            _wait(futures, stop, math.inf)
            if stop.is_due and not all(future.done() for future in futures):
                return None
            return [future.result() for future in futures]
        except StoppedError:
            return None
        finally:
            pool.shutdown(cancel_futures=True)

    def _submit(self, function: Callable[[Task], Answer], task: Task) -> Future[Answer] | None:
        try:
            return self.executor.submit(function, task)
        except Exception:  # noqa: BLE001  (a pool whose processes have died or a cluster that is gone takes nothing more)
            return None


def _has_answer(future: Future[Answer] | None) -> TypeGuard[Future[Answer]]:
    """Say whether a task came back with an answer; that the solver failed would be so everywhere, and is raised."""
    if future is None or not future.done() or future.cancelled():
        return False
    error = future.exception()
    if isinstance(error, SolverError):
        raise error
    return error is None


def _wait(futures: Sequence[Future[Answer]], stop: Stop, patience: float) -> None:
    """Wait until all are done, or it is time to stop, or none has been done for ``patience`` seconds."""
    pending, last = set(futures), time.monotonic()
    while pending and not stop.is_due and time.monotonic() - last < patience:
        done, pending = wait(pending, timeout=min(LISTEN_SECONDS, stop.seconds_left), return_when=FIRST_COMPLETED)
        if done:
            last = time.monotonic()


@contextmanager
def workers(
    *, executor: Executor | None = None, cluster: str | None = None, threads: int | None = None
) -> Iterator[Workers]:
    """Give workers on the executor that was given, on a Dask cluster, or on threads of this process."""
    if executor is not None and cluster is not None:
        raise InputError("give either an executor or a cluster address, not both")
    if executor is not None:
        yield Workers(executor, threads=threads)
    elif cluster is not None:
        with _dask(cluster) as remote:
            yield Workers(remote, threads=threads)
    else:
        with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
            yield Workers(pool, threads=threads)


@contextmanager
def _dask(address: str) -> Iterator[Executor]:
    try:
        from distributed import Client  # noqa: PLC0415  (an extra)
    except ImportError:
        raise MissingExtraError("distributed", "cluster", "working on a Dask cluster") from None
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address!r} ({error}): check --cluster, for example tcp://host:8786"
        ) from None
    with client:
        remote = client.get_executor(pure=False)
        try:
            yield remote
        finally:
            # without waiting, since a worker may hang; when the scheduler is gone there is nothing to shut down
            with suppress(Exception):
                remote.shutdown(wait=False)
