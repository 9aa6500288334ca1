"""Conic first-order steps: primal-dual hybrid gradient with reflection, anchors and restarts.

The problem: ``min sum c_ik z_ik`` over rows that sum to 1, with ``A_j z_k`` in the cone ``|(g, g')| <= theta u`` for
each coefficient j of the half lattice and output k. Steps are weighted by ``exp(-0.75 epsilon distance)`` to the
output, because that is how a good mechanism falls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from metricdp.metric.distances import CoordinateMetric
from metricdp.solve.plane.kernels import cone_pass, project_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.problem.plane import PlaneProblem
    from metricdp.solve.plane.cones import Cones

F = np.float32
SLOPE_SCALE = 2.0  # of derivatives against values
DUAL_STEP = 12.0  # dual against primal steps, where costs are of order 1 in each row
DECAY = 0.75  # of epsilon: how fast steps change with the distance to the output
STEP_SAFETY = 0.97
POWER_STEPS, POWER_COLUMNS = 100, 5
RESTART_AFTER, SUFFICIENT, NECESSARY, ARTIFICIAL = 20, 0.2, 0.8, 0.36  # restarts as in PDLP


@dataclass
class Iterate:
    """The state of the iterations: ``Z`` and ``Y`` are current, ``plain`` is the last plain primal step."""

    plain: NDArray[np.float32]
    Z: NDArray[np.float32]
    Y: NDArray[np.float32]
    back: NDArray[np.float32]
    plain_back: NDArray[np.float32]
    n: int = 0


class Loop:
    """The iterations for one problem, at ``share`` of its epsilon."""

    def __init__(self, problem: PlaneProblem, cones: Cones, *, share: float) -> None:
        epsilon, K = problem.epsilon, problem.n_outputs
        # costs of order 1: in units of 1 / epsilon, and for as many rows as there are cells
        self.unit = epsilon * problem.region.inner.size
        self.exact_costs = problem.costs * self.unit
        self.costs = self.exact_costs.astype(F)
        self.theta = SLOPE_SCALE * epsilon * cones.side * share
        self.true_theta = SLOPE_SCALE * epsilon * cones.side
        factors = cones.factors * np.array([SLOPE_SCALE, SLOPE_SCALE, 1.0])[None, :, None]
        norms = np.linalg.norm(factors, ord=2, axis=(1, 2))
        self.nodes, self.exact_factors = cones.nodes, factors / norms[:, None, None]
        self.factors = self.exact_factors.astype(F)
        metric = CoordinateMetric(problem.region.metric)
        away = epsilon * metric.between(problem.region.records.coordinates, problem.outputs.coordinates)
        fall = np.exp(-DECAY * np.minimum(away, 40.0))
        takes_part = np.abs(cones.factors).sum(axis=1) > 0
        mean = sum(fall[cones.nodes[:, q]] * takes_part[:, q, None] for q in range(cones.nodes.shape[1]))
        mean /= takes_part.sum(axis=1)[:, None]
        self.sigma = (DUAL_STEP / mean).astype(F)
        sums = np.zeros((problem.n_nodes, K))
        for q in range(cones.nodes.shape[1]):
            np.add.at(sums, cones.nodes[:, q], self.sigma * takes_part[:, q, None])
        self.tau = (STEP_SAFETY / (self._norm(sums) * sums)).astype(F)
        start = np.exp(-np.minimum(away, 60.0))
        Z = (start / start.sum(axis=1, keepdims=True)).astype(F)
        Y = np.zeros((len(cones.nodes), 3, K), dtype=F)
        self.at = Iterate(Z.copy(), Z, Y, np.zeros_like(Z), np.zeros_like(Z))
        self._anchor = Z.copy(), Y.copy(), np.zeros_like(Z)
        self._shift = np.full(problem.n_nodes, np.inf)  # the projection finds where to begin
        self._first: float | None = None
        self._since, self._last, self._restart = 0, 0.0, False

    def _norm(self, sums: NDArray[np.float64]) -> float:
        """Return the largest norm of the scaled operator, of a few columns, by power iteration."""
        n, m = len(self.nodes), len(sums)
        rows = np.repeat(np.arange(3 * n), self.nodes.shape[1])
        columns = np.repeat(self.nodes, 3, axis=0).ravel()
        A = sp.csr_array((self.factors.ravel().astype(float), (rows, columns)), shape=(3 * n, m))
        largest = 0.0
        for k in np.unique(np.linspace(0, sums.shape[1] - 1, POWER_COLUMNS).astype(int)):
            scale, weight = 1.0 / np.sqrt(sums[:, k]), np.repeat(self.sigma[:, k].astype(float), 3)
            x, norm = np.random.default_rng(0).random(m), 1.0
            for _ in range(POWER_STEPS):
                x = scale * (A.T @ (weight * (A @ (scale * x))))
                norm = float(np.linalg.norm(x))
                x /= norm
            largest = max(largest, norm)
        return largest

    def run(self, n: int) -> None:
        """Take ``n`` steps."""
        at = self.at
        for _ in range(n):
            V = at.Z - self.tau * (self.costs + at.back)
            project_rows(V, self.tau, self._shift, at.plain)
            weight, reflect = (1.0, 0.0) if self._restart else ((self._since + 1) / (self._since + 2), 1.0)
            dual = cone_pass(
                self.nodes,
                self.factors,
                F(self.theta),
                self.sigma,
                F(2) * at.plain - at.Z,
                at.Y,
                self._anchor[1],
                at.plain_back,
                F(weight),
                F(reflect),
            )
            primal = float(((at.plain - at.Z) ** 2 / self.tau).sum())
            self._advance(float(np.sqrt(dual + primal)), F(weight))
            at.n += 1

    def _advance(self, length: float, weight: np.float32) -> None:
        """Move to the next point, or to the plain step and a new anchor."""
        at = self.at
        if self._restart:
            at.Z[:], at.back[:] = at.plain, at.plain_back
            for kept, value in zip(self._anchor, (at.Z, at.Y, at.back), strict=True):
                kept[:] = value
            self._since, self._first, self._restart = 0, None, False
            return
        at.Z = weight * (F(2) * at.plain - at.Z) + (F(1) - weight) * self._anchor[0]
        at.back = weight * (F(2) * at.plain_back - at.back) + (F(1) - weight) * self._anchor[2]
        self._since += 1
        if self._first is None:
            self._first = length
        elif self._since >= RESTART_AFTER:
            self._restart = (
                length <= SUFFICIENT * self._first
                or (length <= NECESSARY * self._first and length > self._last)
                or self._since >= ARTIFICIAL * at.n
            )
        self._last = length

    def class_bound(self) -> float:
        """Return a bound on the loss of all tables over this lattice that pass the check, from the current duals.

        For any q, q' and ``y <= -theta |(q, q')|`` the sum over nodes of the least entry of ``c + A'(q, q', y)`` is at
        most the loss of any table that satisfies all cones. It is no bound for mechanisms of another form.
        """
        Y = self.at.Y.astype(np.float64)
        Y[:, 2] = np.minimum(Y[:, 2], -self.true_theta * (1.0 + 1e-12) * np.hypot(Y[:, 0], Y[:, 1]))
        # in double precision: what single precision does to factors, large duals would multiply
        reduced, size = self.exact_costs.copy(), np.abs(self.exact_costs)
        factors = self.exact_factors
        for q in range(self.nodes.shape[1]):
            for part in range(3):
                term = factors[:, part, q, None] * Y[:, part]
                np.add.at(reduced, self.nodes[:, q], term)
                np.add.at(size, self.nodes[:, q], np.abs(term))
        room = 2.0**-40 * size.max(axis=1).sum()  # far above the rounding of factors, products and sums
        return float((reduced.min(axis=1).sum() - room) / self.unit)
