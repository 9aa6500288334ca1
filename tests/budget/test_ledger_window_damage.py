"""Ledgers with a window that lost something: flipped bits, edited rows and settings, other versions, older copies."""

import random
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from tests.budget.windows import DAY, DAY_NS, HOLDERS, KEY, MEMORY

from metricdp.budget.charges import LEDGER, WINDOWED
from metricdp.budget.ledger import Ledger
from metricdp.errors import FileFormatError, MetricDPError


def edit(path, *statements):
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def rows_of(path, question):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(question).fetchall()


def test_files_without_a_window_are_as_they_were(ledger, path, tmp_path):
    ledger.charge("Ana", 0.5)
    Ledger(tmp_path / "plain.db", limit=1.0).charge("Ana", 0.5)
    versions = [rows_of(file, "PRAGMA user_version")[0][0] for file in (tmp_path / "plain.db", path)]
    assert versions == [LEDGER.version, WINDOWED.version] == [2, 3]
    names = [{name for (name,) in rows_of(file, "SELECT name FROM settings")} for file in (tmp_path / "plain.db", path)]
    assert names[0] == {"name", "limit", "currency", "charges", "link", "key", "seal"}
    assert names[1] - names[0] == {"window", "latest"}


def fill(path, key, clock, *, n_charges=60):
    """Charge over three days; return the sums at their end."""
    rng = random.Random(0)
    ledger = Ledger(path, limit=1000.0, window=DAY, key=key)
    for _ in range(n_charges):
        clock.now += rng.randrange(6 * DAY_NS // n_charges)
        ledger.charge(rng.choice(HOLDERS), rng.choice([0.1, 0.25, 0.3]), reports=rng.randint(1, 5))
    return sums_of(ledger)


def sums_of(ledger):
    return [ledger.limit, ledger.window, *(ledger.exactly_spent(holder) for holder in HOLDERS)]


@pytest.mark.parametrize("has_key", [False, True])
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE charges SET moment = moment - 1 WHERE charge = 30",
        "UPDATE charges SET moment = 0",
        "DELETE FROM charges WHERE charge = 30",
        "UPDATE settings SET value = '1000' WHERE name = 'window'",
        "UPDATE settings SET value = '0' WHERE name = 'latest'",
        "DELETE FROM settings WHERE name IN ('window', 'latest')",
        "DROP INDEX moments_of_holders",
        "PRAGMA user_version = 1",
        "PRAGMA user_version = 2",
    ],
)
def test_edits_with_sqlite_are_noticed(path, clock, has_key, statement):
    key = KEY if has_key else None
    fill(path, key, clock)
    edit(path, statement)
    for window in (None, DAY):
        with pytest.raises(FileFormatError, match="is damaged.*nothing was granted"):
            Ledger(path, must_exist=True, window=window, key=key)


@pytest.mark.parametrize("window", [None, DAY])
def test_a_ledger_that_claims_to_be_of_version_1_is_left_as_it_is(path, window):
    Ledger(path, limit=1.0, window=window).charge("Ana", 0.5)
    edit(path, "PRAGMA user_version = 1")
    before = path.read_bytes()
    with pytest.raises(FileFormatError, match="it is not of version 1, as it says"):
        Ledger(path, limit=1.0, window=window)
    assert path.read_bytes() == before


def test_a_ledger_in_use_notices_a_charge_that_was_made_older(ledger, path, clock):
    for _ in range(3):
        ledger.charge("Ana", 0.25)
        clock.now += 1
    edit(path, "UPDATE charges SET moment = moment - 86400000000000 WHERE charge = 2")
    for use in (lambda: ledger.spent("Ana"), lambda: ledger.charge("Ana", 0.5)):
        with pytest.raises(FileFormatError, match="charge 2 is not as it was written"):
            use()


def test_flipped_bits_never_change_a_sum_unnoticed(clock):
    rng = random.Random(0)
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "budget.db"
        expected = fill(path, None, clock)
        data = path.read_bytes()
        bits = [60 * 8 + bit for bit in range(32)]  # the version
        refused = 0
        for bit in [*bits, *(rng.randrange(8 * len(data)) for _ in range(600))]:
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            path.write_bytes(flipped)
            try:
                assert sums_of(Ledger(path, must_exist=True)) == expected
            except MetricDPError:
                refused += 1
        assert refused >= len(bits)


def test_an_older_copy_is_refused(path, tmp_path, clock):
    key = tmp_path / "key"
    fill(path, key, clock, n_charges=5)
    shutil.copy(path, tmp_path / "copy.db")
    Ledger(path, must_exist=True, key=key).charge("Ana", 1.0)
    shutil.copy(tmp_path / "copy.db", path)
    with pytest.raises(FileFormatError, match="it is an older copy"):
        Ledger(path, must_exist=True, key=key)
