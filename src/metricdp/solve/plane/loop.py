"""Conic first-order steps: primal-dual hybrid gradient with reflection, anchors and restarts, on windows.

The problem: ``min sum c_ik z_ik`` over rows that sum to 1, with ``A_j z_k`` in the cone ``|(g, g')| <= theta u`` for
each coefficient j of the half lattice and output k. Steps are weighted by ``exp(-0.5 epsilon distance)`` to the
output, because a good mechanism falls like ``exp(-epsilon distance)``. Bounds need the exact share 1: reduced costs far
from an output are sums of many multipliers, and what 0.99 changes in each of them adds up (on the centre of Rome 4 %).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from metricdp.metric.closure import parallel_is_safe
from metricdp.metric.simd import WIDTH
from metricdp.solve.plane.kernels import cone_steps, row_steps
from metricdp.solve.plane.windows import Windows, distances
from metricdp.solve.solvers.firstorder.threads import in_threads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.problem.plane import PlaneProblem
    from metricdp.solve.plane.cones import Cones

F = np.float32
SLOPE_SCALE = 2.0  # of derivatives against values
DUAL_STEP = 24.0  # dual against primal steps, where costs are of order 1 in each row
DECAY = 0.5  # of epsilon: how fast steps change with the distance to the output
LARGEST_EXPONENT = 40.0  # of the weights of steps
STEP_SAFETY = 0.97
POWER_STEPS, POWER_COLUMNS = 100, 5
RESTART_AFTER, SUFFICIENT, NECESSARY, ARTIFICIAL = 20, 0.2, 0.8, 0.36  # restarts as in PDLP
PARALLEL_FROM = 50_000  # cones of 8 outputs; below it waking threads costs more than it saves
FORBIDDEN = 1e6  # cost of an output that is only there to fill a group
FILL_DECAY = 0.7  # of epsilon: how a table falls outside its windows


class Loop:
    """The iterations for one problem, at ``share`` of its epsilon, on windows of a ``reach`` (times epsilon).

    ``Z`` and ``Y`` are current, ``plain`` is the last plain primal step, ``back`` is A'y; ``n`` steps have been taken.
    """

    def __init__(self, problem: PlaneProblem, cones: Cones, *, share: float, reach: float) -> None:
        self.problem, self.cones = problem, cones
        epsilon = problem.epsilon
        away = distances(problem)
        self.windows = windows = Windows.of(problem, away, reach=reach)
        # costs of order 1: in units of 1 / epsilon, and for as many rows as there are cells
        self.unit = epsilon * problem.region.inner.size
        self.costs = windows.gathered(problem.costs * self.unit, FORBIDDEN)
        self.true_theta = SLOPE_SCALE * epsilon * cones.side
        self.theta = self.true_theta * share
        self.kinds, factors = cones.kinds
        factors = factors * np.array([SLOPE_SCALE, SLOPE_SCALE, 1.0])[:, None]
        self.scaled = factors / np.linalg.norm(factors, ord=2, axis=(1, 2))[:, None, None]
        self.factors = self.scaled.astype(F).ravel()
        fall = windows.gathered(np.exp(-DECAY * np.minimum(away, LARGEST_EXPONENT)), 1.0)
        self.sigma = np.empty(windows.n_cones * WIDTH, dtype=F)
        self.tau = np.empty(windows.n_entries, dtype=F)
        self._set_sizes(fall)
        start = windows.gathered(np.exp(-np.minimum(away, 60.0)), 0.0)
        self.Z = self._normalised(start)
        self.plain, self.ahead, self.back = self.Z.copy(), np.zeros_like(self.Z), np.zeros_like(self.Z)
        self.Y = np.zeros(windows.n_cones * 3 * WIDTH, dtype=F)
        self._anchor = self.Z.copy(), self.Y.copy()
        self._shift = np.full(problem.n_nodes, np.inf)  # the projection finds where to begin
        self._moved = np.zeros(problem.n_nodes), np.zeros(windows.n_groups)
        self._first: float | None = None
        self._since, self._last, self._restart = 0, 0.0, False
        self.n, self.omega = 0, F(1)

    def _normalised(self, Z: NDArray[np.float32]) -> NDArray[np.float32]:
        sums = np.zeros(self.problem.n_nodes)
        for group, block in self.windows.each(Z):
            sums[self.windows.nodes(group)] += block.sum(axis=2)
        for group, block in self.windows.each(Z):
            np.divide(block, sums[self.windows.nodes(group)][:, :, None], out=block, casting="same_kind")
        return Z

    def _set_sizes(self, fall: NDArray[np.float32]) -> None:
        """Set the steps: dual ones by the mean weight of a cone's nodes, primal ones by the sum of dual ones."""
        windows, used = self.windows, np.abs(self.scaled).sum(axis=1) > 0
        for group, weights in windows.each(fall):
            n, m = weights.shape[:2]
            sigma = self.sigma[windows.cones[group] * WIDTH : windows.cones[group + 1] * WIDTH]
            sigma = sigma.reshape(2 * n - 3, 2 * m - 3, WIDTH)
            sums = np.zeros((n, m, WIDTH))
            for kind in range(4):
                part = sigma[kind // 2 :: 2, kind % 2 :: 2]
                moves = [self.kinds[kind, i] for i in range(used.shape[1]) if used[kind, i]]
                where = [np.s_[a : a + part.shape[0], b : b + part.shape[1]] for a, b in moves]
                part[:] = DUAL_STEP * len(where) / sum(weights[one].astype(np.float64) for one in where)
                for one in where:
                    sums[one] += part
            self.tau[windows.blocks[group] : windows.blocks[group + 1]] = (STEP_SAFETY / sums).ravel()
        sample = np.unique(np.linspace(0, windows.n_groups - 1, POWER_COLUMNS).astype(int)).tolist()
        self.tau /= F(max(self._norm(group) for group in sample))

    def _norm(self, group: int) -> float:
        """Return the norm of the scaled operator of a group's first output, by power iteration."""
        windows = self.windows
        n, m = (int(size) for size in windows.shapes[group])
        p, q = (place.ravel() for place in np.meshgrid(np.arange(2 * n - 3), np.arange(2 * m - 3), indexing="ij"))
        kind = 2 * (p % 2) + q % 2
        nodes = (p[:, None] // 2 + self.kinds[kind, :, 0]) * m + q[:, None] // 2 + self.kinds[kind, :, 1]
        rows = np.repeat(np.arange(3 * len(p)), nodes.shape[1])
        columns = np.repeat(nodes, 3, axis=0).ravel()
        A = sp.csr_array((self.scaled[kind].ravel(), (rows, columns)), shape=(3 * len(p), n * m))
        block = slice(int(windows.blocks[group]), int(windows.blocks[group + 1]), WIDTH)
        cones = slice(int(windows.cones[group]) * WIDTH, int(windows.cones[group + 1]) * WIDTH, WIDTH)
        scale = np.sqrt(self.tau[block].astype(float) / STEP_SAFETY)
        weight = np.repeat(self.sigma[cones].astype(float), 3)
        x, norm = np.random.default_rng(0).random(n * m), 1.0
        for _ in range(POWER_STEPS):
            x = scale * (A.T @ (weight * (A @ (scale * x))))
            norm = float(np.linalg.norm(x))
            x /= norm
        return norm

    def set_share(self, share: float) -> None:
        """Solve at another share of epsilon from now on."""
        self.theta = self.true_theta * share

    def settle(self) -> None:
        """Take a plain step, which becomes the new anchor: reflected points are on the other side of what they seek."""
        self._restart = True
        self.run(1)

    @property
    def is_large(self) -> bool:
        """Whether waking threads for a step is worth its while."""
        return self.windows.n_cones >= PARALLEL_FROM and parallel_is_safe()

    def run(self, n: int) -> None:
        """Take ``n`` steps."""
        for _ in range(n):
            weight, reflect = (1.0, 0.0) if self._restart else ((self._since + 1) / (self._since + 2), 1.0)
            self._step(F(weight), F(reflect))
            self._advance(float(np.sqrt(self._moved[0].sum() + self._moved[1].sum())))
            self.n += 1

    def _step(self, weight: np.float32, reflect: np.float32) -> None:
        windows, longest = self.windows, int(np.diff(self.windows.starts).max()) * WIDTH

        def rows(first: int, last: int) -> None:
            scratch = np.empty(longest), np.empty(longest)
            row_steps(
                first, last, windows.starts, windows.slots, self.costs, self.tau, self.omega, self.back, self.Z,
                self._anchor[0], self.plain, self.ahead, self._shift, weight, reflect, self._moved[0], *scratch,
            )  # fmt: skip

        def groups(first: int, last: int) -> None:
            cone_steps(
                first, last, windows.shapes, windows.blocks, windows.cones, self.kinds, self.factors, self.ahead,
                self.back, self.Y, self._anchor[1], self.sigma, (F(self.theta), self.omega, weight, reflect),
                self._moved[1],
            )  # fmt: skip

        in_threads(rows, self.problem.n_nodes, is_large=self.is_large)
        in_threads(groups, windows.n_groups, is_large=self.is_large)

    def _advance(self, length: float) -> None:
        """Decide whether the next step is a plain one, which becomes the new anchor."""
        if self._restart:
            for kept, value in zip(self._anchor, (self.Z, self.Y), strict=True):
                kept[:] = value
            self._since, self._first, self._restart = 0, None, False
            return
        self._since += 1
        if self._first is None:
            self._first = length
        elif self._since >= RESTART_AFTER:
            self._restart = (
                length <= SUFFICIENT * self._first
                or (length <= NECESSARY * self._first and length > self._last)
                or self._since >= ARTIFICIAL * self.n
            )
        self._last = length

    def matrix(self) -> NDArray[np.float64]:
        """Return the last plain step as a matrix by nodes and outputs; outside a window it falls from its border."""
        problem, windows = self.problem, self.windows
        Z = np.zeros((problem.n_nodes, problem.n_outputs))
        ways = [np.arange(n) for n in windows.shape]
        for group, block in windows.each(self.plain):
            outputs = windows.outputs(group)
            low, shape = windows.low[group], windows.shapes[group]
            inside = [np.clip(way, a, a + n - 1) for way, a, n in zip(ways, low, shape, strict=True)]
            rows, columns = (one - a for one, a in zip(inside, low, strict=True))
            beyond = [side * np.abs(way - one) for side, way, one in zip(self.cones.sides, ways, inside, strict=True)]
            far = np.hypot(beyond[0][:, None], beyond[1])
            fill = np.exp(-FILL_DECAY * problem.epsilon * far)[:, :, None]
            Z[:, outputs] = (block[rows[:, None], columns][:, :, : len(outputs)] * fill).reshape(len(Z), -1)
        return Z

    def class_bound(self) -> float:
        """Return a bound on the loss of all tables over this lattice that pass the check, from the current duals.

        For any q, q' and ``y <= -theta |(q, q')|`` the sum over nodes of the least entry of ``c + A'(q, q', y)`` is at
        most the loss of any table that satisfies all cones. It is no bound for mechanisms of another form. Cones
        outside windows have the multiplier 0.
        """
        windows, costs = self.windows, self.problem.costs
        least, size = np.full(windows.shape, np.inf), np.zeros(windows.shape)
        for group in range(windows.n_groups):
            outputs, nodes = windows.outputs(group), windows.nodes(group)
            reduced = costs[:, outputs].reshape(*windows.shape, -1) * self.unit
            back, sizes = self._back(group, len(outputs))
            low, high = windows.low[group], windows.low[group] + windows.shapes[group]
            reduced[low[0] : high[0], low[1] : high[1]] += back
            np.minimum(least, reduced.min(axis=2), out=least)
            size.ravel()[nodes] = np.maximum(size.ravel()[nodes], sizes.max(axis=2))
        size += np.abs(costs).max(axis=1).reshape(size.shape) * self.unit
        room = 2.0**-40 * size.sum()  # far above the roundings of sums in double precision
        return float((least.sum() - room) / self.unit)

    def _back(self, group: int, n_outputs: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return A'y of a group's multipliers, moved into the dual cone, in doubles, and the sizes of the terms."""
        windows = self.windows
        n, m = (int(size) for size in windows.shapes[group])
        Y = self.Y[windows.cones[group] * 3 * WIDTH : windows.cones[group + 1] * 3 * WIDTH]
        Y = Y.reshape(2 * n - 3, 2 * m - 3, 3, WIDTH)[:, :, :, :n_outputs].astype(np.float64)
        Y[:, :, 2] = np.minimum(Y[:, :, 2], -self.true_theta * (1.0 + 1e-12) * np.hypot(Y[:, :, 0], Y[:, :, 1]))
        back, size = np.zeros((n, m, n_outputs)), np.zeros((n, m, n_outputs))
        for kind in range(4):
            part = Y[kind // 2 :: 2, kind % 2 :: 2]
            for i, (a, b) in enumerate(self.kinds[kind]):
                where = np.s_[a : a + part.shape[0], b : b + part.shape[1]]
                for three in range(3):
                    if self.scaled[kind, three, i]:
                        term = self.scaled[kind, three, i] * part[:, :, three]
                        back[where] += term
                        size[where] += np.abs(term)
        return back, size
