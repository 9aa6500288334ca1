"""The Bayesian adversary, against brute force and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.conftest import DATASETS, small_problem

import metricdp as mdp
from metricdp.evaluate import adversary, attack, posterior, wrong_prior
from metricdp.evaluate.adversary import attack_all


def two_records(epsilon: float, prior=(1, 1)) -> tuple[mdp.Problem, mdp.Mechanism]:
    """Two records at distance 1 that report themselves with probability e / (1 + e)."""
    records = mdp.Records([[0.0], [1.0]], prior=prior, kind="vectors")
    problem = mdp.Problem(records, epsilon=epsilon, eta=1.0, outputs=2)
    return problem, mdp.solve(problem, gap=1e-9).mechanism


def brute_force(mechanism, problem, belief):
    """Every guess for every output, one after another."""
    Z, p = mechanism.probabilities, problem.records.prior
    D = problem.metric.to_rows(problem.records, np.arange(problem.n_records))
    error = right = 0.0
    for k in range(problem.n_outputs):
        guess = min(range(len(D)), key=lambda g: sum(belief[i] * Z[i, k] * D[i, g] for i in range(len(D))))
        error += sum(p[i] * Z[i, k] * D[i, guess] for i in range(len(D)))
        likely = max(range(len(D)), key=lambda i: belief[i] * Z[i, k])
        right += p[likely] * Z[likely, k]
    return error, right


def test_two_records_in_closed_form():
    for epsilon in (0.3, 1.0, 4.0):
        problem, mechanism = two_records(epsilon)
        found = attack(mechanism, problem)
        assert found.right == pytest.approx(math.exp(epsilon) / (1 + math.exp(epsilon)), rel=1e-6)
        assert found.error == pytest.approx(1 / (1 + math.exp(epsilon)), rel=1e-6)
        assert (found.blind_error, found.blind_right) == (0.5, 0.5)


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("wrong", [False, True])
def test_equals_brute_force(dataset, wrong):
    problem = small_problem(dataset, seed=2)
    mechanism = mdp.exponential(problem)
    belief = np.random.default_rng(0).exponential(size=12) if wrong else problem.records.prior
    found = attack(mechanism, problem, belief=belief if wrong else None)
    assert (found.error, found.right) == pytest.approx(brute_force(mechanism, problem, belief), rel=1e-9)


@pytest.mark.parametrize("dataset", DATASETS)
def test_laws(dataset):
    """A report never hurts who knows the prior, and a wrong belief never helps."""
    problem = small_problem(dataset, seed=3)
    mechanism = mdp.exponential(problem)
    true = attack(mechanism, problem)
    assert true.error <= true.blind_error * (1 + 1e-12)
    assert true.right >= true.blind_right * (1 - 1e-12)
    for belief in (wrong_prior(problem)[0], np.random.default_rng(1).exponential(size=12)):
        wrong = attack(mechanism, problem, belief=belief)
        assert wrong.error >= true.error * (1 - 1e-12)
        assert wrong.right <= true.right * (1 + 1e-12)


def test_the_factor_between_posteriors_is_bounded_by_the_budget():
    problem = small_problem("grid", seed=4)
    mechanism = mdp.exponential(problem)
    after = posterior(mechanism)
    assert after.sum(axis=0) == pytest.approx(1.0)
    odds = after / problem.records.prior[:, None]
    i, j = problem.graph.pairs.T
    limit = np.exp(problem.epsilon * problem.graph.distances)[:, None]
    assert (odds[i] <= limit * odds[j] * (1 + 1e-9)).all()


def test_an_output_that_never_occurs_leaves_the_belief():
    problem = mdp.Problem(np.array([0.0, 9.0]), epsilon=1.0, eta=1.0, outputs=2)
    mechanism = mdp.solve(problem).mechanism  # the identity
    assert posterior(mechanism, [1, 0])[:, 1].tolist() == [1.0, 0.0]
    assert posterior(mechanism)[:, 1].tolist() == [0.0, 1.0]


def test_several_at_once_equal_one_by_one(monkeypatch):
    monkeypatch.setattr(adversary, "ENTRIES_AT_ONCE", 30)  # several blocks of guesses
    problem = small_problem("road", seed=5)
    both = [mdp.exponential(problem), mdp.solve(problem).mechanism]
    for together, mechanism in zip(attack_all(both, problem), both, strict=True):
        alone = attack(mechanism, problem)
        assert (together.error, together.right) == pytest.approx((alone.error, alone.right))
        assert together.guesses.tolist() == alone.guesses.tolist()


def test_the_wrong_prior_is_wrong():
    problem, _ = two_records(1.0, prior=(1, 3))
    assert wrong_prior(problem)[0].tolist() == [0.5, 0.5]
    uniform = mdp.Problem(mdp.data.grid(3, 3), epsilon=1.0, eta=1.0, outputs=9)
    belief, _ = wrong_prior(uniform)
    assert belief.argmax() == 4  # the middle has most neighbours
    assert belief.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("belief", "part"), [([1.0], "each of the 2"), ([1.0, -1.0], "-1.0"), ([0, 0], "zero"), ([np.nan, 1], "nan")]
)
def test_bad_beliefs(belief, part):
    problem, mechanism = two_records(1.0)
    with pytest.raises(mdp.InputError, match=part):
        attack(mechanism, problem, belief=belief)
