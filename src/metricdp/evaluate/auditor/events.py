"""Which set of reports tells two inputs apart best: chosen on some draws, to be tested on others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.evaluate.auditor.statistics import ratio_bound

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from numpy.typing import NDArray

REFUSED = "(refused)"
NO_REPORT = "(no report)"
N_REPORTS_NAMED = 4  # reports of an event that are named
DISTINCT_SHARE = 0.1  # of all reports: if more are distinct, numbers are grouped in cells
CELLS = (8, 64)  # along each coordinate
MAX_DIMENSIONS = 3  # coordinates of a report that are grouped in cells


class Names:
    """Numbers for reports, in the order in which they were first seen."""

    def __init__(self, *draws: Sequence[Hashable]) -> None:
        self.names = tuple(dict.fromkeys(report for reports in draws for report in reports))
        self._code = {report: code for code, report in enumerate(self.names)}

    @property
    def n(self) -> int:
        """How many codes there are; the last one stands for everything that was not seen."""
        return len(self.names) + 1

    def codes(self, reports: Sequence[Hashable]) -> NDArray[np.int64]:
        """Return the code of each report."""
        unseen = len(self.names)
        return np.fromiter((self._code.get(report, unseen) for report in reports), np.int64, len(reports))

    def text(self, members: NDArray[np.int64]) -> str:
        """Return a set of codes in words."""
        names = [
            str(self.names[code]) if code < len(self.names) else "any other"
            for code in members[:N_REPORTS_NAMED].tolist()
        ]
        more = f" or {len(members) - N_REPORTS_NAMED} others" if len(members) > N_REPORTS_NAMED else ""
        return f"the report is {' or '.join(names)}{more}"


class Cells:
    """Reports that are numbers, grouped in cells between quantiles of the draws; others share one code."""

    def __init__(self, points: NDArray[np.float64], per_axis: int) -> None:
        inner = np.linspace(0.0, 1.0, per_axis + 1)[1:-1]
        self.edges = [np.unique(np.quantile(column, inner)) for column in points.T]
        self.per_axis = per_axis
        self.n = int(np.prod([len(edges) + 1 for edges in self.edges])) + 1

    def codes(self, reports: Sequence[Hashable]) -> NDArray[np.int64]:
        """Return the cell of each report."""
        found = np.full(len(reports), self.n - 1, dtype=np.int64)
        for place, report in enumerate(reports):
            point = as_numbers(report)
            if point is not None and len(point) == len(self.edges):
                code = 0
                for edges, value in zip(self.edges, point, strict=True):
                    code = code * (len(edges) + 1) + int(np.searchsorted(edges, value, side="right"))
                found[place] = code
        return found

    def text(self, members: NDArray[np.int64]) -> str:
        """Return a set of codes in words."""
        return f"the report lies in {len(members)} of the {self.n - 1} cells of a grid"


@dataclass(frozen=True)
class Event:
    """A set of reports."""

    coding: Names | Cells
    members: NDArray[np.int64]

    def count(self, reports: Sequence[Hashable]) -> int:
        """Return how many of ``reports`` are in the set."""
        return int(np.isin(self.coding.codes(reports), self.members).sum())

    def __str__(self) -> str:
        return self.coding.text(self.members)


def choose_event(draws: Sequence[Hashable], others: Sequence[Hashable], level: float) -> Event:
    """Return the set of reports whose probability is largest under the first input compared with the second.

    Sets are tried in the order of the likelihood ratio in one half of the draws, and the one with the largest ratio
    that the other half could prove is taken. The choice looks at these draws, so it proves nothing about them: test it
    on fresh ones.
    """
    best, chosen = -np.inf, None
    for coding in _codings(draws, others):
        codes, other_codes = coding.codes(draws), coding.codes(others)
        # ordered by one half and measured on the other, so that reports that occur only once do not look significant
        count, other = (np.bincount(of[::2], minlength=coding.n) for of in (codes, other_codes))
        order = np.argsort(-(count + 0.5) / len(draws) / ((other + 0.5) / len(others)), kind="stable")
        seen = order[(count + other)[order] > 0]
        count, other = (np.bincount(of[1::2], minlength=coding.n)[seen] for of in (codes, other_codes))
        bounds = ratio_bound(np.cumsum(count), len(draws) // 2, np.cumsum(other), len(others) // 2, level)
        place = int(bounds.argmax())
        if chosen is None or bounds[place] > best:
            best, chosen = float(bounds[place]), Event(coding, seen[: place + 1])
    if chosen is None:
        raise ValueError("an event cannot be chosen without draws")
    return chosen


def _codings(draws: Sequence[Hashable], others: Sequence[Hashable]) -> Iterator[Names | Cells]:
    names = Names(draws, others)
    yield names
    if len(names.names) < DISTINCT_SHARE * (len(draws) + len(others)):
        return
    # reports that hardly ever occur twice: single values carry no information, but their positions may
    points = [point for point in map(as_numbers, (*draws, *others)) if point is not None]
    if points and len(points[0]) <= MAX_DIMENSIONS and all(len(point) == len(points[0]) for point in points):
        for per_axis in CELLS:
            yield Cells(np.array(points), per_axis)


def as_numbers(report: Hashable) -> tuple[float, ...] | None:
    """Return the coordinates that a report consists of, or None if it is a name."""
    parts: Any = report if isinstance(report, tuple) else (report,)
    try:
        point = tuple(float(part) for part in parts)
    except (TypeError, ValueError):
        return None
    return point if point and all(np.isfinite(value) for value in point) else None


def as_report(value: Any) -> Hashable:
    """Return a pipeline's report in a form that can be counted."""
    if isinstance(value, str):
        return value
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return tuple(as_report(part) for part in value)
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, (int, float, bytes)) else str(value)
