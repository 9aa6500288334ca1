"""No stored distance exceeds the true one, and no pair within eta is missed: against 50 digits, everywhere on Earth."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal

import numpy as np
import pytest
from tests.metric.precise import true_distance

import metricdp as mdp
from metricdp.data.geodesy import HAVERSINE_ROUNDING, haversine_km
from metricdp.metric import CoordinateMetric, StreetMetric
from metricdp.metric.rounding import CHECKED_MARGIN, STORED_MARGIN

MM = 1e-6 / 111.2  # degrees of latitude
RNG = np.random.default_rng(16)


def near(lat, lon, count, spread):
    """Places around one, longitudes brought back into range, near a pole at any longitude."""
    points = RNG.uniform(-spread, spread, (count, 2)) + np.array([lat, lon])
    if abs(lat) == 90.0:
        points[:, 0] = np.sign(lat) * (90.0 - np.abs(points[:, 0] - lat))
        points[:, 1] = RNG.uniform(-180, 180, count)
    points[:, 1] = np.where(points[:, 1] > 180, points[:, 1] - 360, points[:, 1])
    return points


def opposite(points, spread):
    moved = np.column_stack((-points[:, 0], points[:, 1] - np.copysign(180.0, points[:, 1])))
    return np.clip(moved + RNG.uniform(-spread, spread, moved.shape), [-90, -180], [90, 180])


WORLD = RNG.uniform([-90, -180], [90, 180], (8, 2))
PLACES = {
    "city": mdp.data.road("gothenburg", n=24, seed=1).coordinates,
    "world": RNG.uniform([-90, -180], [90, 180], (24, 2)),
    "antimeridian": near(-17.0, 180.0, 24, MM),
    "antimeridian, kilometres": near(65.0, 180.0, 24, 0.05),
    "north pole": near(90.0, 0.0, 24, MM),
    "south pole": near(-90.0, 0.0, 24, 0.01),
    "millimetres": near(57.7, 11.9, 24, MM),
    "nanometres": near(41.9, 12.5, 20, 1e-6 * MM),
    "origin": RNG.uniform(-1, 1, (20, 2)) * 10.0 ** RNG.integers(-320, 1, (20, 1)),
    "antipodes": np.concatenate((WORLD, opposite(WORLD, 0.0), opposite(WORLD[:4], 1e-7), opposite(WORLD[:4], 1.0))),
    "edges": np.array(
        list(itertools.product([-90.0, 90.0, 0.0, 45.0], [-180.0, 180.0, 0.0, 179.9999999, -179.9999999]))
    ),
}
VECTORS = {
    "gaussian": mdp.data.gaussian(30, seed=1).coordinates,
    "words": mdp.data.words(n=20, seed=2).coordinates,
    "decimals": np.array(list(itertools.product(range(5), range(5)))) * 0.1,
    "whole numbers": np.array(list(itertools.product(range(6), range(6)))) * 1.0,
    "huge": RNG.normal(size=(20, 3)) * 1e307,
    "beyond the largest float": RNG.choice([-1.7e308, 0.0, 1.0, 1.7e308], (12, 2)),
    "tiny": RNG.normal(size=(20, 3)) * 1e-307,
    "below normal": RNG.integers(0, 9, (20, 3)) * 5e-324,
    "far from the origin": 1e9 + RNG.normal(size=(20, 4)),
    "mixed": RNG.normal(size=(20, 5)) * 10.0 ** RNG.integers(-300, 300, (20, 5)),
    "many dimensions": RNG.normal(size=(8, 400)),
}
CASES = [("haversine", "places", case, points) for case, points in PLACES.items()] + [
    (name, "vectors", case, points) for name in ("euclidean", "manhattan") for case, points in VECTORS.items()
]
PARAMETERS = [pytest.param(name, kind, points, id=f"{name}, {case}") for name, kind, case, points in CASES]


def all_pairs(points):
    i, j = np.triu_indices(len(points), k=1)
    return np.column_stack((i, j))


@pytest.mark.parametrize(("name", "kind", "points"), PARAMETERS)
def test_no_stored_distance_exceeds_the_true_one(name, kind, points):
    """With eta infinite every pair is listed, at most at its true distance, and hardly below it."""
    metric = CoordinateMetric(name)
    pairs, stored = metric.pairs_within(mdp.Records(points, kind=kind), math.inf)
    assert pairs.tolist() == all_pairs(points).tolist()
    checked = metric.rounded_down(points[pairs[:, 0]], points[pairs[:, 1]], margin=CHECKED_MARGIN)
    loss = Decimal(2 * STORED_MARGIN * metric.rounding(points.shape[1]))
    largest, tiniest = Decimal(float(np.finfo(float).max)), Decimal("1e-142")
    for (i, j), d, c in zip(pairs.tolist(), stored.tolist(), checked.tolist(), strict=True):
        true = true_distance(name, points[i], points[j])
        assert Decimal(d) <= Decimal(c) <= true
        if true > tiniest:
            assert Decimal(d) >= min(true, largest) * (1 - loss)


@pytest.mark.parametrize(("name", "kind", "points"), PARAMETERS)
def test_every_pair_within_eta_is_listed(name, kind, points):
    """By brute force with 50 digits, for eta at and beside the true and the stored distances of some pairs."""
    records, metric = mdp.Records(points, kind=kind), CoordinateMetric(name)
    true = {(i, j): true_distance(name, points[i], points[j]) for i, j in all_pairs(points).tolist()}
    candidates = sorted({float(d) for d in true.values() if 0 < float(d) < 1e308})
    chosen = candidates[:: max(1, len(candidates) // 6)]
    for eta in {e for d in chosen for e in (d, math.nextafter(d, 0.0), math.nextafter(d, math.inf), d * (1 - 1e-14))}:
        if eta <= 0:
            continue
        pairs, distances = metric.pairs_within(records, eta)
        listed = {tuple(p) for p in pairs.tolist()}
        within = {pair for pair, d in true.items() if d <= Decimal(eta)}
        needed = {tuple(p) for part in metric.needed_in_parts(records, eta) for p in part.tolist()}
        assert within <= needed <= listed
        assert (distances <= eta).all()
        slack = 1 + Decimal(2 * STORED_MARGIN * metric.rounding(points.shape[1]))
        assert all(true[pair] <= Decimal(eta) * slack + Decimal("1e-142") for pair in listed)


@pytest.mark.parametrize("case", sorted(PLACES))
def test_the_error_bound_of_the_haversine(case):
    """The bound in geodesy.py holds with room, and both ways give the same float."""
    points = PLACES[case]
    i, j = all_pairs(points).T
    found = haversine_km(points[i], points[j])
    assert found.tolist() == haversine_km(points[j], points[i]).tolist()
    for a, b, d in zip(points[i], points[j], found.tolist(), strict=True):
        true = true_distance("haversine", a, b)
        assert abs(Decimal(d) - true) <= true * Decimal(HAVERSINE_ROUNDING) / 4 or true < Decimal("1e-141")


@pytest.mark.parametrize("latitude", [-90.0, -89.999, -17.0, 0.0, 12.3456789, 60.0, 90.0])
def test_the_two_longitudes_of_the_antimeridian_are_one(latitude):
    assert haversine_km([latitude, -180.0], [latitude, 180.0]) == 0.0


@pytest.mark.parametrize("pole", [-90.0, 90.0])
def test_all_longitudes_of_a_pole_are_one(pole):
    longitudes = np.array([-180.0, -77.7, 0.0, 1e-9, 100.0, 180.0])
    places = np.column_stack((np.full(6, pole), longitudes))
    assert not haversine_km(places[:, None], places[None]).any()


def test_millimetres_over_the_antimeridian_and_at_a_pole():
    """Pairs at exactly eta, which the tree's slack missed."""
    for points in (PLACES["antimeridian"], PLACES["north pole"], PLACES["millimetres"]):
        records, metric = mdp.Records(points), CoordinateMetric("haversine")
        for (i, j), d in zip(*metric.pairs_within(records, math.inf), strict=True):
            pairs = metric.pairs_within(records, float(d))[0].tolist()
            assert [i, j] in pairs


