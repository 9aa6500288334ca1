"""Distances with units, and trees that join records."""

from __future__ import annotations

import math

import numpy as np
import pytest

import metricdp as mdp
from metricdp.metric import connecting
from metricdp.metric.connecting import connecting_eta, joining
from metricdp.metric.units import as_distance, in_words


@pytest.mark.parametrize(
    ("value", "metric", "expected"),
    [
        ("200m", "haversine", 0.2),
        (" 0.2 km ", "street", 0.2),
        ("1mi", "haversine", 1.609344),
        ("1e3m", "haversine", 1.0),
        ("0.5", "haversine", 0.5),
        (3, "euclidean", 3.0),
        ("inf", "euclidean", math.inf),
    ],
)
def test_lengths(value, metric, expected):
    assert as_distance(value, metric) == expected


@pytest.mark.parametrize(
    ("value", "metric", "message"),
    [
        ("200 yards", "haversine", "unknown unit 'yards': use m, km, mi"),
        ("200m", "euclidean", "the metric 'euclidean' has none: give a plain number"),
        ("far", "haversine", "must be a number, with a unit or without, got 'far'"),
        ("1-2", "haversine", "must be a number"),
        ("-3m", "haversine", "must be positive, got '-3m'"),
        (0.0, "haversine", "must be positive"),
        (None, "haversine", "must be a number, got None"),
    ],
)
def test_what_is_no_length(value, metric, message):
    with pytest.raises(mdp.InputError, match=f"within.*{message}"):
        as_distance(value, metric, what="within")


def test_words():
    assert [in_words(d, "haversine") for d in (0.0123, 0.2, 1.0, 12.34)] == ["12.3 m", "200 m", "1 km", "12.3 km"]
    assert in_words(0.2, "matrix") == "0.2"


@pytest.mark.parametrize("name", ["haversine", "euclidean"])
@pytest.mark.parametrize("has_copies", [False, True])
def test_the_tree_of_a_triangulation_is_that_of_all_distances(monkeypatch, name, has_copies):
    records = mdp.data.road("gothenburg", n=400, seed=2)
    points = np.vstack((records.coordinates, records.coordinates[:50])) if has_copies else records.coordinates
    made = mdp.Records(points, kind="places" if name == "haversine" else "vectors")
    whole = joining(made)
    monkeypatch.setattr(connecting, "MAX_COMPARED", 10)
    quick = joining(made)
    assert np.sort(quick.lengths) == pytest.approx(np.sort(whole.lengths), abs=1e-9)
    assert quick.eta == pytest.approx(whole.eta, rel=1e-12)
    for eta in (0.5 * whole.eta, 0.999 * whole.eta, whole.eta):
        graph = mdp.Problem(made, epsilon=1.0, eta=eta).graph
        alone = int((np.bincount(graph.labels) == 1).sum())
        for tree in (whole, quick):
            assert (tree.n_components(eta), tree.n_alone(eta)) == (graph.n_components, alone)


def test_points_on_a_line_and_manhattan(monkeypatch):
    monkeypatch.setattr(connecting, "MAX_COMPARED", 2)
    monkeypatch.setattr(connecting, "MAX_RECORDS", 2)
    line = mdp.Records([[0.0, 0.0], [1.0, 1.0], [3.0, 3.0]], kind="vectors")
    assert connecting_eta(line) == pytest.approx(2 * math.sqrt(2))
    assert connecting_eta(line, "manhattan") == pytest.approx(4.0)
    with pytest.raises(mdp.InputError, match="cannot be chosen for 3 records"):
        connecting_eta(mdp.Records([[0.0], [1.0], [3.0]], kind="vectors"))


def test_problems_take_units_and_connect():
    records = mdp.data.road("gothenburg", n=60, seed=1)
    assert mdp.Problem(records, epsilon=1.0, eta="500m").eta == 0.5
    joined = mdp.Problem(records, epsilon=1.0, eta="connect")
    assert joined.graph.n_components == 1
    assert mdp.Problem(records, epsilon=1.0, eta=0.9999 * joined.eta).graph.n_components > 1
    with pytest.raises(mdp.InputError, match="eta must be a number, with a unit"):
        mdp.Problem(records, epsilon=1.0, eta="far")
    with pytest.raises(mdp.InputError, match="2 faults: .*coordinates.*; .*epsilon|epsilon.*; .*coordinates"):
        mdp.Problem([["a"]], epsilon=-1.0, eta="connect")
    apart = np.array([[0.0, np.inf], [np.inf, 0.0]])
    with pytest.raises(mdp.InputError, match="no eta joins all records"):
        mdp.Problem([[0.0], [1.0]], epsilon=1.0, eta="connect", metric=apart)
