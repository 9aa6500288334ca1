"""From words to numbers: what a promise means for some data, what it costs, and what solving would take."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from metricdp.data import as_records
from metricdp.data.region import Region
from metricdp.errors import InputError
from metricdp.evaluate.expected_distance import distance_range
from metricdp.evaluate.lattice import lattice_around
from metricdp.mechanism.promise import Promise
from metricdp.metric import as_metric
from metricdp.metric.connecting import joining
from metricdp.metric.units import as_distance, in_words
from metricdp.problem.memory_model import BYTES_PER_PAIR, GIGABYTE, available_bytes, pairs_within
from metricdp.problem.problem import CONNECT, Problem, kind_measured_by
from metricdp.solve.prediction import Prediction, predict

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from metricdp.evaluate.plan_region import RegionPlan
    from metricdp.metric.connecting import Joining
    from metricdp.metric.distances import Metric

PAIR_SHARE = 0.25  # of the available memory that pairs may take: the rest is for solving
SPREAD_OUTPUTS = 1_000  # that are suggested where not every record can be one


@dataclass(frozen=True, eq=False)
class Plan:
    """What a promise means for some records.

    Parameters
    ----------
    promise
        What is promised to people.
    problem
        The problem to solve: its epsilon, eta and outputs are those of the plan.
    prediction
        Method, memory and time of a solve.
    outputs
        What ``outputs`` would be given to get these outputs; None if every record is one.
    n_components, n_isolated
        Groups of records that are not protected from one another (1 if all are), and records without any neighbour.
    distance_at_most, distance_at_least
        Expected distance from the truth to the report: a mechanism with this guarantee has the first (estimated from a
        sample where a rough solve would take long; None where none can be sampled), and no mechanism with these outputs
        can have less than the second.
    gap
        The gap that the prediction is for.
    """

    promise: Promise
    problem: Problem
    prediction: Prediction
    outputs: str | None
    n_components: int
    n_isolated: int
    distance_at_most: float | None
    distance_at_least: float | None
    gap: float

    @property
    def epsilon(self) -> float:
        """The budget of one report."""
        return self.problem.epsilon

    @property
    def eta(self) -> float:
        """The distance within which records are neighbours."""
        return self.problem.eta

    @property
    def is_connected(self) -> bool:
        """Whether every record is protected from every other."""
        return self.n_components == 1

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """Return the plan in plain words, the promise first."""
        problem, metric, made = self.problem, self.problem.metric.name, self.prediction
        found = [self.promise.sentence, self.promise.budget]
        joined = "all records are joined" if self.is_connected else f"{self.n_components:,} groups"
        found.append(f"eta      {in_words(self.eta, metric)}: {joined}, {problem.graph.n_pairs:,} neighbour pairs")
        found += [f"         {line}" for line in self.unprotected]
        every = "every record" if self.outputs is None else self.outputs
        found.append(f"outputs  {problem.n_outputs:,} of {problem.n_records:,} records ({every})")
        if made.window is not None and made.window_share is not None:
            share = 100 * min(made.window_share, 1.0)
            found.append(f"windows  {in_words(made.window, metric)} around each output, {share:.3g} % of all entries")
        found.append(
            f"solving  {made.memory} and {duration(made.seconds)} for a gap of {100 * self.gap:g} % ({made.method})"
        )
        said = []
        if self.distance_at_most is not None:
            said.append(f"the best at most about {in_words(self.distance_at_most, metric)} on average")
        if self.distance_at_least:  # at least 0 would say nothing
            said.append(f"no mechanism below {in_words(self.distance_at_least, metric)}")
        if said:
            found.append(f"distance to the truth  {'; '.join(said)}")
        return found if self.choice is None else [*found, self.choice]

    @cached_property
    def choice(self) -> str | None:
        """Which to take, records or a region, and whether a region around these records fits; None without one."""
        problem = self.problem
        return lattice_around(problem.records, problem.metric.name, self.epsilon, beyond=self.promise.within)

    @property
    def unprotected(self) -> list[str]:
        """What the promise leaves out, in words; empty if nothing."""
        found = []
        if self.n_isolated:
            found.append(f"NOT PROTECTED: {self.n_isolated:,} records have no neighbour; their reports may reveal them")
        if not self.is_connected:
            found.append(f"NOT PROTECTED: records in different ones of {self.n_components:,} groups, from one another")
        if self.eta < self.promise.within:
            away, reach = (in_words(d, self.promise.metric) for d in (self.promise.within, self.eta))
            found.append(f"for people {away} apart the promise holds along steps of up to {reach}, which may be longer")
        return found

    def fields(self) -> dict[str, Any]:
        """Return all figures by name, for programs; distances are in the metric's unit."""
        problem, made = self.problem, self.prediction
        return {
            **self.promise.fields(),
            "eta": self.eta,
            "connected": self.is_connected,
            "components": self.n_components,
            "isolated": self.n_isolated,
            "unprotected": self.unprotected,
            "records": problem.n_records,
            "pairs": problem.graph.n_pairs,
            "outputs": problem.n_outputs,
            "outputs_choice": self.outputs,
            "method": made.method,
            "window": made.window,
            "window_share": made.window_share,
            "gap": self.gap,
            "memory_gb": made.n_bytes / GIGABYTE,
            "seconds": made.seconds,
            "distance_at_most": self.distance_at_most,
            "distance_at_least": self.distance_at_least,
            "choice": self.choice,
        }


