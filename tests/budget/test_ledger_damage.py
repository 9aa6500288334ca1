"""Ledgers that lost something: flipped bits, cut ends, removed rows, older copies, and journals that went astray."""

import itertools
import os
import random
import shutil
import sqlite3
import stat
import tempfile
from contextlib import closing, suppress
from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import pytest

from metricdp.budget.ledger import Ledger
from metricdp.budget.store import key_check, keyed
from metricdp.errors import FileFormatError, InputError, MetricDPError

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108
HOLDERS = [f"person {number}" for number in range(8)]
LIMIT = 1000.0


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        (Path(name) / "private").mkdir()
        yield Path(name)


@pytest.fixture
def path(folder):
    return folder / "budget.db"


@pytest.fixture
def key(folder):
    return folder / "private" / "key"


def fill(path, key=None, *, n_charges=120, seed=0):
    """Make a ledger of several pages; give what everyone has spent."""
    rng = random.Random(seed)
    ledger = Ledger(path, limit=LIMIT, key=key)
    for _ in range(n_charges):
        ledger.charge(rng.choice(HOLDERS), rng.choice([0.1, 0.25, 0.3]), reports=rng.randint(1, 5))
    return sums_of(ledger)


def sums_of(ledger):
    return [ledger.limit, *(ledger.exactly_spent(holder) for holder in HOLDERS)]


def edit(path, *statements):
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def outcome(path, key, *expected):
    """Return what happens to a tampered ledger: refused, the same sums as before, or changed unnoticed."""
    try:
        sums = sums_of(Ledger(path, must_exist=True, key=key))
    except MetricDPError:
        return "refused"
    return "same" if sums in expected else "changed"


# Opening


def test_must_exist_refuses_to_begin_again(path):
    with pytest.raises(InputError, match=r"does not exist: .*put the old one back, or make a new one on purpose"):
        Ledger(path, limit=1.0, must_exist=True)
    assert not path.exists()
    Ledger(path, limit=1.0).charge("Ana", 1.0)
    assert Ledger(path, limit=1.0, must_exist=True).spent("Ana") == 1.0
    path.unlink()
    with pytest.raises(InputError, match="does not exist"):
        Ledger(path, limit=1.0, must_exist=True)


def test_an_existing_ledger_knows_its_limit(path):
    Ledger(path, limit=2.5)
    assert Ledger(path, must_exist=True).limit == 2.5
    with pytest.raises(InputError, match="limit must be positive"):
        Ledger(path)


def test_nothing_is_left_beside_a_new_ledger(path, folder):
    Ledger(path, limit=1.0)
    assert sorted(file.name for file in folder.iterdir()) == ["budget.db", "private"]


# Keys


def test_a_key_file_is_made_with_the_ledger_and_must_be_there_afterwards(path, key):
    Ledger(path, limit=1.0, key=key).charge("Ana", 0.5)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert len(key.read_bytes()) == 32
    assert b"Ana" not in path.read_bytes()
    assert Ledger(path, must_exist=True, key=key).spent("Ana") == 0.5
    assert Ledger(path, must_exist=True, key=key.read_bytes()).spent("Ana") == 0.5
    key.rename(key.with_name("elsewhere"))
    with pytest.raises(InputError, match=r"the key file .* cannot be used \(No such file"):
        Ledger(path, limit=1.0, key=key)
    assert not key.exists()


def test_key_files_that_cannot_be(path, key):
    key.write_bytes(b"0123456789abcdef")
    key.chmod(0o640)
    with pytest.raises(InputError, match="can be used by others than its owner: make it private with chmod 600"):
        Ledger(path, limit=1.0, key=key)
    key.chmod(0o600)
    for content in (b"", b"0123456789abcde", b"x" * 5000):
        key.write_bytes(content)
        with pytest.raises(InputError, match="must be a file of 16 to 4096 secret bytes"):
            Ledger(path, limit=1.0, key=key)
    with pytest.raises(InputError, match="is not a file: name a file of secret bytes"):
        Ledger(path, limit=1.0, key=key.parent)
    assert not path.exists()


