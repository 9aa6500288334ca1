"""The wrapper of the LP solver: the same optimum as scipy, duals with the right sign, honest ends."""

from __future__ import annotations

import threading
import time

import highspy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import metricdp as mdp
from metricdp.errors import InfeasibleError, MissingExtraError, SolverError
from metricdp.solve import lp
from metricdp.solve.lp import LinearProgram
from metricdp.solve.stop import Stop

SEEDS = st.integers(0, 2**32 - 1)


def random_rows(generator, n, m):
    """Rows ``a x <= b`` that a point inside the unit box satisfies."""
    matrix = np.where(generator.random((m, n)) < 0.6, generator.normal(size=(m, n)), 0.0)
    matrix[:, 0] = generator.uniform(0.5, 1.5, m)  # no empty row
    return matrix, matrix @ generator.uniform(0.2, 0.8, n) + generator.exponential(0.1, m)


def add(program, matrix, upper):
    row, column = np.nonzero(matrix)
    starts = np.searchsorted(row, np.arange(len(matrix))).astype(np.int32)
    program.add_rows(np.full(len(matrix), -np.inf), upper, starts, column.astype(np.int32), matrix[row, column])


def check(program, cost, lower, upper, matrix, limit, *, tolerance=1e-7):
    """The value is that of scipy, the point is feasible, and the dual proves the value (weak duality)."""
    solution = program.solve()
    expected = linprog(cost, A_ub=matrix, b_ub=limit, bounds=np.column_stack((lower, upper)), method="highs")
    assert expected.status == 0
    assert solution.is_optimal
    assert cost @ solution.x == pytest.approx(expected.fun, abs=tolerance)
    assert (solution.x >= lower - tolerance).all()
    assert (solution.x <= upper + tolerance).all()
    assert (matrix @ solution.x <= limit + tolerance).all()
    # a row a x <= b has a dual that is not positive: cost - dual a is what the bounds have to pay for
    assert (solution.row_dual <= tolerance).all()
    dual = np.minimum(solution.row_dual, 0.0)
    reduced = cost - dual @ matrix
    bound = dual @ limit + np.where(reduced > 0, reduced * lower, reduced * upper).sum()
    assert bound == pytest.approx(expected.fun, abs=tolerance)


