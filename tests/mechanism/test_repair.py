"""Any non-negative matrix becomes an exactly private table, and a good one hardly changes."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from tests.conftest import DATASETS, small_problem

import metricdp as mdp
from metricdp.mechanism import check_privacy, repair
from metricdp.metric import MdpGraph
from metricdp.solve.lp import LinearProgram


def check_repaired(Z, graph, epsilon, costs=None):
    table = repair(Z, graph, epsilon, costs=costs)
    check = check_privacy(table, graph.pairs, graph.distances, epsilon)
    assert check.certified, check.fault
    return table


def spoiled(generator, base):
    """A private matrix, spoiled in one of many ways."""
    Z = base.copy()
    kind = generator.integers(9)
    where = generator.random(Z.shape) < generator.random()
    if kind <= 3:
        Z *= 1 + 10.0 ** generator.uniform(-12, -3) * generator.standard_normal(Z.shape)
    elif kind == 4:
        Z[where] = 0.0
    elif kind == 5:
        Z[where] *= 10.0 ** generator.uniform(0, 300)
    elif kind == 6:
        Z *= 10.0 ** generator.uniform(-300, 300, (len(Z), 1))
    elif kind == 7:
        Z = generator.exponential(size=Z.shape) ** generator.integers(1, 20)
    else:
        Z[generator.integers(len(Z))] = 0.0
        Z[where] = 10.0 ** generator.uniform(-320, 308)
    return np.abs(Z)


def spoiled_problems():
    return [
        small_problem(name, seed=s, n=10, outputs=5, exponent=e)
        for s, (name, e) in enumerate((name, e) for name in DATASETS for e in (1e-6, 0.3, 2.0, 20.0, 50.0))
    ]


def check_spoiled(count, seed):
    generator = np.random.default_rng(seed)
    problems = spoiled_problems()
    bases = [mdp.exponential(problem).probabilities for problem in problems]
    for number in range(count):
        which = number % len(problems)
        problem = problems[which]
        costs = problem.costs if generator.random() < 0.5 else None
        with np.errstate(over="ignore"):
            Z = np.minimum(spoiled(generator, bases[which]), np.finfo(float).max)
        check_repaired(Z, problem.graph, problem.epsilon, costs)


def test_spoiled_matrices():
    check_spoiled(1_000, seed=1)


@pytest.mark.slow
def test_ten_thousand_spoiled_matrices():
    check_spoiled(10_000, seed=2)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1e-300, -1.0])
def test_nonsense_is_refused(value):
    problem = small_problem("grid", seed=0)
    Z = np.full((problem.n_records, problem.n_outputs), 0.1)
    Z[3, 2] = value
    with pytest.raises(mdp.InputError, match=r"record 3 and output 2 \(1 such"):
        repair(Z, problem.graph, problem.epsilon)
    with pytest.raises(mdp.InputError):
        mdp.Mechanism.from_matrix(problem, Z)


@pytest.mark.parametrize("shape", [(3, 4), (12,), (12, 0), (12, 2, 2)])
def test_wrong_shapes_are_refused(shape):
    with pytest.raises(mdp.InputError, match="one row for each of the 12 records"):
        repair(np.ones(shape), small_problem("grid", seed=0).graph, 1.0)


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("largest", [0.5, 2.0, 8.0, 20.0])
def test_an_optimal_solution_loses_at_most_a_millionth(dataset, largest):
    """The loss after repair against the solver's own optimum, with epsilon d up to 20."""
    base = small_problem(dataset, seed=6, n=40, outputs=12)
    epsilon = largest / base.graph.distances.max()
    problem = mdp.Problem(base.records, epsilon=epsilon, eta=base.eta, outputs=base.outputs.rows)
    rows = []
    result = mdp.solve(problem, method="direct", gap=1e-5, listener=rows.append)
    # the last objective of each component, as the LP solver left it, and the components of one record
    direct = [row for row in rows if row["stage"] == "direct"]
    optimum = sum(row["objective"] for row in direct if row["violated"] == 0)
    sizes = np.bincount(problem.graph.labels)
    alone = sizes[problem.graph.labels] == 1
    optimum += problem.costs[alone].min(axis=1).sum()
    assert result.loss <= optimum * (1 + 1e-6)


