"""The ground of the explorer's map: where coordinates lie on it, and what is drawn beneath the records."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.data.geodesy import EARTH_RADIUS_KM
from metricdp.data.map_layers import KINDS, MapFeature, city_map, city_of, street_features
from metricdp.data.road import CITIES, road

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from metricdp.data.records import Records
    from metricdp.data.streets import StreetNetwork

REACH = 2.0  # the ground is drawn so far, where the outermost record is at 1
MAX_POINTS = 200_000  # of the ground; more would make the page too large to share
MAX_NAMES = 5_000
FINEST_CELL = 2 * REACH / 65_535  # positions are whole numbers of it
EDGE_SHARE = 0.01  # of the drawn points may lie beyond where the ground has faded out, at each side


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


def ground_of(
    records: Records, streets: StreetNetwork | None, *, is_region: bool = False
) -> tuple[tuple[MapFeature, ...], str | None]:
    """Return what is drawn beneath records by default, and the credit that it needs.

    These are the given streets, or those of the records. A shipped city has a map with bends and names; files do not
    store streets, so it is found by its name and its intersections; that of a region, of which ``records`` are the
    corners, by where it is.
    """
    if records.kind != "places":
        return (), None
    network = records.streets if streets is None else streets
    if network is not None:
        city = next((name for name in CITIES if road(name).streets is network), None)
    else:
        city = _city_around(records) if is_region else city_of(records)
    if city is not None:
        return city_map(city), "© OpenStreetMap contributors"
    return (() if network is None else street_features(network)), None


def _city_around(corners: Records) -> str | None:
    """Return the shipped city whose intersections reach beyond these corners on all sides."""
    for city in CITIES:
        points = road(city).coordinates
        if (corners.coordinates >= points.min(axis=0)).all() and (corners.coordinates <= points.max(axis=0)).all():
            return city
    return None


def ground_fields(features: Sequence[MapFeature], frame: Frame) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return what the page draws beneath the records: packed positions, and what they are.

    Positions are 16-bit numbers from -`REACH` to `REACH`. Of too many points those that lie close together are merged
    until `MAX_POINTS` are left, and of too many names those of the largest features are kept.
    """
    placed = [(feature, _within(feature, frame)) for feature in features]
    cell = FINEST_CELL
    while True:
        thinned = [(feature, _thinned(feature, parts, cell)) for feature, parts in placed]
        n_points = sum(len(part) for _, parts in thinned for part in parts)
        if n_points <= MAX_POINTS:
            break
        cell *= 2.0
    kept = _joined([(feature, parts) for feature, parts in thinned if parts])
    parts = [part for _, own in kept for part in own]
    if not parts:
        return {}, {}
    points = np.concatenate(parts)
    sizes = [max(float(np.ptp(part, axis=0).max()) for part in own) for _, own in kept]
    named = [row for row, (feature, _) in enumerate(kept) if feature.name]
    shown = set(sorted(named, key=lambda row: -sizes[row])[:MAX_NAMES])
    arrays: dict[str, NDArray[Any]] = {
        "ground_points": np.rint((points + REACH) / FINEST_CELL).astype(np.uint16),
        "ground_starts": np.cumsum([0, *map(len, parts)]).astype(np.uint32),
    }
    low, high = np.quantile(points, [EDGE_SHARE, 1.0 - EDGE_SHARE], axis=0)
    fields = {
        "ground": [
            [KINDS.index(feature.kind), int(feature.is_area), len(own), feature.name if row in shown else ""]
            for row, (feature, own) in enumerate(kept)
        ],
        "kinds": KINDS,
        "reach": REACH,
        "fade": [*(low / 2 + high / 2).tolist(), *np.maximum(high / 2 - low / 2, FINEST_CELL).tolist()],
    }
    return arrays, fields


def _joined(
    features: Iterable[tuple[MapFeature, list[NDArray[np.float64]]]],
) -> list[tuple[MapFeature, list[NDArray[np.float64]]]]:
    """Return the features in the order of drawing, lines of one kind and name as one."""
    found: dict[Any, tuple[MapFeature, list[NDArray[np.float64]]]] = {}
    for number, (feature, parts) in enumerate(features):
        is_line = not feature.is_area and len(parts[0]) > 1
        key = (feature.kind, feature.name) if is_line else number
        found.setdefault(key, (feature, []))[1].extend(parts)
    return sorted(found.values(), key=lambda one: (KINDS.index(one[0].kind), not one[0].is_area))


def _within(feature: MapFeature, frame: Frame) -> list[NDArray[np.float64]]:
    """Return the parts of a feature on the map, cut at its edges."""
    lengths = [len(part) for part in feature.parts]
    places = frame.place(np.concatenate(feature.parts)) if lengths else np.zeros((0, 2))
    inside: NDArray[np.bool_] = np.abs(places).max(axis=1, initial=0.0) <= REACH
    found = []
    for end, length in zip(np.cumsum(lengths).tolist(), lengths, strict=True):
        part, is_in = places[end - length : end], inside[end - length : end]
        if is_in.all():
            found.append(part)
        elif feature.is_area:
            found.append(_clipped(part))
        elif is_in.any():
            runs = np.flatnonzero(np.diff(is_in)) + 1
            found += [
                run
                for run, at in zip(np.split(part, runs), [0, *runs.tolist()], strict=True)
                if is_in[at] and len(run) > 1
            ]
    return [part for part in found if len(part)]


def _clipped(ring: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the part of a ring inside the map's square, edge by edge (Sutherland and Hodgman)."""
    for axis in (0, 1):
        for sign in (1.0, -1.0):
            if not len(ring):
                return ring
            depth = REACH - sign * ring[:, axis]
            before, depth_before = np.roll(ring, 1, axis=0), np.roll(depth, 1)
            is_in, crosses = depth >= 0, (depth >= 0) != (depth_before >= 0)
            share = np.divide(depth_before, depth_before - depth, out=np.zeros_like(depth), where=crosses)
            cuts = before + share[:, None] * (ring - before)
            # each corner that is inside, after the cut of the side that leads to it
            both = np.stack([cuts, ring], axis=1).reshape(-1, 2)
            ring = both[np.stack([crosses, is_in], axis=1).ravel()]
    return np.clip(ring, -REACH, REACH)


def _thinned(feature: MapFeature, parts: Sequence[NDArray[np.float64]], cell: float) -> list[NDArray[np.float64]]:
    """Return the parts without points in the same cell as the one before; what has no size any more is left out."""
    found = []
    for part in parts:
        if len(part) == 1:
            found.append(part)
            continue
        cells = np.floor(part / cell)
        kept = np.append(True, (cells[1:] != cells[:-1]).any(axis=1))
        if kept.sum() > (2 if feature.is_area else 1):
            found.append(part[kept])
    return found
