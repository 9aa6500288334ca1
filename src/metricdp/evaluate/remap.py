"""Optimal Bayesian remapping: the receiver of a report replaces it by the output that is best on average.

It looks at the report only, so it is post-processing: privacy cannot get worse. Columns of the integer table are added
up, which keeps every row sum and every mDP row; the exact check confirms it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.problem.problem import Problem


def best_outputs(mechanism: Mechanism, problem: Problem) -> NDArray[np.int64]:
    """Return the output that best replaces each one, ``argmin_l sum_i p_i z_ik c_il``, shape (K,).

    An output keeps itself where no other is better.
    """
    cost = mechanism.probabilities.T @ problem.costs
    best = cost.argmin(axis=1)
    own = np.arange(len(cost))
    return np.where(cost[own, best] < cost[own, own] * (1.0 - 1e-12), best, own)


def remap(mechanism: Mechanism, problem: Problem) -> Mechanism:
    """Return ``mechanism`` with its reports remapped by the prior, certified again at the same budget."""
    outputs = best_outputs(mechanism, problem)
    if np.array_equal(outputs, np.arange(len(outputs))):
        return mechanism
    table = np.zeros_like(mechanism.dense_table)
    for k, to in enumerate(outputs):
        table[:, to] += mechanism.dense_table[:, k]  # a row sums to 2^63: no overflow
    return mechanism.with_table(table, solver=f"{mechanism.solver}, remapped")
