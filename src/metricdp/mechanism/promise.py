"""From words to a budget: how near, how alike, how often; and the promise in a sentence that anybody understands."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from metricdp.errors import InputError
from metricdp.mechanism.ratios import Ratio, least_epsilon
from metricdp.metric.units import as_distance, in_words, rounded_up, unit_of

SHARES = {2.0: "half", 3.0: "a third", 4.0: "a quarter", 5.0: "a fifth", 10.0: "a tenth"}
PERIODS = ("minute", "hour", "day", "week", "month", "year")
_REPORTS = re.compile(r"\s*(\d+)\s*(?:/|per)?\s*([A-Za-z]*)\s*")


@dataclass(frozen=True)
class Promise:
    """What is promised to people: somebody within ``within`` sends the same reports at least 1 / ``factor`` as often.

    Parameters
    ----------
    within
        A distance in the metric's unit.
    factor
        How many times likelier the reports of one of two such people may be, above 1.
    metric
        The metric's name.
    reports, period
        How many reports one person sends, and in which time, as a word.
    """

    within: float
    factor: float
    metric: str = "haversine"
    reports: int = 1
    period: str = ""

    @classmethod
    def of(cls, within: float | str, factor: float, *, reports: int | str = 1, metric: str = "haversine") -> Promise:
        """Make a promise from words such as ``within="200m"``, ``factor=4``, ``reports="5/day"``."""
        near = as_distance(within, metric, what="within")
        times = float(factor) if isinstance(factor, (int, float)) and not isinstance(factor, bool) else math.nan
        if not (math.isfinite(times) and times > 1.0):
            raise InputError(f"factor must be above 1 and finite, got {factor!r}: 4 means at least a quarter as often")
        if math.isinf(near):
            raise InputError("within must be finite: give a distance such as 200m")
        count, period = _reports(reports)
        return cls(near, times, metric, count, period)

    @property
    def epsilon(self) -> float:
        """The budget of one report: the largest float with ``exp(reports * epsilon * within) <= factor``, or near it.

        It is never too large: rounding is downwards, and exact.
        """
        whole = math.nextafter(least_epsilon(Ratio.of(self.factor, 1.0), self.within), 0.0)
        return whole if self.reports == 1 else math.nextafter(whole / self.reports, 0.0)

    @property
    def sentence(self) -> str:
        """The promise in one sentence, without any symbol.

        Examples
        --------
        >>> Promise.of("200m", 4).sentence
        'Somebody 200 m away would send the same report at least a quarter as often.'
        >>> Promise.of("200m", 4, reports="5/day").sentence
        'Somebody 200 m away would send the same 5 reports of a day at least a quarter as often.'
        """
        what = "report" if self.reports == 1 else f"{self.reports} reports"
        time = f" of a {self.period}" if self.period and self.reports > 1 else ""
        share = SHARES.get(self.factor, f"1/{self.factor:g}")
        away = in_words(self.within, self.metric)
        return f"Somebody {away} away would send the same {what}{time} at least {share} as often."

    @property
    def budget(self) -> str:
        """The line of a plan that says what a report costs, and what all of them do."""
        unit, n = unit_of(self.metric) or "unit of distance", self.reports
        total = "" if n == 1 else f"; {n} reports spend {rounded_up(n * self.epsilon)}"
        return f"epsilon  {rounded_up(self.epsilon)} per {unit}{total}"

    def fields(self) -> dict[str, Any]:
        """Return what a plan says of the promise, by name."""
        return {
            "promise": self.sentence,
            "within": self.within,
            "factor": self.factor,
            "reports": self.reports,
            "period": self.period or None,
            "unit": unit_of(self.metric) or None,
            "metric": self.metric,
            "epsilon": self.epsilon,
            "epsilon_of_all_reports": self.reports * self.epsilon,
        }


def epsilon_for(within: float | str, factor: float, *, reports: int | str = 1, metric: str = "haversine") -> float:
    """Return the budget of one report: somebody ``within`` sends the same at least 1 / ``factor`` as often.

    Examples
    --------
    >>> round(epsilon_for("200m", 4), 4), round(epsilon_for("200m", 4, reports="5/day"), 4)
    (6.9315, 1.3863)
    """
    return Promise.of(within, factor, reports=reports, metric=metric).epsilon


def _reports(given: int | str) -> tuple[int, str]:
    found = _REPORTS.fullmatch(str(given)) if isinstance(given, (int, str)) and not isinstance(given, bool) else None
    count = int(found[1]) if found is not None else 0
    if found is None or count < 1:
        raise InputError(f"reports must be a whole number of at least 1, got {given!r}: write 5 or 5/day")
    period = found[2].lower()
    if period and period.removesuffix("s") not in PERIODS:
        raise InputError(
            f"reports must be counted in a time that is known, got {given!r}: write 5, or 5/day with one of "
            f"{', '.join(PERIODS)}"
        )
    return count, period.removesuffix("s")
