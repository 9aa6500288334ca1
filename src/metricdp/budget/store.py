"""A small SQLite file that survives ``kill -9``, concurrent writers and forks; the store of `Ledger` and `Memoized`."""

from __future__ import annotations

import hashlib
import hmac
import math
import numbers
import os
import secrets
import sqlite3
import stat
import threading
import time
import unicodedata
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from metricdp.data.writing import write_new
from metricdp.errors import Faults, FileFormatError, InputError, MetricDPError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Upgrade = Callable[["SqliteFile", sqlite3.Connection], None]

TIMEOUT_SECONDS = 60.0  # seconds to wait for other writers
SQLITE_WAIT_SECONDS = 0.1  # seconds that SQLite itself waits before this process may do something else
MIN_KEY_BYTES = 16
MAX_KEY_BYTES = 4096
NEW_KEY_BYTES = 32
BLOCK_BYTES = 64  # of SHA-256
KEY_CHECK = "metricdp key check"
CACHE_KIBIBYTES = 65_536  # of pages of a transaction: pages that do not fit are synchronised one part at a time
SETTINGS_SQL = "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"

# No transaction is open while a process forks: SQLite's locks and connections must not be carried into a child.
between_forks = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=between_forks.acquire,
        after_in_parent=between_forks.release,
        after_in_child=between_forks.release,
    )


class LedgerError(MetricDPError):
    """The file could not be read or written (locked, full disk, gone); nothing was granted."""


@dataclass(frozen=True)
class Kind:
    """A kind of file: SQLite's application id, the version of its tables, and the statements that make them."""

    application_id: int
    version: int
    schema: tuple[str, ...]


