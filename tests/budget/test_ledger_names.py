"""Whose budget it is and what it is counted in: names in one spelling, and one metric to a ledger."""

import unicodedata

import numpy as np
import pytest

import metricdp as mdp
from metricdp.budget.amounts import currency_of
from metricdp.budget.ledger import Ledger
from metricdp.budget.memoized import memoize
from metricdp.budget.refusals import BudgetExceededError, BudgetsExceededError

KEY = b"a key of 32 bytes for the tests."
COMPOSED, DECOMPOSED = "Ren\u00e9", "Rene\u0301"


def make(records, **options):
    return mdp.exponential(mdp.Problem(records, **({"epsilon": 0.5, "eta": 3.0} | options)))


@pytest.fixture(scope="module")
def city():
    return make(mdp.Records([[57.70, 11.97], [57.71, 11.97]], ids=["a", "b"]))


@pytest.fixture(scope="module")
def other_city():
    return make(mdp.Records([[48.85, 2.35], [48.86, 2.35]], ids=["c", "d"]))


@pytest.fixture(scope="module")
def plane():
    return make(mdp.data.grid(2, 2))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


@pytest.mark.parametrize("key", [None, KEY])
def test_two_spellings_are_one_holder(path, key):
    ledger = Ledger(path, limit=1.0, key=key)
    assert ledger.charge(COMPOSED, 0.5) == 0.5
    assert ledger.charge(DECOMPOSED, 0.25) == 0.75
    assert ledger.spent(COMPOSED) == ledger.spent(DECOMPOSED) == 0.75
    assert len(ledger.holders()) == 1
    with pytest.raises(BudgetExceededError):
        ledger.charge(DECOMPOSED, 0.5)


def test_case_and_spaces_are_kept_apart(path):
    ledger = Ledger(path, limit=1.0)
    for name in ("Ana", "ana", "Ana ", "\uff21na"):  # the last is a wide letter, which NFC leaves as it is
        assert ledger.charge(name, 0.5) == 0.5
    assert len(ledger.holders()) == 4


def test_a_memory_answers_both_spellings_alike(tmp_path, plane):
    memory = memoize(plane, tmp_path / "answers.db", ledger=Ledger(tmp_path / "budget.db", limit=2.0))
    ids = plane.records.ids
    assert memory.perturb(COMPOSED, ids) == memory.perturb(DECOMPOSED, ids)
    assert memory.ledger.spent(DECOMPOSED) == 2.0


def test_a_memory_that_must_exist(tmp_path, plane):
    path, key = tmp_path / "answers.db", tmp_path / "key"
    with pytest.raises(mdp.InputError, match="does not exist"):
        memoize(plane, path, must_exist=True)
    assert not path.exists()
    answer = memoize(plane, path, key=key).perturb("Ana", plane.records.ids)
    assert memoize(plane, path, key=key, must_exist=True).perturb("Ana", plane.records.ids) == answer
    path.unlink()
    with pytest.raises(mdp.InputError, match="does not exist"):
        memoize(plane, path, key=key, must_exist=True)


def test_a_ledger_counts_in_one_metric(path, city, other_city, plane):
    ledger = Ledger(path, limit=3.0)
    assert ledger.currency == ""
    ledger.perturb(city, "Ana", "a")
    ledger.perturb(other_city, "Ana", "c")  # other records, but kilometres as well
    assert ledger.currency == "haversine (km)"
    for charge in (
        lambda: ledger.charge_for("Ana", plane),
        lambda: ledger.perturb(plane, "Ana", plane.records.ids[0]),
        lambda: ledger.perturb_points(plane, "Ana", [[0.5, 0.5]], limit=1.0),
        lambda: ledger.charge_many(plane, {"Ben": 1}),
        lambda: memoize(plane, path.with_name("answers.db"), ledger=ledger).perturb("Ana", plane.records.ids[0]),
    ):
        with pytest.raises(
            mdp.InputError, match=r"counts epsilon for the metric haversine \(km\), not for euclidean \(2 coordinates\)"
        ):
            charge()
    assert ledger.charge("Ana", 0.5) == 1.5  # an epsilon of one's own is in the ledger's unit
    assert Ledger(path, must_exist=True).currency == "haversine (km)"


def test_metrics_without_a_unit_are_comparable_with_themselves_only():
    distances = np.array([[0.0, 1.0], [1.0, 0.0]])
    records = mdp.Records([[0.0], [1.0]], kind="vectors")
    one = make(records, metric=distances)
    two = make(records, metric=2 * distances)
    assert currency_of(one) == currency_of(make(records, metric=distances.copy()))
    assert currency_of(one) != currency_of(two)
    spaces = [mdp.Records(np.eye(n), kind="vectors") for n in (2, 3)]
    assert len({currency_of(make(space)) for space in spaces}) == 2


def test_each_charge_is_recorded_with_the_records_it_was_made_with(path, city, other_city):
    ledger = Ledger(path, limit=9.0)
    ledger.charge("Ana", 0.5)
    ledger.charge_for("Ana", city, reports=2)
    ledger.charge_for("Ana", other_city)
    with ledger._file.reading() as connection:
        rows = connection.execute("SELECT reports, subject FROM charges ORDER BY charge").fetchall()
    assert rows == [(1, ""), (2, city.guarantee.records_hash), (1, other_city.guarantee.records_hash)]


def test_what_is_not_protected_is_drawn_only_when_asked_for(tmp_path):
    alone = make(mdp.Records([[57.70, 11.97], [57.71, 11.97], [59.0, 11.0]], ids=["a", "b", "far"]))
    ledger = Ledger(tmp_path / "budget.db", limit=9.0)
    memory = memoize(alone, tmp_path / "answers.db")
    for perturb in (
        lambda **options: ledger.perturb(alone, "Ana", "far", **options),
        lambda **options: memory.perturb("Ana", "far", **options),
    ):
        with pytest.raises(mdp.InputError, match="neighbour"):
            perturb()
        assert perturb(allow_unprotected=True) in alone.records.ids


def test_many_are_charged_together_or_not_at_all(path, city):
    ledger = Ledger(path, limit=1.0)
    ledger.charge_many(city, {"Ana": 1, COMPOSED: 1, DECOMPOSED: 1})
    assert (ledger.spent("Ana"), ledger.spent(COMPOSED)) == (0.5, 1.0)
    with pytest.raises(BudgetsExceededError, match=r"the budgets of 2 of 3 holders do not suffice") as caught:
        ledger.charge_many(city, {"Ana": 2, DECOMPOSED: 1, "Cleo": 1})
    assert caught.value.holders == ("Ana", COMPOSED)
    assert "Ana" not in str(caught.value)
    assert unicodedata.is_normalized("NFC", caught.value.holders[1])
    assert (ledger.spent("Ana"), ledger.spent("Cleo")) == (0.5, 0.0)
    with pytest.raises(BudgetsExceededError, match="of 1 of 1 holders"):
        ledger.charge_many(city, {"Ana": 2})
    ledger.charge_many(city, {})
    assert ledger.check() == 2
