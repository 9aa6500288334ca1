"""Doing tasks one after another: what is finished is not done again, Ctrl-C loses one task at most."""

from __future__ import annotations

import os
import platform
import signal
import socket
import sys
import threading
import time
from collections import defaultdict
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metricdp import __version__
from metricdp.errors import InputError
from metricdp.partition import PARTITIONERS
from papers.qiu2024.store import Store, Task
from papers.qiu2024.work import perform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from papers.qiu2024.datasets import Datasets
    from papers.qiu2024.scale import Scale

PACKAGES = ("numpy", "scipy", "scikit-learn", "highspy", "numba")


@dataclass
class Bench:
    """The scale, the data, and a folder for what is found."""

    scale: Scale
    data: Datasets
    out: Path
    tell: Callable[[str], None]
    _answers: dict[Task, dict[str, Any]] = field(default_factory=dict)

    @property
    def partitioners(self) -> tuple[str, ...]:
        """The paper's four partitioners, and METIS where it is installed."""
        return tuple(name for name in PARTITIONERS if name != "metis" or find_spec("pymetis") is not None)

    def run(self, tasks: Iterable[Task]) -> None:
        """Do the tasks that are not finished yet, each once; print what is done and how long the rest may take."""
        store = Store(self.out / "instances")
        wanted = list(dict.fromkeys(task for task in tasks if task not in self._answers))
        todo = []
        for task in wanted:
            found = store.load(task)
            if found is None:
                todo.append(task)
            else:
                self._answers[task] = found
        if wanted:
            self.tell(f"{len(wanted) - len(todo)} of {len(wanted)} instances are finished, {len(todo)} to do")
        guess = TimeLeft(todo)
        for number, task in enumerate(todo, start=1):
            with noticing_interrupts() as was_interrupted:
                answer = perform(task, self.data)
            if was_interrupted():
                raise KeyboardInterrupt  # the solve ended early: its figures are not those of a whole run
            store.save(task, answer)
            self._answers[task] = answer
            guess.note(task, answer["task_seconds"])
            self.tell(f"[{number}/{len(todo)}] {task.title}: {answer['task_seconds']:.1f} s, {guess}")

    def answer(self, task: Task) -> dict[str, Any]:
        """Return the results of a finished task."""
        return self._answers[task]


class TimeLeft:
    """How long the rest may take: like tasks take like times."""

    def __init__(self, tasks: list[Task]) -> None:
        self.waiting: dict[tuple[Any, ...], int] = defaultdict(int)
        self.spent: dict[tuple[Any, ...], list[float]] = defaultdict(list)
        for task in tasks:
            self.waiting[_family(task)] += 1

    def note(self, task: Task, seconds: float) -> None:
        """Take note of a finished task."""
        self.waiting[_family(task)] -= 1
        self.spent[_family(task)].append(seconds)

    @property
    def seconds(self) -> float:
        """Seconds left, by the mean of the finished tasks of each family; of all where a family has none yet."""
        everything = [seconds for own in self.spent.values() for seconds in own]
        overall = sum(everything) / len(everything) if everything else 0.0
        means = {family: sum(own) / len(own) for family, own in self.spent.items()}
        return sum(count * means.get(family, overall) for family, count in self.waiting.items())

    def __str__(self) -> str:
        left = self.seconds
        if not any(self.waiting.values()):
            return "done"
        return f"about {left:.0f} s left" if left < 100 else f"about {left / 60:.0f} min left"


def _family(task: Task) -> tuple[Any, ...]:
    own = dict(task.fields)
    return (task.kind, own.get("dataset"), own.get("preset"), own.get("n"))


@contextmanager
def noticing_interrupts() -> Iterator[Callable[[], bool]]:
    """Notice Ctrl-C and SIGTERM in this block even if handled elsewhere: a solve ends early on them, with no error."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    receiver, sender = socket.socketpair()
    receiver.setblocking(False)
    sender.setblocking(False)
    before = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)

    def was_interrupted() -> bool:
        return signal.SIGINT in noticed or signal.SIGTERM in noticed

    noticed: list[int] = []
    try:
        yield was_interrupted
    finally:
        signal.set_wakeup_fd(before)
        with suppress(BlockingIOError):
            noticed.extend(receiver.recv(4096))
        receiver.close()
        sender.close()


def open_folder(out: Path) -> None:
    """Make the folder for the results if it is not there; refuse a place where nothing can be written."""
    try:
        if out.exists() and not out.is_dir():
            raise InputError(f"--out names {out}, which is a file: name a folder")
        out.mkdir(exist_ok=True)
    except FileNotFoundError:
        raise InputError(f"cannot make the folder {out}: {out.parent} does not exist; make it first") from None
    except OSError as error:
        raise InputError(f"cannot make the folder {str(out)!r:.200}: {error.strerror}; choose another --out") from None
    if not os.access(out, os.W_OK | os.X_OK):
        raise InputError(f"cannot write into the folder {out}: permission denied; choose another --out")


def machine() -> dict[str, Any]:
    """Return what the times depend on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "metricdp": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": cores,
        "packages": {name: version(name) for name in PACKAGES},
        "written": time.strftime("%Y-%m-%d"),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or sys.platform
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), sys.platform)
