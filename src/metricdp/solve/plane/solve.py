"""`solve_plane`: steps, repair, certificate, bounds."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from metricdp.data.weights import Splines, Triangles
from metricdp.errors import InputError, SolverError
from metricdp.mechanism.certificate import Optimality, relative_gap
from metricdp.mechanism.exact import TOTAL
from metricdp.mechanism.plane import PlaneMechanism
from metricdp.problem.plane import PlaneProblem
from metricdp.solve.ending import PRIVACY_TOLERANCE
from metricdp.solve.plane.any_mechanism import any_mechanism_bound
from metricdp.solve.plane.cones import Cones
from metricdp.solve.plane.loop import Loop
from metricdp.solve.plane.memory import bytes_needed, reach_within
from metricdp.solve.plane.repair import private_table
from metricdp.solve.plane.triangles import edge_result
from metricdp.solve.result import Status, Trace, peak_megabytes
from metricdp.solve.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

METHODS = {Splines.name: "conic steps", Triangles.name: "sides of triangles"}  # by the kind of weights
SHARES = (0.99, 0.995, 0.998)  # of epsilon at which is solved, one after the other: repair uses the rest
CHECK_EVERY, GROWTH = 50, 4  # steps, then a quarter of those so far
RISE = 1e-3  # relative: by how much a quarter more steps must raise the bound
PROGRESS = 1e-3  # relative: the loss that a quarter more steps must save
IDLE_CHECKS = 2  # that save less, one after the other, end a share
BOUND_SHARE = 0.5  # of the time, at most, for the bound of the class
MAX_STEPS = 20_000
LOSS_ROUNDING = 1e-12  # relative; far above that of a sum of products in floats


@dataclass(frozen=True, eq=False, repr=False)
class PlaneResult:
    """The outcome: a certified mechanism, its expected loss, and two bounds.

    Attributes
    ----------
    status
        OPTIMAL if the loss is within the asked gap of the larger of the two bounds; LIMIT if time, steps or a request
        ended it before, or more steps saved nothing: the best mechanism so far, with its honest bounds.
    lower_bound
        No mechanism with this budget and these outputs has a smaller expected loss; 0 if it is not known: it was not
        asked for, or the run was interrupted before.
    class_bound
        No table over this lattice has. The difference of the two is what the lattice costs at most. It is 0 for
        triangles, for which none is computed.
    is_interrupted
        Whether Ctrl-C or SIGTERM ended the run before the gap was reached.
    """

    problem: PlaneProblem
    mechanism: PlaneMechanism
    loss: float
    lower_bound: float
    class_bound: float
    steps: int
    seconds: float
    trace: Trace
    status: Status
    peak_mb: float
    is_interrupted: bool = False

    @property
    def method(self) -> str:
        """How it was found: by the kind of the region's weights."""
        return METHODS[self.problem.region.weights]

    @property
    def gap(self) -> float:
        """The relative gap ``(loss - lower_bound) / loss`` to the bound for any mechanism."""
        return relative_gap(self.loss, self.lower_bound)

    @property
    def class_gap(self) -> float:
        """The relative gap to the larger bound: both hold for tables over this lattice."""
        return relative_gap(self.loss, max(self.lower_bound, self.class_bound))

    def __repr__(self) -> str:
        known = self.lower_bound > 0.0 or self.loss == 0.0
        bound = f"{self.lower_bound:.6g} (gap {100 * self.gap:.3g} %)" if known else "not bounded"
        lattice = ""
        if self.class_bound:
            lattice = f", this lattice {self.class_bound:.6g} (gap {100 * self.class_gap:.3g} %)"
        return (
            f"PlaneResult({self.status.value}: loss {self.loss:.6g}, any mechanism {bound}{lattice}, "
            f"{self.steps} steps, {self.seconds:.2f} s)"
        )


