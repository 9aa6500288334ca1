"""Warm models of subproblems, kept by the process that solves them, and when to interrupt a subproblem.

A model is taken out while it is in use: if the same subproblem is solved twice at the same time (by a worker that was
given up for lost), a second model is made. A process may outlive many runs, so it keeps the models of the last few
only. Every step on the dictionaries is atomic, so threads need no lock.
"""

from __future__ import annotations

from typing import Any

from metricdp.solve.stop import Stop

RUNS_KEPT = 4

_models: dict[tuple[str, int], Any] = {}  # by run and subproblem, those used last at the end
_stops: dict[str, Stop] = {}  # of runs that were started in this process


def begin_run(run: str, stop: Stop) -> None:
    """Make the subproblems of a run that are solved in this process end when the run does."""
    _stops[run] = stop


def end_run(run: str) -> None:
    """Drop the warm models of a run that has ended."""
    _stops.pop(run, None)
    _drop(run)


def stop_of(run: str, seconds: float) -> Stop:
    """Return the stop of a run; in another process than its own there is only its deadline in ``seconds``."""
    return _stops.get(run) or Stop(seconds)


def take(run: str, number: int) -> Any:
    """Remove and return the warm model of a subproblem; None if there is none."""
    return _models.pop((run, number), None)


def keep(run: str, number: int, model: Any) -> None:
    """Keep a warm model for the next time."""
    newest = list(_models)[-1:]
    _models[run, number] = model
    if newest and newest[0][0] == run:
        return  # as many runs as before
    recent = list(dict.fromkeys(name for name, _ in reversed(list(_models))))
    for old in recent[RUNS_KEPT:]:
        _drop(old)


def _drop(run: str) -> None:
    for key in [key for key in list(_models) if key[0] == run]:
        _models.pop(key, None)
