"""What `auto` does: the interior point where it is cheap, first-order steps elsewhere, and a hand-over that pays."""

from __future__ import annotations

import importlib
import signal
from dataclasses import replace

import numpy as np
import pytest
from tests.conftest import DATASETS, small_problem

import metricdp as mdp
from metricdp.errors import OutOfRoomError
from metricdp.mechanism.expected import table_loss
from metricdp.solve.merged import Merged
from metricdp.solve.solvers import auto
from metricdp.solve.solvers.interior import cost
from metricdp.solve.solvers.local.counts import expected_steps

FIRST_ORDER = importlib.import_module("metricdp.solve.solvers.firstorder.loop")
INTERIOR = importlib.import_module("metricdp.solve.solvers.interior.loop")


def chosen(result):
    return [row["method"] for row in result.trace.rows if row["stage"] == "choice"]


def town():
    return small_problem("road", seed=3, n=60, outputs=12, exponent=0.5)


def check_agreement(result, problem):
    exact = mdp.solve(problem, method="direct", gap=1e-6)
    assert result.mechanism.certificate.privacy.certified
    assert result.lower_bound <= exact.loss * (1 + 1e-12)
    assert exact.lower_bound <= result.loss * (1 + 1e-12)


def test_small_problems_are_for_the_interior_point():
    result = mdp.solve(town(), gap=1e-4)
    assert set(chosen(result)) == {"interior"}
    assert (result.method, result.solver, result.mechanism.solver) == ("auto", "interior", "interior")
    assert result.status is mdp.Status.OPTIMAL
    assert all("operations" in row["reason"] for row in result.trace.rows if row["stage"] == "choice")
    check_agreement(result, town())


def test_a_rough_gap_takes_first_order_steps_where_the_interior_point_is_dear(monkeypatch):
    monkeypatch.setattr(auto, "CHEAP_OPERATIONS", 0.0)
    monkeypatch.setattr(auto, "STEP_OPERATIONS", 1e-3)
    result = mdp.solve(town(), gap=0.02)
    assert set(chosen(result)) == {"first-order"}
    assert result.solver == "first-order"
    assert result.status is mdp.Status.OPTIMAL
    check_agreement(result, town())


def test_slow_steps_hand_over(monkeypatch):
    """Steps end once they have cost as much as the interior point, or are foretold to."""
    monkeypatch.setattr(auto, "CHEAP_OPERATIONS", 0.0)
    monkeypatch.setattr(auto, "STEP_OPERATIONS", 1e6)
    result = mdp.solve(town(), gap=1e-5)
    assert chosen(result)[:2] == ["first-order", "interior"]
    assert result.solver == "first-order, interior"
    steps = [row for row in result.trace.rows if row["stage"] == "first-order"]
    assert steps[-1]["iteration"] <= 100
    assert result.status is mdp.Status.OPTIMAL
    assert result.lower_bound >= max(row["lower_bound"] for row in steps)
    check_agreement(result, town())


def test_a_limit_at_the_hand_over_keeps_what_was_found(monkeypatch):
    monkeypatch.setattr(auto, "CHEAP_OPERATIONS", 0.0)
    monkeypatch.setattr(auto, "STEP_OPERATIONS", 1e6)
    seen = []

    def stop_after_the_steps(row):
        if row["stage"] == "first-order":
            seen.append(row)
        if row["stage"] == "choice" and row["method"] == "interior" and seen:
            signal.raise_signal(signal.SIGINT)

    result = mdp.solve(town(), gap=1e-6, listener=stop_after_the_steps)
    assert result.status is mdp.Status.LIMIT
    assert result.lower_bound >= seen[-1]["lower_bound"] * (1 - 1e-12)
    check_agreement(result, town())


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("method", ["auto", "first-order"])
def test_all_components_at_once(dataset, method, monkeypatch):
    """Large graphs are not taken apart; isolated records and small parts are in the same iterations."""
    monkeypatch.setattr(FIRST_ORDER, "TAKEN_APART_UP_TO", 0)
    problem = small_problem(dataset, seed=5, n=48, outputs=9, exponent=0.7)
    rows = []
    result = mdp.solve(problem, method=method, gap=1e-2, listener=rows.append)
    assert {row["component"] for row in rows if "component" in row} == {0}
    assert result.status is mdp.Status.OPTIMAL
    check_agreement(result, problem)


