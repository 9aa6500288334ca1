"""The budget spent by each secret holder, in one SQLite file that never counts too little.

A charge is on the disk before it is granted, and only then may a report be drawn: whatever happens in between (a crash,
``kill -9``, a power cut) can make the ledger count a report that was never made, but not miss one that was.
"""

from __future__ import annotations

import math
import numbers
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

from metricdp.errors import Faults, InputError, MetricDPError
from metricdp.mechanism.snap import as_points
from metricdp.mechanism.store import TIMEOUT, SqliteFile, check_holder, check_options, is_number, key_check, keyed

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import ArrayLike

    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.mechanism.snap import SnappedReports

LEDGER_ID = 0x6D64704C  # "mdpL", SQLite's application_id
# one row per holder and epsilon, however many reports
SCHEMA = """CREATE TABLE charges (holder TEXT NOT NULL, epsilon TEXT NOT NULL, reports INTEGER NOT NULL,
            PRIMARY KEY (holder, epsilon)) WITHOUT ROWID"""

ROUNDING_HINT = (
    "Doubles are counted exactly, and ten times the double 0.1 is a little more than 1: for room for exactly n reports "
    "give limit=n * Fraction(epsilon)"
)


class BudgetExceededError(MetricDPError):
    """A charge would pass the limit; nothing was recorded and nothing may be drawn.

    Attributes
    ----------
    holder, spent, asked, limit
        Whose budget it is, and the exact amounts.
    """

    def __init__(self, holder: str, spent: Fraction, asked: Fraction, limit: Fraction) -> None:
        self.holder, self.spent, self.asked, self.limit = holder, spent, asked, limit
        excess = spent + asked - limit
        super().__init__(
            f"the budget of {holder!r} does not suffice: spent {round_up(spent):g}, asked {round_up(asked):g}, limit "
            f"{round_up(limit):g}, too much by {round_up(excess):.3g}; nothing was recorded, draw no report"
            + (f". {ROUNDING_HINT}" if excess < limit / 10**12 else "")
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # made from the amounts again when it comes back from a worker process
        return type(self), (self.holder, self.spent, self.asked, self.limit)


class Ledger:
    """Counts the budget that each secret holder has spent, and refuses past the limit.

    A mechanism's epsilon is per unit of distance. Fresh reports add up: after n of them an observer can tell two
    records at distance d apart by a factor of at most exp(n epsilon d): together they are (n epsilon)-mDP.
    The sum only has a meaning if all mechanisms measure distance alike: keep one ledger per metric and unit.

    Many processes and threads may use one file at once, also after a fork. Amounts are exact: the file holds how many
    reports were made at each epsilon (a double), and the sum is compared with the limit as a fraction.

    Parameters
    ----------
    path
        An SQLite file on a local disk, made if it does not exist (readable by its owner only). Never put an older copy
        in its place: it would have forgotten charges. After a crash, a file ``-journal`` beside it belongs to it.
    limit
        The most that a holder may spend: positive, a number, a Fraction, or infinity. It is stored in the file; opening
        the file with another limit is an error, and `change_limit` is the way to change it.
    key
        With a key (at least 16 secret bytes), the file holds HMAC-SHA256 of the holders' names in place of the names.
        Either way **the ledger is itself sensitive**: it tells who reported how often.
    timeout
        Seconds to wait for other writers.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger(f"{folder.name}/budget.db", limit=1.0)
    >>> ledger.charge("Ana", 0.25, reports=3)
    0.75
    >>> ledger.remaining("Ana"), ledger.remaining("Ben")
    (0.25, 1.0)
    >>> ledger.charge("Ana", 0.5)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    metricdp.mechanism.ledger.BudgetExceededError: the budget of 'Ana' does not suffice: spent 0.75, asked 0.5, ...
    >>> folder.cleanup()
    """

    def __init__(
        self, path: str | Path, *, limit: float | Fraction, key: bytes | None = None, timeout: float = TIMEOUT
    ) -> None:
        faults = Faults("the ledger")
        check_options(key, timeout, faults)
        amount = _as_limit(limit, faults)
        faults.raise_if_any()
        self._key = key
        self._file = SqliteFile(
            path,
            application_id=LEDGER_ID,
            schema=SCHEMA,
            settings={"limit": str(amount), "key": key_check(key)},
            timeout=timeout,
        )
        stored = self.limit
        if stored != amount:
            raise InputError(
                f"{self.path} has the limit {_shown(stored)}, not {_shown(amount)}: open it with its own limit, and "
                "call change_limit to change it for everyone"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Leave: every transaction has closed its own connection, so nothing is left to close."""

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r}, limit={_shown(self.limit)})"

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    @property
    def limit(self) -> Fraction | float:
        """The most that a holder may spend: an exact fraction, or infinity."""
        with self._file.reading() as connection:
            return self._limit(connection)

    def change_limit(self, limit: float | Fraction) -> None:
        """Change the limit for everyone who uses this file, from their next charge on."""
        faults = Faults("the limit")
        amount = _as_limit(limit, faults)
        faults.raise_if_any()
        with self._file.writing() as connection:
            connection.execute("UPDATE settings SET value = ? WHERE name = 'limit'", (str(amount),))

    def charge(self, holder: str, epsilon: float, *, reports: int = 1) -> float:
        """Record ``reports`` fresh reports of ``holder`` at ``epsilon`` each; give what the holder has spent by now.

        The charge is on the disk when this returns; draw only then. If it would pass the limit, `BudgetExceededError`
        is raised and nothing is recorded. After any other error, too, nothing is granted and nothing may be drawn.
        """
        faults = Faults("the charge")
        check_holder(holder, faults)
        if not is_number(epsilon) or not 0 < epsilon < math.inf or round_up(_exactly(epsilon)) == math.inf:
            faults.add(f"epsilon must be positive and finite, got {epsilon!r}")
        if isinstance(reports, bool) or not isinstance(reports, numbers.Integral) or reports < 1:
            faults.add(f"reports must be a whole number, 1 or more, got {reports!r}")
        faults.raise_if_any()
        each, count = round_up(_exactly(epsilon)), int(reports)
        name = self._stored_name(holder)
        with self._file.writing() as connection:
            counts = self._counts(connection, name)
            spent, asked, limit = _total(counts), count * Fraction(each), self._limit(connection)
            if spent + asked > limit:
                raise BudgetExceededError(holder, spent, asked, Fraction(limit))
            connection.execute(
                "INSERT OR REPLACE INTO charges VALUES (?, ?, ?)", (name, each.hex(), counts.get(each, 0) + count)
            )
        return round_up(spent + asked)

    def perturb(self, mechanism: Mechanism, holder: str, ids: str | Sequence[Any]) -> Any:
        """Charge ``holder`` for one fresh report per record id, then draw them; see `Mechanism.perturb`."""
        one = isinstance(ids, str)
        names = [ids] if one else list(ids)
        mechanism.rows_of(names)  # an unknown id costs nothing
        if names:
            self.charge(holder, mechanism.epsilon, reports=len(names))
        drawn = mechanism.perturb(names)
        return drawn[0] if one else drawn

    def perturb_points(self, mechanism: Mechanism, holder: str, points: ArrayLike, *, limit: float) -> SnappedReports:
        """Charge ``holder`` for one fresh report per point, then draw them; see `Mechanism.perturb_points`.

        A refusal for a point beyond ``limit`` is charged as well: that it came is visible.
        """
        given = as_points(points, mechanism.records)  # what is no point costs nothing
        self.charge(holder, mechanism.epsilon, reports=len(given))
        return mechanism.perturb_points(given, limit=limit)

    def exactly_spent(self, holder: str) -> Fraction:
        """Give what ``holder`` has spent, without any rounding."""
        faults = Faults("the question")
        check_holder(holder, faults)
        faults.raise_if_any()
        with self._file.reading() as connection:
            return _total(self._counts(connection, self._stored_name(holder)))

    def spent(self, holder: str) -> float:
        """Give what ``holder`` has spent, rounded up."""
        return round_up(self.exactly_spent(holder))

    def remaining(self, holder: str) -> float:
        """Give what ``holder`` may still spend, rounded down."""
        spent, limit = self.exactly_spent(holder), self.limit
        return math.inf if limit == math.inf else -round_up(min(spent - Fraction(limit), Fraction(0)))

    def holders(self) -> list[str]:
        """Give everyone who has spent something: the names, or with a key their HMAC."""
        with self._file.reading() as connection:
            return [name for (name,) in connection.execute("SELECT DISTINCT holder FROM charges ORDER BY holder")]

    def _stored_name(self, holder: str) -> str:
        return holder if self._key is None else keyed(self._key, holder)

    def _limit(self, connection: sqlite3.Connection) -> Fraction | float:
        row = connection.execute("SELECT value FROM settings WHERE name = 'limit'").fetchone()
        try:
            return math.inf if row[0] == "inf" else Fraction(row[0])
        except (TypeError, ValueError, ZeroDivisionError):
            raise self._file.damaged(f"its limit is {row!r}") from None

    def _counts(self, connection: sqlite3.Connection, name: str) -> dict[float, int]:
        """Give the number of reports made at each epsilon."""
        rows = connection.execute("SELECT epsilon, reports FROM charges WHERE holder = ?", (name,)).fetchall()
        try:
            counts = {float.fromhex(epsilon): reports for epsilon, reports in rows}
        except (TypeError, ValueError, OverflowError):
            raise self._file.damaged(f"{name!r} has the charges {rows!r}") from None
        if not all(0 < epsilon < math.inf and type(n) is int and n > 0 for epsilon, n in counts.items()):
            raise self._file.damaged(f"{name!r} has the charges {rows!r}")
        return counts


def round_up(amount: Fraction | float) -> float:
    """Give the least double that is not below ``amount``."""
    try:
        nearest = float(amount)
    except OverflowError:
        return math.inf
    return nearest if nearest >= amount else math.nextafter(nearest, math.inf)


def _total(counts: dict[float, int]) -> Fraction:
    return sum((n * Fraction(epsilon) for epsilon, n in counts.items()), Fraction(0))


def _exactly(value: Any) -> Fraction:
    return Fraction(int(value)) if isinstance(value, numbers.Integral) else Fraction(*value.as_integer_ratio())


def _as_limit(limit: float | Fraction, faults: Faults) -> Fraction | float:
    if not is_number(limit) or not limit > 0:
        faults.add(f"limit must be positive, the most that a holder may spend, got {limit!r}")
        return math.nan
    return math.inf if limit == math.inf else _exactly(limit)


def _shown(limit: Fraction | float) -> str:
    """Give the limit as a double where it is one, else as the fraction it is."""
    return repr(round_up(limit)) if round_up(limit) == limit else str(limit)
