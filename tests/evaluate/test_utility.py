"""What a mechanism costs, against sums over whole numbers and brute force."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import DATASETS, small_problem

import metricdp as mdp
from metricdp.evaluate import utility, weighted_quantiles


@pytest.mark.parametrize("dataset", DATASETS)
def test_loss_of_each_record_and_of_all_equals_the_exact_sums(dataset):
    problem = small_problem(dataset, seed=1)
    mechanism = mdp.exponential(problem)
    found = utility(mechanism, problem)
    exact = [
        sum(Fraction(float(c)) * int(n) for c, n in zip(losses, weights, strict=True)) / 2**63
        for losses, weights in zip(problem.loss, mechanism.table, strict=True)
    ]
    assert found.per_record == pytest.approx([float(value) for value in exact], rel=1e-12)
    total = sum(Fraction(float(p)) * value for p, value in zip(problem.records.prior, exact, strict=True))
    assert Fraction(found.loss) >= total
    assert found.loss == pytest.approx(float(total), rel=1e-12)


def test_reported_distances_of_the_identity_are_zero():
    problem = mdp.Problem(mdp.data.grid(3, 3), epsilon=1.0, eta=0.5, outputs=9)  # nobody has a neighbour
    found = utility(mdp.solve(problem).mechanism, problem)
    assert found.distance_mean == 0.0
    assert set(found.distance_quantiles.values()) == {0.0}


def test_reported_distances_follow_the_prior():
    records = mdp.Records([[0.0], [1.0], [3.0]], prior=[0, 0, 1], kind="vectors")
    problem = mdp.Problem(records, epsilon=1e-9, eta=np.inf, outputs=[0], loss="distance")
    found = utility(mdp.exponential(problem), problem)
    assert found.distance_quantiles[0.05] == found.distance_quantiles[0.99] == found.distance_mean == 3.0


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), min_size=1, max_size=30))
def test_quantiles_equal_those_of_repeated_values(pairs):
    values, weights = np.array(pairs, dtype=float).T
    repeated = np.sort(np.repeat(values, weights.astype(int)))
    levels = (0.05, 0.25, 0.5, 0.75, 0.95)
    expected = [repeated[int(np.ceil(level * len(repeated) - 1e-9)) - 1] for level in levels]
    assert list(weighted_quantiles(values, weights, levels).values()) == expected


def test_unknown_distances_are_not_made_up():
    matrix = np.array([[0.0, 1.0, np.inf], [1.0, 0.0, 1.0], [np.inf, 1.0, 0.0]])
    problem = mdp.Problem(np.arange(3.0), epsilon=1.0, eta=1.0, outputs=3, metric=matrix, loss=1.0 - np.eye(3))
    found = utility(mdp.solve(problem).mechanism, problem)
    assert found.distance_mean is None
    assert found.distance_quantiles is None
    assert found.loss > 0
