"""The exact privacy check: every neighbour pair, every output, both directions, in integer arithmetic.

A table of integers n_ik whose rows sum to T = 2^63 stands for the probabilities n_ik / T. It satisfies epsilon-mDP on
the given pairs when ``n_ik <= exp(epsilon d_ij) n_jk`` for all of them, with epsilon and d_ij the exact values of
their binary doubles; where records have epsilons of their own, the smaller of the two counts. The check compares
``n_ik 2^96 <= E n_jk`` with E a whole number at most ``exp(epsilon d_ij) 2^96``, so a pass is a proof. A float
comparison with a guard far wider than its rounding errors clears the easy entries; integers decide all others, many at
a time, so that the work is a fixed amount per entry. This file trusts no solver and no repair, and imports neither.
"""

from __future__ import annotations

import math
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.mechanism.certify_sparse import check_sparse_privacy
from metricdp.mechanism.exact import (
    ENCLOSURE_BITS,
    FLOAT_GUARD,
    TOTAL,
    TOTAL_BITS,
    PrivacyCheck,
    Worst,
    broken_pair,
    enclosures_of,
    exceeds,
    exp_enclosure,
    wrong_sum,
)
from metricdp.mechanism.sparse import SparseTable
from metricdp.metric.budgets import pair_budgets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.metric.budgets import Budget

__all__ = [
    "ENCLOSURE_BITS",
    "FLOAT_GUARD",
    "TOTAL",
    "TOTAL_BITS",
    "PrivacyCheck",
    "Worst",
    "check_privacy",
    "exceeds",
    "exp_enclosure",
    "row_sum_fault",
]

ENTRIES_AT_ONCE = 65_536  # of a block of pairs: small enough to stay in the cache


def row_sum_fault(table: NDArray[np.uint64]) -> str:
    """Return a message that names a row whose sum is not exactly 2^63; empty if none. 32-bit halves do not overflow."""
    low = (table & np.uint64(0xFFFFFFFF)).sum(axis=1, dtype=np.uint64)
    high = (table >> np.uint64(32)).sum(axis=1, dtype=np.uint64) + (low >> np.uint64(32))
    wrong = (high != TOTAL >> 32) | ((low & np.uint64(0xFFFFFFFF)) != 0)
    if not wrong.any():
        return ""
    row = int(np.flatnonzero(wrong)[0])
    return wrong_sum(row, sum(int(v) for v in table[row]), int(wrong.sum()))


