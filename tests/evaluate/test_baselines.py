"""Baselines: what each of them promises, and that it is certified or labelled."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from tests.conftest import DATASETS, linprog_optimum, small_problem
from tests.mechanism.independent import is_private

import metricdp as mdp
from metricdp.evaluate import (
    BASELINES,
    compare,
    const_opt,
    estimate,
    plane_noise,
    remap,
    spanner,
    spanner_mechanism,
)
from metricdp.evaluate.plane_noise import remapped_noise, snapped_noise
from metricdp.mechanism.baselines import (
    certified_as_it_is,
    decay_logarithms,
    exponential_matrix,
    planar_laplace,
    tightest_budget,
    uniform,
)
from metricdp.mechanism.mechanism import table_loss
from metricdp.problem.loss import distance_loss


@pytest.mark.parametrize("dataset", DATASETS)
def test_ours_is_never_worse_than_a_certified_one(dataset):
    problem = small_problem(dataset, seed=6)
    table = compare(mdp.solve(problem, gap=1e-7).mechanism, problem, list(BASELINES))
    # noise on the plane is for two coordinates
    missing = ["planar-laplace-snapped", "planar-laplace-remapped"] if problem.records.dimension > 2 else []
    assert [row.name for row in table.rows[1:]] == [name for name in BASELINES if name not in missing]
    assert list(table.unavailable) == missing
    assert not table.better
    optimum = linprog_optimum(problem)
    for row in table.rows:
        assert row.certified == (row.tightest_epsilon <= problem.epsilon)
        if row.certified:
            assert min(row.loss, row.loss_after_remap) >= optimum * (1 - 1e-6)


def test_a_better_one_is_named():
    problem = small_problem("grid", seed=6)
    table = compare(uniform(problem), problem, ["exponential", "planar-laplace", "kernel"])
    assert [row.name for row in table.better] == ["exponential", "kernel"]  # planar Laplace is not private enough


def test_unknown_names():
    problem = small_problem("grid", seed=6)
    with pytest.raises(mdp.InputError, match="'magic'.*exponential"):
        compare(uniform(problem), problem, ["magic"])


@pytest.mark.parametrize("dataset", DATASETS)
def test_planar_laplace_satisfies_twice_the_budget_and_not_the_budget(dataset):
    problem = small_problem(dataset, seed=7)
    mechanism = planar_laplace(problem)
    pairs, distances = problem.graph.pairs, problem.graph.distances
    assert mechanism.epsilon <= 2 * problem.epsilon * (1 + 1e-8)
    assert is_private(mechanism.table, pairs, distances, mechanism.epsilon)
    if dataset != "words":  # in many dimensions few neighbours lie on a line with an output
        assert mechanism.epsilon > problem.epsilon
        assert not is_private(mechanism.table, pairs, distances, 0.999 * mechanism.epsilon)
    weights = np.exp(-problem.epsilon * distance_loss(problem.records, problem.outputs, problem.metric))
    assert mechanism.probabilities == pytest.approx(weights / weights.sum(axis=1, keepdims=True), rel=1e-8)


@pytest.fixture(scope="module")
def town():
    return mdp.Problem(mdp.data.road("gothenburg", n=80, seed=1), epsilon=2.0, eta=2.0, loss="distance")


def test_noise_on_the_plane_is_moved_to_the_nearest_output(town):
    """Against a million noisy points: a gamma radius, a uniform direction, the nearest output."""
    made, note = snapped_noise(town)
    assert made.epsilon == town.epsilon
    assert "nearest output" in note
    found = estimate("planar-laplace-snapped", town)
    assert abs(table_loss(made.table, town) - found.loss) < 4 * found.standard_error + 0.005 * found.loss


@pytest.mark.parametrize("metric", ["haversine", "euclidean", "manhattan"])
def test_remapped_noise_is_the_strongest_rival(metric):
    if metric == "haversine":
        problem = mdp.Problem(mdp.data.road("gothenburg", n=40, seed=1), epsilon=2.0, eta=3.0, loss="distance")
    else:
        problem = mdp.Problem(np.random.default_rng(0).random((40, 2)), epsilon=8.0, eta=0.5, metric=metric)
    snapped, remapped = snapped_noise(problem)[0], remapped_noise(problem)[0]
    loss = table_loss(remapped.table, problem)
    assert loss <= table_loss(remap(snapped, problem).table, problem) * (1 + 1e-3)
    assert loss <= table_loss(snapped.table, problem)
    assert mdp.solve(problem, gap=1e-3).loss <= loss
    pairs, distances = problem.graph.pairs, problem.graph.distances
    assert is_private(remapped.table, pairs, distances, problem.epsilon)


def test_too_many_nodes_are_moved_to_outputs_before_they_are_remapped(town, monkeypatch):
    monkeypatch.setattr(plane_noise, "MAX_PRODUCTS", 0)
    made, note = remapped_noise(town)
    assert note.endswith("which is then remapped")
    assert table_loss(made.table, town) < table_loss(snapped_noise(town)[0].table, town)


@pytest.mark.parametrize(
    ("records", "part"),
    [(mdp.Records([[0.0, 0.0], [60.0, 170.0]]), "too many nodes"), (mdp.data.words(n=3, seed=0), "two coordinates")],
)
def test_noise_that_has_no_grid(records, part):
    problem = mdp.Problem(records, epsilon=1.0, eta=1.0, loss="distance")
    with pytest.raises(mdp.InputError, match=part):
        snapped_noise(problem)


def test_large_problems_are_estimated(town, monkeypatch):
    names = ["exponential", "planar-laplace", "planar-laplace-snapped", "planar-laplace-remapped", "uniform"]
    exact = {row.name: row for row in compare(uniform(town), town, names).rows}
    monkeypatch.setattr(sys.modules["metricdp.evaluate.compare"], "MAX_DENSE_ENTRIES", 10)
    table = compare(uniform(town), town, names)
    assert [row.name for row in table.rows] == ["this mechanism", "uniform"]
    assert "too large" in table.unavailable["planar-laplace"]
    assert [one.name for one in table.estimates] == ["exponential", "planar-laplace-snapped", "planar-laplace-remapped"]
    for one in table.estimates:
        assert abs(one.loss - exact[one.name].loss) < 4 * one.standard_error + 0.01 * one.loss


def test_what_cannot_be_estimated_says_why():
    problem = mdp.Problem(np.random.default_rng(0).random((9, 2)), epsilon=2.0, eta=1.0, metric="manhattan")
    with pytest.raises(mdp.InputError, match="Manhattan"):
        estimate("planar-laplace-snapped", problem)
    given = mdp.Problem(problem.records, epsilon=2.0, eta=1.0, metric="euclidean", loss=np.ones((9, 9)))
    with pytest.raises(mdp.InputError, match="not a distance between points"):
        estimate("planar-laplace-snapped", given)
    assert estimate("exponential", given).loss == pytest.approx(1.0)


def test_a_large_uniform_mechanism_is_all_background(monkeypatch):
    problem = mdp.Problem(mdp.data.grid(3, 3), epsilon=1.0, eta=2.0, outputs=7)
    dense = uniform(problem)
    monkeypatch.setattr("metricdp.mechanism.baselines.MAX_UNIFORM_ENTRIES", 1)
    sparse = uniform(problem)
    assert sparse.table.n_stored == 0
    assert np.array_equal(sparse.table.block(), dense.table)


def test_uniform_is_exact():
    problem = mdp.Problem(mdp.data.grid(3, 3), epsilon=1.0, eta=2.0, outputs=7)
    table = uniform(problem).table
    assert (table == table[0]).all()
    assert int(table[0].max()) - int(table[0].min()) <= 1
    assert sum(map(int, table[0])) == 2**63


def test_logarithms_do_not_underflow():
    logarithms = decay_logarithms(np.array([[0.0, 1e4], [1e4, 0.0]]), 1.0)
    assert logarithms.tolist() == [[0.0, -1e4], [-1e4, 0.0]]
    problem = mdp.Problem(np.array([0.0, 1e4]), epsilon=1.0, eta=np.inf, outputs=2)
    assert tightest_budget(logarithms, problem.graph) == 1.0


def test_no_triangle_inequality_is_labelled():
    """0 and 1 are near one another but unequally far from 2: the exponential mechanism is not private at epsilon."""
    matrix = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 20.0], [1.0, 20.0, 0.0]])
    problem = mdp.Problem(np.arange(3.0), epsilon=1.0, eta=30.0, outputs=3, metric=matrix, loss=matrix)
    row = compare(mdp.solve(problem).mechanism, problem, ["exponential"]).rows[1]
    assert not row.certified
    assert row.tightest_epsilon > 5.0


def test_records_at_distance_zero_that_are_told_apart_have_no_budget():
    matrix = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 2.0], [1.0, 2.0, 0.0]])
    problem = mdp.Problem(np.arange(3.0), epsilon=1.0, eta=5.0, outputs=[2, 0], metric=matrix, loss=np.ones((3, 2)))
    with pytest.raises(mdp.InputError, match="distance 0"):
        certified_as_it_is(problem, decay_logarithms(matrix[:, [2, 0]], 1.0), solver="test")
    table = compare(uniform(problem), problem, ["planar-laplace"])
    assert list(table.unavailable) == ["planar-laplace"]


@pytest.mark.parametrize("dilation", [1.0, 1.1, 1.5, 3.0])
@pytest.mark.parametrize("dataset", DATASETS)
def test_spanners_keep_their_promise(dataset, dilation):
    graph = small_problem(dataset, seed=8, n=40).graph
    sparse = spanner(graph, dilation)
    paths = sparse.path_distances(np.arange(graph.n))
    assert (paths[graph.pairs[:, 0], graph.pairs[:, 1]] <= dilation * graph.distances * (1 + 1e-9)).all()
    kept = {tuple(pair) for pair in sparse.pairs.tolist()}
    assert kept <= {tuple(pair) for pair in graph.pairs.tolist()}
    assert sparse.n_pairs <= spanner(graph, 1.0).n_pairs


def test_the_spanner_mechanism_is_certified_on_all_pairs():
    problem = small_problem("gaussian", seed=9, n=20)
    mechanism, note = spanner_mechanism(problem, dilation=1.5)
    assert mechanism.graph.n_pairs == problem.graph.n_pairs
    assert is_private(mechanism.table, problem.graph.pairs, problem.graph.distances, problem.epsilon)
    assert "1.5" in note
    assert table_loss(mechanism.table, problem) > linprog_optimum(problem)
    exact, _ = spanner_mechanism(problem, dilation=1.0)
    assert table_loss(exact.table, problem) == pytest.approx(linprog_optimum(problem), rel=2e-4)


def test_bad_dilation():
    with pytest.raises(mdp.InputError, match="at least 1, got 0.5"):
        spanner(small_problem("grid", seed=1).graph, 0.5)


@pytest.mark.parametrize("dataset", DATASETS)
def test_const_opt_stands_between_the_exponential_mechanism_and_the_optimum(dataset):
    problem = small_problem(dataset, seed=10)
    mechanism, _ = const_opt(problem, free_share=0.5)
    loss = table_loss(mechanism.table, problem)
    assert linprog_optimum(problem) * (1 - 1e-7) <= loss
    assert loss <= table_loss(mdp.exponential(problem).table, problem) * (1 + 1e-7)
    everything, _ = const_opt(problem, free_share=1.0)
    assert table_loss(everything.table, problem) == pytest.approx(linprog_optimum(problem), rel=1e-5)


def test_const_opt_leaves_far_entries_to_the_exponential_mechanism():
    problem = small_problem("gaussian", seed=11, outputs=8)
    mechanism, note = const_opt(problem, free_share=0.25)
    distances = distance_loss(problem.records, problem.outputs, problem.metric)
    far = np.argsort(np.argsort(distances, axis=1), axis=1) >= 2
    assert note.startswith("2 of 8")
    assert mechanism.probabilities[far] == pytest.approx(exponential_matrix(problem)[far], rel=1e-5)


def test_a_time_limit_that_is_too_short_is_said():
    problem = small_problem("gaussian", seed=12, n=250, outputs=120)  # too much for 0.01 s
    table = compare(uniform(problem), problem, ["const-opt"], time_limit=1e-9)
    assert "time limit" in table.unavailable["const-opt"]


def test_stored_distances_only():
    """Where nobody can measure to the outputs, the reason is given and the rest goes on."""
    matrix = np.abs(np.arange(4)[:, None] - np.arange(4)[None, :]).astype(float)
    problem = mdp.Problem(
        np.arange(4.0), epsilon=1.0, eta=1.0, outputs=[[0.5], [2.5]], metric=matrix, loss=np.ones((4, 2))
    )
    table = compare(mdp.solve(problem).mechanism, problem, ["exponential", "uniform", "spanner"])
    assert [row.name for row in table.rows] == ["this mechanism", "uniform", "spanner"]
    assert "matrix" in table.unavailable["exponential"]
    assert math.isfinite(table.ours.loss)
