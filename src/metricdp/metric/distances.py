"""Distances between records: by coordinates, along streets, from a matrix or by a function of the user's."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from metricdp.data.geodesy import EARTH_RADIUS_KM, haversine_km
from metricdp.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from metricdp.data.records import Records
    from metricdp.data.streets import StreetNetwork

    Pairs = tuple[NDArray[np.int32], NDArray[np.float64]]

CHUNK_ENTRIES = 4_000_000  # of a distance block held at one time
MAX_TREE_DIMENSION = 12  # above it a space-partitioning tree visits nearly every point
LARGEST_FOR_TREE = 1e100  # squares of larger numbers overflow in the tree
MAX_FUNCTION_RECORDS = 5_000
ROUNDING = 1e-9  # relative difference of the two ways that a symmetric function may show


class Metric(ABC):
    """A distance that finds the neighbour pairs of records and measures from records to outputs."""

    name: str

    @abstractmethod
    def pairs_within(self, records: Records, eta: float) -> Pairs:
        """Give all pairs i < j with distance at most ``eta``, in lexicographic order, and their distances."""

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

    def pairs_within(self, records: Records, eta: float) -> Pairs:
        points = records.coordinates
        if self.name == "haversine" and (records.kind != "places" or records.dimension != 2):
            raise InputError("the haversine metric needs latitude and longitude: use metric='euclidean' for vectors")
        is_huge = np.abs(points).max() > LARGEST_FOR_TREE or eta > LARGEST_FOR_TREE
        if points.shape[1] > MAX_TREE_DIMENSION or is_huge:
            return self._pairs_by_blocks(points, eta)
        if self.name == "haversine":
            place, radius = _on_sphere(points), 2.0 * np.sin(min(eta / (2.0 * EARTH_RADIUS_KM), np.pi / 2))
        else:
            place, radius = points, eta
        # a hair more than the radius from the tree; the exact definition d <= eta decides below
        tree = cKDTree(place)
        norm = 1.0 if self.name == "manhattan" else 2.0
        found = tree.query_pairs(radius * (1 + 1e-9) + 1e-15, p=norm, output_type="ndarray")
        return self._measured(points, found, eta)

    def count_within(self, records: Records, eta: float, *, most: int) -> int:
        """Count the pairs within ``eta`` without listing them; counting may end early once there are above ``most``."""
        points, n = records.coordinates, records.n
        is_flat = self.name != "haversine" and points.shape[1] <= MAX_TREE_DIMENSION
        if is_flat and max(np.abs(points).max(), eta) <= LARGEST_FOR_TREE:
            tree = cKDTree(points)
            reach = eta * (1.0 - 1e-9)  # a hair less: what the tree counts is certainly within eta
            return int(tree.count_neighbors(tree, reach, p=1.0 if self.name == "manhattan" else 2.0) - n) // 2
        if self.name == "haversine":
            tree = cKDTree(_on_sphere(points))
            reach = 2.0 * np.sin(min(eta / (2.0 * EARTH_RADIUS_KM), np.pi / 2)) * (1.0 - 1e-9)
            return int(tree.count_neighbors(tree, reach) - n) // 2
        count, block = 0, max(1, CHUNK_ENTRIES // points.size)
        for start in range(0, n, block):
            near = self.elementwise(points[start : start + block, None, :], points[None, :, :]) <= eta
            count += int(np.triu(near, k=1 + start).sum())
            if count > most:
                break
        return count

    def _pairs_by_blocks(self, points: NDArray[np.float64], eta: float) -> Pairs:
        n, dimension = points.shape
        block = max(1, CHUNK_ENTRIES // (n * dimension))
        found = []
        for start in range(0, n, block):
            i = np.arange(start, min(start + block, n))
            near = self.elementwise(points[i, None, :], points[None, :, :]) <= eta
            a, b = np.nonzero(near)
            keep = i[a] < b
            found.append(np.column_stack((i[a][keep], b[keep])))
        return self._measured(points, np.concatenate(found), eta)

    def _measured(self, points: NDArray[np.float64], found: NDArray[np.int64], eta: float) -> Pairs:
        distances = np.empty(len(found))
        for start in range(0, len(found), CHUNK_ENTRIES // points.shape[1]):
            part = slice(start, start + CHUNK_ENTRIES // points.shape[1])
            distances[part] = self.elementwise(points[found[part, 0]], points[found[part, 1]])
        return sorted_pairs(found, distances, eta)

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


class StreetMetric(Metric):
    """Length in km of the shortest way along the streets; records must be intersections of one network."""

    name = "street"

    def __repr__(self) -> str:
        return "StreetMetric()"

    @staticmethod
    def network(records: Records) -> tuple[StreetNetwork, NDArray[np.int64]]:
        """Give the records' street network and their places in it, or say how to get one."""
        if records.streets is None or records.street_nodes is None:
            raise InputError(
                f"{records.name} has no streets: use road:gothenburg, a GraphML or OSM PBF file, "
                "add --streets FILE to a CSV of places, or choose metric='haversine'"
            )
        return records.streets, records.street_nodes

    def pairs_within(self, records: Records, eta: float) -> Pairs:
        streets, nodes = self.network(records)
        ways = street_matrix(streets)
        found, lengths = [], []
        block = max(1, CHUNK_ENTRIES // streets.n_nodes)
        for start in range(0, records.n, block):
            i = np.arange(start, min(start + block, records.n))
            reach = dijkstra(ways, directed=False, indices=nodes[i], limit=eta)[:, nodes]
            a, b = np.nonzero(reach <= eta)
            keep = i[a] < b
            found.append(np.column_stack((i[a][keep], b[keep])))
            lengths.append(reach[a[keep], b[keep]])
        return sorted_pairs(np.concatenate(found), np.concatenate(lengths), eta)

    def to_rows(self, records: Records, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        streets, nodes = self.network(records)
        return dijkstra(street_matrix(streets), directed=False, indices=nodes[rows])[:, nodes].T.copy()

    def to_points(self, records: Records, points: NDArray[np.float64]) -> NDArray[np.float64]:
        raise InputError(
            f"the street metric cannot reach the {len(points)} given output points, for they are not "
            "intersections: name outputs by rows of the records, or choose metric='haversine'"
        )


class MatrixMetric(Metric):
    """A symmetric matrix of distances; infinite entries are records that are never neighbours."""

    name = "matrix"

    def __init__(self, matrix: ArrayLike) -> None:
        try:
            values = np.array(matrix, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("the distance matrix must be numbers in rows of equal length") from None
        if values.ndim != 2 or values.shape[0] != values.shape[1]:
            raise InputError(f"a distance matrix must be square, got shape {values.shape}")
        bad = np.isnan(values) | (values < 0)
        if bad.any():
            i, j = (int(v) for v in np.argwhere(bad)[0])
            raise InputError(f"distances must be zero or positive, got {values[i, j]} between records {i} and {j}")
        if np.diagonal(values).any():
            i = int(np.flatnonzero(np.diagonal(values))[0])
            raise InputError(f"a record has distance 0 to itself, got {values[i, i]} for record {i}")
        if not np.array_equal(values, values.T):
            i, j = (int(v) for v in np.argwhere(values != values.T)[0])
            raise InputError(
                f"distances must be symmetric, got {values[i, j]} from {i} to {j} but {values[j, i]} back: "
                "use for example (D + D.T) / 2"
            )
        self.matrix = values

    def __repr__(self) -> str:
        return f"MatrixMetric({len(self.matrix)} x {len(self.matrix)})"

    def _check_size(self, records: Records) -> None:
        if len(self.matrix) != records.n:
            raise InputError(f"the distance matrix has {len(self.matrix)} rows but there are {records.n} records")

    def pairs_within(self, records: Records, eta: float) -> Pairs:
        self._check_size(records)
        i, j = np.nonzero(np.triu((self.matrix <= eta) & np.isfinite(self.matrix), k=1))
        return sorted_pairs(np.column_stack((i, j)), self.matrix[i, j], eta)

    def to_rows(self, records: Records, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        self._check_size(records)
        return self.matrix[:, rows]

    def to_points(self, records: Records, points: NDArray[np.float64]) -> NDArray[np.float64]:
        raise InputError(
            f"a distance matrix says nothing about the {len(points)} given output points: "
            "name outputs by rows of the records, or give the loss as a matrix"
        )


class FunctionMetric(Metric):
    """A user's function of two coordinate vectors; it is called for every pair of records, both ways.

    It must be symmetric. Where rounding makes the two ways differ in the last digits, the smaller distance counts: it
    asks for more privacy, not less.

    Examples
    --------
    >>> from metricdp.data import Records
    >>> metric = FunctionMetric(lambda a, b: float(abs(a - b).max()))
    >>> metric.pairs_within(Records([[0, 0], [1, 3], [9, 9]], kind="vectors"), 4.0)[1].tolist()
    [3.0]
    """

    def __init__(self, function: Callable[[Any, Any], float]) -> None:
        self.function = function
        self.name = f"function {getattr(function, '__name__', 'given')}"

    def __repr__(self) -> str:
        return f"FunctionMetric({self.function!r})"

    def _measure(self, a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
        try:
            given = self.function(a, b)
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise InputError(f"the distance function failed for {a.tolist()} and {b.tolist()} ({what})") from error
        try:
            value = math.nan if isinstance(given, (str, bytes)) else float(given)
        except (TypeError, ValueError, OverflowError):
            value = math.nan
        if math.isnan(value) or value < 0:
            raise InputError(
                f"the distance function gave {given!r:.80} for {a.tolist()} and {b.tolist()}: it must give a number, "
                "zero or more"
            )
        return value

    def _measure_both_ways(self, a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
        there, back = self._measure(a, b), self._measure(b, a)
        if not math.isclose(there, back, rel_tol=ROUNDING):
            raise InputError(
                f"distances must be symmetric, but the distance function gave {there} from {a.tolist()} to "
                f"{b.tolist()} and {back} back: use for example (f(a, b) + f(b, a)) / 2"
            )
        return min(there, back)

    def pairs_within(self, records: Records, eta: float) -> Pairs:
        if records.n > MAX_FUNCTION_RECORDS:
            raise InputError(
                f"a distance function is called for every pair, too slow for {records.n} records "
                f"(limit {MAX_FUNCTION_RECORDS}): compute a distance matrix or use a built-in metric"
            )
        points = records.coordinates
        i, j = np.triu_indices(records.n, k=1)
        distances = np.array([self._measure_both_ways(points[a], points[b]) for a, b in zip(i, j, strict=True)])
        return sorted_pairs(np.column_stack((i, j)), distances, eta)

    def to_rows(self, records: Records, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.to_points(records, records.coordinates[rows])

    def to_points(self, records: Records, points: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.array([[self._measure(a, b) for b in points] for a in records.coordinates])


def sorted_pairs(found: NDArray[np.integer[Any]], distances: NDArray[np.float64], eta: float) -> Pairs:
    """Keep the pairs with finite distance at most ``eta``, ordered i < j and lexicographically."""
    keep = (distances <= eta) & np.isfinite(distances)
    pairs = np.sort(found[keep], axis=1).astype(np.int32)
    order = np.lexsort((pairs[:, 1], pairs[:, 0])) if len(pairs) else np.zeros(0, dtype=np.int64)
    return np.ascontiguousarray(pairs[order]).reshape(-1, 2), distances[keep][order]


def street_matrix(streets: StreetNetwork) -> csr_array:
    """Give the streets as a sparse matrix for shortest paths, both directions."""
    u, v = streets.edges[:, 0], streets.edges[:, 1]
    # the shortest of parallel streets first, then the others are dropped (sparse arrays would add them up)
    order = np.lexsort((streets.lengths, np.maximum(u, v), np.minimum(u, v)))
    ends = np.column_stack((np.minimum(u, v), np.maximum(u, v)))[order]
    first = np.ones(len(ends), dtype=bool)
    first[1:] = (ends[1:] != ends[:-1]).any(axis=1)
    ends, lengths = ends[first], streets.lengths[order][first]
    rows, columns = np.concatenate((ends[:, 0], ends[:, 1])), np.concatenate((ends[:, 1], ends[:, 0]))
    return csr_array((np.tile(lengths, 2), (rows, columns)), shape=(streets.n_nodes, streets.n_nodes))


def metric_by_name(name: str) -> Metric:
    """Give the metric called ``haversine``, ``euclidean``, ``manhattan`` or ``street``."""
    return StreetMetric() if name == "street" else CoordinateMetric(name)


def as_metric(metric: str | Metric | Callable[[Any, Any], float] | ArrayLike | None, records: Records) -> Metric:
    """Give a Metric from a name, a matrix or a function; by default what fits the records."""
    if metric is None:
        return CoordinateMetric("haversine" if records.kind == "places" else "euclidean")
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str):
        return metric_by_name(metric)
    if callable(metric):
        return FunctionMetric(metric)
    return MatrixMetric(metric)


def _on_sphere(degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    latitude, longitude = np.radians(degrees[:, 0]), np.radians(degrees[:, 1])
    return np.column_stack(
        (np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude))
    )