def test_the_cost_is_a_count():
    """The same on any machine, and growing with records, pairs and outputs."""
    small = Merged.of(small_problem("road", seed=1, n=40, outputs=5)).whole()
    more = Merged.of(small_problem("road", seed=1, n=40, outputs=10)).whole()
    larger = Merged.of(small_problem("road", seed=1, n=80, outputs=5)).whole()
    one = cost.interior_operations(small.graph, small.n_outputs, 0.01)
    shared = cost.expected_iterations(0.01) * 40**3 / 3  # the unit sums' matrix is one, whatever the outputs
    assert cost.interior_operations(small.graph, small.n_outputs, 0.01) == one
    assert cost.interior_operations(more.graph, more.n_outputs, 0.01) - shared == pytest.approx(2 * (one - shared))
    assert cost.interior_operations(larger.graph, larger.n_outputs, 0.01) > 2 * one
    assert cost.interior_operations(small.graph, small.n_outputs, 1e-4) == pytest.approx(2 * one)
    assert (
        cost.interior_operations(small.graph, small.n_outputs, 0.0)
        == cost.interior_operations(small.graph, small.n_outputs, 1e-8)
        < np.inf
    )


def test_no_factors_of_a_whole_city(monkeypatch):
    monkeypatch.setattr(cost, "MAX_OPERATIONS", 10.0)
    result = mdp.solve(town(), gap=0.05)
    assert set(chosen(result)) == {"first-order"}
    assert result.status is mdp.Status.OPTIMAL


def without_room(*_):
    raise OutOfRoomError("there is no room")


@pytest.mark.parametrize("cheap", [0.0, np.inf])
def test_steps_go_on_where_factors_do_not_fit(cheap, monkeypatch):
    monkeypatch.setattr(auto, "CHEAP_OPERATIONS", cheap)
    monkeypatch.setattr(auto, "STEP_OPERATIONS", 1e6)
    monkeypatch.setattr(INTERIOR, "_look_for_room", without_room)
    result = mdp.solve(town(), gap=0.02)
    assert chosen(result)[-1] == "first-order"
    assert result.status is mdp.Status.OPTIMAL
    check_agreement(result, town())


def test_a_linear_program_ends_what_rounding_stops():
    """At a vanishing budget the interior has no room for a point: a vertex of the linear program needs none."""
    problem = mdp.Problem(mdp.data.grid(3, 3), epsilon=1e-9, eta=1.5, outputs=9)
    result = mdp.solve(problem, gap=1e-6)
    assert chosen(result) == ["interior", "direct"]
    assert result.status is mdp.Status.OPTIMAL


def test_words_take_windows_although_their_priors_are_uneven():
    """Steps on whole matrices had a gap of 65 % where windows had reached 2 %."""
    words = mdp.data.words().select(range(500))
    problem = mdp.Problem(words, epsilon=2.0, eta=5.0)
    assert words.prior.max() > 30 * words.prior.min()
    assert auto.Auto().chosen_for(problem, 0.02).name == "local"


def test_the_choice_of_steps_predicts_time_and_memory(monkeypatch):
    monkeypatch.setattr(auto, "CHEAP_OPERATIONS", 0.0)
    result = mdp.solve(town(), gap=0.1)
    reasons = [row["reason"] for row in result.trace.rows if row["stage"] == "choice"]
    assert "a gap of 10 % takes at most about 1 s of one core and 0.2 GB" in reasons[0]


