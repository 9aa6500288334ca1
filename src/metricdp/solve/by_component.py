"""Solve every component with one solver, and combine the results."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import OutOfRoomError, StoppedError
from metricdp.solve.bounds import RowDuals, lower_bound
from metricdp.solve.contract import Ended, Incumbent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.component import Component
    from metricdp.solve.contract import Context, FoundTable, Solver
    from metricdp.solve.merged import Merged

CHEAPEST_OUTPUT = "cheapest output"  # what stands for the solver where none is needed


@dataclass(frozen=True)
class Found:
    """The combined matrix of all components, a bound on the whole, and how each component ended.

    ``unfinished`` marks merged records of components that a limit or a failure ended. ``solvers`` names those that
    ran, in their order; empty if a limit came before them.
    """

    Z: NDArray[np.float64]
    lower_bound: float
    unfinished: NDArray[np.bool_]
    ended: frozenset[Ended]
    iterations: int
    cuts: int
    is_private: bool  # up to rounding
    solvers: tuple[str, ...] = ()

    @classmethod
    def nothing(cls, merged: Merged, found: FoundTable) -> Found:
        """Return what there is of a run on windows that ended before it had a table: its bound."""
        unfinished = np.ones(merged.graph.n, dtype=bool)
        Z = np.zeros((merged.graph.n, merged.problem.n_outputs))
        return cls(Z, found.lower_bound, unfinished, frozenset({found.ended}), found.steps, 0, is_private=False)

    @property
    def has_failed(self) -> bool:
        """Whether the gap was missed for another reason than a limit."""
        return Ended.FAILED in self.ended or not self.ended & {Ended.STOPPED, Ended.USED_UP}


def solve_components(
    solver: Solver, merged: Merged, context: Context, *, start: NDArray[np.float64] | None = None
) -> Found:
    """Solve every component, small ones first; ``start`` are rows of all merged records to begin with."""
    whole = merged.whole()
    if solver.takes_all_at_once(whole):
        found = _solved(solver, whole, context, start)
        unfinished = np.full(whole.n, _is_unfinished(found))
        rows = np.zeros(whole.costs.shape) if found.rows is None else found.rows
        ended = frozenset((found.ended,))
        return Found(
            rows,
            found.lower_bound,
            unfinished,
            ended,
            found.iterations,
            found.cuts,
            found.is_private,
            found.solvers,
        )
    graph, costs = merged.graph, merged.costs
    Z = np.zeros(costs.shape)
    unfinished = np.zeros(graph.n, dtype=bool)
    # a component of one record puts all its mass on its cheapest output
    alone = np.array([rows[0] for rows in graph.components if len(rows) == 1], dtype=np.int64)
    Z[alone, costs[alone].argmin(axis=1)] = 1.0
    bounds = [lower_bound(costs[alone], RowDuals.none(), cost_roundings=merged.cost_roundings)] if len(alone) else []
    iterations, cuts, is_private = 0, 0, True
    reasons: set[Ended] = set()
    solvers: dict[str, None] = {}  # in the order of their first use
    sizes = {number: len(rows) for number, rows in enumerate(graph.components) if len(rows) > 1}
    for number in sorted(sizes, key=sizes.__getitem__):
        component = merged.component(number)
        found = _solved(solver, component, context, None if start is None else start[component.members])
        if found.rows is not None:
            Z[component.members] = found.rows
        is_private &= found.is_private
        unfinished[component.members] = _is_unfinished(found)
        bounds.append(found.lower_bound)
        iterations, cuts = max(iterations, found.iterations), cuts + found.cuts
        reasons.add(found.ended)
        solvers |= dict.fromkeys(found.solvers)
    bound = max(0.0, math.nextafter(math.fsum(bounds), -math.inf))
    return Found(
        Z,
        bound,
        unfinished,
        frozenset(reasons),
        iterations,
        cuts,
        is_private,
        tuple(solvers) if sizes else (CHEAPEST_OUTPUT,),
    )


def _solved(solver: Solver, component: Component, context: Context, start: NDArray[np.float64] | None) -> Incumbent:
    known = Incumbent.nothing(component)
    if start is not None:
        known = Incumbent(known.lower_bound, start, is_private=component.is_private(start))
    try:
        context.stop.check()
        found = solver.run(component, known, context)
    except StoppedError:  # during set-up
        found = known
    except OutOfRoomError as error:
        found = replace(known, ended=Ended.USED_UP, reason=str(error))
    if found is not known:  # nothing that was known before is lost
        found = replace(
            known.followed_by(found, component),
            iterations=found.iterations,
            cuts=found.cuts,
            solvers=found.solvers or (solver.name,),
        )
    if found.reason:
        context.trace.add(
            stage="gave up", component=component.number, records=component.n, method=solver.name, reason=found.reason
        )
    return found


def _is_unfinished(found: Incumbent) -> bool:
    return found.ended in (Ended.STOPPED, Ended.USED_UP, Ended.FAILED)