def check_privacy(
    table: NDArray[np.uint64] | SparseTable,
    pairs: NDArray[np.int32],
    distances: NDArray[np.float64],
    epsilon: Budget,
) -> PrivacyCheck:
    """Check that ``table`` satisfies epsilon-mDP on ``pairs`` exactly.

    Parameters
    ----------
    table
        Integers, shape (N, K), each row summing to 2^63; a `SparseTable` is checked without making it dense.
    pairs, distances
        The neighbour pairs, shape (P, 2), and their distances, shape (P,).
    epsilon
        The budget per unit of distance, as its exact binary value; or one for each record, shape (N,), of which the
        smaller one counts between two records.
    """
    if isinstance(table, SparseTable):
        return check_sparse_privacy(table, pairs, distances, epsilon)
    begin = time.perf_counter()
    n, K = table.shape
    budgets = pair_budgets(epsilon, pairs)
    fault = row_sum_fault(table)
    rates = np.full(len(pairs), np.inf)  # the privacy loss of each pair per unit of distance, in floats
    decisions: list[_Decision] = []
    tells_nothing = not fault and bool((table == table[:1]).all())  # equal rows satisfy any budget
    if not fault and not tells_nothing:
        as_float = table.astype(np.float64)
        block = max(1, ENTRIES_AT_ONCE // K)

        def decide(start: int) -> _Decision:
            part = slice(start, start + block)
            unsure = start + _filter_block(as_float, pairs[part], distances[part], budgets[part], rates[part])
            return _decide_exactly(table, pairs[unsure], distances[unsure], budgets[unsure])

        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            decisions = list(pool.map(decide, range(0, len(pairs), block)))
    broken = next((one.broken for one in decisions if one.broken is not None), None)
    if broken is not None:
        x, y = (int(table[record, broken.output]) for record in (broken.i, broken.j))
        fault = broken_pair(broken, x, y, epsilon)
    n_exact, largest = sum(one.n_decided for one in decisions), float(np.max(epsilon))
    tightest, worst = (0.0, None) if tells_nothing else _worst(table, pairs, distances, rates)
    if not fault:
        tightest = min(tightest, largest)  # it has just been proved to hold at epsilon
    n_entries = 2 * len(pairs) * K
    return PrivacyCheck(
        certified=not fault,
        epsilon=largest,
        n_records=n,
        n_outputs=K,
        n_pairs=len(pairs),
        tightest_epsilon=tightest,
        worst=worst,
        n_cleared_by_filter=n_entries - n_exact,
        n_decided_exactly=n_exact,
        seconds=time.perf_counter() - begin,
        fault=fault,
    )


def _filter_block(
    table: NDArray[np.float64],
    pairs: NDArray[np.int32],
    distances: NDArray[np.float64],
    budgets: NDArray[np.float64],
    rates: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Return the pairs of a block that the float test cannot clear, and write each pair's loss per distance."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        quotient = table[pairs[:, 0]] / table[pairs[:, 1]]  # 0/0 is NaN and is ignored: no probability, no loss
        largest = np.maximum(np.fmax.reduce(quotient, axis=1), 1.0 / np.fmin.reduce(quotient, axis=1))
        rates[:] = (np.log(largest) + FLOAT_GUARD) / distances
        cleared = np.isfinite(largest) & (largest * (1.0 + FLOAT_GUARD) <= np.exp(budgets * distances))
    # two records at distance 0 have no loss when their rows are equal, and an infinite one otherwise
    rates[distances == 0] = np.where(largest[distances == 0] == 1.0, 0.0, np.inf)
    return np.flatnonzero(~cleared)


@dataclass(frozen=True)
class _Decision:
    """How many entries were decided by integers, and where the first broken one is, if any."""

    n_decided: int
    broken: Worst | None


def _decide_exactly(
    table: NDArray[np.uint64], pairs: NDArray[np.int32], distances: NDArray[np.float64], budgets: NDArray[np.float64]
) -> _Decision:
    """Decide pairs of rows in both directions by integers, wherever floats are not conclusive."""
    doubts = []
    for i, j in ((pairs[:, 0], pairs[:, 1]), (pairs[:, 1], pairs[:, 0])):
        x, y = table[i], table[j]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            quotient = x / y
            # infinite where y is zero, and then never conclusive: the bound may be infinite as well
            sure = np.isfinite(quotient) & (quotient * (1.0 + FLOAT_GUARD) <= np.exp(budgets * distances)[:, None])
        # a weight that is not above the other's needs no proof: the factor is at least 1
        p, k = np.nonzero((x > y) & ~sure)
        doubts.append((x[p, k], y[p, k], p, i[p], j[p], k))
    x, y, p, i, j, k = (np.concatenate(both) for both in zip(*doubts, strict=True))
    outside = np.flatnonzero(exceeds(x, y, enclosures_of(budgets, distances, p)))
    if not outside.size:
        return _Decision(len(p), None)
    first = int(outside[0])
    return _Decision(len(p), Worst(int(i[first]), int(j[first]), int(k[first]), float(distances[p[first]])))


def _worst(
    table: NDArray[np.uint64], pairs: NDArray[np.int32], distances: NDArray[np.float64], rates: NDArray[np.float64]
) -> tuple[float, Worst | None]:
    if len(pairs) == 0:
        return 0.0, None
    p = int(np.argmax(rates))
    i, j = int(pairs[p, 0]), int(pairs[p, 1])
    a, b = table[i].astype(np.float64), table[j].astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = np.abs(np.log(a) - np.log(b))
    output = int(np.nanargmax(loss)) if not np.isnan(loss).all() else 0
    if a[output] < b[output]:
        i, j = j, i
    return math.nextafter(float(rates[p]), math.inf), Worst(i, j, output, float(distances[p]))
