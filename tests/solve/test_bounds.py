"""The lower bound is never above what exact arithmetic gives for the same dual point."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import DATASETS, linprog_optimum, small_problem
from tests.mechanism.independent import exp_bounds

import metricdp as mdp
from metricdp.solve.bounds import RowDuals, lower_bound


def exact_bound(prior, loss, epsilon, distances, duals) -> Fraction:
    """L(y) in fractions, with an upper enclosure of exp: a valid bound on the true optimum, without any rounding."""
    n, K = loss.shape
    value = [[Fraction(float(prior[i])) * Fraction(float(loss[i, k])) for k in range(K)] for i in range(n)]
    for tail, head, output, d, y in zip(duals.tail, duals.head, duals.output, distances, duals.y, strict=True):
        amount = max(Fraction(float(y)), Fraction(0))
        value[tail][output] += amount
        value[head][output] -= exp_bounds(Fraction(epsilon) * Fraction(float(d)))[1] * amount
    return sum(min(row) for row in value)


@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(1, 4), st.integers(0, 30))
def test_never_above_exact_arithmetic(seed, n, K, m):
    generator = np.random.default_rng(seed)
    prior = generator.dirichlet(np.ones(n))
    loss = generator.exponential(size=(n, K)) * 10.0 ** generator.integers(-8, 9, size=(n, K))
    tail = generator.integers(0, n, m)
    head = (tail + generator.integers(1, n, m)) % n
    distances, epsilon = generator.uniform(0, 3, m), float(generator.uniform(0.1, 7))
    y = generator.exponential(size=m) * 10.0 ** generator.integers(-12, 3, m) * generator.choice([1, 1, 1, -1], m)
    duals = RowDuals(tail, head, generator.integers(0, K, m), epsilon * distances, y)
    exact = exact_bound(prior, loss, epsilon, distances, duals)
    bound = lower_bound(prior[:, None] * loss, duals)
    size = float(sum(abs(v) for v in (prior[:, None] * loss).ravel())) + float(np.abs(y).sum() * np.exp(21))
    assert bound == 0.0 or Fraction(bound) <= exact
    assert bound >= float(exact) - 1e-11 * size


@pytest.mark.parametrize("dataset", DATASETS)
def test_any_dual_gives_a_valid_bound(dataset):
    problem = small_problem(dataset, seed=9)
    truth = linprog_optimum(problem)
    graph, generator = problem.graph, np.random.default_rng(0)
    for scale in (0.0, 1e-6, 1e-3, 1.0):
        m = graph.n_pairs * problem.n_outputs
        pair = np.repeat(np.arange(graph.n_pairs), problem.n_outputs)
        duals = RowDuals(
            graph.pairs[pair, 0].astype(np.int64),
            graph.pairs[pair, 1].astype(np.int64),
            np.tile(np.arange(problem.n_outputs), graph.n_pairs),
            problem.epsilon * graph.distances[pair],
            scale * generator.standard_normal(m),
        )
        assert lower_bound(problem.costs, duals) <= truth * (1 + 1e-9)


def test_the_solvers_bound_is_valid_in_exact_arithmetic():
    """A problem whose optimum is known: two records, loss 1 / (1 + e)."""
    problem = mdp.Problem(np.arange(2.0), epsilon=1.0, eta=1.0, outputs=2, loss=1.0 - np.eye(2))
    bound = Fraction(mdp.solve(problem, gap=1e-6).lower_bound)
    low, high = exp_bounds(Fraction(1))
    assert bound <= 1 / (1 + low)
    assert bound >= 1 / (1 + high) - Fraction(1, 10**8)
