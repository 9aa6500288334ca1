"""Many reports of one person who moves: what a filter makes of them, for the receiver and for the adversary.

The person is at record ``x_t`` at step t and moves by a public transition; each step has one report. A hidden Markov
filter keeps ``P(x_t = i | reports so far)``: predict by the transition, then multiply by the column of the report. It
looks at reports only, so that using it is post-processing and costs no budget. It is also the best that an adversary
who knows the transition can do with the reports so far.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.errors import InputError
from metricdp.evaluate.walks import STAY, checked_transition, neighbour_walk
from metricdp.mechanism.merge import output_numbers
from metricdp.mechanism.plane import AT_PLACES, check_of_records
from metricdp.mechanism.scope import can_be_recomputed
from metricdp.metric.directions import coordinate_metric
from metricdp.problem.loss_space import loss_blocks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.metric.distances import Metric

N_WALKS = 200
MOST_GUESSED = 5_000  # records up to which distances among all are held, for the adversary's guesses


class Tracker:
    """A hidden Markov filter over the reports of one person.

    Parameters
    ----------
    mechanism
        What makes the reports.
    transition
        The public probability of each move, shape (N, N), rows summing to 1, dense or sparse. By default a random walk
        on the mechanism's neighbour pairs, which stays with probability ``stay`` (always, where there is no neighbour).
    stay
        Of the default walk.
    start
        A weight for each record at the first report; by default the records' prior.

    Examples
    --------
    >>> import metricdp as mdp
    >>> mechanism = mdp.exponential(mdp.Problem(mdp.data.grid(1, 5), epsilon=2.0, eta=1.0))
    >>> tracker = mdp.Tracker(mechanism)
    >>> alone = tracker.update("r00c02").max()
    >>> bool(tracker.update("r00c02").max() > alone)  # the second report confirms the first
    True
    """

    def __init__(
        self,
        mechanism: Mechanism,
        *,
        transition: Any = None,
        stay: float = STAY,
        start: ArrayLike | None = None,
    ) -> None:
        check_of_records(mechanism, AT_PLACES)
        self.mechanism = mechanism
        if transition is not None:
            self.transition = checked_transition(transition, mechanism.records.n)
        else:
            self.transition = neighbour_walk(mechanism, stay)
        self._start = mechanism.records.with_prior(mechanism.records.prior if start is None else start).prior
        self.reset()

    def reset(self) -> None:
        """Forget all reports."""
        self.belief: NDArray[np.float64] = self._start.copy()
        self.n_reports = 0

    def update(self, report: Any) -> NDArray[np.float64]:
        """Take the next report (an output's name or number); return the probability of each record now, shape (N,)."""
        (number,) = output_numbers(self.mechanism, [report])
        before = self.belief if self.n_reports == 0 else np.asarray(self.belief @ self.transition)
        after = before * self.mechanism.block(None, int(number))[:, 0]
        total = float(after.sum())
        if not total > 0.0:
            raise InputError("this report is impossible after those before it: check the transition and the reports")
        self.belief, self.n_reports = after / total, self.n_reports + 1
        return self.belief.copy()

    def best_output(self) -> int:
        """Return the output with the least expected loss for what is believed now: what to work with in its place."""
        if self.mechanism.losses is None:
            raise InputError("this mechanism has no losses to choose an output by: use the belief")
        cost = np.zeros(self.mechanism.outputs.n)
        for rows, outputs, block in loss_blocks(self.mechanism.losses):
            cost[outputs] += self.belief[rows] @ block
        return int(cost.argmin())


@dataclass(frozen=True)
class Trajectory:
    """What walks of ``n_steps`` reports cost and reveal, on average over simulated walks and steps.

    Attributes
    ----------
    loss, loss_remapped, loss_filtered
        Expected loss of the reports as they are, of the best output after each report alone, and after all so far.
    right_alone, right_filtered
        How often the most likely record is the true one, from each report alone and from all so far.
    error_alone, error_filtered
        Expected distance from the adversary's guess to the truth, where the guess is the record with the least expected
        distance, from each report alone and from all so far; None where distances among records are not known, or for
        more than 5,000 records.
    promise
        What is promised for a whole path, in words.
    """

    n_walks: int
    n_steps: int
    loss: float
    loss_remapped: float
    loss_filtered: float
    right_alone: float
    right_filtered: float
    error_alone: float | None
    error_filtered: float | None
    promise: str


def path_promise(mechanism: Mechanism, n_steps: int) -> str:
    """Return what is promised for a path of reports, in words."""
    epsilon, unit = mechanism.epsilon, mechanism.guarantee.unit
    largest = "" if mechanism.epsilons is None else " (the largest of the records' own)"
    return (
        f"A path of {n_steps} reports at epsilon {epsilon:g}{largest} per {unit} each: whoever sees them all finds "
        "any of two paths at most exp(sum over the steps of epsilon times the path distance of the two places) times "
        "more likely. "
        f"For two people who are d apart at every step that is exp({n_steps * epsilon:g} d): the budgets of the steps "
        "add up, and a filter over the reports costs nothing more."
    )


def trajectory(
    mechanism: Mechanism,
    n_steps: int,
    *,
    n_walks: int = N_WALKS,
    transition: Any = None,
    stay: float = STAY,
    seed: int = 0,
    metric: Metric | None = None,
) -> Trajectory:
    """Simulate people who walk by the transition and report at each step, and filter their reports.

    ``metric`` measures the adversary's error; by default the mechanism's own where coordinates give it, and the
    straight line for streets.
    """
    if n_steps < 1 or n_walks < 1:
        raise InputError(f"a trajectory needs at least one step and one walk, got {n_steps} and {n_walks}")
    if mechanism.losses is None:
        raise InputError("this mechanism has no losses to measure trajectories by: make it from a problem")
    generator = np.random.default_rng(seed)
    tracker, alone = (Tracker(mechanism, transition=transition, stay=stay) for _ in range(2))
    prior, moves = mechanism.records.prior, tracker.transition
    away = _distances(mechanism, metric)
    totals = np.zeros(7)
    for _ in range(n_walks):
        tracker.reset()
        place = int(generator.choice(len(prior), p=prior))
        for step in range(n_steps):
            if step:
                begin, end = moves.indptr[place : place + 2]
                chances = moves.data[begin:end]
                place = int(generator.choice(moves.indices[begin:end], p=chances / chances.sum()))
            row = mechanism.block(place)[0]
            report = int(generator.choice(len(row), p=row / row.sum()))
            tracker.update(report)
            alone.reset()
            alone.update(report)
            losses = [
                float(mechanism.losses.block(np.array([place]), np.array([output]))[0, 0])
                for output in (report, alone.best_output(), tracker.best_output())
            ]
            right = [float(one.belief.argmax() == place) for one in (alone, tracker)]
            errors = [0.0 if away is None else float(away[place, _guess(one.belief, away)]) for one in (alone, tracker)]
            totals += np.array(losses + right + errors)
    *found, alone_off, filtered_off = (totals / (n_walks * n_steps)).tolist()
    loss, remapped, filtered, right, right_filtered = found
    return Trajectory(
        n_walks=n_walks,
        n_steps=n_steps,
        loss=loss,
        loss_remapped=remapped,
        loss_filtered=filtered,
        right_alone=right,
        right_filtered=right_filtered,
        error_alone=None if away is None else alone_off,
        error_filtered=None if away is None else filtered_off,
        promise=path_promise(mechanism, n_steps),
    )


def _guess(belief: NDArray[np.float64], away: NDArray[np.float64]) -> int:
    """Return the record with the least expected distance."""
    return int((belief @ away).argmin())


def _distances(mechanism: Mechanism, metric: Metric | None) -> NDArray[np.float64] | None:
    """Return the distances among all records, shape (N, N); None where they are not known or too many."""
    records = mechanism.records
    if metric is None and can_be_recomputed(mechanism.metric):
        metric = coordinate_metric(mechanism.metric)
    elif metric is None and mechanism.metric == "street" and records.kind == "places":
        metric = coordinate_metric("haversine")
    if metric is None or records.n > MOST_GUESSED:
        return None
    found = metric.to_rows(records, np.arange(records.n))
    return found if np.isfinite(found).all() else None
