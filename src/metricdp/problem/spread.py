"""Outputs that are well spread: each record is near one of them, and nearer where records are likely.

Records are split at weighted medians into as many cells as there are outputs; then k-means (Lloyd) moves the centres,
and each becomes the nearest record that is not taken yet. Nothing is drawn, so that the answer is always the same.
Where coordinates do not tell distances (a matrix, a function), the farthest record is taken again and again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import cKDTree

from metricdp.metric.distances import CoordinateMetric, on_sphere
from metricdp.metric.given import StreetMetric

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.data.records import Records
    from metricdp.metric.distances import Metric

ROUNDS = 10  # of k-means: later ones hardly move a centre
FIRST_CANDIDATES = 8  # records that are looked at for a centre, more where they are taken
LEAST_WEIGHT = 1e-6  # of a record, of the mean: cells hold unlikely records, too


def spread_rows(records: Records, count: int, metric: Metric | None = None) -> NDArray[np.int64]:
    """Return the rows of ``count`` records that are well spread, ascending.

    Examples
    --------
    >>> from metricdp.data import grid
    >>> spread_rows(grid(1, 9), 3).tolist()
    [1, 4, 7]
    """
    if count == records.n:
        return np.arange(records.n)
    if metric is not None and type(metric) not in (CoordinateMetric, StreetMetric):
        return np.sort(_farthest(records, count, metric))
    points = on_sphere(records.coordinates) if records.kind == "places" else records.coordinates
    weights = np.maximum(records.prior, LEAST_WEIGHT / records.n)
    centres = np.array(
        [np.average(points[cell], axis=0, weights=weights[cell]) for cell in _cells(points, weights, count)]
    )
    for _ in range(ROUNDS):
        owner = cKDTree(centres).query(points)[1]
        mass = np.bincount(owner, weights=weights, minlength=count)
        sums = np.column_stack([np.bincount(owner, weights=weights * line, minlength=count) for line in points.T])
        moved = np.where(mass[:, None] > 0, sums / np.where(mass > 0, mass, 1.0)[:, None], centres)
        if np.array_equal(moved, centres):
            break
        centres = moved
    return np.sort(_nearest_free(points, centres))


def _cells(points: NDArray[np.float64], weights: NDArray[np.float64], count: int) -> list[NDArray[np.int64]]:
    """Split all records into ``count`` cells that are not empty, of about equal weight, across their longest side."""
    cells, waiting = [], [(np.arange(len(points)), count)]
    while waiting:
        rows, parts = waiting.pop()
        if parts == 1:
            cells.append(rows)
            continue
        side = int(np.ptp(points[rows], axis=0).argmax())
        rows = rows[np.argsort(points[rows, side], kind="stable")]
        left = parts // 2
        own = weights[rows]
        reached = np.cumsum(own)
        place = int(np.searchsorted(reached - 0.5 * own, reached[-1] * left / parts))
        place = min(max(place, left), len(rows) - (parts - left))  # each side has a record for each of its cells
        waiting += [(rows[place:], parts - left), (rows[:place], left)]
    return cells


def _nearest_free(points: NDArray[np.float64], centres: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return for each centre the nearest record that no centre before it has taken."""
    tree, taken = cKDTree(points), np.zeros(len(points), dtype=bool)
    found = np.empty(len(centres), dtype=np.int64)
    for number, centre in enumerate(centres):
        candidates = FIRST_CANDIDATES
        while True:
            near = np.atleast_1d(tree.query(centre, k=min(candidates, len(points)))[1])
            free = near[~taken[near]]
            if free.size:
                break
            candidates *= 4
        found[number] = free[0]
        taken[free[0]] = True
    return found


def _farthest(records: Records, count: int, metric: Metric) -> NDArray[np.int64]:
    """Return records each of which is the farthest from those before it, from the likeliest on."""
    found = [int(records.prior.argmax())]
    away = np.full(records.n, np.inf)
    while len(found) < count:
        away = np.minimum(away, metric.to_rows(records, np.array(found[-1:]))[:, 0])
        away[found] = -1.0  # also where others are in the same place
        found.append(int(away.argmax()))
    return np.array(found)
