"""Lengths of paths within windows, for nodes that are far apart.

Rows fall like exp(-epsilon d) along paths of neighbours. Where neighbours are near one another, paths are about as long
as straight distances. Where they are far apart (words in 100 dimensions), a pair beyond eta may be much farther by
neighbours than straight: weights and first prices from straight distances are then far from what rows can be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from metricdp.metric.simd import WIDTH
from metricdp.solve.solvers.firstorder.threads import in_threads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.solvers.local.problem import Nodes
    from metricdp.solve.solvers.local.windows import Edges, Windows

FAR_APART = 0.5  # epsilon d of the nearest neighbour of half of the nodes


def are_far_apart(nodes: Nodes) -> bool:
    """Return whether nodes have no space of few dimensions, and rows fall much from most of them to the next.

    Points of a plane or a grid take other steps better, and so do nodes that are never seen (a prior of 0).
    """
    if nodes.problem.geometry.kind is not None or not (nodes.weight > 0.0).all():
        return False
    nearest = nodes.nearest_neighbour[nodes.nearest_neighbour > 0.0]
    return bool(len(nearest)) and nodes.problem.epsilon * float(np.median(nearest)) >= FAR_APART


def path_lengths(
    nodes: Nodes, windows: Windows, edges: Edges, exponent: NDArray[np.float64], far: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return epsilon times the path lengths of all entries, in windows of nodes that are far apart; else ``far``.

    Straight distances stay where no path within the window leads to the output, and where outputs are not records.
    """
    problem = nodes.problem
    rows = problem.output_rows
    if rows is None or not edges.n or not are_far_apart(nodes):
        return far
    source = nodes.of_record[rows[problem.output_order]]
    longer = far.copy()

    def some(first: int, last: int) -> None:
        _lengthen(
            first,
            last,
            windows.group_start,
            windows.member,
            edges.group_start,
            edges.tail,
            edges.head,
            edges.edge,
            exponent,
            source,
            np.empty(windows.largest * WIDTH),
            longer,
        )

    in_threads(some, windows.n_groups, is_large=True)
    return longer


@njit(cache=True, nogil=True)
def _relax(  # noqa: PLR0917  (numba takes positions)
    first: int,
    last: int,
    tail: NDArray[np.uint16],
    head: NDArray[np.uint16],
    edge: NDArray[np.int32],
    exponent: NDArray[np.float64],
    away: NDArray[np.float64],
) -> bool:
    """Shorten the ways of a group by one pass over its edges; return whether any became shorter."""
    changed = False
    for c in range(first, last):
        i, j, length = tail[c] * WIDTH, head[c] * WIDTH, exponent[edge[c]]
        for k in range(WIDTH):
            here, there = away[i + k], away[j + k]
            if here + length < there:
                away[j + k] = here + length
                changed = True
            elif there + length < here:
                away[i + k] = there + length
                changed = True
    return changed


@njit(cache=True, nogil=True)
def _lengthen(  # noqa: PLR0917
    first: int,
    last: int,
    group_start: NDArray[np.int64],
    member: NDArray[np.int32],
    edge_start: NDArray[np.int64],
    tail: NDArray[np.uint16],
    head: NDArray[np.uint16],
    edge: NDArray[np.int32],
    exponent: NDArray[np.float64],
    source: NDArray[np.int64],
    away: NDArray[np.float64],
    far: NDArray[np.float32],
) -> None:
    """Raise ``far`` of some groups to the shortest paths, found by passes over the edges until nothing changes."""
    for g in range(first, last):
        low, count = group_start[g], group_start[g + 1] - group_start[g]
        for s in range(count):
            for k in range(WIDTH):
                away[s * WIDTH + k] = 0.0 if member[low + s] == source[g * WIDTH + k] else np.inf
        while _relax(edge_start[g], edge_start[g + 1], tail, head, edge, exponent, away):
            pass
        for c in range(count * WIDTH):
            if away[c] < np.inf:
                far[low * WIDTH + c] = max(far[low * WIDTH + c], np.float32(away[c]))
