"""Kinds of weights: exact at every point, drawn exactly, one interface."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from tests.mechanism.plane_exact import hat, triangle_at

import metricdp as mdp
from metricdp.data.weights import KINDS, NUMBER_BITS, STEPS
from metricdp.errors import InputError

CELLS = 3, 4


def points(n=60):
    rng = np.random.default_rng(0)
    most = np.array(CELLS) * STEPS
    some = rng.integers(0, most, (n, 2), endpoint=True)
    some[: n // 3] = some[: n // 3] >> 29 << 29  # on sides and corners
    return np.vstack([some, [[0, 0], most, [0, most[1]], [most[0], 0]]])


def at(node, columns):
    return node // columns, node % columns


def exactly_at(name, step):
    """The weights that are not zero at a point, as fractions, from their definitions."""
    columns = KINDS[name].shape(CELLS)[1]
    x, y = (Fraction(v, STEPS) for v in step)
    if name == "triangles":
        return {i * columns + j: share for (i, j), share in triangle_at(CELLS, x, y).items()}
    half = Fraction(1, 2)
    pairs = (at(node, columns) for node in range(np.prod(KINDS[name].shape(CELLS))))
    found = {i * columns + j: hat(x - (i - half)) * hat(y - (j - half)) for i, j in pairs}
    return {node: share for node, share in found.items() if share}


@pytest.mark.parametrize("name", KINDS)
def test_weights_are_those_of_their_definition(name):
    rows, shares = KINDS[name].at(points(), CELLS)
    for step, nodes, weights in zip(points().tolist(), rows, shares, strict=True):
        exact = exactly_at(name, step)
        assert sum(exact.values()) == 1
        given = {node: weight for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True) if weight}
        assert given == pytest.approx({node: float(weight) for node, weight in exact.items()}, rel=1e-14)


@pytest.mark.parametrize("name", KINDS)
def test_linear_functions_are_reproduced(name):
    kind = KINDS[name]
    rows, shares = kind.at(points(), CELLS)
    mean = (shares[:, :, None] * kind.positions(CELLS)[rows]).sum(axis=1)
    assert np.allclose(mean, points() / STEPS, atol=1e-12)


def test_triangles_are_drawn_with_exactly_their_weights():
    """The node changes at few numbers: the lengths between them are the weights."""
    kind = KINDS["triangles"]
    for step in points(30):
        _, shares = kind.places(step[None], CELLS)
        up, along = shares[0].tolist()
        whole = 1 << 32
        ends = sorted({0, up, along, whole - along, whole})
        seen: dict[int, int] = {}
        for low, high in pairwise(ends):
            # the first and the last number between two ends give the same node
            numbers = np.array([low, high - 1], dtype=np.uint64) << np.uint64(NUMBER_BITS - 32)
            first, last = kind.draw(np.stack([step, step]), CELLS, lambda _, given=numbers: given).tolist()
            assert first == last
            seen[first] = seen.get(first, 0) + high - low
        assert {node: Fraction(n, whole) for node, n in seen.items()} == exactly_at("triangles", step.tolist())


def test_splines_are_drawn_with_their_weights():
    kind, rng = KINDS["bspline2"], np.random.default_rng(1)
    step = points()[-5]
    n = 100_000
    drawn = kind.draw(np.tile(step, (n, 1)), CELLS, lambda m: rng.integers(0, 1 << 63, m, dtype=np.uint64))
    exact = exactly_at("bspline2", step.tolist())
    assert set(drawn.tolist()) <= set(exact)
    for node, weight in exact.items():
        share = float(weight)
        assert abs((drawn == node).mean() - share) < 5 * np.sqrt(share / n) + 1e-9


def test_inner_nodes_are_in_the_box():
    for name, kind in KINDS.items():
        positions = kind.positions(CELLS)
        inside = (positions >= 0).all(axis=1) & (positions <= CELLS).all(axis=1)
        assert inside[kind.inner(CELLS)].all(), name
        assert len(positions) == np.prod(kind.shape(CELLS))


def test_triangles_of_a_region_are_nearly_equilateral():
    region = mdp.data.region(41.88, 12.46, 41.907, 12.496, spacing=0.1, weights="triangles")
    height, base = (float(side) for side in region.sides)
    assert base <= 0.1
    assert np.hypot(height, base / 2) <= 0.1
    assert height > 0.95 * np.sqrt(0.75) * base
    splines = mdp.data.region(41.88, 12.46, 41.907, 12.496, spacing=0.1)
    assert splines.hash != region.hash


def test_other_weights_are_refused():
    with pytest.raises(InputError, match="weights must be bspline2 or triangles"):
        mdp.data.region(0, 0, 1, 1, spacing=1, kind="vectors", weights="hexagons")
