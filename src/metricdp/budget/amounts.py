"""Amounts of budget: exact fractions, and how they are rounded and shown."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from metricdp.metric.units import UNITS

if TYPE_CHECKING:
    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.mechanism.plane import PlaneMechanism

NOTHING = Fraction(0)


def round_up(amount: Fraction | float) -> float:
    """Return the least double that is not below ``amount``."""
    try:
        nearest = float(amount)
    except OverflowError:
        return math.inf
    return nearest if nearest >= amount else math.nextafter(nearest, math.inf)


def exactly(value: Any) -> Fraction:
    """Return a number as the fraction it is."""
    return Fraction(int(value)) if isinstance(value, numbers.Integral) else Fraction(*value.as_integer_ratio())


def shown(limit: Fraction | float) -> str:
    """Return the limit as a double where it is one, else as the fraction it is."""
    return repr(round_up(limit)) if round_up(limit) == limit else str(limit)


@lru_cache(maxsize=1 << 16)
def amount_of(text: str) -> Fraction:
    """Return the fraction that ``str`` has written; those of one epsilon come again and again."""
    return Fraction(text)


class Cost:
    """What reports of one epsilon cost under a limit, exactly; amounts that come again are computed once."""

    def __init__(self, epsilon: float, limit: Fraction | float) -> None:
        self.hex, self._each, self._limit = epsilon.hex(), Fraction(epsilon), limit
        self._known: dict[tuple[str, str, int], Sums] = {}

    def sums(self, ever: str, freed: str, count: int, otherwise: Fraction = NOTHING) -> Sums:
        """Return the amounts before and after ``count`` reports.

        ``ever`` and ``freed`` are those of `Transaction.sums`; ``otherwise`` is spent as well.
        """
        if otherwise:
            return self._sums(ever, freed, count, otherwise)
        question = ever, freed, count
        known = self._known.get(question)
        if known is None:
            known = self._known[question] = self._sums(ever, freed, count, otherwise)
        return known

    def _sums(self, ever: str, freed: str, count: int, otherwise: Fraction) -> Sums:
        before, asked = amount_of(ever), count * self._each
        spent = before - amount_of(freed) + otherwise
        room = math.inf if self._limit == math.inf else max(0, (Fraction(self._limit) - spent) // self._each)
        return Sums(spent, spent + asked, str(before + asked), room)


@dataclass(frozen=True)
class Sums:
    """What a holder has spent before and after some reports, what it ever spent then, and how many reports fit."""

    before: Fraction
    after: Fraction
    ever: str
    room: float


def currency_of(mechanism: Mechanism | PlaneMechanism) -> str:
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
