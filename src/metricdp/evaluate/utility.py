"""What a mechanism costs: the expected loss of each record and of all, and how far reports are from the truth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import InputError
from metricdp.evaluate.matrices import as_probabilities
from metricdp.evaluate.problem_of_file import StoredMetric
from metricdp.evaluate.spread import spread_by_blocks, spread_in_space
from metricdp.mechanism.expected import record_losses, table_loss
from metricdp.mechanism.mechanism import Mechanism
from metricdp.mechanism.sparse import SparseTable
from metricdp.problem.loss_space import space_of
from metricdp.problem.losses import DistanceLosses, distance_losses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from metricdp.evaluate.matrices import AnyMechanism
    from metricdp.problem.losses import Losses
    from metricdp.problem.problem import Problem

QUANTILE_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


@dataclass(frozen=True, eq=False)
class Utility:
    """The cost of a mechanism.

    Parameters
    ----------
    loss
        The expected loss ``sum_i p_i sum_k c_ik z_ik``, rounded up as in the certificate.
    per_record
        ``sum_k c_ik z_ik`` of each record, shape (N,).
    distance_mean, distance_quantiles
        Of the distance from the true record to the report, over records (by the prior) and reports; None if the
        metric cannot measure to the outputs. Quantiles of a sparse mechanism are rounded up, by 0.025 % at most.
    """

    loss: float
    per_record: NDArray[np.float64]
    distance_mean: float | None
    distance_quantiles: dict[float, float] | None


def utility(mechanism: AnyMechanism, problem: Problem, *, levels: Sequence[float] = QUANTILE_LEVELS) -> Utility:
    """Return the cost of ``mechanism``, or of anybody's matrix, on ``problem``."""
    if not isinstance(mechanism, Mechanism):
        return _matrix_utility(as_probabilities(mechanism, problem), problem, levels)
    prior, table = problem.records.prior, mechanism.table
    mean, quantiles = None, None
    per_record = record_losses(table, problem.losses)
    distances = output_distances(problem)
    if distances is not None and isinstance(table, SparseTable):
        mean = math.fsum(prior * (per_record if distances is problem.losses else record_losses(table, distances)))
        space = space_of(distances)
        spread = spread_by_blocks(mechanism, distances) if space is None else spread_in_space(table, space, prior)
        quantiles = spread.quantiles(levels)
    elif distances is not None:
        mean, quantiles = _spread(prior[:, None] * mechanism.probabilities, distances, levels)
    return Utility(table_loss(table, problem), per_record, mean, quantiles)


def _matrix_utility(Z: NDArray[np.float64], problem: Problem, levels: Sequence[float]) -> Utility:
    distances = output_distances(problem)
    mean, quantiles = None, None
    if distances is not None:
        mean, quantiles = _spread(problem.records.prior[:, None] * Z, distances, levels)
    return Utility(matrix_loss(Z, problem), (problem.loss * Z).sum(axis=1), mean, quantiles)


def matrix_loss(Z: NDArray[np.float64], problem: Problem) -> float:
    """Return the expected loss of a float matrix, rounded up as that of a table is."""
    return math.fsum((problem.costs * Z).ravel()) * (1.0 + 2.0**-50)


def _spread(
    weights: NDArray[np.float64], distances: Losses, levels: Sequence[float]
) -> tuple[float, dict[float, float]]:
    """Return mean and quantiles of the distance to the report."""
    mean = math.fsum((weights * distances.whole()).sum(axis=1))
    return mean, weighted_quantiles(distances.whole(), weights, levels)


def output_distances(problem: Problem) -> Losses | None:
    """Return the distances from records to outputs; None if they are not known."""
    metric = problem.metric.base if isinstance(problem.metric, StoredMetric) else problem.metric
    if isinstance(problem.losses, DistanceLosses) and problem.losses.metric is metric:
        return problem.losses
    try:
        return distance_losses(problem.records, problem.outputs, problem.metric if metric is None else metric)
    except InputError:
        return problem.losses if problem.loss_name == "distance" else None


def weighted_quantiles(values: ArrayLike, weights: ArrayLike, levels: Sequence[float]) -> dict[float, float]:
    """Return for each level q the least value v such that values up to v have at least the share q of the weight.

    Examples
    --------
    >>> weighted_quantiles([3.0, 1.0, 2.0], [0.1, 0.6, 0.3], (0.5, 0.75, 0.95))
    {0.5: 1.0, 0.75: 2.0, 0.95: 3.0}
    """
    flat, mass = np.ravel(np.asarray(values, dtype=np.float64)), np.ravel(np.asarray(weights, dtype=np.float64))
    order = np.argsort(flat, kind="stable")
    reached = np.cumsum(mass[order])
    # a hair less, so that rounding of the sum does not move a level to the next value
    places = np.searchsorted(reached, np.asarray(levels) * reached[-1] * (1.0 - 1e-12))
    return {level: float(flat[order[min(place, flat.size - 1)]]) for level, place in zip(levels, places, strict=True)}
