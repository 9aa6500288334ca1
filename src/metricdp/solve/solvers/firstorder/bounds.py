"""Lower bounds from the edges' multipliers, and the pairs that the rows violate.

The bound is that of `metricdp.solve.bounds` for the same multipliers: ``sum_i min_k (C + A'y)_ik`` in float64, less
what rounding can have added. It holds for the whole problem, since pairs that take no part only have multipliers 0.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from metricdp.solve.solvers.firstorder.kernels import BIT, BITS, INNER, ZERO
from metricdp.solve.solvers.firstorder.threads import in_threads
from metricdp.solve.solvers.firstorder.tiles import WIDTH, lowest_bit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.solvers.firstorder.iterate import Iteration

UNIT = 2.0**-53
OWN_ROUNDINGS = 8.0  # of each term: the multiplier's products, and the margin's own
NOT_KEPT = np.empty((0, 0))


def certified_bound(iteration: Iteration) -> float:
    """Return a number that is never above the optimum of the whole component."""
    least = np.empty(iteration.network.n)
    _reduce(iteration, least, NOT_KEPT)
    if not np.isfinite(least).all():  # multipliers that have run away prove nothing
        return 0.0
    # losses are not negative, so neither is any expected loss
    return max(0.0, math.nextafter(math.fsum(least), -math.inf))


def unit_duals(iteration: Iteration) -> NDArray[np.float64]:
    """Return each record's reduced cost, averaged with its row: nearer to the unit sums' duals than the least one."""
    net = iteration.network
    reduced = np.empty((net.n, net.K))
    _reduce(iteration, np.empty(net.n), reduced)
    rows = np.maximum(iteration.Z.transpose(1, 0, 2).reshape(net.n, -1)[:, : net.K], 0.0).astype(np.float64)
    duals = np.empty(net.n)
    duals[net.order] = (rows * reduced).sum(axis=1) / rows.sum(axis=1)
    return duals


def _reduce(iteration: Iteration, least: NDArray[np.float64], reduced: NDArray[np.float64]) -> None:
    """Put each row's least reduced cost, less its margin, into ``least``; all into ``reduced`` unless it is empty."""
    net = iteration.network
    problem = (
        net.component.costs,
        net.order,
        net.outputs,
        net.start,
        net.edge_at,
        net.is_head,
        net.decay,
        net.unit,
        iteration.Y,
        iteration.is_used,
        net.component.cost_roundings + OWN_ROUNDINGS,
    )

    def some(first: int, last: int) -> None:
        scratch = np.zeros((3, net.tiles * WIDTH))
        _reduce_rows(first, last, *problem, scratch, least, reduced)

    in_threads(some, net.n, is_large=iteration.is_large)


@njit(**INNER)
def _add_multipliers(  # noqa: PLR0917  (numba takes positions)
    i: int,
    start: NDArray[np.int64],
    edge_at: NDArray[np.int32],
    is_head: NDArray[np.bool_],
    decay: NDArray[np.float64],
    unit: NDArray[np.float64],
    Y: NDArray[np.float32],
    is_used: NDArray[np.uint64],
    scratch: NDArray[np.float64],
) -> None:
    """Make reduced costs of a record's costs, and keep count of the sizes and the numbers of their terms."""
    for position in range(start[i], start[i + 1]):
        e = edge_at[position]
        for w in range(is_used.shape[1]):
            some = is_used[e, w]
            while some:
                t = w * BITS + lowest_bit(some)
                some &= some - BIT
                for k in range(WIDTH):
                    y = float(Y[t, e, k])
                    if y == 0.0:
                        continue
                    amount = abs(y) * unit[e]
                    # who is asked to have less pays the decayed amount, the other gains all of it
                    gains = (y > 0.0) == is_head[position]
                    part = -amount if gains else decay[e] * amount
                    scratch[0, t * WIDTH + k] += part
                    scratch[1, t * WIDTH + k] += abs(part)
                    scratch[2, t * WIDTH + k] += 1.0


@njit(cache=True, nogil=True)
def _reduce_rows(  # noqa: PLR0917
    first: int,
    last: int,
    costs: NDArray[np.float64],
    order: NDArray[np.int64],
    outputs: NDArray[np.int64],
    start: NDArray[np.int64],
    edge_at: NDArray[np.int32],
    is_head: NDArray[np.bool_],
    decay: NDArray[np.float64],
    unit: NDArray[np.float64],
    Y: NDArray[np.float32],
    is_used: NDArray[np.uint64],
    roundings: float,
    scratch: NDArray[np.float64],
    least: NDArray[np.float64],
    reduced: NDArray[np.float64],
) -> None:
    """Reduce the costs of the rows from ``first`` to ``last``; the scratch has values, sizes and numbers of terms."""
    K = len(outputs)
    for i in range(first, last):
        for k in range(K):
            cost = costs[order[i], outputs[k]]
            scratch[0, k], scratch[1, k], scratch[2, k] = cost, abs(cost), 0.0
        _add_multipliers(i, start, edge_at, is_head, decay, unit, Y, is_used, scratch)
        lowest = np.inf
        for k in range(K):
            margin = (scratch[2, k] + roundings) * (1.001 * UNIT) * scratch[1, k]
            value = scratch[0, k] - margin
            if not value >= lowest:  # also where it is no number: that must not be lost
                lowest = value if value == value else -np.inf  # noqa: PLR0124  (only NaN is not itself)
        least[i] = lowest
        if len(reduced) > 0:
            for k in range(K):
                reduced[i, k] = scratch[0, k]


def most_violated(iteration: Iteration, at_most: int, tolerance: float) -> NDArray[np.int64]:
    """Return the pairs, not yet among the edges, whose rows are violated most by the current rows; as positions."""
    net = iteration.network
    graph, epsilon = net.component.graph, net.component.epsilon
    excess = np.zeros(graph.n_pairs, dtype=np.float32)

    def some(first: int, last: int) -> None:
        _some_excess(
            first, last, graph.pairs, net.place, graph.distances, epsilon, iteration.Z, iteration.is_live, excess
        )

    in_threads(some, graph.n_pairs, is_large=iteration.is_large)
    excess[net.chosen] = 0.0
    bad = np.flatnonzero(excess > tolerance)
    if len(bad) > at_most:
        bad = bad[np.argpartition(-excess[bad], at_most)[:at_most]]
    return bad


@njit(cache=True, nogil=True)
def _some_excess(  # noqa: PLR0917
    first: int,
    last: int,
    pairs: NDArray[np.int32],
    place: NDArray[np.int64],
    distances: NDArray[np.float64],
    epsilon: float,
    Z: NDArray[np.float32],
    is_live: NDArray[np.uint64],
    excess: NDArray[np.float32],
) -> None:
    """Put the largest ``max(exp(-s) z_i - z_j, exp(-s) z_j - z_i)`` of each pair into ``excess``."""
    for p in range(first, last):
        i, j = place[pairs[p, 0]], place[pairs[p, 1]]
        decay = np.float32(np.exp(-epsilon * distances[p]))
        worst = ZERO
        for w in range(is_live.shape[1]):
            some = is_live[i, w] | is_live[j, w]
            while some:
                t = w * BITS + lowest_bit(some)
                some &= some - BIT
                for k in range(WIDTH):
                    zi, zj = max(Z[t, i, k], ZERO), max(Z[t, j, k], ZERO)
                    worst = max(worst, decay * zi - zj, decay * zj - zi)
        excess[p] = worst
