"""The exact privacy check: every neighbour pair, every output, both directions, in integer arithmetic.

A table of integers n_ik whose rows sum to T = 2^63 stands for the probabilities n_ik / T. It satisfies epsilon-mDP on
the given pairs when ``n_ik <= exp(epsilon d_ij) n_jk`` for all of them, with epsilon and d_ij the exact values of
their binary doubles. The check compares ``n_ik 2^96 <= E n_jk`` with E a whole number at most
``exp(epsilon d_ij) 2^96``, so a pass is a proof. A float comparison with a guard far wider than its rounding errors
clears the easy entries; integers decide all others, many at a time, so that the work is a fixed amount per entry. This
file trusts no solver and no repair, and imports neither.
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
ENCLOSURE_LIMBS = 5  # of 32 bits: the largest E in use, exp(44) 2^96, is below 2^160
TRIVIAL_EXPONENT = 44.0  # epsilon d; exp(44) > 2^63, so the pair holds if the smaller entry is at least 1
# relative; rounding of both entries, their quotient, epsilon d (below 44 * 2^-53) and numpy's exp is below 2^-46
FLOAT_GUARD = 2.0**-44
ENTRIES_AT_ONCE = 65_536  # of a block of pairs: small enough to stay in the cache
_DECIMAL = decimal.Context(prec=70, rounding=decimal.ROUND_FLOOR)


@dataclass(frozen=True)
class Worst:
    """Where the privacy loss is largest: record ``i`` reports ``output`` more often than neighbour ``j``."""

    i: int
    j: int
    output: int
    distance: float


@dataclass(frozen=True)
class PrivacyCheck:
    """The result of the exact check.

    ``tightest_epsilon`` is the smallest budget at which the table would pass, rounded up (0 without any pair or if all
    rows are equal, infinite if a probability of zero stands beside a positive one or a row has a wrong sum). ``fault``
    says in words why a table did not pass.
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
    """Return a whole number E with ``E <= exp(epsilon * distance) * 2^96``, short of it by less than 2.

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
    """Return a message that names a row whose sum is not exactly 2^63; empty if none. 32-bit halves do not overflow."""
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
    decisions: list[_Decision] = []
    tells_nothing = not fault and bool((table == table[:1]).all())  # equal rows satisfy any budget
    if not fault and not tells_nothing:
        as_float = table.astype(np.float64)
        block = max(1, ENTRIES_AT_ONCE // K)

        def decide(start: int) -> _Decision:
            part = slice(start, start + block)
            unsure = start + _filter_block(as_float, pairs[part], distances[part], epsilon, rates[part])
            return _decide_exactly(table, pairs[unsure], distances[unsure], epsilon)

        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            decisions = list(pool.map(decide, range(0, len(pairs), block)))
    broken = next((one.broken for one in decisions if one.broken is not None), None)
    if broken is not None:
        fault = (
            f"records {broken.i} and {broken.j} at distance {broken.distance!r}: output {broken.output} has weight "
            f"{table[broken.i, broken.output]} for one and {table[broken.j, broken.output]} for the other, a factor "
            f"above exp({epsilon!r} * {broken.distance!r})"
        )
    n_exact = sum(one.n_decided for one in decisions)
    tightest, worst = (0.0, None) if tells_nothing else _worst(table, pairs, distances, rates)
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
    """Return the pairs of a block that the float test cannot clear, and write each pair's loss per distance."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        quotient = table[pairs[:, 0]] / table[pairs[:, 1]]  # 0/0 is NaN and is ignored: no probability, no loss
        largest = np.maximum(np.fmax.reduce(quotient, axis=1), 1.0 / np.fmin.reduce(quotient, axis=1))
        rates[:] = (np.log(largest) + FLOAT_GUARD) / distances
        cleared = np.isfinite(largest) & (largest * (1.0 + FLOAT_GUARD) <= np.exp(epsilon * distances))
    # two records at distance 0 have no loss when their rows are equal, and an infinite one otherwise
    rates[distances == 0] = np.where(largest[distances == 0] == 1.0, 0.0, np.inf)
    return np.flatnonzero(~cleared)


