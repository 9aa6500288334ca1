"""Other people's matrices: compared, swept, and turned into mechanisms with or without repair."""

from __future__ import annotations

import copy
import math
import sys

import numpy as np
import pytest
from tests.conftest import DATASETS, linprog_optimum, small_problem

import metricdp as mdp
from metricdp.evaluate import attack, compare, sweep, utility
from metricdp.mechanism.baselines import exponential_matrix, uniform
from metricdp.report.plots import plot_sweep


@pytest.mark.parametrize("dataset", DATASETS)
def test_a_matrix_is_judged_like_the_mechanism_that_it_is_of(dataset):
    problem = small_problem(dataset, seed=2)
    mechanism = mdp.solve(problem).mechanism
    Z = mechanism.to_numpy()
    ours, theirs = utility(mechanism, problem), utility(Z, problem)
    assert theirs.loss == pytest.approx(ours.loss, rel=1e-12)
    assert theirs.per_record == pytest.approx(ours.per_record)
    assert theirs.distance_mean == pytest.approx(ours.distance_mean)
    assert theirs.distance_quantiles == pytest.approx(ours.distance_quantiles)
    seen, by_matrix = attack(mechanism, problem), attack(Z, problem)
    assert (by_matrix.right, by_matrix.error) == pytest.approx((seen.right, seen.error))
    assert attack(mechanism.table, problem).right == pytest.approx(seen.right)


def test_matrices_by_name_stand_beside_what_is_built():
    problem = small_problem("grid", seed=6)
    best = mdp.solve(problem, gap=1e-7).mechanism
    better_than_private = np.eye(problem.n_outputs)[problem.loss.argmin(axis=1)]
    found = compare(
        {"mine": exponential_matrix(problem), "theirs": best, "open": better_than_private}, problem, ["uniform"]
    )
    mine, theirs, opened, useless = found.rows
    assert [row.name for row in found.rows] == ["mine", "theirs", "open", "uniform"]
    assert found.ours is mine
    assert [row.certified for row in found.rows] == [True, True, False, True]
    assert opened.tightest_epsilon == math.inf
    assert "% of its constraints are violated" in opened.note
    assert opened.loss < theirs.loss
    assert [row.name for row in found.better] == ["theirs", "uniform"]  # which is remapped to one place
    assert mine.loss_after_remap <= mine.loss
    assert mine.min_entropy_leakage == pytest.approx(math.log2(mine.adversary_right * problem.n_records))
    assert useless.min_entropy_leakage == pytest.approx(0.0, abs=1e-12)
    frame = found.to_pandas()
    assert frame.loc["open", "certified"] == np.False_
    assert frame["loss"].tolist() == [row.loss for row in found.rows]
    alone = compare(exponential_matrix(problem), problem)
    assert (alone.ours.name, alone.ours.loss) == ("this mechanism", mine.loss)
    assert theirs.tightest_epsilon <= problem.epsilon


def test_remapping_a_matrix_is_remapping_its_mechanism():
    problem = small_problem("road", seed=6)
    table = uniform(problem).table
    by_table, by_matrix = compare(uniform(problem), problem).ours, compare(table / 2.0**63, problem).ours
    assert by_matrix.loss_after_remap == pytest.approx(by_table.loss_after_remap)
    assert by_matrix.loss_after_remap < by_matrix.loss


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "nothing to compare"),
        ({"uniform": np.full((2, 2), 0.5)}, "'uniform' is that of a mechanism to build"),
        ({"exponential": np.full((2, 2), 0.5)}, "'exponential' is that of a mechanism to build"),
        ({" ": np.full((2, 2), 0.5)}, "needs a name that is a text"),
    ],
)
def test_comparisons_that_are_refused(given, message):
    problem = mdp.Problem(mdp.data.grid(1, 2), epsilon=1.0, eta=1.0)
    with pytest.raises(mdp.InputError, match=message):
        compare(given, problem, ["uniform"])


