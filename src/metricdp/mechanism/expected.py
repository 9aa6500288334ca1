"""The expected loss of an integer table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from metricdp.mechanism.blocks import BLOCK_BYTES, row_blocks
from metricdp.mechanism.exact import TOTAL_BITS
from metricdp.mechanism.sparse import SparseTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.problem.problem import Problem


def table_loss(table: NDArray[np.uint64] | SparseTable, problem: Problem) -> float:
    """Return the expected loss of an integer table, rounded up: ``sum_i p_i sum_k c_ik n_ik / 2^63``.

    A sparse table is taken a few rows at a time, in bounded memory.
    """
    if not isinstance(table, SparseTable):
        terms = problem.costs * (table / 2.0**TOTAL_BITS)
        return math.fsum(terms.ravel()) * (1.0 + 2.0**-50)  # each term has at most three roundings
    sums = []
    for part, weights in row_blocks(table, BLOCK_BYTES):
        terms = losses_of(problem, part) * (weights / 2.0**TOTAL_BITS)
        sums.extend((terms.sum(axis=1) * problem.records.prior[part]).tolist())
    # numpy adds pairwise, 128 terms at most one after the other: fewer than 200 roundings of non-negative terms
    return math.fsum(sums) * (1.0 + 2.0**-45)


def losses_of(problem: Problem, rows: slice) -> NDArray[np.float64]:
    """Return the losses of all outputs for ``rows``, shape (rows, K)."""
    lazy = getattr(problem, "losses", None)
    found = problem.loss[rows] if lazy is None else lazy.block(rows, None)
    return np.asarray(found, dtype=np.float64)
