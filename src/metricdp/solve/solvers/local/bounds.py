"""The lower bound for the full problem from multipliers on the windows.

For any multipliers y every mechanism has a loss of at least ``sum_i min_k (C + A'y)_ik`` over *all* outputs. Outside of
the windows multipliers are 0, so ``L = sum_i [base_i + min(min over the windows of (C - base + A'y)_ik, outside_i)]``,
where ``outside_i`` is not above any cost there. Float32 multipliers are exact in float64. Each term of an entry's sum
carries at most 4 roundings (the multiplier times the row's unit, times the decay) and n terms are added, so the sum is
off by at most ``(n + 4) u sum |terms|`` to first order; 8 more are taken for the margin's own and second order. Costs
and decays are rounded down where they are computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from metricdp.metric.simd import WIDTH
from metricdp.solve.solvers.firstorder.threads import in_threads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.solvers.local.iterate import Iteration
    from metricdp.solve.solvers.local.network import Network

UNIT = 2.0**-53
OWN_ROUNDINGS = 12.0


def node_bounds(network: Network, Y: NDArray[np.float32], *, is_large: bool) -> NDArray[np.float64]:
    """Return what each node adds to the bound, less its base: not above the true value; in the costs' unit."""
    inside = least_inside(network, Y, range(network.windows.n_groups), is_large=is_large)
    return np.minimum(inside, network.costs.outside)


def least_inside(network: Network, Y: NDArray[np.float32], groups: range, *, is_large: bool) -> NDArray[np.float64]:
    """Return each node's least reduced cost among some groups of outputs; infinite where it is in none of them."""
    windows, edges, n = network.windows, network.edges, network.nodes.n
    least = np.empty(windows.n_slots)
    degree = np.bincount(np.concatenate((network.tail, network.head)), minlength=n).astype(np.float64)
    unit = network.b.astype(np.float64)

    def some(first: int, last: int) -> None:
        scratch = np.empty((2, windows.largest * WIDTH))
        _least(
            first,
            last,
            windows.group_start,
            windows.member,
            edges.group_start,
            edges.tail,
            edges.head,
            edges.edge,
            network.decay,
            unit,
            network.costs.costs,
            Y,
            degree,
            scratch,
            least,
        )

    in_threads(lambda a, b: some(groups.start + a, groups.start + b), len(groups), is_large=is_large)
    slots = slice(windows.group_start[groups.start], windows.group_start[groups.stop])
    inside = np.full(n, np.inf)
    np.minimum.at(inside, windows.member[slots], least[slots])
    return inside


def bound_of(least: NDArray[np.float64], base: NDArray[np.float64], unit: float) -> float:
    """Return a number that is never above the optimum of the full problem, from what each node adds to its base."""
    if not np.isfinite(least).all():  # multipliers that have run away prove nothing
        return 0.0
    total = math.fsum(least) + math.fsum(base)
    size = math.fsum(np.abs(least)) + math.fsum(base)
    # bases and sums are rounded by less than this
    total -= 64.0 * UNIT * size
    return max(0.0, total / unit * (1.0 - 8.0 * UNIT))


def certified_bound(iteration: Iteration) -> tuple[float, NDArray[np.float64]]:
    """Return the bound of the current multipliers, and what each node adds."""
    least = node_bounds(iteration.network, iteration.Y, is_large=iteration.is_large)
    costs = iteration.network.costs
    return bound_of(least, costs.base, costs.unit), least


@njit(cache=True, nogil=True)
def _least(  # noqa: PLR0917  (numba takes positions)
    first: int,
    last: int,
    group_start: NDArray[np.int64],
    member: NDArray[np.int32],
    edge_start: NDArray[np.int64],
    tail: NDArray[np.uint16],
    head: NDArray[np.uint16],
    edge: NDArray[np.int32],
    decay: NDArray[np.float64],
    unit: NDArray[np.float64],
    costs: NDArray[np.float32],
    Y: NDArray[np.float32],
    degree: NDArray[np.float64],
    scratch: NDArray[np.float64],
    least: NDArray[np.float64],
) -> None:
    """Put each slot's least reduced cost, less its margin, into ``least``; the scratch has values and sizes."""
    for g in range(first, last):
        base, count = group_start[g], group_start[g + 1] - group_start[g]
        for c in range(count * WIDTH):
            value = float(costs[base * WIDTH + c])
            scratch[0, c], scratch[1, c] = value, abs(value)
        for c in range(edge_start[g], edge_start[g + 1]):
            e = edge[c]
            i, j = tail[c] * WIDTH, head[c] * WIDTH
            for k in range(WIDTH):
                # who is asked to have less pays the decayed amount, the other gains all of it
                amount = float(Y[c * WIDTH + k]) * unit[e]
                part = amount * decay[e]
                up, down = (part, amount) if amount > 0.0 else (amount, part)
                scratch[0, i + k] += up
                scratch[1, i + k] += abs(up)
                scratch[0, j + k] -= down
                scratch[1, j + k] += abs(down)
        for s in range(count):
            roundings = (degree[member[base + s]] + OWN_ROUNDINGS) * (1.001 * UNIT)
            lowest = np.inf
            for k in range(WIDTH):
                value = scratch[0, s * WIDTH + k] - roundings * scratch[1, s * WIDTH + k]
                if not value >= lowest:  # also where it is no number: that must not be lost
                    lowest = value if value == value else -np.inf  # noqa: PLR0124  (only NaN is not itself)
            least[base + s] = lowest
