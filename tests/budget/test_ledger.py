"""The ledger: exact sums, refusals, damaged files, and 16 writers that are killed again and again."""

import json
import math
import os
import pickle
import random
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metricdp.budget.amounts import round_up
from metricdp.budget.ledger import Ledger
from metricdp.budget.refusals import ROUNDING_HINT, BudgetExceededError
from metricdp.budget.store import LedgerError
from metricdp.data import grid
from metricdp.errors import FileFormatError, InputError, MetricDPError
from metricdp.mechanism.baselines import exponential
from metricdp.problem import Problem

EPSILON = 0.1  # no sum of these is a double
KEY = b"a key of 32 bytes for the tests."


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


# kill -9 leaves what was written as it is, also in memory: the same test without waiting for the disk
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108


@pytest.fixture
def path_in_memory():
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder) / "budget.db"


@pytest.fixture(scope="module")
def mechanism():
    return exponential(Problem(grid(2, 2), epsilon=0.5, eta=3.0))


def spent_by(path, holder="Ana", *, limit=math.inf, key=None):
    return Ledger(path, limit=limit, key=key).exactly_spent(holder)


def edit(path, *statements):
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


# Counting


def test_n_fresh_reports_cost_n_epsilon(path):
    with Ledger(path, limit=2.0) as ledger:
        assert ledger.spent("Ana") == 0.0
        assert ledger.charge("Ana", 0.25) == 0.25
        assert ledger.charge("Ana", 0.25, reports=3) == 1.0
        assert ledger.charge("Ana", 0.5) == 1.5
        assert ledger.charge("Ben", 2.0) == 2.0
        assert (ledger.spent("Ana"), ledger.remaining("Ana")) == (1.5, 0.5)
        assert (ledger.spent("Ben"), ledger.remaining("Ben")) == (2.0, 0.0)
        assert (ledger.spent("Eve"), ledger.remaining("Eve")) == (0.0, 2.0)
        assert ledger.holders() == ["Ana", "Ben"]


def test_it_is_still_there_after_opening_again(path):
    Ledger(path, limit=1.0).charge("Ana", 0.75)
    again = Ledger(path, limit=1.0)
    assert again.spent("Ana") == 0.75
    assert repr(again) == f"Ledger({str(path)!r}, limit=1.0)"


def test_rows_do_not_grow_with_the_reports(path):
    ledger = Ledger(path, limit=1e6)
    for _ in range(20):
        ledger.charge("Ana", EPSILON, reports=1000)
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT holder, epsilon, reports FROM charges").fetchall()
    assert rows == [("Ana", EPSILON.hex(), 1000)] * 20  # one for each charge


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["Ana", "Ben"]),
            st.one_of(st.floats(5e-324, sys.float_info.max), st.sampled_from([0.1, 0.2, 0.3, 1e-300])),
            st.integers(1, 10**6),
        ),
        max_size=8,
    )
)
def test_the_sum_is_exact(charges):
    expected = Counter()
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        ledger = Ledger(Path(folder) / "budget.db", limit=math.inf)
        for holder, epsilon, reports in charges:
            expected[holder] += reports * Fraction(epsilon)
            assert ledger.charge(holder, epsilon, reports=reports) == round_up(expected[holder])
        for holder in ("Ana", "Ben"):
            assert ledger.exactly_spent(holder) == expected[holder]
            assert ledger.spent(holder) >= expected[holder]


@given(st.fractions(min_value=-(10**12), max_value=10**12))
def test_rounded_up_is_the_least_double_that_is_not_below(amount):
    up = round_up(amount)
    assert math.nextafter(up, -math.inf) < amount <= up


def test_sums_that_no_double_holds_are_infinite():
    assert round_up(Fraction(10**400)) == math.inf


def test_remaining_is_rounded_down(path):
    ledger = Ledger(path, limit=1.0)
    ledger.charge("Ana", EPSILON)
    exact = 1 - Fraction(EPSILON)
    assert ledger.remaining("Ana") <= exact < math.nextafter(ledger.remaining("Ana"), 1.0)


