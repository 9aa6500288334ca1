"""Pricing: the best new column for one output at given unit-sum duals.

For output k and duals y: minimise ``(c_k - y) . v`` over members v of the cone with entries at most 1, a linear program
with n variables and two per row, whose rows enter when they are violated. Its duals are multipliers of mDP rows of
output k; those of all outputs together give the rigorous lower bound of `bounds.py`, which is at least the classic
bound ``sum y + sum_k min(0, price_k)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.errors import StoppedError
from metricdp.solve import warm
from metricdp.solve.answers import array_of
from metricdp.solve.bounds import RowDuals
from metricdp.solve.lp import LinearProgram

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from metricdp.solve.components import Component
    from metricdp.solve.stop import Stop

LARGEST_EXPONENT = 20.7  # a row with a larger factor than 1e9 binds on nothing that the master could see
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Cone:
    """The rows of the cone: ``v[tail] <= exp(exponent) v[head]``, both directions of every pair."""

    n: int
    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    exponent: NDArray[np.float64]

    @cached_property
    def growth(self) -> NDArray[np.float64]:
        """The factors ``exp(exponent)``, one array for the problems of all outputs."""
        return np.exp(self.exponent)

    def duals(self, proof: ConeDuals) -> RowDuals:
        """Return the multipliers with the rows that they belong to."""
        rows = proof.rows
        return RowDuals(self.tail[rows], self.head[rows], proof.outputs, self.exponent[rows], proof.y)


@dataclass(frozen=True)
class ConeDuals:
    """Multipliers ``y`` of a cone's ``rows`` for ``outputs``: what proves a lower bound, by numbers of rows only."""

    rows: NDArray[np.int64]
    outputs: NDArray[np.int64]
    y: NDArray[np.float64]

    @classmethod
    def of(cls, answers: list[PriceAnswer]) -> ConeDuals:
        """Put the outputs' multipliers together."""
        return cls(
            np.concatenate([answer.rows for answer in answers]),
            np.concatenate([np.full(len(answer.rows), answer.output) for answer in answers]),
            np.concatenate([answer.y for answer in answers]),
        )

    @classmethod
    def read(cls, stored: Mapping[str, Any], cone: Cone, n_outputs: int) -> ConeDuals:
        """Check multipliers that were stored."""
        rows = array_of(stored, "rows", np.int64, (None,), low=0, high=len(cone.tail) - 1)
        return cls(
            rows,
            array_of(stored, "outputs", np.int64, rows.shape, low=0, high=n_outputs - 1),
            array_of(stored, "y", np.float64, rows.shape),
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what to store."""
        return {"rows": self.rows, "outputs": self.outputs, "y": self.y}


def cone_of(component: Component) -> Cone:
    """Give the rows of a component's cone, without those that bind on nothing."""
    i, j = component.graph.pairs.T.astype(np.int64)
    exponent = component.epsilon * np.tile(component.graph.distances, 2)
    needed = exponent < LARGEST_EXPONENT
    return Cone(component.n, np.concatenate((i, j))[needed], np.concatenate((j, i))[needed], exponent[needed])


@dataclass(frozen=True)
class PriceTask:
    """One output's pricing problem, with all that is needed to build it anywhere.

    ``run`` and the output name its model: a worker that has seen it before goes on with its warm model. ``seconds`` are
    those left until the run's deadline.
    """

    run: str
    output: int
    cone: Cone
    objective: NDArray[np.float64]  # (c_k - y) / scale
    scale: float
    seconds: float


def price_tasks(
    run: str, component: Component, cone: Cone, unit_duals: NDArray[np.float64], stop: Stop
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
        """Check what `price_output` answered, maybe elsewhere; the reduced cost is computed here."""
        column = array_of(answer, "column", np.float64, (task.cone.n,), low=0.0, high=1.0)
        rows = array_of(answer, "rows", np.int64, (None,), low=0, high=len(task.cone.tail) - 1)
        y = array_of(answer, "y", np.float64, rows.shape)
        return cls(task.output, column, float(task.objective @ column) * task.scale, rows, y)


class PriceModel:
    """The warm LP of one output."""

    def __init__(self, task: PriceTask) -> None:
        cone = task.cone
        self.program = LinearProgram(task.objective, np.zeros(cone.n), np.ones(cone.n), tolerance=TOLERANCE)
        self.present = np.zeros(len(cone.tail), dtype=bool)
        self.rows: list[NDArray[np.int64]] = []

    def solve(self, task: PriceTask, stop: Stop) -> dict[str, Any]:
        """Price at the task's objective; the answer is made of arrays only."""
        cone = task.cone
        self.program.set_costs(task.objective)
        while True:
            solution = self.program.solve(stop=stop)
            if not solution.is_optimal:
                raise StoppedError(f"the price of output {task.output} was broken off")
            v = np.clip(solution.x, 0.0, 1.0)
            violated = np.flatnonzero(~self.present & (v[cone.tail] - cone.growth * v[cone.head] > TOLERANCE))
            if len(violated) == 0:
                break
            self.program.look_for_room(stop, len(violated))
            self._add(cone, violated)
        rows = np.concatenate(self.rows) if self.rows else np.zeros(0, dtype=np.int64)
        y = np.maximum(-solution.row_dual, 0.0) * task.scale
        used = np.flatnonzero(y) if len(y) == len(rows) else np.zeros(0, dtype=np.int64)
        return {"column": v, "rows": rows[used], "y": y[used]}

    def _add(self, cone: Cone, rows: NDArray[np.int64]) -> None:
        m = len(rows)
        columns = np.column_stack((cone.tail[rows], cone.head[rows])).ravel().astype(np.int32)
        values = np.column_stack((np.ones(m), -cone.growth[rows])).ravel()
        starts = np.arange(0, 2 * m, 2, dtype=np.int32)
        self.program.add_rows(np.full(m, -np.inf), np.zeros(m), starts, columns, values)
        self.present[rows] = True
        self.rows.append(rows)


def price_output(task: PriceTask) -> dict[str, Any]:
    """Price one output, on its warm model if this process has one; `PriceAnswer.of` reads the answer."""
    stop = warm.stop_of(task.run, task.seconds)
    stop.check()
    model: PriceModel = warm.take(task.run, task.output) or PriceModel(task)
    answer = model.solve(task, stop)
    warm.keep(task.run, task.output, model)
    return answer
