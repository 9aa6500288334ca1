"""Polishing the lower bound: the best multipliers for given unit-sum duals, output by output.

The iterations find good unit-sum duals long before good multipliers: there are n of the first and edges times outputs
of the second. At fixed unit-sum duals the outputs part, and the best multipliers of each come from the pricing problem
of column generation, a linear program with n variables.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from metricdp.errors import SolverError
from metricdp.solve.bounds import lower_bound
from metricdp.solve.solvers.columns.pricing import ConeDuals, PriceAnswer, cone_of, price_output, price_tasks
from metricdp.solve.warm import begin_run, end_run

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from metricdp.solve.component import Component
    from metricdp.solve.executor import Workers
    from metricdp.solve.stop import Stop


class Polisher:
    """The pricing problems of one component, kept warm from one polish to the next."""

    def __init__(self, component: Component, workers: Workers, stop: Stop) -> None:
        self.component, self.workers, self.stop = component, workers, stop
        self.name = uuid.uuid4().hex
        self.cone = cone_of(component)

    def polish(self, unit_duals: NDArray[np.float64]) -> ConeDuals | None:
        """Return multipliers for these unit-sum duals; None if it had to be broken off."""
        component = self.component
        begin_run(self.name, self.stop)
        tasks = price_tasks(self.name, component, self.cone, unit_duals, self.stop)
        try:
            answers: list[PriceAnswer] | None = self.workers.run(price_output, tasks, self.stop, PriceAnswer.of)
        except SolverError:  # the iterations have their own bound
            return None
        return None if answers is None else ConeDuals.of(answers)

    def bound(self, proof: ConeDuals) -> float:
        """Return the lower bound that multipliers prove."""
        component = self.component
        return lower_bound(component.costs, proof.rows_of(self.cone), cost_roundings=component.cost_roundings)

    def forget(self) -> None:
        """Drop the warm models."""
        end_run(self.name)
