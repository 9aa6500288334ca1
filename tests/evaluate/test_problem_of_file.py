"""From a file to its problem: the loss is stored, recognised, given, or said to be missing."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from tests.conftest import DATASETS, small_problem
from tests.mechanism.test_files import pack, unpack

import metricdp as mdp
from metricdp.evaluate import attack, compare, rebuild
from metricdp.mechanism.files import save
from metricdp.mechanism.mechanism import table_loss


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.mdp"


@pytest.fixture
def solved():
    """A mechanism for a loss that nobody could guess."""
    losses = np.random.default_rng(0).uniform(size=(9, 9))
    problem = mdp.Problem(mdp.data.grid(3, 3), epsilon=1.0, eta=1.0, outputs=9, loss=losses)
    return problem, mdp.solve(problem, gap=1e-6).mechanism


def without_losses(mechanism, path):
    """A file as earlier versions wrote it."""
    mechanism.save(path)
    metadata, tensors = unpack(path)
    del metadata["loss_name"], tensors["losses"]
    pack(path, metadata, tensors)


def test_a_mechanism_keeps_the_losses_that_it_was_made_for(path, solved):
    """Without them `evaluate` would guess another loss; so what is saved, loaded and saved again has them."""
    problem, mechanism = solved
    assert mechanism.losses is problem.losses  # not a copy
    mechanism.save(path)
    for _ in range(2):
        again = mdp.load(path)
        assert np.array_equal(again.losses.whole(), problem.loss)
        assert again.loss_name == problem.loss_name
        assert rebuild(path).is_own_loss
        again.save(path)
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        again.losses.whole().setflags(write=True)
    for copied in (copy.deepcopy(mechanism), pickle.loads(pickle.dumps(mechanism))):  # noqa: S301
        assert np.array_equal(copied.losses.whole(), problem.loss)
    remapped = mdp.evaluate.remap(mechanism, problem)
    assert np.array_equal(remapped.losses.whole(), problem.loss)


def test_stored_losses_come_back(path, solved):
    problem, mechanism = solved
    save(mechanism, path, losses=problem.loss, loss_name="my loss")
    assert np.array_equal(mdp.load(path).losses.whole(), problem.loss)
    assert mdp.load(path).loss_name == "my loss"
    found = rebuild(path)
    assert np.array_equal(found.mechanism.table, mechanism.table)
    assert np.array_equal(found.problem.loss, problem.loss)
    assert found.is_own_loss
    assert "from the file" in found.loss_source
    assert mdp.load(path).certificate.privacy.certified


def test_files_without_losses_are_as_before(path, solved):
    without_losses(solved[1], path)
    again = mdp.load(path)
    assert again.losses is None
    again.save(path)
    metadata, tensors = unpack(path)
    assert "losses" not in tensors
    assert "loss_name" not in metadata


@pytest.mark.parametrize(
    ("losses", "part"),
    [
        (np.ones((9, 8)), "shapes"),
        (np.ones((8, 9)), "shapes"),
        (np.ones(81), "losses is F64"),
        (np.full((9, 9), np.nan), "finite"),
        (np.full((9, 9), -1.0), "not negative"),
    ],
)
def test_spoiled_losses_are_refused(path, solved, losses, part):
    save(solved[1], path, losses=solved[0].loss)
    metadata, tensors = unpack(path)
    pack(path, metadata, {**tensors, "losses": losses})
    with pytest.raises(mdp.FileFormatError, match=part):
        mdp.load(path)


def test_changed_losses_are_noticed(path, solved):
    save(solved[1], path, losses=solved[0].loss)
    metadata, tensors = unpack(path)
    pack(path, metadata, {**tensors, "losses": tensors["losses"] + 1.0}, seal=False)
    with pytest.raises(mdp.FileFormatError, match="hash does not match"):
        mdp.load(path)


def test_bad_losses_are_not_written(path, solved):
    with pytest.raises(mdp.InputError, match="one row per record"):
        save(solved[1], path, losses=np.ones((2, 2)))
    assert not path.exists()


@pytest.mark.parametrize("dataset", DATASETS)
def test_usual_losses_are_recognised(path, dataset):
    problem = mdp.Problem(  # destinations of the travel loss are drawn with seed 0
        small_problem(dataset, seed=3).records, epsilon=1.0, eta=3.0, outputs=6, seed=0
    )
    mechanism = mdp.solve(problem, gap=1e-6).mechanism
    without_losses(mechanism, path)
    found = rebuild(path)
    assert found.is_own_loss
    assert "recognised" in found.loss_source
    assert found.problem.loss == pytest.approx(problem.loss, rel=1e-12)
    assert found.problem.graph.pairs.tolist() == problem.graph.pairs.tolist()
    assert table_loss(found.mechanism.table, found.problem) == pytest.approx(mechanism.optimality.loss, rel=1e-12)


def test_a_loss_that_is_not_in_the_file_is_said_to_be_missing(path, solved):
    without_losses(solved[1], path)
    found = rebuild(path)
    assert not found.is_own_loss
    assert "IN PLACE OF" in found.loss_source
    given = rebuild(path, loss=solved[0].loss)
    assert given.is_own_loss
    assert table_loss(given.mechanism.table, given.problem) == solved[1].optimality.loss
    assert not rebuild(path, loss="distance").is_own_loss
    with pytest.raises(mdp.InputError, match="unknown loss 'money'"):
        rebuild(path, loss="money")


def test_a_metric_that_is_not_in_the_file(path):
    matrix = np.abs(np.arange(5)[:, None] - np.arange(5)[None, :]).astype(float)
    problem = mdp.Problem(np.arange(5.0), epsilon=1.0, eta=1.0, outputs=5, metric=matrix, loss=matrix)
    mechanism = mdp.solve(problem, gap=1e-6).mechanism
    without_losses(mechanism, path)
    with pytest.raises(mdp.InputError, match="holds no losses.*'matrix'.*give the matrix"):
        rebuild(path)
    save(mechanism, path, losses=problem.loss)
    found = rebuild(path)
    assert attack(found.mechanism, found.problem).error is None
    assert attack(mechanism, problem).error > 0
    table = compare(found.mechanism, found.problem, ["exponential", "uniform"])
    assert list(table.unavailable) == ["exponential"]


def test_streets_that_are_not_in_the_file_are_measured_straight(path):
    records = mdp.data.road("gothenburg", n=12, seed=1)
    problem = mdp.Problem(records, epsilon=1.0, eta=4.0, outputs=6, metric="street")
    mechanism = mdp.solve(problem, gap=1e-6).mechanism
    save(mechanism, path, losses=problem.loss, loss_name=problem.loss_name)
    found = rebuild(path)
    straight, along = attack(found.mechanism, found.problem).error, attack(mechanism, problem).error
    assert 0 < straight < along
