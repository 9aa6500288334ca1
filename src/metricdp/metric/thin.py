"""A thin graph that nearly spans the mDP graph: its edges stand for all pairs while a solver iterates.

From each record, neighbours are taken in the order of their distance; one is left out when a neighbour that was taken
offers a detour of at most ``1 + stretch`` times the direct way, with both legs shorter than it. Only distances within
the mDP graph are looked at, so it works in any metric. In the plane about ``1 / sqrt(stretch)`` pairs per record
remain. Where directions mean little (word vectors), few detours exist and most pairs remain.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
from numba import get_num_threads, njit

from metricdp.errors import StoppedError
from metricdp.metric.closure import never

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from metricdp.metric.graph import MdpGraph

TASKS, SAMPLED_TASKS = 64, 8
KEPT_PER_ENDPOINT = 0.52  # pairs kept, for each end from which one is kept; measured: 0.5 to 0.514
INTERRUPTIBLE_FROM = 1_000_000  # pairs from which several calls are made, so that the search can be interrupted


def thin_edges(graph: MdpGraph, stretch: float, *, is_over: Callable[[], bool] = never) -> NDArray[np.int64]:
    """Return the pairs of ``graph`` (as positions, ascending) that no short detour replaces.

    ``is_over`` is called now and then: if it returns True, StoppedError is raised.
    """
    if graph.n_pairs == 0:
        return np.zeros(0, dtype=np.int64)
    adjacency = graph.adjacency
    indptr, indices = adjacency.indptr.astype(np.int64), adjacency.indices
    kept = np.zeros(len(indices), dtype=np.bool_)

    def take(task: int) -> None:
        _take_task(indptr, indices, adjacency.data, 1.0 + stretch, kept, task)

    with ThreadPoolExecutor(get_num_threads()) as pool:
        at_once = TASKS if graph.n_pairs < INTERRUPTIBLE_FROM else 2 * get_num_threads()
        for first in range(0, TASKS, at_once):
            if is_over():
                raise StoppedError("the search for a thin graph was interrupted")
            list(pool.map(take, range(first, min(first + at_once, TASKS))))
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
    step = 1 if graph.n_pairs < INTERRUPTIBLE_FROM else SAMPLED_TASKS
    for task in range(0, TASKS, step):
        _take_task(indptr, indices, adjacency.data, 1.0 + stretch, kept, task)
    # nearly all are kept from both of their ends
    return min(float(graph.n_pairs), KEPT_PER_ENDPOINT * step * float(kept.sum()))


def _take_task(  # noqa: PLR0917
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    lengths: NDArray[np.float64],
    factor: float,
    kept: NDArray[np.bool_],
    task: int,
) -> None:
    """Take the neighbours of the records of one task."""
    n = len(indptr) - 1
    low, high = task * n // TASKS, (task + 1) * n // TASKS
    allowed = np.full(n, -1.0)  # the longest detour that replaces the edge to a neighbour; -1: none, or replaced
    order = np.empty(int(np.diff(indptr[low : high + 1]).max(initial=0)), dtype=np.int64)
    _take(indptr, indices, lengths, factor, kept, allowed, order, low, high)


@njit(cache=True, nogil=True)
def _take(  # noqa: PLR0917  (numba takes positions)
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    lengths: NDArray[np.float64],
    factor: float,
    kept: NDArray[np.bool_],
    allowed: NDArray[np.float64],
    order: NDArray[np.int64],
    low: int,
    high: int,
) -> None:
    for i in range(low, high):
        first, last = indptr[i], indptr[i + 1]
        sort_positions(order, lengths, first, last - first)
        for e in range(first, last):
            allowed[indices[e]] = factor * lengths[e]
        for place in range(last - first):
            e = order[place]
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


@njit(cache=True, nogil=True)
def sort_positions(order: NDArray[np.int64], lengths: NDArray[np.float64], first: int, count: int) -> None:
    """Put the ``count`` edges from ``first`` on into ``order``, the shortest first, of equal ones the first.

    A heap: numpy's sort inside a kernel takes more than a second to compile.
    """
    for place in range(count):
        order[place] = first + place
    start, end = count // 2, count
    while end > 1:
        if start > 0:
            start -= 1  # the heap is being made
            moved = order[start]
        else:
            end -= 1  # its largest goes to the end
            moved = order[end]
            order[end] = order[0]
        parent, child = start, 2 * start + 1
        while child < end:
            if child + 1 < end and _is_before(order[child], order[child + 1], lengths):
                child += 1
            if not _is_before(moved, order[child], lengths):
                break
            order[parent] = order[child]
            parent, child = child, 2 * child + 1
        order[parent] = moved


@njit(cache=True, nogil=True)
def _is_before(e: int, f: int, lengths: NDArray[np.float64]) -> bool:
    return lengths[e] < lengths[f] or (lengths[e] == lengths[f] and e < f)
