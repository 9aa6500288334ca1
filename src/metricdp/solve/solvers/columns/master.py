"""The master over columns: weights x >= 0 with ``sum_j x_j v_j = 1`` in every record, and slack at a price.

Slack columns at prices ``centre + radius`` (missing mass) and ``-(centre - radius)`` (surplus) keep the dual within a
box around a centre: the box step. Without slack the solution is a mechanism in the cone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array, eye_array, hstack

from metricdp.solve.lp import LinearProgram

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.solvers.columns.pool import ColumnPool
    from metricdp.solve.stop import Stop

LP_TOLERANCE = 1e-9  # of the LP solver, absolute


@dataclass(frozen=True)
class MasterPoint:
    """Weights of the pool's columns, unit-sum duals, and the mass that slack columns carry."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    slack: float
    is_optimal: bool


class ColumnMaster:
    """One LP that grows by columns, with slack or without; it continues from its last point."""

    def __init__(self, pool: ColumnPool, scale: float, *, has_slack: bool) -> None:
        self.pool, self.scale = pool, scale
        n = pool.component.n
        self.n = n
        cost = np.concatenate((np.full(n, 1.0), np.zeros(n), pool.costs / scale))
        # bounded; otherwise a centre that some column shows to be too high would make the LP unbounded
        slack = np.full(2 * n, 1.0 if has_slack else 0.0)
        upper = np.concatenate((slack, np.full(len(pool), np.inf)))
        self.program = LinearProgram(cost, np.zeros(len(cost)), upper, tolerance=LP_TOLERANCE, is_primal=True)
        self.program.limit_hot_starts()
        matrix = csr_array(hstack((eye_array(n), -eye_array(n), pool.V.T)))
        self.program.add_rows(np.ones(n), np.ones(n), matrix.indptr[:-1], matrix.indices, matrix.data)

    def extend(self, places: NDArray[np.int64]) -> None:
        """Add columns of the pool."""
        V = csr_array(self.pool.V[places])
        self.program.add_columns(self.pool.costs[places] / self.scale, V.indptr[:-1], V.indices, V.data)

    def solve(
        self, stop: Stop, *, centre: NDArray[np.float64] | None = None, radius: NDArray[np.float64] | None = None
    ) -> MasterPoint:
        """Solve; with slack, the dual stays in a box around ``centre``."""
        n = self.n
        if centre is not None and radius is not None:
            self.program.set_costs(np.concatenate((centre + radius, -(centre - radius))) / self.scale)
        solution = self.program.solve(stop=stop)
        x = np.clip(solution.x, 0.0, None)
        return MasterPoint(x[2 * n :], solution.row_dual * self.scale, float(x[: 2 * n].sum()), solution.is_optimal)
