"""Losses in the files of sparse tables: made again, stored, or left out."""

from __future__ import annotations

import numpy as np
import pytest
from tests.mechanism.damage import grid_problem, packed, problems, sparse, unpacked

import metricdp as mdp
from metricdp.mechanism import stored_losses
from metricdp.mechanism.files import save
from metricdp.metric.distances import CoordinateMetric
from metricdp.problem.losses import DistanceLosses, Losses, TravelLosses


def test_a_matrix_of_losses_is_written_up_to_a_limit(tmp_path, monkeypatch):
    assert stored_losses.MOST_GIVEN == 1 << 24  # part of the format
    mechanism = sparse(problems()["matrix"])
    monkeypatch.setattr(stored_losses, "MOST_GIVEN", 25)
    mechanism.save(tmp_path / "m.mdp")
    assert mdp.load(tmp_path / "m.mdp").losses.whole().shape == (5, 5)
    monkeypatch.setattr(stored_losses, "MOST_GIVEN", 24)
    mechanism.save(tmp_path / "m.mdp")
    metadata, tensors = unpacked((tmp_path / "m.mdp").read_bytes())
    assert (metadata["loss_kind"], "losses" in tensors) == ("absent", False)
    again = mdp.load(tmp_path / "m.mdp")
    assert (again.losses, again.loss_name) == (None, "given")


def test_losses_of_others_replace_its_own(tmp_path):
    other = np.arange(36.0).reshape(6, 6)
    save(sparse(grid_problem()), tmp_path / "m.mdp", losses=other, loss_name="counted")
    again = mdp.load(tmp_path / "m.mdp")
    assert np.array_equal(again.losses.whole(), other)
    assert again.loss_name == "counted"


def test_distances_by_another_metric_are_written(tmp_path):
    """A loss by the Manhattan distance beside a Euclidean guarantee cannot be made from the file's metric."""
    mechanism = sparse(grid_problem())
    other = DistanceLosses(mechanism.records, mechanism.outputs, CoordinateMetric("manhattan"))
    save(mechanism, tmp_path / "m.mdp", losses=other, loss_name="blocks")
    assert unpacked((tmp_path / "m.mdp").read_bytes())[0]["loss_kind"] == "given"
    assert np.array_equal(mdp.load(tmp_path / "m.mdp").losses.whole(), other.whole())


class Named(CoordinateMetric):
    """A metric of somebody's own that calls itself by a name of this library."""

    def between(self, *points):
        return 2.0 * super().between(*points)

    def to_rows(self, records, rows):
        return 2.0 * super().to_rows(records, rows)


def test_distances_by_a_namesake_are_written(tmp_path):
    mechanism = sparse(grid_problem())
    other = DistanceLosses(mechanism.records, mechanism.outputs, Named("euclidean"))
    save(mechanism, tmp_path / "m.mdp", losses=other)
    assert unpacked((tmp_path / "m.mdp").read_bytes())[0]["loss_kind"] == "given"
    assert np.array_equal(mdp.load(tmp_path / "m.mdp").losses.whole(), other.whole())


def test_a_dense_file_has_no_losses_where_there_is_no_memory_for_them(tmp_path, monkeypatch):
    mechanism = mdp.exponential(grid_problem())
    monkeypatch.setattr(Losses, "fits", lambda _: False)
    mechanism.save(tmp_path / "m.mdp")
    metadata, tensors = unpacked((tmp_path / "m.mdp").read_bytes())
    assert "losses" not in tensors
    assert "loss_name" not in metadata
    assert mdp.load(tmp_path / "m.mdp").losses is None


def test_ways_that_are_not_those_of_the_rows_are_written_as_losses(tmp_path):
    mechanism = sparse(grid_problem())
    ways = np.arange(6.0)[:, None]
    save(mechanism, tmp_path / "m.mdp", losses=TravelLosses(ways, ways + 1.0))
    again = mdp.load(tmp_path / "m.mdp")
    assert np.array_equal(again.losses.whole(), TravelLosses(ways, ways + 1.0).whole())
    assert unpacked((tmp_path / "m.mdp").read_bytes())[0]["loss_kind"] == "given"


def test_ways_are_finite_and_of_rows(tmp_path):
    path = tmp_path / "m.mdp"
    sparse(grid_problem()).save(path)
    metadata, tensors = unpacked(path.read_bytes())
    metadata["loss_kind"], tensors["travel"] = "travel", np.arange(6.0)[:, None]
    for edit, said in (
        ({"travel": np.array([[0.0, np.inf]] * 6)}, "not finite"),
        ({"outputs": tensors["records"]}, "known"),
    ):
        path.write_bytes(packed(metadata, tensors | edit))
        with pytest.raises(mdp.FileFormatError, match=said):
            mdp.load(path)
    path.write_bytes(packed(metadata, tensors))
    assert mdp.load(path).losses.whole()[0, 5] == 5.0
