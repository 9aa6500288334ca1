"""The first-order method when it is stopped, killed, resumed or misused: an honest answer, and nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from safetensors import safe_open
from tests.conftest import small_problem

import metricdp as mdp
from metricdp.errors import FileFormatError
from metricdp.solve.checkpoint import Checkpoint
from metricdp.solve.component import Component
from metricdp.solve.solvers.firstorder import iterate
from metricdp.solve.solvers.firstorder.bounds import certified_bound
from metricdp.solve.solvers.firstorder.checkpointing import restore, store
from metricdp.solve.solvers.firstorder.loop import Progress
from metricdp.solve.solvers.firstorder.network import Network, first_edges

GAP = 1e-4
FIELDS = {"lower_bound", "upper_bound", "gap", "edges", "iteration", "component", "seconds", "seconds_left"}


def town(epsilon=3.0, seed=0):
    """Small, of one part, and still of some thirty checks."""
    records = mdp.data.road("gothenburg", n=80, seed=seed)
    parts = mdp.Problem(records, epsilon=epsilon, eta=1.2, outputs=10).graph.components
    return mdp.Problem(records.select(max(parts, key=len)), epsilon=epsilon, eta=1.2, outputs=10, seed=seed)


def long_problem():
    return mdp.Problem(mdp.data.grid(20, 25), epsilon=0.5, eta=3.0, outputs=100, seed=0)


def run(problem, **options):
    return mdp.solve(problem, method="first-order", **{"gap": GAP, **options})


def steps(result):
    return [row for row in result.trace.rows if row["stage"] == "first-order"]


def upto(iterations):
    return mdp.FirstOrderOptions(max_iterations=iterations)


def stored(folder):
    """Steps and both bounds of the component that got farthest, read without the package."""
    found = []
    for path in folder.glob("component-*-state.safetensors"):
        with safe_open(path, framework="numpy") as file:
            notes = json.loads(file.metadata()["notes"])
        with safe_open(str(path).replace("state", "00000"), framework="numpy") as file:
            done = int(file.get_tensor("steps")[0])
        found.append((done, float.fromhex(notes["lower"]), float.fromhex(notes["upper"])))
    return max(found)


@pytest.fixture(scope="module")
def exact():
    return mdp.solve(town(), method="direct", gap=1e-6)


def check_agreement(result, exact):
    assert result.mechanism.certificate.privacy.certified
    assert result.lower_bound <= exact.loss * (1 + 1e-12)
    assert exact.lower_bound <= result.loss * (1 + 1e-12)


class TestTrace:
    def test_rows_say_where_the_run_is(self):
        result = run(town())
        rows = steps(result)
        assert len(rows) > 10
        for row in rows:
            assert set(row) >= FIELDS
            assert row["edges"] <= result.problem.graph.n_pairs
        lower, upper = ([row[name] for row in rows] for name in ("lower_bound", "upper_bound"))
        assert (np.diff([row["iteration"] for row in rows]) > 0).all()
        assert (np.diff(lower) >= 0).all()
        assert lower[-1] > lower[0]
        known = [value for value in upper if np.isfinite(value)]
        assert (np.diff(known) <= 0).all()
        assert all(low <= up for low, up in zip(lower, upper, strict=True))
        assert rows[-1]["gap"] <= GAP < rows[-2]["gap"]

    def test_edges_come_first(self):
        rows = run(town()).trace.rows
        first = next(row for row in rows if row["stage"] == "edges")
        assert 0 < first["edges"] <= first["pairs"]
        assert first["weight"] > 0
        assert rows.index(first) < rows.index(next(row for row in rows if row["stage"] == "first-order"))

    def test_the_log_is_json(self):
        """What is not known yet is no number that JSON does not have."""

        def refuse(name):
            raise ValueError(name)

        text = run(town(), gap=1e-2).trace.json_lines()
        rows = [json.loads(line, parse_constant=refuse) for line in text.splitlines()]
        assert any(row["stage"] == "first-order" for row in rows)


class TestResume:
    def test_goes_on_where_it_was(self, tmp_path, exact):
        first = run(town(), checkpoint=tmp_path, options=upto(400))
        assert first.gap > GAP
        done, lower, upper = stored(tmp_path)
        assert done == steps(first)[-1]["iteration"] >= 400
        second = run(town(), checkpoint=tmp_path, resume=True)
        rows = steps(second)
        assert rows[0]["iteration"] > done
        assert rows[0]["lower_bound"] >= lower
        assert rows[0]["upper_bound"] <= upper
        assert second.status is mdp.Status.OPTIMAL
        assert second.lower_bound >= first.lower_bound
        check_agreement(second, exact)

    def test_what_is_done_is_not_done_again(self, tmp_path):
        whole = run(town(), checkpoint=tmp_path)
        again = run(town(), checkpoint=tmp_path, resume=True)
        assert steps(again) == []
        assert again.status is mdp.Status.OPTIMAL
        assert (again.iterations, again.lower_bound) == (whole.iterations, whole.lower_bound)
        assert np.array_equal(again.mechanism.table, whole.mechanism.table)

    def test_stopped_again_and_again(self, tmp_path, exact):
        """Ctrl-C at the second check of every attempt; bounds only get better, and the checks do not grow rarer."""
        seen, counts = [], []
        for attempt in range(8):
            rows = []

            def interrupt(row, rows=rows):
                rows.append(row)
                if row["stage"] == "first-order" and sum(one["stage"] == "first-order" for one in rows) == 2:
                    os.kill(os.getpid(), signal.SIGINT)

            result = run(town(), checkpoint=tmp_path, resume=attempt > 0, listener=interrupt)
            assert result.status is mdp.Status.LIMIT
            check_agreement(result, exact)
            seen.append(stored(tmp_path))
            counts.append(result.iterations)
        assert (np.diff([done for done, _, _ in seen]) > 0).all()
        assert (np.diff([lower for _, lower, _ in seen]) >= 0).all()
        assert (np.diff([upper for _, _, upper in seen if np.isfinite(upper)]) <= 0).all()
        assert counts[-1] == seen[-1][0]

    def test_the_point_comes_back_though_another_gap_is_asked_for(self, tmp_path):
        """Another gap begins with other edges, and may number the records differently."""
        problem = small_problem("gaussian", seed=1, n=60, outputs=12)
        rows = max(problem.graph.components, key=len)
        component = Component(problem.costs[rows], problem.graph.subgraph(rows), problem.epsilon)
        iteration, again = (
            iterate.Iteration(Network(component, first_edges(component.graph, stretch)), 1.0) for stretch in (0.5, 0.0)
        )
        for _ in range(200):
            iteration.advance()
        progress = Progress(certified_bound(iteration))
        with opened(tmp_path, resume=False) as checkpoint:
            store(checkpoint, iteration, progress)
        back = Progress()
        with opened(tmp_path, resume=True) as checkpoint:
            assert restore(checkpoint, again, back)
        assert again.steps == iteration.steps
        assert back.lower_bound == progress.lower_bound
        np.testing.assert_array_equal(again.network.untiled(again.Z), iteration.network.untiled(iteration.Z))
        assert certified_bound(again) == pytest.approx(certified_bound(iteration), rel=1e-9)

    def test_a_smaller_gap_goes_on_from_a_larger_one(self, tmp_path, exact):
        coarse = run(town(), gap=0.05, checkpoint=tmp_path)
        fine = run(town(), checkpoint=tmp_path, resume=True)
        assert fine.status is mdp.Status.OPTIMAL
        last = {row["component"]: row for row in steps(coarse)}
        first = {row["component"]: row for row in reversed(steps(fine))}
        assert first
        for component, row in first.items():
            assert row["iteration"] > last[component]["iteration"]
            assert row["lower_bound"] >= last[component]["lower_bound"]
        check_agreement(fine, exact)

    def test_killed_and_resumed(self, tmp_path, exact):
        """By SIGKILL, in a process of its own, while it reports its sixth check."""
        program = f"""
