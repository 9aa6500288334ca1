"""Where people are in a region: polygons' hulls, rasters of counts."""

from __future__ import annotations

import json

import numpy as np
import pytest

import metricdp as mdp
from metricdp.errors import InputError

CORNERS = [[41.88, 12.46], [41.90, 12.47], [41.885, 12.50], [41.889, 12.472]]  # the last one is inside the hull


@pytest.fixture
def polygon(tmp_path):
    path = tmp_path / "centre.geojson"
    ring = [[lon, lat] for lat, lon in [*CORNERS, CORNERS[0]]]
    path.write_text(json.dumps({"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [ring]}}))
    return path


def test_a_polygon_gives_its_box_and_the_nodes_in_its_hull(polygon):
    box, places = mdp.data.region_of_polygon(polygon, spacing=0.2)
    assert (box.low, box.high) == ((41.88, 12.46), (41.90, 12.50))
    again, others = mdp.data.region_of_polygon(CORNERS, spacing=0.2)
    assert again == box
    assert np.array_equal(others.coordinates, places.coordinates)
    # by hand: left of all three sides of the hull
    a, b, c = (np.array(corner) for corner in (CORNERS[0], CORNERS[1], CORNERS[2]))

    def side(p, q, x):
        return (q[0] - p[0]) * (x[:, 1] - p[1]) - (q[1] - p[1]) * (x[:, 0] - p[0])

    nodes = box.records.coordinates[box.inner]
    signs = np.stack([side(p, q, nodes) for p, q in ((a, b), (b, c), (c, a))])
    inside = (signs > -1e-9).all(axis=0) | (signs < 1e-9).all(axis=0)  # one node is on a side
    assert 0 < inside.sum() < len(nodes)
    assert np.array_equal(places.coordinates, nodes[inside])
    # the promise holds outside the hull, too
    problem = mdp.PlaneProblem(box, epsilon=1.0, places=places, outputs=places)
    mechanism = mdp.solve_plane(problem, max_steps=10, bound=False).mechanism
    assert mechanism.guarantee.region == box
    assert mechanism.perturb(nodes[~inside][:1]).shape == (1,)


def test_polygons_that_are_none_are_refused(tmp_path):
    with pytest.raises(InputError, match="three corners"):
        mdp.data.region_of_polygon([[41.0, 12.0], [41.1, 12.1], [41.2, 12.2]], spacing=1.0)
    with pytest.raises(InputError, match="smaller spacing"):
        mdp.data.region_of_polygon([[41.0, 12.0], [41.5, 12.3], [41.5, 12.2999]], spacing=28.0)
    with pytest.raises(InputError, match="no region"):
        mdp.data.region_of_polygon(tmp_path / "none.geojson", spacing=1.0)


def test_a_raster_of_counts_is_a_prior():
    box = mdp.data.region(41.0, 12.0, 41.2, 12.4, spacing=5.0)
    counts = np.array([[1.0, np.nan, 0.0, 4.0], [0.0, 3.0, 0.0, 0.0]])
    places = mdp.data.places_of_counts(box, counts)
    assert np.allclose(places.coordinates, [[41.15, 12.05], [41.15, 12.35], [41.05, 12.15]])
    assert np.allclose(places.prior, [1 / 8, 4 / 8, 3 / 8])
    # what lies outside the region is left out
    wide = mdp.data.places_of_counts(box, [[5, 1], [2, 7]], extent=(40.8, 11.6, 41.2, 12.4))
    assert np.allclose(wide.coordinates, [[41.1, 12.2]])
    # distributed by the weights: each node's share of the costs
    problem = mdp.PlaneProblem(box, epsilon=0.2, places=places)
    rows, weights = box.weights_at(places.coordinates)
    costs = np.zeros(problem.costs.shape)
    for place in range(3):
        for node, weight in zip(rows[place], weights[place], strict=True):
            costs[node] += weight * places.prior[place] * problem.losses[place]
    assert np.allclose(problem.costs, costs)


@pytest.mark.parametrize(
    ("counts", "extent", "text"),
    [
        ([[-1.0]], None, "not negative"),
        ([[np.inf]], None, "finite counts"),
        ([1.0, 2.0], None, "table of finite counts"),
        ([["a"]], None, "table of numbers"),
        ([[1.0]], (1.0, 2.0, 0.0, 3.0), "south < north"),
        ([[0.0]], None, "with people"),
        ([[1.0]], (50.0, 1.0, 51.0, 2.0), "extent, its unit"),
    ],
)
def test_rasters_that_are_none_are_refused(counts, extent, text):
    box = mdp.data.region(41.0, 12.0, 41.2, 12.4, spacing=5.0)
    with pytest.raises(InputError, match=text):
        mdp.data.places_of_counts(box, counts, extent=extent)
