"""How far reports will be off, before anything is solved: what a mechanism reaches, and what none can beat."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import InputError
from metricdp.evaluate.estimates import estimate
from metricdp.evaluate.utility import output_distances
from metricdp.problem.loss_space import mean_losses
from metricdp.problem.losses import EVERYTHING
from metricdp.solve.prediction import predict
from metricdp.solve.solve import solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.problem.losses import Losses
    from metricdp.problem.problem import Problem
    from metricdp.solve.prediction import Prediction

EFFORT = 0.2  # of the samples that a comparison takes: a figure to plan with
BOUNDS = ("planar-laplace-remapped", "exponential")  # mechanisms with the same guarantee, the better one first
NO_METRIC = "cosine"  # without the triangle inequality the exponential mechanisms have no such guarantee
PULLS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)  # how strongly a weighted exponential mechanism is drawn to central outputs
SAMPLED_ROWS = 200  # of which the losses of weighted exponential mechanisms are computed
MOST_MEANS = 2e8  # losses that are looked at to find central outputs
QUICK_SECONDS, QUICK_GAP = 3.0, 0.1  # a problem that is predicted to be solved in this time within this gap is solved
QUICK_SHARE = 0.1  # of the predicted time that a rougher gap may take; predicting again takes seconds itself
MOST_PAIRS = 1_000_000  # neighbour pairs that are looked at to match records
ENTRIES_AT_ONCE = 4_000_000
MARGIN = 1.0 - 1e-9  # rounding of the sums below


def distance_range(problem: Problem, prediction: Prediction) -> tuple[float | None, float | None]:
    """Return what a mechanism with the problem's guarantee costs at most, and what none can be below; None if unknown.

    The problem's loss is the distance, and ``prediction`` is for a gap of `QUICK_GAP` or less. Where solving is quick
    both are those of a rough solve; elsewhere the first is estimated from samples of simple mechanisms, the second is
    `least_loss`.
    """
    if output_distances(problem) is None:
        return None, None
    is_worth_a_look = prediction.seconds <= QUICK_SECONDS / QUICK_SHARE
    if is_worth_a_look and predict(problem, gap=QUICK_GAP).seconds <= QUICK_SECONDS:
        result = solve(problem, gap=QUICK_GAP, time_limit=2.0 * QUICK_SECONDS)
        return result.loss, max(result.lower_bound, least_loss(problem))
    return at_most(problem), least_loss(problem)


def at_most(problem: Problem) -> float | None:
    """Return the expected loss of the best simple mechanism with this guarantee, from a sample; None without one."""
    found = [] if problem.metric.name == NO_METRIC else [_weighted_loss(problem)]
    for name in () if problem.metric.name == NO_METRIC else BOUNDS:
        try:
            found.append(estimate(name, problem, effort=EFFORT).loss)
        except InputError:
            continue
    return min(found, default=None)


def _weighted_loss(problem: Problem) -> float:
    """Return the expected loss of the best exponential mechanism whose outputs have weights.

    ``z_ik`` is proportional to ``w_k exp(-epsilon d_ik / 2)``, private for any weights. These are the prior of the
    outputs, which helps where few records are most of all, with or without a pull to outputs that are near to all. The
    best is chosen on one half of the sampled rows and judged on the other.
    """
    n, K, epsilon = problem.n_records, problem.n_outputs, problem.at_smallest_epsilon.epsilon
    rows = np.random.default_rng(2).choice(n, size=SAMPLED_ROWS, p=problem.records.prior)
    losses = problem.losses.block(rows, EVERYTHING)
    own = problem.outputs.rows
    starts = [np.zeros(K)]
    if own is not None:
        starts.append(np.log(np.maximum(problem.records.prior[own], np.finfo(float).tiny)))
    pulled = np.zeros(K)
    if float(n) * K <= MOST_MEANS:
        pulled = mean_losses(problem.losses, problem.records.prior)
        pulled -= pulled.min()
    found = []
    for start in starts:
        for pull in PULLS if pulled.any() else PULLS[:1]:
            exponents = start - epsilon * (pull * pulled + 0.5 * losses)
            weights = np.exp(exponents - exponents.max(axis=1, keepdims=True))
            each = (weights * losses).sum(axis=1) / weights.sum(axis=1)
            found.append((each[::2].mean(), each[1::2].mean()))
    return float(min(found)[1])


def least_loss(problem: Problem) -> float:
    """Return a loss that no mechanism with the problem's guarantee can be below: of nearest outputs, and of pairs.

    Every record pays for its cheapest output, ``m_i``. Beyond that, two neighbours i and j at distance d cannot both
    report what is cheap for them. Let ``D = min_k (c_ik - m_i + c_jk - m_j)``. An output costs the pair beyond ``m`` at
    least ``D min(p_i z_ik, p_j z_jk)``, and the sum of these minima is what a test of i against j errs at least: by
    privacy ``min(p_i, p_j, (p_i + p_j) / (1 + exp(epsilon d)))``. Pairs that share no record add up. They are matched
    greedily, the dearest first. No triangle inequality is used.
    """
    losses, prior = problem.losses, problem.records.prior
    cheapest = _cheapest(losses)
    total = math.fsum(prior * cheapest)
    first, second, errors = _matched(problem)
    step = max(1, ENTRIES_AT_ONCE // problem.n_outputs)
    parts = [total]
    for begin in range(0, len(first), step):
        i, j = first[begin : begin + step], second[begin : begin + step]
        both = losses.block(i, EVERYTHING) + losses.block(j, EVERYTHING)
        apart = np.maximum(0.0, both.min(axis=1) - cheapest[i] - cheapest[j])
        parts.append(math.fsum(apart * errors[begin : begin + step]))
    return math.fsum(parts) * MARGIN


def _cheapest(losses: Losses) -> NDArray[np.float64]:
    n, K = losses.shape
    step = max(1, ENTRIES_AT_ONCE // K)
    return np.concatenate([losses.block(slice(at, at + step), EVERYTHING).min(axis=1) for at in range(0, n, step)])


def _matched(problem: Problem) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return neighbours that share no record, and how much prior a test of one against the other errs at least on."""
    graph, prior = problem.graph, problem.records.prior
    some = np.arange(graph.n_pairs)
    if graph.n_pairs > MOST_PAIRS:
        some = np.random.default_rng(3).choice(graph.n_pairs, size=MOST_PAIRS, replace=False)
    pairs, away = graph.pairs[some].astype(np.int64), graph.distances[some]
    p, q = prior[pairs[:, 0]], prior[pairs[:, 1]]
    with np.errstate(over="ignore"):
        errors = np.minimum(np.minimum(p, q), (p + q) / (1.0 + np.exp(problem.epsilon * away)))
    order = np.argsort(-away * errors, kind="stable")
    is_free = np.ones(graph.n, dtype=bool)
    kept = []
    for at, (i, j) in zip(order.tolist(), pairs[order].tolist(), strict=True):
        if is_free[i] and is_free[j]:
            is_free[i] = is_free[j] = False
            kept.append(at)
    return pairs[kept, 0], pairs[kept, 1], errors[kept]
