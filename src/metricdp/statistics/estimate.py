"""What the reports of many people say about all of them: the distribution of their records, and shares with limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial import cKDTree

from metricdp.data.frozen import frozen
from metricdp.errors import InputError
from metricdp.mechanism.plane import PlaneMechanism
from metricdp.statistics.channel import Channel
from metricdp.statistics.counts import counts_of
from metricdp.statistics.groups import output_groups
from metricdp.statistics.likelihood import fit
from metricdp.statistics.questions import by_column, rows_asked
from metricdp.statistics.region import Region

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray
    from scipy.sparse import csr_array

    from metricdp.data.records import Records
    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.mechanism.snap import SnappedReports
    from metricdp.statistics.counts import ReportCounts

LEVEL = 0.95
# What the log-likelihood of all reports may be below its maximum, for each output that was reported. The true
# population is below it by about one half for each (Wilks), so that going on fits the noise of the reports.
DEFICIT_PER_OUTPUT = 0.05
MAX_UPDATES = 20_000
UNIFORM_SHARE = 0.01  # of the next prior, so that no record is taken for impossible
RECORDS_PER_GROUP = 1  # in the linear program from the beginning

ASSUMPTION = (
    "These statistics assume one report of each person, drawn by this mechanism, none left out because of what it "
    "says. They are about the population that these persons were drawn from."
)
OF_REGIONS = (
    "Shares are of the nodes of the region's lattice: each person counts for the nodes around their point, by the "
    "weights that the mechanism draws nodes with. So they are those of the population smoothed over at most a cell and "
    "a half each way, exactly, wherever in the cells people are; nodes of a ring outside the region have shares too."
)
PRIOR_WARNING = (
    "This prior was computed from reports, so the mechanism made with it depends on them: who reports again with that "
    "mechanism spends both budgets, which add up. Never compute a prior from true records: it would be published with "
    "the mechanism."
)


@dataclass(frozen=True)
class ShareInterval:
    """The share of some records in the population.

    Attributes
    ----------
    low, high
        What it is at least and at most.
    estimate
        What the estimated distribution says, moved to the nearer limit if it is outside.
    level
        All intervals of one estimate hold at once with at least this probability.
    n_records
        How many records are asked about.
    """

    low: float
    high: float
    estimate: float
    level: float
    n_records: int


@dataclass(frozen=True, eq=False, repr=False)
class PopulationEstimate:
    """The distribution of a population over the records, estimated from its reports.

    Attributes
    ----------
    mechanism
        What made the reports.
    counts
        How often each output was reported, shape (K,).
    distribution
        The share of each record, shape (N,): a distribution that makes the reports most likely, within ``deficit``.
        Where there are fewer outputs than records, others are as likely; `interval` says what is known.
    deficit
        What the log-likelihood of all reports is below its maximum, at most.
    is_converged
        Whether the deficit is as small as was asked for.
    updates
        How many Bayesian updates it took.
    """

    mechanism: Mechanism | PlaneMechanism
    counts: NDArray[np.int64]
    distribution: NDArray[np.float64]
    deficit: float
    is_converged: bool
    updates: int
    _regions: dict[float, Region] = field(default_factory=dict, init=False)

    def __repr__(self) -> str:
        end = "" if self.is_converged else ", not converged"
        return (
            f"PopulationEstimate({self.mechanism.records.name!r}: {self.n:,} reports, {self.mechanism.records.n:,} "
            f"records, log-likelihood within {self.deficit:.3g} of its maximum{end})"
        )

    @property
    def n(self) -> int:
        """Number of reports."""
        return int(self.counts.sum())

    @property
    def assumption(self) -> str:
        """What must be true of the reports, and what a share is of."""
        return f"{ASSUMPTION} {OF_REGIONS}" if isinstance(self.mechanism, PlaneMechanism) else ASSUMPTION

    @property
    def prior_warning(self) -> str:
        """What to know before the estimate becomes a prior."""
        return PRIOR_WARNING

    def share(self, records: Any) -> float:
        """Return the estimated share of some records: rows, ids, or a mask."""
        return float(self.distribution[rows_asked(self.mechanism, records)].sum())

    def interval(self, records: Any, level: float = LEVEL) -> ShareInterval:
        """Return limits of the share of some records: rows (whole numbers), ids (texts), or a mask of all records.

        They hold at this number of reports, whatever the population is. With probability ``level`` at least, *all*
        intervals of one estimate at one level hold at once, so that questions may be asked after looking at the
        distribution. See docs/statistics.md for how.
        """
        if not 0.0 < level < 1.0:
            raise InputError(f"the level must be between 0 and 1, got {level}: give for example 0.95")
        rows = rows_asked(self.mechanism, records)
        question = np.zeros(self.mechanism.records.n)
        question[rows] = 1.0
        low, high = self._region(float(level)).bounds(question)
        estimate = min(max(float(self.distribution[rows].sum()), low), high)
        return ShareInterval(low, high, estimate, float(level), len(rows))

    def intervals(
        self, questions: Mapping[str, Any] | Sequence[Any] | ArrayLike, level: float = LEVEL
    ) -> dict[str, ShareInterval]:
        """Return the interval of each question by its name.

        ``questions`` has the records of each name, or is a column of the data: one value for each record, and each
        value is a question.
        """
        asked: Mapping[str, Any] = (
            questions if isinstance(questions, Mapping) else by_column(questions, self.mechanism.records.n)
        )
        return {name: self.interval(records, level) for name, records in asked.items()}

    def as_prior(self, *, uniform: float = UNIFORM_SHARE) -> Records:
        """Return the records with the estimate as their prior, for the next problem; read `prior_warning` first.

        ``uniform`` is the share of the uniform distribution in it: an estimated share of 0 does not mean that a record
        is impossible. For a region these are the nodes inside it; those outside count for the nearest.
        """
        if not 0.0 <= uniform <= 1.0:
            raise InputError(f"the uniform share of a prior must be from 0 to 1, got {uniform}: give for example 0.01")
        records = self.mechanism.records
        if isinstance(self.mechanism, PlaneMechanism):
            inner = records.select(self.mechanism.region.inner)
            nearest = cKDTree(inner.coordinates).query(records.coordinates)[1]
            shares = np.bincount(nearest, weights=self.distribution, minlength=inner.n)
            return inner.with_prior((1.0 - uniform) * shares + uniform / inner.n)
        return records.with_prior((1.0 - uniform) * self.distribution + uniform / records.n)

    @cached_property
    def _groups(self) -> csr_array:
        return output_groups(self.mechanism)

    def _region(self, level: float) -> Region:
        if level not in self._regions:
            n_likely = min(len(self.distribution), RECORDS_PER_GROUP * self._groups.shape[1] + 1)
            self._regions[level] = Region(
                Channel(self.mechanism.table),
                self._groups,
                self.counts,
                alpha=1.0 - level,
                likely=np.argsort(-self.distribution, kind="stable")[:n_likely],
            )
        return self._regions[level]


def estimate(
    mechanism: Mechanism | PlaneMechanism,
    reports: ReportCounts | SnappedReports | Iterable[Any],
    *,
    persons: Iterable[Any] | None = None,
    start: ArrayLike | None = None,
    max_deficit: float | None = None,
    max_updates: int = MAX_UPDATES,
) -> PopulationEstimate:
    """Estimate the distribution of a population over the records from one report of each person.

    Parameters
    ----------
    mechanism
        The mechanism that made the reports, of records or of a region.
    reports
        Names of outputs as `Mechanism.perturb` returns them, `SnappedReports`, or `ReportCounts`, which count reports
        as they come (`count_file` for a file).
    persons
        Who made each report, to refuse a second report of anyone: two reports of one person are not independent.
    start
        A positive weight for each record, from which the updates begin; uniform by default. Where the reports do not
        decide between records, the estimate stays close to it.
    max_deficit
        The updates end when the log-likelihood of all reports is at most this far below its maximum; by default 0.05
        for each output that was reported.
    max_updates
        The most updates; after them the result says that it is not converged.

    Examples
    --------
    >>> import metricdp as mdp
    >>> problem = mdp.Problem(mdp.data.grid(3, 3), epsilon=3.0, eta=1.5)
    >>> mechanism = mdp.exponential(problem)
    >>> reports = mechanism.perturb(["r01c01"] * 2000)  # everybody is in the middle
    >>> found = mdp.estimate(mechanism, reports)
    >>> bool(found.distribution.argmax() == 4), found.interval(["r01c01"]).low > 0.5
    (True, True)
    """
    counts = counts_of(mechanism, reports, persons).of_outputs
    if not counts.any():
        raise InputError("there are no reports: give at least one")
    if max_deficit is not None and not max_deficit > 0.0:
        raise InputError(f"max_deficit must be positive, got {max_deficit}")
    if max_updates < 1:
        raise InputError(f"max_updates must be at least 1, got {max_updates}")
    seen = np.flatnonzero(counts)
    channel = Channel(mechanism.table, seen)
    begin = _start(start, mechanism.records.n)
    impossible = np.flatnonzero(channel.chances(begin) <= 0.0)
    if impossible.size:
        raise InputError(
            "an output that no record of this mechanism reports was reported: check that these are its reports"
        )
    wanted = DEFICIT_PER_OUTPUT * len(seen) if max_deficit is None else float(max_deficit)
    found = fit(channel, counts[seen], begin, max_deficit=wanted, max_updates=max_updates)
    return PopulationEstimate(
        mechanism, frozen(counts), frozen(found.shares), found.deficit, found.deficit <= wanted, found.updates
    )


def _start(start: ArrayLike | None, n: int) -> NDArray[np.float64]:
    if start is None:
        return np.full(n, 1.0 / n)
    weights = np.asarray(start, dtype=np.float64)
    if weights.shape != (n,) or not (np.isfinite(weights).all() and (weights > 0.0).all()):
        raise InputError(f"start must hold a positive weight for each of the {n} records: a weight of 0 stays 0")
    return weights / weights.sum()
