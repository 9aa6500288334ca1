"""`solve_plane`: steps, repair, certificate, bounds."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.errors import InputError, SolverError
from metricdp.mechanism.certificate import Optimality, relative_gap
from metricdp.mechanism.exact import TOTAL
from metricdp.mechanism.plane import PlaneMechanism
from metricdp.problem.problem import Problem
from metricdp.solve.ending import PRIVACY_TOLERANCE
from metricdp.solve.plane.cones import Cones
from metricdp.solve.plane.loop import Loop
from metricdp.solve.plane.repair import private_table
from metricdp.solve.result import Result, Trace
from metricdp.solve.solve import solve
from metricdp.solve.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from metricdp.problem.plane import PlaneProblem

SHARE = 0.99  # of epsilon at which is solved: repair uses the rest
CHECK_EVERY = 50  # steps, then a quarter of those so far
PROGRESS = 5e-4  # relative; the loss that a quarter more steps must save
IDLE_CHECKS = 3  # that save less, one after the other, end it: the loss after repair does not fall steadily
MAX_STEPS = 20_000
LOSS_ROUNDING = 1e-12  # relative; far above that of a sum of products in floats
BOUND_GAP = 0.005  # at which the bound for any mechanism stops
NEIGHBOURS = 3.2  # sides of a cell: records that far apart are compared for the bound; fewer rows only lower it


@dataclass(frozen=True, eq=False, repr=False)
class PlaneResult:
    """The outcome: a certified mechanism, its expected loss, and two bounds.

    Attributes
    ----------
    lower_bound
        No mechanism with this budget and these outputs has a smaller expected loss; 0 if it was not asked for.
    class_bound
        No table over this lattice has. The difference of the two is what the lattice costs at most.
    """

    problem: PlaneProblem
    mechanism: PlaneMechanism
    loss: float
    lower_bound: float
    class_bound: float
    steps: int
    seconds: float
    trace: Trace

    @property
    def gap(self) -> float:
        """The relative gap ``(loss - lower_bound) / loss``."""
        return relative_gap(self.loss, self.lower_bound)

    def __repr__(self) -> str:
        return (
            f"PlaneResult(loss {self.loss:.6g}, any mechanism {self.lower_bound:.6g} (gap {100 * self.gap:.3g} %), "
            f"this lattice {self.class_bound:.6g}, {self.steps} steps, {self.seconds:.2f} s)"
        )


def solve_plane(
    problem: PlaneProblem,
    *,
    time_limit: float | None = None,
    max_steps: int = MAX_STEPS,
    bound: bool = True,
    listener: Callable[[dict[str, Any]], None] | None = None,
) -> PlaneResult:
    """Find a mechanism for every point of a region with a small expected loss, and certify it.

    Parameters
    ----------
    time_limit
        Seconds; the best mechanism so far is returned. The bound has as much again.
    max_steps
        Steps at most; it ends sooner where more of them save nothing.
    bound
        Also compute the bound that holds for any mechanism, which takes about as long again.
    listener
        Called with each row of the log.
    """
    if time_limit is not None and not time_limit > 0:
        raise InputError(f"time_limit must be a positive number of seconds, got {time_limit}")
    if max_steps < 1:
        raise InputError(f"max_steps must be at least 1, got {max_steps}")
    begin, trace, stop = time.perf_counter(), Trace(listener), Stop(time_limit)
    cones = Cones.of(problem.region)
    loop = Loop(problem, cones, share=SHARE)
    best: NDArray[np.uint64] = np.zeros((0, 0), dtype=np.uint64)
    least, idle, next_check = math.inf, 0, min(CHECK_EVERY, max_steps)
    with stop.on_interrupt():
        while True:
            while loop.at.n < next_check and not stop.is_due:
                loop.run(min(10, next_check - loop.at.n))
            table = private_table(loop.at.plain.astype(np.float64), problem, cones)
            loss = table_loss(table, problem)
            trace.add(stage="plane", iteration=loop.at.n, loss=loss)
            idle = idle + 1 if loss > least * (1.0 - PROGRESS) else 0
            if loss < least:
                best, least = table, loss
            if stop.is_due or loop.at.n >= max_steps or idle >= IDLE_CHECKS:
                break
            next_check = min(max_steps, loop.at.n + max(CHECK_EVERY, loop.at.n // 4))
    class_bound = max(0.0, agreed(loop.class_bound(), least))
    lower = 0.0
    if bound and not stop.is_end_requested:
        lower = agreed(any_mechanism_bound(problem, time_limit=time_limit).lower_bound, least)
    optimality = Optimality(least, lower) if bound else None
    mechanism = PlaneMechanism(
        best, problem.region, problem.outputs, problem.epsilon, optimality, f"conic steps ({loop.at.n})"
    )
    seconds = time.perf_counter() - begin
    return PlaneResult(problem, mechanism, least, lower, class_bound, loop.at.n, seconds, trace)


def any_mechanism_bound(problem: PlaneProblem, *, time_limit: float | None = None) -> Result:
    """Return a run whose lower bound holds for any mechanism over the region that reports these outputs.

    A mechanism that protects all points also protects the places of the prior from one another, so it is one for them
    as records, of which only those a few cells apart are compared here: fewer rows can only lower the bound.
    """
    sides = [float(side) for side in problem.region.sides]
    records = Problem(
        problem.places,
        epsilon=problem.epsilon,
        eta=NEIGHBOURS * max(sides),
        outputs=problem.outputs.coordinates,
        loss=problem.losses,
        metric=problem.region.metric,
    )
    return solve(records, gap=BOUND_GAP, time_limit=time_limit)


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
