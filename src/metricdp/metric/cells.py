"""Cells: the points to which a record is the nearest one, how far they reach, and which of them come near each other.

All results err on the safe side: a cell is never reported as smaller, or two cells as farther apart, than they are.

In the plane, a point at distance s from record i in direction u belongs to i only if ``s cos(u, k) <= d_ik / 2`` for
every other record k. On the sphere the same holds in the gnomonic picture centred at i, where great circles are
straight lines: ``tan(s) cos(u, k) <= tan(d_ik / 2)``. So a cell is cut out by straight lines (bisectors), one for
each other record; leaving some of them out makes the cell larger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import cKDTree

from metricdp.data.frozen import frozen
from metricdp.data.geodesy import EARTH_RADIUS_KM
from metricdp.metric.distances import LARGEST_FOR_TREE, MAX_TREE_DIMENSION, CoordinateMetric

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from metricdp.data.records import Records

N_SECTORS = 48  # directions around a record whose reach is bounded separately
N_NEIGHBOURS = 48  # nearest records whose bisectors are used
RECORDS_AT_ONCE = 2048
PAIRS_AT_ONCE = 1 << 16
ANGLE_SLACK = 1e-6  # radians; directions of records a millimetre apart are known to about 1e-7
RELATIVE_SLACK = 1e-9  # of distances and radii; far above the rounding of any of the formulas
QUARTER_MERIDIAN_KM = 0.5 * np.pi * EARTH_RADIUS_KM  # the gnomonic picture ends there


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of all records, cut off at ``limit`` from their record.

    Parameters
    ----------
    records, metric
        The records and the name of a metric of coordinates.
    limit
        Points farther than this from every record belong to no cell.
    radii
        How far a point of each record's cell can be from the record, at most.
    near, direction, half
        The nearest other records of each, the direction in which they are, and how far away the bisector is (in the
        gnomonic picture); empty where cells are only known by their limit (more than two dimensions, Manhattan).
    """

    records: Records
    metric: str
    limit: float
    radii: NDArray[np.float64]
    near: NDArray[np.int64]
    direction: NDArray[np.float64]
    half: NDArray[np.float64]

    @classmethod
    def of(cls, records: Records, metric: str, limit: float) -> Cells:
        """Return the cells of ``records`` within ``limit``."""
        slack = _slack(records, metric)
        radii = np.full(records.n, limit * (1.0 + RELATIVE_SLACK) + slack)
        is_flat = metric == "euclidean" and records.dimension == 2 and not _is_huge(records)
        is_known = is_flat or (metric == "haversine" and limit < 0.9 * QUARTER_MERIDIAN_KM)
        count = min(N_NEIGHBOURS, records.n - 1) if is_known and np.isfinite(limit) else 0
        near = np.zeros((records.n, count), dtype=np.int64)
        direction, half = np.zeros((records.n, count)), np.zeros((records.n, count))
        if count:
            tree, place = _tree(records, metric)
            for start in range(0, records.n, RECORDS_AT_ONCE):
                part = np.arange(start, min(start + RECORDS_AT_ONCE, records.n))
                near[part] = _others(tree.query(place[part], k=count + 1)[1], part)
                direction[part], half[part] = _bisectors(records.coordinates, part[:, None], near[part], metric)
                bound = _lengths(_sector_bound(direction[part], half[part], _heights(radii[part], metric)), metric)
                radii[part] = np.minimum(radii[part], bound * (1.0 + RELATIVE_SLACK) + slack)
        return cls(records, metric, limit, *(frozen(values) for values in (radii, near, direction, half)))

    def pairs_within(self, r: float) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]]:
        """Yield pairs of records, each once, whose cells may come within ``r`` of one another, and their distances.

        These are all pairs with ``d_ij <= r + radius_i + radius_j``: by the triangle inequality no others can.
        `can_meet` is more precise.
        """
        records, radii = self.records, self.radii
        measure, slack = CoordinateMetric(self.metric), _slack(records, self.metric)
        # each pair is found from its record with the larger cell, so that a few large cells do not widen every search
        rank = np.empty(records.n, dtype=np.int64)
        rank[np.argsort(-radii, kind="stable")] = np.arange(records.n)
        has_tree = records.dimension <= MAX_TREE_DIMENSION and not _is_huge(records)
        search = _tree(records, self.metric) if has_tree else None
        block = RECORDS_AT_ONCE if search is not None else max(1, PAIRS_AT_ONCE // records.n)
        for start in range(0, records.n, block):
            part = np.arange(start, min(start + block, records.n))
            most = (r + 2.0 * radii[part]) * (1.0 + RELATIVE_SLACK) + slack
            i, j = _around(search, part, most, self.metric, records.n)
            smaller = rank[j] > rank[i]
            i, j = i[smaller], j[smaller]
            for begin in range(0, len(i), PAIRS_AT_ONCE):
                a, b = i[begin : begin + PAIRS_AT_ONCE], j[begin : begin + PAIRS_AT_ONCE]
                distances = measure.elementwise(records.coordinates[a], records.coordinates[b])
                is_near = distances <= (r + radii[a] + radii[b]) * (1.0 + RELATIVE_SLACK) + slack
                yield a[is_near], b[is_near], distances[is_near]

    def can_meet(self, i: NDArray[np.int64], j: NDArray[np.int64], r: float) -> NDArray[np.bool_]:
        """Return for each pair whether points of the two cells may be within ``r`` of one another.

        If p of cell i and q of cell j are within r, the way from p to q crosses the bisector of i and j at a point m
        with ``|m - i| <= |m - k| + 2 r`` for all other records k, and ``|m - i| <= L = min(radius_i, radius_j) + r``.
        Squared, that is one linear inequality for each k: with m along the bisector, an interval. No such m, no such
        pair of points. With r = 0 this is whether two cells have a common border.
        """
        result = np.ones(len(i), dtype=bool)
        if not self.near.shape[1]:
            return result
        for start in range(0, len(i), PAIRS_AT_ONCE // 8):
            part = slice(start, start + PAIRS_AT_ONCE // 8)
            result[part] = self._can_meet(i[part], j[part], r)
        return result

    def _can_meet(self, i: NDArray[np.int64], j: NDArray[np.int64], r: float) -> NDArray[np.bool_]:
        unit = EARTH_RADIUS_KM if self.metric == "haversine" else 1.0
        towards, height = _bisectors(self.records.coordinates, i[:, None], j[:, None], self.metric)
        towards, height = towards[:, 0], height[:, 0]
        most = np.minimum(self.radii[i], self.radii[j]) + r  # how far m is from both at most
        is_beyond = most >= 0.9 * QUARTER_MERIDIAN_KM if self.metric == "haversine" else np.zeros(len(i), dtype=bool)
        farthest = np.where(is_beyond, np.inf, _heights(np.where(is_beyond, 0.0, most), self.metric))
        # every bisector is moved away by what 2 r and uncertain directions allow
        distance = 2.0 * _lengths(self.half[i], self.metric) / unit
        stretch = np.sqrt(1.0 + farthest**2) if self.metric == "haversine" else np.ones(len(i))
        chord = np.sin(np.minimum(distance, np.pi / 2)) if self.metric == "haversine" else distance
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = 2.0 * (r / unit) * ((most / unit) * stretch)[:, None] / chord
            room = self.half[i] * (1.0 + RELATIVE_SLACK) + moved + (farthest * ANGLE_SLACK)[:, None]
            turn = self.direction[i] - towards[:, None]
            along, across = height[:, None] * np.cos(turn), np.sin(turn)
            is_other = (self.near[i] != j[:, None]) & np.isfinite(room)
            edge = (room - along) / across
            high = np.where(is_other & (across > 1e-9), edge, np.inf).min(axis=1)
            low = np.where(is_other & (across < -1e-9), edge, -np.inf).max(axis=1)
            cut_off = (is_other & (np.abs(across) <= 1e-9) & (along > room)).any(axis=1)
            end = np.sqrt(np.maximum(farthest**2 - height**2, 0.0))
        is_far = height > farthest * (1.0 + RELATIVE_SLACK)
        meets = (np.maximum(low, -end) <= np.minimum(high, end)) & ~cut_off & ~is_far
        return meets | is_beyond | ~np.isfinite(height)


def _slack(records: Records, metric: str) -> float:
    """Return a length far above the rounding of distances between points like the records, in the metric's unit."""
    if metric == "haversine":
        return 1e-8  # km: ten micrometres
    return 1e-12 * float(np.abs(records.coordinates).max(initial=0.0)) * records.dimension


def _is_huge(records: Records) -> bool:
    """Return whether squares of coordinates would overflow in a tree."""
    return bool(np.abs(records.coordinates).max(initial=0.0) > LARGEST_FOR_TREE)


def _heights(lengths: NDArray[np.float64], metric: str) -> NDArray[np.float64]:
    """Return how far from its centre the gnomonic picture shows a length; in the plane the length itself."""
    return np.asarray(np.tan(lengths / EARTH_RADIUS_KM)) if metric == "haversine" else lengths


def _lengths(heights: NDArray[np.float64], metric: str) -> NDArray[np.float64]:
    return np.asarray(EARTH_RADIUS_KM * np.arctan(heights)) if metric == "haversine" else heights


def _tree(records: Records, metric: str) -> tuple[cKDTree, NDArray[np.float64]]:
    place = records.coordinates
    if metric == "haversine":
        latitude, longitude = np.radians(place).T
        ring = np.cos(latitude)
        place = np.column_stack((ring * np.cos(longitude), ring * np.sin(longitude), np.sin(latitude)))
    return cKDTree(place), place


def _others(found: NDArray[np.int64], part: NDArray[np.int64]) -> NDArray[np.int64]:
    """Take each record itself out of its list of nearest ones; where it is not in it, the last one goes."""
    is_self = found == part[:, None]
    is_self[~is_self.any(axis=1), -1] = True
    return found[~is_self].reshape(len(part), -1)


def _around(
    search: tuple[cKDTree, NDArray[np.float64]] | None,
    part: NDArray[np.int64],
    most: NDArray[np.float64],
    metric: str,
    n: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return all pairs of a record in ``part`` and one within ``most`` of it, itself included."""
    if search is None or not np.isfinite(most).all():
        return np.repeat(part, n), np.tile(np.arange(n), len(part))
    tree, place = search
    reach = most
    if metric == "haversine":  # a chord on the unit sphere
        reach = 2.0 * np.sin(np.minimum(most / (2.0 * EARTH_RADIUS_KM), np.pi / 2)) * (1.0 + RELATIVE_SLACK) + 1e-12
    found = tree.query_ball_point(place[part], reach, p=1.0 if metric == "manhattan" else 2.0)
    i = np.repeat(part, [len(one) for one in found])
    return i, np.concatenate([np.asarray(one, dtype=np.int64) for one in found])


def _bisectors(
    points: NDArray[np.float64], i: NDArray[np.int64], j: NDArray[np.int64], metric: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the direction from i to j, and how far away their bisector is; infinite if they are in one place."""
    here, there = points[i], points[j]
    if metric == "haversine":
        distance = CoordinateMetric(metric).elementwise(here, there)
        first, second = np.radians(here[..., 0]), np.radians(there[..., 0])
        turn = np.radians(there[..., 1] - here[..., 1])
        # the usual formula for the bearing, without its cancellation for places that are close together
        north = np.sin(second - first) + 2.0 * np.sin(first) * np.cos(second) * np.sin(turn / 2.0) ** 2
        direction = np.arctan2(np.sin(turn) * np.cos(second), north)
        is_near = distance < QUARTER_MERIDIAN_KM
        half = np.where(is_near, np.tan(np.where(is_near, distance, 0.0) / (2.0 * EARTH_RADIUS_KM)), np.inf)
    else:
        difference = there - here
        direction = np.arctan2(difference[..., 1], difference[..., 0])
        distance = np.hypot(difference[..., 0], difference[..., 1])
        half = distance / 2.0
    # a record in the same place cuts nothing off: they are protected as one
    return direction, np.where(distance > 0, half, np.inf)


def _sector_bound(
    direction: NDArray[np.float64], half: NDArray[np.float64], most: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return ``max over sectors of min over records of half / cos``, at most ``most``: how far the cells reach."""
    width = 2.0 * np.pi / N_SECTORS
    largest = np.zeros(len(most))
    for sector in range(N_SECTORS):
        away = np.abs(np.remainder(direction - (sector + 0.5) * width + np.pi, 2.0 * np.pi) - np.pi)
        cosine = np.cos(np.minimum(away + width / 2.0 + ANGLE_SLACK, np.pi / 2))
        with np.errstate(divide="ignore", invalid="ignore"):
            cut = np.where(cosine > 1e-9, half / cosine, np.inf)
        largest = np.maximum(largest, np.minimum(cut.min(axis=1), most))
    return largest
