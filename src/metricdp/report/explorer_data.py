"""The data of the explorer page, as small as possible: plain values and packed arrays."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.data.geodesy import EARTH_RADIUS_KM
from metricdp.data.road import CITIES, road
from metricdp.evaluate.guessing import background_share, most_likely, output_chances
from metricdp.mechanism.certify import TOTAL_BITS
from metricdp.mechanism.sparse import SparseTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from metricdp.data.records import Records
    from metricdp.data.streets import StreetNetwork
    from metricdp.mechanism.mechanism import Mechanism

LEAST_SHOWN_PROBABILITY = 1e-6  # entries of which neither the probability nor the posterior reaches this are left out
MAX_ENTRIES = 2_000_000  # of the table; more would make the page too large to share
ENTRIES_AT_ONCE = 4_000_000  # of the table that are looked at together
MAX_STREETS = 100_000  # drawn on the map
LOG_LEVELS = 65_534  # of a probability's logarithm, so that it is off by 0.04 % at most
MAP_MARGIN_SHARE = 0.05  # of the map beyond the outermost record, within which streets are drawn


@dataclass(frozen=True)
class Frame:
    """How coordinates become positions on the map: both axes between -1 and 1, ``scale`` units of distance per 1."""

    centre: NDArray[np.float64]
    stretch: NDArray[np.float64]
    scale: float
    is_places: bool

    @classmethod
    def around(cls, records: Records) -> Frame:
        """Frame all records; places are laid flat around their middle latitude."""
        points = records.coordinates
        if records.kind == "places":
            # longitudes are counted from their mean direction, so that records on both sides of 180 degrees stay close
            angles = np.radians(points[:, 1])
            middle = math.degrees(math.atan2(np.sin(angles).mean(), np.cos(angles).mean()))
            latitude = float(points[:, 0].min() / 2 + points[:, 0].max() / 2)
            per_degree = math.radians(1.0) * EARTH_RADIUS_KM
            stretch = np.array([per_degree, per_degree * math.cos(math.radians(latitude))])
            frame = cls(np.array([latitude, middle]), stretch, 1.0, is_places=True)
        else:
            low, high = points.min(axis=0), points.max(axis=0)
            frame = cls(low / 2 + high / 2, np.ones(2), 1.0, is_places=False)
        reach = float(np.abs(frame.place(points)).max())
        return cls(frame.centre, frame.stretch, reach if reach > 0 else 1.0, frame.is_places)

    def place(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return x (to the right) and y (upwards) of points, shape (..., 2)."""
        away = points - self.centre
        if self.is_places:
            away[..., 1] = (away[..., 1] + 180.0) % 360.0 - 180.0
            away = away[..., ::-1] * self.stretch[::-1]
        return away / self.scale


def packed(values: NDArray[Any]) -> dict[str, str]:
    """Return an array as the page reads it: its type and its little-endian bytes in base64."""
    little = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"), copy=False)
    return {"type": values.dtype.name, "data": base64.b64encode(little.tobytes()).decode("ascii")}


