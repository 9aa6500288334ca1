"""The table, put together from the columns of all regions, one region at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from metricdp.data.frozen import Unnamed
from metricdp.mechanism.sparse import SparseTable
from metricdp.solve.solvers.local.integers import top_up

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from metricdp.solve.solvers.local.integers import Scales
    from metricdp.solve.solvers.local.problem import Nodes


def assembled(
    nodes: Nodes,
    scales: Scales,
    background: NDArray[np.uint64],
    counts: Sequence[tuple[NDArray[np.int64], NDArray[np.int32]]],
    pieces: Iterable[tuple[NDArray[np.int64], dict[str, Any]]],
) -> SparseTable:
    """Return the table of all records.

    Parameters
    ----------
    nodes, scales
        Nodes that share a row, and how their sums become whole.
    background
        Of all outputs.
    counts
        Of each region its nodes, and the number of weights of each.
    pieces
        Of each region its nodes, and their weights (see `metricdp.solve.solvers.local.regions.work.whole`).
    """
    per_node = np.zeros(nodes.n, dtype=np.int64)
    for who, count in counts:
        per_node[who] += count
    records = np.diff(nodes.start)
    begin = np.concatenate(([0], np.cumsum(per_node[nodes.of_record]))).astype(np.int64)
    in_files = Unnamed(int(begin[-1]), np.int32), Unnamed(int(begin[-1]), np.uint64)
    columns, weights = (one.values for one in in_files)
    first = begin[:-1][nodes.first]  # rows of the first record of each node; the others are copies of it
    at = first.copy()
    for who, piece in pieces:
        _place(who, piece["start"], piece["outputs"], piece["weights"], at, columns, weights)
    _sort(first, at, columns, weights)
    top_up(first, at, weights, scales.rest)
    if (records > 1).any():
        _copy(nodes.start, nodes.who, begin, columns, weights)
    del columns, weights
    kept = [one.sealed() for one in in_files]
    return SparseTable(begin, kept[0], kept[1], background, scales.scale[nodes.of_record])


@njit(cache=True, nogil=True)
def _place(  # noqa: PLR0917  (numba takes positions)
    who: NDArray[np.int64],
    start: NDArray[np.int64],
    outputs: NDArray[np.int32],
    whole: NDArray[np.uint64],
    at: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.uint64],
) -> None:
    """Put a region's weights behind those that rows have already."""
    for s in range(len(who)):
        i = who[s]
        for c in range(start[s], start[s + 1]):
            columns[at[i]], weights[at[i]] = outputs[c], whole[c]
            at[i] += 1


@njit(cache=True, nogil=True)
def _sort(
    first: NDArray[np.int64], last: NDArray[np.int64], columns: NDArray[np.int32], weights: NDArray[np.uint64]
) -> None:
    """Sort each row by its outputs."""
    for i in range(len(first)):
        part = slice(first[i], last[i])
        order = np.argsort(columns[part])
        columns[part] = columns[part][order]
        weights[part] = weights[part][order]


@njit(cache=True, nogil=True)
def _copy(
    start: NDArray[np.int64],
    who: NDArray[np.int64],
    begin: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.uint64],
) -> None:
    """Copy the row of each node's first record to its others."""
    for i in range(len(start) - 1):
        own = who[start[i]]
        for r in who[start[i] + 1 : start[i + 1]]:
            for c in range(begin[r + 1] - begin[r]):
                columns[begin[r] + c], weights[begin[r] + c] = columns[begin[own] + c], weights[begin[own] + c]
