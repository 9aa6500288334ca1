from __future__ import annotations

import numpy as np
import pytest

import metricdp as mdp


@pytest.fixture(scope="module")
def mechanism():
    return mdp.exponential(mdp.Problem(mdp.data.grid(4, 4), epsilon=30.0, eta=1.5, outputs=16))


def test_points_go_to_their_nearest_record(mechanism):
    reports = mechanism.perturb_points([[0.6, 0.5], [3.5, 3.3]], limit=0.5)
    assert reports.snap_distances == pytest.approx([0.1, 0.2])
    assert reports.ids == ("r00c00", "r03c03")  # epsilon is so large that the report is the record
    assert reports.outputs.tolist() == [0, 15]


def test_one_far_point_refuses_all_with_one_message(mechanism):
    messages = set()
    for far in ([9.0, 9.0], [-3.0, 0.5], [0.5, 77.0]):
        with pytest.raises(mdp.InputError) as caught:
            mechanism.perturb_points([[0.5, 0.5], far], limit=1.0)
        messages.add(str(caught.value))
    assert len(messages) == 1
    assert not set("0123456789") & set(messages.pop())


def test_refusing_takes_the_same_work(mechanism, monkeypatch):
    """The number of draws and of measured distances is the same for a point that is refused."""
    calls = []
    original = mdp.Mechanism.perturb_rows
    monkeypatch.setattr(
        mdp.Mechanism, "perturb_rows", lambda self, rows, **how: calls.append(len(rows)) or original(self, rows, **how)
    )
    mechanism.perturb_points([[0.5, 0.5]], limit=1.0)
    with pytest.raises(mdp.InputError):
        mechanism.perturb_points([[50.0, 50.0]], limit=1.0)
    assert calls == [1, 1]


@pytest.mark.parametrize(
    ("points", "part"),
    [
        ([[1.0, np.nan]], "finite"),
        ([[1.0]], "2 columns"),
        ([["a", "b"]], "numbers"),
        (np.zeros((0, 2)), "shape"),
    ],
)
def test_bad_points(mechanism, points, part):
    with pytest.raises(mdp.InputError, match=part):
        mechanism.perturb_points(points, limit=1.0)


@pytest.mark.parametrize("limit", [0.0, -1.0, np.nan])
def test_bad_limits(mechanism, limit):
    with pytest.raises(mdp.InputError, match="limit must be positive"):
        mechanism.perturb_points([[0.5, 0.5]], limit=limit)


def test_places_and_other_metrics():
    records = mdp.data.road("gothenburg", n=30, seed=0)
    places = mdp.exponential(mdp.Problem(records, epsilon=1.0, eta=mdp.metric.connecting_eta(records), outputs=5))
    assert places.perturb_points(records.coordinates[:3], limit=0.001).snap_distances.max() == 0.0
    with pytest.raises(mdp.InputError, match="latitude"):
        places.perturb_points([[95.0, 0.0]], limit=1.0)
    streets = mdp.exponential(mdp.Problem(records, epsilon=1.0, eta=9.0, outputs=5, metric="street"))
    with pytest.raises(mdp.InputError, match="street"):
        streets.perturb_points(records.coordinates[:1], limit=1.0)
