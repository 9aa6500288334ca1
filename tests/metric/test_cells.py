from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import Delaunay
from tests.shapes import SHAPES

import metricdp as mdp
from metricdp.mechanism.snap import nearest_records
from metricdp.metric.cells import Cells
from metricdp.metric.distances import CoordinateMetric


def neighbours_among(records, metric, limit, r, rng, count=4000):
    """Pairs of nearest records of random points within r of one another, both within the limit of their record."""
    measure = CoordinateMetric(metric)
    scale = limit / 111.0 if metric == "haversine" else limit
    p = records.coordinates[rng.integers(records.n, size=count)] + rng.normal(size=(count, records.dimension)) * scale
    step = rng.normal(size=p.shape)
    step /= np.abs(step).sum(axis=1, keepdims=True)  # at most r in every metric
    q = p + step * (r / 111.0 if metric == "haversine" else r)
    if metric == "haversine":
        inside = (np.abs(p[:, 0]) <= 90) & (np.abs(q[:, 0]) <= 90)
        p, q = p[inside], q[inside]
        p[:, 1], q[:, 1] = (np.remainder(x[:, 1] + 180.0, 360.0) - 180.0 for x in (p, q))
    (i, s), (j, t) = (nearest_records(x, records, measure) for x in (p, q))
    distance = measure.elementwise(p, q)
    keep = (s <= limit) & (t <= limit) & (distance <= r)
    return i[keep], j[keep], s[keep], distance[keep]


PLACES = [pytest.param(make, "haversine", limit, id=name) for name, (make, _, limit) in SHAPES.items()]
PLANE = [
    pytest.param(
        lambda: mdp.Records(np.random.default_rng(1).normal(size=(120, 2)), kind="vectors"),
        "euclidean",
        0.5,
        id="gaussian",
    ),
    pytest.param(lambda: mdp.data.grid(7, 6), "euclidean", 0.8, id="grid"),
    pytest.param(lambda: mdp.data.gaussian(80, seed=2), "euclidean", 0.7, id="space"),
    pytest.param(lambda: mdp.data.grid(5, 5), "manhattan", 0.9, id="taxi"),
]


@pytest.mark.parametrize(("make", "metric", "limit"), [*PLACES, *PLANE])
@pytest.mark.parametrize("r", [1e-6, 0.03, 0.5])
def test_no_cell_is_too_small_and_no_meeting_is_missed(make, metric, limit, r):
    records = make()
    cells = Cells.of(records, metric, limit)
    i, j, s, _ = neighbours_among(records, metric, limit, r, np.random.default_rng(3))
    assert len(i) > 100
    assert (s <= cells.radii[i]).all()
    apart = i != j
    assert cells.can_meet(i[apart], j[apart], r).all()
    listed = {tuple(sorted(pair)) for a, b, _ in cells.pairs_within(r) for pair in zip(a, b, strict=True)}
    assert {tuple(sorted(pair)) for pair in zip(i[apart], j[apart], strict=True)} <= listed


def test_in_the_plane_cells_that_touch_are_those_of_the_triangulation():
    """Delaunay neighbours whose common border lies within the limit, and no others."""
    records = mdp.Records(np.random.default_rng(8).uniform(size=(60, 2)), kind="vectors")
    cells = Cells.of(records, "euclidean", 1e3)  # no border is farther: all neighbours of the triangulation touch
    i, j = np.triu_indices(60, k=1)
    touching = set(zip(*(x[cells.can_meet(i, j, 0.0)].tolist() for x in (i, j)), strict=True))
    corners = Delaunay(records.coordinates).simplices
    edges = {tuple(sorted((int(t[a]), int(t[b])))) for t in corners for a, b in ((0, 1), (1, 2), (0, 2))}
    assert edges <= touching
    assert len(touching) <= 1.05 * len(edges)  # only borders of no length, and those beyond 48 neighbours, are more


def test_a_wider_limit_never_makes_cells_smaller():
    records = mdp.Records(np.random.default_rng(9).normal(size=(100, 2)), kind="vectors")
    small, large = (Cells.of(records, "euclidean", limit) for limit in (0.2, 0.6))
    assert (small.radii <= large.radii).all()
    assert (small.radii <= 0.2 * (1 + 1e-6)).all()
