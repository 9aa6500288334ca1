"""The benchmarks themselves: nobody wins by failing, and figures mean what they say."""

import argparse
import importlib
import inspect
import json
import math
import sys

import numpy as np
import pytest
from benchmarks.__main__ import KEEPING, main, options_of
from benchmarks.auto import Runs, compare, losses, markdown, run, run_once, undecided
from benchmarks.instances import Instance, rome_nodes
from benchmarks.judge import judge, satisfied_epsilon
from benchmarks.processes import run_task
from benchmarks.registry import PEERS_FULL, Registry
from benchmarks.runs import Outcome, run_instance
from benchmarks.stages import shares
from benchmarks.tables import epsilon_cell, fit_exponent, ratio_cell, time_cell
from benchmarks.versus import summary

import metricdp as mdp
from benchmarks import runs

SMALL = Instance("grid", 12, 6, 1.0)


def answered(method, *, gap, is_peer, **answer):
    whole = {"seconds": 1.0, "gap": 0.001, "is_certified": True, "loss": 1.0, "lower_bound": 0.999} | answer
    return Outcome("one", method, gap, is_peer, [whole])


@pytest.mark.parametrize("name", KEEPING)
def test_studies_take_the_options_that_they_are_given(name):
    given = argparse.Namespace(sizes=[3], old=None)
    study = importlib.import_module(f"benchmarks.{name}").run
    inspect.signature(study).bind(keep=list, **options_of(name, given))


@pytest.mark.parametrize("fault", [{"missing": "no module"}, {"failed": "memory"}, {"late": 5.0}])
def test_a_peer_without_an_answer_is_reported_and_never_wins(fault):
    outcome = Outcome("one", "peer", 0.01, True, [fault])
    ours = answered("auto", gap=0.01, is_peer=False)
    assert outcome.fault
    assert not outcome.is_reached
    assert ratio_cell(outcome, [ours]) == "-"
    (what,) = fault.values()
    words = {"missing": f"not installed ({what})", "failed": f"failed ({what})", "late": "not done in 5 s"}
    assert time_cell(outcome) == words[next(iter(fault))]


def test_the_summary_never_makes_a_late_peer_a_number():
    auto = answered("auto", gap=0.01, is_peer=False, seconds=2.0)
    late = Outcome("one", "late", 0.01, True, [{"late": 5.0}])
    missing = Outcome("one", "missing", 0.01, True, [{"missing": "no module"}])
    rough = answered("rough", gap=0.01, is_peer=True)
    rough.answers[0]["gap"] = 0.5
    fast = answered("fast", gap=0.01, is_peer=True, seconds=1.0)
    for o in (rough, fast):
        o.answers[0] |= {"epsilon_before_repair": 1.5 if o is rough else 1.0, "epsilon": 1.0}
    text = summary([auto, late, missing, rough, fast])
    cells = [cell.strip() for cell in text.splitlines()[4].strip("|").split("|")]
    assert "| rough | 1 | 0 | 1, at most 1 + 5.0e-01 times | 0 |" in text
    assert "| fast | 1 | 1 | 0 | 0 |" in text
    assert cells[0] == "one"
    assert cells[2:] == ["> 2.5", "not installed (no module)", "not reached: 50 %", "0.5"]


def test_an_answer_that_is_not_certified_does_not_reach_any_gap():
    assert answered("peer", gap=0.01, is_peer=True).is_reached
    assert not answered("peer", gap=0.01, is_peer=True, is_certified=False).is_reached


def test_one_of_ours_that_the_limit_stopped_reaches_nothing():
    outcome = answered("direct", gap=0.01, is_peer=False, is_cut_off=True)
    assert not outcome.is_reached
    assert "stopped by the limit" in time_cell(outcome)


def test_a_run_that_the_limit_stopped_does_not_count_as_reached():
    runs = Runs()
    run_once(SMALL, "direct", runs, gap=0.99, limit=1e-6)
    assert runs.is_cut_off
    assert not runs.reached


