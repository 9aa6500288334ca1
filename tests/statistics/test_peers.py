"""The estimate against independent programs: libqif's and multi-freq-ldpy's iterative Bayesian updates."""

from __future__ import annotations

import numpy as np
import pytest
from tests.conftest import small_problem

import metricdp as mdp
from benchmarks import estimates


@pytest.mark.parametrize("dataset", ["grid", "road"])
def test_libqif_finds_the_same(dataset):
    from tests.evaluate.test_leakage import libqif

    libqif()
    mechanism = mdp.solve(small_problem(dataset, 3, n=24, outputs=12, exponent=1.5), gap=0.05).mechanism
    matrix = estimates.rows_of(mechanism)
    theta = np.random.default_rng(1).dirichlet(np.ones(24))
    counts = np.random.default_rng(2).multinomial(20_000, theta @ matrix)
    ours = mdp.estimate(mechanism, estimates.counted(mechanism, counts), max_deficit=1e-4)
    theirs = estimates.by_libqif(matrix, counts / counts.sum())
    assert ours.is_converged
    ahead = estimates.likelihood(matrix, counts, ours.distribution) - estimates.likelihood(matrix, counts, theirs)
    assert -1e-4 <= ahead < 0.05
    np.testing.assert_allclose(ours.distribution @ matrix, theirs @ matrix, atol=2e-4)


def test_multi_freq_ldpy_finds_the_same_for_randomized_response():
    pytest.importorskip("multi_freq_ldpy", reason="multi-freq-ldpy is not installed: pip install metricdp[bench]")
    problem = mdp.Problem(mdp.data.grid(3, 4), epsilon=2.0, eta=9.0)
    mechanism = mdp.Mechanism.from_matrix(problem, estimates.randomized_response(12, 1.99))
    matrix = estimates.rows_of(mechanism)
    theta = np.random.default_rng(1).dirichlet(np.ones(12))
    counts = np.random.default_rng(2).multinomial(20_000, theta @ matrix)
    ours = mdp.estimate(mechanism, estimates.counted(mechanism, counts), max_deficit=1e-6)
    theirs = estimates.by_multi_freq(matrix, counts / counts.sum())
    np.testing.assert_allclose(ours.distribution, theirs, atol=1e-4)
    with pytest.raises(ValueError, match="symmetric"):
        estimates.by_multi_freq(matrix[:, :6], counts[:6] / counts.sum())


def test_earth_is_moved_as_far_as_on_paper():
    away = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    rng = np.random.default_rng(0)
    for _ in range(5):
        a, b = rng.dirichlet(np.ones(4), size=2)
        on_a_line = np.abs(np.cumsum(a - b))[:-1].sum()
        assert estimates.moved(a, b, away) == pytest.approx(on_a_line, abs=1e-9)
    assert estimates.moved(a, a, away) == 0.0


def test_the_next_mechanism_is_better_for_the_crowd_that_was_found():
    problem = mdp.Problem(mdp.data.grid(4, 4), epsilon=1.0, eta=1.5, outputs=8)
    mechanism = mdp.solve(problem, gap=0.01).mechanism
    theta = np.full(16, 0.02)
    theta[[0, 1, 4]] = (1 - 0.02 * 13) / 3
    counts = np.random.default_rng(2).multinomial(20_000, theta @ estimates.rows_of(mechanism))
    found = mdp.estimate(mechanism, estimates.counted(mechanism, counts))
    after = mdp.Problem(found.as_prior(), epsilon=1.0, eta=1.5, outputs=mechanism.outputs.rows)
    solved = mdp.solve(after, gap=0.01).mechanism
    assert solved.certificate.privacy.certified
    np.testing.assert_allclose(solved.records.prior, found.as_prior().prior)
    losses = mdp.problem.loss.distance_loss(after.records, solved.outputs, after.metric)
    old, new = ((theta[:, None] * estimates.rows_of(one) * losses).sum() for one in (mechanism, solved))
    assert new < 0.95 * old
    assert "spends both budgets" in found.prior_warning
    assert "Never compute a prior from true records" in found.prior_warning


def test_the_commands_hand_the_prior_on(run, tmp_path):
    (tmp_path / "true.csv").write_text("id\n" + "r00c00\n" * 400 + "r02c03\n" * 100)
    solve = ("solve", "grid:3x4", "--epsilon", 1, "--eta", 1.5, "--loss", "distance")
    assert run(*solve, "-o", "first.mdp")[0] == 0
    assert run("perturb", "first.mdp", "--input", "true.csv", "--output", "reports.csv")[0] == 0
    code, _, err = run("estimate", "first.mdp", "--input", "reports.csv", "--prior", "prior.csv")
    assert code == 0, err
    assert "WARNING: This prior was computed from reports" in err
    assert "add up" in err
    code, _, err = run(*solve, "--prior", "prior.csv", "-o", "second.mdp")
    assert code == 0, err
    prior = mdp.load(tmp_path / "second.mdp").records.prior
    assert prior.argmax() == 0
    assert prior.min() > 0
