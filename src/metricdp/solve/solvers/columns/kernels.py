"""Columns that are nearly optimal without iterations: kernels, plateaus and the constant column.

A kernel ``v_j = exp(-epsilon D(., j))`` is the extreme column with its peak at record j, every mDP row as tight as it
goes. A plateau has its peak on all records whose cheapest output it is. The constant column makes every master
feasible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array, vstack

from metricdp.solve.solvers.columns.pool import NEGLIGIBLE_ENTRY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.component import Component
    from metricdp.solve.stop import Stop

RECORDS_AT_ONCE = 64  # records whose paths are searched for at once


def kernel_columns(component: Component, stop: Stop) -> csr_array:
    """Return one kernel per record, shape (n, n), sparse: truncated below the master's resolution."""
    graph, epsilon, n = component.graph, component.epsilon, component.n
    parts = []
    for start in range(0, n, RECORDS_AT_ONCE):
        stop.check()
        sources = np.arange(start, min(start + RECORDS_AT_ONCE, n))
        paths = graph.path_distances(sources, limit=-np.log(NEGLIGIBLE_ENTRY) / epsilon)
        parts.append(csr_array(np.exp(-epsilon * paths)))
    return csr_array(vstack(parts))


def plateau_columns(component: Component, stop: Stop) -> NDArray[np.float64]:
    """Return one plateau for each output that is the cheapest of some record."""
    cheapest = component.costs.argmin(axis=1)
    outputs = np.unique(cheapest)
    peaks = (cheapest[:, None] == outputs[None, :]).astype(np.float64)
    return component.graph.closure(peaks, component.epsilon, is_over=lambda: stop.is_due).T


def starting_columns(component: Component, stop: Stop) -> csr_array:
    """Return kernels, plateaus and the constant column, one per row."""
    constant = csr_array(np.ones((1, component.n)))
    return csr_array(vstack((kernel_columns(component, stop), csr_array(plateau_columns(component, stop)), constant)))
