"""The file of a ledger: charges that are only ever appended, each linked to all before it.

Each charge states what its holder has ever spent including it, so that a sum is one lookup. In a ledger with a window
each charge also has its moment, which is never before that of the charge before it: what was spent in the window is the
difference of two lookups. The settings are sealed together
with the number and link of the last charge, and the head file beside the key, if there is one, holds these two as well.
"""

from __future__ import annotations

import math
import secrets
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metricdp.budget.amounts import amount_of
from metricdp.budget.chain import Chain, Head
from metricdp.budget.store import Kind, SqliteFile, key_check, normal_name, secret_of
from metricdp.errors import InputError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence

    Charge = tuple[str, str, int, str, str]
    """Holder, epsilon as ``float.hex``, reports, subject, and what the holder has spent with it as a fraction."""

LEDGER = Kind(
    application_id=0x6D64704C,  # "mdpL"
    version=2,
    schema=(
        """CREATE TABLE charges (charge INTEGER PRIMARY KEY, holder TEXT NOT NULL, epsilon TEXT NOT NULL,
        reports INTEGER NOT NULL, subject TEXT NOT NULL, spent TEXT NOT NULL, link BLOB NOT NULL)""",
        "CREATE INDEX charges_of_holders ON charges (holder, charge)",
    ),
)
WINDOWED = Kind(
    application_id=LEDGER.application_id,
    version=3,
    schema=(
        """CREATE TABLE charges (charge INTEGER PRIMARY KEY, holder TEXT NOT NULL, epsilon TEXT NOT NULL,
        reports INTEGER NOT NULL, subject TEXT NOT NULL, moment INTEGER NOT NULL, spent TEXT NOT NULL,
        link BLOB NOT NULL)""",
        "CREATE INDEX charges_of_holders ON charges (holder, charge)",
        "CREATE INDEX moments_of_holders ON charges (holder, moment, charge)",
    ),
)
ALL_CHARGES_SQL = "SELECT * FROM charges"
NAMES_SQL = "CREATE TEMP TABLE names (number INTEGER PRIMARY KEY, name TEXT NOT NULL)"
# the row of each name that the condition finds, and the link before that row
FOUND_SQL = """SELECT names.name, before.link, found.* FROM names
JOIN charges AS found ON found.charge = (SELECT charge FROM charges WHERE holder = names.name AND {condition} LIMIT 1)
LEFT JOIN charges AS before ON before.charge = found.charge - 1"""
LAST = "charge > 0 ORDER BY charge DESC"
LAST_BEFORE = "moment <= ? ORDER BY moment DESC, charge DESC"
APPEND_SQL = "INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?)"
APPEND_WITH_MOMENT_SQL = "INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
SEALED_SETTINGS = ("name", "limit", "currency", "charges", "link")
SEALED_SETTINGS_OF_WINDOWS = (*SEALED_SETTINGS, "window", "latest")


@dataclass(frozen=True)
class State:
    """The settings of a ledger: its random name, limit, currency, and the number and link of its last charge.

    With a window, also its length and the moment of the last charge, in nanoseconds; without one, neither is stored.
    """

    name: str
    limit: Fraction | float
    currency: str
    charges: int
    link: bytes
    window: int
    latest: int


