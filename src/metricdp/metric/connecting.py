"""The least eta that joins all records, and what smaller ones leave apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial import Delaunay, QhullError

from metricdp.errors import InputError
from metricdp.metric.distances import CoordinateMetric
from metricdp.metric.given import as_metric

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.data.records import Records
    from metricdp.metric.distances import Metric

MAX_RECORDS = 10_000  # all distances are held at one time
MAX_COMPARED = 2_000  # up to which all distances are made where a triangulation would do
SMALLEST = float(np.nextafter(0.0, 1.0))
HAIR = 1e-9  # relative, so that rounding cannot cut an edge


@dataclass(frozen=True, eq=False)
class Joining:
    """A tree that joins all records by short edges: which eta joins how many.

    Parameters
    ----------
    edges, lengths
        Ends and lengths of the tree's edges, shape (N - 1, 2) and (N - 1,).
    """

    n: int
    edges: NDArray[np.int64]
    lengths: NDArray[np.float64]

    @property
    def eta(self) -> float:
        """The neighbour distance that joins all records, a hair above the longest edge; 1 for a single place."""
        return float(self.lengths.max(initial=0.0)) * (1.0 + HAIR) or 1.0

    def n_components(self, eta: float) -> int:
        """Return into how many groups the records fall at ``eta``; for a tree that is not the shortest, at most."""
        return 1 + int((self.lengths > eta).sum())

    def n_alone(self, eta: float) -> int:
        """Return how many records have no neighbour at ``eta``."""
        has_one = np.zeros(self.n, dtype=bool)
        has_one[self.edges[self.lengths <= eta].ravel()] = True
        return self.n - int(has_one.sum())


def connecting_eta(records: Records, metric: str | Metric | None = None) -> float:
    """Return the least neighbour distance that joins all records: the longest edge of a minimum spanning tree.

    Of more than 2,000 places or points of the plane it is that of a tree along the edges of a triangulation. That is
    the shortest tree where triangles are those of the metric, and in any case joins all records.

    Examples
    --------
    >>> from metricdp.data import Records
    >>> round(connecting_eta(Records([[0.0], [1.0], [4.0]], kind="vectors")), 6)
    3.0
    """
    return joining(records, metric).eta


def joining(records: Records, metric: str | Metric | None = None) -> Joining:
    """Return the tree of short edges that joins all records."""
    measure = as_metric(metric, records)
    if records.dimension == 2 and type(measure) is CoordinateMetric:
        # the shortest tree by the sum of two differences is not along these triangles
        if records.n > (MAX_RECORDS if measure.name == "manhattan" else MAX_COMPARED):
            return _joined(records, *_triangulated(records, measure))
    elif records.n > MAX_RECORDS:
        raise InputError(f"eta cannot be chosen for {records.n} records (limit {MAX_RECORDS}): give eta")
    distances = np.array(measure.to_rows(records, np.arange(records.n)))
    if not np.isfinite(distances).all():
        raise InputError("no eta joins all records, since some are infinitely far apart: give eta")
    n = records.n
    columns, starts = np.tile(np.arange(n, dtype=np.int32), n), np.arange(0, n * n + 1, n)
    return _shortest(csr_array((distances.ravel(), columns, starts), shape=(n, n)))


def _joined(records: Records, edges: NDArray[np.int64], lengths: NDArray[np.float64]) -> Joining:
    return _shortest(coo_array((lengths, (edges[:, 0], edges[:, 1])), shape=(records.n, records.n)).tocsr())


def _shortest(links: csr_array) -> Joining:
    """Return the shortest tree; zero would mean no edge, so records in one place are the smallest number apart."""
    np.maximum(links.data, SMALLEST, out=links.data)
    tree = minimum_spanning_tree(links).tocoo()
    return Joining(links.shape[0], np.column_stack((tree.row, tree.col)).astype(np.int64), tree.data)


def _triangulated(records: Records, metric: CoordinateMetric) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the edges of a triangulation of all places, and of a chain of those in one place, with their lengths."""
    points = np.array(records.coordinates)
    if records.kind == "places":
        points[:, 1] *= np.cos(np.radians(points[:, 0].mean()))  # so that triangles on the map are those on Earth
    spots, first, which = np.unique(points, axis=0, return_index=True, return_inverse=True)
    try:
        found = Delaunay(spots)
    except (QhullError, ValueError):  # all on a line, along which they are in order
        sides = np.column_stack((np.arange(len(spots) - 1), np.arange(1, len(spots))))
    else:
        corners = found.simplices
        # points that are too near to a corner to be corners are joined to it
        sides = np.vstack((corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [0, 2]], found.coplanar[:, [0, 2]]))
    sides = np.unique(np.sort(sides, axis=1), axis=0)
    same = np.column_stack((first[which], np.arange(records.n)))
    edges = np.vstack((first[sides], same[same[:, 0] != same[:, 1]])).astype(np.int64)
    return edges, metric.elementwise(records.coordinates[edges[:, 0]], records.coordinates[edges[:, 1]])
