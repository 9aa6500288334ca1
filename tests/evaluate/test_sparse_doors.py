"""Every way to look at or to use a sparse mechanism gives what its dense twin gives, and makes no dense table."""

from __future__ import annotations

import json
import sys
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from tests.conftest import small_problem
from tests.mechanism.independent import is_private
from tests.mechanism.sparse_tables import sparse_of

import metricdp as mdp
from metricdp.apply.frames import perturb_column, perturb_frame
from metricdp.apply.text import perturb_text
from metricdp.budget.memoized import fingerprint, memoize
from metricdp.cli import evaluate as command
from metricdp.evaluate import (
    Rebuilt,
    adversary,
    attack,
    best_outputs,
    compare,
    guidance,
    posterior,
    remap,
    utility,
    wrong_prior,
)
from metricdp.evaluate.auditor.neighbours import record_neighbours
from metricdp.evaluate.guessing import background_share
from metricdp.evaluate.remap import merged
from metricdp.extras import MetricPrivacy, make_measurement
from metricdp.mechanism.expected import record_losses, table_loss
from metricdp.mechanism.mechanism import Mechanism
from metricdp.mechanism.sparse import SparseTable
from metricdp.problem import loss_space
from metricdp.problem.problem import Problem
from metricdp.report.explorer import explorer_page
from metricdp.report.explorer_data import mechanism_fields

EVERYWHERE = np.random.default_rng(3).uniform([-80, -180], [80, 180], (30, 2))  # places all over the Earth
PROBLEMS = {
    "places, distance": lambda: Problem(
        mdp.data.road("gothenburg", n=60, seed=1), epsilon=4.0, eta=1.5, loss="distance"
    ),
    "places, travel": lambda: Problem(mdp.data.road("gothenburg", n=60, seed=1), epsilon=4.0, eta=1.5),
    "places, street": lambda: Problem(
        mdp.data.road("gothenburg", n=50, seed=1), epsilon=4.0, eta=1.5, metric="street", loss="distance"
    ),
    "words": lambda: Problem(mdp.data.words(n=50, seed=0), epsilon=0.7, eta=6.0),
    "manhattan": lambda: Problem(np.random.default_rng(0).random((50, 2)), epsilon=9.0, eta=0.4, metric="manhattan"),
    "other outputs": lambda: Problem(
        np.random.default_rng(1).random((40, 2)), epsilon=9.0, eta=0.4, metric="euclidean", outputs=[[0, 0], [1, 0.5]]
    ),
    "a function": lambda: Problem(
        np.random.default_rng(2).random((40, 2)),
        epsilon=9.0,
        eta=0.4,
        metric="euclidean",
        loss=lambda a, b: ((a[:, None] - b[None]) ** 2).sum(axis=2),
    ),
    "all over the Earth": lambda: Problem(mdp.Records(EVERYWHERE), epsilon=1e-3, eta=5000.0, loss="distance"),
}


class Twins:
    def __init__(self, name):
        self.problem = PROBLEMS[name]()
        self.dense = mdp.exponential(self.problem)
        self.sparse = Mechanism.of(self.problem, sparse_of(self.dense.table))


@pytest.fixture(scope="module", params=PROBLEMS)
def twins(request):
    return Twins(request.param)


@pytest.fixture(scope="module")
def places():
    return Twins("places, distance")


@pytest.fixture(scope="module")
def words():
    return Twins("words")


@pytest.fixture
def no_matrix(monkeypatch):
    """Nobody may ask for all probabilities, all weights or all losses."""

    def refuse(_):
        raise AssertionError("a dense matrix was asked for")

    for owner, name in (
        (Mechanism, "probabilities"),
        (Problem, "loss"),
        (Problem, "costs"),
    ):
        monkeypatch.setattr(owner, name, property(refuse))


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(loss_space.loss_blocks, "__defaults__", (130,))
    monkeypatch.setattr(sys.modules["metricdp.evaluate.remap"], "CHUNK_ENTRIES", 200)
    monkeypatch.setattr(adversary, "ENTRIES_AT_ONCE", 200)


def test_losses_and_distances(twins, no_matrix, small_blocks, monkeypatch):
    found = utility(twins.sparse, twins.problem)
    monkeypatch.undo()
    expected = utility(twins.dense, twins.problem)
    assert expected.loss <= found.loss <= expected.loss * (1 + 1e-7)
    assert found.per_record == pytest.approx(expected.per_record, rel=1e-7, abs=1e-8)
    assert (found.distance_mean is None) == (expected.distance_mean is None)
    if expected.distance_mean is not None:
        assert found.distance_mean == pytest.approx(expected.distance_mean, rel=1e-7)
        for level, value in expected.distance_quantiles.items():
            assert value * (1 - 1e-9) <= found.distance_quantiles[level] <= value * (1 + 2.0**-12) + 1e-9


