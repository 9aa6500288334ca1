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

from metricdp.budget.charges import Charges
from metricdp.budget.store import TIMEOUT_SECONDS, check_holder, check_options, is_number, keyed, normal_name
from metricdp.errors import Faults, InputError, MetricDPError, revealed
from metricdp.mechanism.snap import as_points
from metricdp.metric.units import UNITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import ArrayLike

    from metricdp.budget.charges import Transaction
    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.mechanism.snap import SnappedReports

# no holder has this name: the row notes a new limit in the place of an epsilon
NOBODY = ""

ROUNDING_HINT = (
    "Doubles are counted exactly, and ten times the double 0.1 is a little more than 1: for room for exactly n reports "
    "give limit=n * Fraction(epsilon)"
)


class BudgetExceededError(MetricDPError):
    """A charge would pass the limit; nothing was recorded and nothing may be drawn.

    Attributes
    ----------
    holder, spent, asked, limit
        The holder, and the exact amounts.
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


class BudgetsExceededError(MetricDPError):
    """One or more of many charges would pass the limit; none was recorded and nothing may be drawn.

    Attributes
    ----------
    holders, n_asked
        The holders whose budgets do not suffice, and how many were asked for. The message says how many, but not who.
    """

    def __init__(self, holders: tuple[str, ...], n_asked: int) -> None:
        self.holders, self.n_asked = holders, n_asked
        super().__init__(
            f"the budgets of {len(holders):,} of {n_asked:,} holders{revealed(', '.join(holders))} do not suffice: "
            "nothing was recorded for anyone, draw no report; leave these holders out, or raise the limit"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.holders, self.n_asked)


class Ledger:
    """Counts the budget that each secret holder has spent, and refuses past the limit.

    A mechanism's epsilon is per unit of distance. Fresh reports add up: after n of them an observer can tell two
    records at distance d apart by a factor of at most exp(n epsilon d): together they are (n epsilon)-mDP.
    The sum only has a meaning if all mechanisms measure distance alike: a ledger takes the metric of the first
    mechanism that it is charged for, and refuses others. Each charge is recorded with a hash of the records.

    Many processes and threads may use one file at once, also after a fork. Amounts are exact: epsilons are doubles, and
    their sum is compared with the limit as a fraction. Names are compared in Unicode's form NFC.

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
    metricdp.budget.ledger.BudgetExceededError: the budget of 'Ana' does not suffice: spent 0.75, asked 0.5, ...
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | Path,
        *,
        limit: float | Fraction | None = None,
        key: bytes | Path | None = None,
        must_exist: bool = False,
        new_head: bool = False,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        faults = Faults("the ledger")
        check_options(key, timeout, faults)
        amount = None if limit is None and must_exist else _as_limit(limit, faults)
        faults.raise_if_any()
        self._charges = Charges(
            path,
            limit=math.inf if amount is None else amount,
            key=key,
            must_exist=must_exist,
            new_head=new_head,
            timeout=timeout,
        )
        self._key, self._file = self._charges.key, self._charges.file
        stored = self.limit
        if amount is not None and stored != amount:
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
        with self._charges.reading() as now:
            return now.state.limit

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

    def charge_for(self, holder: str, mechanism: Mechanism, *, reports: int = 1) -> float:
        """Record ``reports`` fresh reports of ``holder`` with ``mechanism``, as `charge` does.

        The charge is recorded with a hash of the mechanism's records. A mechanism whose metric is another than that of
        the charges before is refused: epsilon per km and epsilon per unit of something else do not add up.
        """
        return self._charge({holder: reports}, mechanism.epsilon, mechanism)

    def charge_many(self, mechanism: Mechanism, reports_of: Mapping[str, int]) -> None:
        """Record so many fresh reports of each holder, all or none, in one transaction; else as `charge_for`.

        If any budget does not suffice, `BudgetsExceededError` is raised and nothing is recorded for anyone.
        """
        self._charge(reports_of, mechanism.epsilon, mechanism, are_many=True)

    def _charge(
        self,
        reports_of: Mapping[str, int],
        epsilon: float,
        mechanism: Mechanism | None = None,
        *,
        are_many: bool = False,
    ) -> float:
        """Record charges of one epsilon; return what the last holder has spent by now."""
        each = _checked(reports_of, epsilon)
        subject, currency = (
            ("", "") if mechanism is None else (mechanism.guarantee.records_hash, currency_of(mechanism))
        )
        spellings: dict[str, list[str]] = {}
        for holder in reports_of:
            spellings.setdefault(normal_name(holder), []).append(holder)
        rows, over, total = [], [], Fraction(0)
        with self._charges.writing() as now:
            self._check_currency(now.state.currency, currency)
            for holder, names in spellings.items():
                count = sum(int(reports_of[name]) for name in names)
                own, asked = now.spent(self._stored_name(holder)), count * Fraction(each)
                spent = own + self._spent_otherwise(now, names)
                total = spent + asked
                if total > now.state.limit:
                    over.append(BudgetExceededError(holder, spent, asked, Fraction(now.state.limit)))
                rows.append((self._stored_name(holder), each.hex(), count, subject, str(own + asked)))
            if over:
                raise BudgetsExceededError(tuple(e.holder for e in over), len(rows)) if are_many else over[0]
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
    ) -> SnappedReports:
        """Charge ``holder`` for one fresh report per point, then draw them; see `Mechanism.perturb_points`.

        A refusal for a point beyond ``limit`` is charged as well, since it is visible.
        """
        given = as_points(points, mechanism.records)  # an invalid point costs nothing
        self.charge_for(holder, mechanism, reports=len(given))
        return mechanism.perturb_points(given, limit=limit, allow_unprotected=allow_unprotected)

    def exactly_spent(self, holder: str) -> Fraction:
        """Return what ``holder`` has spent, without any rounding."""
        faults = Faults("the question")
        check_holder(holder, faults)
        faults.raise_if_any()
        with self._charges.reading() as now:
            return now.spent(self._stored_name(holder)) + self._spent_otherwise(now, [holder])

    def spent(self, holder: str) -> float:
        """Return what ``holder`` has spent, rounded up."""
        return round_up(self.exactly_spent(holder))

    def remaining(self, holder: str) -> float:
        """Return what ``holder`` may still spend, rounded down."""
        spent, limit = self.exactly_spent(holder), self.limit
        return math.inf if limit == math.inf else -round_up(min(spent - Fraction(limit), Fraction(0)))

    def holders(self) -> list[str]:
        """Return everyone who has spent something: the names, or with a key their HMAC."""
        with self._charges.reading() as now:
            return now.holders()

    def _stored_name(self, holder: str) -> str:
        name = normal_name(holder)
        return name if self._key is None else keyed(self._key, name)

    def _spent_otherwise(self, now: Transaction, names: Iterable[str]) -> Fraction:
        """Return what was spent under other spellings: version 1 stored their HMACs, which cannot be merged."""
        if self._key is None:
            return Fraction(0)
        spellings = {spelling for name in names for spelling in (name, unicodedata.normalize("NFD", name))}
        others = {spelling for spelling in spellings if spelling != normal_name(spelling)}
        return sum((now.spent(keyed(self._key, spelling)) for spelling in others), Fraction(0))


