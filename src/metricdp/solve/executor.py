"""Work in parallel on any ``concurrent.futures.Executor``: threads, processes, or a Dask cluster.

A task carries everything that is needed to run it anywhere, so a lost or hanging worker only costs time: a missing
answer is computed in this process.

Answers of workers are not trusted: the caller checks them (``accept``) and recomputes every bound. A task whose answer
does not pass is repeated in this process. Answers of a Dask cluster come as bytes without code inside, and any other
result is refused before it is unpickled. Workers and the scheduler must still be trusted: Dask unpickles the errors and
the types of results that they report, and this cannot be switched off.
"""

from __future__ import annotations

import math
import os
import time
from concurrent.futures import FIRST_COMPLETED, Executor, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from metricdp.errors import InputError, MissingExtraError, SolverError
from metricdp.solve.answers import pack, unpack
from metricdp.solve.stop import StoppedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from metricdp.solve.stop import Stop

Task = TypeVar("Task")
Answer = TypeVar("Answer")
PATIENCE_SECONDS = 60.0  # without any answer, after which missing tasks are done in this process
LEAST_PATIENCE_SECONDS = 1.0  # the same once tasks have been lost
REMOTE_TIME_RATIO = 3.0  # once tasks have been lost: how much longer they may take remotely than locally
LISTEN_SECONDS = 0.1
CONNECT_SECONDS = 10.0
PLAIN_SERIALIZERS = ("msgpack", "error")  # Dask reads results in these formats without running code
FAILED_KEY = "failed"  # the name of a solver's error in an answer


@dataclass(frozen=True)
class Cluster:
    """A Dask cluster, whose scheduler and workers are trusted: they run the tasks, and can run code in this process.

    Parameters
    ----------
    address
        Of the scheduler, such as ``tcp://host:8786`` or ``tls://host:8786``.
    ca
        A file with the certificates of the cluster's authorities. With it, the connection must be encrypted.
    cert, key
        Files with the certificate to show to the cluster, and its private key.
    """

    address: str
    ca: str | Path | None = None
    cert: str | Path | None = None
    key: str | Path | None = None

    def __post_init__(self) -> None:
        files = {"ca": self.ca, "cert": self.cert, "key": self.key}
        missing = [name for name, file in files.items() if file is None]
        if 0 < len(missing) < len(files):
            raise InputError(
                f"an encrypted connection needs the files ca, cert and key: give {' and '.join(missing)} too"
            )
        for name, file in files.items():
            if file is not None and not Path(file).is_file():
                raise InputError(f"there is no file {file} for the cluster's {name}: check the path")
        if self.address.startswith("tls://") and missing:
            raise InputError(f"the scheduler at {self.address} requires encryption: give the files ca, cert and key")
        if self.address.startswith("tcp://") and not missing:
            raise InputError(f"the connection to {self.address} would not be encrypted: use a tls:// address")

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection is encrypted."""
        return self.ca is not None


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
    is_packed
        Whether answers come as bytes: for executors that would unpickle anything else.
    is_own
        Whether the executor is no more than threads of this process.
    client
        The client of a Dask cluster, if there is one.
    """

    def __init__(
        self,
        executor: Executor,
        *,
        patience: float | None = None,
        threads: int | None = None,
        is_packed: bool = False,
        is_own: bool = False,
        client: Any = None,
    ) -> None:
        # threads of this process are never lost
        own = math.inf if isinstance(executor, ThreadPoolExecutor) else PATIENCE_SECONDS
        self.executor, self.patience = executor, own if patience is None else patience
        self.threads = threads or os.cpu_count() or 1
        self.is_packed, self.is_own, self.client = is_packed, is_own, client
        self.n_lost = 0
        self.refusals: list[str] = []  # why answers were not accepted

    def run(
        self,
        function: Callable[[Task], Any],
        tasks: Sequence[Task],
        stop: Stop,
        accept: Callable[[Task, Any], Any] = lambda _, answer: answer,
        said: Callable[[int], None] = lambda _: None,
    ) -> list[Any] | None:
        """Return the accepted answers in the order of the tasks, or None if it is time to stop.

        ``accept`` raises an InputError for an answer that cannot be right: the task is then done in this process.
        ``said`` is called with the number of tasks that are done, as they come.
        """
        futures = [self._submit(function, task) for task in tasks]
        _wait([future for future in futures if future is not None], stop, self.patience, said)
        answers = {}
        for number, future in enumerate(futures):
            if _has_answer(future):
                try:
                    answers[number] = accept(tasks[number], self._unpacked(future.result()))
                except InputError as error:
                    self.refusals.append(str(error))
        lost = [number for number in range(len(tasks)) if number not in answers]
        late = [future for future in futures if future is not None and not future.done()]
        for future in late:
            future.cancel()
        if lost:
            begin = time.monotonic()
            again = None if stop.is_due else self.run_here(function, [tasks[number] for number in lost], stop)
            if again is None:
                return None
            answers.update({number: accept(tasks[number], one) for number, one in zip(lost, again, strict=True)})
            self.n_lost += len(lost)
            if late:
                # do not wait that long for a hanging worker again, but give a slow one more time
                here = time.monotonic() - begin
                self.patience = max(min(LEAST_PATIENCE_SECONDS, self.patience), REMOTE_TIME_RATIO * here)
        return [answers[number] for number in range(len(tasks))]

    def run_here(self, function: Callable[[Task], Answer], tasks: Sequence[Task], stop: Stop) -> list[Answer] | None:
        """Return answers computed by threads of this process: for work on shared data, and for lost tasks."""
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

    def _submit(self, function: Callable[[Task], Any], task: Task) -> Future[Any] | None:
        try:
            return self.executor.submit(partial(_packed, function) if self.is_packed else function, task)
        except Exception:  # noqa: BLE001  (a pool whose processes have died or a cluster that is gone takes nothing more)
            return None

    def _unpacked(self, answer: Any) -> Any:
        """Return the answer from its bytes; a solver's failure is raised, since it would be the same everywhere."""
        if not self.is_packed:
            return answer
        found = unpack(answer)
        if FAILED_KEY in found:
            raise SolverError(str(found[FAILED_KEY]))
        return found


