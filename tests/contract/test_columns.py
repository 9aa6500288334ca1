"""Column generation equals the direct solver; its iterates are private; bad masters end honestly."""

from __future__ import annotations

import numpy as np
import pytest
from tests.conftest import DATASETS, rome_problem, small_problem

import metricdp as mdp
from metricdp.errors import SolverError
from metricdp.solve.component import Component
from metricdp.solve.solvers.columns import best_combination
from metricdp.solve.solvers.columns.kernels import starting_columns
from metricdp.solve.solvers.columns.master import ColumnMaster
from metricdp.solve.stop import Stop


def check_agreement(problem, *, gap=1e-3, has_rounds=True, **options):
    rows = []
    exact = mdp.solve(problem, method="direct", gap=1e-6)
    result = mdp.solve(problem, method="columns", gap=gap, listener=rows.append, time_limit=60.0, **options)
    assert result.status is mdp.Status.OPTIMAL, result
    assert result.mechanism.certificate.privacy.certified
    assert result.lower_bound <= exact.loss * (1 + 1e-12)
    assert exact.lower_bound <= result.loss * (1 + 1e-12)
    numbers = {row["component"] for row in rows if row["stage"] == "columns"}
    assert numbers or not has_rounds
    for number in numbers:
        steps = [row for row in rows if row["stage"] == "columns" and row["component"] == number]
        assert (np.diff([step["lower_bound"] for step in steps]) >= 0).all()
        assert (np.diff([step["upper_bound"] for step in steps]) <= 0).all()
    return result


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize(("exponent", "seed"), [(0.1, 1), (0.5, 2), (1.0, 3), (3.0, 1), (10.0, 2)])
def test_equals_direct(dataset, exponent, seed):
    """Where patches, which are solved exactly, cover the components there is nothing left for columns to do."""
    problem = small_problem(dataset, seed=seed, n=24, outputs="random:6", exponent=exponent)
    check_agreement(problem, has_rounds=False, options=mdp.ColumnOptions(records_per_patch=8))


@pytest.mark.xfail(strict=True, reason="no new columns are found, and the lower bound of the patches does not rise")
@pytest.mark.parametrize(
    ("dataset", "seed", "n", "outputs", "exponent"), [("grid", 9, 14, 2, 0.5), ("gaussian", 6, 24, 6, 0.1)]
)
def test_patches_do_not_hold_the_bound_back(dataset, seed, n, outputs, exponent):
    problem = small_problem(dataset, seed=seed, n=n, outputs=f"random:{outputs}", exponent=exponent)
    check_agreement(problem, options=mdp.ColumnOptions(records_per_patch=8, max_rounds=100))


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("exponent", [0.1, 1.0, 10.0])
def test_without_patches(dataset, exponent):
    problem = small_problem(dataset, seed=2, n=24, outputs="random:6", exponent=exponent)
    check_agreement(problem, options=mdp.ColumnOptions(patches=False))


def test_a_purged_pool_still_converges():
    # a pool much smaller than this throws away what it needs again, and may turn in circles
    problem = small_problem("road", seed=6, n=40, outputs="random:10", exponent=0.3)
    check_agreement(problem, gap=1e-4, options=mdp.ColumnOptions(records_per_patch=5, crowded=2.0))


def test_start_from_a_mechanism():
    problem = small_problem("gaussian", seed=6, n=40, outputs="random:10", exponent=0.5)
    best = mdp.solve(problem, method="direct", gap=1e-6)
    again = mdp.solve(problem, method="columns", gap=1e-3, start=best.mechanism)
    assert again.loss <= best.loss * (1 + 1e-6)
    with pytest.raises(mdp.InputError, match="start must have shape"):
        mdp.solve(problem, method="columns", start=np.ones((2, 2)))


def test_checkpoint_and_resume(tmp_path):
    problem = small_problem("road", seed=7, n=40, outputs="random:10", exponent=0.3)
    options = {"method": "columns", "checkpoint": tmp_path / "run"}
    few = mdp.ColumnOptions(records_per_patch=5, max_rounds=2)
    first = mdp.solve(problem, gap=1e-6, options=few, **options)
    assert first.iterations == 2
    rows = []
    more = mdp.ColumnOptions(records_per_patch=5)
    second = mdp.solve(problem, gap=1e-4, options=more, resume=True, listener=rows.append, **options)
    assert second.status is mdp.Status.OPTIMAL
    assert [row["round"] for row in rows if row["stage"] == "columns"][:1] in ([2], [])
    assert second.lower_bound >= first.lower_bound
    other = small_problem("road", seed=8, n=40, outputs="random:10", exponent=0.3)
    with pytest.raises(mdp.InputError, match="another problem"):
        mdp.solve(other, resume=True, options=more, **options)