@pytest.mark.parametrize(
    ("epsilons", "mechanisms", "message"),
    [
        (1.0, "optimal", "must be a list of numbers, got 1.0"),
        ("1", "optimal", "must be a list of numbers, got '1'"),
        (["1"], "optimal", "must be a list of numbers"),
        ([1.0], "o", "unknown mechanism 'o'"),
        ([1.0], {"exponential": "uniform"}, "'exponential' is that of a mechanism to build"),
    ],
)
def test_sweeps_of_another_form_are_refused(epsilons, mechanisms, message):
    with pytest.raises(mdp.InputError, match=message):
        sweep(mdp.Problem(mdp.data.grid(1, 2), epsilon=1.0, eta=1.0), epsilons, mechanisms)


def test_only_problems_are_solved():
    with pytest.raises(mdp.InputError, match="solve takes a Problem, got str"):
        mdp.solve("x")


def test_a_sweep_takes_one_name():
    found = sweep(mdp.Problem(mdp.data.grid(1, 2), epsilon=1.0, eta=1.0), np.array([1.0, 2]), "exponential")
    assert found.names == ("exponential",)


def test_the_curve_stays_above_its_lower_bound():
    problem = small_problem("grid", seed=5)
    budgets = [0.5 * problem.epsilon, problem.epsilon, 2.0 * problem.epsilon]
    mine = {"best": "optimal", "simple": "exponential", "mine": exponential_matrix}
    found = sweep(problem, budgets, mine, gap=1e-6)
    assert found.names == ("best", "simple", "mine")
    assert len(found.points) == 9
    assert not found.unavailable
    for epsilon, bound in found.lower_bounds.items():
        optimum = linprog_optimum(problem.with_epsilon(epsilon))
        assert optimum * (1 - 2e-6) <= bound <= optimum * (1 + 1e-7)
    for point in found.points:
        assert point.lower_bound == found.lower_bounds[point.epsilon]
        assert point.certified == (point.tightest_epsilon <= point.epsilon)
        assert point.loss >= point.lower_bound
    losses = [loss for _, loss in found.curve("best")]
    assert losses == sorted(losses, reverse=True)
    assert np.array(found.curve("mine")) == pytest.approx(np.array(found.curve("simple")))
    frame = found.to_pandas()
    assert frame.groupby("name")["loss"].count().to_dict() == {"best": 3, "mine": 3, "simple": 3}


def test_the_curve_is_drawn():
    problem = mdp.Problem(mdp.data.grid(2, 2), epsilon=1.0, eta=1.0)
    axes = plot_sweep(sweep(problem, [0.5, 1.0], {"optimal": "optimal", "open": lambda _: np.eye(4)}))
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["optimal", "open", "open: not certified", "no mechanism goes below"]
    assert axes.get_xlabel() == "epsilon per unit of distance"


@pytest.mark.parametrize(
    ("epsilons", "mechanisms", "message"),
    [([1.0], ["magic"], "'magic' to sweep"), ([], ["optimal"], "nothing to sweep"), ([-1.0], ["optimal"], "positive")],
)
def test_sweeps_that_are_refused(epsilons, mechanisms, message):
    with pytest.raises(mdp.InputError, match=message):
        sweep(mdp.Problem(mdp.data.grid(1, 2), epsilon=1.0, eta=1.0), epsilons, mechanisms)


def test_what_cannot_be_made_is_listed():
    problem = small_problem("words", seed=1)
    found = sweep(problem, [problem.epsilon], ["optimal", "planar-laplace-snapped"])
    assert found.names == ("optimal",)
    assert list(found.unavailable) == [("planar-laplace-snapped", problem.epsilon)]


def test_another_budget_shares_everything_else():
    problem = small_problem("grid", seed=5)
    costs = problem.costs
    other = problem.with_epsilon(2)
    assert (other.epsilon, problem.epsilon) == (2.0, small_problem("grid", seed=5).epsilon)
    assert other.graph is problem.graph
    assert other.costs is costs
    assert other.has_own_graph
    assert not copy.copy(other).has_own_graph


