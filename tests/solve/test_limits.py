"""Limits are kept: what comes last has its time reserved, long work can be broken off, SIGTERM is like Ctrl-C."""

from __future__ import annotations

import importlib
import io
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from rich.console import Console
from tests.conftest import small_problem

import metricdp as mdp
from metricdp.errors import StoppedError
from metricdp.mechanism.certify import TOTAL, check_privacy
from metricdp.metric import closure, sparsify, thin
from metricdp.report.tables import ProgressLine
from metricdp.solve.by_component import Found
from metricdp.solve.component import Component
from metricdp.solve.contract import Ended
from metricdp.solve.ending import Ending
from metricdp.solve.forecast import Forecast
from metricdp.solve.merged import Merged
from metricdp.solve.solvers.columns.pricing import cone_of, price_output, price_tasks
from metricdp.solve.stop import Stop
from metricdp.solve.warm import begin_run, end_run

METHODS = ("direct", "benders", "columns", "kernel", "first-order", "auto")
LONG = ("grid:20x25", "--epsilon", "0.5", "--eta", "3", "--outputs", "100")  # takes each method minutes
NO_TIME = 1e-9  # seconds


class TestReserve:
    def test_solvers_end_sooner_than_the_rest(self):
        stop = Stop(100.0)
        stop.keep_back(60.0)
        stop.keep_back(30.0)  # what was reserved stays so
        assert 30.0 < stop.seconds_left <= 40.0
        assert 90.0 < stop.seconds_to_the_end <= 100.0
        stop.keep_back(100.0)
        assert stop.is_due
        assert stop.seconds_to_the_end > 90.0
        with pytest.raises(StoppedError):
            stop.check()

    def test_a_busy_machine_is_slow(self, monkeypatch):
        stop, begin = Stop(100.0), time.process_time()
        monkeypatch.setattr(time, "monotonic", lambda: stop.begin + 6.0)
        monkeypatch.setattr(time, "process_time", lambda: begin + 2.0)
        assert stop.slowness == pytest.approx(3.0, rel=0.01)
        monkeypatch.setattr(time, "process_time", lambda: begin + 12.0)  # two threads of an idle one
        assert stop.slowness == 1.0

    def test_no_limit_no_reserve(self):
        stop = Stop()
        stop.keep_back(60.0)
        assert stop.seconds_left == stop.seconds_to_the_end == float("inf")
        stop.request_end()
        assert stop.is_due
        assert 0.0 < stop.seconds_to_the_end <= 2.0

    def test_solvers_get_at_least_half_of_the_time(self):
        ending = Ending(near=100.0, check=10.0)
        assert ending.kept_back(20.0) == 10.0
        assert 110.0 < ending.kept_back(1000.0) < 200.0
        assert ending.kept_back(float("inf")) < float("inf")

    def test_the_estimate_grows_with_the_pairs(self):
        small, large = (
            Ending.estimated(mdp.Problem(mdp.data.grid(40, 40), epsilon=1.0, eta=eta, outputs=50))
            for eta in (1.0, 12.0)
        )
        assert 0.0 < small.check < large.check
        assert large.near > large.check


@pytest.fixture
def closures(monkeypatch):
    """The number of matrices that were closed: what a repair does, and what takes its time."""
    calls = []

    def counted(V, *arguments, **options):
        calls.append(V.shape)
        return closure.close_columns(V, *arguments, **options)

    for module in ("metric.graph", "mechanism.repair"):
        monkeypatch.setattr(importlib.import_module(f"metricdp.{module}"), "close_columns", counted)
    return calls


@pytest.mark.parametrize("method", METHODS)
def test_without_time_nothing_is_begun(method, closures, monkeypatch):
    """Reporting one output needs no repair, and no solver; there used to be four repairs after the deadline."""
    problem = mdp.Problem(mdp.data.grid(8, 8), epsilon=0.5, eta=3.0, outputs=20)
    solved = []
    monkeypatch.setattr(Ending, "estimated", lambda _: Ending(near=10.0, check=1.0))
    lp = importlib.import_module("metricdp.solve.lp")
    monkeypatch.setattr(lp.LinearProgram, "solve", lambda *_, **__: solved.append(1))
    result = mdp.solve(problem, method=method, time_limit=NO_TIME)
    assert result.status is mdp.Status.LIMIT
    assert result.mechanism.solver == "one output"
    assert result.mechanism.certificate.privacy.certified
    assert 0.0 < result.lower_bound < result.loss
    assert solved == closures == []


