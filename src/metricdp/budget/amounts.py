"""Amounts of budget: exact fractions, and how they are rounded and shown."""

from __future__ import annotations

import math
import numbers
from fractions import Fraction
from typing import Any


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
