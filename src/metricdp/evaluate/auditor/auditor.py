"""The black-box auditor: inputs in, reports out, and a claim that the reports may refute.

It sees nothing of the pipeline but its reports. For each pair of neighbouring inputs the most distinguishing set
of reports is chosen on one half of the draws and tested on the other half, so that the chance of a false alarm over a
whole audit is bounded at any number of draws. An audit can refute a claim; it cannot prove one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.errors import InputError, MetricDPError
from metricdp.evaluate.auditor.events import NO_REPORT, REFUSED, Names, as_report, choose_event
from metricdp.evaluate.auditor.statistics import (
    batches_needed,
    detectable,
    largest_claim,
    matching_level,
    ratio_bound,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator

Pipeline = Callable[[list[Any]], Sequence[Any]]
"""From a batch of inputs to one report for each."""
Claim = Callable[[Any, Any], float]
"""The claim for two inputs: the largest log ratio of the probabilities of any set of reports, in nats."""

N_DRAWS = 10_000  # of each input
FALSE_ALARM_RATE = 1e-3  # of a whole audit
BATCH_SIZE = 10_000  # inputs given to the pipeline at a time
N_SMALL_BATCHES = 100  # at most; each contains every input twice
N_ALONE = 400  # inputs given one by one where a batch is not answered as a whole
REFUSALS = (MetricDPError, ValueError, LookupError)  # errors with which a pipeline refuses to report
RATIO_SHARE, RUN_SHARE, BATCH_SHARE = 0.5, 0.25, 0.25  # of the false alarm rate


@dataclass(frozen=True)
class Neighbours:
    """Two inputs that should be hard to tell apart, and why they were chosen. Points are tuples, not lists."""

    x: Any
    y: Any
    why: str = ""


@dataclass(frozen=True)
class Alarm:
    """One claim that the draws refute.

    Parameters
    ----------
    kind
        ``"ratio"``: two inputs can be told apart too well. ``"repeated"``: two calls give the same reports.
        ``"dependent"``: reports of one call depend on one another. ``"output"``: a report that is not an output.
    inputs
        The inputs concerned: public test inputs, nobody's secrets.
    event
        What was observed, in words.
    bound, claim
        For ``"ratio"``: the log ratio that is proved, and the one that is claimed, in nats. For ``"output"`` the
        number of such reports, and none; for the others how likely this is at most for independent draws, and how
        unlikely it must be for an alarm.
    sentence
        All of it in words.
    """

    kind: str
    inputs: tuple[Any, ...]
    event: str
    bound: float
    claim: float
    sentence: str

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class Audit:
    """The result of an audit. Passing is not a proof: it says that this many draws on these inputs refute nothing.

    Parameters
    ----------
    alarms
        What was refuted, the worst first.
    n_pairs, n_tested
        Pairs of inputs given, and those whose claim this number of draws could refute at all.
    n_draws
        Draws of each input, half of them to choose the event and half to test it.
    false_alarm_rate
        The chance that a sound pipeline raises any alarm at all is at most this.
    detectable
        At best, by how many nats a log ratio must exceed its claim to be found (about every other time).
    largest_claim
        The largest log ratio that this number of draws can refute.
    n_refused
        Inputs for which the pipeline gave no report at all.
    """

    alarms: tuple[Alarm, ...]
    n_pairs: int
    n_tested: int
    n_draws: int
    false_alarm_rate: float
    detectable: float
    largest_claim: float
    n_refused: int

    @property
    def passed(self) -> bool:
        """Whether there is no alarm."""
        return not self.alarms

    def lines(self) -> list[str]:
        """Return the outcome in plain words, a line each."""
        lines = [f"ALARM: {alarm}" for alarm in self.alarms]
        if self.passed:
            lines.append("PASSED: no claim was refuted. This is not a proof: a smaller or rarer leak may be there.")
        lines.append(
            f"{self.n_tested} of {self.n_pairs} pairs of inputs were tested, with {self.n_draws:,} draws of each input."
        )
        if self.n_tested < self.n_pairs:
            lines.append(
                f"For the other {self.n_pairs - self.n_tested}, nothing is claimed, or more than "
                f"{self.largest_claim:.3g} nats, which so few draws cannot refute."
            )
        if self.n_refused:
            lines.append(f"For {self.n_refused} of the inputs there was no report at all.")
        lines.append(f"A sound pipeline raises an alarm in at most one of {1.0 / self.false_alarm_rate:,.0f} audits.")
        if math.isfinite(self.detectable):
            factor = f"a factor of {math.exp(self.detectable):.3g}"
            lines.append(f"A leak is found, at best, from {self.detectable:.3g} nats above the claim on ({factor}).")
        else:
            lines.append("So few draws hardly find any leak: use more.")
        return lines


def audit_pipeline(
    pipeline: Pipeline,
    pairs: Sequence[Neighbours],
    claim: Claim,
    *,
    outputs: Collection[Hashable] | None = None,
    n_draws: int = N_DRAWS,
    false_alarm_rate: float = FALSE_ALARM_RATE,
    batch: int = BATCH_SIZE,
    n_alone: int = N_ALONE,
) -> Audit:
    """Sample ``pipeline`` on ``pairs`` of inputs and return which claims the reports refute.

    A pipeline is sound if it draws the report of each input independently of everything else and its distributions
    for x and y satisfy ``P(S | x) <= exp(claim(x, y)) P(S | y)`` for every set S of reports, both ways. No report and a
    refusal are reports as well: an observer learns something from them. A refusal is a ValueError (such as
    `metricdp.InputError`), a LookupError or a `metricdp.MetricDPError`; other errors end the audit.

    Parameters
    ----------
    pipeline
        From a list of inputs to a list of reports, one for each: names, numbers or tuples of numbers.
    pairs
        Inputs to compare, chosen without looking at reports: see `record_neighbours` and `point_neighbours`.
    claim
        What is claimed for two inputs, in nats; infinite where nothing is.
    outputs
        What may be reported; anything else is an alarm. None if anything may.
    n_draws
        Of each input of each pair.
    false_alarm_rate
        For the audit as a whole; split evenly over all of its tests (Bonferroni).
    batch
        The most inputs to give to the pipeline at a time.
    n_alone
        How often to send an input alone, in either half, if a batch of it is not answered as a whole.
    """
    _check_options(pairs, n_draws, false_alarm_rate, min(batch, n_alone))
    half = n_draws // 2
    claims = np.array([float(claim(pair.x, pair.y)) for pair in pairs])
    if (np.isnan(claims) | (claims < 0)).any():
        place = int(np.flatnonzero(np.isnan(claims) | (claims < 0))[0])
        raise InputError(f"a claim must be zero or more, in nats, got {claims[place]} for pair {place}")
    # claims that the draws cannot refute are left out before anything is drawn; fewer tests are more powerful
    level = RATIO_SHARE * false_alarm_rate / (2 * len(pairs))
    testable = [place for place, value in enumerate(claims) if value < largest_claim(half, level)]
    if not testable:
        raise InputError(
            f"every claim is above {largest_claim(half, level):.3g} nats, which {n_draws:,} draws cannot refute: "
            "choose inputs that are closer together, or more draws"
        )
    level = RATIO_SHARE * false_alarm_rate / (2 * len(testable))
    run_level = RUN_SHARE * false_alarm_rate / (4 * len(testable))
    if not any(ask(pipeline, [value]) for place in testable for value in (pairs[place].x, pairs[place].y)):
        raise InputError("the pipeline refused every input: nothing was audited; check how it is called")
    sampler = _Sampler(pipeline, half, batch, n_alone)
    alarms: list[Alarm] = []
    for place in testable:
        pair = pairs[place]
        draws = [sampler.halves(value) for value in (pair.x, pair.y)]
        for value, (first, second) in zip((pair.x, pair.y), draws, strict=True):
            names = Names(first, second)
            u, v = names.codes(first), names.codes(second)
            alarms += _run_alarms(value, u, v, run_level)
        alarms += _ratio_alarms(pair, draws, float(claims[place]), level)
    repeats = dict(list(sampler.repeats.items())[: batch // 2])
    alarms += _batch_alarms(pipeline, repeats, BATCH_SHARE * false_alarm_rate)
    alarms += _output_alarm(sampler.seen, outputs)
    alarms.sort(key=lambda alarm: (alarm.kind == "ratio", alarm.claim - alarm.bound))
    return Audit(
        alarms=tuple(alarms),
        n_pairs=len(pairs),
        n_tested=len(testable),
        n_draws=n_draws,
        false_alarm_rate=false_alarm_rate,
        detectable=detectable(half, level, float(claims[testable].min())),
        largest_claim=largest_claim(half, level),
        n_refused=sampler.n_refused,
    )


class _Sampler:
    """Calls the pipeline; inputs that it refuses in a batch are sent one by one, so that refusals are seen as well."""

    def __init__(self, pipeline: Pipeline, half: int, batch: int, n_alone: int) -> None:
        self._pipeline, self._half, self._batch, self._n_alone = pipeline, half, batch, n_alone
        self.n_refused = 0
        # of the inputs whose batches are answered: how likely two of its reports are equal, about
        self.repeats: dict[Any, float] = {}
        self.seen: dict[Hashable, Any] = {}  # every report, and an input that it was given for

    def halves(self, value: Any) -> tuple[list[Hashable], list[Hashable]]:
        """Return two runs of reports for one input: the first to choose with, the second to test with."""
        runs = self._draws(value), self._draws(value)
        self.n_refused += all(report in (REFUSED, NO_REPORT) for reports in runs for report in reports)
        if all(len(reports) == self._half for reports in runs):
            counts = np.array(list(Counter(runs[0]).values()))
            self.repeats[value] = float((counts / self._half) @ (counts / self._half))
        for reports in runs:
            for report in set(reports):
                self.seen.setdefault(report, value)
        return runs

    def _draws(self, value: Any) -> list[Hashable]:
        reports: list[Hashable] = []
        while len(reports) < self._half:
            size = min(self._batch, self._half - len(reports))
            given = ask(self._pipeline, [value] * size)
            if given is None or len(given) != size:
                return [self._alone(value) for _ in range(min(self._half, self._n_alone))]
            reports += given
        return reports

    def _alone(self, value: Any) -> Hashable:
        given = ask(self._pipeline, [value])
        if given is None:
            return REFUSED
        if not given:
            return NO_REPORT
        return given[0] if len(given) == 1 else tuple(given)


def ask(pipeline: Pipeline, inputs: list[Any]) -> list[Hashable] | None:
    """Return the pipeline's reports, or None if it refuses."""
    try:
        return [as_report(report) for report in pipeline(inputs)]
    except REFUSALS:
        return None


