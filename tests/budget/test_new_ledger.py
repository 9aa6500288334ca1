"""A ledger whose file is made by its first charge."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

import metricdp as mdp
from metricdp.budget.new_ledger import ChangedLedger, NewLedger


def test_the_first_charge_that_fits_makes_the_file(tmp_path):
    path, told = tmp_path / "budget.db", []
    ledger = NewLedger(path, limit=1.0, window=timedelta(hours=1), made=lambda: told.append(path.exists()))
    assert (ledger.path, ledger.limit, ledger.window) == (path.resolve(), 1, timedelta(hours=1))
    with pytest.raises(mdp.BudgetExceededError):
        ledger.charge("Ana", 1.5)
    assert (list(tmp_path.iterdir()), told) == ([], [])
    assert ledger.charge("Ana", 0.75) == 0.75
    with pytest.raises(mdp.BudgetExceededError):
        ledger.charge("Ana", 0.75)
    assert told == [True]
    found = mdp.Ledger(path, must_exist=True)
    assert (found.spent("Ana"), found.limit, found.window) == (0.75, 1, timedelta(hours=1))
    assert ledger.limit == 1


def test_a_file_that_appears_meanwhile_is_charged(tmp_path):
    ledger = NewLedger(tmp_path / "budget.db", limit=1.0)
    other = mdp.Ledger(tmp_path / "budget.db", limit=1.0)
    other.charge("Ana", 0.75)
    with pytest.raises(mdp.BudgetExceededError):
        ledger.charge("Ana", 0.5)
    assert ledger.charge("Ana", 0.25) == 1.0
    assert other.spent("Ana") == 1.0


def test_charges_of_which_nothing_fits_make_no_file(tmp_path):
    mechanism = mdp.exponential(mdp.Problem(mdp.data.grid(1, 2), epsilon=1.0, eta=1.0))
    ledger = NewLedger(tmp_path / "budget.db", limit=0.5)
    assert ledger.charge_up_to(mechanism, {"Ana": 2, "Ben": 1}) == {"Ana": 0, "Ben": 0}
    with pytest.raises(mdp.BudgetsExceededError):
        ledger.charge_many(mechanism, {"Ana": 2})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("limit", [0.0, -1.0, math.nan, None])
def test_wrong_limits_are_refused_at_once(tmp_path, limit):
    with pytest.raises(mdp.InputError, match="limit must be positive"):
        NewLedger(tmp_path / "budget.db", limit=limit)


def test_what_has_no_file_yet_says_so(tmp_path):
    ledger = NewLedger(tmp_path / "budget.db", limit=1.0)
    with pytest.raises(mdp.InputError, match="is made by its first charge"):
        ledger.spent("Ana")


def test_a_limit_is_changed_by_the_next_charge(tmp_path):
    path, told = tmp_path / "budget.db", []
    mdp.Ledger(path, limit=1.0).charge("Ana", 0.75)
    ledger = ChangedLedger(path, limit=2.0, changed=lambda: told.append(mdp.Ledger(path, must_exist=True).limit))
    assert ledger.limit == 2.0
    assert mdp.Ledger(path, must_exist=True).limit == 1
    assert ledger.charge("Ana", 1.0) == 1.75
    assert told == [2]
    with pytest.raises(mdp.BudgetExceededError):
        ledger.charge("Ana", 1.0)
    assert told == [2]
