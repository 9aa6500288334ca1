"""Expected losses of simple mechanisms whose tables would not fit into memory, from a sample, with standard errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import cKDTree

from metricdp.errors import InputError
from metricdp.evaluate.plane_noise import planar_metric
from metricdp.evaluate.utility import output_distances
from metricdp.evaluate.word_noise import noisy_words
from metricdp.metric.distances import on_sphere
from metricdp.metric.space import ARC, Space
from metricdp.problem.loss_space import space_of
from metricdp.problem.losses import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from metricdp.problem.problem import Problem

SAMPLED_ROWS = 400  # records of which the whole row is computed
SAMPLED_POINTS = 20_000  # noisy points that are moved to their nearest output
REMAPPED_POINTS = 2_000  # noisy points for which the best output is looked for
NEAREST_OUTPUTS = 200  # among which it is looked for
REACH = 12.0  # in units of 1 / epsilon: records beyond it have next to no part in a posterior


@dataclass(frozen=True)
class Estimate:
    """The expected loss of a mechanism that is not built, its standard error, and how it was found."""

    name: str
    loss: float
    standard_error: float
    note: str


def estimate(name: str, problem: Problem, *, effort: float = 1.0) -> Estimate:
    """Return the expected loss of the mechanism called ``name``; an error if only its table would tell.

    ``effort`` is the share of the usual sample that is drawn.
    """
    if name not in ESTIMATES:
        raise InputError(
            f"its table of {problem.n_records} records and {problem.n_outputs} outputs is too large to be made here"
        )
    losses, note = ESTIMATES[name](problem, effort)
    return Estimate(name, float(losses.mean()), float(losses.std(ddof=1) / math.sqrt(len(losses))), note)


def _exponential(problem: Problem, effort: float) -> tuple[NDArray[np.float64], str]:
    rows = _drawn(problem, _n(SAMPLED_ROWS, effort))
    distances = output_distances(problem)
    if distances is None:
        raise InputError(f"distances to the outputs are not known for the metric {problem.metric.name!r}")
    exponents = -0.5 * problem.epsilon * distances.block(rows, EVERYTHING)
    weights = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    losses = (weights * problem.losses.block(rows, EVERYTHING)).sum(axis=1) / weights.sum(axis=1)
    return losses, f"{promised('guarantees epsilon', problem)}; {len(rows)} rows drawn by the prior"


def _snapped(problem: Problem, effort: float) -> tuple[NDArray[np.float64], str]:
    rows, points = _noisy(problem, _n(SAMPLED_POINTS, effort))
    _, to = _tree(problem, problem.outputs.coordinates).query(_flat(problem, points))
    return _losses(problem).between(rows, to.astype(np.int64)), f"guarantees epsilon; {len(rows):,} noisy points"


def _remapped(problem: Problem, effort: float) -> tuple[NDArray[np.float64], str]:
    rows, points = _noisy(problem, _n(REMAPPED_POINTS, effort))
    space, flat = _losses(problem), _flat(problem, points)
    nearest = min(NEAREST_OUTPUTS, problem.n_outputs)
    _, outputs = _tree(problem, problem.outputs.coordinates).query(flat, k=nearest)
    here = _tree(problem, problem.records.coordinates)
    metric = planar_metric(problem)
    best = np.empty(len(rows), dtype=np.int64)
    for at, (point, candidates) in enumerate(zip(points, outputs.reshape(len(rows), nearest), strict=True)):
        near = np.array(here.query_ball_point(flat[at], _reach(problem)), dtype=np.int64)
        away = metric.between(point[None], problem.records.coordinates[near])[0]
        weights = problem.records.prior[near] * np.exp(-problem.epsilon * away)
        best[at] = candidates[space.part(near, candidates).flipped.sums(weights).argmin()]
    note = f"guarantees epsilon; {len(rows):,} noisy points, each with the best of its {nearest} nearest outputs"
    return space.between(rows, best), note


def promised(words: str, problem: Problem) -> str:
    """Return what a mechanism guarantees in a metric, or that the problem's distances are none."""
    if problem.metric.name != "cosine":
        return words
    return f"not proved here that it {words}: the cosine distance is no metric"


def _n(usual: int, effort: float) -> int:
    return max(2, round(usual * effort))


def _drawn(problem: Problem, n: int) -> NDArray[np.int64]:
    """Return rows drawn by the prior."""
    return np.random.default_rng(0).choice(problem.n_records, size=n, p=problem.records.prior)


def _noisy(problem: Problem, n: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return rows drawn by the prior, and each with planar Laplace noise: a gamma radius in a uniform direction."""
    metric = planar_metric(problem)
    if metric.name == "manhattan":
        raise InputError("planar noise is not drawn for the Manhattan distance: use haversine or euclidean")
    rows, rng = _drawn(problem, n), np.random.default_rng(1)
    radius, angle = rng.gamma(2.0, 1.0 / problem.epsilon, n), rng.uniform(0.0, 2.0 * np.pi, n)
    moves = radius[:, None] * np.column_stack((np.sin(angle), np.cos(angle)))
    points = problem.records.coordinates[rows]
    if metric.name == "haversine":
        latitude = points[:, :1]
        # lengths of a degree here; away from the poles this is a plane up to the square of radius over Earth
        north = metric.between(np.array([[0.0, 0.0]]), np.array([[1.0, 0.0]]))[0, 0]
        moves = moves / north / np.column_stack((np.ones(n), np.maximum(0.01, np.cos(np.radians(latitude[:, 0])))))
    return rows, points + moves


def _losses(problem: Problem) -> Space:
    space = space_of(problem.losses)
    if space is None:
        raise InputError("the loss is not a distance between points, so that it cannot be sampled")
    return space


def _flat(problem: Problem, points: NDArray[np.float64]) -> NDArray[np.float64]:
    return on_sphere(points) if planar_metric(problem).name == "haversine" else points


def _tree(problem: Problem, points: NDArray[np.float64]) -> cKDTree:
    return cKDTree(_flat(problem, points))


def _reach(problem: Problem) -> float:
    """Return `REACH` as the tree measures it; a little more than a chord for places."""
    space = Space.of(planar_metric(problem), problem.records.coordinates[:1], problem.records.coordinates[:1])
    unit = space.unit if space is not None and space.kind == ARC else 1.0
    return REACH / problem.epsilon / unit


ESTIMATES: dict[str, Callable[[Problem, float], tuple[NDArray[np.float64], str]]] = {
    "exponential": _exponential,
    "planar-laplace-snapped": _snapped,
    "planar-laplace-remapped": _remapped,
    "multivariate-laplace": noisy_words,
}
NEVER_BUILT = ("multivariate-laplace",)  # what their probabilities are is not known