def test_whole_numbers_that_are_no_doubles_are_rounded_up(path):
    assert Ledger(path, limit=math.inf).charge("Ana", 2**53 + 1) == 2**53 + 2


def test_numpy_numbers_are_taken(path):
    ledger = Ledger(path, limit=np.float64(4.0))
    assert ledger.charge("Ana", np.float32(0.5), reports=np.int64(2)) == 1.0
    assert ledger.charge("Ana", np.int64(2)) == 3.0


def test_more_reports_than_sqlite_can_count_are_not_granted(path):
    ledger = Ledger(path, limit=math.inf)
    with pytest.raises(LedgerError, match="nothing was granted"):
        ledger.charge("Ana", 1e-9, reports=2**63)
    ledger.charge("Ana", 1e-9, reports=2**63 - 1)
    ledger.charge("Ana", 1e-9, reports=2)
    assert ledger.exactly_spent("Ana") == (2**63 + 1) * Fraction(1e-9)


# Limits


def test_past_the_limit_nothing_is_recorded(path):
    ledger = Ledger(path, limit=1.0)
    ledger.charge("Ana", 0.75)
    with pytest.raises(BudgetExceededError) as caught:
        ledger.charge("Ana", 0.25, reports=2)
    error = caught.value
    assert isinstance(error, MetricDPError)
    assert (error.holder, error.spent, error.asked, error.limit) == ("Ana", 0.75, 0.5, 1)
    for part in ("'Ana'", "spent 0.75", "asked 0.5", "limit 1", "by 0.25", "nothing was recorded"):
        assert part in str(error)
    assert ROUNDING_HINT not in str(error)
    assert ledger.spent("Ana") == 0.75
    assert ledger.charge("Ana", 0.25) == 1.0


def test_nothing_left_is_zero_and_not_minus_zero(path):
    ledger = Ledger(path, limit=1.0)
    ledger.charge("Ana", 1.0)
    assert str(ledger.remaining("Ana")) == "0.0"


def test_a_refusal_can_come_back_from_a_worker_process():
    error = BudgetExceededError("Ana", Fraction(1), Fraction(2), Fraction(2))
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301


def test_ten_times_a_tenth_is_more_than_one_and_the_message_says_what_to_do(path, tmp_path):
    ledger = Ledger(path, limit=1.0)
    ledger.charge("Ana", EPSILON, reports=9)
    with pytest.raises(BudgetExceededError, match="Doubles are counted exactly"):
        ledger.charge("Ana", EPSILON)
    exact = Ledger(tmp_path / "exact.db", limit=10 * Fraction(EPSILON))
    exact.charge("Ana", EPSILON, reports=10)
    assert exact.remaining("Ana") == 0.0


def test_amounts_beyond_doubles_are_refused_in_words(path):
    with pytest.raises(BudgetExceededError, match="asked inf"):
        Ledger(path, limit=1.0).charge("Ana", 1e308, reports=10**9)


def test_without_a_limit(path):
    ledger = Ledger(path, limit=math.inf)
    ledger.charge("Ana", 1e300)
    assert (ledger.remaining("Ana"), ledger.limit) == (math.inf, math.inf)
    Ledger(path, limit=math.inf)


def test_another_limit_must_be_asked_for(path):
    first = Ledger(path, limit=1.0)
    first.charge("Ana", 1.0)
    with pytest.raises(InputError, match=r"has the limit 1\.0, not 2\.0.*change_limit"):
        Ledger(path, limit=2.0)
    with pytest.raises(InputError, match="not 1/3"):
        Ledger(path, limit=Fraction(1, 3))
    Ledger(path, limit=1.0).change_limit(2.0)
    assert first.limit == 2
    assert first.charge("Ana", 1.0) == 2.0
    first.change_limit(0.5)
    assert first.remaining("Ana") == 0.0
    with pytest.raises(InputError, match="limit must be positive"):
        first.change_limit(-1.0)


