"""`auto`: the engine whose cost is known is the measure for the one whose cost is not.

The interior point method costs what the sizes say: some forty iterations, each a count of operations. Where that is
little, it is taken outright, and a linear program with lazy rows after it if rounding ends it too soon. Elsewhere
first-order steps begin, since a rough gap takes few of them and they need no factors. They hand over to the interior
point as soon as they have cost as much as it would, or their own rate predicts that they will, so that both together
take at most about twice the time of the better one. All costs are counts of operations, so that a problem takes the
same way on any machine.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from metricdp.errors import OutOfRoomError
from metricdp.solve.contract import Ended, Incumbent, Solver, register
from metricdp.solve.solvers.direct import Direct
from metricdp.solve.solvers.firstorder import FirstOrder
from metricdp.solve.solvers.interior import Interior
from metricdp.solve.solvers.interior.cost import interior_operations

if TYPE_CHECKING:
    from metricdp.solve.component import Component
    from metricdp.solve.contract import Context, Load

OUTRIGHT = 5e9  # operations of the interior point that nobody minds: about half a second of one core
STEP_OPERATIONS = 12.0  # of a first-order step for each pair and output, in operations of the interior point: measured


@register
class Auto(Solver):
    """The interior point where it is cheap, first-order steps elsewhere, the interior point after them if it pays."""

    name: ClassVar[str] = "auto"

    def bytes_beyond(self, load: Load) -> float:
        """Return the bytes of first-order steps: the interior point looks for room before it begins."""
        return FirstOrder().bytes_beyond(load)

    def takes_all_at_once(self, component: Component) -> bool:
        """Say whether the problem is too large to be taken apart."""
        return FirstOrder().takes_all_at_once(component)

    def run(self, component: Component, incumbent: Incumbent, context: Context) -> Incumbent:
        """Choose, solve, and say why."""
        context.stop.check()
        cost = interior_operations(component)

        def say(method: str, reason: str) -> None:
            context.trace.add(
                stage="choice", component=component.number, records=component.n, method=method, reason=reason
            )

        if cost <= OUTRIGHT:
            say("interior", f"{cost:.1e} operations are few")
            found = Interior().run(component, incumbent, context)
            if found.ended is Ended.REACHED or context.stop.is_due:
                return found
            # at vanishing budgets and gaps floats leave the interior point no room: a vertex needs none
            say("direct", f"the interior point ended at a gap of {found.gap(component):.2g}")
            return Direct().run(component, found, context)
        steps = FirstOrder()
        steps.most_steps = cost / (STEP_OPERATIONS * component.graph.n_pairs * component.n_outputs)
        size = f"{component.n:,} x {component.n_outputs:,}, {component.graph.n_pairs:,} pairs"
        say("first-order", f"{size}: the interior point would cost {cost:.1e} operations")
        found = steps.run(component, incumbent, context)
        if found.ended is Ended.REACHED or context.stop.is_due or math.isinf(cost):
            return found
        say("interior", f"steps are slow: gap {found.gap(component):.2g} after {found.iterations}")
        try:
            return Interior().run(component, found, context)
        except OutOfRoomError:
            say("first-order", "the factors of the interior point do not fit into the memory")
            return FirstOrder().run(component, found, context)
