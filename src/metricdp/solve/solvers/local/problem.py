"""What the windowed solver is given, and the same with records and outputs in the order in which it works.

Records that must have equal rows (distance 0, or so near that they share a row) are one *node*. Nodes and outputs are
put in kd order, in which near ones follow one another, and outputs are taken in groups of 8: the last group is filled
up with copies of the last output, which changes no optimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from metricdp.metric.graph import MdpGraph
from metricdp.metric.simd import WIDTH
from metricdp.metric.space import kd_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.problem.losses import Losses
    from metricdp.solve.solvers.local.geometry import Geometry


@dataclass(frozen=True, eq=False)
class LocalProblem:
    """Records, outputs, losses and a budget, without any matrix of all records and outputs.

    Parameters
    ----------
    geometry
        Distances between records and outputs. Windows are balls of their metric.
    graph
        All neighbour pairs; distances of 0 are allowed.
    epsilon
        The budget per unit of distance.
    prior
        How likely each record is, shape (N,), not negative; it sums to 1, or to less for a part of a problem.
    losses
        What reporting an output costs; None for the distances of the geometry.
    mean_weight
        The mean prior of a node of the whole problem, if this is a part of it.
    is_ordered
        Whether the outputs are in kd order already.
    output_rows
        The record that each output is, if outputs are records.
    order
        The outputs in an order other than kd's, in which regions follow one another.
    """

    geometry: Geometry
    graph: MdpGraph
    epsilon: float
    prior: NDArray[np.float64]
    losses: Losses | None = None
    mean_weight: float | None = None
    is_ordered: bool = False
    output_rows: NDArray[np.int64] | None = None
    order: NDArray[np.int64] | None = None

    @cached_property
    def output_order(self) -> NDArray[np.int64]:
        """The outputs in kd order or the given one, filled up to whole groups with copies of the last."""
        if self.order is not None:
            order = self.order
        else:
            order = np.arange(self.n_outputs) if self.is_ordered else kd_order(self.geometry.output_points)
        return np.concatenate((order, np.repeat(order[-1:], -len(order) % WIDTH)))

    @property
    def n_records(self) -> int:
        """Number of records."""
        return len(self.geometry.record_points)

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return len(self.geometry.output_points)


@dataclass(frozen=True, eq=False)
class Nodes:
    """Records by nodes, in kd order.

    Parameters
    ----------
    start, who
        The records of node i are ``who[start[i] : start[i + 1]]``; the first stands for all where windows are made.
    of_record
        The node of each record.
    weight
        The nodes' prior, shape (n,).
    graph
        Pairs of neighbouring nodes, at the shortest distance of their records: all other pairs follow from it.
    """

    problem: LocalProblem
    start: NDArray[np.int64]
    who: NDArray[np.int64]
    of_record: NDArray[np.int64]
    weight: NDArray[np.float64]
    graph: MdpGraph

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.weight)

    @property
    def mean_weight(self) -> float:
        """The mean prior of a node."""
        given = self.problem.mean_weight
        return float(self.weight.mean()) if given is None else given

    @property
    def level(self) -> NDArray[np.float64]:
        """The nodes' weights over their mean."""
        return self.weight / self.mean_weight

    @property
    def first(self) -> NDArray[np.int64]:
        """The record that stands for each node."""
        return self.who[self.start[:-1]]

    @cached_property
    def nearest_neighbour(self) -> NDArray[np.float64]:
        """The distance from each node to its nearest neighbour; 0 if it has none."""
        nearest = np.full(self.n, np.inf)
        for side in (0, 1):
            np.minimum.at(nearest, self.graph.pairs[:, side], self.graph.distances)
        return np.where(np.isfinite(nearest), nearest, 0.0)


def nodes_within(problem: LocalProblem, nearness: float) -> Nodes:
    """Return nodes of records that are joined by chains of pairs with ``epsilon d <= nearness``."""
    graph = problem.graph
    near = problem.epsilon * graph.distances <= nearness
    i, j = graph.pairs[near, 0], graph.pairs[near, 1]
    links = csr_array((np.ones(len(i), dtype=np.int8), (i, j)), shape=(graph.n, graph.n))
    n, label = connected_components(links, directed=False)
    _, first = np.unique(label, return_index=True)
    place = np.empty(n, dtype=np.int64)
    place[kd_order(problem.geometry.record_points[first])] = np.arange(n)
    node = place[label]
    who = np.argsort(node, kind="stable").astype(np.int64)
    start = np.searchsorted(node[who], np.arange(n + 1)).astype(np.int64)
    weight = np.asarray(np.bincount(node, weights=problem.prior, minlength=n), dtype=np.float64)
    return Nodes(problem, start, who, node, weight, _graph_of(graph, node, n))


def _graph_of(graph: MdpGraph, node: NDArray[np.int64], n: int) -> MdpGraph:
    """Return the graph of the nodes: the shortest pair between two of them."""
    ends = np.sort(node[graph.pairs], axis=1)
    apart = ends[:, 0] != ends[:, 1]
    ends, lengths = ends[apart], graph.distances[apart]
    order = np.lexsort((lengths, ends[:, 1], ends[:, 0]))
    ends, lengths = ends[order], lengths[order]
    keep = np.ones(len(ends), dtype=bool)
    keep[1:] = (ends[1:] != ends[:-1]).any(axis=1)
    return MdpGraph(n, ends[keep].astype(np.int32), lengths[keep])