# Wrong input


@pytest.mark.parametrize("limit", [0, -1.0, math.nan, -math.inf, None, "1", True, 1j])
def test_limits_that_cannot_be(path, limit):
    with pytest.raises(InputError, match="limit must be positive"):
        Ledger(path, limit=limit)
    assert not path.exists()


@pytest.mark.parametrize("epsilon", [0, -1.0, math.nan, math.inf, None, "1", True, 10**400])
def test_epsilons_that_cannot_be(path, epsilon):
    with pytest.raises(InputError, match="epsilon must be positive and finite"):
        Ledger(path, limit=1.0).charge("Ana", epsilon)


@pytest.mark.parametrize("reports", [0, -1, 1.0, None, "1", True])
def test_reports_that_cannot_be(path, reports):
    with pytest.raises(InputError, match="reports must be a whole number, 1 or more"):
        Ledger(path, limit=1.0).charge("Ana", 0.1, reports=reports)


@pytest.mark.parametrize("holder", ["", None, 7, b"Ana", "\ud800"])
def test_holders_that_cannot_be(path, holder):
    ledger = Ledger(path, limit=1.0)
    for ask in (lambda: ledger.charge(holder, 0.1), lambda: ledger.spent(holder), lambda: ledger.remaining(holder)):
        with pytest.raises(InputError, match="holder must be"):
            ask()


def test_all_faults_of_a_charge_are_told_at_once(path):
    with pytest.raises(InputError, match=r"3 faults.*holder.*epsilon.*reports"):
        Ledger(path, limit=1.0).charge("", -1.0, reports=0)


@pytest.mark.parametrize("holder", ["Ana'; DROP TABLE charges; --", "a\0b", "a", "Åse 🙂", " "])
def test_any_text_is_a_name(path, holder):
    ledger = Ledger(path, limit=1.0)
    ledger.charge(holder, 0.5)
    assert ledger.holders() == [holder]
    assert ledger.spent(holder) == 0.5


@pytest.mark.parametrize("options", [{"key": b"short"}, {"key": "a text of more than 16 letters"}])
def test_keys_that_cannot_be(path, options):
    with pytest.raises(InputError, match="key must be at least 16 secret bytes"):
        Ledger(path, limit=1.0, **options)


@pytest.mark.parametrize("timeout", [-1, math.nan, math.inf, None])
def test_timeouts_that_cannot_be(path, timeout):
    with pytest.raises(InputError, match="timeout must be a number of seconds"):
        Ledger(path, limit=1.0, timeout=timeout)


# Secrecy


def test_with_a_key_no_name_is_in_the_file(path):
    ledger = Ledger(path, limit=1.0, key=KEY)
    ledger.charge("Ana Andersson", 0.5)
    assert b"Ana" not in path.read_bytes()
    (stored,) = ledger.holders()
    assert len(stored) == 64
    assert Ledger(path, limit=1.0, key=KEY).spent("Ana Andersson") == 0.5


def test_another_key_would_forget_everyone_so_it_is_refused(path, tmp_path):
    Ledger(path, limit=1.0, key=KEY)
    with pytest.raises(InputError, match="made with another key"):
        Ledger(path, limit=1.0, key=KEY[::-1])
    with pytest.raises(InputError, match="made with another key"):
        Ledger(path, limit=1.0)
    plain = tmp_path / "plain.db"
    Ledger(plain, limit=1.0)
    with pytest.raises(InputError, match="made without a key"):
        Ledger(plain, limit=1.0, key=KEY)


