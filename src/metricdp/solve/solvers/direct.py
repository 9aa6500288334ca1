"""The PMO of one component as a single linear program.

By default mDP rows are added only when they are violated, and probabilities have a floor f: a row with
f exp(epsilon d) >= 1 is then implied and never needed, and coefficients stay within what a float solver can handle. The
floor only affects the search: the mechanism is checked against the true rows, and the lower bound is one for the true
problem.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from metricdp.errors import InputError, SolverError
from metricdp.mechanism.repair import private_matrix
from metricdp.metric.sparsify import prune_implied
from metricdp.solve.bounds import RowDuals, lower_bound
from metricdp.solve.contract import Ended, Incumbent, Solver, ended_by, register
from metricdp.solve.lazy_rows import DirectedPairs, LazyRows, unit_sums
from metricdp.solve.lp import ALGORITHMS, SOLVER_BYTES, LinearProgram, lp_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.metric.graph import MdpGraph
    from metricdp.solve.component import Component
    from metricdp.solve.contract import Context, Load
    from metricdp.solve.result import Trace
    from metricdp.solve.stop import Stop

DEFAULT_FLOOR = 1e-9  # probability
LP_TOLERANCE = 1e-10  # absolute; the least that HiGHS accepts


@dataclass(frozen=True)
class DirectOptions:
    """How to solve the linear program.

    Parameters
    ----------
    algorithm
        ``simplex``, ``ipx`` or ``hipo``.
    all_rows
        Pass all rows to the solver at once, without a floor, as the paper's comparison does.
    floor, tolerance
        The least probability while solving, and the solver's feasibility tolerance.
    """

    algorithm: str = "simplex"
    all_rows: bool = False
    floor: float = DEFAULT_FLOOR
    tolerance: float = LP_TOLERANCE

    def __post_init__(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise InputError(f"unknown LP algorithm {self.algorithm!r}: choose one of {', '.join(ALGORITHMS)}")
        if not 1e-10 <= self.tolerance <= 1e-3:
            raise InputError(f"the tolerance must be from 1e-10 to 0.001, got {self.tolerance}: try 1e-9")
        if not 0.0 <= self.floor < 1e-3:
            raise InputError(f"the floor must be from 0 to 0.001, got {self.floor}: try 1e-9")


@register
class Direct(Solver):
    """One linear program per component."""

    name: ClassVar[str] = "direct"
    options_type: ClassVar[type] = DirectOptions

    def bytes_beyond(self, load: Load) -> float:
        """Return the bytes of the program with its first rows: how many more will be added is not known."""
        return program_bytes(load)

    def run(self, component: Component, incumbent: Incumbent, context: Context) -> Incumbent:
        """Solve the linear program."""
        try:
            found = solve_lp(
                component.costs,
                component.graph,
                component.epsilon,
                options=self.options,
                stop=context.stop,
                trace=context.trace,
            )
        except SolverError as error:
            # a private matrix needs no solver, and the earlier bound remains valid
            return replace(incumbent, ended=ended_by(error), reason=str(error))
        bound = lower_bound(component.costs, found.duals, cost_roundings=component.cost_roundings)
        ended = Ended.STALLED if found.is_complete else Ended.USED_UP if found.trouble else Ended.STOPPED
        rows, is_private = found.Z, False
        if incumbent.is_private and found.is_complete:  # private rows are compared with private ones
            rows = private_matrix(found.Z, component.graph, component.epsilon, costs=component.costs)
            is_private = True
        own = Incumbent(bound, rows, ended, is_private=is_private, iterations=found.iterations, reason=found.trouble)
        return incumbent.followed_by(own, component)


def program_bytes(load: Load) -> float:
    """Return the bytes of the largest component's linear program with its first rows, and a flag per possible row."""
    columns, rows = load.n * load.sizes.n_outputs, 2.0 * load.torn_pairs
    program = lp_bytes(columns, load.n + rows, columns + 2.0 * rows)
    return SOLVER_BYTES + program + 2.0 * load.n_pairs * load.sizes.n_outputs


@dataclass(frozen=True)
class LpOutcome:
    """The solution of the linear program: a matrix and multipliers, neither trusted."""

    Z: NDArray[np.float64]
    duals: RowDuals
    is_complete: bool
    iterations: int
    trouble: str = ""  # why it is not complete, if no limit of time is the reason


def solve_lp(
    costs: NDArray[np.float64],
    graph: MdpGraph,
    epsilon: float,
    *,
    options: DirectOptions,
    stop: Stop,
    trace: Trace | None = None,
) -> LpOutcome:
    """Solve the linear program of records with positive distances between them."""
    n, K = costs.shape
    floor = 0.0 if options.all_rows else min(options.floor, 0.5 / K)
    pairs = DirectedPairs.of(prune_implied(graph, is_over=lambda: stop.is_due), epsilon, floor=floor)
    scale = float(np.ptp(costs, axis=1).max()) or 1.0
    # subtracting a constant from each row does not change the optimal matrix; small numbers keep their digits
    objective = (costs - costs.min(axis=1, keepdims=True)) / scale
    program = LinearProgram(
        objective.ravel(),
        np.full(n * K, floor),
        np.ones(n * K),
        algorithm=options.algorithm,
        tolerance=options.tolerance,
        is_hot_started=not options.all_rows,
    )
    rows = LazyRows(program, pairs, unit_sums(program, n, K), options.tolerance)
    if options.all_rows:
        rows.add_all(stop)
    else:  # the optimum without mDP rows needs no solver: everybody's cheapest output
        rows.add_violated(cheapest_rows(costs, floor), stop)
    stop.check()  # a linear program without its rows is useless
    iterations = 0
    for found in rows.rounds(stop):
        iterations += 1
        if trace is not None:
            trace.add(
                stage="direct",
                records=n,
                rows=found.n_rows,
                violated=found.n_violated,
                objective=float((costs * found.Z).sum()),
                solver=found.solution.solver_status,
                lp_iterations=found.solution.iterations,
            )
    is_complete = found.is_optimal and not stop.is_due
    return LpOutcome(found.Z, rows.duals(found.solution.row_dual, scale), is_complete, iterations, found.trouble)


def cheapest_rows(costs: NDArray[np.float64], floor: float = 0.0) -> NDArray[np.float64]:
    """Return each record's cheapest output, all others at the floor."""
    n, K = costs.shape
    Z = np.full((n, K), floor)
    Z[np.arange(n), costs.argmin(axis=1)] = 1.0 - (K - 1) * floor
    return Z
