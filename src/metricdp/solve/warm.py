"""Warm models of subproblems, kept by whichever process solves them, and when to break a subproblem off.

A model is taken out while it is in use: a worker that is given the same subproblem at the same time makes one of its
own. In the process of the run, models are dropped when the run ends. Other processes do not hear of the end: they keep
the models of the last few runs only, and drop those that have not been used for some minutes. Every step on the
dictionaries is atomic, so threads need no lock.
"""

from __future__ import annotations

import math
import threading
import time
from typing import Any

from metricdp.solve.stop import Stop

RUNS_KEPT = 4
IDLE_SECONDS = 300.0  # without use, after which the models of a run that was started elsewhere are dropped

_models: dict[tuple[str, int], Any] = {}  # by run and subproblem, those used last at the end
_stops: dict[str, Stop] = {}  # of runs that were started in this process
_used: dict[str, float] = {}  # when the models of other runs were used last, on the clock of ``time.monotonic``


def begin_run(run: str, stop: Stop) -> None:
    """Let the subproblems of a run that are solved in this process end when the run does."""
    _stops[run] = stop


def end_run(run: str) -> None:
    """Drop the warm models of a run that has ended."""
    _stops.pop(run, None)
    _drop(run)


def stop_of(run: str, seconds: float) -> Stop:
    """Give the stop of a run; elsewhere than in its own process there is only its deadline in ``seconds``."""
    return _stops.get(run) or Stop(seconds)


def take(run: str, number: int) -> Any:
    """Take the warm model of a subproblem out; None if there is none here."""
    return _models.pop((run, number), None)


def keep(run: str, number: int, model: Any) -> None:
    """Keep a warm model for the next time."""
    newest = list(_models)[-1:]
    _models[run, number] = model
    if run not in _stops:
        is_new = run not in _used
        _used[run] = time.monotonic()
        if is_new:
            _look_after(run, IDLE_SECONDS)
    if newest and newest[0][0] == run:
        return  # as many runs as before
    recent = list(dict.fromkeys(name for name, _ in reversed(list(_models))))
    for old in recent[RUNS_KEPT:]:
        _drop(old)


def _look_after(run: str, seconds: float) -> None:
    timer = threading.Timer(seconds, _drop_if_idle, (run,))
    timer.daemon = True  # it does not keep a process alive
    timer.start()


def _drop_if_idle(run: str) -> None:
    """Drop the models of a run that nobody has used for long, or look again when that may be so."""
    left = _used.get(run, -math.inf) + IDLE_SECONDS - time.monotonic()
    if left > 0.0:
        _look_after(run, left)
    else:
        _drop(run)


def _drop(run: str) -> None:
    _used.pop(run, None)
    for key in [key for key in list(_models) if key[0] == run]:
        _models.pop(key, None)
