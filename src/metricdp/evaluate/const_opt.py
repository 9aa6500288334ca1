"""A linear program with far entries taken from the exponential mechanism, after the idea of ConstOPT.

Imola, Kasiviswanathan, White, Aggarwal and Teissier (UAI 2022) make the LP smaller by fixing the probabilities of some
pairs of record and output to what the exponential mechanism gives them. Which pairs is our choice here, not theirs:
each record's nearest outputs stay free, all others are fixed. The exponential mechanism itself is always a solution, so
the result is never worse than it, and never better than the full LP.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import SolverError
from metricdp.mechanism.baselines import exponential_matrix
from metricdp.mechanism.mechanism import Mechanism
from metricdp.problem.loss import distance_loss
from metricdp.solve.lazy_rows import DirectedPairs, LazyRows
from metricdp.solve.lp import LinearProgram
from metricdp.solve.stop import Stop

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.metric.graph import MdpGraph
    from metricdp.problem.problem import Problem

FREE_SHARE = 0.25  # of the outputs, the nearest of each record: our choice, the paper names none
FLOOR_PROBABILITY = 1e-9  # while solving
LP_TOLERANCE = 1e-9  # of the LP solver, absolute


def const_opt(
    problem: Problem, *, free_share: float = FREE_SHARE, time_limit: float | None = None
) -> tuple[Mechanism, str]:
    """Return the best mechanism whose far entries are the exponential mechanism's, certified, and a note on it."""
    stop = Stop(time_limit)
    fixed = exponential_matrix(problem)
    n_free = min(problem.n_outputs, max(2, math.ceil(free_share * problem.n_outputs)))
    distances = distance_loss(problem.records, problem.outputs, problem.metric)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :n_free]
    is_free = np.zeros(fixed.shape, dtype=bool)
    np.put_along_axis(is_free, nearest, True, axis=1)
    Z = fixed.copy()
    for rows in problem.graph.components:
        graph = problem.graph.subgraph(rows)
        Z[rows] = _solve(problem.costs[rows], graph, problem.epsilon, fixed[rows], is_free=is_free[rows], stop=stop)
    note = f"{n_free} of {problem.n_outputs} outputs free for each record"
    return Mechanism.from_matrix(problem, Z, solver="const-opt"), note


def _solve(
    costs: NDArray[np.float64],
    graph: MdpGraph,
    epsilon: float,
    fixed: NDArray[np.float64],
    *,
    is_free: NDArray[np.bool_],
    stop: Stop,
) -> NDArray[np.float64]:
    """Solve one component: mDP rows between free entries are added when violated, those to fixed ones are bounds."""
    variables = np.where(is_free, np.cumsum(is_free.ravel()).reshape(is_free.shape) - 1, -1)
    lower, upper = np.minimum(fixed, FLOOR_PROBABILITY), np.ones(fixed.shape)
    pairs = DirectedPairs.of(graph, epsilon, floor=FLOOR_PROBABILITY)
    for a, b, g in zip(pairs.tail, pairs.head, np.exp(pairs.exponent), strict=True):
        # a fixed neighbour bounds a free entry from both sides, and the exponential mechanism is always within
        held = ~is_free[b]
        upper[a, held] = np.minimum(upper[a, held], np.maximum(g * fixed[b, held], fixed[a, held]))
        lower[a, held] = np.maximum(lower[a, held], np.minimum(fixed[b, held] / g, fixed[a, held]))
    scale = float(np.ptp(costs, axis=1).max()) or 1.0
    objective = ((costs - costs.min(axis=1, keepdims=True)) / scale)[is_free]
    program = LinearProgram(objective, lower[is_free], upper[is_free], tolerance=LP_TOLERANCE)
    counts = is_free.sum(axis=1)
    total = np.where(is_free, fixed, 0.0).sum(axis=1)
    program.add_rows(total, total, np.cumsum(counts) - counts, np.arange(counts.sum()), np.ones(counts.sum()))
    found = None if stop.is_due else LazyRows(program, pairs, variables, LP_TOLERANCE).solve(stop)
    if found is None or not found.is_optimal:
        raise SolverError("its linear program was not solved within the time limit")
    return np.where(is_free, found.Z, fixed)
