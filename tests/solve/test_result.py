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
from metricdp.errors import SolverError

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
