"""The first-order kernels: one step of the rows, one of the edges' multipliers, and the reduced costs.

An edge {i, j} and an output carry one signed multiplier y. Its positive part belongs to ``a z_i <= b z_j``, its
negative part to ``a z_j <= b z_i``, with a = exp(-s) / r, b = 1 / r, r = sqrt(1 + exp(-2 s)) and s = epsilon d. Both at
once are never needed: cancelling them cannot lower the bound.

Outputs lie in tiles of ``WIDTH``: matrices have the shape (tiles, rows, WIDTH). Most tiles of most rows are zero, since
far outputs are never reported, so each row has a bit per tile that says whether anything in it can differ from zero;
the others are skipped, and the memory of their pages is never touched. Every kernel writes each row from one task and
sums in one order, so the result is the same for any number of threads. Entries are float32; bounds are computed in
float64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from metricdp.solve.solvers.firstorder.threads import in_threads
from metricdp.solve.solvers.firstorder.tiles import (
    WIDTH,
    add_parts,
    copy_tile,
    excess,
    lowest_bit,
    step_back,
    step_multipliers,
    step_rows,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Doubles = NDArray[np.float64]
    Bits = NDArray[np.uint64]

FAST = {"nsz", "contract", "nnan", "ninf", "arcp", "reassoc"}
TINY = np.float32(1e-25)  # smaller ones are zero: denormal numbers cost a factor of ten
NEWTON_STEPS = 60
BITS = 64  # tiles per word
NO_BITS, BIT = np.uint64(0), np.uint64(1)
NEWTON_CLOSE = np.float32(2e-7)
ZERO, ONE = np.float32(0.0), np.float32(1.0)
LOWEST = np.float32(-3e38)
# of kernels that only kernels call: Python's way into them would take as long to compile as they do
INNER = {"cache": True, "nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


@njit(cache=True, nogil=True, fastmath=FAST)
def _threshold(v: Floats, tiles: int, largest: float, guess: float) -> np.float32:
    """Return theta with ``sum max(v - theta, 0) = 1`` by Newton's method, which ends after finitely many steps."""
    # the sum is at most 1 above the first bound and at least 1 below the second, so some entry is always above theta
    theta = min(max(np.float32(guess), largest - ONE), largest - ONE / np.float32(tiles * WIDTH))
    for _ in range(NEWTON_STEPS):
        total, count = ZERO, ZERO
        for t in range(tiles):
            above, number = excess(v, t * WIDTH, theta)
            total += above
            count += number
        step = (total - ONE) / count if count > ZERO else ZERO
        theta += step
        if abs(step) <= NEWTON_CLOSE * max(ONE, abs(theta)):
            break
    return theta


@njit(**INNER, fastmath=FAST)
def _costs_of_tiles_in_use(  # noqa: PLR0917  (numba takes positions)
    i: int,
    C: Floats,
    is_live: Bits,
    start: NDArray[np.int64],
    edge_at: NDArray[np.int32],
    is_used: Bits,
    v: Floats,
    slot: NDArray[np.int64],
    tile_of: NDArray[np.int64],
    active: Bits,
) -> int:
    """Copy the costs of a record's tiles that hold something or that an edge touches; return their number."""
    n = C.shape[1]
    count = 0
    for w in range(is_live.shape[1]):
        some = is_live[i, w]
        for position in range(start[i], start[i + 1]):
            some |= is_used[edge_at[position], w]
        active[w] = some
        while some:
            t = w * BITS + lowest_bit(some)
            some &= some - BIT
            slot[t], tile_of[count] = count, t
            copy_tile(v, count * WIDTH, C, (t * n + i) * WIDTH)
            count += 1
    return count


@njit(**INNER, fastmath=FAST)
def _add_multipliers(  # noqa: PLR0917
    i: int,
    start: NDArray[np.int64],
    edge_at: NDArray[np.int32],
    is_head: NDArray[np.bool_],
    a: Floats,
    b: Floats,
    Y: Floats,
    is_used: Bits,
    v: Floats,
    slot: NDArray[np.int64],
) -> None:
    """Make reduced costs of a record's costs."""
    m = Y.shape[1]
    for position in range(start[i], start[i + 1]):
        e = edge_at[position]
        if is_head[position]:
            up, down = -b[e], -a[e]
        else:
            up, down = a[e], b[e]
        for w in range(is_used.shape[1]):
            some = is_used[e, w]
            while some:
                t = w * BITS + lowest_bit(some)
                some &= some - BIT
                add_parts(v, slot[t] * WIDTH, Y, (t * m + e) * WIDTH, up, down)


