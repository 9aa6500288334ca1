"""Whole numbers: the sparse table of closed columns, and its loss.

The background is whole by construction (``b_k = B_k 2^-37``), so only the scales ``2^26 / F_i`` and the local weights
are rounded, by half a unit each: a share of at most 2^-26 of any entry. Local weights are scaled to what the background
leaves of 2^63, and the largest takes the few units that rounding leaves over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from metricdp.mechanism.sparse import SparseTable
from metricdp.metric.simd import WIDTH
from metricdp.solve.solvers.local.close import GRAIN, SCALE_BITS, TOTAL_BITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.solvers.local.problem import Nodes
    from metricdp.solve.solvers.local.repair import Closed, Columns

TOTAL = 1 << TOTAL_BITS


def whole_table(closed: Closed, columns: Columns) -> SparseTable:
    """Return the exactly summing table of closed columns; records of one node have the same row."""
    nodes, problem = columns.nodes, columns.problem
    numbers = problem.output_order[: problem.n_outputs]
    grains = np.rint(closed.background / GRAIN).astype(np.uint64)[: len(numbers)]
    scales = Scales.of(closed.sums, int(grains.sum()))
    start, outputs, weights = rows_of(closed.H, closed.background, columns, scales.factor, numbers)
    top_up(start[:-1], start[1:], weights, scales.rest)
    background = np.zeros(len(numbers), dtype=np.uint64)
    background[numbers] = grains
    return SparseTable(*_of_records(nodes, start, outputs, weights), background, scales.scale[nodes.of_record])


@dataclass(frozen=True, eq=False)
class Scales:
    """How row sums become whole: each node's factor of the background, what remains of 2^63, and of local weights."""

    scale: NDArray[np.uint64]
    rest: NDArray[np.uint64]
    factor: NDArray[np.float64]

    @classmethod
    def of(cls, sums: NDArray[np.float64], all_grains: int) -> Scales:
        """Return the scales of rows with these sums, over a background of so many grains."""
        one = np.full(len(sums), 1 << SCALE_BITS, dtype=np.uint64)
        scale = np.rint(2.0**SCALE_BITS / sums).astype(np.uint64) if all_grains else one
        rest = np.array([TOTAL - int(s) * all_grains for s in scale], dtype=np.uint64)
        return cls(scale, rest, rest.astype(np.float64) / (sums - all_grains * GRAIN))


def rows_of(
    H: NDArray[np.float64],
    background: NDArray[np.float64],
    columns: Columns,
    factor: NDArray[np.float64],
    numbers: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint64]]:
    """Return the whole weights of each node's row: where rows begin, outputs in ascending order, and weights.

    ``numbers`` are what the outputs are called, in the order of the columns.
    """
    windows = columns.windows
    order = np.argsort(numbers).astype(np.int64)
    count = np.zeros(columns.nodes.n, dtype=np.int64)
    arrays = windows.group_start, windows.member, order, H, background, factor
    _count(*arrays, count)
    start = np.concatenate(([0], np.cumsum(count)))
    outputs, weights = np.empty(int(start[-1]), dtype=np.int32), np.empty(int(start[-1]), dtype=np.uint64)
    _fill(*arrays, numbers, start[:-1].copy(), outputs, weights)
    return start, outputs, weights


def _of_records(
    nodes: Nodes, start: NDArray[np.int64], columns: NDArray[np.int32], weights: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint64]]:
    """Return the rows of records from those of nodes."""
    node = nodes.of_record
    indptr = np.concatenate(([0], np.cumsum(np.diff(start)[node])))
    out_columns, out_weights = np.empty(int(indptr[-1]), dtype=np.int32), np.empty(int(indptr[-1]), dtype=np.uint64)
    _copy_rows(node, start, columns, weights, indptr, out_columns, out_weights)
    return indptr, out_columns, out_weights


@njit(cache=True, nogil=True)
def _copy_rows(  # noqa: PLR0917  (numba takes positions)
    node: NDArray[np.int64],
    start: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.uint64],
    indptr: NDArray[np.int64],
    out_columns: NDArray[np.int32],
    out_weights: NDArray[np.uint64],
) -> None:
    for r in range(len(node)):
        at = start[node[r]]
        for c in range(indptr[r + 1] - indptr[r]):
            out_columns[indptr[r] + c], out_weights[indptr[r] + c] = columns[at + c], weights[at + c]


@njit(cache=True, nogil=True)
def _count(  # noqa: PLR0917
    group_start: NDArray[np.int64],
    member: NDArray[np.int32],
    order: NDArray[np.int64],
    H: NDArray[np.float64],
    b: NDArray[np.float64],
    factor: NDArray[np.float64],
    count: NDArray[np.int64],
) -> None:
    """Count each node's weights that are not 0."""
    for k in order:
        g, lane = k // WIDTH, k % WIDTH
        for s in range(group_start[g], group_start[g + 1]):
            i = member[s]
            if np.floor((H[s * WIDTH + lane] - b[k]) * factor[i] + 0.5) > 0.0:
                count[i] += 1


@njit(cache=True, nogil=True)
def _fill(  # noqa: PLR0917
    group_start: NDArray[np.int64],
    member: NDArray[np.int32],
    order: NDArray[np.int64],
    H: NDArray[np.float64],
    b: NDArray[np.float64],
    factor: NDArray[np.float64],
    numbers: NDArray[np.int64],
    at: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.uint64],
) -> None:
    """List each node's weights, output after output, so that they are sorted."""
    for k in order:
        g, lane = k // WIDTH, k % WIDTH
        for s in range(group_start[g], group_start[g + 1]):
            i = member[s]
            whole = np.floor((H[s * WIDTH + lane] - b[k]) * factor[i] + 0.5)
            if whole > 0.0:
                columns[at[i]], weights[at[i]] = numbers[k], np.uint64(whole)
                at[i] += 1


@njit(cache=True, nogil=True)
def top_up(
    first: NDArray[np.int64], last: NDArray[np.int64], weights: NDArray[np.uint64], rest: NDArray[np.uint64]
) -> None:
    """Let the largest weight of each row take what is missing to the sum that it must have."""
    for i in range(len(first)):
        total, largest = np.uint64(0), first[i]
        for c in range(first[i], last[i]):
            total += weights[c]
            if weights[c] > weights[largest]:
                largest = c
        weights[largest] += rest[i] - total  # modulo 2^64: it may also be too much


def one_output(shape: tuple[int, int], output: int) -> SparseTable:
    """Return the table in which all records report one output."""
    n, n_outputs = shape
    background = np.zeros(n_outputs, dtype=np.uint64)
    background[output] = TOTAL >> SCALE_BITS
    nothing = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.uint64)
    return SparseTable(np.zeros(n + 1, dtype=np.int64), *nothing, background, np.full(n, 1 << SCALE_BITS, np.uint64))