import os, signal
import metricdp as mdp
records = mdp.data.road("gothenburg", n=80, seed=0)
parts = mdp.Problem(records, epsilon=3.0, eta=1.2, outputs=10).graph.components
problem = mdp.Problem(records.select(max(parts, key=len)), epsilon=3.0, eta=1.2, outputs=10, seed=0)
rows = []
def listen(row):
    rows.append(row)
    if sum(one["stage"] == "first-order" for one in rows) == 6:
        os.kill(os.getpid(), signal.SIGKILL)
mdp.solve(problem, method="first-order", gap={GAP}, checkpoint={str(tmp_path)!r}, listener=listen)
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
        before = stored(tmp_path)
        result = run(town(), checkpoint=tmp_path, resume=True)
        rows = steps(result)
        assert rows[0]["iteration"] > before[0] > 0
        assert rows[0]["lower_bound"] >= before[1]
        assert result.status is mdp.Status.OPTIMAL
        check_agreement(result, exact)


def opened(folder, *, resume):
    return Checkpoint(folder, "a" * 64, resume=resume)


class TestRefusals:
    @pytest.mark.parametrize(
        ("problem", "options"),
        [
            (lambda: town(3.5), {}),
            (lambda: town(seed=1), {}),
            (town, {"options": mdp.FirstOrderOptions(stretch=0.1)}),
            (town, {"options": mdp.FirstOrderOptions(weight=0.7)}),
        ],
        ids=["epsilon", "records", "stretch", "weight"],
    )
    def test_a_checkpoint_of_another_problem(self, tmp_path, problem, options):
        run(town(), checkpoint=tmp_path, options=upto(100))
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        with pytest.raises(mdp.InputError, match="of another problem or other options"):
            run(problem(), checkpoint=tmp_path, resume=True, **options)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before

    def test_a_checkpoint_of_another_method(self, tmp_path):
        run(town(), checkpoint=tmp_path, options=upto(100))
        with pytest.raises(mdp.InputError, match="of another problem or other options"):
            mdp.solve(town(), method="columns", checkpoint=tmp_path, resume=True)

    def test_a_damaged_checkpoint(self, tmp_path):
        run(town(), checkpoint=tmp_path, options=upto(100))
        for path in tmp_path.glob("*-00000.safetensors"):
            data = bytearray(path.read_bytes())
            data[-5] ^= 1
            path.write_bytes(data)
        with pytest.raises(FileFormatError, match="is damaged or of another run: start anew, without resume"):
            run(town(), checkpoint=tmp_path, resume=True)

    @pytest.mark.parametrize(
        ("options", "value"),
        [
            ({"stretch": -0.1}, "-0.1"),
            ({"stretch": 1.5}, "1.5"),
            ({"stretch": float("nan")}, "nan"),
            ({"weight": 0.0}, "0.0"),
            ({"weight": -2.0}, "-2.0"),
            ({"weight": float("inf")}, "inf"),
            ({"weight": float("nan")}, "nan"),
            ({"max_iterations": 0}, "0"),
            ({"max_iterations": -3}, "-3"),
        ],
    )
    def test_bad_options(self, options, value):
        (name,) = options
        with pytest.raises(mdp.InputError, match=f"{name} .*got {value}"):
            mdp.FirstOrderOptions(**options)


