"""What the loader accepts as the list of protected pairs: nothing too long or missing, and every honest file."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from tests.mechanism.test_files import pack, refused, unpack
from tests.metric.precise import true_distance
from tests.metric.test_rounding import MM, PLACES

import metricdp as mdp
from metricdp.data.geodesy import HAVERSINE_ROUNDING, haversine_km
from metricdp.mechanism.scope import can_be_recomputed, is_known, rounded_down, scope_fault
from metricdp.metric import CoordinateMetric, MdpGraph


def saved(records, eta, path, *, epsilon=1.0):
    problem = mdp.Problem(records, epsilon=epsilon, eta=eta, outputs=4)
    mechanism = mdp.exponential(problem)
    mechanism.save(path)
    return mechanism


@pytest.mark.parametrize("case", sorted(PLACES))
def test_honest_files_load_everywhere_on_earth(case, tmp_path):
    """With eta exactly at a stored distance, and the float before and after the distance that numpy finds."""
    records = mdp.Records(PLACES[case])
    distances = np.sort(CoordinateMetric("haversine").pairs_within(records, math.inf)[1])
    middle = float(distances[distances > 0][len(distances) // 3])
    for eta in (middle, math.nextafter(middle, 0.0), middle / (1 - 4 * HAVERSINE_ROUNDING)):
        mechanism = saved(records, eta, tmp_path / "m.mdp", epsilon=1.0 / middle)
        again = mdp.load(tmp_path / "m.mdp")
        assert np.array_equal(again.graph.distances, mechanism.graph.distances)
        assert np.array_equal(again.graph.pairs, mechanism.graph.pairs)


@pytest.mark.parametrize("kind", ["places", "vectors"])
def test_files_of_a_machine_with_other_sines_load(kind, tmp_path, monkeypatch):
    """Another machine may be off by the whole error bound either way: what it writes is proved here."""
    records = mdp.data.road("gothenburg", n=40, seed=3) if kind == "places" else mdp.data.gaussian(40, seed=3)
    ours = CoordinateMetric.elementwise
    generator = np.random.default_rng(0)

    def theirs(self, a, b):
        distances = ours(self, a, b)
        return distances * (1.0 + generator.uniform(-1, 1, distances.shape) * self.rounding(a.shape[-1]))

    metric = CoordinateMetric("haversine" if kind == "places" else "euclidean")
    eta = float(np.median(metric.pairs_within(records, 1e9)[1]))
    with monkeypatch.context() as patch:
        patch.setattr(CoordinateMetric, "elementwise", theirs)
        graph = MdpGraph.of(records, metric, eta)
    assert scope_fault(records, graph, eta, metric.name) == ""
    assert not np.array_equal(graph.distances, metric.pairs_within(records, eta)[1])


@pytest.mark.parametrize(
    ("records", "eta"),
    [
        (mdp.data.road("gothenburg", n=40, seed=3), 2.0),
        (mdp.data.gaussian(40, seed=3), 2.0),
        (mdp.data.words(n=30, seed=3), 6.0),
        (mdp.Records(np.arange(50) * 0.1, kind="vectors"), 0.1),
    ],
)
def test_files_of_earlier_versions_are_certified_at_distances_rounded_down(records, eta, tmp_path):
    """They hold distances rounded to the nearest float, and no pair whose distance was rounded to more than eta."""
    path = tmp_path / "m.mdp"
    mechanism = saved(records, eta, path)
    metadata, tensors = unpack(path)
    there = records.coordinates[tensors["pairs"].T]
    nearest = CoordinateMetric(mechanism.metric).elementwise(*there)
    within = nearest <= eta
    tensors["pairs"], tensors["distances"] = tensors["pairs"][within], nearest[within]
    pack(path, metadata, tensors)
    again = mdp.load(path)
    assert again.graph.n_pairs == within.sum()
    for (i, j), d in zip(again.graph.pairs.tolist(), again.graph.distances.tolist(), strict=True):
        assert Decimal(d) <= true_distance(again.metric, records.coordinates[i], records.coordinates[j])


def test_a_distance_longer_by_any_amount_is_not_believed():
    """From one float above the true distance on: refused in the constructor, so that no table is certified with it."""
    records = mdp.data.road("gothenburg", n=20, seed=3)
    graph = mdp.Problem(records, epsilon=1.0, eta=2.0, outputs=4).graph
    for p in range(0, graph.n_pairs, 5):
        i, j = graph.pairs[p]
        true = float(true_distance("haversine", records.coordinates[i], records.coordinates[j]))
        distances = graph.distances.copy()
        distances[p] = math.nextafter(true, math.inf)
        longer = MdpGraph(graph.n, graph.pairs, distances)
        assert "is stored" in scope_fault(records, longer, 2.0, "haversine")


def test_a_file_that_stores_longer_distances_is_refused_or_holds_at_the_true_ones(tmp_path):
    path = tmp_path / "m.mdp"
    records = mdp.data.road("gothenburg", n=20, seed=3)
    saved(records, 2.0, path)
    metadata, tensors = unpack(path)
    for factor in (1.0 + 1e-12, 1.001, 3.0):
        changed = {**tensors, "distances": np.minimum(tensors["distances"] * factor, 2.0)}
        pack(path, metadata, changed)
        assert "is stored" in refused(path)


@pytest.mark.parametrize("spacing", [0.1, 1.0])
def test_a_pair_left_out_is_noticed_whether_or_not_its_digits_are_few(spacing):
    records = mdp.Records(np.arange(6) * spacing, kind="vectors")
    graph = mdp.Problem(records, epsilon=1.0, eta=spacing, outputs=2).graph
    assert graph.n_pairs == 5
    short = MdpGraph(6, graph.pairs[1:], graph.distances[1:])
    assert "records 0 and 1 are within eta" in scope_fault(records, short, spacing, "euclidean")
    # the third and the fourth are a hair more than 0.1 apart: that they are left out breaks no promise
    true = true_distance("euclidean", records.coordinates[2], records.coordinates[3])
    without = MdpGraph(6, np.delete(graph.pairs, 2, axis=0), np.delete(graph.distances, 2))
    assert bool(scope_fault(records, without, spacing, "euclidean")) == (true <= Decimal(spacing))


def test_pairs_are_counted_neither_too_often_nor_too_rarely():
    """At millimetres the tree's rounding must not count pairs that are farther apart, nor forget those across 180."""
    for case in ("antimeridian", "north pole", "millimetres", "nanometres"):
        records, metric = mdp.Records(PLACES[case]), CoordinateMetric("haversine")
        distances = np.sort(metric.pairs_within(records, math.inf)[1])
        for eta in distances[distances > 0][:: len(distances) // 20]:
            needed = sum(map(len, metric.needed_in_parts(records, float(eta))))
            all_distances = haversine_all(records.coordinates)
            assert (all_distances <= eta * (1 - 1e-8) - 1e-9).sum() <= needed
            assert needed <= (all_distances <= eta * (1 + 1e-8) + 1e-9).sum()


def haversine_all(points):
    i, j = np.triu_indices(len(points), k=1)
    return haversine_km(points[i], points[j])


@pytest.mark.parametrize("eta", [1e-12, 1e-9, 1e-3])
def test_a_bomb_of_places_in_one_spot_is_counted(eta):
    """However small eta is, records within it that a file does not list are noticed before they are all listed."""
    records = mdp.Records(np.tile([[12.0, 180.0], [12.0, -180.0]], (300, 1)))
    empty = MdpGraph(600, np.zeros((0, 2), dtype=np.int32), np.zeros(0))
    assert "not among the protected pairs" in scope_fault(records, empty, eta, "haversine")


@pytest.mark.parametrize("dimension", [1, 3])
def test_great_circles_of_other_than_places_are_refused(dimension, tmp_path):
    path = tmp_path / "m.mdp"
    saved(mdp.Records(np.eye(4)[:, :dimension] * MM, kind="vectors"), 1.0, path)
    metadata, tensors = unpack(path)
    pack(path, {**metadata, "metric": "haversine"}, tensors)
    assert "needs latitude and longitude" in refused(path)


@pytest.mark.parametrize(
    ("name", "known", "recomputed"),
    [
        *((name, True, True) for name in ("haversine", "euclidean", "manhattan")),
        *((name, True, False) for name in ("street", "matrix", "function of mine")),
        *((name, False, False) for name in ("", "function", "functional", "Haversine", "streets", "my function f")),
    ],
)
def test_which_metrics_are_known_and_which_can_be_counted_again(name, known, recomputed):
    assert is_known(name) is known
    assert can_be_recomputed(name) is recomputed


class TestDistancesBeyondEta:
    RECORDS = mdp.Records([[0.0], [1.0], [3.0]], kind="vectors")
    GRAPH = MdpGraph(3, np.array([[0, 1], [1, 2]], dtype=np.int32), np.array([1.0, 2.0]))

    @pytest.mark.parametrize("metric", ["euclidean", "matrix"])
    def test_one_is_enough_whatever_the_metric(self, metric):
        assert scope_fault(self.RECORDS, self.GRAPH, 2.0, metric) == ""
        below = math.nextafter(2.0, 0.0)
        expected = f"a neighbour distance 2.0 exceeds eta = {below!r}"
        assert scope_fault(self.RECORDS, self.GRAPH, below, metric) == expected

    def test_no_pairs_exceed_nothing(self):
        empty = MdpGraph(3, self.GRAPH.pairs[:0], self.GRAPH.distances[:0])
        assert scope_fault(self.RECORDS, empty, 0.5, "euclidean") == ""
        assert scope_fault(self.RECORDS, empty, 2.0, "matrix") == ""
        assert "not among the protected pairs" in scope_fault(self.RECORDS, empty, 2.0, "euclidean")

    def test_an_eta_that_is_no_number_holds_nothing(self):
        assert "exceeds eta = nan" in scope_fault(self.RECORDS, self.GRAPH, math.nan, "matrix")


def test_only_distances_that_can_be_computed_again_are_rounded_down():
    records = mdp.Records([[0.0], [0.1]], kind="vectors")
    above = math.nextafter(0.1, 1.0)
    graph = MdpGraph(2, np.array([[0, 1]], dtype=np.int32), np.array([above]))
    assert rounded_down(records, graph, "matrix") is graph
    assert rounded_down(records, graph, "euclidean").distances[0] <= 0.1
