"""The promise for points that are snapped to their nearest record: a bound that follows from the graph."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import InputError
from metricdp.metric.cells import Cells
from metricdp.metric.connecting import connecting_eta
from metricdp.metric.distances import CoordinateMetric
from metricdp.metric.units import with_unit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.data.records import Records
    from metricdp.metric.graph import MdpGraph

DISTANCE_TOLERANCE = 1e-9  # relative; far above the error of distances and their sums
EXACT_PATHS_UP_TO = 2_000  # records; above it paths use a thin graph, which can only make them longer
PATHS_AT_ONCE = 4_000_000  # entries of a block of path distances
ETA_ADVICE_UP_TO = 3_000  # records up to which a message names the eta that joins them
DENSE_PAIRS_PER_RECORD = 8  # from which a thin graph has far fewer pairs


@dataclass(frozen=True)
class Reach:
    """The worst case for points within some distance of one another: their records and the path between these."""

    distance: float
    i: int = -1
    j: int = -1


@dataclass(frozen=True, eq=False, repr=False)
class PointGuarantee:
    """For points x and x' within ``r`` of one another: ``Pr[report | x] <= exp(bound(r)) Pr[report | x']``.

    A point is snapped to its nearest record, so two points are as hard to tell apart as their records i and j:
    ``bound(r)`` is epsilon times the longest *path* D_ij over all pairs of records whose cells (the points to which
    they are the nearest, within the limit) come within r of one another. It does not go to 0 with r: two points on the
    two sides of a border between cells have different records however close they are. It is infinite where two such
    cells belong to records that no path joins.

    It is a promise for points within the limit. The refusal of a point beyond it is visible.
    """

    records: Records
    graph: MdpGraph
    epsilon: float
    eta: float
    limit: float
    cells: Cells
    _known: dict[float, Reach] = field(default_factory=dict)

    @classmethod
    def of(
        cls, records: Records, graph: MdpGraph, metric: str, *, epsilon: float, eta: float, limit: float
    ) -> PointGuarantee:
        """Return the promise for points at most ``limit`` from a record."""
        if metric not in CoordinateMetric.NAMES:
            raise InputError(
                f"points cannot be snapped by the metric {metric!r}: name records by their ids, or make a mechanism "
                f"with one of {', '.join(CoordinateMetric.NAMES)}"
            )
        if not limit > 0:
            raise InputError(
                f"the snap limit must be positive, got {limit}: give the farthest distance at which to snap"
            )
        return cls(records, graph, epsilon, eta, limit, Cells.of(records, metric, limit))

    def __repr__(self) -> str:
        return f"PointGuarantee(limit {self.limit:g}: {self.sentence!r})"

    def bound(self, r: float) -> float:
        """Return the largest logarithm of a ratio of two points' probabilities, for points within ``r``, rounded up."""
        return self.epsilon * self.reach(r).distance * (1.0 + DISTANCE_TOLERANCE)

    def reach(self, r: float) -> Reach:
        """Return the longest path between records of two points within ``r`` of one another, with its records."""
        if not (math.isfinite(r) and r >= 0):
            raise InputError(f"a distance must be a number, zero or more, got {r}")
        if r not in self._known:
            self._known[r] = self._worst(r)
        return self._known[r]

    @property
    def fault(self) -> str:
        """Why the promise does not hold for points close together, within the limit; empty if it does."""
        alone = int((np.bincount(self.graph.labels) == 1).sum())
        if alone:
            return f"{alone:,} of {self.graph.n:,} records have no neighbour, so a report may reveal a point near one"
        if self._apart(self.limit) is not None:
            return (
                f"points within {self._limit} of one another can belong to records that no path of neighbours "
                "joins, so a report may tell them apart completely"
            )
        return ""

    def check(self) -> None:
        """Refuse if nearby points are not protected, whatever the points are, so that the refusal reveals nothing."""
        if self.fault:
            raise InputError(
                f"points within {self._limit} of the records are not protected: {self.fault}; make a mechanism with "
                f"an eta that joins all records{self._joining}, use a smaller snap limit, or allow unprotected reports"
            )

    @property
    def _joining(self) -> str:
        if self.records.n > ETA_ADVICE_UP_TO:
            return ""
        eta = 1.001 * connecting_eta(self.records, self.cells.metric)  # never rounded below it
        return f" ({with_unit(eta, self.cells.metric, digits='.4g')} or more)"

    @property
    def _limit(self) -> str:
        return with_unit(self.limit, self.cells.metric, digits=".9g")

    @property
    def sentence(self) -> str:
        """The promise in one sentence."""
        if self.fault:
            return f"Points within {self._limit} of the records are NOT protected: {self.fault}."
        near, path = self.bound(0.0), with_unit(self.reach(0.0).distance, self.cells.metric, digits=".4g")
        first = (
            f"Points within {self._limit} of a record: of two points next to each other, whose records can be "
            f"a path of {path} apart, any report is at most {_factor(near)} times (exp({near:.4g})) more likely "
            "from one than from the other."
        )
        sentences = [first]
        if self.graph.n <= EXACT_PATHS_UP_TO:
            far = self.bound(self.limit)
            sentences.append(
                f"For points within {self._limit} of one another it is {_factor(far)} times (exp({far:.4g}))."
            )
        if self.graph.n_components > 1:
            sentences.append(
                f"Points in the areas of different groups of records ({self.graph.n_components:,}) are not protected "
                "from one another."
            )
        return " ".join(sentences)

    def _apart(self, r: float) -> Reach | None:
        """Return two records that no path joins and whose cells come within ``r``; None if there are none."""
        labels = self.graph.labels
        if self.graph.n_components == 1:
            return None
        for i, j, _ in self.cells.pairs_within(r):
            apart = labels[i] != labels[j]
            meets = np.flatnonzero(apart)[self.cells.can_meet(i[apart], j[apart], r)]
            if meets.size:
                return Reach(math.inf, int(i[meets[0]]), int(j[meets[0]]))
        return None

    def _worst(self, r: float) -> Reach:
        """Return the worst case over all pairs of cells, examining only those that could exceed the worst so far."""
        apart = self._apart(r)
        if apart is not None:
            return apart
        worst = Reach(0.0)
        surely = self.eta * (
            1.0 - DISTANCE_TOLERANCE
        )  # pairs within eta are all neighbours: the certificate has counted them
        for i, j, distances in self.cells.pairs_within(r):
            is_edge = distances <= surely
            worst = self._worst_neighbours(i[is_edge], j[is_edge], distances[is_edge], r, worst)
            worst = self._worst_paths(i[~is_edge], j[~is_edge], r, worst)
        return worst

    def _worst_neighbours(
        self, i: NDArray[np.int64], j: NDArray[np.int64], distances: NDArray[np.float64], r: float, worst: Reach
    ) -> Reach:
        """Return the worst case among neighbours: the farthest pair whose cells can meet."""
        order = np.argsort(-distances)
        order = order[distances[order] > worst.distance]
        block = 1024
        for start in range(0, len(order), block):
            part = order[start : start + block]
            meets = part[self.cells.can_meet(i[part], j[part], r)]
            if meets.size:
                return Reach(float(distances[meets[0]]), int(i[meets[0]]), int(j[meets[0]]))
        return worst

    def _worst_paths(self, i: NDArray[np.int64], j: NDArray[np.int64], r: float, worst: Reach) -> Reach:
        meets = self.cells.can_meet(i, j, r)
        i, j = i[meets], j[meets]
        sources, which = np.unique(i, return_inverse=True)
        block = max(1, PATHS_AT_ONCE // self.graph.n)
        for start in range(0, len(sources), block):
            inside = (which >= start) & (which < start + block)
            paths = self._roads.path_distances(sources[start : start + block])[which[inside] - start, j[inside]]
            longest = int(paths.argmax())
            if paths[longest] > worst.distance:
                worst = Reach(float(paths[longest]), int(i[inside][longest]), int(j[inside][longest]))
        return worst

    @property
    def _roads(self) -> MdpGraph:
        """The graph that paths are measured in: the whole graph or, if that is large, a thin part with few detours."""
        graph = self.graph
        is_large = graph.n > EXACT_PATHS_UP_TO and graph.n_pairs > DENSE_PAIRS_PER_RECORD * graph.n
        return graph.skeleton if is_large else graph


def _factor(logarithm: float) -> str:
    return f"{math.exp(logarithm):.3g}" if logarithm < 700.0 else "e^700 or more"
