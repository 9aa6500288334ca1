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
from metricdp.evaluate.guessing import best_guesses_in, costs_in, most_likely, output_chances
from metricdp.evaluate.matrices import as_probabilities
from metricdp.evaluate.problem_of_file import StoredMetric
from metricdp.mechanism.mechanism import Mechanism
from metricdp.mechanism.sparse import SparseTable
from metricdp.metric.distances import CoordinateMetric, Metric
from metricdp.metric.space import Space

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from metricdp.evaluate.matrices import AnyMechanism
    from metricdp.mechanism.choice import Choice
    from metricdp.problem.problem import Problem

ENTRIES_AT_ONCE = 4_000_000  # of the distances among records
MAX_PRODUCTS = 1e12  # of distances and weights, about a minute: where more are needed, some outputs stand for all
LEAST_SAMPLE = 200  # outputs that stand for all


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
        The row guessed after each output, with the least expected distance, shape (K,); None as ``error``, and where
        ``error`` is estimated.
    standard_error
        Of ``error``, where that is estimated from some of the outputs; 0 where it is exact.
    """

    error: float | None
    right: float
    blind_error: float | None
    blind_right: float
    guesses: NDArray[np.int64] | None
    standard_error: float = 0.0


def posterior(mechanism: Mechanism, belief: ArrayLike | None = None, *, outputs: Choice = None) -> NDArray[np.float64]:
    """Return how likely each record is after each output, ``q_i z_ik / sum_j q_j z_jk``, shape (N, K).

    ``outputs`` chooses some outputs, for mechanisms that are too large for all. An output that never occurs under the
    belief leaves it as it was.
    """
    prior = checked_belief(belief, mechanism.records.prior)
    joint = prior[:, None] * (mechanism.probabilities if outputs is None else mechanism.block(None, outputs))
    total = joint.sum(axis=0)
    return np.where(total > 0, joint / np.where(total > 0, total, 1.0), prior[:, None])


def attack(mechanism: AnyMechanism, problem: Problem, *, belief: ArrayLike | None = None) -> Attack:
    """Return the success of the optimal adversary with the prior ``belief``, by default the true prior.

    ``mechanism`` is a mechanism, or anybody's matrix of probabilities.
    """
    return attack_all([mechanism], problem, belief=belief)[0]


def attack_all(
    mechanisms: Sequence[AnyMechanism], problem: Problem, *, belief: ArrayLike | None = None
) -> list[Attack]:
    """Attack several mechanisms of one problem; the distances among records are computed only once for dense ones."""
    true = problem.records.prior
    believed = checked_belief(belief, true)
    tables = [as_probabilities(m, problem) for m in mechanisms if not (isinstance(m, Mechanism) and m.is_sparse)]
    dense = iter(_attack_dense(tables, problem, true, believed))
    return [
        _attack_sparse(m, m.table, problem, believed)
        if isinstance(m, Mechanism) and isinstance(m.table, SparseTable)
        else next(dense)
        for m in mechanisms
    ]


def _attack_dense(
    tables: list[NDArray[np.float64]], problem: Problem, true: NDArray[np.float64], believed: NDArray[np.float64]
) -> list[Attack]:
    if not tables:
        return []
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


def _attack_sparse(mechanism: Mechanism, table: SparseTable, problem: Problem, believed: NDArray[np.float64]) -> Attack:
    """Attack a sparse mechanism in bounded memory: exactly, or from a sample of the outputs where that takes hours."""
    true = problem.records.prior
    likely = most_likely(table, believed, true)
    right, blind_right = math.fsum(likely.joint), float(true[believed.argmax()])
    metric = distance_among_records(problem)
    if metric is None:
        return Attack(None, right, None, blind_right, None)
    points = problem.records.coordinates
    space = Space.of(metric, points, points)
    if space is not None and space.is_cheap:
        everything = np.arange(mechanism.outputs.n)
        guesses = best_guesses_in(space, table, believed, likely.rows, everything)
        error = costs_in(space, table, true, guesses, everything)
        blind = space.sums(true)[space.sums(believed).argmin()]
        return Attack(math.fsum(error), right, float(blind), blind_right, guesses)
    blind_guess = best_guesses(believed[:, None], problem, metric)
    blind = float(true @ metric.to_rows(problem.records, blind_guess)[:, 0])
    chances = output_chances(table, true)
    sample = _sampled(chances, problem.n_records)
    guesses, cost = _guess_in_blocks(mechanism, problem, metric, believed, sample)
    if len(sample) == len(chances):
        return Attack(math.fsum(cost), right, blind, blind_right, guesses)
    # drawn as often as they are reported, so that the mean error after one of them estimates that after all
    errors = cost / chances[sample]
    return Attack(
        float(errors.mean()), right, blind, blind_right, None, float(errors.std(ddof=1) / math.sqrt(len(errors)))
    )


def _sampled(chances: NDArray[np.float64], n_records: int) -> NDArray[np.int64]:
    """Return all outputs, or so many drawn by their chances that guessing after them takes about a minute."""
    n = int(max(LEAST_SAMPLE, MAX_PRODUCTS / n_records**2))
    if n >= len(chances):
        return np.arange(len(chances))
    return np.random.default_rng(0).choice(len(chances), size=n, p=chances / chances.sum())


def _guess_in_blocks(
    mechanism: Mechanism, problem: Problem, metric: Metric, believed: NDArray[np.float64], outputs: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the best guess after each of ``outputs`` and its cost by the true prior, some outputs at a time."""
    guesses, cost = np.empty(len(outputs), dtype=np.int64), np.empty(len(outputs))
    step = max(1, ENTRIES_AT_ONCE // problem.n_records)
    for start in range(0, len(outputs), step):
        part = slice(start, start + step)
        Z = mechanism.block(None, outputs[part])
        guesses[part] = best_guesses(believed[:, None] * Z, problem, metric)
        away = metric.to_rows(problem.records, guesses[part])
        cost[part] = (problem.records.prior[:, None] * Z * away).sum(axis=0)
    return guesses, cost


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
    metric = problem.metric
    if isinstance(metric, StoredMetric) and metric.base is not None:
        metric = metric.base
    try:
        known = np.isfinite(metric.to_rows(problem.records, np.zeros(1, dtype=np.int64))).all()
    except InputError:
        is_street = metric.name == "street" and problem.records.kind == "places"
        return CoordinateMetric("haversine") if is_street else None
    return metric if known else None


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
