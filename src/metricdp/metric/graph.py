"""The mDP graph: one node per record, one edge per pair of neighbouring records (the paper's Definition 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra, reverse_cuthill_mckee

from metricdp.data.frozen import FrozenArrays, frozen
from metricdp.errors import InputError
from metricdp.metric.closure import close_columns, never
from metricdp.metric.thin import thin_edges

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from metricdp.data.records import Records
    from metricdp.metric.distances import Metric

SMALLEST_FLOAT = float(np.nextafter(0.0, 1.0))
DENSE_PAIRS_PER_RECORD = 8  # from which a skeleton is worth its cost
SKELETON_STRETCH = 0.05


@dataclass(frozen=True, eq=False)
class MdpGraph(FrozenArrays):
    """Neighbour pairs and their distances, in read-only arrays of its own: tables are certified by them.

    Parameters
    ----------
    n
        Number of records.
    pairs
        Neighbours i < j in lexicographic order, shape (P, 2).
    distances
        Their distances, shape (P,), finite and not negative.

    Examples
    --------
    >>> line = MdpGraph(3, np.array([[0, 1], [1, 2]], dtype=np.int32), np.array([1.0, 1.0]))
    >>> line.closure(np.array([[1.0], [0.0], [0.0]]), epsilon=np.log(2)).round(3).ravel().tolist()
    [1.0, 0.5, 0.25]
    """

    n: int
    pairs: NDArray[np.int32]
    distances: NDArray[np.float64]

    def __post_init__(self) -> None:
        pairs, distances = _as_pairs(self.pairs, self.n), frozen(self.distances, np.float64)
        object.__setattr__(self, "pairs", pairs)
        object.__setattr__(self, "distances", distances)
        if distances.shape != (len(pairs),):
            raise InputError(f"pairs of shape {pairs.shape} and distances of shape {distances.shape} do not fit")
        key = pairs[:, 0].astype(np.int64) * self.n + pairs[:, 1]
        if (pairs[:, 0] >= pairs[:, 1]).any() or (np.diff(key) <= 0).any():
            raise InputError("neighbour pairs must be i < j, sorted and each named once")
        if not (np.isfinite(distances) & (distances >= 0)).all():
            raise InputError("distances of neighbours must be finite and not negative")

    @classmethod
    def of(cls, records: Records, metric: Metric, eta: float) -> MdpGraph:
        """Build the graph of all pairs of ``records`` within ``eta``."""
        return cls(records.n, *metric.pairs_within(records, eta))

    @property
    def n_pairs(self) -> int:
        """Number of neighbour pairs."""
        return len(self.pairs)

    @cached_property
    def adjacency(self) -> csr_array:
        """Both directions of every pair as a sparse matrix of distances (zero distances are stored entries)."""
        i, j = self.pairs[:, 0], self.pairs[:, 1]
        rows, columns = np.concatenate((i, j)), np.concatenate((j, i))
        matrix = csr_array((np.tile(self.distances, 2), (rows, columns)), shape=(self.n, self.n))
        matrix.sort_indices()
        # bounds along paths are computed from it
        matrix.data, matrix.indices, matrix.indptr = map(frozen, (matrix.data, matrix.indices, matrix.indptr))
        return matrix

    @cached_property
    def labels(self) -> NDArray[np.int32]:
        """Number of the component of each record; components are numbered by their first record."""
        # from the pairs themselves: the adjacency can be changed by callers, and certificates count components
        i, j = self.pairs[:, 0], self.pairs[:, 1]
        links = csr_array((np.ones(len(i)), (i, j)), shape=(self.n, self.n))
        _, labels = connected_components(links, directed=False)
        _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int32)
        rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
        return frozen(rank[inverse])

    @property
    def n_components(self) -> int:
        """Number of connected components."""
        return int(self.labels.max()) + 1

    @cached_property
    def components(self) -> list[NDArray[np.int64]]:
        """The records of each component, ascending."""
        order = np.argsort(self.labels, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.labels))[:-1])

    def subgraph(self, rows: NDArray[np.int64]) -> MdpGraph:
        """Return the graph among ``rows`` (ascending), renumbered from 0."""
        if len(rows) == self.n:
            return self
        place = np.full(self.n, -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        pairs = place[self.pairs]
        inside = (pairs >= 0).all(axis=1)
        return MdpGraph(len(rows), pairs[inside].astype(np.int32), self.distances[inside])

    def merged(self) -> tuple[NDArray[np.int64], MdpGraph]:
        """Merge records at distance 0, which must have equal rows: the group of each record, and the groups' graph.

        Between groups the shortest distance counts: the other pairs follow from it.
        """
        zero = self.distances == 0
        if not zero.any():
            return np.arange(self.n), self
        i, j = self.pairs[zero, 0], self.pairs[zero, 1]
        touching = csr_array((np.ones(len(i)), (i, j)), shape=(self.n, self.n))
        _, label = connected_components(touching, directed=False)
        _, first, inverse = np.unique(label, return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        group = rank[inverse]
        ends = np.sort(group[self.pairs], axis=1)
        apart = ends[:, 0] != ends[:, 1]
        ends, lengths = ends[apart], self.distances[apart]
        order = np.lexsort((lengths, ends[:, 1], ends[:, 0]))
        ends, lengths = ends[order], lengths[order]
        keep = np.ones(len(ends), dtype=bool)
        keep[1:] = (ends[1:] != ends[:-1]).any(axis=1)
        return group, MdpGraph(len(first), ends[keep].astype(np.int32), lengths[keep])

    def path_distances(self, sources: NDArray[np.int64], *, limit: float = np.inf) -> NDArray[np.float64]:
        """Return the path distances D from ``sources`` to all records, shape (len(sources), N); inf if unconnected."""
        return dijkstra(self.adjacency, directed=False, indices=sources, limit=limit)

    def closure(
        self,
        values: NDArray[np.float64],
        epsilon: float,
        *,
        slack: float = 0.0,
        is_over: Callable[[], bool] = never,
    ) -> NDArray[np.float64]:
        """Return the smallest matrix above ``values`` with ``z_i <= exp(epsilon d_ij) z_j`` on all pairs.

        ``slack`` tightens every row by that relative amount (at most to equality), so that rounding cannot break it.
        StoppedError is raised when ``is_over``, which is called now and then, returns True.
        """
        closed = np.array(values, dtype=np.float64, order="C")
        if self.n_pairs > DENSE_PAIRS_PER_RECORD * self.n:
            # the same result, and most of the work is done on few edges
            thin = self.skeleton
            close_columns(closed, *thin.decays(epsilon, slack=slack), whole=False, order=self.sweep, is_over=is_over)
        close_columns(closed, *self.decays(epsilon, slack=slack), whole=False, order=self.sweep, is_over=is_over)
        return closed

    @cached_property
    def skeleton(self) -> MdpGraph:
        """A thin graph whose paths are nearly as short."""
        kept = thin_edges(self, SKELETON_STRETCH)
        return MdpGraph(self.n, self.pairs[kept], self.distances[kept])

    @cached_property
    def sweep(self) -> NDArray[np.int64]:
        """An order of the records in which neighbours are near."""
        links = (self.skeleton if self.n_pairs > DENSE_PAIRS_PER_RECORD * self.n else self).adjacency
        return reverse_cuthill_mckee(links, symmetric_mode=True).astype(np.int64)

    def decays(
        self, epsilon: float, *, slack: float = 0.0
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        """Return the adjacency's index arrays and each edge's factor ``exp(-epsilon d) (1 + slack)``, in (0, 1]."""
        matrix = self.adjacency
        factor = np.multiply(matrix.data, -epsilon)
        np.exp(factor, out=factor)
        factor *= 1.0 + slack
        # never zero: a positive entry must keep its neighbours positive however far they are
        np.clip(factor, SMALLEST_FLOAT, 1.0, out=factor)
        return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False), factor


def _as_pairs(given: NDArray[np.int32], n: int) -> NDArray[np.int32]:
    """Return pairs as a frozen copy, checked: whole numbers in two columns that name some of ``n`` records."""
    pairs = frozen(given)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise InputError(f"neighbour pairs must be whole numbers in two columns, got {pairs.dtype} of {pairs.shape}")
    if len(pairs) and (pairs.min() < 0 or pairs.max() >= n):
        raise InputError(f"pairs name records {pairs.min()} to {pairs.max()}, but there are {n}")
    return frozen(pairs, np.int32)
