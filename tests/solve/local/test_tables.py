"""Tables of the windowed solver: exactly private, with losses and bounds on the right sides of the optimum."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numba import set_num_threads
from tests.conftest import DATASETS, linprog_optimum, small_problem
from tests.solve.local.exact import fault, loss_of

import metricdp as mdp
from metricdp.metric import CoordinateMetric
from metricdp.solve.contract import Ended
from metricdp.solve.result import Trace
from metricdp.solve.solvers.local.counts import local_counts
from metricdp.solve.solvers.local.loop import solve_windows
from metricdp.solve.solvers.local.method import local_problem
from metricdp.solve.solvers.local.options import LocalOptions
from metricdp.solve.stop import Stop

SMALL = LocalOptions(max_iterations=600)


def solved(problem, gap=0.05, options=SMALL):
    """Solve, and check what must hold of every result."""
    found = solve_windows(
        local_problem(problem), problem.losses, gap=gap, stop=Stop(None), trace=Trace(), options=options
    )
    assert fault(found.table, problem.graph, problem.epsilon) == ""
    truth = loss_of(found.table, problem.loss, problem.records.prior)
    assert truth <= found.loss <= truth * (1.0 + 1e-3) + 1e-6 * problem.loss.max()
    assert 0.0 <= found.lower_bound <= found.loss
    return found


def with_prior(records, prior):
    return mdp.Records(records.coordinates, prior=prior, kind=records.kind)


def contiguous(n, *, loss="distance", outputs=None, epsilon=7.0, eta=0.3, prior=None):
    """Intersections of Gothenburg around its middle."""
    whole = mdp.data.road("gothenburg")
    middle = np.median(whole.coordinates, axis=0, keepdims=True)
    away = mdp.metric.as_metric("haversine", whole).to_points(whole, middle)[:, 0]
    places = whole.coordinates[np.sort(np.argsort(away)[:n])]
    records = mdp.Records(places, prior=prior)
    return mdp.Problem(
        records, epsilon=epsilon, eta=eta, outputs=np.arange(n) if outputs is None else outputs, loss=loss
    )


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize(("seed", "exponent", "outputs"), [(1, 0.3, 14), (2, 1.0, 14), (3, 3.0, 9), (4, 10.0, 14)])
def test_loss_and_bound_enclose_the_optimum(dataset, seed, exponent, outputs):
    problem = small_problem(dataset, seed, n=14, outputs=outputs, exponent=exponent)
    found = solved(problem)
    truth = linprog_optimum(problem)
    assert found.lower_bound <= truth * (1.0 + 1e-9)
    assert found.loss >= truth * (1.0 - 1e-6)
    assert found.gap < 0.1


@pytest.mark.parametrize("prior", ["linear", "steep", "zeros"])
def test_any_prior(prior):
    weights = {
        "linear": np.arange(1.0, 17.0),
        "steep": 4.0 ** -np.arange(16.0),
        "zeros": np.arange(16) % 3 == 0,
    }[prior]
    records = with_prior(mdp.data.grid(4, 4), weights)
    problem = mdp.Problem(records, epsilon=0.9, eta=1.5, outputs=np.arange(16), loss="distance")
    found = solved(problem, options=LocalOptions(max_iterations=2_000))
    truth = linprog_optimum(problem)
    assert found.lower_bound <= truth * (1.0 + 1e-9)
    assert found.loss >= truth * (1.0 - 1e-6)
    assert found.gap < 0.06


@pytest.mark.parametrize(
    ("epsilon", "eta"), [(3.5, 0.3), (7.0, 0.3), (20.0, 0.15), (7.0, 0.05), (60.0, 0.5), (2.0, np.inf)]
)
def test_contiguous_places(epsilon, eta):
    found = solved(contiguous(90, epsilon=epsilon, eta=eta))
    assert found.gap < 0.25


@pytest.mark.parametrize("n", [97, 120])
@pytest.mark.parametrize(("reach", "table_reach"), [(2.0, 3.0), (3.0, 5.0), (5.0, 9.0)])
def test_small_windows_need_a_background(n, reach, table_reach):
    options = LocalOptions(reach=reach, table_reach=table_reach, max_iterations=100)
    found = solved(contiguous(n, epsilon=12.0), options=options)
    assert found.table.background.any()
    assert found.table.n_stored < n * n


def test_small_windows_of_many_components():
    options = LocalOptions(reach=5.0, table_reach=14.0, max_iterations=100)
    problem = contiguous(110, epsilon=25.0, eta=0.08)
    assert problem.graph.n_components > 3
    found = solved(problem, options=options)
    assert (found.table.background == 0).any()
    assert (found.table.background > 0).any()


def test_equal_and_very_near_records_share_a_row():
    base = contiguous(30).records.coordinates
    chain = base[:1] + np.array([[1e-9, 0.0], [2e-9, 0.0], [3e-9, 0.0]])
    records = mdp.Records(np.concatenate((base, base[:5], chain)), prior=np.arange(1.0, 39.0))
    problem = mdp.Problem(records, epsilon=7.0, eta=0.3, outputs=np.arange(38), loss="distance")
    assert (problem.graph.distances == 0).any()
    table = solved(problem).table
    rows = [slice(table.indptr[i], table.indptr[i + 1]) for i in range(38)]
    for i, j in [(0, 30), (4, 34), (0, 35), (0, 37)]:
        assert np.array_equal(table.weights[rows[i]], table.weights[rows[j]])
        assert table.scale[i] == table.scale[j]


def test_records_without_neighbours_report_the_cheapest():
    problem = mdp.Problem(mdp.data.grid(4, 5), epsilon=1.0, eta=0.5, outputs=np.arange(20), loss="distance")
    found = solved(problem)
    assert found.ended is Ended.REACHED
    assert found.loss < 1e-6


@pytest.mark.parametrize("loss", ["travel", "given"])
def test_other_losses(loss):
    matrix = np.random.default_rng(3).uniform(0.0, 5.0, (24, 24)) if loss == "given" else loss
    problem = contiguous(24, loss=matrix)
    found = solved(problem, options=LocalOptions(max_iterations=1_000))
    truth = linprog_optimum(problem)
    assert found.lower_bound <= truth * (1.0 + 1e-9)
    assert found.loss >= truth * (1.0 - 1e-6)
    assert found.gap < 0.1


@pytest.mark.parametrize("loss", ["distance", "travel"])
def test_other_losses_outside_of_small_windows(loss):
    problem = contiguous(40, loss=loss, epsilon=30.0)
    found = solved(problem, options=LocalOptions(reach=2.0, table_reach=5.0, max_iterations=200))
    assert found.lower_bound > 0.0


@pytest.mark.parametrize("metric", ["manhattan", "function", "matrix"])
def test_other_metrics(metric):
    points = np.random.default_rng(5).uniform(0.0, 3.0, (26, 2))
    given = {
        "manhattan": "manhattan",
        "function": lambda a, b: float(np.abs(a - b).max()),
        "matrix": np.abs(points[:, None] - points[None]).sum(axis=2),
    }[metric]
    records = mdp.Records(points, kind="vectors")
    problem = mdp.Problem(records, epsilon=3.0, eta=1.0, outputs=np.arange(26), loss="distance", metric=given)
    found = solved(problem)
    assert found.lower_bound <= linprog_optimum(problem) * (1.0 + 1e-9)
    assert found.gap < 0.1


def test_other_points_as_outputs():
    points = contiguous(40).records.coordinates[::3] + 1e-3
    problem = contiguous(40, outputs=points, epsilon=5.0)
    found = solved(problem)
    assert found.lower_bound <= linprog_optimum(problem) * (1.0 + 1e-9)
    assert found.gap < 0.1


def test_the_number_of_threads_changes_nothing(monkeypatch):
    monkeypatch.setattr("metricdp.solve.solvers.local.iterate.PARALLEL_STEPS_FROM", 0)
    tables = []
    for threads in (1, 2):
        set_num_threads(threads)
        tables.append(solved(contiguous(100), options=LocalOptions(max_iterations=60)).table)
    set_num_threads(1)
    for name in ("indptr", "columns", "weights", "background", "scale"):
        assert np.array_equal(getattr(tables[0], name), getattr(tables[1], name))


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.3])
def test_without_time_there_is_still_a_private_table(seconds):
    problem = contiguous(100)
    found = solve_windows(local_problem(problem), problem.losses, gap=1e-4, stop=Stop(seconds), trace=Trace())
    assert found.ended is Ended.STOPPED
    assert fault(found.table, problem.graph, problem.epsilon) == ""
    assert found.loss >= loss_of(found.table, problem.loss, problem.records.prior)


def test_counts_of_many_coordinates_measure_from_a_sample_of_records(monkeypatch):
    words = mdp.data.words()
    problem = local_problem(mdp.Problem(words.select(range(600)), epsilon=4.0, eta=4.0))
    whole = local_counts(replace(problem, geometry=replace(problem.geometry, asked_of=None)), gap=0.02)
    between, asked = CoordinateMetric.between, []

    def counted(metric, a, b):
        asked.append(len(a) * len(b))
        return between(metric, a, b)

    monkeypatch.setattr(CoordinateMetric, "between", counted)
    counts = local_counts(problem, gap=0.02)
    assert counts == whole
    assert 0 < max(asked) <= 300 * 600  # every second word stands for all


def test_counts_are_near_the_truth():
    given = contiguous(400, epsilon=20.0, eta=0.2)
    problem = local_problem(given)
    trace = Trace()
    counts = local_counts(problem, gap=0.5, options=SMALL)
    found = solve_windows(problem, given.losses, gap=0.5, stop=Stop(None), trace=trace, options=SMALL)
    assert trace.rows[0]["entries"] == pytest.approx(counts.entries, rel=0.1)
    assert trace.rows[0]["multipliers"] == pytest.approx(counts.multipliers, rel=0.2)
    assert found.table.n_stored <= 1.1 * counts.table_entries
    assert 0.0 < counts.filled <= 1.1
