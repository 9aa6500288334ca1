"""The filter over the reports of one person: exact, free, and better than single reports."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

import metricdp as mdp
from metricdp.errors import InputError
from metricdp.evaluate.tracker import neighbour_walk, trajectory
from metricdp.mechanism.sparse import SparseTable


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
    sparse = mdp.Tracker(
        mechanism.with_table(SparseTable.from_dense(mechanism.dense_table), solver="sparse"), transition=moves
    )
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
    code, out, err = run("evaluate", "grid.mdp", "--against", "none", "--trajectory", "4", "--json")
    assert code == 0, err
    assert json.loads(out)["trajectory"]["n_steps"] == 4
    code, _, err = run("evaluate", "grid.mdp", "--trajectory", "0")
    assert code == 2
    assert "--trajectory must be at least 1" in err
