"""Points are charged before they are drawn, as records are."""

from __future__ import annotations

import pytest

import metricdp as mdp


def test_points_are_charged_one_by_one(tmp_path):
    problem = mdp.Problem(mdp.data.grid(2, 2), epsilon=0.5, eta=1.0, outputs=4)
    mechanism = mdp.solve(problem).mechanism
    ledger = mdp.Ledger(tmp_path / "budget.db", limit=2.0)
    reports = ledger.perturb_points(mechanism, "Ana", [[0.6, 0.5], [1.4, 1.5]], limit=0.5)
    assert isinstance(reports, mdp.SnappedReports)
    assert set(reports.ids) <= set(mechanism.records.ids)
    assert ledger.spent("Ana") == 1.0
    with pytest.raises(mdp.InputError, match="points must be a table"):
        ledger.perturb_points(mechanism, "Ana", [[0.1]], limit=0.5)
    assert ledger.spent("Ana") == 1.0
    with pytest.raises(mdp.InputError, match="farther from every record"):
        ledger.perturb_points(mechanism, "Ana", [9.0, 9.0], limit=0.5)
    assert ledger.spent("Ana") == 1.5
    with pytest.raises(mdp.BudgetExceededError):
        ledger.perturb_points(mechanism, "Ana", [[0.6, 0.5], [1.4, 1.5]], limit=0.5)
    assert ledger.spent("Ana") == 1.5


def test_what_can_be_caught_is_exported():
    assert issubclass(mdp.LedgerError, mdp.MetricDPError)
    assert issubclass(mdp.RandomnessError, mdp.MetricDPError)