def test_only_the_owner_can_read_it(path):
    Ledger(path, limit=1.0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


# Files


def test_folders_that_are_missing_or_no_files(tmp_path):
    with pytest.raises(InputError, match="No such file or directory"):
        Ledger(tmp_path / "missing" / "budget.db", limit=1.0)
    with pytest.raises(InputError, match="it is not a file"):
        Ledger(tmp_path, limit=1.0)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_cannot_be_written(path):
    Ledger(path, limit=1.0)
    path.chmod(0o400)
    with pytest.raises(InputError, match="permission denied"):
        Ledger(path, limit=1.0)


def test_a_file_that_is_no_database(path):
    path.write_text("a letter to Ana, longer than the header of a database, which has a hundred bytes. " * 3)
    with pytest.raises(FileFormatError, match=r"damaged.*not a database"):
        Ledger(path, limit=1.0)


@pytest.mark.parametrize("statement", ["CREATE TABLE t (x)", "PRAGMA application_id = 7"])
def test_a_database_of_another_application(path, statement):
    edit(path, statement)
    before = path.read_bytes()
    with pytest.raises(FileFormatError, match="belongs to something else"):
        Ledger(path, limit=1.0)
    assert path.read_bytes() == before


def test_a_version_of_the_future(path):
    Ledger(path, limit=1.0)
    edit(path, "PRAGMA user_version = 4")
    with pytest.raises(FileFormatError, match="has version 4, this metricdp reads version 3"):
        Ledger(path, limit=1.0)


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE charges",
        "UPDATE charges SET reports = -1",
        "UPDATE charges SET reports = 'many'",
        "UPDATE charges SET epsilon = 'inf'",
        "UPDATE charges SET epsilon = 'x'",
        "UPDATE charges SET epsilon = x'00'",
        "UPDATE settings SET value = 'x' WHERE name = 'limit'",
        "DELETE FROM settings WHERE name = 'limit'",
        "DROP TABLE settings",
    ],
)
def test_damaged_content_grants_nothing(path, statement):
    ledger = Ledger(path, limit=1.0)
    ledger.charge("Ana", 0.5)
    edit(path, statement)
    with pytest.raises(FileFormatError, match="is damaged"):
        ledger.charge("Ana", 0.1)
    with pytest.raises(FileFormatError, match="is damaged"):
        Ledger(path, limit=1.0).spent("Ana")


def test_damaged_pages_grant_nothing(path):
    ledger = Ledger(path, limit=1.0)
    ledger.charge("Ana", 0.5)
    data = bytearray(path.read_bytes())
    data[200:] = b"\xff" * (len(data) - 200)
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match="is damaged"):
        ledger.charge("Ana", 0.1)


def test_a_file_that_has_gone_is_not_made_again(path):
    ledger = Ledger(path, limit=1.0)
    ledger.charge("Ana", 1.0)
    path.unlink()
    with pytest.raises(LedgerError, match=r"has gone.*nothing was granted"):
        ledger.charge("Ana", 1.0)
    assert not path.exists()


def test_a_file_that_was_emptied_grants_nothing(path):
    ledger = Ledger(path, limit=1.0)
    ledger.charge("Ana", 1.0)
    os.truncate(path, 0)
    with pytest.raises(FileFormatError, match="nothing was granted"):
        ledger.charge("Ana", 1.0)


def test_an_empty_file_has_lost_its_content(path):
    path.touch()
    with pytest.raises(FileFormatError, match=r"is empty: nothing was granted.*put a copy back"):
        Ledger(path, limit=1.0)
    assert path.read_bytes() == b""