@pytest.mark.parametrize("exponent", [1e-6, 1.0, 16.0, 20.0, 34.0, 50.0, 700.0, 1e4, 1e300])
def test_every_exponent_is_certified(exponent):
    graph = MdpGraph(3, np.array([[0, 1], [1, 2]], dtype=np.int32), np.array([1.0, 1.0]))
    for Z in (np.eye(3), np.full((3, 3), 1 / 3), np.diag([1.0, 1e-200, 1e200])):
        table = check_repaired(Z, graph, exponent)
        assert (table > 0).all()


def test_tiny_distances_next_to_large_ones():
    distances = np.array([1e-9, 1e-5, 3.0, 1e-300])
    graph = MdpGraph(5, np.array([[0, 1], [1, 2], [2, 3], [3, 4]], dtype=np.int32), distances)
    for seed in range(50):
        Z = np.random.default_rng(seed).exponential(size=(5, 6))
        check_repaired(Z, graph, 10.0)


def test_records_at_distance_zero_get_equal_rows():
    graph = MdpGraph(3, np.array([[0, 1], [1, 2]], dtype=np.int32), np.array([0.0, 2.0]))
    table = check_repaired(np.random.default_rng(0).exponential(size=(3, 4)), graph, 1.0)
    assert np.array_equal(table[0], table[1])


def test_private_matrices_are_hardly_changed():
    problem = small_problem("gaussian", seed=4, n=60, outputs=20)
    private = mdp.exponential(problem).probabilities
    table = check_repaired(private, problem.graph, problem.epsilon, problem.costs)
    assert np.abs(table / 2.0**63 - private).max() < 1e-9


def test_no_neighbours_keep_their_rows():
    graph = MdpGraph(2, np.zeros((0, 2), dtype=np.int32), np.zeros(0))
    table = check_repaired(np.array([[0.0, 3.0], [1.0, 0.0]]), graph, 1.0)
    assert table.tolist() == [[0, 1 << 63], [1 << 63, 0]]


def test_optimal_lp_with_infinite_loss():
    """A float solver calls z = 0 beside a positive probability optimal once epsilon d passes 16.

    Rows exp(-s) z_i <= z_j, two records, two outputs, loss 1 for the wrong one. The point that comes back has an
    infinite privacy loss; what leaves the library has not.
    """
    s = 17.0
    program = LinearProgram(np.array([0.0, 1.0, 1.0, 0.0]), np.zeros(4), np.ones(4), tolerance=1e-7)
    unit = np.array([0, 1, 2, 3], dtype=np.int32)
    program.add_rows(np.ones(2), np.ones(2), np.array([0, 2], dtype=np.int32), unit, np.ones(4))
    pairs = np.array([0, 2, 2, 0, 1, 3, 3, 1], dtype=np.int32)
    values = np.tile([math.exp(-s), -1.0], 4)
    program.add_rows(np.full(4, -np.inf), np.zeros(4), np.arange(0, 8, 2, dtype=np.int32), pairs, values)
    solution = program.solve()
    Z = solution.x.reshape(2, 2)
    assert solution.is_optimal
    assert (Z == 0).any()
    assert (Z > 0.5).any()
    graph = MdpGraph(2, np.array([[0, 1]], dtype=np.int32), np.array([1.0]))
    as_integers = np.rint(Z * 2.0**63).astype(np.uint64)
    assert not check_privacy(as_integers, graph.pairs, graph.distances, s).certified
    table = check_repaired(Z, graph, s)
    assert (table > 0).all()


def test_memory_stays_far_below_n_squared():
    """3,000 records: an N x N matrix would take 72 MB; the table takes 0.5 MB."""
    records = mdp.data.gaussian(3_000, seed=0)
    graph = mdp.Problem(records, epsilon=1.0, eta=0.8, outputs=20).graph
    Z = np.random.default_rng(0).exponential(size=(3_000, 20))
    repair(Z, graph, 1.0)  # compile first
    tracemalloc.start()
    repair(Z, graph, 1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6
