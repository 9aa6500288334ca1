"""Reader of map layers in GeoJSON: water, parks, squares, streets and names, told apart by OpenStreetMap's tags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.data.map_layers import KINDS, MapFeature
from metricdp.data.readers.features import features
from metricdp.data.readers.streams import BYTES_PER_NUMBER, BYTES_PER_RECORD, MAX_UNPACK_RATIO, Allowance, TextSource
from metricdp.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from os import PathLike

    from numpy.typing import NDArray

LONGEST_NAME = 60  # characters; a longer one would cover the map
MAIN_STREETS = ("motorway", "trunk", "primary", "secondary")
PATHS = ("footway", "path", "cycleway", "pedestrian", "steps", "track", "bridleway")
_DEPTHS = {
    "Point": 0,
    "MultiPoint": 1,
    "LineString": 1,
    "MultiLineString": 2,
    "Polygon": 2,
    "MultiPolygon": 3,
}  # how many lists lie around one position
TAGS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("water", "natural", ("water", "bay", "strait", "coastline")),
    ("water", "waterway", ()),
    ("water", "water", ()),
    ("water", "landuse", ("reservoir", "basin")),
    ("park", "leisure", ("park", "garden", "nature_reserve", "golf_course", "playground", "pitch")),
    ("park", "landuse", ("forest", "grass", "meadow", "recreation_ground", "cemetery", "village_green", "allotments")),
    ("park", "natural", ("wood", "scrub", "heath", "grassland", "wetland")),
    ("square", "place", ("square",)),
    ("place", "place", ()),
)
"""Kind, tag and the values that mean it (none: any value), the first that fits."""


def read_layers(path: str | PathLike[str], *, memory_limit: float | None = None) -> tuple[MapFeature, ...]:
    """Read what is drawn beneath records from a GeoJSON file, plain or gzipped.

    Parameters
    ----------
    path
        A FeatureCollection. What a feature is says its property ``kind`` (`metricdp.data.map_layers.KINDS`) or its
        OpenStreetMap tags (``natural=water``, ``leisure=park``, ``highway=...``, ``place=...``); others are left out.
        Its property ``name`` is written on the map.
    memory_limit
        Gigabytes that reading may take; by default half of the free memory.
    """
    allowance = Allowance(path, memory_limit)
    found = []
    with TextSource(path, most_ratio=MAX_UNPACK_RATIO, is_secret=False) as source:
        for feature in features(source):
            kind = _kind(feature.properties)
            if kind is None:
                continue
            parts = tuple(_parts(feature.geometry, feature.where))
            allowance.take(BYTES_PER_RECORD + 2 * BYTES_PER_NUMBER * sum(map(len, parts)))
            is_area = str(feature.geometry.get("type")).endswith("Polygon")
            if kind == "path" and is_area:
                kind = "square"
            found.append(MapFeature(kind, parts, _name(feature.properties), is_area))
    if not found:
        raise InputError(
            f"{path} has nothing to draw: give features the property kind ({', '.join(KINDS)}) or OpenStreetMap's tags"
        )
    return tuple(found)


def _name(properties: Mapping[str, Any]) -> str:
    name = properties.get("name")
    return name.strip()[:LONGEST_NAME] if isinstance(name, str) else ""


def _kind(properties: Mapping[str, Any]) -> str | None:
    own = properties.get("kind")
    if own in KINDS:
        return str(own)
    highway = properties.get("highway")
    if isinstance(highway, str):
        base = highway.removesuffix("_link")
        return "main street" if base in MAIN_STREETS else "path" if base in PATHS else "street"
    for kind, tag, values in TAGS:
        value = properties.get(tag)
        if isinstance(value, str) and value != "no" and (not values or value in values):
            return kind
    return None


def _parts(geometry: Mapping[str, Any], where: str) -> Iterator[NDArray[np.float64]]:
    """Yield the points, lines or rings of a geometry, all as arrays of latitudes and longitudes."""
    shape = geometry.get("type")
    if not isinstance(shape, str) or shape not in _DEPTHS:
        raise InputError(f"{where} is a {shape!r:.40}: give {', '.join(_DEPTHS)}")
    inside: list[Any] = [geometry.get("coordinates")]
    for _ in range(_DEPTHS[shape] - (shape != "MultiPoint" and _DEPTHS[shape] > 0)):
        inside = [one for outer in inside for one in _listed(outer, where)]
    for one in inside:
        positions = [one] if shape in ("Point", "MultiPoint") else _listed(one, where)
        try:
            part = np.array([position[:2] for position in positions], dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise _not_positions(where) from None
        if part.ndim != 2 or part.shape[1] != 2 or not (np.abs(part) <= (180.0, 90.0)).all():
            raise _not_positions(where)
        yield part[:, ::-1].copy()


def _listed(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise _not_positions(where)
    return value


def _not_positions(where: str) -> InputError:
    return InputError(
        f"{where} has coordinates that are not positions: give lists of longitude and latitude in degrees"
    )
