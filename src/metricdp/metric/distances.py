"""Distances between records: what a metric must offer, and those of coordinates."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial import cKDTree

from metricdp.data.geodesy import EARTH_RADIUS_KM, HAVERSINE_ROUNDING, haversine_km
from metricdp.errors import InputError
from metricdp.metric.rounding import CHECKED_MARGIN, STORED_MARGIN, UNIT, keep_even, lowered

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.data.records import Records

    Pairs = tuple[NDArray[np.int32], NDArray[np.float64]]

CHUNK_ENTRIES = 4_000_000  # of a distance block held at one time
MAX_TREE_DIMENSION = 12  # above it a space-partitioning tree visits nearly every point
LARGEST_FOR_TREE, SMALLEST_FOR_TREE = 1e100, 1e-140  # squares of other numbers overflow, or lose digits, in the tree
# of the unit sphere: each end is off by at most 70 roundings of 2^-53 (radians of up to pi, sines, cosines, products)
SPHERE_ROUNDING = 1e-13
TREE_ROUNDING = 1e-9  # relative, far more than the tree's own arithmetic can be off


class Metric(ABC):
    """A distance that finds the neighbour pairs of records and measures from records to outputs."""

    name: str

    @abstractmethod
    def pairs_within(self, records: Records, eta: float) -> Pairs:
        """Return all pairs i < j within ``eta``, in lexicographic order, and their distances.

        No distance may be longer than the true one, and none longer than ``eta``.
        """

    @abstractmethod
    def to_rows(self, records: Records, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Give the distances from every record to the records in ``rows``, shape (N, len(rows))."""

    @abstractmethod
    def to_points(self, records: Records, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give the distances from every record to other ``points``, shape (N, len(points))."""


class CoordinateMetric(Metric):
    """Haversine (km, for latitude and longitude), Euclidean or Manhattan distance of coordinates.

    Examples
    --------
    >>> CoordinateMetric("manhattan").elementwise(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0]])).tolist()
    [7.0]
    """

    NAMES = ("haversine", "euclidean", "manhattan")

    def __init__(self, name: str) -> None:
        if name not in self.NAMES:
            raise InputError(f"unknown metric {name!r}: choose one of {', '.join(self.NAMES)}, or street")
        self.name = name

    def __repr__(self) -> str:
        return f"CoordinateMetric({self.name!r})"

    def elementwise(self, a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give the distance of each row of ``a`` to the same row of ``b`` (arrays broadcast)."""
        if self.name == "haversine":
            return haversine_km(a, b)
        with np.errstate(over="ignore"):
            difference = np.abs(a - b)
            if self.name == "manhattan":
                return difference.sum(axis=-1)
            # the largest difference is taken out, so that neither overflow nor underflow spoils the root
            largest = difference.max(axis=-1)
            safe = np.where((largest > 0) & np.isfinite(largest), largest, 1.0)
            scaled = np.minimum(difference / safe[..., None], 1.0)
            return largest * np.sqrt((scaled**2).sum(axis=-1))

    def rounding(self, dimension: int) -> float:
        """Return the largest relative error that `elementwise` can have in so many dimensions, on any machine.

        Euclidean: a difference and its quotient by the largest 2 roundings, the square 5, the sum of D of them D + 4,
        the root D/2 + 3, the product D/2 + 4. Manhattan: D.
        """
        return HAVERSINE_ROUNDING if self.name == "haversine" else (dimension + 8) * UNIT

    def rounded_down(
        self, a: NDArray[np.float64], b: NDArray[np.float64], *, margin: int = STORED_MARGIN
    ) -> NDArray[np.float64]:
        """Return the distance of each row of ``a`` to the same row of ``b``, never above the true one.

        The true distance is that of the exact values of the binary coordinates. ``margin`` is a multiple of the error
        bound: see `metricdp.metric.rounding`. Shapes (M, D) give (M,).

        Examples
        --------
        >>> origin, points = np.zeros((2, 2)), np.array([[3.0, 4.0], [1.0, 1.0]])
        >>> below = CoordinateMetric("euclidean").rounded_down(origin, points)
        >>> float(below[0]), 1e-15 < 1.0 - below[1] / np.sqrt(2.0) < 1e-14
        (5.0, np.True_)
        """
        distances = self.elementwise(a, b)
        below = lowered(distances, margin * self.rounding(a.shape[-1]))
        if self.name != "haversine":
            keep_even(below, distances, a, b, power=1 if self.name == "manhattan" else 2)
        return below

    def check_fits(self, records: Records) -> None:
        """Check that the metric can measure ``records``: great circles need latitudes and longitudes."""
        if self.name == "haversine" and (records.kind != "places" or records.dimension != 2):
            raise InputError("the haversine metric needs latitude and longitude: use metric='euclidean' for vectors")

    def pairs_within(self, records: Records, eta: float) -> Pairs:
        return self._pairs(records, eta, STORED_MARGIN)

    def pairs_needed(self, records: Records, eta: float) -> NDArray[np.int32]:
        """Return the pairs that may truly be within ``eta``: what `pairs_within` gives on any machine has them all."""
        return self._pairs(records, eta, CHECKED_MARGIN)[0]

    def _pairs(self, records: Records, eta: float, margin: int) -> Pairs:
        self.check_fits(records)
        points = records.coordinates
        search = self._search(points, eta)
        if search is None:
            found = self._near_by_blocks(points, eta)
        else:
            # a hair more than the radius from the tree; the rounded-down distance decides below
            tree, radius, slack = search
            reach = radius * (1.0 + TREE_ROUNDING) + slack
            found = tree.query_pairs(reach, p=self._norm, output_type="ndarray")
        below = np.empty(len(found))
        block = max(1, CHUNK_ENTRIES // points.shape[1])
        for start in range(0, len(found), block):
            i, j = found[start : start + block].T
            below[start : start + block] = self.rounded_down(points[i], points[j], margin=margin)
        return sorted_pairs(found, below, eta)

    def count_within(self, records: Records, eta: float, *, most: int) -> int:
        """Count pairs that are certainly within ``eta`` without listing them; it may end early above ``most``.

        All are counted but those that are within a relative 1e-9 of ``eta`` (and, for places, 1 micrometre).
        """
        points, n = records.coordinates, records.n
        search = self._search(points, eta)
        if search is not None:
            tree, radius, slack = search
            reach = radius * (1.0 - TREE_ROUNDING) - slack
            if reach > 0:
                return int(tree.count_neighbors(tree, reach, p=self._norm) - n) // 2
        count, block = 0, max(1, CHUNK_ENTRIES // points.size)
        for start in range(0, n, block):
            near = self.elementwise(points[start : start + block, None, :], points[None, :, :])
            count += int(np.triu(near <= eta * (1.0 - TREE_ROUNDING), k=1 + start).sum())
            if count > most:
                break
        return count

    @property
    def _norm(self) -> float:
        return 1.0 if self.name == "manhattan" else 2.0

    def _search(self, points: NDArray[np.float64], eta: float) -> tuple[cKDTree, float, float] | None:
        """Return a tree, the radius that is ``eta`` in it, and by how much it may be off; None where no tree is fit."""
        if self.name == "haversine":
            chord = 2.0 * math.sin(min(eta / (2.0 * EARTH_RADIUS_KM), math.pi / 2))
            return cKDTree(_on_sphere(points)), chord, SPHERE_ROUNDING
        if points.shape[1] > MAX_TREE_DIMENSION or max(np.abs(points).max(), eta) > LARGEST_FOR_TREE:
            return None
        return cKDTree(points), eta, SMALLEST_FOR_TREE

    def _near_by_blocks(self, points: NDArray[np.float64], eta: float) -> NDArray[np.int64]:
        n, dimension = points.shape
        block = max(1, CHUNK_ENTRIES // (n * dimension))
        reach = eta * (1.0 + TREE_ROUNDING) + SMALLEST_FOR_TREE
        found = []
        for start in range(0, n, block):
            i = np.arange(start, min(start + block, n))
            a, b = np.nonzero(self.elementwise(points[i, None, :], points[None, :, :]) <= reach)
            keep = i[a] < b
            found.append(np.column_stack((i[a][keep], b[keep])))
        return np.concatenate(found)

    def to_rows(self, records: Records, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.to_points(records, records.coordinates[rows])

    def to_points(self, records: Records, points: NDArray[np.float64]) -> NDArray[np.float64]:
        here = records.coordinates
        if points.ndim != 2 or points.shape[1] != here.shape[1]:
            raise InputError(
                f"outputs must have the records' {here.shape[1]} coordinates, got an array of shape {points.shape}"
            )
        result = np.empty((len(here), len(points)))
        block = max(1, CHUNK_ENTRIES // max(1, points.size))
        for start in range(0, len(here), block):
            part = slice(start, start + block)
            result[part] = self.elementwise(here[part, None, :], points[None, :, :])
        return result


def sorted_pairs(found: NDArray[np.integer[Any]], distances: NDArray[np.float64], eta: float) -> Pairs:
    """Keep the pairs with finite distance at most ``eta``, ordered i < j and lexicographically."""
    keep = (distances <= eta) & np.isfinite(distances)
    pairs = np.sort(found[keep], axis=1).astype(np.int32)
    order = np.lexsort((pairs[:, 1], pairs[:, 0])) if len(pairs) else np.zeros(0, dtype=np.int64)
    return np.ascontiguousarray(pairs[order]).reshape(-1, 2), distances[keep][order]


def _on_sphere(degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    latitude, longitude = np.radians(degrees[:, 0]), np.radians(degrees[:, 1])
    return np.column_stack(
        (np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude))
    )
