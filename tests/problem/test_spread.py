"""Outputs that are well spread, and those that are drawn."""

from __future__ import annotations

import numpy as np
import pytest

import metricdp as mdp
from metricdp.problem.spread import spread_rows


def floor(records, outputs):
    """The expected distance to the nearest output."""
    problem = mdp.Problem(records, epsilon=1.0, eta=0.5, outputs=outputs, loss="distance")
    assert problem.n_outputs == len(set(problem.outputs.rows.tolist()))
    return float(problem.records.prior @ problem.loss.min(axis=1))


@pytest.mark.parametrize("count", [10, 100])
def test_spread_outputs_are_nearer_than_drawn_ones(count):
    records = mdp.data.road("gothenburg", n=1500, seed=0)
    drawn = [floor(records, np.random.default_rng(s).choice(1500, count, replace=False)) for s in range(5)]
    assert floor(records, f"spread:{count}") < 0.85 * min(drawn)


def test_they_follow_the_prior():
    line = mdp.Records(np.arange(100.0), prior=[50.0] * 50 + [1.0] * 50, kind="vectors")
    rows = spread_rows(line, 10)
    assert (rows < 50).sum() >= 7
    assert (rows >= 50).sum() >= 1


@pytest.mark.parametrize("name", ["road", "words"])
def test_the_count_is_met_and_the_answer_is_always_the_same(name):
    records = mdp.data.road("gothenburg", n=200) if name == "road" else mdp.data.words(n=200)
    for count in (1, 2, 77, 199, 200):
        rows = spread_rows(records, count)
        assert len(np.unique(rows)) == count
        assert rows.tolist() == sorted(rows.tolist()) == spread_rows(records, count).tolist()


def test_records_in_one_place():
    same = mdp.Records(np.zeros((30, 2)), kind="vectors")
    assert len(np.unique(spread_rows(same, 12))) == 12
    matrix = mdp.Problem(np.zeros(5), epsilon=1.0, eta=1.0, metric=np.zeros((5, 5)), outputs="spread:4")
    assert len(np.unique(matrix.outputs.rows)) == 4


def test_distances_that_coordinates_do_not_tell():
    """By the matrix record 3 is far from all others, whatever its number is."""
    away = np.ones((5, 5)) - np.eye(5)
    away[3] = away[:, 3] = 9.0
    away[3, 3] = 0.0
    problem = mdp.Problem(np.arange(5.0), epsilon=1.0, eta=10.0, metric=away, outputs="spread:2", loss="distance")
    assert problem.outputs.rows.tolist() == [0, 3]


def test_drawn_ones_by_name():
    records = mdp.data.grid(5, 5)
    rows = [mdp.Problem(records, epsilon=1.0, eta=1.0, outputs="random:6", seed=s).outputs.rows for s in (0, 0, 1)]
    assert rows[0].tolist() == rows[1].tolist() != rows[2].tolist()


@pytest.mark.parametrize("outputs", ["spread", "spread:", "spread:x", "wide:3", "spread:-1", "3"])
def test_other_words_are_refused(outputs):
    with pytest.raises(mdp.InputError, match="outputs must be a count, spread:COUNT or random:COUNT"):
        mdp.Problem(mdp.data.grid(2, 2), epsilon=1.0, eta=1.0, outputs=outputs)


@pytest.mark.parametrize("outputs", ["spread:0", "spread:5", "random:5", 5, 0])
def test_counts_that_cannot_be(outputs):
    with pytest.raises(mdp.InputError, match="between 1 and the number of records 4"):
        mdp.Problem(mdp.data.grid(2, 2), epsilon=1.0, eta=1.0, outputs=outputs)
