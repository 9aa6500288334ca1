"""Distances with their units: ``200m``, ``0.2km``, or a plain number in the metric's own unit."""

from __future__ import annotations

import decimal
import math
import re
from typing import TYPE_CHECKING

from metricdp.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

UNITS = {"haversine": "km", "street": "km"}  # metrics that measure in a unit
METRES = {"m": 1.0, "km": 1000.0, "mi": 1609.344}
_LENGTH = re.compile(r"\s*([0-9.eE+-]+|inf)\s*([A-Za-z]*)\s*")


def unit_of(metric: str) -> str:
    """Return the unit of a metric's distances: ``"km"``, or empty where it has none of its own."""
    return UNITS.get(metric, "")


def with_unit(distance: float, metric: str, *, digits: str = "g") -> str:
    """Return a distance in the unit of ``metric``, with that unit if it has one; ``digits`` is a format.

    Examples
    --------
    >>> with_unit(0.2, "haversine"), with_unit(2.0, "euclidean")
    ('0.2 km', '2')
    """
    return f"{distance:{digits}} {unit_of(metric)}".rstrip()


def rounded_up(epsilon: float, digits: int = 6) -> str:
    """Return a budget with so many significant digits: never a smaller one, which would promise more than is proved.

    Examples
    --------
    >>> rounded_up(0.1), rounded_up(1.3862943611198906), rounded_up(123456789.0)
    ('0.1', '1.3863', '1.23457e+08')
    """
    shown = decimal.Context(prec=digits, rounding=decimal.ROUND_CEILING).create_decimal(repr(float(epsilon)))
    return f"{float(shown):.{digits}g}"


def per_unit(epsilon: float, metric: str, *, digits: int = 6, own: Iterable[float] | None = None) -> str:
    """Return a budget, rounded up, with the unit of distance that it is for, if the metric has one.

    With the records' ``own`` budgets, of which ``epsilon`` is the largest, it is a range.

    Examples
    --------
    >>> per_unit(6.5, "haversine"), per_unit(2.0, "euclidean")
    ('6.5 per km', '2')
    """
    unit = unit_of(metric)
    words = " to ".join(rounded_up(one, digits) for one in ([epsilon] if own is None else [min(own), epsilon]))
    return f"{words} per {unit}" if unit else words


def as_distance(value: float | str, metric: str, *, what: str = "a distance") -> float:
    """Return a distance in the unit of ``metric``; ``what`` is its name in errors.

    Examples
    --------
    >>> as_distance("200m", "haversine"), as_distance("0.2 km", "haversine"), as_distance("1.5", "euclidean")
    (0.2, 0.2, 1.5)
    """
    found = _LENGTH.fullmatch(value) if isinstance(value, str) else None
    if isinstance(value, str) and found is None:
        raise InputError(f"{what} must be a number, with a unit or without, got {value!r}: write 200m, 0.2km or 0.2")
    try:
        number, unit = (float(found[1]), found[2]) if found is not None else (float(value), "")
    except (TypeError, ValueError):
        raise InputError(f"{what} must be a number, got {value!r}: write 200m, 0.2km or 0.2") from None
    if unit:
        own = unit_of(metric)
        if not own:
            raise InputError(f"{what} has the unit {unit!r}, but the metric {metric!r} has none: give a plain number")
        if unit not in METRES:
            raise InputError(
                f"{what} has the unknown unit {unit!r}: use {', '.join(METRES)}, or a plain number in {own}"
            )
        number = number * METRES[unit] / METRES[own]
    if math.isnan(number) or number <= 0:
        raise InputError(f"{what} must be positive, got {value!r}")
    return number


def in_words(distance: float, metric: str) -> str:
    """Return a distance with its unit, short ones of a map in metres.

    Examples
    --------
    >>> in_words(0.2, "haversine"), in_words(1.5, "street"), in_words(2.0, "euclidean")
    ('200 m', '1.5 km', '2')
    """
    unit = unit_of(metric)
    if unit == "km" and distance < 1.0:
        return f"{1000 * distance:.3g} m"
    return f"{distance:.3g} {unit}".rstrip()
