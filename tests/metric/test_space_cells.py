"""Sums of distances by cells: never below the true ones, and hardly above them."""

from __future__ import annotations

import numpy as np
import pytest

import metricdp as mdp
from metricdp.mechanism import expected
from metricdp.metric.space import Space
from metricdp.problem import loss_space


@pytest.mark.parametrize(("metric", "low", "high"), [("haversine", 40.0, 60.0), ("euclidean", 0.0, 9.0)])
@pytest.mark.parametrize("seed", [0, 1])
def test_not_below_and_hardly_above(metric, low, high, seed):
    rng = np.random.default_rng(seed)
    here, there = rng.uniform(low, high, (300, 2)), rng.uniform(low, high, (5_000, 2))
    weights = rng.exponential(1.0, 5_000) * (rng.random(5_000) < 0.9)
    space = Space.of(mdp.metric.CoordinateMetric(metric), here, there)
    exact, above = space.sums(weights), space.sums_above(weights)
    assert (above >= exact * (1.0 - 1e-12)).all()
    assert (above <= exact * 1.02).all()  # cells of a ninth of the width


def test_few_points_and_one_cell():
    space = Space.of(mdp.metric.CoordinateMetric("euclidean"), np.zeros((1, 2)), np.array([[3.0, 4.0], [0.0, 0.0]]))
    assert space.sums_above(np.array([1.0, 0.0]))[0] == pytest.approx(5.0)
    assert space.sums_above(np.array([1.0, 1.0]))[0] >= 5.0


def test_half_the_earth_is_summed_one_by_one():
    places = np.random.default_rng(2).uniform((-45.0, 0.0), (45.0, 60.0), (200, 2))
    space = Space.of(mdp.metric.CoordinateMetric("haversine"), places, places)
    if space is None:
        pytest.skip("too wide for a space at all")
    weights = np.ones(200)
    assert np.array_equal(space.sums_above(weights), space.sums(weights))


def test_losses_of_large_tables_by_cells(monkeypatch):
    problem = mdp.Problem(mdp.data.road("gothenburg", n=300, seed=1), epsilon=12.0, eta=0.5, loss="distance")
    table = mdp.solve(problem, method="local", gap=0.3).mechanism.table
    exact = expected.table_loss(table, problem)
    monkeypatch.setattr(expected, "SUMMED_UP_TO", 0.0)
    assert exact <= expected.table_loss(table, problem) <= exact * 1.001


def test_one_of_many_outputs(monkeypatch):
    problem = mdp.Problem(mdp.data.grid(9, 9), epsilon=1.0, eta=1.0, loss="distance")
    prior = problem.records.prior
    best = loss_space.one_good_output(problem.losses, prior)
    assert best == 40  # the middle
    monkeypatch.setattr(loss_space, "MOST_LOSSES", 0.0)
    for sampled in (81 * 81.0, 81 * 20.0):
        monkeypatch.setattr(loss_space, "SAMPLED_LOSSES", sampled)
        some = loss_space.one_good_output(problem.losses, prior)
        mean = loss_space.mean_losses(problem.losses, prior)
        assert mean[some] <= np.median(mean)
