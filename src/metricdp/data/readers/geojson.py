"""Reader of places in GeoJSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metricdp.data.readers.features import features, is_number
from metricdp.data.readers.files import stem
from metricdp.data.readers.streams import BYTES_PER_NUMBER, BYTES_PER_RECORD, MAX_UNPACK_RATIO, Allowance, TextSource
from metricdp.data.records import Records
from metricdp.errors import InputError

if TYPE_CHECKING:
    from os import PathLike

BYTES_PER_FEATURE = BYTES_PER_RECORD + 10 * BYTES_PER_NUMBER  # gathered as Python's numbers, which are larger
LARGEST_WEIGHT = 1e300
_LINES = ("LineString", "MultiLineString")


def read_geojson(path: str | PathLike[str], *, memory_limit: float | None = None) -> Records:
    """Read places from the Point features of a GeoJSON file, plain or gzipped.

    Parameters
    ----------
    path
        A FeatureCollection of Points (longitude, latitude). Ids come from each feature's ``id`` or its property
        ``id``, weights from its property ``weight``: all features have them or none.
    memory_limit
        Gigabytes that reading may take; by default half of the free memory.
    """
    allowance = Allowance(path, memory_limit)
    places: list[tuple[float, float]] = []
    ids: list[str | None] = []
    weights: list[Any] = []
    with TextSource(path, most_ratio=MAX_UNPACK_RATIO, is_secret=False) as source:
        for feature in features(source):
            places.append(_latitude_longitude(feature.geometry, feature.where))
            own, properties = feature.content.get("id"), feature.properties
            name = properties.get("id") if own is None else own
            ids.append(None if name is None else str(name))
            weights.append(_weight(properties.get("weight"), feature.where))
            allowance.take(BYTES_PER_FEATURE + len(ids[-1] or ""))
    return Records(
        places,
        ids=_all_or_none(ids, path, "id"),
        prior=_all_or_none(weights, path, "weight"),
        name=stem(path),
    )


def _weight(value: Any, where: str) -> float | None:
    if value is None:
        return None
    if not is_number(value) or abs(value) > LARGEST_WEIGHT:
        raise InputError(f"{where} has the weight {value!r:.40}: give a number, zero or more")
    return float(value)


def _latitude_longitude(geometry: dict[str, Any], where: str) -> tuple[float, float]:
    kind = geometry.get("type")
    if kind in _LINES:
        raise InputError(
            f"{where} is a {kind}, but records are Points: read streets from GraphML (.graphml) or "
            "OpenStreetMap (.osm.pbf) instead"
        )
    if kind != "Point":
        raise InputError(f"{where} has the geometry {kind}: records are Points; remove the feature")
    position = geometry.get("coordinates")
    if not isinstance(position, list) or len(position) < 2 or not all(map(is_number, position[:2])):
        raise InputError(f"{where} has the coordinates {position!r:.60}: give [longitude, latitude] in degrees")
    longitude, latitude = position[:2]
    try:
        return float(latitude), float(longitude)
    except OverflowError:
        raise InputError(f"{where} has coordinates that are too large: give longitude and latitude") from None


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
