"""One sentence that warns of a degenerate problem, whose answer means little."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from metricdp.mechanism.certificate import FAR_FROM_OPTIMAL
from metricdp.metric.distances import CHUNK_ENTRIES
from metricdp.problem.budgets import budget_words
from metricdp.problem.losses import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.problem.problem import Problem

NEGLIGIBLE_PROBABILITY = 1e-3  # less makes no difference in practice
FIRST_ROWS = 64  # that are looked at before all others


def guidance(problem: Problem, mechanism: Mechanism) -> str | None:
    """Return one sentence if the problem is degenerate, None if not. The gravest case comes first."""
    graph, n = problem.graph, problem.n_records
    if graph.n_pairs == 0:
        return (
            f"No record has a neighbour within eta = {problem.eta:g}, so everybody reports their cheapest output and "
            "NOTHING is protected: choose a larger eta."
        )
    typical = float(np.median(graph.distances))
    is_open, is_silent = _reports_the_cheapest(mechanism, problem), _is_same_for_neighbours(mechanism, problem)
    if is_open and is_silent:
        return "All neighbours share their cheapest output and report it: privacy costs nothing here at any epsilon."
    budget = budget_words(problem.epsilon, problem.epsilons)
    if is_open:
        return (
            f"epsilon = {budget} is so large that everybody reports their cheapest output nearly always, as "
            f"without any protection: choose a smaller one{_suggestion(typical, 0.0, problem.epsilon)}."
        )
    if is_silent:
        return _of_silence(mechanism, f"epsilon = {budget}", _suggestion(typical, problem.epsilon, math.inf))
    if n > 2 and graph.n_pairs == n * (n - 1) // 2:
        return (
            f"eta = {problem.eta:g} makes all {n} records neighbours of one another (a complete graph): every pair is "
            "protected at its direct distance, and a smaller eta would make the problem smaller."
        )
    return None


def _of_silence(mechanism: Mechanism, budget: str, suggestion: str) -> str:
    """Return why all records report nearly alike: the run was cut off, or privacy is that strong."""
    best = mechanism.optimality
    if best is not None and best.gap > FAR_FROM_OPTIMAL:
        return (
            "All records report nearly alike, and this is not known to be near optimal: the run ended before it found "
            "a better mechanism. Give it more time, or fewer records or outputs."
        )
    return (
        f"{budget} is so small that connected records report nearly alike, and a report says next to nothing about "
        f"which of them it was: choose a larger one{suggestion}."
    )


def _suggestion(typical: float, above: float, below: float) -> str:
    """Return an epsilon that is 1 at the median neighbour distance, if it lies on the side that is asked for."""
    epsilon = 1.0 / typical if typical > 0 else math.nan
    is_useful = above < epsilon < below
    return f"; epsilon = {epsilon:.3g} would be 1 at the median neighbour distance" if is_useful else ""


def _reports_the_cheapest(mechanism: Mechanism, problem: Problem) -> bool:
    """Return whether every record that can occur reports (one of) its cheapest outputs nearly always."""
    for rows, Z in _growing_blocks(mechanism):
        losses = problem.losses.block(rows, EVERYTHING)
        is_cheapest = losses == losses.min(axis=1, keepdims=True)
        matters = problem.records.prior[rows] > 0
        if not ((Z * is_cheapest).sum(axis=1)[matters] >= 1.0 - NEGLIGIBLE_PROBABILITY).all():
            return False
    return True


def _is_same_for_neighbours(mechanism: Mechanism, problem: Problem) -> bool:
    """Return whether all records of a component report nearly alike (in total variation from its first record)."""
    first = np.array([rows[0] for rows in problem.graph.components])[problem.graph.labels]
    for rows, Z in _growing_blocks(mechanism):
        apart = 0.5 * np.abs(Z - mechanism.block(first[rows])).sum(axis=1)
        if not (apart <= NEGLIGIBLE_PROBABILITY).all():
            return False
    return True


def _growing_blocks(mechanism: Mechanism) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Yield all rows a part at a time, at first a few: most often these already decide."""
    n, start, size = mechanism.records.n, 0, FIRST_ROWS
    most = max(1, CHUNK_ENTRIES // mechanism.outputs.n)
    while start < n:
        rows = slice(start, min(start + min(size, most), n))
        yield rows, mechanism.block(rows)
        start, size = rows.stop, 4 * size
