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
from metricdp.solve.columns.pricing import ConeDuals, PriceAnswer, PriceTask, cone_of, forget_run, price_output

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.components import Component
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
        objective = (component.costs - unit_duals[:, None]) / component.scale
        tasks = [
            PriceTask(f"{self.name}/{k}", k, self.cone, np.ascontiguousarray(objective[:, k]), component.scale)
            for k in range(component.n_outputs)
        ]
        try:
            answers: list[PriceAnswer] | None = self.workers.run(price_output, tasks, self.stop, PriceAnswer.of)
        except SolverError:  # the iterations have their own bound
            return None
        return None if answers is None else ConeDuals.of(answers)

    def bound(self, proof: ConeDuals) -> float:
        """Return the lower bound that multipliers prove."""
        component = self.component
        return lower_bound(component.costs, self.cone.duals(proof), cost_roundings=component.cost_roundings)

    def forget(self) -> None:
        """Drop the warm models."""
        forget_run(self.name)