@pytest.mark.parametrize("method", METHODS)
def test_what_takes_hardly_any_time_is_tried_all_the_same(method, monkeypatch):
    monkeypatch.setattr(
        importlib.import_module("metricdp.solve.ending"), "ALLOWANCE_SECONDS", 60.0
    )  # for slow machines
    problem = mdp.Problem(mdp.data.grid(8, 8), epsilon=0.5, eta=3.0, outputs=20)
    result = mdp.solve(problem, method=method, time_limit=NO_TIME)
    assert result.status is mdp.Status.LIMIT
    assert result.mechanism.certificate.privacy.certified
    assert result.mechanism.solver != "one output"


def test_when_time_is_out_only_what_was_repaired_already_is_repaired_again(closures):
    """The solver's own matrix needs one closure as floats and one as integers; others are not tried any more."""
    problem = mdp.Problem(mdp.data.grid(8, 8), epsilon=0.5, eta=1.0, outputs=20)
    ending = importlib.import_module("metricdp.solve.ending")
    merged = Merged.of(problem)
    good = mdp.solve(problem, gap=0.05)
    unfinished = np.ones(problem.n_records, dtype=bool)
    ended = frozenset((Ended.STOPPED,))
    found = Found(good.mechanism.probabilities, good.lower_bound, unfinished, ended, 1, 0, is_private=True)
    stop = Stop(0.5)
    closures.clear()
    made = ending.certified(problem, merged, found, "solver", gap=1e-6, stop=stop, ending=Ending(near=10.0, check=0.01))
    assert len(closures) == 2
    assert made.solver == "solver"
    assert made.optimality.loss == pytest.approx(good.loss, rel=1e-6)


def test_equal_rows_are_certified_without_a_look_at_the_pairs():
    table = np.zeros((3, 2), dtype=np.uint64)
    table[:, 1] = TOTAL
    pairs, distances = np.array([[0, 1], [1, 2]], dtype=np.int32), np.array([0.0, 1.0])
    found = check_privacy(table, pairs, distances, 1.0)
    assert found.certified
    assert (found.tightest_epsilon, found.worst) == (0.0, None)
    table[2] = table[2, ::-1]
    assert not check_privacy(table, pairs, distances, 1.0).certified
    table[2] = 5
    assert "sums to" in check_privacy(table, pairs, distances, 1.0).fault


