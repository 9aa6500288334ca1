"""The budget spent by each secret holder, in one SQLite file that never counts too little.

A charge is on the disk before it is granted, and only then may a report be drawn: whatever happens in between (a crash,
``kill -9``, a power cut) can make the ledger count a report that was never made, but not miss one that was.
"""

from __future__ import annotations

import math
import numbers
import unicodedata
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

from metricdp.budget.amounts import NOTHING, Cost, currency_of, exactly, round_up, shown
from metricdp.budget.charges import Charges
from metricdp.budget.refusals import BudgetExceededError, BudgetsExceededError
from metricdp.budget.store import TIMEOUT_SECONDS, Hmac, check_holder, check_options, is_number, keyed, normal_name
from metricdp.budget.window import as_nanoseconds, as_window
from metricdp.errors import Faults, InputError
from metricdp.mechanism.plane import check_of_records, check_of_region, check_outside
from metricdp.mechanism.snap import as_points

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from pathlib import Path

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from metricdp.budget.charges import Transaction
    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.mechanism.plane import PlaneMechanism
    from metricdp.mechanism.snap import SnappedReports

# no holder has this name: the row notes a new limit in the place of an epsilon
NOBODY = ""


class Ledger:
    """Counts the budget that each secret holder has spent, and refuses past the limit.

    A mechanism's epsilon is per unit of distance. Fresh reports add up: after n of them an observer can tell two
    records at distance d apart by a factor of at most exp(n epsilon d): together they are (n epsilon)-mDP.
    The sum only has a meaning if all measure distance alike: a ledger takes the metric of the first mechanism that it
    is charged for, and refuses others. Each charge is recorded with a hash of the records.

    Many processes and threads may use one file at once, also after a fork. Amounts are exact: epsilons are doubles, and
    their sum is compared with the limit as a fraction. Names are compared in Unicode's form NFC.

    With a window, the limit holds for every period of that length: a charge counts until exactly one window after it.
    What `Memoized` repeats counts when it was drawn. Time is that of the computer's clock, but never before the newest
    charge in the file: a clock that is set back frees nothing. A clock that is set ahead does free budgets early.

    Every accidental change of the file (flipped bits, lost pages or rows) is detected and refused. With a key, the
    ledger also detects every change by someone who does not have the key. With a key *file*, it also detects that it
    was removed or replaced by an older copy, as long as the head file beside the key exists. All charges are checked
    when the ledger is opened and by `check`; in between, the last one, and the last one of the charged holder.

    Parameters
    ----------
    path
        An SQLite file on a local disk, made if it does not exist (readable by its owner only). Never put an older copy
        in its place: it lacks the newer charges. After a crash, a file ``-journal`` beside it belongs to it. Files
        of version 1 are turned into version 2 when they are opened, and older versions of metricdp then refuse them.
    limit
        The most that a holder may spend: positive, a number, a Fraction, or infinity. It is stored in the file; opening
        the file with another limit is an error, and `change_limit` is the way to change it. May be left out with
        ``must_exist``.
    window
        The length of time over which a holder may spend the limit, such as ``timedelta(hours=24)``; None: for ever. It
        is fixed when the ledger is made. With ``must_exist`` it may be left out, and the ledger's own is used.
    key
        At least 16 secret bytes, or the Path of a file that holds them and that nobody else can use (made together with
        a new ledger). The file then holds HMAC-SHA256 of the holders' names in place of the names. Either way **the
        ledger is itself sensitive**: it tells who reported how often. Keep the key where those who can write the ledger
        cannot, and with it the head file ``KEY.LEDGER.head``, which tells the newest charge.
    must_exist
        Refuse to make the file: a removed ledger would otherwise start again with nothing spent.
    new_head
        Accept the ledger as it is and write a new head file. Charges that an older copy lacks are forgotten.
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
    metricdp.budget.refusals.BudgetExceededError: the budget of 'Ana' does not suffice: spent 0.75, asked 0.5, ...
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | Path,
        *,
        limit: float | Fraction | None = None,
        window: timedelta | None = None,
        key: bytes | Path | None = None,
        must_exist: bool = False,
        new_head: bool = False,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        faults = Faults("the ledger")
        check_options(key, timeout, faults)
        amount = None if limit is None and must_exist else _as_limit(limit, faults)
        length = as_nanoseconds(window, faults)
        faults.raise_if_any()
        self._charges = Charges(
            path,
            limit=math.inf if amount is None else amount,
            window=length,
            key=key,
            must_exist=must_exist,
            new_head=new_head,
            timeout=timeout,
        )
        self._key, self._file = self._charges.key, self._charges.file
        self._hmac = None if self._key is None else Hmac(self._key)
        stored = self.limit
        if amount is not None and stored != amount:
            raise InputError(
                f"{self.path} has the limit {shown(stored)}, not {shown(amount)}: open it with its own limit, and "
                "call change_limit to change it for everyone"
            )
        own_window = self.window
        if own_window != window and not (window is None and must_exist):
            raise InputError(
                f"{self.path} was made with the window {own_window or 'for ever'}, not {window or 'for ever'}: it "
                "cannot be changed, so open it with its own, or make a new ledger"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Leave: every transaction has closed its own connection, so nothing is left to close."""

    def __repr__(self) -> str:
        window = "" if self.window is None else f", window={self.window!r}"
        return f"Ledger({str(self.path)!r}, limit={shown(self.limit)}{window})"

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    @property
    def limit(self) -> Fraction | float:
        """The most that a holder may spend: an exact fraction, or infinity."""
        with self._charges.reading() as now:
            return now.state.limit

    @property
    def window(self) -> timedelta | None:
        """The length of time over which the limit holds; None if it holds for ever."""
        with self._charges.reading() as now:
            return as_window(now.state.window)

    @property
    def currency(self) -> str:
        """The metric in whose unit the budget is counted; empty before the first charge for a mechanism."""
        with self._charges.reading() as now:
            return now.state.currency

    def change_limit(self, limit: float | Fraction) -> None:
        """Change the limit for everyone who uses this file, from their next charge on."""
        faults = Faults("the limit")
        amount = _as_limit(limit, faults)
        faults.raise_if_any()
        with self._charges.writing() as now:
            now.append([(NOBODY, str(amount), 0, "", "0")], limit=amount)

    def check(self) -> int:
        """Check every page, every charge and their order; return how many charges and changes of the limit there are.

        Raises an error that says what was found if the file is not as it was written.
        """
        return self._charges.check().charges

    def charge(self, holder: str, epsilon: float, *, reports: int = 1) -> float:
        """Record ``reports`` fresh reports of ``holder`` at ``epsilon`` each; return what the holder has spent by now.

        The charge is on the disk when this returns; draw only then. If it would pass the limit, `BudgetExceededError`
        is raised and nothing is recorded. After any other error, nothing is granted either and nothing may be drawn.

        The caller is responsible for epsilon and its unit, which cannot be checked here. If there is a mechanism, use
        `charge_for`.
        """
        return self._charge({holder: reports}, epsilon)

    def charge_for(self, holder: str, mechanism: Mechanism | PlaneMechanism, *, reports: int = 1) -> float:
        """Record ``reports`` fresh reports of ``holder`` with ``mechanism``, as `charge` does.

        The charge is recorded with a hash of the mechanism's records. A mechanism whose metric is another than that of
        the charges before is refused: epsilon per km and epsilon per unit of something else do not add up.
        """
        return self._charge({holder: reports}, mechanism.epsilon, mechanism)

    def charge_many(self, mechanism: Mechanism | PlaneMechanism, reports_of: Mapping[str, int]) -> None:
        """Record so many fresh reports of each holder, all or none, in one transaction; else as `charge_for`.

        If any budget does not suffice, `BudgetsExceededError` is raised and nothing is recorded for anyone.
        """
        self._charge(reports_of, mechanism.epsilon, mechanism, are_many=True)

    def charge_up_to(self, mechanism: Mechanism | PlaneMechanism, reports_of: Mapping[str, int]) -> dict[str, int]:
        """Record as many fresh reports of each holder as the budgets have room for; return how many that are.

        One transaction for all, and no error if a budget does not suffice: draw exactly as many as are returned. Else
        as `charge_many`.
        """
        granted: dict[str, int] = {}
        self._charge(reports_of, mechanism.epsilon, mechanism, granted=granted)
        return granted

    def _charge(
        self,
        reports_of: Mapping[str, int],
        epsilon: float,
        mechanism: Mechanism | PlaneMechanism | None = None,
        *,
        are_many: bool = False,
        granted: dict[str, int] | None = None,
    ) -> float:
        """Record charges of one epsilon, or what fits if ``granted`` is given; return the last one's sum."""
        each = _checked(reports_of, epsilon)
        subject, currency = (
            ("", "") if mechanism is None else (mechanism.guarantee.records_hash, currency_of(mechanism))
        )
        spellings: dict[str, list[str]] = {}
        for holder in reports_of:
            spellings.setdefault(normal_name(holder), []).append(holder)
        stored_of = {holder: self._stored_name(holder) for holder in spellings}
        rows, over, total = [], [], NOTHING
        with self._charges.writing() as now:
            self._check_currency(now.state.currency, currency)
            sums_of, cost = now.sums(sorted(stored_of.values())), Cost(each, now.state.limit)
            # in the order of the index, where neighbours are written together
            for stored, holder in sorted((stored, holder) for holder, stored in stored_of.items()):
                names = spellings[holder]
                count = sum([int(reports_of[name]) for name in names])
                ever, freed = sums_of[stored]
                otherwise = self._spent_otherwise(now, names)
                sums = cost.sums(ever, freed, count, otherwise)
                if granted is not None:
                    if count > sums.room:
                        count = int(sums.room)
                        sums = cost.sums(ever, freed, count, otherwise)
                    _share(count, names, reports_of, granted)
                elif count > sums.room:
                    over.append((holder, sums))
                if count:
                    rows.append((stored, cost.hex, count, subject, sums.ever))
                total = sums.after
            if over and are_many:
                raise BudgetsExceededError(tuple(holder for holder, _ in over), len(rows))
            for holder, sums in over:
                limit, window = Fraction(now.state.limit), as_window(now.state.window)
                raise BudgetExceededError(holder, sums.before, sums.after - sums.before, limit, window)
            if rows:
                now.append(rows, currency=now.state.currency or currency)
        return round_up(total)

    def _check_currency(self, stored: str, asked: str) -> None:
        if stored and asked not in ("", stored):
            raise InputError(
                f"{self.path} counts epsilon for the metric {stored}, not for {asked}: they do not add up, keep one "
                "ledger for each"
            )

    def perturb(
        self, mechanism: Mechanism, holder: str, ids: str | Sequence[Any], *, allow_unprotected: bool = False
    ) -> Any:
        """Charge ``holder`` for one fresh report per record id, then draw them; see `Mechanism.perturb`."""
        check_of_records(mechanism, "perturb_region")
        names = [ids] if isinstance(ids, str) else list(ids)
        mechanism.rows_of(names)  # an unknown id costs nothing
        if names:
            self.charge_for(holder, mechanism, reports=len(names))
        return mechanism.perturb(ids if isinstance(ids, str) else names, allow_unprotected=allow_unprotected)

    def perturb_points(
        self,
        mechanism: Mechanism,
        holder: str,
        points: ArrayLike,
        *,
        limit: float,
        allow_unprotected: bool = False,
        fast_snap: bool = False,
    ) -> SnappedReports:
        """Charge ``holder`` for one fresh report per point, then draw them; see `Mechanism.perturb_points`.

        A refusal for a point beyond ``limit`` is charged as well, since it is visible.
        """
        check_of_records(mechanism, "perturb_region")
        given = as_points(points, mechanism.records)  # an invalid point costs nothing
        self.charge_for(holder, mechanism, reports=len(given))
        return mechanism.perturb_points(given, limit=limit, allow_unprotected=allow_unprotected, fast_snap=fast_snap)

    def perturb_region(
        self, mechanism: PlaneMechanism, holder: str, points: ArrayLike, *, outside: str = "refuse"
    ) -> NDArray[np.int64]:
        """Charge ``holder`` for one fresh report per point of a region, then draw them; see `PlaneMechanism.perturb`.

        A refusal for a point outside is charged as well, since it is visible.
        """
        check_of_region(mechanism, "perturb or perturb_points")
        check_outside(outside)
        given = as_points(points, mechanism.records)  # what is invalid costs nothing
        self.charge_for(holder, mechanism, reports=len(given))
        return mechanism.perturb(given, outside=outside)

    def exactly_spent(self, holder: str) -> Fraction:
        """Return what ``holder`` has spent (in the window that ends now), without any rounding."""
        faults = Faults("the question")
        check_holder(holder, faults)
        faults.raise_if_any()
        with self._charges.reading() as now:
            return now.spent(self._stored_name(holder)) + self._spent_otherwise(now, [holder])

    def spent(self, holder: str) -> float:
        """Return what ``holder`` has spent (in the window that ends now), rounded up."""
        return round_up(self.exactly_spent(holder))

    def remaining(self, holder: str) -> float:
        """Return what ``holder`` may spend now, rounded down."""
        spent, limit = self.exactly_spent(holder), self.limit
        return (
            math.inf if limit == math.inf else 0.0 - round_up(min(spent - Fraction(limit), Fraction(0)))
        )  # never -0.0

    def holders(self) -> list[str]:
        """Return everyone who has ever spent something: the names, or with a key their HMAC."""
        with self._charges.reading() as now:
            return now.holders()

    def _stored_name(self, holder: str) -> str:
        name = normal_name(holder)
        return name if self._hmac is None else self._hmac.digest(name.encode()).hex()

    def _spent_otherwise(self, now: Transaction, names: Sequence[str]) -> Fraction:
        """Return what was spent under other spellings: version 1 stored their HMACs, which cannot be merged."""
        if self._key is None or (len(names) == 1 and names[0].isascii()):
            return NOTHING
        spellings = {spelling for name in names for spelling in (name, unicodedata.normalize("NFD", name))}
        others = {spelling for spelling in spellings if spelling != normal_name(spelling)}
        return sum((now.spent(keyed(self._key, spelling)) for spelling in others), NOTHING)


