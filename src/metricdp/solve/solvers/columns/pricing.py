"""Pricing: the best new column for one output at given unit-sum duals.

For output k and duals y: minimise ``(c_k - y) . v`` over members v of the cone with entries at most 1, a linear program
with n variables and two per row, whose rows are added when they are violated. Its duals are multipliers of mDP rows of
output k; those of all outputs together give the rigorous lower bound of `bounds.py`, which is at least the classic
bound ``sum y + sum_k min(0, price_k)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.errors import StoppedError
from metricdp.solve import warm
from metricdp.solve.answers import array_of
from metricdp.solve.bounds import RowDuals
from metricdp.solve.lazy_rows import DirectedPairs, LazyRows
from metricdp.solve.lp import LinearProgram

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from metricdp.solve.component import Component
    from metricdp.solve.stop import Stop

LARGEST_GROWTH = 1e9  # a row with a larger factor binds only on entries below the master's resolution
LP_TOLERANCE = 1e-9  # of the LP solver, absolute


@dataclass(frozen=True)
class ConeDuals:
    """Multipliers ``y`` of a cone's ``rows`` for ``outputs``: what proves a lower bound, by numbers of rows only."""

    rows: NDArray[np.int64]
    outputs: NDArray[np.int64]
    y: NDArray[np.float64]

    @classmethod
    def of(cls, answers: list[PriceAnswer]) -> ConeDuals:
        """Combine the outputs' multipliers."""
        return cls(
            np.concatenate([answer.rows for answer in answers]),
            np.concatenate([np.full(len(answer.rows), answer.output) for answer in answers]),
            np.concatenate([answer.y for answer in answers]),
        )

    @classmethod
    def read(cls, stored: Mapping[str, Any], cone: DirectedPairs, n_outputs: int) -> ConeDuals:
        """Return stored multipliers after checking them."""
        rows = array_of(stored, "rows", np.int64, (None,), low=0, high=len(cone) - 1)
        return cls(
            rows,
            array_of(stored, "outputs", np.int64, rows.shape, low=0, high=n_outputs - 1),
            array_of(stored, "y", np.float64, rows.shape),
        )

    def rows_of(self, cone: DirectedPairs) -> RowDuals:
        """Return the multipliers with the rows that they belong to."""
        rows = self.rows
        return RowDuals(cone.tail[rows], cone.head[rows], self.outputs, cone.exponent[rows], self.y)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to store."""
        return {"rows": self.rows, "outputs": self.outputs, "y": self.y}


def cone_of(component: Component) -> DirectedPairs:
    """Return the rows of a component's cone, without those that cannot bind."""
    return DirectedPairs.of(component.graph, component.epsilon, largest=LARGEST_GROWTH)


@dataclass(frozen=True)
class PriceTask:
    """One output's pricing problem, with all that is needed to build it anywhere.

    ``run`` and the output name its model: a worker that has seen it before goes on with its warm model. ``seconds`` are
    those left until the run's deadline.
    """

    run: str
    output: int
    cone: DirectedPairs
    objective: NDArray[np.float64]  # (c_k - y) / scale
    scale: float
    seconds: float


def price_tasks(
    run: str, component: Component, cone: DirectedPairs, unit_duals: NDArray[np.float64], stop: Stop
) -> list[PriceTask]:
    """Return the pricing problems of all outputs at given unit-sum duals."""
    objective = (component.costs - unit_duals[:, None]) / component.scale
    seconds = stop.seconds_left
    return [
        PriceTask(run, k, cone, np.ascontiguousarray(objective[:, k]), component.scale, seconds)
        for k in range(component.n_outputs)
    ]


@dataclass(frozen=True)
class PriceAnswer:
    """The column, its reduced cost (not above 0), and the multipliers of the cone's rows."""

    output: int
    column: NDArray[np.float64]
    price: float
    rows: NDArray[np.int64]
    y: NDArray[np.float64]

    @classmethod
    def of(cls, task: PriceTask, answer: dict[str, Any]) -> PriceAnswer:
        """Check an answer of `price_output`, which is not trusted; the reduced cost is computed here."""
        column = array_of(answer, "column", np.float64, task.objective.shape, low=0.0, high=1.0)
        rows = array_of(answer, "rows", np.int64, (None,), low=0, high=len(task.cone) - 1)
        y = array_of(answer, "y", np.float64, rows.shape)
        return cls(task.output, column, float(task.objective @ column) * task.scale, rows, y)


class PriceModel:
    """The warm LP of one output."""

    def __init__(self, task: PriceTask) -> None:
        n = len(task.objective)
        self.program = LinearProgram(task.objective, np.zeros(n), np.ones(n), tolerance=LP_TOLERANCE)
        self.rows = LazyRows(self.program, task.cone, np.arange(n)[:, None], LP_TOLERANCE)

    def solve(self, task: PriceTask, stop: Stop) -> dict[str, Any]:
        """Price at the task's objective; the answer is made of arrays only."""
        self.program.set_costs(task.objective)
        found = self.rows.solve(stop)
        if not found.is_optimal:
            raise StoppedError(f"the pricing of output {task.output} was interrupted")
        rows, _, y = self.rows.multipliers(found.solution.row_dual, task.scale)
        return {"column": np.minimum(found.Z[:, 0], 1.0), "rows": rows, "y": y}


def price_output(task: PriceTask) -> dict[str, Any]:
    """Price one output, on its warm model if this process has one; `PriceAnswer.of` reads the answer."""
    stop = warm.stop_of(task.run, task.seconds)
    stop.check()
    model: PriceModel = warm.take(task.run, task.output) or PriceModel(task)
    answer = model.solve(task, stop)
    warm.keep(task.run, task.output, model)
    return answer
