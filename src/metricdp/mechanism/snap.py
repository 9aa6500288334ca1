"""Snap any point to its nearest record, with the same work whatever the point."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from metricdp.data.records import Records
    from metricdp.metric.distances import CoordinateMetric

ENTRIES_AT_ONCE = 2_000_000
REFUSAL = "a point is farther from every record than the limit: nothing is reported"


@dataclass(frozen=True, repr=False)
class SnappedReports:
    """Reports for points that were first replaced by their nearest record.

    The promise is that of the records: two points are as hard to tell apart as their records, a factor of at most
    ``exp(epsilon D)`` with D the *path* distance of the records. However close two points are, their records can be
    different ones; `Guarantee.for_points` says how far apart these can be. Points that snap to the same record cannot
    be told apart.

    Parameters
    ----------
    outputs
        The output drawn for each point, as a number; ``ids`` are their names.
    ids
        The outputs' names.
    snap_distances
        How far each point was from its record, in the metric's unit. This reveals something about the true point: it is
        for the holder of the secret, never to be published with the report.
    """

    outputs: NDArray[np.int64]
    ids: tuple[str, ...]
    snap_distances: NDArray[np.float64]

    def __repr__(self) -> str:
        return f"SnappedReports({len(self.ids)} reports)"


def as_points(points: ArrayLike, records: Records) -> NDArray[np.float64]:
    """Return the user's points as an array, checked: finite, with the records' coordinates, within range for places."""
    given: NDArray[np.float64] | None = None
    is_plain = not isinstance(points, np.ma.MaskedArray)
    with suppress(TypeError, ValueError, OverflowError):  # whose messages show the point
        is_plain = is_plain and not np.iscomplexobj(points)
        given = np.atleast_2d(np.array(points, dtype=np.float64)) if is_plain else None
    if not is_plain:
        raise InputError("points must be plain real numbers, not masked or complex ones")
    if given is None:
        raise InputError("points must be numbers, one row per point")
    if given.ndim != 2 or given.shape[1] != records.dimension or len(given) == 0:
        raise InputError(f"points must be a table with {records.dimension} columns, got shape {given.shape}")
    is_place = records.kind == "places"
    inside = np.isfinite(given).all() and not (is_place and (np.abs(given) > [90.0, 180.0]).any())
    if not inside:
        ranges = " (latitude from -90 to 90, longitude from -180 to 180)" if is_place else ""
        raise InputError(f"points must be finite numbers{ranges}: correct or remove the others")  # names no point
    return given


def nearest_records(
    points: NDArray[np.float64], records: Records, metric: CoordinateMetric
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the nearest record of each point and its distance, by measuring to all records: no early exit."""
    rows, distances = np.empty(len(points), dtype=np.int64), np.empty(len(points))
    block = max(1, ENTRIES_AT_ONCE // (records.n * records.dimension))
    for start in range(0, len(points), block):
        part = slice(start, start + block)
        measured = metric.elementwise(points[part, None, :], records.coordinates[None, :, :])
        rows[part] = measured.argmin(axis=1)
        distances[part] = measured.min(axis=1)
    return rows, distances
