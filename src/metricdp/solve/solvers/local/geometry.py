"""Distances between records and outputs, and which outputs are near a record.

Places and vectors of few dimensions are points of a space in which boxes exclude most of what is far: places by the
chord through the Earth. Other metrics (many dimensions, streets, matrices, functions) are asked for all distances to a
few outputs at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from metricdp.data.geodesy import EARTH_RADIUS_KM
from metricdp.metric.distances import MAX_TREE_DIMENSION, CoordinateMetric
from metricdp.metric.simd import WIDTH
from metricdp.metric.space import ARC, MANHATTAN, Space
from metricdp.solve.solvers.firstorder.kernels import INNER
from metricdp.solve.solvers.firstorder.threads import in_threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from metricdp.data.records import Records
    from metricdp.metric.distances import Metric
    from metricdp.problem.outputs import Outputs

GROUPS_PER_BOX = 64  # groups of outputs that one large box encloses
RELATIVE_ERROR = 2.0**-40  # of distances beyond that: their own formula needs fewer than 100 roundings of 2^-53
BLOCK_ENTRIES = 4_000_000  # distances that a metric is asked for at one time


@dataclass(frozen=True, eq=False)
class Geometry:
    """Points of records and outputs in the space in which they are searched.

    Parameters
    ----------
    record_points, output_points
        Shapes (N, D) and (K, D); km from the Earth's centre for places.
    kind
        How distances follow from points; None if only the metric knows.
    error
        By how much distances from points can be off, in addition to their relative error.
    asked
        Returns the metric's distances from all records to some outputs; needed if ``kind`` is None.
    asked_of
        Returns those from some records to some outputs, for metrics that need not measure from all of them.
    """

    record_points: NDArray[np.float64]
    output_points: NDArray[np.float64]
    kind: int | None
    error: float = 0.0
    asked: Callable[[NDArray[np.int64]], NDArray[np.float64]] | None = None
    asked_of: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]] | None = None

    def below(self, distances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return numbers that are not above the true distances."""
        return np.maximum(distances * (1.0 - RELATIVE_ERROR) - self.error, 0.0)

    def to_outputs(self, outputs: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the metric's distances from all records to some outputs."""
        if self.asked is None:
            raise ValueError("a part of a geometry does not know its metric")
        return self.asked(outputs)

    @property
    def norm(self) -> int:
        """Which norm measures lengths in the space of points: 1 or 2."""
        return 1 if self.kind == MANHATTAN else 2

    def from_some(self, records: NDArray[np.int64], outputs: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the metric's distances from some records to some outputs."""
        if self.asked_of is None:
            return self.to_outputs(outputs)[records]
        return self.asked_of(records, outputs)

    def reach(self, radius: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the length in the space of points of a distance."""
        if self.kind != ARC:
            return radius
        angle = radius / (2.0 * EARTH_RADIUS_KM)
        return np.where(angle >= 0.5 * np.pi, np.inf, 2.0 * EARTH_RADIUS_KM * np.sin(np.minimum(angle, 0.5 * np.pi)))

    def distance_of(self, length: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the distance of a length in the space of points: `reach` the other way round."""
        if self.kind != ARC:
            return length
        return 2.0 * EARTH_RADIUS_KM * np.arcsin(np.minimum(length / (2.0 * EARTH_RADIUS_KM), 1.0))


def geometry_of(records: Records, outputs: Outputs, metric: Metric) -> Geometry:
    """Return the geometry of records, outputs and a metric."""
    here, there = records.coordinates, outputs.coordinates
    # places all over the Earth have no space: near the antipode an arc is much more uncertain than its chord
    space = Space.of(metric, here, there)
    if space is None or here.shape[1] > MAX_TREE_DIMENSION:
        asked = partial(_asked, records, outputs, metric)
        asked_of = partial(_asked_of, here, there, metric) if isinstance(metric, CoordinateMetric) else None
        return Geometry(np.ascontiguousarray(here), np.ascontiguousarray(there), None, asked=asked, asked_of=asked_of)
    return Geometry(space.unit * space.here, space.unit * space.there, space.kind, space.slack)


def _asked(records: Records, outputs: Outputs, metric: Metric, some: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the metric's distances from all records to some outputs."""
    if outputs.rows is not None:
        return metric.to_rows(records, outputs.rows[some])
    return metric.to_points(records, outputs.coordinates[some])


def _asked_of(
    here: NDArray[np.float64],
    there: NDArray[np.float64],
    metric: CoordinateMetric,
    records: NDArray[np.int64],
    outputs: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return the distances from some records to some outputs."""
    return metric.between(here[records], there[outputs])


@njit(**INNER)
def apart(P: NDArray[np.float64], i: int, Q: NDArray[np.float64], k: int, kind: int) -> float:
    """Return how far two points are from one another in their space."""
    total = 0.0
    for axis in range(P.shape[1]):
        difference = abs(P[i, axis] - Q[k, axis])
        total += difference if kind == MANHATTAN else difference * difference
    return total if kind == MANHATTAN else np.sqrt(total)


@njit(**INNER)
def distance(P: NDArray[np.float64], i: int, Q: NDArray[np.float64], k: int, kind: int) -> float:
    """Return the metric's distance of two points."""
    length = apart(P, i, Q, k, kind)
    if kind == ARC:
        return 2.0 * EARTH_RADIUS_KM * np.arcsin(min(length / (2.0 * EARTH_RADIUS_KM), 1.0))
    return length


@njit(**INNER)
def _to_box(P: NDArray[np.float64], i: int, boxes: NDArray[np.float64], g: int, kind: int) -> float:
    """Return how far a point is from a box."""
    total = 0.0
    for axis in range(P.shape[1]):
        difference = max(boxes[0, g, axis] - P[i, axis], P[i, axis] - boxes[1, g, axis], 0.0)
        total += difference if kind == MANHATTAN else difference * difference
    return total if kind == MANHATTAN else np.sqrt(total)


def boxes_of(points: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Return the lowest and highest corners of each ``size`` points that follow one another, shape (2, boxes, D)."""
    at = np.arange(0, len(points), size)
    return np.stack((np.minimum.reduceat(points, at, axis=0), np.maximum.reduceat(points, at, axis=0)))


def near_groups(
    P: NDArray[np.float64], reach: NDArray[np.float64], Q: NDArray[np.float64], kind: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return for each point of ``P`` the groups of 8 points of ``Q`` with one within its reach, as index and groups."""
    small, large = boxes_of(Q, WIDTH), boxes_of(Q, WIDTH * GROUPS_PER_BOX)
    count = np.zeros(len(P) + 1, dtype=np.int64)
    nothing = np.empty(0, dtype=np.int32)

    def count_some(first: int, last: int) -> None:
        _near(first, last, P, reach, Q, small, large, kind, count, nothing)

    in_threads(count_some, len(P), is_large=True)
    start = np.cumsum(count)
    found = np.empty(int(start[-1]), dtype=np.int32)

    def list_some(first: int, last: int) -> None:
        _near(first, last, P, reach, Q, small, large, kind, start, found)

    in_threads(list_some, len(P), is_large=True)
    return start, found


@njit(cache=True, nogil=True)
def _near(  # noqa: PLR0917  (numba takes positions)
    first: int,
    last: int,
    P: NDArray[np.float64],
    reach: NDArray[np.float64],
    Q: NDArray[np.float64],
    small: NDArray[np.float64],
    large: NDArray[np.float64],
    kind: int,
    start: NDArray[np.int64],
    found: NDArray[np.int32],
) -> None:
    """Count the groups near each point into ``start[i + 1]``; or list them from ``start[i]`` on, if there is room."""
    n_groups = small.shape[1]
    for i in range(first, last):
        c = 0
        for box in range(large.shape[1]):
            if _to_box(P, i, large, box, kind) > reach[i]:
                continue
            for g in range(box * GROUPS_PER_BOX, min(n_groups, (box + 1) * GROUPS_PER_BOX)):
                if _to_box(P, i, small, g, kind) > reach[i]:
                    continue
                for k in range(g * WIDTH, (g + 1) * WIDTH):
                    if apart(P, i, Q, k, kind) <= reach[i]:
                        if len(found):
                            found[start[i] + c] = g
                        c += 1
                        break
        if not len(found):
            start[i + 1] = c
