"""The paper's four datasets, and a road network of one's own."""

from __future__ import annotations

import numpy as np
import pytest

from metricdp.errors import InputError
from papers.qiu2024.datasets import Datasets
from papers.qiu2024.published import DATASETS


@pytest.mark.parametrize("dataset", [*DATASETS, "grid 1.5"])
def test_the_same_instance_is_the_same_problem(dataset):
    one, again = (Datasets().problem(dataset, n=40, outputs=5, instance=3, epsilon=10.0) for _ in range(2))
    other = Datasets().problem(dataset, n=40, outputs=5, instance=4, epsilon=10.0)
    assert one.n_records == 40
    assert one.n_outputs == 5
    np.testing.assert_array_equal(one.loss, again.loss)
    np.testing.assert_array_equal(one.graph.pairs, again.graph.pairs)
    assert not np.array_equal(one.loss, other.loss)


def test_another_budget_is_the_same_instance():
    data = Datasets()
    weak = data.problem("road", n=40, outputs=5, instance=1, epsilon=10.0)
    strong = data.problem("road", n=40, outputs=5, instance=1, epsilon=2.0)
    assert (weak.epsilon, strong.epsilon) == (10.0, 2.0)
    np.testing.assert_array_equal(weak.loss, strong.loss)
    np.testing.assert_array_equal(weak.outputs.rows, strong.outputs.rows)


def test_the_papers_settings_at_its_size():
    data = Datasets()
    grid = data.problem("grid", n=500, outputs=100, instance=0, epsilon=10.0)
    assert (grid.eta, grid.loss_name, grid.graph.n_components) == (2.0, "travel", 1)
    assert data.eta("synthetic", 500) == data.eta("synthetic", 1000) == 2.0
    synthetic = data.problem("synthetic", n=500, outputs=100, instance=0, epsilon=10.0)
    assert synthetic.loss_name == "distance"
    assert 3.5 < synthetic.records.coordinates.std() < 4.5


@pytest.mark.parametrize("dataset", DATASETS)
def test_fewer_records_keep_about_as_many_neighbours(dataset):
    few, many = (Datasets().problem(dataset, n=n, outputs=5, instance=0, epsilon=10.0) for n in (100, 500))
    degree = [2 * problem.graph.n_pairs / problem.n_records for problem in (few, many)]
    assert 0.4 < degree[0] / degree[1] < 2.5


def test_a_folder_with_the_rows_of_the_first_instance(places):
    data = Datasets(str(places))
    first = data.problem("road", n=20, outputs=4, instance=0, epsilon=10.0)
    assert first.records.ids == tuple(str(2 * i) for i in range(20))
    assert first.outputs.rows.tolist() == [0, 5, 10, 15]
    assert first.records.streets is not None
    second = data.problem("road", n=20, outputs=4, instance=1, epsilon=10.0)
    assert second.records.ids != first.records.ids
    assert data.road_title == places.name
    assert data.eta("road", 500) == 2.0


def test_a_file_of_places(places):
    data = Datasets(str(places / "nodes.csv"))
    assert data.problem("road", n=20, outputs=4, instance=0, epsilon=10.0).records.streets is None
    assert data.largest("road") == 60


def test_the_papers_own_instance(rome):
    problem = Datasets(str(rome)).problem("road", n=500, outputs=100, instance=0, epsilon=10.0)
    assert (problem.graph.n_pairs, problem.graph.n_components) == (2727, 28)
    assert problem.eta == 2.0


def _vectors(folder):
    (folder / "vectors.csv").write_text("x,y,z\n1,2,3\n4,5,6\n", encoding="utf-8")
    return folder / "vectors.csv"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: folder / "nowhere", "does not exist"),
        (lambda folder: folder, "no nodes.csv"),
        (_vectors, "no places"),
    ],
)
def test_data_that_cannot_be_used(tmp_path, make, words):
    path = make(tmp_path)
    with pytest.raises(InputError, match=words) as error:
        Datasets(str(path))
    assert str(path) in str(error.value)