def test_a_relative_path_stays_the_same_file(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    ledger = Ledger(path.name, limit=1.0)
    monkeypatch.chdir("/")
    ledger.charge("Ana", 0.5)
    assert spent_by(path, limit=1.0) == 0.5


def test_names_of_files_with_special_letters(tmp_path):
    path = tmp_path / "a?mode=memory#b %20.db"
    Ledger(path, limit=1.0).charge("Ana", 0.5)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert spent_by(path, limit=1.0) == 0.5


@pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_locked_for_too_long(path, lock):
    ledger = Ledger(path, limit=1.0, timeout=0.2)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute(lock)
        with pytest.raises(LedgerError, match=r"locked by other processes for 0.2 s: nothing was granted"):
            ledger.charge("Ana", 0.5)
    assert ledger.spent("Ana") == 0.0


def test_a_reader_sees_one_state(path):
    ledger = Ledger(path, limit=1.0, timeout=0.2)
    with ledger._file.reading(), pytest.raises(LedgerError, match="locked"):
        ledger.charge("Ana", 0.5)


def test_a_full_disk(path):
    ledger = Ledger(path, limit=1.0)
    ledger.charge("Ana", 0.25)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))
    try:
        with pytest.raises(LedgerError, match="nothing was granted"):
            ledger.charge("Ana", 0.25)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert ledger.charge("Ana", 0.25) == 0.5


# Drawing


def test_perturb_charges_first_and_then_draws(path, mechanism):
    ledger = Ledger(path, limit=2.0)
    ids = mechanism.records.ids
    assert ledger.perturb(mechanism, "Ana", ids[0]) in ids
    assert len(ledger.perturb(mechanism, "Ana", ids[:3])) == 3
    assert ledger.spent("Ana") == 4 * mechanism.epsilon
    with pytest.raises(BudgetExceededError):
        ledger.perturb(mechanism, "Ana", ids[0])
    assert ledger.perturb(mechanism, "Ana", []) == []


def test_an_unknown_record_costs_nothing(path, mechanism):
    ledger = Ledger(path, limit=2.0)
    with pytest.raises(InputError, match="is not a record of this mechanism"):
        ledger.perturb(mechanism, "Ana", [mechanism.records.ids[0], "nowhere"])
    assert ledger.holders() == []


def test_a_failed_draw_has_been_paid_for(path, mechanism, monkeypatch):
    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr(type(mechanism), "perturb", fail)
    ledger = Ledger(path, limit=2.0)
    with pytest.raises(MemoryError):
        ledger.perturb(mechanism, "Ana", mechanism.records.ids[0])
    assert ledger.spent("Ana") == mechanism.epsilon


# Many writers


def test_threads_share_a_ledger(path):
    ledger = Ledger(path, limit=20 * Fraction(EPSILON))
    refused = []

    def work():
        for _ in range(8):
            try:
                ledger.charge("Ana", EPSILON)
            except BudgetExceededError as error:
                refused.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 4 * 8 - 20
    assert ledger.exactly_spent("Ana") == 20 * Fraction(EPSILON)


def test_a_fork_waits_for_the_transactions_of_other_threads(path):
    ledger = Ledger(path, limit=10.0)
    inside, ended = threading.Event(), []

    def work():
        with ledger._file.writing():
            inside.set()
            time.sleep(0.3)
            ended.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of threads; they are what is tested
        pid = os.fork()
    if pid == 0:
        try:
            signal.alarm(20)  # a lock that no one holds any more would be waited for without end
            ledger.charge("Ana", 1.0)
            os._exit(0 if ended else 1)
        finally:
            os._exit(2)
    thread.join()
    ledger.charge("Ana", 1.0)
    assert os.waitpid(pid, 0)[1] == 0
    assert ledger.spent("Ana") == 2.0


