"""Subproblems anywhere: threads, processes, a Dask cluster; dead and hanging workers cost time and nothing else.

A worker dies or hangs in the middle of a task here: the task sends SIGKILL or SIGSTOP to the process that does it.
"""

from __future__ import annotations

import functools
import importlib
import math
import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import metricdp as mdp
from metricdp.errors import InfeasibleError, MissingExtraError, SolverError
from metricdp.solve import executor as executors
from metricdp.solve import warm
from metricdp.solve.executor import Workers, workers
from metricdp.solve.lp import LinearProgram
from metricdp.solve.solvers.benders import subproblem
from metricdp.solve.solvers.benders.master import Master
from metricdp.solve.solvers.benders.subproblem import solve_block
from metricdp.solve.stop import Stop, StoppedError

LOOP = importlib.import_module("metricdp.solve.solvers.benders.loop")
GAP = 2e-3


@functools.cache
def city():
    return mdp.Problem(mdp.data.road("gothenburg", n=300, seed=0), epsilon=8.0, eta=0.5, outputs=50, seed=0)


@functools.cache
def exact():
    return mdp.solve(city(), method="direct", gap=1e-6)


def town():
    return mdp.Problem(mdp.data.road("gothenburg", n=80, seed=0), epsilon=8.0, eta=1.2, outputs=10, seed=0)


def solve_town(**more):
    options = mdp.BendersOptions(n_blocks=4).without("halo cuts")
    return mdp.solve(town(), method="benders", **{"gap": 1e-3, "options": options, **more})


def check(**more):
    """Solve the city, in several iterations; the loss is the optimum within the gap."""
    result = mdp.solve(city(), method="benders", gap=GAP, **more)
    assert result.status is mdp.Status.OPTIMAL
    assert result.iterations > 3
    assert result.lower_bound <= exact().loss
    assert exact().lower_bound <= result.loss <= exact().loss / (1 - GAP)
    return result


def lost(result):
    return max(row["lost_tasks"] for row in result.trace.rows if row["stage"] == "blocks")


def harm_own_process_once(note, number, caller, task):
    """Solve a block; the first worker to get here with the note not yet written writes it and is hit by a signal."""
    if os.getpid() == caller:
        return solve_block(task)  # done by the caller after all: it is not a worker
    try:
        with Path(note).open("x", encoding="utf-8") as stream:
            stream.write(str(os.getpid()))
    except FileExistsError:
        return solve_block(task)
    os.kill(os.getpid(), number)
    return solve_block(task)


@pytest.fixture
def harm(monkeypatch, tmp_path):
    """From the second iteration on, let the process that does the next block be hit by a signal; give its number."""
    note = tmp_path / "process"

    def arm(number):
        task = functools.partial(harm_own_process_once, str(note), number, os.getpid())
        seen = []

        def run_once_harmless(workers, function, tasks, stop, *accept):
            seen.append(1)
            return run(workers, task if len(seen) > 1 else function, tasks, stop, *accept)

        run = Workers.run
        monkeypatch.setattr(Workers, "run", run_once_harmless)
        return note

    return arm


@pytest.fixture(scope="module")
def cluster():
    """A real cluster on this machine: a scheduler and two worker processes."""
    import distributed

    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs="CRITICAL"
    ) as local:
        yield local


def wait_until_ready(local):
    """Wait until both workers are up (one that was killed has a successor) and have loaded the package."""
    from distributed import Client

    with Client(local, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=120)
        client.run(importlib.import_module, "metricdp")


@contextmanager
def two_processes():
    """Yield two processes that share nothing with this one."""
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        # both are up and have the package before anybody loses patience with them
        for future in [pool.submit(exec, "import time, metricdp; time.sleep(0.5)") for _ in range(2)]:
            future.result(timeout=120)
        yield pool


@pytest.fixture(scope="module")
def processes():
    with two_processes() as pool:
        yield pool


@pytest.fixture
def doomed_processes():
    with two_processes() as pool:
        yield pool