# Damage


@pytest.mark.parametrize("has_key", [False, True])
def test_flipped_bits_and_cut_ends_never_change_a_sum_unnoticed(path, key, has_key):
    key = key if has_key else None
    expected = fill(path, key)
    whole = path.read_bytes()
    assert len(whole) > 5 * 4096
    rng = random.Random(1)
    flipped = []
    for _ in range(300):
        data, place = bytearray(whole), rng.randrange(len(whole))
        data[place] ^= 1 << rng.randrange(8)
        flipped.append(data)
    cut = [whole[:length] for length in rng.sample(range(len(whole)), 97)] + [b"", whole[:100], whole[:4096]]
    counts = {}
    for name, versions in (("flipped", flipped), ("cut", cut)):
        for data in versions:
            path.write_bytes(data)
            answer = outcome(path, key, expected)
            counts[name, answer] = counts.get((name, answer), 0) + 1
    print(counts)  # noqa: T201  (figures for `pytest -s`)
    assert counts.keys() <= {("flipped", "refused"), ("flipped", "same"), ("cut", "refused")}
    assert counts["cut", "refused"] == 100
    assert counts["flipped", "refused"] > 100  # the others hit bytes that hold nothing


@pytest.mark.parametrize("has_key", [False, True])
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM charges WHERE charge = 12",
        "DELETE FROM charges WHERE charge = 1",
        "DELETE FROM charges",
        "DELETE FROM charges WHERE holder = (SELECT min(holder) FROM charges)",
        "UPDATE charges SET spent = '1/10' WHERE charge = 12",
        "UPDATE charges SET reports = 1 WHERE charge = 5",
        "UPDATE charges SET holder = 'x' WHERE charge = 5",
        "UPDATE charges SET charge = 13 WHERE charge = 12",
        "UPDATE settings SET value = '2000' WHERE name = 'limit'",
        "UPDATE settings SET value = '11' WHERE name = 'charges'",
        "INSERT INTO charges SELECT 13, holder, epsilon, reports, subject, spent, link FROM charges WHERE charge = 12",
        "DROP INDEX charges_of_holders",
        "CREATE TRIGGER forget AFTER INSERT ON charges BEGIN DELETE FROM charges; END",
        "DELETE FROM settings WHERE name = 'key'",
    ],
)
def test_edits_with_sqlite_are_noticed(path, key, has_key, statement):
    key = key if has_key else None
    fill(path, key, n_charges=12)
    edit(path, statement)
    with pytest.raises(FileFormatError, match="is damaged.*nothing was granted"):
        Ledger(path, must_exist=True, key=key)


def test_a_ledger_in_use_notices_when_its_last_charges_or_its_settings_change(path):
    ledger = Ledger(path, limit=1.0)
    ledger.charge("Ana", 0.5)
    ledger.charge("Ana", 0.25)
    edit(path, "DELETE FROM charges WHERE charge = 2")
    for ask in (lambda: ledger.charge("Ana", 0.1), lambda: ledger.spent("Ana"), ledger.holders, ledger.check):
        with pytest.raises(FileFormatError, match="it does not end with its charge 2"):
            ask()


def test_check_counts_the_charges_or_says_which_is_wrong(path, key):
    fill(path, key, n_charges=12)
    ledger = Ledger(path, must_exist=True, key=key)
    assert ledger.check() == 12
    ledger.change_limit(2000.0)
    assert ledger.check() == 13
    edit(path, "DELETE FROM charges WHERE charge = 7")
    with pytest.raises(FileFormatError, match="charge 7 is missing"):
        ledger.check()


