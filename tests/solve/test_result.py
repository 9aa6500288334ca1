"""What a result says of the run."""

from __future__ import annotations

import dataclasses
import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import metricdp as mdp
from metricdp.errors import SolverError, StoppedError

FACADE = importlib.import_module("metricdp.solve.solve")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux keeps the peak there")
def test_the_peak_is_not_that_of_the_process_that_started_it():
    own = np.ones(100_000_000)  # 800 MB, touched
    code = "from metricdp.solve.result import peak_megabytes; print(peak_megabytes())"
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 20.0 < float(seen.stdout) < own.nbytes / 1e6


def test_the_peak_grows_with_what_is_held():
    code = (
        "import numpy as np; from metricdp.solve.result import peak_megabytes as peak; "
        "before = peak(); own = np.ones(50_000_000); del own; print(peak() - before)"
    )
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 300.0 < float(seen.stdout) < 800.0


@pytest.mark.parametrize("bound", [1.1, float("inf"), float("nan")])
def test_a_bound_above_the_loss_of_a_certified_mechanism_is_a_fault(bound, monkeypatch):
    """No gap of 0 comes out of a bound that cannot be: whoever computed it is wrong."""
    problem = mdp.Problem(mdp.data.grid(3, 3), epsilon=1.0, eta=1.5, outputs=4)
    loss = mdp.solve(problem, method="direct", gap=1e-6).loss
    solve_components = FACADE.solve_components

    def lying(*arguments, **options):
        found = solve_components(*arguments, **options)
        return dataclasses.replace(found, lower_bound=bound * loss)

    monkeypatch.setattr(FACADE, "solve_components", lying)
    with pytest.raises(SolverError, match="above the loss"):
        mdp.solve(problem, method="direct", gap=1e-6)


def test_the_clock_of_the_trace_goes_forward():
    problem = mdp.Problem(mdp.data.grid(6, 6), epsilon=1.0, eta=1.5, outputs=12)
    result = mdp.solve(problem, method="first-order", gap=0.01)
    assert "edges" in {row["stage"] for row in result.trace.rows}
    assert (np.diff([row["seconds"] for row in result.trace.rows]) >= 0).all()


@pytest.mark.parametrize("method", ["direct", "first-order", "local", "columns"])
def test_a_solver_that_was_named_is_the_one_that_ran(method):
    problem = mdp.Problem(mdp.data.grid(3, 3), epsilon=1.0, eta=1.5)
    result = mdp.solve(problem, method=method, gap=0.1)
    assert (result.method, result.solver) == (method, method)
    assert f", {method}, " in repr(result)
    assert f">{method}, " in result._repr_html_()


def test_records_that_are_alone_need_no_solver():
    problem = mdp.Problem(mdp.data.grid(3, 3), epsilon=1.0, eta=0.5)
    assert mdp.solve(problem).solver == "cheapest output"


def test_components_name_every_solver_that_ran_once(monkeypatch):
    """Two small components for the interior point, and a large one that it is too costly for."""
    points = np.concatenate([np.arange(3.0), 100.0 + np.arange(4.0), 200.0 + np.arange(12.0)])
    auto = importlib.import_module("metricdp.solve.solvers.auto")
    costs = auto.interior_operations
    monkeypatch.setattr(auto, "interior_operations", lambda graph, *rest: 1e12 if graph.n > 9 else costs(graph, *rest))
    result = mdp.solve(mdp.Problem(points, epsilon=1.0, eta=1.0, outputs=6), gap=0.05)
    assert result.solver == "interior, first-order"


def test_a_limit_before_any_solver_ran_names_the_method(monkeypatch):
    def stopped(*_):
        raise StoppedError("it was time to stop")

    monkeypatch.setattr("metricdp.solve.solvers.auto.Auto.run", stopped)
    result = mdp.solve(mdp.Problem(mdp.data.grid(3, 3), epsilon=1.0, eta=1.5))
    assert (result.status, result.solver) == (mdp.Status.LIMIT, "auto")