@pytest.mark.parametrize("spacing", [1.0, 0.5, 3.0, 2.0**-30, 2.0**40])
@pytest.mark.parametrize("origin", [0.0, 1000.0])
def test_even_distances_stay_even(spacing, origin):
    records = mdp.Records((np.indices((14, 6)).reshape(2, -1).T + origin) * spacing, kind="vectors")
    for name, power in (("euclidean", 2), ("manhattan", 1)):
        pairs, distances = CoordinateMetric(name).pairs_within(records, math.inf)
        a, b = np.round((records.coordinates[pairs.T]) / spacing)
        total = (np.abs(a - b) ** power).sum(axis=1)
        root = np.round(total ** (1 / power))
        even = root**power == total
        assert even.sum() > 500
        assert distances[even].tolist() == (root[even] * spacing).tolist()


def test_the_same_pair_has_the_same_distance_in_every_list():
    points = VECTORS["gaussian"]
    metric = CoordinateMetric("euclidean")
    whole = dict(
        zip(
            map(tuple, all_pairs(points)),
            metric.pairs_within(mdp.Records(points, kind="vectors"), 99.0)[1],
            strict=True,
        )
    )
    part = metric.pairs_within(mdp.Records(points[10:], kind="vectors"), 99.0)
    assert [whole[i + 10, j + 10] for i, j in part[0]] == part[1].tolist()
    back = metric.pairs_within(mdp.Records(points[::-1], kind="vectors"), 99.0)
    assert [whole[29 - j, 29 - i] for i, j in back[0]] == back[1].tolist()


def test_ways_along_streets_are_not_longer_than_the_sum_of_their_streets():
    lengths = RNG.uniform(0.01, 0.3, 60)
    edges = np.column_stack((np.arange(60), np.arange(1, 61))).astype(np.int32)
    streets = mdp.data.StreetNetwork(np.zeros((61, 2)), edges, lengths)
    places = np.column_stack((np.zeros(61), np.arange(61) * 1e-3))
    records = mdp.Records(places, streets=streets, street_nodes=np.arange(61))
    pairs, distances = StreetMetric().pairs_within(records, math.inf)
    assert len(pairs) == 61 * 60 / 2
    for (i, j), d in zip(pairs.tolist(), distances.tolist(), strict=True):
        true = sum(Decimal(v) for v in lengths[i:j].tolist())
        assert true * (1 - Decimal("1e-13")) <= Decimal(d) <= true
    eta = float(sum(Decimal(v) for v in lengths[5:25].tolist()).next_plus())
    assert [5, 25] in StreetMetric().pairs_within(records, eta)[0].tolist()
