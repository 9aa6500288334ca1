"""Repair: any matrix over a lattice becomes a table that passes the exact check.

A bump that falls by ``exp(-0.6 epsilon distance)`` is added where a matrix is too steep: it is itself not steep, and
helps by the rest of what it adds. Rows are normalised, and both are done some times: many small bumps add less than one
that cures everything. What then is still too steep is cured by adding a constant to the whole column, which always
works; whole numbers are made of that, and more of the constant is added until the exact check passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from metricdp.mechanism.exact import TOTAL
from metricdp.mechanism.plane_certify import check_plane
from metricdp.metric.closure import parallel_is_safe
from metricdp.solve.plane.bumps import STEPS, add_bumps, most_missing
from metricdp.solve.solvers.firstorder.threads import in_threads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.problem.plane import PlaneProblem
    from metricdp.solve.plane.cones import Cones

BUMP_RATE = 0.6  # of epsilon: how fast bumps fall
BUMP_GAIN = 1.0  # of what is missing; with 1 / (1 - rate) nothing is missing at once, but more is added than needed
ROUNDS = 8  # of bumps and unit sums
PARALLEL_FROM = 500_000  # entries
ROOM = 1.0 - 1e-9  # of epsilon: what machines may differ by, and more
LEAST = 2.0**-40  # constant that is added to every column: far above the rounding to whole numbers of 2^-63
GROWTH = 4.0  # of the constant, each time the exact check does not pass
TRIES = 12


def private_matrix(Z: NDArray[np.float64], cones: Cones, epsilon: float) -> NDArray[np.float64]:
    """Return a matrix of floats near ``Z`` that satisfies the inequalities with a little room."""
    columns = np.where(np.isfinite(Z.T), np.maximum(Z.T, 0.0), 0.0)
    columns[:, ~(columns.sum(axis=0) > 0)] = 1.0
    columns /= columns.sum(axis=0)
    theta, (kinds, factors) = epsilon * ROOM * cones.side, cones.kinds
    lengths = np.hypot(*(STEPS * cones.sides).T)
    falls = np.exp(-BUMP_RATE * epsilon * lengths)
    is_large = columns.size >= PARALLEL_FROM and parallel_is_safe()
    most = np.zeros(len(columns))

    def add(first: int, last: int) -> None:
        add_bumps(first, last, columns, cones.shape, kinds, factors, theta, STEPS, falls, BUMP_GAIN)

    def look(first: int, last: int) -> None:
        most_missing(first, last, columns, cones.shape, kinds, factors, theta, most)

    for _ in range(ROUNDS):
        in_threads(add, len(columns), is_large=is_large)
        np.divide(columns, columns.sum(axis=0), out=columns)
    in_threads(look, len(columns), is_large=is_large)
    constant = np.maximum(most, 0.0) * (1.0 + 1e-9) + LEAST
    columns += constant[:, None]
    columns /= 1.0 + constant.sum()
    return np.ascontiguousarray(columns.T)


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
