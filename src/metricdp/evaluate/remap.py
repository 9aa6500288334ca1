"""Optimal Bayesian remapping: the receiver of a report replaces it by the output that is best on average.

It looks at the report only, so it is post-processing: privacy cannot get worse. Columns of the integer table are added
up, which keeps every row sum and every mDP row; the exact check confirms it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from metricdp.evaluate.guessing import best_guesses_in, costs_in
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


def merged(table: NDArray[np.uint64] | SparseTable, outputs: NDArray[np.int64]) -> NDArray[np.uint64] | SparseTable:
    """Return a table whose column k is added to column ``outputs[k]``; a sparse one stays sparse."""
    if isinstance(table, SparseTable):
        background = np.zeros_like(table.background)
        np.add.at(background, outputs, table.background)  # they sum to 2^63 at most
        indptr, columns, weights = _merged_rows(table.indptr, table.columns, table.weights, outputs)
        return SparseTable(indptr, columns, weights, background, table.scale)
    added = np.zeros_like(table)
    for k, to in enumerate(outputs):
        added[:, to] += table[:, k]  # a row sums to 2^63: no overflow
    return added


@njit(cache=True, nogil=True)
def _merged_rows(
    indptr: NDArray[np.int64], columns: NDArray[np.int32], weights: NDArray[np.uint64], outputs: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint64]]:
    starts = np.zeros_like(indptr)
    where, again = np.empty_like(columns), np.empty_like(weights)
    total = np.zeros(len(outputs), dtype=np.uint64)
    end = 0
    for i in range(len(indptr) - 1):
        begin = end
        for e in range(indptr[i], indptr[i + 1]):
            to = outputs[columns[e]]
            if total[to] == 0:
                where[end] = to
                end += 1
            total[to] += weights[e]
        where[begin:end] = np.sort(where[begin:end])
        for e in range(begin, end):
            again[e] = total[where[e]]
            total[where[e]] = 0
        starts[i + 1] = end
    return starts, where[:end].copy(), again[:end].copy()
