"""Running the tests against mutants: one process collects them, and forks once for each mutant.

A child puts the fault into the modules that are already loaded: a function gets the new code, a constant its new value
wherever it was imported. That takes milliseconds, where starting Python and importing everything takes seconds.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.runner import runtestprotocol
from mutations import compile_mutant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mutations import Mutant

LONGEST_TEST = 3.0  # seconds; what takes longer is not run for each mutant
MOST_SECONDS = 10.0  # of tests for one mutant, the most promising first
# what a test may take: so many seconds, and so many times the processor time that it took without a fault
WORK_LIMIT, WORK_FACTOR = 5.0, 10.0  # of processor time
WAIT_LIMIT, WAIT_FACTOR = 20.0, 20.0  # of time
MEMORY_BYTES = 3 << 30  # bytes that a mutant may ask for beyond what is in use
NOT_RUN, SURVIVED, KILLED = 3, 0, 1
# thousands of databases that wait for the disk would take most of the time
MEMORY_DISK = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108


@dataclass
class Outcome:
    """What became of a mutant.

    ``status`` is killed (``by`` a test), survived, timeout, not reached or broken.
    """

    status: str
    by: str = ""
    n_tests: int = 0
    seconds: float = 0.0


@dataclass
class Reached:
    """The lines that each test ran, and the seconds of processor time that it took."""

    lines: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


class MutationSession:
    """A pytest plugin that runs mutants in place of the tests.

    Parameters
    ----------
    mutants
        What to run.
    sources
        The text of each file, by the absolute path that its code carries.
    jobs
        How many at once.
    """

    def __init__(self, mutants: list[Mutant], sources: dict[str, str], jobs: int, say: Callable[[str], None]) -> None:
        self.mutants, self.sources, self.jobs, self.say = mutants, sources, jobs, say
        self.outcomes: dict[Mutant, Outcome] = {}
        self.functions: dict[tuple[str, str], list[FunctionType]] = {}
        self.folder = Path(tempfile.mkdtemp(prefix="mutants-", dir=MEMORY_DISK))

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self) -> None:
        """Make property tests end at the first counterexample, the same ones in every run."""
        from hypothesis import Phase, settings  # noqa: PLC0415  pytest wants to be there first

        os.environ["CI"] = "1"  # the tests' own profile, which builds on this one, is repeatable then
        settings.register_profile("mutants", database=None, phases=[Phase.explicit, Phase.generate], derandomize=True)
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Find out what each test reaches, then run every mutant against the tests that reach it."""
        try:
            items = {item.nodeid: item for item in session.items}
            for function in gc.get_objects():
                if isinstance(function, FunctionType) and function.__code__.co_filename in self.sources:
                    self.functions.setdefault(_place(function.__code__), []).append(function)
            reached = self._reached(list(items.values()))
            if reached.failed:
                raise pytest.UsageError(f"tests fail without any fault: {', '.join(reached.failed[:10])}")
            self.say(f"{len(items)} tests, {sum(reached.seconds.values()):.0f} s; {len(self.mutants)} mutants")
            self._run_all(items, reached)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
        return True

    def _reached(self, items: list[pytest.Item]) -> Reached:
        """Run all tests in a child that notes the lines of our files that each of them runs."""
        answer = self.folder / "reached.json"
        child = os.fork()
        if child == 0:
            with _never_returning():
                _use_folder(items[0].config, self.folder / "plain")
                reached = _trace(items, set(self.sources))
                lines = {name: sorted(found) for name, found in reached.lines.items()}
                answer.write_text(json.dumps([lines, reached.seconds, reached.failed]))
                os._exit(0)
        os.waitpid(child, 0)
        lines, seconds, failed = json.loads(answer.read_text())
        return Reached({name: {(f, n) for f, n in found} for name, found in lines.items()}, seconds, failed)

    def _run_all(self, items: dict[str, pytest.Item], reached: Reached) -> None:
        waiting = list(reversed(self.mutants))
        running: dict[int, tuple[Mutant, float, int]] = {}
        begin = said = time.monotonic()
        while waiting or running:
            while waiting and len(running) < self.jobs:
                mutant = waiting.pop()
                chosen = _chosen(mutant, reached)
                if not chosen:
                    self.outcomes[mutant] = Outcome("not reached")
                    continue
                child = os.fork()
                if child == 0:
                    with _never_returning():
                        self._child(mutant, [(items[name], reached.seconds[name]) for name in chosen])
                running[child] = (mutant, time.monotonic(), len(chosen))
            self._collect(running)
            if time.monotonic() > said + 60.0:
                said = time.monotonic()
                alive = sum(o.status in ("survived", "not reached", "broken") for o in self.outcomes.values())
                self.say(f"{len(self.outcomes):5d} done, {alive} alive, {said - begin:.0f} s")

    def _collect(self, running: dict[int, tuple[Mutant, float, int]]) -> None:
        child, status = os.waitpid(-1, os.WNOHANG) if running else (0, 0)
        if child == 0:
            time.sleep(0.005)
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what a test that was ended had started
        mutant, begin, n_tests = running.pop(child)
        home = self.folder / str(child)
        by = (home / "by").read_text() if (home / "by").exists() else ""
        shutil.rmtree(home, ignore_errors=True)
        code = os.waitstatus_to_exitcode(status)
        word = {SURVIVED: "survived", KILLED: "killed"}.get(code, "timeout" if code < 0 else "broken")
        self.outcomes[mutant] = Outcome(word, by, n_tests, time.monotonic() - begin)
        if word == "survived":
            self.say(f"alive: {Path(mutant.file).name}:{mutant.line} {mutant.name}")

    def _child(self, mutant: Mutant, items: list[tuple[pytest.Item, float]]) -> None:
        """Put the fault in place and run tests until one fails; ends the process."""
        os.setpgid(0, 0)
        home = self.folder / str(os.getpid())
        home.mkdir()
        _use_folder(items[0][0].config, home / "tmp")
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, used + MEMORY_BYTES))
        try:
            self._put_in_place(mutant)
        except Exception as error:  # noqa: BLE001  a module that cannot be imported any more is a fault that is seen
            (home / "by").write_text(f"import: {error!r}")
            os._exit(KILLED)
        for (item, seconds), (following, _) in zip(items, [*items[1:], (None, 0.0)], strict=True):
            # there is no handler: when a time is over, the process ends
            signal.setitimer(signal.ITIMER_PROF, WORK_LIMIT + WORK_FACTOR * seconds)
            signal.setitimer(signal.ITIMER_REAL, WAIT_LIMIT + WAIT_FACTOR * seconds)
            reports = runtestprotocol(item, nextitem=following, log=False)
            if any(report.failed for report in reports):
                (home / "by").write_text(item.nodeid)
                os._exit(KILLED)
        os._exit(SURVIVED)

    def _put_in_place(self, mutant: Mutant) -> None:
        code = compile_mutant(mutant, self.sources[mutant.file])
        if not mutant.function:
            _renew_module(code, mutant)
            return
        new = {_place(part): part for part in _all_code(code)}
        place = (mutant.file, mutant.function)
        for function in self.functions[place]:
            function.__code__ = new[place]


