"""Weighted reflected Halpern steps on windows.

The steps are those of `metricdp.solve.solvers.firstorder.iterate`, with step sizes that differ from entry to entry.
Good rows fall like exp(-epsilon d), so with equal steps far multipliers take very long. Here entry (i, k) has the
weight ``w = exp(-gamma epsilon d_ik)``: rows step by ``tau_i w_ik / omega``, multipliers by
``omega sigma_e / sqrt(w_ik w_jk)``, and the projection is ``z = max(0, v - w theta)`` with theta from the unit sum by
Newton's method.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from metricdp.metric.closure import parallel_is_safe
from metricdp.metric.simd import WIDTH
from metricdp.solve.solvers.firstorder.iterate import (
    LONG_SHARE,
    MUCH_SHORTER,
    PARALLEL_STEPS_FROM,
    SHORT_EPOCH,
    SHORTER,
    SHORTEST_EPOCH,
)
from metricdp.solve.solvers.firstorder.kernels import FAST, INNER, LOWEST, NEWTON_CLOSE, NEWTON_STEPS, ONE, TINY, ZERO
from metricdp.solve.solvers.firstorder.threads import in_threads
from metricdp.solve.solvers.firstorder.tiles import add_parts, copy_tile
from metricdp.solve.solvers.local.paths import are_far_apart
from metricdp.solve.solvers.local.tiles import (
    restarted_multipliers,
    weighted_back,
    weighted_excess,
    weighted_multipliers,
    weighted_rows,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.solvers.local.network import Network

    Floats = NDArray[np.float32]
    Doubles = NDArray[np.float64]

WEIGHT_RATE, PRIMAL_WEIGHT = 0.6, 16.0  # gamma and omega of places
# The same where neighbours are far apart. With those of places multipliers overshoot: after 400 steps on 300 words
# (epsilon 2) the bound was 0.07, and 0.177 with these.
FAR_WEIGHT_RATE, FAR_PRIMAL_WEIGHT = 0.3, 2.0
STEP_PRODUCT = 1.5  # of tau and sigma, in units of what is safe for any matrix: the rows' signs cancel a part
FAR_STEP_PRODUCT = 0.9  # where neighbours are far apart little cancels: with 1.5 steps on 271 words ran away
SAFE_PRODUCT = 0.9  # for any matrix
RUN_AWAY = 1.5  # times the first length of an epoch: a step that contracts nothing is not longer than the first
SAFETY = 0.99
SMALLEST_LEVEL = 1e-3  # of a node's weight over the mean: steps do not grow beyond
LARGEST_EXPONENT = 60.0  # epsilon d from which weights no longer fall: float32 ends


class Iteration:
    """The rows Z, the multipliers Y, their anchors, and where the iteration is; 8 entries per slot or edge.

    ``product`` is that of the step sizes; None is the usual one.
    """

    def __init__(self, network: Network, product: float | None = None) -> None:
        self.network = network
        self.rate, self.omega, usual = WEIGHT_RATE, PRIMAL_WEIGHT, STEP_PRODUCT
        if are_far_apart(network.nodes):
            self.rate, self.omega, usual = FAR_WEIGHT_RATE, FAR_PRIMAL_WEIGHT, FAR_STEP_PRODUCT
        self.product = usual if product is None else product
        far = np.minimum(network.costs.far, np.float32(LARGEST_EXPONENT))
        self.root = np.exp(np.float32(0.5 * self.rate) * far)
        self.Z = np.exp(-far)
        self._make_unit_sums()
        self.Z0, self.ahead = self.Z.copy(), self.Z.copy()
        self.Y = np.zeros(network.edges.n * WIDTH, dtype=np.float32)
        self.Y0 = np.zeros_like(self.Y)
        self.reduced = network.costs.costs.copy()
        self.theta = np.zeros(network.nodes.n, dtype=np.float32)
        self.steps = 0
        self._since, self._first, self._last = 0, 0.0, 0.0
        self._moved_rows, self._moved_groups = np.zeros(network.nodes.n), np.zeros(network.windows.n_groups)
        self._set_sizes()

    def _make_unit_sums(self) -> None:
        member = self.network.windows.member
        rows = self.Z.reshape(-1, WIDTH)
        sums = np.bincount(member, weights=rows.sum(axis=1), minlength=self.network.nodes.n)
        rows /= sums[member, None].astype(np.float32)

    def _set_sizes(self) -> None:
        net = self.network
        sides = net.a.astype(np.float64) + net.b
        level = np.maximum(net.nodes.level, SMALLEST_LEVEL)
        stiffness = np.sqrt(level[net.tail] * level[net.head])
        # sqrt(w_j / w_i) = exp(gamma (c_i - c_j) / 2) on the way to an output, the mean of both directions: with less,
        # steps diverge where neighbours are far apart
        growth = np.cosh(0.5 * self.rate * net.exponent)
        ends = np.concatenate((net.tail, net.head))
        total = np.bincount(ends, weights=np.tile(sides * growth * stiffness, 2), minlength=net.nodes.n)
        product = SAFETY * np.sqrt(self.product)
        tau = np.where(total > 0.0, product / np.where(total > 0.0, total, 1.0), 1.0)
        self.tau = (tau / self.omega).astype(np.float32)
        self.sigma = (product * self.omega * stiffness / sides).astype(np.float32)

    @property
    def is_large(self) -> bool:
        """Whether waking threads for a step is worth its while."""
        return self.Y.size >= PARALLEL_STEPS_FROM and parallel_is_safe()

    def advance(self) -> None:
        """Do one step, and a restart where it is due."""
        residual = self._step((self._since + 1) / (self._since + 2))
        self._since += 1
        if self._since == 1:
            self._first = self._last = residual
        if self.product > SAFE_PRODUCT and residual > RUN_AWAY * self._first:
            self._slow_down()
        elif self._is_restart_due(residual):
            self.restart()
        self._last = residual

    def restart(self) -> None:
        """Take T(x) as the new point and anchor."""
        self._step(0.0)
        self._since = 0

    def _slow_down(self) -> None:
        """Go back to the anchor, with steps that are safe: some weights of the records let longer ones run away."""
        self.product = SAFE_PRODUCT
        self._set_sizes()
        for array, anchor in ((self.Y, self.Y0), (self.Z, self.Z0), (self.ahead, self.Z0)):
            np.copyto(array, anchor)
        self.take_multipliers()

    def begin_epoch(self) -> None:
        """Make the current point the anchor."""
        np.copyto(self.Y0, self.Y)
        np.copyto(self.Z0, self.Z)
        self._since = 0

    def take_multipliers(self) -> None:
        """Begin an epoch at multipliers that were changed from outside."""
        self.begin_epoch()
        self.reduce()

    def _is_restart_due(self, residual: float) -> bool:
        if self._since < SHORTEST_EPOCH:
            return False
        return (
            residual <= MUCH_SHORTER * self._first
            or (residual <= SHORTER * self._first and residual > self._last)
            or (self._since > SHORT_EPOCH and self._since >= LONG_SHARE * self.steps)
        )

    def _step(self, share: float) -> float:
        """Do one primal-dual step; return its length."""
        net, single = self.network, np.float32(share)
        windows, edges = net.windows, net.edges

        def rows(first: int, last: int) -> None:
            scratch = np.empty(windows.widest * WIDTH, np.float32), np.empty(windows.widest * WIDTH, np.float32)
            _step_rows(
                first,
                last,
                windows.node_start,
                windows.slot,
                self.root,
                self.reduced,
                self.Z,
                self.Z0,
                self.ahead,
                self.theta,
                self.tau,
                single,
                self._moved_rows,
                *scratch,
            )

        def groups(first: int, last: int) -> None:
            _step_groups(
                first,
                last,
                windows.group_start,
                edges.group_start,
                edges.tail,
                edges.head,
                edges.edge,
                net.a,
                net.b,
                self.sigma,
                net.costs.costs,
                self.root,
                self.ahead,
                self.Y,
                self.Y0,
                single,
                self.reduced,
                self._moved_groups,
            )

        in_threads(rows, net.nodes.n, is_large=self.is_large)
        in_threads(groups, windows.n_groups, is_large=self.is_large)
        self.steps += 1
        return float(np.sqrt(self._moved_rows.sum() + self._moved_groups.sum()))

    def reduce(self) -> None:
        """Compute the reduced costs of the current multipliers."""
        net = self.network

        def groups(first: int, last: int) -> None:
            _reduce_groups(
                first,
                last,
                net.windows.group_start,
                net.edges.group_start,
                net.edges.tail,
                net.edges.head,
                net.edges.edge,
                net.a,
                net.b,
                net.costs.costs,
                self.Y,
                self.reduced,
            )

        in_threads(groups, net.windows.n_groups, is_large=self.is_large)

    def raw_loss(self) -> float:
        """Return the loss of the rows as they are, not private, in the loss's unit; from float32 costs."""
        costs, positive = self.network.costs, np.maximum(self.Z, ZERO)
        rows = np.einsum("ij,ij->i", costs.costs.reshape(-1, WIDTH), positive.reshape(-1, WIDTH))
        return (float(rows.sum(dtype=np.float64)) + float(costs.base.sum())) / costs.unit

    def mean_prices(self) -> NDArray[np.float64]:
        """Return each node's reduced cost, averaged with its row."""
        member, n = self.network.windows.member, self.network.nodes.n
        rows = np.maximum(self.Z, ZERO).reshape(-1, WIDTH)
        above = np.einsum("ij,ij->i", rows, self.reduced.reshape(-1, WIDTH))
        sums = np.bincount(member, weights=rows.sum(axis=1), minlength=n)
        return np.asarray(np.bincount(member, weights=above, minlength=n) / np.maximum(sums, 1e-30))


