"""The reflected Halpern iteration with restarts, on the rows and the edges' multipliers.

One primal-dual step takes x = (z, y) to T(x). The iteration goes to ``share (2 T(x) - x) + (1 - share) x0`` with
``share = (c + 1) / (c + 2)`` after c steps from the anchor x0, and takes T(x) as its new anchor (a restart) when the
step has become much shorter than at the anchor, or a little shorter and then longer again, or after a share of all
steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from metricdp.metric.closure import parallel_is_safe
from metricdp.solve.solvers.firstorder.kernels import BITS, step_edges, step_records
from metricdp.solve.solvers.firstorder.tiles import WIDTH

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.solvers.firstorder.network import Network

MUCH_SHORTER, SHORTER = 0.2, 0.8
SHORTEST_EPOCH, SHORT_EPOCH = 20, 30
LONG_SHARE = 0.36  # of all steps
PARALLEL_STEPS_FROM = 4_000_000  # multipliers; most of them are skipped, and waking threads costs more than it gives
RESTART = 0.0  # a share of 0 makes the new point the anchor


class Iteration:
    """The rows Z, the multipliers Y, their anchors, and where the iteration is."""

    def __init__(self, network: Network, weight: float) -> None:
        self.network, self.weight = network, np.float32(weight)
        self.Z = np.zeros_like(network.C)
        cheapest = network.C.transpose(1, 0, 2).reshape(network.n, -1).argmin(axis=1)
        self.Z[cheapest // WIDTH, np.arange(network.n), cheapest % WIDTH] = 1.0
        self.theta = np.zeros(network.n, dtype=np.float32)
        self.steps = 0
        self.Y = np.zeros((network.tiles, network.m, WIDTH), dtype=np.float32)
        self._anchor()

    def _anchor(self) -> None:
        """Begin an epoch at the current point."""
        self.Z0, self.ahead, self.Y0 = self.Z.copy(), self.Z.copy(), np.zeros_like(self.Y)
        used = bits_of(self.Y)
        for w in range(used.shape[1]):  # copying only what is in use leaves the other pages untouched
            rows = np.flatnonzero(used[:, w])
            for t in range(w * BITS, min((w + 1) * BITS, self.network.tiles)):
                own = rows[(used[rows, w] >> np.uint64(t % BITS)) & np.uint64(1) == 1]
                self.Y0[t, own] = self.Y[t, own]
        self.is_used, self.is_live = used, bits_of(self.Z)
        self._since, self._first, self._last = 0, 0.0, 0.0
        self._moved_rows = np.zeros(self.network.n)
        self._moved_edges = np.zeros(self.network.m)

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
        if self._is_restart_due(residual):
            self.restart()
        self._last = residual

    def restart(self) -> None:
        """Take T(x) as the new point and anchor."""
        self._step(RESTART)
        self._since = 0

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
        net = self.network
        step_records(
            net.C,
            net.cheapest,
            self.Z,
            self.Z0,
            self.ahead,
            self.is_live,
            self.theta,
            net.tau / self.weight,
            net.start,
            net.edge_at,
            net.is_head,
            net.a,
            net.b,
            self.Y,
            self.is_used,
            np.float32(share),
            self._moved_rows,
            is_large=self.is_large,
        )
        step_edges(
            net.tail,
            net.head,
            net.a,
            net.b,
            net.sigma * self.weight,
            self.ahead,
            self.is_live,
            self.Y,
            self.Y0,
            self.is_used,
            np.float32(share),
            self._moved_edges,
            is_large=self.is_large,
        )
        self.steps += 1
        return float(np.sqrt(self._moved_rows.sum() + self._moved_edges.sum()))

    def extend(self, chosen: NDArray[np.int64]) -> None:
        """Go on with more pairs; multipliers of the old ones are kept."""
        net, before, Y = self.network, self.network.chosen, self.Y
        net.choose(np.union1d(before, chosen))
        order = np.argsort(net.chosen)
        rows = order[np.searchsorted(net.chosen[order], before)]
        self.Y0 = self.Y0[:, :0].copy()  # the old anchors are not needed any more: their memory is
        self.Y = np.zeros((net.tiles, net.m, WIDTH), dtype=np.float32)
        for t in range(net.tiles):
            used = np.flatnonzero(Y[t].any(axis=1))
            self.Y[t, rows[used]] = Y[t, used]
        del Y
        self._anchor()

    def resume(self, Z: NDArray[np.float32], Y: NDArray[np.float32], steps: int) -> None:
        """Go on from a point that was saved."""
        self.Z, self.Y, self.steps = Z, Y, steps
        self._anchor()


def bits_of(tiles: NDArray[np.float32]) -> NDArray[np.uint64]:
    """Return a bit for each tile of each row: whether anything in it differs from zero."""
    bits = np.zeros((tiles.shape[1], -(-len(tiles) // BITS)), dtype=np.uint64)
    for t, tile in enumerate(tiles):
        bits[:, t // BITS] |= tile.any(axis=1).astype(np.uint64) << np.uint64(t % BITS)
    return bits