def test_without_a_key_another_ledger_can_take_its_place_and_with_one_it_cannot(path, key, folder):
    """What a plain hash is not for: whoever means to can make a sound file with nothing spent."""
    plain, forged = folder / "plain.db", folder / "forged.db"
    for place, secret in ((plain, None), (path, key)):
        Ledger(place, limit=1.0, key=secret).charge("Ana", 1.0)
    Ledger(forged, limit=1.0)
    shutil.copy(forged, plain)
    assert Ledger(plain, must_exist=True).spent("Ana") == 0.0
    shutil.copy(forged, path)
    with pytest.raises(InputError, match="made without a key"):
        Ledger(path, must_exist=True, key=key)


# Older copies


def test_older_copies_are_refused_as_long_as_the_head_is_there(path, key):
    copies = []
    ledger = Ledger(path, limit=LIMIT, key=key)
    for _ in range(12):
        copies.append(path.read_bytes())
        ledger.charge("Ana", 0.5)
    newest = path.read_bytes()
    for n_charges, copy in enumerate(copies):
        path.write_bytes(copy)
        with pytest.raises(FileFormatError, match=f"has {n_charges} charges, but .*head tells of 12: it is an older"):
            Ledger(path, must_exist=True, key=key)
        with pytest.raises(FileFormatError, match="older copy"):
            ledger.charge("Ana", 0.5)  # also by those who had opened it before
    path.write_bytes(newest)
    assert Ledger(path, must_exist=True, key=key).spent("Ana") == 6.0


def test_a_removed_ledger_does_not_begin_again_while_its_head_is_there(path, key):
    Ledger(path, limit=1.0, key=key).charge("Ana", 1.0)
    path.unlink()
    with pytest.raises(InputError, match="head tells of its charges: put the ledger back"):
        Ledger(path, limit=1.0, key=key)
    assert not path.exists()
    assert Ledger(path, limit=1.0, key=key, new_head=True).spent("Ana") == 0.0
    assert Ledger(path, limit=1.0, key=key).charge("Ana", 1.0) == 1.0


def test_an_older_copy_can_be_taken_on_purpose(path, key):
    ledger = Ledger(path, limit=1.0, key=key)
    ledger.charge("Ana", 0.25)
    copy = path.read_bytes()
    ledger.charge("Ana", 0.5)
    path.write_bytes(copy)
    assert Ledger(path, must_exist=True, key=key, new_head=True).spent("Ana") == 0.25
    assert Ledger(path, must_exist=True, key=key).charge("Ana", 0.75) == 1.0


def test_a_missing_or_damaged_head_is_said(path, key, folder):
    Ledger(path, limit=1.0, key=key).charge("Ana", 0.5)
    head = folder / "private" / "key.budget.db.head"
    content = head.read_bytes()
    assert stat.S_IMODE(head.stat().st_mode) == 0o600
    for damaged in (b"x" * 512, content[:100], content.replace(b" 1,", b" 0,").replace(b" 0,", b" 9,")):
        head.write_bytes(damaged)
        with pytest.raises(FileFormatError, match="is damaged or not the head of this ledger"):
            Ledger(path, must_exist=True, key=key)
    for lose in (lambda: head.write_bytes(b""), head.unlink):
        lose()
        with pytest.raises(InputError, match="is missing, which tells the newest charge"):
            Ledger(path, must_exist=True, key=key)
    head.write_bytes(content)
    assert Ledger(path, must_exist=True, key=key).spent("Ana") == 0.5


def test_a_head_that_is_behind_is_caught_up(path, key, folder):
    """As after a kill between the commit and the head: whoever has the key has made the newer charges."""
    ledger = Ledger(path, limit=LIMIT, key=key)
    head = folder / "private" / "key.budget.db.head"
    older = []
    for _ in range(4):
        older.append(head.read_bytes())
        ledger.charge("Ana", 0.5)
    newest = head.read_bytes()
    for content in older:
        head.write_bytes(content)
        assert Ledger(path, must_exist=True, key=key).spent("Ana") == 2.0
        assert b" 4," in head.read_bytes()
    torn = bytearray(newest)
    torn[newest.index(b" 4,") + 10] ^= 1  # the newest slot was being written when the power went
    head.write_bytes(torn)
    assert Ledger(path, must_exist=True, key=key).spent("Ana") == 2.0


