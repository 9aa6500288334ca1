"""`metricdp perturb FILE.mdp -`: rows from standard input, reports to standard output, and the ledgers of persons."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from metricdp.apply.region_streams import perturb_region_stream
from metricdp.apply.streams import ReaderGoneError, perturb_stream, standard_streams
from metricdp.budget.ledger import Ledger
from metricdp.budget.memoized import Memoized
from metricdp.budget.new_ledger import ChangedLedger, NewLedger
from metricdp.budget.window import in_words, window_of
from metricdp.cli.app import PROGRAM_FAILED, err
from metricdp.errors import InputError, MetricDPError
from metricdp.mechanism.plane import PlaneMechanism
from metricdp.metric.units import rounded_up, with_unit
from metricdp.report.tables import print_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from metricdp.apply.streams import StreamSummary
    from metricdp.data.readers.streams import TextSource
    from metricdp.mechanism.mechanism import Mechanism

CLOSED_PIPE_EXIT_CODE = 141  # of programs that end when nobody reads them: 128 and the number of SIGPIPE
STREAM = "-"


def ledger_of(file: Path, options: dict[str, Any]) -> Ledger | None:
    """Return the ledger to charge, an existing one or a new one on request; None without ledger options."""
    names = ("ledger", "person", "ledger_key", "new_ledger", "limit", "window")
    path, person, key, new, limit, window = (options[name] for name in names)
    if options["change_limit"] and limit is None:
        raise InputError("--change-limit goes with --limit EPSILON: give the new limit")
    if path is None and person is not None and limit is not None:
        path = file.with_name(f"{file.name}.ledger")
    if path is None and (new, limit, window) == (None, None, None) and options["memory"] is not None:
        return None
    if path is None and (person, key, new, limit, window) == (None, None, None, None, None):
        return None
    if path is None or person is None:
        raise InputError(
            "--ledger FILE (or --limit EPSILON) and --person COLUMN go together: name both, or leave out all options "
            "of ledgers"
        )
    length = None if window is None else window_of(window)
    if new is not None and limit is not None:
        raise InputError("--new-ledger LIMIT and --limit EPSILON both give the limit: leave one out")
    if path.exists():
        if new is not None:
            raise InputError(f"--new-ledger would begin anew, but {path} exists: leave it out to charge that ledger")
        return _existing(path, limit, may_change=options["change_limit"], window=length, key=key)
    if (new is None and limit is None) or options["change_limit"]:
        raise InputError(
            f"the ledger {path} does not exist: put it back if it was lost, or make it with --limit EPSILON (or "
            "--new-ledger LIMIT)"
        )
    told = f"New ledger {path}: nobody has spent anything in it. If there was one before, put it back."
    return NewLedger(
        path, limit=limit if new is None else new, window=length, key=key, made=lambda: print_line(err, told)
    )


def _existing(path: Path, limit: float | None, *, may_change: bool, **options: Any) -> Ledger:
    """Return a ledger that is there, with its own limit or, on request, with one that its next charge changes."""
    found = Ledger(path, must_exist=True, **options)
    if limit is None or found.limit == limit:
        return found
    if not limit > 0:
        raise InputError(f"--limit must be positive, got {limit}: give the most that a person may spend")
    before, after = (f"{float(one):.15g}" for one in (found.limit, limit))
    if not may_change:
        raise InputError(
            f"{path} has the limit {before}, not {after}: leave --limit out to charge it as it is, or add "
            f"--change-limit to change it to {after} for everyone"
        )
    told = f"The limit of {path} is {after} from now on, for everyone; it was {before}."
    return ChangedLedger(path, limit=limit, changed=lambda: print_line(err, told), **options)


def memory_of(mechanism: Mechanism, options: dict[str, Any], ledger: Ledger | None) -> Memoized | None:
    """Return the memory of answers, whose file holds no name and no record; None if it is not asked for."""
    path, person, key = (options[name] for name in ("memory", "person", "ledger_key"))
    if path is None:
        return None
    if person is None or key is None:
        raise InputError(
            "--memory FILE goes with --person COLUMN and --ledger-key FILE: the key hides who asked about which record"
        )
    if not path.exists():
        print_line(err, f"New memory {path}: every answer is drawn anew. If there was one before, put it back.")
    return Memoized(mechanism, path, ledger=ledger, key=key)


@contextmanager
def saying_who_is_charged(ledger: Ledger | None) -> Iterator[None]:
    """Say after Ctrl-C that persons may be charged although no report was written: they are charged first."""
    try:
        yield
    except KeyboardInterrupt:
        if ledger is None:
            raise
        raise MetricDPError(
            f"interrupted; no file is half written, but persons may be charged in {ledger.path} already"
        ) from None


def perturb_standard_streams(
    mechanism: Mechanism | PlaneMechanism,
    options: dict[str, Any],
    scope_lines: Callable[[Mechanism, int], list[str]],
    progress: Callable[[TextSource | None, int], None] | None,
) -> None:
    """Perturb standard input to standard output; say on standard error what was done, or why it ended."""
    source, target = standard_streams()
    written = _Written(progress)
    try:
        if isinstance(mechanism, PlaneMechanism):
            summary = perturb_region_stream(mechanism, source, target, progress=written, **options)
        else:
            summary = perturb_stream(mechanism, source, target, progress=written, **options)
    except ReaderGoneError:
        print_line(err, f"The reader closed the pipe after {written.n:,} reports.")
        raise typer.Exit(CLOSED_PIPE_EXIT_CODE) from None
    except KeyboardInterrupt:
        may_be = "" if options["ledger"] is None else "; those that were under way may be charged"
        print_line(err, f"error: interrupted after {written.n:,} reports{may_be}")
        raise typer.Exit(PROGRAM_FAILED) from None
    except MetricDPError:
        print_line(err, f"The stream ended early: {written.n:,} reports were written.")
        raise
    scope = [] if isinstance(mechanism, PlaneMechanism) else scope_lines(mechanism, summary.unprotected)
    for line in (*_lines(mechanism, summary, options), *scope):
        print_line(err, line)


class _Written:
    """Remembers how many reports were written, and passes it on."""

    def __init__(self, progress: Callable[[TextSource | None, int], None] | None) -> None:
        self.n, self._progress = 0, progress

    def __call__(self, source: TextSource | None, count: int) -> None:
        self.n = count
        if self._progress is not None:
            self._progress(source, count)


def _lines(mechanism: Mechanism | PlaneMechanism, summary: StreamSummary, options: dict[str, Any]) -> list[str]:
    lines = [f"{summary.reports:,} reports written."]
    if isinstance(mechanism, PlaneMechanism):
        lines.append(mechanism.guarantee.sentence)
    elif summary.largest_snap_distance is not None:
        limit = with_unit(options["snap_limit"], mechanism.metric)
        lines.append(f"{summary.far:,} rows were dropped because they are farther than {limit} from every record.")
        lines.append(mechanism.guarantee.for_points(options["snap_limit"]).sentence)
    each = f"Budget: each report spends epsilon = {rounded_up(mechanism.epsilon)} per {mechanism.guarantee.unit}"
    if options.get("memory") is not None:
        each += "; an answer that was repeated from the memory spends nothing"
    if options["ledger"] is None:
        return [*lines, f"{each}."]
    ledger = options["ledger"]
    period = "ever" if ledger.window is None else f"in any {in_words(ledger.window)}"
    most = rounded_up(float(ledger.limit))
    where = f"charged to {ledger.path}" if ledger.path.exists() else "nobody was charged, and no ledger was made"
    lines.append(f"{each}; {where}; nobody spends more than {most} {period}.")
    if summary.over:
        lines.append(f"{summary.over:,} rows were dropped because the budgets of their persons are used up.")
    return lines
