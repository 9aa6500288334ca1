"""Ledgers at their edges: the head file, the first charge, locks that are let go in time, and what is written where."""

import fcntl
import math
import os
import pickle
import sqlite3
import stat
import threading
import time
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from metricdp.budget import store
from metricdp.budget.chain import Chain, Head
from metricdp.budget.charges import LEDGER, _amount_of_version_1
from metricdp.budget.ledger import Ledger, _as_limit
from metricdp.budget.memoized import ANSWERS, Memoized
from metricdp.budget.refusals import BudgetExceededError, BudgetsExceededError
from metricdp.budget.store import Kind, LedgerError, SqliteFile, _has_begun, check_options, secret_of
from metricdp.data import Records, grid
from metricdp.data.writing import TEMPORARY
from metricdp.errors import Faults, FileFormatError, InputError
from metricdp.mechanism.baselines import exponential
from metricdp.problem import Problem

KEY = b"a key of 32 bytes for the tests."
LINK = bytes(range(32))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


@pytest.fixture(scope="module")
def mechanism():
    return exponential(Problem(grid(3, 3), epsilon=0.5, eta=1.0))


def rows_of(path, query):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


# the head file


@pytest.fixture
def head(tmp_path):
    return Head(tmp_path / "head", Chain(KEY), "a ledger")


def test_a_head_has_two_slots_that_are_written_in_turn(head):
    """The first write fills the first 256 bytes; each later one takes the slot that is older."""
    assert head.read() is None
    head.write(0, LINK)
    assert head.path.stat().st_size == 256
    assert head.read() == (0, LINK)
    first = head.path.read_bytes()
    head.write(1, LINK[::-1])
    both = head.path.read_bytes()
    assert (len(both), both[:256]) == (512, first)
    assert head.read() == (1, LINK[::-1])
    head.write(2, LINK)
    assert head.path.read_bytes()[256:] == both[256:]
    assert head.read() == (2, LINK)
    assert stat.S_IMODE(head.path.stat().st_mode) == 0o600


@pytest.mark.parametrize("n_charges", [4, 5])
def test_a_head_is_never_put_back(head, n_charges):
    head.write(5, LINK)
    before = head.path.read_bytes()
    head.write(n_charges, LINK[::-1])
    assert head.path.read_bytes() == before


def test_a_head_is_written_by_one_process_at_a_time(head):
    head.write(1, LINK)
    with head.path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        other = threading.Thread(target=head.write, args=(2, LINK))
        other.start()
        other.join(0.2)
        assert other.is_alive()
        assert file.read().count(b"a ledger") == 1
    other.join(10.0)
    assert head.read() == (2, LINK)


def test_a_head_that_cannot_be_read_or_written_grants_nothing(head):
    head.path.mkdir()
    with pytest.raises(LedgerError, match=r"head cannot be read \(Is a directory\): nothing was granted"):
        head.read()
    with pytest.raises(LedgerError, match=r"\(Is a directory\): a charge may be recorded, but nothing was granted"):
        head.write(1, LINK)


def test_a_head_is_not_written_through_a_link(head):
    other = head.path.with_name("elsewhere")
    other.write_bytes(b"")
    head.path.symlink_to(other)
    with pytest.raises(LedgerError, match="cannot be written"):
        head.write(1, LINK)
    assert other.read_bytes() == b""


def test_a_head_is_written_where_links_cannot_be_told(head, monkeypatch):
    """Windows has no flag for it."""
    monkeypatch.delattr(os, "O_NOFOLLOW")
    head.write(0, LINK)
    head.write(1, LINK)
    assert head.read() == (1, LINK)


def test_a_copy_from_before_the_first_charge_is_refused(path, tmp_path):
    """One charge that the head knows and the ledger does not is one too few."""
    key = tmp_path / "key"
    Ledger(path, limit=1.0, key=key)
    empty = path.read_bytes()
    Ledger(path, limit=1.0, key=key).charge("Ana", 0.5)
    path.write_bytes(empty)
    with pytest.raises(FileFormatError, match="it has 0 charges, but .* tells of 1"):
        Ledger(path, limit=1.0, key=key)


