"""Work in parallel on any ``concurrent.futures.Executor``: threads, processes, or a Dask cluster.

A task carries everything that is needed to do it anywhere, so a lost or hanging worker costs time and nothing else:
what does not come back is done here.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import Executor, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from metricdp.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from metricdp.solve.stop import Stop

Task = TypeVar("Task")
Answer = TypeVar("Answer")
PATIENCE = 60.0  # seconds for one task before it is done here instead
LISTEN_SECONDS = 0.1
CONNECT_SECONDS = 10.0


class Workers:
    """Runs a function over tasks on an executor; tasks that are lost or take too long are done by the caller."""

    def __init__(self, executor: Executor, *, patience: float = PATIENCE) -> None:
        self.executor, self.patience = executor, patience
        self.n_lost = 0

    def run(self, function: Callable[[Task], Answer], tasks: Sequence[Task], stop: Stop) -> list[Answer] | None:
        """Give the answers in the order of the tasks, or None if it is time to stop."""
        futures = [self._submit(function, task) for task in tasks]
        answers = []
        for future, task in zip(futures, tasks, strict=True):
            answer, is_known = self._wait(future, stop)
            if stop.is_due and not is_known:
                for waiting in futures:
                    if waiting is not None:
                        waiting.cancel()
                return None
            if not is_known:
                self.n_lost += 1
                answer = function(task)
            answers.append(answer)
        return answers

    def run_here(self, function: Callable[[Task], Answer], tasks: Sequence[Task], stop: Stop) -> list[Answer] | None:
        """Give the answers by threads of this process: for work that shares what it reads."""
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            return Workers(pool, patience=float("inf")).run(function, tasks, stop)

    def _submit(self, function: Callable[[Task], Answer], task: Task) -> Future[Answer] | None:
        try:
            return self.executor.submit(function, task)
        except RuntimeError:  # a pool whose processes have died takes nothing more
            return None

    def _wait(self, future: Future[Answer] | None, stop: Stop) -> tuple[Any, bool]:
        """Give the answer and True, or False if it did not come: the worker died, hung, or it is time to stop."""
        if future is None:
            return None, False
        until = time.monotonic() + self.patience
        while time.monotonic() < until:
            try:
                return future.result(timeout=LISTEN_SECONDS), True
            except FutureTimeoutError:
                if stop.is_due:
                    return None, False
            except Exception:  # noqa: BLE001  (executors raise their own kinds; done here, a task shows its own errors)
                return None, False
        future.cancel()
        return None, False


@contextmanager
def workers(
    *, executor: Executor | None = None, cluster: str | None = None, threads: int | None = None
) -> Iterator[Workers]:
    """Give workers on the executor that was given, on a Dask cluster, or on threads of this process."""
    if executor is not None and cluster is not None:
        raise InputError("give either an executor or a cluster address, not both")
    if executor is not None:
        yield Workers(executor)
    elif cluster is not None:
        with _dask(cluster) as remote:
            yield Workers(remote)
    else:
        with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
            yield Workers(pool)


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
    with client, client.get_executor(pure=False) as remote:
        yield remote
