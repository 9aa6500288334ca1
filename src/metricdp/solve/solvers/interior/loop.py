"""An interior point method by outputs: few iterations whose cost is known beforehand, for small gaps at any privacy.

Outputs meet only in the unit sums, so that a Newton step needs one matrix with the graph's pattern per output, and one
dense matrix of the unit sums. Every iterate is strictly private up to rounding, and its multipliers give a valid lower
bound.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.linalg import LinAlgError
from threadpoolctl import threadpool_limits

from metricdp.errors import InputError, OutOfRoomError, StoppedError
from metricdp.mechanism.mechanism import relative_gap
from metricdp.mechanism.repair import private_matrix
from metricdp.solve.bounds import lower_bound
from metricdp.solve.contract import Ended, Incumbent, Solver, register
from metricdp.solve.solvers.interior.cost import (
    MAX_OPERATIONS,
    OPERATIONS_PER_SECOND,
    interior_bytes,
    least_operations,
    total_operations,
)
from metricdp.solve.solvers.interior.elimination import Elimination
from metricdp.solve.solvers.interior.newton import Point, System
from metricdp.solve.solvers.interior.options import InteriorOptions

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from numpy.typing import NDArray

    from metricdp.solve.component import Component
    from metricdp.solve.contract import Context, Load

NEGLIGIBLE_SHARE = 1e-8  # of the loss of reporting one place always: a tenth of what counts as optimal in the end
SHORT_STEP, SHORT_STEPS = 1e-3, 3  # the step length, and how many in a row, at which float precision is exhausted


@register
class Interior(Solver):
    """An interior point method by outputs, for small gaps at any privacy up to about a thousand records."""

    name: ClassVar[str] = "interior"
    options_type: ClassVar[type] = InteriorOptions
    limits: ClassVar[tuple[str, ...]] = ("max_iterations",)

    def bytes_beyond(self, load: Load) -> float:
        """Return the bytes of factors and vectors."""
        return interior_bytes(load.n, load.sizes.n_outputs, load.n_pairs, load.factor_entries)

    def run(self, component: Component, incumbent: Incumbent, context: Context) -> Incumbent:
        """Follow the central path until the certified gap is reached, or float precision is exhausted."""
        if not (np.ptp(component.costs, axis=1) > 0.0).any():  # every mechanism is optimal
            even = np.full(component.costs.shape, 1.0 / component.n_outputs)
            return Incumbent(incumbent.lower_bound, even, Ended.REACHED, is_private=True)
        elimination = _refuse_if_too_large(component, context.gap)
        _look_for_room(component, elimination, context)
        with threadpool_limits(1), ThreadPoolExecutor(context.workers.threads) as pool:
            return _Run(component, incumbent, context, elimination, pool).solve(self.options)


def _refuse_if_too_large(component: Component, gap: float) -> Elimination:
    """Return the order of elimination; raise InputError, with the cost, where the method would run for too long."""
    operations = least_operations(component.graph, component.n_outputs, gap)
    if operations <= MAX_OPERATIONS:
        elimination = Elimination.of(component.graph)
        operations = total_operations(component.graph, component.n_outputs, elimination, gap)
        if operations <= MAX_OPERATIONS:
            return elimination
    minutes = operations / OPERATIONS_PER_SECOND / 60.0
    raise InputError(
        f"the interior point method would take more than {minutes:,.0f} minutes for {component.n:,} records and "
        f"{component.n_outputs:,} outputs ({operations:.1e} operations): use the method 'first-order' or 'auto'"
    )


def _look_for_room(component: Component, elimination: Elimination, context: Context) -> None:
    needed = interior_bytes(component.n, component.n_outputs, component.graph.n_pairs, elimination.entries)
    if not context.stop.has_room(needed):
        raise OutOfRoomError(
            f"the factors of {component.n:,} records and {component.n_outputs:,} outputs would not fit: they need "
            f"{needed / 1e9:.2f} GB, and {context.stop.room / 1e9:.2f} are left"
        )


class _Run:
    """One component's point, its best proven bounds, and when to compute them."""

    def __init__(
        self,
        component: Component,
        incumbent: Incumbent,
        context: Context,
        elimination: Elimination,
        pool: Executor,
    ) -> None:
        self.component, self.context = component, context
        self.system = System(component, elimination, pool, context.stop.check)
        self.point = Point(self.system)
        self.least = float(component.costs.min(axis=1).sum())  # subtracted from the costs
        self.negligible = NEGLIGIBLE_SHARE * float(component.costs.sum(axis=0).min())
        self.known, self.bound = incumbent, incumbent.lower_bound
        self.rows = incumbent.rows if incumbent.is_private else None
        self.loss = incumbent.loss(component) if incumbent.is_private else math.inf
        self.best_multipliers, self.best_own_bound = self.point.Y, -math.inf

    def solve(self, options: InteriorOptions) -> Incumbent:
        """Iterate until the gap is proved, time is out, or float precision is exhausted."""
        iterations, short, ended = 0, 0, Ended.USED_UP
        while iterations < options.max_iterations:
            if self.context.stop.is_due:
                ended = Ended.STOPPED
                break
            try:
                length = self._advance(options.correctors)
            except StoppedError:  # in the middle: the point before it stands
                ended = Ended.STOPPED
                break
            iterations += 1
            short = short + 1 if length < SHORT_STEP else 0
            if length == 0.0 or short >= SHORT_STEPS:
                ended = Ended.STALLED
                break
            if self._is_closed(*self._bounds()):
                self._prove()
            self._report(iterations, length)
            if self._is_closed(self.bound, self.loss):
                ended = Ended.REACHED
                break
        if ended is not Ended.REACHED:
            self._prove()
            ended = Ended.REACHED if self._is_closed(self.bound, self.loss) else ended
        own = Incumbent(
            self.bound,
            self._current_rows() if self.rows is None else self.rows,
            ended,
            is_private=self.rows is not None,
            unit_duals=self._unit_duals(),
            iterations=iterations,
        )
        return self.known.followed_by(own, self.component)

    def _advance(self, correctors: int) -> float:
        """Do one iteration; 0 if the arithmetic breaks down, and the point stays as it was."""
        before = self.point.Z, self.point.W, self.point.Y, self.point.u
        try:
            with np.errstate(all="ignore"):
                length = self.point.advance(correctors)
            if not math.isfinite(self.point.loss + self.point.bound):
                raise LinAlgError  # noqa: TRY301
        except (LinAlgError, ValueError):  # a factor that does not exist, or NaN
            self.point.Z, self.point.W, self.point.Y, self.point.u = before
            self.point.measure()
            return 0.0
        if self.point.bound > self.best_own_bound:
            self.best_own_bound, self.best_multipliers = self.point.bound, self.point.Y
        return length

    def _bounds(self) -> tuple[float, float]:
        """Return the best bounds: those that are proved, or the point's own objectives, which are not."""
        scale = self.system.scale
        lower = max(self.bound, self.least + scale * self.best_own_bound)
        return lower, min(self.loss, self.least + scale * self.point.loss)

    def _is_closed(self, lower: float, upper: float) -> bool:
        """Return whether the gap is reached, or the difference is negligible: at weak privacy losses are, too."""
        return relative_gap(upper, lower) <= self.context.gap or upper - lower <= self.negligible

    def _current_rows(self) -> NDArray[np.float64]:
        rows = np.maximum(self.system.in_order(self.point.Z), 0.0)
        return rows / rows.sum(axis=1, keepdims=True)

    def _prove(self) -> None:
        """Raise the lower bound to what the multipliers prove, and keep the point's rows if they are the best.

        Strictly inside, they are private as they are; otherwise they are repaired while there is time.
        """
        component = self.component
        if self._bounds()[0] > self.bound:  # going over all multipliers takes its time
            duals = self.system.duals(self.best_multipliers)
            self.bound = max(self.bound, lower_bound(component.costs, duals, cost_roundings=component.cost_roundings))
        if self.rows is not None and self._bounds()[1] >= self.loss:
            return  # what was known before is better
        rows = self._current_rows()
        if not component.is_private(rows):
            try:
                rows = private_matrix(
                    rows,
                    component.graph,
                    component.epsilon,
                    costs=component.costs,
                    is_over=lambda: self.context.stop.is_due,
                )
            except StoppedError:
                return
        loss = component.loss(rows)
        if loss < self.loss:
            self.rows, self.loss = rows, loss

    def _unit_duals(self) -> NDArray[np.float64]:
        duals = np.empty(self.component.n)
        duals[self.system.elimination.order] = self.system.scale * self.point.u
        return duals + self.component.costs.min(axis=1)

    def _report(self, iteration: int, length: float) -> None:
        lower, upper = self._bounds()
        self.context.trace.add(
            stage="interior",
            component=self.component.number,
            iteration=iteration,
            lower_bound=lower,
            upper_bound=upper,
            gap=relative_gap(upper, lower),
            mean_product=self.point.mean,
            step=round(length, 4),
        )
