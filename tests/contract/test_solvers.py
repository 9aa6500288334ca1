"""One suite for every solver: it agrees with an independent LP, its bound is valid, its mechanism is certified."""

from __future__ import annotations

import importlib
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conftest import DATASETS, exponents, linprog_optimum, small_problem

import metricdp as mdp
from metricdp.metric import closure
from metricdp.partition import PARTITIONERS
from metricdp.solve.lp import ALGORITHMS
from metricdp.solve.solvers.firstorder import iterate
from metricdp.solve.solvers.interior import factors

BENDERS = importlib.import_module("metricdp.solve.solvers.benders.loop")
SOLVERS = {
    "auto": ("auto", None),
    "direct": ("direct", None),
    **{f"direct, all rows, {a}": ("direct", mdp.DirectOptions(algorithm=a, all_rows=True)) for a in ALGORITHMS},
    "direct, ipx": ("direct", mdp.DirectOptions(algorithm="ipx")),
    "interior": ("interior", None),
    "interior, no correctors": ("interior", mdp.InteriorOptions(correctors=0)),
    "first-order": ("first-order", None),
    **{f"benders, {p}": ("benders", mdp.BendersOptions(partition=p, n_blocks=4)) for p in PARTITIONERS},
    "columns": ("columns", mdp.ColumnOptions(records_per_patch=6)),
    "columns, no patches": ("columns", mdp.ColumnOptions(patches=False)),
    "benders, textbook": ("benders", mdp.BendersOptions.textbook(n_blocks=4)),
}


@pytest.fixture(params=SOLVERS)
def solver(request, monkeypatch):
    # small problems are decomposed here, too
    monkeypatch.setattr(BENDERS, "DIVIDED_FROM_RECORDS", 2)
    method, options = SOLVERS[request.param]
    return {"method": method, "options": options}


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(dataset=st.sampled_from(DATASETS), seed=st.integers(0, 99), exponent=exponents(0.2, 4.0))
def test_agrees_with_scipy(solver, dataset, seed, exponent):
    problem = small_problem(dataset, seed=seed, exponent=exponent)
    result = mdp.solve(problem, gap=1e-3, **solver)
    truth = linprog_optimum(problem)
    assert result.status is mdp.Status.OPTIMAL
    assert result.lower_bound <= truth * (1 + 1e-7)
    assert result.loss >= truth * (1 - 1e-7)
    assert result.gap <= 1e-3
    assert result.mechanism.certificate.privacy.certified
    assert result.mechanism.optimality.loss == result.loss


def test_same_input_same_table(solver):
    problem = small_problem("gaussian", seed=1)
    first, second = (mdp.solve(problem, gap=1e-3, **solver).mechanism.table for _ in range(2))
    assert np.array_equal(first, second)


def test_threads_do_not_change_the_answer(solver, monkeypatch):
    monkeypatch.setattr(closure, "PARALLEL_FROM", 0)  # or there would be one thread in both
    monkeypatch.setattr(iterate, "PARALLEL_STEPS_FROM", 0)
    monkeypatch.setattr(factors, "BYTES_AT_ONCE", 1.0)  # each output apart
    problem = small_problem("road", seed=2, n=20)
    one, two = (mdp.solve(problem, gap=1e-3, threads=t, **solver).mechanism.table for t in (1, 2))
    assert np.array_equal(one, two)


def test_one_record(solver):
    problem = mdp.Problem(mdp.Records([[1.0, 2.0]]), epsilon=1.0, eta=1.0, outputs=1)
    result = mdp.solve(problem, **solver)
    assert result.mechanism.table.tolist() == [[1 << 63]]
    assert result.gap == 0.0


def test_one_output(solver):
    problem = small_problem("grid", seed=0, outputs=1)
    result = mdp.solve(problem, **solver)
    assert (result.mechanism.table == 1 << 63).all()
    assert result.gap <= 1e-12


def test_more_outputs_than_records_as_points(solver):
    points = np.random.default_rng(0).normal(size=(9, 2))
    problem = mdp.Problem(mdp.data.grid(2, 2), epsilon=1.0, eta=2.0, outputs=points)
    result = mdp.solve(problem, gap=1e-3, **solver)
    assert result.loss == pytest.approx(linprog_optimum(problem), rel=1e-3)


def test_complete_graph(solver):
    problem = mdp.Problem(mdp.data.gaussian(10, seed=5), epsilon=0.3, eta=np.inf, outputs=5)
    assert problem.graph.n_pairs == 45
    result = mdp.solve(problem, gap=1e-3, **solver)
    assert result.loss == pytest.approx(linprog_optimum(problem), rel=1e-3)


def test_trace_can_be_read_back(solver):
    rows = []
    result = mdp.solve(small_problem("words", seed=0), gap=1e-3, listener=rows.append, **solver)
    assert rows == result.trace.rows
    assert [json.loads(line)["stage"] for line in result.trace.json_lines().splitlines()][-1] == "certified"


def test_time_limit_gives_a_certified_mechanism(solver):
    problem = mdp.Problem(mdp.data.grid(12, 12), epsilon=0.3, eta=3.0, outputs=60)
    result = mdp.solve(problem, gap=1e-6, time_limit=0.2, **solver)
    assert result.status is mdp.Status.LIMIT  # a second and more is needed
    assert result.mechanism.certificate.privacy.certified
    assert result.lower_bound <= result.loss
    assert result.gap > 1e-6
