"""The interior point of one component, and Newton steps towards the optimum.

Rows are scaled ``a z_i - b z_j + w = 0`` with b = 1 / sqrt(1 + exp(-2 s)) and a = exp(-s) b, s = epsilon d, both
directions of every pair; w >= 0 are slacks and y >= 0 multipliers, and on the central path all products w y are equal.
Eliminating w and y leaves one matrix per output, ``H_k = G' diag(y_k / w_k) G``, and one of the unit sums,
``S = sum_k H_k^-1``. Probabilities need no rows of their own: z >= 0 follows from both directions of any pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from metricdp.solve.bounds import RowDuals
from metricdp.solve.solvers.interior.factors import Factors, Pattern

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from numpy.typing import NDArray

    from metricdp.solve.component import Component
    from metricdp.solve.solvers.interior.elimination import Elimination

LEAST_SLACK = 1e-4  # of a uniform probability: slacks of the first point
BORDER_SHARE = 0.995  # of the way to the border that a step goes
AIM_FACTOR, AIM_INCREMENT = 1.5, 0.1  # correctors aim at a step length of factor times the present one plus increment
PRODUCT_SPREAD = 10.0  # products w y within this factor of their mean need no correction
LEAST_CORRECTOR_GAIN = 0.02  # in the sum of both step lengths: a corrector that gains less is the last one
UNIT_SUM_ERROR = 1e-10  # of unit sums after a solve: above, it is refined once


class Step(NamedTuple):
    """A direction for rows, slacks, multipliers and unit-sum duals."""

    Z: NDArray[np.float64]
    W: NDArray[np.float64]
    Y: NDArray[np.float64]
    u: NDArray[np.float64]


@dataclass
class System:
    """One component's rows in the elimination order, and its costs in units of the largest."""

    component: Component
    elimination: Elimination
    pool: Executor
    check: Callable[[], None] = lambda: None  # called now and then; may raise an error to break off

    def __post_init__(self) -> None:
        graph, n = self.component.graph, self.component.n
        order = self.elimination.order
        place = np.empty(n, dtype=np.int64)
        place[order] = np.arange(n)
        i, j = place[graph.pairs[:, 0]], place[graph.pairs[:, 1]]
        self.pattern = Pattern(self.elimination, i, j, self.component.n_outputs)
        s = self.component.epsilon * graph.distances
        size = np.sqrt(1.0 + np.exp(-2.0 * s))
        a, b = np.exp(-s) / size, 1.0 / size
        self.m = len(s)
        self.tail, self.head = np.concatenate((i, j)), np.concatenate((j, i))
        self.exponent = np.tile(s, 2)
        self.slope = np.tile(b, 2)
        rows = np.tile(np.arange(2 * self.m), 2)
        values = np.concatenate((a, a, -b, -b))
        self.G = csr_array((values, (rows, np.concatenate((self.tail, self.head)))), shape=(2 * self.m, n))
        self.GT = csr_array(self.G.T)
        self.squares = self.GT.copy()
        self.squares.data **= 2
        self.mixed = (a * b)[:, None]
        costs = self.component.costs[order]
        # subtracting a constant from each row does not change the optimal matrix
        costs = costs - costs.min(axis=1, keepdims=True)
        self.scale = float(costs.max()) or 1.0
        self.C = costs / self.scale

    def factors(self, weights: NDArray[np.float64]) -> Factors:
        """Factorise at the weights y / w."""
        off = -self.mixed * (weights[: self.m] + weights[self.m :])
        diagonal = self.squares @ weights
        matrices = (np.ascontiguousarray(diagonal.T), np.ascontiguousarray(off.T))
        return Factors(self.pattern, *matrices, self.pool, self.check)

    def in_order(self, Z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return rows of the elimination order in the component's own."""
        rows = np.empty_like(Z)
        rows[self.elimination.order] = Z
        return rows

    def duals(self, Y: NDArray[np.float64]) -> RowDuals:
        """Return multipliers of rows ``z_tail <= exp(s) z_head`` of the true costs."""
        edge, output = np.nonzero(Y > 0.0)
        order = self.elimination.order
        # a z_i - b z_j <= 0 is a times z_i - exp(s) z_j <= 0
        y = Y[edge, output] * (self.slope[edge] * np.exp(-self.exponent[edge])) * self.scale
        return RowDuals(order[self.tail[edge]], order[self.head[edge]], output, self.exponent[edge], y)


class Point:
    """Rows Z, slacks W, multipliers Y and unit-sum duals u, all inside."""

    def __init__(self, system: System) -> None:
        self.system = system
        n, K = system.C.shape
        self.Z = np.full((n, K), 1.0 / K)
        self.W = np.maximum(-(system.G @ self.Z), LEAST_SLACK / K)
        typical = max(float(system.C.mean()), np.finfo(float).tiny)
        self.Y = typical / K * n / (4.0 * system.m) / self.W
        self.u = (system.C + system.GT @ self.Y).mean(axis=1)
        self.measure()

    def measure(self) -> None:
        """Compute the residuals of rows and unit sums, the mean product w y, and both objectives."""
        system = self.system
        self.missed_rows = -(system.G @ self.Z) - self.W
        reduced = system.C + system.GT @ self.Y
        self.missed_costs = reduced - self.u[:, None]
        self.missed_sums = 1.0 - self.Z.sum(axis=1)
        self.mean = float(np.vdot(self.W, self.Y)) / self.W.size
        self.loss = float(np.vdot(system.C, self.Z))
        self.bound = float(reduced.min(axis=1).sum())

    def advance(self, correctors: int) -> float:
        """Do one iteration: predictor, corrector, Gondzio's correctors; return the shorter of both step lengths."""
        newton = _Newton(self)
        products = self.W * self.Y
        step = newton.solve(-products)
        primal, dual = newton.longest(step)
        ahead = float(np.vdot(self.W + primal * step.W, self.Y + dual * step.Y)) / self.W.size
        target = (ahead / self.mean) ** 3 * self.mean
        aim = target - products - step.W * step.Y
        step = newton.solve(aim)
        primal, dual = newton.longest(step)
        for _ in range(correctors):
            self.system.check()
            farther = (min(1.0, AIM_FACTOR * length + AIM_INCREMENT) for length in (primal, dual))
            reached = (self.W + next(farther) * step.W) * (self.Y + next(farther) * step.Y)
            wanted = np.clip(reached, target / PRODUCT_SPREAD, target * PRODUCT_SPREAD) - reached
            aim = aim + np.maximum(wanted, -PRODUCT_SPREAD * target)
            other = newton.solve(aim)
            lengths = newton.longest(other)
            if sum(lengths) <= primal + dual + LEAST_CORRECTOR_GAIN:
                break
            step, (primal, dual) = other, lengths
        primal, dual = min(1.0, BORDER_SHARE * primal), min(1.0, BORDER_SHARE * dual)
        self.Z = self.Z + primal * step.Z
        self.W = self.W + primal * step.W
        self.Y = self.Y + dual * step.Y
        self.u = self.u + dual * step.u
        self.measure()
        return min(primal, dual)


class _Newton:
    """The linear system at one point."""

    def __init__(self, point: Point) -> None:
        self.point = point
        point.system.check()
        self.inverse_W, self.inverse_Y = 1.0 / point.W, 1.0 / point.Y
        self.weights = point.Y * self.inverse_W
        self.factors = point.system.factors(self.weights)

    def solve(self, aim: NDArray[np.float64]) -> Step:
        """Return the step after which products w y have changed by ``aim``, to first order, and nothing is missed."""
        point, system = self.point, self.point.system
        system.check()
        Y = aim * self.inverse_W
        right = -point.missed_costs - system.GT @ (Y - self.weights * point.missed_rows)
        Z = self.factors.solve(np.ascontiguousarray(right.T))
        u = np.zeros(len(point.u))
        for _ in range(2):
            missed = point.missed_sums - Z.sum(axis=0)
            if u.any() and np.abs(missed).max() <= UNIT_SUM_ERROR:
                break
            more = self.factors.solve_total(missed)
            Z += self.factors.solve(np.tile(more, (len(Z), 1)))
            u += more
        rows = np.ascontiguousarray(Z.T)
        W = point.missed_rows - system.G @ rows
        return Step(rows, W, Y - self.weights * W, u)

    def longest(self, step: Step) -> tuple[float, float]:
        """Return how far slacks and multipliers can go along a step before one is 0, at most 1."""
        return (
            1.0 / max(1.0, -float((step.W * self.inverse_W).min())),
            1.0 / max(1.0, -float((step.Y * self.inverse_Y).min())),
        )
