"""Statistics of a population from the reports of a mechanism: a distribution, and shares with limits that hold."""

from metricdp.statistics.counts import ReportCounts, count_file
from metricdp.statistics.estimate import PopulationEstimate, ShareInterval, estimate
from metricdp.statistics.questions import by_column, inside, read_questions

__all__ = [
    "PopulationEstimate",
    "ReportCounts",
    "ShareInterval",
    "by_column",
    "count_file",
    "estimate",
    "inside",
    "read_questions",
]
