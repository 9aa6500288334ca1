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
from typing import TYPE_CHECKING, NamedTuple

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

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.mechanism.sparse import SparseTable

PAIRS_AT_ONCE = 4_096  # of a block: some millions of comparisons for a city
DOUBTS_AT_ONCE = 16_384  # comparisons that wait for whole numbers, for each thread; more if one pair may have more
OUTSIDE = -1  # in place of an output: outside both lists


class _Lists(NamedTuple):
    """The arrays of a sparse table, as kernels take them, and how many outputs have a positive background."""

    indptr: NDArray[np.int64]
    columns: NDArray[np.int32]
    weights: NDArray[np.uint64]
    background: NDArray[np.uint64]
    scale: NDArray[np.uint64]
    n_shared: int


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
    table: SparseTable, pairs: NDArray[np.int32], distances: NDArray[np.float64], epsilon: float
) -> PrivacyCheck:
    """Check that a sparse ``table`` satisfies epsilon-mDP on ``pairs`` exactly; return what was found.

    The counts are of comparisons that were made: for each pair, two at each output of either list, and two for all
    other outputs together.
    """
    begin = time.perf_counter()
    n, K = table.shape
    if len(pairs) != len(distances) or (len(pairs) and (pairs.min() < 0 or pairs.max() >= n)):
        raise InputError(f"pairs must be of the table's {n} rows, with one distance for each")
    fault = _sum_fault(table)
    blocks = [] if fault else _checked_blocks(table, pairs, distances, epsilon)
    broken = next((one.broken for one in blocks if one.broken is not None), None)
    if broken is not None:
        x, y = (int(v) for v in table.block([broken.i, broken.j], broken.output)[:, 0])
        fault = broken_pair(broken, x, y, epsilon)
    largest = max(blocks, key=lambda one: one.rate, default=None)  # the first of equal ones
    tightest, worst = 0.0, None
    if fault and largest is None and len(pairs):
        tightest = math.inf
    elif largest is not None and largest.rate > 0:
        tightest, worst = math.nextafter(largest.rate, math.inf), largest.worst
    if not fault:
        tightest = min(tightest, epsilon)  # it has just been proved to hold at epsilon
    n_exact = sum(one.n_decided for one in blocks)
    return PrivacyCheck(
        certified=not fault,
        epsilon=epsilon,
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
    table: SparseTable, pairs: NDArray[np.int32], distances: NDArray[np.float64], epsilon: float
) -> list[_Block]:
    """Check all pairs, a block at a time, several blocks in parallel; return the blocks in their order."""
    lists = _Lists(
        table.indptr, table.columns, table.weights, table.background, table.scale, int((table.background > 0).sum())
    )
    n_doubts = max(DOUBTS_AT_ONCE, 2 * table.longest + 1)

    def check(start: int) -> _Block:
        part = slice(start, start + PAIRS_AT_ONCE)
        return _check_block(lists, pairs[part], distances[part], epsilon, n_doubts)

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return list(pool.map(check, range(0, len(pairs), PAIRS_AT_ONCE)))


def _check_block(
    lists: _Lists, pairs: NDArray[np.int32], distances: NDArray[np.float64], epsilon: float, n_doubts: int
) -> _Block:
    """Check one block of pairs; whole numbers decide each time that the doubts might no longer fit."""
    n = len(pairs)
    quotients, outputs = np.empty(n), np.empty(n, dtype=np.int64)
    is_second, is_equal = np.empty(n, dtype=bool), np.empty(n, dtype=bool)
    with np.errstate(over="ignore"):
        factors = np.exp(epsilon * distances)
    weights, places = np.empty((2, n_doubts), dtype=np.uint64), np.empty((2, n_doubts), dtype=np.int64)
    doubts = _Doubts(weights[0], weights[1], places[0], places[1], np.empty(n_doubts, dtype=bool))
    begin = n_compared = n_decided = 0
    broken = None
    while begin < n:
        begin, found, compared = _merge(*lists, pairs, factors, begin, *doubts, quotients, outputs, is_second, is_equal)
        n_compared, n_decided = n_compared + compared, n_decided + found
        place = doubts.place[:found]
        factor = enclosures_of(epsilon, distances, place)
        outside = np.flatnonzero(exceeds(doubts.larger[:found], doubts.smaller[:found], factor))
        if outside.size and broken is None:
            m = int(outside[0])
            is_turned = bool(doubts.is_second[m])
            broken = _named(lists, pairs, distances, int(place[m]), int(doubts.output[m]), is_second=is_turned)
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = (np.log(quotients) + FLOAT_GUARD) / distances
    rates[is_equal] = 0.0
    rates[~is_equal & (distances == 0)] = np.inf
    p = int(np.argmax(rates))
    worst = _named(lists, pairs, distances, p, int(outputs[p]), is_second=bool(is_second[p]))
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
def _merge(  # noqa: PLR0917, C901
    indptr: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.uint64],
    background: NDArray[np.uint64],
    scale: NDArray[np.uint64],
    n_shared: int,
    pairs: NDArray[np.int32],
    factors: NDArray[np.float64],
    begin: int,
    larger: NDArray[np.uint64],
    smaller: NDArray[np.uint64],
    place: NDArray[np.int64],
    output: NDArray[np.int64],
    second: NDArray[np.bool_],
    quotients: NDArray[np.float64],
    outputs: NDArray[np.int64],
    is_second: NDArray[np.bool_],
    is_equal: NDArray[np.bool_],
) -> tuple[int, int, int]:
    """Compare pairs from ``begin`` on in floats, while their doubts fit; return the next pair and two counts.

    Writes the doubts, and for each pair its largest quotient, where that is, and whether all weights are equal.
    """
    found = compared = 0
    none = np.uint64(0)
    for p in range(begin, len(pairs)):
        i, j = pairs[p, 0], pairs[p, 1]
        a, end_a, b, end_b = indptr[i], indptr[i + 1], indptr[j], indptr[j + 1]
        if found + (end_a - a) + (end_b - b) + 1 > len(larger):
            return p, found, compared
        scale_i, scale_j, factor = scale[i], scale[j], factors[p]
        largest, where, is_from_second, differs = 1.0, OUTSIDE, False, False
        n_inside = 0
        while True:
            is_last = a >= end_a and b >= end_b
            if is_last:
                # everything outside both lists
                if n_inside >= n_shared:
                    break
                k, x, y = OUTSIDE, scale_i, scale_j
            else:
                column_a = columns[a] if a < end_a else len(background)
                column_b = columns[b] if b < end_b else len(background)
                k = min(column_a, column_b)
                shared = background[k]
                n_inside += shared > none
                x, y = scale_i * shared, scale_j * shared
                if column_a == k:
                    x += weights[a]
                    a += 1
                if column_b == k:
                    y += weights[b]
                    b += 1
            compared += 2
            high, low = max(x, y), min(x, y)
            quotient = float(high) / float(low)
            if high > low:
                differs = True
                if not (quotient * (1.0 + FLOAT_GUARD) <= factor and low > none):
                    larger[found], smaller[found], place[found], output[found] = high, low, p, k
                    second[found] = y > x
                    found += 1
            if quotient > largest or where == OUTSIDE:
                largest, where, is_from_second = quotient, k, y > x
            if is_last:
                break
        quotients[p], outputs[p], is_second[p], is_equal[p] = largest, where, is_from_second, not differs
    return len(pairs), found, compared
