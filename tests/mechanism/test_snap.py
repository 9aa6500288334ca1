from __future__ import annotations

import numpy as np
import pytest

import metricdp as mdp
from metricdp.mechanism import snap
from metricdp.mechanism.snap import as_points, nearest_records
from metricdp.metric import CoordinateMetric


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


class TestPointsOfTheUser:
    PLANE = mdp.Records([[0.0, 0.0], [300.0, 0.0]], kind="vectors")
    EARTH = mdp.Records([[57.0, 11.0], [57.1, 11.0]])

    def test_one_point_is_a_table_of_one(self):
        assert as_points([1, 2], self.PLANE).tolist() == [[1.0, 2.0]]
        assert as_points([["1", "2.5"]], self.PLANE).tolist() == [[1.0, 2.5]]

    def test_they_are_a_copy(self):
        given = np.array([[1.0, 2.0]])
        assert not np.shares_memory(as_points(given, self.PLANE), given)

    @pytest.mark.parametrize("shape", [(1, 3), (3,), (2, 2, 2), (1, 2, 1), (0, 2), (0,), ()])
    def test_another_shape(self, shape):
        with pytest.raises(mdp.InputError, match=r"must be a table with 2 columns, got shape \("):
            as_points(np.ones(shape), self.PLANE)

    @pytest.mark.parametrize(
        "points", [np.ma.array([[1.0, 2.0]]), np.ma.array([[1.0, 2.0]], mask=True), [[1j, 0.0]], np.array([1j, 0.0])]
    )
    def test_masked_and_complex_ones(self, points):
        with pytest.raises(mdp.InputError, match="plain real numbers, not masked or complex"):
            as_points(points, self.PLANE)

    @pytest.mark.parametrize(
        "points", [[["7.25", "b"]], [[10**400, 7.25]], [[7.25], [1.0, 2.0]], [[None, {}]], object()]
    )
    def test_no_numbers_and_no_value_in_the_message_nor_behind_it(self, points):
        with pytest.raises(mdp.InputError, match="^points must be numbers, one row per point$") as caught:
            as_points(points, self.PLANE)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_not_finite(self, bad):
        for records, ranges in (
            (self.PLANE, ""),
            (self.EARTH, " (latitude from -90 to 90, longitude from -180 to 180)"),
        ):
            with pytest.raises(mdp.InputError) as caught:
                as_points([[1.0, 1.0], [1.0, bad]], records)
            assert str(caught.value) == f"points must be finite numbers{ranges}: correct or remove the others"

    @pytest.mark.parametrize("corner", [[90.0, 180.0], [-90.0, -180.0]])
    def test_the_ends_of_the_earth(self, corner):
        assert as_points([corner], self.EARTH).tolist() == [corner]
        for column in (0, 1):
            beyond = list(corner)
            beyond[column] = np.nextafter(corner[column], 999.0 * corner[column])
            with pytest.raises(mdp.InputError, match="latitude from -90 to 90"):
                as_points([[0.0, 0.0], beyond], self.EARTH)
            assert as_points([beyond], self.PLANE).tolist() == [beyond]


class TestTheNearest:
    @pytest.mark.parametrize("entries", [1, 59, 60, 61, 180, 10_000])
    def test_in_blocks_of_any_size(self, monkeypatch, entries):
        """Blocks hold as many points as fit, and at least one; each point has its own record and distance."""
        monkeypatch.setattr(snap, "ENTRIES_AT_ONCE", entries)
        generator = np.random.default_rng(0)
        records = mdp.Records(generator.normal(size=(30, 2)), kind="vectors")
        points = generator.normal(size=(11, 2))
        sizes = []

        class Counting(CoordinateMetric):
            def elementwise(self, a, b):
                sizes.append(len(a))
                return super().elementwise(a, b)

        rows, distances = nearest_records(points, records, Counting("euclidean"))
        all_distances = np.hypot(*(points[:, None, :] - records.coordinates).transpose(2, 0, 1))
        assert rows.tolist() == all_distances.argmin(axis=1).tolist()
        assert distances == pytest.approx(all_distances.min(axis=1), rel=1e-14)
        full, rest = divmod(11, min(max(entries // 60, 1), 11))
        assert sizes == [(11 - rest) // full] * full + [rest] * (rest > 0)

    def test_of_two_equally_near_the_first(self):
        records = mdp.Records([[0.0], [2.0], [2.0]], kind="vectors")
        rows, distances = nearest_records(np.array([[1.0], [2.0]]), records, CoordinateMetric("euclidean"))
        assert (rows.tolist(), distances.tolist()) == ([0, 1], [1.0, 0.0])


def test_a_point_at_exactly_the_limit_is_reported(mechanism):
    assert mechanism.perturb_points([[0.5, 0.0]], limit=0.5).snap_distances.tolist() == [0.5]
    with pytest.raises(mdp.InputError, match="farther from every record than the limit: nothing is reported"):
        mechanism.perturb_points([[0.5, 0.0]], limit=0.4999999)


def test_reports_show_how_many_they_are_and_nothing_else(mechanism):
    assert repr(mechanism.perturb_points([[0.5, 0.5], [1.5, 1.5]], limit=0.5)) == "SnappedReports(2 reports)"
