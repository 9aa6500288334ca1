"""What is promised for points: the stated bound holds for every pair of points, by exact evaluation."""

from __future__ import annotations

import decimal
import math

import numpy as np
import pytest
from tests.shapes import KM, SHAPES, horseshoe, mechanism_of, two_groups

import metricdp as mdp
from metricdp.mechanism.snap import nearest_records
from metricdp.metric.distances import CoordinateMetric

PAIRS = [2_000, pytest.param(20_000, marks=pytest.mark.slow)]  # for each of five shapes


def point_pairs(records, limit, rng, count):
    """Pairs of points from a millionth of the limit to several times it apart, half of them across a border."""
    measure = CoordinateMetric("haversine")
    points = records.coordinates[rng.integers(records.n, size=count)] + rng.normal(size=(count, 2)) * limit * KM
    others = points + rng.normal(size=(count, 2)) * limit * KM * 10.0 ** rng.uniform(-6.0, 0.7, size=(count, 1))
    half = count // 2
    # bisection towards another record until the nearest record changes within a tiny step
    low, high = points[:half].copy(), records.coordinates[rng.integers(records.n, size=half)].copy()
    far = np.abs(high[:, 1] - low[:, 1]) > 180.0
    high[far, 1] -= np.sign(high[far, 1]) * 360.0
    first = nearest_records(wrapped(low), records, measure)[0]
    for _ in range(25):
        middle = 0.5 * (low + high)
        same = nearest_records(wrapped(middle), records, measure)[0] == first
        low[same], high[~same] = middle[same], middle[~same]
    points[:half], others[:half] = low, high
    points, others = wrapped(points), wrapped(others)
    rows, distances = zip(*(nearest_records(x, records, measure) for x in (points, others)), strict=True)
    inside = (distances[0] <= limit) & (distances[1] <= limit)
    return rows[0][inside], rows[1][inside], measure.elementwise(points, others)[inside]


def wrapped(points):
    points = points.copy()
    points[:, 0] = np.clip(points[:, 0], -90.0, 90.0)
    points[:, 1] = np.remainder(points[:, 1] + 180.0, 360.0) - 180.0
    return points


def log_ratio(table, i, j):
    """The largest logarithm of a ratio of two rows, rounded down in high precision; infinite beside a zero."""
    with decimal.localcontext(prec=50):
        worst = decimal.Decimal(0)
        for a, b in zip(table[i].tolist(), table[j].tolist(), strict=True):
            if a and not b:
                return decimal.Decimal("Infinity")
            if a > b:
                worst = max(worst, decimal.Decimal(a) / decimal.Decimal(b))
        return worst.ln() if worst else worst


@pytest.mark.parametrize("n_pairs", PAIRS)
@pytest.mark.parametrize("name", SHAPES)
def test_the_bound_holds_for_every_pair_of_points(name, n_pairs):
    mechanism, limit = mechanism_of(name)
    promise = mechanism.guarantee.for_points(limit)
    i, j, r = point_pairs(mechanism.records, limit, np.random.default_rng(n_pairs), 3 * n_pairs)
    chosen = np.random.default_rng(0).permutation(len(i))[:n_pairs]
    i, j, r = i[chosen], j[chosen], r[chosen]
    assert len(i) == n_pairs
    # the bound grows with the distance, so of each pair of records the closest points decide
    key = i * mechanism.records.n + j
    order = np.lexsort((r, key))
    first = np.unique(key[order], return_index=True)[1]
    n_finite = 0
    for p in order[first]:
        if i[p] == j[p]:
            continue
        ratio = log_ratio(mechanism.table, i[p], j[p])
        # most are decided by the bound for a smaller distance, of which there are few
        below = 10.0 ** (math.floor(8.0 * math.log10(max(r[p], 1e-9))) / 8.0)
        if not ratio <= decimal.Decimal(promise.bound(min(below, r[p]))):
            assert ratio <= decimal.Decimal(promise.bound(r[p])), (i[p], j[p], r[p])
        n_finite += promise.bound(min(below, r[p])) < math.inf
    assert n_finite > 50  # the promise says something


def test_close_points_on_a_horseshoe_are_as_far_apart_as_the_way_round():
    mechanism, limit = mechanism_of("horseshoe")
    promise = mechanism.guarantee.for_points(limit)
    arms = 0.35  # km
    assert promise.reach(0.0).distance > 5.0 > 10 * arms
    i, j = promise.reach(0.0).i, promise.reach(0.0).j
    assert mechanism.guarantee.bound(i, j) == pytest.approx(promise.bound(0.0))
    assert "next to each other" in promise.sentence
    # cells that end before they meet the other arm's know only their own neighbours
    assert mechanism.guarantee.for_points(0.1).reach(0.0).distance < 0.2


def test_points_whose_cells_touch_across_groups_are_refused():
    problem = mdp.Problem(two_groups(), epsilon=5.0, eta=0.35, outputs=12, loss="distance")
    mechanism = mdp.exponential(problem)
    assert mechanism.guarantee.graph.n_components == 2
    promise = mechanism.guarantee.for_points(0.5)
    assert promise.bound(0.0) == math.inf
    point = mechanism.records.coordinates[:1]
    with pytest.raises(mdp.InputError, match="no path of neighbours joins.*eta that joins all records"):
        mechanism.perturb_points(point, limit=0.5)
    assert len(mechanism.perturb_points(point, limit=0.5, allow_unprotected=True).ids) == 1
    # with cells that end before the river, points close together are protected, and points across it are not
    near = mechanism.guarantee.for_points(0.15)
    assert near.bound(0.0) < math.inf
    assert near.bound(0.5) == math.inf
    assert len(mechanism.perturb_points(point, limit=0.15).ids) == 1


