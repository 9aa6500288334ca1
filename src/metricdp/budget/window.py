"""The window of a ledger: a length of time, counted in whole nanoseconds."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from metricdp.errors import InputError

if TYPE_CHECKING:
    from metricdp.errors import Faults

MICROSECOND = timedelta(microseconds=1)
LENGTHS = {
    "s": timedelta(seconds=1),
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_LENGTH = re.compile(r"\s*([0-9]{1,6})\s*([a-z]+)\s*")
NANOSECONDS = 1000  # in a microsecond, of which a timedelta is a whole number


def as_nanoseconds(window: object, faults: Faults) -> int:
    """Return the length of ``window``, exactly; 0 without one."""
    if window is None:
        return 0
    if not isinstance(window, timedelta) or window < MICROSECOND:
        faults.add(f"window must be a length of time, such as datetime.timedelta(hours=24), or None, got {window!r}")
        return 0
    return window // MICROSECOND * NANOSECONDS


def as_window(nanoseconds: int) -> timedelta | None:
    """Return the window of so many nanoseconds; None for 0."""
    return timedelta(microseconds=nanoseconds // NANOSECONDS) if nanoseconds else None


def window_of(text: str) -> timedelta:
    """Return a window that is written as a whole number and a unit.

    Examples
    --------
    >>> window_of("1d"), window_of("30min")
    (datetime.timedelta(days=1), datetime.timedelta(seconds=1800))
    """
    found = _LENGTH.fullmatch(text)
    if found is None or found[2] not in LENGTHS or int(found[1]) == 0:
        raise InputError(
            f"a window must be a whole number with a unit ({', '.join(LENGTHS)}), got {text!r}: write 1d, 12h"
        )
    return int(found[1]) * LENGTHS[found[2]]


def in_words(window: timedelta) -> str:
    """Return a window as `window_of` reads it, in its largest unit.

    Examples
    --------
    >>> in_words(timedelta(hours=24)), in_words(timedelta(hours=36))
    ('1d', '36h')
    """
    for unit, length in reversed(LENGTHS.items()):
        if window % length == timedelta(0):
            return f"{window // length}{unit}"
    return str(window)
