"""The exact privacy check of sparse tables, pair by pair, without making them dense.

For a pair of records the two sorted lists of stored weights are merged. At each output of either list both weights are
``scale background_k + local``, and the larger must be at most ``exp(epsilon d)`` times the smaller. At all others the
weights are ``scale_i background_k`` and ``scale_j background_k``: one comparison of the scales stands for them all.
Floats clear what is far inside the bound, and whole numbers decide the rest, as for dense tables (`certify`). Memory
beyond the table is a fixed amount, and the result does not depend on the number of threads. This file trusts no solver
and no repair, and imports neither.
"""

from __future__ import annotations

import math
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit

from metricdp.errors import InputError
from metricdp.mechanism.exact import (
    FLOAT_GUARD,
    TOTAL,
    PrivacyCheck,
    Worst,
    broken_pair,
    enclosures_of,
    exceeds,
    wrong_sum,
)
from metricdp.mechanism.sparse import SparseTable
from metricdp.metric.budgets import pair_budgets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.metric.budgets import Budget

PAIRS_AT_ONCE = 4_096  # of a block: some millions of comparisons for a city
DOUBTS_AT_ONCE = 16_384  # comparisons that wait for whole numbers, for each thread; more if one pair may have more
OUTSIDE, NOTHING = -1, -2  # in place of an output: outside both lists; no more to compare


class _Lists(NamedTuple):
    """The arrays of a sparse table, as kernels take them, and how many outputs have a positive background."""

    indptr: NDArray[np.int64]
    columns: NDArray[np.int32]
    weights: NDArray[np.uint64]
    background: NDArray[np.uint64]
    scale: NDArray[np.uint64]
    n_shared: int


class _Losses(NamedTuple):
    """For each pair of a block its largest quotient, where it is, and whether all weights are equal."""

    quotient: NDArray[np.float64]
    output: NDArray[np.int64]
    is_second: NDArray[np.bool_]
    is_equal: NDArray[np.bool_]


class _Doubts(NamedTuple):
    """Comparisons that wait for whole numbers: the larger and the smaller weight, the pair and the output of each."""

    larger: NDArray[np.uint64]
    smaller: NDArray[np.uint64]
    place: NDArray[np.int64]
    output: NDArray[np.int64]
    is_second: NDArray[np.bool_]  # whether the larger weight is that of the pair's second record


@dataclass(frozen=True)
class _Block:
    """What was found about a block of pairs: counts, the largest loss per distance, and the first broken entry."""

    n_compared: int
    n_decided: int
    rate: float
    worst: Worst
    broken: Worst | None


def check_sparse_privacy(
    table: SparseTable, pairs: NDArray[np.int32], distances: NDArray[np.float64], epsilon: Budget
) -> PrivacyCheck:
    """Check that a sparse ``table`` satisfies epsilon-mDP on ``pairs`` exactly; return what was found.

    The counts are of comparisons that were made: for each pair, two at each output of either list, and two for all
    other outputs together.
    """
    begin = time.perf_counter()
    table = SparseTable.checked(table)
    n, K = table.shape
    if len(pairs) != len(distances) or (len(pairs) and (pairs.min() < 0 or pairs.max() >= n)):
        raise InputError(f"pairs must be of the table's {n} rows, with one distance for each")
    fault = _sum_fault(table)
    blocks = [] if fault else _checked_blocks(table, pairs, distances, pair_budgets(epsilon, pairs))
    broken = next((one.broken for one in blocks if one.broken is not None), None)
    if broken is not None:
        x, y = (int(v) for v in table.block([broken.i, broken.j], broken.output)[:, 0])
        fault = broken_pair(broken, x, y, epsilon)
    largest = max(blocks, key=lambda one: one.rate, default=None)  # the first of equal ones
    tightest, worst, most = 0.0, None, float(np.max(epsilon))
    if largest is None and len(pairs):  # not even compared: a sum is wrong
        tightest = math.inf
    elif largest is not None and largest.rate > 0:
        tightest, worst = math.nextafter(largest.rate, math.inf), largest.worst
    if not fault:
        tightest = min(tightest, most)  # it has just been proved to hold at epsilon
    n_exact = sum(one.n_decided for one in blocks)
    return PrivacyCheck(
        certified=not fault,
        epsilon=most,
        n_records=n,
        n_outputs=K,
        n_pairs=len(pairs),
        tightest_epsilon=tightest,
        worst=worst,
        n_cleared_by_filter=sum(one.n_compared for one in blocks) - n_exact,
        n_decided_exactly=n_exact,
        seconds=time.perf_counter() - begin,
        fault=fault,
    )


