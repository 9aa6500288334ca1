"""The spanner mechanism (Bordenabe, Chatzikokolakis and Palamidessi, CCS 2014).

A subgraph is a delta-spanner if its path distances are at most delta times the true ones. A mechanism that is
(epsilon / delta)-private on the spanner's few edges is, by the chain rule, epsilon-private on all pairs: a smaller LP,
at the price of the budget that the detours take.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from metricdp.errors import InputError, SolverError
from metricdp.evaluate.problem_of_file import with_graph
from metricdp.mechanism.mechanism import Mechanism
from metricdp.metric.graph import MdpGraph
from metricdp.solve.result import Status
from metricdp.solve.solve import solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.problem.problem import Problem

DILATION = 1.1  # path length in the spanner over direct distance, at most
STRETCH_MARGIN = 1e-12  # relative, so that rounding of path lengths cannot break the promise
SPANNER_GAP = 1e-4  # relative, of the program on the spanner


def spanner(graph: MdpGraph, dilation: float) -> MdpGraph:
    """Return the greedy spanner: shortest pairs first, a pair only if no path so far is within ``dilation`` times it.

    Examples
    --------
    >>> square = MdpGraph(3, np.array([[0, 1], [0, 2], [1, 2]], dtype=np.int32), np.array([1.0, 1.9, 1.0]))
    >>> spanner(square, 1.1).pairs.tolist()
    [[0, 1], [1, 2]]
    """
    if not dilation >= 1.0:
        raise InputError(f"the dilation must be at least 1, got {dilation}: 1.1 allows detours of 10 %")
    order = np.argsort(graph.distances, kind="stable")
    kept = np.zeros(graph.n_pairs, dtype=bool)
    kept[order] = _greedy(graph.n, graph.pairs[order], graph.distances[order], dilation * (1.0 - STRETCH_MARGIN))
    return MdpGraph(graph.n, graph.pairs[kept], graph.distances[kept])


def spanner_mechanism(
    problem: Problem, *, dilation: float = DILATION, time_limit: float | None = None
) -> tuple[Mechanism, str]:
    """Return the best mechanism on the spanner at epsilon / dilation, certified on all pairs, and a note on it."""
    sparse = spanner(problem.graph, dilation)
    result = solve(with_graph(problem, sparse, problem.epsilon / dilation), gap=SPANNER_GAP, time_limit=time_limit)
    if result.status not in (Status.OPTIMAL, Status.LIMIT):
        raise SolverError(f"its linear program ended as {result.status.value}")
    note = f"dilation {dilation:g}, {sparse.n_pairs:,} of {problem.graph.n_pairs:,} pairs"
    if result.status is Status.LIMIT:
        note += f", stopped within {100 * result.gap:.3g} % of its optimum"
    return Mechanism.of(problem, result.mechanism.table, solver="spanner"), note


@njit(cache=True)
def _greedy(n: int, pairs: NDArray[np.int32], distances: NDArray[np.float64], dilation: float) -> NDArray[np.bool_]:
    kept = np.zeros(len(pairs), dtype=np.bool_)
    # the spanner so far: each node's edges as a linked list, two entries per pair
    first = np.full(n, -1, dtype=np.int64)
    following = np.full(2 * len(pairs), -1, dtype=np.int64)
    reach = np.full(n, np.inf)
    for p in range(len(pairs)):
        source, target = pairs[p, 0], pairs[p, 1]
        limit = dilation * distances[p]
        # Dijkstra from the source, not beyond the limit
        heap = [(0.0, np.int64(source))]
        touched = [np.int64(source)]
        reach[source] = 0.0
        is_near = False
        while len(heap) > 0:
            length, node = heapq.heappop(heap)
            if node == target:
                is_near = True
                break
            if length > reach[node]:
                continue
            edge = first[node]
            while edge >= 0:
                other = np.int64(pairs[edge // 2, 1 - edge % 2])
                longer = length + distances[edge // 2]
                if longer <= limit and longer < reach[other]:
                    reach[other] = longer
                    touched.append(other)
                    heapq.heappush(heap, (longer, other))
                edge = following[edge]
        for node in touched:
            reach[node] = np.inf
        if not is_near:
            kept[p] = True
            for side in range(2):
                edge = 2 * p + side
                following[edge] = first[pairs[p, side]]
                first[pairs[p, side]] = edge
    return kept