class TestDask:
    def test_same_optimum(self, cluster):
        wait_until_ready(cluster)
        assert lost(check(cluster=cluster.scheduler_address)) == 0

    def test_a_worker_is_killed(self, cluster, harm):
        wait_until_ready(cluster)
        note = harm(signal.SIGKILL)
        check(cluster=cluster.scheduler_address)
        assert int(note.read_text()) != os.getpid()

    def test_a_worker_hangs(self, cluster, harm, monkeypatch):
        monkeypatch.setattr(executors, "PATIENCE_SECONDS", 2.0)
        monkeypatch.setattr(executors, "LEAST_PATIENCE_SECONDS", 0.2)
        wait_until_ready(cluster)
        note = harm(signal.SIGSTOP)
        try:
            assert lost(check(cluster=cluster.scheduler_address)) > 0
        finally:
            os.kill(int(note.read_text()), signal.SIGKILL)
        assert int(note.read_text()) != os.getpid()

    @pytest.mark.slow  # reconnecting takes its time
    def test_the_scheduler_goes_away(self, monkeypatch):
        import distributed

        monkeypatch.setattr(executors, "PATIENCE_SECONDS", 2.0)
        monkeypatch.setattr(executors, "CONNECT_SECONDS", 3.0)
        with distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs="CRITICAL"
        ) as local:

            def close(row):
                if row["stage"] == "benders" and row["iteration"] == 1:
                    local.close()

            assert lost(check(cluster=local.scheduler_address, listener=close)) > 0

    def test_nobody_answers(self, monkeypatch):
        monkeypatch.setattr(executors, "CONNECT_SECONDS", 0.2)
        with pytest.raises(mdp.InputError, match="no Dask scheduler answers at 'tcp://127.0.0.1:9'"):
            solve_town(cluster="tcp://127.0.0.1:9")

    def test_needs_its_extra(self, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "distributed", None)
        with pytest.raises(MissingExtraError, match=r"metricdp\[cluster\]"):
            solve_town(cluster="tcp://127.0.0.1:9")

    def test_not_both(self):
        with pytest.raises(mdp.InputError, match="either an executor or a cluster"):
            solve_town(executor=Lazy(), cluster="tcp://127.0.0.1:9")


class TestProcesses:
    def test_same_optimum(self, processes):
        assert lost(check(executor=processes)) == 0

    def test_a_process_is_killed(self, doomed_processes, harm):
        """The pool breaks and takes nothing more: the rest is done here."""
        note = harm(signal.SIGKILL)
        assert lost(check(executor=doomed_processes)) > 0
        assert int(note.read_text()) != os.getpid()

    def test_a_process_hangs(self, doomed_processes, harm, monkeypatch):
        monkeypatch.setattr(executors, "PATIENCE_SECONDS", 2.0)
        monkeypatch.setattr(executors, "LEAST_PATIENCE_SECONDS", 0.2)
        note = harm(signal.SIGSTOP)
        try:
            assert lost(check(executor=doomed_processes)) > 0
        finally:
            os.kill(int(note.read_text()), signal.SIGKILL)


class TestThreads:
    def test_same_optimum(self):
        assert lost(check()) == 0
        with ThreadPoolExecutor(3) as pool:
            assert lost(check(executor=pool)) == 0

    def test_the_table_does_not_depend_on_threads_or_on_the_run(self):
        first, again = check(threads=1), check(threads=1)
        two = check(threads=2)
        assert np.array_equal(first.mechanism.table, again.mechanism.table)
        assert np.array_equal(first.mechanism.table, two.mechanism.table)
        assert first.lower_bound == again.lower_bound == two.lower_bound


class Lazy(Executor):
    """Never does anything."""

    def submit(self, function, /, *arguments, **named):
        return Future()


class Elsewhere(Executor):
    """Does things one after the other, and is not known to be threads of this process."""

    def __init__(self):
        self.pool = ThreadPoolExecutor(1)

    def submit(self, function, /, *arguments, **named):
        return self.pool.submit(function, *arguments, **named)

    def shutdown(self, wait=True, *, cancel_futures=False):
        self.pool.shutdown(wait=wait, cancel_futures=cancel_futures)


class Refusing(Executor):
    def submit(self, function, /, *arguments, **named):
        raise OSError("gone")


def slow(seconds):
    time.sleep(seconds)
    return seconds


