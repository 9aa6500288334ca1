"""A bound for any mechanism over a region where there are too many places to compare one by one: groups of places.

The mean row of a group of places is a distribution. For two groups whose members are at most D apart these rows are
private at epsilon D, and with each output at the least that it costs any member no loss is overstated. So the optimum
for groups as records, at these distances and costs, is below the loss of any mechanism that protects the places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import metricdp as mdp
from metricdp.data.geodesy import haversine_km

if TYPE_CHECKING:
    from metricdp.solve.result import Result

ROUNDING = 1.0 + 1e-9  # of distances between groups, which may only be too long


def grouped_bound(problem: mdp.PlaneProblem, side: float, eta: float, *, time_limit: float) -> Result:
    """Return a run whose lower bound holds for any mechanism: squares of ``side`` km, compared within ``eta``."""
    places, region = problem.places, problem.region
    scale = np.array([float(one) for one in region.sides]) * region.cells / np.subtract(region.high, region.low)
    squares = np.floor((places.coordinates - region.low) * scale / side).astype(int)
    _, group = np.unique(squares, axis=0, return_inverse=True)
    group = group.ravel()
    sizes = np.bincount(group)
    centres = np.stack([np.bincount(group, weights=column) / sizes for column in places.coordinates.T], axis=1)
    radius = np.zeros(len(sizes))
    np.maximum.at(radius, group, haversine_km(places.coordinates, centres[group]))
    away = haversine_km(centres[:, None], centres[None]) + radius[:, None] + radius[None]
    away = np.maximum(away, away.T) * ROUNDING
    np.fill_diagonal(away, 0.0)
    costs = np.full((len(sizes), problem.n_outputs), np.inf)
    np.minimum.at(costs, group, problem.losses)
    numbers = np.arange(float(len(sizes)))[:, None]
    records = mdp.Records(numbers, kind="vectors", prior=np.bincount(group, weights=places.prior))
    groups = mdp.Problem(
        records,
        epsilon=problem.epsilon,
        eta=eta,
        outputs=np.zeros((problem.n_outputs, 1)),  # any points: the costs are given
        loss=costs,
        metric=away,
    )
    return mdp.solve(groups, gap=0.01, time_limit=time_limit)
