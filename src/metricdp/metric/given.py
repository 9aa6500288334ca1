"""Given distances: along streets, from a matrix, or by a user's function."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from metricdp.data.frozen import FrozenArrays, frozen
from metricdp.errors import InputError
from metricdp.metric.directions import coordinate_metric
from metricdp.metric.distances import CHUNK_ENTRIES, CoordinateMetric, Metric, sorted_pairs
from metricdp.metric.mahalanobis import MahalanobisMetric
from metricdp.metric.rounding import UNIT_ROUNDOFF, lowered

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from metricdp.data.records import Records
    from metricdp.data.streets import StreetNetwork
    from metricdp.metric.distances import Pairs

MAX_FUNCTION_RECORDS = 5_000
SYMMETRY_TOLERANCE = 1e-9  # relative difference of the two directions of a symmetric function, from rounding


class StreetMetric(Metric):
    """Length in km of the shortest path along the streets; records must be intersections of one network."""

    name = "street"

    def __repr__(self) -> str:
        return "StreetMetric()"

    @staticmethod
    def network(records: Records) -> tuple[StreetNetwork, NDArray[np.int64]]:
        """Return the records' street network and their places in it; raise an error that says how to get one."""
        if records.streets is None or records.street_nodes is None:
            raise InputError(
                f"{records.name} has no streets: use road:gothenburg, a GraphML or OSM PBF file, "
                "add a file of streets to a CSV of places, or choose metric='haversine'"
            )
        return records.streets, records.street_nodes

    def pairs_within(self, records: Records, eta: float) -> Pairs:
        streets, nodes = self.network(records)
        ways, room = street_matrix(streets), _street_rounding(streets)
        found, lengths = [], []
        block = max(1, CHUNK_ENTRIES // streets.n_nodes)
        for start in range(0, records.n, block):
            i = np.arange(start, min(start + block, records.n))
            reach = dijkstra(ways, directed=False, indices=nodes[i], limit=eta * (1.0 + 2.0 * room))[:, nodes]
            a, b = np.nonzero(np.isfinite(reach))
            keep = i[a] < b
            found.append(np.column_stack((i[a][keep], b[keep])))
            way = reach[a[keep], b[keep]]
            lengths.append(lowered(way, room) if room else way)
        return sorted_pairs(np.concatenate(found), np.concatenate(lengths), eta)

    def to_rows(self, records: Records, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        streets, nodes = self.network(records)
        return dijkstra(street_matrix(streets), directed=False, indices=nodes[rows])[:, nodes].T.copy()

    def to_points(self, records: Records, points: NDArray[np.float64]) -> NDArray[np.float64]:
        raise InputError(
            f"the street metric cannot reach the {len(points)} given output points, since they are not "
            "intersections: name outputs by rows of the records, or choose metric='haversine'"
        )


class MatrixMetric(FrozenArrays, Metric):
    """A symmetric matrix of distances; infinite entries are records that are never neighbours."""

    name = "matrix"

    def __init__(self, matrix: ArrayLike) -> None:
        try:
            values = frozen(matrix, np.float64)
        except InputError:  # a masked array
            raise
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
    """A user's function of two coordinate vectors; it is called for every pair of records, in both directions.

    It must be symmetric. Where rounding makes the two ways differ in the last digits, the smaller distance counts: it
    means more privacy, not less.

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
        if not math.isclose(there, back, rel_tol=SYMMETRY_TOLERANCE):
            raise InputError(
                f"distances must be symmetric, but the distance function gave {there} from {a.tolist()} to "
                f"{b.tolist()} and {back} back: use for example (f(a, b) + f(b, a)) / 2"
            )
        return min(there, back)

    @staticmethod
    def _check_size(records: Records) -> None:
        if records.n > MAX_FUNCTION_RECORDS:
            raise InputError(
                f"a distance function is called for every pair, too slow for {records.n} records "
                f"(limit {MAX_FUNCTION_RECORDS}): compute a distance matrix or use a built-in metric"
            )

    def pairs_within(self, records: Records, eta: float) -> Pairs:
        self._check_size(records)
        points = records.coordinates
        i, j = np.triu_indices(records.n, k=1)
        distances = np.array([self._measure_both_ways(points[a], points[b]) for a, b in zip(i, j, strict=True)])
        return sorted_pairs(np.column_stack((i, j)), distances, eta)

    def to_rows(self, records: Records, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.to_points(records, records.coordinates[rows])

    def to_points(self, records: Records, points: NDArray[np.float64]) -> NDArray[np.float64]:
        self._check_size(records)
        return np.array([[self._measure(a, b) for b in points] for a in records.coordinates])


def street_matrix(streets: StreetNetwork) -> csr_array:
    """Return the streets as a sparse matrix for shortest paths, both directions."""
    u, v = streets.edges[:, 0], streets.edges[:, 1]
    # the shortest of parallel streets first, then the others are dropped (sparse arrays would add them up)
    order = np.lexsort((streets.lengths, np.maximum(u, v), np.minimum(u, v)))
    ends = np.column_stack((np.minimum(u, v), np.maximum(u, v)))[order]
    first = np.ones(len(ends), dtype=bool)
    first[1:] = (ends[1:] != ends[:-1]).any(axis=1)
    ends, lengths = ends[first], streets.lengths[order][first]
    rows, columns = np.concatenate((ends[:, 0], ends[:, 1])), np.concatenate((ends[:, 1], ends[:, 0]))
    return csr_array((np.tile(lengths, 2), (rows, columns)), shape=(streets.n_nodes, streets.n_nodes))


def _street_rounding(streets: StreetNetwork) -> float:
    """Return the largest relative error of a way's length: a rounding per street, or 0 where sums are exact."""
    with np.errstate(over="ignore"):
        _, exponent = np.frexp(streets.lengths.sum())
        whole = np.rint(np.ldexp(streets.lengths, 52 - exponent))  # all together they stay below 2^53: sums are exact
        is_exact = np.array_equal(np.ldexp(whole, exponent - 52), streets.lengths)
    return 0.0 if is_exact else streets.n_nodes * 2.0 * UNIT_ROUNDOFF


def metric_by_name(name: str) -> Metric:
    """Return the metric called ``haversine``, ``euclidean``, ``manhattan``, ``angular``, ``cosine`` or ``street``."""
    return StreetMetric() if name == "street" else coordinate_metric(name)


def as_metric(metric: str | Metric | Callable[[Any, Any], float] | ArrayLike | None, records: Records) -> Metric:
    """Return a Metric from a name, a matrix or a function; by default what fits the records."""
    if metric is None:
        return CoordinateMetric("haversine" if records.kind == "places" else "euclidean")
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str):
        return MahalanobisMetric.of_records(records) if metric == "mahalanobis" else metric_by_name(metric)
    if callable(metric):
        return FunctionMetric(metric)
    return MatrixMetric(metric)
