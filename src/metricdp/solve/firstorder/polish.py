"""Polishing the lower bound: the best multipliers for given unit-sum duals, output by output.

The iterations find good unit-sum duals long before good multipliers: there are n of the first and edges times outputs
of the second. At fixed unit-sum duals the outputs part, and the best multipliers of each come from the pricing problem
of column generation, a linear program with n variables.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import SolverError
from metricdp.solve.bounds import lower_bound
from metricdp.solve.columns.pricing import PriceTask, cone_of, forget_run, price_output
from metricdp.solve.duals import joined

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.columns.pricing import PriceAnswer
    from metricdp.solve.components import Component
    from metricdp.solve.executor import Workers
    from metricdp.solve.stop import Stop


class Polisher:
    """The pricing problems of one component, kept warm from one polish to the next."""

    def __init__(self, component: Component, workers: Workers, stop: Stop) -> None:
        self.component, self.workers, self.stop = component, workers, stop
        self.name = uuid.uuid4().hex
        self.cone = cone_of(component)

    def bound(self, unit_duals: NDArray[np.float64]) -> float:
        """Give the lower bound at these unit-sum duals; 0 if it had to be broken off."""
        component = self.component
        objective = (component.costs - unit_duals[:, None]) / component.scale
        tasks = [
            PriceTask(f"{self.name}/{k}", k, self.cone, np.ascontiguousarray(objective[:, k]), component.scale)
            for k in range(component.n_outputs)
        ]
        try:
            answers: list[PriceAnswer] | None = self.workers.run(price_output, tasks, self.stop)
        except SolverError:  # the iterations have their own bound
            return 0.0
        if answers is None:
            return 0.0
        duals = joined([answer.duals for answer in answers])
        return lower_bound(component.costs, duals, cost_roundings=component.cost_roundings)

    def forget(self) -> None:
        """Drop the warm models."""
        forget_run(self.name)