def test_two_ledgers_of_one_name_do_not_share_a_head(path, key, folder):
    Ledger(path, limit=1.0, key=key)
    (folder / "other").mkdir()
    with pytest.raises(InputError, match="tells of its charges"):
        Ledger(folder / "other" / path.name, limit=1.0, key=key)
    other = Ledger(folder / "other.db", limit=1.0, key=key)
    other.charge("Ana", 1.0)
    shutil.copy(other.path, path)
    with pytest.raises(FileFormatError, match="not the head of this ledger"):
        Ledger(path, must_exist=True, key=key)


def test_two_futures_of_one_ledger_are_not_mixed(path, key, folder):
    """A copy that went on elsewhere with the same key is another ledger from there on."""
    Ledger(path, limit=LIMIT, key=key).charge("Ana", 0.5)
    copy, secret = folder / "copy.db", key.read_bytes()
    shutil.copy(path, copy)
    Ledger(path, must_exist=True, key=key).charge("Ana", 100.0)
    fork = Ledger(copy, must_exist=True, key=secret)
    for _ in range(3):
        fork.charge("Ana", 0.1)
    shutil.copy(copy, path)
    with pytest.raises(
        FileFormatError, match="has 4 charges, but .* tells of 2: it is an older copy or another ledger"
    ):
        Ledger(path, must_exist=True, key=key)


# Journals


def test_a_commit_that_stopped_half_way_without_its_journal(path, key):
    """Every mixture of old and new pages is one of the two whole states or refused."""
    fill(path, key)
    old = path.read_bytes()
    ledger = Ledger(path, must_exist=True, key=key)
    before = sums_of(ledger)
    head = (key.with_name("key.budget.db.head")).read_bytes()
    ledger.charge(HOLDERS[0], 0.5)
    after, new = sums_of(ledger), path.read_bytes()
    size = 4096
    changed = [at for at in range(0, len(new), size) if new[at : at + size] != old[at : at + size]]
    assert 3 <= len(changed) <= 8
    answers = []
    for chosen in itertools.product([False, True], repeat=len(changed)):
        mixed = bytearray(old.ljust(len(new), b"\0"))
        for at, is_new in zip(changed, chosen, strict=True):
            mixed[at : at + size] = (new if is_new else old.ljust(len(new), b"\0"))[at : at + size]
        path.write_bytes(mixed)
        key.with_name("key.budget.db.head").write_bytes(head)
        answers.append(outcome(path, key, before, after))
    assert "changed" not in answers
    assert answers[0] == answers[-1] == "same"
    assert answers.count("same") <= 4  # SQLite's counter of changes alone is nothing that is counted


def hot_journal(path, key):
    """Return the journal of a charge that was killed before its commit."""
    ledger = Ledger(path, must_exist=True, key=key)
    with suppress(KeyboardInterrupt), ledger._charges.writing() as now:
        now._connection.execute("PRAGMA cache_size = 1")
        now._connection.execute("PRAGMA cache_spill = ON")
        now.append([("x" * 500, "0x1p-1", 1, "", "1/2")] * 200)
        journal = path.with_name(f"{path.name}-journal").read_bytes()
        raise KeyboardInterrupt
    assert journal.startswith(bytes.fromhex("d9d505f920a163d7"))
    return journal


def test_the_journal_of_another_ledger(path, key, folder):
    expected = fill(path, key)
    other = folder / "other.db"
    fill(other, key, n_charges=60, seed=7)
    journal = path.with_name(f"{path.name}-journal")
    own, foreign = hot_journal(path, key), hot_journal(other, key)
    whole = path.read_bytes()
    journal.write_bytes(own)
    assert outcome(path, key, expected) == "same"
    path.write_bytes(whole)
    journal.write_bytes(foreign)
    assert outcome(path, key, expected) == "refused"


