"""One sentence that warns of a degenerate problem, whose answer means little."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.problem.problem import Problem

NEGLIGIBLE_PROBABILITY = 1e-3  # less makes no difference in practice


def guidance(problem: Problem, mechanism: Mechanism) -> str | None:
    """Return one sentence if the problem is degenerate, None if not. The gravest case comes first."""
    graph, n = problem.graph, problem.n_records
    if graph.n_pairs == 0:
        return (
            f"No record has a neighbour within eta = {problem.eta:g}, so everybody reports their cheapest output and "
            "NOTHING is protected: choose a larger eta."
        )
    Z = mechanism.probabilities
    typical = float(np.median(graph.distances))
    suggestion = f"; epsilon = {1.0 / typical:.3g} would be 1 at the median neighbour distance" if typical > 0 else ""
    is_open, is_silent = _reports_the_cheapest(Z, problem), _is_same_for_neighbours(Z, problem)
    if is_open and is_silent:
        return "All neighbours share their cheapest output and report it: privacy costs nothing here at any epsilon."
    if is_open:
        return (
            f"epsilon = {problem.epsilon:g} is so large that everybody reports their cheapest output nearly always, as "
            f"without any protection: choose a smaller one{suggestion}."
        )
    if is_silent:
        return (
            f"epsilon = {problem.epsilon:g} is so small that connected records report nearly alike, and a report says "
            f"next to nothing about which of them it was: choose a larger one{suggestion}."
        )
    if n > 2 and graph.n_pairs == n * (n - 1) // 2:
        return (
            f"eta = {problem.eta:g} makes all {n} records neighbours of one another (a complete graph): every pair is "
            "protected at its direct distance, and a smaller eta would make the problem smaller."
        )
    return None


def _reports_the_cheapest(Z: NDArray[np.float64], problem: Problem) -> bool:
    """Return whether every record that can occur reports (one of) its cheapest outputs nearly always."""
    matters = problem.records.prior > 0
    is_cheapest = problem.loss == problem.loss.min(axis=1, keepdims=True)
    return bool(((Z * is_cheapest).sum(axis=1)[matters] >= 1.0 - NEGLIGIBLE_PROBABILITY).all())


def _is_same_for_neighbours(Z: NDArray[np.float64], problem: Problem) -> bool:
    """Return whether all records of a component report nearly alike (in total variation from its first record)."""
    first = np.array([rows[0] for rows in problem.graph.components])
    return bool((0.5 * np.abs(Z - Z[first[problem.graph.labels]]).sum(axis=1) <= NEGLIGIBLE_PROBABILITY).all())
