"""Exact comparisons for the privacy check: a factor enclosed from below by whole numbers, and long multiplication.

``n_ik <= exp(epsilon d_ij) n_jk`` is decided as ``n_ik 2^96 <= E n_jk`` with E a whole number at most
``exp(epsilon d_ij) 2^96``: what passes is proved. Both checks (`certify`, `certify_sparse`) decide by this file and
return its `PrivacyCheck`.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.metric.budgets import pair_budgets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.metric.budgets import Budget

TOTAL_BITS = 63
TOTAL = 1 << TOTAL_BITS
ENCLOSURE_BITS = 96
ENCLOSURE_LIMBS = 5  # of 32 bits: the largest E in use, exp(44) 2^96, is below 2^160
TRIVIAL_EXPONENT = 44.0  # epsilon d; exp(44) > 2^63, so the pair holds if the smaller entry is at least 1
# relative; rounding of both entries, their quotient, epsilon d (below 44 * 2^-53) and numpy's exp is below 2^-46
FLOAT_GUARD = 2.0**-44
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

    ``epsilon`` is the largest one where records have epsilons of their own. ``tightest_epsilon`` is the smallest budget
    for all pairs at which the table would pass, rounded up (0 without any pair or if all
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

    @property
    def n_compared(self) -> int:
        """Number of comparisons: all outputs of all pairs, both ways; of a sparse table, those that were made."""
        return self.n_cleared_by_filter + self.n_decided_exactly


def wrong_sum(row: int, total: int, n_such: int) -> str:
    """Return the fault of a row that sums to ``total``, one of ``n_such`` rows with wrong sums."""
    return f"row {row} sums to {total}, not to 2^63 = {TOTAL} ({n_such} such rows)"


def broken_pair(worst: Worst, x: int, y: int, epsilon: Budget) -> str:
    """Return the fault of a pair of records whose weights ``x`` and ``y`` of an output are too far apart."""
    (budget,) = pair_budgets(epsilon, np.array([[worst.i, worst.j]])).tolist()
    return (
        f"records {worst.i} and {worst.j} at distance {worst.distance!r}: output {worst.output} has weight {x} for one "
        f"and {y} for the other, a factor above exp({budget!r} * {worst.distance!r})"
    )


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


def enclosures_of(epsilon: Budget, distances: NDArray[np.float64], p: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return E of the pairs ``p`` in limbs of 32 bits, the lowest first, shape (5, len(p)): E is below 2^160.

    ``epsilon`` is that of all pairs, or one for each of them.
    """
    limbs = np.empty((ENCLOSURE_LIMBS, len(distances)), dtype=np.uint64)
    needed = np.zeros(len(distances), dtype=bool)
    needed[p] = True
    factors = np.empty(len(distances), dtype=np.complex128)  # both factors side by side, so that they sort as one
    factors.real, factors.imag = epsilon, distances
    values, place = np.unique(factors[needed], return_inverse=True)
    digits = np.empty((ENCLOSURE_LIMBS, len(values)), dtype=np.uint64)
    for column, value in enumerate(values.tolist()):
        is_enough = value.real * value.imag > TRIVIAL_EXPONENT
        enclosure = TOTAL << ENCLOSURE_BITS if is_enough else exp_enclosure(value.real, value.imag)
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