class SqliteFile:
    """One SQLite file of ours: recognised, private to its owner, used one short transaction at a time.

    Every transaction opens its own connection, so that threads share none, a forked child inherits none, and none is
    left open. A commit returns when it is on the disk (rollback journal, ``synchronous=EXTRA``).

    Parameters
    ----------
    path
        Made (readable by its owner only) if it does not exist. It appears with its tables, so an empty file is one that
        has lost them, and is refused.
    variant
        Another kind, of a later version, that an existing file may be.
    new
        The kind of a new file; ``kind`` if it is left out.
    settings
        Stored when the file is made. The one named ``key`` must be the same ever after.
    must_exist
        Refuse to make it.
    upgrade
        Turns the tables of version 1 into those of today, in the transaction of the connection that it is given.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        kind: Kind,
        settings: dict[str, str],
        timeout: float,
        variant: Kind | None = None,
        new: Kind | None = None,
        must_exist: bool = False,
        upgrade: Upgrade | None = None,
    ) -> None:
        self.path = Path(path).resolve()
        self.timeout = timeout
        self._kind = kind
        if not self.path.exists():
            if must_exist:
                raise InputError(
                    f"{self.path} does not exist: a new one would have forgotten all that was spent; put the old one "
                    "back, or make a new one on purpose"
                )
            self._make(new or kind, settings)
        _check_usable(self.path)
        with self._begun("BEGIN") as connection:
            if variant is not None and _pragma(connection, "user_version") >= variant.version:
                self._kind = variant
            needed = self._check_kind(connection, upgrade)
            self._check_key(connection, settings)
        if needed is not None:
            with self._begun("BEGIN EXCLUSIVE") as connection:
                if self._check_kind(connection, needed) is not None:  # no other process was faster
                    needed(self, connection)
                    connection.execute(f"PRAGMA user_version = {kind.version}")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that sees one state of the file."""
        with self._begun("BEGIN") as connection:
            self._check_kind(connection)
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that is alone with the file; all that is written is on the disk at the end, or nothing."""
        with self._begun("BEGIN EXCLUSIVE") as connection:
            self._check_kind(connection)
            yield connection

    def damaged(self, reason: object) -> FileFormatError:
        """Return the error for content that cannot be."""
        return FileFormatError(f"{self.path} is damaged: {reason}; nothing was granted")

    @contextmanager
    def _begun(self, begin: str) -> Iterator[sqlite3.Connection]:
        deadline = time.monotonic() + self.timeout
        try:
            while True:
                with between_forks, closing(self._connect()) as connection:
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
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
            raise self._explained(error) from error

    def _connect(self) -> sqlite3.Connection:
        # mode=rw: a file that has gone is not silently made again with nothing spent
        return sqlite3.connect(
            f"{self.path.as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=SQLITE_WAIT_SECONDS
        )

    def _make(self, kind: Kind, settings: dict[str, str]) -> None:
        """Make the file beside its place and link it there whole, unless another process was faster."""
        temporary = self.path.with_name(f".metricdp-{secrets.token_hex(8)}.tmp")
        try:
            with between_forks:
                os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
                with closing(sqlite3.connect(temporary, isolation_level=None)) as connection:
                    connection.execute("PRAGMA synchronous = EXTRA")
                    connection.execute("BEGIN EXCLUSIVE")
                    for statement in (SETTINGS_SQL, *kind.schema):
                        connection.execute(statement)
                    connection.executemany("INSERT INTO settings VALUES (?, ?)", settings.items())
                    connection.execute(f"PRAGMA application_id = {kind.application_id}")
                    connection.execute(f"PRAGMA user_version = {kind.version}")
                    connection.execute("COMMIT")
                os.link(temporary, self.path)
                _sync_folder(self.path.parent)
        except FileExistsError:
            pass
        except OSError as error:
            raise InputError(
                f"cannot make {self.path}: {error.strerror}; name a file in a folder that exists and can be written"
            ) from None
        except sqlite3.Error as error:
            raise self._explained(error) from error
        finally:
            temporary.unlink(missing_ok=True)

    def check_pages(self, connection: sqlite3.Connection) -> None:
        """Check that SQLite finds all pages and indices sound and that the tables are those of this kind of file."""
        (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise self.damaged(found)
        statements = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master")}
        if statements != {SETTINGS_SQL, *self._kind.schema}:
            raise self.damaged("its tables are not those that metricdp makes")

    def _check_kind(self, connection: sqlite3.Connection, upgrade: Upgrade | None = None) -> Upgrade | None:
        """Check that this is a file of our kind and version; return ``upgrade`` if it is of version 1 and needs it."""
        found, wanted = _pragma(connection, "application_id"), self._kind.application_id
        if found != wanted:
            if _pragma(connection, "page_count") == 0:
                raise FileFormatError(
                    f"{self.path} is empty: nothing was granted; if it has lost its content, put a copy back, and if "
                    "it never had any, remove it"
                )
            raise FileFormatError(
                f"{self.path} belongs to something else (application id {found:#x}, expected {wanted:#x}): nothing was "
                "granted; name another file"
            )
        version = _pragma(connection, "user_version")
        if version == self._kind.version:
            return None
        if upgrade is None or version != 1:
            raise FileFormatError(
                f"{self.path} has version {version}, this metricdp reads version {self._kind.version}: nothing was "
                "granted; use a matching metricdp"
            )
        return upgrade

    def _check_key(self, connection: sqlite3.Connection, settings: dict[str, str]) -> None:
        row = connection.execute("SELECT value FROM settings WHERE name = 'key'").fetchone()
        if row is None:
            raise self.damaged("it does not say whether it has a key")
        (stored,) = row
        if stored != settings["key"]:
            made, remedy = ("with another key", "with that key") if stored else ("without a key", "without one")
            raise InputError(f"{self.path} was made {made}: open it {remedy}")

    def _explained(self, error: Exception) -> MetricDPError:
        is_of_sqlite = hasattr(error, "sqlite_errorcode") or isinstance(error, OverflowError)
        if not is_of_sqlite:  # Python's own, which would show the text
            return self.damaged("a text in it is not UTF-8")
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
    elif not holder.isascii() and any("\ud800" <= letter <= "\udfff" for letter in holder):
        faults.add(f"holder must be a text that can be written as UTF-8, got {holder!r}")


def normal_name(holder: str) -> str:
    """Return the name in Unicode's form NFC, in which one text has one spelling; case and spaces stay as they are."""
    return unicodedata.normalize("NFC", holder)


