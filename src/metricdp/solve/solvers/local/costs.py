"""Costs of the entries in the windows, and what is cheapest outside of them.

Steps and bounds see costs ``S p_i c_ik - base_i``, rounded *down* to float32: less expensive reports are a relaxation,
so a bound for them holds. S makes costs of the order of epsilon d.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from metricdp.metric.simd import WIDTH
from metricdp.solve.solvers.firstorder.threads import in_threads
from metricdp.solve.solvers.local.geometry import BLOCK_ENTRIES, RELATIVE_ERROR, distance
from metricdp.solve.solvers.local.windows import distance_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from metricdp.problem.losses import Losses
    from metricdp.solve.solvers.local.problem import LocalProblem, Nodes
    from metricdp.solve.solvers.local.windows import Windows

SINGLE_DOWN = 1.0 - 2.0**-22  # relative; more than rounding to float32 can add


@dataclass(frozen=True, eq=False)
class WindowCosts:
    """What steps and bounds see.

    Parameters
    ----------
    far
        epsilon times the distance of each entry, float32, 8 per slot.
    costs
        ``unit p_i c_ik - base_i`` of each entry, not above the true value; the same array as ``far`` where it can be.
    base
        What was taken off each node's costs, shape (n,), in the same unit.
    outside
        Not above the cost, less the base, of anything that a node could report outside of its windows; infinite where
        there is nothing.
    unit
        Costs are in units of 1 / ``unit`` of the loss.
    """

    far: NDArray[np.float32]
    costs: NDArray[np.float32]
    base: NDArray[np.float64]
    outside: NDArray[np.float64]
    unit: float


def window_costs(
    nodes: Nodes, windows: Windows, radius: NDArray[np.float64], nearest: NDArray[np.float64]
) -> WindowCosts:
    """Return costs and distances of the windows, and the cheapest outside of them."""
    problem = nodes.problem
    covers_all = np.diff(windows.node_start) == windows.n_groups
    if problem.losses is None:
        unit, base = distance_base(nodes, nearest)
        costs = _weighted(nodes, windows, unit, base)
        outside = distance_outside(nodes, np.where(covers_all, 0.0, radius), nearest)
        level = unit * nodes.weight
        # the costs are the distances themselves, up to the last digits, if all nodes are equally likely
        is_plain = not base.any() and bool(np.allclose(level, problem.epsilon, rtol=1e-9))
        far = costs if is_plain else distances_of(nodes, windows)
    else:
        far = distances_of(nodes, windows)
        raw = np.empty(windows.n_slots * WIDTH)
        for low, block in slot_blocks(nodes, windows):
            raw[low * WIDTH : low * WIDTH + block.size] = block.ravel()
        base, top = _extremes(raw, windows)
        spread = float((top - base).sum())
        unit = float(_extremes(far, windows)[1].sum()) / spread if spread > 0.0 else 1.0
        base *= unit
        costs = _down(raw, windows, unit, base)
        outside = unit * (1.0 - RELATIVE_ERROR) * _cheapest_outside(nodes, windows, problem.losses) - base
    return WindowCosts(far, costs, base, np.where(covers_all, np.inf, outside), unit)


def distance_base(nodes: Nodes, nearest: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """Return the unit of costs that are distances, and what is taken off each node's: that of its nearest output."""
    unit = nodes.problem.epsilon / nodes.mean_weight
    return unit, unit * nodes.weight * nodes.problem.geometry.below(nearest)


