"""Exact comparisons of ratios with ``exp(epsilon d)``, decided to the end, for matrices of floats as they are.

A float is a whole number times a power of two, so the ratio of two entries is a fraction. ``exp(epsilon d)`` of floats
with a product other than 0 is no fraction (Lindemann), so an enclosure that is narrow enough decides every comparison,
both ways: what is said to hold holds, and what is said to be violated is violated.
"""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

FIRST_DIGITS = 50  # of an enclosure; twice as many wherever they do not decide
LARGEST_EXPONENT = 1_500.0  # epsilon d; no two positive floats are a factor of exp(1,455) apart
BITS_PER_DIGIT = 4  # a little more than log2(10)


@dataclass(frozen=True)
class Ratio:
    """A fraction above 0 of two whole numbers."""

    over: int
    under: int

    @classmethod
    def of(cls, x: float, y: float) -> Ratio:
        """Return ``x / y`` of two positive numbers, floats or whole ones, exactly.

        Examples
        --------
        >>> Ratio.of(0.75, 0.5), Ratio.of(6, 4) > Ratio.of(0.75, 0.5)
        (Ratio(over=6, under=4), False)
        """
        (a, b), (c, d) = x.as_integer_ratio(), y.as_integer_ratio()
        return cls(a * d, b * c)

    def __gt__(self, other: Ratio) -> bool:
        return self.over * other.under > other.over * self.under


class Growth:
    """The factor ``exp(epsilon d)``, enclosed by whole numbers over a power of two as narrowly as is needed."""

    def __init__(self, epsilon: float, distance: float) -> None:
        self.epsilon, self.distance = epsilon, distance
        self._bounds: list[tuple[int, int, int]] = []

    def is_below(self, ratio: Ratio) -> bool:
        """Return whether ``exp(epsilon d)`` is below ``ratio``, exactly.

        Examples
        --------
        >>> Growth(1.0, 1.0).is_below(Ratio(2718281828459045, 10**15))
        False
        >>> Growth(1.0, 1.0).is_below(Ratio(2718281828459046, 10**15))
        True
        """
        if self.epsilon == 0.0 or self.distance == 0.0:
            return ratio.over > ratio.under
        if self.epsilon * self.distance > LARGEST_EXPONENT:
            return False
        step = 0
        while True:
            low, high, bits = self._enclosure(step)
            scaled = ratio.over << bits
            if scaled > high * ratio.under:
                return True
            if scaled <= low * ratio.under:
                return False
            step += 1

    def count_below(self, ratios: Iterable[Ratio]) -> int:
        """Return how many of ``ratios`` are above ``exp(epsilon d)``."""
        return sum(map(self.is_below, ratios))

    def _enclosure(self, step: int) -> tuple[int, int, int]:
        """Return whole numbers with ``low <= exp(epsilon d) 2^bits <= high``, and ``bits``."""
        if step == len(self._bounds):
            digits = FIRST_DIGITS << step
            down, up = _contexts(digits)
            epsilon, distance = decimal.Decimal(self.epsilon), decimal.Decimal(self.distance)
            # decimal's exp is rounded to the nearest number: one step away from it is on the safe side
            low = down.next_minus(down.exp(down.multiply(epsilon, distance)))
            high = up.next_plus(up.exp(up.multiply(epsilon, distance)))
            bits = BITS_PER_DIGIT * digits
            scale = decimal.Decimal(1 << bits)
            self._bounds.append(
                (
                    max(int(down.multiply(low, scale).to_integral_value(decimal.ROUND_FLOOR)), 1 << bits),
                    int(up.multiply(high, scale).to_integral_value(decimal.ROUND_CEILING)),
                    bits,
                )
            )
        return self._bounds[step]


def least_epsilon(ratio: Ratio, distance: float) -> float:
    """Return the least float e with ``ratio <= exp(e d)``, exactly; infinite if no float is large enough.

    It holds, and the float before it does not.

    Examples
    --------
    >>> least_epsilon(Ratio(2, 1), 1.0), least_epsilon(Ratio(2, 1), 0.5), least_epsilon(Ratio(2, 1), 0.0)
    (0.6931471805599454, 1.3862943611198908, inf)
    """
    if ratio.over <= ratio.under:
        return 0.0
    if distance == 0.0:
        return math.inf
    found = float(rate(ratio, distance))
    while math.isfinite(found) and Growth(found, distance).is_below(ratio):
        found = math.nextafter(found, math.inf)
    while math.isfinite(found) and not Growth(math.nextafter(found, 0.0), distance).is_below(ratio):
        found = math.nextafter(found, 0.0)
    return found


def rate(ratio: Ratio, distance: float) -> decimal.Decimal:
    """Return ``log(ratio) / d`` to some fifty digits, of a ratio above 1 and a positive distance."""
    context, _ = _contexts(FIRST_DIGITS)
    quotient = context.divide(decimal.Decimal(ratio.over), decimal.Decimal(ratio.under))
    return context.divide(context.ln(quotient), decimal.Decimal(distance))


@cache
def _contexts(digits: int) -> tuple[decimal.Context, decimal.Context]:
    """Return contexts of so many digits that round down and up."""
    return (
        decimal.Context(prec=digits, rounding=decimal.ROUND_FLOOR),
        decimal.Context(prec=digits, rounding=decimal.ROUND_CEILING),
    )
