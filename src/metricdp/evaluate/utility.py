"""What a mechanism costs: the expected loss of each record and of all, and how far reports are from the truth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import InputError
from metricdp.mechanism.mechanism import table_loss
from metricdp.problem.loss import distance_loss

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from metricdp.mechanism.mechanism import Mechanism
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
        metric cannot measure to the outputs.
    """

    loss: float
    per_record: NDArray[np.float64]
    distance_mean: float | None
    distance_quantiles: dict[float, float] | None


def utility(mechanism: Mechanism, problem: Problem, *, levels: Sequence[float] = QUANTILE_LEVELS) -> Utility:
    """Return the cost of ``mechanism`` on ``problem``."""
    Z = mechanism.probabilities
    mean, quantiles = None, None
    distances = output_distances(problem)
    if distances is not None:
        weights = problem.records.prior[:, None] * Z
        mean = math.fsum((weights * distances).sum(axis=1))
        quantiles = weighted_quantiles(distances, weights, levels)
    return Utility(table_loss(mechanism.table, problem), (problem.loss * Z).sum(axis=1), mean, quantiles)


def output_distances(problem: Problem) -> NDArray[np.float64] | None:
    """Return the distance from each record to each output, shape (N, K); None if it is not known."""
    try:
        distances = distance_loss(problem.records, problem.outputs, problem.metric)
    except InputError:
        if problem.loss_name != "distance":
            return None
        distances = problem.loss
    return distances if np.isfinite(distances).all() else None


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
