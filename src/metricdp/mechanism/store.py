"""A small SQLite file that survives ``kill -9``, concurrent writers and forks; the store of `Ledger` and `Memoized`."""

from __future__ import annotations

import hashlib
import hmac
import math
import numbers
import os
import sqlite3
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from metricdp.errors import Faults, FileFormatError, InputError, MetricDPError

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = 1
TIMEOUT = 60.0  # seconds to wait for other writers
WAIT_AT_ONCE = 0.1  # seconds that SQLite itself waits before this process may do something else
MIN_KEY_BYTES = 16
KEY_CHECK = "metricdp key check"

# No transaction is open while a process forks: SQLite's locks and connections must not be carried into a child.
_between_forks = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_between_forks.acquire,
        after_in_parent=_between_forks.release,
        after_in_child=_between_forks.release,
    )


class LedgerError(MetricDPError):
    """The file could not be read or written (locked, full disk, gone); nothing was granted."""


class SqliteFile:
    """One SQLite file of ours: recognised, private to its owner, used one short transaction at a time.

    Every transaction opens its own connection, so that threads share none, a forked child inherits none, and none is
    left open. A commit returns when it is on the disk (rollback journal, ``synchronous=EXTRA``).

    Parameters
    ----------
    path
        Made (readable by its owner only) if it does not exist.
    application_id, schema
        The kind of file, and the statement that makes its table.
    settings
        Stored when the file is made. The one named ``key`` must be the same ever after.
    """

    def __init__(
        self, path: str | Path, *, application_id: int, schema: str, settings: dict[str, str], timeout: float
    ) -> None:
        self.path = Path(path).resolve()
        self.timeout = timeout
        self._application_id = application_id
        try:
            with _between_forks:
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            _check_usable(self.path)
        except OSError as error:
            raise InputError(
                f"cannot make {self.path}: {error.strerror}; name a file in a folder that exists and can be written"
            ) from None
        with self._begun("BEGIN EXCLUSIVE") as connection:
            if self._is_empty(connection):
                self._make(connection, schema, settings)
            self._check_kind(connection)
            self._check_settings(connection, settings)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give a connection that sees one state of the file."""
        with self._begun("BEGIN") as connection:
            self._check_kind(connection)
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Give a connection that is alone with the file; all that is written is on the disk at the end, or nothing."""
        with self._begun("BEGIN EXCLUSIVE") as connection:
            self._check_kind(connection)
            yield connection

    def damaged(self, reason: object) -> FileFormatError:
        """Give the error for content that cannot be."""
        return FileFormatError(f"{self.path} is damaged: {reason}; nothing was granted")

    @contextmanager
    def _begun(self, begin: str) -> Iterator[sqlite3.Connection]:
        deadline = time.monotonic() + self.timeout
        try:
            while True:
                with _between_forks, closing(self._connect()) as connection:
                    if _has_begun(connection, begin):
                        yield connection
                        connection.execute("COMMIT")
                        return
                if time.monotonic() > deadline:
                    raise LedgerError(
                        f"{self.path} was locked by other processes for {self.timeout:g} s: nothing was granted; try "
                        "again, or give a longer timeout"
                    )
                time.sleep(0.001 + (time.perf_counter_ns() % 9_000) / 1e6)  # not all writers at once
        except (sqlite3.Error, OverflowError) as error:
            raise self._explained(error) from error

    def _connect(self) -> sqlite3.Connection:
        # mode=rw: a file that has gone is not silently made again with nothing spent
        return sqlite3.connect(f"{self.path.as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=WAIT_AT_ONCE)

    @staticmethod
    def _is_empty(connection: sqlite3.Connection) -> bool:
        n_tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        return n_tables == 0 and _pragma(connection, "application_id") == 0

    def _make(self, connection: sqlite3.Connection, schema: str, settings: dict[str, str]) -> None:
        for statement in (schema, "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"):
            connection.execute(statement)
        connection.executemany("INSERT INTO settings VALUES (?, ?)", settings.items())
        connection.execute(f"PRAGMA application_id = {self._application_id}")
        connection.execute(f"PRAGMA user_version = {VERSION}")

    def _check_kind(self, connection: sqlite3.Connection) -> None:
        found = _pragma(connection, "application_id")
        if found != self._application_id:
            raise FileFormatError(
                f"{self.path} belongs to something else (application id {found:#x}, expected "
                f"{self._application_id:#x}): nothing was granted; name another file"
            )
        version = _pragma(connection, "user_version")
        if version != VERSION:
            raise FileFormatError(
                f"{self.path} has version {version}, this metricdp reads version {VERSION}: nothing was granted; use "
                "a matching metricdp"
            )

    def _check_settings(self, connection: sqlite3.Connection, settings: dict[str, str]) -> None:
        stored = dict(connection.execute("SELECT name, value FROM settings"))
        if set(stored) != set(settings):
            raise self.damaged(f"it has the settings {sorted(stored)}, expected {sorted(settings)}")
        if stored["key"] != settings["key"]:
            made, remedy = ("with another key", "with that key") if stored["key"] else ("without a key", "without one")
            raise InputError(f"{self.path} was made {made}: open it {remedy}")

    def _explained(self, error: Exception) -> MetricDPError:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_INTERNAL) & 0xFF
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
            return self.damaged(error)
        if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            return LedgerError(f"{self.path} has gone or cannot be written any more ({error}): nothing was granted")
        return LedgerError(f"{self.path} could not be used ({error}): nothing was granted")


def check_holder(holder: object, faults: Faults) -> None:
    """Note a fault unless ``holder`` is a name."""
    if not isinstance(holder, str) or not holder:
        faults.add(f"holder must be a name (a text that is not empty), got {holder!r}")
    elif any("\ud800" <= letter <= "\udfff" for letter in holder):
        faults.add(f"holder must be a text that can be written as UTF-8, got {holder!r}")


def check_options(key: object, timeout: object, faults: Faults) -> None:
    """Note the faults of the options that all our SQLite files have."""
    if key is not None and (not isinstance(key, bytes) or len(key) < MIN_KEY_BYTES):
        got = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__
        faults.add(f"key must be at least {MIN_KEY_BYTES} secret bytes, such as secrets.token_bytes(32), got {got}")
    if not is_number(timeout) or not 0 <= timeout < math.inf:  # type: ignore[operator]
        faults.add(f"timeout must be a number of seconds, zero or more, got {timeout!r}")


def is_number(value: object) -> bool:
    """Say whether ``value`` is a number and not a boolean."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def keyed(key: bytes, text: str) -> str:
    """Give HMAC-SHA256 of ``text`` in hexadecimal digits."""
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def key_check(key: bytes | None) -> str:
    """Give what a file stores to notice another key; empty without one."""
    return "" if key is None else keyed(key, KEY_CHECK)


def _has_begun(connection: sqlite3.Connection, begin: str) -> bool:
    """Begin and read, so that the lock is held from here on; False if another process holds it."""
    try:
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA fullfsync = ON")  # macOS: down to the disk, not only to its cache
        connection.execute(begin)
        _pragma(connection, "application_id")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return False
        raise
    return True


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _check_usable(path: Path) -> None:
    if not path.is_file():
        raise InputError(f"cannot use {path}: it is not a file; name a file such as {path / 'budget.db'}")
    if not os.access(path, os.R_OK | os.W_OK) or not os.access(path.parent, os.W_OK):
        raise InputError(f"cannot write {path}: permission denied; choose another path")
