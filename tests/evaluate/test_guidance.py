"""Degenerate problems are told in one sentence, others in none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import metricdp as mdp
from metricdp.evaluate import guidance


def told(records, **options):
    problem = mdp.Problem(records, **options)
    return guidance(problem, mdp.solve(problem, gap=1e-4).mechanism)


GRID = mdp.data.grid(3, 3)


@pytest.mark.parametrize(
    ("epsilon", "eta", "part"),
    [
        (1.0, 0.5, "NOTHING is protected"),
        (1.0, 1.0, None),
        (100.0, 1.0, "so large"),
        (1e-6, 1.0, "so small"),
        (1.0, np.inf, "complete graph"),
        (100.0, np.inf, "so large"),
        (1e-6, np.inf, "so small"),
    ],
)
def test_each_case(epsilon, eta, part):
    sentence = told(GRID, epsilon=epsilon, eta=eta, outputs=9)
    if part is None:
        assert sentence is None
    else:
        assert part in sentence
        assert sentence.endswith(".")
        assert ". " not in sentence  # one sentence


def test_values_and_remedy_are_named():
    assert "epsilon = 100 " in told(GRID, epsilon=100.0, eta=1.0, outputs=9)
    assert "epsilon = 1 would be" in told(GRID, epsilon=100.0, eta=1.0, outputs=9)
    assert "eta = 0.5" in told(GRID, epsilon=1.0, eta=0.5, outputs=9)


def test_privacy_for_nothing():
    assert "costs nothing" in told(GRID, epsilon=1.0, eta=1.0, outputs=[4])


def test_records_that_cannot_occur_do_not_count():
    prior = np.ones(9)
    prior[0] = 0.0
    assert "so large" in told(GRID.with_prior(prior), epsilon=100.0, eta=1.0, outputs=9)


def test_a_suggestion_lies_on_the_side_that_is_asked_for():
    """1 at the median distance is no help where it is larger than what is too large, and the other way round."""
    problem = mdp.Problem(mdp.data.grid(1, 2), epsilon=40.0, eta=1.0)
    alike = mdp.Mechanism.from_matrix(problem, np.full((2, 2), 0.5))
    assert "choose a larger one." in guidance(problem, alike)


def test_a_run_that_was_cut_off_is_told_from_strong_privacy():
    problem = mdp.Problem(mdp.data.grid(1, 2), epsilon=40.0, eta=1.0)
    alike = mdp.Mechanism.from_matrix(problem, np.full((2, 2), 0.5))
    cut_off = replace(alike, optimality=mdp.mechanism.Optimality(0.5, 0.0))
    sentence = guidance(problem, cut_off)
    assert "the run ended before it found a better mechanism" in sentence
    assert "epsilon" not in sentence