def test_a_method_that_was_stopped_too_early_is_undecided_and_not_slower():
    auto = Runs(processor=[1.3])
    early, late = Runs(processor=[0.9], is_cut_off=True), Runs(processor=[1.1], is_cut_off=True)
    assert undecided({"auto": auto, "columns": early, "direct": late, "kernel": Runs(processor=[0.5])}) == ["columns"]


def test_a_process_that_takes_too_long_is_ended():
    task = {"kind": "ours", "method": "direct", "gap": 1e-6, "limit": 600.0}
    task["instance"] = vars(Instance("road", 100, 100, 1.0))  # takes many seconds
    assert run_task(task, limit=0.01)["late"] == 0.01


def test_an_unknown_peer_is_a_failure(tmp_path):
    problem = SMALL.problem()
    graph = problem.graph
    file = tmp_path / "problem.npz"
    np.savez(file, costs=problem.costs, pairs=graph.pairs, distances=graph.distances, epsilon=problem.epsilon)
    task = {"kind": "peer", "method": "nobody", "problem": str(file), "tolerance": None}
    assert "KeyError: 'nobody'" in run_task(task, limit=60.0)["failed"]


def compared(**fields):
    own = {"choices": ["all: direct (small)"], "processor": [1.0], "is_cut_off": False, "reached": True, "gap": 0.0}
    methods = {"auto": own, "direct": own}
    row = {"instance": "one", "gap": 0.01, "winner": "direct", "ratio": 1.0, "undecided": [], "methods": methods}
    return row | fields


def test_the_verdict_on_auto_counts_only_what_was_decided():
    assert losses([compared()]) == ["- auto took at most 1.3 times the best of direct in 1 of 1 comparisons"]
    assert losses([compared(winner="auto")])[-1].endswith("in 1 of 1 comparisons")
    unsolved, slow = compared(winner=None, ratio=None), compared(ratio=2.0)
    *lines, verdict = losses([compared(), unsolved, slow, compared(undecided=["columns"])])
    assert verdict.endswith("in 1 of 3 comparisons; nobody solved 1 more")
    assert len(lines) == 3
    assert any("no method reached the gap" in line for line in lines)
    assert any("undecided: columns" in line for line in lines)
    assert any("auto took all: direct (small)" in line for line in lines)


def test_auto_is_compared_with_whom_it_should_be():
    row = compare(SMALL, ("direct", "auto", "columns"), gap=0.01, limit=30.0, repetitions=2)
    assert row["winner"] in ("direct", "columns")
    best, auto = row["methods"][row["winner"]], row["methods"]["auto"]
    assert row["ratio"] == pytest.approx(np.median(auto["processor"]) / np.median(best["processor"]))
    assert len(auto["processor"]) == len(best["processor"]) == 2
    assert SMALL.name in markdown([row])


def test_what_auto_alone_reached_is_bounded_by_how_long_the_others_did_not_take(monkeypatch):
    def solve_or_not(instance, name, runs, *, gap, limit):
        seconds = 2.0 if name == "auto" else min(limit, 1.9)
        runs.processor.append(seconds)
        runs.clock.append(seconds)
        runs.reached, runs.is_cut_off = name == "auto", name != "auto"

    monkeypatch.setattr("benchmarks.auto.run_once", solve_or_not)
    row = compare(SMALL, ("direct", "auto"), gap=0.01, limit=30.0, repetitions=1)
    assert row["winner"] == "auto"
    assert row["ratio"] == pytest.approx(2.0 / 1.9)
    assert "at most 1.05 (only auto reached it)" in markdown([row])


def test_a_gap_below_one_that_nobody_reached_is_not_tried_and_counts_as_unsolved(monkeypatch):
    def nobody(instance, name, runs, *, gap, limit):
        runs.processor.append(limit)
        runs.clock.append(limit)
        runs.reached, runs.is_cut_off = False, True

    monkeypatch.setattr("benchmarks.auto.run_once", nobody)
    small = Registry(datasets=("grid",), sizes=(12,), exponents=(1.0,), gaps=(0.001, 0.01), limit=1.0)
    kept = []
    found = run(small, seed=0, keep=kept.extend)
    assert [row["gap"] for row in found["rows"]] == [0.01, 0.001]
    assert kept == found["rows"]
    assert "no method reached the gap" in found["markdown"]
    assert "not tried: nobody reached a larger gap" in found["markdown"]
    assert "in 0 of 0 comparisons; nobody solved 2 more" in found["markdown"]


