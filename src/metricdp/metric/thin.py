"""A thin graph that nearly spans the mDP graph: its edges stand for all pairs while a solver iterates.

From each record, neighbours are taken in the order of their distance; one is left out when a neighbour that was taken
offers a detour of at most ``1 + stretch`` times the direct way, with both legs shorter than it. Only distances within
the mDP graph are looked at, so it works in any metric. In the plane about ``1 / sqrt(stretch)`` pairs per record
remain. Where directions mean little (word vectors), few detours exist and most pairs remain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit, prange

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.metric.graph import MdpGraph


def thin_edges(graph: MdpGraph, stretch: float) -> NDArray[np.int64]:
    """Give the pairs of ``graph`` (as positions, ascending) that no short detour replaces."""
    if graph.n_pairs == 0:
        return np.zeros(0, dtype=np.int64)
    adjacency = graph.adjacency
    indptr, indices = adjacency.indptr.astype(np.int64), adjacency.indices
    kept = np.zeros(len(indices), dtype=np.bool_)
    _take(indptr, indices, adjacency.data, 1.0 + stretch, kept)
    source = np.repeat(np.arange(graph.n, dtype=np.int64), np.diff(indptr))[kept]
    target = indices[kept].astype(np.int64)
    wanted = np.unique(np.minimum(source, target) * graph.n + np.maximum(source, target))
    key = graph.pairs[:, 0].astype(np.int64) * graph.n + graph.pairs[:, 1]
    return np.searchsorted(key, wanted)


@njit(parallel=True, cache=True, nogil=True)
def _take(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    lengths: NDArray[np.float64],
    factor: float,
    kept: NDArray[np.bool_],
) -> None:
    n = len(indptr) - 1
    tasks = 64
    for task in prange(tasks):
        allowed = np.full(n, -1.0)  # the longest detour that replaces the edge to a neighbour; -1: none, or replaced
        for i in range(task * n // tasks, (task + 1) * n // tasks):
            first, last = indptr[i], indptr[i + 1]
            order = np.argsort(lengths[first:last], kind="mergesort")
            for e in range(first, last):
                allowed[indices[e]] = factor * lengths[e]
            for place in order:
                e = first + place
                m = indices[e]
                if allowed[m] < 0:
                    continue
                kept[e] = True
                near = lengths[e]
                for f in range(indptr[m], indptr[m + 1]):
                    j = indices[f]
                    # the other leg must be shorter than the pair itself, or pairs could replace one another in turn
                    if near + lengths[f] <= allowed[j] and factor * lengths[f] < allowed[j]:
                        allowed[j] = -1.0
            for e in range(first, last):
                allowed[indices[e]] = -1.0
