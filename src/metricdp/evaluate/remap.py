"""Optimal Bayesian remapping: the receiver of a report replaces it by the output that is best on average.

It looks at the report only, so it is post-processing: privacy cannot get worse. Columns of the integer table are added
up, which keeps every row sum and every mDP row; the exact check confirms it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from metricdp.evaluate.guessing import best_guesses_in, costs_in
from metricdp.mechanism.merge import merged
from metricdp.mechanism.plane import AT_PLACES, check_of_records
from metricdp.mechanism.sparse import SparseTable
from metricdp.metric.distances import CHUNK_ENTRIES
from metricdp.problem.loss_space import loss_blocks, space_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.metric.space import Space
    from metricdp.problem.problem import Problem


def best_outputs(mechanism: Mechanism, problem: Problem) -> NDArray[np.int64]:
    """Return the output that best replaces each one, ``argmin_l sum_i p_i z_ik c_il``, shape (K,).

    An output keeps itself where no other is better.
    """
    check_of_records(mechanism, AT_PLACES)
    own = np.arange(mechanism.outputs.n)
    if not isinstance(mechanism.table, SparseTable):
        return _cheapest(mechanism.probabilities.T @ problem.costs, own)
    space = space_of(problem.losses)
    if space is not None and space.is_cheap:
        return _best_in_space(mechanism.table, space, problem.records.prior)
    found = []
    step = max(1, CHUNK_ENTRIES // max(mechanism.table.shape))
    for start in range(0, len(own), step):
        part = own[start : start + step]
        cost = np.zeros((len(part), len(own)))
        for rows, outputs, block in loss_blocks(problem.losses):
            weights = problem.records.prior[rows, None] * mechanism.block(rows, part)
            cost[:, outputs] += weights.T @ block
        found.append(_cheapest(cost, part))
    return np.concatenate(found)


def _cheapest(cost: NDArray[np.float64], own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the cheapest column of each row, or its ``own`` column if that is as cheap up to rounding."""
    best, rows = cost.argmin(axis=1), np.arange(len(own))
    return np.where(cost[rows, best] < cost[rows, own] * (1.0 - 1e-12), best, own)


def _best_in_space(table: SparseTable, space: Space, prior: NDArray[np.float64]) -> NDArray[np.int64]:
    own = np.arange(table.shape[1])
    best = best_guesses_in(space, table, prior, own, own)
    before, after = (costs_in(space, table, prior, guesses, own) for guesses in (own, best))
    return np.where(after < before * (1.0 - 1e-12), best, own)


def remap(mechanism: Mechanism, problem: Problem) -> Mechanism:
    """Return ``mechanism`` with its reports remapped by the prior, certified again at the same budget."""
    outputs = best_outputs(mechanism, problem)
    if np.array_equal(outputs, np.arange(len(outputs))):
        return mechanism
    table = merged(mechanism.table, outputs)
    return mechanism.with_table(table, solver=f"{mechanism.solver}, remapped")


def remapped_matrix(Z: NDArray[np.float64], problem: Problem) -> NDArray[np.float64]:
    """Return anybody's matrix with its reports remapped by the prior: columns are added up, in floats."""
    outputs = _cheapest(Z.T @ problem.costs, np.arange(Z.shape[1]))
    added = np.zeros_like(Z)
    np.add.at(added.T, outputs, Z.T)
    return added
