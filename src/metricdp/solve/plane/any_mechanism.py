"""A bound for any mechanism over a region, from some of its points as records.

A mechanism that protects all points also protects some of them from one another, so it is one for these as records:
no bound of an ordinary problem for them is above its loss. They are the places of the prior, the outputs, and, where
these leave room, centres of cells that nobody is at: rows there cost nothing, but they too must sum to 1, which raises
the bound where places are sparse. Only records near one another are compared: fewer rows can only lower it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial import cKDTree

from metricdp.data.records import Records
from metricdp.metric.distances import CoordinateMetric
from metricdp.problem.memory_model import pairs_within
from metricdp.problem.problem import Problem
from metricdp.solve.solve import solve
from metricdp.solve.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from metricdp.problem.plane import PlaneProblem
    from metricdp.solve.result import Result

GAP = 0.005  # at which it stops
PAIRS_PER_RECORD = 50.0  # that are compared; fewer only lower it
CELLS_APART = 3.2  # and at least these
LEAST_SECONDS = 0.1  # that a run is given, however late
BETWEEN = 0.8  # in units of 1 / epsilon: how far apart centres of cells are taken; from places half as far


def any_mechanism_bound(
    problem: PlaneProblem,
    *,
    time_limit: float | None = None,
    listener: Callable[[dict[str, Any]], None] | None = None,
) -> Result | None:
    """Return a run whose lower bound holds for any mechanism over the region that reports these outputs.

    None if it was interrupted before it began.
    """
    stop = Stop(time_limit)
    with stop.on_interrupt():
        records = compared(problem)
    if stop.is_end_requested:
        return None
    left = None if time_limit is None else max(stop.seconds_left, LEAST_SECONDS)
    return solve(records, gap=GAP, time_limit=left, listener=listener)


def compared(problem: PlaneProblem) -> Problem:
    """Return the ordinary problem for some points of the region, the places of its prior first."""
    places, outputs, metric = problem.places, problem.outputs.coordinates, CoordinateMetric(problem.region.metric)
    points = np.vstack([places.coordinates, _between(problem)])
    records = Records(points, prior=np.concatenate([places.prior, np.zeros(len(points) - places.n)]), kind=places.kind)
    rows = _rows_of(outputs, points)
    is_distance = np.array_equal(problem.losses, metric.between(places.coordinates, outputs))
    as_rows = rows is not None and is_distance  # then windows around the outputs can be taken
    losses = np.vstack([problem.losses, np.zeros((len(points) - places.n, problem.n_outputs))])
    return Problem(
        records,
        epsilon=problem.epsilon,
        eta=_compared_within(problem, records),
        outputs=rows if as_rows else outputs,
        loss="distance" if as_rows else losses,
        metric=problem.region.metric,
    )


def _between(problem: PlaneProblem) -> NDArray[np.float64]:
    """Return centres of cells that are far from every place, at most as many as there are places."""
    region, places = problem.region, problem.places.coordinates
    width = np.subtract(region.high, region.low) / region.cells
    sides = [float(side) for side in region.sides]
    nearest, apart = cKDTree(places / width * sides), BETWEEN / problem.epsilon  # in the plane, where it is quick
    strides = [max(1, round(apart / side)) for side in sides]
    while True:
        chosen_lines = (
            np.arange(stride // 2, n, stride) + 0.5 for stride, n in zip(strides, region.cells, strict=True)
        )
        chosen = region.low + np.stack(np.meshgrid(*chosen_lines, indexing="ij"), axis=-1).reshape(-1, 2) * width
        chosen = chosen[nearest.query(chosen / width * sides)[0] > apart / 2.0]
        if len(chosen) <= len(places):
            return chosen
        strides = [stride + 1 for stride in strides]


def _rows_of(outputs: NDArray[np.float64], points: NDArray[np.float64]) -> NDArray[np.int64] | None:
    """Return the row of each output among the points, or None if one is not there or comes twice."""
    row_of = {tuple(point): row for row, point in reversed(list(enumerate(points.tolist())))}
    rows = [row_of.get(tuple(output)) for output in outputs.tolist()]
    if None in rows or len(set(rows)) < len(rows):
        return None
    return np.array(rows, dtype=np.int64)


def _compared_within(problem: PlaneProblem, records: Records) -> float:
    """Return the distance within which there are some fifty pairs for each record, and at least a few cells."""
    sides = [float(side) for side in problem.region.sides]
    least = CELLS_APART * max(sides)
    most = math.hypot(*(side * n for side, n in zip(sides, problem.region.cells, strict=True)))
    if records.n <= 2 * PAIRS_PER_RECORD:
        return 2.0 * most
    metric, low, high = CoordinateMetric(problem.region.metric), 0.0, 2.0 * most
    for _ in range(40):
        middle = 0.5 * (low + high)
        is_enough = pairs_within(records, metric, middle) > PAIRS_PER_RECORD * records.n
        low, high = (low, middle) if is_enough else (middle, high)
    return max(least, high)