class TestBreakingOff:
    def graph(self):
        return small_problem("road", seed=1, n=80, outputs=4).graph

    def test_closures(self, monkeypatch):
        graph, V = self.graph(), np.random.default_rng(0).random((80, 40))
        whole = graph.closure(V, 1.0)
        monkeypatch.setattr(closure, "INTERRUPTIBLE_FROM", 0)
        assert np.array_equal(graph.closure(V, 1.0), whole)
        times = iter([False, False, True])
        with pytest.raises(StoppedError):
            graph.closure(V, 1.0, is_over=lambda: next(times))

    def test_thin_graphs(self, monkeypatch):
        graph = self.graph()
        whole = thin.thin_edges(graph, 0.1)
        monkeypatch.setattr(thin, "INTERRUPTIBLE_FROM", 0)
        assert np.array_equal(thin.thin_edges(graph, 0.1), whole)
        with pytest.raises(StoppedError):
            thin.thin_edges(graph, 0.1, is_over=lambda: True)

    def test_implied_pairs(self, monkeypatch):
        graph = self.graph()
        whole = sparsify.prune_implied(graph)
        monkeypatch.setattr(sparsify, "PAIRS_AT_ONCE", 7)
        assert np.array_equal(sparsify.prune_implied(graph).pairs, whole.pairs)
        with pytest.raises(StoppedError):
            sparsify.prune_implied(graph, is_over=lambda: True)

    def test_pricing(self):
        problem = small_problem("road", seed=1, n=80, outputs=4)
        component = Component(problem.costs, problem.graph, problem.epsilon)
        begin_run("test", Stop())
        (task, *_) = price_tasks("test", component, cone_of(component), np.zeros(80), Stop())
        assert (price_output(task)["column"] >= 0.0).all()
        begin_run("test", Stop(NO_TIME))
        try:
            with pytest.raises(StoppedError):
                price_output(task)
        finally:
            end_run("test")

    def test_work_of_others_is_left_behind(self):
        begin = time.monotonic()
        with pytest.raises(StoppedError):
            Stop(0.1).waiting_for(lambda: time.sleep(30.0))
        assert time.monotonic() - begin < 20.0  # not the 30 s
        assert Stop().waiting_for(lambda: 7) == 7
        with pytest.raises(ZeroDivisionError):
            Stop().waiting_for(lambda: 1 // 0)


class TestTimeLeft:
    TRACE = (  # seconds left that a run of Rome guessed, and when: it jumped from 201 to 7,787
        (350.0, 100.0),
        (201.0, 150.0),
        (7787.0, 200.0),
        (900.0, 300.0),
        (700.0, 400.0),
        (620.0, 500.0),
        (0.0, 800.0),
    )

    def test_it_is_unknown_until_guesses_agree(self):
        forecast = Forecast()
        shown = [forecast.checked(*guess) for guess in self.TRACE]
        assert shown == [None, None, None, None, None, 620.0, 0.0]

    def test_it_says_unknown(self):
        stream = io.StringIO()
        fields = dict.fromkeys(("lower_bound", "upper_bound", "gap", "step_seconds", "bound_seconds"), 0.5)
        row = {"seconds": 1.0, "stage": "first-order", "iteration": 7, "edges": 3, "repair_seconds": 0.0, **fields}
        show = ProgressLine(Console(file=stream, width=200), "solving", is_verbose=True)
        show(row | {"seconds_left": None})
        show(row | {"seconds": 2.0, "seconds_left": 12.0})
        lines = stream.getvalue().splitlines()
        assert lines[-2].endswith("  unknown")
        assert lines[-1].endswith("  about 12 s")


class TestSigterm:
    def test_first_asks_second_ends_for_good(self):
        seen = []
        was = signal.signal(signal.SIGTERM, lambda *_: seen.append("ended"))
        try:
            stop = Stop()
            with stop.on_interrupt():
                signal.raise_signal(signal.SIGTERM)
                assert stop.is_end_requested
                assert seen == []
                signal.raise_signal(signal.SIGTERM)
                assert seen == ["ended"]
            signal.raise_signal(signal.SIGTERM)  # as before
            assert seen == ["ended", "ended"]
        finally:
            signal.signal(signal.SIGTERM, was)

    def test_the_default_ends_the_process(self):
        code = (
            "import os, signal\nfrom metricdp.solve.stop import Stop\n"
            "with Stop().on_interrupt():\n"
            "    os.kill(os.getpid(), signal.SIGTERM)\n    print('asked', flush=True)\n"
            "    os.kill(os.getpid(), signal.SIGTERM)\n    print('never', flush=True)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.stdout == "asked\n"
        assert done.returncode == -signal.SIGTERM

    @pytest.mark.parametrize("method", ["first-order"])
    def test_the_best_mechanism_is_written(self, method, tmp_path):
        file = tmp_path / "ended.mdp"
        words = [
            sys.executable,
            "-m",
            "metricdp",
            "solve",
            *LONG,
            "--method",
            method,
            "--gap",
            "1e-9",
            "--json",
            "--verbose",
        ]
        with subprocess.Popen(
            [*words, "-o", str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
        ) as run:
            for line in run.stderr:
                if "first-order" in line and "e" in line and "inf" not in line and "time left" not in line:
                    break
            run.send_signal(signal.SIGTERM)
            output, errors = run.communicate(timeout=120.0)
        assert run.returncode == 1, errors  # as for a limit
        found = json.loads(output)
        assert found["status"] == "limit"
        mechanism = mdp.load(file)  # checks it exactly
        assert mechanism.optimality.loss == found["loss"]
        assert mechanism.solver == method
