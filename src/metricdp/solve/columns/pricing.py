"""Pricing: the best new column for one output at given unit-sum duals.

For output k and duals y: minimise ``(c_k - y) . v`` over members v of the cone with entries at most 1, a linear program
with n variables and two per row, whose rows enter when they are violated. Its duals are multipliers of mDP rows of
output k; those of all outputs together give the rigorous lower bound of `bounds.py`, which is at least the classic
bound ``sum y + sum_k min(0, price_k)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.solve.bounds import RowDuals
from metricdp.solve.lp import LinearProgram

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.components import Component

LARGEST_EXPONENT = 20.7  # a row with a larger factor than 1e9 binds on nothing that the master could see
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Cone:
    """The rows of the cone: ``v[tail] <= exp(exponent) v[head]``, both directions of every pair."""

    n: int
    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    exponent: NDArray[np.float64]


def cone_of(component: Component) -> Cone:
    """Give the rows of a component's cone, without those that bind on nothing."""
    i, j = component.graph.pairs.T.astype(np.int64)
    exponent = component.epsilon * np.tile(component.graph.distances, 2)
    needed = exponent < LARGEST_EXPONENT
    return Cone(component.n, np.concatenate((i, j))[needed], np.concatenate((j, i))[needed], exponent[needed])


@dataclass(frozen=True)
class PriceTask:
    """One output's pricing problem, with all that is needed to build it anywhere.

    ``key`` names the run and the output: a worker that has seen it before goes on with its warm model.
    """

    key: str
    output: int
    cone: Cone
    objective: NDArray[np.float64]  # (c_k - y) / scale
    scale: float


@dataclass(frozen=True)
class PriceAnswer:
    """The column, its reduced cost (not above 0), and the multipliers of its rows."""

    output: int
    column: NDArray[np.float64]
    price: float
    duals: RowDuals


class PriceModel:
    """The warm LP of one output."""

    def __init__(self, task: PriceTask) -> None:
        cone = task.cone
        self.program = LinearProgram(task.objective, np.zeros(cone.n), np.ones(cone.n), tolerance=TOLERANCE)
        self.growth = np.exp(cone.exponent)
        self.present = np.zeros(len(cone.tail), dtype=bool)
        self.rows: list[NDArray[np.int64]] = []

    def solve(self, task: PriceTask) -> PriceAnswer:
        """Price at the task's objective."""
        cone = task.cone
        self.program.set_costs(task.objective)
        while True:
            solution = self.program.solve()
            v = np.clip(solution.x, 0.0, 1.0)
            violated = np.flatnonzero(~self.present & (v[cone.tail] - self.growth * v[cone.head] > TOLERANCE))
            if len(violated) == 0:
                break
            self._add(cone, violated)
        rows = np.concatenate(self.rows) if self.rows else np.zeros(0, dtype=np.int64)
        y = np.maximum(-solution.row_dual, 0.0) * task.scale
        used = rows[np.flatnonzero(y)] if len(y) == len(rows) else rows[:0]
        duals = RowDuals(
            cone.tail[used],
            cone.head[used],
            np.full(len(used), task.output),
            cone.exponent[used],
            y[np.flatnonzero(y)][: len(used)],
        )
        return PriceAnswer(task.output, v, float(task.objective @ v) * task.scale, duals)

    def _add(self, cone: Cone, rows: NDArray[np.int64]) -> None:
        m = len(rows)
        columns = np.column_stack((cone.tail[rows], cone.head[rows])).ravel().astype(np.int32)
        values = np.column_stack((np.ones(m), -self.growth[rows])).ravel()
        starts = np.arange(0, 2 * m, 2, dtype=np.int32)
        self.program.add_rows(np.full(m, -np.inf), np.zeros(m), starts, columns, values)
        self.present[rows] = True
        self.rows.append(rows)


_models: dict[str, PriceModel] = {}


def price_output(task: PriceTask) -> PriceAnswer:
    """Price one output, on its warm model if this process has one."""
    model = _models.get(task.key)
    if model is None:
        model = _models[task.key] = PriceModel(task)
    return model.solve(task)


def forget_run(run: str) -> None:
    """Drop the warm models of a run that has ended."""
    for key in [key for key in _models if key.startswith(f"{run}/")]:
        del _models[key]