def test_cells_that_end_a_hair_before_they_meet_are_refused_too():
    """What is promised at r = 0 alone is of no use: points within the limit of one another must be protected."""
    records = mdp.Records([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [4.0, 0.0]], kind="vectors")
    mechanism = mdp.exponential(mdp.Problem(records, epsilon=1.0, eta=1.5, outputs=4))
    promise = mechanism.guarantee.for_points(0.9999999)
    assert promise.bound(0.0) < math.inf
    assert promise.bound(1e-6) == math.inf
    with pytest.raises(mdp.InputError, match="points within 0.9999999 of one another"):
        mechanism.perturb_points([[1.9999, 0.0]], limit=0.9999999)
    assert mechanism.perturb_points([[1.2, 0.0]], limit=0.5).ids  # 2 apart, and 0.5 three times is less


@pytest.mark.parametrize("scale", [1e-200, 1e150, 1e160, 1e300])
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_coordinates_of_any_size(scale, dimension):
    points = np.zeros((3, dimension))
    points[:, 0] = [0.0, scale, 3 * scale]
    records = mdp.Records(points, kind="vectors")
    mechanism = mdp.exponential(mdp.Problem(records, epsilon=1.0 / scale, eta=2 * scale, outputs=3))
    bound = mechanism.guarantee.for_points(0.5 * scale).bound(0.0)
    assert 0.9 < bound < 2.1


@pytest.mark.parametrize("limit", [None, "1", [1.0], np.array([1.0]), 1j, True])
def test_limits_that_are_no_numbers(limit):
    mechanism = mdp.exponential(mdp.Problem(mdp.data.grid(2, 2), epsilon=1.0, eta=1.0, outputs=4))
    with pytest.raises(mdp.InputError, match="limit must be a number"):
        mechanism.guarantee.for_points(limit)


@pytest.mark.parametrize(
    "points", [np.ma.array([[0.5, 0.5]], mask=[[True, False]]), np.array([[1j, 0.0]]), [[10**400, 0]]]
)
def test_points_that_are_no_plain_numbers(points):
    mechanism = mdp.exponential(mdp.Problem(mdp.data.grid(2, 2), epsilon=1.0, eta=1.0, outputs=4))
    with pytest.raises(mdp.InputError, match="points must be"):
        mechanism.perturb_points(points, limit=1.0)


def test_a_mechanism_with_lone_records_is_refused_for_points_whatever_the_points():
    records = mdp.Records([[0.0, 0.0], [1.0, 0.0], [50.0, 50.0]], kind="vectors")
    mechanism = mdp.exponential(mdp.Problem(records, epsilon=1.0, eta=2.0, outputs=3))
    messages = set()
    for point in ([0.0, 0.1], [50.0, 50.0]):
        with pytest.raises(mdp.InputError) as caught:
            mechanism.perturb_points([point], limit=0.5)
        messages.add(str(caught.value))
    assert len(messages) == 1
    assert "1 of 3 records have no neighbour" in messages.pop()


def test_the_bound_never_falls_with_the_distance_or_the_limit():
    mechanism, limit = mechanism_of("city")
    guarantee = mechanism.guarantee
    bounds = [guarantee.for_points(limit).bound(r) for r in (0.0, 1e-6, 0.01, 0.1, 0.4, 1.0)]
    assert bounds == sorted(bounds)
    assert bounds[0] > 0.0
    limits = [guarantee.for_points(one).bound(0.05) for one in (0.02, 0.1, 0.3)]
    assert limits == sorted(limits)


def test_within_neighbours_the_bound_is_at_most_the_distance_and_two_limits():
    """d_ij <= r + s + s': as long as that is within eta, the records are neighbours."""
    mechanism, _ = mechanism_of("city")
    promise = mechanism.guarantee.for_points(0.1)
    for r in (0.0, 0.1, 0.2):
        assert promise.bound(r) <= mechanism.epsilon * (r + 0.2) * (1 + 1e-6)


@pytest.mark.parametrize("r", [-1.0, math.nan, math.inf])
def test_a_distance_that_is_none_is_refused(r):
    mechanism, limit = mechanism_of("city")
    with pytest.raises(mdp.InputError, match="distance must be a number"):
        mechanism.guarantee.for_points(limit).bound(r)


def test_the_horseshoe_of_the_attack_is_refused_or_bounded_at_every_limit():
    """Points a micrometre apart on two arms: the bound is never the small one that was once documented."""
    problem = mdp.Problem(horseshoe(), epsilon=20.0, eta=0.3, outputs=12, loss="distance")
    mechanism = mdp.solve(problem, method="kernel", gap=0.99).mechanism
    promise = mechanism.guarantee.for_points(0.3)
    documented_once = 20.0 * (1e-9 + 2 * 0.3)
    assert promise.bound(1e-9) > 5 * documented_once