def check_options(key: object, timeout: object, faults: Faults) -> None:
    """Note the faults of the options that all our SQLite files have."""
    if key is not None and not isinstance(key, Path) and (not isinstance(key, bytes) or len(key) < MIN_KEY_BYTES):
        got = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__
        faults.add(
            f"key must be at least {MIN_KEY_BYTES} secret bytes, such as secrets.token_bytes(32), or the Path of a "
            f"file that holds them, got {got}"
        )
    if not is_number(timeout) or not 0 <= timeout < math.inf:
        faults.add(f"timeout must be a number of seconds, zero or more, got {timeout!r}")


def is_number(value: object) -> TypeGuard[float]:
    """Return whether ``value`` is a number and not a boolean."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


class Hmac:
    """HMAC-SHA256 with one key, whose two paddings are hashed once (RFC 2104): a third of the time of `hmac.digest`."""

    def __init__(self, key: bytes) -> None:
        padded = (key if len(key) <= BLOCK_BYTES else hashlib.sha256(key).digest()).ljust(BLOCK_BYTES, b"\0")
        self._inner, self._outer = (hashlib.sha256(bytes(byte ^ pad for byte in padded)) for pad in (0x36, 0x5C))

    def digest(self, text: bytes) -> bytes:
        """Return the HMAC of ``text``."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(text)
        outer.update(inner.digest())
        return outer.digest()


def keyed(key: bytes, text: str) -> str:
    """Return HMAC-SHA256 of ``text`` in hexadecimal digits."""
    return hmac.digest(key, text.encode(), "sha256").hex()


def secret_of(key: bytes | Path | None, *, can_make: bool) -> bytes | None:
    """Return the secret bytes of ``key``, read from the file if it is a path; a missing file may be made."""
    if not isinstance(key, Path):
        return key
    try:
        if can_make and not key.exists():
            _make_key(key)
        if key.exists() and not key.is_file():
            raise InputError(f"the key file {key} is not a file: name a file of secret bytes")
        with key.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            secret = file.read(MAX_KEY_BYTES + 1) if stat.S_ISREG(mode) else b""
    except OSError as error:
        raise InputError(f"the key file {key} cannot be used ({error.strerror}): nothing was granted") from None
    if os.name == "posix" and mode & 0o077:
        raise InputError(f"the key file {key} can be used by others than its owner: make it private with chmod 600")
    if not MIN_KEY_BYTES <= len(secret) <= MAX_KEY_BYTES:
        raise InputError(
            f"the key file {key} must be a file of {MIN_KEY_BYTES} to {MAX_KEY_BYTES} secret bytes: make it from the "
            "operating system's randomness"
        )
    return secret


def _make_key(path: Path) -> None:
    with suppress(FileExistsError):  # another process was faster: its key is whole
        write_new(path, secrets.token_bytes(NEW_KEY_BYTES))
        _sync_folder(path.parent)


def key_check(key: bytes | None) -> str:
    """Return what a file stores to notice another key; empty without one."""
    return "" if key is None else keyed(key, KEY_CHECK)


def _has_begun(connection: sqlite3.Connection, begin: str) -> bool:
    """Begin and read, so that the lock is held from here on; False if another process holds it."""
    try:
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIBIBYTES}")
        connection.execute("PRAGMA temp_store = MEMORY")  # names that are looked up never lie in another file
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
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


def _check_usable(path: Path) -> None:
    if not path.is_file():
        raise InputError(f"cannot use {path}: it is not a file; name a file such as {path / 'budget.db'}")
    if not os.access(path, os.R_OK | os.W_OK) or not os.access(path.parent, os.W_OK):
        raise InputError(f"cannot write {path}: permission denied; choose another path")


def _sync_folder(folder: Path) -> None:
    """Wait until a new name in ``folder`` is on the disk."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
