"""Ledgers with a window: a plain model beside them, both edges of the window, clocks that are set back."""

import math
import pickle
import sqlite3
import tempfile
import time
from contextlib import closing
from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget.windows import DAY, DAY_NS, HOLDERS, KEY, MEMORY, NOON, Clock

from metricdp.budget.ledger import Ledger
from metricdp.budget.memoized import memoize
from metricdp.budget.refusals import BudgetExceededError, BudgetsExceededError
from metricdp.budget.store import LedgerError
from metricdp.data import grid
from metricdp.errors import InputError
from metricdp.mechanism.baselines import exponential
from metricdp.problem import Problem


@pytest.fixture(scope="module")
def mechanism():
    return exponential(Problem(grid(2, 2), epsilon=0.5, eta=3.0))


def rows_of(path, question):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(question).fetchall()


# Counting


class Model:
    """All granted charges in a list, and sums over it."""

    def __init__(self, limit, window):
        self.limit, self.window, self.granted = limit, window, []

    def moment(self, now):
        return max([now, 0, *(moment for moment, _, _ in self.granted)])

    def spent(self, holder, now):
        ages = [(self.moment(now) - moment, amount) for moment, name, amount in self.granted if name == holder]
        return sum((amount for age, amount in ages if age < self.window), Fraction(0))

    def charge(self, holder, amount, now):
        is_granted = self.spent(holder, now) + amount <= self.limit
        if is_granted:
            self.granted.append((self.moment(now), holder, amount))
        return is_granted

    def most_in_any_window(self):
        return max(
            (
                sum(
                    amount
                    for moment, name, amount in self.granted
                    if name == holder and 0 <= end - moment < self.window
                )
                for holder in HOLDERS
                for end, _, _ in self.granted
            ),
            default=0,
        )