class TestFromMatrix:
    """`Mechanism.from_matrix`: how far repair moved the rows, and without repair."""

    problem = mdp.Problem(mdp.data.grid(1, 2), epsilon=1.0, eta=1.0)

    def test_a_private_matrix_is_hardly_moved(self):
        made = mdp.Mechanism.from_matrix(self.problem, np.array([[0.6, 0.4], [0.4, 0.6]]))
        assert made.moved.farthest < 1e-9
        assert made.moved.mean <= made.moved.farthest

    def test_one_that_is_not_is_moved_as_far_as_its_rows_are(self):
        Z = np.array([[1.0, 0.0], [0.0, 1.0]])
        made = mdp.Mechanism.from_matrix(self.problem, Z)
        away = 0.5 * np.abs(made.to_numpy() - Z).sum(axis=1)
        assert made.moved.farthest == pytest.approx(away.max())
        assert made.moved.mean == pytest.approx(away.mean())
        assert made.moved.row == int(away.argmax())
        assert made.moved.farthest > 0.2
        assert copy.deepcopy(made).moved == made.moved
        assert mdp.solve(self.problem).mechanism.moved is None

    def test_scaling_is_no_move_and_a_row_of_zeros_is_one(self):
        made = mdp.Mechanism.from_matrix(self.problem, np.array([[6e200, 4e200], [4e-300, 6e-300]]))
        assert made.moved.farthest < 1e-9
        made = mdp.Mechanism.from_matrix(self.problem, np.array([[0.5, 0.5], [0.0, 0.0]]))
        assert (made.moved.farthest, made.moved.row) == (1.0, 1)

    def test_without_repair_it_is_rounded_only(self):
        Z = np.array([[0.6, 0.4], [0.4, 0.6]])
        made = mdp.Mechanism.from_matrix(self.problem, Z, repair=False)
        assert np.abs(made.table.astype(object) - np.array([[int(z * 2**63) for z in row] for row in Z])).max() <= 2048
        assert made.moved.farthest < 1e-15
        assert [sum(map(int, row)) for row in made.table] == [2**63] * 2

    def test_without_repair_it_certifies_or_raises(self):
        with pytest.raises(
            mdp.CertificationError, match="not 1-mDP.*the least epsilon that holds for all is 1.0986122886681"
        ):
            mdp.Mechanism.from_matrix(self.problem, np.array([[0.75, 0.25], [0.25, 0.75]]), repair=False)
        with pytest.raises(
            mdp.CertificationError, match=r"not 1-mDP: .*0 for the other, a factor above exp.1.0 . 1.0.$"
        ):
            mdp.Mechanism.from_matrix(self.problem, np.eye(2), repair=False)
        with pytest.raises(mdp.InputError, match="row 2 of the matrix sums to 0.5.*let the matrix be repaired"):
            mdp.Mechanism.from_matrix(self.problem, np.array([[0.5, 0.5], [0.25, 0.25]]), repair=False)

    def test_without_repair_tiny_entries_stay_positive(self):
        Z = np.array([[1.0, 1e-30], [1.0, 1e-30]])
        made = mdp.Mechanism.from_matrix(self.problem, Z, repair=False)
        assert made.table.tolist() == [[2**63 - 1, 1]] * 2


def test_tables_for_other_programs(monkeypatch):
    problem = small_problem("grid", seed=5)
    mechanism = mdp.exponential(problem)
    frame = mechanism.to_pandas()
    assert frame.index.tolist() == list(problem.records.ids)
    assert frame.columns.tolist() == list(problem.outputs.ids(problem.records))
    assert frame.to_numpy().tolist() == mechanism.to_numpy().tolist() == mechanism.probabilities.tolist()
    mechanism.to_numpy()[0, 0] = 5.0  # a copy of its own
    assert mechanism.probabilities[0, 0] < 1.0
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(mdp.MissingExtraError, match="pandas"):
        mechanism.to_pandas()
