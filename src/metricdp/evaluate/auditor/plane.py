"""The geometry of points: nearest records, points between records and cell borders, on a sphere or in a space."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from metricdp.data.geodesy import EARTH_RADIUS_KM
from metricdp.errors import InputError
from metricdp.mechanism.snap import nearest_records
from metricdp.metric.distances import CoordinateMetric

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from metricdp.mechanism.mechanism import Mechanism

N_BISECTIONS = 60  # more than the 53 bits of a double


class Plane:
    """The points around the records of a mechanism.

    Parameters
    ----------
    mechanism
        Its metric must be one of coordinates.
    limit
        The farthest distance at which points are snapped to records.
    """

    def __init__(self, mechanism: Mechanism, limit: float) -> None:
        if mechanism.metric not in CoordinateMetric.NAMES:
            raise InputError(
                f"points cannot be snapped by the metric {mechanism.metric!r}: audit the pipeline on record ids instead"
            )
        if not limit > 0:
            raise InputError(f"limit must be positive, got {limit}: give the farthest distance at which to snap")
        self.limit = limit
        self.metric = CoordinateMetric(mechanism.metric)
        self.is_sphere = mechanism.metric == "haversine"
        self.points = mechanism.records.coordinates
        self._records = mechanism.records
        self._axes = _on_sphere(self.points) if self.is_sphere else self.points
        # lengths are in km on the sphere; elsewhere the limit says what is short
        self.unit = 1.0 if self.is_sphere or not np.isfinite(limit) else limit

    def nearest(self, points: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the nearest record of each point, and how far it is."""
        return nearest_records(points, self._records, self.metric)

    def from_rows(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the straight distances from the records in ``rows`` to all records, shape (len(rows), N)."""
        return self.metric.to_rows(self._records, rows).T.copy()

    def between(self, a: NDArray[np.float64], b: NDArray[np.float64], t: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return points on the way from ``a`` (t = 0) to ``b`` (t = 1)."""
        if not self.is_sphere:
            return a + t[:, None] * (b - a)
        u, v = _on_sphere(a), _on_sphere(b)
        return _from_sphere(u + t[:, None] * (v - u))

    def outward(self) -> NDArray[np.int64]:
        """Return the rows of the records, the farthest from the middle of all of them first."""
        middle = self._axes.mean(axis=0)
        return np.argsort(-((self._axes - middle) ** 2).sum(axis=1), kind="stable")

    def away(self, a: NDArray[np.float64], t: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return points on the way from ``a`` (t = 0) away from the middle of all records, to two limits (t = 1)."""
        place = _on_sphere(a) if self.is_sphere else a
        direction = place - self._axes.mean(axis=0)
        direction /= np.maximum(np.linalg.norm(direction, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        if not self.is_sphere:
            return place + 2.0 * self.limit * t[:, None] * direction
        # along the ground
        direction -= (direction * place).sum(axis=1, keepdims=True) * place
        direction /= np.maximum(np.linalg.norm(direction, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        return _from_sphere(place + 2.0 * self.limit / EARTH_RADIUS_KM * t[:, None] * direction)

    def narrowed(
        self,
        at: Callable[[NDArray[np.float64]], NDArray[np.float64]],
        is_inside: Callable[[NDArray[np.float64]], NDArray[np.bool_]],
        steps: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return two points of each line that are at most ``steps`` apart, the first inside and the second not.

        ``at`` gives the points of all lines at given parameters from 0 (inside) to 1.
        """
        low, high = np.zeros(len(steps)), np.ones(len(steps))
        for _ in range(N_BISECTIONS):
            is_wide = self.metric.elementwise(at(low), at(high)) > steps
            if not is_wide.any():
                break
            middle = 0.5 * (low + high)
            inside = is_inside(at(middle))
            low, high = np.where(is_wide & inside, middle, low), np.where(is_wide & ~inside, middle, high)
        return at(low), at(high)

    def seams(self) -> list[tuple[tuple[float, ...], tuple[float, ...]]]:
        """Return two spellings of one place, where records are near: longitudes -180 and 180, and all at a pole."""
        if not self.is_sphere:
            return []
        found: list[tuple[tuple[float, ...], tuple[float, ...]]] = []
        latitudes = self.points[np.argsort(-np.abs(self.points[:, 1]), kind="stable")[:1], 0]
        spellings = [((float(lat), 180.0), (float(lat), -180.0)) for lat in latitudes]
        spellings += [((pole, 0.0), (pole, 120.0)) for pole in (90.0, -90.0)]
        for x, y in spellings:
            if self.nearest(np.array([x]))[1][0] <= self.limit:
                found.append((x, y))
        return found


def _on_sphere(points: NDArray[np.float64]) -> NDArray[np.float64]:
    latitude, longitude = np.radians(points.T)
    return np.column_stack(
        (np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude))
    )


def _from_sphere(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    x, y, z = vectors.T
    return np.degrees(np.column_stack((np.arctan2(z, np.hypot(x, y)), np.arctan2(y, x))))