def _chosen(mutant: Mutant, reached: Reached) -> list[str]:
    """Return the tests that run the mutant's lines, those first that are quick and run little else."""
    places = {(mutant.file, line) for line in range(mutant.line, mutant.last_line + 1)}
    at_import = not mutant.function
    names = [
        name
        for name, lines in reached.lines.items()
        if reached.seconds[name] <= LONGEST_TEST
        and (any(file == mutant.file for file, _ in lines) if at_import else not places.isdisjoint(lines))
    ]
    names.sort(key=lambda name: reached.seconds[name] * len(reached.lines[name]))
    chosen, seconds = [], 0.0
    for name in names:
        seconds += reached.seconds[name]
        if seconds > MOST_SECONDS:
            break
        chosen.append(name)
    return chosen


def _trace(items: list[pytest.Item], files: set[str]) -> Reached:
    reached = Reached()
    found: set[tuple[str, int]] = set()

    def local(frame: Any, event: str, _: object) -> Any:
        if event == "line":
            found.add((frame.f_code.co_filename, frame.f_lineno))
        return local

    def start(frame: Any, _event: str, _: object) -> Any:
        return local if frame.f_code.co_filename in files else None

    for item, following in zip(items, [*items[1:], None], strict=True):
        found = set()
        begin = _processor_seconds()
        threading.settrace(start)
        sys.settrace(start)
        reports = runtestprotocol(item, nextitem=following, log=False)
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        if any(report.failed for report in reports):
            reached.failed.append(item.nodeid)
        if found:
            reached.seconds[item.nodeid] = _processor_seconds() - begin
            reached.lines[item.nodeid] = found
    return reached


def _processor_seconds() -> float:
    """Return the seconds that this process and those it started have worked: they do not depend on who else does."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _place(code: CodeType) -> tuple[str, str]:
    return code.co_filename, code.co_qualname


def _all_code(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all_code(constant)


def _renew_module(code: CodeType, mutant: Mutant) -> None:
    """Run the module's mutated code beside it, and take over what the mutated statement defines."""
    old = next(m for m in list(sys.modules.values()) if getattr(m, "__file__", None) == mutant.file)
    fresh = ModuleType(old.__name__)
    fresh.__dict__.update({k: v for k, v in old.__dict__.items() if k.startswith("__")})
    exec(code, fresh.__dict__)  # noqa: S102
    for name, value in fresh.__dict__.items():
        before = old.__dict__.get(name)
        if isinstance(value, FunctionType):
            _take_defaults(before, value)
        elif isinstance(value, type):
            for key, member in vars(value).items():
                _take_defaults(vars(before).get(key), member)
        elif not name.startswith("__") and repr(value) != repr(before):
            _take_over(name, before, value)


def _take_defaults(old: object, new: object) -> None:
    if isinstance(old, FunctionType) and isinstance(new, FunctionType):
        old.__defaults__, old.__kwdefaults__ = new.__defaults__, new.__kwdefaults__


def _take_over(name: str, old: object, new: object) -> None:
    """Set a constant to its new value wherever it was imported."""
    for module in list(sys.modules.values()):
        space = getattr(module, "__dict__", {})
        if name in space and space[name] is old:
            space[name] = new


def _use_folder(config: pytest.Config, folder: Path) -> None:
    folder.mkdir()
    config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]  # noqa: SLF001


@contextlib.contextmanager
def _never_returning() -> Iterator[None]:
    """End a child that fails, so that it does not go on as if it were its parent."""
    try:
        yield
    except BaseException as error:  # noqa: BLE001
        sys.__stderr__.write(f"{error!r}\n")
    os._exit(NOT_RUN)