@njit(**INNER, fastmath=FAST)
def _threshold(v: Floats, w: Floats, tiles: int, guess: float) -> np.float32:
    """Return theta with ``sum max(v - w theta, 0) = 1`` by Newton's method."""
    theta = np.float32(guess)
    for _ in range(NEWTON_STEPS):
        total, weight = ZERO, ZERO
        for t in range(tiles):
            above, active = weighted_excess(v, t * WIDTH, w, theta)
            total += above
            weight += active
        if weight <= ZERO:
            # beyond the last root: here the sum is at least 1, and Newton's method goes up from there
            theta = LOWEST
            for c in range(tiles * WIDTH):
                theta = max(theta, (v[c] - ONE) / w[c])
            continue
        theta += (total - ONE) / weight
        if abs(total - ONE) <= NEWTON_CLOSE:
            break
    return theta


@njit(cache=True, nogil=True, fastmath=FAST)
def _step_rows(  # noqa: PLR0917  (numba takes positions)
    first: int,
    last: int,
    node_start: NDArray[np.int64],
    slot: NDArray[np.int32],
    root: Floats,
    reduced: Floats,
    Z: Floats,
    Z0: Floats,
    ahead: Floats,
    theta: Floats,
    tau: Floats,
    share: np.float32,
    moved: Doubles,
    v: Floats,
    w: Floats,
) -> None:
    """Step the rows of some nodes; ``moved`` takes their squared change over the step sizes."""
    for i in range(first, last):
        begin, count = node_start[i], node_start[i + 1] - node_start[i]
        for c in range(count):
            weighted_back(v, c * WIDTH, w, root, Z, reduced, np.int64(slot[begin + c]) * WIDTH, tau[i])
        level = _threshold(v, w, count, theta[i])
        theta[i] = level
        change = ZERO
        for c in range(count):
            at = np.int64(slot[begin + c]) * WIDTH
            change += weighted_rows(v, c * WIDTH, w, root, Z, Z0, ahead, at, level, share, TINY)
        moved[i] = change / tau[i]