@dataclass(frozen=True)
class _Decision:
    """How many entries were decided by integers, and where the first broken one is, if any."""

    n_decided: int
    broken: Worst | None


def _decide_exactly(
    table: NDArray[np.uint64], pairs: NDArray[np.int32], distances: NDArray[np.float64], epsilon: float
) -> _Decision:
    """Decide pairs of rows in both directions by integers, wherever floats are not conclusive."""
    doubts = []
    for i, j in ((pairs[:, 0], pairs[:, 1]), (pairs[:, 1], pairs[:, 0])):
        x, y = table[i], table[j]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            quotient = x / y
            # infinite where y is zero, and then never conclusive: the bound may be infinite as well
            sure = np.isfinite(quotient) & (quotient * (1.0 + FLOAT_GUARD) <= np.exp(epsilon * distances)[:, None])
        # a weight that is not above the other's needs no proof: the factor is at least 1
        p, k = np.nonzero((x > y) & ~sure)
        doubts.append((x[p, k], y[p, k], p, i[p], j[p], k))
    x, y, p, i, j, k = (np.concatenate(both) for both in zip(*doubts, strict=True))
    outside = np.flatnonzero(exceeds(x, y, _enclosures(epsilon, distances, p)))
    if not outside.size:
        return _Decision(len(p), None)
    first = int(outside[0])
    return _Decision(len(p), Worst(int(i[first]), int(j[first]), int(k[first]), float(distances[p[first]])))


def _enclosures(epsilon: float, distances: NDArray[np.float64], p: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return E of the pairs ``p`` in limbs of 32 bits, the lowest first, shape (5, len(p)): E is below 2^160."""
    limbs = np.empty((ENCLOSURE_LIMBS, len(distances)), dtype=np.uint64)
    needed = np.zeros(len(distances), dtype=bool)
    needed[p] = True
    values, place = np.unique(distances[needed], return_inverse=True)
    digits = np.empty((ENCLOSURE_LIMBS, len(values)), dtype=np.uint64)
    for column, distance in enumerate(values.tolist()):
        is_enough = epsilon * distance > TRIVIAL_EXPONENT
        enclosure = TOTAL << ENCLOSURE_BITS if is_enough else exp_enclosure(epsilon, distance)
        digits[:, column] = [enclosure >> (32 * limb) & 0xFFFFFFFF for limb in range(ENCLOSURE_LIMBS)]
    limbs[:, needed] = digits[:, place]
    return limbs[:, p]


def exceeds(x: NDArray[np.uint64], y: NDArray[np.uint64], enclosures: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return where ``x 2^96 > E y`` in whole numbers, by long multiplication.

    ``enclosures`` holds the limbs (digits to the base 2^32) of each E, the lowest first, shape (5, n). A digit times a
    digit, plus a digit, plus a digit is at most (2^32 - 1)^2 + 2 (2^32 - 1) = 2^64 - 1: nothing overflows.

    Examples
    --------
    >>> one = np.array([[0], [0], [0], [1], [0]], dtype=np.uint64)  # E = 2^96
    >>> three, four = np.array([3], dtype=np.uint64), np.array([4], dtype=np.uint64)
    >>> exceeds(four, three, one).tolist(), exceeds(three, three, one).tolist()
    ([True], [False])
    """
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    product = [np.zeros_like(y) for _ in range(ENCLOSURE_LIMBS + 2)]
    for place, digit in enumerate((y & low, y >> shift)):
        carry = np.zeros_like(y)
        for step, limb in enumerate(enclosures):
            total = limb * digit + product[place + step] + carry
            product[place + step], carry = total & low, total >> shift
        product[place + ENCLOSURE_LIMBS] = carry
    # a whole number x is above E y / 2^96 exactly when it is above its whole part; the three lowest digits are the rest
    *_, first, second, third, fourth = product
    return (x > first | second << shift) & (third == 0) & (fourth == 0)


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
