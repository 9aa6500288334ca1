"""The exact privacy check: every neighbour pair, every output, both directions, in integer arithmetic.

A table of integers n_ik whose rows sum to T = 2^63 stands for the probabilities n_ik / T. It satisfies epsilon-mDP on
the given pairs when ``n_ik <= exp(epsilon d_ij) n_jk`` for all of them, with epsilon and d_ij the exact values of
their binary doubles. The check compares ``n_ik 2^96 <= E n_jk`` with E a whole number at most
``exp(epsilon d_ij) 2^96``, so a pass is a proof. A float comparison with a guard far wider than its rounding errors
clears the easy entries; integers decide all others. This file trusts no solver and no repair, and imports neither.
"""

from __future__ import annotations

import decimal
import math
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOTAL_BITS = 63
TOTAL = 1 << TOTAL_BITS
ENCLOSURE_BITS = 96
ALWAYS_ENOUGH = 44.0  # exp(44) > 2^63: the pair holds as soon as the smaller entry is at least 1
# relative; rounding of both entries, their quotient, epsilon d (below 44 * 2^-53) and numpy's exp is below 2^-46
GUARD = 2.0**-44
ENTRIES_AT_ONCE = 1 << 16  # of a block of pairs: small enough to stay in the cache
_DECIMAL = decimal.Context(prec=70, rounding=decimal.ROUND_FLOOR, Emin=-9999, Emax=9999)


@dataclass(frozen=True)
class Worst:
    """Where the privacy loss is largest: record ``i`` reports ``output`` more often than neighbour ``j``."""

    i: int
    j: int
    output: int
    distance: float


@dataclass(frozen=True)
class PrivacyCheck:
    """What the exact check found.

    ``tightest_epsilon`` is the smallest budget at which the table would pass, rounded up (0 without any pair, infinite
    if a probability of zero stands beside a positive one, or if a row has a wrong sum). ``fault`` says in words why a
    table did not pass.
    """

    certified: bool
    epsilon: float
    n_records: int
    n_outputs: int
    n_pairs: int
    tightest_epsilon: float
    worst: Worst | None
    n_cleared_by_filter: int
    n_decided_exactly: int
    seconds: float
    fault: str = ""


def exp_enclosure(epsilon: float, distance: float) -> int:
    """Give a whole number E with ``E <= exp(epsilon * distance) * 2^96``, short of it by less than 2.

    Examples
    --------
    >>> exp_enclosure(1.0, 0.0) == 2**96
    True
    >>> exp_enclosure(1.0, 1.0) / 2**96
    2.718281828459045
    """
    exponent = _DECIMAL.multiply(decimal.Decimal(epsilon), decimal.Decimal(distance))  # rounded down
    # decimal's exp is correctly rounded (half even, whatever the context says): one step down is below the true value
    below = _DECIMAL.next_minus(_DECIMAL.exp(exponent))
    scaled = _DECIMAL.multiply(below, decimal.Decimal(1 << ENCLOSURE_BITS))
    return max(int(scaled.to_integral_value(decimal.ROUND_FLOOR)), 1 << ENCLOSURE_BITS)  # exp is never below 1 here


def row_sum_fault(table: NDArray[np.uint64]) -> str:
    """Say which row does not sum to exactly 2^63; empty if all do. Halves of 32 bits cannot overflow."""
    low = (table & np.uint64(0xFFFFFFFF)).sum(axis=1, dtype=np.uint64)
    high = (table >> np.uint64(32)).sum(axis=1, dtype=np.uint64) + (low >> np.uint64(32))
    wrong = (high != TOTAL >> 32) | ((low & np.uint64(0xFFFFFFFF)) != 0)
    if not wrong.any():
        return ""
    row = int(np.flatnonzero(wrong)[0])
    total = sum(int(v) for v in table[row])
    return f"row {row} sums to {total}, not to 2^63 = {TOTAL} ({int(wrong.sum())} such rows)"


