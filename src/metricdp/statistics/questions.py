"""Which records a question is about: rows, ids, a mask, a column of the data, or polygons on the map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.data.readers.features import Feature, features, is_number
from metricdp.data.readers.files import format_of
from metricdp.data.readers.streams import MAX_UNPACK_RATIO, TextSource
from metricdp.data.readers.tables import csv_tables
from metricdp.data.writing import plain_cell
from metricdp.errors import InputError
from metricdp.mechanism.plane import PlaneMechanism

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from numpy.typing import ArrayLike, NDArray

    from metricdp.data.records import Records
    from metricdp.mechanism.mechanism import Mechanism

    AnyMechanism = Mechanism | PlaneMechanism

NAME_PROPERTIES = ("name", "Name", "NAME", "id")


def rows_asked(mechanism: AnyMechanism, records: Any) -> NDArray[np.int64]:
    """Return the rows of a question: whole numbers are rows, texts are ids, truth values are a mask of all records."""
    asked = [records] if isinstance(records, (str, int, np.integer)) else list(records)
    if not asked:
        raise InputError("the question names no records: name at least one")
    if all(isinstance(one, (bool, np.bool_)) for one in asked):
        if len(asked) != mechanism.records.n:
            raise InputError(f"a mask must have one truth value for each of the {mechanism.records.n} records")
        return np.flatnonzero(np.array(asked, dtype=bool))
    if all(isinstance(one, str) for one in asked):
        return np.unique(_rows_of(mechanism, asked))
    if not all(isinstance(one, (int, np.integer)) for one in asked):
        raise InputError("a question must be whole numbers (rows), texts (ids), or one truth value for each record")
    rows = np.unique(np.array(asked, dtype=np.int64))
    if rows[0] < 0 or rows[-1] >= mechanism.records.n:
        raise InputError(f"rows of a question must be between 0 and {mechanism.records.n - 1}")
    return rows


def _rows_of(mechanism: AnyMechanism, ids: list[Any]) -> NDArray[np.int64]:
    """Return the rows of records, or of the nodes of a region, named by their ids."""
    if not isinstance(mechanism, PlaneMechanism):
        return mechanism.rows_of(ids)
    row_of = {name: row for row, name in enumerate(mechanism.records.ids)}
    unknown = next((name for name in ids if name not in row_of), None)
    if unknown is not None:
        raise InputError(f"{unknown!r:.40} is not a node of this region's lattice: nodes are r0c0, r0c1, ...")
    return np.array([row_of[name] for name in ids], dtype=np.int64)


def by_column(column: Sequence[Any] | ArrayLike, n: int) -> dict[str, NDArray[np.int64]]:
    """Return the rows of each value of a column that has one value for each record, in order of appearance."""
    values: Any = column.tolist() if hasattr(column, "tolist") else list(column)  # type: ignore[arg-type]
    if len(values) != n:
        raise InputError(f"a column must have one value for each of the {n} records, got {len(values)}")
    found: dict[str, list[int]] = {}
    for row, value in enumerate(values):
        found.setdefault(str(value), []).append(row)
    return {name: np.array(rows, dtype=np.int64) for name, rows in found.items()}


def inside(records: Records, polygon: ArrayLike, *holes: ArrayLike) -> NDArray[np.int64]:
    """Return the rows of the records inside a polygon, given by its corners in the records' two coordinates.

    Corners of places are (latitude, longitude); sides are straight lines in degrees, as in GeoJSON, and a polygon does
    not cross the antimeridian. A record is inside if a line from it crosses the sides of the polygon and its holes an
    odd number of times.

    Examples
    --------
    >>> from metricdp.data import grid
    >>> inside(grid(3, 3), [(0, 0), (0, 2), (2, 2), (2, 0)]).tolist()
    [0, 1, 3, 4]
    """
    if records.dimension != 2:
        raise InputError(f"polygons are for records with two coordinates, and these have {records.dimension}")
    is_in = np.zeros(records.n, dtype=bool)
    for ring in (polygon, *holes):
        corners = np.asarray(ring, dtype=np.float64)
        if corners.ndim != 2 or corners.shape[1] != 2 or len(corners) < 3 or not np.isfinite(corners).all():
            raise InputError("a polygon must be three or more corners of two finite coordinates")
        is_in ^= _is_inside(records.coordinates, corners)
    return np.flatnonzero(is_in)


def _is_inside(points: NDArray[np.float64], corners: NDArray[np.float64]) -> NDArray[np.bool_]:
    x, y = points.T
    is_in = np.zeros(len(points), dtype=bool)
    for (ax, ay), (bx, by) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        crosses = (ay > y) != (by > y)
        if crosses.any():
            is_in ^= crosses & (x < ax + (y - ay) * (bx - ax) / (by - ay if by != ay else 1.0))
    return is_in


def read_questions(
    mechanism: AnyMechanism, path: str | PathLike[str], *, column: str | None = None
) -> dict[str, NDArray[np.int64]]:
    """Read questions from a file: the records of each, under its name.

    Parameters
    ----------
    path
        GeoJSON of Polygons and MultiPolygons (each feature a question, named by its property ``name`` or its id), or
        CSV with a column ``id`` of records and one that names the district of each.
    column
        The column of the districts (or the property of their names); by default the one beside ``id``.
    """
    is_geojson = format_of(path) in (".geojson", ".json")
    with TextSource(path, newline=None if is_geojson else "", most_ratio=MAX_UNPACK_RATIO, is_secret=False) as source:
        found = _polygons(mechanism.records, source, column) if is_geojson else _columns(mechanism, source, column)
    if not found:
        raise InputError(f"{path} names no record of this mechanism: check that both are of one region")
    return found


def _columns(mechanism: AnyMechanism, source: TextSource, column: str | None) -> dict[str, NDArray[np.int64]]:
    found: dict[str, list[str]] = {}
    known = frozenset(mechanism.records.ids)
    for table in csv_tables(source):
        others = [name for name in table.names if name != "id"]
        name = others[0] if column is None and len(others) == 1 else column
        if table.names.count("id") != 1 or name is None or table.names.count(name) != 1:
            raise InputError(
                f"{source.path} must have one column id and one column of the districts: name it among "
                f"{', '.join(map(repr, table.names[:8]))}"
            )
        ids, districts = (table.columns[table.names.index(one)] for one in ("id", name))
        for cell, district in zip(ids, districts, strict=True):
            record = cell if cell in known else plain_cell(cell.strip())
            if record in known:  # a table of all records of a city may be asked of a part of it
                found.setdefault(district, []).append(record)
    return {district: rows_asked(mechanism, records) for district, records in found.items()}


def _polygons(records: Records, source: TextSource, column: str | None) -> dict[str, NDArray[np.int64]]:
    if records.kind != "places":
        raise InputError(f"{source.path} holds polygons on the map, but the records are vectors: give a CSV file")
    found: dict[str, NDArray[np.int64]] = {}
    for number, feature in enumerate(features(source)):
        rows = np.zeros(0, dtype=np.int64)
        for rings in _rings(feature):
            rows = np.union1d(rows, inside(records, *(np.asarray(ring)[:, :2][:, ::-1] for ring in rings)))
        names = (feature.properties.get(name) for name in (NAME_PROPERTIES if column is None else (column,)))
        name = next((str(name) for name in names if name is not None), f"polygon {number}")
        if rows.size:
            found[name] = np.union1d(found.get(name, rows), rows)
    return found


def _rings(feature: Feature) -> list[Any]:
    kind, positions = feature.geometry.get("type"), feature.geometry.get("coordinates")
    polygons = [positions] if kind == "Polygon" else positions if kind == "MultiPolygon" else None
    is_sound = isinstance(polygons, list) and all(
        isinstance(rings, list) and rings and all(map(_is_ring, rings)) for rings in polygons
    )
    if not is_sound or polygons is None:
        raise InputError(f"{feature.where} is no Polygon or MultiPolygon of [longitude, latitude]: remove the feature")
    return polygons


def _is_ring(ring: Any) -> bool:
    return (
        isinstance(ring, list)
        and len({len(p) if isinstance(p, list) else 0 for p in ring}) == 1
        and all(isinstance(p, list) and len(p) >= 2 and all(map(is_number, p)) for p in ring)
    )