def _share(count: int, names: list[str], reports_of: Mapping[str, int], granted: dict[str, int]) -> None:
    """Share ``count`` reports among the spellings of one holder, in their order."""
    for name in names:
        granted[name] = min(count, int(reports_of[name]))
        count -= granted[name]


def _checked(reports_of: Mapping[str, int], epsilon: float) -> float:
    """Check charges; return epsilon as a double, rounded up."""
    faults = Faults("the charge")
    for holder in reports_of:
        check_holder(holder, faults)
    if not is_number(epsilon) or not 0 < epsilon < math.inf or round_up(exactly(epsilon)) == math.inf:
        faults.add(f"epsilon must be positive and finite, got {epsilon!r}")
    for reports in reports_of.values():
        if type(reports) is int and reports > 0:  # the usual case, quickly
            continue
        if isinstance(reports, bool) or not isinstance(reports, numbers.Integral) or reports < 1:
            faults.add(f"reports must be a whole number, 1 or more, got {reports!r}")
    faults.raise_if_any()
    return round_up(exactly(epsilon))


def _as_limit(limit: float | Fraction | None, faults: Faults) -> Fraction | float:
    if not is_number(limit) or not limit > 0:
        faults.add(f"limit must be positive, the most that a holder may spend, got {limit!r}")
        return math.nan
    return math.inf if limit == math.inf else exactly(limit)
