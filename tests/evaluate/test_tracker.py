"""The filter over the reports of one person: exact, free, and better than single reports."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from scipy.sparse import save_npz
from tests.mechanism.sparse_tables import sparse_of

import metricdp as mdp
from metricdp.data.streets import StreetNetwork
from metricdp.errors import InputError
from metricdp.evaluate.tracker import trajectory
from metricdp.evaluate.walks import neighbour_walk, street_walk


@pytest.fixture(scope="module")
def mechanism():
    return mdp.solve(mdp.Problem(mdp.data.grid(3, 3), epsilon=1.5, eta=1.0), gap=0.02).mechanism


def test_the_filter_is_bayes_over_all_paths(mechanism):
    reports = [4, 1, 8]
    moves = neighbour_walk(mechanism, 0.3).toarray()
    Z = mechanism.probabilities
    expected = np.zeros(9)
    for path in itertools.product(range(9), repeat=3):
        chance = mechanism.records.prior[path[0]] * moves[path[0], path[1]] * moves[path[1], path[2]]
        expected[path[2]] += chance * np.prod([Z[place, report] for place, report in zip(path, reports, strict=True)])
    tracker = mdp.Tracker(mechanism, stay=0.3)
    for report in reports:
        belief = tracker.update(report)
    np.testing.assert_allclose(belief, expected / expected.sum(), rtol=1e-10)
    sparse = mdp.Tracker(mechanism.with_table(sparse_of(mechanism.table), solver="sparse"), transition=moves)
    for report in reports:
        again = sparse.update(mechanism.records.ids[report])
    np.testing.assert_allclose(again, belief, rtol=1e-10)
    assert tracker.best_output() == int((belief @ mechanism.losses.whole()).argmin())
    tracker.reset()
    np.testing.assert_array_equal(tracker.belief, mechanism.records.prior)


def test_the_walk_is_along_neighbours(mechanism):
    moves = neighbour_walk(mechanism, 0.4).toarray()
    np.testing.assert_allclose(moves.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.diag(moves), 0.4)
    assert moves[0, 1] == pytest.approx(0.3)
    assert moves[0, 8] == 0.0
    alone = mdp.exponential(mdp.Problem(mdp.data.grid(1, 2), epsilon=1.0, eta=0.5))
    assert neighbour_walk(alone, 0.4).toarray().tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_filtering_helps_and_the_adversary_too(mechanism):
    found = trajectory(mechanism, 10, n_walks=60, stay=0.8)
    assert found.loss_filtered < 0.95 * found.loss_remapped
    assert found.loss_remapped < 1.02 * found.loss
    assert found.right_filtered > found.right_alone
    assert 0.0 < found.error_filtered < 0.97 * found.error_alone
    assert "exp(15 d)" in found.promise
    assert found == trajectory(mechanism, 10, n_walks=60, stay=0.8)


def test_what_is_refused(mechanism):
    for call, message in (
        (lambda: mdp.Tracker(mechanism, stay=1.0), "stay must be a probability"),
        (lambda: mdp.Tracker(mechanism, transition=np.eye(3)), "the transition must have shape"),
        (lambda: mdp.Tracker(mechanism, transition=np.full((9, 9), 0.2)), "the rows of the transition"),
        (lambda: mdp.Tracker(mechanism, transition=2 * np.eye(9) - np.eye(9, k=1)), "the rows of the transition"),
        (lambda: mdp.Tracker(mechanism).update("nowhere"), "is not an output"),
        (lambda: trajectory(mechanism, 0), "a trajectory needs"),
    ):
        with pytest.raises(InputError, match=message):
            call()
    alone = mdp.Mechanism.of(
        mdp.Problem(mdp.data.grid(1, 2), epsilon=1.0, eta=0.5), np.eye(2, dtype=np.uint64) << np.uint64(63)
    )
    tracker = mdp.Tracker(alone)
    tracker.update(0)
    with pytest.raises(InputError, match="impossible after those before"):
        tracker.update(1)


def test_the_command_reports_trajectories(run, mechanism, tmp_path):
    mechanism.save(tmp_path / "grid.mdp")
    code, out, err = run("evaluate", "grid.mdp", "--against", "none", "--trajectory", "4")
    assert code == 0, err
    assert "Walks of 4 reports" in out
    assert "the budgets of the steps add up" in out
    assert "the adversary is off by" in out
    code, out, err = run("evaluate", "grid.mdp", "--against", "none", "--trajectory", "4", "--json")
    assert code == 0, err
    told = json.loads(out)["trajectory"]
    assert told["n_steps"] == 4
    assert 0.0 < told["error_filtered"] < 2.0
    assert 0.0 < told["error_alone"] < 2.0
    code, _, err = run("evaluate", "grid.mdp", "--trajectory", "0")
    assert code == 2
    assert "--trajectory must be at least 1" in err


def test_the_error_is_that_of_the_best_guess(mechanism):
    found = trajectory(mechanism, 1, n_walks=4000)
    records = mechanism.records
    away = np.linalg.norm(records.coordinates[:, None] - records.coordinates[None], axis=2)
    joint = records.prior[:, None] * mechanism.probabilities
    exact = (joint.T @ away).min(axis=1).sum()
    assert found.error_alone == found.error_filtered
    assert found.error_alone == pytest.approx(exact, rel=0.05)
    assert trajectory(mechanism, 1, n_walks=1, metric=mdp.metric.MatrixMetric(np.zeros((9, 9)))).error_alone == 0.0


def test_errors_are_left_out_where_distances_are_not_known():
    away = np.array([[0.0, 1.0], [1.0, 0.0]])
    problem = mdp.Problem(mdp.data.grid(1, 2), epsilon=1.0, eta=2.0, metric=away, loss=away, outputs=[0, 1])
    found = trajectory(mdp.solve(problem).mechanism, 2, n_walks=2)
    assert found.error_alone is None
    assert found.error_filtered is None


def cross_of_streets():
    """Five intersections: 0 - 1 - 2 in a row, 3 hangs on 1, and 4 is joined to none; 0 and 1 by two streets."""
    points = np.array([[57.0, 12.0], [57.0, 12.01], [57.0, 12.02], [57.01, 12.01], [57.1, 12.0]])
    edges = np.array([[0, 1], [0, 1], [1, 2], [1, 3]], dtype=np.int32)
    return StreetNetwork(points, edges, np.array([0.6, 0.7, 0.8, 1.1]))


def records_at(nodes):
    streets = cross_of_streets()
    return mdp.Records(
        streets.coordinates[nodes], kind="places", streets=streets, street_nodes=np.array(nodes, dtype=np.int64)
    )


def test_a_walk_on_streets_takes_each_street_alike():
    moves = street_walk(records_at([0, 1, 2, 3, 4]), 0.4).toarray()
    expected = np.zeros((5, 5))
    expected[1, [0, 2, 3]] = 0.2
    expected[[0, 2, 3], 1] = 0.6
    expected[np.arange(5), np.arange(5)] = 0.4
    expected[4, 4] = 1.0
    np.testing.assert_allclose(moves, expected)


def test_a_walk_on_streets_goes_on_to_the_next_record():
    # without the middle, the other three are next to one another in a star around the record nearest to it
    moves = street_walk(records_at([0, 2, 3, 3]), 0.0).toarray() > 0
    assert moves.tolist() == [
        [False, True, True, True],
        [True, False, False, False],
        [True, False, False, True],
        [True, False, True, False],
    ]
    with pytest.raises(InputError, match="has no streets"):
        street_walk(mdp.data.grid(2, 2))


def test_the_command_takes_a_transition(run, tmp_path):
    records = mdp.data.road("gothenburg", n=12, seed=0)
    mdp.solve(mdp.Problem(records, epsilon=2.0, eta="connect", outputs=6), gap=0.05).mechanism.save(tmp_path / "g.mdp")
    save_npz(tmp_path / "walk.npz", street_walk(records))
    np.save(tmp_path / "walk.npy", street_walk(records).toarray())
    np.savetxt(tmp_path / "walk.csv", street_walk(records).toarray(), delimiter=",", fmt="%.17g")
    told = []
    for name in ("walk.npz", "walk.npy", "walk.csv"):
        code, out, err = run(
            "evaluate", "g.mdp", "--against", "none", "--trajectory", "3", "--transition", name, "--json"
        )
        assert code == 0, err
        told.append(json.loads(out)["trajectory"])
    assert told[0] == told[1] == told[2]
    code, out, err = run("evaluate", "g.mdp", "--against", "none", "--trajectory", "3", "--json")
    assert json.loads(out)["trajectory"]["loss"] != told[0]["loss"]
    (tmp_path / "bad.npz").write_bytes(b"nothing")
    np.save(tmp_path / "small.npy", np.eye(3))
    for arguments, message in (
        (("--transition", "walk.npz"), "give --trajectory STEPS with it"),
        (("--trajectory", "3", "--transition", "bad.npz"), "is not a sparse matrix"),
        (("--trajectory", "3", "--transition", "small.npy"), "the transition must have shape (12, 12)"),
    ):
        code, _, err = run("evaluate", "g.mdp", "--against", "none", *arguments)
        assert code == 2
        assert message in err.replace("\n", " ")
