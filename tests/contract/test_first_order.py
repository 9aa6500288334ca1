"""The first-order method agrees with the direct one within its certified gap, on degenerate problems, too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.conftest import DATASETS, exponents, small_problem
from tests.mechanism.independent import is_private

import metricdp as mdp
from metricdp.mechanism.repair import private_matrix, repair

GAP = 1e-2

WEAK = 6.0  # epsilon times the median distance


def check_agreement(problem, *, gap=GAP, must_reach=True, **options):
    rows = []
    exact = mdp.solve(problem, method="direct", gap=1e-6)
    result = mdp.solve(problem, method="first-order", gap=gap, time_limit=60.0, listener=rows.append, **options)
    assert result.status is mdp.Status.OPTIMAL or not must_reach, result
    assert result.mechanism.certificate.privacy.certified
    assert is_private(result.mechanism.table, problem.graph.pairs, problem.graph.distances, problem.epsilon)
    assert result.lower_bound <= exact.loss * (1 + 1e-12)
    assert exact.lower_bound <= result.loss * (1 + 1e-12)
    check_trace(rows)
    return result


def check_trace(rows):
    """Bounds never get worse, and the gap is theirs."""
    for number in {row["component"] for row in rows if row["stage"] == "first-order"}:
        steps = [row for row in rows if row["stage"] == "first-order" and row["component"] == number]
        assert (np.diff([step["iteration"] for step in steps]) > 0).all()
        assert (np.diff([step["lower_bound"] for step in steps]) >= 0).all()
        known = [step for step in steps if np.isfinite(step["upper_bound"])]
        assert (np.diff([step["upper_bound"] for step in known]) <= 0).all()
        for step in known:
            upper, lower = step["upper_bound"], step["lower_bound"]
            assert step["gap"] == pytest.approx(max(0.0, (upper - lower) / upper) if upper else 0.0, abs=1e-12)


@pytest.mark.parametrize("dataset", DATASETS)
@settings(max_examples=5)
@given(seed=st.integers(0, 99), exponent=exponents(1e-3, 50.0), n=st.integers(8, 20), outputs=st.integers(2, 8))
@example(seed=1, exponent=1e-3, n=14, outputs=5)
@example(seed=4, exponent=50.0, n=20, outputs=8)
def test_agrees_with_direct(dataset, seed, exponent, n, outputs):
    # at very weak privacy nearly everybody reports the truth, the loss is next to nothing, and steps may stall
    problem = small_problem(dataset, seed=seed, n=n, outputs=outputs, exponent=exponent)
    check_agreement(problem, must_reach=exponent <= WEAK)


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("exponent", [0.1, 1.0, 5.0])
def test_small_gaps(dataset, exponent):
    check_agreement(small_problem(dataset, seed=8, n=20, outputs=6, exponent=exponent), gap=1e-4)


def points_problem(points, *, epsilon=1.0, eta=2.0, outputs=None, prior=None):
    points = np.atleast_2d(np.asarray(points, dtype=float).T).T
    records = mdp.Records(points, kind="vectors", prior=prior)
    if outputs is None:
        outputs = np.linspace(points.min(axis=0), points.max(axis=0), 5)
    return mdp.Problem(records, epsilon=epsilon, eta=eta, outputs=outputs)


def random_points(seed, n=18, dimension=2):
    return np.random.default_rng(seed).normal(size=(n, dimension))


def clusters(width):
    return (np.arange(4.0)[:, None] + width * np.arange(5)).ravel()


DEGENERATE = {
    "duplicates": lambda: points_problem(np.repeat(random_points(0, 7), 3, axis=0)),
    "near duplicates, 1e-9": lambda: points_problem(clusters(1e-9)),
    "near duplicates, 1e-4": lambda: points_problem(clusters(1e-4)),
    "near duplicates, 1e-2": lambda: points_problem(clusters(1e-2), epsilon=3.0),
    "isolated records": lambda: points_problem(np.concatenate((random_points(1, 10), 100.0 + random_points(2, 1)))),
    "isolated records alone": lambda: points_problem(50.0 * np.arange(6.0)),
    "complete graph": lambda: points_problem(random_points(3), epsilon=0.5, eta=np.inf),
    "complete graph in ten dimensions": lambda: points_problem(random_points(4, 16, 10), epsilon=0.3, eta=np.inf),
    "one output": lambda: points_problem(random_points(5), outputs=[3]),
    "one output that is no record": lambda: points_problem(random_points(5), outputs=[[0.3, 0.2]]),
    "two records": lambda: points_problem([0.0, 1.0]),
    "more outputs than records": lambda: points_problem(random_points(6, 6), outputs=random_points(7, 20)),
    "outputs at one place": lambda: points_problem(random_points(8), outputs=np.zeros((4, 2))),
    "all at one place": lambda: points_problem(np.zeros((6, 1)), outputs=[[1.0], [-1.0]]),
    "a line": lambda: points_problem(np.arange(20.0), epsilon=0.4),
    "a star": lambda: points_problem(np.concatenate((np.zeros((1, 9)), np.eye(9))), eta=1.1, epsilon=2.0),
    "tiny epsilon": lambda: points_problem(np.arange(12.0), epsilon=1e-3, eta=3.0),
    "huge epsilon": lambda: points_problem(np.arange(12.0), epsilon=50.0, eta=3.0),
    "beyond all floats": lambda: points_problem(np.arange(12.0), epsilon=5e4, eta=3.0),
    "distances from tiny to large": lambda: points_problem(np.cumsum(10.0 ** np.linspace(-4, 0.6, 14)), eta=5.0),
    "one cluster": lambda: points_problem(1e-6 * random_points(9), eta=1.0),
}
PRIORS = {
    "drawn": lambda g, n: g.dirichlet(np.ones(n)),
    "half are zero": lambda g, n: g.exponential(size=n) * (np.arange(n) % 2),
    "one is not zero": lambda g, n: np.eye(n)[n // 2],
    "from 1e-12 to 1": lambda g, n: 10.0 ** np.linspace(-12, 0, n),
    "zeros in one half": lambda g, n: (np.arange(n) < n // 2).astype(float),
}


@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_problems(case):
    check_agreement(DEGENERATE[case]())


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("exponent", [0.3, 3.0])
def test_priors(prior, dataset, exponent):
    base = small_problem(dataset, seed=5, n=18, outputs=6, exponent=exponent)
    weights = PRIORS[prior](np.random.default_rng(1), 18)
    records = base.records.with_prior(weights)
    problem = mdp.Problem(records, epsilon=base.epsilon, eta=base.eta, outputs=base.outputs.rows, seed=5)
    check_agreement(problem)


def test_options_change_the_way_not_the_answer():
    problem = small_problem("road", seed=6, n=24, outputs=9, exponent=0.7)
    for options in (
        {"stretch": 0.0},
        {"stretch": 1.0},
        {"weight": 0.1},
        {"weight": 5.0},
        {"polish_up_to": 0},
    ):
        check_agreement(problem, options=mdp.FirstOrderOptions(**options))


def test_the_answer_does_not_depend_on_the_order_of_records_and_outputs():
    points, outputs = random_points(10, 20), random_points(11, 12)
    generator = np.random.default_rng(2)
    first = check_agreement(points_problem(points, outputs=outputs))
    shuffled = points_problem(generator.permutation(points), outputs=generator.permutation(outputs))
    second = check_agreement(shuffled)
    assert second.lower_bound <= first.loss * (1 + 1e-12)
    assert first.lower_bound <= second.loss * (1 + 1e-12)


def test_several_components_together():
    points = np.concatenate([random_points(seed, 8) + 100.0 * seed for seed in range(4)])
    result = check_agreement(points_problem(points, outputs=points[::3]))
    stages = {row["component"] for row in result.trace.rows if row["stage"] == "first-order"}
    assert len(stages) >= 4


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("tolerance", [0.0, 1e-4, 1e-2])
def test_private_matrix_is_private_and_what_repair_counts(dataset, tolerance):
    """As a float matrix its rows hold up to rounding; `repair` gives the same in integers."""
    problem = small_problem(dataset, seed=3, n=16, outputs=5)
    Z = mdp.exponential(problem).probabilities * np.exp(0.3 * np.random.default_rng(0).normal(size=problem.costs.shape))
    options = {"costs": problem.costs, "tolerance": tolerance}
    matrix = private_matrix(Z, problem.graph, problem.epsilon, **options)
    table = repair(Z, problem.graph, problem.epsilon, **options)
    i, j = problem.graph.pairs.T
    growth = np.exp(problem.epsilon * problem.graph.distances)[:, None]
    assert (matrix[i] <= growth * matrix[j] * (1 + 1e-12)).all()
    assert (matrix[j] <= growth * matrix[i] * (1 + 1e-12)).all()
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(matrix, table / 2.0**63, atol=1e-9)
    assert is_private(table, problem.graph.pairs, problem.graph.distances, problem.epsilon)


def test_a_tolerance_costs_no_more_than_it_says():
    problem = small_problem("gaussian", seed=3, n=40, outputs=10, exponent=0.5)
    noise = np.exp(0.2 * np.random.default_rng(0).normal(size=problem.costs.shape))
    Z = mdp.solve(problem, method="direct", gap=1e-6).mechanism.probabilities * noise
    losses = [
        problem.expected_loss(private_matrix(Z, problem.graph, problem.epsilon, costs=problem.costs, tolerance=t))
        for t in (0.0, 1e-3, 1e-2, 1e-1)
    ]
    for tolerance, loss in zip((1e-3, 1e-2, 1e-1), losses[1:], strict=True):
        assert loss <= losses[0] * (1 + 2 * tolerance)
