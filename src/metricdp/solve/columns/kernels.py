"""Columns that are nearly optimal at once: kernels, plateaus and the constant column.

A kernel ``v_j = exp(-epsilon D(., j))`` is the extreme column with its peak at record j, every mDP row as tight as it
goes. A plateau has its peak on all records whose cheapest output it is. The constant column makes every master
feasible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.components import Component

RESOLUTION = 44.0  # exp(-44) is below the table's unit of 2^-63: a kernel ends there
BLOCK = 512


def kernel_columns(component: Component) -> NDArray[np.float64]:
    """Give one kernel per record, shape (n, n); entries below the table's resolution are 0."""
    graph, epsilon, n = component.graph, component.epsilon, component.n
    kernels = np.zeros((n, n))
    for start in range(0, n, BLOCK):
        sources = np.arange(start, min(start + BLOCK, n))
        paths = graph.path_distances(sources, limit=RESOLUTION / epsilon)
        kernels[sources] = np.exp(-epsilon * paths)
    return kernels


def plateau_columns(component: Component) -> NDArray[np.float64]:
    """Give one plateau for each output that is the cheapest of some record."""
    cheapest = component.costs.argmin(axis=1)
    outputs = np.unique(cheapest)
    peaks = (cheapest[:, None] == outputs[None, :]).astype(np.float64)
    return component.graph.closure(peaks, component.epsilon).T


def starting_columns(component: Component) -> NDArray[np.float64]:
    """Give kernels, plateaus and the constant column, one per row."""
    return np.vstack((kernel_columns(component), plateau_columns(component), np.ones((1, component.n))))