def test_own_epsilons_are_not_solved_on_windows_of_the_map():
    records = mdp.data.road("gothenburg", n=100, seed=0)
    own = np.full(100, 8.0)
    own[np.random.default_rng(0).choice(100, 5, replace=False)] = 1.0
    problem = mdp.Problem(records, epsilon=own, eta=np.inf)
    assert auto.Auto().chosen_for(problem.with_epsilon(8.0), 0.02).name == "local"
    result = mdp.solve(problem, gap=0.02)
    assert result.status is mdp.Status.OPTIMAL
    assert result.mechanism.guarantee.bound(0, 1) <= own[[0, 1]].min() * problem.graph.distances[0] * (1 + 1e-9)
    with pytest.raises(mdp.CertificationError, match="the steps ran away; take another method"):
        mdp.solve(problem, gap=0.02, method="local")


def test_whole_matrices_go_on_where_windows_are_slow(monkeypatch):
    """Places far from all outputs make steps on windows crawl: after as much work the other way is taken."""
    monkeypatch.setattr(auto, "PATIENCE", 0.0)
    monkeypatch.setattr(auto, "DENSE_STEPS", 1e-9)
    records = mdp.data.road("gothenburg").nearest((57.7072, 11.9668), 300)
    problem = mdp.Problem(records, epsilon=7.0, eta=0.3, loss="distance")
    result = mdp.solve(problem, gap=0.2)
    assert result.status is mdp.Status.OPTIMAL
    assert result.solver == "local, first-order"
    assert result.mechanism.certificate.privacy.certified
    choices = [row["reason"] for row in result.trace.rows if row["stage"] == "choice"]
    assert "after 1 steps on windows" in choices[1]
    monkeypatch.undo()
    alone = mdp.solve(problem, gap=0.2)
    assert alone.solver == "local"
    assert max(result.lower_bound, alone.lower_bound) <= min(result.loss, alone.loss)


def test_windows_are_not_cut_short_where_whole_matrices_do_not_fit(monkeypatch):
    monkeypatch.setattr(auto, "PATIENCE", 0.0)
    monkeypatch.setattr(auto, "DENSE_STEPS", 1e-9)
    monkeypatch.setattr(importlib.import_module("metricdp.solve.solve"), "_fits", lambda *_: False)
    records = mdp.data.road("gothenburg").nearest((57.7072, 11.9668), 300)
    result = mdp.solve(mdp.Problem(records, epsilon=7.0, eta=0.3, loss="distance"), gap=0.2)
    assert (result.status, result.solver) == (mdp.Status.OPTIMAL, "local")


def test_when_windows_hand_over_is_a_count():
    """The same on every machine: no clock takes part."""
    problem = mdp.Problem(
        mdp.data.road("gothenburg", n=500, seed=1), epsilon=10.0, eta=2.0, outputs="random:300", seed=1
    )
    steps = [auto.Auto().chosen_for(problem, 0.01).alternative.steps for _ in range(2)]
    assert steps[0] == steps[1] > 3 * expected_steps(0.01)


def test_bounds_of_both_ways_that_contradict_each_other_are_a_fault(monkeypatch):
    """Each way proves its own bound: one above the loss of the other's certified mechanism is no gap of zero."""
    monkeypatch.setattr(auto, "PATIENCE", 0.0)
    monkeypatch.setattr(auto, "DENSE_STEPS", 1e-9)
    records = mdp.data.road("gothenburg").nearest((57.7072, 11.9668), 300)
    problem = mdp.Problem(records, epsilon=7.0, eta=0.3, loss="distance")
    whole = importlib.import_module("metricdp.solve.solve")
    simple = mdp.exponential(problem)
    loss = table_loss(simple.table, problem)
    wrong = replace(simple, optimality=mdp.mechanism.Optimality(loss, 0.999 * loss))
    answer = whole._Outcome(wrong, is_optimal=True, has_failed=False, solver="wrong", iterations=1)
    monkeypatch.setattr(whole, "_solved_by_component", lambda *_, **__: answer)
    with pytest.raises(mdp.errors.SolverError, match="is above the loss"):
        mdp.solve(problem, gap=0.01)
