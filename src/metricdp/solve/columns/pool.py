"""The columns known so far, each attached to its cheapest output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.components import Component

NEGLIGIBLE = 1e-9  # entries below are left out of the master: the LP solver would drop them without a word


class ColumnPool:
    """Members of the cone as rows of ``V``, scaled to a largest entry of 1, with cost and output."""

    def __init__(self, component: Component) -> None:
        self.component = component
        self.V = np.zeros((0, component.n))
        self.costs = np.zeros(0)
        self.outputs = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.V)

    def add(self, columns: NDArray[np.float64], outputs: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Add columns, attached to ``outputs`` or to the cheapest one each; give the places of the new ones."""
        peaks = columns.max(axis=1, initial=0.0)
        keep = peaks > 0
        scaled = columns[keep] / peaks[keep, None]
        scaled[scaled < NEGLIGIBLE] = 0.0
        prices = scaled @ self.component.costs
        chosen = prices.argmin(axis=1) if outputs is None else outputs[keep]
        first = len(self)
        self.V = np.vstack((self.V, scaled))
        self.costs = np.concatenate((self.costs, prices[np.arange(len(chosen)), chosen]))
        self.outputs = np.concatenate((self.outputs, chosen))
        return np.arange(first, len(self))

    def mechanism(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give the matrix ``Z[:, k] = sum of x_j v_j over the columns of output k``."""
        Z = np.zeros(self.component.costs.shape)
        used = np.flatnonzero(x > 0)
        np.add.at(Z.T, self.outputs[used], x[used, None] * self.V[used])
        return Z
