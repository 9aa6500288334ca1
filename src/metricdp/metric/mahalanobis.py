"""The Mahalanobis distance: Euclidean after the coordinates have been made uncorrelated, each with variance 1.

``d(x, y) = |W (x - y)|`` with ``W' W`` the inverse of a covariance. Files hold the pairs of this metric, as those of a
matrix: the covariance is not in them, so a reader cannot make them again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from metricdp.data.frozen import FrozenArrays, frozen
from metricdp.data.records import Records
from metricdp.errors import InputError
from metricdp.metric.distances import CoordinateMetric, Metric, sorted_pairs
from metricdp.metric.rounding import STORED_MARGIN, UNIT_ROUNDOFF

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from metricdp.metric.distances import Pairs

EUCLIDEAN = CoordinateMetric("euclidean")
SMALLEST_SHARE = 1e-12  # of the largest variance; directions that vary less cannot be told from rounding


class MahalanobisMetric(FrozenArrays, Metric):
    """Distances in units of the standard deviation in each direction.

    Parameters
    ----------
    covariance
        A symmetric, positive definite matrix, shape (D, D). `of_records` takes that of the records themselves.

    Examples
    --------
    >>> metric = MahalanobisMetric([[4.0, 0.0], [0.0, 1.0]])
    >>> metric.to_points(Records([[0.0, 0.0]], kind="vectors"), np.array([[2.0, 0.0], [0.0, 2.0]])).tolist()
    [[1.0, 2.0]]
    """

    def __init__(self, covariance: ArrayLike) -> None:
        self.name = "function mahalanobis"
        self.whitening = frozen(_whitening(covariance))

    @classmethod
    def of_records(cls, records: Records) -> MahalanobisMetric:
        """Return the metric of the covariance of the records, each counted once."""
        if records.kind == "places":
            raise InputError("the mahalanobis metric is one of vectors: use metric='haversine' for places")
        if records.n < 2:
            raise InputError("the mahalanobis metric needs at least two records: use metric='euclidean'")
        metric = cls(np.atleast_2d(np.cov(records.coordinates.T)))
        metric.name = "mahalanobis"
        return metric

    def __repr__(self) -> str:
        return f"MahalanobisMetric({len(self.whitening)} x {len(self.whitening)})"

    def pairs_within(self, records: Records, eta: float) -> Pairs:
        white, slack = self._white(records.coordinates), self._slack(records.coordinates)
        reach = eta + 4.0 * STORED_MARGIN * float(slack.max())
        found, below = [np.zeros((0, 2), dtype=np.int64)], [np.zeros(0)]
        for part, distances in EUCLIDEAN.within_in_parts(Records(white, kind="vectors"), reach, margin=STORED_MARGIN):
            found.append(part)
            below.append(np.maximum(distances - STORED_MARGIN * slack[part].sum(axis=1), 0.0))
        return sorted_pairs(np.concatenate(found), np.concatenate(below), eta)

    def to_rows(self, records: Records, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.to_points(records, records.coordinates[rows])

    def to_points(self, records: Records, points: NDArray[np.float64]) -> NDArray[np.float64]:
        return EUCLIDEAN.between(self._white(records.coordinates), self._white(points))

    def _white(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the points with W applied, shape (n, D)."""
        if points.ndim != 2 or points.shape[1] != len(self.whitening):
            raise InputError(
                f"the covariance has {len(self.whitening)} rows, and the points have shape {points.shape}: give one "
                "row and one column for each coordinate"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            white = points @ self.whitening.T
        if not np.isfinite(white).all():
            raise InputError("coordinates are too large for this covariance: give them in a larger unit")
        return white

    def _slack(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how far `_white` can be off for each point, at most: D + 1 roundings of each product, in any order."""
        size = np.linalg.norm(np.abs(points) @ np.abs(self.whitening.T), axis=1)
        return 2.0 * (len(self.whitening) + 2) * UNIT_ROUNDOFF * size


def _whitening(covariance: ArrayLike) -> NDArray[np.float64]:
    try:
        given = np.array(covariance, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("the covariance must be numbers in rows of equal length") from None
    if given.ndim != 2 or given.shape[0] != given.shape[1] or not np.isfinite(given).all():
        raise InputError(f"the covariance must be a square matrix of finite numbers, got shape {given.shape}")
    if not np.allclose(given, given.T, rtol=1e-9, atol=0.0):
        raise InputError("the covariance must be symmetric: use for example (C + C.T) / 2")
    variances, directions = np.linalg.eigh((given + given.T) / 2.0)
    if not variances[0] > SMALLEST_SHARE * variances[-1]:
        raise InputError(
            "the covariance is singular, so that different records would be in one place: give more records than "
            "coordinates, fewer coordinates, or a covariance with something added to its diagonal"
        )
    return directions.T / np.sqrt(variances)[:, None]
