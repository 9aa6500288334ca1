"""Measures of information flow, against closed forms and against libqif."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import DATASETS, small_problem

import metricdp as mdp
from metricdp.evaluate import attack, gain_within, leakage
from metricdp.mechanism.baselines import exponential_matrix


def libqif():
    """The library that our measures are compared with; its wheels need a processor with AVX2."""
    if sys.platform == "linux" and "avx2" not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        pytest.skip("libqif needs a processor with AVX2")
    return pytest.importorskip("qif", reason="libqif (qif) is not installed: pip install metricdp[dev]")


def channels(dataset):
    """A prior that is not uniform, and three channels: a solved one, a matrix, and one without information."""
    plain = small_problem(dataset, seed=4)
    weights = np.random.default_rng(4).uniform(0.2, 1.0, plain.n_records)
    problem = mdp.Problem(
        plain.records.with_prior(weights), epsilon=plain.epsilon, eta=plain.eta, outputs=plain.outputs.rows
    )
    useless = np.full((plain.n_records, plain.n_outputs), 1.0 / plain.n_outputs)
    return problem, [mdp.solve(problem).mechanism, exponential_matrix(problem), useless]


def test_a_binary_channel_in_closed_form():
    problem = mdp.Problem(mdp.data.grid(1, 2), epsilon=1.0, eta=1.0)
    told = leakage([[0.75, 0.25], [0.25, 0.75]], problem, gain=[[1.0, 0.0], [0.0, 3.0]])
    assert (told.bayes.before, told.bayes.after) == (0.5, 0.75)
    assert told.min_entropy_leakage == pytest.approx(math.log2(1.5))
    assert told.entropy == pytest.approx(1.0)
    assert told.conditional_entropy == pytest.approx(-0.75 * math.log2(0.75) - 0.25 * math.log2(0.25))
    # after the first report guess 0 gains 0.375 and guess 1 gains 3 / 8: equal; after the second guess 1 gains 9 / 8
    assert (told.gain.before, told.gain.after) == (1.5, 1.5)
    assert (told.gain.ratio, told.gain.difference) == (1.0, 0.0)


def test_the_identity_tells_all_and_a_constant_nothing():
    problem = mdp.Problem(mdp.data.grid(2, 2), epsilon=1.0, eta=1.0)
    everything, nothing = leakage(np.eye(4), problem), leakage(np.full((4, 4), 0.25), problem)
    assert (everything.mutual_information, everything.min_entropy_leakage) == (2.0, 2.0)
    assert nothing.mutual_information == pytest.approx(0.0, abs=1e-15)
    assert nothing.min_entropy_leakage == 0.0


@pytest.mark.parametrize("dataset", DATASETS)
def test_agreement_with_libqif(dataset):
    qif = libqif()
    problem, made = channels(dataset)
    pi = np.array(problem.records.prior)
    distances = np.zeros((problem.n_records, problem.n_records))
    i, j = problem.graph.pairs.T
    distances[i, j] = distances[j, i] = problem.graph.distances
    is_complete = problem.graph.n_pairs == problem.n_records * (problem.n_records - 1) // 2
    G = np.random.default_rng(1).uniform(0.0, 2.0, (5, problem.n_records))
    measure = qif.measure
    for one in made:
        C = one.to_numpy() if isinstance(one, mdp.Mechanism) else one
        told = leakage(one, problem, gain=G)
        assert told.bayes.before == pytest.approx(measure.bayes_vuln.prior(pi))
        assert told.bayes.after == pytest.approx(measure.bayes_vuln.posterior(pi, C))
        assert told.bayes.ratio == pytest.approx(measure.bayes_vuln.mult_leakage(pi, C))
        assert told.bayes.difference == pytest.approx(measure.bayes_vuln.add_leakage(pi, C), abs=1e-12)
        assert told.min_entropy_leakage == pytest.approx(measure.bayes_vuln.min_entropy_leakage(pi, C), abs=1e-12)
        assert told.entropy == pytest.approx(measure.shannon.prior(pi))
        assert told.conditional_entropy == pytest.approx(measure.shannon.posterior(pi, C))
        assert told.mutual_information == pytest.approx(measure.shannon.add_leakage(pi, C), abs=1e-12)
        assert told.gain.before == pytest.approx(measure.g_vuln.prior(G, pi))
        assert told.gain.after == pytest.approx(measure.g_vuln.posterior(G, pi, C))
        assert told.gain.ratio == pytest.approx(measure.g_vuln.mult_leakage(G, pi, C))
        if is_complete:  # libqif measures all pairs
            tightest = measure.d_privacy.smallest_epsilon(C, lambda x, y: float(distances[x, y]))
            assert mdp.audit(one, problem).epsilon == pytest.approx(tightest, rel=1e-9, abs=1e-12)


def test_a_pair_that_libqif_measures_has_the_epsilon_of_the_audit():
    qif = libqif()
    problem = mdp.Problem(mdp.data.grid(3, 3), epsilon=1.0, eta=math.inf)
    C = exponential_matrix(problem)
    away = mdp.metric.as_metric(None, problem.records).to_rows(problem.records, np.arange(9))
    tightest = qif.measure.d_privacy.smallest_epsilon(C, lambda x, y: float(away[x, y]))
    assert 0.5 < tightest < 1.0
    assert mdp.audit(C, problem).epsilon == pytest.approx(tightest, rel=1e-12)


def test_the_adversary_s_chance_is_the_bayes_vulnerability():
    problem, made = channels("road")
    for one in made:
        seen, told = attack(one, problem), leakage(one, problem)
        assert (seen.right, seen.blind_right) == pytest.approx((told.bayes.after, told.bayes.before))


def test_large_tables_are_taken_in_parts(monkeypatch):
    problem, (mechanism, *_) = channels("grid")
    whole = leakage(mechanism, problem, gain=np.eye(problem.n_records))
    module = importlib.import_module("metricdp.evaluate.leakage")
    monkeypatch.setattr(module, "ENTRIES_AT_ONCE", 2 * problem.n_records)
    parts = leakage(mechanism, problem, gain=np.eye(problem.n_records))
    assert vars(parts.bayes) == pytest.approx(vars(whole.bayes))
    assert vars(parts.gain) == pytest.approx(vars(whole.bayes))
    assert parts.conditional_entropy == pytest.approx(whole.conditional_entropy)


def test_guessing_within_a_distance():
    problem = mdp.Problem(mdp.data.grid(1, 3), epsilon=1.0, eta=1.0)
    Z = np.full((3, 3), 1 / 3)
    assert gain_within(problem, 1.0).tolist() == [[1, 1, 0], [1, 1, 1], [0, 1, 1]]
    assert leakage(Z, problem, gain=gain_within(problem, 1.0)).gain.before == pytest.approx(1.0)
    assert leakage(Z, problem, gain=gain_within(problem, 0.0)).gain.before == pytest.approx(1 / 3)
    assert leakage(Z, problem, gain=lambda w, x: float(w == x)).gain.after == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("gain", "message"),
    [([1.0, 2.0], "a row for each guess"), (np.ones((2, 4)), "the 3 records"), ([[-1.0, 0.0, 0.0]], "not negative")],
)
def test_gains_that_are_refused(gain, message):
    problem = mdp.Problem(mdp.data.grid(1, 3), epsilon=1.0, eta=1.0)
    with pytest.raises(mdp.InputError, match=message):
        leakage(np.full((3, 3), 1 / 3), problem, gain=gain)
    with pytest.raises(mdp.InputError, match="zero or positive, got -1"):
        gain_within(problem, -1)
