"""`auto`: first-order steps run until they cost as much as the interior point method, whose cost is known in advance.

The cost of the interior point method follows from the sizes: nine iterations for each digit of the gap, each a count
of operations. If it is cheap, it is used at once, followed by a linear program if rounding ends it too soon. Otherwise
first-order steps begin, since a rough gap takes few of them and they need no factors. The interior point takes over as
soon as they have cost as much as it would, or their rate predicts that they will. So both together take at most about
twice the time of the better one. All costs are counts, so the choice for a problem is the same on any machine.

Where at least half as many outputs as records are possible, and the interior point is not cheap, steps on windows
around each output (``local``) take the place of first-order steps: they are weighted, and need less than half as many.
They are taken if they cost less than the interior point would, with more steps where priors are uneven. If they have
not reached the gap after as much work as steps on whole matrices are counted to take, these take over.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from metricdp.errors import OutOfRoomError
from metricdp.metric.distances import CoordinateMetric
from metricdp.metric.given import StreetMetric
from metricdp.metric.mahalanobis import MahalanobisMetric
from metricdp.metric.thin import sampled_edges
from metricdp.problem.memory_model import BYTES_PER_ENTRY, GIGABYTE, PROGRAM_BYTES, Sizes
from metricdp.solve.contract import Alternative, Ended, Incumbent, Load, Solver, register
from metricdp.solve.forecast import in_words
from metricdp.solve.solvers.direct import Direct
from metricdp.solve.solvers.firstorder import FirstOrder, FirstOrderOptions, stretch_for
from metricdp.solve.solvers.firstorder.room import polish_bytes
from metricdp.solve.solvers.interior import Interior
from metricdp.solve.solvers.interior.cost import (
    OPERATIONS_PER_SECOND,
    bytes_of_all,
    interior_operations,
    operations_of_all,
)
from metricdp.solve.solvers.local import Local
from metricdp.solve.solvers.local.counts import COSTS_LESS, expected_steps, what_is_held

if TYPE_CHECKING:
    from collections.abc import Callable

    from metricdp.problem.problem import Problem
    from metricdp.solve.component import Component
    from metricdp.solve.contract import Context, Method

WITH_WINDOWS = (CoordinateMetric, MahalanobisMetric, StreetMetric)  # metrics by which some outputs are near
CHEAP_OPERATIONS = 6e9  # of the interior point, up to which it is used at once: about half a second of one core
MOST_RECORDS_PER_OUTPUT = 2.0  # up to which most records have an output near them, as windows need
PATIENCE = 3.0  # times the usual steps on windows, at least: dense places took up to 2.4 times as many
DENSE_STEPS = 2.0  # times as many as on windows: they are not weighted
STEP_OPERATIONS = 25.0  # per pair and output of a first-order step, with its share of bounds and polishing: measured


@register
class Auto(Solver):
    """The interior point where it is cheap, first-order steps elsewhere, the interior point after them if it pays.

    With about as many outputs as records, steps are taken on windows around the outputs (``local``) where that costs
    less; if these crawl, the above takes over. docs/scaling.md lists the constants that decide.
    """

    name: ClassVar[str] = "auto"
    held: str = ""  # what windows would hold, if that is nearly everything

    def chosen_for(self, problem: Problem, gap: float) -> Method:
        """Return the method on windows if these are small; otherwise this one, which chooses for each component."""
        n, K = problem.n_records, problem.n_outputs
        if n > MOST_RECORDS_PER_OUTPUT * K or not isinstance(problem.metric, WITH_WINDOWS):
            return self
        if problem.epsilons is not None:  # rows of strict records reach farther than windows on the map
            return self
        cost = operations_of_all(problem.graph, K, gap)
        if cost <= CHEAP_OPERATIONS:
            return self
        counts = Local().counts(problem, gap)
        self.held = what_is_held(counts, n, K) if counts.is_full else ""
        on_windows = STEP_OPERATIONS * counts.multipliers * counts.steps
        if on_windows > cost:
            return self
        windows = Local()
        windows.reason = f"that is {on_windows:.1e} operations, and the interior point would cost {cost:.1e}"
        # where records have no output near them steps on windows may crawl: whole matrices take over after as much
        edges = sampled_edges(problem.graph, stretch_for(gap, FirstOrderOptions()))
        dense = min(DENSE_STEPS * expected_steps(gap) * STEP_OPERATIONS * edges * K, cost)
        as_much = dense / (STEP_OPERATIONS * counts.multipliers)
        windows.alternative = Alternative(self, math.ceil(max(PATIENCE * counts.steps, as_much)))
        return windows

    def bytes_beyond(self, load: Load) -> float:
        """Return the bytes of first-order steps: the interior point checks its memory before it begins."""
        return FirstOrder().bytes_beyond(load)

    def takes_all_at_once(self, component: Component) -> bool:
        """Return whether the problem is too large to be divided into components."""
        return FirstOrder().takes_all_at_once(component)

    def run(self, component: Component, incumbent: Incumbent, context: Context) -> Incumbent:
        """Choose a method, record the reason, and solve."""
        context.stop.check()
        cost = interior_operations(component.graph, component.n_outputs, context.gap)

        def say(method: str, reason: str) -> None:
            context.trace.add(
                stage="choice", component=component.number, records=component.n, method=method, reason=reason
            )

        if cost <= CHEAP_OPERATIONS:
            say("interior", f"the interior point is cheap: {cost:.1e} operations")
            try:
                found = _run(Interior(), component, incumbent, context)
            except OutOfRoomError:
                return self._without_factors(component, incumbent, context, say)
            if found.ended is Ended.REACHED or context.stop.is_due:
                return found
            # at vanishing budgets and gaps floats leave the interior point no room: a vertex needs none
            say("direct", f"the interior point ended at a gap of {found.gap(component):.2g}")
            return _run(Direct(), component, found, context)
        steps = FirstOrder()
        if cost / OPERATIONS_PER_SECOND < context.stop.seconds_left:  # otherwise there is no time to switch
            steps.most_steps = cost / (STEP_OPERATIONS * component.graph.n_pairs * component.n_outputs)
        size = f"{component.n:,} x {component.n_outputs:,}, {component.graph.n_pairs:,} pairs"
        foretold = _predicted(component, context.gap, cost)
        if self.held:
            foretold = f"{self.held}: {foretold}; {COSTS_LESS}"
        say("first-order", f"{size}: the interior point would cost {cost:.1e} operations; {foretold}")
        found = _run(steps, component, incumbent, context)
        if found.ended in (Ended.REACHED, Ended.STOPPED) or context.stop.is_due or math.isinf(cost):
            return found
        say("interior", f"steps are slow: gap {found.gap(component):.2g} after {found.iterations}")
        try:
            return _run(Interior(), component, found, context)
        except OutOfRoomError:
            return self._without_factors(component, found, context, say)

    @staticmethod
    def _without_factors(
        component: Component, known: Incumbent, context: Context, say: Callable[[str, str], None]
    ) -> Incumbent:
        say("first-order", "the factors of the interior point do not fit into memory")
        return _run(FirstOrder(), component, known, context)


def _run(solver: Solver, component: Component, known: Incumbent, context: Context) -> Incumbent:
    """Run a solver, and add its name to those that ran before it."""
    found = solver.run(component, known, context)
    return replace(found, solvers=tuple(dict.fromkeys((*known.solvers, solver.name))))


def _predicted(component: Component, gap: float, cost: float) -> str:
    """Return what steps on whole matrices will take, or steps and the interior point together."""
    graph, K = component.graph, component.n_outputs
    operations = min(DENSE_STEPS * expected_steps(gap) * STEP_OPERATIONS * graph.n_pairs * K, 2.0 * cost)
    load = Load(Sizes(component.n, K, graph.n_pairs), component.n, graph.n_pairs, edges=graph.n_pairs)
    polished = FirstOrder().bytes_beyond(load) + polish_bytes(graph.n_pairs, K, FirstOrderOptions().polish_up_to)
    factors = bytes_of_all(graph, K) if math.isfinite(cost) else 0.0
    n_bytes = PROGRAM_BYTES + BYTES_PER_ENTRY * load.sizes.entries + max(polished, factors)
    return (
        f"a gap of {100 * gap:.2g} % takes at most about {in_words(operations / OPERATIONS_PER_SECOND)} of one "
        f"core and {n_bytes / GIGABYTE:.1f} GB"
    )
