"""Distances between the directions of vectors: the angle, and one less its cosine.

``angular`` is the angle in radians, from 0 to pi: a metric of directions. ``cosine`` is ``1 - cos``, from 0 to 2, as
language models use it. It is **no metric**: two short steps may be shorter than the direct way (1 - cos of two angles
of 45 degrees is 0.586 together, and 1 at 90 degrees). A mechanism keeps its promise for every pair of neighbours all
the same, and along every path of neighbours by the sum of its steps, which may then be less than the direct distance:
more privacy than the distance says, never less. What needs the triangle inequality (snapping of points, the promises
of the exponential mechanism and of noise) is not offered for it.

Both look at directions only, so vectors that are multiples of one another are in one place. With u and v the unit
vectors, the chord ``c = |u - v|`` gives ``1 - cos = c^2 / 2`` and the angle ``2 asin(c / 2)``; an obtuse angle is pi
less that to the opposite direction. Near 0 such a distance has no small relative error, but a small absolute one:
see `DirectionMetric.error`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from metricdp.errors import InputError
from metricdp.metric.distances import MAX_TREE_DIMENSION, SMALLEST_FOR_TREE, CoordinateMetric
from metricdp.metric.rounding import STORED_MARGIN, UNIT_ROUNDOFF

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from metricdp.data.records import Records

CHORD = CoordinateMetric("euclidean")
SEARCHED_MARGIN = 8  # multiples of the error, more than any that distances are rounded down by


class DirectionMetric(CoordinateMetric):
    """The angle between vectors in radians (``angular``), or one less its cosine (``cosine``, which is no metric).

    Examples
    --------
    >>> right = np.array([[2.0, 0.0]]), np.array([[0.0, 3.0]])
    >>> [DirectionMetric(name).elementwise(*right).round(6).tolist() for name in ("angular", "cosine")]
    [[1.570796], [1.0]]
    """

    NAMES: ClassVar[tuple[str, ...]] = ("angular", "cosine")

    def __repr__(self) -> str:
        return f"DirectionMetric({self.name!r})"

    def elementwise(self, a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
        u, v = unit_vectors(a), unit_vectors(b)
        chord = CHORD.elementwise(u, v)
        return self._of_chords(chord, lambda: CHORD.elementwise(u, -v))

    def between(self, a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
        u, v = unit_vectors(a), unit_vectors(b)
        return self._of_chords(cdist(u, v), lambda: cdist(u, -v))

    def _of_chords(
        self, chord: NDArray[np.float64], opposite: Callable[[], NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Return the distances of chords; ``opposite`` makes the chords to the opposite directions."""
        if self.name == "cosine":
            return 0.5 * chord**2
        other = opposite()
        short, long = (2.0 * np.arcsin(np.minimum(1.0, 0.5 * length)) for length in (chord, other))
        return np.where(chord <= other, short, math.pi - long)

    def error(self, dimension: int) -> float:
        """Return how far `elementwise` can be off, absolutely, in so many dimensions, on any machine.

        In units of 2^-53: each entry of a unit vector is off by D/2 + 4 of itself, so both ends of a chord move it by
        at most D + 8, and its own arithmetic by D + 8 of a chord of at most 2: together 3 (D + 8). An angle of at most
        90 degrees changes by at most 1.42 times as much as its chord, and an arcsine good to 4 units in the last place
        adds 16; half a square changes by at most 2 times as much, and adds 4. So it is less than 7 (D + 8).
        """
        return 8.0 * (dimension + 8) * UNIT_ROUNDOFF

    def rounding(self, dimension: int) -> float:
        """Return 0: the error is not a relative one, see `error`."""
        return 0.0

    def rounded_down(
        self, a: NDArray[np.float64], b: NDArray[np.float64], *, margin: int = STORED_MARGIN
    ) -> NDArray[np.float64]:
        """Return the distance of each row of ``a`` to the same row of ``b``, less ``margin`` times the error, or 0.

        Examples
        --------
        >>> a, b = np.array([[1.0, 2.0], [1.0, 0.0]]), np.array([[2.0, 4.0], [-1.0, 0.0]])
        >>> below = DirectionMetric("cosine").rounded_down(a, b)
        >>> float(below[0]), 0 < 2.0 - below[1] < 1e-13
        (0.0, np.True_)
        """
        return np.maximum(self.elementwise(a, b) - margin * self.error(a.shape[-1]), 0.0)

    def check_fits(self, records: Records) -> None:
        if records.kind == "places":
            raise InputError(
                f"the {self.name} metric measures directions of vectors: use metric='haversine' for places"
            )

    def _search(self, points: NDArray[np.float64], eta: float) -> tuple[cKDTree, float, float] | None:
        if points.shape[1] > MAX_TREE_DIMENSION:
            return None
        return cKDTree(unit_vectors(points)), self._chord(eta, points.shape[1]), SMALLEST_FOR_TREE

    def _near_by_blocks(self, points: NDArray[np.float64], eta: float) -> Iterator[NDArray[np.int64]]:
        yield from super()._near_by_blocks(unit_vectors(points), self._chord(eta, points.shape[1]))

    def _chord(self, eta: float, dimension: int) -> float:
        """Return a chord that is not shorter than that of any pair whose rounded-down distance is within ``eta``."""
        reach = eta + SEARCHED_MARGIN * self.error(dimension)
        return min(2.0, math.sqrt(2.0 * reach)) if self.name == "cosine" else 2.0 * math.sin(min(reach, math.pi) / 2.0)


def unit_vectors(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return vectors of length 1 in the same directions, shape (..., D); the zero vector has no direction."""
    largest = np.abs(points).max(axis=-1)
    if not largest.all():
        raise InputError("a vector of zeros has no direction: leave it out, or use metric='euclidean'")
    _, exponent = np.frexp(largest)
    scaled = np.ldexp(points, -exponent[..., None])  # by powers of two, exactly, so that no square overflows
    return scaled / np.sqrt((scaled**2).sum(axis=-1))[..., None]


COORDINATE_NAMES = (*CoordinateMetric.NAMES, *DirectionMetric.NAMES)
"""The metrics whose pairs follow from the coordinates alone."""


def coordinate_metric(name: str) -> CoordinateMetric:
    """Return the metric of coordinates or of directions called ``name``."""
    return DirectionMetric(name) if name in DirectionMetric.NAMES else CoordinateMetric(name)
