"""The data of the explorer page, as small as possible: plain values and packed arrays."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.data.geodesy import EARTH_RADIUS_KM
from metricdp.data.road import CITIES, road
from metricdp.mechanism.certify import TOTAL_BITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.data.records import Records
    from metricdp.data.streets import StreetNetwork
    from metricdp.mechanism.mechanism import Mechanism

LEAST_SHOWN_PROBABILITY = 1e-6  # entries of which neither the probability nor the posterior reaches this are left out
MAX_ENTRIES = 2_000_000  # of the table; more would make the page too large to share
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


def table_arrays(table: NDArray[np.uint64], prior: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
    """Return the entries of the table that are worth showing, row by row.

    ``starts`` (N + 1) says where each row begins, ``columns`` names the outputs, and ``levels`` (1 to 65,535) are the
    logarithms of the probabilities: ``p = 2^(-63 (65535 - level) / 65534)``. An entry is kept if it matters to
    the person (its probability) or to the adversary (its posterior).
    """
    probabilities = table / 2.0**TOTAL_BITS
    joint = probabilities * prior[:, None]
    totals = joint.sum(axis=0)
    importance = np.maximum(probabilities, np.divide(joint, totals, out=joint, where=totals > 0))
    least = LEAST_SHOWN_PROBABILITY
    if importance.size > MAX_ENTRIES:
        least = max(least, float(np.partition(importance, importance.size - MAX_ENTRIES, axis=None)[-MAX_ENTRIES]))
    rows, columns = np.nonzero((importance >= least) & (table > 0))
    logarithms = np.log2(probabilities[rows, columns])
    levels = np.rint((1.0 + logarithms / TOTAL_BITS) * LOG_LEVELS) + 1
    return {
        "starts": np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=len(table))))).astype(np.uint32),
        "columns": columns.astype(np.uint16 if table.shape[1] <= 65_536 else np.uint32),
        "levels": levels.astype(np.uint16),
    }


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
    prior = mechanism.records.prior
    return {
        "before": float(prior.max()),
        "after": float((mechanism.probabilities * prior[:, None]).max(axis=0).sum()),
    }


def mechanism_fields(mechanism: Mechanism, streets: StreetNetwork | None) -> dict[str, Any]:
    """Return all that the page shows of the records, the outputs and the table."""
    records, outputs, graph = mechanism.records, mechanism.outputs, mechanism.graph
    arrays: dict[str, NDArray[Any]] = {
        "prior": records.prior.astype(np.float32),
        "component": graph.labels.astype(np.uint32),
        "neighbours": np.bincount(graph.pairs.ravel(), minlength=records.n).astype(np.uint32),
        "chance": (records.prior @ mechanism.probabilities).astype(np.float32),
        **table_arrays(mechanism.dense_table, records.prior),
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