@pytest.mark.parametrize("wrong", [False, True])
def test_the_adversary(twins, no_matrix, small_blocks, monkeypatch, wrong):
    belief = wrong_prior(twins.problem)[0] if wrong else None
    found = attack(twins.sparse, twins.problem, belief=belief)
    monkeypatch.undo()
    expected = attack(twins.dense, twins.problem, belief=belief)
    for name in ("error", "right", "blind_error", "blind_right"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-9), name
    assert found.standard_error == 0.0
    assert len(found.guesses) == twins.problem.n_outputs


def test_remapping(twins, no_matrix, small_blocks, monkeypatch):
    outputs, after = best_outputs(twins.sparse, twins.problem), remap(twins.sparse, twins.problem)
    loss = table_loss(after.table, twins.problem)
    monkeypatch.undo()
    expected = remap(twins.dense, twins.problem)
    assert after.is_sparse
    assert loss == pytest.approx(table_loss(expected.table, twins.problem), rel=1e-7)
    assert np.array_equal(merged(twins.dense.table, outputs), after.table.block())
    graph = twins.problem.graph
    assert is_private(after.table.block(), graph.pairs, graph.distances, twins.problem.epsilon)


def test_a_sample_of_outputs_estimates_the_error(words, monkeypatch):
    twins = words
    exact = attack(twins.sparse, twins.problem).error
    monkeypatch.setattr(adversary, "MAX_PRODUCTS", 0)
    monkeypatch.setattr(adversary, "LEAST_SAMPLE", 40)
    found = attack(twins.sparse, twins.problem)
    assert 0 < found.standard_error < 0.2 * exact
    assert abs(found.error - exact) < 4 * found.standard_error
    assert found.guesses is None


def test_posteriors_of_some_outputs(places, no_matrix):
    some = posterior(places.sparse, outputs=[3, 5])
    joint = places.problem.records.prior[:, None] * places.dense.block(None, [3, 5])
    assert some == pytest.approx(joint / joint.sum(axis=0))


def test_guidance(twins, no_matrix):
    assert guidance(twins.problem, twins.sparse) == guidance(twins.problem, twins.dense)


def test_the_page(twins, no_matrix, monkeypatch):
    found = mechanism_fields(twins.sparse, ())
    page = explorer_page(twins.sparse, problem=twins.problem)
    monkeypatch.undo()
    expected = mechanism_fields(twins.dense, ())
    assert found["adversary"]["after"] == pytest.approx(expected["adversary"]["after"])
    shown = found["shown"]
    assert shown["entries"] <= shown["of"] == twins.sparse.table.n_stored
    assert 0 <= shown["left_out"] <= shown["background"] + 1e-3
    assert '"shown":{"entries"' in page


def test_the_plots(places, no_matrix):
    axes = places.sparse.plot()
    assert axes.images[0].get_array().shape == (60, 60)
    assert "reports" in places.sparse.plot(places.problem.records.ids[0]).get_title()


def test_the_notebook_states_what_is_stored(places, no_matrix):
    assert f"{places.sparse.table.n_stored:,} stored weights" in places.sparse._repr_html_()
    assert "stored weights" not in places.dense._repr_html_()


def test_a_large_heat_map_shows_some_rows(places, monkeypatch, no_matrix):
    monkeypatch.setattr("metricdp.report.plots.MAX_LINES", 20)
    axes = places.sparse.plot()
    assert axes.images[0].get_array().shape == (20, 20)
    assert axes.get_title().endswith("20 of 60 records")


def test_neighbours_to_audit(places, no_matrix):
    assert record_neighbours(places.sparse) == record_neighbours(places.dense)


def test_the_memory_tells_tables_apart(places, tmp_path, no_matrix):
    table = places.sparse.table
    again = Mechanism.of(places.problem, sparse_of(places.dense.table))
    assert fingerprint(places.sparse) == fingerprint(again)
    moved = SparseTable(table.indptr, table.columns, table.weights, table.background, table.scale)
    other = Mechanism.of(places.problem, merged(moved, np.zeros(60, dtype=np.int64)))
    assert fingerprint(places.sparse) != fingerprint(other)
    with memoize(places.sparse, tmp_path / "answers.db") as memory:
        name = places.problem.records.ids[0]
        assert memory.perturb("anna", name, allow_unprotected=True) == memory.perturb(
            "anna", name, allow_unprotected=True
        )