def solve_plane(
    problem: PlaneProblem,
    *,
    gap: float = 0.01,
    time_limit: float | None = None,
    memory_limit: float | None = None,
    max_steps: int = MAX_STEPS,
    bound: bool = True,
    listener: Callable[[dict[str, Any]], None] | None = None,
) -> PlaneResult:
    """Find a mechanism for every point of a region with a small expected loss, and certify it.

    With splines as weights, first come steps at the whole epsilon for the bound of this lattice, then steps at a little
    less for the mechanism. With triangles, an ordinary problem for the nodes is solved: simple, and above splines in
    loss, because at epsilon times the spacing 0.25 the nodes protect their neighbours at 0.784 epsilon.

    Parameters
    ----------
    gap
        The relative gap to the larger bound. With splines it ends there, or sooner where more steps save nothing; with
        triangles it only says whether the result is OPTIMAL.
    time_limit
        Seconds; the best mechanism so far is returned. The bound for any mechanism has as much again.
    memory_limit
        Gigabytes that the process may hold; by default what is available. Windows are made smaller to fit, which only
        weakens the bound of this lattice; what does not fit even then is refused before anything large is made.
    max_steps
        Steps at most, with splines.
    bound
        Also compute the bound that holds for any mechanism, which takes about as long again.
    listener
        Called with each row of the log.
    """
    _check(problem, gap, time_limit, max_steps)
    begin, trace = time.perf_counter(), Trace(listener)
    if problem.region.weights == Triangles.name:
        found = _by_triangles(problem, time_limit, memory_limit, trace)
    else:
        found = _by_splines(
            problem, gap=gap, time_limit=time_limit, memory_limit=memory_limit, max_steps=max_steps, trace=trace
        )
    lower, is_interrupted = 0.0, found.is_interrupted
    if bound and not is_interrupted:
        run = any_mechanism_bound(problem, time_limit=time_limit, listener=listener)
        lower = 0.0 if run is None else agreed(run.lower_bound, found.loss)
        is_interrupted = run is None or run.is_interrupted
    # what was not found is not stated as a bound of 0
    optimality = Optimality(found.loss, lower) if lower > 0.0 or (bound and found.loss == 0.0) else None
    solver = f"{METHODS[problem.region.weights]} ({found.steps})"
    mechanism = PlaneMechanism(found.table, problem.region, problem.outputs, problem.epsilon, optimality, solver)
    is_closed = relative_gap(found.loss, max(lower, found.class_bound)) <= gap
    result = PlaneResult(
        problem=problem,
        mechanism=mechanism,
        loss=found.loss,
        lower_bound=lower,
        class_bound=found.class_bound,
        steps=found.steps,
        seconds=time.perf_counter() - begin,
        trace=trace,
        status=Status.OPTIMAL if is_closed else Status.LIMIT,
        peak_mb=peak_megabytes(),
        is_interrupted=is_interrupted and not is_closed,
    )
    trace.add(stage="end", status=result.status.value, loss=result.loss, bound=lower, class_bound=result.class_bound)
    return result


class _Found(NamedTuple):
    """A table, its loss, the bound of the lattice, and whether a request ended the search."""

    table: NDArray[np.uint64]
    loss: float
    class_bound: float
    steps: int
    is_interrupted: bool


def _by_splines(
    problem: PlaneProblem,
    *,
    gap: float,
    time_limit: float | None,
    memory_limit: float | None,
    max_steps: int,
    trace: Trace,
) -> _Found:
    stop = Stop(time_limit)
    reach = reach_within(problem, memory_limit)
    trace.add(
        stage="start",
        method=METHODS[Splines.name],
        nodes=problem.n_nodes,
        outputs=problem.n_outputs,
        forecast_mb=bytes_needed(problem, reach) / 1e6,
        reach=reach,
    )
    with stop.on_interrupt():
        search = _Search(problem, Loop(problem, Cones.of(problem.region), share=1.0, reach=reach), stop, trace, gap)
        search.raise_bound(max_steps)
        search.save_loss(max_steps)
    return _Found(search.table, search.loss, search.bound, search.loop.n, stop.is_end_requested)


def _by_triangles(problem: PlaneProblem, time_limit: float | None, memory_limit: float | None, trace: Trace) -> _Found:
    run = edge_result(problem, time_limit=time_limit, memory_limit=memory_limit, listener=lambda row: trace.add(**row))
    table = run.mechanism.table
    whole = table if isinstance(table, np.ndarray) else table.block()
    return _Found(whole, table_loss(whole, problem), 0.0, run.iterations, run.is_interrupted)


