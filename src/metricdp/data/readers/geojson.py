"""Reader of places in GeoJSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from metricdp.data.readers.files import read_text, stem
from metricdp.data.records import Records
from metricdp.errors import FileFormatError, InputError

if TYPE_CHECKING:
    from os import PathLike

_LINES = ("LineString", "MultiLineString")


def read_geojson(path: str | PathLike[str]) -> Records:
    """Read places from the Point features of a GeoJSON file.

    Parameters
    ----------
    path
        A FeatureCollection of Points (longitude, latitude). Ids come from each feature's ``id`` or its property
        ``id``, weights from its property ``weight``: all features have them or none.
    """
    text = read_text(path)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} is not JSON ({error}): save it as GeoJSON") from None
    features = document.get("features") if isinstance(document, dict) else None
    if not isinstance(features, list):
        raise FileFormatError(f"{path} has no list of features: give a GeoJSON FeatureCollection of Points")
    if not features:
        raise InputError(f"{path} has no features: give at least one Point")
    properties = [_properties(feature) for feature in features]
    return Records(
        [_latitude_longitude(feature, f"{path}, feature {row}") for row, feature in enumerate(features)],
        ids=_all_or_none(
            [feature.get("id", own.get("id")) for feature, own in zip(features, properties, strict=True)], path, "id"
        ),
        prior=_all_or_none([own.get("weight") for own in properties], path, "weight"),
        name=stem(path),
    )


def _properties(feature: Any) -> dict[str, Any]:
    found = feature.get("properties") if isinstance(feature, dict) else None
    return found if isinstance(found, dict) else {}


def _latitude_longitude(feature: Any, where: str) -> tuple[float, float]:
    geometry = feature.get("geometry") if isinstance(feature, dict) else None
    kind = geometry.get("type") if isinstance(geometry, dict) else None
    if kind in _LINES:
        raise InputError(
            f"{where} is a {kind}, but records are Points: read streets from GraphML (.graphml) or "
            "OpenStreetMap (.osm.pbf) instead"
        )
    if not isinstance(geometry, dict) or kind != "Point":
        raise InputError(f"{where} has the geometry {kind}: records are Points; remove the feature")
    position = geometry.get("coordinates")
    if not isinstance(position, list) or len(position) < 2 or not all(map(_is_number, position[:2])):
        raise InputError(f"{where} has the coordinates {position!r:.60}: give [longitude, latitude] in degrees")
    longitude, latitude = position[:2]
    try:
        return float(latitude), float(longitude)
    except OverflowError:
        raise InputError(f"{where} has coordinates beyond all numbers: give longitude and latitude") from None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _all_or_none(values: list[Any], path: str | PathLike[str], what: str) -> list[Any] | None:
    missing = [row for row, value in enumerate(values) if value is None]
    if len(missing) == len(values):
        return None
    if missing:
        raise InputError(
            f"{path}, feature {missing[0]} has no {what} though others have ({len(missing)} such features): "
            f"give all features a {what} or none"
        )
    return values
