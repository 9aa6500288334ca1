"""Regions of the Earth: a box of latitudes and longitudes, or polygons, and which records lie in them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.data.records import Records

MAX_REGION_BYTES = 20_000_000
HOW = "give SOUTH,WEST,NORTH,EAST in degrees, or a GeoJSON file of polygons"


@dataclass(frozen=True, eq=False)
class Region:
    """A region: rings of (longitude, latitude), in which a point lies if it is inside an odd number of them."""

    rings: tuple[NDArray[np.float64], ...]

    @classmethod
    def of(cls, text: str) -> Region:
        """Return the region of ``"SOUTH,WEST,NORTH,EAST"`` or of a GeoJSON file of polygons.

        A box whose west is above its east crosses the antimeridian.

        Examples
        --------
        >>> Region.of("57.6,11.9,57.8,12.0").contains(np.array([[57.7, 11.95], [57.7, 12.1]])).tolist()
        [True, False]
        >>> Region.of("-10,170,10,-170").contains(np.array([[0.0, 175.0], [0.0, -175.0], [0.0, 0.0]])).tolist()
        [True, True, False]
        """
        numbers = _numbers(text)
        return cls(_box(numbers) if numbers is not None else _polygons(Path(text)))

    def contains(self, places: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return whether each place, latitude and longitude in a row, lies in the region."""
        inside = np.zeros(len(places), dtype=bool)
        for ring in self.rings:
            inside ^= _is_inside(places[:, 1], places[:, 0], ring)
        return inside

    def rows_of(self, records: Records) -> NDArray[np.int64]:
        """Return the rows of the records in the region; at least one."""
        if records.kind != "places":
            raise InputError("a region needs records that are places: name the records by their ids")
        rows = np.flatnonzero(self.contains(records.coordinates))
        if not rows.size:
            south, west = records.coordinates.min(axis=0)
            north, east = records.coordinates.max(axis=0)
            raise InputError(
                f"no record lies in the region: they are between {south:g},{west:g} and {north:g},{east:g}; {HOW}"
            )
        return rows


def _numbers(text: str) -> list[float] | None:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        return None


def _box(numbers: list[float]) -> tuple[NDArray[np.float64], ...]:
    if len(numbers) != 4 or not np.isfinite(numbers).all():
        raise InputError(f"a box needs four numbers: {HOW}")
    south, west, north, east = numbers
    if not (-90 <= south < north <= 90 and -180 <= west <= 180 and -180 <= east <= 180 and west != east):
        raise InputError(
            f"the box {south:g},{west:g},{north:g},{east:g} is none: south must be below north, within 90 and 180 "
            f"degrees; {HOW}"
        )
    spans = [(west, east)] if west < east else [(west, 180.0), (-180.0, east)]
    # records on the border belong to it
    low, high = np.nextafter(south, -np.inf), np.nextafter(north, np.inf)
    return tuple(
        np.array([[a, low], [b, low], [b, high], [a, high]])
        for a, b in ((np.nextafter(first, -np.inf), np.nextafter(last, np.inf)) for first, last in spans)
    )


def _polygons(path: Path) -> tuple[NDArray[np.float64], ...]:
    try:
        if path.stat().st_size > MAX_REGION_BYTES:
            raise InputError(f"{path} is larger than {MAX_REGION_BYTES:,} bytes: give a simpler region")
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise InputError(f"there is no region {str(path)!r:.80}: {HOW}") from None
    except (ValueError, RecursionError):
        raise InputError(f"{path} is not GeoJSON: {HOW}") from None
    rings = tuple(ring for polygon in _coordinates(found, path) for ring in _rings(polygon, path))
    if not rings:
        raise InputError(f"{path} holds no polygon: {HOW}")
    return rings


def _coordinates(found: Any, path: Path) -> list[Any]:
    """Return the coordinates of all polygons of a geometry, a feature, or a collection."""
    kind = found.get("type") if isinstance(found, dict) else None
    if kind == "FeatureCollection" and isinstance(found.get("features"), list):
        return [one for feature in found["features"] for one in _coordinates(feature, path)]
    if kind == "Feature":
        return _coordinates(found.get("geometry"), path)
    if kind == "Polygon":
        return [found.get("coordinates")]
    if kind == "MultiPolygon" and isinstance(found.get("coordinates"), list):
        return list(found["coordinates"])
    raise InputError(f"{path} holds something other than polygons ({kind!r:.40}): {HOW}")


def _rings(polygon: Any, path: Path) -> list[NDArray[np.float64]]:
    try:
        rings = [np.array([position[:2] for position in ring], dtype=np.float64) for ring in polygon]
    except (TypeError, ValueError):
        rings = []
    if not rings or any(ring.ndim != 2 or len(ring) < 3 or ring.shape[1] != 2 for ring in rings):
        raise InputError(f"a polygon of {path} has no rings of positions [longitude, latitude]: {HOW}")
    for ring in rings:
        if not (np.isfinite(ring).all() and (np.abs(ring) <= [180.0, 90.0]).all()):
            raise InputError(
                f"a polygon of {path} has positions beyond 180 and 90 degrees: write [longitude, latitude]"
            )
        if np.ptp(ring[:, 0]) > 180.0:
            raise InputError(f"a polygon of {path} is wider than 180 degrees: cut it at the antimeridian")
    return rings


def _is_inside(x: NDArray[np.float64], y: NDArray[np.float64], ring: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return whether points are inside a ring: a line from each to infinity crosses it an odd number of times."""
    inside = np.zeros(len(x), dtype=bool)
    for (x1, y1), (x2, y2) in zip(ring, np.roll(ring, -1, axis=0), strict=True):
        crosses = (y1 > y) != (y2 > y)
        if y1 != y2:
            inside ^= crosses & (x < (x2 - x1) * (y - y1) / (y2 - y1) + x1)
    return inside
