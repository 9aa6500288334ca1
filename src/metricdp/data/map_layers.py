"""What a map is drawn from besides records: water, parks, squares, streets and names. Nothing is computed with them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from metricdp.data.road import CITIES, road
from metricdp.data.shipped import load_shipped
from metricdp.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.data.records import Records
    from metricdp.data.streets import StreetNetwork

KINDS = ("water", "park", "square", "main street", "street", "path", "place")
"""In the order in which they are drawn; a place is a name at a point."""
UNITS_PER_DEGREE = 100_000  # of the shipped map, which is for looking at: about a metre


@dataclass(frozen=True, eq=False)
class MapFeature:
    """One thing on a map.

    Parameters
    ----------
    kind
        One of `KINDS`.
    parts
        Rings of an area (holes too: areas are filled by the even-odd rule), lines, or single points: latitudes and
        longitudes in degrees, each of shape (n, 2).
    name
        Written beside it; may be empty.
    is_area
        Whether the parts are rings to be filled.
    """

    kind: str
    parts: tuple[NDArray[np.float64], ...]
    name: str = ""
    is_area: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"unknown kind of map feature {self.kind!r}: choose one of {', '.join(KINDS)}")


def city_map(city: str) -> tuple[MapFeature, ...]:
    """Return the streets of a shipped city as they are drawn, with their names, and its squares.

    Examples
    --------
    >>> sorted({feature.kind for feature in city_map("gothenburg")})
    ['main street', 'path', 'square', 'street']
    """
    if city not in CITIES:
        raise InputError(f"no city {city!r} is shipped: choose one of {', '.join(CITIES)}")
    return _city_map(city)


@cache
def _city_map(city: str) -> tuple[MapFeature, ...]:
    tensors = load_shipped(f"{city}-map")
    points = tensors["origin"].astype(np.float64) + tensors["points"].astype(np.float64)
    parts = np.split(points / UNITS_PER_DEGREE, tensors["part_starts"][1:])
    names = bytes(tensors["names"]).decode().split("\n")
    ends = np.append(tensors["feature_starts"], len(parts)).tolist()
    kinds = tensors["kinds"].tolist()
    return tuple(
        MapFeature(KINDS[kind], tuple(parts[start:end]), name, KINDS[kind] == "square")
        for kind, start, end, name in zip(kinds, ends[:-1], ends[1:], names, strict=True)
    )


def city_of(records: Records) -> str | None:
    """Return the shipped city that the records are intersections of; files store neither it nor its streets.

    A name alone is not enough: every record must be an intersection of that city.
    """
    if records.kind != "places" or records.name not in CITIES:
        return None
    intersections = set(map(tuple, road(records.name).coordinates.tolist()))
    return records.name if intersections.issuperset(map(tuple, records.coordinates.tolist())) else None


def street_features(streets: StreetNetwork) -> tuple[MapFeature, ...]:
    """Return the streets of a network as straight lines between its intersections."""
    return (MapFeature("street", tuple(streets.coordinates[streets.edges])),) if streets.n_edges else ()
