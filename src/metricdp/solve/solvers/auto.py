"""`auto`, provisional."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from metricdp.solve.contract import Incumbent, Solver, register
from metricdp.solve.solvers.firstorder import FirstOrder
from metricdp.solve.solvers.interior import Interior

if TYPE_CHECKING:
    from metricdp.solve.component import Component
    from metricdp.solve.contract import Context


@register
class Auto(Solver):
    """Chooses."""

    name: ClassVar[str] = "auto"

    def takes_all_at_once(self, component: Component) -> bool:
        return FirstOrder().takes_all_at_once(component)

    def run(self, component: Component, incumbent: Incumbent, context: Context) -> Incumbent:
        if component.n <= 500:
            return Interior().run(component, incumbent, context)
        return FirstOrder().run(component, incumbent, context)
