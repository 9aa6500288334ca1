"""Bounds of the first-order method: valid for any multipliers, and those of the shared formula."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import coo_array
from tests.conftest import DATASETS, linprog_optimum, small_problem
from tests.mechanism.independent import exp_bounds

from metricdp.errors import SolverError
from metricdp.metric import MdpGraph
from metricdp.solve.bounds import RowDuals, lower_bound
from metricdp.solve.component import Component
from metricdp.solve.executor import workers
from metricdp.solve.solvers.firstorder import bounds, iterate, polish
from metricdp.solve.solvers.firstorder.bounds import certified_bound, most_violated, unit_duals
from metricdp.solve.solvers.firstorder.iterate import Iteration
from metricdp.solve.solvers.firstorder.network import Network, first_edges
from metricdp.solve.solvers.firstorder.polish import Polisher
from metricdp.solve.stop import Stop

WIDTH = 8


def component_of(problem):
    """The largest component."""
    rows = max(problem.graph.components, key=len)
    return Component(problem.costs[rows], problem.graph.subgraph(rows), problem.epsilon, cost_roundings=2)


def iteration_of(component, *, steps=0, stretch=0.02, weight=1.0):
    iteration = Iteration(Network(component, first_edges(component.graph, stretch)), weight=weight)
    for _ in range(steps):
        iteration.advance()
    return iteration


def with_random_multipliers(component, seed, scale, *, density=0.3):
    iteration = iteration_of(component)
    generator = np.random.default_rng(seed)
    Y = scale * generator.standard_normal(iteration.Y.shape) * (generator.random(iteration.Y.shape) < density)
    iteration.resume(iteration.Z, Y.astype(np.float32), 0)
    return iteration


def optimum_of(component):
    """The optimum and the duals of the unit sums, by scipy on all rows ``exp(-s) z_i <= z_j``."""
    n, K = component.costs.shape
    i, j = component.graph.pairs.T.astype(np.int64)
    decay = np.tile(np.exp(-component.epsilon * component.graph.distances), 2)
    tail, head = np.concatenate((i, j)), np.concatenate((j, i))
    count = len(tail) * K
    columns = np.concatenate([(end[:, None] * K + np.arange(K)).ravel() for end in (tail, head)])
    values = np.concatenate((np.repeat(decay, K), np.full(count, -1.0)))
    A = coo_array((values, (np.tile(np.arange(count), 2), columns)), shape=(count, n * K)).tocsr()
    unit = coo_array((np.ones(n * K), (np.repeat(np.arange(n), K), np.arange(n * K))), shape=(n, n * K)).tocsr()
    scale = component.costs.max()
    answer = linprog(
        component.costs.ravel() / scale, A_ub=A, b_ub=np.zeros(count), A_eq=unit, b_eq=np.ones(n), method="highs"
    )
    assert answer.status == 0, answer.message
    return answer.fun * scale, answer.eqlin.marginals * scale


def multipliers(iteration):
    """Each positive multiplier as (record that pays, record that gains, output, epsilon d, amount), in plain loops."""
    net, found = iteration.network, []
    for t, e, k in zip(*np.nonzero(iteration.Y), strict=True):
        column = t * WIDTH + k
        if column >= net.K:
            continue
        y = float(iteration.Y[t, e, k])
        ends = (net.order[net.tail[e]], net.order[net.head[e]])
        pays, gains = ends if y > 0 else ends[::-1]
        found.append((pays, gains, net.outputs[column], net.exponent[e], abs(y) * float(net.b[e]) * net.scale))
    return found


def reduced_costs(iteration):
    reduced = iteration.network.component.costs.copy()
    for pays, gains, output, exponent, amount in multipliers(iteration):
        reduced[pays, output] += np.exp(-exponent) * amount
        reduced[gains, output] -= amount
    return reduced


def shared_bound(iteration):
    """The same multipliers in the formula of all solvers."""
    component, found = iteration.network.component, multipliers(iteration)
    pays, gains, output = (np.array([row[part] for row in found], dtype=np.int64) for part in range(3))
    exponent, amount = (np.array([row[part] for row in found]) for part in (3, 4))
    duals = RowDuals(pays, gains, output, exponent, amount * np.exp(-exponent))
    return lower_bound(component.costs, duals, cost_roundings=component.cost_roundings)


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("exponent", [0.05, 1.0, 6.0])
def test_bounds_of_the_iterates_are_valid_and_those_of_the_shared_formula(dataset, exponent):
    problem = small_problem(dataset, seed=5, n=20, outputs=11, exponent=exponent)
    component = component_of(problem)
    truth, _ = optimum_of(component)
    iteration, seen = iteration_of(component), []
    for _ in range(8):
        for _ in range(25):
            iteration.advance()
        bound = certified_bound(iteration)
        assert bound <= truth * (1 + 1e-9)
        assert bound == pytest.approx(shared_bound(iteration), rel=1e-11, abs=1e-12 * truth)
        seen.append(bound)
    assert max(seen) > 0.5 * truth


@pytest.mark.parametrize("scale", [0.0, 1e-6, 1e-2, 1.0, 1e3])
@pytest.mark.parametrize("seed", range(4))
def test_any_multipliers_give_a_valid_bound(scale, seed):
    problem = small_problem(DATASETS[seed], seed=seed, n=16, outputs=9)
    component = component_of(problem)
    iteration = with_random_multipliers(component, seed, scale)
    bound = certified_bound(iteration)
    assert 0.0 <= bound <= optimum_of(component)[0] * (1 + 1e-9)
    assert bound == pytest.approx(shared_bound(iteration), rel=1e-9, abs=1e-13 * (1 + scale))
    if scale == 0.0:
        assert bound == pytest.approx(component.costs.min(axis=1).sum(), rel=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_never_above_exact_arithmetic(seed):
    """L(y) of the very same multipliers in fractions; costs far apart in size, so that rounding shows."""
    generator = np.random.default_rng(seed)
    n, K = int(generator.integers(2, 6)), int(generator.integers(1, 11))
    pairs = np.array([(i, j) for i in range(n) for j in range(i + 1, n)], dtype=np.int32)
    distances = generator.uniform(0.01, 3.0, len(pairs))
    epsilon = float(generator.uniform(0.1, 5.0))
    costs = generator.exponential(size=(n, K)) * 10.0 ** generator.integers(-9, 3, size=(n, K)) + 1.0
    component = Component(costs, MdpGraph(n, pairs, distances), epsilon, cost_roundings=1)
    iteration = iteration_of(component, steps=60, stretch=0.0)
    net = iteration.network
    where = {tuple(sorted(pair)): d for pair, d in zip(pairs.tolist(), distances, strict=True)}
    value = [[Fraction(float(cost)) for cost in row] for row in costs]
    for pays, gains, output, _, amount in multipliers(iteration):
        d = where[min(int(pays), int(gains)), max(int(pays), int(gains))]
        value[pays][output] += Fraction(amount) / exp_bounds(Fraction(epsilon) * Fraction(float(d)))[1]
        value[gains][output] -= Fraction(amount)
    exact = sum(min(row) for row in value)
    bound = certified_bound(iteration)
    assert net.m == len(pairs)
    assert Fraction(bound) <= max(exact, 0)
    assert bound >= float(exact) * (1 - 1e-10)


def test_the_bound_is_for_all_pairs_though_few_take_part():
    problem = small_problem("gaussian", seed=2, n=24, outputs=9, exponent=0.7)
    component = component_of(problem)
    iteration = iteration_of(component, steps=300, stretch=0.5)
    assert iteration.network.m < component.graph.n_pairs
    before = certified_bound(iteration)
    assert before <= optimum_of(component)[0] * (1 + 1e-9)
    iteration.extend(np.arange(component.graph.n_pairs))
    assert iteration.network.has_all_pairs
    # multipliers of new pairs are zero: nothing but the order of summation changes
    assert certified_bound(iteration) == pytest.approx(before, rel=1e-12)


@pytest.mark.parametrize("K", [3, 9, 520])
def test_one_thread_or_many_gives_the_same_reduced_costs(K, monkeypatch):
    generator = np.random.default_rng(K)
    graph = small_problem("road", seed=1, n=80, outputs=3).graph
    component = Component(generator.exponential(size=(graph.n, K)), graph, 1.0)
    iteration = with_random_multipliers(component, 0, 0.1, density=0.05)
    net, found = iteration.network, []
    for parallel_from in (np.inf, 0):
        monkeypatch.setattr(iterate, "PARALLEL_STEPS_FROM", parallel_from)
        least, reduced = np.empty(net.n), np.empty((net.n, K))
        bounds._reduce(iteration, least, reduced)
        found.append((least, reduced))
    assert np.array_equal(found[0][0], found[1][0])
    assert np.array_equal(found[0][1], found[1][1])
    expected = reduced_costs(iteration)[net.order]
    np.testing.assert_allclose(found[0][0], expected.min(axis=1), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found[0][1], expected[:, net.outputs], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dataset", DATASETS)
def test_unit_duals_are_reduced_costs_averaged_with_the_rows(dataset):
    component = component_of(small_problem(dataset, seed=7, n=20, outputs=11))
    iteration = iteration_of(component, steps=150)
    rows = np.maximum(iteration.network.untiled(iteration.Z), 0.0)
    reduced = reduced_costs(iteration)
    expected = (rows * reduced).sum(axis=1) / rows.sum(axis=1)
    duals = unit_duals(iteration)
    np.testing.assert_allclose(duals, expected, rtol=1e-9, atol=1e-12 * component.scale)
    assert (duals >= reduced.min(axis=1) - 1e-9 * component.scale).all()


def test_unit_duals_come_near_those_of_the_linear_program():
    component = component_of(small_problem("gaussian", seed=3, n=20, outputs=5))
    truth, _ = optimum_of(component)
    iteration = iteration_of(component, steps=3000, stretch=0.0)
    assert unit_duals(iteration).sum() == pytest.approx(truth, rel=2e-3)


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("seed", range(3))
def test_most_violated(dataset, seed):
    """The pairs outside the iteration whose rows are violated most, by plain loops."""
    component = component_of(small_problem(dataset, seed=seed, n=30, outputs=11))
    iteration = iteration_of(component, steps=40, stretch=0.7)
    graph, Z = component.graph, np.maximum(iteration.network.untiled(iteration.Z), 0.0)
    inside, excess = set(iteration.network.chosen.tolist()), {}
    for p, ((i, j), d) in enumerate(zip(graph.pairs, graph.distances, strict=True)):
        decay = np.exp(-component.epsilon * d)
        worst = max((decay * Z[i] - Z[j]).max(), (decay * Z[j] - Z[i]).max())
        if p not in inside and worst > 1e-5:
            excess[p] = worst
    assert sorted(most_violated(iteration, 10**6, 1e-5).tolist()) == sorted(excess)
    few = most_violated(iteration, 3, 1e-5).tolist()
    assert len(few) == min(3, len(excess))
    left = [value for p, value in excess.items() if p not in few]
    assert min((excess[p] for p in few), default=1.0) >= max(left, default=0.0) - 1e-6


def test_nothing_is_violated_by_equal_rows():
    component = component_of(small_problem("road", seed=1, n=30, outputs=11))
    iteration = iteration_of(component, stretch=0.7)
    Z = iteration.network.tiled(np.full(component.costs.shape, 1 / 11), 0.0)
    iteration.resume(Z, iteration.Y, 0)
    assert len(most_violated(iteration, 100, 1e-5)) == 0


def polished(component, duals, stop=None):
    with workers(threads=1) as crew:
        polisher = Polisher(component, crew, stop or Stop())
        try:
            proof = polisher.polish(duals)
            return 0.0 if proof is None else polisher.bound(proof)
        finally:
            polisher.forget()


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("exponent", [0.05, 1.0, 6.0])
def test_polished_bounds(dataset, exponent):
    """Never above the optimum whatever the duals, and the optimum itself at the right ones."""
    component = component_of(small_problem(dataset, seed=4, n=16, outputs=6, exponent=exponent))
    truth, duals = optimum_of(component)
    assert polished(component, duals) == pytest.approx(truth, rel=1e-6)
    generator = np.random.default_rng(0)
    for noise in (1e-3, 1.0, 100.0):
        guess = duals + noise * np.abs(duals).mean() * generator.standard_normal(len(duals))
        assert 0.0 <= polished(component, guess) <= truth * (1 + 1e-9)


def test_polishing_at_the_iterations_duals_is_no_worse():
    component = component_of(small_problem("road", seed=4, n=24, outputs=8, exponent=0.3))
    iteration = iteration_of(component, steps=400, stretch=0.0)
    truth, _ = optimum_of(component)
    better = polished(component, unit_duals(iteration))
    assert certified_bound(iteration) < better <= truth * (1 + 1e-9)


def test_polishing_that_is_broken_off_proves_nothing():
    component = component_of(small_problem("road", seed=4, n=24, outputs=8))
    stop = Stop()
    stop.request_end()
    assert polished(component, np.zeros(component.n), stop) == 0.0


def test_polishing_that_fails_proves_nothing(monkeypatch):
    def fail(task):
        raise SolverError("the LP solver gave up")

    monkeypatch.setattr(polish, "price_output", fail)
    component = component_of(small_problem("road", seed=4, n=24, outputs=8))
    assert polished(component, np.zeros(component.n)) == 0.0


def test_the_optimum_here_is_that_of_the_other_oracle():
    problem = small_problem("gaussian", seed=6, n=12, outputs=5)
    graph = problem.graph
    parts = [Component(problem.costs[rows], graph.subgraph(rows), problem.epsilon) for rows in graph.components]
    total = sum(optimum_of(part)[0] if part.n > 1 else part.costs.min() for part in parts)
    assert total == pytest.approx(linprog_optimum(problem), rel=1e-7)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_multipliers_that_ran_away_prove_nothing(bad):
    iteration = iteration_of(component_of(small_problem("road", seed=1, n=30, outputs=9, exponent=0.5)), steps=200)
    assert certified_bound(iteration) > 0.0
    t, e, k = (axis[0] for axis in np.nonzero(iteration.Y))
    iteration.Y[t, e, k] = bad
    assert certified_bound(iteration) == 0.0