def distance_outside(nodes: Nodes, radius: NDArray[np.float64], nearest: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a number not above what any output beyond each node's radius costs, less the base."""
    unit, base = distance_base(nodes, nearest)
    return unit * nodes.weight * nodes.problem.geometry.below(radius) * (1.0 - RELATIVE_ERROR) - base


def slot_blocks(nodes: Nodes, windows: Windows) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yield the prior-weighted losses of each group's members, group by group: the first slot, and (members, 8)."""
    problem = nodes.problem
    order, starts = problem.output_order, windows.group_start
    if problem.losses is not None:
        for g in range(windows.n_groups):
            low, high = starts[g], starts[g + 1]
            if high > low:
                rows, at = _records_of(nodes, windows.member[low:high])
                block = problem.losses.block(rows, order[g * WIDTH : (g + 1) * WIDTH])
                yield int(low), np.add.reduceat(problem.prior[rows, None] * block, at, axis=0)
        return
    for part, distances in distance_blocks(problem):
        for g in range(part.start // WIDTH, part.stop // WIDTH):
            low, high = starts[g], starts[g + 1]
            if high > low:
                rows, at = _records_of(nodes, windows.member[low:high])
                block = distances[rows, g * WIDTH - part.start : (g + 1) * WIDTH - part.start]
                yield int(low), np.add.reduceat(problem.prior[rows, None] * block, at, axis=0)


def _records_of(nodes: Nodes, members: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the records of some nodes, one node after the other, and where each begins."""
    sizes = nodes.start[members + 1] - nodes.start[members]
    at = np.cumsum(sizes) - sizes
    inside = np.arange(int(sizes.sum())) - np.repeat(at, sizes)
    return nodes.who[np.repeat(nodes.start[members], sizes) + inside], at


def _weighted(nodes: Nodes, windows: Windows, unit: float, base: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return costs of the metric's distances, rounded down."""
    problem = nodes.problem
    geometry = problem.geometry
    costs = np.empty(windows.n_slots * WIDTH, dtype=np.float32)
    if geometry.kind is None:
        raw = np.empty(windows.n_slots * WIDTH)
        for low, block in slot_blocks(nodes, windows):
            raw[low * WIDTH : low * WIDTH + block.size] = block.ravel()
        return _down(raw, windows, unit, base)
    outputs = np.ascontiguousarray(geometry.output_points[problem.output_order])
    share = unit * problem.prior

    def some(first: int, last: int) -> None:
        _measure(
            first,
            last,
            windows.group_start,
            windows.member,
            nodes.start,
            nodes.who,
            share,
            geometry.record_points,
            outputs,
            geometry.kind,
            geometry.error,
            base,
            costs,
        )

    in_threads(some, windows.n_groups, is_large=True)
    return costs


@njit(cache=True, nogil=True)
def _measure(  # noqa: PLR0917  (numba takes positions)
    first: int,
    last: int,
    group_start: NDArray[np.int64],
    member: NDArray[np.int32],
    start: NDArray[np.int64],
    who: NDArray[np.int64],
    share: NDArray[np.float64],
    P: NDArray[np.float64],
    Q: NDArray[np.float64],
    kind: int,
    error: float,
    base: NDArray[np.float64],
    costs: NDArray[np.float32],
) -> None:
    """Put the sum of ``share`` times distance over each member's records, less its base, into ``costs``."""
    for g in range(first, last):
        for s in range(group_start[g], group_start[g + 1]):
            i = member[s]
            for k in range(WIDTH):
                total = 0.0
                for r in range(start[i], start[i + 1]):
                    total += share[who[r]] * max(distance(P, who[r], Q, g * WIDTH + k, kind) - error, 0.0)
                value = total * (1.0 - RELATIVE_ERROR) - base[i]
                costs[s * WIDTH + k] = value * SINGLE_DOWN if value > 0.0 else value * (2.0 - SINGLE_DOWN)


def distances_of(nodes: Nodes, windows: Windows) -> NDArray[np.float32]:
    """Return epsilon times the distances of the entries."""
    problem = nodes.problem
    geometry, epsilon = problem.geometry, problem.epsilon
    if geometry.kind is None:
        far = np.empty(windows.n_slots * WIDTH, dtype=np.float32)
        for part, block in distance_blocks(problem):
            for g in range(part.start // WIDTH, part.stop // WIDTH):
                low, high = windows.group_start[g], windows.group_start[g + 1]
                rows = nodes.first[windows.member[low:high]]
                column = g * WIDTH - part.start
                far[low * WIDTH : high * WIDTH] = (epsilon * block[rows, column : column + WIDTH]).ravel()
        return far
    one = np.arange(nodes.n + 1, dtype=np.int64)
    far = np.empty(windows.n_slots * WIDTH, dtype=np.float32)
    points = np.ascontiguousarray(geometry.record_points[nodes.first])
    outputs = np.ascontiguousarray(geometry.output_points[problem.output_order])
    weight, zero = np.full(nodes.n, epsilon), np.zeros(nodes.n)

    def some(first: int, last: int) -> None:
        _measure(
            first,
            last,
            windows.group_start,
            windows.member,
            one,
            one,
            weight,
            points,
            outputs,
            geometry.kind,
            0.0,
            zero,
            far,
        )

    in_threads(some, windows.n_groups, is_large=True)
    return far


def _extremes(values: NDArray[Any], windows: Windows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return each node's least and largest value."""
    blocks = values.reshape(-1, WIDTH)
    least, largest = blocks.min(axis=1)[windows.slot], blocks.max(axis=1)[windows.slot]
    at = windows.node_start[:-1]
    return (
        np.minimum.reduceat(least, at).astype(np.float64),
        np.maximum.reduceat(largest, at).astype(np.float64),
    )


def _down(raw: NDArray[np.float64], windows: Windows, unit: float, base: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return ``unit raw - base``, rounded down."""
    blocks = raw.reshape(-1, WIDTH)
    blocks *= unit * (1.0 - RELATIVE_ERROR)
    blocks -= base[windows.member, None]
    return np.where(raw > 0.0, raw * SINGLE_DOWN, raw * (2.0 - SINGLE_DOWN)).astype(np.float32)


def _all_blocks(problem: LocalProblem, losses: Losses) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Yield the losses of all records and a few outputs in kd order: which outputs, and the block."""
    order, rows = problem.output_order, np.arange(problem.n_records)
    step = WIDTH * max(1, BLOCK_ENTRIES // (WIDTH * problem.n_records))
    for first in range(0, len(order), step):
        part = slice(first, min(first + step, len(order)))
        yield part, losses.block(rows, order[part])


def _cheapest_outside(nodes: Nodes, windows: Windows, losses: Losses) -> NDArray[np.float64]:
    """Return the least prior-weighted loss of each node outside of its windows, from all losses in blocks."""
    cheapest = np.full(nodes.n, np.inf)
    for part, block in _all_blocks(nodes.problem, losses):
        weighted = nodes.problem.prior[nodes.who, None] * block[nodes.who]
        totals = np.add.reduceat(weighted, nodes.start[:-1], axis=0).reshape(nodes.n, -1, WIDTH).min(axis=2)
        for g in range(part.start // WIDTH, part.stop // WIDTH):
            inside = windows.member[windows.group_start[g] : windows.group_start[g + 1]]
            totals[inside, g - part.start // WIDTH] = np.inf
        np.minimum(cheapest, totals.min(axis=1), out=cheapest)
    return cheapest