class TestWorkers:
    def test_order_of_answers(self):
        with ThreadPoolExecutor(4) as pool:
            assert Workers(pool).run(slow, [0.1, 0.0, 0.05], Stop()) == [0.1, 0.0, 0.05]

    def test_nobody_works(self):
        crew = Workers(Lazy(), patience=0.05)
        assert crew.run(math.sqrt, [4.0, 9.0], Stop()) == [2.0, 3.0]
        assert crew.n_lost == 2

    def test_nothing_is_taken(self):
        crew = Workers(Refusing())
        assert crew.run(math.sqrt, [4.0, 9.0], Stop()) == [2.0, 3.0]
        assert crew.n_lost == 2

    def test_patience_follows_what_tasks_take(self):
        """A task that takes long here is given more time elsewhere; hanging workers are not waited for twice."""
        crew = Workers(Lazy(), patience=0.05)
        crew.run(slow, [0.3], Stop())
        assert crew.patience >= 3 * 0.3
        crew = Workers(Lazy(), patience=1.5)
        crew.run(math.sqrt, [4.0], Stop())
        assert crew.patience <= executors.LEAST_PATIENCE_SECONDS

    def test_answers_that_keep_coming_are_waited_for(self):
        with Elsewhere() as pool:
            crew = Workers(pool, patience=1.0)
            assert crew.run(slow, [0.3] * 5, Stop()) == [0.3] * 5
            assert crew.n_lost == 0

    def test_threads_of_this_process_are_never_given_up(self):
        with ThreadPoolExecutor(1) as pool:
            assert Workers(pool).patience == math.inf
        assert Workers(Lazy()).patience == executors.PATIENCE_SECONDS

    @pytest.mark.parametrize("executor", [Lazy(), Refusing()])
    def test_stops(self, executor):
        stop = Stop()
        threading.Timer(0.2, stop.request_end).start()
        begin = time.monotonic()
        assert Workers(executor, threads=1).run(slow, [0.5] * 100, stop) is None
        assert time.monotonic() - begin < 10.0

    def test_a_task_that_was_broken_off(self):
        def broken(task):
            raise StoppedError("no time")

        with ThreadPoolExecutor(1) as pool:
            assert Workers(pool).run(broken, [1], Stop()) is None

    def test_a_task_shows_its_own_error(self):
        with ThreadPoolExecutor(1) as pool, pytest.raises(ValueError, match="math domain error"):
            Workers(pool).run(math.sqrt, [1.0, -1.0], Stop())

    def test_default_is_threads(self):
        with workers(threads=3) as crew:
            assert isinstance(crew.executor, ThreadPoolExecutor)
            assert crew.threads == 3


class TestWarmModels:
    def test_runs_leave_nothing_behind(self, monkeypatch):
        # a run that was broken off may leave models of late subproblems until others take their place
        monkeypatch.setattr(warm, "_models", {})
        monkeypatch.setattr(warm, "_stops", {})
        solve_town()
        assert not warm._models
        assert not warm._stops

    def test_a_worker_keeps_the_last_runs_only(self, monkeypatch):
        monkeypatch.setattr(warm, "_models", {})
        for run in range(3 * warm.RUNS_KEPT):
            warm.keep("in use all the time", 0, warm.take("in use all the time", 0) or "first")
            for block in range(5):
                warm.keep(f"run {run}", block, object())
        kept = {name for name, _ in warm._models}
        assert len(kept) == warm.RUNS_KEPT
        assert kept >= {"in use all the time", f"run {3 * warm.RUNS_KEPT - 1}"}
        assert warm.take("in use all the time", 0) == "first"
        assert warm.take("in use all the time", 0) is None

    def test_processes_that_work_for_many_runs(self, processes):
        for _ in range(warm.RUNS_KEPT + 2):
            solve_town(executor=processes, gap=0.05)
        kept = [processes.submit(count_runs).result() for _ in range(4)]
        assert 0 < max(kept) <= warm.RUNS_KEPT


def test_models_of_a_run_that_was_started_elsewhere_do_not_stay(monkeypatch):
    """A worker hears nothing of a run's end: what nobody uses is dropped."""
    monkeypatch.setattr(warm, "IDLE_SECONDS", 0.4)
    warm.keep("elsewhere", 0, "model")
    warm.begin_run("own", Stop(None))
    warm.keep("own", 0, "model")
    time.sleep(0.25)
    warm.keep("elsewhere", 1, "another")  # used again: it stays
    time.sleep(0.25)
    assert warm.take("elsewhere", 0) == "model"
    deadline = time.monotonic() + 20.0
    while time.monotonic() < deadline and warm._used:
        time.sleep(0.05)
    assert warm.take("elsewhere", 1) is None
    assert warm.take("own", 0) == "model"
    warm.end_run("own")
    assert not warm._stops


