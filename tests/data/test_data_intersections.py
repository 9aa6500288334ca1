"""Contraction keeps distances; geodesy is symmetric; drivable streets are chosen as stated."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, dijkstra

from metricdp.data.drivable import is_drivable
from metricdp.data.geodesy import EARTH_RADIUS_KM, haversine_km
from metricdp.data.intersections import contract, merge_parallel
from metricdp.errors import InputError

LATITUDE, LONGITUDE = st.floats(-90, 90), st.floats(-180, 180)
PLACE = st.tuples(LATITUDE, LONGITUDE)


def graph_of(n, edges, lengths):
    edges, lengths = merge_parallel(np.asarray(edges), np.asarray(lengths))
    return coo_array((lengths, (edges[:, 0], edges[:, 1])), shape=(n, n)).tocsr()


@given(PLACE, PLACE)
def test_haversine_is_symmetric_to_the_last_bit(a, b):
    distance = haversine_km(a, b)
    assert distance == haversine_km(b, a)
    assert 0 <= distance <= np.pi * EARTH_RADIUS_KM * (1 + 1e-15)
    assert haversine_km(a, a) == 0


@given(PLACE, PLACE)
def test_haversine_agrees_with_the_angle_between_vectors(a, b):
    def direction(place):
        latitude, longitude = np.radians(place)
        return np.array([np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)])

    first, second = direction(a), direction(b)
    angle = np.arctan2(np.linalg.norm(np.cross(first, second)), first @ second)
    assert haversine_km(a, b) == pytest.approx(angle * EARTH_RADIUS_KM, abs=1e-3)


def test_haversine_is_accurate_for_close_places_and_broadcasts():
    # a millionth of a degree of latitude
    assert haversine_km([57.7, 12.0], [57.700001, 12.0]) == pytest.approx(np.radians(1e-6) * EARTH_RADIUS_KM, rel=1e-6)
    assert haversine_km(np.zeros((3, 1, 2)), np.ones((1, 4, 2))).shape == (3, 4)


@st.composite
def drawings(draw):
    n = draw(st.integers(4, 30))
    seed = draw(st.integers(0, 2**32 - 1))
    # few segments per point, so that there are chains, rings and several components
    n_segments = draw(st.integers(n // 2, 2 * n))
    rng = np.random.default_rng(seed)
    return rng.uniform(0, 0.1, (n, 2)), rng.integers(0, n, (n_segments, 2))


@given(drawings())
def test_contraction_keeps_shortest_path_distances(drawing):
    places, segments = drawing
    lengths = haversine_km(places[segments[:, 0]], places[segments[:, 1]])
    drawn = graph_of(len(places), segments, lengths)
    try:
        streets, kept = contract(places, segments)
    except InputError:
        n_neighbours = (drawn + drawn.T).astype(bool).sum(axis=1)
        # only rings, or points whose streets all lead back to them, have no street between two intersections
        component = connected_components(drawn, directed=False)[1]
        junctions = np.bincount(component[(n_neighbours != 2) & (n_neighbours > 0)], minlength=1)
        assert junctions.max() <= 1
        return
    before = dijkstra(drawn, directed=False, indices=kept)[:, kept]
    after = dijkstra(graph_of(len(kept), streets.edges, streets.lengths), directed=False)
    assert np.isfinite(after).all()
    assert np.allclose(before, after, rtol=1e-12)
    assert np.array_equal(streets.coordinates, places[kept])
    assert (np.diff(kept) > 0).all()


@given(drawings())
def test_contraction_passes_exactly_the_points_with_two_neighbours(drawing):
    places, segments = drawing
    drawn = graph_of(len(places), segments, np.ones(len(segments)))
    n_neighbours = (drawn + drawn.T).astype(bool).sum(axis=1)
    try:
        _, kept = contract(places, segments)
    except InputError:
        return
    component = connected_components(drawn, directed=False)[1]
    is_junction = (n_neighbours != 2) & (n_neighbours > 0)
    assert is_junction[kept].all()
    assert len(kept) == np.bincount(component[is_junction]).max()
    assert len(set(component[kept])) == 1


def test_loops_go_and_dead_ends_stay():
    # 0 and 5 are joined; a loop 0-1-2-0 hangs on 0; 5 has two more dead ends
    places = np.array([[0, 0], [0, 1], [1, 0], [3, 3], [4, 4], [2, 2]]) / 100
    streets, kept = contract(places, [[0, 1], [1, 2], [2, 0], [0, 5], [5, 3], [5, 4]])
    assert kept.tolist() == [0, 3, 4, 5]
    assert streets.edges.tolist() == [[0, 3], [1, 3], [2, 3]]


def test_of_parallel_streets_the_shortest_stays():
    # from 0 to 1 directly, and by way of 2
    places = np.array([[0, 0], [0, 2], [1, 1], [0, -1], [-1, 0], [0, 3], [1, 3]]) / 100
    streets, _ = contract(places, [[0, 1], [0, 2], [2, 1], [0, 3], [0, 4], [1, 5], [1, 6]])
    assert streets.n_edges == 5
    assert streets.lengths[0] == haversine_km(places[0], places[1])


@pytest.mark.parametrize("segments", [[], [[0, 0]], [[0, 1], [1, 2], [2, 0]]])
def test_no_junction_is_a_clear_error(segments):
    with pytest.raises(InputError, match="no intersection"):
        contract([[0, 0], [0, 1], [1, 0]], segments)


def test_contraction_is_fast():
    side = 500
    rows = np.arange(side * side).reshape(side, side)
    across = np.column_stack([rows[:, :-1].ravel(), rows[:, 1:].ravel()])
    down = np.column_stack([rows[:-1].ravel(), rows[1:].ravel()])
    segments = np.random.default_rng(0).permutation(np.concatenate([across, down]))[:300_000]
    places = np.indices((side, side)).reshape(2, -1).T / 1e4
    started = time.perf_counter()
    streets, _ = contract(places, segments)
    assert streets.n_nodes > 100_000
    assert time.perf_counter() - started < 5.0


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ({"highway": "motorway_link"}, True),
        ({"highway": "living_street", "access": "destination"}, True),
        ({"highway": "residential", "access": "private"}, False),
        ({"highway": "residential", "motor_vehicle": "no"}, False),
        ({"highway": "residential", "access": "no", "motorcar": "yes"}, True),
        ({"highway": "residential", "area": "yes"}, False),
        ({"highway": "service"}, False),
        ({"highway": "cycleway"}, False),
        ({"building": "yes"}, False),
    ],
)
def test_streets_for_cars(tags, expected):
    assert is_drivable(tags) is expected