def run_lanes(path, *, n_lanes, n_charges, n_kills=0, limit="inf", seed=0, key=None):
    """Run this file as a program, in which ``n_lanes`` processes charge; give its summary and the granted charges."""
    options = {"n_lanes": n_lanes, "n_charges": n_charges, "n_kills": n_kills, "limit": limit, "seed": seed, "key": key}
    command = [sys.executable, __file__, str(path), json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
    granted = path.with_suffix(".granted").read_text().split()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return json.loads(done.stdout), Counter(granted)


def check_never_below_what_was_granted(path, *, n_lanes, n_charges, n_kills, key=None):
    summary, granted = run_lanes(path, n_lanes=n_lanes, n_charges=n_charges, n_kills=n_kills, key=key)
    assert granted == {str(lane): n_charges for lane in range(n_lanes)}
    spent = spent_by(path, key=key and Path(key)) / Fraction(EPSILON)
    total = n_lanes * n_charges
    print(f"{total} granted, {spent} counted, {summary}")  # noqa: T201  (figures for `pytest -s`)
    assert 0 < summary["kills"] <= n_kills
    # each kill can leave at most one charge that is on the disk and was not granted any more
    assert total <= spent <= total + summary["kills"]


def test_killed_writers_never_make_it_count_too_little(path_in_memory):
    check_never_below_what_was_granted(path_in_memory, n_lanes=4, n_charges=100, n_kills=20)


def test_killed_writers_leave_a_head_that_can_be_caught_up(path_in_memory):
    """Killed between the commit and the head, and while the head is written: the ledger opens, and counts them all."""
    key = str(path_in_memory.with_name("key"))
    check_never_below_what_was_granted(path_in_memory, n_lanes=4, n_charges=40, n_kills=16, key=key)
    charges = Ledger(path_in_memory, must_exist=True, key=Path(key)).check()
    head = Path(f"{key}.{path_in_memory.name}.head").read_text()
    assert f", {charges}, " in head


@pytest.mark.slow
def test_16_processes_with_1000_charges_each_and_random_kills(path):
    check_never_below_what_was_granted(path, n_lanes=16, n_charges=1000, n_kills=200)


def test_writers_together_reach_the_limit_and_do_not_pass_it(path_in_memory):
    limit = 250 * Fraction(EPSILON)
    summary, granted = run_lanes(path_in_memory, n_lanes=4, n_charges=100, n_kills=8, limit=str(limit))
    assert 250 - summary["kills"] <= granted.total() <= 250
    assert spent_by(path_in_memory, limit=limit) == limit


def charge_in_lane(ledger, log, lane, n_charges):
    """Charge, and only then write down that it was granted."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for _ in range(n_charges):
        try:
            ledger.charge("Ana", EPSILON)
        except BudgetExceededError:
            return
        os.write(handle, f"{lane}\n".encode())
        os.fsync(handle)


def main(path, *, n_lanes, n_charges, n_kills, limit, seed, key):
    """Fork the lanes, kill random ones at random times, and let a successor go on where each killed one stopped."""
    warnings.simplefilter("ignore", DeprecationWarning)  # libraries have started threads, which do nothing here
    rng = random.Random(seed)
    log = path.with_suffix(".granted")
    log.touch()
    amount = math.inf if limit == "inf" else Fraction(limit)
    ledger = Ledger(path, limit=amount, key=key and Path(key), timeout=600.0)

    def start(lane):
        pid = os.fork()
        if pid == 0:
            try:
                charge_in_lane(ledger, log, lane, n_charges - log.read_text().split().count(str(lane)))
                os._exit(0)
            except BaseException as error:  # noqa: BLE001
                print(repr(error), file=sys.stderr, flush=True)  # noqa: T201
                os._exit(1)
        return pid

    # the kills are spread over the run: each at a number of charges granted
    due = sorted(rng.sample(range(n_lanes * n_charges), n_kills), reverse=True)
    begin, kills = time.monotonic(), 0
    lane_of = {start(lane): lane for lane in range(n_lanes)}
    while lane_of:
        time.sleep(rng.uniform(0.0, 0.003))
        if due and len(log.read_bytes().split()) >= due[-1]:
            due.pop()
            os.kill(rng.choice(sorted(lane_of)), signal.SIGKILL)
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            continue
        lane = lane_of.pop(pid)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            kills += 1
            lane_of[start(lane)] = lane
        elif status != 0:
            sys.exit(f"lane {lane} failed with status {status}")
    print(json.dumps({"kills": kills, "seconds": round(time.monotonic() - begin, 2)}))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), **json.loads(sys.argv[2]))