def test_auto_alone_is_no_comparison(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "auto", "--quick", "--ours", "auto", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="needs a method to be compared with"):
        main()


def test_rows_are_kept_as_they_come_and_old_ones_are_not_lost(monkeypatch, tmp_path):
    def broken(registry, *, seed, keep, profile):
        keep([{"instance": "one"}])
        raise KeyboardInterrupt

    monkeypatch.setattr("benchmarks.auto.run", broken)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "auto", "--quick", "--seed", "7", "--out", str(tmp_path)])
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            main()
    for name in ("auto.jsonl", "auto.jsonl.old"):
        about, row = (json.loads(line) for line in (tmp_path / name).read_text().splitlines())
        assert about["seed"] == 7
        assert about["registry"]["sizes"] == [100]
        assert row == {"instance": "one"}


def test_an_iterative_peer_has_its_own_finer_run():
    rough = answered("OR-tools PDLP", gap=0.01, is_peer=True)
    rough.answers[0]["gap"] = 0.5
    fine = answered("OR-tools PDLP", gap=0.001, is_peer=True, seconds=7.0)
    runs._credit_finer_runs([rough, fine])
    assert rough.is_reached
    assert rough.median == 7.0


def test_the_satisfied_epsilon_is_that_of_the_matrix():
    problem = mdp.Problem(mdp.data.grid(1, 2), epsilon=1.0, eta=1.5, outputs=2)
    Z = np.array([[0.8, 0.2], [0.4, 0.6]])
    assert satisfied_epsilon(Z, problem) == pytest.approx(math.log(3.0))
    assert satisfied_epsilon(np.eye(2), problem) == math.inf
    found = judge(Z, None, 1.0, problem)
    assert found["is_certified"]
    assert found["gap"] is None
    assert "times" in epsilon_cell(Outcome("one", "peer", 0.01, True, [found | {"seconds": 1.0}]))


def test_peer_and_ours_agree_on_the_smallest_instance():
    outcomes = run_instance(SMALL, ours=("auto",), peers=("scipy linprog",), gaps=(1e-5,), limit=60.0, repetitions=1)
    assert [o.fault for o in outcomes] == [""] * 2
    assert all(o.is_reached for o in outcomes), [o.certified_gap for o in outcomes]
    losses = [o.answers[0]["loss"] for o in outcomes]
    assert losses[0] == pytest.approx(losses[1], rel=2e-5)
    assert all(o.answers[0]["peak_mb"] >= o.answers[0]["before_mb"] > 0 for o in outcomes)


def test_the_exponent_of_a_power_is_found():
    found = fit_exponent([10, 100, 1000], [1.0, 10.0**1.5, 10.0**3])
    assert found["exponent"] == pytest.approx(1.5)
    assert found["range"] == pytest.approx([1.5, 1.5])
    assert fit_exponent([10], [1.0]) is None


def test_instances_have_the_privacy_they_say_and_a_fixed_seed():
    instances = list(Registry(sizes=(30,)).instances(seed=3))
    assert instances
    for instance in instances:
        problem, again = instance.problem(), instance.problem()
        lengths = problem.graph.distances
        assert problem.epsilon * np.median(lengths[lengths > 0]) == pytest.approx(instance.exponent)
        assert np.array_equal(problem.costs, again.costs)


def test_a_program_that_cannot_fit_is_not_tried(monkeypatch):
    monkeypatch.setattr(runs, "MOST_ROWS", 10)
    (outcome,) = run_instance(SMALL, ours=(), peers=("scipy linprog",), gaps=(0.01,), limit=60.0, repetitions=1)
    assert "not tried" in time_cell(outcome)
    assert not outcome.is_reached