class TestEnds:
    def test_ctrl_c_gives_a_certified_mechanism(self, exact):
        """At the start, before the first step, and after some checks."""
        for stage, count in (("start", 1), ("edges", 1), ("first-order", 1), ("first-order", 4)):
            rows = []

            def interrupt(row, rows=rows, stage=stage, count=count):
                rows.append(row)
                if row["stage"] == stage and sum(one["stage"] == stage for one in rows) == count:
                    os.kill(os.getpid(), signal.SIGINT)

            result = run(town(), listener=interrupt)
            assert result.status is mdp.Status.LIMIT
            assert result.gap > GAP
            check_agreement(result, exact)

    def test_a_limit_of_iterations_is_a_limit(self, exact):
        result = run(town(), options=upto(200))
        assert result.status is mdp.Status.LIMIT
        assert 200 <= result.iterations < 400
        check_agreement(result, exact)

    def test_ends_when_floats_show_no_more(self):
        """A gap that single precision cannot reach: the run ends by itself, and says that it did not get there."""
        problem = mdp.Problem(mdp.data.grid(6, 6), epsilon=1.0, eta=2.0, outputs=6, seed=0)
        result = run(problem, gap=1e-13, options=mdp.FirstOrderOptions(polish_up_to=0, max_iterations=60_000))
        assert result.iterations < 60_000
        assert result.status in (mdp.Status.FAILED, mdp.Status.OPTIMAL)
        assert result.mechanism.certificate.privacy.certified

    @pytest.mark.slow  # about seconds of the clock, which a loaded machine does not keep
    @pytest.mark.parametrize("limit", [0.01, 0.5, 2.0])
    def test_time_limit(self, limit):
        result = run(long_problem(), gap=1e-7, time_limit=limit)
        assert result.status is mdp.Status.LIMIT
        assert result.mechanism.certificate.privacy.certified
        assert 0.0 < result.lower_bound < result.loss
        assert result.seconds < limit + 20.0

    @pytest.mark.slow
    def test_time_limits_one_after_the_other(self, tmp_path):
        seen = []
        for attempt in range(4):
            result = run(long_problem(), gap=1e-7, time_limit=1.0, checkpoint=tmp_path, resume=attempt > 0)
            assert result.status is mdp.Status.LIMIT
            assert result.mechanism.certificate.privacy.certified
            seen.append(stored(tmp_path))
        assert (np.diff([done for done, _, _ in seen]) > 0).all()
        assert (np.diff([lower for _, lower, _ in seen]) >= 0).all()


def test_a_repair_comes_in_time_where_checks_are_far_apart(monkeypatch):
    """On a busy machine the first check may lie beyond the time limit: a run without a repair would lose everything."""
    monkeypatch.setattr("metricdp.solve.solvers.firstorder.loop.FIRST_CHECK", 10**9)
    result = run(long_problem(), time_limit=3.0)
    assert any(row["repair_seconds"] for row in steps(result))
    assert 0.0 < result.lower_bound <= result.loss
    assert result.gap < 0.5  # the best single output is at 0.7
