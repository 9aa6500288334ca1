"""The Bayesian adversary: knows the mechanism, believes in a prior, sees a report, and guesses the record.

The optimal guess after output k is the record g with the least expected distance ``sum_i q_i z_ik d(i, g)``, where q is
what the adversary believes. Its success is measured under the true prior, so a wrong belief can only do worse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import InputError
from metricdp.metric.distances import CoordinateMetric, Metric

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.problem.problem import Problem

ENTRIES_AT_ONCE = 4_000_000  # of the distances among records


@dataclass(frozen=True, eq=False)
class Attack:
    """The success of an adversary.

    Parameters
    ----------
    error
        Expected distance between the optimal guess and the truth; None if distances among records are not known.
    right
        Probability that the most likely record is the true one.
    blind_error, blind_right
        The same without seeing any report, from the belief alone.
    guesses
        The row guessed after each output, with the least expected distance, shape (K,); None as ``error``.
    """

    error: float | None
    right: float
    blind_error: float | None
    blind_right: float
    guesses: NDArray[np.int64] | None


def posterior(mechanism: Mechanism, belief: ArrayLike | None = None) -> NDArray[np.float64]:
    """Return how likely each record is after each output, ``q_i z_ik / sum_j q_j z_jk``, shape (N, K).

    An output that never occurs under the belief leaves it as it was.
    """
    prior = checked_belief(belief, mechanism.records.prior)
    joint = prior[:, None] * mechanism.probabilities
    total = joint.sum(axis=0)
    return np.where(total > 0, joint / np.where(total > 0, total, 1.0), prior[:, None])


def attack(mechanism: Mechanism, problem: Problem, *, belief: ArrayLike | None = None) -> Attack:
    """Return the success of the optimal adversary with the prior ``belief``, by default the true prior."""
    return attack_all([mechanism], problem, belief=belief)[0]


def attack_all(mechanisms: list[Mechanism], problem: Problem, *, belief: ArrayLike | None = None) -> list[Attack]:
    """Attack several mechanisms of one problem; the distances among records are computed only once for all."""
    true = problem.records.prior
    believed = checked_belief(belief, true)
    tables = [mechanism.probabilities for mechanism in mechanisms]
    # the last column is the adversary who sees nothing
    Z = np.column_stack((*tables, np.ones(problem.n_records)))
    joint = true[:, None] * Z
    likely = (believed[:, None] * Z).argmax(axis=0)
    right = joint[likely, np.arange(Z.shape[1])]
    metric = distance_among_records(problem)
    guesses = error = None
    if metric is not None:
        guesses = best_guesses(believed[:, None] * Z, problem, metric)
        error = (joint * metric.to_rows(problem.records, guesses)).sum(axis=0)
    found, start = [], 0
    for table in tables:
        part = slice(start, start + table.shape[1])
        start = part.stop
        found.append(
            Attack(
                error=None if error is None else math.fsum(error[part]),
                right=math.fsum(right[part]),
                blind_error=None if error is None else float(error[-1]),
                blind_right=float(right[-1]),
                guesses=None if guesses is None else guesses[part],
            )
        )
    return found


def best_guesses(weights: NDArray[np.float64], problem: Problem, metric: Metric) -> NDArray[np.int64]:
    """Return for each column of ``weights`` (N, C) the record g with the least ``sum_i weights_ic d(i, g)``."""
    n = problem.n_records
    best, least = np.zeros(weights.shape[1], dtype=np.int64), np.full(weights.shape[1], np.inf)
    block = max(1, ENTRIES_AT_ONCE // n)
    for start in range(0, n, block):
        rows = np.arange(start, min(start + block, n))
        cost = metric.to_rows(problem.records, rows).T @ weights
        place = cost.argmin(axis=0)
        value = cost[place, np.arange(len(place))]
        better = value < least
        best[better], least[better] = rows[place[better]], value[better]
    return best


def distance_among_records(problem: Problem) -> Metric | None:
    """Return the measure of the adversary's error: the metric, or the straight line if the streets are missing."""
    try:
        known = np.isfinite(problem.metric.to_rows(problem.records, np.zeros(1, dtype=np.int64))).all()
    except InputError:
        is_street = problem.metric.name == "street" and problem.records.kind == "places"
        return CoordinateMetric("haversine") if is_street else None
    return problem.metric if known else None


def wrong_prior(problem: Problem) -> tuple[NDArray[np.float64], str]:
    """Return a belief that differs from the true prior, and its description.

    Uniform if the prior is not; if it is, records with many neighbours (crowded places) are believed more likely.
    """
    prior = problem.records.prior
    if np.ptp(prior) > 1e-12:
        return np.full(len(prior), 1.0 / len(prior)), "uniform"
    degree = np.bincount(problem.graph.pairs.ravel(), minlength=len(prior))
    weights = 1.0 + degree
    return weights / weights.sum(), "more likely where there are more neighbours"


def checked_belief(belief: ArrayLike | None, prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a belief scaled to sum to 1; the true prior if none is given."""
    if belief is None:
        return prior
    weights = np.asarray(belief, dtype=np.float64)
    if weights.shape != prior.shape:
        raise InputError(
            f"the adversary's prior must be one number for each of the {len(prior)} records, got {weights.shape}"
        )
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any() or not weights.any():
        what = f"got {weights[bad][0]} in row {int(np.flatnonzero(bad)[0])}" if bad.any() else "all are zero"
        raise InputError(f"the adversary's prior must be finite, not negative and not all zero: {what}")
    weights = weights / weights.max()
    return weights / weights.sum()