@settings(max_examples=25)
@given(SEEDS, st.integers(1, 8), st.integers(1, 8))
def test_agrees_with_scipy_also_hot_started(seed, n, m):
    generator = np.random.default_rng(seed)
    cost, lower, upper = generator.normal(size=n), np.zeros(n), np.ones(n)
    program = LinearProgram(cost, lower, upper)
    matrix, limit = random_rows(generator, n, m)
    add(program, matrix, limit)
    check(program, cost, lower, upper, matrix, limit)
    # more rows
    more, more_limit = random_rows(generator, n, m)
    limit = np.concatenate((limit, more_limit + np.abs(more).sum(axis=1)))
    matrix = np.vstack((matrix, more))
    add(program, more, limit[m:])
    check(program, cost, lower, upper, matrix, limit)
    # other costs of the first columns, then wider bounds
    cost = cost.copy()
    cost[: (n + 1) // 2] = generator.normal(size=(n + 1) // 2)
    program.set_costs(cost[: (n + 1) // 2])
    check(program, cost, lower, upper, matrix, limit)
    lower, upper = lower - generator.random(n), upper + generator.random(n)
    program.set_bounds(lower, upper)
    check(program, cost, lower, upper, matrix, limit)
    assert program.n_rows == 2 * m


@pytest.mark.parametrize("algorithm", ["ipx", "hipo"])
def test_interior_point_methods_agree(algorithm):
    generator = np.random.default_rng(3)
    cost, lower, upper = generator.normal(size=12), np.zeros(12), np.ones(12)
    matrix, limit = random_rows(generator, 12, 9)
    program = LinearProgram(cost, lower, upper, algorithm=algorithm)
    add(program, matrix, limit)
    check(program, cost, lower, upper, matrix, limit, tolerance=1e-5)


@pytest.mark.parametrize("size", [1e-10, 1e16, np.nan, np.inf])
def test_refuses_coefficients_that_the_solver_would_change(size):
    program = LinearProgram(np.ones(2), np.zeros(2), np.ones(2))
    with pytest.raises(SolverError, match="outside the range"):
        add(program, np.array([[1.0, size]]), np.ones(1))


def test_infeasible():
    program = LinearProgram(np.ones(2), np.zeros(2), np.ones(2))
    add(program, np.array([[-1.0, -1.0]]), np.array([-3.0]))
    with pytest.raises(InfeasibleError, match="has no solution"):
        program.solve()


def test_unbounded_is_no_answer():
    program = LinearProgram(np.array([-1.0, 0.0]), np.zeros(2), np.full(2, np.inf))
    add(program, np.array([[-1.0, 1.0]]), np.ones(1))
    with pytest.raises(SolverError, match="gave up"):
        program.solve()


def test_unknown_algorithm():
    with pytest.raises(mdp.InputError, match="unknown LP algorithm 'magic'"):
        LinearProgram(np.ones(1), np.zeros(1), np.ones(1), algorithm="magic")


def test_hipo_needs_its_extra(monkeypatch):
    monkeypatch.setattr(lp, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"metricdp\[hipo\]"):
        LinearProgram(np.ones(1), np.zeros(1), np.ones(1), algorithm="hipo")


def test_write_gives_a_file_that_the_solver_reads(tmp_path):
    generator = np.random.default_rng(0)
    cost = generator.normal(size=5)
    program = LinearProgram(cost, np.zeros(5), np.ones(5))
    matrix, limit = random_rows(generator, 5, 4)
    add(program, matrix, limit)
    program.write(tmp_path / "block.mps")
    other = highspy.Highs()
    other.setOptionValue("output_flag", False)
    assert other.readModel(str(tmp_path / "block.mps")) == highspy.HighsStatus.kOk
    other.run()
    assert other.getInfo().objective_function_value == pytest.approx(cost @ program.solve().x, abs=1e-9)
    with pytest.raises(SolverError, match="refused writing the LP"):
        program.write(tmp_path / "no such folder" / "block.mps")


def long_program(n=700, m=1400):
    """Takes the simplex method seconds."""
    generator = np.random.default_rng(0)
    program = LinearProgram(-generator.uniform(0.5, 1.0, n), np.zeros(n), np.full(n, np.inf))
    add(program, generator.uniform(0.1, 1.0, (m, n)), generator.uniform(1.0, 2.0, m) * n)
    return program


def test_stop_asked_before():
    stop = Stop()
    stop.request_end()
    begin = time.monotonic()
    solution = long_program().solve(stop=stop)
    assert not solution.is_optimal
    assert time.monotonic() - begin < 10.0


def test_stop_at_the_deadline():
    program, begin = long_program(), time.monotonic()
    solution = program.solve(stop=Stop(0.2))
    assert not solution.is_optimal
    assert solution.x.shape == (700,)
    assert time.monotonic() - begin < 5.0


@pytest.mark.parametrize("in_main_thread", [True, False])
def test_stop_asked_during(in_main_thread):
    program, stop, solutions = long_program(), Stop(), []
    timer = threading.Timer(0.2, stop.request_end)

    def solve():
        solutions.append(program.solve(stop=stop))

    timer.start()
    begin = time.monotonic()
    if in_main_thread:
        solve()
    else:
        thread = threading.Thread(target=solve)
        thread.start()
        thread.join()
    assert not solutions[0].is_optimal
    assert time.monotonic() - begin < 5.0
    timer.join()


def test_a_solver_that_does_not_listen_is_left_alone(monkeypatch):
    """No known LP is deaf on purpose, so the solver is made to sleep: the answer comes and says what happened."""
    monkeypatch.setattr(lp, "GRACE_SECONDS", 0.1)
    monkeypatch.setattr(lp, "_abandoned", [])
    program = LinearProgram(np.ones(2), np.zeros(2), np.ones(2))
    deaf = threading.Event()
    monkeypatch.setattr(program._highs, "run", lambda: deaf.wait(30.0), raising=False)
    solution = program.solve(stop=Stop(0.1))
    assert (solution.is_optimal, solution.solver_status) == (False, "abandoned")
    assert lp.is_busy()
    deaf.set()
    lp._wait_for_abandoned()
    assert not lp.is_busy()


def test_callbacks_do_not_pile_up():
    """Every solve once subscribed another interrupt callback, and hundreds of them slowed the solver down."""
    program = LinearProgram(np.ones(2), np.zeros(2), np.ones(2), algorithm="ipx")
    add(program, np.array([[-1.0, -1.0]]), np.array([-1.0]))
    for _ in range(5):
        program.solve(stop=Stop(10.0))
    assert len(program._highs.cbIpmInterrupt.callbacks) == 1


def test_a_hot_start_that_stalls_is_solved_from_scratch():
    patient, impatient = long_program(150, 300), long_program(150, 300)
    impatient.limit_hot_starts(0.0)
    statuses = []
    recover = impatient._recover
    impatient._recover = lambda attempt: (statuses.append(impatient._highs.getModelStatus()), recover(attempt))
    assert impatient.solve().x == pytest.approx(patient.solve().x, abs=1e-9)
    assert statuses == [highspy.HighsModelStatus.kTimeLimit, highspy.HighsModelStatus.kOptimal]


def pricing(program):
    return program._highs.getOptionValue("simplex_dual_edge_weight_strategy")[1]


def test_hot_starts_price_by_devex_and_cold_ones_as_the_solver_likes():
    """Steepest-edge weights are computed anew whenever rows were added, a solve for each row."""
    box = np.zeros(2), np.zeros(2), np.ones(2)
    assert pricing(LinearProgram(*box)) == lp.DEVEX == 1
    assert pricing(LinearProgram(*box, is_hot_started=False)) == lp.CHOSEN_BY_HIGHS == -1