def _sum_fault(table: SparseTable) -> str:
    wrong = table.sums() != np.uint64(TOTAL)
    if not wrong.any():
        return ""
    row = int(np.argmax(wrong))
    return wrong_sum(row, int(table.sums()[row]), int(wrong.sum()))


def _checked_blocks(
    table: SparseTable, pairs: NDArray[np.int32], distances: NDArray[np.float64], budgets: NDArray[np.float64]
) -> list[_Block]:
    """Check all pairs, a block at a time, several blocks in parallel; return the blocks in their order."""
    n_shared = int((table.background > 0).sum())
    lists = _Lists(table.indptr, table.columns, table.weights, table.background, table.scale, n_shared)
    n_doubts = max(DOUBTS_AT_ONCE, 2 * table.longest + 1)

    def check(start: int) -> _Block:
        part = slice(start, start + PAIRS_AT_ONCE)
        return _check_block(lists, pairs[part], distances[part], budgets[part], n_doubts)

    starts = range(0, len(pairs), PAIRS_AT_ONCE)
    if len(starts) <= 1:  # starting threads takes longer
        return [check(start) for start in starts]
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return list(pool.map(check, starts))


def _check_block(
    lists: _Lists, pairs: NDArray[np.int32], distances: NDArray[np.float64], budgets: NDArray[np.float64], n_doubts: int
) -> _Block:
    """Check one block of pairs; whole numbers decide each time that the doubts might no longer fit."""
    n = len(pairs)
    losses = _Losses(np.empty(n), np.empty(n, dtype=np.int64), np.empty(n, dtype=bool), np.empty(n, dtype=bool))
    with np.errstate(over="ignore"):
        factors = np.exp(budgets * distances)
    weights, places = np.empty((2, n_doubts), dtype=np.uint64), np.empty((2, n_doubts), dtype=np.int64)
    doubts = _Doubts(weights[0], weights[1], places[0], places[1], np.empty(n_doubts, dtype=bool))
    begin = n_compared = n_decided = 0
    broken = None
    while begin < n:
        begin, found, compared = _merge(lists, pairs, factors, begin, doubts, losses)
        n_compared, n_decided = n_compared + compared, n_decided + found
        place = doubts.place[:found]
        factor = enclosures_of(budgets, distances, place)
        outside = np.flatnonzero(exceeds(doubts.larger[:found], doubts.smaller[:found], factor))
        if outside.size and broken is None:
            m = int(outside[0])
            is_turned = bool(doubts.is_second[m])
            broken = _named(lists, pairs, distances, int(place[m]), int(doubts.output[m]), is_second=is_turned)
    # at distance 0, or nearly, the loss is infinite, unless all weights are equal
    with np.errstate(divide="ignore", over="ignore"):
        rates = (np.log(losses.quotient) + FLOAT_GUARD) / distances
    rates[losses.is_equal] = 0.0
    p = int(np.argmax(rates))
    worst = _named(lists, pairs, distances, p, int(losses.output[p]), is_second=bool(losses.is_second[p]))
    return _Block(n_compared, n_decided, float(rates[p]), worst, broken)


def _named(
    lists: _Lists, pairs: NDArray[np.int32], distances: NDArray[np.float64], p: int, output: int, *, is_second: bool
) -> Worst:
    """Return where the larger weight of pair ``p`` is: the first output of all those outside both lists, if there."""
    i, j = (int(v) for v in pairs[p])
    if output == OUTSIDE:
        stored = np.concatenate([lists.columns[lists.indptr[r] : lists.indptr[r + 1]] for r in (i, j)])
        is_outside = lists.background > 0
        is_outside[stored] = False
        output = int(np.argmax(is_outside))
    return Worst(*((j, i) if is_second else (i, j)), output, float(distances[p]))


