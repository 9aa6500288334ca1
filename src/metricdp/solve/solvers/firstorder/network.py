"""What the iterations run on: some of the pairs, with records and outputs so ordered that neighbours are together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.sparse import coo_array
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.spatial.distance import pdist

from metricdp.metric.closure import never
from metricdp.metric.thin import thin_edges
from metricdp.solve.solvers.firstorder.tiles import WIDTH

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from metricdp.metric.graph import MdpGraph
    from metricdp.solve.component import Component

LARGEST_EXPONENT = 30.0  # a factor exp(-30) is below what float32 rows can show
SORT_OUTPUTS_UP_TO = 4_000
SAMPLED_RECORDS = 400  # from which the likeness of outputs is judged
MOST_COMPARED = 400_000_000  # numbers: pairs of outputs times sampled records; half a second
SAFETY = 0.99  # of the largest step
SMALLEST_RANGE = 1e-3  # of the largest range of a record's losses: steps do not grow beyond
PADDING = 4.0  # costs of outputs that fill up a tile, in units of the largest difference of losses
ROUND_DOWN = 1.0 - 2.0**-46


class Network:
    """The edges of one component that take part in the iterations.

    Records and outputs are renumbered: row ``r`` here is record ``order[r]``, column ``c`` is output ``outputs[c]``.
    """

    def __init__(self, component: Component, chosen: NDArray[np.int64], order: NDArray[np.int64] | None = None) -> None:
        self.component = component
        self.n, self.K = component.costs.shape
        self.tiles = -(-self.K // WIDTH)
        self.scale = component.scale
        graph = component.graph
        self.order = _record_order(graph, chosen) if order is None else order
        self.place = np.empty(self.n, dtype=np.int64)
        self.place[self.order] = np.arange(self.n)
        self.outputs = _output_order(component.costs)
        spread = np.ptp(component.costs, axis=1)[self.order] / self.scale
        self._range = np.maximum(spread, SMALLEST_RANGE)
        # differences from the cheapest output: all that matters, and float32 keeps them better
        self.C = self.tiled(component.costs - component.costs.min(axis=1, keepdims=True), PADDING * self.scale)
        self.C /= np.float32(self.scale)
        self.cheapest = np.ascontiguousarray(self.C.min(axis=2))
        self.choose(chosen)

    def choose(self, chosen: NDArray[np.int64]) -> None:
        """Take the pairs at these positions of the component's graph as edges."""
        graph, epsilon = self.component.graph, self.component.epsilon
        exponent = epsilon * graph.distances[chosen]
        is_felt = exponent <= LARGEST_EXPONENT
        chosen, exponent = chosen[is_felt], exponent[is_felt]
        ends = np.sort(self.place[graph.pairs[chosen]], axis=1)
        sequence = np.lexsort((ends[:, 1], ends[:, 0]))
        self.chosen, self.exponent = chosen[sequence], exponent[sequence]
        self.tail, self.head = (np.ascontiguousarray(ends[sequence, side], dtype=np.int32) for side in (0, 1))
        self.m = len(self.chosen)
        decay = np.exp(-self.exponent)
        norm = np.sqrt(1.0 + decay * decay)
        self.a, self.b = (decay / norm).astype(np.float32), (1.0 / norm).astype(np.float32)
        # for bounds: one multiplier for both ends, and a decay that is surely not above exp(-epsilon d)
        self.decay = decay * ROUND_DOWN
        self.unit = self.b.astype(np.float64) * self.scale
        self._index()

    def _index(self) -> None:
        """List the edges at each record, and set the steps."""
        ends = np.concatenate((self.tail, self.head))
        edges = np.tile(np.arange(self.m, dtype=np.int32), 2)
        sequence = np.argsort(ends, kind="stable")
        self.edge_at = edges[sequence]
        self.is_head = sequence >= self.m
        self.start = np.searchsorted(ends[sequence], np.arange(self.n + 1)).astype(np.int64)
        sides = self.a.astype(np.float64) + self.b
        stiffness = np.sqrt(self._range[self.tail] * self._range[self.head])
        total = np.bincount(ends, weights=np.tile(sides * stiffness, 2), minlength=self.n)
        self.tau = np.where(total > 0, SAFETY / np.where(total > 0, total, 1.0), 1.0).astype(np.float32)
        self.sigma = (SAFETY * stiffness / sides).astype(np.float32)

    def tiled(self, matrix: NDArray[np.float64], padding: float, kind: type = np.float32) -> NDArray[np.float32]:
        """Return a matrix of records and outputs in tiles, renumbered."""
        padded = np.full((self.n, self.tiles * WIDTH), padding, dtype=kind)
        padded[:, : self.K] = matrix[np.ix_(self.order, self.outputs)]
        return np.ascontiguousarray(padded.reshape(self.n, self.tiles, WIDTH).transpose(1, 0, 2))

    def untiled(self, tiles: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return tiles as a matrix of records and outputs."""
        rows = tiles.transpose(1, 0, 2).reshape(self.n, -1)[:, : self.K]
        matrix = np.empty((self.n, self.K))
        matrix[np.ix_(self.order, self.outputs)] = rows
        return matrix

    @property
    def has_all_pairs(self) -> bool:
        """Whether nothing is left out that could be felt."""
        exponent = self.component.epsilon * self.component.graph.distances
        return self.m == int((exponent <= LARGEST_EXPONENT).sum())


def first_edges(graph: MdpGraph, stretch: float, *, is_over: Callable[[], bool] = never) -> NDArray[np.int64]:
    """Return the pairs to begin with, as positions."""
    return np.arange(graph.n_pairs) if stretch == 0 else thin_edges(graph, stretch, is_over=is_over)


def _record_order(graph: MdpGraph, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    i, j = graph.pairs[chosen].T
    links = coo_array((np.ones(2 * len(i), dtype=np.int8), (np.append(i, j), np.append(j, i))), shape=(graph.n,) * 2)
    return reverse_cuthill_mckee(links.tocsr(), symmetric_mode=True).astype(np.int64)


def _output_order(costs: NDArray[np.float64]) -> NDArray[np.int64]:
    """Bring outputs that are alike together, so that few tiles are in use at a record."""
    K = costs.shape[1]
    if not WIDTH < K <= SORT_OUTPUTS_UP_TO:
        return np.arange(K)
    step = max(1, len(costs) // min(SAMPLED_RECORDS, MOST_COMPARED // K**2))
    likeness = pdist(costs[::step].T)
    return leaves_list(linkage(likeness, "average", optimal_ordering=K <= 500)).astype(np.int64)
