"""Triangles by an ordinary problem: nodes as records, protected from their neighbours, at a part of the budget.

Let z be an output's values at the corners of a triangle, m the least of them, and no corner more than r m above
another that it shares a side with. The gradient is linear in z, so its length is largest where each corner has m or
(1 + r) m: where one differs from the other two, and then it is r m over an altitude. So if

    ratio along each side <= 1 + epsilon a,    a the least altitude,

then |grad| <= epsilon m. An ordinary mechanism for the nodes with epsilon' = ln(1 + epsilon a) / (longest side) and
neighbours along sides has that. Equilateral triangles have a = sqrt(3)/2 sides: epsilon' = 0.784 epsilon where epsilon
times the side is 0.25. What comes out is checked by the inequalities of triangles, exactly, at epsilon itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.data.records import Records
from metricdp.problem.problem import Problem
from metricdp.solve.solve import solve

if TYPE_CHECKING:
    from collections.abc import Callable

    from metricdp.data.region import Region
    from metricdp.problem.plane import PlaneProblem
    from metricdp.solve.result import Result

ROOM = 1.0 - 1e-9  # of epsilon': far above the rounding of its logarithm and of distances
GAP = 0.002  # at which the ordinary problem stops
NEAR = 1.0 + 1e-6  # of the longest side: next but one are sqrt(3) sides apart


def edge_epsilon(region: Region, epsilon: float) -> tuple[float, float]:
    """Return epsilon' and the longest side of the triangles.

    Examples
    --------
    >>> from metricdp.data import region
    >>> square = region(0.0, 0.0, math.sqrt(0.75) * 8, 8.0, spacing=1.0, kind="vectors", weights="triangles")
    >>> round(edge_epsilon(square, 0.25)[0] / 0.25, 3)
    0.784
    """
    height, base = (float(side) for side in region.sides)
    slanted = math.hypot(height, base / 2.0)
    longest = max(base, slanted)
    altitude = base * height / longest  # the least one is on the longest side
    return math.log1p(epsilon * altitude) / longest * ROOM, longest


def edge_result(
    problem: PlaneProblem,
    *,
    time_limit: float | None = None,
    memory_limit: float | None = None,
    listener: Callable[[dict[str, Any]], None] | None = None,
) -> Result:
    """Return the run of an ordinary problem for the nodes, whose table is one for the triangles of a region."""
    region = problem.region
    rate, longest = edge_epsilon(region, problem.epsilon)
    sides = [float(side) for side in region.sides]
    cells = np.subtract(region.high, region.low) / region.cells  # in the coordinates' own unit
    ordinary = Problem(
        Records(region.lattice.positions(region.cells) * sides, kind="vectors"),
        epsilon=rate,
        eta=longest * NEAR,
        outputs=(problem.outputs.coordinates - region.low) / cells * sides,
        loss=problem.costs * problem.n_nodes,  # of a uniform prior: costs have the true one in them
        metric="euclidean",
        memory_limit=memory_limit,
    )
    return solve(ordinary, gap=GAP, time_limit=time_limit, listener=listener)
