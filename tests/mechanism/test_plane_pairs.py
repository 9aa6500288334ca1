"""The promise itself, for pairs of points: exact probabilities against true great circles, on solved mechanisms."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from tests.mechanism.plane_exact import BITS, as_lists, chances, distribution, factor, great_circle

import metricdp as mdp

STEPS = 2**31
BOXES = {"Rome": (41.88, 12.46, 41.898, 12.484), "Tromsø": (69.6, 18.9, 69.62, 18.96)}
# how much of the promise a pair of each sort uses up at least somewhere: a check that is wrong by a tenth fails. Far
# ends are measured along the whole box, where probabilities cannot fall at the full rate all the way
USED = {"anywhere": 0.8, "steps": 0.95, "millimetre": 0.95, "part of a cell": 0.95, "cells": 0.9, "edges": 0.9,
        "far ends": 0.7, "outside": 0.8, "outside, near": 0.95}  # fmt: skip


@pytest.fixture(scope="module", params=BOXES)
def solved(request):
    """A solved mechanism, which uses up all of its budget, and a budget at which hardly more than that is promised."""
    box = mdp.data.region(*BOXES[request.param], spacing=0.4)
    outputs = np.random.default_rng(0).uniform(box.low, box.high, (5, 2))
    mechanism = mdp.solve_plane(mdp.PlaneProblem(box, epsilon=1.0, outputs=outputs), bound=False).mechanism
    tight = mechanism.certificate.privacy.tightest_epsilon
    return mdp.mechanism.PlaneMechanism(mechanism.table, box, mechanism.outputs, tight)


def true_place(region, point):
    """A point in exact degrees, from its steps, which may lie outside."""
    return [
        Fraction(a) + Fraction(int(step), STEPS * n) * (Fraction(b) - Fraction(a))
        for a, b, n, step in zip(region.low, region.high, region.cells, point, strict=True)
    ]


def pairs_of_points(region, n, seed):
    """Pairs in steps, with a name for their sort: those outside the box are between it and the outer box."""
    rng = np.random.default_rng(seed)
    most = np.array(region.cells) * STEPS
    beyond = [
        math.floor((Fraction(low) - Fraction(outer)) / (Fraction(high) - Fraction(low)) * top.item())
        for low, outer, high, top in zip(region.low, region.outer_low, region.high, most, strict=True)
    ]

    def anywhere():
        return [int(rng.integers(0, top + 1)) for top in most]

    def around():
        return [int(rng.integers(-more, top + more + 1)) for top, more in zip(most, beyond, strict=True)]

    def moved(point, reach, room=(0, 0)):
        return [
            min(max(v + int(rng.integers(-reach, reach + 1)), -more), int(top) + more)
            for v, top, more in zip(point, most, room, strict=True)
        ]

    reaches = {"steps": 3, "millimetre": 2**13, "part of a cell": 2**29, "cells": 2**32}
    names = list(USED)
    for number in range(n):
        name = names[number % len(names)]
        first = around() if name.startswith("outside") else anywhere()
        if name in reaches:
            second = moved(first, reaches[name])
        elif name == "edges":  # along an edge of cells, or on it
            first, second = ([v >> 30 << 30 for v in point] for point in (first, anywhere()))
            second = [first[0], second[1]] if number % 2 else moved(first, 1)
        elif name == "far ends":
            ends = [[int(b) * (side >> i & 1) for i, b in enumerate(most)] for side in rng.permutation(4)[:2].tolist()]
            first, second = (moved(end, 2**29) if number % 3 else end for end in ends)
        elif name == "outside, near":
            second = moved(first, 2**30, room=beyond)
        else:
            second = around() if name == "outside" else anywhere()
        if first != second:
            yield name, first, second


def check_pairs(mechanism, n):
    """No report is more likely than is promised from either point of a pair; return the largest share used, by sort."""
    region, used = mechanism.region, dict.fromkeys(USED, 0.0)
    rows = as_lists(mechanism.table)
    most = [cells * STEPS for cells in region.cells]
    for name, a, b in pairs_of_points(region, n, seed=2):
        x, y = true_place(region, a), true_place(region, b)
        # the rule of the border: each coordinate by itself
        p, q = ([min(max(v, 0), top) for v, top in zip(point, most, strict=True)] for point in (a, b))
        p, q = chances(rows, region.cells, p), chances(rows, region.cells, q)
        assert sum(p) == sum(q) == 1 << BITS
        distance = great_circle(x, y)
        limit = factor(mechanism.epsilon, distance)
        for up, down in zip(p, q, strict=True):
            assert up * limit.denominator <= limit.numerator * down, (name, a, b)
            assert down * limit.denominator <= limit.numerator * up, (name, a, b)
            change = abs(math.log1p((up - down) / down))
            used[name] = max(used[name], change / (mechanism.epsilon * float(distance)))
    return used


def check_promise(mechanism, n):
    used = check_pairs(mechanism, n)
    too_little = {name: share for name, share in used.items() if not USED[name] < share <= 1.0 + 1e-9}
    assert not too_little


def test_no_pair_of_points_is_above_the_promise(solved):
    check_promise(solved, 3_000)


def test_the_usual_lattice_with_its_nodes_as_outputs_keeps_the_promise():
    """At epsilon times the spacing 0.25, the default, where the centres of cells are what is reported."""
    box = mdp.data.region(*BOXES["Rome"], spacing=0.25)
    mechanism = mdp.solve_plane(mdp.PlaneProblem(box, epsilon=1.0), max_steps=400, bound=False).mechanism
    assert np.array_equal(mechanism.outputs.rows, box.inner)
    check_promise(mechanism, 1_000)


@pytest.mark.slow
def test_no_pair_of_100000_is_above_the_promise(solved):
    check_promise(solved, 100_000)


def test_points_given_in_floats_keep_the_promise_with_their_rounding(solved):
    region = solved.region
    rng = np.random.default_rng(7)
    points = rng.uniform(region.outer_low, region.outer_high, (300, 2))
    others = points + rng.choice([1e-9, 1e-7, 1e-4], (300, 1)) * rng.normal(size=(300, 2))
    points, others = (np.clip(some, region.outer_low, region.outer_high) for some in (points, others))
    rows = as_lists(solved.table)
    # the code says to which steps they are rounded, and whether they may be moved
    assert not region.is_beyond(np.vstack([points, others])).any()
    for x, y, a, b in zip(points, others, region.steps_of(points), region.steps_of(others), strict=True):
        distance = great_circle(*([Fraction(v) for v in point.tolist()] for point in (x, y)))
        limit = factor(solved.epsilon, distance + 2 * type(distance)(solved.guarantee.rounding))
        for up, down in zip(*(chances(rows, region.cells, v.tolist()) for v in (a, b)), strict=True):
            assert up * limit.denominator <= limit.numerator * down
            assert down * limit.denominator <= limit.numerator * up


def test_the_chances_are_those_of_the_splines(solved):
    rng = np.random.default_rng(8)
    for point in rng.integers(0, np.array(solved.region.cells) * STEPS, (20, 2), endpoint=True).tolist():
        slow = distribution(solved.table, solved.region.cells, *(Fraction(v, STEPS) for v in point))
        assert slow == chances(as_lists(solved.table), solved.region.cells, point)


def test_a_smaller_budget_would_be_broken(solved):
    """The pairs tell a promise from one that is 8 % stronger."""
    object.__setattr__(stronger := mdp.mechanism.PlaneMechanism(
        solved.table, solved.region, solved.outputs, solved.epsilon), "epsilon", 0.92 * solved.epsilon)  # fmt: skip
    with pytest.raises(AssertionError):
        check_pairs(stronger, 3_000)