class _Search:
    """The best table and bound so far."""

    def __init__(self, problem: PlaneProblem, loop: Loop, stop: Stop, trace: Trace, gap: float) -> None:
        self.problem, self.loop, self.stop, self.trace, self.gap = problem, loop, stop, trace, gap
        self.table: NDArray[np.uint64] = np.zeros((0, 0), dtype=np.uint64)
        self.loss, self.bound = math.inf, 0.0

    def raise_bound(self, max_steps: int) -> None:
        """Take steps at the whole epsilon until more of them no longer raise the bound of this lattice."""
        loop, stop = self.loop, self.stop
        most_seconds = BOUND_SHARE * stop.time_limit

        def is_late() -> bool:
            return stop.is_due or time.monotonic() - stop.begin > most_seconds

        while not is_late() and loop.n < max_steps // 2:
            self._steps(min(loop.n + _more(loop.n), max_steps // 2), is_late)
            before, self.bound = self.bound, max(self.bound, loop.class_bound())
            self.trace.add(stage="plane", iteration=loop.n, share=1.0, class_bound=self.bound)
            if before > 0.0 and self.bound - before <= RISE * self.bound:
                break

    def save_loss(self, max_steps: int) -> None:
        """Take steps at a little less than epsilon, with repairs, until more of them no longer save loss."""
        loop, stop = self.loop, self.stop
        for share in SHARES:
            loop.set_share(share)
            best, idle = self.loss, 0
            while idle < IDLE_CHECKS:
                self._steps(min(loop.n + _more(loop.n), max_steps), lambda: self.stop.is_due)
                table = private_table(loop.matrix(), self.problem, loop.cones)
                loss = table_loss(table, self.problem)
                idle = idle + 1 if loss > self.loss * (1.0 - PROGRESS) else 0
                if loss < self.loss:
                    self.table, self.loss = table, loss
                self.bound = agreed(self.bound, self.loss)  # they may differ by roundings
                self.trace.add(stage="plane", iteration=loop.n, share=share, loss=loss, class_bound=self.bound)
                if stop.is_due or loop.n >= max_steps or relative_gap(self.loss, self.bound) <= self.gap:
                    return
            if self.loss > best * (1.0 - PROGRESS):
                return

    def _steps(self, last: int, is_over: Callable[[], bool]) -> None:
        while self.loop.n < last - 1 and not is_over():
            self.loop.run(min(10, last - 1 - self.loop.n))
        if self.loop.n < last and not self.stop.is_due:
            self.loop.settle()


def _more(n: int) -> int:
    return max(CHECK_EVERY, n // GROWTH)


def _check(problem: PlaneProblem, gap: float, time_limit: float | None, max_steps: int) -> None:
    if not isinstance(problem, PlaneProblem):
        name = type(problem).__name__
        raise InputError(f"solve_plane takes a PlaneProblem, got {name}: use metricdp.solve for problems of records")
    if not 0.0 <= gap < 1.0:
        raise InputError(f"gap must be at least 0 and below 1, got {gap}: 0.01 means one percent")
    if time_limit is not None and not time_limit > 0:
        raise InputError(f"time_limit must be a positive number of seconds, got {time_limit}")
    if type(max_steps) is not int or max_steps < 1:
        raise InputError(f"max_steps must be a whole number, at least 1, got {max_steps!r}")


def agreed(bound: float, loss: float) -> float:
    """Return a lower bound, at most the loss; raise an error if it is above the loss by more than rounding."""
    if not bound <= loss * (1.0 + PRIVACY_TOLERANCE):
        raise SolverError(
            f"the lower bound {bound:g} is above the loss {loss:g} of a certified mechanism: a fault of this program, "
            "please report it with the problem"
        )
    return min(bound, loss)


def table_loss(table: NDArray[np.uint64], problem: PlaneProblem) -> float:
    """Return the expected loss of a table, rounded up."""
    return float((problem.costs * (table / float(TOTAL))).sum()) * (1.0 + LOSS_ROUNDING)
