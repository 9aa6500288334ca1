"""How long a run will still take, shown only when the estimate is reliable."""

from __future__ import annotations

AGREEMENT_FACTOR = 2.0  # within which estimates have to agree
N_AGREEING = 3  # consecutive estimates that have to agree
MINUTE, HOUR = 60.0, 3_600.0  # seconds


class Forecast:
    """Estimates of the time left, each compared with the ones before it.

    An estimate of s seconds at time t predicts the end at t + s. It is accepted when this one and the two before,
    each less the time that has passed since, are within a factor of two of one another; otherwise the time left is
    unknown.

    Examples
    --------
    >>> forecast = Forecast()
    >>> [forecast.checked(left, now) for left, now in ((100.0, 0.0), (95.0, 10.0), (80.0, 20.0), (7787.0, 30.0))]
    [None, None, 80.0, None]
    """

    def __init__(self) -> None:
        self._ends: list[float] = []

    def checked(self, seconds_left: float, now: float) -> float | None:
        """Return ``seconds_left`` if it agrees with the estimates before it, or is 0; None otherwise."""
        self._ends = [*self._ends[1 - N_AGREEING :], now + seconds_left]
        left = [max(end - now, 0.0) for end in self._ends]
        if seconds_left > 0.0 and (len(left) < N_AGREEING or max(left) > AGREEMENT_FACTOR * min(left)):
            return None
        return round(seconds_left, 1)


def in_words(seconds: float) -> str:
    """Return a rough time in the unit that people would use.

    Examples
    --------
    >>> [in_words(seconds) for seconds in (0.2, 42.0, 400.0, 9_000.0)]
    ['1 s', '42 s', '7 minutes', '2.5 hours']
    """
    if seconds < 2.0 * MINUTE:
        return f"{max(seconds, 1.0):.0f} s"
    return f"{seconds / MINUTE:.0f} minutes" if seconds < 2.0 * HOUR else f"{seconds / HOUR:.1f} hours"