def count_runs():
    return len({name for name, _ in warm._models})


class TestFailures:
    """Faults of the LP solver that no input provokes are put into its place."""

    def fail(self, monkeypatch, tmp_path, *, also_again):
        monkeypatch.setattr(subproblem.tempfile, "tempdir", str(tmp_path))
        solve, bad = subproblem.BlockModel.solve, []

        def solve_or_fail(model, task, stop):
            if task.block.number == 2 and (model.program.algorithm == "simplex" or also_again):
                bad.append(task)
                monkeypatch.setattr(model.program, "solve", give_up)
            return solve(model, task, stop)

        def give_up(**_):
            raise SolverError("the LP solver gave up: Unknown")

        monkeypatch.setattr(subproblem.BlockModel, "solve", solve_or_fail)
        return bad

    def test_goes_on_by_another_algorithm(self, monkeypatch, tmp_path):
        bad = self.fail(monkeypatch, tmp_path, also_again=False)
        result = solve_town()
        assert bad
        assert result.status is mdp.Status.OPTIMAL
        rows = [row for row in result.trace.rows if row["stage"] == "trouble"]
        assert {row["block"] for row in rows} == {2}
        assert "the LP solver gave up: Unknown" in rows[0]["trouble"]
        file = Path(rows[0]["trouble"].rsplit(" in ", 1)[1])
        assert file.parent == tmp_path
        assert "block-2" in file.name
        self.check_readable(file)

    def test_ends_with_a_word_on_the_block_and_its_file(self, monkeypatch, tmp_path):
        self.fail(monkeypatch, tmp_path, also_again=True)
        with pytest.raises(SolverError, match=r"block 2 \(\d+ records\) could not be solved.*gave up.*by ipx.*HiGHS"):
            solve_town()
        files = list(tmp_path.glob("metricdp-block-2-*.mps"))
        assert len(files) == 1
        self.check_readable(files[0])

    def test_surroundings_that_fail_are_done_without(self, monkeypatch):
        solve_halo = LOOP.solve_halo

        def fail(component, block, options, stop):
            if block.number == 1:
                raise SolverError("the LP solver gave up: Unknown")
            return solve_halo(component, block, options, stop)

        monkeypatch.setattr(LOOP, "solve_halo", fail)
        result = solve_town(options=mdp.BendersOptions(n_blocks=4))
        assert result.status is mdp.Status.OPTIMAL
        assert any(row["stage"] == "trouble" and row["block"] == 1 for row in result.trace.rows)

    def test_master_without_a_solution(self, monkeypatch):
        """Case C3 of the paper: every true problem has a solution, so the solver is wrong; the run says so."""
        solve, calls = Master.solve, []

        def infeasible(master, stop, is_enough):
            calls.append(1)
            if len(calls) > 2:
                raise InfeasibleError("the linear program has no solution")
            return solve(master, stop, is_enough)

        monkeypatch.setattr(Master, "solve", infeasible)
        result = solve_town(gap=1e-6)
        assert [row["stage"] for row in result.trace.rows].count("gave up") >= 1
        assert result.status is mdp.Status.FAILED
        assert result.mechanism.certificate.privacy.certified
        assert 0.0 < result.lower_bound < result.loss < math.inf

    @staticmethod
    def check_readable(file):
        import highspy

        reader = highspy.Highs()
        reader.setOptionValue("output_flag", False)
        assert reader.readModel(str(file)) == highspy.HighsStatus.kOk
        assert reader.getNumRow() > 0


def test_a_block_is_broken_off_at_the_deadline_that_came_with_it():
    """Elsewhere than in the run's own process there is only the task's deadline."""
    program = LinearProgram(np.ones(1), np.zeros(1), np.ones(1))
    assert program.solve(stop=warm.stop_of("unknown run", 60.0)).is_optimal
    assert warm.stop_of("unknown run", 0.0).is_due
    stop = Stop()
    warm.begin_run("own", stop)
    assert warm.stop_of("own", 0.0) is stop
    warm.end_run("own")