# opening


def test_what_must_exist_makes_nothing_when_it_does_not(path, tmp_path, mechanism):
    for opened in (
        lambda: Ledger(path, limit=1.0, key=tmp_path / "key", must_exist=True),
        lambda: Memoized(mechanism, path, key=tmp_path / "key", must_exist=True),
    ):
        with pytest.raises(InputError):
            opened()
        assert list(tmp_path.iterdir()) == []


def test_a_memory_and_its_key_are_made_together(path, tmp_path, mechanism):
    key = tmp_path / "key"
    memory = Memoized(mechanism, path, key=key)
    answer = memory.perturb("Ana", mechanism.records.ids[0])
    assert len(key.read_bytes()) == 32
    assert Memoized(mechanism, path, key=key).perturb("Ana", mechanism.records.ids[0]) == answer
    key.unlink()
    with pytest.raises(InputError, match="key file .* cannot be used"):
        Memoized(mechanism, path, key=key)
    assert not key.exists()


def test_an_existing_ledger_is_opened_with_its_own_limit_only(path):
    Ledger(path, limit=1.0)
    with pytest.raises(InputError, match="has the limit 1.*not 2"):
        Ledger(path, limit=2.0, must_exist=True)
    assert Ledger(path, must_exist=True).limit == 1
    with pytest.raises(InputError, match="limit"):
        Ledger(path.with_name("new.db"))


def test_every_kind_of_file_has_its_own_mark(path, tmp_path, mechanism):
    """Other programs and later versions tell our files by these numbers."""
    Ledger(path, limit=1.0)
    Memoized(mechanism, tmp_path / "answers.db")
    marks = [
        tuple(rows_of(file, f"PRAGMA {name}")[0][0] for name in ("application_id", "user_version"))
        for file in (path, tmp_path / "answers.db")
    ]
    assert marks == [(int.from_bytes(b"mdpL"), 2), (int.from_bytes(b"mdpM"), 1)]
    assert (LEDGER.version, ANSWERS.version) == (2, 1)
    assert len(dict(rows_of(path, "SELECT name, value FROM settings"))["name"]) == 16


def test_a_file_that_becomes_another_kind_is_noticed_while_it_is_in_use(path):
    ledger = Ledger(path, limit=1.0)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 3")
    for use in (lambda: ledger.spent("Ana"), lambda: ledger.charge("Ana", 0.1)):
        with pytest.raises(FileFormatError, match="has version 3"):
            use()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 1")
    for use in (lambda: ledger.spent("Ana"), lambda: ledger.charge("Ana", 0.1)):
        with pytest.raises(FileFormatError, match="has version 1"):
            use()


def test_only_version_1_is_upgraded_and_only_where_it_can_be(path):
    calls = []
    options = {"kind": LEDGER, "settings": {"key": ""}, "timeout": 1.0}
    SqliteFile(path, **options, upgrade=lambda *_: calls.append("new"))
    SqliteFile(path, **options, upgrade=lambda *_: calls.append("same"))
    assert calls == []
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 1")
    with pytest.raises(FileFormatError, match="has version 1"):
        SqliteFile(path, **options)
    SqliteFile(path, **options, upgrade=lambda *_: calls.append("old"))
    assert calls == ["old"]
    assert rows_of(path, "PRAGMA user_version") == [(2,)]


def test_a_kind_in_its_first_version_is_not_upgraded(path):
    first = Kind(application_id=7, version=1, schema=())
    for _ in range(2):
        SqliteFile(path, kind=first, settings={"key": ""}, timeout=1.0, upgrade=lambda *_: pytest.fail("upgraded"))
    assert rows_of(path, "PRAGMA user_version") == [(1,)]