class Charges:
    """The charges in the file ``path``; see `Ledger` for what the options mean."""

    def __init__(
        self,
        path: str | Path,
        *,
        limit: Fraction | float,
        window: int,
        key: bytes | Path | None,
        must_exist: bool,
        new_head: bool,
        timeout: float,
    ) -> None:
        place = Path(path).resolve()
        head = head_path(key, place) if isinstance(key, Path) else None
        had_head = head is not None and head.exists()  # looked for first: another process makes the ledger before it
        is_new = not place.exists() and not must_exist
        if is_new and had_head and not new_head:
            raise InputError(
                f"{place} does not exist, but {head} tells of its charges: put the ledger back; new_head=True begins "
                "with nothing spent"
            )
        self.key = secret_of(key, can_make=is_new)
        self.chain = Chain(self.key)
        self.head: Head | None = None
        self._is_upgraded = False
        self.file = SqliteFile(
            place,
            kind=LEDGER,
            variant=WINDOWED,
            new=WINDOWED if window else LEDGER,
            settings=self._settings(self._first(limit, window)),
            timeout=timeout,
            must_exist=must_exist,
            upgrade=self._upgrade,
        )
        state = self.check()
        if head is not None:
            self._open_head(head, state, is_new=new_head or self._is_upgraded)

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Yield one state of the file."""
        with self.file.reading() as connection:
            yield Transaction(self, connection, self._state(connection))

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Yield the file for exclusive use; at the end all additions are on the disk, or none."""
        with self.file.writing() as connection:
            transaction = Transaction(self, connection, self._state(connection))
            yield transaction
        if self.head is not None:  # written last, so that the head is never newer than the file
            self.head.write(transaction.state.charges, transaction.state.link)

    def check(self) -> State:
        """Check all pages and the link of every charge; return the state."""
        with self.file.reading() as connection:
            self.file.check_pages(connection)
            state = self._state(connection)
            link = self.chain.start(state.name)
            for number, row in enumerate(connection.execute(f"{ALL_CHARGES_SQL} ORDER BY charge"), start=1):
                if row[0] != number:
                    raise self.file.damaged(f"charge {number} is missing")
                self.sum_in(row, link)
                link = row[-1]
            return state

    def sum_in(self, row: Sequence[Any], before: bytes) -> str:
        """Return what the holder has spent including a charge, if it is unchanged and follows the link ``before``."""
        try:
            if self.chain.link(before, *row[:-1]) == row[-1]:
                amount_of(row[-2])
                return str(row[-2])
        except (TypeError, ValueError, ZeroDivisionError):  # another type than was written, or no fraction
            pass
        raise self.file.damaged(f"charge {row[0]} is not as it was written")

    def write(self, connection: sqlite3.Connection, state: State, charges: Iterable[Charge]) -> State:
        """Link ``charges`` to those before and write them with the settings; return the state with them."""
        number, link, rows = state.charges, state.link, []
        moment = (state.latest,) if state.window else ()
        for *fields, spent in charges:
            number += 1
            row = (number, *fields, *moment, spent)
            link = self.chain.link(link, *row)
            rows.append((*row, link))
        connection.executemany(APPEND_WITH_MOMENT_SQL if state.window else APPEND_SQL, rows)
        state = replace(state, charges=number, link=link)
        connection.executemany("INSERT OR REPLACE INTO settings VALUES (?, ?)", self._settings(state).items())
        return state

    def _first(self, limit: Fraction | float, window: int) -> State:
        name = secrets.token_hex(8)
        return State(name, limit, "", 0, self.chain.start(name), window, latest=0)

    def _settings(self, state: State) -> dict[str, str]:
        fields = [state.name, str(state.limit), state.currency, str(state.charges), state.link.hex()]
        if state.window:
            fields += [str(state.window), str(state.latest)]
        names = SEALED_SETTINGS_OF_WINDOWS if state.window else SEALED_SETTINGS
        stored = dict(zip(names, fields, strict=True))
        return stored | {"key": key_check(self.key), "seal": self.chain.seal(*fields)}

    def _state(self, connection: sqlite3.Connection) -> State:
        """Return the state, if the settings are unchanged and agree with the last charge and the head."""
        stored = dict(connection.execute("SELECT name, value FROM settings"))
        try:
            name, currency, link = stored["name"], stored["currency"], bytes.fromhex(stored["link"])
            window, latest = (int(stored.get(setting, 0)) for setting in ("window", "latest"))
            state = State(name, _limit(stored["limit"]), currency, int(stored["charges"]), link, window, latest)
            is_sound = stored == self._settings(state)
        except (KeyError, TypeError, ValueError, ZeroDivisionError):
            is_sound = False
        if not is_sound:
            raise self.file.damaged("its settings are not as they were written")
        last = connection.execute("SELECT charge, link FROM charges ORDER BY charge DESC LIMIT 1").fetchone()
        if (last or (0, self.chain.start(state.name))) != (state.charges, state.link):
            raise self.file.damaged(f"it does not end with its charge {state.charges}")
        if self.head is not None:
            self._check_head(self.head, connection, state)
        return state

    def _check_head(self, head: Head, connection: sqlite3.Connection, state: State) -> None:
        """Check that the charges continue from those in the head file."""
        found = head.read()
        if found is None and state.charges == 0:
            return
        if found is None:
            raise InputError(
                f"{head.path} is missing, which tells the newest charge of {self.file.path}: nothing was granted; put "
                "it back, or take the ledger as it is with new_head=True"
            )
        number, link = found
        row = connection.execute("SELECT link FROM charges WHERE charge = ?", (number,)).fetchone()
        if number > 0 and row != (link,):
            raise self.file.damaged(
                f"it has {state.charges} charges, but {head.path} tells of {number}: it is an older copy or another "
                "ledger; put the newest back"
            )

    def _open_head(self, path: Path, state: State, *, is_new: bool) -> None:
        self.head = Head(path, self.chain, state.name)
        if is_new:
            path.unlink(missing_ok=True)
            self.head.write(state.charges, state.link)
        with self.writing():  # checked, and then written
            pass

    def _upgrade(self, file: SqliteFile, connection: sqlite3.Connection) -> None:
        """Turn version 1, which stored how many reports each holder made at each epsilon, into charges."""
        if connection.execute("SELECT 1 FROM settings WHERE name = 'seal'").fetchone():  # version 1 had none
            raise file.damaged("it is not of version 1, as it says")
        rows = connection.execute("SELECT holder, epsilon, reports FROM charges ORDER BY holder, epsilon").fetchall()
        limits = connection.execute("SELECT value FROM settings WHERE name = 'limit'").fetchall()
        spent: dict[str, Fraction] = {}
        charges: list[Charge] = []
        try:
            ((limit,),) = limits
            first = self._first(_limit(limit), window=0)
            for holder, epsilon, reports in rows:
                # an HMAC does not show the spelling: `Ledger` looks for each
                name = normal_name(holder) if self.key is None else holder
                spent[name] = spent.get(name, Fraction(0)) + _amount_of_version_1(epsilon, reports)
                charges.append((name, epsilon, reports, "", str(spent[name])))
        except (TypeError, ValueError, ZeroDivisionError, OverflowError):
            raise file.damaged("a charge or the limit of version 1 is not as it was written") from None
        connection.execute("DROP TABLE charges")
        for statement in LEDGER.schema:
            connection.execute(statement)
        self.write(connection, first, charges)
        self._is_upgraded = True  # version 1 had no head


