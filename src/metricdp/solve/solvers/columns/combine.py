"""Combination repair: the best rescaling of a matrix's closed columns together with kernels.

Mixing (`mechanism/repair.py`) makes any matrix private and leaves its shape. Once its columns are closed, the master
over them and the kernels is a small linear program whose solution is private as well and never worse.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import SolverError, StoppedError
from metricdp.mechanism.mechanism import Mechanism
from metricdp.solve.component import Component
from metricdp.solve.solvers.columns.kernels import starting_columns
from metricdp.solve.solvers.columns.master import ColumnMaster
from metricdp.solve.solvers.columns.pool import ColumnPool
from metricdp.solve.stop import Stop

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.problem.problem import Problem


def best_combination(problem: Problem, Z: NDArray[np.float64], *, time_limit: float | None = None) -> Mechanism:
    """Return the certified best combination of the columns of ``Z`` and kernels; at least as good as repair."""
    mixed = Mechanism.from_matrix(problem, Z, solver="repair")
    group, graph = problem.graph.merged()
    first = np.unique(group, return_index=True)[1]
    costs = np.zeros((graph.n, problem.n_outputs))
    np.add.at(costs, group, problem.costs)
    combined = mixed.probabilities[first]
    stop = Stop(time_limit)
    for rows in graph.components:
        component = Component(costs[rows], graph.subgraph(rows), problem.epsilon)
        if component.n > 1 and not stop.is_due:
            combined[rows] = _combined(component, combined[rows], stop)
    better = Mechanism.from_matrix(problem, combined[group], solver="combination")
    losses = [math.fsum((problem.costs * m.probabilities).ravel()) for m in (mixed, better)]
    return better if losses[1] < losses[0] else mixed


def _combined(component: Component, Z: NDArray[np.float64], stop: Stop) -> NDArray[np.float64]:
    pool = ColumnPool(component)
    used = np.flatnonzero(Z.max(axis=0) > 0)
    pool.add(Z.T[used], used)
    try:
        pool.add(starting_columns(component, stop))
        point = ColumnMaster(pool, component.scale, has_slack=False).solve(stop)
    except (SolverError, StoppedError):
        return Z
    return pool.mechanism(point.x) if point.is_optimal else Z