def test_a_file_that_another_process_upgrades_meanwhile_is_upgraded_once(path):
    calls = []
    options = {"kind": LEDGER, "settings": {"key": ""}, "timeout": 1.0}
    SqliteFile(path, **options)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 1")

    class Slow(SqliteFile):
        def _check_key(self, connection, settings):
            super()._check_key(connection, settings)
            connection.execute("COMMIT")
            SqliteFile(path, **options, upgrade=lambda *_: calls.append("faster"))
            connection.execute("BEGIN")

    Slow(path, **options, upgrade=lambda *_: calls.append("slower"))
    assert calls == ["faster"]


def test_what_a_killed_maker_leaves_is_known_as_a_leftover(path, monkeypatch):
    names, real = [], os.link

    def link(source, target):
        names.append(Path(source).name)
        real(source, target)

    monkeypatch.setattr(os, "link", link)
    Ledger(path, limit=1.0, key=path.with_name("key"))
    assert len(names) == 2
    assert all(TEMPORARY.fullmatch(name) for name in names)


def test_no_file_stays_open(path):
    def n_open():
        return len(list(Path("/proc/self/fd").iterdir()))

    before = n_open()
    Ledger(path, limit=1.0, key=path.with_name("key")).charge("Ana", 0.5)
    assert n_open() == before


def test_the_faster_of_two_that_make_a_file_wins(path, monkeypatch):
    real = os.link

    def slow(source, target):
        monkeypatch.setattr(os, "link", real)
        Ledger(path, limit=1.0).charge("Ana", 0.5)
        real(source, target)

    monkeypatch.setattr(os, "link", slow)
    assert Ledger(path, limit=1.0).spent("Ana") == 0.5
    assert [file.name for file in path.parent.iterdir()] == ["budget.db"]


def test_a_new_file_and_every_charge_are_on_the_disk(path, monkeypatch):
    """The folder is synchronised after the file got its name; SQLite's strictest setting is in force throughout."""
    synced = []
    monkeypatch.setattr(store, "_sync_folder", synced.append)
    statements, opened = [], []
    real = sqlite3.connect

    def connect(*words, **options):
        opened.append((str(words[0]), options.get("uri", False)))
        connection = real(*words, **options)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect)
    ledger = Ledger(path, limit=1.0)
    assert synced == [path.parent]
    assert statements[0] == "PRAGMA synchronous = EXTRA"
    assert set(opened[1:]) == {(f"{path.as_uri()}?mode=rw", True)}  # what has gone is not made again
    statements.clear()
    ledger.charge("Ana", 0.5)
    begins = [at for at, text in enumerate(statements) if text.startswith("BEGIN")]
    assert begins
    for at in begins:  # each in a connection of its own; then a read, which takes the lock
        assert statements[at - 2 : at] == ["PRAGMA synchronous = EXTRA", "PRAGMA fullfsync = ON"]
        assert statements[at + 1] == "PRAGMA application_id"


def test_tables_that_cannot_be_made_leave_nothing(path):
    twice = Kind(application_id=1, version=1, schema=(store.SETTINGS_SQL,))
    with pytest.raises(FileFormatError, match="table settings already exists; nothing was granted"):
        SqliteFile(path, kind=twice, settings={"key": ""}, timeout=1.0)
    assert list(path.parent.iterdir()) == []


def test_a_transaction_that_could_not_begin_is_not_taken_for_one(path):
    Ledger(path, limit=1.0)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert _has_begun(connection, "BEGIN")
        with closing(sqlite3.connect(path, isolation_level=None, timeout=0.0)) as other:
            assert _has_begun(other, "BEGIN EXCLUSIVE") is False  # the lock is held from then on
        with pytest.raises(sqlite3.OperationalError, match="inside a transaction"):
            _has_begun(connection, "BEGIN")


# waiting