def test_a_whole_city_is_only_for_methods_that_form_no_program():
    assert PEERS_FULL.ours_of(Instance("rome", 43_160, 100, 10.0)) == ("auto", "first-order")
    assert PEERS_FULL.ours_of(SMALL) == PEERS_FULL.ours


@pytest.mark.skipif(rome_nodes() is None, reason="the Rome data is not here")
def test_rome_is_in_the_registry():
    found = [instance for instance in PEERS_FULL.instances(seed=0) if instance.dataset == "rome"]
    assert {instance.n for instance in found} == {500, 43_160}
    problem = found[0].problem()
    assert (problem.n_records, problem.n_outputs, problem.eta) == (500, 100, 2.0)
    assert problem.epsilon == found[0].exponent


def test_libqif_is_asked_only_where_it_reaches():
    assert "libqif" in PEERS_FULL.peers_of(Instance("road", 30, 30, 1.0))
    assert "libqif" not in PEERS_FULL.peers_of(Instance("road", 500, 100, 1.0))


@pytest.mark.parametrize("method", ["direct", "first-order", "columns", "benders", "kernel"])
def test_shares_add_up(method):
    found = shares(mdp.solve(Instance("grid", 48, 12, 1.0).problem(), method=method, gap=0.05))
    assert sum(found.values()) == pytest.approx(1.0, abs=0.05)
    assert min(found.values()) >= 0


def test_the_plane_is_measured_on_a_small_square():
    from benchmarks.plane import cells, measured, square

    row = measured("small", square(3, 0.4, is_clustered=True))
    assert 0 < row["any_bound"] <= row["loss"] <= row["exponential"]
    assert row["laplace_bayes"] <= row["laplace_nearest"]
    assert row["any_bound"] <= row["laplace_bayes"] * 1.01  # noise is private, too, up to its grid
    assert len(cells(row)) == 11


def test_rates_of_streams_are_measured_of_all_parts(monkeypatch):
    from benchmarks import stream_command, streams

    monkeypatch.setattr(stream_command, "rome_nodes", lambda: None)
    found = streams.run(n_charges=20, n_points=50, n_slow=2, n_rows=5000, formats=("csv",))
    names = [row["what"] for row in found["rows"]]
    assert len(names) == len(set(names)) == found["markdown"].count("\n") - 2
    kinds = ("charges", "points", "start", "rows")
    assert [sum(name.startswith(kind) for name in names) for kind in kinds] == [10, 2, 2, 2]
    assert all(row["seconds"] > 0 if "seconds" in row else row["per_second"] > 0 for row in found["rows"])
    assert [row["n"] for row in found["rows"] if row["what"].startswith("rows")] == [5000 - 4096] * 2


def test_the_bound_from_groups_is_below_that_from_places():
    """Groups of places lose something, and never give more than the optimum of the places themselves."""
    from benchmarks.grouped import grouped_bound

    box = mdp.data.region(41.88, 12.46, 41.898, 12.484, spacing=0.35)
    random = np.random.default_rng(0)
    places = mdp.Records(random.uniform(box.low, box.high, (60, 2)), kind="places", prior=random.random(60))
    outputs = random.uniform(box.low, box.high, (5, 2))
    problem = mdp.PlaneProblem(box, epsilon=1.0, outputs=outputs, places=places)
    records = mdp.Problem(places, epsilon=1.0, eta=10.0, outputs=outputs, loss=problem.losses)
    optimum = mdp.solve(records, gap=1e-3)
    for side in (0.02, 0.2, 0.6):
        bound = grouped_bound(problem, side, 10.0, time_limit=60.0).lower_bound
        assert 0.0 < bound <= optimum.loss
    assert grouped_bound(problem, 1e-4, 10.0, time_limit=60.0).lower_bound > 0.97 * optimum.lower_bound
    many = mdp.PlaneProblem(box, epsilon=1.0, outputs=random.uniform(box.low, box.high, (50, 2)), places=places)
    bound = grouped_bound(many, 0.6, 10.0, time_limit=60.0).lower_bound  # fewer groups than outputs
    assert 0.0 < bound <= mdp.solve_plane(many, max_steps=200, bound=False).loss
