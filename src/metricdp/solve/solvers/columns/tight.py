"""The mechanism with every mDP row tight, in closed form: where privacy is weak it is nearly optimal.

One kernel per record, with weights w that make the rows sum to 1: two linear systems, E w = 1 for the weights and
E' y = (least cost of each kernel) for the unit-sum duals at which no kernel can gain, E = exp(-epsilon D) over paths.
It exists if w is not negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.component import Component


MAX_RECORDS = 1_000  # the systems are dense


@dataclass(frozen=True)
class _Tight:
    """The kernels as columns, what each costs at every output, their weights, and the unit-sum duals."""

    kernels: NDArray[np.float64]
    costs: NDArray[np.float64]
    weights: NDArray[np.float64]
    duals: NDArray[np.float64]


def _tight(component: Component) -> _Tight | None:
    if component.n > MAX_RECORDS or len(np.unique(component.costs.argmin(axis=1))) < component.n:
        return None
    kernels = np.exp(-component.epsilon * component.graph.path_distances(np.arange(component.n)))
    costs = kernels.T @ component.costs
    try:
        weights = np.linalg.solve(kernels, np.ones(component.n))
        duals = np.linalg.solve(kernels.T, costs.min(axis=1))
    except np.linalg.LinAlgError:  # records so close that their kernels coincide
        return None
    if not (np.isfinite(duals).all() and (weights >= 0.0).all()):
        return None
    return _Tight(kernels, costs, weights.astype(np.float64, copy=False), duals)


def tight_mechanism(component: Component) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the matrix and its unit-sum duals, neither to be trusted.

    It is the best mixture of kernels where each record has an output of its own; None where some share one, so that
    another mixture is better, and where there is no such mechanism.
    """
    found = _tight(component)
    if found is None:
        return None
    Z = np.zeros(component.costs.shape)
    np.add.at(Z.T, found.costs.argmin(axis=1), (found.kernels * found.weights).T)
    return Z, found.duals
