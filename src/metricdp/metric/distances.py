"""Distances between records: what a metric must offer, and those of coordinates."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from metricdp.data.geodesy import EARTH_RADIUS_KM, HAVERSINE_ROUNDING, haversine_km
from metricdp.errors import InputError
from metricdp.metric.rounding import CHECKED_MARGIN, STORED_MARGIN, UNIT_ROUNDOFF, keep_even, lowered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from metricdp.data.records import Records

    Pairs = tuple[NDArray[np.int32], NDArray[np.float64]]

CHUNK_ENTRIES = 4_000_000  # of a distance block held at one time
CACHED_ENTRIES = 1 << 18  # coordinates at one time: temporary arrays that stay in a cache
ROWS_AT_ONCE = 1024  # records whose neighbours are searched for at one time
PAIRS_AT_ONCE = 1 << 18
MAX_HUGE_RECORDS = 20_000  # records that are compared one by one
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
        """Return the distances from every record to the records in ``rows``, shape (N, len(rows))."""

    @abstractmethod
    def to_points(self, records: Records, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the distances from every record to other ``points``, shape (N, len(points))."""


class CoordinateMetric(Metric):
    """Haversine (km, for latitude and longitude), Euclidean or Manhattan distance of coordinates.

    Examples
    --------
    >>> CoordinateMetric("manhattan").elementwise(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0]])).tolist()
    [7.0]
    """

    NAMES: ClassVar[tuple[str, ...]] = ("haversine", "euclidean", "manhattan")

    def __init__(self, name: str) -> None:
        if name not in self.NAMES:
            raise InputError(
                f"unknown metric {name!r}: choose one of {', '.join(CoordinateMetric.NAMES)}, street, angular, cosine, "
                "mahalanobis"
            )
        self.name = name

    def __repr__(self) -> str:
        return f"CoordinateMetric({self.name!r})"

    def elementwise(self, a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the distance of each row of ``a`` to the same row of ``b`` (arrays broadcast)."""
        if self.name == "haversine":
            return haversine_km(a, b)
        with np.errstate(over="ignore"):
            difference = np.abs(a - b)
            if self.name == "manhattan":
                return difference.sum(axis=-1)
            # divided by the largest difference, so that neither overflow nor underflow spoils the root
            largest = difference.max(axis=-1)
            safe = np.where((largest > 0) & np.isfinite(largest), largest, 1.0)
            scaled = np.minimum(difference / safe[..., None], 1.0)
            return largest * np.sqrt((scaled**2).sum(axis=-1))

    def rounding(self, dimension: int) -> float:
        """Return the largest relative error that `elementwise` can have in so many dimensions, on any machine.

        Euclidean: a difference and its quotient by the largest 2 roundings, the square 5, the sum of D of them D + 4,
        the root D/2 + 3, the product D/2 + 4. Manhattan: D.
        """
        return HAVERSINE_ROUNDING if self.name == "haversine" else (dimension + 8) * UNIT_ROUNDOFF

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
        self.check_fits(records)
        points = records.coordinates
        search = self._search(points, eta)
        if search is None:
            found = np.concatenate(list(self._near_by_blocks(points, eta)))
        else:
            # a hair more than the radius from the tree; the rounded-down distance decides below
            tree, radius, slack = search
            reach = radius * (1.0 + TREE_ROUNDING) + slack
            found = tree.query_pairs(reach, p=self._norm, output_type="ndarray")
        below = np.empty(len(found))
        block = max(1, CHUNK_ENTRIES // points.shape[1])
        for start in range(0, len(found), block):
            i, j = found[start : start + block].T
            below[start : start + block] = self.rounded_down(points[i], points[j])
        return sorted_pairs(found, below, eta)

    def needed_in_parts(self, records: Records, eta: float) -> Iterator[NDArray[np.int64]]:
        """Yield the pairs i < j that may truly be within ``eta``, in parts of bounded size and no order.

        The result of `pairs_within` on any machine contains them all. Each part is a sample of all records, so that a
        search for a missing pair ends early.
        """
        for found, _ in self.within_in_parts(records, eta, margin=CHECKED_MARGIN):
            yield found

    def within_in_parts(
        self, records: Records, eta: float, *, margin: int
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Yield the pairs i < j whose distance, rounded down by ``margin``, is within ``eta``, and these distances.

        In parts of bounded size and no order.
        """
        self.check_fits(records)
        points, block = records.coordinates, max(1, CHUNK_ENTRIES // records.dimension)
        for found in self._near_in_parts(points, eta):
            for start in range(0, len(found), block):
                part = found[start : start + block]
                below = self.rounded_down(points[part[:, 0]], points[part[:, 1]], margin=margin)
                is_within = below <= eta
                yield part[is_within], below[is_within]

    def _near_in_parts(self, points: NDArray[np.float64], eta: float) -> Iterator[NDArray[np.int64]]:
        """Yield all pairs i < j within a hair more than ``eta``, `PAIRS_AT_ONCE` (or one record's) at a time."""
        search = self._search(points, eta)
        if search is None:
            yield from self._near_by_blocks(points, eta)
            return
        tree, radius, slack = search
        reach = radius * (1.0 + TREE_ROUNDING) + slack
        n_parts = -(-len(points) // ROWS_AT_ONCE)
        waiting = [np.arange(first, len(points), n_parts) for first in range(n_parts)]
        while waiting:
            rows = waiting.pop()
            part = cKDTree(tree.data[rows])
            if len(rows) > 1 and part.count_neighbors(tree, reach, p=self._norm) > PAIRS_AT_ONCE:
                waiting += [rows[::2], rows[1::2]]
                continue
            hits = part.sparse_distance_matrix(tree, reach, p=self._norm, output_type="ndarray")
            found = np.column_stack((rows[hits["i"]], hits["j"]))
            yield found[found[:, 0] < found[:, 1]]

    @property
    def _norm(self) -> float:
        return 1.0 if self.name == "manhattan" else 2.0

    def _search(self, points: NDArray[np.float64], eta: float) -> tuple[cKDTree, float, float] | None:
        """Return a tree, the radius in it that is ``eta``, and its possible error; None where no tree is suitable."""
        if self.name == "haversine":
            chord = 2.0 * math.sin(min(eta / (2.0 * EARTH_RADIUS_KM), math.pi / 2))
            return cKDTree(on_sphere(points)), chord, SPHERE_ROUNDING
        if points.shape[1] > MAX_TREE_DIMENSION or max(np.abs(points).max(), eta) > LARGEST_FOR_TREE:
            return None
        return cKDTree(points), eta, SMALLEST_FOR_TREE

    def _near_by_blocks(self, points: NDArray[np.float64], eta: float) -> Iterator[NDArray[np.int64]]:
        """Yield the same by comparing all records with all others, where no tree is suitable."""
        n, dimension = points.shape
        is_huge = bool(np.abs(points).max() > LARGEST_FOR_TREE)
        if is_huge and n > MAX_HUGE_RECORDS:
            raise InputError(
                f"{n} records with coordinates beyond {LARGEST_FOR_TREE:g} are too many to be compared one by one "
                f"(limit {MAX_HUGE_RECORDS}): give coordinates in a larger unit"
            )
        reach = eta * (1.0 + TREE_ROUNDING) + SMALLEST_FOR_TREE
        n_blocks = -(-n * n * (dimension if is_huge else 1) // PAIRS_AT_ONCE)
        for first in range(min(n_blocks, n)):
            rows = np.arange(first, n, min(n_blocks, n))
            if is_huge:  # squares would overflow
                far = self.elementwise(points[rows, None, :], points[None, :, :])
            else:
                far = cdist(points[rows], points, "cityblock" if self.name == "manhattan" else "euclidean")
            a, b = np.nonzero(far <= reach)
            found = np.column_stack((rows[a], b))
            yield found[found[:, 0] < found[:, 1]]

    def to_rows(self, records: Records, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.to_points(records, records.coordinates[rows])

    def to_points(self, records: Records, points: NDArray[np.float64]) -> NDArray[np.float64]:
        here = records.coordinates
        if points.ndim != 2 or points.shape[1] != here.shape[1]:
            raise InputError(
                f"outputs must have the records' {here.shape[1]} coordinates, got an array of shape {points.shape}"
            )
        return self.between(here, points)

    def between(self, a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the distance of each row of ``a`` to each row of ``b``, shape (len(a), len(b)).

        Of many coordinates compiled code takes the squares as they are, with fewer roundings than `rounding` allows;
        `elementwise` measures where they would overflow or lose digits.
        """
        if a.shape[1] > MAX_TREE_DIMENSION and self._has_safe_squares(a, b):
            result = cdist(a, b, "cityblock" if self.name == "manhattan" else "euclidean")
            i, k = np.nonzero(result < SMALLEST_FOR_TREE)
            result[i, k] = self.elementwise(a[i], b[k])
            return result
        result = np.empty((len(a), len(b)))
        block = max(1, CACHED_ENTRIES // max(1, b.size))
        for start in range(0, len(a), block):
            part = slice(start, start + block)
            result[part] = self.elementwise(a[part, None, :], b[None, :, :])
        return result

    def _has_safe_squares(self, a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
        """Return whether no square of a difference overflows."""
        return self.name != "haversine" and all(np.abs(side).max(initial=0.0) <= LARGEST_FOR_TREE for side in (a, b))


def sorted_pairs(found: NDArray[np.integer[Any]], distances: NDArray[np.float64], eta: float) -> Pairs:
    """Keep the pairs with finite distance at most ``eta``, ordered i < j and lexicographically."""
    keep = (distances <= eta) & np.isfinite(distances)
    pairs = np.sort(found[keep], axis=1).astype(np.int32)
    order = np.lexsort((pairs[:, 1], pairs[:, 0])) if len(pairs) else np.zeros(0, dtype=np.int64)
    return np.ascontiguousarray(pairs[order]).reshape(-1, 2), distances[keep][order]


def on_sphere(degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return places as points of the unit sphere, shape (n, 3)."""
    latitude, longitude = np.radians(degrees[:, 0]), np.radians(degrees[:, 1])
    return np.column_stack(
        (np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude))
    )