def check_privacy(
    table: NDArray[np.uint64],
    pairs: NDArray[np.int32],
    distances: NDArray[np.float64],
    epsilon: float,
) -> PrivacyCheck:
    """Check that ``table`` satisfies epsilon-mDP on ``pairs`` exactly.

    Parameters
    ----------
    table
        Integers, shape (N, K), each row summing to 2^63.
    pairs, distances
        The neighbour pairs, shape (P, 2), and their distances, shape (P,).
    epsilon
        The budget per unit of distance, as its exact binary value.
    """
    begin = time.perf_counter()
    n, K = table.shape
    fault = row_sum_fault(table)
    rates = np.full(len(pairs), np.inf)  # the privacy loss of each pair per unit of distance, in floats
    exact: list[NDArray[np.int64]] = []
    if not fault and len(pairs):
        as_float = table.astype(np.float64)
        block = max(1, ENTRIES_AT_ONCE // K)
        starts = range(0, len(pairs), block)

        def scan(start: int) -> NDArray[np.int64]:
            part = slice(start, start + block)
            return start + _filter_block(as_float, pairs[part], distances[part], epsilon, rates[part])

        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            exact = list(map(scan, starts)) if len(starts) == 1 else list(pool.map(scan, starts))
    undecided = np.concatenate(exact) if exact else np.zeros(0, dtype=np.int64)
    n_exact = 0
    for p in undecided:
        i, j = int(pairs[p, 0]), int(pairs[p, 1])
        decided, broken = _decide_exactly(table[i], table[j], epsilon, float(distances[p]))
        n_exact += decided
        if broken is not None:
            output, forward = broken
            above, below = (i, j) if forward else (j, i)
            fault = (
                f"records {above} and {below} at distance {distances[p]!r}: output {output} has weight "
                f"{table[above, output]} for one and {table[below, output]} for the other, a factor above "
                f"exp({epsilon!r} * {distances[p]!r})"
            )
            break
    tightest, worst = _worst(table, pairs, distances, rates)
    if not fault:
        tightest = min(tightest, epsilon)  # it has just been proved to hold at epsilon
    n_entries = 2 * len(pairs) * K
    return PrivacyCheck(
        certified=not fault,
        epsilon=epsilon,
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
    epsilon: float,
    rates: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Give the pairs of a block that the float test cannot clear, and write each pair's loss per distance."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        quotient = table[pairs[:, 0]] / table[pairs[:, 1]]  # 0/0 is NaN and passes by: no probability, no loss
        largest = np.maximum(np.fmax.reduce(quotient, axis=1), 1.0 / np.fmin.reduce(quotient, axis=1))
        rates[:] = (np.log(largest) + GUARD) / distances
        cleared = np.isfinite(largest) & (largest * (1.0 + GUARD) <= np.exp(epsilon * distances))
    # two records at distance 0 have no loss when their rows are equal, and an infinite one otherwise
    rates[distances == 0] = np.where(largest[distances == 0] == 1.0, 0.0, np.inf)
    return np.flatnonzero(~cleared)


def _decide_exactly(
    a: NDArray[np.uint64], b: NDArray[np.uint64], epsilon: float, distance: float
) -> tuple[int, tuple[int, bool] | None]:
    """Decide a pair of rows by integers: the number of comparisons, and the first output that breaks the row if any."""
    if distance == 0.0:
        different = np.flatnonzero(a != b)
        broken = None if different.size == 0 else (int(different[0]), bool(a[different[0]] > b[different[0]]))
        return 2 * len(a), broken
    enclosure = TOTAL << ENCLOSURE_BITS if epsilon * distance > ALWAYS_ENOUGH else exp_enclosure(epsilon, distance)
    decided = 0
    for output, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        decided += 2
        if x << ENCLOSURE_BITS > enclosure * y:
            return decided, (output, True)
        if y << ENCLOSURE_BITS > enclosure * x:
            return decided, (output, False)
    return decided, None


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
