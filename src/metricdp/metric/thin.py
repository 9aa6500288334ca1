"""A thin graph that nearly spans the mDP graph: its edges stand for all pairs while a solver iterates.

From each record, neighbours are taken in the order of their distance; one is left out when a neighbour that was taken
offers a detour of at most ``1 + stretch`` times the direct way, with both legs shorter than it. Only distances within
the mDP graph are looked at, so it works in any metric. In the plane about ``1 / sqrt(stretch)`` pairs per record
remain. Where directions mean little (word vectors), few detours exist and most pairs remain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import get_num_threads, njit, prange

from metricdp.errors import StoppedError
from metricdp.metric.closure import never

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from metricdp.metric.graph import MdpGraph

TASKS, SAMPLED_TASKS = 64, 8
ONE_OF_BOTH = 0.52  # pairs kept, for each end from which one is kept: measured, 0.5 to 0.514
BREAKABLE_FROM = 1_000_000  # pairs that are looked at in several calls, between which it can be broken off


def thin_edges(graph: MdpGraph, stretch: float, *, is_over: Callable[[], bool] = never) -> NDArray[np.int64]:
    """Return the pairs of ``graph`` (as positions, ascending) that no short detour replaces.

    ``is_over`` is asked now and then: if it says yes, StoppedError is raised.
    """
    if graph.n_pairs == 0:
        return np.zeros(0, dtype=np.int64)
    adjacency = graph.adjacency
    indptr, indices = adjacency.indptr.astype(np.int64), adjacency.indices
    kept = np.zeros(len(indices), dtype=np.bool_)
    at_once = TASKS if graph.n_pairs < BREAKABLE_FROM else 2 * get_num_threads()
    for first in range(0, TASKS, at_once):
        if is_over():
            raise StoppedError("the search for a thin graph was broken off")
        _take(indptr, indices, adjacency.data, 1.0 + stretch, kept, first, min(first + at_once, TASKS))
    source = np.repeat(np.arange(graph.n, dtype=np.int64), np.diff(indptr))[kept]
    target = indices[kept].astype(np.int64)
    wanted = np.unique(np.minimum(source, target) * graph.n + np.maximum(source, target))
    key = graph.pairs[:, 0].astype(np.int64) * graph.n + graph.pairs[:, 1]
    return np.searchsorted(key, wanted)


def sampled_edges(graph: MdpGraph, stretch: float) -> float:
    """Return about how many pairs `thin_edges` would keep, from a part of the records where there are many pairs."""
    if graph.n_pairs == 0 or stretch == 0:
        return float(graph.n_pairs)
    adjacency = graph.adjacency
    indptr, indices = adjacency.indptr.astype(np.int64), adjacency.indices
    kept = np.zeros(len(indices), dtype=np.bool_)
    step = 1 if graph.n_pairs < BREAKABLE_FROM else SAMPLED_TASKS
    for task in range(0, TASKS, step):
        _take(indptr, indices, adjacency.data, 1.0 + stretch, kept, task, task + 1)
    # nearly all are kept from both of their ends
    return min(float(graph.n_pairs), ONE_OF_BOTH * step * float(kept.sum()))


@njit(parallel=True, cache=True, nogil=True)
def _take(  # noqa: PLR0917  (numba takes positions)
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    lengths: NDArray[np.float64],
    factor: float,
    kept: NDArray[np.bool_],
    first_task: int,
    last_task: int,
) -> None:
    n = len(indptr) - 1
    for task in prange(first_task, last_task):
        allowed = np.full(n, -1.0)  # the longest detour that replaces the edge to a neighbour; -1: none, or replaced
        for i in range(task * n // TASKS, (task + 1) * n // TASKS):
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
