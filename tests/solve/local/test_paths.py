"""Path lengths within windows, and steps where neighbours are far apart."""

from __future__ import annotations

import numpy as np
import pytest

import metricdp as mdp
from metricdp.metric.simd import WIDTH
from metricdp.solve.result import Trace
from metricdp.solve.solvers.local.iterate import Iteration
from metricdp.solve.solvers.local.loop import solve_windows
from metricdp.solve.solvers.local.method import local_problem
from metricdp.solve.solvers.local.network import network_of
from metricdp.solve.solvers.local.options import LocalOptions
from metricdp.solve.solvers.local.paths import are_far_apart
from metricdp.solve.solvers.local.problem import nodes_within
from metricdp.solve.stop import Stop


def words(epsilon, n=60, eta=6.0):
    return mdp.Problem(mdp.data.words(n=n, seed=1), epsilon=epsilon, eta=eta, loss="distance")


def network(problem, stretch=0.0):
    local = local_problem(problem)
    nodes = nodes_within(local, 0.0)
    return network_of(nodes, np.full(nodes.n, np.inf), stretch, is_over=lambda: False)


def test_weights_follow_paths_where_neighbours_are_far_apart():
    problem = words(1.0)
    net = network(problem)
    nodes, order = net.nodes, net.nodes.problem.output_order
    paths = problem.graph.path_distances(np.arange(60))
    straight = problem.metric.to_rows(problem.records, np.arange(60))
    expected = np.where(np.isfinite(paths), np.maximum(paths, straight), straight)
    assert (expected > straight + 0.1).any()
    far = net.costs.far.reshape(-1, WIDTH)
    for g in range(net.windows.n_groups):
        slots = slice(net.windows.group_start[g], net.windows.group_start[g + 1])
        rows = nodes.first[net.windows.member[slots]]
        assert far[slots] == pytest.approx(expected[np.ix_(rows, order[g * WIDTH : (g + 1) * WIDTH])], rel=1e-5)


def test_straight_distances_where_neighbours_are_near():
    near = words(0.1)
    net = network(near)
    assert not are_far_apart(net.nodes)
    assert are_far_apart(network(words(1.0)).nodes)
    assert net.costs.far.max() <= 0.1 * near.metric.to_rows(near.records, np.arange(60)).max() * (1 + 1e-6)


def test_steps_differ_where_neighbours_are_far_apart():
    near, far = (Iteration(network(words(epsilon))) for epsilon in (0.1, 1.0))
    assert (near.rate, near.omega) != (far.rate, far.omega)


def test_the_first_bound_is_kept():
    """Where neighbours are far apart the first prices are nearly the best: the bound never falls below theirs."""
    problem, trace = words(2.0), Trace()
    found = solve_windows(
        local_problem(problem),
        problem.losses,
        gap=1e-3,
        stop=Stop(None),
        trace=trace,
        options=LocalOptions(max_iterations=40),
    )
    said = [row for row in trace.rows if row["stage"] == "windows"]
    assert "lower_bound" not in said[0]  # how large the windows are is said before the first multipliers
    first = next(row for row in said if "lower_bound" in row)
    assert 0.0 < first["lower_bound"] <= found.lower_bound <= found.loss
