"""Simple mechanisms to compare with; they pass the same certification as ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from metricdp.mechanism.mechanism import Mechanism
from metricdp.problem.loss import distance_loss

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.problem.problem import Problem


def exponential_matrix(problem: Problem) -> NDArray[np.float64]:
    """Give the exponential mechanism's probabilities, ``exp(-epsilon d_ik / 2)`` normalised (the seed's appendix)."""
    distances = distance_loss(problem.records, problem.outputs, problem.metric)
    # the nearest output's distance is taken out of each row, so that not all weights underflow
    weights = np.exp(-0.5 * problem.epsilon * (distances - distances.min(axis=1, keepdims=True)))
    return weights / weights.sum(axis=1, keepdims=True)


def exponential(problem: Problem) -> Mechanism:
    """Give the exponential mechanism of the seed, certified."""
    return Mechanism.from_matrix(problem, exponential_matrix(problem), solver="exponential")


def constant_matrix(problem: Problem) -> NDArray[np.float64]:
    """Give the mechanism that always reports the one best output: private at any budget, whatever the metric."""
    Z = np.zeros((problem.n_records, problem.n_outputs))
    Z[:, problem.costs.sum(axis=0).argmin()] = 1.0
    return Z
