"""Deadlines and Ctrl-C: the run ends in time with the best certified mechanism, its gap, and status LIMIT."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import metricdp as mdp
from metricdp.solve.stop import Stop

# takes each method minutes
LONG = ("grid:20x25", "--epsilon", "0.5", "--eta", "3", "--outputs", "100")
WITHIN = 2.0  # seconds, on a machine that has nothing else to do


def noise():
    """Seconds more for a machine that has: the tests themselves run side by side."""
    return 1.0 + os.getloadavg()[0] / os.cpu_count()


def long_problem():
    return mdp.Problem(mdp.data.grid(20, 25), epsilon=0.5, eta=3.0, outputs=100, seed=0)


@pytest.fixture(scope="module", autouse=True)
def _kernels_are_compiled():
    mdp.solve(mdp.Problem(mdp.data.grid(2, 2), epsilon=1.0, eta=1.0, outputs=2))


def check_cut_off(result):
    assert result.status is mdp.Status.LIMIT
    assert result.mechanism.certificate.privacy.certified
    assert 0.0 < result.lower_bound < result.loss
    assert 0.01 < result.gap < 1.0


class TestStop:
    def test_deadline(self):
        stop = Stop(0.05)
        assert not stop.is_due
        time.sleep(0.06)
        assert stop.is_due
        assert stop.seconds_left == 0.0
        assert not stop.is_end_requested

    def test_no_deadline(self):
        assert Stop().seconds_left == float("inf")
        assert not Stop().is_due

    def test_asking(self):
        stop, heard = Stop(), []
        with stop.telling(lambda: heard.append("a")):
            stop.request_end()
        stop.request_end()  # nobody listens any more
        assert stop.is_due
        assert heard == ["a"]
        with stop.telling(lambda: heard.append("late")):
            assert heard == ["a", "late"]

    def test_first_ctrl_c_asks_second_interrupts(self):
        was = signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background ignores it
        try:
            self.check_ctrl_c()
        finally:
            signal.signal(signal.SIGINT, was)

    @staticmethod
    def check_ctrl_c():
        before = signal.getsignal(signal.SIGINT)
        stop = Stop()
        with stop.on_interrupt():
            signal.raise_signal(signal.SIGINT)
            assert stop.is_end_requested
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is before

    def test_outside_the_main_thread_signals_are_left_alone(self):
        before = signal.getsignal(signal.SIGINT)
        seen = []

        def work():
            with Stop().on_interrupt():
                seen.append(signal.getsignal(signal.SIGINT))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert seen == [before]


@pytest.mark.slow  # about seconds of the clock, which a loaded machine does not keep
@pytest.mark.parametrize("method", ["direct", "benders"])
def test_time_limit(method):
    problem, begin = long_problem(), time.monotonic()
    result = mdp.solve(problem, method=method, time_limit=1.5)
    assert time.monotonic() - begin < 1.5 + WITHIN + noise()
    check_cut_off(result)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["direct", "benders"])
@pytest.mark.parametrize("limit", [5.0, 60.0])
def test_longer_time_limits(method, limit):
    problem, begin = long_problem(), time.monotonic()
    result = mdp.solve(problem, method=method, time_limit=limit)
    assert time.monotonic() - begin < limit + max(0.05 * limit, WITHIN) + noise()
    check_cut_off(result)


@pytest.mark.slow  # about seconds of the clock, which a loaded machine does not keep
@pytest.mark.parametrize("method", ["direct", "benders"])
def test_ctrl_c(method, tmp_path):
    file = tmp_path / "cut-off.mdp"
    run = subprocess.Popen(
        [sys.executable, "-m", "metricdp", "solve", *LONG, "--method", method, "-o", str(file), "--json", "--verbose"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with run:
        assert any(" start " in line for line in run.stderr)
        time.sleep(0.7)
        run.send_signal(signal.SIGINT)
        begin = time.monotonic()
        output, errors = run.communicate(timeout=60.0)
        assert time.monotonic() - begin < WITHIN + noise()
    assert run.returncode == 1, errors
    found = json.loads(output)
    assert found["status"] == "limit"
    assert found["certified"]
    assert 0.01 < found["gap"] < 1.0
    mechanism = mdp.load(file)  # checks it exactly
    assert mechanism.optimality.loss == found["loss"]


@pytest.mark.slow  # about seconds of the clock, which a loaded machine does not keep
@pytest.mark.parametrize("method", ["direct", "benders"])
def test_ctrl_c_right_at_the_start(method):
    """From the first row of the trace on, Ctrl-C gives a mechanism."""

    def interrupt(row):
        if row["stage"] == "start":
            os.kill(os.getpid(), signal.SIGINT)

    result = mdp.solve(long_problem(), method=method, listener=interrupt)
    check_cut_off(result)
    assert result.iterations <= 1


@pytest.mark.slow
def test_a_deaf_solver_does_not_hold_the_process(tmp_path):
    """HiPO looks at nothing for a minute while it orders a matrix of 721,500 rows."""
    words = ["--method", "direct", "--lp", "hipo", "--all-rows", "--time-limit", "4", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "metricdp", "solve", *LONG, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["seconds"] < 4 + WITHIN + noise()
