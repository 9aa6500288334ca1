"""The columns known so far, each attached to its cheapest output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array, vstack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.component import Component

NEGLIGIBLE_ENTRY = 1e-9  # smaller entries are left out of the master: the LP solver would drop them silently


class ColumnPool:
    """Members of the cone as sparse rows of ``V``, scaled to a largest entry of 1, with cost and output."""

    def __init__(self, component: Component) -> None:
        self.component = component
        self.V = csr_array((0, component.n))
        self.costs = np.zeros(0)
        self.outputs = np.zeros(0, dtype=np.int64)
        self.unused_for = np.zeros(0, dtype=np.int64)  # rounds without weight in any master

    def __len__(self) -> int:
        return len(self.costs)

    def add(
        self, columns: NDArray[np.float64] | csr_array, outputs: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """Add columns, attached to ``outputs`` or to the cheapest one each; return the places of the new ones."""
        scaled = csr_array(columns)
        peaks = np.asarray(scaled.max(axis=1).todense()).ravel()
        keep = np.flatnonzero(peaks > 0)
        scaled = csr_array(scaled[keep].multiply(1.0 / peaks[keep, None]))
        scaled.data[scaled.data < NEGLIGIBLE_ENTRY] = 0.0
        scaled.eliminate_zeros()
        prices = scaled @ self.component.costs
        chosen = prices.argmin(axis=1) if outputs is None else outputs[keep]
        first = len(self)
        self.V = csr_array(vstack((self.V, scaled)))
        self.costs = np.concatenate((self.costs, prices[np.arange(len(chosen)), chosen]))
        self.outputs = np.concatenate((self.outputs, chosen))
        self.unused_for = np.concatenate((self.unused_for, np.zeros(len(chosen), dtype=np.int64)))
        return np.arange(first, len(self))

    def mechanism(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the matrix ``Z[:, k] = sum of x_j v_j over the columns of output k``."""
        used = np.flatnonzero(x > 0)
        weights = csr_array((x[used], (used, self.outputs[used])), shape=(len(self), self.component.n_outputs))
        return np.ascontiguousarray((self.V.T @ weights).toarray())

    def note_use(self, *weights: NDArray[np.float64]) -> None:
        """Count the rounds that each column has gone without weight in all of the masters' points."""
        is_used = np.zeros(len(self), dtype=bool)
        for x in weights:
            is_used[: len(x)] |= x > 0
        self.unused_for = np.where(is_used, 0, self.unused_for + 1)

    def purge(self, rounds: int) -> None:
        """Drop the columns that have gone ``rounds`` rounds without weight; the constant column stays."""
        is_constant = np.asarray(self.V.sum(axis=1)).ravel() >= self.component.n * (1.0 - 1e-12)
        keep = np.flatnonzero((self.unused_for < rounds) | is_constant)
        self.V = self.V[keep]
        self.costs, self.outputs, self.unused_for = self.costs[keep], self.outputs[keep], self.unused_for[keep]
