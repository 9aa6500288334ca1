"""Multipliers that meet given prices, output by output: the first ones, and better ones for a bound.

With prices theta (one per node) the bound is their sum if ``C + A'y >= theta`` everywhere. For one output, nodes that
are far from it have costs above their price and nodes that are near have costs below it. A multiplier on an edge takes
from one node what, decayed, the other gains. So from far to near each node passes its surplus to neighbours that are
nearer to the output, and a node below its price first takes back what it has passed on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from metricdp.errors import StoppedError
from metricdp.metric.simd import WIDTH
from metricdp.metric.thin import sort_positions
from metricdp.solve.solvers.firstorder.threads import in_threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from metricdp.solve.solvers.local.iterate import Iteration
    from metricdp.solve.solvers.local.network import Network

ROUNDS = 5  # of prices: the residual hardly falls after that
FIRST_PRICE = 2.0  # times the weight over its mean: the loss of a plane's kernel, in units of 1 / epsilon
DETOUR = 0.1  # epsilon d: a neighbour gets about half as much if the way over it is so much longer
NEGLIGIBLE_SHARE = 1e-3  # of a surplus: what would get less gets nothing
LEAST_SURPLUS = 1e-7
GROUPS_AT_ONCE = 64  # between two looks at the clock


def kernel_prices(iteration: Iteration) -> NDArray[np.float64]:
    """Return prices for which each output's costs under the kernel ``exp(-epsilon d)`` are nearly met.

    Columns of a good mechanism are near ``exp(-epsilon d)``, and complementary slackness makes the reduced costs along
    a column sum to 0: ``sum_i exp(-epsilon d_ik) (C_ik - theta_i) = 0`` for each output, by damped rounds.
    """
    net = iteration.network
    member, group_start, n = net.windows.member, net.windows.group_start, net.nodes.n
    kernel = np.exp(-net.costs.far).reshape(-1, WIDTH)
    costs = net.costs.costs.reshape(-1, WIDTH)
    some = np.flatnonzero(np.diff(group_start) > 0)
    group = np.repeat(np.arange(len(group_start) - 1), np.diff(group_start))

    def down(values: NDArray[np.float32]) -> NDArray[np.float64]:
        total = np.zeros((len(group_start) - 1, WIDTH))
        total[some] = np.add.reduceat(values, group_start[some], axis=0, dtype=np.float64)
        return total

    mass = np.maximum(down(kernel), 1e-30)
    mean = down(kernel * costs) / mass
    total = np.bincount(member, weights=kernel.sum(axis=1), minlength=n)
    theta = FIRST_PRICE * net.nodes.level
    for _ in range(ROUNDS):
        residual = mean - down(kernel * theta[member, None].astype(np.float32)) / mass
        up = np.einsum("ij,ij->i", kernel, residual.astype(np.float32)[group])
        theta = theta + np.bincount(member, weights=up, minlength=n) / np.maximum(total, 1e-30)
    return theta


def complete(
    network: Network,
    Y: NDArray[np.float32],
    theta: NDArray[np.float64],
    *,
    sweeps: int,
    is_large: bool,
    groups: range | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """Change multipliers so that they meet the prices ``theta`` as well as some sweeps from far to near can.

    ``groups`` are those whose multipliers are changed; all by default.
    """
    windows, edges = network.windows, network.edges
    unit = network.b.astype(np.float64)
    most = int(np.diff(edges.group_start).max(initial=0))

    def some(first: int, last: int) -> None:
        members = windows.largest
        _complete(
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
            network.exponent,
            network.costs.far,
            network.costs.costs,
            theta,
            sweeps,
            Y,
            np.empty(members + 1, np.int64),
            np.empty((2, 2 * most), np.int32),
            np.empty((2, members)),
            np.empty(members, np.int64),
            np.empty(2 * most),
        )

    which = range(windows.n_groups) if groups is None else groups
    for low in range(which.start, which.stop, GROUPS_AT_ONCE):
        if is_over():
            raise StoppedError("a completion was interrupted")
        high = min(low + GROUPS_AT_ONCE, which.stop)
        in_threads(lambda a, b, low=low: some(low + a, low + b), high - low, is_large=is_large)  # type: ignore[misc]


@njit(cache=True, nogil=True)
def _list_links(  # noqa: PLR0917  (numba takes positions)
    first: int,
    last: int,
    members: int,
    tail: NDArray[np.uint16],
    head: NDArray[np.uint16],
    start: NDArray[np.int64],
    links: NDArray[np.int32],
) -> None:
    """List the edges of a group at both ends: the other's position, and the edge, negative (-1 - c) at its head."""
    for s in range(members + 1):
        start[s] = 0
    for c in range(first, last):
        start[tail[c]] += 1
        start[head[c]] += 1
    total = 0
    for s in range(members + 1):
        total += start[s]
        start[s] = total
    for c in range(first, last):
        i, j = tail[c], head[c]
        start[i] -= 1
        links[0, start[i]], links[1, start[i]] = j, c - first
        start[j] -= 1
        links[0, start[j]], links[1, start[j]] = i, -1 - (c - first)


