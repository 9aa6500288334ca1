"""Repair: any matrix over a lattice becomes a table that passes the exact check.

A bump that falls by ``exp(-0.3 epsilon distance)`` along each axis is added where a matrix is too steep: it is itself
not steep (about 0.42 epsilon at most), and helps by the rest of what it adds. Rows are normalised. What then is still
too steep is cured by adding a constant to the whole column, which always works; whole numbers are made of that, and
more of the constant is added until the exact check passes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from metricdp.mechanism.exact import TOTAL
from metricdp.mechanism.plane_certify import check_plane

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.problem.plane import PlaneProblem
    from metricdp.solve.plane.cones import Cones

BUMP_RATE = 0.3  # of epsilon, along each axis
ROOM = 1.0 - 1e-9  # of epsilon: what machines may differ by, and more
LEAST = 2.0**-40  # constant that is added to every column: far above the rounding to whole numbers of 2^-63
GROWTH = 4.0  # of the constant, each time the exact check does not pass
TRIES = 12


def private_matrix(Z: NDArray[np.float64], cones: Cones, epsilon: float) -> NDArray[np.float64]:
    """Return a matrix of floats near ``Z`` that satisfies the inequalities with a little room."""
    Z = np.where(np.isfinite(Z), np.maximum(Z, 0.0), 0.0)
    Z[~(Z.sum(axis=1) > 0)] = 1.0
    Z /= Z.sum(axis=1, keepdims=True)
    theta = epsilon * ROOM * cones.side
    excess = _excess(Z, cones, theta)
    heights = np.maximum(excess, 0.0) / (1.0 - math.sqrt(2.0) * BUMP_RATE)
    Z = Z + _bumps(heights, cones, epsilon)
    Z /= Z.sum(axis=1, keepdims=True)
    constant = np.maximum(_excess(Z, cones, theta).max(axis=0), 0.0) * (1.0 + 1e-9) + LEAST
    return (Z + constant) / (1.0 + constant.sum())


def private_table(Z: NDArray[np.float64], problem: PlaneProblem, cones: Cones) -> NDArray[np.uint64]:
    """Return a table of whole numbers that passes the exact check: that of ``Z``, or of a mixture with a constant."""
    region, share = problem.region, 0.0
    Z = private_matrix(Z, cones, problem.epsilon)
    flat = np.full(Z.shape[1], 1.0 / Z.shape[1])
    for _ in range(TRIES):
        table = whole((1.0 - share) * Z + share * flat)
        if check_plane(table, region.shape, problem.epsilon, region.sides).certified:
            return table
        share = min(1.0, max(1e-9, GROWTH * share))
    # equal rows tell nothing
    return np.tile(whole(flat[None]), (len(Z), 1))


def whole(Z: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return whole numbers near ``2^63 Z``, each row summing to 2^63 exactly.

    Examples
    --------
    >>> sum(whole(np.array([[0.7, 0.2, 0.1]])).tolist()[0]) == 2**63
    True
    """
    table = np.floor(Z / Z.sum(axis=1, keepdims=True) * float(TOTAL) * (1.0 - 2.0**-50)).astype(np.uint64)
    missing = np.uint64(TOTAL) - table.sum(axis=1, dtype=np.uint64)
    rows = np.arange(len(table))
    # spread over all entries, so that no column is moved by more than rounding would
    each = missing // np.uint64(table.shape[1])
    table += each[:, None]
    table[rows, Z.argmax(axis=1)] += missing - each * np.uint64(table.shape[1])
    return table


def _bumps(heights: NDArray[np.float64], cones: Cones, epsilon: float) -> NDArray[np.float64]:
    """Return what to add to each node, shape (nodes, K): the highest of all bumps there."""
    rows, columns = cones.shape
    bumps = heights.reshape(2 * rows - 3, 2 * columns - 3, -1)
    for axis in range(2):
        part = np.moveaxis(bumps, axis, 0)
        # a node takes part in the coefficients before it, at it and after it
        raised = np.zeros(((len(part) + 3) // 2, *part.shape[1:]))
        raised[:-1] = part[::2]
        raised[1:] = np.maximum(raised[1:], part[::2])
        raised[1:-1] = np.maximum(raised[1:-1], part[1::2])
        fall = math.exp(-BUMP_RATE * epsilon * cones.sides[axis])
        for order in (range(1, len(raised)), range(len(raised) - 2, -1, -1)):
            for i in order:
                before = i - 1 if order.step > 0 else i + 1
                np.maximum(raised[i], fall * raised[before], out=raised[i])
        bumps = np.moveaxis(raised, 0, axis)
    return bumps.reshape(rows * columns, -1)


def _excess(Z: NDArray[np.float64], cones: Cones, theta: float) -> NDArray[np.float64]:
    """Return how much is missing in u for each cone and output, shape (cones, K)."""
    terms = cones.terms(Z)
    return np.hypot(terms[:, 0], terms[:, 1]) / theta - terms[:, 2]
