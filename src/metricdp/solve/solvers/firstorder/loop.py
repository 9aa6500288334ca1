"""The first-order method: iterate, bound, bring violated pairs in, until the certified gap is reached.

What is done when depends on counts of steps alone, never on the clock, so that the same problem gives the same answer
on any machine and with any number of threads. Costs are therefore weighed in steps: a lower bound costs about
three of them, and a repair on all pairs about ``REPAIR_PASSES`` times the ratio of pairs to edges. Only a time limit
that is near brings the clock in: for a first private matrix before it is too late, and for the last repair.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from metricdp.errors import StoppedError
from metricdp.mechanism.mechanism import relative_gap
from metricdp.mechanism.repair import private_matrix
from metricdp.solve.contract import Ended, Incumbent, Solver, register
from metricdp.solve.forecast import Forecast
from metricdp.solve.solvers.firstorder.bounds import certified_bound, most_violated, unit_duals
from metricdp.solve.solvers.firstorder.checkpointing import restore, store
from metricdp.solve.solvers.firstorder.iterate import Iteration
from metricdp.solve.solvers.firstorder.network import Network, first_edges
from metricdp.solve.solvers.firstorder.options import FirstOrderOptions, stretch_for
from metricdp.solve.solvers.firstorder.polish import Polisher
from metricdp.solve.solvers.firstorder.room import (
    EXTEND_AFTER,
    EXTEND_AGAIN,
    EXTEND_BY,
    FEWEST_MORE,
    PER_EDGE,
    PER_MULTIPLIER,
    iteration_bytes,
    most_edges,
)
from metricdp.solve.solvers.firstorder.tiles import WIDTH

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.component import Component
    from metricdp.solve.contract import Context, Load

NEARLY_THERE = 0.25  # of the steps that are allowed: so many more may follow them
FIRST_CHECK, NEXT_CHECK = 40, 1.2  # steps before the first bound, and the factor to the next
WEIGHTS = (0.3, 2.0)
REPAIR_PASSES = 60  # of a repair over all pairs, in steps over as many edges
REPAIR_SHARE = 0.15  # of all steps that repairs may cost
NEARLY_MET = 0.5  # of the gap
REPAIR_TOLERANCE = 0.05  # of the gap: what mixing may cost
POLISH_AFTER, POLISH_AGAIN = 250, 1.6  # steps before the bound is polished, and the factor to the next time
VIOLATED = 1e-5  # probability
STALLED = 0.02  # of the gap: progress of a bound over a doubling of the steps that is none
LAST_REPAIR = 1.3  # of the seconds of the repair before: what is left of the time for the last one
INSURED_AFTER = 0.6  # of the time limit: with less of it left and no private matrix, the first repair does not wait
TAKEN_APART_UP_TO = 20_000_000  # pairs times outputs


@dataclass
class Progress:
    """Bounds, the best private matrix, and counts that say what is next."""

    lower_bound: float = 0.0
    upper_bound: float = math.inf
    Z: NDArray[np.float64] | None = None
    proof: dict[str, NDArray[Any]] | None = None  # of the lower bound; None: the multipliers of the iteration prove it
    checks: int = 0
    extensions: int = 0
    polishes: int = 0

    @property
    def gap(self) -> float:
        """The relative gap."""
        return 1.0 if self.Z is None else relative_gap(self.upper_bound, self.lower_bound)


@register
class FirstOrder(Solver):
    """Matrix-free iterations, for whole cities.

    They end early when it looks as if the gap needed more than ``most_steps`` of them.
    """

    name: ClassVar[str] = "first-order"
    options_type: ClassVar[type] = FirstOrderOptions
    limits: ClassVar[tuple[str, ...]] = ("max_iterations",)
    is_checkpointed: ClassVar[bool] = True
    most_steps: float = math.inf

    def bytes_beyond(self, load: Load) -> float:
        """Return the bytes of the iterations with as many edges as they may have."""
        return iteration_bytes(load.sizes, load.edges)

    def takes_all_at_once(self, component: Component) -> bool:
        """Return whether the problem is too large to be taken apart: no part of its graph is copied then."""
        return component.graph.n_pairs * component.n_outputs > TAKEN_APART_UP_TO

    def run(self, component: Component, incumbent: Incumbent, context: Context) -> Incumbent:
        """Iterate from everybody's cheapest output; what is known already is the best so far."""
        options, stop = self.options, context.stop
        size = component.graph.n_pairs * component.n_outputs
        polisher = Polisher(component, context.workers, stop) if size <= options.polish_up_to else None
        run = Run(component, options, polisher, context, most_steps=self.most_steps)
        run.take(incumbent)
        checkpoint = context.checkpoint
        if checkpoint is not None:
            restore(checkpoint, run.iteration, run.progress)
            run.keep_pace()
        run.repaired_at = run.iteration.steps
        try:
            while not run.is_done() and run.has_time():
                run.advance()
                run.check()
                if checkpoint is not None:
                    store(checkpoint, run.iteration, run.progress)
        finally:
            if polisher is not None:
                polisher.forget()
        progress = run.progress
        if progress.gap > context.gap and not run.is_repaired:
            run.repair()
        own = Incumbent(
            progress.lower_bound,
            run.raw_rows() if progress.Z is None else progress.Z,
            run.ended(),
            is_private=progress.Z is not None,
            unit_duals=None if stop.is_due else unit_duals(run.iteration),
            iterations=run.iteration.steps,
        )
        return incumbent.followed_by(own, component)