def table_arrays(table: NDArray[np.uint64] | SparseTable, prior: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
    """Return the entries of the table that are worth showing, row by row; of a sparse table, among the stored ones.

    ``starts`` (N + 1) says where each row begins, ``columns`` names the outputs, and ``levels`` (1 to 65,535) are the
    logarithms of the probabilities: ``p = 2^(-63 (65535 - level) / 65534)``. An entry is kept if it matters to
    the person (its probability) or to the adversary (its posterior).
    """
    chances = output_chances(table, prior)
    least = _least_importance(table, prior, chances)
    counts, columns, levels = [np.zeros(1, dtype=np.int64)], [], []
    for rows, places, outputs, probabilities in _entries(table):
        kept = (_importance(probabilities, prior[places], chances[outputs]) >= least) & (probabilities > 0.0)
        counts.append(np.bincount(places[kept] - rows.start, minlength=rows.stop - rows.start))
        columns.append(outputs[kept].astype(np.uint16 if table.shape[1] <= 65_536 else np.uint32))
        logarithms = np.log2(probabilities[kept])
        levels.append((np.rint((1.0 + logarithms / TOTAL_BITS) * LOG_LEVELS) + 1).astype(np.uint16))
    return {
        "starts": np.cumsum(np.concatenate(counts)).astype(np.uint32),
        "columns": np.concatenate(columns),
        "levels": np.concatenate(levels),
    }


def _least_importance(
    table: NDArray[np.uint64] | SparseTable, prior: NDArray[np.float64], chances: NDArray[np.float64]
) -> float:
    """Return the importance from which on entries are shown: at most `MAX_ENTRIES` of them, or a few more at a tie."""
    found = np.zeros(0)
    for _, places, outputs, probabilities in _entries(table):
        importance = _importance(probabilities, prior[places], chances[outputs])
        found = np.concatenate((found, importance[importance >= LEAST_SHOWN_PROBABILITY]))
        if found.size > MAX_ENTRIES:  # only the largest so far can be among the largest of all
            found = np.partition(found, found.size - MAX_ENTRIES)[-MAX_ENTRIES:]
    return LEAST_SHOWN_PROBABILITY if found.size < MAX_ENTRIES else float(found.min())


def _importance(
    probabilities: NDArray[np.float64], prior: NDArray[np.float64], chances: NDArray[np.float64]
) -> NDArray[np.float64]:
    after = np.divide(prior * probabilities, chances, out=np.zeros_like(probabilities), where=chances > 0)
    return np.maximum(probabilities, after)


def _entries(
    table: NDArray[np.uint64] | SparseTable,
) -> Iterator[tuple[slice, NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]]:
    """Yield rows of the table with their entries one after the other: row, output, and probability of each."""
    n, K = table.shape
    each = K if isinstance(table, np.ndarray) else max(1, table.longest)
    step = max(1, ENTRIES_AT_ONCE // each)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        numbers = np.arange(rows.start, rows.stop)
        if isinstance(table, np.ndarray):
            places, outputs = np.repeat(numbers, K), np.tile(np.arange(K), len(numbers))
            yield rows, places, outputs, table[rows].ravel() / 2.0**TOTAL_BITS
            continue
        ends = table.indptr[start : rows.stop + 1]
        places = np.repeat(numbers, np.diff(ends))
        outputs = table.columns[ends[0] : ends[-1]].astype(np.int64)
        weights = table.weights[ends[0] : ends[-1]] + table.scale[places] * table.background[outputs]
        yield rows, places, outputs, weights / 2.0**TOTAL_BITS


def streets_of(records: Records) -> StreetNetwork | None:
    """Return the streets that the records belong to; files do not store them, so a shipped city is found by its name.

    A name alone is not enough: every record must be an intersection of that city.
    """
    if records.streets is not None or records.kind != "places" or records.name not in CITIES:
        return records.streets
    city = road(records.name).streets
    if city is None:
        return None
    intersections = set(map(tuple, city.coordinates.tolist()))
    return city if intersections.issuperset(map(tuple, records.coordinates.tolist())) else None


def street_lines(streets: StreetNetwork, frame: Frame) -> NDArray[np.float32]:
    """Return the ends of the streets on the map, shape (E, 4); of too many the longest are kept."""
    ends = frame.place(streets.coordinates)[streets.edges].reshape(-1, 4)
    inside = np.abs(ends).max(axis=1) <= 1.0 + 2 * MAP_MARGIN_SHARE
    ends, lengths = ends[inside], streets.lengths[inside]
    if len(ends) > MAX_STREETS:
        ends = ends[np.sort(np.argsort(-lengths, kind="stable")[:MAX_STREETS])]
    return ends.astype(np.float32)


def adversary_figures(mechanism: Mechanism) -> dict[str, float]:
    """Return how often the best guess of the true record is right, before and after seeing the report.

    ``max_i p_i`` and ``sum_k max_i p_i z_ik``, for an adversary who knows the prior and the mechanism.
    """
    prior, table = mechanism.records.prior, mechanism.table
    if isinstance(table, SparseTable):
        after = math.fsum(most_likely(table, prior, prior).joint)
    else:
        after = float((mechanism.probabilities * prior[:, None]).max(axis=0).sum())
    return {"before": float(prior.max()), "after": after}


def shown_fields(mechanism: Mechanism, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Return how much of the table is on the page: entries, those that are not 0, and the share of all reports."""
    table, prior = mechanism.table, mechanism.records.prior
    chances = 2.0 ** (-TOTAL_BITS * (LOG_LEVELS + 1.0 - arrays["levels"]) / LOG_LEVELS)
    by_row = np.add.reduceat(np.append(chances, 0.0), np.minimum(arrays["starts"][:-1], len(chances)))
    by_row[np.diff(arrays["starts"].astype(np.int64)) == 0] = 0.0
    return {
        "entries": len(chances),
        "of": table.n_stored if isinstance(table, SparseTable) else int(np.count_nonzero(table)),
        "left_out": max(0.0, 1.0 - float(prior @ by_row)),
        "background": background_share(table, prior) if isinstance(table, SparseTable) else None,
    }


def mechanism_fields(mechanism: Mechanism, streets: StreetNetwork | None) -> dict[str, Any]:
    """Return all that the page shows of the records, the outputs and the table."""
    records, outputs, graph, table = mechanism.records, mechanism.outputs, mechanism.graph, mechanism.table
    arrays: dict[str, NDArray[Any]] = {
        "prior": records.prior.astype(np.float32),
        "component": graph.labels.astype(np.uint32),
        "neighbours": np.bincount(graph.pairs.ravel(), minlength=records.n).astype(np.uint32),
        "chance": output_chances(table, records.prior).astype(np.float32),
        **table_arrays(table, records.prior),
    }
    fields: dict[str, Any] = {
        "name": records.name,
        "kind": records.kind,
        "metric": mechanism.metric,
        "unit": "km" if mechanism.metric in ("haversine", "street") else "",
        "epsilon": mechanism.epsilon,
        "eta": mechanism.eta if math.isfinite(mechanism.eta) else None,
        "ids": records.ids,
        "outputs": outputs.ids(records),
        "output_rows": None if outputs.rows is None else outputs.rows.tolist(),
        "adversary": adversary_figures(mechanism),
        "shown": shown_fields(mechanism, arrays),
        "map": None,
    }
    if records.dimension == 2:
        frame = Frame.around(records)
        arrays["places"] = frame.place(records.coordinates).astype(np.float32)
        arrays["output_places"] = frame.place(outputs.coordinates).astype(np.float32)
        if streets is not None and records.kind == "places":
            arrays["streets"] = street_lines(streets, frame)
        # a circle of radius eta is drawn where the metric is round
        is_round = mechanism.metric in ("haversine", "euclidean")
        fields["map"] = {"scale": frame.scale, "unit": "km" if records.kind == "places" else "", "is_round": is_round}
    return {**fields, "arrays": {name: packed(values) for name, values in arrays.items()}}
