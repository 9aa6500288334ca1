"""How far reports will be off before anything is solved: both figures against solved problems."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metricdp as mdp

module = importlib.import_module("metricdp.evaluate.expected_distance")


def test_two_records_in_closed_form():
    """The bound is the optimum: the likelier place is reported unless the test of both errs less."""
    for weights, epsilon in (((0.5, 0.5), 1.0), ((0.7, 0.3), 2.0), ((0.95, 0.05), 0.5)):
        records = mdp.Records([[0.0], [1.5]], kind="vectors", prior=weights)
        problem = mdp.Problem(records, epsilon=epsilon, eta=2.0, loss="distance")
        expected = 1.5 * min(*weights, 1.0 / (1.0 + np.exp(1.5 * epsilon)))
        assert module.least_loss(problem) == pytest.approx(expected, rel=1e-8)
        assert mdp.solve(problem, gap=1e-7, method="direct").loss == pytest.approx(expected, rel=1e-6)


@given(st.integers(0, 10_000), st.floats(0.2, 5.0), st.integers(2, 12))
def test_no_mechanism_is_below(seed, epsilon, n_outputs):
    """Any places, priors, outputs, and losses that are no distances at all."""
    rng = np.random.default_rng(seed)
    records = mdp.Records(rng.random((12, 2)), kind="vectors", prior=rng.dirichlet(np.full(12, 0.5)) + 1e-6)
    outputs = rng.choice(12, n_outputs, replace=False)
    for loss in ("distance", rng.random((12, n_outputs))):
        problem = mdp.Problem(records, epsilon=epsilon, eta=0.5, outputs=outputs, loss=loss)
        least = module.least_loss(problem)
        assert least <= mdp.solve(problem, method="direct", gap=1e-6).loss
        nearest = problem.losses.block(slice(0, 12), slice(None)).min(axis=1)
        assert least >= (records.prior @ nearest) * (1.0 - 1e-8)


def test_some_of_the_pairs_are_enough(monkeypatch):
    """A bound from a sample of the pairs is one, and not above that from all by more than greed can lose."""
    problem = mdp.Problem(mdp.data.grid(6, 6), epsilon=1.0, eta=3.0)
    whole = module.least_loss(problem)
    monkeypatch.setattr(module, "MOST_PAIRS", 60)
    assert 0.0 < module.least_loss(problem) <= 2.0 * whole


def test_a_rough_solve_where_it_is_quick():
    found = mdp.plan(mdp.data.grid(10, 10), within=1.0, factor=2, eta=2.0)
    assert found.distance_at_most <= 1.1 * found.distance_at_least
    assert "no mechanism below" in str(found)


def test_where_solving_is_not_quick_the_figures_are_simple_and_right(monkeypatch):
    """The optimum lies between the figures, which are neither 0 nor those of the plain exponential mechanism alone."""
    monkeypatch.setattr(module, "QUICK_SECONDS", 0.0)
    records = mdp.data.words(n=150, seed=0)
    found = mdp.plan(records, within=1.0, factor=4)
    plain = module.estimate("exponential", found.problem).loss
    best = mdp.solve(found.problem, gap=0.01)
    assert 0.0 < found.distance_at_least <= best.lower_bound * (1 + 1e-9)
    assert best.lower_bound <= found.distance_at_most < 0.95 * plain


def test_nothing_is_said_where_nothing_is_known(monkeypatch):
    """At least 0 says nothing: the line leaves it out."""
    monkeypatch.setattr(module, "QUICK_SECONDS", 0.0)
    monkeypatch.setattr(module, "least_loss", lambda _problem: 0.0)
    text = str(mdp.plan(mdp.data.grid(4, 4), within=1.0, factor=4))
    assert "no mechanism below" not in text
    assert "the best at most about" in text
