"""Snap many points with a tree: the same records and distances as measuring to all of them, but not the same work.

How long a search takes depends on where the point is, so somebody who can time single searches learns about the point.
This is for trusted batches: a file or a stream on a machine where nobody else measures.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import cKDTree

from metricdp.mechanism.snap import nearest_records
from metricdp.metric.distances import (
    LARGEST_FOR_TREE,
    MAX_TREE_DIMENSION,
    SMALLEST_FOR_TREE,
    SPHERE_ROUNDING,
    TREE_ROUNDING,
    CoordinateMetric,
    on_sphere,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.data.records import Records

POINTS_AT_ONCE = 1 << 16
INDICES_KEPT = 4


def snapped(
    points: NDArray[np.float64], records: Records, metric: str, *, fast_snap: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the nearest record of each point and its distance: by measuring to all records, or with a tree."""
    if fast_snap:
        return _index_of(records, metric).nearest(points)
    return nearest_records(points, records, CoordinateMetric(metric))


@lru_cache(maxsize=INDICES_KEPT)
def _index_of(records: Records, metric: str) -> SnapIndex:
    return SnapIndex(records, CoordinateMetric(metric))


class SnapIndex:
    """A tree over the records that finds the nearest record of each point.

    The tree's arithmetic is rounded, and so is that of the metric. So the tree only names candidates: every record that
    could be the nearest by the metric, with all roundings against it. Where there are several, the metric itself
    decides among them, and of those at the same distance the first record wins: exactly as `nearest_records` does.

    In more than 12 dimensions, or for huge coordinates, a tree does not help, and every record is measured.
    """

    def __init__(self, records: Records, metric: CoordinateMetric) -> None:
        self._records, self._metric = records, metric
        self._is_sphere = metric.name == "haversine"
        points = records.coordinates
        fits = points.shape[1] <= MAX_TREE_DIMENSION and float(np.abs(points).max()) <= LARGEST_FOR_TREE
        self._tree = cKDTree(self._placed(points)) if self._is_sphere or fits else None
        # of two records whose distances differ by more, the metric measures the nearer one as nearer
        self._slack = 4.0 * metric.rounding(points.shape[1]) + TREE_ROUNDING
        self._least = SPHERE_ROUNDING if self._is_sphere else SMALLEST_FOR_TREE
        self._norm = 1.0 if metric.name == "manhattan" else 2.0

    def nearest(self, points: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the nearest record of each point and its distance; see `nearest_records`."""
        rows, distances = np.empty(len(points), dtype=np.int64), np.empty(len(points))
        for start in range(0, len(points), POINTS_AT_ONCE):
            part = slice(start, start + POINTS_AT_ONCE)
            rows[part], distances[part] = self._nearest(points[part])
        return rows, distances

    def _nearest(self, points: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        tree, is_huge = self._tree, not self._is_sphere and float(np.abs(points).max()) > LARGEST_FOR_TREE
        if tree is None or is_huge:
            return nearest_records(points, self._records, self._metric)
        places = self._placed(points)
        far, found = tree.query(places, k=[1, 2], p=self._norm)
        rows = np.asarray(found[:, 0], dtype=np.int64)
        # both distances in the tree may be off by the least amount
        reach = (far[:, 0] + 2.0 * self._least) * (1.0 + self._slack) + 2.0 * self._least
        distances = self._metric.elementwise(points, self._records.coordinates[rows])
        for point in np.flatnonzero(far[:, 1] <= reach):
            candidates = np.sort(tree.query_ball_point(places[point], reach[point], p=self._norm))
            measured = self._metric.elementwise(points[point], self._records.coordinates[candidates])
            rows[point], distances[point] = candidates[measured.argmin()], measured.min()
        return rows, distances

    def _placed(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return points as the tree has them."""
        return on_sphere(points) if self._is_sphere else points