@overload
def plan(
    records: Region,
    *,
    within: float | str,
    factor: float,
    reports: int | str = 1,
    outputs: ArrayLike | None = None,
) -> RegionPlan: ...


@overload
def plan(
    records: Any,
    *,
    within: float | str,
    factor: float,
    reports: int | str = 1,
    eta: float | str = CONNECT,
    outputs: int | str | ArrayLike | None = None,
    metric: str | Metric | Callable[[Any, Any], float] | ArrayLike | None = None,
    gap: float = 0.01,
    seed: int = 0,
) -> Plan: ...


def plan(
    records: Any,
    *,
    within: float | str,
    factor: float,
    reports: int | str = 1,
    eta: float | str = CONNECT,
    outputs: int | str | ArrayLike | None = None,
    metric: str | Metric | Callable[[Any, Any], float] | ArrayLike | None = None,
    gap: float = 0.01,
    seed: int = 0,
) -> Plan | RegionPlan:
    """Return what a promise means for ``records``: budget, neighbours, outputs, memory, time, and expected distance.

    Parameters
    ----------
    records
        As for a `Problem`; or a region (`metricdp.data.region`), of which every point is to be protected: then only
        ``within``, ``factor``, ``reports`` and ``outputs`` (points) are taken, and the answer is a `RegionPlan`.
    within, factor
        The promise: somebody at this distance (``"200m"``, ``"0.2km"``, or a number in the metric's unit) sends the
        same report at least 1 / ``factor`` as often.
    reports
        How many reports of one person the promise covers: a number, or ``"5/day"``.
    eta
        The neighbour distance; by default the least one that joins all records and is not below ``within``, or, where
        its pairs would not fit into memory, the largest that fits.
    outputs
        As for a `Problem`; by default every record, or 1,000 well spread ones where that would not fit into memory.
    metric, gap, seed
        As for a `Problem` and for `solve`.

    Examples
    --------
    >>> import metricdp as mdp
    >>> found = plan(mdp.data.road("gothenburg", n=100), within="200m", factor=4, reports="5/day")
    >>> round(found.epsilon, 3), round(found.eta, 3), found.is_connected
    (1.386, 1.762, True)
    """
    if isinstance(records, Region):
        from metricdp.evaluate.plan_region import plan_region  # noqa: PLC0415  (it imports this module)

        if metric is not None or eta != CONNECT or isinstance(outputs, (int, str)):
            raise InputError(
                "a region has neither eta nor a metric to choose, and its outputs are points: leave them out"
            )
        return plan_region(records, within=within, factor=factor, reports=reports, outputs=outputs)
    made = as_records(records, kind=kind_measured_by(metric))
    measure = as_metric(metric, made)
    promise = Promise.of(within, factor, reports=reports, metric=measure.name)
    most_pairs = PAIR_SHARE * available_bytes() / BYTES_PER_PAIR
    reach = eta
    if isinstance(eta, str):
        reach = (
            _connecting(joining(made, measure), lambda r: pairs_within(made, measure, r) <= most_pairs, promise.within)
            if eta == CONNECT
            else as_distance(eta, measure.name, what="eta")
        )

    def problem_with(choice: Any) -> Problem:
        return Problem(
            made, epsilon=promise.epsilon, eta=reach, outputs=choice, metric=measure, loss="distance", seed=seed
        )

    problem = problem_with(outputs)
    prediction = predict(problem, gap=gap)
    choice = outputs if isinstance(outputs, str) else None if outputs is None else "given"
    if outputs is None and prediction.n_bytes > available_bytes() and made.n > SPREAD_OUTPUTS:
        choice = f"spread:{SPREAD_OUTPUTS}"
        problem = problem_with(choice)
        prediction = predict(problem, gap=gap)
    graph = problem.graph
    alone = int((np.bincount(graph.labels) == 1).sum())
    most, least = distance_range(problem, prediction)
    return Plan(promise, problem, prediction, choice, graph.n_components, alone, most, least, gap)


def _connecting(tree: Joining, fits: Callable[[float], bool], within: float) -> float:
    """Return the eta that joins all records and is at least ``within``, or the largest useful one that fits."""
    wanted = max(tree.eta, within)
    if fits(wanted):
        return wanted
    lengths = np.unique(np.append(tree.lengths, within))
    low, high = 0, len(lengths) - 1  # the shortest is taken even if it does not fit: the problem will say so
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(float(lengths[middle])) else (low, middle - 1)
    return float(lengths[low]) * (1.0 + 1e-9)


def duration(seconds: float) -> str:
    """Return a time as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
