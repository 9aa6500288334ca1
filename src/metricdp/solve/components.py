"""What every solver shares: one component's problem, and what is found for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.solve.bounds import RowDuals, lower_bound

PRIVATE_WITHIN = 1e-9  # relative: what rounding can do to a private matrix
COLUMNS_AT_ONCE = 256

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.metric.graph import MdpGraph


@dataclass(frozen=True)
class Component:
    """One connected part of the mDP graph with records at distance 0 merged: an independent problem.

    Parameters
    ----------
    costs
        Prior-weighted losses, shape (n, K).
    graph
        Neighbour pairs among its n records, all distances positive.
    epsilon
        The budget.
    cost_roundings
        How many roundings each cost may carry.
    number
        Its place among the components, for names of files and in the trace.
    """

    costs: NDArray[np.float64]
    graph: MdpGraph
    epsilon: float
    cost_roundings: int = 1
    number: int = 0

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self.costs)

    @property
    def n_outputs(self) -> int:
        """Number of outputs, K."""
        return int(self.costs.shape[1])

    @property
    def scale(self) -> float:
        """The largest difference between two losses of a record: the objective is divided by it for the LP solver."""
        return float(np.ptp(self.costs, axis=1).max()) or 1.0

    def is_private(self, Z: NDArray[np.float64]) -> bool:
        """Say whether a matrix from outside is a private mechanism, up to rounding: its closure is then itself."""
        if Z.dtype != np.float64 or Z.shape != self.costs.shape or not (np.isfinite(Z) & (Z >= 0.0)).all():
            return False
        if not (np.abs(Z.sum(axis=1) - 1.0) <= PRIVATE_WITHIN).all():
            return False
        for first in range(0, self.n_outputs, COLUMNS_AT_ONCE):
            some = Z[:, first : first + COLUMNS_AT_ONCE]
            if (self.graph.closure(some, self.epsilon) > some * (1.0 + PRIVATE_WITHIN)).any():
                return False
        return True


@dataclass(frozen=True)
class ComponentSolution:
    """What a solver found for one component: a matrix that is not trusted yet, and a valid lower bound.

    ``unit_duals`` are what a solver takes for the duals of the unit sums, for another one to start from;
    ``is_private`` says that the matrix has been repaired, so that it is private up to rounding.
    """

    Z: NDArray[np.float64]
    lower_bound: float
    is_complete: bool
    iterations: int
    cuts: int = 0
    unit_duals: NDArray[np.float64] | None = None
    is_private: bool = False

    @classmethod
    def nothing(cls, component: Component) -> ComponentSolution:
        """Return what is known without any solver: no matrix, and the bound of records that are alone."""
        bound = lower_bound(component.costs, RowDuals.none(), cost_roundings=component.cost_roundings)
        return cls(np.zeros(component.costs.shape), bound, is_complete=False, iterations=0)
