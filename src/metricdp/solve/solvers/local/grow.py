"""Windows that grow where they are too small: where a price or some of the mass reaches their rim."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from metricdp.metric.simd import WIDTH

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.solvers.local.iterate import Iteration

NEAR_THE_LIMIT = 0.9  # of what the cheapest report outside of the windows costs
RIM = 1.0  # epsilon d: how broad the rim is
RIM_MASS = 0.01  # of a row, in the rim
GROWTH = 1.5  # of a radius
UNEVEN = 2.0  # the largest weight over the smallest, from which prices depend on neighbours
FILLED = 0.25  # of all entries
MOST_AT_START = 4.0  # times a radius


def too_small(iteration: Iteration, prices: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which nodes' windows limit their price or hold mass at the rim."""
    net = iteration.network
    member, costs = net.windows.member, net.costs
    open_ = np.isfinite(costs.outside)
    is_limited = open_ & (net.nodes.weight > 0.0) & (prices > NEAR_THE_LIMIT * costs.outside)
    rim = (net.nodes.problem.epsilon * net.radius - RIM).astype(np.float32)
    at_rim = np.where(costs.far.reshape(-1, WIDTH) > rim[member, None], iteration.Z.reshape(-1, WIDTH), 0.0)
    mass = np.bincount(member, weights=at_rim.sum(axis=1), minlength=net.nodes.n)
    return is_limited | (open_ & (mass > RIM_MASS))


def radius_by_prices(
    iteration: Iteration, prices: NDArray[np.float64], *, may_fill: bool = True
) -> NDArray[np.float64]:
    """Return radii at which the cheapest report outside costs more than the given prices.

    Where a node is less likely than its neighbours, they set its price: its windows must reach farther. If windows hold
    a good part of all entries anyway, they take all, and nothing is outside (``may_fill``; not for parts of a problem).
    """
    net = iteration.network
    outside = net.costs.outside
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = prices / (NEAR_THE_LIMIT * outside)
    is_uneven = net.nodes.weight.max() > UNEVEN * net.nodes.weight.min()
    if may_fill and is_uneven and net.windows.n_slots > FILLED * net.windows.n_nodes * net.windows.n_groups:
        return np.full_like(net.radius, np.inf)
    is_limited = np.isfinite(outside) & (outside > 0.0) & (factor > 1.0)
    return net.radius * np.where(is_limited, np.minimum(factor, MOST_AT_START), 1.0)


def take_over(old: Iteration, new: Iteration) -> None:
    """Begin the new iteration with the rows and multipliers of the old one, on windows that contain its windows."""
    before, after = old.network, new.network
    new.Z[:] = 0.0
    _copy_slots(
        before.windows.group_start, before.windows.member, after.windows.group_start, after.windows.member, old.Z, new.Z
    )
    _copy_edges(before.edges.group_start, before.edges.edge, after.edges.group_start, after.edges.edge, old.Y, new.Y)
    new.theta[:] = old.theta
    new.steps = old.steps
    new.ahead[:] = new.Z
    new.take_multipliers()


@njit(cache=True, nogil=True)
def _copy_slots(  # noqa: PLR0917  (numba takes positions)
    old_start: NDArray[np.int64],
    old_member: NDArray[np.int32],
    new_start: NDArray[np.int64],
    new_member: NDArray[np.int32],
    old: NDArray[np.float32],
    new: NDArray[np.float32],
) -> None:
    for g in range(len(old_start) - 1):
        to = new_start[g]
        for s in range(old_start[g], old_start[g + 1]):
            while new_member[to] < old_member[s]:
                to += 1
            for k in range(WIDTH):
                new[to * WIDTH + k] = old[s * WIDTH + k]


@njit(cache=True, nogil=True)
def _copy_edges(  # noqa: PLR0917
    old_start: NDArray[np.int64],
    old_edge: NDArray[np.int32],
    new_start: NDArray[np.int64],
    new_edge: NDArray[np.int32],
    old: NDArray[np.float32],
    new: NDArray[np.float32],
) -> None:
    for g in range(len(old_start) - 1):
        to = new_start[g]
        for c in range(old_start[g], old_start[g + 1]):
            while new_edge[to] < old_edge[c]:
                to += 1
            for k in range(WIDTH):
                new[to * WIDTH + k] = old[c * WIDTH + k]
