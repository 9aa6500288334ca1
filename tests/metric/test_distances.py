from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metricdp as mdp
from metricdp.data import StreetNetwork
from metricdp.metric import CoordinateMetric, FunctionMetric, MatrixMetric, StreetMetric, as_metric

RNG = np.random.default_rng(7)


def brute_haversine(a, b):
    la, lb = math.radians(a[0]), math.radians(b[0])
    h = math.sin((lb - la) / 2) ** 2 + math.cos(la) * math.cos(lb) * math.sin(math.radians(b[1] - a[1]) / 2) ** 2
    return 2 * 6371.0088 * math.asin(math.sqrt(h))


def brute_euclidean(a, b):
    return math.dist(a, b)


def brute_manhattan(a, b):
    return math.fsum(abs(x - y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(
    ("name", "brute", "records", "eta"),
    [
        ("haversine", brute_haversine, mdp.data.road("gothenburg", n=120, seed=1), 1.3),
        ("haversine", brute_haversine, mdp.Records(RNG.uniform([-90, -180], [90, 180], (80, 2))), 9000.0),
        ("euclidean", brute_euclidean, mdp.data.gaussian(100, seed=2), 1.7),
        ("euclidean", brute_euclidean, mdp.data.words(n=60, seed=3), 5.5),
        ("manhattan", brute_manhattan, mdp.data.gaussian(100, seed=4), 2.5),
        ("manhattan", brute_manhattan, mdp.data.grid(7, 7), 2.0),
        ("euclidean", brute_euclidean, mdp.data.grid(7, 7), math.inf),
    ],
)
def test_neighbours_equal_brute_force(name, brute, records, eta):
    pairs, distances = CoordinateMetric(name).pairs_within(records, eta)
    points = records.coordinates.tolist()
    expected = {(i, j): brute(points[i], points[j]) for i in range(records.n) for j in range(i + 1, records.n)}
    expected = {pair: d for pair, d in expected.items() if d <= eta}
    assert [tuple(p) for p in pairs.tolist()] == sorted(expected)
    assert distances == pytest.approx([expected[tuple(p)] for p in pairs.tolist()], rel=1e-10)
    assert pairs.dtype == np.int32


def test_distance_exactly_eta_is_a_neighbour():
    pairs, _ = CoordinateMetric("euclidean").pairs_within(mdp.data.grid(1, 3), 2.0)
    assert pairs.tolist() == [[0, 1], [0, 2], [1, 2]]


@given(st.lists(st.floats(-1e300, 1e300), min_size=4, max_size=4))
def test_euclidean_neither_overflows_nor_underflows(values):
    a, b = np.array(values[:2]), np.array(values[2:])
    with np.errstate(over="ignore"):
        expected = math.hypot(*(a - b))
    assert CoordinateMetric("euclidean").elementwise(a, b) == pytest.approx(expected, rel=1e-14)


def test_street_distance_is_the_shortest_way():
    streets = StreetNetwork(
        np.array([[0, 0], [0, 1], [1, 1], [1, 0]], dtype=float),
        np.array([[0, 1], [1, 2], [2, 3], [0, 3], [0, 3]], dtype=np.int32),
        np.array([1.0, 2.0, 3.0, 9.0, 7.0]),
    )
    records = mdp.Records(streets.coordinates, streets=streets, street_nodes=np.arange(4))
    metric = StreetMetric()
    assert metric.to_rows(records, np.array([0])).ravel().tolist() == [0.0, 1.0, 3.0, 6.0]
    pairs, distances = metric.pairs_within(records, 3.0)
    assert pairs.tolist() == [[0, 1], [0, 2], [1, 2], [2, 3]]
    assert distances.tolist() == [1.0, 3.0, 2.0, 3.0]
    some = records.select([3, 0])
    assert metric.to_rows(some, np.array([1])).ravel().tolist() == [6.0, 0.0]


def test_street_distance_is_never_shorter_than_the_crow_flies():
    records = mdp.data.road("gothenburg", n=60, seed=0)
    rows = np.arange(10)
    street, straight = StreetMetric().to_rows(records, rows), CoordinateMetric("haversine").to_rows(records, rows)
    assert (street >= straight * (1 - 1e-9)).all()


def test_matrix_and_function_agree_with_coordinates():
    records = mdp.data.gaussian(25, seed=3)
    metric = CoordinateMetric("euclidean")
    full = metric.to_rows(records, np.arange(25))
    expected = metric.pairs_within(records, 3.0)
    for other in (MatrixMetric(full), FunctionMetric(math.dist)):
        pairs, distances = other.pairs_within(records, 3.0)
        assert np.array_equal(pairs, expected[0])
        assert distances == pytest.approx(expected[1])
    assert isinstance(as_metric(full, records), MatrixMetric)
    assert isinstance(as_metric(math.dist, records), FunctionMetric)


@pytest.mark.parametrize(
    ("matrix", "part"),
    [
        ([[0, 1]], "square"),
        ([[0, 1], [2, 0]], "symmetric"),
        ([[0, -1], [-1, 0]], "-1"),
        ([[0, math.nan], [math.nan, 0]], "nan"),
        ([[1, 1], [1, 0]], "distance 0 to itself"),
    ],
)
def test_bad_matrices(matrix, part):
    with pytest.raises(mdp.InputError, match=part):
        MatrixMetric(matrix)


def away(a, b):
    return float(b[0] - a[0]) if b[0] > a[0] else 2.0 * float(a[0] - b[0])


def broken(*_):
    return 1 / 0


@pytest.mark.parametrize(
    ("function", "parts"),
    [
        (away, ["symmetric", "gave 3.0 from [1.0] to [4.0] and 6.0 back"]),
        (lambda a, b: math.inf if a[0] < b[0] else 1.0, ["symmetric", "gave inf", "and 1.0 back"]),
        (lambda *_: None, ["gave None for [1.0] and [4.0]", "a number"]),
        (lambda *_: "3", ["gave '3' for [1.0] and [4.0]", "a number"]),
        (lambda *_: 1j, ["gave 1j for [1.0] and [4.0]", "a number"]),
        (lambda *_: -1.0, ["gave -1.0 for [1.0] and [4.0]", "zero or more"]),
        (lambda *_: math.nan, ["gave nan for [1.0] and [4.0]"]),
        (broken, ["failed for [1.0] and [4.0]", "ZeroDivisionError: division by zero"]),
    ],
)
def test_bad_functions(function, parts):
    records = mdp.Records([[1.0], [4.0]], kind="vectors")
    with pytest.raises(mdp.InputError) as caught:
        FunctionMetric(function).pairs_within(records, 10.0)
    assert all(part in str(caught.value) for part in parts), caught.value


def test_of_two_ways_that_differ_by_rounding_the_smaller_counts():
    records = mdp.Records([[1.0], [4.0]], kind="vectors")
    metric = FunctionMetric(lambda a, b: 3.0 if a[0] < b[0] else math.nextafter(3.0, 0.0))
    assert metric.pairs_within(records, 10.0)[1].tolist() == [math.nextafter(3.0, 0.0)]


def test_whole_city_of_neighbours(rome):
    """43,160 points: 18.9 million pairs without an N x N matrix."""
    records = mdp.data.read_records(rome / "nodes.csv.gz")
    pairs, distances = CoordinateMetric("haversine").pairs_within(records, 0.5)
    assert len(pairs) > 1_000_000
    assert distances.max() <= 0.5
    some = np.random.default_rng(0).choice(records.n, 40, replace=False)
    degree = np.bincount(pairs.ravel(), minlength=records.n)[some]
    expected = (CoordinateMetric("haversine").to_rows(records, some) <= 0.5).sum(axis=0) - 1
    assert degree.tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["euclidean", "manhattan"])
@pytest.mark.parametrize("scale", [1.0, 1e-170, 1e-320, 1e99, 1e150, 1e307])
def test_many_coordinates_are_measured_as_one_by_one(name, scale):
    """Squares of 1e-170 vanish and those of 1e307 overflow: there the distances are as good as elsewhere."""
    rng = np.random.default_rng(3)
    a = rng.normal(size=(40, 30)) * scale
    b = np.concatenate((a[:5], a[:5] * (1.0 + 1e-15), rng.normal(size=(20, 30)) * scale))
    metric = CoordinateMetric(name)
    found = metric.between(a, b)
    expected = metric.elementwise(a[:, None, :], b[None, :, :])
    assert np.isclose(found, expected, rtol=2.0 * metric.rounding(30), atol=0.0).all()
    assert (found[np.arange(5), np.arange(5)] == 0.0).all()
    assert (found > 0.0).sum() == (expected > 0.0).sum()
