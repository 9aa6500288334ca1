"""Pairs that are made again from coordinates: those of the metric to the last bit, up to a limit."""

from __future__ import annotations

import numpy as np
import pytest

import metricdp as mdp
from metricdp.metric import distances
from metricdp.metric.distances import CoordinateMetric
from metricdp.metric.graph import MdpGraph
from metricdp.metric.remade import can_be_remade, remade
from metricdp.metric.rounding import STORED_MARGIN


@pytest.mark.parametrize(
    ("metric", "dimension"), [("euclidean", 2), ("manhattan", 3), ("haversine", 2), ("euclidean", 14)]
)
def test_pairs_made_in_parts_are_those_of_the_metric(metric, dimension, monkeypatch):
    monkeypatch.setattr(distances, "PAIRS_AT_ONCE", 300)
    monkeypatch.setattr(distances, "ROWS_AT_ONCE", 16)
    points = np.random.default_rng(0).normal(size=(150, dimension))
    points[:20] = points[20:40]
    records = mdp.Records(points, kind="places" if metric == "haversine" else "vectors")
    measure = CoordinateMetric(metric)
    eta = float(np.median(measure.pairs_within(records, np.inf)[1]))
    graph = MdpGraph.of(records, measure, eta)
    again = remade(records, eta, measure, margin=STORED_MARGIN, most=graph.n_pairs)
    assert np.array_equal(again.pairs, graph.pairs)
    assert again.distances.tobytes() == graph.distances.tobytes()
    with pytest.raises(mdp.InputError, match="more than"):
        remade(records, eta, measure, margin=STORED_MARGIN, most=graph.n_pairs - 1)
    assert can_be_remade(records, eta, measure, graph, most=graph.n_pairs)
    assert not can_be_remade(records, eta, measure, graph, most=graph.n_pairs - 1)
    for p in (0, 7, graph.n_pairs - 1):
        fewer = MdpGraph(graph.n, np.delete(graph.pairs, p, axis=0), np.delete(graph.distances, p))
        assert not can_be_remade(records, eta, measure, fewer, most=10**6)
    longest = graph.distances.max()
    assert not can_be_remade(records, np.nextafter(longest, 0), measure, graph, most=10**6)
    longer = graph.distances.copy()
    longer[3] = np.nextafter(longer[3], np.inf)
    assert not can_be_remade(records, eta, measure, MdpGraph(graph.n, graph.pairs, longer), most=10**6)
    assert not can_be_remade(records, eta, measure, MdpGraph(graph.n, graph.pairs[:0], longer[:0]), most=10**6)


def test_records_without_neighbours_need_no_pairs():
    records = mdp.Records([[0.0], [5.0]], kind="vectors")
    empty = MdpGraph(2, np.zeros((0, 2), dtype=np.int32), np.zeros(0))
    assert can_be_remade(records, 1.0, CoordinateMetric("euclidean"), empty, most=0)
    assert remade(records, 1.0, CoordinateMetric("euclidean"), margin=4, most=0).n_pairs == 0


def test_another_pair_at_the_same_distance_is_noticed():
    """As many pairs, all at distance 1, but one of them is not within eta."""
    records, metric = mdp.data.grid(2, 3), CoordinateMetric("euclidean")
    graph = MdpGraph.of(records, metric, 1.0)
    assert can_be_remade(records, 1.0, metric, graph, most=10)
    pairs = graph.pairs.copy()
    pairs[1] = (0, 4)
    assert graph.pairs[1].tolist() == [0, 3]
    changed = MdpGraph(6, pairs, graph.distances)
    assert can_be_remade(records, 1.0, metric, changed, most=10) is False
