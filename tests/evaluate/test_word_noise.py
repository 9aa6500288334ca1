"""The two common mechanisms for words: noise in all dimensions, and the truncated exponential mechanism."""

from __future__ import annotations

import math

import numpy as np
import pytest

import metricdp as mdp
from metricdp.evaluate import audit, compare, truncated_exponential
from metricdp.evaluate.word_noise import laplace_noise, noisy_words


@pytest.fixture(scope="module")
def problem():
    return mdp.Problem(mdp.data.words().select(range(40)), epsilon=2.0, eta="connect")


def tem_by_its_definition(problem, gamma):
    """Carvalho et al.: words within gamma, and one entry for all others with 2 ln(their number) / epsilon more."""
    distances, epsilon = problem.loss, problem.epsilon
    Z = np.empty_like(distances)
    for i, row in enumerate(distances):
        near = row <= gamma
        n_far = int((~near).sum())
        scores = [*(-row[near]), *([-gamma + 2 * math.log(n_far) / epsilon] if n_far else [])]
        weights = np.exp(0.5 * epsilon * np.array(scores))  # the largest score with Gumbel noise of scale 2 / epsilon
        weights /= weights.sum()
        Z[i, near] = weights[: near.sum()]
        Z[i, ~near] = weights[-1] / max(1, n_far)
    return Z


@pytest.mark.parametrize("gamma", [2.0, 4.0, 100.0])
def test_tem_is_that_of_its_authors_and_is_certified(problem, gamma):
    made = truncated_exponential(problem, gamma=gamma)
    assert made.probabilities == pytest.approx(tem_by_its_definition(problem, gamma), rel=1e-6, abs=1e-15)
    assert made.epsilon == problem.epsilon
    assert audit(made, problem).epsilon <= problem.epsilon
    with pytest.raises(mdp.InputError, match="gamma must be positive"):
        truncated_exponential(problem, gamma=-1.0)


def test_noise_has_the_radius_of_its_density():
    """Gamma with shape D and scale 1 / epsilon; the direction is uniform."""
    noise = laplace_noise(np.random.default_rng(3), 20_000, 5, 2.0)
    radius = np.linalg.norm(noise, axis=1)
    assert radius.mean() == pytest.approx(2.5, rel=0.02)
    assert radius.var() == pytest.approx(5 / 4, rel=0.05)
    assert np.abs(noise.mean(axis=0)).max() < 0.03


def test_noise_on_a_line_costs_what_it_must():
    """Two words at 0 and 1: the other one is reported with probability exp(-epsilon / 2) / 2."""
    line = mdp.Problem(mdp.Records([[0.0], [1.0]], kind="vectors"), epsilon=2.0, eta=1.0)
    losses, note = noisy_words(line, 4.0)
    assert losses.mean() == pytest.approx(0.5 * math.exp(-1.0), abs=0.01)
    assert "NOT CERTIFIED" in note
    assert "40,000 draws" in note


def test_both_stand_beside_ours(problem):
    found = compare(mdp.solve(problem).mechanism, problem, ["multivariate-laplace", "truncated-exponential"])
    (tem,) = found.rows[1:]
    assert tem.certified
    assert tem.tightest_epsilon <= problem.epsilon
    assert found.ours.loss < tem.loss
    (noise,) = found.estimates
    assert noise.name == "multivariate-laplace"
    assert 0 < noise.standard_error < 0.02 * noise.loss
    assert found.ours.loss < noise.loss - 5 * noise.standard_error


def test_what_a_metric_must_be():
    words = mdp.data.words().select(range(20))
    cosine = mdp.Problem(words, epsilon=20.0, eta="connect", metric="cosine")
    found = compare(mdp.exponential(cosine), cosine, ["multivariate-laplace", "truncated-exponential", "exponential"])
    assert "Euclidean" in found.unavailable["multivariate-laplace"]
    assert all("not proved here that it guarantees" in row.note for row in found.rows[1:])


def test_the_loss_may_be_any(problem):
    """A matrix of losses is looked up."""
    same = mdp.Problem(problem.records, epsilon=2.0, eta=problem.eta, loss=problem.loss)
    assert noisy_words(same, 0.1)[0] == pytest.approx(noisy_words(problem, 0.1)[0], rel=1e-9)
