"""One component of a problem: the input of a solver."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

PRIVACY_TOLERANCE = 1e-9  # relative: above the effect of rounding on a private matrix
COLUMNS_AT_ONCE = 256
LOSS_ROUNDING = 2.0**-40  # relative: above the rounding of a sum of products of a loss

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
    groups
        The numbers of its records among all merged records of the problem; by default 0 to n - 1.
    """

    costs: NDArray[np.float64]
    graph: MdpGraph
    epsilon: float
    cost_roundings: int = 1
    number: int = 0
    groups: NDArray[np.int64] | None = None

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

    @property
    def members(self) -> NDArray[np.int64]:
        """The numbers of its records among all merged records of the problem."""
        return np.arange(self.n) if self.groups is None else self.groups

    def loss(self, rows: NDArray[np.float64]) -> float:
        """Return a number that is never below the loss of ``rows``."""
        return math.fsum((self.costs * rows).sum(axis=1)) * (1.0 + LOSS_ROUNDING)

    def is_private(self, Z: NDArray[np.float64]) -> bool:
        """Return whether a matrix from outside is a private mechanism, up to rounding: its closure is then itself."""
        if Z.dtype != np.float64 or Z.shape != self.costs.shape or not (np.isfinite(Z) & (Z >= 0.0)).all():
            return False
        if not (np.abs(Z.sum(axis=1) - 1.0) <= PRIVACY_TOLERANCE).all():
            return False
        for first in range(0, self.n_outputs, COLUMNS_AT_ONCE):
            some = Z[:, first : first + COLUMNS_AT_ONCE]
            if (self.graph.closure(some, self.epsilon) > some * (1.0 + PRIVACY_TOLERANCE)).any():
                return False
        return True