def hold(path, seconds):
    """Lock the file now and let it go after so many seconds."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN EXCLUSIVE")

    def release():
        time.sleep(seconds)
        connection.close()

    thread = threading.Thread(target=release)
    thread.start()
    return thread


def test_a_lock_that_is_let_go_in_time_is_waited_for(path):
    ledger = Ledger(path, limit=1.0, timeout=20.0)
    thread = hold(path, 0.5)
    begin = time.monotonic()
    assert ledger.charge("Ana", 0.5) == 0.5
    assert 0.3 < time.monotonic() - begin < 10.0
    thread.join()


@pytest.fixture
def clock(monkeypatch):
    """Clocks that stand still unless told otherwise, and sleeps that are noted."""
    clock = SimpleNamespace(now=100.0, ticks=0, slept=[])
    clock.monotonic = lambda: clock.now
    clock.perf_counter_ns = lambda: clock.ticks

    def sleep(seconds):
        clock.slept.append(seconds)
        clock.now += 0.5

    clock.sleep = sleep
    monkeypatch.setattr(store, "time", clock)
    return clock


def test_a_lock_is_waited_for_up_to_the_timeout(path, clock):
    """Looked at every half second here: at 0, 0.5, 1.0 (not over yet) and 1.5 s."""
    ledger = Ledger(path, limit=1.0, timeout=1.0)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LedgerError, match="was locked by other processes for 1 s: nothing was granted; try again"):
            ledger.charge("Ana", 0.5)
    assert len(clock.slept) == 3


@pytest.mark.parametrize(("ticks", "seconds"), [(0, 0.001), (8_999, 0.009999), (9_000, 0.001), (123_456, 0.007456)])
def test_writers_that_wait_look_again_after_one_to_ten_milliseconds(path, clock, ticks, seconds):
    clock.ticks = ticks
    ledger = Ledger(path, limit=1.0, timeout=0.0)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LedgerError, match="was locked"):
            ledger.charge("Ana", 0.5)
    assert clock.slept == pytest.approx([seconds], rel=1e-9)


def test_by_default_a_lock_is_waited_for_for_a_minute(path, mechanism):
    assert store.TIMEOUT_SECONDS == 60.0
    assert Ledger(path, limit=1.0)._file.timeout == 60.0
    assert Memoized(mechanism, path.with_name("answers.db"))._file.timeout == 60.0


def test_while_waiting_others_may_work(path):
    """No lock of this process is held while it waits for another one, and it waits for short times only."""
    assert 0 < store.SQLITE_WAIT_SECONDS < 1
    ledger = Ledger(path, limit=1.0)
    thread = hold(path, 0.4)
    waiting = threading.Thread(target=ledger.charge, args=("Ana", 0.5))
    waiting.start()
    time.sleep(0.15)
    assert store.between_forks.acquire(timeout=0.3)
    store.between_forks.release()
    for one in (thread, waiting):
        one.join()
    assert ledger.spent("Ana") == 0.5


# what is charged


def test_a_change_of_the_limit_is_a_line_of_nobody(path):
    ledger = Ledger(path, limit=1.0)
    ledger.charge("Ana", 0.5, reports=2)
    ledger.change_limit(Fraction(3, 2))
    assert rows_of(path, "SELECT holder, reports, subject, spent FROM charges") == [
        ("Ana", 2, "", "1"),
        ("", 0, "", "0"),
    ]
    assert ledger.holders() == ["Ana"]
    assert ledger.check() == 2


@pytest.mark.parametrize(("thousandths", "is_hinted"), [(999, True), (1000, False), (2000, False)])
def test_the_hint_at_rounding_is_for_a_millionth_of_a_millionth(thousandths, is_hinted):
    error = BudgetExceededError("Ana", Fraction(1), Fraction(thousandths, 10**15), Fraction(1))
    assert ("n * Fraction(epsilon)" in str(error)) == is_hinted


def test_refusals_come_back_from_worker_processes_as_they_were():
    one = BudgetExceededError("Ana", Fraction(1, 3), Fraction(1, 2), Fraction(3, 4))
    many = BudgetsExceededError(("Ana", "Ben"), 5)
    for error in (one, many):
        again = pickle.loads(pickle.dumps(error))  # noqa: S301  our own
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize("limit", [None, 0, -1.0, math.nan, True, "1"])
def test_limits_that_cannot_be_are_told_with_all_other_faults(path, limit):
    with pytest.raises(InputError, match="2 faults.*key must be.*limit must be"):
        Ledger(path, limit=limit, key=b"short")
    assert not path.exists()


def test_points_without_protection_are_not_drawn_unless_asked_for(path):
    records = Records([[0.0, 0.0], [0.0, 1.0], [9.0, 9.0]], kind="vectors")
    lonely = exponential(Problem(records, epsilon=0.5, eta=1.5))
    ledger = Ledger(path, limit=10.0)
    with pytest.raises(InputError, match="protect"):
        ledger.perturb_points(lonely, "Ana", [[9.0, 9.0]], limit=0.5)
    assert len(ledger.perturb_points(lonely, "Ana", [[9.0, 9.0]], limit=0.5, allow_unprotected=True).ids) == 1


@pytest.mark.parametrize(
    ("epsilon", "reports"),
    [("inf", 1), ("nan", 1), ("-0x1p+0", 1), ("0x0p+0", 1), ("0x1p-1", 0), ("0x1p-1", -1)]
    + [("0x1p-1", reports) for reports in (True, 1.0, "1", None)],
)
def test_charges_of_version_1_that_cannot_be(epsilon, reports):
    with pytest.raises(ValueError, match="^$"):
        _amount_of_version_1(epsilon, reports)


def test_charges_of_version_1():
    assert _amount_of_version_1("0x1p-1", 3) == Fraction(3, 2)
    assert _amount_of_version_1("0x1p-1", 1) == Fraction(1, 2)


# options


@pytest.mark.parametrize("size", [16, 17, 4096])
def test_keys_of_sixteen_to_4096_bytes(tmp_path, size):
    key = tmp_path / "key"
    key.write_bytes(b"k" * size)
    key.chmod(0o600)
    assert secret_of(key, can_make=False) == b"k" * size


@pytest.mark.parametrize("size", [0, 15, 4097])
def test_keys_that_are_too_short_or_too_long(tmp_path, size):
    key = tmp_path / "key"
    key.write_bytes(b"k" * size)
    key.chmod(0o600)
    with pytest.raises(InputError, match="16 to 4096 secret bytes"):
        secret_of(key, can_make=True)


@pytest.mark.parametrize("mode", [0o601, 0o610, 0o602, 0o640])
def test_keys_that_others_can_use_are_refused(tmp_path, mode):
    key = tmp_path / "key"
    key.write_bytes(KEY)
    key.chmod(mode)
    with pytest.raises(InputError, match="chmod 600"):
        secret_of(key, can_make=False)


@pytest.mark.parametrize(("key", "got"), [(b"k" * 15, "15 bytes"), ("k" * 40, "str"), (7, "int")])
def test_a_key_that_cannot_be_is_told_by_its_size_or_type(path, key, got):
    with pytest.raises(InputError, match=f"got {got}$"):
        Ledger(path, limit=1.0, key=key)


@pytest.mark.parametrize("holder", ["a\ud800", "\udfffb", "a\udabcb"])
def test_names_that_no_file_can_hold(path, holder):
    with pytest.raises(InputError, match="written as UTF-8"):
        Ledger(path, limit=1.0).charge(holder, 0.1)


@pytest.mark.parametrize("holder", ["\ud7ff", "\ue000"])
def test_names_at_the_edge_of_what_a_file_can_hold(path, holder):
    assert Ledger(path, limit=1.0).charge(holder, 0.5) == 0.5


def test_who_can_use_a_key_is_looked_at_where_modes_tell(tmp_path, monkeypatch):
    """Windows shows all files as readable by everyone."""
    key = tmp_path / "key"
    key.write_bytes(KEY)
    key.chmod(0o644)
    with monkeypatch.context() as patch:
        patch.setattr(os, "name", "nt")
        found = secret_of(key, can_make=False)
    assert found == KEY


def test_a_new_key_is_on_the_disk_before_it_is_used(tmp_path, monkeypatch):
    events = []
    real = os.fsync

    def fsync(handle):
        events.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        events.append(os.fstat(handle).st_size)
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    key = tmp_path / "key"
    assert secret_of(key, can_make=True) == key.read_bytes()
    assert Path(events[0]).parent == tmp_path
    assert events[1:3] == [32, str(tmp_path)]
    assert list(tmp_path.iterdir()) == [key]
    assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_a_key_is_seen_whole_or_not_at_all(tmp_path, monkeypatch):
    """Half a key would be refused with the advice to make another one, while its maker goes on to use it."""
    key, seen = tmp_path / "key", []
    real = os.fsync

    def fsync(handle):
        if os.fstat(handle).st_size == 32:
            seen.append(key.exists())
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    secret_of(key, can_make=True)
    assert seen == [False]


def test_a_key_that_is_there_is_used_without_writing_beside_it(tmp_path, monkeypatch):
    """Its folder may be one that cannot be written."""
    key = tmp_path / "key"
    key.write_bytes(KEY)
    key.chmod(0o600)
    monkeypatch.setattr(os, "link", lambda *_: pytest.fail("made another"))
    assert secret_of(key, can_make=True) == KEY


def test_the_faster_of_two_that_make_a_key_wins(tmp_path, monkeypatch):
    key, real, found = tmp_path / "key", os.link, []

    def slow(source, target):
        monkeypatch.setattr(os, "link", real)
        found.append(secret_of(key, can_make=True))
        real(source, target)

    monkeypatch.setattr(os, "link", slow)
    found.append(secret_of(key, can_make=True))
    assert found == [key.read_bytes()] * 2
    assert list(tmp_path.iterdir()) == [key]


def test_many_that_make_one_key_at_once_all_get_it(tmp_path):
    key, found, start = tmp_path / "key", [], threading.Barrier(8)

    def make():
        start.wait()
        found.append(secret_of(key, can_make=True))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [key.read_bytes()] * 8


def test_a_key_that_cannot_be_made_leaves_nothing(tmp_path, monkeypatch):
    def fail(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(InputError, match=r"cannot be used \(No space left on device\): nothing was granted"):
        secret_of(tmp_path / "key", can_make=True)
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_that_another_process_makes_just_now_is_not_missed(path, tmp_path, monkeypatch):
    """Its head appears between two looks: the ledger was there before it, and is opened, not called lost."""
    key, real = tmp_path / "key", Path.exists

    def exists(self, **more):
        answer = real(self, **more)
        if self == path:
            monkeypatch.setattr(Path, "exists", real)
            Ledger(path, limit=1.0, key=key).charge("Ana", 0.5)
        return answer

    monkeypatch.setattr(Path, "exists", exists)
    assert Ledger(path, limit=1.0, key=key).spent("Ana") == 0.5


@pytest.mark.parametrize("denied", ["file", "file for reading", "folder"])
def test_what_cannot_be_written_is_refused(path, monkeypatch, denied):
    Ledger(path, limit=1.0)

    def access(asked, mode):
        if denied == "file for reading":
            return not (asked == path and mode & os.R_OK)
        return asked != (path if denied == "file" else path.parent)

    monkeypatch.setattr(os, "access", access)
    with pytest.raises(InputError, match="permission denied"):
        Ledger(path, limit=1.0)


def test_numbers_of_numpy_are_options_too():
    faults = Faults("the options")
    check_options(KEY, np.float64(1.0), faults)
    check_options(b"k" * 16, 0, faults)
    assert _as_limit(np.float64(0.5), faults) == Fraction(1, 2)
    faults.raise_if_any()
    check_options(b"k" * 15, -0.001, faults)
    with pytest.raises(InputError, match="2 faults"):
        faults.raise_if_any()
