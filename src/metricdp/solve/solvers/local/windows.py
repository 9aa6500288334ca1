"""Windows: for each group of 8 outputs the nodes that may report one of them, and edges between these nodes.

A node belongs to a group if one of the group's outputs lies within the node's own radius. So whatever a node cannot
report in its windows is farther away than its radius. Values of (node, output) lie in blocks: *slot* s holds the 8
outputs of a group for one member, slots of a group follow one another with ascending nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit
from scipy.spatial import cKDTree

from metricdp.metric.simd import WIDTH
from metricdp.solve.solvers.firstorder.threads import in_threads
from metricdp.solve.solvers.local.geometry import BLOCK_ENTRIES, near_groups

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from metricdp.solve.solvers.local.problem import LocalProblem, Nodes

MOST_IN_UINT16 = 1 << 16


@dataclass(frozen=True, eq=False)
class Windows:
    """Members of each group of outputs.

    Parameters
    ----------
    group_start, member
        The members of group g are ``member[group_start[g] : group_start[g + 1]]``: one per slot.
    node_start, slot
        The slots of node i are ``slot[node_start[i] : node_start[i + 1]]``.
    """

    group_start: NDArray[np.int64]
    member: NDArray[np.int32]
    node_start: NDArray[np.int64]
    slot: NDArray[np.int32]

    @property
    def n_groups(self) -> int:
        """Number of groups of outputs."""
        return len(self.group_start) - 1

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.node_start) - 1

    @property
    def n_slots(self) -> int:
        """Number of slots, of 8 entries each."""
        return len(self.member)

    @cached_property
    def largest(self) -> int:
        """The most members that a group has."""
        return int(np.diff(self.group_start).max())

    @cached_property
    def widest(self) -> int:
        """The most slots that a node has."""
        return int(np.diff(self.node_start).max())

    @property
    def position_type(self) -> type:
        """The smallest type for positions within a group."""
        return np.uint16 if self.largest < MOST_IN_UINT16 else np.int32


@dataclass(frozen=True, eq=False)
class Edges:
    """Pairs of members of each group: ``tail`` and ``head`` are positions within the group, ``edge`` its number."""

    group_start: NDArray[np.int64]
    tail: NDArray[np.uint16]
    head: NDArray[np.uint16]
    edge: NDArray[np.int32]

    @property
    def n(self) -> int:
        """Number of edges of all groups together; each has 8 multipliers."""
        return len(self.edge)


def nearest_outputs(nodes: Nodes) -> NDArray[np.float64]:
    """Return the distance from each node to its nearest output."""
    geometry, first = nodes.problem.geometry, nodes.first
    if geometry.kind is None:
        own = nodes.problem.output_rows
        if own is not None and np.isin(first, own).all():
            return np.zeros(nodes.n)  # a record is at distance 0 from itself; many coordinates take long to compare
        nearest = np.full(nodes.n, np.inf)
        for _, block in distance_blocks(nodes.problem):
            np.minimum(nearest, block[first].min(axis=1), out=nearest)
        return nearest
    tree = cKDTree(geometry.output_points)
    found, _ = tree.query(geometry.record_points[first], p=geometry.norm)
    return geometry.distance_of(np.asarray(found))


def radius_for(nodes: Nodes, reach: float) -> NDArray[np.float64]:
    """Return each node's radius: ``reach / epsilon`` beyond its nearest output, more where neighbours are far apart.

    Rows fall from neighbour to neighbour: where one step takes more than 1 / epsilon, windows must hold more than it.
    """
    unit = 1.0 / nodes.problem.epsilon
    return nearest_outputs(nodes) + reach * unit + np.maximum(nodes.nearest_neighbour - unit, 0.0)


def distance_blocks(
    problem: LocalProblem, records: NDArray[np.int64] | None = None
) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Yield distances from all records, or some, to a few outputs in kd order: which outputs, and the block."""
    order, geometry = problem.output_order, problem.geometry
    step = WIDTH * max(1, BLOCK_ENTRIES // (WIDTH * problem.n_records))
    for first in range(0, len(order), step):
        part = slice(first, min(first + step, len(order)))
        yield part, geometry.to_outputs(order[part]) if records is None else geometry.from_some(records, order[part])


def windows_within(nodes: Nodes, radius: NDArray[np.float64]) -> Windows:
    """Return the windows of nodes with a radius each."""
    problem = nodes.problem
    geometry, first, n_groups = problem.geometry, nodes.first, len(problem.output_order) // WIDTH
    if geometry.kind is None:
        i, g = [], []
        for part, block in distance_blocks(problem):
            near = (block[first].reshape(nodes.n, -1, WIDTH).min(axis=2) <= radius[:, None]).nonzero()
            i.append(near[0])
            g.append(near[1] + part.start // WIDTH)
        node, group = np.concatenate(i), np.concatenate(g)
        order = np.argsort(node, kind="stable")
        node_start, found = np.searchsorted(node[order], np.arange(nodes.n + 1)), group[order].astype(np.int32)
    else:
        points = np.ascontiguousarray(geometry.record_points[first])
        outputs = np.ascontiguousarray(geometry.output_points[problem.output_order])
        node_start, found = near_groups(points, geometry.reach(radius), outputs, geometry.kind)
    group_start = np.zeros(n_groups + 1, dtype=np.int64)
    np.cumsum(np.bincount(found, minlength=n_groups), out=group_start[1:])
    member, slot = np.empty(len(found), dtype=np.int32), np.empty(len(found), dtype=np.int32)
    _by_group(node_start, found, group_start[:-1].copy(), member, slot)
    return Windows(group_start, member, node_start, slot)


@njit(cache=True, nogil=True)
def _by_group(
    node_start: NDArray[np.int64],
    group: NDArray[np.int32],
    cursor: NDArray[np.int64],
    member: NDArray[np.int32],
    slot: NDArray[np.int32],
) -> None:
    for i in range(len(node_start) - 1):
        for c in range(node_start[i], node_start[i + 1]):
            g = group[c]
            member[cursor[g]] = i
            slot[c] = cursor[g]
            cursor[g] += 1


def count_edges(windows: Windows, start: NDArray[np.int64], head: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return where each group's edges begin; edges from node i lead to ``head[start[i] : start[i + 1]]``."""
    count = np.zeros(windows.n_groups + 1, dtype=np.int64)
    nothing: NDArray[Any] = np.empty(0, dtype=windows.position_type)
    no_edges = np.empty(0, dtype=np.int32)

    def some(first: int, last: int) -> None:
        place = np.full(windows.n_nodes, -1, dtype=np.int32)
        _edges(first, last, windows.group_start, windows.member, start, head, place, count, nothing, nothing, no_edges)

    in_threads(some, windows.n_groups, is_large=True)
    return np.cumsum(count)


def edges_within(windows: Windows, start: NDArray[np.int64], head: NDArray[np.int32]) -> Edges:
    """Return the edges between members of each group."""
    group_start = count_edges(windows, start, head)
    total, kind = int(group_start[-1]), windows.position_type
    tails: NDArray[Any] = np.empty(total, kind)
    heads: NDArray[Any] = np.empty(total, kind)
    edge = np.empty(total, np.int32)

    def some(first: int, last: int) -> None:
        place = np.full(windows.n_nodes, -1, dtype=np.int32)
        _edges(first, last, windows.group_start, windows.member, start, head, place, group_start, tails, heads, edge)

    if total:
        in_threads(some, windows.n_groups, is_large=True)
    return Edges(group_start, tails, heads, edge)


@njit(cache=True, nogil=True)
def _edges(  # noqa: PLR0917  (numba takes positions)
    first: int,
    last: int,
    group_start: NDArray[np.int64],
    member: NDArray[np.int32],
    start: NDArray[np.int64],
    head: NDArray[np.int32],
    place: NDArray[np.int32],
    edge_start: NDArray[np.int64],
    tails: NDArray[np.uint16],
    heads: NDArray[np.uint16],
    edge: NDArray[np.int32],
) -> None:
    """Count a group's edges into ``edge_start[g + 1]``; or list them from ``edge_start[g]`` on, if there is room."""
    for g in range(first, last):
        low, high = group_start[g], group_start[g + 1]
        for s in range(low, high):
            place[member[s]] = s - low
        c = 0
        for s in range(low, high):
            i = member[s]
            for e in range(start[i], start[i + 1]):
                other = place[head[e]]
                if other < 0:
                    continue
                if len(edge):
                    at = edge_start[g] + c
                    tails[at], heads[at], edge[at] = s - low, other, e
                c += 1
        for s in range(low, high):
            place[member[s]] = -1
        if not len(edge):
            edge_start[g + 1] = c
