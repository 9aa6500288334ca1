"""The PMO of one component as a single linear program.

By default mDP rows enter only when they are violated, and probabilities have a floor f: a row with
f exp(epsilon d) >= 1 is then implied and never needed, and coefficients stay within what a float solver can handle. The
floor only shapes the search: the mechanism is checked against the true rows, and the lower bound is one for the true
problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import InputError, OutOfRoomError
from metricdp.metric.sparsify import prune_implied
from metricdp.solve.bounds import RowDuals, lower_bound
from metricdp.solve.components import ComponentSolution
from metricdp.solve.lp import ALGORITHMS, LinearProgram

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.metric.graph import MdpGraph
    from metricdp.solve.components import Component
    from metricdp.solve.result import Trace
    from metricdp.solve.stop import Stop

FLOOR = 1e-9
TOLERANCE = 1e-10  # the least that HiGHS takes
ENTRIES_AT_ONCE = 1 << 20  # of a block of rows


@dataclass(frozen=True)
class DirectOptions:
    """How to solve the linear program.

    Parameters
    ----------
    algorithm
        ``simplex``, ``ipx`` or ``hipo``.
    all_rows
        Hand all rows to the solver at once, without a floor, as the paper's comparison does.
    floor, tolerance
        The least probability while solving, and the solver's feasibility tolerance.
    """

    algorithm: str = "simplex"
    all_rows: bool = False
    floor: float = FLOOR
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise InputError(f"unknown LP algorithm {self.algorithm!r}: choose one of {', '.join(ALGORITHMS)}")
        if not 0.0 <= self.floor < 1e-3:
            raise InputError(f"the floor must be from 0 to 0.001, got {self.floor}: try 1e-9")


@dataclass(frozen=True)
class LpOutcome:
    """What the linear program gave: a matrix and multipliers, neither trusted."""

    Z: NDArray[np.float64]
    duals: RowDuals
    is_complete: bool
    iterations: int


@dataclass(frozen=True)
class _Rows:
    """All mDP rows of a component that the floor does not imply: ``z[tail] <= growth z[head]`` for every output."""

    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    exponent: NDArray[np.float64]
    growth: NDArray[np.float64]

    @classmethod
    def of(cls, graph: MdpGraph, epsilon: float, floor: float, largest: float) -> _Rows:
        exponent = epsilon * np.tile(graph.distances, 2)
        tail = np.concatenate((graph.pairs[:, 0], graph.pairs[:, 1])).astype(np.int64)
        head = np.concatenate((graph.pairs[:, 1], graph.pairs[:, 0])).astype(np.int64)
        limit = np.log(min(1.0 / floor if floor > 0 else np.inf, largest))
        needed = exponent < limit
        return cls(tail[needed], head[needed], exponent[needed], np.exp(exponent[needed]))


LARGEST_GROWTH = 1e14  # rows with a larger factor are left to the repair: the LP solver takes it for infinite


def solve_component(component: Component, *, options: DirectOptions, trace: Trace, stop: Stop) -> ComponentSolution:
    """Solve one component as a single linear program."""
    found = solve_lp(component.costs, component.graph, component.epsilon, options=options, stop=stop, trace=trace)
    bound = lower_bound(component.costs, found.duals, cost_roundings=component.cost_roundings)
    return ComponentSolution(found.Z, bound, found.is_complete, found.iterations)


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
    rows = _Rows.of(prune_implied(graph, is_over=lambda: stop.is_due), epsilon, floor, LARGEST_GROWTH)
    scale = float(np.ptp(costs, axis=1).max()) or 1.0
    # a constant may leave each row without changing the optimum's place; small numbers keep their digits
    objective = (costs - costs.min(axis=1, keepdims=True)) / scale
    program = LinearProgram(
        objective.ravel(),
        np.full(n * K, floor),
        np.ones(n * K),
        algorithm=options.algorithm,
        tolerance=options.tolerance,
        is_hot_started=not options.all_rows,
    )
    starts = np.arange(0, n * K, K, dtype=np.int32)
    program.add_rows(np.ones(n), np.ones(n), starts, np.arange(n * K, dtype=np.int32), np.ones(n * K))
    present = np.zeros((len(rows.tail), K), dtype=bool)
    if options.all_rows:
        program.look_for_room(stop, present.size)
    # the optimum without mDP rows needs no solver: everybody's cheapest output
    edges, outputs = (
        np.nonzero(~present)
        if options.all_rows
        else violated_rows(_cheapest(costs, floor), rows, present, options.tolerance, stop)
    )
    added: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    iterations = 0
    stop.check()  # a linear program without its rows is of no use
    while True:
        try:
            program.look_for_room(stop, len(edges))
            if len(edges):
                _add_rows(program, rows, edges, outputs, K)
                added.append((edges, outputs))
                present[edges, outputs] = True
            solution = program.solve(stop=stop)
        except OutOfRoomError as error:
            if iterations == 0:
                raise
            if trace is not None:
                trace.add(stage="gave up", records=n, reason=str(error))
            break  # with the last point, and multipliers of the rows that it had: a bound, if not the best
        iterations += 1
        Z = np.clip(solution.x.reshape(n, K), 0.0, None)
        edges, outputs = violated_rows(Z, rows, present, options.tolerance, stop)
        if trace is not None:
            trace.add(
                stage="direct",
                records=n,
                rows=program.n_rows,
                violated=len(edges),
                objective=float((costs * Z).sum()),
                solver=solution.solver_status,
                lp_iterations=solution.iterations,
            )
        if len(edges) == 0 or not solution.is_optimal or stop.is_due:
            break
    duals = _duals(solution.row_dual[n:], rows, added, scale)
    is_complete = solution.is_optimal and len(edges) == 0 and not stop.is_due
    return LpOutcome(Z, duals, is_complete, iterations)


def _cheapest(costs: NDArray[np.float64], floor: float) -> NDArray[np.float64]:
    n, K = costs.shape
    Z = np.full((n, K), floor)
    Z[np.arange(n), costs.argmin(axis=1)] = 1.0 - (K - 1) * floor
    return Z


def violated_rows(
    Z: NDArray[np.float64], rows: _Rows, present: NDArray[np.bool_], tolerance: float, stop: Stop
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the edges and outputs of rows that are violated and not present; none once it is time to stop.

    A block at a time: for all rows at once, the differences alone would be larger than everything else.
    """
    edges, outputs = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    block = max(1, ENTRIES_AT_ONCE // Z.shape[1])
    for start in range(0, len(rows.tail), block):
        if stop.is_due:
            break
        part = slice(start, start + block)
        excess = Z[rows.tail[part]] - rows.growth[part, None] * Z[rows.head[part]]
        e, k = np.nonzero((excess > tolerance) & ~present[part])
        edges.append(e + start)
        outputs.append(k)
    return np.concatenate(edges), np.concatenate(outputs)


def _add_rows(
    program: LinearProgram, rows: _Rows, edges: NDArray[np.int64], outputs: NDArray[np.int64], K: int
) -> None:
    """Add ``z[tail, k] - growth z[head, k] <= 0``; the other scaling loses privacy silently beyond epsilon d = 16."""
    m = len(edges)
    columns = np.column_stack((rows.tail[edges] * K + outputs, rows.head[edges] * K + outputs))
    values = np.column_stack((np.ones(m), -rows.growth[edges]))
    program.add_rows(
        np.full(m, -np.inf), np.zeros(m), np.arange(0, 2 * m, 2, dtype=np.int32), columns.ravel(), values.ravel()
    )


def _duals(
    row_dual: NDArray[np.float64],
    rows: _Rows,
    added: list[tuple[NDArray[np.int64], NDArray[np.int64]]],
    scale: float,
) -> RowDuals:
    """Give the multipliers of the mDP rows with their sign and scale put right."""
    if not added:
        return RowDuals.none()
    edges = np.concatenate([e for e, _ in added])
    outputs = np.concatenate([k for _, k in added])
    y = np.maximum(-row_dual[: len(edges)], 0.0) * scale
    used = np.flatnonzero(y)
    return RowDuals(rows.tail[edges[used]], rows.head[edges[used]], outputs[used], rows.exponent[edges[used]], y[used])