@pytest.mark.parametrize("dataset", DATASETS)
def test_kernel_mechanism_is_certified_and_bounded(dataset):
    problem = small_problem(dataset, seed=2, n=30, outputs="random:8", exponent=5.0)
    exact = mdp.solve(problem, method="direct", gap=1e-6)
    result = mdp.solve(problem, method="kernel", gap=0.05)
    assert result.mechanism.certificate.privacy.certified
    assert result.lower_bound <= exact.loss * (1 + 1e-12)
    assert result.loss >= exact.lower_bound * (1 - 1e-12)
    assert result.loss <= 1.05 * exact.loss + 1e-9


@pytest.mark.parametrize("noise", [1e-3, 1e-1, 1.0])
@pytest.mark.parametrize("dataset", DATASETS)
def test_combination_is_never_worse_than_mixing(dataset, noise):
    problem = small_problem(dataset, seed=9, n=30, outputs="random:8", exponent=1.0)
    optimum = mdp.solve(problem, method="direct", gap=1e-6)
    generator = np.random.default_rng(0)
    Z = optimum.mechanism.probabilities * np.exp(noise * generator.standard_normal(problem.costs.shape))
    mixed, combined = mdp.Mechanism.from_matrix(problem, Z), best_combination(problem, Z)
    losses = [problem.expected_loss(m.probabilities) for m in (mixed, combined)]
    assert combined.certificate.privacy.certified
    assert optimum.lower_bound * (1 - 1e-9) <= losses[1] <= losses[0] * (1 + 1e-12)


def test_kernels_are_in_the_cone():
    problem = small_problem("gaussian", seed=1, n=30)
    rows = max(problem.graph.components, key=len)
    component = Component(problem.costs[rows], problem.graph.subgraph(rows), problem.epsilon)
    V = starting_columns(component, Stop()).toarray()
    g = np.exp(component.epsilon * component.graph.distances)
    i, j = component.graph.pairs.T
    assert (V[:, i] <= g * V[:, j] * (1 + 1e-9) + 1e-9).all()
    assert (V[:, j] <= g * V[:, i] * (1 + 1e-9) + 1e-9).all()
    assert (V.max(axis=1) == 1.0).all()


def test_kernel_on_the_seeds_instance():
    for epsilon, gap in ((10.0, 5e-4), (5.0, 1e-2)):
        result = mdp.solve(rome_problem(epsilon), method="kernel", gap=gap)
        assert result.status is mdp.Status.OPTIMAL
        assert result.gap <= gap


HARD = {
    "near duplicates": lambda: (np.repeat(np.arange(6.0), 3) + np.tile([0.0, 1e-9, 1e-7], 6), 1.0, 2.0),
    "tiny epsilon": lambda: (np.arange(12.0), 1e-8, 3.0),
    "complete graph": lambda: (np.random.default_rng(0).normal(size=15), 0.3, np.inf),
    "huge epsilon": lambda: (np.arange(12.0), 500.0, 3.0),
    "one cluster": lambda: (np.random.default_rng(1).normal(size=20) * 1e-6, 1.0, 1.0),
}


@pytest.mark.parametrize("case", HARD)
@pytest.mark.parametrize("method", ["columns", "kernel"])
def test_hard_masters_end_in_a_certified_mechanism(case, method):
    points, epsilon, eta = HARD[case]()
    records = mdp.Records(points, kind="vectors")
    problem = mdp.Problem(
        records, epsilon=epsilon, eta=eta, outputs=np.linspace(points.min(), points.max(), 5)[:, None]
    )
    result = mdp.solve(problem, method=method, gap=1e-3, time_limit=20.0)
    assert result.mechanism.certificate.privacy.certified
    assert 0.0 <= result.lower_bound <= result.loss
    exact = mdp.solve(problem, method="direct", gap=1e-3)
    assert result.lower_bound <= exact.loss * (1 + 1e-9)


def test_a_failing_solver_is_not_shown_to_the_user(monkeypatch):
    def fail(*_args, **_options):
        raise SolverError("the LP solver gave up: Unknown")

    monkeypatch.setattr(ColumnMaster, "solve", fail)
    rows = []
    problem = small_problem("grid", seed=3, n=24, outputs="random:6")
    result = mdp.solve(problem, method="columns", gap=1e-9, listener=rows.append)
    assert result.mechanism.certificate.privacy.certified
    assert result.status in (mdp.Status.LIMIT, mdp.Status.FAILED, mdp.Status.OPTIMAL)
    assert [row["reason"] for row in rows if row["stage"] == "gave up"][:1] == ["the LP solver gave up: Unknown"]


@pytest.mark.parametrize(
    ("options", "part"), [({"records_per_patch": 0}, "records_per_patch"), ({"max_rounds": 0}, "max_rounds")]
)
def test_bad_options(options, part):
    with pytest.raises(mdp.InputError, match=part):
        mdp.ColumnOptions(**options)