class Transaction:
    """One consistent view of the charges, or one change of them, at one moment."""

    def __init__(self, charges: Charges, connection: sqlite3.Connection, state: State) -> None:
        self.state = state
        self._charges, self._connection = charges, connection
        # looked at when the file is locked, and never before the last charge: moments are in the order of the charges
        self._moment = max(time.time_ns(), state.latest)

    def spent(self, name: str) -> Fraction:
        """Return what the stored ``name`` has spent: ever, or in the window that ends now."""
        ever, freed = self.sums([name])[name]
        return amount_of(ever) - amount_of(freed)

    def sums(self, names: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Return two fractions for each stored name: what it has ever spent, and what of it the window has left behind.

        Each is in a charge of that name, which is checked with its link.
        """
        self._connection.execute(NAMES_SQL)
        try:
            self._connection.executemany("INSERT INTO names (name) VALUES (?)", ((name,) for name in names))
            ever, freed = self._found(LAST), {}
            if self.state.window:
                # no moment is negative, and SQLite's numbers have an end
                freed = self._found(LAST_BEFORE, max(self._moment - self.state.window, -1))
        finally:
            self._connection.execute("DROP TABLE names")
        return {name: (ever.get(name, "0"), freed.get(name, "0")) for name in names}

    def _found(self, condition: str, *values: int) -> dict[str, str]:
        """Return the sum in the charge of each name that is found, if it is as it was written."""
        start = self._charges.chain.start(self.state.name)
        rows = self._connection.execute(FOUND_SQL.format(condition=condition), values)
        return {name: self._charges.sum_in(row, start if link is None else link) for name, link, *row in rows}

    def holders(self) -> list[str]:
        """Return the stored names, sorted."""
        rows = self._connection.execute("SELECT DISTINCT holder FROM charges WHERE holder <> '' ORDER BY holder")
        return [name for (name,) in rows]

    def append(self, charges: Iterable[Charge], **changes: Any) -> None:
        """Write ``charges``, and with them changes of the limit or currency."""
        state = replace(self.state, latest=self._moment, **changes)
        self.state = self._charges.write(self._connection, state, charges)


def _limit(text: str) -> Fraction | float:
    return math.inf if text == "inf" else Fraction(text)


def _amount_of_version_1(epsilon: Any, reports: Any) -> Fraction:
    each = float.fromhex(epsilon)
    if not 0 < each < math.inf or type(reports) is not int or reports < 1:
        raise ValueError
    return reports * Fraction(each)


def head_path(key: Path, ledger: Path) -> Path:
    """Return the path of the head file of ``ledger``: beside its key file."""
    return key.with_name(f"{key.name}.{ledger.name}.head")
