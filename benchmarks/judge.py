"""Check a peer's answer like ours: the epsilon that it satisfied, then repair, certificate and bound."""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

import metricdp as mdp
from metricdp.mechanism.certify import check_privacy
from metricdp.mechanism.mechanism import relative_gap, table_loss
from metricdp.mechanism.repair import repair
from metricdp.solve.bounds import RowDuals, lower_bound

if TYPE_CHECKING:
    from metricdp import Problem


def satisfied_epsilon(Z: np.ndarray, problem: Problem) -> float:
    """Return the smallest epsilon of a float matrix, negative entries as 0; infinite for 0 beside a positive entry.

    Records at distance 0 with different rows satisfy none.
    """
    rows = np.clip(Z, 0.0, None)
    i, j = problem.graph.pairs.T
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(rows)
        loss = np.abs(logs[i] - logs[j])
        loss[(rows[i] == 0) & (rows[j] == 0)] = 0.0
        worst = loss.max(axis=1)
        rates = np.where(worst == 0, 0.0, worst / problem.graph.distances)
    return float(rates.max(initial=0.0))


def judge(Z: np.ndarray, multipliers: np.ndarray | None, scale: float, problem: Problem) -> dict[str, Any]:
    """Repair and certify ``Z``; the lower bound comes from the peer's own multipliers, if it gives any."""
    before = satisfied_epsilon(Z, problem)
    begin = time.perf_counter()
    table = repair(np.clip(np.nan_to_num(Z), 0.0, None), problem.graph, problem.epsilon, costs=problem.costs)
    check = check_privacy(table, problem.graph.pairs, problem.graph.distances, problem.epsilon)
    loss = table_loss(table, problem)
    bound = None if multipliers is None else _bound(np.nan_to_num(multipliers) * scale, problem)
    return {
        "judge_seconds": time.perf_counter() - begin,
        "epsilon": problem.epsilon,
        "epsilon_before_repair": before,
        "row_sum_error": float(np.abs(Z.sum(axis=1) - 1.0).max()),
        "is_certified": check.certified,
        "loss": loss,
        "lower_bound": bound,
        "gap": None if bound is None else relative_gap(loss, min(bound, loss)),
    }


@cache
def warm_up() -> None:
    """Load the code that the check needs, so that it is not part of a peer's time."""
    small = mdp.Problem(mdp.data.grid(3, 3), epsilon=1.0, eta=1.5, outputs="random:4")
    rows = np.full((9, 4), 0.25)
    judge(rows, np.ones((2 * small.graph.n_pairs, 4)), 1.0, small)


def _bound(multipliers: np.ndarray, problem: Problem) -> float:
    pairs, distances = problem.graph.pairs, problem.graph.distances
    edge, output = np.nonzero(multipliers > 0)
    tail = np.concatenate((pairs[:, 0], pairs[:, 1])).astype(np.int64)
    head = np.concatenate((pairs[:, 1], pairs[:, 0])).astype(np.int64)
    exponent = problem.epsilon * np.tile(distances, 2)
    duals = RowDuals(tail[edge], head[edge], output, exponent[edge], multipliers[edge, output])
    return lower_bound(problem.costs, duals, cost_roundings=2)
