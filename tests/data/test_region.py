"""Regions: lattice, projection, rounding and weights."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from tests.mechanism.plane_exact import great_circle, hat
from tests.metric.precise import true_distance

import metricdp as mdp
from metricdp.data.weights import STEPS
from metricdp.errors import InputError

BOXES = [
    (41.88, 12.46, 41.907, 12.496),
    (-34.2, 150.5, -33.5, 151.5),
    (-2.0, -61.0, 3.0, -55.0),
    (60.0, 5.0, 71.0, 30.0),
]


@pytest.mark.parametrize("box", BOXES)
def test_no_planar_distance_is_longer_than_the_great_circle(box):
    region = mdp.data.region(*box, spacing=50.0, margin=20.0)
    rng = np.random.default_rng(0)
    outer = np.array([region.outer_low, region.outer_high])
    corners = np.array([[outer[i, 0], outer[j, 1]] for i in range(2) for j in range(2)])
    points = np.vstack([corners, rng.uniform(*outer, (30, 2))])
    points = np.vstack([points, points + 1e-9])
    scale = [side * n / (Fraction(b) - Fraction(a)) for side, n, a, b in
             zip(region.sides, region.cells, region.low, region.high, strict=True)]  # fmt: skip
    for x, y in zip(points, points[rng.permutation(len(points))], strict=True):
        planar = sum((s * (Fraction(a) - Fraction(b))) ** 2 for s, a, b in zip(scale, x, y, strict=True))
        assert planar <= Fraction(true_distance("haversine", x, y)) ** 2
    inside = rng.uniform(region.low, region.high, (30, 2))
    for x, y in zip(inside, inside[::-1], strict=True):
        planar = sum((s * (Fraction(a) - Fraction(b))) ** 2 for s, a, b in zip(scale, x, y, strict=True))
        assert Fraction(true_distance("haversine", x, y)) ** 2 <= planar * Fraction(region.stretch) ** 2


def test_two_places_on_the_northern_edge_are_the_worst_case():
    region = mdp.data.region(60.0, 0.0, 70.0, 25.0, spacing=50.0, margin=0.0)
    x, y = [Fraction(70), Fraction(0)], [Fraction(70), Fraction(25)]
    planar = float(region.sides[1]) * region.cells[1]
    assert 0.97 < planar / float(great_circle(x, y)) <= 1.0


def test_weights_are_splines_and_sum_to_one():
    region = mdp.data.region(0.0, 0.0, 3.0, 2.0, spacing=1.0, kind="vectors")
    rng = np.random.default_rng(1)
    points = np.vstack([rng.uniform((0, 0), (3, 2), (40, 2)), [[0, 0], [3, 2], [1, 1], [0.5, 0.5]]])
    steps = region.steps_of(points)
    cell, weights = region.lattice.places(steps, region.cells)
    for (i, j), (across, along), (x, y) in zip(cell.tolist(), weights.tolist(), steps.tolist(), strict=True):
        assert sum(across) == sum(along) == 2**63
        for k in range(3):
            assert Fraction(across[k], 2**63) == hat(Fraction(x, STEPS) - (i + k - Fraction(1, 2)))
            assert Fraction(along[k], 2**63) == hat(Fraction(y, STEPS) - (j + k - Fraction(1, 2)))
    rows, shares = region.weights_at(points)
    assert np.allclose(shares.sum(axis=1), 1.0)
    # linear functions are reproduced: the weighted mean of the nodes is the point
    mean = (shares[:, :, None] * region.records.coordinates[rows]).sum(axis=1)
    assert np.allclose(mean, points, atol=1e-9)


def test_points_are_rounded_by_less_than_is_said():
    region = mdp.data.region(*BOXES[0], spacing=0.05)
    points = np.random.default_rng(2).uniform(region.low, region.high, (200, 2))
    for point, steps in zip(points, region.steps_of(points), strict=True):
        moved = [
            side * abs((Fraction(v) - Fraction(a)) / (Fraction(b) - Fraction(a)) * n - Fraction(int(s), STEPS))
            for side, v, a, b, n, s in zip(
                region.sides, point, region.low, region.high, region.cells, steps, strict=True
            )
        ]
        assert sum(m * m for m in moved) <= Fraction(region.rounding) ** 2


def test_the_spacing_follows_from_epsilon():
    region = mdp.data.region(*BOXES[0], epsilon=7.0)
    assert 0.24 < 7.0 * float(region.sides[0]) <= 0.25
    assert 0.24 < 7.0 * float(region.sides[1]) <= 0.25
    assert region.records.n == region.shape[0] * region.shape[1]
    assert region.inner.size == region.cells[0] * region.cells[1]
    assert not region.is_outside(region.records.coordinates[region.inner]).any()
    assert region.is_outside(region.records.coordinates).sum() == region.records.n - region.inner.size


def test_a_region_around_points_contains_them():
    records = mdp.data.road("gothenburg", n=50)
    region = mdp.data.region_around(records, beyond=0.2, spacing=1.0)
    assert not region.is_outside(records.coordinates).any()
    corner = np.array([[region.low[0], records.coordinates[0, 1]]])
    assert mdp.metric.as_metric("haversine", records).between(corner, records.coordinates).min() > 0.19
    square = mdp.data.region_around(mdp.data.grid(3, 4), spacing=0.5)
    assert (square.kind, square.low, square.high, square.cells) == ("vectors", (0.5, 0.5), (2.5, 3.5), (4, 6))


@pytest.mark.parametrize(
    ("box", "options", "text"),
    [
        ((2, 0, 1, 1), {"spacing": 1}, "low < high"),
        ((0, 0, 1, float("nan")), {"spacing": 1}, "low < high"),
        ((0, 0, 1, "x"), {"spacing": 1}, "four numbers"),
        ((0, 0, 1, 1), {}, "give the spacing"),
        ((0, 0, 1, 1), {"epsilon": -1}, "positive epsilon"),
        ((0, 0, 1, 1), {"spacing": 0.0}, "positive length"),
        ((0, 0, 1, 1), {"spacing": "a"}, "the spacing must be a number, got 'a'"),
        ((0, 0, 1, 1), {"spacing": 1, "margin": "a"}, "the margin must be a number, got 'a'"),
        ((0, 0, 1, 1), {"epsilon": "2"}, "epsilon must be a number, got '2'"),
        ((0, 0, 1, 1), {"spacing": 1e-4}, "another spacing"),
        ((-1.7e308, 0, 1.7e308, 1), {"spacing": 1, "kind": "vectors"}, "far from the largest floats"),
        ((1e308, 0, 1.7e308, 1), {"spacing": 1, "kind": "vectors"}, "far from the largest floats"),
        ((0, 0, 1e307, 1), {"spacing": 1e300, "kind": "vectors"}, "another spacing"),
        ((70, 0, 81, 1), {"spacing": 1}, "80 degrees of latitude"),
        ((0, 179, 1, 180), {"spacing": 1}, "180 degrees of longitude"),
        ((0, 0, 1, 40), {"spacing": 1}, "30 degrees wide"),
        ((0, 0, 1, 1), {"spacing": 1, "margin": -1}, "margin"),
        ((0, 0, 1, 1), {"spacing": 1, "margin": 1, "kind": "vectors"}, "for places"),
        ((0, 0, 1, 1), {"spacing": 1, "kind": "words"}, "kind must be"),
    ],
)
def test_boxes_that_cannot_be_are_refused(box, options, text):
    with pytest.raises(InputError, match=text):
        mdp.data.region(*box, **options)


def test_a_region_has_numbers_of_its_own():
    """Whoever holds the lists that it was made from cannot move a box that was certified."""
    low, high, cells, far = [0.0, 0.0], np.array([10, 10], dtype=np.int8), [10, 10], [np.inf, np.inf]
    region = mdp.data.Region(low, high, cells, [-np.inf, -np.inf], far, "vectors")
    low[0], high[:], cells[0], far[0] = 5.0, 1, 3, 0.0
    assert region.high == (10.0, 10.0)
    assert [float(side) for side in region.sides] == [1.0, 1.0]
    assert region == mdp.data.Region(
        (0.0, 0.0), (10.0, 10.0), (10, 10), (-np.inf, -np.inf), (np.inf, np.inf), "vectors"
    )
    assert len(region.hash) == 64


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"low": ("0", "0")}, "low must be a number"),
        ({"low": (10**400, 0.0)}, "low must be a number"),
        ({"low": (0.0,)}, "low must be two numbers"),
        ({"outer_low": None}, "outer_low must be two numbers"),
        ({"low": {0.0, 1.0}}, "low must be two numbers"),
        ({"high": (1j, 1.0)}, "high must be a number"),
        ({"cells": 4}, "cells must be two whole numbers"),
        ({"cells": (True, 1)}, "got bool"),
        ({"cells": (2.0, 2)}, "got float"),
        ({"cells": (10**5000, 2)}, "got more"),
    ],
)
def test_regions_of_odd_values_are_refused(change, text):
    values = {"low": (0.0, 0.0), "high": (1.0, 1.0), "cells": (2, 2), "outer_low": (0.0, 0.0), "outer_high": (1.0, 1.0)}
    with pytest.raises(InputError, match=text):
        mdp.data.Region(**{**values, "kind": "vectors", **change})


def test_points_far_away_move_to_the_border_without_a_warning():
    region = mdp.data.region(0.0, 0.0, 0.5, 0.5, spacing=0.1, kind="vectors")
    far = np.array([[1.7e308, 0.25], [-np.inf, np.inf], [0.5, 0.25], [0.0, 0.5], [np.nan, 0.0]])
    assert region.steps_of(far).tolist() == [*region.steps_of(far[2:4]).tolist()] * 2 + [[0, 0]]
