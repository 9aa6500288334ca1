"""Kernels of the repair: distances to the rim of a window, and the closure of columns over a background."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from metricdp.metric.simd import WIDTH, raise_to
from metricdp.metric.thin import sort_positions

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCALE_BITS, TOTAL_BITS = 26, 63
GRAIN = 2.0 ** (SCALE_BITS - TOTAL_BITS)  # the least positive entry, and the unit of the background
NEGLIGIBLE_ENTRY = 2.0**-40


@njit(cache=True, nogil=True)
def rim_some(  # noqa: PLR0917  (numba takes positions)
    first: int,
    last: int,
    group_start: NDArray[np.int64],
    member: NDArray[np.int32],
    start: NDArray[np.int64],
    head: NDArray[np.int32],
    length: NDArray[np.float64],
    far: NDArray[np.float32],
    place: NDArray[np.int32],
    ranks: NDArray[np.int64],
    away: NDArray[np.float64],
    order: NDArray[np.uint16],
    to_rim: NDArray[np.float64],
) -> None:
    """Sort each group's members by their distance, and find their path distance to the outside of the window."""
    for g in range(first, last):
        low, count = group_start[g], group_start[g + 1] - group_start[g]
        for s in range(count):
            place[member[low + s]] = s
            to_rim[low + s] = np.inf
            away[s] = far[(low + s) * WIDTH]
        sort_positions(ranks, away, 0, count)
        for s in range(count):
            order[low + s] = ranks[s]
        changed = True
        while changed:
            changed = False
            for rank in range(count - 1, -1, -1):
                s = ranks[rank]
                i = member[low + s]
                best = to_rim[low + s]
                for e in range(start[i], start[i + 1]):
                    other = place[head[e]]
                    way = length[e] if other < 0 else length[e] + to_rim[low + other]
                    if way < best:
                        best = way
                        changed = True
                to_rim[low + s] = best
        for s in range(count):
            place[member[low + s]] = -1


@njit(cache=True, nogil=True)
def spread_some(  # noqa: PLR0917
    first: int,
    last: int,
    group_start: NDArray[np.int64],
    member: NDArray[np.int32],
    own_start: NDArray[np.int64],
    own_member: NDArray[np.int32],
    target: NDArray[np.int64],
    share: NDArray[np.float64],
    place: NDArray[np.int64],
    Z: NDArray[np.float32],
    H: NDArray[np.float64],
) -> None:
    """Add rows of finer nodes to those of their targets; what is negligible or outside is left out."""
    for g in range(first, last):
        for s in range(own_start[g], own_start[g + 1]):
            place[own_member[s]] = s
        for s in range(group_start[g], group_start[g + 1]):
            i = member[s]
            to = place[target[i]] if target[i] >= 0 else -1
            if to >= 0:
                for k in range(WIDTH):
                    z = share[i] * Z[s * WIDTH + k]
                    if z > NEGLIGIBLE_ENTRY:
                        H[to * WIDTH + k] += z
        for s in range(own_start[g], own_start[g + 1]):
            place[own_member[s]] = -1


@njit(cache=True, nogil=True)
def _ends(H: NDArray[np.float64], at: int) -> tuple[float, float]:
    """Return the largest and the smallest of 8 entries."""
    top = bottom = H[at]
    for k in range(1, WIDTH):
        top, bottom = max(top, H[at + k]), min(bottom, H[at + k])
    return top, bottom


@njit(cache=True, nogil=True)
def _fill_components(  # noqa: PLR0917
    H: NDArray[np.float64],
    k: int,
    low: int,
    count: int,
    member: NDArray[np.int32],
    label: NDArray[np.int32],
    is_touched: NDArray[np.bool_],
) -> None:
    """Raise a column without background to the grain on every component on which it is positive anywhere."""
    for s in range(low, low + count):
        if H[s * WIDTH + k] > 0.0:
            is_touched[label[member[s]]] = True
    for s in range(low, low + count):
        if is_touched[label[member[s]]]:
            H[s * WIDTH + k] = max(H[s * WIDTH + k], GRAIN)
    for s in range(low, low + count):
        is_touched[label[member[s]]] = False


@njit(cache=True, nogil=True)
def _start(  # noqa: PLR0917
    g: int,
    low: int,
    count: int,
    member: NDArray[np.int32],
    cap: NDArray[np.float64],
    to_rim: NDArray[np.float64],
    label: NDArray[np.int32],
    b: NDArray[np.float64],
    is_touched: NDArray[np.bool_],
    H: NDArray[np.float64],
) -> None:
    """Raise the columns of a group to the background, and lower them to the most that it allows."""
    for k in range(WIDTH):
        floor = b[g * WIDTH + k]
        if floor == 0.0:
            _fill_components(H, k, low, count, member, label, is_touched)
            continue
        for s in range(low, low + count):
            value = max(floor, H[s * WIDTH + k])
            H[s * WIDTH + k] = min(value, cap[s] * floor) if to_rim[s] < np.inf else value


@njit(cache=True, nogil=True)
def _push(  # noqa: PLR0917
    low: int,
    s: int,
    first: int,
    last: int,
    head: NDArray[np.int32],
    decay: NDArray[np.float64],
    place: NDArray[np.int32],
    dirty: NDArray[np.bool_],
    ends: NDArray[np.float64],
    H: NDArray[np.float64],
) -> bool:
    """Raise the neighbours of one member to what it asks of them; return whether any rose."""
    risen = False
    for e in range(first, last):
        other = place[head[e]]
        if other < 0 or decay[e] * ends[0, s] <= ends[1, other]:
            continue
        if raise_to(H, (low + other) * WIDTH, (low + s) * WIDTH, decay[e]):
            ends[0, other], ends[1, other] = _ends(H, (low + other) * WIDTH)
            dirty[other] = True
            risen = True
    return risen


@njit(cache=True, nogil=True)
def close_some(  # noqa: PLR0917
    first: int,
    last: int,
    group_start: NDArray[np.int64],
    member: NDArray[np.int32],
    order: NDArray[np.uint16],
    start: NDArray[np.int64],
    head: NDArray[np.int32],
    decay: NDArray[np.float64],
    cap: NDArray[np.float64],
    to_rim: NDArray[np.float64],
    label: NDArray[np.int32],
    b: NDArray[np.float64],
    place: NDArray[np.int32],
    dirty: NDArray[np.bool_],
    is_touched: NDArray[np.bool_],
    ends: NDArray[np.float64],
    H: NDArray[np.float64],
) -> None:
    """Bring the columns of some groups between background and cap, and close them."""
    for g in range(first, last):
        low, count = group_start[g], group_start[g + 1] - group_start[g]
        for s in range(count):
            place[member[low + s]] = s
            dirty[s] = True
        _start(g, low, count, member, cap, to_rim, label, b, is_touched, H)
        for s in range(count):
            ends[0, s], ends[1, s] = _ends(H, (low + s) * WIDTH)
        changed = True
        while changed:
            changed = False
            for rank in range(count):
                s = order[low + rank]
                if dirty[s]:
                    dirty[s] = False
                    i = member[low + s]
                    changed |= _push(low, s, start[i], start[i + 1], head, decay, place, dirty, ends, H)
        for s in range(count):
            place[member[low + s]] = -1
