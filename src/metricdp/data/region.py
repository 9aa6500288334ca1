"""Regions: a box of the plane or of the map, a lattice over it, and weights of the lattice's nodes at any point.

The box is divided into equal cells; where the nodes are, and which of them have a weight at a point, depends on the
kind of weights (`metricdp.data.weights`). docs/plane.md has the proofs.

**Projection.** A place (latitude, longitude) has the planar coordinates (R lat, R c lon). With c the least cosine of a
latitude that great circles between places of the box can reach, no planar distance is longer than the great circle:
on the sphere ``ds² = R² (dlat² + cos² lat dlon²) >= R² (dlat² + c² dlon²)`` all along it. Great circles reach beyond
the latitudes of their ends, but ``tan |lat| <= tan A / cos(W / 2)`` with A the largest latitude of the box and W its
width: a great circle is ``tan lat = tan i cos(lon - lon0)``, and if its vertex lon0 is between two places, it is within
W / 2 of one of them. So a promise in the plane is a promise by great circles, with nothing taken off, and in the other
direction the great circle is at most `Region.stretch` times longer.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.data.frozen import frozen
from metricdp.data.geodesy import EARTH_RADIUS_KM
from metricdp.data.records import Records
from metricdp.data.weights import KINDS, STEPS, Splines
from metricdp.errors import Faults, InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from metricdp.data.records import Kind
    from metricdp.data.weights import Weights

    Pair = tuple[float, float]

MAX_CELLS = 1 << 14  # each way
MAX_LATITUDE, MAX_WIDTH = 80.0, 30.0  # degrees: beyond it the projection would waste much of the budget
EPSILON_SPACING = 0.25  # epsilon times the default spacing
COSINE_ROUNDING = 2.0**-40  # relative; far above the error of tangents and cosines below 80 degrees
COSINE_STEPS = 1 << 32  # a cosine is a whole number of them, so that all machines and languages check with the same one
# math.pi is below pi
KM_PER_DEGREE = Fraction(str(EARTH_RADIUS_KM)) * Fraction(math.pi) / 180


@dataclass(frozen=True)
class Region:
    """A box, its cells, and what lies around it.

    Parameters
    ----------
    low, high
        The corners: latitude and longitude in degrees for places, else the two coordinates.
    cells
        How many cells each way.
    outer_low, outer_high
        The box of all points that may be moved to the border of the region; the projection is made for it.
    kind
        ``"places"`` or ``"vectors"``.
    weights
        The kind of weights: ``"bspline2"`` or ``"triangles"``.

    Examples
    --------
    >>> square = region(0.0, 0.0, 3.0, 2.0, spacing=0.5, kind="vectors")
    >>> square.cells, square.shape, square.records.n
    ((6, 4), (8, 6), 48)
    >>> rome = region(41.88, 12.46, 41.907, 12.496, spacing=0.1)
    >>> rome.cells, rome.stretch < 1.0007
    ((31, 30), True)
    """

    low: Pair
    high: Pair
    cells: tuple[int, int]
    outer_low: Pair
    outer_high: Pair
    kind: Kind = "places"
    weights: str = Splines.name

    def __post_init__(self) -> None:
        for name in ("low", "high", "outer_low", "outer_high"):
            object.__setattr__(self, name, _pair(getattr(self, name), name))  # of its own: nobody can change it later
        if not isinstance(self.cells, (tuple, list)) or len(self.cells) != 2:
            raise InputError(f"cells must be two whole numbers, got {type(self.cells).__name__}")
        object.__setattr__(self, "cells", tuple(self.cells))
        faults = Faults("the region")
        if self.weights not in KINDS:
            raise InputError(f"weights must be {' or '.join(KINDS)}, got {self.weights!r}")
        if self.kind not in ("places", "vectors"):
            raise InputError(f"kind must be 'places' or 'vectors', got {self.kind!r}")
        limits = (MAX_LATITUDE, 180.0) if self.kind == "places" else (math.inf, math.inf)
        for axis, name in enumerate(("latitude", "longitude") if self.kind == "places" else ("first", "second")):
            low, high, n = self.low[axis], self.high[axis], self.cells[axis]
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                faults.add(f"a region needs low < high, both finite, but its {name} goes from {low} to {high}")
                continue
            if not (type(n) is int and 1 <= n <= MAX_CELLS):
                got = "more" if type(n) is int and n > MAX_CELLS else repr(n) if type(n) is int else type(n).__name__
                faults.add(
                    f"a region has 1 to {MAX_CELLS:,} cells each way, got {got}: choose another spacing or take a part"
                )
                continue
            faults.check(
                self.outer_low[axis] <= low and high <= self.outer_high[axis], "what lies around must contain the box"
            )
            if not math.isfinite(high + (high - low)) or not math.isfinite(low - (high - low)):
                faults.add(f"a region's {name} must be far from the largest floats, but it goes from {low} to {high}")
                continue
            side = (high - low) / n
            reach = max(-self.outer_low[axis], side - low, self.outer_high[axis], high + side)
            faults.check(
                reach < limits[axis] or self.kind != "places",
                f"a region of places, with its margin and a cell more, must stay within {limits[axis]:g} degrees of "
                f"{name}, this one reaches {reach:.4g}: take a part of it",
            )
        faults.raise_if_any()
        if self.kind == "places" and self.outer_high[1] - self.outer_low[1] > MAX_WIDTH:
            raise InputError(f"a region may be {MAX_WIDTH:g} degrees wide with its margin: take a part of it")

    def nearest_nodes(self, points: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the node of the largest weight at each point."""
        rows, weights = self.weights_at(points)
        return np.asarray(rows[np.arange(len(rows)), weights.argmax(axis=1)])

    @property
    def lattice(self) -> Weights:
        """The kind of weights: where nodes are, and what they weigh."""
        return KINDS[self.weights]

    @property
    def shape(self) -> tuple[int, int]:
        """The number of nodes each way."""
        return self.lattice.shape(self.cells)

    @property
    def n_nodes(self) -> int:
        """The number of nodes."""
        return self.shape[0] * self.shape[1]

    @property
    def metric(self) -> str:
        """The metric of the promise."""
        return "haversine" if self.kind == "places" else "euclidean"

    @cached_property
    def hash(self) -> str:
        """SHA-256 of everything that defines the region, in hexadecimal."""
        corners = [value.hex() for pair in (self.low, self.high, self.outer_low, self.outer_high) for value in pair]
        parts = ["region", self.kind, corners, self.cells]
        if self.weights != Splines.name:
            parts.append(self.weights)
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @cached_property
    def cosine(self) -> float:
        """The scale c of longitudes, rounded down: no great circle between points around here has a smaller cosine."""
        if self.kind != "places":
            return 1.0
        steepest = math.tan(math.radians(max(abs(self.outer_low[0]), abs(self.outer_high[0]))))
        half = math.cos(math.radians(self.outer_high[1] - self.outer_low[1]) / 2.0)
        return math.floor((1.0 - COSINE_ROUNDING) / math.hypot(1.0, steepest / half) * COSINE_STEPS) / COSINE_STEPS

    @cached_property
    def sides(self) -> tuple[Fraction, Fraction]:
        """The sides of a cell in the plane (km for places), exact or rounded down."""
        unit = KM_PER_DEGREE if self.kind == "places" else Fraction(1)
        steps = [(Fraction(b) - Fraction(a)) / n for a, b, n in zip(self.low, self.high, self.cells, strict=True)]
        return steps[0] * unit, steps[1] * unit * Fraction(self.cosine)

    @cached_property
    def stretch(self) -> float:
        """The most by which a true distance in the region is longer than the planar one, rounded up; 1 for vectors."""
        if self.kind != "places":
            return 1.0
        least = 0.0 if self.low[0] <= 0.0 <= self.high[0] else min(abs(self.low[0]), abs(self.high[0]))
        return max(1.0, math.cos(math.radians(least)) / self.cosine) * (1.0 + 4.0 * COSINE_ROUNDING)

    @property
    def rounding(self) -> float:
        """How far a point is moved at most when it is rounded to a step of its cell, in the plane."""
        return math.hypot(*map(float, self.sides)) / STEPS * (1.0 + 1e-9)

    @cached_property
    def records(self) -> Records:
        """The nodes, row by row; ``r0c0`` is the first."""
        widths = [(b - a) / n for a, b, n in zip(self.low, self.high, self.cells, strict=True)]
        points = self.low + self.lattice.positions(self.cells) * widths
        ids = [f"r{i}c{j}" for i in range(self.shape[0]) for j in range(self.shape[1])]
        return Records(points, ids=ids, kind=self.kind, name="lattice of a region")

    @cached_property
    def inner(self) -> NDArray[np.int64]:
        """The numbers of the nodes inside the box: for splines the centres of cells."""
        return frozen(self.lattice.inner(self.cells))

    def is_outside(self, points: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return whether each point is outside the box."""
        return np.asarray(~((points >= self.low) & (points <= self.high)).all(axis=1))

    def is_beyond(self, points: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return whether each point is too far outside to be moved to the border."""
        is_within = (points >= self.outer_low) & (points <= self.outer_high) & np.isfinite(points)
        return np.asarray(~is_within.all(axis=1))

    def steps_of(self, points: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return each point as whole steps from the low corner, shape (n, 2); those outside move to the border.

        The errors of the floats are below 2^-36 of a cell, an eighth of what rounding to a step may move.
        """
        width = np.subtract(self.high, self.low)
        near = np.clip(points, self.low, self.high)  # before anything else, so that nothing can overflow
        share = np.clip(np.nan_to_num((near - self.low) / width), 0.0, 1.0)  # what is no number is outside
        return np.rint(share * self.cells * STEPS).astype(np.int64)

    def weights_at(self, points: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the nodes of each point and their weights in floats, shapes (n, m): for losses and plots."""
        return self.lattice.at(self.steps_of(np.asarray(points, dtype=np.float64)), self.cells)


def region(
    south: float,
    west: float,
    north: float,
    east: float,
    *,
    spacing: float | None = None,
    epsilon: float | None = None,
    margin: float | None = None,
    kind: Kind = "places",
    weights: str = Splines.name,
) -> Region:
    """Return a box with a lattice.

    Parameters
    ----------
    south, west, north, east
        Degrees; for ``kind="vectors"`` the low and then the high ends of the two coordinates.
    spacing
        The side of a cell at most, in km (or the unit of the vectors); 0.25 / ``epsilon`` if left out.
    margin
        How far outside, in the same unit, points may be moved to the border where that is asked for; a tenth of the
        longer side if left out. Vectors may be moved from anywhere.
    weights
        ``"bspline2"``, or ``"triangles"``: nearly equilateral ones, with sides of the spacing at most.
    """
    try:
        low, high = (float(south), float(west)), (float(north), float(east))
    except (TypeError, ValueError):
        raise InputError("a region needs four numbers: south, west, north, east") from None
    if spacing is None:
        if epsilon is None or not 0 < number_of(epsilon, "epsilon") < math.inf:
            got = "" if epsilon is None else f", got {epsilon}"
            raise InputError(f"give the spacing of the region's lattice, or a positive epsilon to choose it by{got}")
        spacing = EPSILON_SPACING / epsilon
    if not 0 < number_of(spacing, "the spacing") < math.inf:
        raise InputError(f"the spacing must be a positive length, got {spacing}")
    unbounded = (-math.inf, -math.inf), (math.inf, math.inf)
    fine = (MAX_CELLS, MAX_CELLS)
    outer = (low, high) if kind == "places" else unbounded
    box = Region(low, high, fine, *outer, kind, weights)  # checks the corners
    widths = [float(side * MAX_CELLS) for side in box.sides]
    if kind == "places":
        margin = max(widths) / 10.0 if margin is None else margin
        if not 0 <= number_of(margin, "the margin") < math.inf:
            raise InputError(f"the margin must be a length, zero or more, got {margin}")
        degrees = [margin * (b - a) / width for a, b, width in zip(low, high, widths, strict=True)]
        outer = (low[0] - degrees[0], low[1] - degrees[1]), (high[0] + degrees[0], high[1] + degrees[1])
    elif margin is not None:
        raise InputError("a margin is for places: vectors may be moved to the border from anywhere")

    def count(width: float, side: float) -> int:
        return max(1, math.ceil(min(width / side, 2 * MAX_CELLS) - 1e-9))

    columns = count(widths[1], spacing)
    height = spacing if weights == Splines.name else math.sqrt(0.75) * widths[1] / columns
    return Region(low, high, (count(widths[0], height), columns), *outer, kind, weights)


def _pair(values: Any, name: str) -> Pair:
    """Return two numbers in a tuple, or raise an error that names them."""
    if not isinstance(values, (tuple, list, np.ndarray)) or len(values) != 2:
        raise InputError(f"{name} must be two numbers, got {type(values).__name__}")
    return number_of(values[0], name), number_of(values[1], name)


def number_of(value: Any, what: str) -> float:
    """Return a number, or raise an error that names ``what``."""
    if isinstance(value, (bool, str)):
        raise InputError(f"{what} must be a number, got {value!r}")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{what} must be a number, got {type(value).__name__}") from None


def region_around(points: ArrayLike | Records, *, beyond: float = 0.0, **options: Any) -> Region:
    """Return the box around points, ``beyond`` km (or units) larger on each side, with a lattice as in `region`.

    The box contains the convex hull of the points, so it is more than is needed for a polygon.
    """
    records = points if isinstance(points, Records) else Records(points)
    if records.dimension != 2:
        raise InputError(f"a region needs points with two coordinates, got {records.dimension}")
    if not 0 <= number_of(beyond, "beyond") < math.inf:
        raise InputError(f"beyond must be a length, zero or more, got {beyond}")
    low, high = records.coordinates.min(axis=0), records.coordinates.max(axis=0)
    more = np.full(2, beyond)
    if records.kind == "places":
        more = beyond / float(KM_PER_DEGREE) / np.array([1.0, max(0.1, np.cos(np.radians(np.abs((low, high)).max())))])
    (south, west), (north, east) = (low - more).tolist(), (high + more).tolist()
    return region(south, west, north, east, kind=records.kind, **options)
