"""Lower bounds from the edges' multipliers, and the pairs that the rows violate.

The bound is that of `metricdp.solve.bounds` for the same multipliers: ``sum_i min_k (C + A'y)_ik`` in float64, less
what rounding can have added. It holds for the whole problem, since pairs that take no part only have multipliers 0.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit, prange

from metricdp.solve.solvers.firstorder.kernels import BIT, BITS, ROWS_PER_TASK, ZERO, n_tasks
from metricdp.solve.solvers.firstorder.tiles import WIDTH, lowest_bit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.solvers.firstorder.iterate import Iteration

UNIT = 2.0**-53
OWN_ROUNDINGS = 8.0  # of each term: the multiplier's products, and the margin's own


def certified_bound(iteration: Iteration) -> float:
    """Return a number that is never above the optimum of the whole component."""
    net = iteration.network
    least = np.empty(net.n)
    arguments = (*_problem_of(iteration), net.component.cost_roundings + OWN_ROUNDINGS, least)
    (_least_costs_in_parallel if iteration.is_large else _least_costs)(n_tasks(net.n), arguments)
    if not np.isfinite(least).all():  # multipliers that have run away prove nothing
        return 0.0
    # losses are not negative, so neither is any expected loss
    return max(0.0, math.nextafter(math.fsum(least), -math.inf))


def _problem_of(iteration: Iteration) -> tuple[Any, ...]:
    """Return what the kernels below need of the network and the multipliers."""
    net = iteration.network
    return (
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
    )


def unit_duals(iteration: Iteration) -> NDArray[np.float64]:
    """Return each record's reduced cost, averaged with its row: nearer to the unit sums' duals than the least one."""
    net = iteration.network
    reduced = np.zeros((net.n, net.K))
    _reduced_costs(_problem_of(iteration), reduced)
    rows = np.maximum(iteration.Z.transpose(1, 0, 2).reshape(net.n, -1)[:, : net.K], 0.0).astype(np.float64)
    duals = np.empty(net.n)
    duals[net.order] = (rows * reduced).sum(axis=1) / rows.sum(axis=1)
    return duals


@njit(parallel=True, cache=True, nogil=True)
def _least_costs_in_parallel(tasks: int, arguments: Any) -> None:
    for task in prange(tasks):
        _some_least_costs(task, *arguments)


@njit(cache=True, nogil=True)
def _least_costs(tasks: int, arguments: Any) -> None:
    for task in range(tasks):
        _some_least_costs(task, *arguments)


@njit(cache=True, nogil=True)
def _reduce(  # noqa: PLR0917  (numba takes positions)
    i: int,
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
    value: NDArray[np.float64],
    size: NDArray[np.float64],
    terms: NDArray[np.float64],
) -> None:
    """Put the reduced costs of row i into ``value``, the sizes and numbers of their terms into the other two."""
    for k in range(len(outputs)):
        value[k] = costs[order[i], outputs[k]]
        size[k] = abs(value[k])
        terms[k] = 0.0
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
                    value[t * WIDTH + k] += part
                    size[t * WIDTH + k] += abs(part)
                    terms[t * WIDTH + k] += 1.0


@njit(cache=True, nogil=True)
def _some_least_costs(task: int, *arguments: Any) -> None:
    """Find the least reduced cost, less its margin, of each row of one task."""
    problem, roundings, least = arguments[:-2], arguments[-2], arguments[-1]
    n, K = len(problem[1]), len(problem[2])
    value, size, terms = np.zeros((3, problem[-1].shape[1] * BITS * WIDTH))
    for i in range(task * ROWS_PER_TASK, min(n, (task + 1) * ROWS_PER_TASK)):
        _reduce(i, *problem, value, size, terms)
        lowest = np.inf
        for k in range(K):
            margin = (terms[k] + roundings) * (1.001 * UNIT) * size[k]
            reduced = value[k] - margin
            if not reduced >= lowest:  # also where it is no number: that must not be lost
                lowest = reduced if reduced == reduced else -np.inf  # noqa: PLR0124  (only NaN is not itself)
        least[i] = lowest


@njit(cache=True, nogil=True)
def _reduced_costs(problem: Any, reduced: NDArray[np.float64]) -> None:
    """Put all reduced costs into ``reduced``."""
    value, size, terms = np.zeros((3, problem[-1].shape[1] * BITS * WIDTH))
    for i in range(len(reduced)):
        _reduce(i, *problem, value, size, terms)
        reduced[i] = value[: reduced.shape[1]]


def most_violated(iteration: Iteration, at_most: int, tolerance: float) -> NDArray[np.int64]:
    """Return the pairs, not yet among the edges, whose rows are violated most by the current rows; as positions."""
    net = iteration.network
    graph, epsilon = net.component.graph, net.component.epsilon
    excess = np.zeros(graph.n_pairs, dtype=np.float32)
    arguments = (graph.pairs, net.place, graph.distances, epsilon, iteration.Z, iteration.is_live, excess)
    (_excess_in_parallel if iteration.is_large else _excess)(n_tasks(graph.n_pairs), arguments)
    excess[net.chosen] = 0.0
    bad = np.flatnonzero(excess > tolerance)
    if len(bad) > at_most:
        bad = bad[np.argpartition(-excess[bad], at_most)[:at_most]]
    return bad


@njit(parallel=True, cache=True, nogil=True)
def _excess_in_parallel(tasks: int, arguments: Any) -> None:
    for task in prange(tasks):
        _some_excess(task, *arguments)


@njit(cache=True, nogil=True)
def _excess(tasks: int, arguments: Any) -> None:
    for task in range(tasks):
        _some_excess(task, *arguments)


@njit(cache=True, nogil=True)
def _some_excess(  # noqa: PLR0917
    task: int,
    pairs: NDArray[np.int32],
    place: NDArray[np.int64],
    distances: NDArray[np.float64],
    epsilon: float,
    Z: NDArray[np.float32],
    is_live: NDArray[np.uint64],
    excess: NDArray[np.float32],
) -> None:
    """Put the largest ``max(exp(-s) z_i - z_j, exp(-s) z_j - z_i)`` of each pair into ``excess``."""
    for p in range(task * ROWS_PER_TASK, min(len(pairs), (task + 1) * ROWS_PER_TASK)):
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
