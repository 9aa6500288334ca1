"""The window of a ledger: a length of time, counted in whole nanoseconds."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from metricdp.errors import Faults

MICROSECOND = timedelta(microseconds=1)
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
