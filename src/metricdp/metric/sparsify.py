"""Pairs that follow from others: dropping them makes the linear program smaller and changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from metricdp.errors import StoppedError
from metricdp.metric.closure import never
from metricdp.metric.graph import MdpGraph

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

PAIRS_AT_ONCE = 200_000
DETOUR_TOLERANCE = 1e-12  # relative; the repair makes up for it, and a bound without a row stays valid


def prune_implied(graph: MdpGraph, *, is_over: Callable[[], bool] = never) -> MdpGraph:
    """Drop each pair i, j that a common neighbour k implies by ``d_ik + d_kj <= d_ij`` (the chain rule).

    Distances must be positive (merge records at distance 0 first): then a dropped pair is implied by strictly shorter
    ones, and by induction by those that stay. StoppedError is raised when ``is_over``, which is called now and then,
    returns True.
    """
    if graph.n_pairs == 0:
        return graph
    matrix = graph.adjacency
    matrix.sort_indices()
    lists = (matrix.indptr, matrix.indices, matrix.data, 1.0 + DETOUR_TOLERANCE)
    implied = np.zeros(graph.n_pairs, dtype=np.bool_)
    for start in range(0, graph.n_pairs, PAIRS_AT_ONCE):
        if is_over():
            raise StoppedError("the search for implied pairs was interrupted")
        part = slice(start, start + PAIRS_AT_ONCE)
        _find_implied(graph.pairs[part], graph.distances[part], *lists, implied[part])
    if not implied.any():
        return graph
    return MdpGraph(graph.n, graph.pairs[~implied], graph.distances[~implied])


@njit(cache=True)
def _find_implied(  # noqa: PLR0917  (numba takes positions)
    pairs: NDArray[np.int32],
    distances: NDArray[np.float64],
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    lengths: NDArray[np.float64],
    tolerance: float,
    implied: NDArray[np.bool_],
) -> None:
    for p in range(len(pairs)):
        a, a_end = indptr[pairs[p, 0]], indptr[pairs[p, 0] + 1]
        b, b_end = indptr[pairs[p, 1]], indptr[pairs[p, 1] + 1]
        limit = distances[p] * tolerance
        # walk both sorted neighbour lists at once
        while a < a_end and b < b_end:
            if indices[a] < indices[b]:
                a += 1
            elif indices[a] > indices[b]:
                b += 1
            else:
                if lengths[a] + lengths[b] <= limit and lengths[a] > 0 and lengths[b] > 0:
                    implied[p] = True
                    break
                a += 1
                b += 1
