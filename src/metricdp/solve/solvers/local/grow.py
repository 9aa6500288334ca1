"""Windows that grow where they are too small: where a price or some of the mass reaches their rim."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from metricdp.metric.simd import WIDTH

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.solvers.local.iterate import Iteration
    from metricdp.solve.solvers.local.network import Network
    from metricdp.solve.solvers.local.problem import Nodes

LIMITED_SHARE = 0.1  # of the gap, that windows may cost the bound where prices reach their limit
NEAR_THE_LIMIT = 0.9  # of what the cheapest report outside of the windows costs
RIM = 1.0  # epsilon d: how broad the rim is
RIM_MASS = 0.01  # of a row, in the rim
GROWTH = 1.5  # of a radius
UNEVEN = 2.0  # the largest weight over the smallest, from which prices depend on neighbours
FILLED = 0.25  # of all entries
SLOPE = 4.0  # by which radii may fall per unit of distance: with 1 windows hold twice as much at the same gap
ABOVE = 1e-3  # so that no way has length 0
MOST_AT_START = 4.0  # times a radius


def too_small(iteration: Iteration, prices: NDArray[np.float64], gap: float) -> NDArray[np.bool_]:
    """Return which nodes' windows limit their price, so that it matters for the gap, or hold mass at the rim."""
    net = iteration.network
    member, costs = net.windows.member, net.costs
    open_ = np.isfinite(costs.outside)
    is_limited = _limited(net, prices, gap)
    rim = (net.nodes.problem.epsilon * net.radius - RIM).astype(np.float32)
    at_rim = np.where(costs.far.reshape(-1, WIDTH) > rim[member, None], iteration.Z.reshape(-1, WIDTH), 0.0)
    mass = np.bincount(member, weights=at_rim.sum(axis=1), minlength=net.nodes.n)
    return is_limited | (open_ & (mass > RIM_MASS))


def _limited(net: Network, prices: NDArray[np.float64], gap: float) -> NDArray[np.bool_]:
    """Return which nodes' prices reach the cheapest report outside; those that cost the bound least are left out.

    What is above it is lost to the bound: of the least unlikely records next to nothing, however far they would reach.
    """
    outside = net.costs.outside
    with np.errstate(invalid="ignore"):
        lost = np.where(np.isfinite(outside), np.maximum(prices - NEAR_THE_LIMIT * outside, 0.0), 0.0)
    order = np.argsort(lost, kind="stable")
    allowed = LIMITED_SHARE * gap * max(float((prices + net.costs.base).sum()), 0.0)
    is_limited = np.zeros(len(lost), dtype=bool)
    is_limited[order] = np.cumsum(lost[order]) > allowed
    return is_limited & (lost > 0.0) & (net.nodes.weight > 0.0)


def radius_by_prices(
    iteration: Iteration, prices: NDArray[np.float64], gap: float, *, may_fill: bool = True
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
    is_limited = _limited(net, prices, gap) & (outside > 0.0) & (factor > 1.0)
    return net.radius * np.where(is_limited, np.minimum(factor, MOST_AT_START), 1.0)


def without_holes(nodes: Nodes, radius: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return radii that fall by no more than ``SLOPE`` times the way between neighbours: the largest of cones.

    A node with a large window among nodes with small ones could report far outputs that its neighbours cannot. In the
    steps nothing ties it to them there, so the rows are not nearly private; and in the table all of that mass stands at
    a rim and becomes background. 800 places of which some are a million times as likely as others lost 0.44 that way
    where the rows lost 0.075, and 0.084 with cones.
    """
    top = float(radius.max()) * (1.0 + ABOVE)
    if not np.isfinite(top):
        return radius
    # the largest cone is the shortest way from a point above the highest
    matrix, n = nodes.graph.adjacency, nodes.n
    start = np.concatenate((matrix.indptr, [matrix.nnz + n]))
    heads = np.concatenate((matrix.indices, np.arange(n)))
    lengths = np.concatenate((SLOPE * matrix.data, top - radius))
    graph = csr_array((lengths, heads, start), shape=(n + 1, n + 1))
    return np.maximum(radius, top - dijkstra(graph, indices=n)[:n])


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
