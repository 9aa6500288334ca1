"""Values that are known without us."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.conftest import rome_problem

import metricdp as mdp
from metricdp.mechanism import check_privacy


def line(n: int, *, step: float = 1.0) -> mdp.Records:
    return mdp.Records(np.arange(n)[:, None] * step, kind="vectors")


@pytest.mark.parametrize("exponent", [1e-6, 0.1, 1.0, 5.0, 16.0, 20.0, 34.0])
def test_two_records_in_closed_form(exponent):
    """With loss 1 for the wrong record, randomised response is optimal: loss 1 / (1 + exp(epsilon d))."""
    problem = mdp.Problem(line(2), epsilon=exponent, eta=1.0, outputs=[0, 1], loss=1.0 - np.eye(2))
    result = mdp.solve(problem, gap=0.99)
    truth = 1.0 / (1.0 + math.exp(exponent))
    assert result.loss == pytest.approx(truth, rel=1e-6, abs=3e-9)
    assert result.lower_bound <= truth * (1 + 1e-14)
    assert result.mechanism.certificate.privacy.certified


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_truncated_geometric_mechanism_is_optimal_on_a_line(epsilon):
    """Ghosh, Roughgarden and Sundararajan 2009: a remapped geometric mechanism is optimal for the end points' loss.

    With loss |i - k| and a uniform prior the optimal loss is that of the geometric mechanism after the best remapping
    of its outputs, which is computed here by hand.
    """
    n = 6
    a = math.exp(-epsilon)
    i = np.arange(n)
    geometric = a ** np.abs(i[:, None] - i[None, :]) * (1 - a) / (1 + a)
    geometric[:, [0, -1]] = a ** np.abs(i[:, None] - np.array([[0, n - 1]])) / (1 + a)
    assert geometric.sum(axis=1) == pytest.approx(np.ones(n))
    posterior_loss = geometric.T @ np.abs(i[:, None] - i[None, :]) / n
    best_remapping = posterior_loss.min(axis=1).sum()
    problem = mdp.Problem(line(n), epsilon=epsilon, eta=1.0, outputs=np.arange(n), loss="distance")
    result = mdp.solve(problem, gap=1e-6)
    assert result.status is mdp.Status.OPTIMAL
    assert result.loss == pytest.approx(best_remapping, rel=1e-6)


def test_no_neighbours_give_the_identity():
    matrix = np.full((4, 4), math.inf)
    np.fill_diagonal(matrix, 0.0)
    problem = mdp.Problem(line(4), epsilon=1.0, eta=5.0, outputs=[0, 1, 2, 3], loss=1.0 - np.eye(4), metric=matrix)
    result = mdp.solve(problem)
    assert np.array_equal(result.mechanism.table, np.eye(4, dtype=np.uint64) << np.uint64(63))
    assert result.loss == 0.0
    assert result.gap == 0.0
    assert "NOTHING is protected" in str(result.mechanism.certificate)


def test_huge_distance_gives_almost_the_identity():
    problem = mdp.Problem(line(3, step=1000.0), epsilon=1.0, eta=1e9, outputs=[0, 1, 2], loss=1.0 - np.eye(3))
    result = mdp.solve(problem)
    assert result.mechanism.probabilities.diagonal() == pytest.approx(np.ones(3), abs=1e-7)
    assert (result.mechanism.table > 0).all()


def test_tight_both_ways():
    """Private at epsilon, not at epsilon - 0.01."""
    problem = mdp.Problem(mdp.data.grid(3, 3), epsilon=1.0, eta=1.5, outputs=9)
    table, graph = mdp.solve(problem, gap=1e-6).mechanism.table, problem.graph
    assert check_privacy(table, graph.pairs, graph.distances, 1.0).certified
    weaker = check_privacy(table, graph.pairs, graph.distances, 0.99)
    assert not weaker.certified
    assert weaker.tightest_epsilon == pytest.approx(1.0, abs=1e-6)


def test_epsilon_towards_zero_reports_one_place():
    problem = mdp.Problem(mdp.data.grid(3, 3), epsilon=1e-9, eta=1.5, outputs=9)
    result = mdp.solve(problem, gap=1e-6)
    assert result.loss == pytest.approx(problem.costs.sum(axis=0).min(), rel=1e-6)
    assert result.status is mdp.Status.OPTIMAL


def test_records_at_distance_zero_have_equal_rows():
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [1.0, 0.0], [3.0, 1.0]])
    problem = mdp.Problem(mdp.Records(points, kind="vectors"), epsilon=2.0, eta=1.5, outputs=[0, 1, 4])
    table = mdp.solve(problem, gap=1e-6).mechanism.table
    assert np.array_equal(table[0], table[2])
    assert np.array_equal(table[1], table[3])
    assert not np.array_equal(table[0], table[1])


def test_the_seeds_rome_instance():
    problem = rome_problem()
    assert (problem.graph.n_pairs, problem.graph.n_components) == (2727, 28)
    result = mdp.solve(problem, method="direct", gap=1e-4)
    assert result.status is mdp.Status.OPTIMAL
    assert result.gap <= 1e-4
    assert result.mechanism.certificate.privacy.certified
