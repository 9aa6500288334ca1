"""Snapping with a tree: the same record and the same distance as measuring to all, also where there are ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metricdp as mdp
from metricdp.mechanism.snap import nearest_records
from metricdp.mechanism.snap_index import SnapIndex
from metricdp.metric.distances import CoordinateMetric


def check_same(records, metric, points):
    points = np.asarray(points, dtype=np.float64)
    slow, fast = nearest_records(points, records, metric), SnapIndex(records, metric).nearest(points)
    np.testing.assert_array_equal(fast[0], slow[0])
    np.testing.assert_array_equal(fast[1], slow[1])


@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
def test_ties_on_a_grid(metric):
    """Centres of cells and of edges are equally far from four and from two records."""
    side = np.arange(0.0, 12.0, 0.25)
    points = np.array([(x, y) for x in side for y in side])
    check_same(mdp.data.grid(12, 12), CoordinateMetric(metric), points)


def test_ties_on_the_sphere():
    """Points half-way between places of one latitude, at the poles, across the antimeridian, and far away."""
    places = [(lat, lon) for lat in (-90.0, -60.0, 0.0, 57.7, 90.0) for lon in (-180.0, -90.0, 0.0, 11.97, 90.0, 180.0)]
    records = mdp.Records(places, ids=[f"p{number}" for number in range(len(places))])
    points = [(lat, lon) for lat in np.linspace(-90.0, 90.0, 37) for lon in np.linspace(-180.0, 180.0, 73)]
    check_same(records, CoordinateMetric("haversine"), points)


def test_close_records_and_records_at_one_place():
    """Records micrometres apart, which the tree cannot tell apart; of those at one place the first wins."""
    random = np.random.default_rng(0)
    base = random.uniform((57.6, 11.9), (57.8, 12.1), (40, 2))
    places = np.vstack((base, base, base + 1e-12, base - 3e-13))
    records = mdp.Records(places, ids=[f"p{number}" for number in range(len(places))], kind="places")
    points = np.vstack((base, base + 2e-13, base + random.normal(0.0, 1e-12, base.shape), base + 1e-3))
    check_same(records, CoordinateMetric("haversine"), points)


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["haversine", "euclidean", "manhattan"]),
    st.integers(1, 60),
    st.sampled_from([1e-12, 1e-6, 1e-2, 1.0, 30.0]),
    st.booleans(),
)
def test_random_places(seed, metric, n, scale, are_rounded):
    random = np.random.default_rng(seed)
    places, points = random.normal(0.0, scale, (n, 2)), random.normal(0.0, 2 * scale, (50, 2))
    if are_rounded:  # many ties
        places, points = np.round(places / scale) * scale, np.round(2 * points / scale) * scale / 2
    places, points = np.clip(places, -89.0, 89.0), np.clip(points, -89.0, 89.0)
    kind = "places" if metric == "haversine" else "vectors"
    records = mdp.Records(places, ids=[f"p{number}" for number in range(n)], kind=kind)
    check_same(records, CoordinateMetric(metric), points)


@pytest.mark.parametrize(("dimension", "scale"), [(3, 1.0), (13, 1.0), (2, 1e150), (2, 1e-200)])
def test_where_a_tree_does_not_help(dimension, scale):
    random = np.random.default_rng(1)
    places, points = (scale * random.normal(size=(n, dimension)) for n in (30, 40))
    records = mdp.Records(places, ids=[f"p{number}" for number in range(30)], kind="vectors")
    check_same(records, CoordinateMetric("euclidean"), points)
    check_same(records, CoordinateMetric("euclidean"), 1e120 * points[:5])


def test_all_of_rome(rome):
    records = mdp.data.read_records(rome / "nodes.csv.gz")
    random = np.random.default_rng(2)
    low, high = records.coordinates.min(axis=0), records.coordinates.max(axis=0)
    a, b = records.coordinates[random.integers(0, records.n, (2, 100))]
    points = np.vstack((random.uniform(low, high, (200, 2)), records.coordinates[::500], (a + b) / 2))
    check_same(records, CoordinateMetric("haversine"), points)


def test_the_doors_that_take_it_report_the_same():
    """With an epsilon so large that the report is certain."""
    records = mdp.data.grid(4, 4)
    mechanism = mdp.exponential(mdp.Problem(records, epsilon=500.0, eta=1.5, outputs=16, loss="distance"))
    points = np.random.default_rng(3).uniform(0.0, 3.0, (50, 2))
    slow, fast = (mechanism.perturb_points(points, limit=2.0, fast_snap=is_fast) for is_fast in (False, True))
    assert fast.ids == slow.ids
    np.testing.assert_array_equal(fast.snap_distances, slow.snap_distances)
    with pytest.raises(mdp.errors.InputError, match="farther from every record"):
        mechanism.perturb_points([[9.0, 9.0]], limit=2.0, fast_snap=True)