def currency_of(mechanism: Mechanism) -> str:
    """Return the unit in which epsilon is counted: amounts may be added only if it is the same.

    Distances in km are comparable over any list of places. Those of coordinates are, at best, in one space. A matrix or
    a function has a unit that only its maker knows, so it is comparable with itself and the same records only.
    """
    promise = mechanism.guarantee
    if promise.metric in UNITS:
        return f"{promise.metric} ({promise.unit})"
    if promise.is_recomputed:
        return f"{promise.metric} ({mechanism.records.dimension} coordinates)"
    return f"{promise.metric} (of the records {promise.records_hash[:16]})"


def round_up(amount: Fraction | float) -> float:
    """Return the least double that is not below ``amount``."""
    try:
        nearest = float(amount)
    except OverflowError:
        return math.inf
    return nearest if nearest >= amount else math.nextafter(nearest, math.inf)


def _checked(reports_of: Mapping[str, int], epsilon: float) -> float:
    """Check charges; return epsilon as a double, rounded up."""
    faults = Faults("the charge")
    for holder in reports_of:
        check_holder(holder, faults)
    if not is_number(epsilon) or not 0 < epsilon < math.inf or round_up(_exactly(epsilon)) == math.inf:
        faults.add(f"epsilon must be positive and finite, got {epsilon!r}")
    for reports in reports_of.values():
        if isinstance(reports, bool) or not isinstance(reports, numbers.Integral) or reports < 1:
            faults.add(f"reports must be a whole number, 1 or more, got {reports!r}")
    faults.raise_if_any()
    return round_up(_exactly(epsilon))


def _exactly(value: Any) -> Fraction:
    return Fraction(int(value)) if isinstance(value, numbers.Integral) else Fraction(*value.as_integer_ratio())


def _as_limit(limit: float | Fraction | None, faults: Faults) -> Fraction | float:
    if not is_number(limit) or not limit > 0:
        faults.add(f"limit must be positive, the most that a holder may spend, got {limit!r}")
        return math.nan
    return math.inf if limit == math.inf else _exactly(limit)


def _shown(limit: Fraction | float) -> str:
    """Return the limit as a double where it is one, else as the fraction it is."""
    return repr(round_up(limit)) if round_up(limit) == limit else str(limit)
