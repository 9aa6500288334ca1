"""Simple mechanisms to compare with; they pass the same certification as ours, at the budget that they satisfy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import InputError
from metricdp.mechanism.certify import TOTAL
from metricdp.mechanism.mechanism import Mechanism
from metricdp.mechanism.repair import repair
from metricdp.mechanism.sparse import SparseTable
from metricdp.problem.loss import distance_loss

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.metric.graph import MdpGraph
    from metricdp.problem.problem import Problem

PAIRS_AT_ONCE = 1_000_000  # entries of a block of pairs
MAX_UNIFORM_ENTRIES = 1_000_000  # of a dense table; a larger one is all background
BUDGET_TOLERANCE = 1e-9  # relative; a smaller excess over the budget is rounding


def exponential_matrix(problem: Problem) -> NDArray[np.float64]:
    """Return the exponential mechanism's probabilities, ``exp(-epsilon d_ik / 2)`` normalised (paper's appendix)."""
    is_known = problem.loss_name == "distance"
    distances = problem.loss if is_known else distance_loss(problem.records, problem.outputs, problem.metric)
    # the nearest output's distance is subtracted in each row, so that not all weights underflow
    weights = np.exp(-0.5 * problem.epsilon * (distances - distances.min(axis=1, keepdims=True)))
    return weights / weights.sum(axis=1, keepdims=True)


def exponential(problem: Problem) -> Mechanism:
    """Return the exponential mechanism of the paper, certified; at the smallest epsilon if records have their own."""
    problem = problem.at_smallest_epsilon
    return Mechanism.from_matrix(problem, exponential_matrix(problem), solver="exponential")


def decay_logarithms(distances: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
    """Return the logarithms of the probabilities ``exp(-rate d_ik)``, normalised in each row; nothing underflows.

    Examples
    --------
    >>> np.exp(decay_logarithms(np.array([[0.0, 1.0]]), np.log(3.0))).round(3).tolist()
    [[0.75, 0.25]]
    """
    exponents = -rate * (distances - distances.min(axis=1, keepdims=True))
    return exponents - np.log(np.exp(exponents).sum(axis=1, keepdims=True))


def tightest_budget(logarithms: NDArray[np.float64], graph: MdpGraph) -> float:
    """Return the least epsilon at which a matrix is private, from the logarithms of its entries, in floats.

    This is for a formula before any repair; the exact check decides what a table satisfies.
    """
    largest = 0.0
    block = max(1, PAIRS_AT_ONCE // logarithms.shape[1])
    for start in range(0, graph.n_pairs, block):
        i, j = graph.pairs[start : start + block].T
        difference = np.abs(logarithms[i] - logarithms[j]).max(axis=1)
        distances = graph.distances[start : start + block]
        with np.errstate(divide="ignore"):
            rates = np.divide(difference, distances, out=np.zeros_like(difference), where=difference > 0)
        largest = max(largest, float(rates.max()))
    return largest


def certified_as_it_is(problem: Problem, logarithms: NDArray[np.float64], *, solver: str) -> Mechanism:
    """Certify a formula's mechanism at the problem's budget if it satisfies that, or else at the least budget it does.

    A repair at too small a budget would turn it into another mechanism: here it is only rounded. Where records have
    epsilons of their own, the smallest one is the problem's budget.
    """
    problem = problem.at_smallest_epsilon
    tightest = tightest_budget(logarithms, problem.graph)
    if not math.isfinite(tightest):
        raise InputError(
            f"the {solver} mechanism tells records at distance 0 apart, so no epsilon holds: use a metric that "
            "satisfies the triangle inequality"
        )
    fits = tightest <= problem.epsilon * (1.0 + BUDGET_TOLERANCE)
    epsilon = problem.epsilon if fits else tightest * (1.0 + BUDGET_TOLERANCE)
    table = repair(np.exp(logarithms), problem.graph, epsilon, costs=problem.costs)
    return Mechanism.of(problem, table, epsilon=epsilon, solver=solver)


def planar_laplace(problem: Problem) -> Mechanism:
    """Return planar Laplace noise truncated to the outputs, ``exp(-epsilon d_ik)`` normalised over them exactly.

    Its guarantee is **2 epsilon**: the densities of two records differ by at most exp(epsilon d_ij), and so do the sums
    that truncation divides by. It is certified at the least budget that it satisfies, which is mostly above epsilon.
    (Drawing on the whole plane and moving to the nearest output would satisfy epsilon; this is not that.)
    """
    problem = problem.at_smallest_epsilon
    distances = distance_loss(problem.records, problem.outputs, problem.metric)
    return certified_as_it_is(problem, decay_logarithms(distances, problem.epsilon), solver="planar Laplace")


def uniform(problem: Problem) -> Mechanism:
    """Return the mechanism that reports every output equally often: private at any budget, and useless."""
    share, rest = divmod(TOTAL, problem.n_outputs)
    row = np.full(problem.n_outputs, share, dtype=np.uint64)
    row[:rest] += np.uint64(1)  # the same for all records: nothing is told apart
    n = problem.n_records
    if n * problem.n_outputs <= MAX_UNIFORM_ENTRIES:
        return Mechanism.of(problem, np.tile(row, (n, 1)), solver="uniform")
    starts, nothing = np.zeros(n + 1, dtype=np.int64), np.zeros(0, dtype=np.uint64)
    only_background = SparseTable(starts, nothing.astype(np.int32), nothing, row, np.ones(n, dtype=np.uint64))
    return Mechanism.of(problem, only_background, solver="uniform")


def constant_matrix(problem: Problem) -> NDArray[np.float64]:
    """Return the mechanism that always reports the one best output: private at any budget, whatever the metric."""
    Z = np.zeros((problem.n_records, problem.n_outputs))
    Z[:, problem.costs.sum(axis=0).argmin()] = 1.0
    return Z
