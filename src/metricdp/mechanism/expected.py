"""The expected loss of an integer table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from metricdp.mechanism.blocks import weights_of
from metricdp.mechanism.exact import TOTAL_BITS
from metricdp.mechanism.sparse import SparseTable
from metricdp.problem.loss_space import loss_blocks, space_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.metric.space import Space
    from metricdp.problem.losses import Losses
    from metricdp.problem.problem import Problem

SUMMED_UP_TO = 4e9  # distances of records and outputs, beyond which outputs are taken by cells


def table_loss(table: NDArray[np.uint64] | SparseTable, problem: Problem) -> float:
    """Return the expected loss of an integer table, rounded up: ``sum_i p_i sum_k c_ik n_ik / 2^63``.

    That of a sparse table is computed in bounded memory, as in `record_losses`.
    """
    if not isinstance(table, SparseTable):
        terms = problem.costs * (table / 2.0**TOTAL_BITS)
        return math.fsum(terms.ravel()) * (1.0 + 2.0**-50)  # each term has at most three roundings
    return expected_loss(table, problem.losses, problem.records.prior)


def expected_loss(table: SparseTable, losses: Losses, prior: NDArray[np.float64]) -> float:
    """Return the expected loss of a sparse table under a prior, rounded up."""
    return math.fsum(record_losses(table, losses) * prior) * (1.0 + 2.0**-50)


def record_losses(table: NDArray[np.uint64] | SparseTable, losses: Losses) -> NDArray[np.float64]:
    """Return the expected loss of each record, ``sum_k c_ik n_ik / 2^63``, shape (N,), in bounded memory.

    Of a sparse table it is never below the true one. Where losses are distances between points, they are computed for
    the stored weights and once for the background: above the true value by their roundings at most, for places by
    some micrometres, and for more than 60,000 records and outputs by what cells of the background cost.
    """
    space = space_of(losses) if isinstance(table, SparseTable) else None
    if isinstance(table, SparseTable) and space is not None:
        return space_losses(table, space)
    found = np.zeros(table.shape[0])
    for rows, outputs, block in loss_blocks(losses):
        found[rows] += (block * (weights_of(table, rows, outputs) / 2.0**TOTAL_BITS)).sum(axis=1)
    # numpy adds pairwise, 128 terms at most one after the other: fewer than 200 roundings of terms of at least 0
    return found * (1.0 + 2.0**-45) if isinstance(table, SparseTable) else found


def space_losses(table: SparseTable, space: Space) -> NDArray[np.float64]:
    """Return the mean distance from each record to its report, shape (N,), never below the true one."""
    stored = space.sums_at(table.indptr, table.columns, table.weights)
    background = table.background.astype(np.float64)
    is_large = float(len(space.here)) * len(space.there) > SUMMED_UP_TO
    shared = space.sums_above(background) if is_large else space.sums(background)
    found = (stored + table.scale.astype(np.float64) * shared) / 2.0**TOTAL_BITS
    # computed distances can be below the true ones by their roundings; those of equal points are not
    above = 2.0 * space.rounding(table.longest + table.shape[1])
    return np.where(found > 0.0, found * (1.0 + above) + space.slack, 0.0)