@njit(cache=True, nogil=True, error_model="numpy")
def _merge(  # noqa: PLR0917
    lists: _Lists, pairs: NDArray[np.int32], factors: NDArray[np.float64], begin: int, doubts: _Doubts, losses: _Losses
) -> tuple[int, int, int]:
    """Compare pairs from ``begin`` on in floats, while their doubts fit; return the next pair and two counts.

    Writes the doubts, and the loss of each pair.
    """
    found = compared = 0
    for p in range(begin, len(pairs)):
        i, j = pairs[p, 0], pairs[p, 1]
        n_most = lists.indptr[i + 1] - lists.indptr[i] + lists.indptr[j + 1] - lists.indptr[j] + 1
        if found + n_most > len(doubts.place):
            return p, found, compared
        a, b = np.uint64(lists.indptr[i]), np.uint64(lists.indptr[j])
        limit = factors[p] / (1.0 + FLOAT_GUARD)
        largest, where, is_from_second, is_equal, n_shared = 1.0, OUTSIDE, False, True, 0
        k = 0
        while k != NOTHING:
            # what is neither above the limit nor the largest so far needs no more than its comparison
            k, x, y, a, b, n, shared, is_same = _next(lists, i, j, a, b, n_shared, min(largest, limit))
            compared, n_shared, is_equal = compared + 2 * n, n_shared + shared, is_equal & is_same
            high, low = max(x, y), min(x, y)
            if k == NOTHING or high == low:
                continue
            quotient = float(high) / float(low)
            if quotient > limit or low == 0:
                doubts.larger[found], doubts.smaller[found] = high, low
                doubts.place[found], doubts.output[found], doubts.is_second[found] = p, k, y > x
                found += 1
            if quotient > largest:
                largest, where, is_from_second = quotient, k, y > x
        losses.quotient[p], losses.output[p] = largest, where
        losses.is_second[p], losses.is_equal[p] = is_from_second, is_equal
    return len(pairs), found, compared


@njit(cache=True, nogil=True, error_model="numpy")
def _next(  # noqa: PLR0917
    lists: _Lists, i: Any, j: Any, a: Any, b: Any, n_shared: Any, most: Any
) -> tuple[Any, Any, Any, Any, Any, Any, Any, Any]:
    """Merge the lists of records i and j from places a and b on, until one weight is above ``most`` times the other.

    Return that output and both weights, the places after it, how many outputs were compared, how many of them have a
    positive background, and whether all weights were equal. At the end of both lists the scales are compared, unless
    ``n_shared`` and those counted here are all outputs with a positive background, and b is moved beyond the end.
    After that there is `NOTHING`.
    """
    columns, weights, background = lists.columns, lists.weights, lists.background
    end_a, end_b = np.uint64(lists.indptr[i + 1]), np.uint64(lists.indptr[j + 1])
    scale_i, scale_j = lists.scale[i], lists.scale[j]
    none, one = np.uint64(0), np.uint64(1)  # unsigned throughout: places that may be negative cost a test each
    n, shared, differs = 0, 0, none
    while a < end_a and b < end_b:
        # no branch: which list is next is as good as random
        column_a, column_b = np.uint32(columns[a]), np.uint32(columns[b])
        is_a, is_b, k = np.uint64(column_a <= column_b), np.uint64(column_b <= column_a), min(column_a, column_b)
        common = background[k]
        x = scale_i * common + weights[a] * is_a
        y = scale_j * common + weights[b] * is_b
        a, b, n, shared = a + is_a, b + is_b, n + 1, shared + (common > none)
        differs |= x ^ y
        if not float(max(x, y)) <= most * float(min(x, y)):
            return np.int64(k), x, y, a, b, n, shared, differs == none
    # one list has ended
    is_first = a < end_a
    place, end = (a, end_a) if is_first else (b, end_b)
    while place < end:
        k, weight = columns[place], weights[place]
        common = background[np.uint32(k)]
        x, y = scale_i * common + weight * np.uint64(is_first), scale_j * common + weight * np.uint64(not is_first)
        place, n, shared = place + one, n + 1, shared + (common > none)
        differs |= x ^ y
        if not float(max(x, y)) <= most * float(min(x, y)):
            a, b = (place, b) if is_first else (a, place)
            return np.int64(k), x, y, a, b, n, shared, differs == none
    if b <= end_b and n_shared + shared < lists.n_shared:
        is_same = (differs | (scale_i ^ scale_j)) == none
        return np.int64(OUTSIDE), scale_i, scale_j, end_a, end_b + one, n + 1, shared, is_same
    return np.int64(NOTHING), none, none, end_a, end_b + one, n, shared, differs == none
