"""The estimated distribution: it converges, its deficit is a bound, and sparse tables give the same."""

from __future__ import annotations

import numpy as np
import pytest
from tests.conftest import small_problem
from tests.mechanism.sparse_tables import sparse_of

import metricdp as mdp
from metricdp.errors import InputError
from metricdp.statistics import ReportCounts
from metricdp.statistics.channel import Channel
from metricdp.statistics.likelihood import fit


@pytest.fixture(scope="module")
def mechanism():
    return mdp.solve(small_problem("grid", 3, n=24, outputs=12, exponent=1.5), gap=0.05).mechanism


def counts_from(mechanism, theta, n, seed):
    return np.random.default_rng(seed).multinomial(n, theta @ mechanism.probabilities)


def log_likelihood(mechanism, counts, theta):
    chances = theta @ mechanism.probabilities
    return float(counts[counts > 0] @ np.log(chances[counts > 0]))


@pytest.mark.parametrize("seed", range(5))
def test_the_deficit_bounds_what_any_other_distribution_gains(mechanism, seed):
    generator = np.random.default_rng(seed)
    counts = counts_from(mechanism, generator.dirichlet(np.full(24, 0.3)), 5000, seed)
    channel, start = Channel(mechanism.table), np.full(24, 1 / 24)
    rough = fit(channel, counts, start, max_deficit=20.0, max_updates=10_000)
    fine = fit(channel, counts, start, max_deficit=0.1, max_updates=200_000)
    assert rough.deficit <= 20.0
    assert fine.deficit <= 0.1
    assert rough.updates < fine.updates
    gain = log_likelihood(mechanism, counts, fine.shares) - log_likelihood(mechanism, counts, rough.shares)
    assert gain + 0.1 >= 0.0
    assert gain <= rough.deficit + 1e-9
    for _ in range(200):
        other = generator.dirichlet(np.full(24, 0.2)) * 0.5 + 0.5 * fine.shares
        assert log_likelihood(mechanism, counts, other) <= log_likelihood(mechanism, counts, fine.shares) + 0.1
    assert fine.shares.sum() == pytest.approx(1.0)
    assert (fine.shares >= 0).all()


def test_the_likelihood_never_falls_and_acceleration_saves_updates(mechanism):
    theta = np.random.default_rng(0).dirichlet(np.full(24, 0.3))
    counts = counts_from(mechanism, theta, 100_000, 0)
    channel, start = Channel(mechanism.table), np.full(24, 1 / 24)
    values = [
        log_likelihood(mechanism, counts, fit(channel, counts, start, max_deficit=1e-9, max_updates=most).shares)
        for most in range(1, 60, 4)
    ]
    assert np.diff(values).min() >= -1e-6
    plain, updates = start, 0
    while True:
        chances = plain @ mechanism.probabilities
        ratios = mechanism.probabilities @ (counts / counts.sum() / chances)
        updates += 1
        if counts.sum() * np.log(ratios.max()) <= 1.0:
            break
        plain = plain * ratios
    assert 3 * fit(channel, counts, start, max_deficit=1.0, max_updates=updates).updates < updates


def test_infinitely_many_reports_give_the_truth_where_it_is_identified():
    problem = mdp.Problem(mdp.data.grid(3, 3), epsilon=4.0, eta=1.5)
    mechanism = mdp.exponential(problem)
    theta = np.random.default_rng(1).dirichlet(np.ones(9))
    counts = np.round(1e12 * theta @ mechanism.probabilities).astype(np.int64)
    found = mdp.estimate(mechanism, _counted(mechanism, counts), max_deficit=1.0)
    assert found.is_converged
    assert np.abs(found.distribution - theta).max() < 1e-4


def _counted(mechanism, counts):
    made = ReportCounts(mechanism)
    made._counts += counts
    return made


@pytest.mark.parametrize("some", [None, np.array([1, 4, 5, 11])])
def test_sparse_products_are_those_of_the_dense_table(mechanism, some):
    table = mechanism.table
    sparse = sparse_of(table)
    assert sparse.background.any()
    dense, other = Channel(table, some), Channel(sparse, some)
    shares = np.random.default_rng(2).dirichlet(np.ones(24))
    values = np.random.default_rng(3).normal(size=dense.shape[1])
    expected = mechanism.probabilities if some is None else mechanism.probabilities[:, some]
    np.testing.assert_allclose(dense.chances(shares), shares @ expected, rtol=1e-12)
    np.testing.assert_allclose(other.chances(shares), shares @ expected, rtol=1e-12)
    np.testing.assert_allclose(other.means(values), expected @ values, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(other.rows(np.array([7, 2])), expected[[7, 2]], rtol=1e-12)
    assert dense.shape == other.shape == expected.shape


def test_a_sparse_mechanism_gives_the_same_statistics(mechanism):
    other = mechanism.with_table(sparse_of(mechanism.table), solver="sparse")
    reports = mechanism.perturb(list(mechanism.records.ids) * 50)
    dense, sparse = mdp.estimate(mechanism, reports), mdp.estimate(other, reports)
    np.testing.assert_allclose(dense.distribution, sparse.distribution, atol=1e-9)
    a, b = dense.interval(range(10)), sparse.interval(range(10))
    assert (a.low, a.high) == (pytest.approx(b.low, abs=3e-4), pytest.approx(b.high, abs=3e-4))


def test_it_says_when_it_is_not_converged(mechanism):
    reports = mechanism.perturb(list(mechanism.records.ids) * 50)
    found = mdp.estimate(mechanism, reports, max_updates=1)
    assert not found.is_converged
    assert "not converged" in repr(found)
    np.testing.assert_array_equal(found.distribution, np.full(24, 1 / 24))


def test_a_start_is_kept_where_reports_do_not_decide():
    """Two records with one row each cannot be told apart by any report."""
    records = mdp.Records([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]], kind="vectors")
    mechanism = mdp.exponential(mdp.Problem(records, epsilon=2.0, eta=2.0))
    reports = mechanism.perturb(["0"] * 500)
    found = mdp.estimate(mechanism, reports, start=[3.0, 1.0, 1.0])
    assert found.distribution[0] == pytest.approx(3 * found.distribution[1])
    for bad in ([1.0, 0.0, 1.0], [1.0, 1.0], [1.0, np.nan, 1.0]):
        with pytest.raises(InputError, match="start must hold a positive weight"):
            mdp.estimate(mechanism, reports, start=bad)


def test_the_prior_of_the_next_solve(mechanism):
    found = mdp.estimate(mechanism, mechanism.perturb([mechanism.records.ids[3]] * 500))
    prior = found.as_prior(uniform=0.2).prior
    np.testing.assert_allclose(prior, 0.8 * found.distribution + 0.2 / 24)
    assert found.as_prior().prior.min() > 0.0
    assert "add up" in found.prior_warning
    with pytest.raises(InputError, match="the uniform share of a prior"):
        found.as_prior(uniform=1.5)