class Run:
    """One component's iteration, its bounds, and the schedule."""

    def __init__(
        self,
        component: Component,
        options: FirstOrderOptions,
        polisher: Polisher | None,
        context: Context,
        *,
        most_steps: float = math.inf,
    ) -> None:
        self.polisher, self.most_steps = polisher, most_steps
        self.component, self.options = component, options
        self.gap, self.trace, self.stop = gap, trace, stop = context.gap, context.trace, context.stop
        stretch = stretch_for(gap, options)
        begin = time.perf_counter()
        network = Network(component, first_edges(component.graph, stretch, is_over=lambda: stop.is_due))
        self.weight = options.weight or _weight(network.exponent)
        self.iteration = Iteration(network, self.weight)
        self.most_edges = int(most_edges(network.m, component.graph.n_pairs, options.max_iterations))
        self.progress = Progress(certified_bound(self.iteration))
        self.is_repaired = False
        self.repaired_at = 0
        self.bounds: list[tuple[int, float]] = []  # the lower bound after so many steps
        self.own_bound = self.progress.lower_bound
        self.own_loss = math.inf
        self.stalled_at, self.stalled_bound, self.stalled_loss = 0, 0.0, math.inf
        self._has_stopped = self._nothing_is_violated = False
        self._step_seconds, self._repair_seconds, self._new_steps = 0.0, 0.0, 0
        self._last_repair_seconds = 0.0
        self._forecast = Forecast()
        trace.add(
            stage="edges",
            component=component.number,
            pairs=component.graph.n_pairs,
            edges=network.m,
            weight=round(float(self.weight), 3),
            edge_seconds=round(time.perf_counter() - begin, 4),
        )

    def take(self, known: Incumbent) -> None:
        """Begin with the bound of another solver, its matrix repaired like our own."""
        self.progress.lower_bound = max(self.progress.lower_bound, known.lower_bound)
        if known.rows is not None:
            self.repair(known.rows)

    def ended(self) -> Ended:
        """Return why the iterations ended."""
        if self.progress.gap <= self.gap:
            return Ended.REACHED
        if self.is_stalled:
            return Ended.STALLED
        # a last repair may have shown that the steps were faster than predicted: they are used up all the same
        return Ended.USED_UP if self.has_time() else Ended.STOPPED

    def keep_pace(self) -> None:
        """Let nothing have been done more often than is due after so many steps, whatever a checkpoint says."""
        progress, steps = self.progress, self.iteration.steps
        progress.checks = min(progress.checks, _times(FIRST_CHECK, NEXT_CHECK, steps))
        progress.extensions = min(progress.extensions, _times(EXTEND_AFTER, EXTEND_AGAIN, steps))
        progress.polishes = min(progress.polishes, _times(POLISH_AFTER, POLISH_AGAIN, steps))

    def has_time(self) -> bool:
        """Return whether there is time for more than one last repair, if that takes as long as the one before."""
        return self.stop.seconds_left > LAST_REPAIR * self._last_repair_seconds

    def is_done(self) -> bool:
        """Return whether the gap is reached, or cannot be reached by further steps."""
        return self.progress.gap <= self.gap or self._is_used_up() or self.is_stalled

    def _is_used_up(self) -> bool:
        return self.iteration.steps >= self.options.max_iterations or self._is_too_slow()

    def _is_too_slow(self) -> bool:
        """Return whether the gap, which falls like one over the steps, would need more of them than are allowed.

        Steps that are used up and nearly there may go on for a while: what takes over would begin anew.
        """
        steps, most, is_known = self.iteration.steps, self.most_steps, self.progress.Z is not None
        foretold = steps * (self.progress.gap / self.gap - 1.0) if is_known and self.gap > 0.0 else 0.0
        if steps <= most:
            return foretold > most
        return not is_known or foretold > NEARLY_THERE * most or steps > 2.0 * most

    @property
    def is_stalled(self) -> bool:
        """Whether going on neither raises the bound nor lowers the loss."""
        return self._has_stopped and (self._nothing_is_violated or self.iteration.network.has_all_pairs)

    def advance(self) -> None:
        """Step until the next check."""
        begin = time.perf_counter()
        first = self.iteration.steps
        due = min(math.ceil(FIRST_CHECK * NEXT_CHECK**self.progress.checks), self.options.max_iterations)
        while self.iteration.steps < due and self.has_time():
            self.iteration.advance()
            if self._is_insurance_due():  # where steps are slow, the next check may come too late
                break
        if self.iteration.steps >= due:
            self.progress.checks += 1
        self.is_repaired = False
        self._step_seconds = time.perf_counter() - begin
        self._new_steps = self.iteration.steps - first

    def check(self) -> None:
        """Bound from below; repair and bring pairs in when that is due; report."""
        begin = time.perf_counter()
        self._repair_seconds = 0.0
        progress, steps = self.progress, self.iteration.steps
        if self._is_insurance_due():  # before anything else that takes time
            self.repair()
        self._raise(certified_bound(self.iteration))
        self.bounds.append((steps, progress.lower_bound))
        if self._is_polish_due():
            self.progress.polishes += 1
            proof = self.polisher.polish(unit_duals(self.iteration)) if self.polisher else None
            if self.polisher is not None and proof is not None:
                self._raise(self.polisher.bound(proof), proof.arrays())
        if self._is_repair_due():
            self.repair()
        if self._is_extension_due():
            self._extend()
        if steps >= 2 * max(self.stalled_at, EXTEND_AFTER) and self.repaired_at > self.stalled_at:
            gain = max(self.own_bound - self.stalled_bound, self.stalled_loss - self.own_loss)
            self._has_stopped = self.stalled_at > 0 and gain < STALLED * self.gap * progress.lower_bound
            self.stalled_at, self.stalled_bound, self.stalled_loss = steps, self.own_bound, self.own_loss
        self.trace.add(
            stage="first-order",
            component=self.component.number,
            iteration=steps,
            lower_bound=progress.lower_bound,
            upper_bound=progress.upper_bound,
            gap=progress.gap,
            edges=self.iteration.network.m,
            step_seconds=round(self._step_seconds, 4),
            bound_seconds=round(time.perf_counter() - begin - self._repair_seconds, 4),
            repair_seconds=round(self._repair_seconds, 4),
            seconds_left=self._seconds_left(),
        )

    def _raise(self, bound: float, proof: dict[str, NDArray[Any]] | None = None) -> None:
        """Take a bound of the iterations' own: whether they stall is not for another solver's bounds to say."""
        self.own_bound = max(self.own_bound, bound)
        if bound > self.progress.lower_bound:
            self.progress.lower_bound, self.progress.proof = bound, proof

    def _seconds_left(self) -> float | None:
        """Estimate how long it takes: the gap falls like one over the number of steps."""
        progress = self.progress
        if progress.Z is None or not self._new_steps:
            return None
        more = self.iteration.steps * max(progress.gap / max(self.gap, 1e-9) - 1.0, 0.0)
        return self._forecast.checked(more * self._step_seconds / self._new_steps, time.perf_counter())

    def _is_polish_due(self) -> bool:
        is_open = self.polisher is not None and self.progress.gap > self.gap
        return is_open and self.iteration.steps >= POLISH_AFTER * POLISH_AGAIN**self.progress.polishes

    def _is_repair_due(self) -> bool:
        """Weigh the cost of a repair against the steps since the last; do it sooner when it may end the run."""
        ratio = self.component.graph.n_pairs / max(self.iteration.network.m, 1)
        cost = REPAIR_PASSES * ratio
        since = self.iteration.steps - self.repaired_at
        if self.progress.Z is None:
            return cost <= since or (self.iteration.steps >= 2 * FIRST_CHECK and self._has_nearly_met())
        return cost <= REPAIR_SHARE * since or (self.progress.gap <= 1.5 * self.gap and cost <= since)

    def _is_insurance_due(self) -> bool:
        """Return whether so much time has passed without a private matrix that the first repair cannot wait."""
        stop = self.stop
        return self.progress.Z is None and stop.seconds_left < INSURED_AFTER * (stop.time_limit - stop.reserve)

    def _has_nearly_met(self) -> bool:
        """Return whether the remaining gain is less than the gap.

        The bound's error falls like one over the steps, so what the last doubling of them gained is what is left.
        """
        bound = self.progress.lower_bound
        before = max((value for steps, value in self.bounds if 2 * steps <= self.iteration.steps), default=0.0)
        if bound - before > NEARLY_MET * self.gap * bound:
            return False
        raw = self.component.loss(self.raw_rows())
        return raw - bound <= self.gap * raw

    def raw_rows(self) -> NDArray[np.float64]:
        """Return the iteration's rows, which are not private."""
        return np.maximum(self.iteration.network.untiled(self.iteration.Z), 0.0)

    def repair(self, rows: NDArray[np.float64] | None = None) -> None:
        """Make the rows private on all pairs, and keep them if they are the best; they are not if time is out."""
        begin = time.perf_counter()
        try:
            Z = private_matrix(
                self.raw_rows() if rows is None else rows,
                self.component.graph,
                self.component.epsilon,
                costs=self.component.costs,
                tolerance=REPAIR_TOLERANCE * self.gap,
                is_over=lambda: self.stop.is_due,
            )
        except StoppedError:
            return
        loss = self.component.loss(Z)
        if rows is None:
            self.own_loss = min(self.own_loss, loss)
        if loss < self.progress.upper_bound:
            self.progress.upper_bound, self.progress.Z = loss, Z
        self.is_repaired = True
        self.repaired_at = self.iteration.steps
        self._repair_seconds = self._last_repair_seconds = time.perf_counter() - begin

    def _is_extension_due(self) -> bool:
        due = EXTEND_AFTER * EXTEND_AGAIN**self.progress.extensions
        is_open = self.progress.gap > self.gap and not self.iteration.network.has_all_pairs
        return is_open and self.iteration.steps >= due

    def _extend(self) -> None:
        """Bring violated pairs in, as many as may come and as the memory has room for."""
        self.progress.extensions += 1
        network = self.iteration.network
        room = self.stop.room / (PER_EDGE + PER_MULTIPLIER * network.tiles * WIDTH)
        more = min(max(FEWEST_MORE, int(EXTEND_BY * network.m)), self.most_edges - network.m, room)
        found = most_violated(self.iteration, max(int(more), 0), VIOLATED)
        self._nothing_is_violated = len(found) == 0  # or there are as many edges as there may be
        if len(found):
            self.iteration.extend(found)


def _times(first: float, factor: float, steps: int) -> int:
    """Return how often something is due within ``steps``: after ``first``, and then after ``factor`` times as many."""
    return 0 if steps < first else 1 + int(math.log(steps / first, factor))


def _weight(exponent: NDArray[np.float64]) -> float:
    """Return the primal weight: rows move less where privacy is strong."""
    if len(exponent) == 0:
        return WEIGHTS[0]
    return float(np.clip(1.0 / np.median(exponent), *WEIGHTS))