def _packed(function: Callable[[Task], Any], task: Task) -> bytes:
    """Do a task on the worker and return bytes, also when the solver fails."""
    try:
        return pack(function(task))
    except SolverError as error:
        return pack({FAILED_KEY: str(error)})


def _has_answer(future: Future[Answer] | None) -> TypeGuard[Future[Answer]]:
    """Return whether a task has an answer; a solver's failure is raised, since it would be the same everywhere."""
    if future is None or not future.done() or future.cancelled():
        return False
    error = future.exception()
    if isinstance(error, SolverError):
        raise error
    return error is None


def _wait(
    futures: Sequence[Future[Answer]], stop: Stop, patience: float, said: Callable[[int], None] = lambda _: None
) -> None:
    """Wait until all are done, or it is time to stop, or none has been done for ``patience`` seconds."""
    pending, last = set(futures), time.monotonic()
    while pending and not stop.is_due and time.monotonic() - last < patience:
        done, pending = wait(pending, timeout=min(LISTEN_SECONDS, stop.seconds_left), return_when=FIRST_COMPLETED)
        if done:
            last = time.monotonic()
            said(len(futures) - len(pending))


@contextmanager
def workers(
    *, executor: Executor | None = None, cluster: str | Cluster | None = None, threads: int | None = None
) -> Iterator[Workers]:
    """Yield workers on the given executor, on a Dask cluster, or on threads of this process."""
    if executor is not None and cluster is not None:
        raise InputError("give either an executor or a cluster address, not both")
    if executor is not None:
        yield Workers(executor, threads=threads)
    elif cluster is not None:
        with _dask(Cluster(cluster) if isinstance(cluster, str) else cluster) as (remote, client):
            yield Workers(remote, threads=threads, is_packed=True, client=client)
    else:
        with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
            yield Workers(pool, threads=threads, is_own=True)


@contextmanager
def _dask(cluster: Cluster) -> Iterator[tuple[Executor, Any]]:
    try:
        from distributed import Client, Security  # noqa: PLC0415  (an extra)
    except ImportError:
        raise MissingExtraError("distributed", "cluster", "working on a Dask cluster") from None
    try:
        security = (
            Security(
                require_encryption=True,
                tls_ca_file=str(cluster.ca),
                tls_client_cert=str(cluster.cert),
                tls_client_key=str(cluster.key),
            )
            if cluster.is_encrypted
            else None
        )
        client = Client(
            cluster.address,
            timeout=CONNECT_SECONDS,
            set_as_default=False,
            security=security,
            deserializers=list(PLAIN_SERIALIZERS),
        )
    except (OSError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {cluster.address!r} ({error}): check the address, for example "
            "tcp://host:8786, or tls://host:8786 with the files of an encrypted connection"
        ) from None
    with client:
        remote = client.get_executor(pure=False)
        try:
            yield remote, client
        finally:
            # without waiting, since a worker may hang; when the scheduler is gone there is nothing to shut down
            with suppress(Exception):
                remote.shutdown(wait=False)