@njit(**INNER, fastmath=FAST)
def _project(  # noqa: PLR0917
    i: int,
    C: Floats,
    cheapest: Floats,
    Z: Floats,
    size: float,
    guess: float,
    v: Floats,
    count: int,
    tile_of: NDArray[np.int64],
    active: Bits,
) -> tuple[int, float]:
    """Make ``z - size v`` of the reduced costs v, and find the level above which the simplex cuts it.

    Tiles that are not in use join if their cheapest entry could be reported. Give the number of tiles and the level.
    """
    tiles, n, _ = C.shape
    largest = LOWEST
    for c in range(count):
        largest = max(largest, step_back(v, c * WIDTH, Z, (tile_of[c] * n + i) * WIDTH, size))
    level = _threshold(v, count, largest, guess)
    before = count
    for t in range(tiles):
        is_quiet = not (active[t // BITS] >> np.uint64(t % BITS)) & BIT
        if is_quiet and -size * cheapest[t, i] > level:
            tile_of[count] = t
            copy_tile(v, count * WIDTH, C, (t * n + i) * WIDTH)
            largest = max(largest, step_back(v, count * WIDTH, Z, (t * n + i) * WIDTH, size))
            count += 1
    if count > before:
        level = _threshold(v, count, largest, level)
    return count, level


@njit(cache=True, nogil=True, fastmath=FAST)
def _some_records(  # noqa: PLR0917
    first: int,
    last: int,
    C: Floats,
    cheapest: Floats,
    Z: Floats,
    Z0: Floats,
    ahead: Floats,
    is_live: Bits,
    theta: Floats,
    tau: Floats,
    start: NDArray[np.int64],
    edge_at: NDArray[np.int32],
    is_head: NDArray[np.bool_],
    a: Floats,
    b: Floats,
    Y: Floats,
    is_used: Bits,
    share: np.float32,
    moved: Doubles,
    v: Floats,
    slot: NDArray[np.int64],
    tile_of: NDArray[np.int64],
    active: Bits,
) -> None:
    """Step the rows from ``first`` to ``last``; the last four arrays are scratch."""
    n = C.shape[1]
    for i in range(first, last):
        count = _costs_of_tiles_in_use(i, C, is_live, start, edge_at, is_used, v, slot, tile_of, active)
        _add_multipliers(i, start, edge_at, is_head, a, b, Y, is_used, v, slot)
        count, level = _project(i, C, cheapest, Z, tau[i], theta[i], v, count, tile_of, active)
        theta[i] = level
        change = ZERO
        for w in range(is_live.shape[1]):
            is_live[i, w] = NO_BITS
        for c in range(count):
            t = tile_of[c]
            squared, left = step_rows(v, c * WIDTH, Z, Z0, ahead, (t * n + i) * WIDTH, level, share, TINY)
            change += squared
            if left > ZERO:
                is_live[i, t // BITS] |= BIT << np.uint64(t % BITS)
        moved[i] = change / tau[i]


@njit(cache=True, nogil=True, fastmath=FAST)
def _some_edges(  # noqa: PLR0917
    first: int,
    last: int,
    tail: NDArray[np.int32],
    head: NDArray[np.int32],
    a: Floats,
    b: Floats,
    sigma: Floats,
    ahead: Floats,
    is_live: Bits,
    Y: Floats,
    Y0: Floats,
    is_used: Bits,
    share: np.float32,
    moved: Doubles,
) -> None:
    """Step the edges from ``first`` to ``last``."""
    n, m, words = ahead.shape[1], Y.shape[1], is_used.shape[1]
    for e in range(first, last):
        i, j = tail[e], head[e]
        size = sigma[e]
        less, more = size * a[e], size * b[e]
        change = ZERO
        for w in range(words):
            some = is_used[e, w] | is_live[i, w] | is_live[j, w]
            used = NO_BITS
            while some:
                bit = lowest_bit(some)
                some &= some - BIT
                t = w * BITS + bit
                y_at, i_at, j_at = (t * m + e) * WIDTH, (t * n + i) * WIDTH, (t * n + j) * WIDTH
                squared, left = step_multipliers(Y, Y0, y_at, ahead, i_at, j_at, less, more, share, TINY)
                change += squared
                if left > ZERO:
                    used |= BIT << np.uint64(bit)
            is_used[e, w] = used
        moved[e] = change / size


def step_records(*arguments: Any, is_large: bool) -> None:
    """Step every row: project ``z - tau (C + A'y)`` to the simplex; leave ``2 T(z) - z`` in ``ahead``.

    With ``share`` in (0, 1] the row becomes ``share (2 T(z) - z) + (1 - share) z0``; with 0 it becomes T(z), and so
    does the anchor z0. ``moved`` takes ``|T(z) - z|^2 / tau`` of each record. A tile that holds nothing and that no
    edge touches is looked at only if its ``cheapest`` entry could be reported.
    """
    (tiles, n, _), words = arguments[0].shape, -(-len(arguments[0]) // BITS)

    def some(first: int, last: int) -> None:
        scratch = np.empty(tiles * WIDTH, np.float32), np.empty(tiles, np.int64), np.empty(tiles, np.int64)
        _some_records(first, last, *arguments, *scratch, np.empty(words, np.uint64))

    in_threads(some, n, is_large=is_large)


def step_edges(*arguments: Any, is_large: bool) -> None:
    """Step every edge's multipliers towards what ``ahead`` violates; ``share`` and ``moved`` as for the records."""

    def some(first: int, last: int) -> None:
        _some_edges(first, last, *arguments)

    in_threads(some, len(arguments[0]), is_large=is_large)