def test_an_older_journal_of_its_own(path, key):
    fill(path, key)
    older = hot_journal(path, key)
    ledger = Ledger(path, must_exist=True, key=key)
    for _ in range(20):
        ledger.charge(HOLDERS[0], 0.5)
    path.with_name(f"{path.name}-journal").write_bytes(older)
    with pytest.raises(FileFormatError, match="is damaged"):
        Ledger(path, must_exist=True, key=key)


# Version 1


def version_1(path, rows, *, limit="3/2", key=""):
    edit(
        path,
        "CREATE TABLE charges (holder TEXT NOT NULL, epsilon TEXT NOT NULL, reports INTEGER NOT NULL, "
        "PRIMARY KEY (holder, epsilon)) WITHOUT ROWID",
        "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        "PRAGMA application_id = 1835298892",
        "PRAGMA user_version = 1",
    )
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany("INSERT INTO charges VALUES (?, ?, ?)", rows)
        connection.executemany("INSERT INTO settings VALUES (?, ?)", [("limit", limit), ("key", key)])


def test_version_1_is_turned_into_charges(path):
    rows = [
        ("Ana", (0.1).hex(), 3),
        ("Ana", (0.25).hex(), 1),
        ("Ren\u00e9", (0.5).hex(), 1),
        ("Rene\u0301", "0x1p-1", 1),
    ]
    version_1(path, rows)
    ledger = Ledger(path, limit=1.5, must_exist=True)
    assert ledger.exactly_spent("Ana") == 3 * Fraction(0.1) + Fraction(1, 4)
    assert ledger.spent("Ren\u00e9") == ledger.spent("Rene\u0301") == 1.0
    assert ledger.holders() == ["Ana", "Ren\u00e9"]
    assert ledger.check() == 4
    assert ledger.charge("Rene\u0301", 0.5) == 1.5
    assert Ledger(path, must_exist=True).spent("Ren\u00e9") == 1.5


def test_version_1_has_no_window(path):
    version_1(path, [("Ana", (0.5).hex(), 1)])
    with pytest.raises(InputError, match="was made with the window for ever, not 1 day"):
        Ledger(path, limit=1.5, window=timedelta(hours=24))
    assert Ledger(path, limit=1.5).spent("Ana") == 0.5


def test_version_1_with_a_key_keeps_counting_both_spellings(path, key):
    key.write_bytes(secret := b"a key of 32 bytes for the tests.")
    key.chmod(0o600)
    names = ["Ren\u00e9", "Rene\u0301"]
    version_1(path, [(keyed(secret, name), (0.5).hex(), 1) for name in names], key=key_check(secret))
    ledger = Ledger(path, limit=1.5, key=key)
    assert [ledger.spent(name) for name in names] == [1.0, 1.0]
    assert ledger.charge(names[1], 0.25) == 1.25
    assert [ledger.spent(name) for name in names] == [1.25, 1.25]
    assert Ledger(path, must_exist=True, key=key).charge(names[0], 0.25) == 1.5


@pytest.mark.parametrize(
    ("row", "limit"),
    [
        (("Ana", "x", 1), "1"),
        (("Ana", "inf", 1), "1"),
        (("Ana", "0x1p-1", -1), "1"),
        (("Ana", "0x1p-1", "many"), "1"),
        (("Ana", "0x1p-1", 1), "x"),
        (("Ana", "0x1p-1", 1), "1/0"),
    ],
)
def test_a_damaged_version_1_is_left_as_it_is(path, row, limit):
    version_1(path, [row], limit=limit)
    before = path.read_bytes()
    with pytest.raises(FileFormatError, match="of version 1 is not as it was written"):
        Ledger(path, limit=1.0)
    assert path.read_bytes() == before