@njit(cache=True, nogil=True)
def _complete(  # noqa: PLR0917
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
    exponent: NDArray[np.float64],
    far: NDArray[np.float32],
    costs: NDArray[np.float32],
    theta: NDArray[np.float64],
    sweeps: int,
    Y: NDArray[np.float32],
    start: NDArray[np.int64],
    links: NDArray[np.int32],
    scratch: NDArray[np.float64],
    order: NDArray[np.int64],
    share: NDArray[np.float64],
) -> None:
    """Complete the multipliers of some groups; the last five arrays are scratch."""
    surplus, away = scratch[0], scratch[1]
    for g in range(first, last):
        base, count = group_start[g], group_start[g + 1] - group_start[g]
        low, high = edge_start[g], edge_start[g + 1]
        _list_links(low, high, count, tail, head, start, links)
        for k in range(WIDTH):
            for s in range(count):
                at = (base + s) * WIDTH + k
                away[s], surplus[s] = far[at], costs[at] - theta[member[base + s]]
            for c in range(low, high):
                amount = Y[c * WIDTH + k] * unit[edge[c]]
                part = decay[edge[c]] * amount
                surplus[tail[c]] += max(part, 0.0) + min(amount, 0.0)
                surplus[head[c]] -= max(amount, 0.0) + min(part, 0.0)
            sort_positions(order, away, 0, count)
            for _ in range(sweeps):
                for place in range(count - 1, -1, -1):
                    j = order[place]
                    if surplus[j] < 0.0:
                        _take_back(j, k, low, start, links, edge, decay, unit, Y, surplus)
                    elif surplus[j] > LEAST_SURPLUS:
                        _pass_on(j, k, low, start, links, edge, decay, unit, exponent, away, Y, surplus, share)


@njit(cache=True, nogil=True)
def _take_back(  # noqa: PLR0917
    j: int,
    k: int,
    low: int,
    start: NDArray[np.int64],
    links: NDArray[np.int32],
    edge: NDArray[np.int32],
    decay: NDArray[np.float64],
    unit: NDArray[np.float64],
    Y: NDArray[np.float32],
    surplus: NDArray[np.float64],
) -> None:
    """Lower what a node below its price passes on, by one share for all."""
    total = 0.0
    for f in range(start[j], start[j + 1]):
        c = links[1, f]
        # the head passes to the tail where y > 0, the tail to the head where y < 0
        y = Y[(low - 1 - c) * WIDTH + k] if c < 0 else -Y[(low + c) * WIDTH + k]
        if y > 0.0:
            total += y * unit[edge[low - 1 - c] if c < 0 else edge[low + c]]
    if total <= 0.0:
        return
    part = min(1.0, -surplus[j] / total)
    for f in range(start[j], start[j + 1]):
        c = links[1, f]
        at = low - 1 - c if c < 0 else low + c
        y = Y[at * WIDTH + k] if c < 0 else -Y[at * WIDTH + k]
        if y > 0.0:
            kept = np.float32(y * (1.0 - part))
            back = (float(y) - float(kept)) * unit[edge[at]]
            surplus[j] += back
            surplus[links[0, f]] -= decay[edge[at]] * back
            Y[at * WIDTH + k] = kept if c < 0 else -kept


@njit(cache=True, nogil=True)
def _pass_on(  # noqa: PLR0917
    j: int,
    k: int,
    low: int,
    start: NDArray[np.int64],
    links: NDArray[np.int32],
    edge: NDArray[np.int32],
    decay: NDArray[np.float64],
    unit: NDArray[np.float64],
    exponent: NDArray[np.float64],
    away: NDArray[np.float64],
    Y: NDArray[np.float32],
    surplus: NDArray[np.float64],
    share: NDArray[np.float64],
) -> None:
    """Share a node's surplus out among neighbours nearer to the output, most to those on the shortest ways."""
    shortest = np.inf
    for f in range(start[j], start[j + 1]):
        i, c = links[0, f], links[1, f]
        share[f] = 0.0
        if away[i] < away[j]:
            at = low - 1 - c if c < 0 else low + c
            share[f] = away[i] + exponent[edge[at]]
            shortest = min(shortest, share[f])
    if shortest == np.inf:
        return
    total = 0.0
    for f in range(start[j], start[j + 1]):
        if share[f] > 0.0:
            longer = 1.0 + (share[f] - shortest) * (0.25 / DETOUR)
            share[f] = 1.0 / (longer * longer * longer * longer)
            total += share[f]
    have = surplus[j]
    for f in range(start[j], start[j + 1]):
        if share[f] < NEGLIGIBLE_SHARE * total:
            continue
        i, c = links[0, f], links[1, f]
        at = low - 1 - c if c < 0 else low + c
        e = edge[at]
        amount = have * share[f] / total
        y = float(Y[at * WIDTH + k]) if c < 0 else -float(Y[at * WIDTH + k])
        if y < 0.0:
            # the other passes to j: less of that first
            back = min(-y * unit[e], amount)
            surplus[i] += back
            surplus[j] -= decay[e] * back
            y += back / unit[e]
            amount -= back
        surplus[j] -= amount
        surplus[i] += decay[e] * amount
        y += amount / unit[e]
        Y[at * WIDTH + k] = y if c < 0 else -y
