"""Points whose distances compiled code computes one at a time: sums of many of them without any matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import njit, prange
from scipy.spatial.distance import cdist

from metricdp.data.geodesy import EARTH_RADIUS_KM
from metricdp.metric.distances import LARGEST_FOR_TREE, SPHERE_ROUNDING, CoordinateMetric, on_sphere
from metricdp.metric.simd import WIDTH

if TYPE_CHECKING:
    from numpy.typing import NDArray

ARC, EUCLIDEAN, MANHATTAN = 0, 1, 2
FEW_DIMENSIONS = 3  # up to which a distance costs a few nanoseconds
SHORT_CHORD = 0.02  # of the unit sphere, below which four terms of the arcsine have all digits
# places within it of their middle are at most 1.8 apart: an arc is then off by less than 3 times what its chord is off
LARGEST_CAP = 0.9
QUARTER_CHORD = 1.4  # of the unit sphere: arcs of shorter chords are concave in the chord's square
CELL_POINTS = 64


@dataclass(frozen=True, eq=False)
class Space:
    """Two lists of points, and the distance from each of the first to each of the second.

    Parameters
    ----------
    here, there
        Points, shapes (N, D) and (M, D): of the unit sphere for `ARC`.
    kind
        `ARC`, `EUCLIDEAN` or `MANHATTAN`.
    unit
        What the distance of the points is multiplied by.
    slack
        How far a distance can be off, absolutely, besides the relative error of `rounding`.
    """

    here: NDArray[np.float64]
    there: NDArray[np.float64]
    kind: int
    unit: float = 1.0
    slack: float = 0.0

    @classmethod
    def of(cls, metric: object, here: NDArray[np.float64], there: NDArray[np.float64]) -> Space | None:
        """Return the space of a metric of coordinates; None for other metrics and for places all over the Earth."""
        if type(metric) is not CoordinateMetric:
            return None
        if metric.name != "haversine":
            if max(np.abs(here).max(), np.abs(there).max()) > LARGEST_FOR_TREE:
                return None
            return cls(
                np.ascontiguousarray(here),
                np.ascontiguousarray(there),
                MANHATTAN if metric.name == "manhattan" else EUCLIDEAN,
            )
        a, b = on_sphere(here), on_sphere(there)
        middle = a.mean(axis=0)
        if max(np.linalg.norm(points - middle, axis=1).max() for points in (a, b)) > LARGEST_CAP:
            return None
        return cls(a, b, ARC, EARTH_RADIUS_KM, 3.0 * SPHERE_ROUNDING * EARTH_RADIUS_KM)

    def rounding(self, n_terms: int) -> float:
        """Return the largest relative error of a sum of so many distances with weights, added one after the other.

        A distance has at most D + 30 roundings, a weight and a product 2, a sum one for each term, and sums along
        a line three times as many.
        """
        return (4.0 * n_terms + self.here.shape[1] + 32.0) * 2.0**-53

    @property
    def flipped(self) -> Space:
        """The distances from the second points to the first."""
        return Space(self.there, self.here, self.kind, self.unit, self.slack)

    @property
    def is_cheap(self) -> bool:
        """Whether a distance costs only a few operations."""
        return self.here.shape[1] <= FEW_DIMENSIONS

    @property
    def _is_small(self) -> bool:
        """Whether all chords are short."""
        both = np.vstack((self.here, self.there))
        return bool(np.linalg.norm(np.ptp(both, axis=0)) < SHORT_CHORD)

    def part(self, here: NDArray[np.int64] | slice, there: NDArray[np.int64] | slice) -> Space:
        """Return the distances from some of the first points to some of the second."""
        return Space(self.here[here], self.there[there], self.kind, self.unit, self.slack)

    def between(self, i: NDArray[np.int64], k: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the distance from each of the points ``i`` to the point of ``k`` at the same place."""
        found = np.empty(len(i))
        _between(self.here, self.there, self.kind, self.unit, i, k, found)
        return found

    def matrix(self) -> NDArray[np.float64]:
        """Return all distances, shape (N, M): for parts that are small enough."""
        if self.kind == MANHATTAN:
            return self.unit * cdist(self.here, self.there, "cityblock")
        found = cdist(self.here, self.there)
        return self.unit * (2.0 * np.arcsin(np.minimum(1.0, 0.5 * found)) if self.kind == ARC else found)

    def sums(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``sum_k w_k d(i, k)`` of each of the first points, shape (N,), for weights (M,) of at least 0."""
        found = np.zeros(len(self.here))
        if self.kind == MANHATTAN:
            for here, there in zip(self.here.T, self.there.T, strict=True):
                found += _sums_on_a_line(here, there, weights)
            return self.unit * found
        matters = np.flatnonzero(weights)
        there, weights = self.there[matters], weights[matters]
        if self.is_cheap and (self.kind == EUCLIDEAN or self._is_small):
            flat = [np.ascontiguousarray(axis) for axis in np.pad(there, ((0, 0), (0, 3 - there.shape[1]))).T]
            short = self.kind == ARC
            _short_sums(np.pad(self.here, ((0, 0), (0, 3 - there.shape[1]))), *flat, short, weights, found)
            return self.unit * found
        _sums(self.here, there, self.kind, self.unit, weights, found)
        return found

    def sums_above(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return numbers that are not below `sums`, and hardly above them, for very many points.

        Points that lie together are one cell with their weighted middle c. A distance is a concave function of its
        square (of an arc: of that of its chord, up to a quarter of the Earth's circumference), so the mean distance to
        a cell is at most that function of the mean square, which is ``|x - c|^2`` and the cell's mean square about c.
        Seen from afar that is too much by the square of the cell's radius over twice the distance.
        """
        matters = np.flatnonzero(weights)
        both = np.vstack((self.here, self.there))
        if self.kind == MANHATTAN or (self.kind == ARC and np.linalg.norm(np.ptp(both, axis=0)) > QUARTER_CHORD):
            return self.sums(weights)
        order = matters[kd_order(self.there[matters])]
        points, mass = self.there[order], weights[order]
        first = np.arange(0, len(order), CELL_POINTS)
        total = np.add.reduceat(mass, first)
        centre = np.add.reduceat(mass[:, None] * points, first, axis=0) / total[:, None]
        away = points - np.repeat(centre, np.diff(np.append(first, len(order))), axis=0)
        spread = np.add.reduceat(mass * (away * away).sum(axis=1), first) / total
        found = np.zeros(len(self.here))
        _cell_sums(self.here, np.ascontiguousarray(centre), spread, total, self.kind == ARC, found)
        return self.unit * found

    def sums_at(
        self, indptr: NDArray[np.int64], columns: NDArray[np.int32], weights: NDArray[np.uint64]
    ) -> NDArray[np.float64]:
        """Return ``sum_k w_ik d(i, k)`` over the stored weights of each row, shape (N,)."""
        found = np.zeros(len(self.here))
        _sums_at(self.here, self.there, self.kind, self.unit, indptr, columns, weights, found)
        return found


def kd_order(points: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return an order of points in which groups of 8 are near one another: halves of halves along the widest axis."""
    done: list[NDArray[np.int64]] = []
    waiting = [np.arange(len(points))]
    while waiting:
        part = waiting.pop()
        if len(part) <= WIDTH:
            done.append(part)
            continue
        inside = points[part]
        axis = int(np.argmax(np.ptp(inside, axis=0)))
        part = part[np.argsort(inside[:, axis], kind="stable")]
        half = max(1, -(-len(part) // WIDTH) // 2) * WIDTH
        waiting += [part[half:], part[:half]]
    return np.concatenate(done)


@njit(cache=True, nogil=True, inline="always")
def distance(kind: int, unit: float, a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return the distance of two points of a space, shape (D,) each."""
    total = 0.0
    if kind == MANHATTAN:
        for t in range(len(a)):
            total += abs(a[t] - b[t])
        return unit * total
    for t in range(len(a)):
        total += (a[t] - b[t]) * (a[t] - b[t])
    if kind == EUCLIDEAN:
        return unit * np.sqrt(total)
    if total < SHORT_CHORD * SHORT_CHORD:
        return unit * np.sqrt(total) * (1.0 + total * (1.0 / 24.0 + total * (3.0 / 640.0 + total * (5.0 / 7168.0))))
    return unit * 2.0 * np.arcsin(min(1.0, 0.5 * np.sqrt(total)))


@njit(cache=True, nogil=True, parallel=True, fastmath={"reassoc", "contract"})
def _short_sums(  # noqa: PLR0917
    here: NDArray[np.float64],
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    z: NDArray[np.float64],
    is_arc: bool,
    weights: NDArray[np.float64],
    found: NDArray[np.float64],
) -> None:
    """Add up several distances at a time: straight ones, or arcs of short chords."""
    bent = 1.0 if is_arc else 0.0
    for i in prange(len(here)):
        a, b, c = here[i, 0], here[i, 1], here[i, 2]
        total = 0.0
        for k in range(len(x)):
            square = (x[k] - a) * (x[k] - a) + (y[k] - b) * (y[k] - b) + (z[k] - c) * (z[k] - c)
            bend = bent * square
            curve = bend * (1.0 / 24.0 + bend * (3.0 / 640.0 + bend * (5.0 / 7168.0)))
            total += weights[k] * np.sqrt(square) * (1.0 + curve)
        found[i] = total


@njit(cache=True, nogil=True, parallel=True)
def _cell_sums(  # noqa: PLR0917
    here: NDArray[np.float64],
    centre: NDArray[np.float64],
    spread: NDArray[np.float64],
    total: NDArray[np.float64],
    is_arc: bool,
    found: NDArray[np.float64],
) -> None:
    """Add up the largest mean distance that each cell can have."""
    for i in prange(len(here)):
        value = 0.0
        for c in range(len(total)):
            square = spread[c]
            for t in range(here.shape[1]):
                square += (here[i, t] - centre[c, t]) * (here[i, t] - centre[c, t])
            length = np.sqrt(square)
            value += total[c] * (2.0 * np.arcsin(min(1.0, 0.5 * length)) if is_arc else length)
        found[i] = value


@njit(cache=True, nogil=True, parallel=True)
def _sums(  # noqa: PLR0917
    here: NDArray[np.float64],
    there: NDArray[np.float64],
    kind: int,
    unit: float,
    weights: NDArray[np.float64],
    found: NDArray[np.float64],
) -> None:
    for i in prange(len(here)):
        total = 0.0
        for k in range(len(there)):
            total += weights[k] * distance(kind, unit, here[i], there[k])
        found[i] = total


@njit(cache=True, nogil=True, parallel=True)
def _sums_at(  # noqa: PLR0917
    here: NDArray[np.float64],
    there: NDArray[np.float64],
    kind: int,
    unit: float,
    indptr: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.uint64],
    found: NDArray[np.float64],
) -> None:
    for i in prange(len(here)):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            total += float(weights[e]) * distance(kind, unit, here[i], there[columns[e]])
        found[i] = total


@njit(cache=True, nogil=True)
def _between(  # noqa: PLR0917
    here: NDArray[np.float64],
    there: NDArray[np.float64],
    kind: int,
    unit: float,
    i: NDArray[np.int64],
    k: NDArray[np.int64],
    found: NDArray[np.float64],
) -> None:
    for e in range(len(i)):
        found[e] = distance(kind, unit, here[i[e]], there[k[e]])


def _sums_on_a_line(
    here: NDArray[np.float64], there: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return ``sum_k w_k |x_i - y_k|``: from sums over the sorted y, left and right of each x, without cancellation."""
    order = np.argsort(there, kind="stable")
    y, w = there[order], weights[order]
    steps = np.diff(y, prepend=y[:1])
    # the cost of bringing all weight left of each y to it, and all weight right of it
    mass_left = np.concatenate(([0.0], np.cumsum(w)))
    mass_right = np.concatenate((np.cumsum(w[::-1])[::-1], [0.0]))
    cost_left = np.cumsum(steps * mass_left[:-1])
    cost_right = np.concatenate((np.cumsum((np.diff(y) * mass_right[1:-1])[::-1])[::-1], [0.0]))
    place = np.searchsorted(y, here)  # the first y that is not left of x
    before, after = np.maximum(place - 1, 0), np.minimum(place, len(y) - 1)
    left = np.where(place > 0, cost_left[before] + mass_left[place] * (here - y[before]), 0.0)
    right = np.where(place < len(y), cost_right[after] + mass_right[place] * (y[after] - here), 0.0)
    return left + right