def test_drawing_doors(places, words, tmp_path, no_matrix):
    records, ids = places.problem.records, set(places.problem.records.ids)
    column = pd.Series(list(records.ids[:5]), name="id")
    assert set(places.sparse.perturb(column, allow_unprotected=True)) <= ids
    assert set(perturb_column(places.sparse, column, allow_unprotected=True)) <= ids
    frame = pd.DataFrame(records.coordinates[:5], columns=["lat", "lon"])
    assert set(perturb_frame(places.sparse, frame, snap_limit=0.1, allow_unprotected=True)["report"]) <= ids
    privacy = MetricPrivacy(mechanism=places.sparse, snap_limit=0.1, allow_unprotected=True).fit(records.coordinates)
    assert privacy.transform(records.coordinates[:5]).shape == (5, 2)
    (tmp_path / "a.txt").write_text(" ".join(words.problem.records.ids[:20]))
    perturb_text(words.sparse, tmp_path / "a.txt", tmp_path / "b.txt", allow_unprotected=True)
    assert set((tmp_path / "b.txt").read_text().split()) <= set(words.problem.records.ids)


def test_a_measurement_of_opendp(words, no_matrix):
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib", "honest-but-curious")
    try:
        known = np.flatnonzero(~words.sparse.guarantee.is_isolated)[0]
        assert make_measurement(words.sparse)(words.problem.records.ids[known]) in words.problem.records.ids
    finally:
        dp.disable_features("contrib", "honest-but-curious")


def test_the_comparison(places, no_matrix, monkeypatch):
    table = compare(places.sparse, places.problem)
    monkeypatch.undo()
    expected = compare(places.dense, places.problem)
    for row, twin in zip(table.rows, expected.rows, strict=True):
        assert row.loss == pytest.approx(twin.loss, rel=1e-7)
        assert row.loss_after_remap == pytest.approx(twin.loss_after_remap, rel=1e-7)
        assert (row.adversary_right, row.certified) == (pytest.approx(twin.adversary_right), twin.certified)


def test_the_command_states_what_is_stored(places, run, monkeypatch):
    monkeypatch.setattr(command, "rebuild", lambda *_, **__: Rebuilt(places.sparse, places.problem, "distance", True))
    code, text, _ = run("evaluate", "x.mdp", "--against", "none")
    assert code == 0
    stored = places.sparse.table.n_stored
    assert f"Sparse table: {stored:,} stored weights, {stored / 60:.4g} for each record" in text
    answer = json.loads(run("evaluate", "x.mdp", "--against", "none", "--json")[1])
    assert answer["stored_weights"] == stored
    assert answer["background_share"] == background_share(places.sparse.table, places.problem.records.prior)
    assert answer["adversary"]["error_standard_error"] == 0.0


@pytest.fixture(scope="module")
def wide():
    """A grid of 3,600 records that report themselves twice as often as anything else: one stored weight each."""
    problem = Problem(mdp.data.grid(60, 60), epsilon=1.0, eta=1.0)
    n = problem.n_records
    share, rest = divmod(2**63, n + 1)
    everyone, ones = np.arange(n), np.ones(n, dtype=np.uint64)
    table = SparseTable(
        np.arange(n + 1, dtype=np.int64), everyone.astype(np.int32), (share + rest) * ones, share * ones, ones
    )
    return problem, Mechanism.of(problem, table)


@pytest.mark.parametrize(
    "door",
    [
        lambda p, m: table_loss(m.table, p),
        lambda p, m: record_losses(m.table, p.losses),
        utility,
        attack,
        remap,
        mechanism_fields,
        lambda _, m: record_neighbours(m),
        lambda _, m: fingerprint(m),
    ],
)
def test_nothing_as_large_as_the_table_is_allocated(wide, door, no_matrix):
    problem, mechanism = wide
    arguments = {utility: (mechanism, problem), attack: (mechanism, problem), remap: (mechanism, problem)}
    arguments[mechanism_fields] = (mechanism, ())
    given = arguments.get(door, (problem, mechanism))
    door(*given)  # compiled, and what is made once
    tracemalloc.start()
    door(*given)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * problem.n_records * problem.n_outputs / 2


def test_a_loss_of_zero_stays_zero():
    problem = Problem(mdp.data.grid(3, 3), epsilon=1.0, eta=0.5)  # nobody has a neighbour
    identity = sparse_of(np.diag(np.full(9, 2**63, dtype=np.uint64)))
    assert utility(Mechanism.of(problem, identity), problem).loss == 0.0


def test_small_problems_agree_too():
    for dataset in ("road", "grid", "words", "gaussian"):
        problem = small_problem(dataset, seed=5)
        dense = mdp.exponential(problem)
        sparse = Mechanism.of(problem, sparse_of(dense.table))
        assert table_loss(sparse.table, problem) == pytest.approx(table_loss(dense.table, problem), rel=1e-7)