@settings(max_examples=60, deadline=None)
@given(
    has_key=st.booleans(),
    limit=st.sampled_from([Fraction(1), 3 * Fraction(0.1), Fraction(1, 3)]),
    window=st.sampled_from([1, 7, 10**6, DAY_NS // 1000]),
    events=st.lists(
        st.tuples(
            st.one_of(st.integers(-8, 8).map(lambda eighths: Fraction(eighths, 8)), st.fractions(-3, 3)),
            st.integers(-1, 1),
            st.sampled_from(HOLDERS),
            st.sampled_from([0.1, 0.25, 0.3, 1e-17]),
            st.integers(1, 3),
            st.booleans(),
        ),
        max_size=16,
    ),
)
def test_it_grants_what_a_plain_model_grants(has_key, limit, window, events):
    """Steps of the clock are in windows, forward and back, and a nanosecond beside."""
    model, clock = Model(limit, window * 1000), Clock()
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time_ns", clock)
        options = {"limit": limit, "window": timedelta(microseconds=window), "key": KEY if has_key else None}
        ledger = Ledger(Path(folder) / "budget.db", **options)
        for windows, nanoseconds, holder, epsilon, reports, is_opened_again in events:
            clock.now += int(windows * model.window) + nanoseconds
            if is_opened_again:
                ledger = Ledger(Path(folder) / "budget.db", **options)
            asked, before = reports * Fraction(epsilon), model.spent(holder, clock.now)
            if model.charge(holder, asked, clock.now):
                assert ledger.charge(holder, epsilon, reports=reports) >= before + asked
            else:
                with pytest.raises(BudgetExceededError) as caught:
                    ledger.charge(holder, epsilon, reports=reports)
                assert (caught.value.spent, caught.value.asked) == (before, asked)
            for name in HOLDERS:
                spent = ledger.exactly_spent(name)
                assert spent == model.spent(name, clock.now)
                assert ledger.remaining(name) <= limit - spent
        assert ledger.check() == len(model.granted)
    assert model.most_in_any_window() <= limit


def test_a_charge_is_free_again_exactly_one_window_later(ledger, clock):
    assert ledger.charge("Ana", 0.25, reports=4) == 1.0
    clock.now = NOON + DAY_NS - 1
    assert (ledger.spent("Ana"), ledger.remaining("Ana")) == (1.0, 0.0)
    with pytest.raises(BudgetExceededError):
        ledger.charge("Ana", 1e-300)
    clock.now = NOON + DAY_NS
    assert (ledger.spent("Ana"), ledger.remaining("Ana")) == (0.0, 1.0)
    assert ledger.charge("Ana", 1.0) == 1.0
    assert ledger.holders() == ["Ana"]


def test_charges_leave_the_window_one_after_the_other(ledger, clock):
    for hour in range(4):
        clock.now = NOON + hour * DAY_NS // 24
        ledger.charge("Ana", 0.25)
    for hour, spent in [(23, 1.0), (24, 0.75), (25, 0.5), (26, 0.25), (27, 0.0)]:
        clock.now = NOON + hour * DAY_NS // 24
        assert ledger.spent("Ana") == spent
    assert ledger.spent("Ben") == 0.0


def test_charges_of_one_moment_leave_together(ledger, clock):
    for _ in range(3):
        ledger.charge("Ana", 0.25)
    clock.now += DAY_NS
    assert ledger.spent("Ana") == 0.0


def test_the_shortest_and_the_longest_window(path, tmp_path, clock):
    brief = Ledger(path, limit=1.0, window=timedelta(microseconds=1))
    brief.charge("Ana", 1.0)
    clock.now += 999
    assert brief.spent("Ana") == 1.0
    clock.now += 1
    assert brief.spent("Ana") == 0.0
    endless = Ledger(tmp_path / "endless.db", limit=1.0, window=timedelta.max)
    endless.charge("Ana", 1.0)
    clock.now = 2**63 - 1
    assert endless.spent("Ana") == 1.0
    assert endless.window == timedelta.max


def test_it_is_the_time_of_the_clock(path):
    before = time.time_ns()
    Ledger(path, limit=1.0, window=DAY).charge("Ana", 0.5)
    ((moment,),) = rows_of(path, "SELECT moment FROM charges")
    assert before <= moment <= time.time_ns()


def test_a_time_that_sqlite_cannot_hold_grants_nothing(ledger, clock):
    clock.now = 2**63
    with pytest.raises(LedgerError, match="nothing was granted"):
        ledger.charge("Ana", 0.5)
    clock.now = NOON
    assert ledger.spent("Ana") == 0.0


# Clocks that are set back


@pytest.mark.parametrize("back", [1, DAY_NS, 100 * DAY_NS, NOON, 2 * NOON])
def test_a_clock_that_is_set_back_frees_nothing(ledger, path, clock, back):
    ledger.charge("Ana", 0.5)
    clock.now = NOON - back
    for again in (ledger, Ledger(path, limit=1.0, window=DAY)):
        assert again.charge("Ana", 0.25) >= 0.75
    ledger.charge("Ben", 1.0)
    for now in (NOON - back, NOON - back + DAY_NS - 1, NOON, NOON + DAY_NS - 1):
        clock.now = now
        for holder in HOLDERS:
            assert ledger.spent(holder) == 1.0
            with pytest.raises(BudgetExceededError):
                ledger.charge(holder, 0.25)
    clock.now = NOON + DAY_NS
    assert [ledger.spent(holder) for holder in HOLDERS] == [0.0, 0.0]
    assert rows_of(path, "SELECT DISTINCT moment FROM charges") == [(NOON,)]


def test_the_latest_time_is_that_of_anybodys_charge_or_change(ledger, clock):
    clock.now = NOON + DAY_NS
    ledger.charge("Ben", 0.5)
    clock.now = NOON + 2 * DAY_NS
    ledger.change_limit(2.0)
    clock.now = NOON
    ledger.charge("Ana", 1.0)
    clock.now = NOON + 3 * DAY_NS - 1
    assert ledger.spent("Ana") == 1.0
    clock.now = NOON + 3 * DAY_NS
    assert ledger.spent("Ana") == 0.0


def test_a_clock_before_1970(path, clock):
    clock.now = -DAY_NS
    ledger = Ledger(path, limit=1.0, window=DAY)
    ledger.charge("Ana", 1.0)
    clock.now = DAY_NS - 1
    assert ledger.spent("Ana") == 1.0
    clock.now = DAY_NS
    assert ledger.spent("Ana") == 0.0


# Refusals


@pytest.mark.parametrize("window", [timedelta(0), -DAY, 86400, 86400.0, "24h", True])
def test_windows_that_cannot_be(path, window):
    with pytest.raises(InputError, match=r"window must be a length of time, such as datetime.timedelta\(hours=24\)"):
        Ledger(path, limit=1.0, window=window)
    assert not path.exists()


def test_a_window_is_fixed_when_the_ledger_is_made(ledger, path, tmp_path):
    assert (ledger.window, ledger.limit) == (DAY, 1)
    assert repr(ledger) == f"Ledger({str(path)!r}, limit=1.0, window=datetime.timedelta(days=1))"
    assert Ledger(path, must_exist=True).window == DAY
    assert Ledger(path, must_exist=True, limit=1.0, window=DAY).window == DAY
    remedy = "it cannot be changed, so open it with its own, or make a new ledger"
    for options in ({"window": 2 * DAY}, {}, {"window": 2 * DAY, "must_exist": True}):
        with pytest.raises(InputError, match=rf"was made with the window 1 day, 0:00:00, not .*: {remedy}"):
            Ledger(path, limit=1.0, **options)
    plain = tmp_path / "plain.db"
    Ledger(plain, limit=1.0)
    for must_exist in (False, True):
        with pytest.raises(InputError, match=rf"was made with the window for ever, not .*: {remedy}"):
            Ledger(plain, limit=1.0, window=DAY, must_exist=must_exist)
    assert Ledger(plain, limit=1.0).window is None


def test_a_refusal_tells_the_window(ledger):
    with pytest.raises(BudgetExceededError, match="limit 1 in any window of 1 day, 0:00:00, too much by 1;") as caught:
        ledger.charge("Ana", 2.0)
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
    assert (str(again), again.window) == (str(caught.value), DAY)


def test_many_are_charged_together_or_not_at_all(ledger, clock, mechanism):
    ledger.charge_many(mechanism, {"Ana": 2, "Ben": 1})
    clock.now += DAY_NS - 1
    with pytest.raises(BudgetsExceededError):
        ledger.charge_many(mechanism, {"Ben": 1, "Ana": 1})
    assert [ledger.spent(holder) for holder in HOLDERS] == [1.0, 0.5]
    clock.now += 1
    ledger.charge_many(mechanism, {"Ben": 2, "Ana": 1})
    assert [ledger.spent(holder) for holder in HOLDERS] == [0.5, 1.0]


def test_a_repeated_answer_counts_when_it_was_drawn(ledger, clock, mechanism, tmp_path):
    memory = memoize(mechanism, tmp_path / "answers.db", ledger=ledger)
    first = memory.perturb("Ana", mechanism.records.ids[0])
    clock.now += DAY_NS
    assert memory.perturb("Ana", mechanism.records.ids[0]) == first
    assert ledger.spent("Ana") == 0.0


def test_without_a_limit(path, clock):
    ledger = Ledger(path, limit=math.inf, window=DAY)
    ledger.charge("Ana", 1e300)
    assert (ledger.spent("Ana"), ledger.remaining("Ana")) == (1e300, math.inf)
    clock.now += DAY_NS
    assert ledger.charge("Ana", 0.1) == 0.1  # exact, beside a sum of 1e300
