"""What to type instead: for values that are no numbers, and for errors of the library."""

from __future__ import annotations

import re

NUMBER = r"\s*(?P<number>\d+\.?\d*|\.\d+)\s*"
PERCENT = re.compile(f"{NUMBER}(?:%|percent)\\s*")
SECONDS = re.compile(f"{NUMBER}(?P<unit>s|sec|seconds?|m|min|minutes?|h|hours?)\\s*")
RATE = re.compile(f"{NUMBER}(?:/|per)\\s*(?P<period>[A-Za-z]+)\\s*")
WINDOWS = {"day": "1d", "d": "1d", "hour": "1h", "h": "1h", "week": "7d", "w": "7d"}
SECONDS_OF = {"s": 1, "m": 60, "h": 3_600}
UNKNOWN_RECORD = "use one of its record ids"


def hint_for(option: str, value: str) -> str:
    """Return what to give in the place of a value that is no number, after a semicolon; empty if that is not known.

    Examples
    --------
    >>> hint_for("--gap", "1%"), hint_for("--time-limit", "10s"), hint_for("--limit", "6.94/day")
    ('; give 0.01', '; give seconds: 10', '; give --limit 6.94 --window 1d')
    """
    share, time, rate = (kind.fullmatch(value) for kind in (PERCENT, SECONDS, RATE))
    if option == "--gap" and share is not None:
        return f"; give {float(share['number']) / 100:.12g}"
    if option == "--time-limit" and time is not None:
        return f"; give seconds: {float(time['number']) * SECONDS_OF[time['unit'][0]]:.12g}"
    window = None if rate is None else WINDOWS.get(rate["period"].lower().removesuffix("s"))
    if option in ("--limit", "--new-ledger") and rate is not None and window is not None:
        return f"; give {option} {rate['number']} --window {window}"
    return ""


def with_remedy(message: str) -> str:
    """Return an error of the library with what a shell can do about it."""
    if message.endswith(UNKNOWN_RECORD):
        return f"{message}; metricdp evaluate FILE.mdp --against none --per-record ids.csv writes them all"
    return message