@njit(cache=True, nogil=True, fastmath=FAST)
def _step_groups(  # noqa: PLR0917
    first: int,
    last: int,
    group_start: NDArray[np.int64],
    edge_start: NDArray[np.int64],
    tail: NDArray[np.uint16],
    head: NDArray[np.uint16],
    edge: NDArray[np.int32],
    a: Floats,
    b: Floats,
    sigma: Floats,
    costs: Floats,
    root: Floats,
    ahead: Floats,
    Y: Floats,
    Y0: Floats,
    share: np.float32,
    reduced: Floats,
    moved: Doubles,
) -> None:
    """Step the multipliers of some groups and gather the reduced costs, in one pass."""
    for g in range(first, last):
        base = group_start[g]
        for s in range(base, group_start[g + 1]):
            copy_tile(reduced, s * WIDTH, costs, s * WIDTH)
        total = 0.0
        for c in range(edge_start[g], edge_start[g + 1]):
            e = edge[c]
            i, j = (base + tail[c]) * WIDTH, (base + head[c]) * WIDTH
            size = sigma[e]
            less, more = size * a[e], size * b[e]
            if share > ZERO:
                change = weighted_multipliers(Y, Y0, c * WIDTH, ahead, root, i, j, less, more, share, TINY)
            else:
                change = restarted_multipliers(Y, Y0, c * WIDTH, ahead, root, i, j, less, more, share, TINY)
            total += change / size
            add_parts(reduced, i, Y, c * WIDTH, a[e], b[e])
            add_parts(reduced, j, Y, c * WIDTH, -b[e], -a[e])
        moved[g] = total


@njit(cache=True, nogil=True, fastmath=FAST)
def _reduce_groups(  # noqa: PLR0917
    first: int,
    last: int,
    group_start: NDArray[np.int64],
    edge_start: NDArray[np.int64],
    tail: NDArray[np.uint16],
    head: NDArray[np.uint16],
    edge: NDArray[np.int32],
    a: Floats,
    b: Floats,
    costs: Floats,
    Y: Floats,
    reduced: Floats,
) -> None:
    """Gather the reduced costs of some groups."""
    for g in range(first, last):
        base = group_start[g]
        for s in range(base, group_start[g + 1]):
            copy_tile(reduced, s * WIDTH, costs, s * WIDTH)
        for c in range(edge_start[g], edge_start[g + 1]):
            e = edge[c]
            add_parts(reduced, (base + tail[c]) * WIDTH, Y, c * WIDTH, a[e], b[e])
            add_parts(reduced, (base + head[c]) * WIDTH, Y, c * WIDTH, -b[e], -a[e])