def _ratio_alarms(
    pair: Neighbours, draws: list[tuple[list[Hashable], list[Hashable]]], claim: float, level: float
) -> Iterator[Alarm]:
    for here, there in ((0, 1), (1, 0)):
        event = choose_event(draws[here][0], draws[there][0], level)
        tested, against = draws[here][1], draws[there][1]
        count, other = event.count(tested), event.count(against)
        bound = float(ratio_bound(count, len(tested), other, len(against), level))
        if bound > claim:
            x, y = (pair.x, pair.y) if here == 0 else (pair.y, pair.x)
            because = f" ({pair.why})" if pair.why else ""
            yield Alarm(
                "ratio",
                (x, y),
                str(event),
                bound,
                claim,
                f"{_shown(x)} and {_shown(y)}{because} can be told apart: {event} {count:,} of {len(tested):,} times "
                f"for the first and {other:,} of {len(against):,} for the second, a factor of at least "
                f"{math.exp(bound):.4g}, but at most {math.exp(claim):.4g} is claimed",
            )


def _run_alarms(value: Any, u: np.ndarray[Any, Any], v: np.ndarray[Any, Any], level: float) -> Iterator[Alarm]:
    n = min(len(u), len(v))
    found = matching_level(u, v)
    if found < level:
        what = f"two calls agree at {int((u[:n] == v[:n]).sum()):,} of {n:,} places"
        yield Alarm(
            "repeated",
            (value,),
            what,
            found,
            level,
            f"reports of {_shown(value)} repeat themselves: {what}, which independent draws hardly ever do (is there a "
            "fixed seed?)",
        )
    found = matching_level(u[:-1:2], u[1::2])
    if found < level:
        what = f"{int((u[:-1:2] == u[1::2]).sum()):,} of {len(u) // 2:,} reports equal the one before"
        yield Alarm(
            "dependent",
            (value,),
            what,
            found,
            level,
            f"successive reports of {_shown(value)} depend on one another: {what}",
        )


