"""Remapping is post-processing: never less private, never more costly, and the best of all maps."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.conftest import DATASETS, small_problem
from tests.mechanism.independent import is_private

import metricdp as mdp
from metricdp.evaluate import best_outputs, remap
from metricdp.mechanism.baselines import planar_laplace, uniform
from metricdp.mechanism.mechanism import table_loss


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("make", [mdp.exponential, uniform, planar_laplace])
def test_the_certificate_still_holds_and_the_loss_does_not_rise(dataset, make):
    problem = small_problem(dataset, seed=1)
    mechanism = make(problem)
    after = remap(mechanism, problem)
    assert after.epsilon == mechanism.epsilon
    assert after.certificate.privacy.certified
    assert is_private(after.table, problem.graph.pairs, problem.graph.distances, mechanism.epsilon)
    assert table_loss(after.table, problem) <= table_loss(mechanism.table, problem) * (1 + 1e-12)
    assert np.array_equal(
        best_outputs(after, problem)[best_outputs(mechanism, problem)], best_outputs(mechanism, problem)
    )


def test_it_is_the_best_of_all_maps():
    problem = small_problem("grid", seed=2, n=8, outputs=4, exponent=0.2)
    mechanism = mdp.exponential(problem)
    Z = mechanism.probabilities
    losses = []
    for targets in itertools.product(range(4), repeat=4):
        moved = np.zeros_like(Z)
        for k, to in enumerate(targets):
            moved[:, to] += Z[:, k]
        losses.append(problem.expected_loss(moved))
    found = table_loss(remap(mechanism, problem).table, problem)
    assert found == pytest.approx(min(losses), rel=1e-12)
    assert found < table_loss(mechanism.table, problem)


def test_uniform_becomes_the_one_best_output():
    problem = small_problem("words", seed=3)
    after = remap(uniform(problem), problem)
    best = problem.costs.sum(axis=0).argmin()
    assert (after.table[:, best] == 2**63).all()


def test_the_optimum_gains_nothing():
    problem = small_problem("gaussian", seed=4)
    result = mdp.solve(problem, gap=1e-7)
    assert table_loss(remap(result.mechanism, problem).table, problem) == pytest.approx(result.loss, rel=1e-6)
