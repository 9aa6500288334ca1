from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import metricdp as mdp
from metricdp.metric import CoordinateMetric, StreetMetric
from metricdp.problem import Outputs, travel_loss


def test_travel_loss_is_the_mean_difference_of_street_distances():
    records = mdp.data.road("gothenburg", n=30, seed=0)
    destinations, rows = [3, 8, 21], [5, 11]
    outputs = Outputs.of(rows, records, seed=0)
    loss = travel_loss(records, outputs, CoordinateMetric("haversine"), destinations=destinations)
    street = StreetMetric().to_rows(records, np.arange(30))
    expected = np.mean([np.abs(street[:, [q]] - street[rows, q][None, :]) for q in destinations], axis=0)
    assert loss == pytest.approx(expected)
    assert loss[5, 0] == 0.0


def test_travel_loss_without_streets_uses_the_metric():
    records = mdp.Records(mdp.data.road("gothenburg", n=20, seed=0).coordinates)
    problem = mdp.Problem(records, epsilon=1.0, eta=1.0, outputs=[2, 4], destinations=[0, 1])
    flown = CoordinateMetric("haversine").to_rows(records, np.arange(20))
    expected = np.mean([np.abs(flown[:, [q]] - flown[[2, 4], q][None, :]) for q in (0, 1)], axis=0)
    assert problem.loss == pytest.approx(expected)
    assert problem.loss_name == "travel"


def test_travel_loss_to_other_points():
    records = mdp.data.grid(3, 3)
    points = np.array([[0.0, 0.0], [3.0, 3.0]])
    problem = mdp.Problem(records, epsilon=1.0, eta=1.0, outputs=points, loss="travel", destinations=[4])
    centre = records.coordinates[4]
    to_centre = np.hypot(*(records.coordinates - centre).T)
    assert problem.loss[:, 0] == pytest.approx(np.abs(to_centre - math.hypot(1.5, 1.5)))


def test_costs_are_prior_weighted():
    records = mdp.data.grid(1, 3).with_prior([1, 2, 1])
    problem = mdp.Problem(records, epsilon=1.0, eta=1.0, outputs=[0])
    assert problem.costs.ravel().tolist() == [0.0, 0.5, 0.5]


def test_arrays_and_frames_are_taken_as_they_are():
    array = mdp.Problem(np.eye(3), epsilon=1.0, eta=2.0)
    frame = mdp.Problem(pd.DataFrame({"lat": [1.0, 1.01], "lon": [2.0, 2.0]}), epsilon=1.0, eta=2.0)
    assert (array.metric.name, array.graph.n_pairs) == ("euclidean", 3)
    assert (frame.metric.name, frame.graph.n_pairs) == ("haversine", 1)


def test_an_array_of_degrees_is_never_silently_euclidean():
    """A budget per km would be spent per degree, some hundred times as far."""
    degrees = np.array([[57.7, 11.97], [57.71, 11.97]])
    with pytest.raises(mdp.InputError, match="could be latitude and longitude"):
        mdp.Problem(degrees, epsilon=10.0, eta=2.0)
    named = {name: mdp.Problem(degrees, epsilon=1.0, eta=2.0, metric=name) for name in ("haversine", "euclidean")}
    assert named["haversine"].records.kind == "places"
    assert named["haversine"].graph.distances == pytest.approx([1.112], rel=1e-3)
    assert named["euclidean"].graph.distances == pytest.approx([0.01])
    own = mdp.Problem(degrees, epsilon=1.0, eta=2.0, metric=lambda a, b: float(abs(a - b).sum()))
    assert own.records.kind == "vectors"


def test_all_faults_are_reported_together():
    with pytest.raises(mdp.InputError) as caught:
        mdp.Problem(mdp.data.grid(2, 2), epsilon=-1, eta=math.nan, outputs=7, metric="manhattan-ish", seed=-3)
    text = str(caught.value)
    for part in ("5 faults", "-1.0", "nan", "manhattan-ish", "7", "-3"):
        assert part in text


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"outputs": 0}, "between 1 and the number of records 4, got 0"),
        ({"outputs": [0, 0]}, "named more than once"),
        ({"outputs": [9]}, "row 9 does not exist"),
        ({"outputs": [[1.0, 2.0, 3.0]]}, "2 coordinates, got 3"),
        ({"outputs": [[1.0, math.nan]]}, "must be finite"),
        ({"outputs": "all"}, "outputs must be a count"),
        ({"loss": "love"}, "unknown loss 'love'"),
        ({"loss": "travel", "destinations": 9}, "between 1 and 4, got 9"),
        ({"loss": "travel", "destinations": [4]}, "between 0 and 3"),
        ({"epsilon": "ten"}, "epsilon must be a number, got 'ten'"),
        ({"metric": lambda *_: -1.0}, "gave -1.0"),
        ({"metric": "street"}, "has no streets"),
        ({"metric": np.zeros((2, 2))}, "has 2 rows but there are 4 records"),
    ],
)
def test_bad_input(options, part):
    with pytest.raises(mdp.InputError, match=part.replace("[", r"\[").replace("(", r"\(")):
        mdp.Problem(mdp.data.grid(2, 2), **{"epsilon": 1.0, "eta": 1.0, "outputs": 2, **options})


def test_a_problem_is_frozen():
    problem = mdp.Problem(mdp.data.grid(2, 2), epsilon=1.0, eta=1.0)
    with pytest.raises(AttributeError):
        problem.epsilon = 2.0
    with pytest.raises(ValueError, match="read-only"):
        problem.loss[0, 0] = 1.0


def test_same_seed_same_problem():
    first, second, other = (
        mdp.Problem(mdp.data.road("gothenburg", n=50, seed=s), epsilon=1.0, eta=1.0, outputs=9, seed=s)
        for s in (4, 4, 5)
    )
    assert np.array_equal(first.loss, second.loss)
    assert not np.array_equal(first.outputs.rows, other.outputs.rows)


@pytest.mark.parametrize("point", [[11.97, 257.7], [91.0, 0.0], [-90.5, 0.0], [0.0, -181.0]])
def test_output_points_of_places_must_be_on_the_earth(point):
    places = mdp.Records([[57.7, 11.97], [57.71, 11.98]])
    with pytest.raises(mdp.InputError, match="latitude between -90 and 90") as caught:
        Outputs.of([[57.7, 11.97], point], places, seed=0)
    assert f"got {point} in row 1" in str(caught.value)
    assert Outputs.of([[90.0, -180.0]], places, seed=0).n == 1
    assert Outputs.of([point], mdp.Records([[0.0, 0.0]], kind="vectors"), seed=0).n == 1