def _batch_alarms(pipeline: Pipeline, repeats: dict[Any, float], level: float) -> Iterator[Alarm]:
    """Check that an input that occurs twice in a batch gets two independent reports, over many small batches."""
    if not repeats:
        return
    values = list(repeats)
    twice = [value for value in values for _ in range(2)]
    n_batches = min(N_SMALL_BATCHES, batches_needed(level / len(values), min(repeats.values())))
    given = [ask(pipeline, twice) for _ in range(n_batches)]
    answered = [reports for reports in given if reports is not None and len(reports) == len(twice)]
    for place, value in enumerate(values):
        both = [reports[2 * place : 2 * place + 2] for reports in answered]
        names = Names(*both)
        u, v = (names.codes([reports[side] for reports in both]) for side in (0, 1))
        found = matching_level(u, v)
        if found < level / len(values):
            what = f"the two agree in {int((u == v).sum())} of {len(both)} batches"
            yield Alarm(
                "dependent",
                (value,),
                what,
                found,
                level / len(values),
                f"two reports of {_shown(value)} in one batch depend on one another: {what} (is one random number used "
                "for a whole batch?)",
            )


def _output_alarm(seen: dict[Hashable, Any], outputs: Collection[Hashable] | None) -> Iterator[Alarm]:
    if outputs is None:
        return
    known = {*outputs, REFUSED, NO_REPORT}
    strange = [report for report in seen if report not in known]
    if strange:
        what = f"{_shown(strange[0])} is reported" + (f", and {len(strange) - 1} others" if len(strange) > 1 else "")
        yield Alarm(
            "output",
            (seen[strange[0]],),
            what,
            float(len(strange)),
            0.0,
            f"a report is none of the outputs: {what} for {_shown(seen[strange[0]])}",
        )


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str) else str(value)


def _check_options(pairs: Sequence[Neighbours], n_draws: int, false_alarm_rate: float, batch: int) -> None:
    if not pairs:
        raise InputError("there are no pairs of inputs to compare: give at least one")
    if n_draws < 100:
        raise InputError(f"the number of draws must be at least 100, got {n_draws}: fewer prove nothing")
    if not 0.0 < false_alarm_rate < 1.0:
        raise InputError(f"the false alarm rate must be between 0 and 1, got {false_alarm_rate}: 0.001 is usual")
    if batch < 1:
        raise InputError(f"the batch size must be at least 1, got {batch}")
