"""The clock: stages of the windowed solver end early, and a bound never costs the table."""

from __future__ import annotations

import numpy as np
import pytest
from tests.solve.local.exact import fault

import metricdp as mdp
from metricdp.errors import StoppedError
from metricdp.mechanism.expected import table_loss
from metricdp.solve.result import Trace
from metricdp.solve.solvers.local import loop
from metricdp.solve.solvers.local.complete import complete, kernel_prices
from metricdp.solve.solvers.local.iterate import Iteration
from metricdp.solve.solvers.local.loop import solve_windows
from metricdp.solve.solvers.local.method import local_problem
from metricdp.solve.solvers.local.network import network_of
from metricdp.solve.solvers.local.options import LocalOptions
from metricdp.solve.solvers.local.problem import nodes_within
from metricdp.solve.stop import Stop


def places(n):
    records = mdp.data.road("gothenburg").nearest((57.7072, 11.9668), n)
    return mdp.Problem(records, epsilon=7.0, eta=0.3, loss="distance")


def test_a_completion_can_be_interrupted(monkeypatch):
    monkeypatch.setattr("metricdp.solve.solvers.local.complete.GROUPS_AT_ONCE", 2)
    nodes = nodes_within(local_problem(places(90)), 0.0)
    iteration = Iteration(network_of(nodes, np.full(nodes.n, np.inf), 0.01, is_over=lambda: False))
    prices, looks = kernel_prices(iteration), []

    def is_over():
        looks.append(True)
        return len(looks) > 3

    with pytest.raises(StoppedError, match="a completion was interrupted"):
        complete(iteration.network, iteration.Y, prices, sweeps=1, is_large=False, is_over=is_over)
    assert len(looks) == 4


def test_parts_of_a_completion_make_the_whole(monkeypatch):
    nodes = nodes_within(local_problem(places(90)), 0.0)
    iteration = Iteration(network_of(nodes, np.full(nodes.n, np.inf), 0.01, is_over=lambda: False))
    prices, found = kernel_prices(iteration), []
    for size in (2, 1000):
        monkeypatch.setattr("metricdp.solve.solvers.local.complete.GROUPS_AT_ONCE", size)
        Y = np.zeros_like(iteration.Y)
        complete(iteration.network, Y, prices, sweeps=1, is_large=False)
        found.append(Y)
    assert found[0].any()
    assert np.array_equal(*found)


@pytest.mark.parametrize("is_dear", [False, True])
def test_a_completion_without_time_is_left_out_and_the_table_made(monkeypatch, is_dear):
    """A completion that would take longer than what is left must not use up the time of the repair."""
    completed = []
    whole = loop._Run._completed
    monkeypatch.setattr(loop._Run, "_completed", lambda run, *given: completed.append(True) or whole(run, *given))
    monkeypatch.setattr(loop, "SWEEPS", 1e12 if is_dear else 3)
    problem = places(60)
    found = solve_windows(
        local_problem(problem),
        problem.losses,
        gap=1e-4,
        stop=Stop(600.0),
        trace=Trace(),
        options=LocalOptions(max_iterations=40),
    )
    assert bool(completed) is not is_dear
    assert found.table.n_stored > 0
    assert not fault(found.table, problem.graph, problem.epsilon)


def test_a_small_limit_on_many_places_holds_in_every_stage():
    """Limits that end in the start, between steps and in a look: each leaves a private table."""
    problem = places(1_000)
    for limit in (0.05, 0.5, 2.0):
        result = mdp.solve(problem, method="local", gap=1e-6, time_limit=limit)
        assert result.status is mdp.Status.LIMIT
        assert result.mechanism.certificate.privacy.certified
        assert 0.0 <= result.lower_bound <= result.loss


def test_a_run_without_a_table_ends_with_a_simple_mechanism(monkeypatch):
    """Nobody wants one output for all in place of the exponential mechanism, because a limit came before a table."""

    def interrupted(*_, **__):
        raise StoppedError("it was time to stop")

    monkeypatch.setattr(loop, "kernel_prices", interrupted)
    problem = places(120)
    result = mdp.solve(problem, method="local", gap=1e-6, time_limit=60.0)
    assert result.status is mdp.Status.LIMIT
    assert result.mechanism.certificate.privacy.certified
    assert result.solver in {"cheapest output", "local, cut off; exponential mechanism where unfinished"}
    assert result.loss <= table_loss(mdp.exponential(problem).table, problem)


def test_windows_that_hold_everything_ask_for_no_memory():
    records = mdp.data.words().select(range(40))
    problem = mdp.Problem(records, epsilon=1.0, eta="connect", loss="distance")
    stop, trace = Stop(None), Trace()
    stop.most_bytes = 0.0
    options = LocalOptions(max_iterations=200)
    solve_windows(local_problem(problem), problem.losses, gap=1e-6, stop=stop, trace=trace, options=options)
    assert max(row.get("entries", 0) for row in trace.rows) == 40 * 40
    assert not any("larger windows" in str(row.get("trouble")) for row in trace.rows)


def test_the_first_multipliers_say_that_they_are_made(monkeypatch):
    monkeypatch.setattr(loop, "SECONDS_PER_NOTE", 0.0)
    trace, problem = Trace(), places(60)
    options = LocalOptions(max_iterations=1)
    solve_windows(local_problem(problem), problem.losses, gap=1e-6, stop=Stop(None), trace=trace, options=options)
    stages = [row["stage"] for row in trace.rows]
    assert stages.index("steps") < stages.index("local")
    assert next(row for row in trace.rows if row["stage"] == "steps")["iteration"] == 0
